// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What a delivered message changes in the exclusive ranges in force. Draining, acknowledging, the jobs, and the records to our
 * kernel are in sm_ex.c and sm_range.c.
 *
 * Must never: take a struct ddr_sm.
 */
#include "sm_int.h"

const struct ddr_sm_ex *ddr_shared_ex_find(const struct ddr_sm_shared *s, uint32_t node, uint32_t id)
{
	for (const struct ddr_sm_ex *x = s->ex; x < s->ex + DDR_SM_EX; x++)
		if (x->used && x->node == node && x->id == id)
			return x;
	return NULL;
}

/* The same, to be changed. */
static struct ddr_sm_ex *find(struct ddr_sm_shared *s, uint32_t node, uint32_t id)
{
	const struct ddr_sm_ex *x = ddr_shared_ex_find(s, node, id);

	return x ? &s->ex[x - s->ex] : NULL;
}

bool ddr_shared_ex_acked(const struct ddr_sm_shared *s, const struct ddr_sm_ex *x)
{
	return x->granted || (ddr_shared_voters(s) & ~x->acked) == 0;
}

/* Finds a free place. Refused, even if there is one, if the range overlaps one in force, or members are changing. */
static enum ddr_ex_answer ex_place(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_sm_ex **fresh)
{
	if (!ddr_shared_members_settled(s))
		return DDR_EX_REFUSED;
	for (struct ddr_sm_ex *x = s->ex; x < s->ex + DDR_SM_EX; x++) {
		if (!x->used)
			*fresh = *fresh ? *fresh : x;
		else if (ddr_blocks_overlap(msg->ex.start, msg->ex.count, x->start, x->count))
			return DDR_EX_REFUSED;
	}
	return *fresh ? DDR_EX_FORCE : DDR_EX_FULL;
}

enum ddr_ex_answer ddr_order_ex_request(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_sm_ex **x)
{
	enum ddr_ex_answer answer;

	*x = NULL;
	if (msg->ex.start >= s->sb.array_blocks || msg->ex.count > s->sb.array_blocks - msg->ex.start ||
	    ddr_shared_ex_find(s, msg->sender, msg->ex.id))
		return DDR_EX_WRONG;
	answer = ex_place(s, msg, x);
	if (answer == DDR_EX_FORCE)
		**x = (struct ddr_sm_ex){ .used = true, .node = msg->sender, .id = msg->ex.id, .start = msg->ex.start, .count = msg->ex.count };
	return answer;
}

void ddr_order_ex_ack(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	struct ddr_sm_ex *x = find(s, msg->ex_ack.owner, msg->ex_ack.id);

	if (!x)
		return;		/* it was cancelled, and the acknowledgement is late */
	x->acked |= 1ull << ddr_shared_node_at(s, msg->sender);
	x->dirty |= msg->ex_ack.dirty;
}

struct ddr_sm_ex *ddr_order_ex_release(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	struct ddr_sm_ex *x = find(s, msg->sender, msg->ex_release.id);

	if (x)
		x->used = false;
	return x;
}

void ddr_order_ex_void(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	for (struct ddr_sm_ex *x = s->ex; x < s->ex + DDR_SM_EX; x++)
		if (x->used && !ddr_shared_ex_acked(s, x))
			x->acked &= ~(1ull << ddr_shared_node_at(s, msg->sender));
}

static void end(struct ddr_sm_shared *s, struct ddr_sm_ex *x, struct ddr_ended *ended)
{
	size_t place = (size_t)(x - s->ex);

	x->used = false;
	ended->place[place / 64] |= 1ull << (place % 64);
}

void ddr_order_ex_cancel(struct ddr_sm_shared *s, struct ddr_ended *ended)
{
	for (struct ddr_sm_ex *x = s->ex; x < s->ex + DDR_SM_EX; x++)
		if (x->used && !ddr_shared_ex_acked(s, x))
			end(s, x, ended);
}

void ddr_order_ex_gone(struct ddr_sm_shared *s, uint32_t node, struct ddr_ended *ended)
{
	for (struct ddr_sm_ex *x = s->ex; x < s->ex + DDR_SM_EX; x++)
		if (x->used && x->node == node)
			end(s, x, ended);
}

void ddr_order_ex_unacked(struct ddr_sm_shared *s, uint32_t at)
{
	for (uint32_t i = 0; i < DDR_SM_EX; i++)
		s->ex[i].acked &= ~(1ull << at);
}

void ddr_order_ex_settle(struct ddr_sm_shared *s)
{
	for (struct ddr_sm_ex *x = s->ex; x < s->ex + DDR_SM_EX; x++)
		x->granted = x->used && ddr_shared_ex_acked(s, x);
}
