// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Exclusive ranges: request, drain, acknowledgement, job, release.
 *
 * The request is multicast; on its delivery every node has its kernel drain the blocks
 * and then acknowledges; the owner works when all voters have (a node that left counts
 * until it was fenced), and multicasts the release. All of it is in the total order, so
 * every node knows alike which ranges are in force and which have all acknowledgements.
 *
 * Must never: start a job before all acknowledged and our own kernel has drained (rule
 * 5); release before the job's last I/O has ended; let a drain wait for a write that
 * waits for a member's failure to be agreed (such ranges are cancelled, ddr_sm_ex_cancel).
 */
#include "sm_int.h"

static bool overlaps(uint64_t a, uint64_t na, uint64_t b, uint64_t nb)
{
	return a < b + nb && b < a + na;
}

static struct ddr_sm_ex *ex_find(struct ddr_sm *sm, uint32_t node, uint32_t id)
{
	for (struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++)
		if (x->used && x->node == node && x->id == id)
			return x;
	return NULL;
}

static struct ddr_sm_range *range_find(struct ddr_sm *sm, uint32_t id, enum ddr_range_state state)
{
	for (struct ddr_sm_range *r = sm->own.range; r < sm->own.range + DDR_SM_RANGES; r++)
		if (r->state == state && r->id == id)
			return r;
	return NULL;
}

static bool all_acked(const struct ddr_sm *sm, const struct ddr_sm_ex *x)
{
	return x->granted || (ddr_sm_voters(sm) & ~x->acked) == 0;
}

/* Is a part of it in the range of a node? */
static bool in_force(const struct ddr_sm *sm, uint64_t start, uint64_t count)
{
	for (const struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++)
		if (x->used && overlaps(start, count, x->start, x->count))
			return true;
	return false;
}

/* ---- our ranges ---------------------------------------------------------------- */

struct ddr_sm_range *ddr_sm_range_new(struct ddr_sm *sm, uint64_t start, uint64_t count, uint32_t limit)
{
	struct ddr_sm_range *fresh = NULL;

	if (ddr_sm_ranges_used(sm) >= limit || in_force(sm, start, count))
		return NULL;
	for (struct ddr_sm_range *r = sm->own.range; r < sm->own.range + DDR_SM_RANGES; r++) {
		if (r->state == DDR_R_FREE)
			fresh = fresh ? fresh : r;
		else if (overlaps(start, count, r->start, r->count))
			return NULL;
	}
	if (!fresh)
		return NULL;
	memset(fresh, 0, sizeof(*fresh));
	fresh->state = DDR_R_ASK;
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

/* What the range was for is over; @next: whether there is something to release. */
static void range_end(struct ddr_sm *sm, struct ddr_sm_range *r, bool done, enum ddr_range_state next)
{
	r->state = next;
	if (r->kind == DDR_RK_VERIFY)
		ddr_sm_mismatch_range(sm, r, done);
	else if (r->kind == DDR_RK_REBUILD)
		ddr_sm_rebuild_range(sm, r, done);
	else if (r->kind == DDR_RK_FIX)
		ddr_sm_fix_range(sm, r, done);
	else
		ddr_sm_work_range(sm, r, done);
	sm->again = true;
}

/* ---- jobs ---------------------------------------------------------------------- */

static enum ddr_kaction job_of(const struct ddr_sm_range *r)
{
	return r->kind == DDR_RK_VERIFY || r->kind == DDR_RK_FIX ? DDR_KA_VERIFY : r->kind == DDR_RK_REBUILD ? DDR_KA_REBUILD : DDR_KA_RESYNC;
}

/* The data is there, and parity to be computed from it. */
static bool all_data(const struct ddr_sm *sm, const struct ddr_sm_range *r)
{
	return ddr_sm_doable(sm, r->start) == DDR_DO_JOB && ddr_sm_doable(sm, r->start + r->count - 1) == DDR_DO_JOB;
}

/* Can it be done with the members as they are now? */
static bool job_possible(const struct ddr_sm *sm, const struct ddr_sm_range *r)
{
	if (r->kind == DDR_RK_REBUILD)
		return ddr_sm_rebuilding(sm) == r->owner && !r->dirty && sm->shared.sb.member[r->owner].since == r->mismatch;
	if (r->kind == DDR_RK_FIX)
		return ddr_sm_fix_possible(sm, r);
	if (r->kind == DDR_RK_WORK && ddr_sm_replacing(sm) != DDR_NO_MEMBER)
		return true;
	return all_data(sm, r);
}

/* The disk that replaces another one gets what that one holds. */
static void job_copies(struct ddr_sm *sm, const struct ddr_sm_range *r, struct ddr_output *out)
{
	out->member = r->kind == DDR_RK_REBUILD ? r->owner : DDR_NO_MEMBER;
	out->from = DDR_NO_MEMBER;
	if (r->kind != DDR_RK_WORK && r->kind != DDR_RK_REBUILD)
		return;
	if (ddr_sm_replacing(sm) != DDR_NO_MEMBER) {
		out->member = ddr_sm_replacing(sm);
		out->from = ddr_sm_replaced(sm);
	}
	/* no parity can be computed: the copy is all that there is to do */
	if (r->kind == DDR_RK_WORK && !all_data(sm, r))
		out->job = DDR_KA_REBUILD;
}

static void job_start(struct ddr_sm *sm, struct ddr_sm_range *r)
{
	struct ddr_output *out;

	if (!job_possible(sm, r)) {
		range_end(sm, r, false, DDR_R_RELEASE);
		return;
	}
	out = ddr_sm_out(sm, DDR_OUT_JOB_RANGE);
	r->state = DDR_R_JOB;
	r->io = ddr_sm_io(sm, (uint32_t)(r - sm->own.range));
	out->io = r->io;
	out->job = job_of(r);
	out->start = r->start;
	out->count = r->count;
	job_copies(sm, r, out);
	out->members = r->kind == DDR_RK_WORK ? ddr_sm_job_members(sm, r->start) : ddr_sm_readable(sm, r->start);
	out->fix = r->kind == DDR_RK_FIX ? sm->own.fix[r->owner].what : 0;
	out->strict = r->kind == DDR_RK_WORK && sm->own.wk[r->owner].crash;	/* what its parity should be is not known (rule 9) */
	if (r->kind == DDR_RK_WORK && out->job == DDR_KA_REBUILD)
		out->members = 1u << out->from;		/* the parity is not to be believed: what cannot be read there is not computed */
	if (out->member != DDR_NO_MEMBER)
		out->members &= ~(1u << out->member);
}

/* For people: what was wrong. Whether the member has to go is not judged by it. */
static uint32_t class_of(int32_t result)
{
	switch (result) {
	case -ENODATA:
	case -EILSEQ:
		return DDR_EC_MEDIUM;
	case -ETIMEDOUT:
		return DDR_EC_TIMEOUT;
	case -ENOSPC:
		return DDR_EC_NOSPC;
	case -EBADE:
		return DDR_EC_FENCED;
	}
	return DDR_EC_IO;
}

static void job_event(struct ddr_sm *sm, const struct ddr_sm_job_error *e, uint32_t member, uint32_t op, const char *text)
{
	struct ddr_output *out = ddr_sm_event(sm, DDR_EV_MEMBER_ERROR, text);

	out->member = member;
	out->a = class_of(e->result);
	out->b = op;
	out->start = e->start;
	out->count = e->count;
}

void ddr_sm_job_errors(struct ddr_sm *sm, const struct ddr_sm_job_error *e)
{
	bool medium = class_of(e->result) == DDR_EC_MEDIUM;

	for (uint32_t m = 0; m < sm->shared.sb.members; m++) {
		bool write = e->hard >> m & 1;

		if (!(e->members >> m & 1))
			continue;
		ddr_sm_count_error(sm, m, write);
		job_event(sm, e, m, !write ? DDR_OP_READ : e->flush >> m & 1 ? DDR_OP_FLUSH : DDR_OP_WRITE,
			  medium ? "a job could not read its blocks" : "a job failed on the member");
	}
}

static void job_failed(struct ddr_sm *sm, struct ddr_sm_range *r)
{
	bool medium = r->result == -ENODATA || r->result == -EILSEQ;
	const struct ddr_sm_job_error e = { r->start, r->count, r->result, r->failed, r->hard, r->flush };

	if (r->result == -ENOSPC && r->failed) {
		r->no_space = r->failed;
		r->failed = r->hard = 0;
		ddr_sm_space_none(sm, DDR_SPACE_JOB, r->no_space);
		sm->own.space[DDR_SPACE_JOB].start = r->start;
		range_end(sm, r, false, DDR_R_RELEASE);
		return;
	}
	/* a fix looks for bad sectors, in smaller and smaller ranges: one error is counted once */
	if (!medium || r->kind != DDR_RK_FIX)
		ddr_sm_job_errors(sm, &e);
	if (medium) {
		if (r->kind != DDR_RK_FIX)
			ddr_sm_fix_new(sm, r->start, r->count, DDR_FIX_BAD);
		if (r->kind == DDR_RK_REBUILD)
			sm->own.hold_until = sm->now + DDR_SM_RETRY_MS;	/* until somebody writes there, it will fail again */
		range_end(sm, r, false, DDR_R_RELEASE);
	} else if (r->failed) {
		r->state = DDR_R_HELD;
		/* rule 3: a disk that failed a flush may have dropped what others had written */
		ddr_sm_report(sm, r->failed & ~r->hard, false);
		ddr_sm_report(sm, r->failed & r->hard, true);
	} else {
		job_event(sm, &e, DDR_NO_MEMBER, DDR_OP_READ, "a job failed and is tried again later");
		sm->own.hold_until = sm->now + DDR_SM_RETRY_MS;
		range_end(sm, r, false, DDR_R_RELEASE);
	}
}

void ddr_sm_job_done(struct ddr_sm *sm, const struct ddr_input *in)
{
	uint32_t i = ddr_sm_io_index(in->io);
	struct ddr_sm_range *r = i < DDR_SM_RANGES ? &sm->own.range[i] : NULL;

	if (i >= DDR_SM_RANGES && i < DDR_SM_RANGES + DDR_SM_SCANS) {
		ddr_sm_scan_done(sm, in);
		return;
	}
	if (!r || r->state != DDR_R_JOB || r->io != in->io) {
		ddr_sm_bug(sm, "the end of a job that does not run");
		return;
	}
	r->result = in->result;
	r->failed = in->failed_members & ddr_sm_written(sm);
	r->hard = in->members & r->failed;
	r->flush = in->flush_members & r->hard;
	r->mismatches = in->mismatches < r->count ? in->mismatches : r->count;
	r->repaired = in->repaired < r->count ? in->repaired : r->count;
	r->bad_start = in->start;
	r->bad_count = in->count;
	memcpy(r->fixed, in->fixed, sizeof(r->fixed));
	if (r->result == 0 && !r->failed) {
		if (r->start <= sm->own.space[DDR_SPACE_JOB].start && sm->own.space[DDR_SPACE_JOB].start < r->start + r->count && r->kind != DDR_RK_VERIFY)
			ddr_sm_space_done(sm, DDR_SPACE_JOB);
		range_end(sm, r, !r->tainted, DDR_R_RELEASE);
	} else {
		job_failed(sm, r);
	}
}

void ddr_sm_ranges_refused(struct ddr_sm *sm, uint32_t members)
{
	for (struct ddr_sm_range *r = sm->own.range; r < sm->own.range + DDR_SM_RANGES; r++)
		if (r->state == DDR_R_HELD && (r->failed & members)) {
			r->refused |= members & ~r->hard;
			if (r->failed & ~r->refused)
				continue;
			sm->own.hold_until = sm->now + DDR_SM_RETRY_MS;
			range_end(sm, r, false, DDR_R_RELEASE);
		}
}

/* ---- the total order ----------------------------------------------------------- */

static void ex_end(struct ddr_sm *sm, struct ddr_sm_ex *x)
{
	if (ddr_sm_drain(sm, x)->drain_sent && sm->kernel.state == DDR_K_ATTACHED)
		ddr_sm_rec(sm, DDR_U_RELEASE, ddr_sm_drain(sm, x)->kseq, 0, 0);
	x->used = false;
}

/* A place for the range, or NULL: it overlaps one in force, or a failure is being agreed. The same on all nodes. */
static struct ddr_sm_ex *ex_place(struct ddr_sm *sm, const struct ddr_msg *msg)
{
	struct ddr_sm_ex *fresh = NULL;

	if (!ddr_sm_members_settled(sm))
		return NULL;
	for (struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++) {
		if (!x->used)
			fresh = fresh ? fresh : x;
		else if (overlaps(msg->ex.start, msg->ex.count, x->start, x->count))
			return NULL;
	}
	if (fresh)
		ddr_sm_turn_granted(sm, msg->sender);
	else
		ddr_sm_turn_refused(sm, msg->sender);
	return fresh;
}

void ddr_sm_ex_request(struct ddr_sm *sm, const struct ddr_msg *msg)
{
	struct ddr_sm_range *r = msg->sender == sm->node ? range_find(sm, msg->ex.id, DDR_R_ASKED) : NULL;
	struct ddr_sm_ex *x;

	if (msg->ex.start >= sm->shared.sb.array_blocks || msg->ex.count > sm->shared.sb.array_blocks - msg->ex.start ||
	    ex_find(sm, msg->sender, msg->ex.id)) {
		ddr_sm_bug(sm, "a request for blocks that do not exist, or with a number in use");
		return;
	}
	if (msg->sender != sm->node)
		ddr_sm_use_asked(sm);
	x = ex_place(sm, msg);
	if (!x) {
		if (r)
			r->state = DDR_R_ASK;
		return;
	}
	*x = (struct ddr_sm_ex){ .used = true, .node = msg->sender, .id = msg->ex.id,
				 .start = msg->ex.start, .count = msg->ex.count };
	*ddr_sm_drain(sm, x) = (struct ddr_sm_drain){ 0 };
	if (r)
		r->state = DDR_R_ACKS;
}

void ddr_sm_ex_ack(struct ddr_sm *sm, const struct ddr_msg *msg)
{
	struct ddr_sm_ex *x = ex_find(sm, msg->ex_ack.owner, msg->ex_ack.id);

	if (!x)
		return;		/* it was cancelled, and the acknowledgement is late */
	x->acked |= 1ull << ddr_sm_node_at(sm, msg->sender);
	x->dirty |= msg->ex_ack.dirty;
}

void ddr_sm_ex_release(struct ddr_sm *sm, const struct ddr_msg *msg)
{
	struct ddr_sm_ex *x = ex_find(sm, msg->sender, msg->ex_release.id);
	struct ddr_sm_range *r = msg->sender == sm->node ? range_find(sm, msg->ex_release.id, DDR_R_RELEASED) : NULL;

	if (!x) {
		ddr_sm_bug(sm, "a range ends that is not in force");
		return;
	}
	ex_end(sm, x);
	if (r)
		r->state = DDR_R_FREE;
}

/*
 * The sender's kernel went, and with it what it held back for the ranges that the sender had acknowledged. Where others have not
 * acknowledged yet, the acknowledgement is taken back. Where all have, the owner may be at work: the sender's next kernel is not enabled
 * before that ends; but the sender itself gives back what it had not begun, or two such nodes would wait for each other.
 */
void ddr_sm_ex_void(struct ddr_sm *sm, const struct ddr_msg *msg)
{
	bool ours = msg->sender == sm->node;

	for (struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++) {
		struct ddr_sm_range *r = ours && x->used && x->node == sm->node ? range_find(sm, x->id, DDR_R_ACKS) : NULL;

		if (!x->used)
			continue;
		if (!all_acked(sm, x)) {
			x->acked &= ~(1ull << ddr_sm_node_at(sm, msg->sender));
			ddr_sm_drain(sm, x)->ack_sent = ddr_sm_drain(sm, x)->ack_sent && !ours;
		} else if (r && !ddr_sm_drain(sm, x)->drained) {
			range_end(sm, r, false, DDR_R_RELEASE);
		}
	}
	if (ours)
		sm->own.ex_void = DDR_XV_NONE;
}

void ddr_sm_ex_cancel(struct ddr_sm *sm)
{
	for (struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++) {
		struct ddr_sm_range *r;

		if (!x->used || all_acked(sm, x))
			continue;
		ex_end(sm, x);
		r = x->node == sm->node ? range_find(sm, x->id, DDR_R_ACKS) : NULL;
		if (r) {
			r->state = DDR_R_ASK;
			r->id = ++sm->own.ex_id;
		}
	}
}

void ddr_sm_ex_settle(struct ddr_sm *sm)
{
	for (struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++)
		x->granted = x->used && all_acked(sm, x);
}

void ddr_sm_ex_fenced(struct ddr_sm *sm, uint32_t node)
{
	for (struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++)
		if (x->used && x->node == node)
			ex_end(sm, x);
}

void ddr_sm_ex_forget(struct ddr_sm *sm)
{
	for (struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++)
		if (x->used && ddr_sm_drain(sm, x)->drain_sent && sm->kernel.state == DDR_K_ATTACHED && sm->own.n_stale < DDR_SM_EX)
			sm->own.stale[sm->own.n_stale++] = (struct ddr_sm_stale){ *x, *ddr_sm_drain(sm, x) };
	memset(sm->shared.ex, 0, sizeof(sm->shared.ex));
	memset(sm->own.drain, 0, sizeof(sm->own.drain));
	sm->own.ex_void = DDR_XV_NONE;	/* our next START takes back whatever we acknowledged */
}

void ddr_sm_ex_adopt(struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->own.n_stale;) {
		const struct ddr_sm_stale *old = &sm->own.stale[i];
		struct ddr_sm_ex *x = ex_find(sm, old->ex.node, old->ex.id);

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

/* Ranges that our state does not have are over, unless it lacks them because their owner was elsewhere: that one is lost then. */
static void stale_release(struct ddr_sm *sm)
{
	while (sm->own.n_stale && sm->own.c.synced && sm->own.c.phase == DDR_V_AGREED && !sm->own.c.transfer && !ddr_sm_any_lost(sm) && ddr_sm_room(sm, 1))
		ddr_sm_rec(sm, DDR_U_RELEASE, sm->own.stale[--sm->own.n_stale].drain.kseq, 0, 0);
}

void ddr_sm_ex_view(struct ddr_sm *sm)
{
	int self = ddr_sm_node_at(sm, sm->node);

	ddr_sm_turn_view(sm);
	for (struct ddr_sm_range *r = sm->own.range; r < sm->own.range + DDR_SM_RANGES; r++) {
		if (r->state == DDR_R_ASKED)
			r->state = DDR_R_ASK;
		if (r->state == DDR_R_RELEASED)
			r->state = DDR_R_RELEASE;
	}
	for (struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++)
		if (!(x->acked >> self & 1))
			ddr_sm_drain(sm, x)->ack_sent = false;
	if (sm->own.ex_void == DDR_XV_SENT)
		sm->own.ex_void = DDR_XV_DUE;
}

/* ---- our kernel ---------------------------------------------------------------- */

void ddr_sm_ex_detached(struct ddr_sm *sm)
{
	for (struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++) {
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
		ddr_sm_bug(sm, "DRAINED with a number that was never given");
		return;
	}
	for (struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++)
		if (x->used && ddr_sm_drain(sm, x)->drain_sent && ddr_sm_drain(sm, x)->kseq == rec->seq)
			ddr_sm_drain(sm, x)->drained = true;
	for (uint32_t i = 0; i < sm->own.n_stale; i++)
		sm->own.stale[i].drain.drained |= sm->own.stale[i].drain.kseq == rec->seq;
}

/* Has somebody left with dirty regions, in a slot that is not recovered yet? */
bool ddr_sm_left_dirty(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (sm->shared.nodes[i].leaving && sm->shared.nodes[i].leave_dirty)
			return true;
	return false;
}

/*
 * Regions of the range that somebody has to resync, as far as we know; bit i: the i-th region that it touches. Before our slot
 * was read, and while the slot of a node that died or left is still to be taken over: any.
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

/* A job works in it, or may begin to at any moment, where the binding before kept our writers out and this one does not yet. */
static bool in_work(const struct ddr_sm *sm, const struct ddr_sm_ex *x)
{
	if (!x->used || ddr_sm_drain(sm, x)->drained || !all_acked(sm, x))
		return false;
	if (x->node != sm->node)
		return true;
	for (const struct ddr_sm_range *r = sm->own.range; r < sm->own.range + DDR_SM_RANGES; r++)
		if (r->id == x->id && (r->state == DDR_R_JOB || r->state == DDR_R_HELD))
			return true;
	return false;
}

/*
 * ENABLE ends the ranges of the binding before, and what waits behind them goes on, before any DRAIN that came
 * later. So it waits until all know which of our acknowledgements do not count any more, and no job works in one of
 * those that do.
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

/* Ranges that our kernel has; it takes no more than DDR_SM_EX. */
static uint32_t drains_out(const struct ddr_sm *sm)
{
	uint32_t n = sm->own.n_stale;

	for (const struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX && sm->own.n_stale; x++)
		n += x->used && ddr_sm_drain(sm, x)->drain_sent;
	return n;
}

static void ex_serve(struct ddr_sm *sm, struct ddr_sm_ex *x)
{
	struct ddr_msg msg = { .type = DDR_M_EX_ACK };
	/* behind the end of its table our kernel has no writers; a longer one is told of the range before it is enabled */
	uint64_t there = x->start < sm->kernel.blocks ? sm->kernel.blocks - x->start : 0;

	if (!x->used || sm->kernel.state != DDR_K_ATTACHED || !ddr_sm_room(sm, 1))
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
		msg.ex_ack.owner = x->node;
		msg.ex_ack.id = x->id;
		msg.ex_ack.dirty = dirty_in_range(sm, x);
		ddr_sm_send(sm, &msg);
		ddr_sm_drain(sm, x)->ack_sent = true;
	}
}

/* Nobody wants it any more, and nobody was asked yet. */
static bool given_up(const struct ddr_sm *sm, const struct ddr_sm_range *r)
{
	switch (r->kind) {
	case DDR_RK_WORK: return sm->own.wk[r->owner].again || sm->own.stopping;
	case DDR_RK_REBUILD:
	case DDR_RK_FIX: return !job_possible(sm, r) || sm->own.stopping;
	case DDR_RK_VERIFY: break;
	}
	return false;
}

static void range_serve(struct ddr_sm *sm, struct ddr_sm_range *r)
{
	struct ddr_msg msg = { .type = r->state == DDR_R_ASK ? DDR_M_EX_REQUEST : DDR_M_EX_RELEASE };
	const struct ddr_sm_ex *x;

	switch (r->state) {
	case DDR_R_ASK:
		if (given_up(sm, r)) {
			range_end(sm, r, false, DDR_R_FREE);
		} else if (ddr_sm_members_settled(sm) && !in_force(sm, r->start, r->count) && ddr_sm_turn_ours(sm)) {
			msg.ex.id = r->id;
			msg.ex.mode = DDR_EX_RANGE;
			msg.ex.job = (uint8_t)job_of(r);
			msg.ex.start = r->start;
			msg.ex.count = r->count;
			r->state = DDR_R_ASKED;
			ddr_sm_send(sm, &msg);
		}
		return;
	case DDR_R_ACKS:
		x = ex_find(sm, sm->node, r->id);
		if (x && ddr_sm_drain(sm, x)->drained && all_acked(sm, x)) {
			r->dirty = x->dirty != 0;
			job_start(sm, r);
		}
		return;
	case DDR_R_HELD:
		if (ddr_sm_agreed_out(sm, r->failed & ~r->refused))
			range_end(sm, r, false, DDR_R_RELEASE);
		return;
	case DDR_R_RELEASE:
		msg.ex_release.id = r->id;
		r->state = DDR_R_RELEASED;
		ddr_sm_send(sm, &msg);
		return;
	default:
		return;
	}
}

/*
 * The array has failed: no job will run any more, and what waits behind our ranges must not wait for ever; it gets its errors. Where a job is
 * out, or a write of one may still land, the range stays.
 */
static void ranges_give_up(struct ddr_sm *sm)
{
	for (struct ddr_sm_range *r = sm->own.range; r < sm->own.range + DDR_SM_RANGES; r++) {
		struct ddr_sm_ex *x = r->state == DDR_R_FREE ? NULL : ex_find(sm, sm->node, r->id);

		if (r->state == DDR_R_JOB || (r->state == DDR_R_HELD && r->hard && r->result == -ETIMEDOUT) || !ddr_sm_room(sm, 2))
			continue;
		if (r->state == DDR_R_ASK || r->state == DDR_R_ACKS || r->state == DDR_R_HELD)
			range_end(sm, r, false, DDR_R_RELEASE);
		if (r->state != DDR_R_RELEASE)
			continue;
		if (x)
			ex_end(sm, x);
		r->state = DDR_R_FREE;
	}
}

static void void_serve(struct ddr_sm *sm)
{
	struct ddr_msg msg = { .type = DDR_M_EX_VOID };

	if (sm->own.ex_void != DDR_XV_DUE || !ddr_sm_active(sm) || !ddr_sm_may_send(sm))
		return;
	sm->own.ex_void = DDR_XV_SENT;
	ddr_sm_send(sm, &msg);
}

void ddr_sm_ex_pump(struct ddr_sm *sm)
{
	bool running = ddr_sm_running(sm);

	ddr_sm_turn_pump(sm);
	if (sm->shared.failed && !sm->own.gave_up)
		ranges_give_up(sm);
	stale_release(sm);
	void_serve(sm);
	for (struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++)
		ex_serve(sm, x);
	if (!ddr_sm_active(sm) || sm->own.c.leave_sent)
		return;
	/* what others wait for is given back without our kernel, too */
	for (struct ddr_sm_range *r = sm->own.range; r < sm->own.range + DDR_SM_RANGES; r++)
		if ((running || r->state == DDR_R_RELEASE) && ddr_sm_may_send(sm))
			range_serve(sm, r);
}
