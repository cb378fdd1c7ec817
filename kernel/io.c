// SPDX-License-Identifier: GPL-2.0-only
/*
 * The pieces of a bio: the members that they lie on, their bios, and the resources that they
 * hold and release.
 *
 * Must never: touch an io after its bio has ended, sleep or allocate at completion, or hold a
 * generation while waiting for memory, a range or the daemon.
 */
#include <linux/blk-cgroup.h>

#include "gate.h"
#include "io.h"
#include "member.h"
#include "region.h"

#define CREATE_TRACE_POINTS
#include "trace.h"

/*
 * The flags of a bio that its member bios get. Not NOWAIT: a piece is all or nothing; not
 * POLLED: nothing polls them.
 */
#define DDR_OPF_KEPT	(REQ_SYNC | REQ_META | REQ_PRIO | REQ_FUA | REQ_IDLE | REQ_RAHEAD | \
			 REQ_BACKGROUND)

/*
 * dm cuts reads and writes at units (or regions, if these are smaller), but not write-zeroes:
 * these run as a sequence of pieces, each with one region and one range. Holding several would
 * deadlock with a drain that spans them.
 */
void ddr_io_piece(struct ddr_io *io)
{
	struct ddr_array *a = io->t->array;
	sector_t sector = dm_target_offset(io->t->ti, io->bio->bi_iter.bi_sector) + io->done;
	u32 left = bio_sectors(io->bio) - io->done;
	u32 most = io->t->ti->max_io_len;

	most -= (u32)sector & (most - 1);
	io->block = sector / DDR_BLOCK_SECTORS;
	io->blocks = min(left, most) / DDR_BLOCK_SECTORS;
	io->tries = 0;
	WARN_ON_ONCE(io->block + io->blocks > a->blocks);
}

/* Roles whose members have a device, and did not fail to read this piece. */
static u32 ddr_io_present(struct ddr_io *io)
{
	const struct ddr_geometry *g = ddr_io_geo(io);
	u32 members = io->t->present & ~io->avoid & ddr_role_mask(g);
	u32 role, mask = 0;

	if (likely(members == ddr_role_mask(g)))
		return members;
	for (role = 0; role < g->roles; role++)
		if (members & BIT(ddr_geo_member(g, role, io->block)))
			mask |= BIT(role);
	return mask;
}

/*
 * Roles that this table uses at all. A flush is for all blocks: with rotation each member has
 * data of some.
 */
static u32 ddr_io_used(struct ddr_io *io)
{
	const struct ddr_geometry *g = ddr_io_geo(io);

	if (likely(!io->t->nocalc) || (io->op == DDR_OP_FLUSH && g->rotating))
		return ~0u;
	return ddr_data_mask(g);
}

u32 ddr_io_shadow_role(struct ddr_io *io)
{
	return likely(!io->t->dev[DDR_SHADOW].dm) ? 0 :
	       BIT(ddr_geo_role(ddr_io_geo(io), io->t->shadow_place, io->block));
}

u32 ddr_io_member(struct ddr_io *io, u32 role)
{
	const struct ddr_geometry *g = ddr_io_geo(io);

	if (unlikely(role == g->roles || (io->op == DDR_OP_READ && (io->plan.shadow & BIT(role)))))
		return DDR_SHADOW;
	return ddr_geo_member(g, role, io->block);
}

void ddr_io_look(struct ddr_io *io, struct ddr_io_states *s)
{
	struct ddr_array *a = io->t->array;
	u32 blocks = max(io->blocks, 1u);	/* a flush has none, and asks for the first */
	u32 role = ddr_io_shadow_role(io), usable = ddr_io_present(io) & ddr_io_used(io);
	struct ddr_states of;

	ddr_array_states(a, io->block, blocks, &of);
	/* the place itself comes first: while it is readable, nothing is read from its shadow */
	s->shadow = 0;
	if (unlikely(role & ~of.read) && !(io->avoid & BIT(DDR_SHADOW)) &&
	    ddr_array_shadow_readable(a, io->block, blocks))
		s->shadow = role;
	s->read = (of.read & usable) | s->shadow;
	s->write = of.write & usable;
	if (unlikely(io->t->dev[DDR_SHADOW].dm) && (of.written & BIT(DDR_SHADOW)))
		s->write |= BIT(a->geo.roles);
	s->absent = of.written & ~io->t->present;
}

void ddr_io_refused(struct ddr_io *io)
{
	/* nothing of it was sent: its region needs no resync */
	ddr_io_drop(io, false);
	ddr_io_finish(io, io->wait.status);
}

void ddr_io_turn_away(struct ddr_io *io)
{
	ddr_io_drop(io, io->flags & DDR_IO_SENT);
	ddr_point_wait(DDR_PT_TURNING_AWAY);
	ddr_io_defer(io, DDR_PH_START);
	ddr_point_wait(DDR_PT_TURNED_AWAY);
}

bool ddr_io_lock(struct ddr_io *io, bool write)
{
	struct ddr_array *a = io->t->array;
	u64 block = io->block;
	u32 blocks = io->blocks;
	enum ddr_turn turn;

	if (io->range.locked)		/* it has waited for it, or has kept it */
		return true;
	io->range.start = block;
	io->range.count = blocks;
	io->range.write = write;
	turn = ddr_range_lock(a, &io->range, &io->wait);
	if (unlikely(turn == DDR_WAIT))
		trace_ddraid_range_wait(a, block, blocks, write);
	return ddr_io_got(io, turn);
}

/* ---- member bios ----------------------------------------------------------- */

static enum ddr_point ddr_member_point(const struct ddr_io *io)
{
	static const u8 points[] = {
		[DDR_OP_READ] = DDR_PT_MEMBER_READ,
		[DDR_OP_WRITE] = DDR_PT_MEMBER_WRITE,
		[DDR_OP_FLUSH] = DDR_PT_MEMBER_FLUSH,
		[DDR_OP_ZEROES] = DDR_PT_MEMBER_ZEROES,
	};

	return points[io->op];
}

static void ddr_buf_op_done(struct ddr_buf *buf)
{
	if (atomic_dec_and_test(&buf->pending))
		ddr_io_run(buf->io);
}

static void ddr_member_endio(struct bio *bio)
{
	struct ddr_buf *buf = bio->bi_private;
	unsigned int role = bio - ddr_buf_bio(buf, 0);

	bio->bi_status = ddr_point_status(ddr_member_point(buf->io), role, bio->bi_status);
	if (unlikely(bio->bi_status)) {
		set_bit(role, &buf->failed);
		if (buf->io->op == DDR_OP_FLUSH)
			ddr_error_of_flush_op(buf->io, role);
	}
	bio_uninit(bio);
	ddr_buf_op_done(buf);
}

blk_status_t ddr_io_status(struct ddr_io *io, u32 role)
{
	return ddr_buf_bio(io->buf, role)->bi_status;
}

/*
 * The bio's cgroup was charged and throttled at the array's own device, before the bio held
 * anything. From here on it holds a range, a region, a generation of member states and memory,
 * for all of which others wait: no cgroup limit may stop it now, so the members see the root
 * cgroup, as below md's parity levels and dm-crypt.
 */
static void ddr_member_cgroup(struct bio *bio)
{
	bio_associate_blkg_from_css(bio, blkcg_root_css);
}

/* Reads without a buffer use the pages of the bio itself. */
static void ddr_member_init(struct ddr_io *io, u32 role, blk_opf_t opf)
{
	struct ddr_target *t = io->t;
	struct ddr_buf *buf = io->buf;
	const struct ddr_geometry *g = ddr_io_geo(io);
	struct block_device *bdev = t->dev[ddr_io_member(io, role)].dm->bdev;
	u32 held = role == g->roles ? __ffs(ddr_io_shadow_role(io)) : role;
	struct bio *bio = ddr_buf_bio(buf, role);

	if ((buf->zeroed & BIT(role)) && io->op == DDR_OP_ZEROES)
		opf = REQ_OP_WRITE | (opf & ~(REQ_OP_MASK | REQ_NOUNMAP));

	if (io->op == DDR_OP_READ && !buf->roles) {
		bio_init(bio, bdev, io->bio->bi_io_vec, 0, opf);
		bio_set_flag(bio, BIO_CLONED);
		bio->bi_iter = io->bio->bi_iter;
	} else if ((opf & REQ_OP_MASK) == REQ_OP_WRITE_ZEROES || io->op == DDR_OP_FLUSH) {
		bio_init(bio, bdev, NULL, 0, opf);
		bio->bi_iter.bi_size = buf->bytes;
	} else {
		bio_init(bio, bdev, ddr_buf_vec(buf, ddr_buf_slot(buf, held)), buf->pages, opf);
		bio->bi_vcnt = buf->pages;
		bio->bi_iter.bi_size = buf->bytes;
	}
	bio->bi_iter.bi_sector = io->op == DDR_OP_FLUSH ? 0 :
		t->array->data_offset + (ddr_geo_offset(g, io->block) >> SECTOR_SHIFT);
	bio->bi_ioprio = io->bio->bi_ioprio;
	bio->bi_private = buf;
	bio->bi_end_io = ddr_member_endio;
	ddr_member_cgroup(bio);
}

void ddr_io_submit(struct ddr_io *io, u32 roles, blk_opf_t opf)
{
	struct ddr_buf *buf = io->buf;
	unsigned long todo = roles;
	unsigned int role;

	ddr_io_enter(io, DDR_PH_SENT);
	opf |= io->bio->bi_opf & DDR_OPF_KEPT;
	buf->issued = roles;
	buf->failed = 0;
	/*
	 * one more than the number of operations: a ram disk ends them while they are being
	 * submitted
	 */
	atomic_set(&buf->pending, hweight32(roles) + 1);
	for_each_set_bit(role, &todo, DDR_PLACES) {
		ddr_member_init(io, role, opf);
		submit_bio_noacct(ddr_buf_bio(buf, role));
	}
	ddr_buf_op_done(buf);
}

/* ---- completion ------------------------------------------------------------- */

void ddr_io_drop_buf(struct ddr_io *io)
{
	if (io->buf)
		ddr_buf_put(io);
	ddr_gen_exit(io);
}

void ddr_io_drop(struct ddr_io *io, bool error)
{
	struct ddr_array *a = io->t->array;

	ddr_io_drop_buf(io);
	if (io->range.locked)
		ddr_range_unlock(a, &io->range);
	if (io->flags & DDR_IO_REGION)
		ddr_region_put(a, io->block >> a->region_blocks_shift, error);
	io->flags &= ~(DDR_IO_REGION | DDR_IO_SENT);
}

void ddr_io_finish(struct ddr_io *io, blk_status_t status)
{
	struct bio *bio = io->bio;

	ddr_io_drop(io, status != BLK_STS_OK);
	bio->bi_status = status;
	bio_endio(bio);
}
