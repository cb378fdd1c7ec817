// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * See schedule.h. The array that has been due for longest goes first, so that none is forgotten. One that cannot
 * start now lets the next go before it, and stays at the head of the queue.
 */
#include <string.h>

#include "lib/schedule.h"

#define DAY_S	86400u

uint64_t ddr_sched_due(uint64_t created, uint64_t begun, uint64_t every, uint64_t now)
{
	uint64_t last = begun ? begun : created, wrong = every < DAY_S ? every : DAY_S, due;

	if (last > now && last - now > wrong)
		last = 0;
	if (!every || __builtin_add_overflow(last, every, &due))
		return DDR_SCHED_NEVER;
	return due;
}

bool ddr_sched_open(uint64_t hours, unsigned int hour)
{
	unsigned int from = (unsigned int)(hours >> 8), to = hours & 0xff;

	return from < to ? hour >= from && hour < to : hour >= from || hour < to;
}

bool ddr_sched_moves(struct ddr_sched_progress *p, uint32_t serial, uint64_t cursor, uint64_t now_ms)
{
	if (!p->at_ms || p->serial != serial || p->cursor != cursor)
		*p = (struct ddr_sched_progress){ .serial = serial, .cursor = cursor, .at_ms = now_ms };
	return now_ms - p->at_ms < DDR_SCHED_MOVES_MS;
}

/*
 * Equal dates are decided by the uuid: the order in which arrays are listed differs between nodes, and two nodes
 * could wait for each other.
 */
static bool goes_before(const struct ddr_sched_array *a, const struct ddr_sched_array *b)
{
	return a->due != b->due ? a->due < b->due : memcmp(a->uuid, b->uuid, sizeof(a->uuid)) < 0;
}

int ddr_sched_pick(const struct ddr_sched_array *array, size_t n, uint64_t now, uint64_t parallel)
{
	const struct ddr_sched_array *first = NULL;
	uint64_t reading = 0;

	for (const struct ddr_sched_array *a = array; a < array + n; a++) {
		reading += a->reads;
		if (!a->able || a->due > now || (!a->ours && a->ready_s > DDR_SCHED_PATIENCE_S))
			continue;
		if (!first || goes_before(a, first))
			first = a;
	}
	return first && first->ours && reading < parallel ? (int)(first - array) : -1;
}
