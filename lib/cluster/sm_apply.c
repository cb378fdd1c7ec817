// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Applies a change to the superblock: to its members, their roles and the owners of the slots. The writer uses it for what it writes, and
 * every node for what is agreed, so both must get the same result.
 *
 * Must never: use anything that is not the same on all nodes when the change is done; leave a role with two holders, or with none.
 */
#include "sm_int.h"

static void set_state(struct ddr_super *sb, uint32_t member, uint8_t state)
{
	struct ddr_member *m = &sb->member[member];

	m->state = state;
	m->flags = 0;
	m->since = sb->generation;
	m->cursor = 0;
	memset(m->last_gen, 0, sizeof(m->last_gen));
}

/*
 * One of two members with the same role leaves: the other one keeps it alone. If both leave, the copy holds nothing that
 * counts.
 */
static void roles_go(struct ddr_super *sb, uint32_t members, bool copy_void)
{
	for (uint32_t i = 0; i < sb->members; i++) {
		struct ddr_member *new = &sb->member[i];

		if (!(new->flags & DDR_MEMBER_F_REPLACING))
			continue;
		for (uint32_t old = 0; old < sb->members && !(members >> i & 1); old++)
			if ((members >> old & 1) && sb->member[old].role == new->role) {
				sb->member[old].role = DDR_ROLE_NONE;
				new->flags = 0;
				new->since = sb->generation;
				new->cursor = copy_void ? 0 : new->cursor;
			}
		if (members >> i & 1)
			new->role = DDR_ROLE_NONE;
	}
}

/*
 * Members leave. For those that held all of their role by the superblocks of @now, the name of that generation is recorded, so that they can come back
 * with a rebuild of only the regions written since. Not for @exchanged ones: it is unknown which writes went to another disk.
 */
static void members_go(const struct ddr_super *now, struct ddr_super *sb, uint32_t members, uint8_t state, uint32_t exchanged)
{
	for (uint32_t i = 0; i < sb->members; i++) {
		const struct ddr_member *was = &now->member[i];

		if (!(members >> i & 1))
			continue;
		set_state(sb, i, state);
		if (!(exchanged >> i & 1) && (was->state == DDR_MEMBER_IN_SYNC || (was->flags & DDR_MEMBER_F_PARTIAL)))
			memcpy(sb->member[i].last_gen, now->gen_id, sizeof(sb->member[i].last_gen));
	}
}

static void new_member(struct ddr_super *sb, const struct ddr_msg_member_set *set, uint8_t state)
{
	uint16_t role = sb->member[set->member].role;

	if (set->member == sb->members || set->op == DDR_MEMBER_OP_ADD)
		role = DDR_ROLE_NONE;
	if (set->member == sb->members)
		sb->members++;
	memset(&sb->member[set->member], 0, sizeof(sb->member[0]));
	memcpy(sb->member[set->member].uuid, set->uuid, sizeof(set->uuid));
	sb->member[set->member].role = role;
	set_state(sb, set->member, state);
}

static void come_back(struct ddr_super *sb, uint32_t member, bool partial)
{
	struct ddr_member *m = &sb->member[member];
	uint8_t last_gen[DDR_LAST_GEN_LEN];

	memcpy(last_gen, m->last_gen, sizeof(last_gen));
	set_state(sb, member, m->role == DDR_ROLE_NONE ? DDR_MEMBER_SPARE : DDR_MEMBER_REBUILDING);
	if (!partial)
		return;
	m->flags = DDR_MEMBER_F_PARTIAL;
	memcpy(m->last_gen, last_gen, sizeof(m->last_gen));	/* until it has a superblock of its return */
}

/* The copy is complete: the former holder of the role is no longer needed. */
static void take_over(struct ddr_super *sb, uint32_t member)
{
	struct ddr_member *m = &sb->member[member];

	for (uint32_t i = 0; i < sb->members && (m->flags & DDR_MEMBER_F_REPLACING); i++)
		if (i != member && sb->member[i].role == m->role) {
			sb->member[i].role = DDR_ROLE_NONE;
			set_state(sb, i, DDR_MEMBER_MISSING);
		}
	set_state(sb, member, DDR_MEMBER_IN_SYNC);
}

/* Renews the state of the replaced member and of its copy: a disk may say that the one was out and the other complete. */
static void stay(struct ddr_super *sb, uint32_t member)
{
	for (uint32_t i = 0; i < sb->members; i++)
		if (sb->member[i].role == sb->member[member].role)
			sb->member[i].since = sb->generation;
}

/* The spare takes the role, and the former holder loses it; or (replace) keeps it, and is copied. */
static void apply_set(struct ddr_super *sb, const struct ddr_msg_member_set *set)
{
	struct ddr_member *m = &sb->member[set->member];

	switch (set->op) {
	case DDR_MEMBER_OP_TAKE:
		for (uint32_t i = 0; i < sb->members; i++)
			if (sb->member[i].role == set->role)
				sb->member[i].role = DDR_ROLE_NONE;
		m->role = (uint16_t)set->role;
		set_state(sb, set->member, DDR_MEMBER_REBUILDING);
		return;
	case DDR_MEMBER_OP_CURSOR:
		m->cursor = set->cursor;
		return;
	case DDR_MEMBER_OP_REPLACE:
		m->role = (uint16_t)set->role;
		set_state(sb, set->member, DDR_MEMBER_REBUILDING);
		m->flags = DDR_MEMBER_F_REPLACING;
		return;
	case DDR_MEMBER_OP_WHOLE:
		take_over(sb, set->member);
		return;
	case DDR_MEMBER_OP_STAY:
		stay(sb, set->member);
		return;
	case DDR_MEMBER_OP_ADD:
		new_member(sb, set, DDR_MEMBER_SPARE);
		return;
	case DDR_MEMBER_OP_REMOVE:
		new_member(sb, set, DDR_MEMBER_MISSING);
		return;
	case DDR_MEMBER_OP_GROW:
		sb->array_blocks = set->cursor;
		return;
	case DDR_MEMBER_OP_POLICY:
		sb->policy = (uint32_t)set->cursor;
		return;
	case DDR_MEMBER_OP_BACK:
	case DDR_MEMBER_OP_READD:
		come_back(sb, set->member, set->op == DDR_MEMBER_OP_READD);
		return;
	}
}

/* No member is missing any more: from here on the map does not record what a member that comes back lacks (note 4). */
bool ddr_sm_none_missing(const struct ddr_super *sb)
{
	uint32_t n = 0;

	for (uint32_t m = 0; m < sb->members; m++)
		n += sb->member[m].role != DDR_ROLE_NONE && sb->member[m].state == DDR_MEMBER_IN_SYNC;
	return n == sb->roles;
}

/* Without parity it is unknown what a dead node was writing: the old member and its copy may differ anywhere. */
static void copy_anew(struct ddr_super *sb)
{
	for (uint32_t m = 0; m < sb->members; m++)
		if (sb->member[m].flags & DDR_MEMBER_F_REPLACING)
			sb->member[m].cursor = 0;
}

void ddr_shared_apply(const struct ddr_sm_shared *s, struct ddr_super *sb, const struct ddr_msg_member_set *set, uint32_t faulty, uint32_t missing,
		  uint64_t slots, const uint32_t *owner)
{
	apply_set(sb, set);
	if (s->change.died & slots)
		copy_anew(sb);
	roles_go(sb, faulty | missing, s->change.copy_void);
	members_go(&s->sb, sb, faulty, DDR_MEMBER_FAULTY, s->change.exchanged);
	members_go(&s->sb, sb, missing, DDR_MEMBER_MISSING, 0);
	for (uint32_t i = 0; i < sb->slots; i++)
		if (slots >> i & 1)
			sb->slot_node[i] = owner[i];
	/* besides, the end of the region that the array ended in is not prepared on a member that was missing when it grew */
	if ((set->op == DDR_MEMBER_OP_WHOLE && ddr_sm_none_missing(sb)) || set->op == DDR_MEMBER_OP_GROW)
		sb->log_base = sb->generation;
}

void ddr_sm_mark_apply(struct ddr_super *sb, uint32_t mark)
{
	if (mark == DDR_MARK_CLUSTER)
		sb->ro_compat |= DDR_RO_COMPAT_CLUSTER;
	else if (mark == DDR_MARK_ALONE)
		sb->ro_compat &= ~DDR_RO_COMPAT_CLUSTER;
}
