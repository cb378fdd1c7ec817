// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Model of the kernel target's channel: what it reports to the daemon, also at a bind, and how it handles the daemon's records; as
 * doc/kernel-interface.md says, and no more. Records that the kernel would refuse end the run.
 */
#include <string.h>

#include "kernel.h"

/* ---- to the daemon ------------------------------------------------------------- */

void kernel_tell(struct sim *s, struct kernel *k, const struct ddr_rec *rec)
{
	char buf[256];

	if (!k->attached)
		return;
	if (k->n_queue == SIM_MAX_QUEUE)
		sim_violation(s, "the channel holds more than %d records", SIM_MAX_QUEUE);
	k->queue[k->n_queue++] = *rec;
	sim_trace(s, "kernel> %s", rig_record(rec, buf, sizeof(buf)));
}

void kernel_tell_regions(struct sim *s, struct kernel *k, uint32_t type, uint64_t start, uint64_t count, int status)
{
	struct ddr_rec rec = { .type = type, .start = start, .count = count, .status = status, .seq = ++k->seq };

	kernel_tell(s, k, &rec);
}

void kernel_tell_mismatch(struct sim *s, struct kernel *k, const struct op *op)
{
	struct ddr_rec rec = { .type = DDR_K_MISMATCH, .seq = op->seq, .start = op->start, .count = op->count,
			       .member = DDR_NO_MEMBER };

	kernel_tell(s, k, &rec);
}

static uint32_t kind_of(const struct op *op)
{
	return op->kind == OP_READ ? DDR_OP_READ : op->kind == OP_FLUSH ? DDR_OP_FLUSH : DDR_OP_WRITE;
}

struct kerror *kernel_error_of(struct kernel *k, const struct op *op, uint32_t m)
{
	return &k->errors[(m * SIM_CLASSES + op->class[m]) * (DDR_OP_ZEROES + 1) + kind_of(op)];
}

void kernel_report(struct sim *s, struct kernel *k, const struct op *op, uint32_t m)
{
	struct kerror *e = kernel_error_of(k, op, m);

	if (e->open)
		return;
	s->stats[STAT_ERRORS]++;
	e->open = true;
	e->rec = (struct ddr_rec){ .type = DDR_K_ERROR, .seq = ++k->seq, .start = op->start, .count = op->count,
				   .status = (int)op->class[m], .member = m };
	if (op->kind == OP_FLUSH) {
		e->rec.start = 0;
		e->rec.count = k->blocks;
	}
	e->rec.arg[0] = kind_of(op);
	kernel_tell(s, k, &e->rec);
}

void kernel_forget_errors(struct kernel *k, uint32_t place)
{
	const uint32_t each = SIM_CLASSES * (DDR_OP_ZEROES + 1);

	for (struct kerror *e = k->errors + place * each; e < k->errors + (place + 1) * each; e++)
		e->open = false;
}

void kernel_new(struct sim *s, struct kernel *k)
{
	memset(k, 0, sizeof(*k));
	k->there = true;
	k->boot = s->cluster ? kernel_node(s, k)->boot : s->boot;
	k->cookie = ++s->cookie;
	k->blocks = s->blocks;
	memcpy(k->disk, s->at, sizeof(s->at));
	k->disk[DDR_UAPI_SHADOW] = SIM_NOBODY;
}

void kernel_bind(struct sim *s, struct kernel *k)
{
	uint64_t held = 0;

	kernel_judge_silence(s, k);
	k->attached = true;
	k->serves = k->lapsed = false;
	k->heard = s->now;
	k->n_queue = 0;
	for (struct kex *x = k->ex; x < k->ex + SIM_MAX_EX; x++) {
		x->used &= x->drained;
		x->old = true;
	}
	memset(k->apply, 0, sizeof(k->apply));
	memset(k->asked, 0, sizeof(k->asked));
	for (uint64_t r = 0; r < s->regions; r++)
		if (k->granted[r]) {
			held++;
			kernel_tell_regions(s, k, DDR_K_HELD, r, 1, 0);
		}
	kernel_tell_regions(s, k, DDR_K_HELD_END, 0, held, 0);
	for (struct kerror *e = k->errors; e < k->errors + SIM_ERRORS; e++)
		if (e->open)
			kernel_tell(s, k, &e->rec);
	for (struct op *op = k->op; op < k->op + SIM_MAX_OPS; op++)
		if (op->state == OP_ERROR && op->kind == OP_MISMATCH)
			kernel_tell_mismatch(s, k, op);
}

/* ---- is the daemon alive? ------------------------------------------------------ */

void kernel_judge_silence(struct sim *s, struct kernel *k)
{
	k->lapsed |= k->attached && k->timeout && s->now - k->heard >= k->timeout;
	if (!k->enabled || k->stopped || !k->served_timeout || s->now - k->served < k->served_timeout)
		return;
	sim_trace(s, "kernel: the daemon is silent, %swrites stop", k->stops_reads ? "reads and " : "");
	k->stopped = true;
	k->told_stop = false;
	s->stats[STAT_SILENCES]++;
}

bool kernel_heard(struct sim *s, struct kernel *k)
{
	struct ddr_rec rec = { .type = DDR_K_STOPPED, .member = DDR_NO_MEMBER };
	bool lapsed;

	kernel_judge_silence(s, k);
	lapsed = k->lapsed;
	k->lapsed = false;
	k->heard = s->now;
	if (!k->serves)
		return !lapsed;
	k->served = s->now;
	if (k->stopped && !k->told_stop) {
		k->told_stop = true;
		kernel_tell(s, k, &rec);
	}
	return !lapsed;
}

void kernel_set_timeout(struct kernel *k, uint64_t ms)
{
	k->timeout = ms;
	if (k->serves)
		k->served_timeout = ms;
}

/* ---- records of the daemon ----------------------------------------------------- */

static void reap(struct sim *s, struct kernel *k, const struct ddr_rec *rec)
{
	struct ddr_rec end = { .type = DDR_K_REAPED, .seq = rec->seq };

	for (uint64_t r = 0; r < s->regions; r++) {
		bool waits = false;

		for (uint32_t i = 0; i < SIM_MAX_OPS; i++)
			waits |= k->op[i].state == OP_GRANT && region_of(s, k->op[i].start) == r;
		if (!k->granted[r] || k->flight[r] || waits)
			continue;
		if (k->touched[r]) {
			k->touched[r] = false;
			continue;
		}
		k->granted[r] = false;
		end.count++;
		kernel_tell_regions(s, k, DDR_K_CLOSED, r, 1, k->error[r] ? -5 : 0);
		k->error[r] = false;
	}
	for (uint64_t r = 0; r < s->regions; r++)
		end.start += k->granted[r];
	kernel_tell(s, k, &end);
}

static void drain(struct sim *s, struct kernel *k, const struct ddr_rec *rec)
{
	struct kex *x = k->ex;

	while (x < k->ex + SIM_MAX_EX && x->used)
		x++;
	if (x == k->ex + SIM_MAX_EX || rec->count == 0 || rec->start + rec->count > k->blocks)
		sim_violation(s, "DRAIN that the kernel would refuse");
	*x = (struct kex){ .used = true, .seq = rec->seq, .start = rec->start, .count = rec->count, .order = ++k->order };
}

static void release(struct sim *s, struct kernel *k, const struct ddr_rec *rec)
{
	for (struct kex *x = k->ex; x < k->ex + SIM_MAX_EX; x++)
		if (x->used && !x->old && x->seq == rec->seq) {
			x->used = false;
			return;
		}
	sim_violation(s, "RELEASE of a range that the kernel does not have");
}

static void member(struct sim *s, struct kernel *k, const struct ddr_rec *rec)
{
	struct kapply *a = k->apply;

	if (rec->member >= s->g.roles && rec->member != DDR_UAPI_SHADOW)
		sim_violation(s, "MEMBER that the kernel would refuse");
	if (rec->member == DDR_UAPI_SHADOW && k->disk[DDR_UAPI_SHADOW] == SIM_NOBODY && rec->arg[0] != DDR_KM_OUT && rec->arg[0] != DDR_KM_LEAVING)
		sim_violation(s, "MEMBER of a shadow that the table does not name");
	a += rec->member;
	if (a->used)
		sim_violation(s, "MEMBER before the last one was applied");
	if (rec->arg[0] != DDR_KM_LEAVING || !k->said_out[rec->member] || (rec->member == DDR_UAPI_SHADOW && k->disk[DDR_UAPI_SHADOW] == SIM_NOBODY))
		k->state[rec->member] = (uint32_t)rec->arg[0];
	k->said_out[rec->member] = k->state[rec->member] == DDR_KM_OUT;
	if (rec->start > k->blocks || (rec->start && rec->arg[0] != DDR_KM_REBUILDING))
		sim_violation(s, "MEMBER that the kernel would refuse");
	k->cursor[rec->member] = rec->start;
	*a = (struct kapply){ .used = true, .seq = rec->seq, .order = ++k->order };
}

/* The places that a read of these blocks relies on. */
static uint32_t read_places(const struct sim *s, const struct kernel *k, const struct op *op)
{
	uint32_t mask = 0;

	for (uint32_t p = 0; p < s->g.roles; p++)
		if (k->state[p] == DDR_KM_IN_SYNC || k->state[p] == DDR_KM_LEAVING ||
		    (k->state[p] == DDR_KM_REBUILDING && op->start + op->count <= k->cursor[p]))
			mask |= 1u << p;
	return mask;
}

/* A write that ended with an error left its blocks undefined: a read there may end with an error, too. */
static bool spoiled(const struct sim *s, const struct op *op)
{
	for (uint64_t b = op->start; b < op->start + op->count; b++)
		if (s->truth[b].spoiled)
			return true;
	return false;
}

/* Returns whether there is such a mismatch. */
static bool resolve_mismatch(struct sim *s, struct kernel *k, const struct ddr_rec *rec)
{
	for (struct op *op = k->op; op < k->op + SIM_MAX_OPS; op++) {
		if (op->state != OP_ERROR || op->kind != OP_MISMATCH || op->seq != rec->seq)
			continue;
		/* where the parity is correct, the answer must be to return the data, whoever asked */
		if (rec->arg[0] == DDR_RES_FAIL && !s->node[0].failed &&
		    check_parity(s, op->start, op->count, kernel_members(s, k, read_places(s, k, op))))
			sim_violation(s, "a mismatch that is none is answered with an error");
		if (rec->arg[0] == DDR_RES_FAIL && s->cluster && !spoiled(s, op))
			sim_violation(s, "rule 9: the parity of blocks %llu+%llu was not resynced after a death, and a read there ends with an error",
				      (unsigned long long)op->start, (unsigned long long)op->count);
		op->state = OP_FREE;
		return true;
	}
	return false;
}

static void resolve(struct sim *s, struct kernel *k, const struct ddr_rec *rec)
{
	for (struct kerror *e = k->errors; e < k->errors + SIM_ERRORS; e++) {
		if (!e->open || e->rec.seq != rec->seq)
			continue;
		e->open = false;
		e->answer = (uint32_t)rec->arg[0];
		for (struct op *op = k->op; op < k->op + SIM_MAX_OPS; op++)
			if (op->state == OP_ERROR && op->kind != OP_MISMATCH && kernel_error_of(k, op, op->blame) == e)
				kernel_op_resume(s, k, op, e->answer);
		return;
	}
	if (!resolve_mismatch(s, k, rec))
		sim_violation(s, "RESOLVE of an error that the kernel does not have");
}

static uint64_t regions(const struct sim *s, const struct kernel *k)
{
	return (k->blocks + s->geo.region_blocks - 1) / s->geo.region_blocks;
}

static void grant(struct sim *s, struct kernel *k, const struct ddr_rec *rec)
{
	if (rec->count == 0 || rec->start + rec->count > regions(s, k))
		sim_violation(s, "GRANT of regions that do not exist");
	for (uint64_t r = rec->start; r < rec->start + rec->count; r++) {
		k->granted[r] = true;
		k->asked[r] = false;
	}
}

static void refuse(struct sim *s, struct kernel *k, const struct ddr_rec *rec)
{
	for (struct op *op = k->op; op < k->op + SIM_MAX_OPS; op++)
		if (op->state == OP_GRANT && region_of(s, op->start) >= rec->start &&
		    region_of(s, op->start) < rec->start + rec->count)
			op->state = OP_FREE;
	for (uint64_t r = rec->start; r < rec->start + rec->count; r++)
		k->asked[r] = false;
}

static void enable(struct sim *s, struct kernel *k, const struct ddr_rec *rec)
{
	k->enabled = k->serves = true;
	k->stopped = false;
	k->stops_reads = rec->flags & DDR_F_READS;
	k->served = s->now;
	k->served_timeout = k->timeout;
	k->unjudged = false;
	for (struct kex *x = k->ex; x < k->ex + SIM_MAX_EX; x++)
		x->used &= !x->old;
}

/* The kernel refuses a record with a field that its type does not have. */
static bool well_formed(const struct ddr_rec *rec)
{
	bool has_seq = rec->type == DDR_U_MEMBER || rec->type == DDR_U_REAP || rec->type == DDR_U_DRAIN ||
		       rec->type == DDR_U_RELEASE || rec->type == DDR_U_RESOLVE;
	bool has_range = rec->type == DDR_U_GRANT || rec->type == DDR_U_REFUSE || rec->type == DDR_U_DRAIN ||
			 rec->type == DDR_U_BITS || rec->type == DDR_U_STATUS;

	return has_seq == (rec->seq != 0) && (has_range || rec->type == DDR_U_MEMBER || rec->start == 0) &&
	       (has_range || rec->type == DDR_U_REAP || rec->count == 0) &&
	       (rec->type == DDR_U_MEMBER || rec->member == DDR_NO_MEMBER);
}

void kernel_record(struct sim *s, struct kernel *k, const struct ddr_rec *rec)
{
	if (!well_formed(rec))
		sim_violation(s, "a record that the kernel would refuse, type %u", rec->type);
	switch (rec->type) {
	case DDR_U_MEMBER: member(s, k, rec); break;
	case DDR_U_ENABLE: enable(s, k, rec); break;
	case DDR_U_GRANT: grant(s, k, rec); break;
	case DDR_U_REFUSE: refuse(s, k, rec); break;
	case DDR_U_REAP: reap(s, k, rec); break;
	case DDR_U_DRAIN: drain(s, k, rec); break;
	case DDR_U_RELEASE: release(s, k, rec); break;
	case DDR_U_RESOLVE: resolve(s, k, rec); break;
	case DDR_U_STATUS:
		if (rec->arg[1] > regions(s, k))
			sim_violation(s, "STATUS that the kernel would refuse");
		break;
	case DDR_U_BITS:
		if (rec->count == 0 || rec->start + rec->count > regions(s, k))
			sim_violation(s, "BITS of regions that do not exist");
		for (uint64_t r = rec->start; r < rec->start + rec->count; r++)
			k->bits[r] = (uint32_t)rec->arg[0];
		break;
	case DDR_U_FREEZE: k->frozen = true; break;
	case DDR_U_THAW: k->frozen = false; break;
	}
	kernel_run(s, k);
}
