// SPDX-License-Identifier: GPL-2.0-only
/*
 * Block ranges in flight on this node: the order of overlapping ones, and EX.
 *
 * Each range lies in one unit. The list of its bucket holds it from its request until it is
 * released, in the order of arrival. A range may run once nothing ahead of it in the list
 * conflicts with it; so a waiter is overtaken only by later ranges that do not overlap it (no
 * starvation). An EX range is one writer for each unit that it touches, all queued at once; it
 * is drained when the last of them is locked.
 *
 * Must never: let two overlapping ranges run unless both read; forget a waiter; touch the bio of
 * a range.
 *
 * A bio whose member write failed keeps its range until the daemon has resolved the error, so a
 * DRAIN that covers it is answered after that.
 *
 * Locks: ex_mutex guards the list of EX ranges; inside it a bucket's spinlock guards the
 * bucket's list, ->locked, and ex->waiting; one bucket at a time.
 */
#include <linux/bitmap.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "gate.h"
#include "range.h"
#include "trace.h"

#define DDR_RANGE_BUCKET_BITS	10
#define DDR_UNIT_BLOCKS		(1u << DDR_GEO_UNIT_SHIFT)

struct ddr_range_bucket {
	spinlock_t		lock;		/* protects the list, and ->locked in it */
	unsigned int		waiting;
	unsigned int		ex;		/* pieces of EX ranges in the list */
	struct list_head	list;
};

struct ddr_ex {
	struct list_head	list;		/* in ranges->ex */
	u64			seq;
	atomic_t		waiting;	/* pieces that are not locked yet */
	bool			drained;	/* DRAINED was queued */
	bool			orphan;		/* its daemon is gone; its seq is invalid */
	unsigned int		pieces;
	struct ddr_krec		krec;
	struct ddr_range	piece[];
};

struct ddr_ranges {
	struct ddr_array	*array;
	struct mutex		ex_mutex;	/* protects the next three */
	struct list_head	ex;
	unsigned int		nr_ex;		/* number of them without orphans */
	unsigned int		nr_orphans;
	struct work_struct	ex_work;
	struct ddr_range_bucket	bucket[1 << DDR_RANGE_BUCKET_BITS];
};

static struct ddr_range_bucket *ddr_range_bucket(struct ddr_ranges *rs, const struct ddr_range *r)
{
	return &rs->bucket[hash_64(r->start >> DDR_GEO_UNIT_SHIFT, DDR_RANGE_BUCKET_BITS)];
}

static bool ddr_range_conflicts(const struct ddr_range *a, const struct ddr_range *b)
{
	return (a->write || b->write) &&
	       a->start < b->start + b->count && b->start < a->start + a->count;
}

/*
 * Under the bucket's lock: is there an EX range ahead of @r, which is not in the list yet, that
 * it has to wait for? Only the daemon ends an EX range.
 */
static bool ddr_range_behind_ex(const struct ddr_range_bucket *b, const struct ddr_range *r)
{
	const struct ddr_range *o;

	lockdep_assert_held(&b->lock);
	if (!b->ex)
		return false;
	list_for_each_entry(o, &b->list, list)
		if (o->ex && ddr_range_conflicts(o, r))
			return true;
	return false;
}

/* Under the bucket's lock: is there anything ahead of @r in the list that it has to wait for? */
static bool ddr_range_blocked(const struct ddr_range_bucket *b, const struct ddr_range *r)
{
	const struct ddr_range *o;

	lockdep_assert_held(&b->lock);
	list_for_each_entry(o, &b->list, list) {
		ddr_point_fails(DDR_PT_RANGE_STEP);
		if (o == r)
			return false;
		if (ddr_range_conflicts(o, r))
			return true;
	}
	return false;
}

/* Under the bucket's lock. The I/O may run, and @r be freed, before this returns. */
static void ddr_range_notify(struct ddr_ranges *rs, struct ddr_range *r)
{
	lockdep_assert_held(&ddr_range_bucket(rs, r)->lock);
	if (!r->ex) {
		if (r->locked)
			trace_ddraid_range_locked(rs->array, r->start, r->count, r->write);
		ddr_wait_over(rs->array, r->wait);
	} else if (atomic_dec_and_test(&r->ex->waiting)) {
		queue_work(rs->array->ctl_wq, &rs->ex_work);
	}
}

/* The blocks of one unit that the ranges passed so far hold or wait for. */
struct ddr_range_cover {
	DECLARE_BITMAP(read, DDR_UNIT_BLOCKS);
	DECLARE_BITMAP(write, DDR_UNIT_BLOCKS);
};

static u32 ddr_range_first(const struct ddr_range *r)
{
	return r->start & (DDR_UNIT_BLOCKS - 1);
}

/* Is any block of @r in @bits? */
static bool ddr_range_meets(const unsigned long *bits, const struct ddr_range *r)
{
	u32 end = ddr_range_first(r) + r->count;

	return find_next_bit(bits, end, ddr_range_first(r)) < end;
}

/*
 * Under the bucket's lock, after @gone has left the list: locks the waiters that were held back
 * by it and by nothing else.
 */
static void ddr_range_advance(struct ddr_ranges *rs, struct ddr_range_bucket *b,
			      const struct ddr_range *gone)
{
	struct ddr_range_cover cover = { };
	u32 first = ddr_range_first(gone), end = first + gone->count;
	struct ddr_range *r;

	lockdep_assert_held(&b->lock);
	if (!b->waiting)
		return;
	list_for_each_entry(r, &b->list, list) {
		ddr_point_fails(DDR_PT_RANGE_STEP);
		if ((r->start ^ gone->start) >> DDR_GEO_UNIT_SHIFT)
			continue;
		if (!r->locked && !ddr_range_meets(cover.write, r) &&
		    !(r->write && ddr_range_meets(cover.read, r))) {
			r->locked = 1;
			b->waiting--;
			ddr_range_notify(rs, r);
			if (!b->waiting)
				return;
		}
		bitmap_set(r->write ? cover.write : cover.read, ddr_range_first(r), r->count);
		/* a later range that overlapped @gone overlaps one of these */
		if (find_next_zero_bit(cover.write, end, first) >= end)
			return;
	}
}

enum ddr_turn ddr_range_lock(struct ddr_array *a, struct ddr_range *r, struct ddr_wait *w)
{
	struct ddr_ranges *rs = a->ranges;
	struct ddr_range_bucket *b = ddr_range_bucket(rs, r);
	enum ddr_turn turn = DDR_GO;
	enum ddr_reason reason;
	unsigned long irq;

	r->ex = NULL;
	spin_lock_irqsave(&b->lock, irq);
	r->locked = !ddr_range_blocked(b, r);
	if (!r->locked) {
		reason = ddr_range_behind_ex(b, r) ? DDR_WAIT_EX : DDR_WAIT_RANGE;
		turn = ddr_wait_begin(a, w, reason, NULL) ? DDR_WAIT : DDR_END;
		r->wait = w;
	}
	if (turn != DDR_END) {
		list_add_tail(&r->list, &b->list);
		b->waiting += !r->locked;
	}
	spin_unlock_irqrestore(&b->lock, irq);
	return turn;
}

void ddr_range_unlock(struct ddr_array *a, struct ddr_range *r)
{
	struct ddr_ranges *rs = a->ranges;
	struct ddr_range_bucket *b = ddr_range_bucket(rs, r);
	unsigned long irq;

	spin_lock_irqsave(&b->lock, irq);
	list_del(&r->list);
	if (!r->locked)
		b->waiting--;
	r->locked = 0;
	b->ex -= !!r->ex;
	ddr_range_advance(rs, b, r);
	spin_unlock_irqrestore(&b->lock, irq);
}

void ddr_range_ask_again(struct ddr_array *a)
{
	struct ddr_ranges *rs = a->ranges;
	struct ddr_range_bucket *b;
	struct ddr_range *r, *n;
	LIST_HEAD(taken);

	for (b = rs->bucket; b < rs->bucket + ARRAY_SIZE(rs->bucket); b++) {
		spin_lock_irq(&b->lock);
		if (b->waiting) {
			list_for_each_entry_safe(r, n, &b->list, list) {
				if (r->locked || r->ex)
					continue;
				list_move_tail(&r->list, &taken);
				b->waiting--;
			}
			/* ranges that only waited for one of these */
			list_for_each_entry(r, &taken, list)
				ddr_range_advance(rs, b, r);
		}
		/* still under the lock, so nobody sees the list in between */
		list_for_each_entry_safe(r, n, &taken, list) {
			list_del(&r->list);
			ddr_range_notify(rs, r);
		}
		spin_unlock_irq(&b->lock);
		cond_resched();
	}
}

/* ---- EX -------------------------------------------------------------------------- */

/* Queues DRAINED for each EX range that nothing holds back any more. */
static void ddr_ex_work(struct work_struct *work)
{
	struct ddr_ranges *rs = container_of(work, struct ddr_ranges, ex_work);
	struct ddr_array *a = rs->array;
	struct ddr_ex *ex;

	mutex_lock(&rs->ex_mutex);
	list_for_each_entry(ex, &rs->ex, list) {
		if (ex->drained || ex->orphan || atomic_read(&ex->waiting))
			continue;
		ex->drained = true;
		ddr_channel_queue(a, &ex->krec);
	}
	mutex_unlock(&rs->ex_mutex);
}

static struct ddr_ex *ddr_ex_alloc(u64 seq, u64 start, u64 count)
{
	u64 first = start >> DDR_GEO_UNIT_SHIFT, last = (start + count - 1) >> DDR_GEO_UNIT_SHIFT;
	unsigned int pieces = last - first + 1, i;
	struct ddr_ex *ex = ddr_alloc(kvzalloc(struct_size(ex, piece, pieces), GFP_NOIO));

	if (!ex)
		return NULL;
	ex->seq = seq;
	ex->pieces = pieces;
	atomic_set(&ex->waiting, pieces + 1);
	INIT_LIST_HEAD(&ex->krec.link);
	ex->krec.rec = (struct ddr_rec) {
		.type = DDR_K_DRAINED, .seq = seq, .start = start, .count = count,
		.member = DDR_NO_MEMBER,
	};
	for (i = 0; i < pieces; i++) {
		struct ddr_range *r = &ex->piece[i];
		u64 end = min((first + i + 1) << DDR_GEO_UNIT_SHIFT, start + count);

		r->start = max((first + i) << DDR_GEO_UNIT_SHIFT, start);
		r->count = end - r->start;
		r->write = 1;
		r->ex = ex;
	}
	return ex;
}

static struct ddr_ex *ddr_ex_find(struct ddr_ranges *rs, u64 seq)
{
	struct ddr_ex *ex;

	lockdep_assert_held(&rs->ex_mutex);
	list_for_each_entry(ex, &rs->ex, list)
		if (ex->seq == seq && !ex->orphan)
			return ex;
	return NULL;
}

static void ddr_ex_queue_piece(struct ddr_ranges *rs, struct ddr_range *r)
{
	struct ddr_range_bucket *b = ddr_range_bucket(rs, r);

	spin_lock_irq(&b->lock);
	list_add_tail(&r->list, &b->list);
	b->ex++;
	r->locked = !ddr_range_blocked(b, r);
	if (r->locked)
		ddr_range_notify(rs, r);
	else
		b->waiting++;
	spin_unlock_irq(&b->lock);
}

int ddr_range_drain(struct ddr_array *a, u64 seq, u64 start, u64 count)
{
	struct ddr_ranges *rs = a->ranges;
	struct ddr_ex *ex;
	unsigned int i;
	int r = 0;

	lockdep_assert_held(&a->ctl_mutex);
	if (!count || count > DDR_EX_MAX_BLOCKS || start >= a->blocks || count > a->blocks - start)
		return -ERANGE;
	mutex_lock(&rs->ex_mutex);
	if (ddr_ex_find(rs, seq))
		r = -EEXIST;
	else if (rs->nr_ex >= DDR_EX_MAX || rs->nr_ex + rs->nr_orphans >= 2 * DDR_EX_MAX)
		r = -ENOSPC;
	mutex_unlock(&rs->ex_mutex);
	if (r)
		return r;
	ex = ddr_ex_alloc(seq, start, count);	/* ctl_mutex keeps other commands out */
	if (!ex)
		return -ENOMEM;
	mutex_lock(&rs->ex_mutex);
	list_add_tail(&ex->list, &rs->ex);
	rs->nr_ex++;
	for (i = 0; i < ex->pieces; i++) {
		ddr_ex_queue_piece(rs, &ex->piece[i]);
		cond_resched();
	}
	mutex_unlock(&rs->ex_mutex);
	/* drops the bias: the range could not be drained before it was complete */
	if (atomic_dec_and_test(&ex->waiting))
		queue_work(a->ctl_wq, &rs->ex_work);
	return 0;
}

/* Under ex_mutex. */
static void ddr_ex_end(struct ddr_array *a, struct ddr_ex *ex)
{
	unsigned int i;

	lockdep_assert_held(&a->ranges->ex_mutex);
	list_del(&ex->list);
	if (ex->orphan)
		a->ranges->nr_orphans--;
	else
		a->ranges->nr_ex--;
	for (i = 0; i < ex->pieces; i++) {
		ddr_range_unlock(a, &ex->piece[i]);
		cond_resched();
	}
	ddr_channel_unqueue(a, &ex->krec);
	kvfree(ex);
}

int ddr_range_release(struct ddr_array *a, u64 seq)
{
	struct ddr_ranges *rs = a->ranges;
	struct ddr_ex *ex;

	mutex_lock(&rs->ex_mutex);
	ex = ddr_ex_find(rs, seq);
	if (ex)
		ddr_ex_end(a, ex);
	mutex_unlock(&rs->ex_mutex);
	return ex ? 0 : -ENOENT;
}

/*
 * Under ex_mutex: does an orphan ahead of @ex cover all of it? Both end together, and everything
 * that waits for @ex came later than the orphan, so it waits for that one, too.
 */
static bool ddr_ex_covered(const struct ddr_ranges *rs, const struct ddr_ex *ex)
{
	u64 start = ex->krec.rec.start, end = start + ex->krec.rec.count;
	const struct ddr_ex *o;

	lockdep_assert_held(&rs->ex_mutex);
	list_for_each_entry(o, &rs->ex, list) {
		if (o == ex)
			break;
		if (o->krec.rec.start <= start && end <= o->krec.rec.start + o->krec.rec.count)
			return true;
	}
	return false;
}

void ddr_range_orphan_all(struct ddr_array *a)
{
	struct ddr_ranges *rs = a->ranges;
	struct ddr_ex *ex, *n;

	mutex_lock(&rs->ex_mutex);
	rs->nr_orphans += rs->nr_ex;
	rs->nr_ex = 0;
	list_for_each_entry_safe(ex, n, &rs->ex, list) {
		ex->orphan = true;
		/* each daemon that ends before it enables has declared the same ranges again */
		if (ddr_ex_covered(rs, ex))
			ddr_ex_end(a, ex);
	}
	mutex_unlock(&rs->ex_mutex);
}

void ddr_range_release_orphans(struct ddr_array *a)
{
	struct ddr_ranges *rs = a->ranges;
	struct ddr_ex *ex, *n;

	mutex_lock(&rs->ex_mutex);
	list_for_each_entry_safe(ex, n, &rs->ex, list)
		if (ex->orphan)
			ddr_ex_end(a, ex);
	mutex_unlock(&rs->ex_mutex);
}

int ddr_ranges_init(struct ddr_array *a)
{
	struct ddr_ranges *rs = ddr_alloc(kvzalloc(sizeof(*rs), GFP_KERNEL));
	struct ddr_range_bucket *b;

	if (!rs)
		return -ENOMEM;
	rs->array = a;
	mutex_init(&rs->ex_mutex);
	INIT_LIST_HEAD(&rs->ex);
	INIT_WORK(&rs->ex_work, ddr_ex_work);
	for (b = rs->bucket; b < rs->bucket + ARRAY_SIZE(rs->bucket); b++) {
		spin_lock_init(&b->lock);
		INIT_LIST_HEAD(&b->list);
	}
	a->ranges = rs;
	return 0;
}

void ddr_ranges_end(struct ddr_array *a)
{
	ddr_range_orphan_all(a);
	ddr_range_release_orphans(a);
}

void ddr_ranges_free(struct ddr_array *a)
{
	WARN_ON_ONCE(!list_empty(&a->ranges->ex));
	mutex_destroy(&a->ranges->ex_mutex);
	kvfree(a->ranges);
	a->ranges = NULL;
}
