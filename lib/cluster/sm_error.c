// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Reports of the kernel: errors of members by class, and mismatches of parity.
 *
 * An error that means "the member is broken" makes an intent (sm_member.c), and the bios
 * wait until its failure is agreed; then they are retried without it. An error that
 * means something else (a bad sector, no space, our own bug, a fence) fails no member.
 *
 * Must never: answer "try again" to a write while the member that failed it still counts
 * (rule 3); fail a member for a bad sector that parity covers; return an error that only the copy of a member had; return data of a clean
 * region whose parity is wrong (with P alone it is unknown which chunk is wrong).
 */
#include "sm_int.h"

#define MISMATCH_LOOKS	8u	/* retries of a read that did not match, although everything matches now; then the data is returned */
#define MISMATCH_FIXES	4u	/* fixes that are started for a read: it may lie in two regions, and a fix may end without a result */

static void resolve(struct ddr_sm *sm, uint64_t seq, uint32_t action)
{
	ddr_sm_rec(sm, DDR_U_RESOLVE, seq, 0, 0)->arg[0] = action;
}

/* ---- errors ----------------------------------------------------------------- */

/* Does this error fail the member? A flush that failed may have dropped written data, whatever its class. */
static bool breaks_member(const struct ddr_rec *rec)
{
	switch (rec->status) {
	case DDR_EC_IO:
	case DDR_EC_TIMEOUT:
		return true;
	case DDR_EC_MEDIUM:
		return rec->arg[0] != DDR_OP_READ;
	}
	return rec->arg[0] == DDR_OP_FLUSH;
}

static void error_event(struct ddr_sm *sm, const struct ddr_rec *rec, uint32_t member)
{
	static const char *const text[] = {
		[DDR_EC_IO] = "the member failed or is gone", [DDR_EC_MEDIUM] = "bad sector",
		[DDR_EC_FENCED] = "this node was fenced from the member", [DDR_EC_NOSPC] = "the member has no space left",
		[DDR_EC_TIMEOUT] = "the member does not answer", [DDR_EC_INVAL] = "the member refused the request as invalid",
		[DDR_EC_ABSENT] = "this node's table has no device for the member",
	};
	struct ddr_output *out = ddr_sm_event(sm, DDR_EV_MEMBER_ERROR, text[rec->status]);

	out->member = member;
	out->a = (uint64_t)rec->status;
	out->b = rec->arg[0];
	out->start = rec->start;
	out->count = rec->count;
}

/* The bios of @rec wait until the failure of @member is agreed or refused. */
static void park(struct ddr_sm *sm, const struct ddr_rec *rec, uint32_t member)
{
	struct ddr_sm_error *e = sm->kernel.err;

	if (sm->kernel.n_err == DDR_SM_ERRORS) {
		resolve(sm, rec->seq, DDR_RES_RETRY);	/* it fails again and is reported again */
		return;
	}
	while (e->used)
		e++;
	*e = (struct ddr_sm_error){ .used = true, .soft = rec->arg[0] == DDR_OP_READ, .member = member, .seq = rec->seq };
	sm->kernel.n_err++;
}

static void broken(struct ddr_sm *sm, const struct ddr_rec *rec, uint32_t member)
{
	park(sm, rec, member);
	ddr_sm_report(sm, 1u << member, rec->arg[0] != DDR_OP_READ);
}

/*
 * The array does not need the new disk of a replacement: the old one and the others have all data. So an error of the new disk only
 * fails the new disk, whatever its class.
 */
static void copy_broken(struct ddr_sm *sm, const struct ddr_rec *rec, uint32_t member)
{
	park(sm, rec, member);
	ddr_sm_report(sm, 1u << member, true);
}

static void not_broken(struct ddr_sm *sm, const struct ddr_rec *rec, uint32_t member)
{
	bool covered = rec->status == DDR_EC_MEDIUM && ddr_sm_can_lose(sm, 1u << member);

	if (covered)
		ddr_sm_fix_new(sm, rec->start, rec->count, DDR_FIX_BAD);
	resolve(sm, rec->seq, covered ? DDR_RES_RETRY : DDR_RES_FAIL);
}

/*
 * The kernel's table has no device for the member. The member itself is not faulty: the table is checked when a
 * daemon starts with it, and the bios wait for that. By then another table may name the device.
 */
static void absent(struct ddr_sm *sm, const struct ddr_rec *rec, uint32_t member)
{
	if (sm->own.present >> member & 1) {
		resolve(sm, rec->seq, DDR_RES_RETRY);
		return;
	}
	if (ddr_sm_written(sm) >> member & 1)
		error_event(sm, rec, member);
	park(sm, rec, member);
}

void ddr_sm_kerror(struct ddr_sm *sm, const struct ddr_rec *rec)
{
	uint32_t m = ddr_sm_device_at(sm, rec->member, rec->status == DDR_EC_ABSENT);
	bool known = rec->member < sm->shared.sb.roles || rec->member == DDR_UAPI_SHADOW;

	if (!known || rec->status < DDR_EC_IO || rec->status > DDR_EC_ABSENT || rec->arg[0] > DDR_OP_ZEROES) {
		ddr_sm_bug(sm, "the kernel reported an error with an unknown member, class or operation");
		resolve(sm, rec->seq, DDR_RES_FAIL);
		return;
	}
	if (m == DDR_NO_MEMBER) {
		park(sm, rec, DDR_MAX_MEMBERS);	/* of a member that has failed and lost its role to another one */
		return;
	}
	if (rec->status == DDR_EC_ABSENT) {
		absent(sm, rec, m);
		return;
	}
	ddr_sm_count_error(sm, m, rec->arg[0] != DDR_OP_READ);
	if (!(ddr_sm_written(sm) >> m & 1)) {
		park(sm, rec, m);	/* it has failed already: answered when all nodes have agreed */
		return;
	}
	error_event(sm, rec, m);
	if (rec->status == DDR_EC_FENCED) {
		resolve(sm, rec->seq, DDR_RES_FAIL);
		ddr_sm_give_up(sm, "a member refuses this node's writes: this node was fenced from that disk (reservation conflict). When its "
				   "registration is restored" DDR_SM_ANEW);
	} else if (m == ddr_sm_replacing(sm)) {
		copy_broken(sm, rec, m);
	} else if (breaks_member(rec)) {
		broken(sm, rec, m);
	} else {
		not_broken(sm, rec, m);
	}
}

/* The error's member as a bit; 0 for an error that no longer concerns a member of the array. */
static uint32_t mask_of(const struct ddr_sm_error *e)
{
	return e->member < DDR_MAX_MEMBERS ? 1u << e->member : 0;
}

void ddr_sm_errors_refused(struct ddr_sm *sm, uint32_t members)
{
	for (uint32_t i = 0; i < DDR_SM_ERRORS && sm->kernel.n_err; i++)
		if (sm->kernel.err[i].used && sm->kernel.err[i].soft && (members & mask_of(&sm->kernel.err[i])))
			sm->kernel.err[i].refused = true;
}

/* The kernel declares its open errors again when it is bound. */
void ddr_sm_errors_forget(struct ddr_sm *sm)
{
	memset(sm->kernel.err, 0, DDR_SM_ERRORS * sizeof(*sm->kernel.err));
	sm->kernel.n_err = 0;
	memset(sm->kernel.mm, 0, sizeof(sm->kernel.mm));
}

/* RETRY is sent after the kernel was told that the member has failed. Otherwise a flush would fail on it again, and return the error. */
static void errors_answer(struct ddr_sm *sm)
{
	for (struct ddr_sm_error *e = sm->kernel.err; e < sm->kernel.err + DDR_SM_ERRORS && sm->kernel.n_err; e++) {
		bool fail = e->refused || sm->shared.failed;

		if (!e->used || !(fail || (ddr_sm_agreed_out(sm, mask_of(e)) && ddr_sm_members_told(sm))))
			continue;
		if (!ddr_sm_room(sm, 1))
			return;
		resolve(sm, e->seq, fail ? DDR_RES_FAIL : DDR_RES_RETRY);
		e->used = false;
		sm->kernel.n_err--;
	}
}

/* ---- mismatches ------------------------------------------------------------- */

void ddr_sm_kmismatch(struct ddr_sm *sm, const struct ddr_rec *rec)
{
	struct ddr_sm_mismatch *m = sm->kernel.mm;

	if (rec->count == 0 || rec->count > DDR_EX_BLOCKS || rec->start >= sm->shared.sb.array_blocks ||
	    rec->count > sm->shared.sb.array_blocks - rec->start) {
		ddr_sm_bug(sm, "the kernel reported a mismatch in blocks that do not exist");
		resolve(sm, rec->seq, DDR_RES_FAIL);
		return;
	}
	while (m < sm->kernel.mm + DDR_SM_MISMATCHES && m->used)
		m++;
	if (m == sm->kernel.mm + DDR_SM_MISMATCHES) {
		resolve(sm, rec->seq, DDR_RES_RETRY);	/* it is reported again */
		return;
	}
	*m = (struct ddr_sm_mismatch){ .used = true, .seq = rec->seq, .start = rec->start, .count = rec->count,
					.looks = (uint32_t)rec->arg[0] };
}

static void mismatch_answer(struct ddr_sm *sm, struct ddr_sm_mismatch *m, uint32_t action)
{
	if (sm->kernel.state == DDR_K_ATTACHED)
		resolve(sm, m->seq, action);
	m->used = false;
}

/* With P and Q a fix may identify the wrong chunk. After a few attempts it counts as unknown. */
static bool to_be_fixed(struct ddr_sm *sm, struct ddr_sm_mismatch *m, const struct ddr_sm_range *r)
{
	uint64_t end = r->start + r->count, from = r->bad_start >= r->start && r->bad_start < end ? r->bad_start : r->start;

	if (sm->shared.sb.parity < 2 || m->tries == MISMATCH_FIXES)
		return false;
	if (ddr_sm_fix_new(sm, from, end - from, DDR_FIX_BAD | DDR_FIX_WRONG))
		m->tries++;
	else if (!ddr_sm_fix_pending(sm, from, end - from) && ddr_sm_fix_room(sm))
		return false;	/* none is possible now */
	m->fixing = true;
	sm->again = true;
	return true;
}

void ddr_sm_mismatch_range(struct ddr_sm *sm, const struct ddr_sm_range *r, bool done)
{
	struct ddr_sm_mismatch *m = &sm->kernel.mm[r->owner];
	struct ddr_output *out;

	if (!m->used || m->seq != r->mismatch)
		return;		/* of an earlier binding */
	m->ranged = false;
	if (!done) {
		/* a bad sector: the kernel will hit it too, and reconstruct; otherwise the range is requested again */
		if (r->result == -ENODATA || r->result == -EILSEQ)
			mismatch_answer(sm, m, DDR_RES_RETRY);
		return;
	}
	if (r->mismatches == 0 || r->dirty) {
		/*
		 * What matches now may have been in the middle of a write when the kernel read it, or was wrong and has been repaired
		 * since: the kernel reads it again. With constant writes there that could continue for ever, and then the result of
		 * the read is arbitrary anyway.
		 */
		mismatch_answer(sm, m, r->mismatches == 0 && (m->tries || m->looks < MISMATCH_LOOKS) ? DDR_RES_RETRY : DDR_RES_PASS);
		return;
	}
	if (to_be_fixed(sm, m, r))
		return;
	sm->own.mismatches += r->mismatches;
	out = ddr_sm_event(sm, DDR_EV_MEMBER_ERROR, "parity does not match the data of a clean region, so the read fails");
	out->start = r->start;
	out->count = r->count;
	mismatch_answer(sm, m, DDR_RES_FAIL);
}

static bool verifiable(const struct ddr_sm *sm, uint64_t block)
{
	return ddr_sm_doable(sm, block) == DDR_DO_JOB;
}

static void mismatch_serve(struct ddr_sm *sm, struct ddr_sm_mismatch *m)
{
	struct ddr_sm_range *r;

	if (!ddr_sm_parity_known(sm, m->start, m->count)) {
		mismatch_answer(sm, m, m->tries ? DDR_RES_RETRY : DDR_RES_PASS);
		return;
	}
	if (!verifiable(sm, m->start) || !verifiable(sm, m->start + m->count - 1)) {
		mismatch_answer(sm, m, DDR_RES_RETRY);	/* a member failed meanwhile: the kernel will see which are left */
		return;
	}
	if (!ddr_sm_time(sm, sm->own.hold_until))
		return;
	r = ddr_sm_range_new(sm, m->start, m->count, DDR_SM_RANGES);
	if (!r)
		return;
	r->kind = DDR_RK_VERIFY;
	r->owner = (uint32_t)(m - sm->kernel.mm);
	r->mismatch = m->seq;
	m->ranged = true;
}

void ddr_sm_error_pump(struct ddr_sm *sm)
{
	if (sm->kernel.state != DDR_K_ATTACHED)
		return;
	if (sm->kernel.n_err)
		errors_answer(sm);
	for (struct ddr_sm_mismatch *m = sm->kernel.mm; m < sm->kernel.mm + DDR_SM_MISMATCHES; m++) {
		if (!m->used || (m->ranged && !sm->shared.failed) || !ddr_sm_room(sm, 1))
			continue;
		m->fixing = m->fixing && (ddr_sm_fix_pending(sm, m->start, m->count) || !ddr_sm_fix_room(sm));
		if (m->fixing && !sm->shared.failed)
			continue;
		if (sm->shared.failed)
			mismatch_answer(sm, m, DDR_RES_FAIL);
		else if (ddr_sm_running(sm))
			mismatch_serve(sm, m);
	}
}
