// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Changes of the superblocks on request (MEMBER_SET): which of them are valid, and the request itself.
 *
 * Must never: decide about a change by what only this node knows.
 */
#include "sm_int.h"

static bool uuid_known(const struct ddr_sm_shared *s, const uint8_t uuid[16])
{
	for (uint32_t m = 0; m < s->sb.members; m++)
		if (!memcmp(s->sb.member[m].uuid, uuid, sizeof(s->sb.member[m].uuid)))
			return true;
	return false;
}

bool ddr_shared_set_valid(const struct ddr_sm_shared *s, const struct ddr_msg_member_set *set)
{
	const struct ddr_member *m;
	bool out;

	if (!set->op || set->member >= DDR_MAX_MEMBERS || (ddr_shared_going(s) >> set->member & 1) || (s->change.leaving >> set->member & 1))
		return false;
	if (ddr_member_op_names(set->op) && (ddr_uuid_is_zero(set->uuid) || uuid_known(s, set->uuid)))
		return false;
	m = &s->sb.member[set->member];
	out = set->member < s->sb.members && (m->state == DDR_MEMBER_FAULTY || m->state == DDR_MEMBER_MISSING);
	switch (set->op) {
	case DDR_MEMBER_OP_ADD:
		return set->member == s->sb.members || (out && m->role == DDR_ROLE_NONE);
	case DDR_MEMBER_OP_REMOVE:
		return out || (set->member < s->sb.members && m->state == DDR_MEMBER_SPARE);
	case DDR_MEMBER_OP_READD:
	case DDR_MEMBER_OP_BACK:
		if (set->op == DDR_MEMBER_OP_READD && !(out && ddr_shared_may_readd(s, set->member)))
			return false;
		return out && ddr_shared_all_see(s, set->member) && (m->role == DDR_ROLE_NONE || ddr_shared_rebuilding(s) == DDR_NO_MEMBER);
	}
	if (set->op == DDR_MEMBER_OP_RECORD)
		return true;
	if (set->op == DDR_MEMBER_OP_GROW)
		return ddr_shared_grow_valid(s, set);
	if (set->op == DDR_MEMBER_OP_POLICY)
		return set->cursor != s->sb.policy;
	if (set->member >= s->sb.members)
		return false;
	if (set->op == DDR_MEMBER_OP_TAKE || set->op == DDR_MEMBER_OP_REPLACE) {
		uint32_t holder = set->role < s->sb.roles ? ddr_shared_member_at(s, set->role) : DDR_NO_MEMBER;
		bool works = holder != DDR_NO_MEMBER && (ddr_shared_alive(s) >> holder & 1);

		if (m->state != DDR_MEMBER_SPARE || holder == DDR_NO_MEMBER || ((s->change.leaving | ddr_shared_going(s)) >> holder & 1) ||
		    !ddr_shared_all_see(s, set->member) || ddr_shared_rebuilding(s) != DDR_NO_MEMBER)
			return false;
		return set->op == DDR_MEMBER_OP_TAKE ? !works : s->sb.member[holder].state == DDR_MEMBER_IN_SYNC;
	}
	if (set->op == DDR_MEMBER_OP_STAY)
		return set->member == ddr_shared_replacing(s);
	if (set->op == DDR_MEMBER_OP_WHOLE && set->member == ddr_shared_replacing(s) && !ddr_shared_all_folded(s))
		return false;	/* a node has something to resync, or is about to: the two disks do not hold the same */
	return m->state == DDR_MEMBER_REBUILDING &&
	       (set->op != DDR_MEMBER_OP_CURSOR || (set->cursor > m->cursor && set->cursor <= s->sb.array_blocks));
}

bool ddr_sm_changes_members(const struct ddr_msg_member_set *set)
{
	return set->op && set->op != DDR_MEMBER_OP_CURSOR && set->op != DDR_MEMBER_OP_RECORD && set->op != DDR_MEMBER_OP_POLICY;
}

bool ddr_sm_set_moves(const struct ddr_msg_member_set *set)
{
	return ddr_sm_changes_members(set) && set->op != DDR_MEMBER_OP_GROW && set->op != DDR_MEMBER_OP_STAY;
}

bool ddr_sm_same_set(const struct ddr_msg_member_set *a, const struct ddr_msg_member_set *b)
{
	return a->op == b->op && a->member == b->member && a->role == b->role && a->cursor == b->cursor &&
	       !memcmp(a->uuid, b->uuid, sizeof(a->uuid));
}

bool ddr_sm_ask(struct ddr_sm *sm, const struct ddr_msg_member_set *set)
{
	struct ddr_msg msg = { .type = DDR_M_MEMBER_SET, .set = *set };

	if (sm->own.rb.set_sent || !ddr_sm_may_send(sm) || !ddr_sm_members_settled(sm) || !ddr_sm_set_valid(sm, set))
		return false;
	sm->own.rb.set_sent = true;
	ddr_sm_send(sm, &msg);
	return true;
}
