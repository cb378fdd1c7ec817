// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The owners of the slots, as the driver reads them from the owner pages and writes them there (format 2), and as status shows them; and what the pages
 * say of a slot's log: from which sequence on it is its owner's.
 *
 * Must never: let the pages say that an owner is dead of which the group does not know that; or that a log is its owner's while a member in the array may
 * have a block of before.
 */
#include "sm_int.h"

void ddr_sm_load_owners(struct ddr_sm *sm, const struct ddr_owners *owners)
{
	memcpy(sm->own.c.disk_owner, owners->slot, sizeof(sm->own.c.disk_owner));
	memcpy(sm->own.c.disk_cluster, owners->cluster, sizeof(sm->own.c.disk_cluster));
}

void ddr_sm_set_cluster(struct ddr_sm *sm, const uint8_t id[16])
{
	if (memcmp(sm->own.cluster, id, sizeof(sm->own.cluster)) == 0)
		return;
	memcpy(sm->own.cluster, id, sizeof(sm->own.cluster));
	sm->own.cluster_due = !ddr_uuid_is_zero(id);
	sm->ticked = false;		/* the next step may act on it */
}

const uint8_t *ddr_sm_cluster(const struct ddr_sm *sm)
{
	return sm->shared.owners.cluster;
}

void ddr_sm_owner_pump(struct ddr_sm *sm)
{
	struct ddr_msg_member_set set = { .op = DDR_MEMBER_OP_RECORD };

	if (ddr_sm_running(sm) && sm->kernel.enabled && ddr_sm_writes(sm) && !sm->own.stopping && sm->own.cluster_due && sm->shared.owned &&
	    ddr_uuid_is_zero(sm->shared.owners.cluster))
		ddr_sm_ask(sm, &set);
}

bool ddr_sm_stranger(const struct ddr_sm *sm, uint32_t node)
{
	const struct ddr_sm_viewer *v = ddr_sm_viewer(sm, node);

	return v && ddr_shared_stranger(&sm->shared, node, v->machine);
}

static bool log_is_new(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->own.n_log; i++)
		if (sm->own.log[i].renew)
			return false;
	return true;
}

void ddr_sm_renew_pump(struct ddr_sm *sm)
{
	struct ddr_msg msg = { .type = DDR_M_RENEWED };
	uint32_t slot = sm->own.slot;

	if (sm->own.start != DDR_S_RENEW)
		return;
	if (sm->shared.owners.slot[slot].renewed) {
		if (sm->shared.change.slots >> slot & 1)
			return;		/* the superblocks do not say it yet */
		sm->own.start = DDR_S_DONE;
		sm->again = true;
		return;
	}
	if (sm->own.renew_sent || !ddr_sm_logs(sm) || !log_is_new(sm) || !ddr_sm_may_send(sm))
		return;
	msg.renewed.slot = slot;
	msg.renewed.seq = sm->own.renew_seq;
	sm->own.renew_sent = true;
	ddr_sm_send(sm, &msg);
}

bool ddr_sm_log_seqs(const struct ddr_sm *sm)
{
	const struct ddr_sm_owners *of = sm->own.t.writing ? &sm->own.next_owners : &sm->shared.owners;
	uint64_t any = 0;

	for (uint32_t i = 0; i < sm->shared.sb.slots; i++)
		any |= of->slot[i].log_seq;
	return any != 0;
}

static void give(const struct ddr_sm_owner *o, struct ddr_owner *to)
{
	to->state = o->state;
	memcpy(to->machine, o->machine, sizeof(to->machine));
	memcpy(to->instance.boot_id, o->boot_id, sizeof(to->instance.boot_id));
	to->instance.cookie = o->cookie;
	to->since = o->since;
	memcpy(to->name, o->name, sizeof(to->name));
	memcpy(to->fenced.boot_id, o->fenced_boot_id, sizeof(to->fenced.boot_id));
	to->fenced.cookie = o->fenced_cookie;
	to->fenced_time = o->fenced_time;
	to->renewed = o->renewed;
	to->log_seq = o->log_seq;
}

/* The state fits whether the slot has an owner: what the group knows already may be for a change that is written later. */
static void fit(struct ddr_owner *to, uint32_t node)
{
	to->node = node;
	if (!node)
		to->state = DDR_SLOT_FREE;
	else if (to->state == DDR_SLOT_FREE)
		to->state = DDR_SLOT_OWNED;
}

void ddr_sm_owners(const struct ddr_sm *sm, struct ddr_owners *owners)
{
	const struct ddr_super *sb = sm->own.t.writing ? &sm->own.next : &sm->shared.sb;
	const struct ddr_sm_owners *of = sm->own.t.writing ? &sm->own.next_owners : &sm->shared.owners;

	for (uint32_t i = 0; i < sb->slots; i++) {
		struct ddr_owner *to = &owners->slot[i];

		give(&of->slot[i], to);
		fit(to, sb->slot_node[i]);
	}
	if (sm->shared.owned)
		memcpy(owners->cluster, of->cluster, sizeof(owners->cluster));
}

void ddr_sm_owner(const struct ddr_sm *sm, uint32_t slot, struct ddr_owner *owner)
{
	memset(owner, 0, sizeof(*owner));
	if (slot >= sm->shared.sb.slots)
		return;
	give(&sm->shared.owners.slot[slot], owner);
	fit(owner, sm->shared.sb.slot_node[slot]);
}
