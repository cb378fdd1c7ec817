// SPDX-License-Identifier: GPL-2.0-only
/*
 * Regions: which of them this node may write, and which writes are in flight in them.
 *
 * There is one 64-bit word for each region. A write to a granted region needs one atomic
 * operation when it starts and one when it ends, and no lock. Everything that is reported to the
 * daemon is a bit in a map (LOCK, CLOSED) or a cursor (HELD) that is turned into records when
 * the daemon reads: no memory is needed to request a grant, however many bios are parked.
 *
 * Must never: let a write start in a region that is not granted; report CLOSED while a write is
 * in flight there, or could start; forget that a member write failed; lose a bio.
 *
 * Why CLOSED is a proof: GRANTED and the number of writes in flight are in one word. A write is
 * counted by a compare-and-exchange that finds GRANTED. GRANTED is cleared by one that finds the
 * number 0, and only GRANT sets it again, which has no effect until the daemon has read CLOSED.
 * So between CLOSED and the next GRANT the number is 0. ERROR is kept from the first failed put
 * until CLOSED has reported it.
 *
 * Why no bio is lost: parking happens under the lock of the region's bucket, after a
 * compare-and-exchange that finds the region not granted and leaves WANT in it. GRANT and REFUSE
 * that find WANT take that lock afterwards, and so find the bio.
 *
 * The life of a word, without the count:
 *  0 -> WANT (LOCK has to be sent) -> WANT SENT seq -> GRANTED
 *  GRANTED (idle) -> CLOSED (not read yet) -> 0
 * WANT may be set together with CLOSED; its LOCK is sent only after CLOSED was read.
 *
 * Commands and fills run under a->ctl_mutex; a bucket's lock is taken inside it.
 */
#include <linux/blk_types.h>
#include <linux/mm.h>

#include "gate.h"
#include "record.h"
#include "region-word.h"

#define DDR_AHEAD_DEFAULT	2

/* ---- parking ------------------------------------------------------------------------ */

/*
 * A region is used for the first time since its grant, or waited for. If the previous region is
 * in use, this looks like a stream: requests the following ones. True: the daemon has to be
 * woken.
 */
static bool ddr_region_look_ahead(struct ddr_array *a, u64 region)
{
	struct ddr_regions *rs = a->regions_state;
	u64 used = DDR_W_GRANTED | DDR_W_TOUCHED, r, w;
	u64 end = min(region + READ_ONCE(rs->ahead), a->regions - 1);
	bool asked = false;

	if (end == region || !region || (ddr_word(rs, region - 1) & used) != used)
		return false;
	for (r = region + 1; r <= end; r++) {
		w = ddr_word(rs, r);
		while (!(w & (DDR_W_GRANTED | DDR_W_CLOSED | DDR_W_WANT))) {
			if (!ddr_word_change(rs, r, &w, w | DDR_W_WANT | DDR_W_AHEAD))
				continue;
			ddr_map_set(&rs->lock, r);
			asked = true;
			break;
		}
	}
	return asked;
}

/* Under the bucket's lock: true if the region was granted meanwhile and the write is counted. */
static bool ddr_region_want(struct ddr_regions *rs, u64 region, u64 *old)
{
	u64 w = ddr_word(rs, region), new;

	lockdep_assert_held(&ddr_park_bucket(rs, region)->lock);
	for (;;) {
		if (ddr_word_open(w)) {
			new = (w + 1) | DDR_W_TOUCHED;
		} else {
			new = w | DDR_W_WANT;
			if (!(w & DDR_W_SENT))
				new &= ~DDR_W_AHEAD;
		}
		if (ddr_word_change(rs, region, &w, new))
			break;
	}
	*old = w;
	return ddr_word_open(w);
}

void ddr_region_request(struct ddr_array *a, u64 region)
{
	ddr_map_set(&a->regions_state->lock, region);
	ddr_channel_wake(a);
}

static enum ddr_turn ddr_region_get_slow(struct ddr_array *a, u64 region, struct ddr_wait *wait)
{
	struct ddr_regions *rs = a->regions_state;
	struct ddr_park_bucket *b = ddr_park_bucket(rs, region);
	unsigned long irq;
	bool waits;
	u64 w;

	spin_lock_irqsave(&b->lock, irq);
	if (ddr_region_want(rs, region, &w)) {
		spin_unlock_irqrestore(&b->lock, irq);
		return DDR_GO;
	}
	wait->region = region;
	waits = ddr_wait_begin(a, wait, DDR_WAIT_REGION, &b->waits);
	spin_unlock_irqrestore(&b->lock, irq);
	/* LOCK must not overtake CLOSED: ddr_region_sent() requests it then */
	if (!(w & (DDR_W_WANT | DDR_W_CLOSED))) {
		/* first: a daemon that reads at this moment gets what is waited for before what is ahead */
		ddr_map_set(&a->regions_state->lock, region);
		ddr_region_look_ahead(a, region);
		ddr_region_request(a, region);
	}
	return waits ? DDR_WAIT : DDR_END;
}

enum ddr_turn ddr_region_get(struct ddr_array *a, u64 region, struct ddr_wait *wait)
{
	struct ddr_regions *rs = a->regions_state;
	u64 w;

	if (a->nosync)
		return DDR_GO;
	if (WARN_ON_ONCE(region >= a->regions)) {
		wait->status = BLK_STS_IOERR;
		return DDR_END;
	}
	w = ddr_word(rs, region);
	do {
		if (unlikely(!ddr_word_open(w)))
			return ddr_region_get_slow(a, region, wait);
	} while (!ddr_word_change(rs, region, &w, (w + 1) | DDR_W_TOUCHED));
	if (unlikely(!(w & DDR_W_TOUCHED)) && ddr_region_look_ahead(a, region))
		ddr_channel_wake(a);
	return DDR_GO;
}

void ddr_region_put(struct ddr_array *a, u64 region, bool error)
{
	struct ddr_regions *rs = a->regions_state;

	if (a->nosync)
		return;
	if (unlikely(error))
		atomic64_or(DDR_W_ERROR, &rs->word[region]);
	/* the write has ended before it is uncounted: pairs with the code that closes the grant */
	atomic64_dec_return_release(&rs->word[region]);
}

/* ---- the rest -------------------------------------------------------------------------------- */

u64 ddr_region_granted_count(struct ddr_array *a)
{
	return a->nosync ? 0 : atomic64_read(&a->regions_state->granted);
}

u32 ddr_region_bits(struct ddr_array *a, u64 region)
{
	struct ddr_regions *rs = a->regions_state;

	if (a->nosync)
		return 0;
	return (test_bit(region, rs->clean) ? DDR_RB_CLEAN : 0) |
	       (test_bit(region, rs->suspect) ? DDR_RB_SUSPECT_ERROR : 0);
}

void ddr_region_ask_again(struct ddr_array *a)
{
	struct ddr_regions *rs = a->regions_state;
	struct ddr_park_bucket *b;
	LIST_HEAD(waits);

	for (b = rs->park; b < rs->park + ARRAY_SIZE(rs->park); b++) {
		spin_lock_irq(&b->lock);
		list_splice_tail_init(&b->waits, &waits);
		spin_unlock_irq(&b->lock);
		cond_resched();
	}
	ddr_waits_over(a, &waits);
}

void ddr_regions_drop(struct ddr_regions *rs)
{
	if (!rs)
		return;
	kvfree(rs->word);
	kvfree(rs->lock.bits);
	kvfree(rs->closed.bits);
	kvfree(rs->clean);
	kvfree(rs->suspect);
	kvfree(rs);
}

struct ddr_regions *ddr_regions_make(u64 regions)
{
	struct ddr_regions *rs = ddr_alloc(kvzalloc(sizeof(*rs), GFP_KERNEL));
	size_t map = BITS_TO_LONGS(regions) * sizeof(long);
	struct ddr_park_bucket *b;

	if (!rs)
		return NULL;
	rs->ahead = DDR_AHEAD_DEFAULT;
	rs->declared = true;	/* nothing to declare before the first bind */
	for (b = rs->park; b < rs->park + ARRAY_SIZE(rs->park); b++) {
		spin_lock_init(&b->lock);
		INIT_LIST_HEAD(&b->waits);
	}
	rs->word = ddr_alloc(kvcalloc(regions, sizeof(*rs->word), GFP_KERNEL));
	rs->lock.bits = ddr_alloc(kvzalloc(map, GFP_KERNEL));
	rs->closed.bits = ddr_alloc(kvzalloc(map, GFP_KERNEL));
	rs->clean = ddr_alloc(kvzalloc(map, GFP_KERNEL));
	rs->suspect = ddr_alloc(kvzalloc(map, GFP_KERNEL));
	if (rs->word && rs->lock.bits && rs->closed.bits && rs->clean && rs->suspect)
		return rs;
	ddr_regions_drop(rs);
	return NULL;
}

/*
 * A fresh state takes over what the array knows, in exchange for its larger memory. The
 * structure itself stays, with its locks, since its lists are in use all the time. Words and
 * bits are only used by bios, of which there are none, and under the mutexes.
 */
void ddr_regions_grow(struct ddr_array *a, struct ddr_regions *grown)
{
	struct ddr_regions *rs = a->regions_state;
	size_t map = BITS_TO_LONGS(a->regions) * sizeof(long);

	lockdep_assert_held(&a->ctl_mutex);
	memcpy(grown->word, rs->word, a->regions * sizeof(*rs->word));
	memcpy(grown->clean, rs->clean, map);
	memcpy(grown->suspect, rs->suspect, map);
	memcpy(grown->lock.bits, rs->lock.bits, map);
	memcpy(grown->closed.bits, rs->closed.bits, map);
	swap(rs->word, grown->word);
	swap(rs->clean, grown->clean);
	swap(rs->suspect, grown->suspect);
	swap(rs->lock.bits, grown->lock.bits);
	swap(rs->closed.bits, grown->closed.bits);
}
