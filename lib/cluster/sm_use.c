// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Which nodes use the device. Background work leaves the disks to users of the array (daemon/job/rate.c), but the device of the node
 * that works does not show what other nodes read and write. So every node reports when its own device is in use, and when it no
 * longer is, while there is work that this may matter to: a verify, or ranges that another node requested recently.
 *
 * Must never: influence anything but the rate of work; report each pause of a user that reads and writes now and then.
 */
#include "sm_int.h"

#define OVER_MS		2000u	/* the device is not in use if nothing was read or written for this time */
#define WORK_MS		60000u	/* work that only has its minimum rate requests a range only now and then */

void ddr_sm_op_used(struct ddr_sm *sm, bool used)
{
	if (sm->own.use.used && !used)
		sm->own.use.ended_at = sm->now;
	sm->own.use.used = used;
}

void ddr_sm_use_asked(struct ddr_sm *sm)
{
	sm->own.use.asked = true;
	sm->own.use.asked_at = sm->now;
}

void ddr_sm_use_message(struct ddr_sm *sm, const struct ddr_msg *msg)
{
	int at = ddr_sm_node_at(sm, msg->sender);

	if (msg->sender == sm->node) {
		sm->own.use.sent = false;
		sm->own.use.told = msg->use.used;
	} else if (msg->use.used) {
		sm->own.use.others |= 1ull << at;
	} else {
		sm->own.use.others &= ~(1ull << at);
	}
}

bool ddr_sm_used_elsewhere(const struct ddr_sm *sm)
{
	return sm->own.use.others != 0;
}

static bool others_work(const struct ddr_sm *sm)
{
	bool here = false;

	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		here |= (sm->shared.here >> i & 1) && sm->shared.nodes[i].id != sm->node;
	if (!here)
		return false;
	return sm->shared.sb.verify.state == DDR_VERIFY_RUNNING || (sm->own.use.asked && !ddr_sm_time(sm, sm->own.use.asked_at + WORK_MS));
}

void ddr_sm_use_pump(struct ddr_sm *sm)
{
	struct ddr_sm_use *u = &sm->own.use;
	struct ddr_msg msg = { .type = DDR_M_USE, .use.used = u->used };
	bool due = u->used ? !u->told : u->told && ddr_sm_time(sm, u->ended_at + OVER_MS);

	if (!due || u->sent || !ddr_sm_running(sm) || !others_work(sm) || !ddr_sm_may_send(sm))
		return;
	u->sent = true;
	ddr_sm_send(sm, &msg);
}

void ddr_sm_use_view(struct ddr_sm *sm)
{
	sm->own.use.sent = sm->own.use.told = false;	/* a joining node has not received it, */
	sm->own.use.others = 0;			/* and the others send it again */
}
