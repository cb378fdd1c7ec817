// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Questions about members: which are in sync, written, read or leaving, which the array can lose, and what can be computed.
 *
 * Must never: change anything.
 */
#include "sm_int.h"

static uint32_t members_in(const struct ddr_sm_shared *s, bool rebuilding)
{
	uint32_t mask = 0;

	for (uint32_t m = 0; m < s->sb.members; m++) {
		const struct ddr_member *e = &s->sb.member[m];

		if (e->role != DDR_ROLE_NONE &&
		    (e->state == DDR_MEMBER_IN_SYNC || (rebuilding && e->state == DDR_MEMBER_REBUILDING)))
			mask |= 1u << m;
	}
	return mask;
}

uint32_t ddr_shared_in_sync(const struct ddr_sm_shared *s)
{
	return members_in(s, false);
}

uint32_t ddr_shared_written(const struct ddr_sm_shared *s)
{
	return members_in(s, true);
}

bool ddr_shared_degraded(const struct ddr_sm_shared *s)
{
	return (uint32_t)__builtin_popcount(ddr_shared_in_sync(s)) < s->sb.roles;
}

bool ddr_shared_is_out(const struct ddr_sm_shared *s, uint32_t member)
{
	return member < s->sb.members && (s->sb.member[member].state == DDR_MEMBER_FAULTY || s->sb.member[member].state == DDR_MEMBER_MISSING);
}

uint32_t ddr_shared_alive(const struct ddr_sm_shared *s)
{
	uint32_t mask = ddr_shared_written(s);

	for (uint32_t m = 0; m < s->sb.members; m++)
		if (s->sb.member[m].state == DDR_MEMBER_SPARE)
			mask |= 1u << m;
	return mask;
}

uint32_t ddr_shared_going(const struct ddr_sm_shared *s)
{
	return s->change.faulty | s->change.missing;
}

bool ddr_shared_can_lose(const struct ddr_sm_shared *s, uint32_t members)
{
	uint32_t left = ddr_shared_in_sync(s) & ~ddr_shared_going(s);

	return !(left & members) || (uint32_t)__builtin_popcount(left & ~members) >= 1u << s->sb.order;
}

/* Have all nodes acknowledged the change whose MEMBER_DONE was delivered? */
bool ddr_shared_all_acked(const struct ddr_sm_shared *s)
{
	return s->change.ack && (ddr_shared_voters(s) & ~s->change.acked) == 0;
}

bool ddr_shared_members_settled(const struct ddr_sm_shared *s)
{
	const struct ddr_sm_change *c = &s->change;

	if (ddr_shared_going(s) || c->slots || c->mark || c->set.op)
		return false;
	return !c->ack || ddr_shared_all_acked(s);
}

bool ddr_shared_agreed_out(const struct ddr_sm_shared *s, uint32_t members)
{
	return ddr_shared_members_settled(s) && !((ddr_shared_written(s) | s->change.leaving) & members);
}

/* A member that replaces another one has its role, but not its place yet. */
uint32_t ddr_shared_member_at(const struct ddr_sm_shared *s, uint32_t position)
{
	for (uint32_t m = 0; m < s->sb.members; m++)
		if (s->sb.member[m].role == position && position < s->sb.roles && !(s->sb.member[m].flags & DDR_MEMBER_F_REPLACING))
			return m;
	return DDR_NO_MEMBER;
}

bool ddr_shared_all_see(const struct ddr_sm_shared *s, uint32_t member)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		/* a lost node may return at any moment, and must be able to reach every member of the array */
		if ((s->nodes[i].started || s->nodes[i].lost) && !s->nodes[i].leaving && !(s->nodes[i].sees >> member & 1))
			return false;
	return true;
}

bool ddr_shared_may_readd(const struct ddr_sm_shared *s, uint32_t member)
{
	static const uint8_t unknown[DDR_LAST_GEN_LEN];
	const struct ddr_member *m = &s->sb.member[member];

	return m->role != DDR_ROLE_NONE && m->since > s->sb.log_base && memcmp(m->last_gen, unknown, sizeof(unknown)) != 0;
}

/* ---- rebuilding members, and how far they are -------------------------------- */

uint32_t ddr_shared_rebuilding(const struct ddr_sm_shared *s)
{
	for (uint32_t m = 0; m < s->sb.members; m++)
		if (s->sb.member[m].state == DDR_MEMBER_REBUILDING)
			return m;
	return DDR_NO_MEMBER;
}

uint32_t ddr_shared_replacing(const struct ddr_sm_shared *s)
{
	uint32_t m = ddr_shared_rebuilding(s);

	return m != DDR_NO_MEMBER && (s->sb.member[m].flags & DDR_MEMBER_F_REPLACING) ? m : DDR_NO_MEMBER;
}

uint32_t ddr_shared_replaced(const struct ddr_sm_shared *s)
{
	uint32_t m = ddr_shared_replacing(s);

	return m == DDR_NO_MEMBER ? m : ddr_shared_member_at(s, s->sb.member[m].role);
}

bool ddr_shared_all_folded(const struct ddr_sm_shared *s)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (s->nodes[i].started && !s->nodes[i].leaving && !s->nodes[i].folded)
			return false;
	return !ddr_shared_any_lost(s) && !s->rec && !ddr_shared_left_dirty(s);
}

/* May its chunks count below the cursor? Not those of a copy, since the copied member counts itself. */
static bool rebuilt_to(const struct ddr_sm_shared *s, uint32_t m, uint64_t *cursor)
{
	*cursor = s->sb.member[m].cursor;
	return s->sb.member[m].state == DDR_MEMBER_REBUILDING && !(s->sb.member[m].flags & DDR_MEMBER_F_REPLACING);
}

uint32_t ddr_shared_readable(const struct ddr_sm_shared *s, uint64_t block)
{
	uint32_t mask = ddr_shared_in_sync(s);
	uint64_t cursor;

	for (uint32_t m = 0; m < s->sb.members; m++)
		if (rebuilt_to(s, m, &cursor) && block < cursor)
			mask |= 1u << m;
	return mask;
}

uint64_t ddr_shared_readable_end(const struct ddr_sm_shared *s, uint64_t block, uint64_t end)
{
	uint64_t cursor;

	for (uint32_t m = 0; m < s->sb.members; m++)
		if (rebuilt_to(s, m, &cursor) && cursor > block && cursor < end)
			end = cursor;
	return end;
}

/* ---- what can be computed --------------------------------------------------- */

enum ddr_doable ddr_shared_doable(const struct ddr_sm_shared *s, uint64_t block)
{
	uint32_t readable = ddr_shared_readable(s, block), written = ddr_shared_written(s), parity = 0;
	struct ddr_geometry geo;

	ddr_super_geometry(&s->sb, &geo);
	for (uint32_t role = 0; role < geo.roles; role++) {
		uint32_t m = ddr_shared_member_at(s, ddr_geo_member(&geo, role, block));

		if (role < ddr_geo_data(&geo) && !(readable >> m & 1))
			return DDR_DO_SUSPECT;
		parity += role >= ddr_geo_data(&geo) && (written >> m & 1);
	}
	return parity ? DDR_DO_JOB : DDR_DO_NOTHING;
}

uint32_t ddr_shared_job_members(const struct ddr_sm_shared *s, uint64_t block)
{
	uint32_t members = ddr_shared_readable(s, block), written = ddr_shared_written(s);
	struct ddr_geometry geo;

	ddr_super_geometry(&s->sb, &geo);
	for (uint32_t role = ddr_geo_data(&geo); role < geo.roles; role++)
		members |= written & 1u << ddr_shared_member_at(s, ddr_geo_member(&geo, role, block));
	return members;
}
