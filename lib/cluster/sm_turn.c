// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The queue for exclusive ranges, when all places for ranges are taken.
 *
 * A request that is delivered while no place is free is refused, by all nodes alike. If all refused senders asked again at once,
 * the ring would carry nothing else. So a refused node enters a queue, in the order of delivery, and as many nodes
 * from its head as there are free places ask again. A node that is not in the queue asks once, to enter it. While there is a queue, a node has one request in flight.
 *
 * Each node keeps the queue itself, from delivered messages. It only decides who sends a message; whether a request is granted is
 * decided at its delivery. If the queues of nodes differ (one has joined later, or clocks differ), that costs one more message.
 *
 * Must never: wait for a node that does not ask any more.
 */
#include "sm_int.h"

#define IDLE_MS	1000u	/* if a place stays free for this time, the first in the queue no longer wants it */

static uint32_t places_free(const struct ddr_sm *sm)
{
	uint32_t n = 0;

	for (const struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++)
		n += !x->used;
	return n;
}

/* The node's position in the queue; the end of the queue: it is not in it. */
static uint32_t stands_at(const struct ddr_sm *sm, uint32_t node)
{
	uint32_t i = 0;

	while (i < sm->own.turn.n && sm->own.turn.line[i] != node)
		i++;
	return i;
}

static void leave_line(struct ddr_sm *sm, uint32_t at)
{
	if (at >= sm->own.turn.n)
		return;
	memmove(&sm->own.turn.line[at], &sm->own.turn.line[at + 1], (--sm->own.turn.n - at) * sizeof(sm->own.turn.line[0]));
	sm->own.turn.since = sm->now;
	sm->again = true;
}

void ddr_sm_turn_refused(struct ddr_sm *sm, uint32_t node)
{
	if (stands_at(sm, node) == sm->own.turn.n && sm->own.turn.n < DDR_SM_MAX_NODES)
		sm->own.turn.line[sm->own.turn.n++] = node;
}

void ddr_sm_turn_granted(struct ddr_sm *sm, uint32_t node)
{
	leave_line(sm, stands_at(sm, node));
}

void ddr_sm_turn_view(struct ddr_sm *sm)
{
	sm->own.turn.n = 0;
}

bool ddr_sm_turn_ours(const struct ddr_sm *sm)
{
	uint32_t free = places_free(sm), out = 0, at = stands_at(sm, sm->node);

	for (const struct ddr_sm_range *r = sm->own.range; r < sm->own.range + DDR_SM_RANGES; r++)
		out += r->state == DDR_R_ASKED;
	if (out)
		return !sm->own.turn.n && free > out;
	if (at < sm->own.turn.n)
		return at < free;
	return !free || free > sm->own.turn.n;
}

void ddr_sm_turn_pump(struct ddr_sm *sm)
{
	bool waited = sm->own.turn.n && places_free(sm);

	if (waited && !sm->own.turn.waited)
		sm->own.turn.since = sm->now;
	sm->own.turn.waited = waited;
	if (waited && ddr_sm_time(sm, sm->own.turn.since + IDLE_MS))
		leave_line(sm, 0);
}
