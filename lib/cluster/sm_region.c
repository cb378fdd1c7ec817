// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What the region map says of each region, and what this node wants it to say (sm_map.c asks the group for that, and writes it).
 *
 * Must never: change the map except by delivered messages, or by what was read from the disks.
 */
#include <endian.h>

#include "sm_int.h"

uint8_t ddr_shared_nibble(const struct ddr_sm_shared *s, uint64_t region)
{
	return ddr_map_get(s->map, (uint32_t)region);
}

void ddr_shared_nibble_set(struct ddr_sm_shared *s, uint64_t region, uint8_t nibble)
{
	uint8_t old = ddr_shared_nibble(s, region);

	s->n_clean -= (old & DDR_REGION_STATE_MASK) == DDR_REGION_CLEAN;
	s->n_clean += (nibble & DDR_REGION_STATE_MASK) == DDR_REGION_CLEAN;
	s->n_needs_sync -= (old & DDR_REGION_STATE_MASK) == DDR_REGION_NEEDS_SYNC;
	s->n_needs_sync += (nibble & DDR_REGION_STATE_MASK) == DDR_REGION_NEEDS_SYNC;
	s->n_suspect -= (old & DDR_REGION_F_SUSPECT) != 0;
	s->n_suspect += (nibble & DDR_REGION_F_SUSPECT) != 0;
	ddr_map_set(ddr_order_map(s), (uint32_t)region, nibble);
}

/* ---- many regions at once ---------------------------------------------------- */

/*
 * A word of the map has the states of 16 regions. A pick takes such a word, and gives the lowest bit of the nibble of each region that it picks: a map of a
 * million regions is counted in 65536 steps.
 */
#define WORD_REGIONS	16u
#define LOWEST		0x1111111111111111u

static uint64_t pick_clean(uint64_t word)
{
	return word >> 1 & ~word & LOWEST;
}

static uint64_t pick_needs_sync(uint64_t word)
{
	return word & ~(word >> 1) & LOWEST;
}

static uint64_t pick_suspect(uint64_t word)
{
	return word >> 2 & LOWEST;
}

static uint64_t pick_verified(uint64_t word)
{
	return pick_clean(word) & ~pick_suspect(word);
}

static uint64_t pick_used(uint64_t word)
{
	return (word | word >> 1) & LOWEST;
}

static uint64_t pick_written(uint64_t word)
{
	return pick_used(word) & word >> 3;
}

_Static_assert(DDR_REGION_NEEDS_SYNC == 1 && DDR_REGION_CLEAN == 2 && DDR_REGION_STATE_MASK == 3 && DDR_REGION_F_SUSPECT == 4 && DDR_REGION_F_WRITTEN == 8, "picks");
_Static_assert(DDR_LOG_PAYLOAD % sizeof(uint64_t) == 0, "the map is made of words");

static uint64_t word_of(const struct ddr_sm_shared *s, uint64_t region)
{
	uint64_t word;

	memcpy(&word, s->map + region / WORD_REGIONS * sizeof(word), sizeof(word));
	return le64toh(word);
}

static bool picked(const struct ddr_sm_shared *s, uint64_t region, uint64_t (*pick)(uint64_t word))
{
	return pick(word_of(s, region)) >> (region % WORD_REGIONS * 4) & 1;
}

/* How many of the first @n regions are picked? */
static uint64_t count(const struct ddr_sm_shared *s, uint64_t n, uint64_t (*pick)(uint64_t word))
{
	uint64_t sum = 0, r;

	for (r = 0; r + WORD_REGIONS <= n; r += WORD_REGIONS)
		sum += (uint64_t)__builtin_popcountll(pick(word_of(s, r)));
	if (r < n)
		sum += (uint64_t)__builtin_popcountll(pick(word_of(s, r)) & ((1ull << ((n - r) * 4)) - 1));
	return sum;
}

void ddr_shared_map_count(const struct ddr_sm_shared *s, uint64_t *clean, uint64_t *needs_sync, uint64_t *suspect)
{
	*clean = count(s, s->regions, pick_clean);
	*needs_sync = count(s, s->regions, pick_needs_sync);
	*suspect = count(s, s->regions, pick_suspect);
}

/* The array's last region may be short. */
static void progress(const struct ddr_sm *sm, struct ddr_sm_progress *p, uint64_t (*pick)(uint64_t word))
{
	const struct ddr_sm_shared *s = &sm->shared;
	uint64_t at = p->at / s->region_blocks, last = s->regions - 1;
	uint64_t missing = picked(s, last, pick) ? s->region_blocks - ddr_sm_region_length(sm, last) : 0;

	p->total = count(s, s->regions, pick) * s->region_blocks - missing;
	if (at > last || p->at >= s->sb.array_blocks) {
		p->done = p->total;
		return;
	}
	p->done = count(s, at, pick) * s->region_blocks;
	if (picked(s, at, pick))
		p->done += p->at - ddr_sm_region_start(sm, at);
}

void ddr_sm_progress_verified(const struct ddr_sm *sm, struct ddr_sm_progress *p)
{
	progress(sm, p, pick_verified);
}

void ddr_sm_progress_copied(const struct ddr_sm *sm, struct ddr_sm_progress *p, bool partial)
{
	progress(sm, p, partial ? pick_written : pick_used);
}

bool ddr_sm_suspect_run(const struct ddr_sm *sm, uint64_t *start, uint64_t *n)
{
	const struct ddr_sm_shared *s = &sm->shared;
	uint64_t r = *start;

	while (r < s->regions && !picked(s, r, pick_suspect))
		r += pick_suspect(word_of(s, r)) >> (r % WORD_REGIONS * 4) ? 1 : WORD_REGIONS - r % WORD_REGIONS;
	if (r >= s->regions)
		return false;
	*start = r;
	while (r < s->regions && picked(s, r, pick_suspect))
		r++;
	*n = r - *start;
	return true;
}

/* ---- changes that concern all -------------------------------------------------- */

void ddr_order_map_counts(struct ddr_sm_shared *s)
{
	ddr_shared_map_count(s, &s->n_clean, &s->n_needs_sync, &s->n_suspect);
}

uint64_t ddr_sm_seq_behind(uint64_t seq, uint64_t top)
{
	return top > seq ? top + ((top ^ seq) & 1) : seq;
}

/*
 * An unreadable block counts as the worst (rule 11). Its sequence must be above that of any
 * copy that becomes readable again later: the superblocks were written again
 * for this start, so their own sequence is higher than at any earlier one.
 */
uint64_t ddr_sm_seq_top(const struct ddr_sm *sm)
{
	uint64_t top = sm->shared.sb.seq << DDR_SM_SEQ_SHIFT;

	for (uint32_t i = 0; i < sm->own.n_log; i++)
		top = sm->own.log[i].seq > top ? sm->own.log[i].seq : top;
	for (uint32_t i = 0; i < sm->shared.n_map; i++)
		top = sm->own.mapb[i].seq > top ? sm->own.mapb[i].seq : top;
	return top;
}

void ddr_sm_map_unread(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	uint64_t top = ddr_sm_seq_top(sm);

	for (uint64_t r = 0; r < sm->shared.regions; r++)
		if (!sm->own.mapb[r / DDR_MAP_REGIONS].loaded)
			ddr_map_set(ddr_order_map(s), (uint32_t)r, DDR_REGION_NEEDS_SYNC |
				    (ddr_sm_degraded(sm) ? DDR_REGION_F_WRITTEN | DDR_REGION_F_SUSPECT : 0));
	for (uint32_t i = 0; i < sm->shared.n_map; i++) {
		if (!sm->own.mapb[i].loaded)
			sm->own.mapb[i].seq = top;
		sm->own.mapb[i].loaded = true;
	}
}

void ddr_order_map_whole(struct ddr_sm_shared *s)
{
	for (uint64_t r = 0; r < s->regions; r++) {
		uint8_t nibble = ddr_shared_nibble(s, r);

		if (!(nibble & DDR_REGION_F_WRITTEN))
			continue;
		ddr_map_set(ddr_order_map(s), (uint32_t)r, nibble & (uint8_t)~DDR_REGION_F_WRITTEN);
		ddr_order_version(s, r / DDR_MAP_REGIONS)->mem++;
	}
}

uint8_t ddr_sm_map_apply(uint8_t nibble, uint32_t op)
{
	uint8_t state = nibble & DDR_REGION_STATE_MASK, flags = nibble & (uint8_t)~DDR_REGION_STATE_MASK;

	switch (op) {
	case DDR_MAP_OP_DEGRADED:
		flags |= DDR_REGION_F_WRITTEN;
		break;
	case DDR_MAP_OP_CLEAN:
		return DDR_REGION_CLEAN | flags;
	case DDR_MAP_OP_SUSPECT:
		return DDR_REGION_NEEDS_SYNC | flags | DDR_REGION_F_WRITTEN | DDR_REGION_F_SUSPECT;
	case DDR_MAP_OP_ACCEPT:
		return nibble & (uint8_t)~DDR_REGION_F_SUSPECT;
	case DDR_MAP_OP_DOUBT:
		flags |= DDR_REGION_F_SUSPECT;
		break;
	}
	return (state == DDR_REGION_UNWRITTEN ? DDR_REGION_NEEDS_SYNC : state) | flags;
}

bool ddr_sm_map_holds(const struct ddr_sm *sm, uint64_t region, uint32_t op)
{
	const struct ddr_sm_map *b = &sm->own.mapb[region / DDR_MAP_REGIONS];
	uint8_t nibble = ddr_sm_nibble(sm, region);

	return ddr_sm_map_apply(nibble, op) == nibble && ddr_sm_version(sm, b)->dur == ddr_sm_version(sm, b)->mem;
}

bool ddr_sm_map_want(struct ddr_sm *sm, uint64_t region, uint32_t op)
{
	struct ddr_sm_mapreq *q = &sm->own.mq;
	struct ddr_msg_map_run *last = q->n ? &q->run[q->n - 1] : NULL;

	if (q->state != DDR_MQ_FREE)
		return false;
	if (last && last->op == op && last->start + last->count == region && last->count < DDR_MAP_REGIONS) {
		last->count++;
	} else {
		if (q->n == DDR_MAP_RUNS)
			return false;
		q->run[q->n++] = (struct ddr_msg_map_run){ (uint32_t)region, 1, op };
	}
	sm->again = true;
	return true;
}

bool ddr_sm_map_idle(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->shared.n_map; i++)
		if (sm->shared.sb.parity && sm->shared.version[i].mem != sm->shared.version[i].dur)
			return false;
	return sm->own.mq.state == DDR_MQ_FREE && sm->own.mq.n == 0;
}

bool ddr_sm_parity_known(const struct ddr_sm *sm, uint64_t start, uint64_t count)
{
	if (sm->shared.rec || ddr_sm_any_lost(sm))
		return false;	/* a dead node may have been writing there (note 16) */
	for (uint64_t r = start / sm->shared.region_blocks; r <= (start + count - 1) / sm->shared.region_blocks; r++)
		if ((ddr_sm_nibble(sm, r) & DDR_REGION_STATE_MASK) != DDR_REGION_CLEAN || ddr_bit(sm->own.resync, r))
			return false;
	return true;
}
