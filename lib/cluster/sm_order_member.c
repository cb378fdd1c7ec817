// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What a delivered message changes in the members: failures, the next change, and its end.
 *
 * Must never: take a struct ddr_sm; leave fewer members than the data needs (rule 4); accept a written change that was not judged.
 */
#include "sm_int.h"

static const struct ddr_msg_member_set none;

/* ---- members that fail ------------------------------------------------------ */

/* Judges one member of an intent. Returns false if the array needs it. */
static bool judge(const struct ddr_sm_shared *s, uint32_t m, uint32_t *want)
{
	if (!(ddr_shared_alive(s) >> m & 1) || (ddr_shared_going(s) >> m & 1))
		return true;
	if (!ddr_shared_can_lose(s, 1u << m))
		return false;
	*want |= 1u << m;
	return true;
}

bool ddr_order_whole_void(struct ddr_sm_shared *s)
{
	struct ddr_msg_member_set *set = &s->change.set;

	if (set->op != DDR_MEMBER_OP_WHOLE || set->member != ddr_shared_replacing(s))
		return false;
	set->op = DDR_MEMBER_OP_STAY;
	return true;
}

/* A member fails that is being replaced, or replaces one. Judged by the state at the delivery of the failure, so that all nodes decide alike. */
static bool copy_judge(struct ddr_sm_shared *s)
{
	uint32_t replaced = ddr_shared_replaced(s);

	if (replaced == DDR_NO_MEMBER)
		return false;
	if ((ddr_shared_going(s) >> replaced & 1) && !ddr_shared_all_folded(s))
		s->change.copy_void = true;
	return (ddr_shared_going(s) >> ddr_shared_replacing(s) & 1) && ddr_order_whole_void(s);
}

static bool array_fails(struct ddr_sm_shared *s)
{
	bool was = s->failed;

	s->failed = true;
	return !was;
}

/*
 * A hard report that is refused. If the sender is the only node, the array has failed. Otherwise the sender must give up, since its kernel's
 * writes cannot be completed. A sender that is leaving has no kernel any more, and the remaining nodes write what it could not.
 */
static void refused_hard(struct ddr_sm_shared *s, uint32_t sender, struct ddr_order_fail *n)
{
	uint32_t at = (uint32_t)ddr_shared_node_at(s, sender);

	if (s->nodes[at].leaving)
		return;
	if (ddr_shared_voters(s) == 1ull << at)
		n->failed = array_fails(s);
	else
		n->sender_goes = true;
}

bool ddr_order_member_fail(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_order_fail *n)
{
	uint32_t all = msg->fail.hard | msg->fail.soft, before = ddr_shared_going(s);

	memset(n, 0, sizeof(*n));
	if (all >> s->sb.members)
		return false;
	for (uint32_t m = 0; m < s->sb.members; m++)
		if ((all >> m & 1) && !judge(s, m, &s->change.faulty)) {
			n->hard |= msg->fail.hard & 1u << m;
			n->soft |= msg->fail.soft & 1u << m;
		}
	s->change.exchanged |= msg->fail.exchanged & ddr_shared_going(s) & ~before;
	if (ddr_shared_going(s) != before)
		ddr_order_ex_cancel(s, &n->ended);
	n->voided = copy_judge(s);
	if (n->hard)
		refused_hard(s, msg->sender, n);
	return true;
}

void ddr_order_members_missing(struct ddr_sm_shared *s, uint32_t missing, bool *voided, bool *failed)
{
	*failed = false;
	for (uint32_t m = 0; m < s->sb.members; m++)
		if ((missing >> m & 1) && !judge(s, m, &s->change.missing))
			*failed |= array_fails(s);
	*voided = copy_judge(s);
}

void ddr_order_members_leave(struct ddr_sm_shared *s, uint32_t members)
{
	uint64_t voters = ddr_shared_voters(s);

	/* a single node waits for no other: no other kernel reads from these members while this one writes without them */
	if (voters & (voters - 1))
		s->change.leaving |= members;
}

static uint32_t members_out(const struct ddr_sm_shared *s)
{
	uint32_t out = 0;

	for (uint32_t m = 0; m < s->sb.members; m++)
		if (ddr_shared_is_out(s, m))
			out |= 1u << m;
	return out;
}

uint32_t ddr_shared_seen_at_start(const struct ddr_sm_shared *s, uint32_t present)
{
	return present & ((1u << s->sb.members) - 1) & ~members_out(s);
}

void ddr_order_members_gone(struct ddr_sm_shared *s, uint32_t members)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		s->nodes[i].sees &= ~members;
	s->change.back &= ~members;
}

/* ---- changes that are wanted ------------------------------------------------ */

/* One change at a time, and none while a failure is in progress; the sender decides again when that has ended. */
bool ddr_order_member_set(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	if (!ddr_shared_members_settled(s) || !ddr_shared_set_valid(s, &msg->set))
		return false;
	s->change.set = msg->set;
	return true;
}

/* ---- and their end ---------------------------------------------------------- */

const char *ddr_order_member_ack(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	if (!s->change.ack || msg->ack.seq != s->sb.seq)
		return "a node acknowledged a change of the members that is not under way";
	s->change.acked |= 1ull << ddr_shared_node_at(s, msg->sender);
	return NULL;
}

bool ddr_order_member_settle(struct ddr_sm_shared *s)
{
	if (!ddr_shared_all_acked(s))
		return false;
	s->change.ack = false;
	s->change.leaving = 0;
	return true;
}

/* Does the message complete exactly the members and slots of the change that was judged? */
static bool done_valid(const struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_super *sb)
{
	const struct ddr_sm_change *c = &s->change;

	if (c->ack || !(msg->done.faulty | msg->done.missing | msg->done.slots | msg->done.mark | msg->done.set.op) ||
	    msg->sender != ddr_shared_writer(s) || msg->done.generation < s->sb.generation || msg->done.seq <= s->sb.seq)
		return false;
	if (msg->done.faulty & ~c->faulty || msg->done.missing & ~c->missing || msg->done.slots & ~c->slots)
		return false;
	if (msg->done.set.op && !ddr_sm_same_set(&msg->done.set, &c->set))
		return false;
	*sb = s->sb;
	sb->generation = msg->done.generation;
	sb->seq = msg->done.seq;
	memcpy(sb->gen_id, msg->done.gen_id, sizeof(sb->gen_id));
	memcpy(sb->gen_prev, msg->done.gen_prev, sizeof(sb->gen_prev));
	ddr_shared_apply(s, sb, &msg->done.set, msg->done.faulty, msg->done.missing, msg->done.slots, msg->done.owner);
	ddr_sm_mark_apply(sb, msg->done.mark);
	return ddr_super_check(sb).code == DDR_FE_OK;
}

/* WHOLE was in flight when it was cancelled, see ddr_order_whole_void(). */
static bool overtaken(const struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	const struct ddr_msg_member_set *set = &s->change.set;

	return msg->done.set.op == DDR_MEMBER_OP_WHOLE && set->op == DDR_MEMBER_OP_STAY && set->member == msg->done.set.member &&
	       msg->sender == ddr_shared_writer(s);
}

/*
 * The owners of slots are as written on the disks. If a node has left or was recovered meanwhile, or more is known of an owner than when this was written,
 * another change follows.
 */
static void slots_done(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	s->change.slots &= ~msg->done.slots;
	for (uint32_t i = 0; i < s->sb.slots; i++)
		if ((msg->done.slots >> i & 1) && (s->change.slot_node[i] != msg->done.owner[i] || s->owners.slot[i].changed > msg->done.changes))
			s->change.slots |= 1ull << i;
}

enum ddr_event ddr_shared_set_event(const struct ddr_sm_shared *s, const struct ddr_msg_member_set *set)
{
	if (set->op == DDR_MEMBER_OP_WHOLE)
		return DDR_EV_REBUILD_DONE;
	if (set->op == DDR_MEMBER_OP_REMOVE)
		return DDR_EV_MEMBER_REMOVED;
	return s->sb.member[set->member].state == DDR_MEMBER_SPARE ? DDR_EV_MEMBER_ADDED : DDR_EV_REBUILD_START;
}

/* A member's rebuild begins: no node has folded. */
static void unfold(struct ddr_sm_shared *s)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		s->nodes[i].folded = false;
	for (uint32_t i = 0; i < s->n_map; i++)
		ddr_order_version(s, i)->mem++;	/* counted as changed: it is written once more, also to the new member */
}

/* From now on every kernel writes to the rebuilding member; earlier writes are folded into the map. */
static void set_done(struct ddr_sm_shared *s, const struct ddr_msg_member_set *set, uint32_t replaced)
{
	if (!ddr_sm_set_moves(set))
		return;
	s->change.back &= ~(1u << set->member);
	if (ddr_member_op_names(set->op))
		ddr_order_members_gone(s, 1u << set->member);
	if (replaced != DDR_NO_MEMBER && set->op == DDR_MEMBER_OP_WHOLE) {
		ddr_order_members_leave(s, 1u << replaced);
		ddr_order_members_gone(s, 1u << replaced);
	}
	if (set->op == DDR_MEMBER_OP_WHOLE && ddr_sm_none_missing(&s->sb))
		ddr_order_map_whole(s);
	if (ddr_shared_set_event(s, set) == DDR_EV_REBUILD_START)
		unfold(s);
}

/* The change that was written is no longer wanted. */
static void change_done(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	struct ddr_sm_change *c = &s->change;
	uint32_t out = msg->done.faulty | msg->done.missing;

	c->faulty &= ~msg->done.faulty;
	c->missing &= ~msg->done.missing;
	slots_done(s, msg);
	if (c->mark == msg->done.mark)
		c->mark = DDR_MARK_KEEP;
	c->died &= ~msg->done.slots;
	if (ddr_sm_same_set(&msg->done.set, &c->set) || !ddr_shared_set_valid(s, &c->set))
		c->set = none;
	c->restart = out || msg->done.slots || ddr_sm_changes_members(&msg->done.set);
	c->ack = true;
	c->acked = 0;
	c->exchanged &= c->faulty;
	c->copy_void &= ddr_shared_replacing(s) != DDR_NO_MEMBER;
	ddr_order_members_leave(s, out);
}

enum ddr_done_answer ddr_order_member_done(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_order_done *n)
{
	struct ddr_super sb;

	*n = (struct ddr_order_done){ .out = msg->done.faulty | msg->done.missing, .replaced = ddr_shared_replaced(s),
				      .generation = s->sb.generation, .blocks = s->sb.array_blocks, .died = s->change.died & msg->done.slots };
	if (overtaken(s, msg))
		return DDR_DONE_OVERTAKEN;
	if (!done_valid(s, msg, &sb))
		return DDR_DONE_WRONG;
	s->sb = sb;
	s->unproven = false;
	change_done(s, msg);
	set_done(s, &msg->done.set, n->replaced);
	if (sb.array_blocks != n->blocks) {
		ddr_shared_sized(s);
		ddr_order_grow_end(s);
	} else if (sb.generation != n->generation) {
		ddr_order_room_void(s);
	}
	if (n->out)
		ddr_order_members_gone(s, n->out);
	return DDR_DONE_DONE;
}
