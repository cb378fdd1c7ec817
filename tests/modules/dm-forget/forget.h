/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dm-forget: declarations that its parts share. The target is described in target.c.
 *
 * Locking: "lock" (mutex) guards the cache and the bad sectors, and is never held
 * over I/O. "queue_lock" (spinlock, irqs off) guards the lists. All writes to
 * the device below are made by one worker, one batch after the other, so that
 * an older version of a sector can never overtake a newer one.
 */
#ifndef DM_FORGET_H
#define DM_FORGET_H

#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/completion.h>
#include <linux/device-mapper.h>
#include <linux/hrtimer.h>
#include <linux/mutex.h>
#include <linux/slab.h>
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

/* The part of the cache that a write-out takes; PICK_LEAK and the coins need a seed. */
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

struct forget {
	struct dm_target *ti;
	struct dm_dev *dev;
	sector_t offset;
	bool through;			/* no cache */

	struct mutex lock;
	struct xarray cache;		/* unit number -> struct unit */
	struct xarray bad;		/* unit number -> bad sectors, by kind */
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
	bool strict;
	u16 prio;			/* of the last I/O */
	atomic64_t background;
	unsigned int fail;
	unsigned int delay_ms;
	unsigned int spread_ms;
	unsigned int leak_percent;
	u64 leak_seed;
	u64 limit_sectors;
	atomic_t destaging;

	atomic64_t reads, writes, flushes, fua, zeroes;
	atomic64_t read_bytes, written_bytes;
};

static inline struct forget_io *io_of(struct bio *bio)
{
	return dm_per_bio_data(bio, sizeof(struct forget_io));
}

/* The whole cache. */
static inline struct selection everything(struct forget *f)
{
	return (struct selection){ .end = f->ti->len, .pick = PICK_ALL };
}

/* cache.c */
u8 unit_mask(unsigned long index, sector_t start, sector_t end);
void unit_cleaned(struct forget *f, unsigned long index, struct unit *unit, u8 mask);
u8 bad_mask(struct forget *f, unsigned long index);
u8 bad_plain(struct forget *f, unsigned long index);
int bad_add(struct forget *f, unsigned long index, u8 mask, bool plain);
void bad_heal(struct forget *f, unsigned long index, u8 mask);
void drop_cache(struct forget *f);
void copy_bio(struct forget *f, struct bio *bio, sector_t start, bool to_cache);
struct overlay *overlay_make(struct forget *f, sector_t start, sector_t end);
void overlay_apply(struct bio *bio, struct forget_io *io);
blk_status_t cache_write(struct forget *f, struct bio *bio, sector_t start, sector_t end,
			 bool zero, u32 *id);

/* writeout.c */
void work_on_jobs(struct work_struct *work);
void job_queue(struct forget *f, struct job *job);
void leak(struct forget *f, sector_t start, sector_t end, u32 id);
void destage(struct forget *f);

/* serve.c */
void work_on_release(struct work_struct *work);
void delay_timer_setup(struct forget *f);
int forget_map(struct dm_target *ti, struct bio *bio);
int forget_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error);

#endif
