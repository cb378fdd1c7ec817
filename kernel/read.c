// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reads: the data roles of the blocks, and what else reconstruction or verify_reads need.
 *
 * A healthy read takes no lock and reads no parity, so a stripe that is being written, or was
 * when a node died, only affects reads of that stripe. A read that reconstructs holds its range
 * against the writers of this node. A mirror is read directly into the pages of the bio,
 * everything else through buffers.
 *
 * Must never: return data that was computed from members that are not in sync for these blocks,
 * or repair anything: that is the daemon's job, under EX.
 */
#include "gate.h"
#include "io.h"
#include "region.h"
#include "trace.h"

#define DDR_COPY_IN_IRQ		(32u << 10)	/* bytes; larger reads are copied by io_wq */

/*
 * Can members read directly into the pages of the bio? Those of a caller in the kernel may have
 * any shape.
 */
static bool ddr_read_fits(struct ddr_io *io)
{
	struct bio_vec bv;
	struct bvec_iter iter;

	bio_for_each_bvec(bv, io->bio, iter)
		if ((bv.bv_offset | bv.bv_len) & (io->t->align - 1))
			return false;
	return true;
}

/* A read of a mirror needs one copy, or all of them to compare them. */
static bool ddr_plan_mirror(struct ddr_io *io, u32 mask, struct ddr_plan *plan)
{
	if (!mask)
		return false;
	plan->read = BIT(__ffs(mask));
	if (!ddr_read_fits(io))
		plan->buffers = plan->read;
	if (io->t->verify_reads) {
		plan->check = mask & ~plan->read;
		plan->read = mask;
		plan->buffers = mask;
	}
	return true;
}

/* Decides by the present member states; false: too few members have these blocks. */
static bool ddr_read_plan(struct ddr_io *io, struct ddr_plan *plan)
{
	const struct ddr_geometry *g = ddr_io_geo(io);
	u32 data = ddr_data_mask(g), p = BIT(ddr_geo_data(g)), use = 0, mask, parity;
	struct ddr_io_states now;

	ddr_io_look(io, &now);
	mask = now.read;
	parity = mask & ~data;
	memset(plan, 0, sizeof(*plan));
	plan->shadow = now.shadow;
	if (g->order == 0)
		return ddr_plan_mirror(io, mask, plan);

	plan->lost = data & ~mask;
	switch (hweight32(plan->lost)) {
	case 0:
		break;
	case 1:
		use = parity & p ? p : parity;
		break;
	default:
		use = parity;
	}
	if (hweight32(use) < hweight32(plan->lost))
		return false;
	if (io->t->verify_reads)
		plan->check = parity & ~use;
	plan->read = (data & mask) | use | plan->check;
	plan->buffers = data | plan->read;
	if ((use | plan->check) & ~p)
		plan->buffers |= p;			/* a syndrome is computed together with P */
	if (plan->check & ~p)
		plan->buffers |= BIT(DDR_SCRATCH_ROLE);
	return true;
}

/* ---- what was read ------------------------------------------------------------------------ */

/* Copies of a mirror that differ from the one that is returned. */
static u32 ddr_read_compare(struct ddr_io *io, u32 page, u32 role)
{
	unsigned long check = io->plan.check;
	u32 bytes = ddr_buf_page_bytes(io->buf, page), bad = 0;
	unsigned int r;

	for_each_set_bit(r, &check, DDR_GEO_MAX_ROLES)
		if (memcmp(ddr_buf_page(io->buf, r, page), ddr_buf_page(io->buf, role, page),
			   bytes))
			bad |= BIT(r);
	return bad;
}

/*
 * Computes, checks and copies to the bio, page by page. Process context if there is anything to
 * compute. Returns the roles that did not match.
 */
static u32 ddr_read_deliver(struct ddr_io *io)
{
	const struct ddr_geometry *g = ddr_io_geo(io);
	const struct ddr_plan *plan = &io->plan;
	struct bvec_iter iter = io->bio->bi_iter;
	void *ptr[DDR_SCRATCH_ROLE + 1];
	u32 page, bytes, bad = 0;

	for (page = 0; page < io->buf->pages; page++) {
		bytes = ddr_buf_page_bytes(io->buf, page);
		ddr_buf_ptrs(io->buf, page, ptr);
		if (plan->lost)
			ddr_parity_recover(g, ptr, bytes, plan->lost, plan->read);
		if (g->order == 0) {
			u32 role = __ffs(plan->read);

			bad |= ddr_read_compare(io, page, role);
			ptr[0] = ptr[role];
		} else if (plan->check) {
			bad |= ddr_parity_check(g, ptr, bytes, plan->check);
		}
		ddr_buf_scatter(io, &iter, ptr, bytes);
	}
	return bad;
}

/* ---- errors ------------------------------------------------------------------------------- */

/* The daemon has answered: the members may have changed, so forget what is known about them. */
static void ddr_read_answered(struct ddr_io *io)
{
	switch (io->action) {
	case DDR_RES_RETRY:
		io->avoid = 0;
		io->flags &= ~DDR_IO_RECHECK;
		ddr_io_defer(io, DDR_PH_START);
		break;
	case DDR_RES_PASS:		/* a mismatch: the data is in the bio's pages already */
		ddr_io_finish(io, BLK_STS_OK);
		break;
	default:
		ddr_io_finish(io, BLK_STS_IOERR);
	}
}

/*
 * Too few members have these blocks. If one failed in this very read with an error other than a
 * bad sector, the daemon decides; bad sectors beyond the parity are final.
 */
static void ddr_read_lost(struct ddr_io *io)
{
	if (!io->avoid || io->t->nosync || io->error_class == DDR_EC_MEDIUM) {
		ddr_io_finish(io, io->avoid ? ddr_error_status(io->error_class) : BLK_STS_IOERR);
		return;
	}
	ddr_io_drop(io, false);
	ddr_error_park(io, io->error_member, io->error_class);
}

/*
 * The class that is reported to the daemon for a read error. A disk that cannot read a sector
 * often only reports "I/O error" (virtio, NBD, dm-dust). If the others have the data that is no
 * reason to fail the disk: the block is computed and rewritten, and a disk that is broken fails
 * that write. If too few have it, the daemon has to decide which disk is broken, and we have to
 * wait (ddr_read_lost()).
 */
static u32 ddr_read_class(struct ddr_io *io, u32 role, u32 class)
{
	blk_status_t status = ddr_io_status(io, role);
	struct ddr_plan plan;

	if (io->t->nosync || (status != BLK_STS_IOERR && status != BLK_STS_TARGET))
		return class;
	return ddr_read_plan(io, &plan) ? DDR_EC_MEDIUM : class;
}

/* io_wq: reads again, without the members that failed. */
static void ddr_read_failed(struct ddr_io *io)
{
	struct ddr_buf *buf = io->buf;
	u32 class[DDR_GEO_MAX_ROLES];
	unsigned long failed = 0;
	unsigned int role;
	bool again = false;

	for_each_set_bit(role, &buf->failed, DDR_GEO_MAX_ROLES) {
		u32 member = ddr_io_member(io, role);

		/* nobody waits for read-ahead, and drivers give up on it early */
		if (io->bio->bi_opf & REQ_RAHEAD) {
			ddr_io_finish(io, ddr_io_status(io, role));
			return;
		}
		if (ddr_error_judge(io, role, &class[role]) == DDR_V_AGAIN) {
			again = true;
			continue;
		}
		if (!io->avoid || class[role] != DDR_EC_MEDIUM) {
			io->error_member = member;
			io->error_class = class[role];
		}
		io->avoid |= BIT(member);
		failed |= BIT(role);
	}
	for_each_set_bit(role, &failed, DDR_GEO_MAX_ROLES)
		ddr_error_report(io, ddr_io_member(io, role),
				 ddr_read_class(io, role, class[role]));
	ddr_io_drop_buf(io);
	if (again)
		ddr_io_retry(io, ddr_io_wq(io), DDR_PH_TAKE);
	else
		ddr_io_defer(io, DDR_PH_TAKE);
}

/*
 * A block that was being written while it was read mismatches once, so it is read again while
 * nothing writes it.
 */
static void ddr_read_mismatch(struct ddr_io *io, u32 roles)
{
	struct ddr_array *a = io->t->array;

	if (!(io->flags & DDR_IO_RECHECK) && !io->range.locked) {
		io->flags |= DDR_IO_RECHECK;
		ddr_io_drop_buf(io);
		ddr_io_defer(io, DDR_PH_TAKE);
		return;
	}
	trace_ddraid_mismatch(a, io->block, io->blocks, roles);
	atomic64_inc(&a->verify_mismatches);
	/* allowed if it was never written, and if a crash is not resynced yet */
	if (io->t->nosync ||
	    !(ddr_region_bits(a, io->block >> a->region_blocks_shift) & DDR_RB_CLEAN)) {
		ddr_io_finish(io, BLK_STS_OK);
		return;
	}
	ddr_io_drop(io, false);
	ddr_error_park_mismatch(io);
}

/*
 * ---- the way of a read ------------------------------------------------------------------------
 */

static void ddr_read_complete(struct ddr_io *io)
{
	u32 bad = io->plan.buffers ? ddr_read_deliver(io) : 0;

	if (unlikely(bad))
		ddr_read_mismatch(io, bad);
	else
		ddr_io_finish(io, BLK_STS_OK);
}

/* Any context. */
static void ddr_read_end(struct ddr_io *io)
{
	bool compute = io->plan.lost || io->plan.check;

	if (unlikely(io->buf->failed))
		ddr_io_compute(io, DDR_PH_FAILED);
	else if ((!in_interrupt() && !irqs_disabled()) ||
		 (!compute && io->bio->bi_iter.bi_size <= DDR_COPY_IN_IRQ))
		ddr_read_complete(io);
	else
		ddr_io_compute(io, DDR_PH_READ);
}

/* Suspect regions must not be reconstructed if the daemon says so. */
static bool ddr_read_suspect(struct ddr_io *io, const struct ddr_plan *plan)
{
	struct ddr_array *a = io->t->array;

	return plan->lost && !io->t->nosync &&
	       (ddr_region_bits(a, io->block >> a->region_blocks_shift) & DDR_RB_SUSPECT_ERROR);
}

/* Process context; may sleep for memory. */
static void ddr_read_go(struct ddr_io *io)
{
	struct ddr_plan plan;

	for (;;) {
		if (!ddr_read_plan(io, &io->plan)) {
			ddr_read_lost(io);
			return;
		}
		if (ddr_read_suspect(io, &io->plan)) {
			ddr_io_finish(io, BLK_STS_IOERR);
			return;
		}
		if ((io->plan.lost || (io->flags & DDR_IO_RECHECK)) && !ddr_io_lock(io, false))
			return;
		ddr_buf_get(io, io->plan.buffers, false, true);
		ddr_gen_enter(io);
		/*
		 * again: it passed the gate before it waited for a range, for memory or for the
		 * daemon's answer
		 */
		if (unlikely(ddr_array_stops(io->t->array, false, false))) {
			ddr_io_turn_away(io);
			return;
		}
		/* the plan was made outside of the generation: is it still valid? */
		if (ddr_read_plan(io, &plan) && !memcmp(&plan, &io->plan, sizeof(plan)))
			break;
		ddr_io_drop_buf(io);
	}
	ddr_point_wait(DDR_PT_READ_GATE);
	if (plan.lost)
		trace_ddraid_reconstruct(io->t->array, io->block, io->blocks, plan.lost, plan.read);
	ddr_io_submit(io, plan.read, REQ_OP_READ);
}

/* Process context; may sleep for memory. */
static void ddr_read_start(struct ddr_io *io)
{
	bool patient = !(io->bio->bi_opf & REQ_RAHEAD);

	if (!ddr_io_got(io, ddr_array_admit(io->t->array, &io->wait, false, patient)))
		return;
	ddr_io_piece(io);
	ddr_io_enter(io, DDR_PH_TAKE);
	ddr_read_go(io);
}

void ddr_read_run(struct ddr_io *io)
{
	switch (io->phase) {
	case DDR_PH_START:
		ddr_read_start(io);
		break;
	case DDR_PH_TAKE:
		ddr_read_go(io);
		break;
	case DDR_PH_SENT:
		ddr_read_end(io);
		break;
	case DDR_PH_FAILED:
		ddr_read_failed(io);
		break;
	case DDR_PH_READ:
		ddr_read_complete(io);
		break;
	case DDR_PH_ASKED:
		ddr_read_answered(io);
		break;
	case DDR_PH_SEND:
		WARN_ON_ONCE(true);
	}
}
