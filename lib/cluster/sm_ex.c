// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Exclusive ranges: request, drain, acknowledgement, release. The owner's work in a range is in sm_range.c.
 *
 * The request is multicast; on its delivery every node has its kernel drain the blocks and then acknowledges. The owner works when
 * all voters have acknowledged (a lost node counts until it is fenced), and then multicasts the release. All of this is in the total
 * order, so all nodes agree which ranges are in force, and which have all acknowledgements.
 *
 * Must never: acknowledge before our own kernel has drained (rule 5); let a drain wait for a write that waits for a member's failure
 * to be agreed (such ranges are cancelled, ddr_sm_ex_cancel).
 */
#include "sm_int.h"

struct ddr_sm_range *ddr_sm_range_find(struct ddr_sm *sm, uint32_t id, enum ddr_range_state state)
{
	for (struct ddr_sm_range *r = sm->own.range; r < sm->own.range + DDR_SM_RANGES; r++)
		if (r->state == state && r->id == id)
			return r;
	return NULL;
}

/* Do any of the blocks lie in a range in force? */
bool ddr_sm_ex_in_force(const struct ddr_sm *sm, uint64_t start, uint64_t count)
{
	for (const struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++)
		if (x->used && ddr_blocks_overlap(start, count, x->start, x->count))
			return true;
	return false;
}

/* ---- our ranges ------------------------------------------------------------- */

struct ddr_sm_range *ddr_sm_range_new(struct ddr_sm *sm, uint64_t start, uint64_t count, uint32_t limit)
{
	struct ddr_sm_range *fresh = NULL;

	if (ddr_sm_ranges_used(sm) >= limit || ddr_sm_ex_in_force(sm, start, count))
		return NULL;
	for (struct ddr_sm_range *r = sm->own.range; r < sm->own.range + DDR_SM_RANGES; r++) {
		if (r->state == DDR_R_FREE)
			fresh = fresh ? fresh : r;
		else if (ddr_blocks_overlap(start, count, r->start, r->count))
			return NULL;
	}
	if (!fresh)
		return NULL;
	memset(fresh, 0, sizeof(*fresh));
	ddr_range_on(sm, fresh, DDR_RE_WANTED);
	fresh->id = ++sm->own.ex_id;
	fresh->start = start;
	fresh->count = count;
	sm->again = true;
	return fresh;
}

uint32_t ddr_sm_ranges_used(const struct ddr_sm *sm)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < DDR_SM_RANGES; i++)
		n += sm->own.range[i].state != DDR_R_FREE;
	return n;
}

/* ---- the total order -------------------------------------------------------- */

void ddr_sm_ex_over(struct ddr_sm *sm, const struct ddr_sm_ex *x)
{
	if (ddr_sm_drain(sm, x)->drain_sent && sm->kernel.state == DDR_K_ATTACHED)
		ddr_sm_rec(sm, DDR_U_RELEASE, ddr_sm_drain(sm, x)->kseq, 0, 0);
}

void ddr_sm_ex_requested(struct ddr_sm *sm, const struct ddr_msg *msg, enum ddr_ex_answer answer, const struct ddr_sm_ex *x)
{
	struct ddr_sm_range *r = msg->sender == sm->node ? ddr_sm_range_find(sm, msg->ex.id, DDR_R_ASKED) : NULL;

	if (answer == DDR_EX_WRONG) {
		ddr_sm_bug(sm, "a range was requested for blocks that do not exist, or with a number in use");
		return;
	}
	if (msg->sender != sm->node)
		ddr_sm_use_asked(sm);
	if (answer == DDR_EX_FULL)
		ddr_sm_turn_refused(sm, msg->sender);
	if (answer == DDR_EX_FORCE) {
		ddr_sm_turn_granted(sm, msg->sender);
		*ddr_sm_drain(sm, x) = (struct ddr_sm_drain){ 0 };
	}
	if (r)
		ddr_range_on(sm, r, answer == DDR_EX_FORCE ? DDR_RE_IN_FORCE : DDR_RE_REFUSED);
}

void ddr_sm_ex_released(struct ddr_sm *sm, const struct ddr_msg *msg, const struct ddr_sm_ex *x)
{
	struct ddr_sm_range *r = msg->sender == sm->node ? ddr_sm_range_find(sm, msg->ex_release.id, DDR_R_RELEASED) : NULL;

	if (!x) {
		ddr_sm_bug(sm, "a range ended that is not in force");
		return;
	}
	ddr_sm_ex_over(sm, x);
	if (r)
		ddr_range_on(sm, r, DDR_RE_RELEASED);
}

void ddr_sm_ex_cancelled(struct ddr_sm *sm, const struct ddr_ended *ended)
{
	for (uint32_t i = 0; i < DDR_SM_EX; i++) {
		const struct ddr_sm_ex *x = &sm->shared.ex[i];
		struct ddr_sm_range *r;

		if (!ddr_ended(ended, i))
			continue;
		ddr_sm_ex_over(sm, x);
		r = x->node == sm->node ? ddr_sm_range_find(sm, x->id, DDR_R_ACKS) : NULL;
		if (r) {
			ddr_range_on(sm, r, DDR_RE_CANCELLED);
			r->id = ++sm->own.ex_id;
		}
	}
}

void ddr_sm_ex_ended(struct ddr_sm *sm, uint32_t node, const struct ddr_ended *ended)
{
	for (uint32_t i = 0; i < DDR_SM_EX; i++)
		if (ddr_ended(ended, i) && sm->shared.ex[i].node == node)
			ddr_sm_ex_over(sm, &sm->shared.ex[i]);
}

void ddr_sm_ex_gone(struct ddr_sm *sm, struct ddr_sm_shared *s, uint32_t node)
{
	struct ddr_ended ended = { { 0 } };

	ddr_order_ex_gone(s, node, &ended);
	ddr_sm_ex_ended(sm, node, &ended);
}

void ddr_sm_ex_forget(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	for (const struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++)
		if (x->used && ddr_sm_drain(sm, x)->drain_sent && sm->kernel.state == DDR_K_ATTACHED && sm->own.n_stale < DDR_SM_EX)
			sm->own.stale[sm->own.n_stale++] = (struct ddr_sm_stale){ *x, *ddr_sm_drain(sm, x) };
	memset(s->ex, 0, sizeof(s->ex));
	memset(sm->own.drain, 0, sizeof(sm->own.drain));
	sm->own.ex_void = DDR_XV_NONE;	/* our next START takes back whatever we acknowledged */
}

void ddr_sm_ex_adopt(struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->own.n_stale;) {
		const struct ddr_sm_stale *old = &sm->own.stale[i];
		const struct ddr_sm_ex *x = ddr_shared_ex_find(&sm->shared, old->ex.node, old->ex.id);

		if (!x || x->start != old->ex.start || x->count != old->ex.count) {
			i++;
			continue;
		}
		ddr_sm_drain(sm, x)->drain_sent = true;
		ddr_sm_drain(sm, x)->drained = old->drain.drained;
		ddr_sm_drain(sm, x)->ack_sent = false;
		ddr_sm_drain(sm, x)->kseq = old->drain.kseq;
		sm->own.stale[i] = sm->own.stale[--sm->own.n_stale];
	}
}

/* Releases drained ranges that our state does not contain, unless it lacks them because their owner was on another side: then that node is lost. */
void ddr_sm_stale_release(struct ddr_sm *sm)
{
	while (sm->own.n_stale && sm->own.c.synced && sm->own.c.phase == DDR_V_AGREED && !sm->own.c.transfer && !ddr_sm_any_lost(sm) && ddr_sm_room(sm, 1))
		ddr_sm_rec(sm, DDR_U_RELEASE, sm->own.stale[--sm->own.n_stale].drain.kseq, 0, 0);
}

void ddr_sm_ex_view(struct ddr_sm *sm)
{
	int self = ddr_sm_node_at(sm, sm->node);

	ddr_sm_turn_view(sm);
	for (struct ddr_sm_range *r = sm->own.range; r < sm->own.range + DDR_SM_RANGES; r++) {
		if (r->state == DDR_R_ASKED || r->state == DDR_R_RELEASED)
			ddr_range_on(sm, r, DDR_RE_NEW_VIEW);
	}
	for (const struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++)
		if (!(x->acked >> self & 1))
			ddr_sm_drain(sm, x)->ack_sent = false;
	if (sm->own.ex_void == DDR_XV_SENT)
		sm->own.ex_void = DDR_XV_DUE;
}

/* ---- our kernel ------------------------------------------------------------- */

void ddr_sm_ex_detached(struct ddr_sm *sm)
{
	for (const struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++) {
		ddr_sm_drain(sm, x)->drain_sent = ddr_sm_drain(sm, x)->drained = false;
		if (x->used && ddr_sm_drain(sm, x)->ack_sent && sm->own.ex_void == DDR_XV_NONE)
			sm->own.ex_void = DDR_XV_DUE;
	}
	sm->own.n_stale = 0;	/* the kernel keeps them until the next ENABLE */
	for (struct ddr_sm_range *r = sm->own.range; r < sm->own.range + DDR_SM_RANGES; r++)
		r->tainted = r->state == DDR_R_JOB || r->state == DDR_R_HELD;
}

void ddr_sm_drained(struct ddr_sm *sm, const struct ddr_rec *rec)
{
	if (rec->seq == 0 || rec->seq > sm->kernel.seq) {
		ddr_sm_bug(sm, "the kernel answered DRAINED with an unknown number");
		return;
	}
	for (const struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++)
		if (x->used && ddr_sm_drain(sm, x)->drain_sent && ddr_sm_drain(sm, x)->kseq == rec->seq)
			ddr_sm_drain(sm, x)->drained = true;
	for (uint32_t i = 0; i < sm->own.n_stale; i++)
		sm->own.stale[i].drain.drained |= sm->own.stale[i].drain.kseq == rec->seq;
}

/*
 * Regions of the range that some node has to resync, as far as we know; bit i: the i-th region that it touches. All of them, until our slot
 * was read, and while the slot of a node that died or left is still to be recovered.
 */
static uint64_t dirty_in_range(const struct ddr_sm *sm, const struct ddr_sm_ex *x)
{
	uint64_t first = x->start / sm->shared.region_blocks, last = (x->start + x->count - 1) / sm->shared.region_blocks;
	uint64_t dirty = 0;

	if (!sm->own.planned || sm->shared.rec || ddr_sm_left_dirty(sm))
		return ~0ull;
	for (uint64_t r = first; r <= last && r - first < 64; r++)
		if (ddr_bit(sm->own.resync, r))
			dirty |= 1ull << (r - first);
	return dirty;
}

/* Does a job work in the range, or may it start at any moment, while the kernel holds back our writers only because of the previous binding? */
static bool in_work(const struct ddr_sm *sm, const struct ddr_sm_ex *x)
{
	if (!x->used || ddr_sm_drain(sm, x)->drained || !ddr_sm_ex_acked(sm, x))
		return false;
	if (x->node != sm->node)
		return true;
	for (const struct ddr_sm_range *r = sm->own.range; r < sm->own.range + DDR_SM_RANGES; r++)
		if (r->id == x->id && (r->state == DDR_R_JOB || r->state == DDR_R_HELD))
			return true;
	return false;
}

/*
 * ENABLE ends the ranges of the previous binding, and I/O that waits behind them continues before any later
 * DRAIN. So ENABLE waits until all nodes know which of our acknowledgements are void, and no job works in a range
 * whose acknowledgement still counts.
 */
bool ddr_sm_ex_may_enable(const struct ddr_sm *sm)
{
	if (sm->own.ex_void != DDR_XV_NONE)
		return false;
	for (uint32_t i = 0; i < DDR_SM_EX; i++)
		if (in_work(sm, &sm->shared.ex[i]))
			return false;
	return true;
}

/* Number of ranges that our kernel has; it accepts at most DDR_SM_EX. */
static uint32_t drains_out(const struct ddr_sm *sm)
{
	uint32_t n = sm->own.n_stale;

	for (const struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX && sm->own.n_stale; x++)
		n += x->used && ddr_sm_drain(sm, x)->drain_sent;
	return n;
}

/* A message is large: it is made for those that are sent, and not for each of many ranges at each step. */
static void ex_ack_send(struct ddr_sm *sm, const struct ddr_sm_ex *x)
{
	struct ddr_msg msg = { .type = DDR_M_EX_ACK };

	msg.ex_ack.owner = x->node;
	msg.ex_ack.id = x->id;
	msg.ex_ack.dirty = dirty_in_range(sm, x);
	ddr_sm_send(sm, &msg);
}

void ddr_sm_ex_serve(struct ddr_sm *sm, const struct ddr_sm_ex *x)
{
	/* our kernel has no writers beyond the end of its table; with a longer table it is told of the range before it is enabled */
	uint64_t there = x->start < sm->kernel.blocks ? sm->kernel.blocks - x->start : 0;

	if (!x->used || ddr_sm_drain(sm, x)->over || sm->kernel.state != DDR_K_ATTACHED || !ddr_sm_room(sm, 1))
		return;
	if (!there)
		ddr_sm_drain(sm, x)->drained = true;
	if (!ddr_sm_drain(sm, x)->drain_sent && there) {
		if (drains_out(sm) >= DDR_SM_EX)
			return;
		ddr_sm_drain(sm, x)->kseq = ddr_sm_kseq(sm);
		ddr_sm_rec(sm, DDR_U_DRAIN, ddr_sm_drain(sm, x)->kseq, x->start, x->count < there ? x->count : there);
		ddr_sm_drain(sm, x)->drain_sent = true;
	} else if (ddr_sm_drain(sm, x)->drained && !ddr_sm_drain(sm, x)->ack_sent && sm->own.ex_void == DDR_XV_NONE && ddr_sm_active(sm) && sm->own.start >= DDR_S_DELIVERED &&
		   ddr_sm_talks(sm)) {
		ex_ack_send(sm, x);
		ddr_sm_drain(sm, x)->ack_sent = true;
	}
}

void ddr_sm_void_serve(struct ddr_sm *sm)
{
	struct ddr_msg msg = { .type = DDR_M_EX_VOID };

	if (sm->own.ex_void != DDR_XV_DUE || !ddr_sm_active(sm) || !ddr_sm_may_send(sm))
		return;
	sm->own.ex_void = DDR_XV_SENT;
	ddr_sm_send(sm, &msg);
}
