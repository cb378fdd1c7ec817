// SPDX-License-Identifier: GPL-2.0-only
/*
 * Full-stripe writes and write-zeroes.
 *
 * A block lies on all members, so every write covers whole stripes and nothing has to be read
 * first. The data is copied once into a buffer for each member, parity is computed from the copy
 * in the submitter's context, and each member gets one bio.
 *
 * Must never: submit a chunk before the region is granted, or after the gate was shut; let two
 * writes of one block overlap; let a member bio refer to the pages of the bio; end the bio
 * successfully before the chunk of every member that is written at that time is on it.
 */
#include "gate.h"
#include "io.h"
#include "region.h"
#include "trace.h"

/* The piece is written. Any context. */
static void ddr_write_done(struct ddr_io *io)
{
	io->done += io->blocks * DDR_BLOCK_SECTORS;
	if (io->done >= bio_sectors(io->bio)) {
		ddr_io_finish(io, BLK_STS_OK);
		return;
	}
	/* the second and later pieces of a write-zeroes bio start like the first one */
	ddr_io_drop(io, false);
	ddr_io_defer(io, DDR_PH_START);
}

/*
 * Fills the buffers of the parity @roles, and those of the data if they are not filled yet: page
 * by page, while what was just copied is in the cache.
 */
static void ddr_write_fill(struct ddr_io *io, u32 roles)
{
	const struct ddr_geometry *g = ddr_io_geo(io);
	struct bvec_iter iter = io->bio->bi_iter;
	struct ddr_buf *buf = io->buf;
	bool gather = !buf->filled;
	void *ptr[DDR_SCRATCH_ROLE + 1];
	u32 page, bytes;

	/* copies of a mirror are one buffer; the parity of zeroes is zero */
	roles = buf->shared ? 0 : roles & ~ddr_data_mask(g) & ~buf->filled;
	if (!roles && !gather)
		return;
	for (page = 0; page < buf->pages; page++) {
		bytes = ddr_buf_page_bytes(buf, page);
		ddr_buf_ptrs(buf, page, ptr);
		if (gather)
			ddr_buf_gather(io, &iter, ptr, bytes);
		if (roles)
			ddr_parity_generate(g, ptr, bytes, roles);
	}
	buf->filled |= ddr_data_mask(g) | roles;
}

/*
 * Submits what is not yet written of the members that are in the array now; completes the piece
 * if nothing is left. Process context; does not allocate.
 */
static void ddr_write_submit(struct ddr_io *io)
{
	struct ddr_buf *buf = io->buf;
	blk_opf_t opf = REQ_OP_WRITE;
	struct ddr_io_states now;
	u32 todo, fill;

	ddr_io_enter(io, DDR_PH_SEND);
	ddr_gen_enter(io);
	/*
	 * again: it passed the gate before it waited for a range, for memory or for the daemon's
	 * answer
	 */
	if (unlikely(ddr_array_stops(io->t->array, true, io->flags & DDR_IO_SENT))) {
		ddr_io_turn_away(io);
		return;
	}
	ddr_point_wait(DDR_PT_WRITE_GATE);
	ddr_io_look(io, &now);
	if (ddr_error_park_absent(io, now.absent))
		return;
	/* with too few members the blocks could not be read again */
	if (hweight32(now.read) < ddr_geo_data(ddr_io_geo(io))) {
		ddr_io_finish(io, BLK_STS_IOERR);
		return;
	}
	todo = now.write & ~buf->done;
	if (!todo) {
		ddr_write_done(io);
		return;
	}
	if (io->op == DDR_OP_ZEROES) {
		opf = REQ_OP_WRITE_ZEROES;
		if (bio_op(io->bio) == REQ_OP_WRITE_ZEROES)
			opf |= io->bio->bi_opf & REQ_NOUNMAP;
	} else {
		fill = todo & ddr_role_mask(ddr_io_geo(io));
		ddr_write_fill(io, todo == fill ? fill : fill | ddr_io_shadow_role(io));
	}
	io->flags |= DDR_IO_SENT;
	ddr_io_submit(io, todo, opf);
}

/* All operations of a round ended. Any context. */
static void ddr_write_end(struct ddr_io *io)
{
	struct ddr_buf *buf = io->buf;

	buf->done |= buf->issued & ~buf->failed;
	/*
	 * Without an error all members of this generation are written. A member that joined
	 * since is not waited for: the generation makes APPLIED wait for us.
	 */
	if (likely(!buf->failed))
		ddr_write_done(io);
	else
		ddr_io_compute(io, DDR_PH_FAILED);
}

/* io_wq */
static void ddr_write_failed(struct ddr_io *io)
{
	struct ddr_buf *buf = io->buf;
	u32 failed_member = 0, failed_class = 0;
	bool again = false, decided = true;
	unsigned int role;

	for_each_set_bit(role, &buf->failed, DDR_PLACES) {
		u32 member = ddr_io_member(io, role), class;

		switch (ddr_error_judge(io, role, &class)) {
		case DDR_V_AGAIN:
			again = true;
			break;
		case DDR_V_ZERO:
			buf->zeroed |= BIT(role);
			break;
		case DDR_V_FAILED:
			ddr_error_report(io, member, class);
			if (io->t->nosync)
				decided &= ddr_error_decide(io, member, class);
			failed_member = member;
			failed_class = class;
		}
	}
	/* nothing of the round is in flight: APPLIED need not wait for us */
	ddr_gen_exit(io);
	if (!decided)
		ddr_io_finish(io, ddr_error_status(failed_class));
	else if (failed_class && !io->t->nosync)
		ddr_error_park(io, failed_member, failed_class);
	else if (again)
		ddr_io_retry(io, io->t->array->io_wq, DDR_PH_SEND);
	else
		ddr_write_submit(io);
}

/* With its range nothing else writes these blocks. Process context, not io_wq; may sleep for memory. */
static void ddr_write_take(struct ddr_io *io)
{
	const struct ddr_geometry *g = ddr_io_geo(io);
	u32 roles = io->t->nocalc ? ddr_data_mask(g) : ddr_role_mask(g);
	bool zeroes = io->op == DDR_OP_ZEROES;

	if (!ddr_io_lock(io, true))
		return;
	ddr_buf_get(io, roles, zeroes || g->order == 0, !zeroes);
	ddr_write_submit(io);
}

/*
 * The daemon has decided about a member that failed. The data is copied again: its owner may
 * have changed it since, so all members get it, also those that have it already.
 */
static void ddr_write_answered(struct ddr_io *io)
{
	io->tries = 0;
	if (io->action != DDR_RES_RETRY) {
		ddr_io_finish(io, BLK_STS_IOERR);
		return;
	}
	ddr_io_enter(io, DDR_PH_TAKE);
	ddr_write_take(io);
}

/* Process context; may sleep for memory. */
static void ddr_write_start(struct ddr_io *io)
{
	struct ddr_array *a = io->t->array;

	if (!ddr_io_got(io, ddr_array_admit(a, &io->wait, true, true)))
		return;
	ddr_io_piece(io);
	if (!io->t->nosync) {
		u64 region = io->block >> a->region_blocks_shift;
		enum ddr_turn turn = ddr_region_get(a, region, &io->wait);

		if (unlikely(turn == DDR_WAIT)) {
			/* it may run on another CPU at any time */
			ddr_point_wait(DDR_PT_REGION_PARKED);
			trace_ddraid_region_wait(a, region);
		}
		if (!ddr_io_got(io, turn))
			return;
		io->flags |= DDR_IO_REGION;
	}
	ddr_io_enter(io, DDR_PH_TAKE);
	ddr_write_take(io);
}

void ddr_write_run(struct ddr_io *io)
{
	switch (io->phase) {
	case DDR_PH_START:
		ddr_write_start(io);
		break;
	case DDR_PH_TAKE:
		ddr_write_take(io);
		break;
	case DDR_PH_SEND:
		ddr_write_submit(io);
		break;
	case DDR_PH_SENT:
		ddr_write_end(io);
		break;
	case DDR_PH_FAILED:
		ddr_write_failed(io);
		break;
	case DDR_PH_ASKED:
		ddr_write_answered(io);
		break;
	case DDR_PH_READ:
		WARN_ON_ONCE(true);
	}
}
