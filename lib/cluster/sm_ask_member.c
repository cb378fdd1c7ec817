// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Questions about members: who is in sync, who is written and read, who goes, what the array can do without, what can be computed.
 *
 * Must never: change anything.
 */
#include "sm_int.h"

static uint32_t members_in(const struct ddr_sm *sm, bool rebuilding)
{
	uint32_t mask = 0;

	for (uint32_t m = 0; m < sm->shared.sb.members; m++) {
		const struct ddr_member *e = &sm->shared.sb.member[m];

		if (e->role != DDR_ROLE_NONE &&
		    (e->state == DDR_MEMBER_IN_SYNC || (rebuilding && e->state == DDR_MEMBER_REBUILDING)))
			mask |= 1u << m;
	}
	return mask;
}

uint32_t ddr_sm_in_sync(const struct ddr_sm *sm)
{
	return members_in(sm, false);
}

uint32_t ddr_sm_written(const struct ddr_sm *sm)
{
	return members_in(sm, true);
}

bool ddr_sm_degraded(const struct ddr_sm *sm)
{
	return (uint32_t)__builtin_popcount(ddr_sm_in_sync(sm)) < sm->shared.sb.roles;
}

uint32_t ddr_sm_alive(const struct ddr_sm *sm)
{
	uint32_t mask = ddr_sm_written(sm);

	for (uint32_t m = 0; m < sm->shared.sb.members; m++)
		if (sm->shared.sb.member[m].state == DDR_MEMBER_SPARE)
			mask |= 1u << m;
	return mask;
}

uint32_t ddr_sm_going(const struct ddr_sm *sm)
{
	return sm->shared.change.faulty | sm->shared.change.missing;
}

bool ddr_sm_can_lose(const struct ddr_sm *sm, uint32_t members)
{
	uint32_t left = ddr_sm_in_sync(sm) & ~ddr_sm_going(sm);

	return !(left & members) || (uint32_t)__builtin_popcount(left & ~members) >= 1u << sm->shared.sb.order;
}

/* Has the change that was done been acknowledged by all? */
bool ddr_sm_all_acked(const struct ddr_sm *sm)
{
	return sm->shared.change.ack && (ddr_sm_voters(sm) & ~sm->shared.change.acked) == 0;
}

bool ddr_sm_members_settled(const struct ddr_sm *sm)
{
	const struct ddr_sm_change *c = &sm->shared.change;

	if (ddr_sm_going(sm) || c->slots || c->mark || c->set.op)
		return false;
	return ddr_sm_change_idle(sm) || ddr_sm_all_acked(sm);
}

bool ddr_sm_agreed_out(const struct ddr_sm *sm, uint32_t members)
{
	return ddr_sm_members_settled(sm) && !((ddr_sm_written(sm) | sm->shared.change.leaving) & members);
}

/* A member that replaces another one has its role, and not yet its place. */
uint32_t ddr_sm_member_at(const struct ddr_sm *sm, uint32_t position)
{
	for (uint32_t m = 0; m < sm->shared.sb.members; m++)
		if (sm->shared.sb.member[m].role == position && position < sm->shared.sb.roles && !(sm->shared.sb.member[m].flags & DDR_MEMBER_F_REPLACING))
			return m;
	return DDR_NO_MEMBER;
}

bool ddr_sm_all_see(const struct ddr_sm *sm, uint32_t member)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		/* who is lost may be back any moment, and must find nobody in the array that it cannot reach */
		if ((sm->shared.nodes[i].started || sm->shared.nodes[i].lost) && !sm->shared.nodes[i].leaving && !(sm->shared.nodes[i].sees >> member & 1))
			return false;
	return true;
}

bool ddr_sm_may_readd(const struct ddr_sm *sm, uint32_t member)
{
	static const uint8_t unknown[DDR_LAST_GEN_LEN];
	const struct ddr_member *m = &sm->shared.sb.member[member];

	return m->role != DDR_ROLE_NONE && m->since > sm->shared.sb.log_base && memcmp(m->last_gen, unknown, sizeof(unknown)) != 0;
}

/* ---- who is rebuilt, and how far -------------------------------------------- */

uint32_t ddr_shared_rebuilding(const struct ddr_sm_shared *s)
{
	for (uint32_t m = 0; m < s->sb.members; m++)
		if (s->sb.member[m].state == DDR_MEMBER_REBUILDING)
			return m;
	return DDR_NO_MEMBER;
}

uint32_t ddr_sm_replacing(const struct ddr_sm *sm)
{
	uint32_t m = ddr_sm_rebuilding(sm);

	return m != DDR_NO_MEMBER && (sm->shared.sb.member[m].flags & DDR_MEMBER_F_REPLACING) ? m : DDR_NO_MEMBER;
}

uint32_t ddr_sm_replaced(const struct ddr_sm *sm)
{
	uint32_t m = ddr_sm_replacing(sm);

	return m == DDR_NO_MEMBER ? m : ddr_sm_member_at(sm, sm->shared.sb.member[m].role);
}

bool ddr_sm_all_folded(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (sm->shared.nodes[i].started && !sm->shared.nodes[i].leaving && !sm->shared.nodes[i].folded)
			return false;
	return !ddr_sm_any_lost(sm) && !sm->shared.rec && !ddr_sm_left_dirty(sm);
}

/* Its chunk may count: it is no copy of one that counts itself. */
static bool rebuilt_to(const struct ddr_sm *sm, uint32_t m, uint64_t *cursor)
{
	*cursor = sm->shared.sb.member[m].cursor;
	return sm->shared.sb.member[m].state == DDR_MEMBER_REBUILDING && !(sm->shared.sb.member[m].flags & DDR_MEMBER_F_REPLACING);
}

uint32_t ddr_sm_readable(const struct ddr_sm *sm, uint64_t block)
{
	uint32_t mask = ddr_sm_in_sync(sm);
	uint64_t cursor;

	for (uint32_t m = 0; m < sm->shared.sb.members; m++)
		if (rebuilt_to(sm, m, &cursor) && block < cursor)
			mask |= 1u << m;
	return mask;
}

uint64_t ddr_sm_readable_end(const struct ddr_sm *sm, uint64_t block, uint64_t end)
{
	uint64_t cursor;

	for (uint32_t m = 0; m < sm->shared.sb.members; m++)
		if (rebuilt_to(sm, m, &cursor) && cursor > block && cursor < end)
			end = cursor;
	return end;
}

/* ---- what can be computed --------------------------------------------------- */

enum ddr_doable ddr_sm_doable(const struct ddr_sm *sm, uint64_t block)
{
	uint32_t readable = ddr_sm_readable(sm, block), written = ddr_sm_written(sm), parity = 0;
	struct ddr_geometry geo;

	ddr_super_geometry(&sm->shared.sb, &geo);
	for (uint32_t role = 0; role < geo.roles; role++) {
		uint32_t m = ddr_sm_member_at(sm, ddr_geo_member(&geo, role, block));

		if (role < ddr_geo_data(&geo) && !(readable >> m & 1))
			return DDR_DO_SUSPECT;
		parity += role >= ddr_geo_data(&geo) && (written >> m & 1);
	}
	return parity ? DDR_DO_JOB : DDR_DO_NOTHING;
}

uint32_t ddr_sm_job_members(const struct ddr_sm *sm, uint64_t block)
{
	uint32_t members = ddr_sm_readable(sm, block), written = ddr_sm_written(sm);
	struct ddr_geometry geo;

	ddr_super_geometry(&sm->shared.sb, &geo);
	for (uint32_t role = ddr_geo_data(&geo); role < geo.roles; role++)
		members |= written & 1u << ddr_sm_member_at(sm, ddr_geo_member(&geo, role, block));
	return members;
}
