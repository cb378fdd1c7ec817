// SPDX-License-Identifier: GPL-2.0-only
/*
 * The entry of a bio into the engine, at first or again; and the engine's data for an array and
 * for the module.
 */
#include <linux/ioprio.h>
#include <linux/slab.h>

#include "io.h"

int ddr_io_map(struct ddr_target *t, struct bio *bio)
{
	struct ddr_io *io = dm_per_bio_data(bio, sizeof(*io));

	io->t = t;
	io->bio = bio;
	io->range.locked = 0;
	io->wait.status = BLK_STS_OK;
	io->buf = NULL;
	io->gen = NULL;
	io->done = 0;
	io->flags = 0;
	io->avoid = 0;
	io->looks = 0;
	io->tries = 0;
	io->phase = DDR_PH_START;
	/* this is the issuing task; the member bios may be submitted by a work item */
	if (IOPRIO_PRIO_CLASS(bio->bi_ioprio) == IOPRIO_CLASS_NONE)
		bio->bi_ioprio = get_current_ioprio();

	switch (bio_op(bio)) {
	case REQ_OP_READ:
		io->op = DDR_OP_READ;
		break;
	case REQ_OP_WRITE:
		/* dm sends a flush before the data that requested it */
		io->op = bio->bi_iter.bi_size ? DDR_OP_WRITE : DDR_OP_FLUSH;
		break;
	case REQ_OP_DISCARD:
	case REQ_OP_WRITE_ZEROES:
		io->op = DDR_OP_ZEROES;
		break;
	default:
		return DM_MAPIO_KILL;
	}
	if (!IS_ALIGNED(bio->bi_iter.bi_sector | bio_sectors(bio), DDR_BLOCK_SECTORS))
		return DM_MAPIO_KILL;
	io->class = ddr_pages_class(t, io->op, bio_sectors(bio) / DDR_BLOCK_SECTORS);

	ddr_io_run(io);
	return DM_MAPIO_SUBMITTED;
}

/* ---- per array, per module ----------------------------------------------------- */

int ddr_engine_init(struct ddr_array *a)
{
	struct ddr_engine *e = ddr_alloc(kzalloc(sizeof(*e), GFP_KERNEL));
	int r;

	if (!e)
		return -ENOMEM;
	e->a = a;
	a->wake = ddr_io_wake;
	r = ddr_gen_init(e);
	if (r)
		goto free;
	r = ddr_errors_init(e);
	if (r)
		goto exit_gen;
	r = ddr_alloc_int(percpu_counter_init(&e->pages, 0, GFP_KERNEL));
	if (r)
		goto exit_errors;
	a->engine = e;
	return 0;

exit_errors:
	ddr_errors_free(e);
exit_gen:
	ddr_gen_free(e);
free:
	kfree(e);
	return r;
}

void ddr_engine_settle(struct ddr_array *a)
{
	ddr_gen_settle(a->engine);
}

void ddr_engine_free(struct ddr_array *a)
{
	struct ddr_engine *e = a->engine;

	if (!e)
		return;
	WARN_ON(percpu_counter_sum(&e->pages));
	percpu_counter_destroy(&e->pages);
	ddr_errors_free(e);
	ddr_gen_free(e);
	kfree(e);
	a->engine = NULL;
}

int ddr_io_init(void)
{
	return ddr_pages_init();
}

void ddr_io_exit(void)
{
	ddr_pages_exit();
}
