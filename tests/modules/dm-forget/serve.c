// SPDX-License-Identifier: GPL-2.0-only
/*
 * dm-forget: serving bios, at once, or later where they are held or delayed.
 */
#include <linux/math64.h>
#include <linux/random.h>
#include <linux/version.h>

#include "forget.h"

static int end_now(struct bio *bio, blk_status_t status)
{
	bio->bi_status = status;
	bio_endio(bio);
	return DM_MAPIO_SUBMITTED;
}

/* To the device below as it is. */
static int pass(struct forget *f, struct bio *bio)
{
	sector_t start = dm_target_offset(f->ti, bio->bi_iter.bi_sector);

	bio_set_dev(bio, f->dev->bdev);
	bio->bi_iter.bi_sector = f->offset + start;
	return DM_MAPIO_REMAPPED;
}

static int serve_read(struct forget *f, struct bio *bio)
{
	sector_t start = dm_target_offset(f->ti, bio->bi_iter.bi_sector);
	sector_t end = start + bio_sectors(bio);
	struct forget_io *io = io_of(bio);
	blk_status_t status = BLK_STS_OK;
	unsigned long index, last = (end - 1) >> UNIT_SHIFT;
	unsigned int cached = 0;

	atomic64_inc(&f->reads);
	atomic64_add(bio->bi_iter.bi_size, &f->read_bytes);
	if (READ_ONCE(f->fail) & FAIL_READ)
		return end_now(bio, BLK_STS_IOERR);

	mutex_lock(&f->lock);
	for (index = start >> UNIT_SHIFT; index <= last; index++) {
		struct unit *unit = xa_load(&f->cache, index);
		u8 wanted = unit_mask(index, start, end);
		u8 dirty = unit ? unit->dirty & wanted : 0;
		u8 bad = bad_mask(f, index) & wanted & ~dirty;

		cached += hweight8(dirty);
		if (bad & bad_plain(f, index))
			status = BLK_STS_IOERR;
		else if (bad && !status)
			status = BLK_STS_MEDIUM;
	}
	if (!status && cached == end - start) {
		copy_bio(f, bio, start, false);
	} else if (!status && cached) {
		io->overlay = overlay_make(f, start, end);
		if (!io->overlay)
			status = BLK_STS_RESOURCE;
	}
	mutex_unlock(&f->lock);

	if (status || cached == end - start)
		return end_now(bio, status);
	io->iter = bio->bi_iter;
	return pass(f, bio);
}

/* Without a cache: the bad sectors that it covers are repaired. */
static int write_through(struct forget *f, struct bio *bio, sector_t start, sector_t end)
{
	unsigned long index, last = (end - 1) >> UNIT_SHIFT;

	mutex_lock(&f->lock);
	for (index = start >> UNIT_SHIFT; index <= last; index++)
		bad_heal(f, index, unit_mask(index, start, end));
	mutex_unlock(&f->lock);
	return pass(f, bio);
}

static int serve_write(struct forget *f, struct bio *bio)
{
	sector_t start = dm_target_offset(f->ti, bio->bi_iter.bi_sector);
	sector_t end = start + bio_sectors(bio);
	struct forget_io *io = io_of(bio);
	bool zero = bio_op(bio) != REQ_OP_WRITE;
	blk_status_t status;
	u32 id;

	atomic64_inc(zero ? &f->zeroes : &f->writes);
	atomic64_add(bio->bi_iter.bi_size, &f->written_bytes);
	if (READ_ONCE(f->fail) & FAIL_WRITE)
		return end_now(bio, BLK_STS_IOERR);
	if (f->through)
		return write_through(f, bio, start, end);
	status = cache_write(f, bio, start, end, zero, &id);
	if (status || !(bio->bi_opf & REQ_FUA)) {
		if (!status)
			leak(f, start, end, id);
		destage(f);
		return end_now(bio, status);
	}
	atomic64_inc(&f->fua);
	io->job = (struct job){ .type = JOB_FUA, .bio = bio, .epoch = io->epoch };
	io->job.sel = (struct selection){ .start = start, .end = end, .pick = PICK_ALL };
	job_queue(f, &io->job);
	return DM_MAPIO_SUBMITTED;
}

static int serve_flush(struct forget *f, struct bio *bio)
{
	struct forget_io *io = io_of(bio);

	atomic64_inc(&f->flushes);
	if (READ_ONCE(f->fail) & FAIL_FLUSH)
		return end_now(bio, BLK_STS_IOERR);
	if (f->through)
		return pass(f, bio);
	io->job = (struct job){ .type = JOB_FLUSH, .bio = bio, .epoch = io->epoch,
				.sel = everything(f) };
	job_queue(f, &io->job);
	return DM_MAPIO_SUBMITTED;
}

/* Serve one bio now; DM_MAPIO_REMAPPED where it goes to the device below as it is. */
static int serve(struct forget *f, struct bio *bio)
{
	if (READ_ONCE(f->dead) || io_of(bio)->epoch != READ_ONCE(f->epoch))
		return end_now(bio, BLK_STS_IOERR);
	if (bio->bi_opf & REQ_PREFLUSH)
		return serve_flush(f, bio);
	switch (bio_op(bio)) {
	case REQ_OP_READ:
		return serve_read(f, bio);
	case REQ_OP_WRITE:
	case REQ_OP_WRITE_ZEROES:
	case REQ_OP_DISCARD:
		return serve_write(f, bio);
	default:
		return end_now(bio, BLK_STS_NOTSUPP);
	}
}

static enum hrtimer_restart delay_over(struct hrtimer *timer)
{
	struct forget *f = container_of(timer, struct forget, timer);

	queue_work(f->front, &f->release);
	return HRTIMER_NORESTART;
}

void delay_timer_setup(struct forget *f)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&f->timer, delay_over, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#else
	hrtimer_init(&f->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	f->timer.function = delay_over;
#endif
}

/* Serve what is ready and what has waited long enough. */
void work_on_release(struct work_struct *work)
{
	struct forget *f = container_of(work, struct forget, release);
	struct bio_list todo = BIO_EMPTY_LIST;
	struct bio *bio;

	spin_lock_irq(&f->queue_lock);
	bio_list_merge(&todo, &f->ready);
	bio_list_init(&f->ready);
	while ((bio = bio_list_peek(&f->delayed)) != NULL) {
		ktime_t due = io_of(bio)->due;

		if (ktime_after(due, ktime_get())) {
			hrtimer_start(&f->timer, due, HRTIMER_MODE_ABS);
			break;
		}
		bio_list_add(&todo, bio_list_pop(&f->delayed));
		f->held_count--;
	}
	spin_unlock_irq(&f->queue_lock);

	while ((bio = bio_list_pop(&todo)) != NULL)
		if (serve(f, bio) == DM_MAPIO_REMAPPED)
			submit_bio_noacct(bio);
}

/* Put a bio among the delayed ones by its due time. Holds queue_lock. */
static void delay_add(struct forget *f, struct bio *bio)
{
	struct bio *after = NULL, *next;
	ktime_t due = io_of(bio)->due;

	bio_list_for_each(next, &f->delayed) {
		if (ktime_after(io_of(next)->due, due))
			break;
		after = next;
	}
	if (!after) {
		bio_list_add_head(&f->delayed, bio);
		hrtimer_start(&f->timer, due, HRTIMER_MODE_ABS);
	} else if (!next) {
		bio_list_add(&f->delayed, bio);
	} else {
		bio->bi_next = next;
		after->bi_next = bio;
	}
}

/* True when the bio was put aside. */
static bool hold(struct forget *f, struct bio *bio)
{
	u64 delay = (u64)READ_ONCE(f->delay_ms) * NSEC_PER_MSEC;
	unsigned int spread = READ_ONCE(f->spread_ms);
	bool held = true;
	unsigned long flags;

	if (spread)
		delay += mul_u64_u32_shr((u64)spread * NSEC_PER_MSEC, get_random_u32(), 32);
	if (!READ_ONCE(f->hang) && !delay)
		return false;
	spin_lock_irqsave(&f->queue_lock, flags);
	if (f->hang) {
		bio_list_add(&f->held, bio);
	} else if (delay) {
		io_of(bio)->due = ktime_add_ns(ktime_get(), delay);
		delay_add(f, bio);
	} else {
		held = false;
	}
	f->held_count += held;
	spin_unlock_irqrestore(&f->queue_lock, flags);
	return held;
}

static bool aligned(struct forget *f, struct bio *bio)
{
	unsigned int mask = bdev_logical_block_size(f->dev->bdev) - 1;
	struct bvec_iter iter;
	struct bio_vec bv;

	if (!bio_has_data(bio))
		return true;
	bio_for_each_bvec(bv, bio, iter)
		if ((bv.bv_offset | bv.bv_len) & mask)
			return false;
	return true;
}

int forget_map(struct dm_target *ti, struct bio *bio)
{
	struct forget *f = ti->private;

	io_of(bio)->overlay = NULL;
	io_of(bio)->epoch = READ_ONCE(f->epoch);
	WRITE_ONCE(f->prio, bio->bi_ioprio);
	if (bio->bi_opf & REQ_BACKGROUND)
		atomic64_inc(&f->background);
	if (READ_ONCE(f->strict) && !aligned(f, bio))
		return end_now(bio, BLK_STS_IOERR);
	if (hold(f, bio))
		return DM_MAPIO_SUBMITTED;
	return serve(f, bio);
}

int forget_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error)
{
	struct forget_io *io = io_of(bio);

	if (io->overlay) {
		if (!*error)
			overlay_apply(bio, io);
		kvfree(io->overlay);
		io->overlay = NULL;
	}
	return DM_ENDIO_DONE;
}
