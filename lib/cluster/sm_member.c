// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Changes of the members, and of the owners of slots: intent, superblocks, done, acknowledgement.
 *
 * MEMBER_FAIL (the intent) is judged at its delivery, so that all nodes judge alike. The
 * writer writes the superblocks of the remaining members, at a higher
 * generation. MEMBER_DONE reports that they are durable. On its delivery the state changes,
 * each kernel is told that the member leaves, and each node acknowledges when its kernel
 * no longer reads it. When all have acknowledged (agreed), each kernel is told that the member is out, errors
 * are answered, and writes that failed on this member only count. A single node tells its kernel at once.
 *
 * A superblock write that fails on a member is another intent. The write is
 * repeated with both at the next generation, whose predecessor is the one that failed.
 *
 * Must never: change a state before the superblocks say so (rule 12); let a kernel complete writes without
 * a member that another kernel may still read (rule 3); leave fewer members than the data needs (rule 4).
 */
#include "sm_int.h"

static const struct ddr_msg_member_set none;

/* ---- intents ---------------------------------------------------------------- */

void ddr_sm_op_fail(struct ddr_sm *sm, uint32_t member)
{
	struct ddr_output *out;
	const char *why = NULL;

	if (!ddr_sm_running(sm))
		why = "the array is not running";
	else if (member >= sm->shared.sb.members || !(ddr_sm_alive(sm) >> member & 1))
		why = "the member has already failed";
	else if (!ddr_sm_can_lose(sm, 1u << member))
		why = "the array cannot lose another member";
	if (!why) {
		ddr_sm_report(sm, 1u << member, false);
		return;
	}
	out = ddr_sm_event(sm, DDR_EV_REFUSED, why);
	out->a = EBUSY;
	out->member = member;
}

void ddr_sm_whole_voided(struct ddr_sm *sm)
{
	struct ddr_sm_trans *t = &sm->own.t;

	if (t->set.op == DDR_MEMBER_OP_WHOLE)
		t->set.op = DDR_MEMBER_OP_STAY;
	t->no_space = t->last = false;
	ddr_trans_on(sm, DDR_TE_CALLED_OFF);
	t->written = false;
	t->overtaken = t->io != 0;
}

void ddr_sm_whole_void(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	if (ddr_order_whole_void(s))
		ddr_sm_whole_voided(sm);
}

/* A member that the array needs stays, and the failed operation returns an error. */
static void refused(struct ddr_sm *sm, uint32_t soft)
{
	struct ddr_output *out = ddr_sm_event(sm, DDR_EV_REFUSED, "a member failed that the array needs: it stays in the array, and the failed "
								  "requests return errors");

	out->a = EBUSY;
	out->member = (uint32_t)__builtin_ctz(soft);
	sm->own.seen_soft &= ~soft;
	ddr_sm_errors_refused(sm, soft);
	ddr_sm_ranges_refused(sm, soft);
}

void ddr_sm_member_failed(struct ddr_sm *sm, const struct ddr_msg *msg, const struct ddr_order_fail *n)
{
	struct ddr_sm_trans *t = &sm->own.t;
	bool ours = msg->sender == sm->node;

	if (ours) {
		t->report_hard &= ~msg->fail.hard;
		t->report_soft &= ~msg->fail.soft;
		t->reported_hard &= ~msg->fail.hard;
		t->reported_soft &= ~msg->fail.soft;
	}
	ddr_sm_ex_cancelled(sm, &n->ended);
	if (n->voided)
		ddr_sm_whole_voided(sm);
	if (n->failed)
		ddr_sm_array_failed(sm, "more members failed than the parity covers");
	if (n->sender_goes && ours)
		ddr_sm_give_up(sm, "this node cannot write to a disk that the array needs. When it reaches that disk again" DDR_SM_ANEW);
	else if (n->sender_goes)
		sm->own.peer[ddr_sm_node_at(sm, msg->sender)].gave_up = true;
	if (n->soft && ours)
		refused(sm, n->soft);
}

void ddr_sm_member_set(struct ddr_sm *sm, const struct ddr_msg *msg, bool taken)
{
	if (msg->sender == sm->node)
		sm->own.rb.set_sent = false;
	if (taken && msg->sender == sm->node && ddr_sm_same_set(&msg->set, &sm->own.sk.set))
		sm->own.sk.set.op = 0;
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
	for (uint32_t s = 0; s < sm->shared.sb.slots; s++)	/* as written, not as changed since */
		msg.done.owner[s] = sm->own.t.slots >> s & 1 ? sm->own.next.slot_node[s] : 0;
	msg.done.mark = sm->own.t.mark;
	msg.done.changes = sm->own.next_owners.changes;
	msg.done.set = sm->own.t.set;
	ddr_sm_send(sm, &msg);
	ddr_trans_on(sm, DDR_TE_WRITTEN);
}

/* Takes all wanted changes into the write that begins. */
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

/* Our LEAVE promises that none of our I/O is in flight: if we die after that, no node fences us. If another node stays, that one writes. */
static bool others_write(const struct ddr_sm *sm)
{
	if (sm->own.c.leave_sent && !sm->own.c.leave_done)
		return true;		/* another node's START may be delivered first */
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (sm->own.c.leave_sent && sm->shared.nodes[i].started && !sm->shared.nodes[i].leaving && sm->shared.nodes[i].id != sm->node)
			return true;
	return false;
}

static void change_write(struct ddr_sm *sm)
{
	struct ddr_sm_trans *t = &sm->own.t;

	if (t->io || others_write(sm) || !ddr_sm_writes(sm) || sm->own.start < DDR_S_DELIVERED || !ddr_sm_may_send(sm))
		return;
	if (t->written) {
		done_send(sm);
		return;
	}
	if (t->blocked & ~sm->shared.change.faulty)
		return;		/* the intent is in flight */
	if (ddr_sm_space_waits(sm, DDR_SPACE_SUPER))
		return;
	t->blocked = 0;
	/*
	 * If a member had no space, only the same write is repeated: a member that is two generations behind at the next start would
	 * be left out. Changes that arrived meanwhile get the next generation. So do those that arrive before the last members have this one.
	 */
	if (!t->no_space && !t->last)
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
			sm->own.corrected[m] = 0;	/* the next disk at this index is another one, or starts from scratch */
		}
}

/* Once for each number of members that may still fail; not at changes that leave this number as it is, such as those of a spare. */
static void tell_degraded(struct ddr_sm *sm)
{
	uint32_t in_sync = (uint32_t)__builtin_popcount(ddr_sm_in_sync(sm)), needed = 1u << sm->shared.sb.order;
	uint32_t told = !ddr_sm_degraded(sm) ? 0 : in_sync < needed ? 1 : in_sync - needed + 1;

	if (told && told != sm->own.degraded_told)
		ddr_sm_event(sm, DDR_EV_DEGRADED, NULL)->a = told - 1;
	sm->own.degraded_told = told;
}

/* No kernel reads the member any more: from now on ours may complete writes without it. */
static void agreed(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	sm->again = true;
	if (sm->shared.change.restart)
		ddr_sm_works_restart(sm);
	if (sm->shared.change.restart)
		tell_degraded(sm);
	if (sm->own.start == DDR_S_DELIVERED && sm->shared.sb.slot_node[sm->own.slot] == sm->node && !(sm->shared.change.slots >> sm->own.slot & 1))
		ddr_sm_started(sm, s);
}

void ddr_sm_member_settle(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	if (ddr_order_member_settle(s))
		agreed(sm, s);
}

static uint64_t copied(const struct ddr_sm *sm, uint32_t member)
{
	return sm->own.rb.since && sm->own.rb.member == member ? sm->own.rb.copied : 0;
}

/* From now on every kernel writes to the rebuilding member; earlier writes are folded into the map. */
static void set_done(struct ddr_sm *sm, const struct ddr_msg_member_set *set, uint32_t replaced)
{
	struct ddr_output *out;

	if (set->op == DDR_MEMBER_OP_POLICY) {
		for (uint64_t r = 0; r < sm->shared.regions; r++)
			ddr_sm_bits_changed(sm, r);
		ddr_sm_event(sm, DDR_EV_POLICY, NULL)->a = sm->shared.sb.policy;
	}
	sm->kernel.status |= set->op == DDR_MEMBER_OP_CURSOR;	/* the only news of a rebuild for the kernels of other nodes */
	if (!ddr_sm_set_moves(set))
		return;
	if (ddr_member_op_names(set->op))
		ddr_sm_members_gone(sm, 1u << set->member);
	if (replaced != DDR_NO_MEMBER && set->op == DDR_MEMBER_OP_WHOLE) {
		ddr_sm_members_gone(sm, 1u << replaced);
		ddr_sm_batch_members(sm);
	}
	sm->again = true;
	out = ddr_sm_event(sm, ddr_shared_set_event(&sm->shared, set), NULL);
	out->member = set->member;
	out->a = sm->shared.sb.generation;
	out->b = out->event == DDR_EV_REBUILD_DONE ? copied(sm, set->member) : sm->shared.sb.member[set->member].flags;
	out->node = out->event == DDR_EV_REBUILD_DONE ? replaced : ddr_sm_replaced(sm);
	if (out->event == DDR_EV_REBUILD_START)
		ddr_sm_unfolded(sm);
	sm->kernel.status = true;
}

/* The change has ended for this node. */
static void trans_done(struct ddr_sm *sm)
{
	struct ddr_sm_trans *t = &sm->own.t;

	ddr_trans_on(sm, DDR_TE_DONE);
	t->faulty = t->missing = 0;
	t->slots = 0;
	t->mark = DDR_MARK_KEEP;
	t->set = none;
	t->ack_sent = t->writing = t->begun = t->level = t->last = t->written = t->no_space = false;
}

void ddr_sm_member_done(struct ddr_sm *sm, const struct ddr_msg *msg, const struct ddr_order_done *n)
{
	if (n->died)
		ddr_sm_rebuild_anew(sm);
	trans_done(sm);
	if (ddr_member_op_names(msg->done.set.op))
		sm->own.errors[msg->done.set.member] = (struct ddr_sm_errors){ 0 };	/* they belonged to the disk before */
	set_done(sm, &msg->done.set, n->replaced);
	if (sm->shared.sb.array_blocks != n->blocks)
		ddr_sm_grown(sm, n->blocks);
	else if (sm->shared.sb.generation != n->generation)
		ddr_sm_grow_members(sm);
	if (n->out) {
		failed_events(sm, n->out);
		ddr_sm_members_gone(sm, n->out);
		ddr_sm_batch_members(sm);
		sm->kernel.status = true;
	}
}

void ddr_sm_member_view(struct ddr_sm *sm)
{
	struct ddr_sm_trans *t = &sm->own.t;

	t->reported_hard = t->reported_soft = 0;
	if (t->state == DDR_T_DONE_SENT)
		ddr_trans_on(sm, DDR_TE_NEW_VIEW);
	if (!(sm->shared.change.acked >> ddr_sm_node_at(sm, sm->node) & 1))
		t->ack_sent = false;
}

/* Our kernel has applied the change, or is gone: a leaving node has removed it, and still acknowledges until its LEAVE. */
static bool obeyed(const struct ddr_sm *sm)
{
	return !sm->own.c.leave_sent && (ddr_sm_applied(sm) || (sm->own.c.leave_wanted && sm->kernel.state == DDR_K_GONE));
}

/* Not once it has left: another node writes from then on, and nothing of ours may still be in flight. */
static bool takes_part(const struct ddr_sm *sm)
{
	return ddr_sm_active(sm) && (sm->own.start >= DDR_S_DELIVERED || sm->own.c.synced) && !sm->own.c.left_told;
}

void ddr_sm_member_pump(struct ddr_sm *sm)
{
	struct ddr_msg msg = { .type = DDR_M_MEMBER_ACK };
	struct ddr_sm_trans *t = &sm->own.t;

	if (!takes_part(sm))
		return;
	intents_send(sm);
	if (ddr_sm_change_idle(sm) && !ddr_sm_members_settled(sm) && ddr_sm_writer(sm) == sm->node &&
	    sm->own.start >= DDR_S_DELIVERED) {
		change_take(sm);
		ddr_trans_on(sm, DDR_TE_WANTED);
	}
	if (t->state == DDR_T_WRITE)
		change_write(sm);
	if (sm->shared.change.ack && !t->ack_sent && sm->own.start >= DDR_S_DELIVERED && obeyed(sm) && ddr_sm_may_send(sm)) {
		msg.ack.seq = sm->shared.sb.seq;
		ddr_sm_send(sm, &msg);
		t->ack_sent = true;
	}
}

bool ddr_sm_member_due(const struct ddr_sm *sm)
{
	return takes_part(sm) && ddr_sm_all_acked(sm);
}
