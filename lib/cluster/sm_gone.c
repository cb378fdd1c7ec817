// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A machine tells the group that what it was before is gone (rule I6).
 *
 * It had a slot, died, and is back: under another node id, so that nobody starts in that slot any more, or after a verdict, which no START ends. No agent
 * may be called for it, since its name is that of a machine that runs. But it knows what no agent can know: that its kernel has no such instance. It says so
 * in GONE; all judge that alike, by the owners of the slots that they share, and the slot is recovered and freed without fencing.
 *
 * Must never: tell it while a kernel of before runs here, or what that kernel or an earlier daemon had begun may still land; tell it of another machine, of
 * which this one is a copy.
 */
#include "lib/math/uuid.h"
#include "sm_int.h"

/*
 * K_ATTACHED says which kernel there is: a machine has one object of an array at most, and it is reported when the I/O of earlier daemons to the members
 * has ended (note 5). What an earlier boot had on its way, its disks and their paths carry out, or drop, within the time of ddr_sm_settle_ms().
 */
static bool knows(const struct ddr_sm *sm)
{
	return sm->kernel.state == DDR_K_ATTACHED && !sm->own.left_over && ddr_sm_time(sm, sm->own.booted_ms + ddr_sm_settle_ms(sm));
}

/*
 * A machine that gets another node id keeps its name. A copy that neither /etc/machine-id nor the firmware tells apart (note 24) has a node id and a name of
 * its own: what runs under the other name may be the machine that it was made from. So the old name needs a proof of death.
 */
static bool bears_its_name(const struct ddr_sm *sm, const struct ddr_sm_node *n)
{
	const char *name = ddr_shared_owner_name(&sm->shared, n->id);

	return !*name || !*sm->own.name || memcmp(name, sm->own.name, sizeof(sm->own.name)) == 0;
}

/* Its own slot this node gets by its START, unless a verdict has excluded it: then no START counts. */
static bool is_gone(const struct ddr_sm *sm, const struct ddr_sm_node *n)
{
	return n->lost && (n->id != sm->node || n->excluded) && bears_its_name(sm, n) &&
	       ddr_shared_owner_gone(&sm->shared, n->id, sm->own.machine, sm->kernel.boot_id, sm->kernel.cookie);
}

static void gone_send(struct ddr_sm *sm, const struct ddr_sm_node *n)
{
	struct ddr_msg msg = { .type = DDR_M_GONE };

	msg.gone.node = n->id;
	msg.gone.failure = n->failure;
	msg.gone.time = sm->wall;
	msg.gone.cookie = sm->kernel.cookie;
	memcpy(msg.gone.boot_id, sm->kernel.boot_id, sizeof(msg.gone.boot_id));
	memcpy(msg.gone.machine, sm->own.machine, sizeof(msg.gone.machine));
	ddr_sm_peer(sm, n)->gone_sent = true;
	ddr_sm_send(sm, &msg);
}

void ddr_sm_gone_pump(struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (!sm->own.peer[i].gone_sent && is_gone(sm, &sm->shared.nodes[i]) && knows(sm) && ddr_sm_may_send(sm))
			gone_send(sm, &sm->shared.nodes[i]);
}

void ddr_sm_gone_resend(struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		sm->own.peer[i].gone_sent = false;
}

void ddr_sm_left_over(struct ddr_sm *sm, bool left)
{
	if (sm->own.left_over && !left)
		sm->ticked = false;	/* the next step may act on it */
	sm->own.left_over = left;
}

bool ddr_sm_slot_comes(const struct ddr_sm *sm)
{
	const struct ddr_sm_shared *s = &sm->shared;

	if (ddr_uuid_is_zero(sm->own.machine) || ddr_shared_slot_choose(s, sm->node) != DDR_SM_NO_SLOT)
		return false;
	for (uint32_t i = 0; i < s->sb.slots; i++) {
		int at = ddr_sm_node_at(sm, s->sb.slot_node[i]);

		if (memcmp(s->owners.slot[i].machine, sm->own.machine, sizeof(sm->own.machine)) != 0)
			continue;
		if ((s->change.slots >> i & 1) && !s->change.slot_node[i])
			return true;
		if (ddr_shared_others_started(s, NULL) && ((s->rec >> i & 1) || (at >= 0 && is_gone(sm, &s->nodes[at]))))
			return true;	/* somebody is there who can recover it */
	}
	return false;
}
