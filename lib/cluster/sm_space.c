// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Members that have no space left, such as disks of a thin pool, or of a pool of a storage array.
 *
 * The member is not faulty, and usually space is added. So the write counts as not done, waits for a while, longer each time, and is
 * repeated. Whatever needs it to be durable waits as well, and status says so. Only space, the member's failure for another reason,
 * or the operator ("ddraid fail") ends the wait. A flush needs no space: one that failed may have dropped earlier writes, whatever
 * the error (rule 3).
 *
 * Must never: let a write count that a member did not get (rules 1 to 3, 12); fail a member for lack of space.
 */
#include "sm_int.h"

#define PAUSE_MIN_MS	250u
#define PAUSE_MAX_MS	4000u
#define FORGET_MS	60000u	/* a job that was not retried for this time has ended */

/* Members that still matter: a failed or missing member, or one that is about to fail, delays nothing. */
static uint32_t counting(const struct ddr_sm *sm)
{
	uint32_t mask = ddr_sm_written(sm);

	for (uint32_t m = 0; m < sm->shared.sb.members; m++)
		if (sm->shared.sb.member[m].state == DDR_MEMBER_SPARE)
			mask |= 1u << m;
	return mask & ~ddr_sm_going(sm);
}

void ddr_sm_space_none(struct ddr_sm *sm, enum ddr_space kind, uint32_t members)
{
	struct ddr_sm_space *s = &sm->own.space[kind];
	struct ddr_output *out;

	sm->again = true;
	if (!members)
		return;
	if (!s->members) {
		out = ddr_sm_event(sm, DDR_EV_NO_SPACE, ddr_sm_space_text(kind));
		out->member = (uint32_t)__builtin_ctz(members);
		out->a = kind;
		s->pause = PAUSE_MIN_MS;
	} else if (sm->now >= s->again_at) {	/* only once if many hit it at the same time */
		s->pause = s->pause < PAUSE_MAX_MS / 2 ? s->pause * 2 : PAUSE_MAX_MS;
	}
	s->members |= members;
	s->again_at = sm->now + s->pause;
}

void ddr_sm_space_done(struct ddr_sm *sm, enum ddr_space kind)
{
	struct ddr_sm_space *s = &sm->own.space[kind];
	struct ddr_output *out;

	if (!s->members)
		return;
	out = ddr_sm_event(sm, DDR_EV_SPACE, NULL);
	out->member = (uint32_t)__builtin_ctz(s->members);
	out->a = kind;
	*s = (struct ddr_sm_space){ 0 };
	sm->again = true;
}

bool ddr_sm_space_waits(const struct ddr_sm *sm, enum ddr_space kind)
{
	const struct ddr_sm_space *s = &sm->own.space[kind];

	return (s->members & counting(sm)) && !ddr_sm_time(sm, s->again_at);
}

static bool map_waits(struct ddr_sm *sm)
{
	bool any = false;

	for (struct ddr_sm_map *b = sm->own.mapb; b < sm->own.mapb + sm->shared.n_map; b++) {
		b->no_space = b->no_space && ddr_sm_version(sm, b)->dur < ddr_sm_version(sm, b)->mem;	/* another node may have written it since */
		any |= b->no_space;
	}
	return any;
}

static bool log_waits(const struct ddr_sm *sm)
{
	for (const struct ddr_sm_log *b = sm->own.log; b < sm->own.log + sm->own.n_log; b++)
		if (b->no_space)
			return true;
	return false;
}

static bool wanted(struct ddr_sm *sm, enum ddr_space kind)
{
	switch (kind) {
	case DDR_SPACE_SUPER: return sm->own.t.no_space || sm->own.t.level || sm->own.t.io;
	case DDR_SPACE_LOG: return log_waits(sm);
	case DDR_SPACE_MAP: return map_waits(sm);
	case DDR_SPACE_SLOT: return sm->own.c.rc == DDR_RC_WRITE;
	case DDR_SPACE_GROW: return sm->own.t.set.op == DDR_MEMBER_OP_GROW;
	case DDR_SPACE_JOB: return !ddr_sm_time(sm, sm->own.space[kind].again_at + FORGET_MS);
	case DDR_SPACE_KINDS: break;
	}
	return false;
}

/* Members that left, and writes that are no longer retried, are not waited for. */
void ddr_sm_space_pump(struct ddr_sm *sm)
{
	for (uint32_t k = 0; k < DDR_SPACE_KINDS; k++)
		if (sm->own.space[k].members && (sm->shared.failed || !wanted(sm, k) || !(sm->own.space[k].members & counting(sm))))
			sm->own.space[k] = (struct ddr_sm_space){ 0 };
}

void ddr_sm_space_status(const struct ddr_sm *sm, struct ddr_sm_status *st)
{
	for (uint32_t k = 0; k < DDR_SPACE_KINDS; k++) {
		uint32_t members = sm->own.space[k].members & counting(sm);

		if (members && !st->space_wait)
			st->space_wait = ddr_sm_space_text(k);
		st->no_space |= members;
	}
}
