// SPDX-License-Identifier: GPL-2.0-only
/*
 * The daemon's commands on regions (GRANT, REFUSE, REAP, BITS). region.c describes the life of a
 * region's word, and why CLOSED is a proof; record.c makes the records for the daemon.
 *
 * Must never: need memory.
 *
 * All of it runs under a->ctl_mutex; a bucket's lock is taken inside it.
 */
#include <linux/bitops.h>
#include <linux/blk_types.h>
#include <linux/sched.h>

#include "gate.h"
#include "record.h"
#include "region-word.h"

#define DDR_RESCHED_MASK	1023		/* regions between two cond_resched() */

static void ddr_region_resched(u64 region)
{
	if (!(region & DDR_RESCHED_MASK))
		cond_resched();
}

static bool ddr_regions_valid(struct ddr_array *a, u64 start, u64 count)
{
	return count && start < a->regions && count <= a->regions - start;
}

/* Under the bucket's lock: moves those that wait for @region to @to. */
static void ddr_park_take(struct ddr_park_bucket *b, u64 region, struct list_head *to)
{
	struct ddr_wait *w, *next;

	lockdep_assert_held(&b->lock);
	list_for_each_entry_safe(w, next, &b->waits, list)
		if (w->region == region)
			list_move_tail(&w->list, to);
}

/* ---- closing ------------------------------------------------------------------------- */

/* Called for a grant that was just given up: no other thread closes the region. */
static void ddr_region_closed(struct ddr_array *a, u64 region)
{
	struct ddr_regions *rs = a->regions_state;

	lockdep_assert_held(&a->ctl_mutex);
	atomic64_dec(&rs->granted);
	ddr_map_set(&rs->closed, region);
	ddr_channel_wake(a);
}

static u64 ddr_word_closed(u64 w)
{
	return (w & ~(DDR_W_GRANTED | DDR_W_TOUCHED)) | DDR_W_CLOSED;
}

int ddr_region_reap(struct ddr_array *a, u64 seq, u64 max)
{
	struct ddr_regions *rs = a->regions_state;
	u64 i, w, r = rs->hand;

	lockdep_assert_held(&a->ctl_mutex);
	if (!max)
		return -EINVAL;
	if (rs->reap_due)
		return -EBUSY;
	rs->reaped = 0;
	for (i = 0; i < a->regions && rs->reaped < max; i++, r++) {
		ddr_region_resched(i);
		if (r == a->regions)
			r = 0;
		w = ddr_word(rs, r);
		if (!ddr_word_open(w) || (w & DDR_W_COUNT))
			continue;
		if (w & DDR_W_TOUCHED) {
			/* if it fails the region is in use, and keeps the bit */
			ddr_word_change(rs, r, &w, w & ~DDR_W_TOUCHED);
		} else if (ddr_word_change(rs, r, &w, ddr_word_closed(w))) {
			ddr_region_closed(a, r);
			rs->reaped++;
		}
	}
	rs->hand = r == a->regions ? 0 : r;
	rs->reap_seq = seq;
	rs->reap_due = true;
	ddr_channel_wake(a);
	return 0;
}

void ddr_region_close_all(struct ddr_array *a)
{
	struct ddr_regions *rs = a->regions_state;
	u64 r, w;

	lockdep_assert_held(&a->ctl_mutex);
	for (r = 0; r < a->regions; r++) {
		ddr_region_resched(r);
		w = ddr_word(rs, r);
		if (!ddr_word_open(w) || WARN_ON_ONCE(w & DDR_W_COUNT))
			continue;
		if (ddr_word_change(rs, r, &w, ddr_word_closed(w)))
			ddr_region_closed(a, r);
	}
}

/* ---- answers of the daemon -------------------------------------------------------------- */

static bool ddr_word_answers(u64 w, u64 seq)
{
	return (w & DDR_W_SENT) && w >> DDR_W_SEQ_SHIFT == seq;
}

int ddr_region_grant(struct ddr_array *a, u64 seq, u64 start, u64 count)
{
	struct ddr_regions *rs = a->regions_state;
	LIST_HEAD(run);
	u64 r, w, new;

	lockdep_assert_held(&a->ctl_mutex);
	if (!ddr_regions_valid(a, start, count))
		return -ERANGE;
	if (!rs->declared)
		return -EBUSY;
	for (r = start; seq && r < start + count; r++) {
		w = ddr_word(rs, r);
		if (!(w & DDR_W_GRANTED) && !ddr_word_answers(w, seq))
			return -ENOENT;
	}
	for (r = start; r < start + count; r++) {
		ddr_region_resched(r);
		w = ddr_word(rs, r);
		do {
			/* granted already; or CLOSED has been sent and makes this void */
			if (w & (DDR_W_GRANTED | DDR_W_CLOSED))
				break;
			new = (w & ~(DDR_W_REQUEST | DDR_W_ERROR)) | DDR_W_GRANTED;
			if ((w & (DDR_W_WANT | DDR_W_AHEAD)) == DDR_W_WANT)
				new |= DDR_W_TOUCHED;
		} while (!ddr_word_change(rs, r, &w, new));
		if (w & (DDR_W_GRANTED | DDR_W_CLOSED))
			continue;
		atomic64_inc(&rs->granted);
		if (w & DDR_W_WANT) {
			struct ddr_park_bucket *b = ddr_park_bucket(rs, r);

			spin_lock_irq(&b->lock);
			ddr_park_take(b, r, &run);
			spin_unlock_irq(&b->lock);
		}
	}
	ddr_waits_over(a, &run);
	return 0;
}

/*
 * One region of a REFUSE. It does not apply to writes that came after a LOCK that was sent as
 * read-ahead: they get a LOCK of their own.
 */
static void ddr_region_refuse_one(struct ddr_array *a, u64 region, struct list_head *end)
{
	struct ddr_regions *rs = a->regions_state;
	struct ddr_park_bucket *b = ddr_park_bucket(rs, region);
	bool again = false;
	LIST_HEAD(waits);
	u64 w, new;

	lockdep_assert_held(&a->ctl_mutex);
	spin_lock_irq(&b->lock);
	ddr_park_take(b, region, &waits);
	w = ddr_word(rs, region);
	do {
		again = (w & DDR_W_AHEAD) && !list_empty(&waits);
		new = w & ~DDR_W_REQUEST;
		if (again)
			new |= DDR_W_WANT;
	} while (!ddr_word_change(rs, region, &w, new));
	list_splice_tail(&waits, again ? &b->waits : end);
	spin_unlock_irq(&b->lock);
	if (again)
		ddr_region_request(a, region);
}

int ddr_region_refuse(struct ddr_array *a, u64 seq, u64 start, u64 count, int error)
{
	struct ddr_regions *rs = a->regions_state;
	LIST_HEAD(end);
	u64 r;

	lockdep_assert_held(&a->ctl_mutex);
	if (!ddr_regions_valid(a, start, count))
		return -ERANGE;
	if (!rs->declared)
		return -EBUSY;
	for (r = start; seq && r < start + count; r++)
		if (!ddr_word_answers(ddr_word(rs, r), seq))
			return -ENOENT;
	for (r = start; r < start + count; r++) {
		ddr_region_resched(r);
		ddr_region_refuse_one(a, r, &end);
	}
	ddr_waits_end(a, &end, errno_to_blk_status(error));
	return 0;
}

int ddr_region_set_bits(struct ddr_array *a, u64 start, u64 count, u32 bits)
{
	struct ddr_regions *rs = a->regions_state;
	u64 r;

	lockdep_assert_held(&a->ctl_mutex);
	if (!ddr_regions_valid(a, start, count))
		return -ERANGE;
	if (bits & ~(DDR_RB_CLEAN | DDR_RB_SUSPECT_ERROR))
		return -EINVAL;
	for (r = start; r < start + count; r++) {
		ddr_region_resched(r);
		assign_bit(r, rs->clean, bits & DDR_RB_CLEAN);
		assign_bit(r, rs->suspect, bits & DDR_RB_SUSPECT_ERROR);
	}
	return 0;
}

void ddr_region_set_ahead(struct ddr_array *a, u32 regions)
{
	WRITE_ONCE(a->regions_state->ahead, regions);
}
