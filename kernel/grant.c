// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regions, as the daemon sees them: its commands (GRANT, REFUSE, REAP, BITS), and the records that
 * it is told (HELD, LOCK, CLOSED, REAPED). region.c has the life of a region's word, and why CLOSED
 * is a proof.
 *
 * Must never: need memory; tell a LOCK before the CLOSED of the same region was read.
 *
 * All of it runs under a->ctl_mutex; a bucket's lock is taken inside it.
 */
#include <linux/bitmap.h>
#include <linux/blk_types.h>
#include <linux/mm.h>
#include <linux/sched.h>

#include "gate.h"
#include "record.h"
#include "region-word.h"

#define DDR_RESCHED_MASK	1023		/* regions between two cond_resched() */

static bool ddr_regions_valid(struct ddr_array *a, u64 start, u64 count)
{
	return count && start < a->regions && count <= a->regions - start;
}

static void ddr_region_resched(u64 region)
{
	if (!(region & DDR_RESCHED_MASK))
		cond_resched();
}

/* ---- sets of regions to be told ---------------------------------------------------- */

static void ddr_map_clear(struct ddr_region_map *map, u64 region)
{
	if (test_and_clear_bit(region, map->bits))
		atomic_dec(&map->nr);
}

/* The next region of the set, from where the last search ended, around; a->regions if none. */
static u64 ddr_map_next(struct ddr_array *a, struct ddr_region_map *map)
{
	u64 r;

	if (atomic_read(&map->nr) <= 0)
		return a->regions;
	r = find_next_bit(map->bits, a->regions, map->cursor);
	if (r >= a->regions)
		r = find_first_bit(map->bits, a->regions);
	map->cursor = r;
	return r;
}

/* Under the bucket's lock: moves the bios of @region to @to. */
static void ddr_park_take(struct ddr_park_bucket *b, u64 region, struct bio_list *to)
{
	struct bio_list keep = BIO_EMPTY_LIST;
	struct bio *bio;

	lockdep_assert_held(&b->lock);
	while ((bio = bio_list_pop(&b->bios)))
		bio_list_add((unsigned long)bio->bi_private == region ? to : &keep, bio);
	b->bios = keep;
}

/* ---- closing ------------------------------------------------------------------------- */

/* Under the grant that was just given up: nobody else closes it. */
static void ddr_region_closed(struct ddr_array *a, u64 region)
{
	struct ddr_regions *rs = a->regions_state;

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
			/* if it fails the region is in use: it keeps the bit */
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
	struct bio_list run = BIO_EMPTY_LIST;
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
			/* granted already; or CLOSED is on its way and makes this void */
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
	ddr_array_rerun(a, &run);
	return 0;
}

/*
 * One region of a REFUSE. Bios that came after a LOCK that was sent as read-ahead were
 * not meant: they get a LOCK of their own.
 */
static void ddr_region_refuse_one(struct ddr_array *a, u64 region, struct bio_list *end)
{
	struct ddr_regions *rs = a->regions_state;
	struct ddr_park_bucket *b = ddr_park_bucket(rs, region);
	struct bio_list bios = BIO_EMPTY_LIST;
	bool again = false;
	u64 w, new;

	spin_lock_irq(&b->lock);
	ddr_park_take(b, region, &bios);
	w = ddr_word(rs, region);
	do {
		again = (w & DDR_W_AHEAD) && !bio_list_empty(&bios);
		new = w & ~DDR_W_REQUEST;
		if (again)
			new |= DDR_W_WANT;
	} while (!ddr_word_change(rs, region, &w, new));
	bio_list_merge(again ? &b->bios : end, &bios);
	spin_unlock_irq(&b->lock);
	if (again) {
		ddr_map_set(&rs->lock, region);
		ddr_channel_wake(a);
	}
}

int ddr_region_refuse(struct ddr_array *a, u64 seq, u64 start, u64 count, int error)
{
	struct ddr_regions *rs = a->regions_state;
	struct bio_list end = BIO_EMPTY_LIST;
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
	ddr_park_end(a, &end, errno_to_blk_status(error));
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

/* ---- records for the daemon --------------------------------------------------------------- */

void ddr_region_declare(struct ddr_array *a)
{
	struct ddr_regions *rs = a->regions_state;
	u64 r, w, new;

	lockdep_assert_held(&a->ctl_mutex);
	for (r = 0; r < a->regions; r++) {
		ddr_region_resched(r);
		w = ddr_word(rs, r);
		if (!(w & (DDR_W_CLOSED | DDR_W_WANT)))
			continue;
		do {
			new = w;
			/* not declared held: the daemon resyncs it */
			if (w & DDR_W_CLOSED)
				new &= ~(DDR_W_CLOSED | DDR_W_ERROR);
		} while (!ddr_word_change(rs, r, &w, new));
		ddr_map_clear(&rs->closed, r);
		if (new & DDR_W_WANT)
			ddr_map_set(&rs->lock, r);
	}
	rs->reap_due = false;
	rs->declared = false;
	rs->held_cursor = 0;
	rs->held = 0;
}

bool ddr_region_declared(struct ddr_array *a)
{
	lockdep_assert_held(&a->ctl_mutex);
	return a->regions_state->declared;
}

bool ddr_region_pending(struct ddr_array *a)
{
	struct ddr_regions *rs = a->regions_state;

	if (!READ_ONCE(rs->declared) || READ_ONCE(rs->reap_due) || atomic_read(&rs->closed.nr) > 0)
		return true;
	return !READ_ONCE(a->gone) && atomic_read(&rs->lock.nr) > 0;
}

static void ddr_rec_init(struct ddr_rec *rec, u32 type, u64 seq, u64 start, u64 count)
{
	*rec = (struct ddr_rec) {
		.type = type, .seq = seq, .start = start, .count = count, .member = DDR_NO_MEMBER,
	};
}

unsigned int ddr_region_fill_held(struct ddr_array *a, struct ddr_rec *rec, unsigned int n)
{
	struct ddr_regions *rs = a->regions_state;
	unsigned int k = 0;
	u64 r;

	lockdep_assert_held(&a->ctl_mutex);
	if (rs->declared)
		return 0;
	for (r = rs->held_cursor; r < a->regions; r++) {
		ddr_region_resched(r);
		if (!(ddr_word(rs, r) & DDR_W_GRANTED))
			continue;
		if (k && rec[k - 1].start + rec[k - 1].count == r)
			rec[k - 1].count++;
		else if (k < n)
			ddr_rec_init(&rec[k++], DDR_K_HELD, 0, r, 1);
		else
			break;
		rs->held++;
	}
	rs->held_cursor = r;
	if (r == a->regions && k < n) {
		ddr_rec_init(&rec[k++], DDR_K_HELD_END, 0, 0, rs->held);
		rs->declared = true;
	}
	return k;
}

unsigned int ddr_region_fill_closed(struct ddr_array *a, struct ddr_rec *rec, unsigned int n)
{
	struct ddr_regions *rs = a->regions_state;
	unsigned int k = 0;
	u64 r;

	lockdep_assert_held(&a->ctl_mutex);
	while ((r = ddr_map_next(a, &rs->closed)) < a->regions) {
		struct ddr_rec *last = k ? &rec[k - 1] : NULL;
		u64 w = ddr_word(rs, r);
		s32 status = w & DDR_W_ERROR ? -EIO : 0;

		if (WARN_ON_ONCE(!(w & DDR_W_CLOSED))) {
			/* nothing to tell: bits and words change together, under ctl_mutex */
		} else if (last && last->start + last->count == r && last->status == status) {
			last->count++;
		} else if (k < n) {
			ddr_rec_init(&rec[k], DDR_K_CLOSED, 0, r, 1);
			rec[k++].status = status;
		} else {
			return k;
		}
		ddr_map_clear(&rs->closed, r);
	}
	if (rs->reap_due && k < n) {
		ddr_rec_init(&rec[k++], DDR_K_REAPED, rs->reap_seq,
			     atomic64_read(&rs->granted), rs->reaped);
		rs->reap_due = false;
	}
	return k;
}

/* The word of @region as it is sent with @seq, or 0 if there is nothing to be asked for. */
static u64 ddr_region_send(struct ddr_regions *rs, u64 region, u64 seq)
{
	u64 w = ddr_word(rs, region), new;

	do {
		if (!(w & DDR_W_WANT) || (w & DDR_W_CLOSED))
			return 0;
		new = w;
		if (!(w & DDR_W_SENT))
			new |= DDR_W_SENT | seq << DDR_W_SEQ_SHIFT;
	} while (!ddr_word_change(rs, region, &w, new));
	/* what it was before tells a request that is sent again */
	return w & DDR_W_SENT ? w : new & ~DDR_W_SENT;
}

static u32 ddr_region_next_seq(struct ddr_regions *rs)
{
	u32 seq = (rs->last_seq + 1) & (DDR_W_SEQ >> DDR_W_SEQ_SHIFT);

	return seq ? seq : 1;
}

unsigned int ddr_region_fill_lock(struct ddr_array *a, struct ddr_rec *rec, unsigned int n)
{
	struct ddr_regions *rs = a->regions_state;
	unsigned int k = 0;
	u64 r, w, seq;

	lockdep_assert_held(&a->ctl_mutex);
	if (a->gone)
		return 0;
	while (k < n && (r = ddr_map_next(a, &rs->lock)) < a->regions) {
		struct ddr_rec *last = k ? &rec[k - 1] : NULL;
		bool follows = last && last->start + last->count == r;

		ddr_map_clear(&rs->lock, r);
		seq = ddr_region_next_seq(rs);
		if (follows && !(last->flags & DDR_F_RESENT))
			seq = last->seq;
		w = ddr_region_send(rs, r, seq);
		if (!w)
			continue;
		if (!(w & DDR_W_SENT))
			rs->last_seq = seq;
		seq = w >> DDR_W_SEQ_SHIFT;
		if (follows && last->seq == seq) {
			last->count++;
			if (!(w & DDR_W_AHEAD))
				last->flags &= ~DDR_F_AHEAD;
			continue;
		}
		ddr_rec_init(&rec[k], DDR_K_LOCK, seq, r, 1);
		rec[k].flags = w & DDR_W_AHEAD ? DDR_F_AHEAD : 0;
		rec[k++].flags |= w & DDR_W_SENT ? DDR_F_RESENT : 0;
	}
	return k;
}

void ddr_region_sent(struct ddr_array *a, const struct ddr_rec *rec)
{
	struct ddr_regions *rs = a->regions_state;
	u64 r, w;

	lockdep_assert_held(&a->ctl_mutex);
	if (rec->type != DDR_K_CLOSED)
		return;
	for (r = rec->start; r < rec->start + rec->count; r++) {
		ddr_region_resched(r);
		w = atomic64_fetch_and(~(DDR_W_CLOSED | DDR_W_ERROR), &rs->word[r]);
		if (w & DDR_W_WANT) {
			ddr_map_set(&rs->lock, r);
			ddr_channel_wake(a);
		}
	}
}
