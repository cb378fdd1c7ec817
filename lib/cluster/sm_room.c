// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What size the array may grow to: for what its members have room, by what all nodes have said.
 *
 * Must never: look at what only this node knows.
 */
#include "sm_int.h"

/* Why the array cannot grow now whatever the devices are, or NULL. */
const char *ddr_sm_room_not_now(const struct ddr_sm *sm)
{
	if (sm->shared.failed)
		return "the array has failed";
	if (ddr_sm_degraded(sm) || ddr_sm_rebuilding(sm) != DDR_NO_MEMBER)
		return "a member is missing or being rebuilt: the array grows when it is optimal";
	return NULL;
}

/* The node whose devices leave the least room, once all have said; NULL: somebody has not. */
const struct ddr_sm_node *ddr_sm_room_least(const struct ddr_sm *sm)
{
	const struct ddr_sm_node *min = NULL;

	if (!sm->shared.grow.by || ddr_sm_any_lost(sm))
		return NULL;
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++) {
		const struct ddr_sm_node *n = &sm->shared.nodes[i];

		if (!ddr_sm_node_active(n))
			continue;
		if (!n->roomed)
			return NULL;
		if (!min || n->room < min->room)
			min = n;
	}
	return min;
}

uint64_t ddr_sm_room_fits(const struct ddr_sm *sm, uint64_t bytes)
{
	uint64_t blocks = ddr_super_blocks_in(&sm->shared.sb, bytes), most = ddr_super_most_blocks(&sm->shared.sb);

	return blocks < most ? blocks : most;
}

/* Blocks that the array will have; 0: that is not known yet, or it cannot grow. */
uint64_t ddr_sm_room_target(const struct ddr_sm *sm)
{
	const struct ddr_sm_node *min = ddr_sm_room_least(sm);
	uint64_t blocks = min && !ddr_sm_room_not_now(sm) ? ddr_sm_room_fits(sm, min->room) : 0;

	if (sm->shared.grow.want && sm->shared.grow.want <= blocks)
		blocks = sm->shared.grow.want;
	else if (sm->shared.grow.want)
		blocks = 0;
	return blocks > sm->shared.sb.array_blocks ? blocks : 0;
}

bool ddr_sm_grow_valid(const struct ddr_sm *sm, const struct ddr_msg_member_set *set)
{
	return set->cursor == ddr_sm_room_target(sm) && set->cursor;
}

bool ddr_sm_growing(const struct ddr_sm *sm)
{
	return sm->shared.change.set.op == DDR_MEMBER_OP_GROW;
}

uint64_t ddr_sm_grow_needs(const struct ddr_sm *sm)
{
	const struct ddr_msg_member_set *set = &sm->shared.change.set;

	return set->op == DDR_MEMBER_OP_GROW && set->cursor > sm->shared.sb.array_blocks ? set->cursor : sm->shared.sb.array_blocks;
}
