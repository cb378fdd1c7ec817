// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flush: to every member that is written. A member that failed it may have lost what
 * was written before, so it is out of the array before the flush ends, or the flush fails.
 *
 * Must never: end successfully on the second try of a member that failed the first: a
 * disk forgets what it could not write, and says so once.
 */
#include "io.h"
#include "trace.h"

static void ddr_flush_end(struct ddr_io *io);
static void ddr_flush_resume(struct ddr_io *io, u32 action);

/* Without blocks there is no turn: the roles of block 0 are the members, in both layouts. */
static void ddr_flush_submit(struct ddr_io *io)
{
	u32 todo, shadow;

	ddr_gen_enter(io);
	if (ddr_error_park_absent(io, ddr_flush_resume))
		return;
	todo = ddr_io_write_mask(io) & ~io->buf->done;
	if (hweight32(ddr_io_read_mask(io, &shadow)) < ddr_geo_data(ddr_io_geo(io)) || (todo & io->buf->lost))
		ddr_io_finish(io, BLK_STS_IOERR);
	else if (!todo)
		ddr_io_finish(io, BLK_STS_OK);
	else
		ddr_io_submit(io, todo, REQ_OP_WRITE | REQ_PREFLUSH | REQ_SYNC, ddr_flush_end);
}

static void ddr_flush_again(struct work_struct *work)
{
	ddr_flush_submit(ddr_io_of(work));
}

static void ddr_flush_resume(struct ddr_io *io, u32 action)
{
	if (action == DDR_RES_RETRY)
		ddr_flush_submit(io);
	else
		ddr_io_finish(io, BLK_STS_IOERR);
}

/* io_wq */
static void ddr_flush_failed(struct work_struct *work)
{
	struct ddr_io *io = ddr_io_of(work);
	struct ddr_buf *buf = io->buf;
	u32 failed_member = 0, failed_class = 0;
	bool again = false, decided = true;
	unsigned int role;

	for_each_set_bit(role, &buf->failed, DDR_PLACES) {
		u32 member = ddr_io_member(io, role), class;

		if (ddr_error_judge(io, role, &class) == DDR_V_AGAIN) {
			again = true;
			continue;
		}
		ddr_error_report(io, member, class);
		if (io->t->nosync)
			decided &= ddr_error_decide(io, member, class);
		buf->lost |= BIT(role);
		failed_member = member;
		failed_class = class;
	}
	ddr_gen_exit(io);
	if (!decided)
		ddr_io_finish(io, ddr_error_status(failed_class));
	else if (failed_class && !io->t->nosync)
		ddr_error_park(io, failed_member, failed_class, ddr_flush_resume);
	else if (again)
		ddr_io_retry(io, io->t->array->io_wq, ddr_flush_again);
	else
		ddr_flush_submit(io);
}

/* Any context. */
static void ddr_flush_end(struct ddr_io *io)
{
	struct ddr_buf *buf = io->buf;

	buf->done |= buf->issued & ~buf->failed;
	if (likely(!buf->failed))
		ddr_io_finish(io, BLK_STS_OK);
	else
		ddr_io_compute(io, ddr_flush_failed);
}

void ddr_flush_start(struct ddr_io *io)
{
	if (!ddr_array_admit(io->t->array, io->bio, true))
		return;
	io->block = 0;
	io->blocks = 0;
	ddr_buf_get(io, 0, false, false);
	ddr_flush_submit(io);
}
