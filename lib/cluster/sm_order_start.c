// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What a delivered START changes: may the sender take part, and in which slot.
 *
 * Must never: take a struct ddr_sm; let an instance take part that was fenced, or that a verdict has excluded; give a slot that is being recovered, or that of
 * a lost node to another machine that has its id.
 */
#include "slots.h"
#include "sm_int.h"

static const char not_all_members[] = "this node cannot reach all members that the running nodes use. When it can" DDR_SM_ANEW;

static const char recorded_text[] = "the superblocks record that this node was fenced, or acknowledged as powered off, since it started the array" DDR_SM_START_ANEW;

static const char cut_off_text[] = "this machine was fenced from its disks: what it has cached may be old, so reboot it, and start the array then";

static const char evicted_text[] = "this node was fenced" DDR_SM_START_ANEW;

/* Why the node cannot take part yet, or ever; NULL: it can. */
static const char *start_refused(const struct ddr_sm_shared *s, const struct ddr_sm_node *n, const struct ddr_msg *msg, uint32_t slot, uint32_t view)
{
	if (n->dead && n->cut_off && !memcmp(n->boot_id, msg->start.boot_id, sizeof(n->boot_id)))
		return cut_off_text;
	/* a kernel that has booted holds nothing before its START counts; one that holds something is the instance that was fenced */
	if (n->dead && (msg->start.held || (n->cookie == msg->start.cookie && !memcmp(n->boot_id, msg->start.boot_id, sizeof(n->boot_id)))))
		return evicted_text;
	/* likewise where nobody is left who has seen that; also under another node id */
	if (ddr_shared_instance_dead(s, msg->start.boot_id, msg->start.cookie))
		return ddr_shared_boot_cut_off(s, msg->start.boot_id) ? cut_off_text : recorded_text;
	/* nothing is granted before the superblocks name the slot's owner; a kernel that holds something without a slot has lost its slot */
	if (msg->start.held && ddr_shared_slot_of(s, n->id) == DDR_SM_NO_SLOT && ddr_shared_slot_claimed(s, n->id) == DDR_SM_NO_SLOT)
		return evicted_text;
	if (slot == DDR_SM_NO_SLOT)
		return ddr_slots_none_free;
	if (ddr_shared_mark_refused(s, msg))
		return ddr_shared_mark_refused(s, msg);
	if ((msg->start.flags & DDR_START_ADOPT) && view > 1)
		return "other nodes of this cluster have the array, or wait for it. If they use it, start it without --adopt. Otherwise stop it there first";
	return msg->start.missing && ddr_shared_others_started(s, n) ? not_all_members : NULL;
}

/* Claims the slot; it belongs to the node once the superblocks say so. */
static void claim(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_order_start *news)
{
	if (s->sb.slot_node[news->slot])
		ddr_order_slot_died(s, news->slot);	/* a node that leaves cleanly owns no slot any more */
	ddr_order_slot_give(s, news->slot, msg->sender);
	ddr_order_owner_begins(s, news->slot, msg);
	ddr_order_members_missing(s, msg->start.missing, &news->voided, &news->failed);
}

/* Only the START describes the node: everything known before is void. */
static void node_begins(struct ddr_sm_shared *s, struct ddr_sm_node *n, const struct ddr_msg *msg)
{
	n->started = true;
	n->lost = n->absent = n->folded = n->dead = n->cut_off = n->leaving = false;
	n->failure = 0;
	n->sees = ddr_shared_seen_at_start(s, msg->start.present);
	n->roomed = false;
	n->cookie = msg->start.cookie;
	memcpy(n->boot_id, msg->start.boot_id, sizeof(n->boot_id));
}

enum ddr_start_answer ddr_order_start(struct ddr_sm_shared *s, const struct ddr_msg *msg, uint32_t view, struct ddr_order_start *news)
{
	uint32_t at = (uint32_t)ddr_shared_node_at(s, msg->sender), slot = ddr_shared_slot_choose(s, msg->sender);
	struct ddr_sm_node *n = &s->nodes[at];
	enum ddr_writer_news writer;

	*news = (struct ddr_order_start){ .slot = slot, .why = start_refused(s, n, msg, slot, view) };
	/* what it says now does not show what its kernel did while it said nothing: it waits until it is fenced (note 30) */
	if (n->excluded)
		return DDR_START_LATER;
	/* another machine with its id does not show what that one does (note 24), unless the operator says that nobody else uses the disks */
	if (!(msg->start.flags & DDR_START_ADOPT) && ddr_shared_stranger_begins(s, n->id, msg->start.machine, msg->start.boot_id, msg->start.cookie))
		return DDR_START_LATER;
	if (news->why)
		return DDR_START_REFUSED;
	/* nor if the array has grown since the START was sent, or is about to, and the sender has not seen its devices so large */
	if (!ddr_shared_slot_settled(s, slot, msg->sender) || msg->start.room < ddr_shared_grow_needs(s))
		return DDR_START_LATER;
	s->rec &= ~(1ull << slot);
	node_begins(s, n, msg);
	/* the work of its last process has ended; that process's acknowledgements do not count for this one */
	ddr_order_ex_gone(s, msg->sender, &news->ended);
	ddr_order_recover_drop(s, msg->sender);
	ddr_order_ex_unacked(s, at);
	s->change.acked &= ~(1ull << at);
	ddr_order_mark_start(s, msg, &news->dead);
	writer = ddr_order_writer(s);
	if (writer > news->dead.writer)
		news->dead.writer = writer;
	claim(s, msg, news);
	return DDR_START_BEGUN;
}
