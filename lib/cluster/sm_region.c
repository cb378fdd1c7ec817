// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What the region map says of each region, and what this node wants it to say (sm_map.c asks the group for that, and writes it).
 *
 * Must never: change the map except by delivered messages, or by what was read from the disks.
 */
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

void ddr_shared_map_count(const struct ddr_sm_shared *s, uint64_t *clean, uint64_t *needs_sync, uint64_t *suspect)
{
	*clean = *needs_sync = *suspect = 0;
	for (uint64_t r = 0; r < s->regions; r++) {
		uint8_t nibble = ddr_shared_nibble(s, r);

		*clean += (nibble & DDR_REGION_STATE_MASK) == DDR_REGION_CLEAN;
		*needs_sync += (nibble & DDR_REGION_STATE_MASK) == DDR_REGION_NEEDS_SYNC;
		*suspect += (nibble & DDR_REGION_F_SUSPECT) != 0;
	}
}

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
		sm->own.mapb[i].loaded |= sm->shared.cluster;
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
