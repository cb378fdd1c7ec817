// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Changes of the members, and of who owns the slots: intent, superblocks, done, acknowledgement.
 *
 * MEMBER_FAIL (the intent) is judged at its delivery, so that all nodes judge alike. One
 * node of the view writes the superblocks of the members that remain, at a higher
 * generation. MEMBER_DONE says that they are durable; on its delivery the state changes,
 * each kernel is told that the member leaves, and each node acknowledges when its kernel does
 * not read it any more. Only when all have (agreed), each kernel is told that it is out, errors
 * are answered, and what failed on it alone counts. A node that is alone tells its kernel at once.
 *
 * A superblock write that fails on a member is a further intent, and the write is
 * repeated with both at the next generation, whose predecessor is the one that failed.
 *
 * Must never: change a state before the superblocks say so (rule 12); let a kernel do without
 * a member that another one may still read (rule 3); leave fewer members than the data needs (rule 4).
 */
#include "sm_int.h"

static const struct ddr_msg_member_set none;

/* ---- intents ---------------------------------------------------------------- */

void ddr_sm_op_fail(struct ddr_sm *sm, uint32_t member)
{
	struct ddr_output *out;
	const char *why = NULL;

	if (!ddr_sm_running(sm))
		why = "the array does not run";
	else if (member >= sm->shared.sb.members || !(ddr_sm_alive(sm) >> member & 1))
		why = "it is out of the array already";
	else if (!ddr_sm_can_lose(sm, 1u << member))
		why = "the array has no member left that it could do without";
	if (!why) {
		ddr_sm_report(sm, 1u << member, false);
		return;
	}
	out = ddr_sm_event(sm, DDR_EV_REFUSED, why);
	out->a = EBUSY;
	out->member = member;
}

/* One member of an intent. Returns false if the array cannot do without it. */
static bool judge(struct ddr_sm *sm, uint32_t m, uint32_t *want)
{
	if (!(ddr_sm_alive(sm) >> m & 1) || (ddr_sm_going(sm) >> m & 1))
		return true;
	if (!ddr_sm_can_lose(sm, 1u << m))
		return false;
	*want |= 1u << m;
	return true;
}

/*
 * Its superblocks may be written, and MEMBER_DONE may be on its way: that one changes nothing any more, on all nodes alike, and what is on the
 * disks is written over.
 */
void ddr_sm_whole_void(struct ddr_sm *sm)
{
	struct ddr_sm_trans *t = &sm->own.t;
	struct ddr_msg_member_set *set = &sm->shared.change.set;

	if (set->op != DDR_MEMBER_OP_WHOLE || set->member != ddr_sm_replacing(sm))
		return;
	set->op = DDR_MEMBER_OP_STAY;
	if (t->set.op == DDR_MEMBER_OP_WHOLE)
		t->set.op = DDR_MEMBER_OP_STAY;
	t->no_space = false;
	if (t->state == DDR_T_DONE_SENT)
		t->state = DDR_T_WRITE;
	t->written = false;
	t->overtaken = t->io != 0;
}

/* A member fails that is being replaced, or replaces one. As it was when the failure was delivered, so that all say the same. */
static void copy_judge(struct ddr_sm *sm)
{
	uint32_t replaced = ddr_sm_replaced(sm);

	if (replaced == DDR_NO_MEMBER)
		return;
	if ((ddr_sm_going(sm) >> replaced & 1) && !ddr_sm_all_folded(sm))
		sm->shared.change.copy_void = true;
	if (ddr_sm_going(sm) >> ddr_sm_replacing(sm) & 1)
		ddr_sm_whole_void(sm);
}

/*
 * A hard report that cannot be followed: what its sender is alone with has failed for all, and of several nodes the sender must go, since its kernel's
 * writes could not be completed. One that is leaving has no kernel any more, and whoever stays writes what it could not.
 */
static void refused_hard(struct ddr_sm *sm, uint32_t sender)
{
	struct ddr_sm_node *n = &sm->shared.nodes[ddr_sm_node_at(sm, sender)];

	if (n->leaving)
		return;
	if (ddr_sm_voters(sm) == 1ull << (n - sm->shared.nodes))
		ddr_sm_array_failed(sm, "more members failed than the parity covers");
	else if (sender == sm->node)
		ddr_sm_give_up(sm, "this node cannot write to a disk that the array cannot do without. When it reaches that disk again" DDR_SM_ANEW);
	else
		ddr_sm_peer(sm, n)->gave_up = true;
}

static void refused(struct ddr_sm *sm, const struct ddr_msg *msg, uint32_t hard, uint32_t soft)
{
	bool ours = msg->sender == sm->node;
	struct ddr_output *out;

	if (hard)
		refused_hard(sm, msg->sender);
	if (!soft || !ours)
		return;
	out = ddr_sm_event(sm, DDR_EV_REFUSED, "a member failed that the array cannot do without: it stays, what failed is an error");
	out->a = EBUSY;
	out->member = (uint32_t)__builtin_ctz(soft);
	sm->own.seen_soft &= ~soft;
	ddr_sm_errors_refused(sm, soft);
	ddr_sm_ranges_refused(sm, soft);
}

void ddr_sm_member_fail(struct ddr_sm *sm, const struct ddr_msg *msg)
{
	uint32_t all = msg->fail.hard | msg->fail.soft, before = ddr_sm_going(sm), hard = 0, soft = 0;

	if (all >> sm->shared.sb.members) {
		ddr_sm_bug(sm, "the failure of a member that does not exist");
		return;
	}
	for (uint32_t m = 0; m < sm->shared.sb.members; m++)
		if ((all >> m & 1) && !judge(sm, m, &sm->shared.change.faulty)) {
			hard |= msg->fail.hard & 1u << m;
			soft |= msg->fail.soft & 1u << m;
		}
	if (msg->sender == sm->node) {
		sm->own.t.report_hard &= ~msg->fail.hard;
		sm->own.t.report_soft &= ~msg->fail.soft;
		sm->own.t.reported_hard &= ~msg->fail.hard;
		sm->own.t.reported_soft &= ~msg->fail.soft;
	}
	sm->shared.change.exchanged |= msg->fail.exchanged & ddr_sm_going(sm) & ~before;
	if (ddr_sm_going(sm) != before)
		ddr_sm_ex_cancel(sm);
	copy_judge(sm);
	if (hard | soft)
		refused(sm, msg, hard, soft);
}

void ddr_sm_slot_give(struct ddr_sm *sm, uint32_t slot, uint32_t node)
{
	sm->shared.change.slots |= 1ull << slot;
	sm->shared.change.slot_node[slot] = node;
}

void ddr_sm_slot_died(struct ddr_sm *sm, uint32_t slot)
{
	if (sm->shared.sb.parity == 0)
		sm->shared.change.died |= 1ull << slot;
}

void ddr_sm_claim(struct ddr_sm *sm, uint32_t node, uint32_t slot, uint32_t missing)
{
	if (sm->shared.sb.slot_node[slot])
		ddr_sm_slot_died(sm, slot);	/* whoever leaves cleanly owns none any more */
	ddr_sm_slot_give(sm, slot, node);
	for (uint32_t m = 0; m < sm->shared.sb.members; m++)
		if ((missing >> m & 1) && !judge(sm, m, &sm->shared.change.missing))
			ddr_sm_array_failed(sm, "more members are missing than the parity covers");
	copy_judge(sm);
}

/* One at a time, and none while a failure is on its way; who asked looks again when that is over. */
void ddr_sm_member_set(struct ddr_sm *sm, const struct ddr_msg *msg)
{
	if (msg->sender == sm->node)
		sm->own.rb.set_sent = false;
	if (ddr_sm_members_settled(sm) && ddr_sm_set_valid(sm, &msg->set)) {
		sm->shared.change.set = msg->set;
		if (msg->sender == sm->node && ddr_sm_same_set(&msg->set, &sm->own.sk.set))
			sm->own.sk.set.op = 0;
	}
	sm->again = true;
}

static void intents_send(struct ddr_sm *sm)
{
	struct ddr_msg msg = { .type = DDR_M_MEMBER_FAIL };
	struct ddr_sm_trans *t = &sm->own.t;

	sm->own.seen_hard &= ddr_sm_alive(sm);
	sm->own.seen_soft &= ddr_sm_alive(sm);
	sm->own.seen_exchanged &= ddr_sm_alive(sm);
	t->report_hard &= ddr_sm_alive(sm) & ~ddr_sm_going(sm);
	t->report_soft &= ddr_sm_alive(sm) & ~ddr_sm_going(sm);
	msg.fail.hard = t->report_hard & ~t->reported_hard;
	msg.fail.soft = t->report_soft & ~t->reported_soft;
	if (!(msg.fail.hard | msg.fail.soft) || !ddr_sm_may_send(sm))
		return;
	msg.fail.exchanged = msg.fail.hard & sm->own.seen_exchanged;
	ddr_sm_send(sm, &msg);
	t->reported_hard |= msg.fail.hard;
	t->reported_soft |= msg.fail.soft;
}

/* ---- writing ---------------------------------------------------------------- */

static void done_send(struct ddr_sm *sm)
{
	struct ddr_msg msg = { .type = DDR_M_MEMBER_DONE };

	msg.done.generation = sm->own.next.generation;
	msg.done.seq = sm->own.next.seq;
	memcpy(msg.done.gen_id, sm->own.next.gen_id, sizeof(msg.done.gen_id));
	memcpy(msg.done.gen_prev, sm->own.next.gen_prev, sizeof(msg.done.gen_prev));
	msg.done.faulty = sm->own.t.faulty;
	msg.done.missing = sm->own.t.missing;
	msg.done.slots = sm->own.t.slots;
	for (uint32_t s = 0; s < sm->shared.sb.slots; s++)	/* by what was written, whatever came since */
		msg.done.owner[s] = sm->own.t.slots >> s & 1 ? sm->own.next.slot_node[s] : 0;
	msg.done.mark = sm->own.t.mark;
	msg.done.set = sm->own.t.set;
	ddr_sm_send(sm, &msg);
	sm->own.t.state = DDR_T_DONE_SENT;
}

/* Takes what is wanted into the change under way. */
static void change_take(struct ddr_sm *sm)
{
	const struct ddr_sm_change *c = &sm->shared.change;
	struct ddr_sm_trans *t = &sm->own.t;

	t->faulty = c->faulty;
	t->missing = c->missing;
	t->slots = c->slots;
	t->mark = c->mark;
	t->set = c->set;
}

/* Our LEAVE says that nothing of ours is under way: if we die now nobody fences us. Who stays writes, if anybody does. */
static bool others_write(const struct ddr_sm *sm)
{
	if (sm->own.c.leave_sent && !sm->own.c.leave_done)
		return true;		/* the order may put somebody before it who begins */
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (sm->own.c.leave_sent && sm->shared.nodes[i].started && !sm->shared.nodes[i].leaving && sm->shared.nodes[i].id != sm->node)
			return true;
	return false;
}

static void change_write(struct ddr_sm *sm)
{
	struct ddr_sm_trans *t = &sm->own.t;

	if (t->io || others_write(sm) || ddr_sm_writer(sm) != sm->node || sm->own.start < DDR_S_DELIVERED ||
	    (sm->own.c.on && !sm->own.c.writer_ready) || !ddr_sm_may_send(sm))
		return;
	if (t->written) {
		done_send(sm);
		return;
	}
	if (t->blocked & ~sm->shared.change.faulty)
		return;		/* the intent is on its way */
	if (ddr_sm_space_waits(sm, DDR_SPACE_SUPER))
		return;
	t->blocked = 0;
	/*
	 * Where a member had no space, just what it lacks is written again: whoever is two generations behind at the next start is left out. What
	 * came meanwhile gets the next generation.
	 */
	if (!t->no_space)
		change_take(sm);
	if (ddr_sm_grow_prepare(sm))
		ddr_sm_supers_write(sm);
}

/* ---- done ------------------------------------------------------------------- */

static void failed_events(struct ddr_sm *sm, uint32_t members)
{
	for (uint32_t m = 0; m < sm->shared.sb.members; m++)
		if (members >> m & 1) {
			struct ddr_output *out = ddr_sm_event(sm, DDR_EV_MEMBER_FAILED, NULL);

			out->member = m;
			out->a = sm->shared.sb.generation;
			sm->own.corrected[m] = 0;	/* who is there next is another disk, or begins anew */
		}
}

/* A node that is alone has nobody to wait for: what its kernel writes without them, no other kernel reads from them. */
void ddr_sm_members_leave(struct ddr_sm *sm, uint32_t members)
{
	uint64_t voters = ddr_sm_voters(sm);

	if (voters & (voters - 1))
		sm->shared.change.leaving |= members;
}

/* Does the message end the change that was judged, no more and no less than its members and slots? */
static bool done_valid(const struct ddr_sm *sm, const struct ddr_msg *msg, struct ddr_super *sb)
{
	const struct ddr_sm_change *c = &sm->shared.change;

	if (c->ack || !(msg->done.faulty | msg->done.missing | msg->done.slots | msg->done.mark | msg->done.set.op) ||
	    msg->sender != ddr_sm_writer(sm) || msg->done.generation < sm->shared.sb.generation || msg->done.seq <= sm->shared.sb.seq)
		return false;
	if (msg->done.faulty & ~c->faulty || msg->done.missing & ~c->missing || msg->done.slots & ~c->slots)
		return false;
	if (msg->done.set.op && !ddr_sm_same_set(&msg->done.set, &c->set))
		return false;
	*sb = sm->shared.sb;
	sb->generation = msg->done.generation;
	sb->seq = msg->done.seq;
	memcpy(sb->gen_id, msg->done.gen_id, sizeof(sb->gen_id));
	memcpy(sb->gen_prev, msg->done.gen_prev, sizeof(sb->gen_prev));
	ddr_sm_apply(sm, sb, &msg->done.set, msg->done.faulty, msg->done.missing, msg->done.slots, msg->done.owner);
	ddr_sm_mark_apply(sb, msg->done.mark);
	return ddr_super_check(sb).code == DDR_FE_OK;
}

/* Once for each number of members that may still fail: not again with each change that leaves that as it is, as that of a spare. */
static void tell_degraded(struct ddr_sm *sm)
{
	uint32_t in_sync = (uint32_t)__builtin_popcount(ddr_sm_in_sync(sm)), needed = 1u << sm->shared.sb.order;
	uint32_t told = !ddr_sm_degraded(sm) ? 0 : in_sync < needed ? 1 : in_sync - needed + 1;

	if (told && told != sm->own.degraded_told)
		ddr_sm_event(sm, DDR_EV_DEGRADED, NULL)->a = told - 1;
	sm->own.degraded_told = told;
}

/* No kernel reads a member that went any more: from now on ours may do without it. */
static void agreed(struct ddr_sm *sm)
{
	sm->shared.change.ack = false;
	sm->shared.change.leaving = 0;
	sm->again = true;
	if (sm->shared.change.restart)
		ddr_sm_works_restart(sm);
	if (sm->shared.change.restart)
		tell_degraded(sm);
	if (sm->shared.sb.slot_node[sm->own.slot] == sm->node && !(sm->shared.change.slots >> sm->own.slot & 1))
		ddr_sm_started(sm);
}

void ddr_sm_member_settle(struct ddr_sm *sm)
{
	if (ddr_sm_all_acked(sm))
		agreed(sm);
}

static enum ddr_event set_event(const struct ddr_sm *sm, const struct ddr_msg_member_set *set)
{
	if (set->op == DDR_MEMBER_OP_WHOLE)
		return DDR_EV_REBUILD_DONE;
	if (set->op == DDR_MEMBER_OP_REMOVE)
		return DDR_EV_MEMBER_REMOVED;
	return sm->shared.sb.member[set->member].state == DDR_MEMBER_SPARE ? DDR_EV_MEMBER_ADDED : DDR_EV_REBUILD_START;
}

static uint64_t copied(const struct ddr_sm *sm, uint32_t member)
{
	return sm->own.rb.since && sm->own.rb.member == member ? sm->own.rb.copied : 0;
}

/* From now on every kernel writes to a member that begins to be rebuilt; what was written before is folded into the map. */
static void set_done(struct ddr_sm *sm, const struct ddr_msg_member_set *set, uint32_t replaced)
{
	struct ddr_output *out;

	if (set->op == DDR_MEMBER_OP_POLICY) {
		for (uint64_t r = 0; r < sm->shared.regions; r++)
			ddr_sm_bits_changed(sm, r);
		ddr_sm_event(sm, DDR_EV_POLICY, NULL)->a = sm->shared.sb.policy;
	}
	sm->kernel.status |= set->op == DDR_MEMBER_OP_CURSOR;	/* all that the kernels of other nodes hear of a rebuild */
	if (!ddr_sm_changes_members(set) || set->op == DDR_MEMBER_OP_GROW || set->op == DDR_MEMBER_OP_STAY)
		return;
	sm->shared.change.back &= ~(1u << set->member);
	if (ddr_member_op_names(set->op))
		ddr_sm_members_gone(sm, 1u << set->member);
	if (replaced != DDR_NO_MEMBER && set->op == DDR_MEMBER_OP_WHOLE) {
		ddr_sm_members_leave(sm, 1u << replaced);
		ddr_sm_members_gone(sm, 1u << replaced);
		ddr_sm_batch_members(sm);
	}
	if (set->op == DDR_MEMBER_OP_WHOLE && ddr_sm_none_missing(&sm->shared.sb))
		ddr_sm_map_whole(sm);
	out = ddr_sm_event(sm, set_event(sm, set), NULL);
	out->member = set->member;
	out->a = sm->shared.sb.generation;
	out->b = out->event == DDR_EV_REBUILD_DONE ? copied(sm, set->member) : sm->shared.sb.member[set->member].flags;
	out->node = out->event == DDR_EV_REBUILD_DONE ? replaced : ddr_sm_replaced(sm);
	if (out->event == DDR_EV_REBUILD_START)
		ddr_sm_unfold(sm);
	sm->kernel.status = true;
}

/* WHOLE was on its way when something came before it, see ddr_sm_whole_void(). */
static bool overtaken(const struct ddr_sm *sm, const struct ddr_msg *msg)
{
	const struct ddr_msg_member_set *set = &sm->shared.change.set;

	return msg->done.set.op == DDR_MEMBER_OP_WHOLE && set->op == DDR_MEMBER_OP_STAY && set->member == msg->done.set.member &&
	       msg->sender == ddr_sm_writer(sm);
}

/* What the disks say of a slot is so. Somebody may have left, or have been recovered, since that was on its way: then another change follows. */
static void slots_done(struct ddr_sm *sm, const struct ddr_msg *msg)
{
	sm->shared.change.slots &= ~msg->done.slots;
	for (uint32_t s = 0; s < sm->shared.sb.slots; s++)
		if ((msg->done.slots >> s & 1) && sm->shared.change.slot_node[s] != msg->done.owner[s])
			sm->shared.change.slots |= 1ull << s;
}

void ddr_sm_member_done(struct ddr_sm *sm, const struct ddr_msg *msg)
{
	uint32_t out = msg->done.faulty | msg->done.missing, replaced = ddr_sm_replaced(sm);
	uint64_t generation = sm->shared.sb.generation, blocks = sm->shared.sb.array_blocks;
	struct ddr_super sb;

	if (overtaken(sm, msg))
		return;
	if (!done_valid(sm, msg, &sb)) {
		ddr_sm_bug(sm, "the end of a change of the members that is not under way");
		return;
	}
	if (sm->shared.change.died & msg->done.slots)
		ddr_sm_rebuild_anew(sm);
	sm->shared.sb = sb;
	sm->shared.unproven = false;
	sm->shared.change.faulty &= ~msg->done.faulty;
	sm->shared.change.missing &= ~msg->done.missing;
	slots_done(sm, msg);
	sm->own.t.mark = DDR_MARK_KEEP;
	if (sm->shared.change.mark == msg->done.mark)
		sm->shared.change.mark = DDR_MARK_KEEP;
	sm->shared.change.died &= ~msg->done.slots;
	if (ddr_sm_same_set(&msg->done.set, &sm->shared.change.set) || !ddr_sm_set_valid(sm, &sm->shared.change.set))
		sm->shared.change.set = none;
	sm->own.t.set = none;
	sm->shared.change.restart = out || msg->done.slots || ddr_sm_changes_members(&msg->done.set);
	sm->shared.change.ack = true;
	sm->own.t.state = DDR_T_IDLE;
	sm->shared.change.acked = 0;
	sm->own.t.ack_sent = sm->own.t.writing = sm->own.t.begun = sm->own.t.level = sm->own.t.written = sm->own.t.no_space = false;
	sm->own.t.faulty = sm->own.t.missing = 0;
	sm->shared.change.exchanged &= sm->shared.change.faulty;
	sm->own.t.slots = 0;
	sm->shared.change.copy_void &= ddr_sm_replacing(sm) != DDR_NO_MEMBER;
	ddr_sm_members_leave(sm, out);
	set_done(sm, &msg->done.set, replaced);
	if (sb.array_blocks != blocks)
		ddr_sm_grown(sm, blocks);
	else if (sb.generation != generation)
		ddr_sm_grow_members(sm);
	if (out) {
		failed_events(sm, out);
		ddr_sm_members_gone(sm, out);
		ddr_sm_batch_members(sm);
		sm->kernel.status = true;
	}
}

void ddr_sm_member_view(struct ddr_sm *sm)
{
	struct ddr_sm_trans *t = &sm->own.t;

	t->reported_hard = t->reported_soft = 0;
	if (t->state == DDR_T_DONE_SENT)
		t->state = DDR_T_WRITE;
	if (!(sm->shared.change.acked >> ddr_sm_node_at(sm, sm->node) & 1))
		t->ack_sent = false;
}

/* Our kernel obeys, or there is none any more: a node that leaves has removed it, and is waited for until its LEAVE. */
static bool obeyed(const struct ddr_sm *sm)
{
	return !sm->own.c.leave_sent && (ddr_sm_applied(sm) || (sm->own.c.leave_wanted && sm->kernel.state == DDR_K_GONE));
}

void ddr_sm_member_pump(struct ddr_sm *sm)
{
	struct ddr_msg msg = { .type = DDR_M_MEMBER_ACK };
	struct ddr_sm_trans *t = &sm->own.t;

	if (!ddr_sm_active(sm) || (sm->own.start < DDR_S_DELIVERED && !(sm->own.c.on && sm->own.c.synced)))
		return;
	if (sm->own.c.left_told)
		return;		/* another one writes from now on: nothing of ours may still be on its way */
	intents_send(sm);
	if (ddr_sm_change_idle(sm) && !ddr_sm_members_settled(sm) && ddr_sm_writer(sm) == sm->node &&
	    sm->own.start >= DDR_S_DELIVERED) {
		change_take(sm);
		t->state = DDR_T_WRITE;
	}
	if (t->state == DDR_T_WRITE)
		change_write(sm);
	if (sm->shared.change.ack && !t->ack_sent && sm->own.start >= DDR_S_DELIVERED && obeyed(sm) && ddr_sm_may_send(sm)) {
		msg.ack.seq = sm->shared.sb.seq;
		ddr_sm_send(sm, &msg);
		t->ack_sent = true;
	}
	if (ddr_sm_all_acked(sm) && ddr_sm_room(sm, DDR_SM_HANDLER_OUT))
		agreed(sm);
}
