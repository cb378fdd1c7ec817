// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records for the daemon: those embedded in the objects that they are about (struct ddr_krec),
 * those made from the words and sets of regions when the daemon reads (HELD, LOCK, CLOSED,
 * REAPED; region.c describes the life of a word, and why CLOSED is a proof), those of the
 * channel itself (SUSPEND, STOPPED, PONG); and their order.
 *
 * Must never: need memory; lose a record while its daemon is bound; send a LOCK before the
 * CLOSED of the same region was read.
 *
 * Records that are made when the daemon reads are made under a->ctl_mutex.
 */
#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/poll.h>
#include <linux/sched.h>

#include "channel.h"
#include "region-word.h"

/* ---- records in other objects --------------------------------------------------------------- */

void ddr_channel_wake(struct ddr_array *a)
{
	unsigned long irq;

	spin_lock_irqsave(&a->lock, irq);
	if (a->channel)
		wake_up_poll(&a->channel->wait, EPOLLIN | EPOLLRDNORM);
	spin_unlock_irqrestore(&a->lock, irq);
}

void ddr_channel_queue(struct ddr_array *a, struct ddr_krec *k)
{
	unsigned long irq;

	spin_lock_irqsave(&a->lock, irq);
	if (a->channel && list_empty(&k->link)) {
		list_add_tail(&k->link, &a->records);
		wake_up_poll(&a->channel->wait, EPOLLIN | EPOLLRDNORM);
	}
	spin_unlock_irqrestore(&a->lock, irq);
}

void ddr_channel_unqueue(struct ddr_array *a, struct ddr_krec *k)
{
	unsigned long irq;

	spin_lock_irqsave(&a->lock, irq);
	list_del_init(&k->link);
	spin_unlock_irqrestore(&a->lock, irq);
}

/* ---- sets of regions to be sent ------------------------------------------------------------- */

static void ddr_map_clear(struct ddr_region_map *map, u64 region)
{
	if (test_and_clear_bit(region, map->bits))
		atomic_dec(&map->nr);
}

/*
 * The next region of the set after the end of the last search, wrapping around; a->regions if
 * none.
 */
static u64 ddr_map_next(struct ddr_array *a, struct ddr_region_map *map)
{
	u64 r;

	lockdep_assert_held(&a->ctl_mutex);
	if (atomic_read(&map->nr) <= 0)
		return a->regions;
	r = find_next_bit(map->bits, a->regions, map->cursor);
	if (r >= a->regions)
		r = find_first_bit(map->bits, a->regions);
	map->cursor = r;
	return r;
}

/* ---- made when the daemon reads ------------------------------------------------------------- */

void ddr_region_declare(struct ddr_array *a)
{
	struct ddr_regions *rs = a->regions_state;
	u64 r, w, new;

	lockdep_assert_held(&a->ctl_mutex);
	for (r = 0; r < a->regions; r++) {
		cond_resched();
		w = ddr_word(rs, r);
		if (!(w & (DDR_W_CLOSED | DDR_W_WANT)))
			continue;
		do {
			new = w;
			/* not declared as held: the daemon resyncs it */
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

static unsigned int ddr_region_fill_held(struct ddr_array *a, struct ddr_rec *rec, unsigned int n)
{
	struct ddr_regions *rs = a->regions_state;
	unsigned int k = 0;
	u64 r;

	lockdep_assert_held(&a->ctl_mutex);
	if (rs->declared)
		return 0;
	for (r = rs->held_cursor; r < a->regions; r++) {
		cond_resched();
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

static unsigned int ddr_region_fill_closed(struct ddr_array *a, struct ddr_rec *rec, unsigned int n)
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
			/* nothing to send: bits and words change together, under ctl_mutex */
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

/* The word of @region as it is sent with @seq, or 0 if there is nothing to request. */
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
	/* the old word shows whether the request is sent again */
	return w & DDR_W_SENT ? w : new & ~DDR_W_SENT;
}

static u32 ddr_region_next_seq(struct ddr_regions *rs)
{
	u32 seq = (rs->last_seq + 1) & (DDR_W_SEQ >> DDR_W_SEQ_SHIFT);

	return seq ? seq : 1;
}

static unsigned int ddr_region_fill_lock(struct ddr_array *a, struct ddr_rec *rec, unsigned int n)
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
		cond_resched();
		w = atomic64_fetch_and(~(DDR_W_CLOSED | DDR_W_ERROR), &rs->word[r]);
		if (w & DDR_W_WANT)
			ddr_region_request(a, r);
	}
}

/* ---- their order ---------------------------------------------------------------------------- */

static unsigned int ddr_fill_state(struct ddr_channel *ch, struct ddr_rec *rec, unsigned int n)
{
	bool suspended = test_bit(DDR_A_SUSPENDED, &ch->array->flags);
	unsigned int k = 0;

	lockdep_assert_held(&ch->array->ctl_mutex);
	if (suspended != ch->told_suspended && k < n) {
		rec[k++] = (struct ddr_rec) {
			.type = DDR_K_SUSPEND, .status = suspended, .member = DDR_NO_MEMBER,
		};
		ch->told_suspended = suspended;
	}
	if (ddr_channel_stopped(ch) && k < n) {
		WRITE_ONCE(ch->told_stops, READ_ONCE(ch->array->stops));
		rec[k++] = (struct ddr_rec) {
			.type = DDR_K_STOPPED, .member = DDR_NO_MEMBER,
		};
	}
	if (ch->session.pong_due && k < n) {
		rec[k++] = (struct ddr_rec) {
			.type = DDR_K_PONG, .seq = ch->session.pong_seq, .member = DDR_NO_MEMBER,
		};
		ch->session.pong_due = false;
	}
	return k;
}

static unsigned int ddr_fill_ready(struct ddr_channel *ch, struct ddr_rec *rec, unsigned int n)
{
	struct ddr_array *a = ch->array;
	struct ddr_krec *k;
	unsigned int i = 0;

	lockdep_assert_held(&ch->array->ctl_mutex);
	spin_lock_irq(&a->lock);
	while (i < n && (k = list_first_entry_or_null(&ch->ready, struct ddr_krec, link))) {
		list_del_init(&k->link);
		rec[i++] = k->rec;
	}
	spin_unlock_irq(&a->lock);
	return i;
}

unsigned int ddr_channel_fill(struct ddr_channel *ch)
{
	struct ddr_array *a = ch->array;
	struct ddr_rec *out = ch->out;
	unsigned int n;

	lockdep_assert_held(&ch->rmutex);
	lockdep_assert_held(&a->ctl_mutex);
	n = ddr_region_fill_held(a, out, DDR_BATCH);
	if (!ddr_region_declared(a))
		return n;
	n += ddr_fill_state(ch, out + n, DDR_BATCH - n);
	/* what is queued now may depend on regions closed before: their CLOSED goes first */
	spin_lock_irq(&a->lock);
	list_splice_tail_init(&a->records, &ch->ready);
	spin_unlock_irq(&a->lock);
	n += ddr_region_fill_closed(a, out + n, DDR_BATCH - n);
	if (n < DDR_BATCH)
		n += ddr_fill_ready(ch, out + n, DDR_BATCH - n);
	n += ddr_region_fill_lock(a, out + n, DDR_BATCH - n);
	return n;
}
