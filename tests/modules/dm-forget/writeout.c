// SPDX-License-Identifier: GPL-2.0-only
/*
 * dm-forget: the worker that brings the cache to the device below. Nothing else
 * writes there.
 */
#include "forget.h"

/* A batch of bios to the device below for which a thread waits. */
struct out_wait {
	atomic_t pending;
	struct completion done;
	blk_status_t status;
};

/* A bijective mix of 64 bits (the finaliser of MurmurHash3 by A. Appleby). */
static u64 mix(u64 x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdULL;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53ULL;
	x ^= x >> 33;
	return x;
}

/* True for @percent of all values of @x, by the seed alone. */
static bool coin(u64 seed, u64 x, unsigned int percent)
{
	return mix(mix(seed) + x) % 100 < percent;
}

static void out_endio(struct bio *bio)
{
	struct out_wait *wait = bio->bi_private;

	if (bio->bi_status)
		wait->status = bio->bi_status;
	bio_put(bio);
	if (atomic_dec_and_test(&wait->pending))
		complete(&wait->done);
}

static u8 pick_sectors(const struct selection *sel, unsigned long index, const struct unit *unit)
{
	u8 mask = unit->dirty & unit_mask(index, sel->start, sel->end);
	unsigned int i;

	for (i = 0; i < UNIT_SECTORS && sel->pick != PICK_ALL; i++) {
		u64 x = sel->pick == PICK_WRITES ? unit->write_id[i] :
			((u64)index << UNIT_SHIFT) + i;

		if (!coin(sel->seed, x, sel->percent))
			mask &= ~(1u << i);
	}
	return mask;
}

/*
 * Copy the next selected units from *index on, so that they cannot change on
 * their way. Returns their number and moves *index behind them.
 */
static unsigned int out_collect(struct forget *f, const struct selection *sel,
				unsigned long *index)
{
	unsigned long last = (sel->end - 1) >> UNIT_SHIFT;
	unsigned int count = 0;
	struct unit *unit;

	mutex_lock(&f->lock);
	for (unit = xa_find(&f->cache, index, last, XA_PRESENT); unit && count < OUT_UNITS;
	     unit = xa_find_after(&f->cache, index, last, XA_PRESENT)) {
		u8 mask = pick_sectors(sel, *index, unit);
		u8 *copy = page_address(f->out_pages[count]);

		if (!mask)
			continue;
		if (unit->data)
			memcpy(copy, unit->data, UNIT_BYTES);
		else
			memset(copy, 0, UNIT_BYTES);
		unit->again &= ~mask;
		f->out[count].index = *index;
		f->out[count].mask = mask;
		count++;
	}
	mutex_unlock(&f->lock);
	if (!unit)
		*index = last + 1;
	return count;
}

/* Write the copies of @count units, runs of sectors as one bio each. */
static blk_status_t out_submit(struct forget *f, unsigned int count)
{
	struct out_wait wait = { .pending = ATOMIC_INIT(1) };
	struct bio *bio = NULL;
	sector_t next = 0;
	unsigned int i, s;

	init_completion(&wait.done);
	for (i = 0; i < count; i++) {
		for (s = 0; s < UNIT_SECTORS; s++) {
			sector_t sector = ((sector_t)f->out[i].index << UNIT_SHIFT) + s;

			if (!(f->out[i].mask & (1u << s)))
				continue;
			if (bio && (sector != next ||
				    !bio_add_page(bio, f->out_pages[i], SECTOR_SIZE,
						  s << SECTOR_SHIFT))) {
				submit_bio(bio);
				bio = NULL;
			}
			if (!bio) {
				bio = bio_alloc(f->dev->bdev, BIO_MAX_VECS, REQ_OP_WRITE,
						GFP_NOIO);
				bio->bi_iter.bi_sector = f->offset + sector;
				bio->bi_private = &wait;
				bio->bi_end_io = out_endio;
				atomic_inc(&wait.pending);
				__bio_add_page(bio, f->out_pages[i], SECTOR_SIZE,
					       s << SECTOR_SHIFT);
			}
			next = sector + 1;
		}
	}
	if (bio)
		submit_bio(bio);
	if (!atomic_dec_and_test(&wait.pending))
		wait_for_completion_io(&wait.done);
	return wait.status;
}

/* The copies are on the medium: clean what was not written again, heal bad sectors. */
static void out_finish(struct forget *f, unsigned int count, bool keep)
{
	unsigned int i;

	mutex_lock(&f->lock);
	for (i = 0; i < count; i++) {
		unsigned long index = f->out[i].index;
		struct unit *unit = xa_load(&f->cache, index);

		bad_heal(f, index, f->out[i].mask);
		if (unit && !keep)
			unit_cleaned(f, index, unit, f->out[i].mask & ~unit->again);
	}
	mutex_unlock(&f->lock);
}

/* Bring the selected part of the cache to the device below (without a flush). */
static blk_status_t write_out(struct forget *f, const struct selection *sel)
{
	unsigned long index = sel->start >> UNIT_SHIFT;
	blk_status_t status = BLK_STS_OK;
	unsigned int count;

	if (sel->start >= sel->end)
		return BLK_STS_OK;
	while (!status && (count = out_collect(f, sel, &index)) != 0) {
		status = out_submit(f, count);
		if (!status)
			out_finish(f, count, sel->keep);
		cond_resched();
	}
	return status;
}

/* One job but for its flush of the device below, which the batch shares. */
static void job_run(struct forget *f, struct job *job)
{
	switch (job->type) {
	case JOB_FLUSH:
	case JOB_FUA:
		job->status = job->epoch != READ_ONCE(f->epoch) ? BLK_STS_IOERR :
			write_out(f, &job->sel);
		break;
	case JOB_LEAK:
	case JOB_DESTAGE:
		if (job->epoch == READ_ONCE(f->epoch))
			job->status = write_out(f, &job->sel);
		break;
	case JOB_FORGET:
		if (job->sel.percent)
			job->status = write_out(f, &job->sel);
		drop_cache(f);
		break;
	}
}

static void job_end(struct forget *f, struct job *job)
{
	switch (job->type) {
	case JOB_FLUSH:
	case JOB_FUA:
		/* The power was cut while it was served: its end was not reported. */
		job->bio->bi_status = job->epoch != READ_ONCE(f->epoch) ? BLK_STS_IOERR :
			job->status;
		bio_endio(job->bio);
		break;
	case JOB_FORGET:
		complete(job->done);
		break;
	case JOB_DESTAGE:
		atomic_set(&f->destaging, 0);
		fallthrough;
	case JOB_LEAK:
		if (job->status)
			DMERR_LIMIT("write to the device below failed");
		kfree(job);
		break;
	}
}

void work_on_jobs(struct work_struct *work)
{
	struct forget *f = container_of(work, struct forget, worker);
	struct job *job, *next;
	bool flush = false;
	LIST_HEAD(batch);
	int err = 0;

	spin_lock_irq(&f->queue_lock);
	list_splice_init(&f->jobs, &batch);
	spin_unlock_irq(&f->queue_lock);

	list_for_each_entry(job, &batch, list) {
		job_run(f, job);
		flush |= job->type == JOB_FLUSH || job->type == JOB_FUA ||
			 job->type == JOB_FORGET;
	}
	if (flush)
		err = blkdev_issue_flush(f->dev->bdev);
	list_for_each_entry_safe(job, next, &batch, list) {
		if (err && !job->status)
			job->status = errno_to_blk_status(err);
		job_end(f, job);
	}
}

void job_queue(struct forget *f, struct job *job)
{
	unsigned long flags;

	spin_lock_irqsave(&f->queue_lock, flags);
	list_add_tail(&job->list, &f->jobs);
	spin_unlock_irqrestore(&f->queue_lock, flags);
	queue_work(f->back, &f->worker);
}

/* Let a share of the write reach the device below; it stays unflushed. */
void leak(struct forget *f, sector_t start, sector_t end, u32 id)
{
	unsigned int percent = READ_ONCE(f->leak_percent);
	struct job *job;

	if (!percent)
		return;
	job = kzalloc(sizeof(*job), GFP_NOIO);
	if (!job)
		return;
	job->type = JOB_LEAK;
	job->epoch = READ_ONCE(f->epoch);
	job->sel = (struct selection){ .start = start, .end = end, .pick = PICK_LEAK,
				       .seed = f->leak_seed + id,
				       .percent = percent, .keep = true };
	job_queue(f, job);
}

/* Where more is unflushed than the limit allows, write all of it out. */
void destage(struct forget *f)
{
	u64 limit = READ_ONCE(f->limit_sectors);
	struct job *job;

	if (!limit || READ_ONCE(f->unflushed) <= limit || atomic_xchg(&f->destaging, 1))
		return;
	job = kzalloc(sizeof(*job), GFP_NOIO);
	if (!job) {
		atomic_set(&f->destaging, 0);
		return;
	}
	job->type = JOB_DESTAGE;
	job->epoch = READ_ONCE(f->epoch);
	job->sel = everything(f);
	job_queue(f, job);
}
