// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * When does the machine want the next TICK? With nothing in work it wants none but for what follows from the time alone, so that a driver
 * which has nothing to do sleeps.
 *
 * Rather too soon than too late: whatever is under way, or waits for a moment, wants each TICK (0). What is called rest here must bring
 * nothing about by a TICK; the simulator tries that (rig_rest() in tests/sim/rig.c).
 *
 * Must never: call it rest where a pump looks at sm->now, but for what is said of it here.
 */
#include "sm_int.h"

/* Nothing is on its way to the disks, and nothing is to be. */
static bool disks_rest(const struct ddr_sm *sm)
{
	for (const struct ddr_sm_log *b = sm->own.log; b < sm->own.log + sm->own.n_log; b++)
		if (b->state != DDR_W_IDLE || b->dirty || b->want || b->ready || b->no_space)
			return false;
	for (const struct ddr_sm_map *b = sm->own.mapb; b < sm->own.mapb + sm->shared.n_map; b++)
		if (b->state != DDR_W_IDLE || b->tell || b->no_space)
			return false;
	for (uint32_t k = 0; k < DDR_SPACE_KINDS; k++)
		if (sm->own.space[k].members)
			return false;
	return ddr_sm_map_idle(sm) && !sm->own.flush_io && sm->own.flush_wanted <= sm->own.flush_issued &&
	       sm->own.batch == DDR_B_IDLE && !sm->own.clear_scan;
}

/* No range is in force, of any node, and none is wanted. */
static bool ranges_rest(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < DDR_SM_EX; i++)
		if (sm->shared.ex[i].used)
			return false;
	for (uint32_t i = 0; i < DDR_SM_RANGES; i++)
		if (sm->own.range[i].state != DDR_R_FREE)
			return false;
	return !sm->own.n_stale && !sm->own.turn.n && sm->own.ex_void == DDR_XV_NONE;
}

/* No job runs, or would if it were not held up. While others work, this node tells when it uses the device. */
static bool jobs_rest(const struct ddr_sm *sm)
{
	bool background = sm->shared.n_needs_sync && !ddr_sm_degraded(sm) && ddr_sm_writer(sm) == sm->node;

	for (uint32_t i = 0; i < DDR_SM_WORKS; i++)
		if (sm->own.wk[i].state != DDR_WK_FREE)
			return false;
	if (!ddr_sm_fixes_idle(sm) || !ddr_sm_scans_idle(sm) || sm->own.n_resync || background || (sm->own.n_look && !ddr_sm_degraded(sm)))
		return false;
	if (sm->shared.sb.verify.state == DDR_VERIFY_RUNNING || sm->own.vf.ask || sm->own.vf.sent || ddr_sm_rebuilding(sm) != DDR_NO_MEMBER)
		return false;
	return !sm->own.use.asked || sm->now - sm->own.use.asked_at >= DDR_SM_USE_MS;
}

/* Nobody of the group is missing, comes or goes, and nothing of it changes. */
static bool group_rests(const struct ddr_sm *sm)
{
	const struct ddr_sm_cluster *c = &sm->own.c;

	if (ddr_sm_any_lost(sm) || sm->shared.rec || c->rc != DDR_RC_IDLE || c->merging || c->leave_wanted || c->transfer || c->reload_io)
		return false;
	if (!ddr_sm_members_settled(sm) || sm->own.t.state != DDR_T_IDLE || sm->own.t.io || sm->own.t.report_hard || sm->own.t.report_soft)
		return false;
	return !sm->own.sk.set.op && !sm->own.sk.ask && !sm->own.g.op && !sm->own.g.room_io && !sm->own.g.prep_io && !sm->own.g.long_at && !sm->shared.grow.by;
}

static bool kernel_rests(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < DDR_SM_MISMATCHES; i++)
		if (sm->kernel.mm[i].used)
			return false;
	return sm->kernel.enabled && !sm->kernel.applying && !sm->kernel.n_err && !sm->kernel.bits && !sm->kernel.shadow_named && !sm->own.n_want;
}

uint64_t ddr_sm_next_tick(const struct ddr_sm *sm)
{
	uint64_t next = UINT64_MAX;

	if (sm->own.gave_up)
		return UINT64_MAX;
	if (!sm->ticked || !ddr_sm_running(sm) || !ddr_sm_talks(sm) || sm->shared.failed || sm->own.stopping || sm->own.clean_wanted || sm->now < sm->own.hold_until)
		return 0;
	if (!kernel_rests(sm) || !disks_rest(sm) || !ranges_rest(sm) || !jobs_rest(sm) || !group_rests(sm))
		return 0;
	if (sm->own.n_granted && !sm->kernel.reap_seq)
		next = sm->own.reap_at + sm->own.idle_ms;
	return next > sm->now ? next : 0;
}
