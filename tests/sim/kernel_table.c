// SPDX-License-Identifier: GPL-2.0-or-later
/* Model of the kernel target: another table is loaded and resumed. */
#include "kernel.h"

/* What is in flight ends before the table is exchanged, and what waits is handed back. */
static bool suspended(struct sim *s, struct node *n)
{
	n->k.suspended = true;
	if (kernel_in_flight(&n->k)) {
		kernel_event(s, &n->k);
		return false;
	}
	for (const struct op *op = n->k.op; op < n->k.op + SIM_MAX_OPS; op++)
		if (op->state == OP_PARKING) {
			kernel_event(s, &n->k);
			return false;
		}
	kernel_requeue(s, &n->k);
	n->k.suspended = false;
	return true;
}

bool kernel_exchange(struct sim *s, struct node *n)
{
	bool shadow = n->table_place == DDR_UAPI_SHADOW;

	if (!suspended(s, n))
		return false;
	sim_trace(s, "node %u: table with member %d at place %u", n->id, (int)n->table_member, n->table_place);
	/* another device at a place, or a replacement in use: everything waits until the daemon that has seen this table enables it */
	n->k.unjudged |= !shadow || n->k.state[DDR_UAPI_SHADOW] != DDR_KM_OUT;
	n->k.disk[n->table_place] = n->table_member == DDR_NO_MEMBER ? SIM_NOBODY : (uint8_t)n->table_member;
	if (n->table_member != DDR_NO_MEMBER)
		kernel_forget_errors(&n->k, n->table_place);
	n->k.said_out[n->table_place] &= n->table_member == DDR_NO_MEMBER;
	if (shadow && n->table_member != DDR_NO_MEMBER)
		n->k.shadow_place = ddr_sm_super(n->sm)->member[n->table_member].role;
	else if (!shadow && n->k.shadow_place == n->table_place)
		n->k.disk[DDR_UAPI_SHADOW] = SIM_NOBODY;
	return true;
}
