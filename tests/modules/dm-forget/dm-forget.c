// SPDX-License-Identifier: GPL-2.0-only
/*
 * dm-forget: a disk with a volatile write cache, for tests.
 *
 * A write is acknowledged once it lies in memory. It reaches the device below
 * with the next FLUSH, or by its own FUA, and not before: what was not flushed
 * is gone when the machine is, or when a message says so. A FLUSH makes durable
 * all writes that were completed before it was issued, a FUA write itself only;
 * reads see the cache. Removing or reloading the table is a power cut, too.
 *
 * The cache keeps the newest version of a sector. That an older unflushed
 * version survives while the newer one is lost is what "leak" is for.
 *
 * Table:	<start> <length> forget <device> <offset in sectors>
 *
 * Messages:
 *   forget [all | torn SEED | random SEED]
 *		Power cut: all I/O fails until "revive", and of what was not
 *		flushed is lost: everything; each sector by a coin; each whole
 *		write by a coin. What is not lost reaches the device below.
 *   revive	Power is back. Let I/O that was on its way end (with an error)
 *		before; what still waits here from before the cut fails.
 *   leak PERCENT SEED
 *		From now on that share of the sectors of each unflushed write
 *		reaches the device below right away, and still counts as
 *		unflushed. 0: off (the default).
 *   limit MIB	When more than this is unflushed, all of it is written to the
 *		device below, as a disk does by itself. 0: never (the default).
 *   bad add START LENGTH | bad clear
 *		Sectors whose reads fail as medium errors until a write of them
 *		has reached the medium.
 *   fail read | write | flush | all | none
 *		Fail these operations with an I/O error (they add up).
 *   delay MS	Serve each I/O so much later. 0: at once (the default).
 *   hang on | off
 *		Hold all I/O that comes, and serve it when off. While it is on,
 *		a suspend waits for what is held.
 *   reset	Set the counters to zero.
 *
 * Status:	alive|dead reads=N writes=N flushes=N fua=N zeroes=N
 *		read_bytes=N written_bytes=N unflushed_bytes=N bad=N held=N
 *		(writes without zeroes; fua and zeroes as part of write_bytes)
 *
 * Locking: "lock" (mutex) guards the cache and the bad sectors, and is never held
 * over I/O. "queue_lock" (spinlock, irqs off) guards the lists. All writes to
 * the device below are made by one worker, one batch after the other, so that
 * an older version of a sector can never overtake a newer one.
 */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/completion.h>
#include <linux/device-mapper.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/version.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#define DM_MSG_PREFIX "forget"

#define UNIT_SHIFT	3			/* a unit of the cache: 8 sectors */
#define UNIT_SECTORS	(1u << UNIT_SHIFT)
#define UNIT_BYTES	(UNIT_SECTORS << SECTOR_SHIFT)
#define OUT_UNITS	256			/* units written out in one go */
#define MAX_IO_SECTORS	2048
#define MAX_DELAY_MS	60000
#define MAX_LIMIT_MIB	(1u << 20)

enum { FAIL_READ = 1, FAIL_WRITE = 2, FAIL_FLUSH = 4 };

/*
 * Eight sectors of which at least one is unflushed.
 * @data: UNIT_BYTES, or NULL where all of them are zeroes
 * @dirty: one bit a sector that is unflushed
 * @again: the sectors written since the last copy for writing out was taken
 * @write_id: for each sector, which write it came from
 */
struct unit {
	u8 *data;
	u8 dirty;
	u8 again;
	u32 write_id[UNIT_SECTORS];
};

/* What of the cache a write-out takes; PICK_LEAK and the coins need a seed. */
enum pick { PICK_ALL, PICK_SECTORS, PICK_WRITES, PICK_LEAK };

struct selection {
	sector_t start;
	sector_t end;		/* exclusive */
	enum pick pick;
	u64 seed;
	unsigned int percent;
	bool keep;		/* stays unflushed although it was written */
};

enum job_type { JOB_FLUSH, JOB_FUA, JOB_LEAK, JOB_DESTAGE, JOB_FORGET };

/* Work for the worker; @bio for JOB_FLUSH and JOB_FUA, @done for JOB_FORGET. */
struct job {
	struct list_head list;
	enum job_type type;
	struct bio *bio;
	struct selection sel;
	struct completion *done;
	unsigned int epoch;
	blk_status_t status;
};

/* What a read found in the cache while the rest comes from below. */
struct overlay {
	unsigned long map[BITS_TO_LONGS(MAX_IO_SECTORS)];
	u8 data[];
};

/* Per bio; @epoch: how many power cuts there had been when it came. */
struct forget_io {
	struct job job;
	unsigned int epoch;
	ktime_t due;
	struct bvec_iter iter;
	struct overlay *overlay;
};

/* A batch of bios to the device below that somebody waits for. */
struct out_wait {
	atomic_t pending;
	struct completion done;
	blk_status_t status;
};

struct forget {
	struct dm_target *ti;
	struct dm_dev *dev;
	sector_t offset;

	struct mutex lock;
	struct xarray cache;		/* unit number -> struct unit */
	struct xarray bad;		/* unit number -> mask of bad sectors */
	u64 unflushed;			/* sectors */
	u64 bad_sectors;
	u32 last_write_id;

	spinlock_t queue_lock;
	struct bio_list held;		/* while hanging */
	struct bio_list delayed;	/* by their due time */
	struct bio_list ready;		/* to be served by the release work */
	struct list_head jobs;
	unsigned int held_count;
	struct hrtimer timer;
	struct workqueue_struct *front;	/* serves what was held or delayed */
	struct workqueue_struct *back;	/* writes to the device below */
	struct work_struct release;
	struct work_struct worker;

	/* the worker's own: copies of units on their way down */
	struct {
		unsigned long index;
		u8 mask;
	} out[OUT_UNITS];
	struct page *out_pages[OUT_UNITS];

	bool dead;			/* both written under lock */
	unsigned int epoch;
	bool hang;
	unsigned int fail;
	unsigned int delay_ms;
	unsigned int leak_percent;
	u64 leak_seed;
	u64 limit_sectors;
	atomic_t destaging;

	atomic64_t reads, writes, flushes, fua, zeroes;
	atomic64_t read_bytes, written_bytes;
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

/* The sectors of unit @index that lie in [start, end). */
static u8 unit_mask(unsigned long index, sector_t start, sector_t end)
{
	sector_t first = (sector_t)index << UNIT_SHIFT;
	unsigned int from = start > first ? start - first : 0;
	unsigned int to = min_t(sector_t, end - first, UNIT_SECTORS);

	return (u8)((0xff << from) & (0xff >> (UNIT_SECTORS - to)));
}

static void unit_free(struct unit *unit)
{
	kfree(unit->data);
	kfree(unit);
}

/*
 * The unit of the cache at @index, made if absent. With @zero no data is wanted.
 * Holds lock. NULL: no memory.
 */
static struct unit *unit_get(struct forget *f, unsigned long index, bool zero)
{
	struct unit *unit = xa_load(&f->cache, index);
	bool fresh = !unit;

	if (fresh) {
		unit = kzalloc(sizeof(*unit), GFP_NOIO | __GFP_NOWARN);
		if (!unit)
			return NULL;
	}
	if (!unit->data && !zero) {
		unit->data = kzalloc(UNIT_BYTES, GFP_NOIO | __GFP_NOWARN);
		if (!unit->data)
			goto no_memory;
	}
	if (fresh && xa_err(xa_store(&f->cache, index, unit, GFP_NOIO | __GFP_NOWARN)))
		goto no_memory;
	return unit;

no_memory:
	if (fresh)
		unit_free(unit);
	return NULL;
}

/* Note that the sectors @mask of @unit hold data of a new write. Holds lock. */
static void unit_dirtied(struct forget *f, struct unit *unit, u8 mask, u32 id)
{
	unsigned int i;

	f->unflushed += hweight8(mask & ~unit->dirty);
	unit->dirty |= mask;
	unit->again |= mask;
	for (i = 0; i < UNIT_SECTORS; i++)
		if (mask & (1u << i))
			unit->write_id[i] = id;
}

/* The sectors @mask of unit @index are on the medium, or lost. Holds lock. */
static void unit_cleaned(struct forget *f, unsigned long index, struct unit *unit, u8 mask)
{
	f->unflushed -= hweight8(unit->dirty & mask);
	unit->dirty &= ~mask;
	if (!unit->dirty) {
		xa_erase(&f->cache, index);
		unit_free(unit);
	}
}

static u8 bad_mask(struct forget *f, unsigned long index)
{
	void *entry = xa_load(&f->bad, index);

	return entry ? xa_to_value(entry) : 0;
}

/* Set the bad sectors of a unit; 0 or -ENOMEM. Holds lock. */
static int bad_set(struct forget *f, unsigned long index, u8 mask)
{
	u8 old = bad_mask(f, index);
	void *entry = NULL;

	if (mask == old)
		return 0;
	if (mask)
		entry = xa_store(&f->bad, index, xa_mk_value(mask), GFP_NOIO);
	else
		xa_erase(&f->bad, index);
	if (xa_err(entry))
		return xa_err(entry);
	f->bad_sectors += hweight8(mask);
	f->bad_sectors -= hweight8(old);
	return 0;
}

/* --- writing to the device below: the worker only ------------------------ */

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

		bad_set(f, index, bad_mask(f, index) & ~f->out[i].mask);
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

static struct selection everything(struct forget *f)
{
	return (struct selection){ .end = f->ti->len, .pick = PICK_ALL };
}

/* Empty the cache. */
static void drop_cache(struct forget *f)
{
	unsigned long index;
	struct unit *unit;

	mutex_lock(&f->lock);
	xa_for_each(&f->cache, index, unit)
		unit_cleaned(f, index, unit, 0xff);
	mutex_unlock(&f->lock);
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
		/* The power went while it was served: nobody heard of its end. */
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

static void work_on_jobs(struct work_struct *work)
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

static void job_queue(struct forget *f, struct job *job)
{
	unsigned long flags;

	spin_lock_irqsave(&f->queue_lock, flags);
	list_add_tail(&job->list, &f->jobs);
	spin_unlock_irqrestore(&f->queue_lock, flags);
	queue_work(f->back, &f->worker);
}

/* --- serving I/O ---------------------------------------------------------- */

static int end_now(struct bio *bio, blk_status_t status)
{
	bio->bi_status = status;
	bio_endio(bio);
	return DM_MAPIO_SUBMITTED;
}

static struct forget_io *io_of(struct bio *bio)
{
	return dm_per_bio_data(bio, sizeof(struct forget_io));
}

/*
 * Copy between the bio's data and the cache, [start, start + size of the bio).
 * Segments may begin and end anywhere. Holds lock; where cached data is read
 * the units exist, and so do units with data where they are written.
 */
static void copy_bio(struct forget *f, struct bio *bio, sector_t start, bool to_cache)
{
	u64 pos = (u64)start << SECTOR_SHIFT;
	struct bvec_iter iter;
	struct bio_vec bv;

	bio_for_each_segment(bv, bio, iter) {
		u8 *base = bvec_kmap_local(&bv);
		unsigned int done = 0;

		while (done < bv.bv_len) {
			struct unit *unit = xa_load(&f->cache, pos / UNIT_BYTES);
			unsigned int at = pos % UNIT_BYTES;
			unsigned int len = min(bv.bv_len - done, UNIT_BYTES - at);

			if (to_cache)
				memcpy(unit->data + at, base + done, len);
			else if (unit->data)
				memcpy(base + done, unit->data + at, len);
			else
				memset(base + done, 0, len);
			done += len;
			pos += len;
		}
		kunmap_local(base);
		if (!to_cache)
			flush_dcache_page(bv.bv_page);
	}
}

/* Copy what the cache holds of [start, end), for the end of the bio. Holds lock. */
static struct overlay *overlay_make(struct forget *f, sector_t start, sector_t end)
{
	size_t size = sizeof(struct overlay) + ((end - start) << SECTOR_SHIFT);
	struct overlay *overlay = kvmalloc(size, GFP_NOIO);
	sector_t s;

	if (!overlay)
		return NULL;
	bitmap_zero(overlay->map, MAX_IO_SECTORS);
	for (s = start; s < end; s++) {
		struct unit *unit = xa_load(&f->cache, s >> UNIT_SHIFT);
		unsigned int at = s & (UNIT_SECTORS - 1);
		u8 *to = overlay->data + ((s - start) << SECTOR_SHIFT);

		if (!unit || !(unit->dirty & (1u << at)))
			continue;
		if (unit->data)
			memcpy(to, unit->data + (at << SECTOR_SHIFT), SECTOR_SIZE);
		else
			memset(to, 0, SECTOR_SIZE);
		__set_bit(s - start, overlay->map);
	}
	return overlay;
}

/* Lay the cached sectors over what came from below. Any context. */
static void overlay_apply(struct bio *bio, struct forget_io *io)
{
	struct bvec_iter iter;
	struct bio_vec bv;
	unsigned int pos = 0;

	__bio_for_each_segment(bv, bio, iter, io->iter) {
		u8 *base = bvec_kmap_local(&bv);
		unsigned int done = 0;

		while (done < bv.bv_len) {
			unsigned int len = min_t(unsigned int, bv.bv_len - done,
						 SECTOR_SIZE - pos % SECTOR_SIZE);

			if (test_bit(pos >> SECTOR_SHIFT, io->overlay->map))
				memcpy(base + done, io->overlay->data + pos, len);
			done += len;
			pos += len;
		}
		kunmap_local(base);
		flush_dcache_page(bv.bv_page);
	}
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

		cached += hweight8(dirty);
		if (bad_mask(f, index) & wanted & ~dirty)
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
	bio_set_dev(bio, f->dev->bdev);
	bio->bi_iter.bi_sector = f->offset + start;
	return DM_MAPIO_REMAPPED;
}

/* Make the units of [start, end), all or none; false: no memory. Holds lock. */
static bool units_make(struct forget *f, sector_t start, sector_t end, bool zero)
{
	unsigned long first = start >> UNIT_SHIFT, last = (end - 1) >> UNIT_SHIFT;
	unsigned long index;
	struct unit *unit;

	for (index = first; index <= last; index++) {
		if (!unit_get(f, index, zero && unit_mask(index, start, end) == 0xff))
			break;
		cond_resched();
	}
	if (index > last)
		return true;
	xa_for_each_range(&f->cache, index, unit, first, last)
		if (!unit->dirty)
			unit_cleaned(f, index, unit, 0);
	DMERR_LIMIT("no memory for the cache: flush, or set a limit");
	return false;
}

/* Make the sectors @mask of a unit zeroes. Holds lock. */
static void unit_zero(struct unit *unit, u8 mask)
{
	if (mask == 0xff) {
		kfree(unit->data);
		unit->data = NULL;
	} else {
		memset(unit->data + (__ffs(mask) << SECTOR_SHIFT), 0,
		       hweight8(mask) << SECTOR_SHIFT);
	}
}

/* Put a write into the cache, zeroes where @zero; *id gets the write's number. */
static blk_status_t cache_write(struct forget *f, struct bio *bio, sector_t start, sector_t end,
				bool zero, u32 *id)
{
	unsigned long index, last = (end - 1) >> UNIT_SHIFT;
	blk_status_t status = BLK_STS_OK;

	mutex_lock(&f->lock);
	if (io_of(bio)->epoch != f->epoch)
		status = BLK_STS_IOERR;
	else if (!units_make(f, start, end, zero))
		status = BLK_STS_RESOURCE;
	if (status)
		goto out;
	*id = ++f->last_write_id;
	if (!zero)
		copy_bio(f, bio, start, true);
	for (index = start >> UNIT_SHIFT; index <= last; index++) {
		struct unit *unit = xa_load(&f->cache, index);
		u8 mask = unit_mask(index, start, end);

		if (zero)
			unit_zero(unit, mask);
		unit_dirtied(f, unit, mask, *id);
		cond_resched();
	}
out:
	mutex_unlock(&f->lock);
	return status;
}

/* Let a share of the write reach the device below; it stays unflushed. */
static void leak(struct forget *f, sector_t start, sector_t end, u32 id)
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
static void destage(struct forget *f)
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

/* --- holding I/O ---------------------------------------------------------- */

static enum hrtimer_restart delay_over(struct hrtimer *timer)
{
	struct forget *f = container_of(timer, struct forget, timer);

	queue_work(f->front, &f->release);
	return HRTIMER_NORESTART;
}

static void delay_timer_setup(struct forget *f)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(&f->timer, delay_over, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#else
	hrtimer_init(&f->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	f->timer.function = delay_over;
#endif
}

/* Serve what is ready and what has waited long enough. */
static void work_on_release(struct work_struct *work)
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

/* True when the bio was put aside. */
static bool hold(struct forget *f, struct bio *bio)
{
	unsigned int delay = READ_ONCE(f->delay_ms);
	bool held = true;
	unsigned long flags;

	if (!READ_ONCE(f->hang) && !delay)
		return false;
	spin_lock_irqsave(&f->queue_lock, flags);
	if (f->hang) {
		bio_list_add(&f->held, bio);
	} else if (delay) {
		io_of(bio)->due = ktime_add_ms(ktime_get(), delay);
		if (bio_list_empty(&f->delayed))
			hrtimer_start(&f->timer, io_of(bio)->due, HRTIMER_MODE_ABS);
		bio_list_add(&f->delayed, bio);
	} else {
		held = false;
	}
	f->held_count += held;
	spin_unlock_irqrestore(&f->queue_lock, flags);
	return held;
}

static int forget_map(struct dm_target *ti, struct bio *bio)
{
	struct forget *f = ti->private;

	io_of(bio)->overlay = NULL;
	io_of(bio)->epoch = READ_ONCE(f->epoch);
	if (hold(f, bio))
		return DM_MAPIO_SUBMITTED;
	return serve(f, bio);
}

static int forget_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error)
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

/* --- messages ------------------------------------------------------------- */

static int msg_forget(struct forget *f, unsigned int argc, char **argv)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct job job = { .type = JOB_FORGET, .done = &done, .sel = everything(f) };

	if (argc == 3 && !strcasecmp(argv[1], "torn"))
		job.sel.pick = PICK_SECTORS;
	else if (argc == 3 && !strcasecmp(argv[1], "random"))
		job.sel.pick = PICK_WRITES;
	else if (argc > 2 || (argc == 2 && strcasecmp(argv[1], "all")))
		return -EINVAL;
	if (job.sel.pick != PICK_ALL) {
		if (kstrtou64(argv[2], 0, &job.sel.seed))
			return -EINVAL;
		job.sel.percent = 50;
	}
	mutex_lock(&f->lock);
	WRITE_ONCE(f->dead, true);
	WRITE_ONCE(f->epoch, f->epoch + 1);
	mutex_unlock(&f->lock);
	job_queue(f, &job);
	wait_for_completion(&done);
	return job.status ? blk_status_to_errno(job.status) : 0;
}

static int msg_leak(struct forget *f, unsigned int argc, char **argv)
{
	unsigned int percent;
	u64 seed;

	if (argc != 3 || kstrtouint(argv[1], 0, &percent) || percent > 100 ||
	    kstrtou64(argv[2], 0, &seed))
		return -EINVAL;
	f->leak_seed = seed;
	WRITE_ONCE(f->leak_percent, percent);
	return 0;
}

static int msg_limit(struct forget *f, unsigned int argc, char **argv)
{
	unsigned int mib;

	if (argc != 2 || kstrtouint(argv[1], 0, &mib) || mib > MAX_LIMIT_MIB)
		return -EINVAL;
	WRITE_ONCE(f->limit_sectors, (u64)mib << (20 - SECTOR_SHIFT));
	return 0;
}

static int msg_bad(struct forget *f, unsigned int argc, char **argv)
{
	unsigned long index;
	u64 start, length;
	int ret = 0;

	if (argc == 2 && !strcasecmp(argv[1], "clear")) {
		mutex_lock(&f->lock);
		xa_destroy(&f->bad);
		f->bad_sectors = 0;
		mutex_unlock(&f->lock);
		return 0;
	}
	if (argc != 4 || strcasecmp(argv[1], "add") || kstrtou64(argv[2], 0, &start) ||
	    kstrtou64(argv[3], 0, &length) || !length || start >= f->ti->len ||
	    length > f->ti->len - start)
		return -EINVAL;
	mutex_lock(&f->lock);
	for (index = start >> UNIT_SHIFT; !ret && index <= (start + length - 1) >> UNIT_SHIFT;
	     index++)
		ret = bad_set(f, index,
			      bad_mask(f, index) | unit_mask(index, start, start + length));
	mutex_unlock(&f->lock);
	return ret;
}

static int msg_fail(struct forget *f, unsigned int argc, char **argv)
{
	static const struct {
		const char *name;
		unsigned int bits;
	} words[] = {
		{ "read", FAIL_READ }, { "write", FAIL_WRITE }, { "flush", FAIL_FLUSH },
		{ "all", FAIL_READ | FAIL_WRITE | FAIL_FLUSH }, { "none", 0 },
	};
	unsigned int i;

	for (i = 0; argc == 2 && i < ARRAY_SIZE(words); i++) {
		if (strcasecmp(argv[1], words[i].name))
			continue;
		WRITE_ONCE(f->fail, words[i].bits ? f->fail | words[i].bits : 0);
		return 0;
	}
	return -EINVAL;
}

static int msg_delay(struct forget *f, unsigned int argc, char **argv)
{
	unsigned int ms;

	if (argc != 2 || kstrtouint(argv[1], 0, &ms) || ms > MAX_DELAY_MS)
		return -EINVAL;
	WRITE_ONCE(f->delay_ms, ms);
	return 0;
}

static int msg_hang(struct forget *f, unsigned int argc, char **argv)
{
	bool on;

	if (argc != 2 || kstrtobool(argv[1], &on))
		return -EINVAL;
	spin_lock_irq(&f->queue_lock);
	f->hang = on;
	if (!on) {
		f->held_count -= bio_list_size(&f->held);
		bio_list_merge(&f->ready, &f->held);
		bio_list_init(&f->held);
	}
	spin_unlock_irq(&f->queue_lock);
	queue_work(f->front, &f->release);
	return 0;
}

static int msg_revive(struct forget *f, unsigned int argc, char **argv)
{
	if (argc != 1)
		return -EINVAL;
	WRITE_ONCE(f->dead, false);
	return 0;
}

static int msg_reset(struct forget *f, unsigned int argc, char **argv)
{
	if (argc != 1)
		return -EINVAL;
	atomic64_set(&f->reads, 0);
	atomic64_set(&f->writes, 0);
	atomic64_set(&f->flushes, 0);
	atomic64_set(&f->fua, 0);
	atomic64_set(&f->zeroes, 0);
	atomic64_set(&f->read_bytes, 0);
	atomic64_set(&f->written_bytes, 0);
	return 0;
}

static int forget_message(struct dm_target *ti, unsigned int argc, char **argv,
			  char *result, unsigned int maxlen)
{
	static const struct {
		const char *name;
		int (*fn)(struct forget *f, unsigned int argc, char **argv);
	} messages[] = {
		{ "forget", msg_forget }, { "revive", msg_revive }, { "leak", msg_leak },
		{ "limit", msg_limit }, { "bad", msg_bad }, { "fail", msg_fail },
		{ "delay", msg_delay }, { "hang", msg_hang }, { "reset", msg_reset },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(messages); i++)
		if (!strcasecmp(argv[0], messages[i].name))
			return messages[i].fn(ti->private, argc, argv);
	DMWARN("unknown message %s", argv[0]);
	return -EINVAL;
}

/* --- table ---------------------------------------------------------------- */

static void forget_free(struct forget *f)
{
	unsigned int i;

	hrtimer_cancel(&f->timer);
	if (f->front)
		destroy_workqueue(f->front);
	if (f->back)
		destroy_workqueue(f->back);
	drop_cache(f);
	xa_destroy(&f->cache);
	xa_destroy(&f->bad);
	for (i = 0; i < OUT_UNITS; i++)
		if (f->out_pages[i])
			__free_page(f->out_pages[i]);
	if (f->dev)
		dm_put_device(f->ti, f->dev);
	kvfree(f);
}

static int forget_alloc(struct forget *f)
{
	unsigned int i;

	for (i = 0; i < OUT_UNITS; i++) {
		f->out_pages[i] = alloc_page(GFP_KERNEL);
		if (!f->out_pages[i])
			return -ENOMEM;
	}
	f->front = alloc_workqueue("dm-forget-front", WQ_MEM_RECLAIM | WQ_HIGHPRI | WQ_UNBOUND, 1);
	f->back = alloc_ordered_workqueue("dm-forget-back", WQ_MEM_RECLAIM);
	return f->front && f->back ? 0 : -ENOMEM;
}

static struct forget *forget_new(struct dm_target *ti)
{
	struct forget *f = kvzalloc(sizeof(*f), GFP_KERNEL);

	if (!f)
		return NULL;
	f->ti = ti;
	mutex_init(&f->lock);
	xa_init(&f->cache);
	xa_init(&f->bad);
	spin_lock_init(&f->queue_lock);
	INIT_LIST_HEAD(&f->jobs);
	INIT_WORK(&f->release, work_on_release);
	INIT_WORK(&f->worker, work_on_jobs);
	delay_timer_setup(f);
	return f;
}

static int forget_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	unsigned long long offset;
	struct forget *f;
	int ret = -EINVAL;

	if (argc != 2 || kstrtoull(argv[1], 10, &offset)) {
		ti->error = "Give <device> <offset in sectors>";
		return -EINVAL;
	}
	f = forget_new(ti);
	if (!f) {
		ti->error = "Not enough memory";
		return -ENOMEM;
	}
	f->offset = offset;
	ret = dm_get_device(ti, argv[0], dm_table_get_mode(ti->table), &f->dev);
	if (ret) {
		ti->error = "Cannot open the device";
		goto bad;
	}
	ret = forget_alloc(f);
	if (ret) {
		ti->error = "Not enough memory";
		goto bad;
	}
	ret = dm_set_target_max_io_len(ti, MAX_IO_SECTORS);
	if (ret)
		goto bad;
	ti->num_flush_bios = 1;
	ti->num_discard_bios = 1;
	ti->num_write_zeroes_bios = 1;
	ti->flush_supported = true;
	ti->discards_supported = true;
	ti->per_io_data_size = sizeof(struct forget_io);
	ti->private = f;
	return 0;

bad:
	forget_free(f);
	return ret;
}

static void forget_dtr(struct dm_target *ti)
{
	forget_free(ti->private);
}

static void forget_status(struct dm_target *ti, status_type_t type, unsigned int flags,
			  char *result, unsigned int maxlen)
{
	struct forget *f = ti->private;
	unsigned int sz = 0;

	switch (type) {
	case STATUSTYPE_INFO:
		DMEMIT("%s reads=%lld writes=%lld flushes=%lld fua=%lld zeroes=%lld ",
		       f->dead ? "dead" : "alive", atomic64_read(&f->reads),
		       atomic64_read(&f->writes), atomic64_read(&f->flushes),
		       atomic64_read(&f->fua), atomic64_read(&f->zeroes));
		DMEMIT("read_bytes=%lld written_bytes=%lld unflushed_bytes=%llu bad=%llu held=%u",
		       atomic64_read(&f->read_bytes), atomic64_read(&f->written_bytes),
		       READ_ONCE(f->unflushed) << SECTOR_SHIFT, READ_ONCE(f->bad_sectors),
		       READ_ONCE(f->held_count));
		break;
	case STATUSTYPE_TABLE:
		DMEMIT("%s %llu", f->dev->name, (unsigned long long)f->offset);
		break;
	case STATUSTYPE_IMA:
		DMEMIT_TARGET_NAME_VERSION(ti->type);
		DMEMIT(",device_name=%s,offset=%llu;", f->dev->name,
		       (unsigned long long)f->offset);
		break;
	}
}

static int forget_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn, void *data)
{
	struct forget *f = ti->private;

	return fn(ti, f->dev, f->offset, ti->len, data);
}

static void forget_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	/* The cache takes discards as zeroes, whatever lies below. */
	limits->max_discard_sectors = UINT_MAX >> SECTOR_SHIFT;
	limits->max_hw_discard_sectors = UINT_MAX >> SECTOR_SHIFT;
	limits->discard_granularity = limits->logical_block_size;
	limits->discard_alignment = 0;
}

static struct target_type forget_target = {
	.name = "forget",
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = forget_ctr,
	.dtr = forget_dtr,
	.map = forget_map,
	.end_io = forget_end_io,
	.message = forget_message,
	.status = forget_status,
	.iterate_devices = forget_iterate_devices,
	.io_hints = forget_io_hints,
};

static int __init forget_init(void)
{
	return dm_register_target(&forget_target);
}

static void __exit forget_exit(void)
{
	dm_unregister_target(&forget_target);
}

module_init(forget_init);
module_exit(forget_exit);

MODULE_DESCRIPTION("device-mapper disk with a volatile write cache, for tests");
MODULE_LICENSE("GPL");
