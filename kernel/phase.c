// SPDX-License-Identifier: GPL-2.0-only
/*
 * How an I/O continues: from the beginning, or later, in a work item.
 *
 * Must never: use an io after it was handed to a work item.
 */
#include "io.h"

void ddr_io_start(struct ddr_io *io)
{
	switch (io->op) {
	case DDR_OP_READ:
		ddr_read_start(io);
		break;
	case DDR_OP_FLUSH:
		ddr_flush_start(io);
		break;
	default:
		ddr_write_start(io);
	}
}

static void ddr_io_start_work(struct work_struct *work)
{
	ddr_io_start(ddr_io_of(work));
}

void ddr_io_restart(struct ddr_io *io)
{
	ddr_io_defer(io, ddr_io_start_work);
}

void ddr_io_compute(struct ddr_io *io, work_func_t fn)
{
	INIT_DELAYED_WORK(&io->work, fn);
	queue_delayed_work(io->t->array->io_wq, &io->work, 0);
}

void ddr_io_defer(struct ddr_io *io, work_func_t fn)
{
	INIT_DELAYED_WORK(&io->work, fn);
	queue_delayed_work(ddr_io_wq(io), &io->work, 0);
}

void ddr_io_retry(struct ddr_io *io, struct workqueue_struct *wq, work_func_t fn)
{
	io->tries++;
	INIT_DELAYED_WORK(&io->work, fn);
	queue_delayed_work(wq, &io->work, msecs_to_jiffies(DDR_RETRY_MS));
}
