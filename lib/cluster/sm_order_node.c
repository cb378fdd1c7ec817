// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What a delivered message changes in nodes and slots: which nodes are dead or leave, who recovers a slot, who is the writer.
 *
 * Must never: take a struct ddr_sm; choose another writer while the last one may still write; treat a node as dead on a proof of an
 * earlier failure.
 */
#include "sm_int.h"

/* ---- the writer -------------------------------------------------------------- */

enum ddr_writer_news ddr_order_writer(struct ddr_sm_shared *s)
{
	enum ddr_writer_news news = s->writer ? DDR_WRITER_OTHER : DDR_WRITER_FIRST;
	int at = ddr_shared_node_at(s, s->writer);
	uint32_t id = 0;

	if (at >= 0 && (s->nodes[at].lost || s->nodes[at].started))
		return DDR_WRITER_SAME;
	/* the state was built from the disks: a lost node may have been the writer, or have become it meanwhile, and may still write */
	if (!s->writer && ddr_shared_any_lost(s))
		return DDR_WRITER_SAME;
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++) {
		const struct ddr_sm_node *n = &s->nodes[i];

		if (n->started && !n->leaving && (!id || n->id < id))
			id = n->id;
	}
	s->writer = id;
	return news;
}

/* ---- slots ------------------------------------------------------------------ */

void ddr_order_slot_give(struct ddr_sm_shared *s, uint32_t slot, uint32_t node)
{
	s->change.slots |= 1ull << slot;
	s->change.slot_node[slot] = node;
}

void ddr_order_slot_died(struct ddr_sm_shared *s, uint32_t slot)
{
	if (s->sb.parity == 0)
		s->change.died |= 1ull << slot;
}

/* Ranges that the node has not acknowledged: its dirty regions there are unknown. */
static void ranges_doubt(struct ddr_sm_shared *s, uint32_t node)
{
	int at = ddr_shared_node_at(s, node);

	for (struct ddr_sm_ex *x = s->ex; x < s->ex + DDR_SM_EX; x++)
		if (x->used && at >= 0 && !(x->acked >> at & 1))
			x->dirty = ~0ull;
}

void ddr_order_slot_recover(struct ddr_sm_shared *s, uint32_t slot)
{
	ranges_doubt(s, s->sb.slot_node[slot]);
	if (!(s->rec >> slot & 1))	/* otherwise its owner never started in it again, and the node that recovers it continues */
		s->rec_by[slot] = 0;
	s->rec |= 1ull << slot;
}

void ddr_order_recover_drop(struct ddr_sm_shared *s, uint32_t node)
{
	for (uint32_t i = 0; i < DDR_MAX_SLOTS; i++)
		if (s->rec_by[i] == node)
			s->rec_by[i] = 0;
}

/* Does the instance take part? It may have had the slot under another node id, when it adopted the array. */
static bool takes_part(const struct ddr_sm_shared *s, const uint8_t boot_id[16], uint64_t cookie)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (s->nodes[i].started && s->nodes[i].cookie == cookie && !memcmp(s->nodes[i].boot_id, boot_id, sizeof(s->nodes[i].boot_id)))
			return true;
	return false;
}

/*
 * Another node has taken over this kernel's dirty regions, so it must never write again, even if it still runs: storage fencing does
 * not power anything off. A group that did not see its START knows the kernel only from its slot.
 */
static void instance_dead(struct ddr_sm_shared *s, uint32_t slot, const struct ddr_msg *msg)
{
	int at = ddr_shared_node_at(s, s->sb.slot_node[slot]);
	struct ddr_sm_node *n = at < 0 ? NULL : &s->nodes[at];

	if (!n || n->started || !n->dead || n->cookie || !msg->recover.cookie || takes_part(s, msg->recover.boot_id, msg->recover.cookie))
		return;
	n->cookie = msg->recover.cookie;
	memcpy(n->boot_id, msg->recover.boot_id, sizeof(n->boot_id));
	ddr_order_owner_dead(s, slot, n->boot_id, n->cookie, n->cut_off, msg->recover.time);
}

static void recovered(struct ddr_sm_shared *s, uint32_t slot, const struct ddr_msg *msg)
{
	instance_dead(s, slot, msg);
	s->nodes[ddr_shared_node_at(s, s->rec_by[slot])].folded = false;	/* it has older marks now */
	s->rec &= ~(1ull << slot);
	s->rec_by[slot] = 0;
	/*
	 * Nothing is marked in the slot any more, so it is free for any node, the dead one among them: it may never come back, or with another id (rule I5,
	 * finding T6). Who gets it next writes all of its log anew, so a late write of the dead node is recognised (note 25). In format 1 it would not be: there
	 * the slot stays the dead node's, except without a cluster, where that one never starts again and the next start would be refused because of it, and without
	 * parity, where no slot has marks: the missing slot distinguishes a kernel that was cut off but still runs from one that took part until now
	 * (start_refused() in sm_order_start.c); and the change that frees the slot lets a copy restart.
	 */
	if (!s->cluster || s->sb.parity == 0 || s->owned) {
		ddr_order_slot_give(s, slot, 0);
		ddr_order_owner_frees(s, slot, msg->recover.time);
	}
}

enum ddr_recover_answer ddr_order_recover(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	uint32_t slot = msg->recover.slot;

	if (slot >= s->sb.slots || !(s->rec >> slot & 1))
		return DDR_RECOVER_WRONG;
	if (msg->type == DDR_M_RECOVERED && s->rec_by[slot] == msg->sender) {
		recovered(s, slot, msg);
		return DDR_RECOVER_DONE;
	}
	if (msg->type != DDR_M_RECOVER || s->rec_by[slot])
		return DDR_RECOVER_LATE;
	s->rec_by[slot] = msg->sender;
	return DDR_RECOVER_TAKEN;
}

/* ---- nodes that are proven dead --------------------------------------------- */

/* Its ranges and other claims are released, and its slot is to be recovered. */
static void dies(struct ddr_sm_shared *s, struct ddr_sm_node *n, bool cut_off, uint64_t time, struct ddr_order_dead *dead)
{
	uint32_t slot = ddr_shared_slot_of(s, n->id), claimed = ddr_shared_slot_claimed(s, n->id);
	enum ddr_writer_news writer;

	dead->nodes |= 1ull << (n - s->nodes);
	n->lost = n->excluded = n->absent = n->leaving = false;
	n->dead = true;
	n->cut_off = cut_off;
	ddr_order_ex_gone(s, n->id, &dead->ended);
	ddr_order_recover_drop(s, n->id);
	if (slot != DDR_SM_NO_SLOT) {
		ddr_order_slot_died(s, slot);
		ddr_order_slot_recover(s, slot);
	}
	if (slot != DDR_SM_NO_SLOT || claimed != DDR_SM_NO_SLOT)
		ddr_order_owner_dead(s, slot != DDR_SM_NO_SLOT ? slot : claimed, n->boot_id, n->cookie, cut_off, time);
	if (slot == DDR_SM_NO_SLOT && claimed != DDR_SM_NO_SLOT && s->owned) {	/* it has written nothing there */
		ddr_order_slot_give(s, claimed, 0);
		ddr_order_owner_frees(s, claimed, time);
	}
	writer = ddr_order_writer(s);
	if (writer > dead->writer)
		dead->writer = writer;
}

void ddr_order_lost_adopted(struct ddr_sm_shared *s, uint64_t time, struct ddr_order_dead *dead)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (s->nodes[i].lost)
			dies(s, &s->nodes[i], false, time, dead);
}

enum ddr_fenced_answer ddr_order_fenced(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_order_dead *dead)
{
	int at = ddr_shared_node_at(s, msg->fenced.node);
	struct ddr_sm_node *n = at < 0 ? NULL : &s->nodes[at];

	memset(dead, 0, sizeof(*dead));
	if (!n || !n->lost || n->failure != msg->fenced.failure)
		return DDR_FA_OLD;
	if (msg->fenced.how == DDR_FENCED_FAILED) {
		n->attempt++;
		return DDR_FA_NEXT;
	}
	dies(s, n, msg->fenced.how == DDR_FENCED_STORAGE, msg->fenced.time, dead);
	return DDR_FA_DEAD;
}

bool ddr_order_gone(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_order_dead *dead)
{
	int at = ddr_shared_node_at(s, msg->gone.node);
	struct ddr_sm_node *n = at < 0 ? NULL : &s->nodes[at];

	memset(dead, 0, sizeof(*dead));
	if (!n || !n->lost || n->failure != msg->gone.failure ||
	    !ddr_shared_owner_gone(s, n->id, msg->gone.machine, msg->gone.boot_id, msg->gone.cookie))
		return false;
	dies(s, n, false, msg->gone.time, dead);
	return true;
}

/* ---- leaving ------------------------------------------------------------------ */

bool ddr_shared_is_last(const struct ddr_sm_shared *s, uint32_t id, bool others)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++) {
		const struct ddr_sm_node *n = &s->nodes[i];

		if (n->id != id && n->started && !n->leaving && ddr_shared_slot_of(s, n->id) != DDR_SM_NO_SLOT)
			return false;
	}
	return others;
}

bool ddr_order_leave(struct ddr_sm_shared *s, const struct ddr_msg *msg, bool others)
{
	struct ddr_sm_node *n = &s->nodes[ddr_shared_node_at(s, msg->sender)];
	uint32_t slot = ddr_shared_slot_of(s, msg->sender), claimed = ddr_shared_slot_claimed(s, msg->sender);

	if (ddr_shared_is_last(s, msg->sender, others))	/* the others left at the same moment */
		return false;
	n->leaving = true;
	/* a slot that the node does not own yet was free: nothing is marked there, although the node has not read it */
	n->leave_dirty = claimed == DDR_SM_NO_SLOT ? msg->leave.dirty : 0;
	if (claimed != DDR_SM_NO_SLOT)
		slot = claimed;
	if (n->leave_dirty)
		ranges_doubt(s, n->id);
	if (!n->leave_dirty && slot != DDR_SM_NO_SLOT) {
		ddr_order_slot_give(s, slot, 0);
		ddr_order_owner_frees(s, slot, msg->leave.time);
	}
	return true;
}
