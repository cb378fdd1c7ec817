// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The member states that are sent to our kernel, and the table that it needs for them.
 *
 * Must never: send a state before the superblocks have it; let a kernel use a device for the wrong member; leave the kernel unfrozen
 * without quorum.
 */
#include "sm_int.h"

/* Did the holder of this place come in as a shadow that the table does not name at this place yet? */
static bool shadow_serves(const struct ddr_sm *sm, uint32_t position)
{
	uint32_t m = sm->kernel.shadow;

	return m < sm->shared.sb.members && ddr_sm_member_at(sm, position) == m && !(sm->kernel.table >> m & 1);
}

/*
 * The member that lost its role to another one in the change that not all nodes have acknowledged: it failed, or was copied
 * completely. Both took their state with that change. A member that lost its role in another way had failed before.
 */
static uint32_t left_member(const struct ddr_sm *sm)
{
	for (uint32_t m = 0; m < sm->shared.sb.members; m++) {
		const struct ddr_member *old = &sm->shared.sb.member[m];

		if (!(sm->shared.change.leaving >> m & 1) || old->role != DDR_ROLE_NONE)
			continue;
		for (uint32_t i = 0; i < sm->shared.sb.members; i++) {
			const struct ddr_member *new = &sm->shared.sb.member[i];

			if (new->since == old->since && new->role != DDR_ROLE_NONE && (new->state == DDR_MEMBER_IN_SYNC || new->state == DDR_MEMBER_REBUILDING))
				return m;
		}
	}
	return DDR_NO_MEMBER;
}

/* The member that our kernel should use at the position, or DDR_NO_MEMBER: none, or one that leaves. */
static uint32_t wanted_at(const struct ddr_sm *sm, uint32_t position)
{
	uint32_t m = sm->kernel.shadow;

	if (position != DDR_UAPI_SHADOW)
		return shadow_serves(sm, position) ? DDR_NO_MEMBER : ddr_sm_member_at(sm, position);
	return m < sm->shared.sb.members && shadow_serves(sm, sm->shared.sb.member[m].role) ? m : ddr_sm_replacing(sm);
}

static bool named(const struct ddr_sm *sm, uint32_t position, uint32_t m)
{
	return position == DDR_UAPI_SHADOW ? sm->kernel.shadow == m : sm->kernel.table >> m & 1;
}

uint32_t ddr_sm_device_at(const struct ddr_sm *sm, uint32_t position, bool absent)
{
	uint32_t m = wanted_at(sm, position), left = left_member(sm);

	if (m == DDR_NO_MEMBER)
		return left;
	if (named(sm, position, m))
		return m;
	/* the member that had the place, and failed when this one got it */
	if (left != DDR_NO_MEMBER && sm->shared.sb.member[left].since == sm->shared.sb.member[m].since)
		return left;
	return absent ? m : DDR_NO_MEMBER;	/* the device that our table still has there belongs to a member that had failed before */
}

/* The member is leaving, no node reads it, and its device is not available here: other nodes must not wait for it. */
static bool given_up(const struct ddr_sm *sm, uint32_t position, uint32_t m)
{
	return (ddr_sm_going(sm) >> m & 1) && sm->shared.sb.member[m].state == DDR_MEMBER_REBUILDING && !named(sm, position, m) &&
	       (position == DDR_UAPI_SHADOW || sm->shared.sb.member[m].cursor == 0);
}

static uint8_t kernel_state(const struct ddr_sm *sm, uint32_t position)
{
	uint32_t m = wanted_at(sm, position);
	bool of_left = position == DDR_UAPI_SHADOW || shadow_serves(sm, position);

	/* others may still read it: nothing completes without it, whether our table names it or not */
	if (m == DDR_NO_MEMBER || given_up(sm, position, m)) {
		of_left |= m != DDR_NO_MEMBER;
		return of_left && left_member(sm) != DDR_NO_MEMBER ? DDR_KM_LEAVING : DDR_KM_OUT;
	}
	if (sm->shared.change.leaving >> m & 1)
		return DDR_KM_LEAVING;
	switch (sm->shared.sb.member[m].state) {
	case DDR_MEMBER_IN_SYNC: return DDR_KM_IN_SYNC;
	case DDR_MEMBER_REBUILDING: return DDR_KM_REBUILDING;
	}
	return DDR_KM_OUT;
}

static uint64_t cursor_of(const struct ddr_sm *sm, uint32_t position)
{
	uint64_t cursor;

	if (kernel_state(sm, position) != DDR_KM_REBUILDING)
		return 0;
	cursor = sm->shared.sb.member[wanted_at(sm, position)].cursor;
	return cursor < sm->kernel.blocks ? cursor : sm->kernel.blocks;
}

/* The member that the state of the position concerns, whatever the table names. */
static uint8_t subject(const struct ddr_sm *sm, uint32_t position)
{
	uint32_t m = wanted_at(sm, position);

	return (uint8_t)(m != DDR_NO_MEMBER ? m : left_member(sm));
}

/*
 * Was the present state sent to the kernel, for this member? A state that was sent for an earlier member of this place does not
 * count, unless it is OUT.
 */
static bool told(const struct ddr_sm *sm, uint32_t position)
{
	uint8_t state = kernel_state(sm, position);

	return sm->kernel.sent[position] == state && sm->kernel.cursor[position] == cursor_of(sm, position) &&
	       (state == DDR_KM_OUT || sm->kernel.sent_of[position] == subject(sm, position));
}

/* The positions in the order in which they are sent: a place may be read from its shadow as soon as it is no longer read itself. */
static uint32_t position_of(uint32_t i)
{
	return i == 0 ? DDR_UAPI_SHADOW : i - 1;
}

static bool all_told(const struct ddr_sm *sm)
{
	if (sm->kernel.state != DDR_K_ATTACHED)
		return false;
	for (uint32_t i = 0; i <= sm->shared.sb.roles; i++)
		if (!told(sm, position_of(i)))
			return false;
	return true;
}

/* A replacement has to wait while the disk of an earlier one still serves as the shadow. */
static bool shadow_awaited(const struct ddr_sm *sm)
{
	uint32_t m = ddr_sm_replacing(sm);

	return m != DDR_NO_MEMBER && !(ddr_sm_going(sm) >> m & 1) && wanted_at(sm, DDR_UAPI_SHADOW) != m;
}

bool ddr_sm_members_told(const struct ddr_sm *sm)
{
	return all_told(sm) && !shadow_awaited(sm);
}

bool ddr_sm_applied(const struct ddr_sm *sm)
{
	return ddr_sm_members_told(sm) && !sm->kernel.applying;
}

void ddr_sm_member_applied(struct ddr_sm *sm, const struct ddr_rec *rec)
{
	for (uint32_t i = 0; i <= sm->shared.sb.roles; i++) {
		uint32_t p = position_of(i);

		if ((sm->kernel.applying >> p & 1) && sm->kernel.member_seq[p] == rec->seq) {
			sm->kernel.applying &= ~(1u << p);
			return;
		}
	}
	ddr_sm_bug(sm, "the kernel answered APPLIED, but no MEMBER was sent");
}

/* ---- the table -------------------------------------------------------------- */

static void table_ask(struct ddr_sm *sm, uint32_t member, uint32_t position)
{
	struct ddr_output *out = ddr_sm_out(sm, DDR_OUT_TABLE);

	out->member = member;
	out->index = position;
}

/* Another member may have had this place when the kernel got its table: that device must not be used as if it were this member. */
static bool table_has(struct ddr_sm *sm, uint32_t position)
{
	uint32_t m = wanted_at(sm, position);

	if (position == DDR_UAPI_SHADOW ? sm->kernel.shadow == m : sm->kernel.table >> m & 1)
		return true;
	if (!ddr_sm_room(sm, 1))
		return false;
	if (position == DDR_UAPI_SHADOW && sm->kernel.shadow_asked != m) {
		table_ask(sm, m, position);
		sm->kernel.shadow_asked = m;
	} else if (position != DDR_UAPI_SHADOW && !(sm->kernel.table_asked >> m & 1)) {
		table_ask(sm, m, position);
		sm->kernel.table_asked |= 1u << m;
	}
	return false;
}

/* Removes a shadow that the kernel no longer needs from its table. Until then nothing is wrong, but the next replacement waits. */
static void table_tidy(struct ddr_sm *sm)
{
	uint32_t m = sm->kernel.shadow, place = m < sm->shared.sb.members ? sm->shared.sb.member[m].role : DDR_NO_MEMBER;

	if (!sm->kernel.shadow_named || !ddr_sm_running(sm) || !all_told(sm) || sm->kernel.applying || !ddr_sm_time(sm, sm->kernel.tidy_at) || !ddr_sm_room(sm, 1))
		return;
	if (kernel_state(sm, DDR_UAPI_SHADOW) == DDR_KM_OUT && !sm->kernel.unname_asked) {
		table_ask(sm, DDR_NO_MEMBER, DDR_UAPI_SHADOW);
		sm->kernel.unname_asked = true;
	} else if (place < sm->shared.sb.roles && shadow_serves(sm, place) && kernel_state(sm, place) == DDR_KM_OUT && !(sm->kernel.table_asked >> m & 1)) {
		table_ask(sm, m, place);
		sm->kernel.table_asked |= 1u << m;
	}
}

static bool table_asked(const struct ddr_sm *sm, uint32_t member, bool shadow)
{
	if (member == DDR_NO_MEMBER)
		return shadow && sm->kernel.unname_asked;
	if (member >= sm->shared.sb.members)
		return false;
	return shadow ? sm->kernel.shadow_asked == member : sm->kernel.table_asked >> member & 1;
}

/* The table could not be changed: retried later. A member that waits for the table counts as failed on this node. */
static void tidy_failed(struct ddr_sm *sm)
{
	sm->kernel.tidy_at = sm->now + DDR_SM_RETRY_MS;
	if (shadow_awaited(sm))
		ddr_sm_report(sm, 1u << ddr_sm_replacing(sm), true);
}

/* The table cannot name the device: for this node the member has failed, unless the kernel has it as a shadow already. */
void ddr_sm_table_done(struct ddr_sm *sm, const struct ddr_input *in)
{
	bool shadow = in->value == DDR_UAPI_SHADOW;
	uint32_t m = in->member;

	if (!table_asked(sm, m, shadow)) {
		ddr_sm_bug(sm, "a change of the device table ended that was never started");
		return;
	}
	if (m == DDR_NO_MEMBER) {
		sm->kernel.unname_asked = false;
		sm->kernel.shadow_named = in->result != 0;
	} else if (shadow) {
		sm->kernel.shadow_asked = DDR_NO_MEMBER;
		sm->kernel.shadow = in->result ? sm->kernel.shadow : m;
		sm->kernel.shadow_named |= !in->result;
	} else {
		sm->kernel.table_asked &= ~(1u << m);
		sm->kernel.table |= in->result ? 0 : 1u << m;
	}
	if (in->result && (m == DDR_NO_MEMBER || (!shadow && sm->kernel.shadow == m)))
		tidy_failed(sm);
	else if (in->result)
		ddr_sm_report(sm, 1u << m, true);
}

/* ---- sending states to the kernel ------------------------------------------- */

static void freeze(struct ddr_sm *sm)
{
	bool want = !ddr_sm_active(sm) && !sm->shared.failed;

	if ((sm->kernel.freeze_told && want == sm->kernel.frozen) || !ddr_sm_room(sm, 1))
		return;
	if (want)
		ddr_sm_rec(sm, DDR_U_FREEZE, 0, 0, 0)->flags = DDR_F_READS;
	else
		ddr_sm_rec(sm, DDR_U_THAW, 0, 0, 0);
	sm->kernel.frozen = want;
	sm->kernel.freeze_told = true;
	sm->kernel.status = true;
}

/* The superblocks are authoritative: the kernel gets a state only when they have it. */
static void member_tell(struct ddr_sm *sm, uint32_t p)
{
	uint8_t state = kernel_state(sm, p);
	struct ddr_rec *rec;

	/* the kernel accepts the next state of a member only when it has applied the last one */
	if (told(sm, p) || (sm->kernel.applying >> p & 1) || !ddr_sm_room(sm, 1))
		return;
	if ((state == DDR_KM_REBUILDING || state == DDR_KM_IN_SYNC) && !table_has(sm, p))
		return;
	/* the shadow is read in place of this device from now on: the kernel must know that first */
	if (p != DDR_UAPI_SHADOW && shadow_serves(sm, p) && kernel_state(sm, DDR_UAPI_SHADOW) == DDR_KM_IN_SYNC && !told(sm, DDR_UAPI_SHADOW))
		return;
	sm->kernel.member_seq[p] = ddr_sm_kseq(sm);
	rec = ddr_sm_rec(sm, DDR_U_MEMBER, sm->kernel.member_seq[p], 0, 0);
	rec->member = p;
	rec->arg[0] = state;
	rec->start = cursor_of(sm, p);
	sm->kernel.sent[p] = state;
	sm->kernel.sent_of[p] = subject(sm, p);
	sm->kernel.cursor[p] = rec->start;
	sm->kernel.applying |= 1u << p;
}

void ddr_sm_kernel_pump(struct ddr_sm *sm)
{
	if (sm->kernel.state != DDR_K_ATTACHED)
		return;
	freeze(sm);
	if (sm->own.start < DDR_S_DELIVERED || (sm->own.start == DDR_S_DELIVERED && !sm->shared.change.ack))
		return;
	for (uint32_t i = 0; i <= sm->shared.sb.roles; i++)
		member_tell(sm, position_of(i));
	table_tidy(sm);
}
