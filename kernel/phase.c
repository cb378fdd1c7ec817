// SPDX-License-Identifier: GPL-2.0-only
/*
 * The phases of an I/O: where it continues after a wait, at once or in a work item.
 *
 * Must never: use an io after it was handed to a work item.
 */
#include "io.h"

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

static void ddr_io_queue(struct ddr_io *io, struct workqueue_struct *wq, enum ddr_phase phase,
			 unsigned long delay)
{
	ddr_io_enter(io, phase);
	INIT_DELAYED_WORK(&io->work, ddr_io_work);
	queue_delayed_work(wq, &io->work, delay);
}

void ddr_io_compute(struct ddr_io *io, enum ddr_phase phase)
{
	ddr_io_queue(io, io->t->array->io_wq, phase, 0);
}

void ddr_io_defer(struct ddr_io *io, enum ddr_phase phase)
{
	ddr_io_queue(io, ddr_io_wq(io), phase, 0);
}

void ddr_io_retry(struct ddr_io *io, struct workqueue_struct *wq, enum ddr_phase phase)
{
	io->tries++;
	ddr_io_queue(io, wq, phase, msecs_to_jiffies(DDR_RETRY_MS));
}
