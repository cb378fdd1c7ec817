// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The size to which the array may grow: by the room of its members, as all nodes have reported it.
 *
 * Must never: use anything that only this node knows.
 */
#include "sm_int.h"

/* Why the array cannot grow now whatever the devices are, or NULL. */
const char *ddr_shared_room_not_now(const struct ddr_sm_shared *s)
{
	if (s->failed)
		return "the array has failed";
	if (ddr_shared_degraded(s) || ddr_shared_rebuilding(s) != DDR_NO_MEMBER)
		return "a member is missing or being rebuilt; grow the array when it is optimal";
	return NULL;
}

/* The node whose devices have the least room, once all have reported; NULL: a report is missing. */
const struct ddr_sm_node *ddr_shared_room_least(const struct ddr_sm_shared *s)
{
	const struct ddr_sm_node *min = NULL;

	if (!s->grow.by || ddr_shared_any_lost(s))
		return NULL;
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++) {
		const struct ddr_sm_node *n = &s->nodes[i];

		if (!ddr_sm_node_active(n))
			continue;
		if (!n->roomed)
			return NULL;
		if (!min || n->room < min->room)
			min = n;
	}
	return min;
}

uint64_t ddr_shared_room_fits(const struct ddr_sm_shared *s, uint64_t bytes)
{
	uint64_t blocks = ddr_super_blocks_in(&s->sb, bytes), most = ddr_super_most_blocks(&s->sb);

	return blocks < most ? blocks : most;
}

/* The number of blocks that the array will have; 0: not known yet, or it cannot grow. */
uint64_t ddr_shared_room_target(const struct ddr_sm_shared *s)
{
	const struct ddr_sm_node *min = ddr_shared_room_least(s);
	uint64_t blocks = min && !ddr_shared_room_not_now(s) ? ddr_shared_room_fits(s, min->room) : 0;

	if (s->grow.want && s->grow.want <= blocks)
		blocks = s->grow.want;
	else if (s->grow.want)
		blocks = 0;
	return blocks > s->sb.array_blocks ? blocks : 0;
}

bool ddr_shared_grow_valid(const struct ddr_sm_shared *s, const struct ddr_msg_member_set *set)
{
	return set->cursor == ddr_shared_room_target(s) && set->cursor;
}

bool ddr_shared_growing(const struct ddr_sm_shared *s)
{
	return s->change.set.op == DDR_MEMBER_OP_GROW;
}

uint64_t ddr_shared_grow_needs(const struct ddr_sm_shared *s)
{
	const struct ddr_msg_member_set *set = &s->change.set;

	return set->op == DDR_MEMBER_OP_GROW && set->cursor > s->sb.array_blocks ? set->cursor : s->sb.array_blocks;
}
