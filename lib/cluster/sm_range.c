// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Our own ranges, from the request to the end of their release: the requests, the jobs in them, and the delivery of the result.
 *
 * Must never: start a job before all nodes acknowledged and our own kernel has drained (rule 5); release a range before the job's
 * last I/O has ended.
 */
#include "sm_int.h"

/* The purpose of the range has ended. */
static void range_end(struct ddr_sm *sm, struct ddr_sm_range *r, bool done, enum ddr_range_event event)
{
	ddr_range_on(sm, r, event);
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

/* ---- jobs ------------------------------------------------------------------- */

static enum ddr_kaction job_of(const struct ddr_sm_range *r)
{
	return r->kind == DDR_RK_VERIFY || r->kind == DDR_RK_FIX ? DDR_KA_VERIFY : r->kind == DDR_RK_REBUILD ? DDR_KA_REBUILD : DDR_KA_RESYNC;
}

/* All data is present, and there is parity to be computed. */
static bool all_data(const struct ddr_sm *sm, const struct ddr_sm_range *r)
{
	return ddr_sm_doable(sm, r->start) == DDR_DO_JOB && ddr_sm_doable(sm, r->start + r->count - 1) == DDR_DO_JOB;
}

/* Is the job possible with the present members? */
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

/* The disk that replaces another one gets its contents. */
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
	/* no parity can be computed: only the copy is left to do */
	if (r->kind == DDR_RK_WORK && !all_data(sm, r))
		out->job = DDR_KA_REBUILD;
}

static void job_start(struct ddr_sm *sm, struct ddr_sm_range *r)
{
	struct ddr_output *out;

	if (!job_possible(sm, r)) {
		range_end(sm, r, false, DDR_RE_UNDONE);
		return;
	}
	out = ddr_sm_out(sm, DDR_OUT_JOB_RANGE);
	ddr_range_on(sm, r, DDR_RE_ALL_ACKED);
	r->io = ddr_sm_io(sm, (uint32_t)(r - sm->own.range));
	out->io = r->io;
	out->job = job_of(r);
	out->start = r->start;
	out->count = r->count;
	job_copies(sm, r, out);
	out->members = r->kind == DDR_RK_WORK ? ddr_sm_job_members(sm, r->start) : ddr_sm_readable(sm, r->start);
	out->fix = r->kind == DDR_RK_FIX ? sm->own.fix[r->owner].what : 0;
	if ((r->kind == DDR_RK_FIX || r->kind == DDR_RK_REBUILD) && ddr_sm_parity_known(sm, r->start, r->count))
		out->fix |= DDR_FIX_FITS;
	out->strict = r->kind == DDR_RK_WORK && sm->own.wk[r->owner].crash;	/* the correct parity is unknown (rule 9) */
	if (r->kind == DDR_RK_WORK && out->job == DDR_KA_REBUILD)
		out->members = 1u << out->from;		/* the parity cannot be trusted: blocks that cannot be read are not computed */
	if (out->member != DDR_NO_MEMBER)
		out->members &= ~(1u << out->member);
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
		range_end(sm, r, false, DDR_RE_ENDED);
		return;
	}
	/* a fix searches for bad sectors in smaller and smaller ranges: one error is only counted once */
	if (!medium || r->kind != DDR_RK_FIX)
		ddr_sm_job_errors(sm, &e);
	if (medium) {
		if (r->kind != DDR_RK_FIX)
			ddr_sm_fix_new(sm, r->start, r->count, DDR_FIX_BAD);
		if (r->kind == DDR_RK_REBUILD)
			sm->own.hold_until = sm->now + DDR_SM_RETRY_MS;	/* it fails again until the block is rewritten */
		range_end(sm, r, false, DDR_RE_ENDED);
	} else if (r->failed) {
		ddr_range_on(sm, r, DDR_RE_MEMBER_FAILED);
		/* rule 3: a disk that failed a flush may have dropped what others had written */
		ddr_sm_report(sm, r->failed & ~r->hard, false);
		ddr_sm_report(sm, r->failed & r->hard, true);
	} else {
		ddr_sm_job_event(sm, &e, DDR_NO_MEMBER, DDR_OP_READ, "a job failed and will be retried");
		sm->own.hold_until = sm->now + DDR_SM_RETRY_MS;
		range_end(sm, r, false, DDR_RE_ENDED);
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
		ddr_sm_bug(sm, "a job ended that does not run");
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
		range_end(sm, r, !r->tainted, DDR_RE_ENDED);
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
			range_end(sm, r, false, DDR_RE_JUDGED);
		}
}

/* ---- the life of a range ---------------------------------------------------- */

/*
 * A node's kernel is gone, and acknowledgements of the node are void. If we are that node, we also release our own ranges that all had acknowledged
 * and whose job had not started: our next kernel is not enabled before they end, and two such nodes would wait for each other.
 */
void ddr_sm_ex_voided(struct ddr_sm *sm, const struct ddr_msg *msg)
{
	bool ours = msg->sender == sm->node;

	for (const struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX && ours; x++) {
		struct ddr_sm_range *r = x->used && x->node == sm->node ? ddr_sm_range_find(sm, x->id, DDR_R_ACKS) : NULL;

		if (!x->used)
			continue;
		if (!ddr_sm_ex_acked(sm, x))
			ddr_sm_drain(sm, x)->ack_sent = false;
		else if (r && !ddr_sm_drain(sm, x)->drained)
			range_end(sm, r, false, DDR_RE_UNDONE);
	}
	if (ours)
		sm->own.ex_void = DDR_XV_NONE;
}

/* The range is no longer needed, and no request was sent yet. */
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
			range_end(sm, r, false, DDR_RE_UNWANTED);
		} else if (ddr_sm_members_settled(sm) && !ddr_sm_ex_in_force(sm, r->start, r->count) && ddr_sm_turn_ours(sm)) {
			msg.ex.id = r->id;
			msg.ex.mode = DDR_EX_RANGE;
			msg.ex.job = (uint8_t)job_of(r);
			msg.ex.start = r->start;
			msg.ex.count = r->count;
			ddr_range_on(sm, r, DDR_RE_SENT);
			ddr_sm_send(sm, &msg);
		}
		return;
	case DDR_R_ACKS:
		x = ddr_shared_ex_find(&sm->shared, sm->node, r->id);
		if (x && ddr_sm_drain(sm, x)->drained && ddr_sm_ex_acked(sm, x)) {
			r->dirty = x->dirty != 0;
			job_start(sm, r);
		}
		return;
	case DDR_R_HELD:
		if (ddr_sm_agreed_out(sm, r->failed & ~r->refused))
			range_end(sm, r, false, DDR_RE_JUDGED);
		return;
	case DDR_R_RELEASE:
		msg.ex_release.id = r->id;
		ddr_range_on(sm, r, DDR_RE_SENT);
		ddr_sm_send(sm, &msg);
		return;
	default:
		return;
	}
}

/*
 * The array has failed: no job will run, and I/O that waits behind our ranges must fail instead of waiting for ever. A range stays while its job
 * runs, or one of the job's writes may still land.
 */
static void ranges_give_up(struct ddr_sm *sm)
{
	for (struct ddr_sm_range *r = sm->own.range; r < sm->own.range + DDR_SM_RANGES; r++) {
		const struct ddr_sm_ex *x = r->state == DDR_R_FREE ? NULL : ddr_shared_ex_find(&sm->shared, sm->node, r->id);

		if (r->state == DDR_R_JOB || (r->state == DDR_R_HELD && r->hard && r->result == -ETIMEDOUT) || !ddr_sm_room(sm, 2))
			continue;
		if (r->state == DDR_R_ASK || r->state == DDR_R_ACKS || r->state == DDR_R_HELD)
			range_end(sm, r, false, DDR_RE_ARRAY_FAILED);
		if (r->state != DDR_R_RELEASE)
			continue;
		if (x) {
			ddr_sm_ex_over(sm, x);
			*ddr_sm_drain(sm, x) = (struct ddr_sm_drain){ .over = true };
		}
		ddr_range_on(sm, r, DDR_RE_ARRAY_FAILED);
	}
}

void ddr_sm_ex_pump(struct ddr_sm *sm)
{
	bool running = ddr_sm_running(sm);

	ddr_sm_turn_pump(sm);
	if (sm->shared.failed && !sm->own.gave_up)
		ranges_give_up(sm);
	ddr_sm_stale_release(sm);
	ddr_sm_void_serve(sm);
	for (const struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++)
		ddr_sm_ex_serve(sm, x);
	if (!ddr_sm_active(sm) || sm->own.c.leave_sent)
		return;
	/* ranges that others wait for are released without our kernel, too */
	for (struct ddr_sm_range *r = sm->own.range; r < sm->own.range + DDR_SM_RANGES; r++)
		if ((running || r->state == DDR_R_RELEASE) && ddr_sm_may_send(sm))
			range_serve(sm, r);
}
