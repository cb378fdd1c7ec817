// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The clean stop, and leaving the group.
 *
 * Must never: report the array clean while work is in progress; leave while one of our writes may still land.
 */
#include "sm_int.h"

#define LANDING_MS	100u	/* the driver says before a step whether a write may still land: so often there is a step for that */

/* Our slot may have marks of an earlier start of this node, until we have read it. */
bool ddr_sm_marks_known(const struct ddr_sm *sm)
{
	if (!sm->shared.cluster || sm->own.planned || sm->shared.sb.parity == 0)
		return true;
	return sm->own.start == DDR_S_OFF && sm->own.c.synced && ddr_sm_slot_of(sm, sm->node) == DDR_SM_NO_SLOT;
}

bool ddr_sm_at_rest(const struct ddr_sm *sm)
{
	return !sm->own.n_granted && !sm->own.n_want && ddr_sm_works_idle(sm) && ddr_sm_fixes_idle(sm) && ddr_sm_scans_idle(sm) && ddr_sm_ranges_used(sm) == 0 &&
	       !sm->kernel.reap_seq && sm->own.batch == DDR_B_IDLE && !sm->own.clear_scan && ddr_sm_log_idle(sm) && ddr_sm_map_idle(sm) &&
	       ddr_sm_change_idle(sm) && (sm->shared.cluster || !sm->shared.rec);	/* otherwise slots of an adopted array would make the next start require --adopt again */
}

void ddr_sm_clean_pump(struct ddr_sm *sm)
{
	if (!sm->own.clean_wanted || !ddr_sm_room(sm, 1))
		return;
	if (!sm->own.quorate && !sm->shared.failed) {
		sm->own.clean_wanted = sm->own.stopping = false;
		ddr_sm_event(sm, DDR_EV_CLEAN_REFUSED, "without quorum no region can be marked clean")->a = EAGAIN;
		return;
	}
	if (ddr_sm_logs(sm) && (!ddr_sm_running(sm) || !ddr_sm_at_rest(sm)))
		return;		/* also while the log is written anew */
	sm->own.clean_wanted = false;
	ddr_sm_event(sm, DDR_EV_CLEAN, NULL)->a = ddr_sm_marks_known(sm) ? ddr_sm_marks(sm) : UINT64_MAX;
}

/* ---- leaving ---------------------------------------------------------------- */

void ddr_sm_op_leave(struct ddr_sm *sm)
{
	if (sm->own.n_granted) {
		ddr_sm_event(sm, DDR_EV_REFUSED, "the kernel may still write; stop the array first")->a = EBUSY;
		return;
	}
	sm->own.c.leave_wanted = true;
}

/* Is the node leaving, or able to start now? */
static bool moves(const struct ddr_sm *sm, uint32_t id)
{
	int at = ddr_sm_node_at(sm, id);

	return (at >= 0 && sm->shared.nodes[at].leaving) || (ddr_sm_can_begin(sm, id) && !ddr_sm_stranger(sm, id));
}

bool ddr_sm_others_move(const struct ddr_sm *sm, uint32_t id)
{
	for (uint32_t i = 0; i < sm->own.c.n_view; i++)
		if (sm->own.c.view[i].id != id && moves(sm, sm->own.c.view[i].id))
			return true;
	return false;
}

static bool is_last(const struct ddr_sm *sm)
{
	return ddr_shared_is_last(&sm->shared, sm->node, ddr_sm_others_move(sm, sm->node));
}

void ddr_sm_leave_told(struct ddr_sm *sm, const struct ddr_msg *msg, bool leaves)
{
	if (msg->sender == sm->node && leaves)
		sm->own.c.leave_done = true;
	else if (msg->sender == sm->node)
		sm->own.c.leave_sent = false;
	sm->again |= leaves;
}

void ddr_sm_landing(struct ddr_sm *sm, bool landing)
{
	sm->own.c.landing = landing;
}

static bool io_out(const struct ddr_sm *sm)
{
	bool out = sm->own.flush_io && !sm->own.flush_held;

	for (uint32_t i = 0; i < sm->own.n_log; i++)
		out |= sm->own.log[i].state == DDR_W_FLYING;
	for (uint32_t i = 0; i < sm->shared.n_map; i++)
		out |= sm->own.mapb[i].state == DDR_W_FLYING;
	for (uint32_t i = 0; i < DDR_SM_RANGES; i++)
		out |= sm->own.range[i].state == DDR_R_JOB;
	return out;
}

/*
 * None of our I/O may still land on a disk, including I/O that was given up. Once the kernel is gone no work continues, so work
 * that came up after the clean stop (the slot of a dead node, a change of the map) is left to the others.
 */
static bool may_leave(struct ddr_sm *sm)
{
	if (sm->own.c.landing && !ddr_sm_time(sm, sm->now + LANDING_MS))
		return false;
	if (sm->own.t.io || sm->own.g.prep_io || sm->own.c.rc_io || sm->own.n_granted)
		return false;
	if (sm->own.start == DDR_S_DONE && sm->kernel.state != DDR_K_GONE)
		return ddr_sm_at_rest(sm) && sm->own.c.rc == DDR_RC_IDLE;
	return !io_out(sm);
}

void ddr_sm_leave_pump(struct ddr_sm *sm)
{
	struct ddr_msg msg = { .type = DDR_M_LEAVE };
	bool alone = true;

	if (!sm->own.c.leave_wanted || sm->own.c.left_told || !ddr_sm_room(sm, 1))
		return;
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		alone &= !sm->shared.nodes[i].started || sm->shared.nodes[i].id == sm->node;
	if (sm->own.start == DDR_S_OFF ||
	    (sm->own.c.leave_done && !sm->own.t.io && (!alone || ddr_sm_members_settled(sm) || ddr_sm_any_lost(sm)))) {
		sm->own.c.left_told = true;
		ddr_sm_event(sm, DDR_EV_LEFT, NULL);
		return;
	}
	if (sm->own.c.leave_sent || !may_leave(sm) || is_last(sm) || !ddr_sm_may_send(sm))
		return;
	msg.leave.slot = sm->own.slot;
	/* a slot that we have not read may have marks: the remaining nodes read it */
	msg.leave.dirty = ddr_sm_marks_known(sm) ? (uint32_t)ddr_sm_marks(sm) : UINT32_MAX;
	msg.leave.time = sm->wall;
	sm->own.c.leave_sent = true;
	ddr_sm_send(sm, &msg);
}
