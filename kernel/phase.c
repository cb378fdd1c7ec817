// SPDX-License-Identifier: GPL-2.0-only
/*
 * The phases of an I/O: where it continues after a wait, at once or in a work item.
 *
 * Must never: use an io after it was handed to a work item; send what did not ask at the gate, in
 * its last phase before that.
 */
#include "io.h"

#ifdef DDR_CHECK_PHASES
#define P(phase)	BIT(DDR_PH_##phase)

/*
 * By phase: those that may follow it. START follows where the gate was found shut, and where the
 * next piece of a write-zeroes begins. The end of the bio may follow any of them.
 */
static const u8 ddr_write_after[] = {
	[DDR_PH_START] = P(TAKE),
	[DDR_PH_TAKE] = P(SEND) | P(START),
	[DDR_PH_SEND] = P(SEND) | P(SENT) | P(ASKED) | P(START),
	[DDR_PH_SENT] = P(FAILED) | P(START),
	[DDR_PH_FAILED] = P(SEND) | P(ASKED),
	[DDR_PH_READ] = 0,
	[DDR_PH_ASKED] = P(ASKED) | P(TAKE),
};

static const u8 ddr_flush_after[] = {
	[DDR_PH_START] = P(SEND),
	[DDR_PH_TAKE] = 0,
	[DDR_PH_SEND] = P(SEND) | P(SENT) | P(ASKED) | P(START),
	[DDR_PH_SENT] = P(FAILED) | P(ASKED),
	[DDR_PH_FAILED] = P(SEND),
	[DDR_PH_READ] = 0,
	[DDR_PH_ASKED] = P(ASKED) | P(SEND),
};

static const u8 ddr_read_after[] = {
	[DDR_PH_START] = P(TAKE),
	[DDR_PH_TAKE] = P(SENT) | P(ASKED) | P(START),
	[DDR_PH_SEND] = 0,
	[DDR_PH_SENT] = P(FAILED) | P(READ) | P(TAKE) | P(ASKED),
	[DDR_PH_FAILED] = P(TAKE),
	[DDR_PH_READ] = P(TAKE) | P(ASKED),
	[DDR_PH_ASKED] = P(ASKED) | P(START),
};
#undef P

void ddr_phase_check(const struct ddr_io *io, enum ddr_phase to)
{
	const u8 *after = io->op == DDR_OP_READ ? ddr_read_after :
			  io->op == DDR_OP_FLUSH ? ddr_flush_after : ddr_write_after;

	WARN_ONCE(!(after[io->phase] & BIT(to)), "ddraid: op %u, phase %u to %u", io->op,
		  io->phase, to);
}
#endif

void ddr_io_run(struct ddr_io *io)
{
	switch (io->op) {
	case DDR_OP_READ:
		ddr_read_run(io);
		break;
	case DDR_OP_FLUSH:
		ddr_flush_run(io);
		break;
	default:
		ddr_write_run(io);
	}
}

static void ddr_io_work(struct work_struct *work)
{
	ddr_io_run(container_of(to_delayed_work(work), struct ddr_io, work));
}

/*
 * The same after a wait. A function of its own: work that is queued again with the same one waits
 * until its last run has returned, and a run that has handed the io on may be late.
 */
static void ddr_io_woken(struct work_struct *work)
{
	struct ddr_io *io = container_of(to_delayed_work(work), struct ddr_io, work);

	if (unlikely(io->wait.status))
		ddr_io_finish(io, io->wait.status);
	else
		ddr_io_run(io);
}

static void ddr_io_queue(struct ddr_io *io, struct workqueue_struct *wq, work_func_t run,
			 unsigned long delay)
{
	INIT_DELAYED_WORK(&io->work, run);
	queue_delayed_work(wq, &io->work, delay);
}

void ddr_io_wake(struct ddr_wait *w)
{
	struct ddr_io *io = container_of(w, struct ddr_io, wait);

	ddr_io_queue(io, ddr_io_wq(io), ddr_io_woken, 0);
}

void ddr_io_compute(struct ddr_io *io, enum ddr_phase phase)
{
	ddr_io_enter(io, phase);
	ddr_io_queue(io, io->t->array->io_wq, ddr_io_work, 0);
}

void ddr_io_defer(struct ddr_io *io, enum ddr_phase phase)
{
	ddr_io_enter(io, phase);
	ddr_io_queue(io, ddr_io_wq(io), ddr_io_work, 0);
}

void ddr_io_retry(struct ddr_io *io, struct workqueue_struct *wq, enum ddr_phase phase)
{
	ddr_io_enter(io, phase);
	io->tries++;
	ddr_io_queue(io, wq, ddr_io_work, msecs_to_jiffies(DDR_RETRY_MS));
}
