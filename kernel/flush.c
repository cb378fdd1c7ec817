// SPDX-License-Identifier: GPL-2.0-only
/*
 * Flush: goes to every member that is written. A member that failed it may have lost earlier
 * writes, so it leaves the array before the flush ends, or the flush fails.
 *
 * The lost writes may be anyone's. So the failure is known to the daemon (an open error) from
 * the moment when the member reports it, and until that is answered no flush that includes the
 * member succeeds, whenever it started.
 *
 * Must never: succeed on the second attempt of a member that failed the first, even if that was
 * another flush: a disk forgets what it could not write, and reports it only once. So a member
 * that completed this flush in an earlier round, and failed another one since, is treated like
 * one that the flush still has to go to. And a flush that a noflush suspend handed back after a
 * member had failed it comes again as a new one, so the array remembers (ddr_flush_lost()).
 */
#include "gate.h"
#include "io.h"
#include "trace.h"

/*
 * If one of these members has failed any flush, and the daemon has not decided about it, waits
 * for that: the writes that the member lost may be among those that this flush has to make
 * durable. Any context.
 */
static bool ddr_flush_park(struct ddr_io *io, unsigned long roles)
{
	u32 open = ddr_error_flush_open(io->t->array), member = DDR_NO_MEMBER;
	unsigned int role;

	if (likely(!open))
		return false;
	for_each_set_bit(role, &roles, DDR_PLACES) {
		if (!(open & BIT(ddr_io_member(io, role))))
			continue;
		io->buf->lost |= BIT(role);
		member = ddr_io_member(io, role);
	}
	if (member == DDR_NO_MEMBER)
		return false;
	ddr_gen_exit(io);
	ddr_error_park_flush(io, member);
	return true;
}

/*
 * No member that has lost something is in the array any more, so the flush may start again if
 * the gate was shut meanwhile.
 */
static void ddr_flush_send(struct ddr_io *io, u32 todo)
{
	if (unlikely(ddr_array_stops(io->t->array, true, io->flags & DDR_IO_SENT))) {
		ddr_io_turn_away(io);
		return;
	}
	ddr_point_wait(DDR_PT_FLUSH_GATE);
	io->flags |= DDR_IO_SENT;
	ddr_io_submit(io, todo, REQ_OP_WRITE | REQ_PREFLUSH | REQ_SYNC);
}

/* Roles of members that failed a flush that a suspend handed back: this may be the same one. */
static u32 ddr_flush_lost(struct ddr_io *io)
{
	u32 members = ddr_error_flush_lost(io->t->array), lost = 0;
	unsigned int role;

	if (likely(!members))
		return 0;
	for (role = 0; role < io->t->array->geo.roles; role++)
		if (members & BIT(ddr_io_member(io, role)))
			lost |= BIT(role);
	if (members & BIT(DDR_SHADOW))
		lost |= BIT(io->t->array->geo.roles);
	return lost;
}

/*
 * A flush has no blocks, so there is no rotation: the roles of block 0 are the members, in both
 * layouts.
 */
static void ddr_flush_submit(struct ddr_io *io)
{
	struct ddr_io_states now;
	u32 todo;

	ddr_io_enter(io, DDR_PH_SEND);
	ddr_gen_enter(io);
	ddr_io_look(io, &now);
	if (ddr_error_park_absent(io, now.absent))
		return;
	todo = now.write & ~io->buf->done;
	if (hweight32(now.read) < ddr_geo_data(ddr_io_geo(io)))
		ddr_io_finish(io, BLK_STS_IOERR);
	else if (ddr_flush_park(io, todo | io->buf->done))
		return;
	else if (now.write & io->buf->lost)
		ddr_io_finish(io, BLK_STS_IOERR);
	else if (!todo)
		ddr_io_finish(io, BLK_STS_OK);
	else
		ddr_flush_send(io, todo);
}

static void ddr_flush_answered(struct ddr_io *io)
{
	io->tries = 0;
	if (io->action == DDR_RES_RETRY)
		ddr_flush_submit(io);
	else
		ddr_io_finish(io, BLK_STS_IOERR);
}

/* io_wq */
static void ddr_flush_failed(struct ddr_io *io)
{
	struct ddr_buf *buf = io->buf;
	u32 failed_class = 0, class;
	bool again = false, decided = true;
	unsigned int role;

	for_each_set_bit(role, &buf->failed, DDR_PLACES) {
		if (ddr_error_judge(io, role, &class) == DDR_V_AGAIN) {
			again = true;
			continue;
		}
		if (io->t->nosync)
			decided &= ddr_error_decide(io, ddr_io_member(io, role), class);
		buf->lost |= BIT(role);
		failed_class = class;
	}
	ddr_gen_exit(io);
	if (!decided)
		ddr_io_finish(io, ddr_error_status(failed_class));
	else if (again)
		ddr_io_retry(io, io->t->array->io_wq, DDR_PH_SEND);
	else
		ddr_flush_submit(io);
}

/* Any context. */
static void ddr_flush_end(struct ddr_io *io)
{
	struct ddr_buf *buf = io->buf;

	if (unlikely(buf->failed)) {
		buf->done |= buf->issued & ~buf->failed;
		ddr_io_compute(io, DDR_PH_FAILED);
		return;
	}
	if (!ddr_flush_park(io, buf->issued | buf->done))
		ddr_io_finish(io, BLK_STS_OK);
}

static void ddr_flush_start(struct ddr_io *io)
{
	if (!ddr_io_got(io, ddr_array_admit(io->t->array, &io->wait, true, true)))
		return;
	io->block = 0;
	io->blocks = 0;
	ddr_buf_get(io, 0, false, false);
	io->buf->lost = ddr_flush_lost(io);
	ddr_flush_submit(io);
}

void ddr_flush_run(struct ddr_io *io)
{
	switch (io->phase) {
	case DDR_PH_START:
		ddr_flush_start(io);
		break;
	case DDR_PH_SEND:
		ddr_flush_submit(io);
		break;
	case DDR_PH_SENT:
		ddr_flush_end(io);
		break;
	case DDR_PH_FAILED:
		ddr_flush_failed(io);
		break;
	case DDR_PH_ASKED:
		ddr_flush_answered(io);
		break;
	case DDR_PH_TAKE:
	case DDR_PH_READ:
		WARN_ON_ONCE(true);
	}
}
