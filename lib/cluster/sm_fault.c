// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Failures on members: counts and reports them, so that the change of the members (sm_member.c) finds them.
 *
 * Must never: fail a member without agreement.
 */
#include "sm_int.h"

void ddr_sm_report(struct ddr_sm *sm, uint32_t members, bool hard)
{
	if (hard)
		sm->own.t.report_hard |= members;
	else
		sm->own.t.report_soft |= members;
	sm->own.seen_hard |= hard ? members : 0;
	sm->own.seen_soft |= hard ? 0 : members;
	sm->again = true;
}

void ddr_sm_exchanged(struct ddr_sm *sm, uint32_t member)
{
	if (member >= sm->shared.sb.members)
		return;
	sm->own.seen_exchanged |= 1u << member;
	ddr_sm_report(sm, 1u << member, true);
}

/* Another disk is at its place now: it gets no requests (daemon/disk/members.h), so none has failed on the member. That it is gone was reported. */
static bool is_another_disk(const struct ddr_sm *sm, uint32_t member)
{
	return sm->own.seen_exchanged >> member & 1;
}

void ddr_sm_count_error(struct ddr_sm *sm, uint32_t member, bool write)
{
	struct ddr_sm_errors *e = &sm->own.errors[member];
	uint32_t *n = write ? &e->write : &e->read;

	if (*n < UINT32_MAX && !is_another_disk(sm, member))
		(*n)++;
}

static uint32_t sum(uint32_t a, uint32_t b)
{
	return a < UINT32_MAX - b ? a + b : UINT32_MAX;
}

void ddr_sm_errors(const struct ddr_sm *sm, uint32_t member, uint32_t *read, uint32_t *write, uint32_t *corrected)
{
	const struct ddr_member *m = &sm->shared.sb.member[member];
	const struct ddr_sm_errors *e = &sm->own.errors[member];

	*read = sum(m->err_read, e->read);
	*write = sum(m->err_write, e->write);
	*corrected = sum(m->err_corrected, e->corrected);
}

void ddr_sm_count_writes(struct ddr_sm *sm, uint32_t members)
{
	for (uint32_t m = 0; m < sm->shared.sb.members; m++)
		if (members >> m & 1)
			ddr_sm_count_error(sm, m, true);
}

/* ---- jobs ------------------------------------------------------------------- */

/* The error class, for reports only. It does not decide whether the member fails. */
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

void ddr_sm_job_event(struct ddr_sm *sm, const struct ddr_sm_job_error *e, uint32_t member, uint32_t op, const char *text)
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

		if (!(e->members >> m & 1) || is_another_disk(sm, m))
			continue;
		ddr_sm_count_error(sm, m, write);
		ddr_sm_job_event(sm, e, m, !write ? DDR_OP_READ : e->flush >> m & 1 ? DDR_OP_FLUSH : DDR_OP_WRITE,
			  medium ? "a job could not read its blocks" : "a job failed on the member");
	}
}
