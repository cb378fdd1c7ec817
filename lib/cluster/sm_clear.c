// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Clearing of dirty marks: REAP and CLOSED, flushes, batches.
 *
 * Must never: clear a mark in another order than that of rule 2. The kernel closed the grant and
 * every member write succeeded (CLOSED, status 0); a flush that was issued after that
 * succeeded on all members; the map says, durably, that the region was written (and,
 * while a member is missing, that it was written since); only then the mark is removed from the
 * log. A region that is requested meanwhile stays marked.
 *
 * A repair in a region that was interrupted keeps its mark until all members are back. If the region was written meanwhile, its mark would count as one of
 * these writes, and a crash would leave the region suspect. So it goes the same way, and at its end is one of a repair only again.
 */
#include "sm_int.h"

#define REAP_AGAIN_MS	100u	/* clean stop: between two REAPs while grants are in use */

/* ---- closing ---------------------------------------------------------------- */

void ddr_sm_closed(struct ddr_sm *sm, const struct ddr_rec *rec)
{
	bool unknown = false;

	for (uint64_t r = rec->start; r < rec->start + rec->count; r++) {
		if (!ddr_bit(sm->own.granted, r)) {
			unknown = true;
			continue;
		}
		ddr_bit_clear(sm->own.granted, r);
		sm->own.n_granted--;
		if (rec->status != 0)
			ddr_sm_need_resync(sm, r);
	}
	if (unknown)
		ddr_sm_bug(sm, "the kernel returned a grant that it does not hold");
	if (!sm->kernel.reap_seq)
		sm->own.clear_scan = true;
}

void ddr_sm_reaped(struct ddr_sm *sm, const struct ddr_rec *rec)
{
	if (!sm->kernel.reap_seq || rec->seq != sm->kernel.reap_seq) {
		ddr_sm_bug(sm, "the kernel answered REAPED, but no REAP was sent");
		return;
	}
	sm->kernel.reap_seq = 0;
	sm->own.reap_at = sm->now;
	sm->own.clear_scan = true;
	/* The first reap only notes what is in use; what two in a row leave is in use. */
	sm->own.reap_idle = rec->count ? 0 : sm->own.reap_idle + 1;
	if (sm->own.reap_idle >= 2) {
		sm->own.reap_idle = 0;
		sm->own.reap_again = sm->now + REAP_AGAIN_MS;
	}
}

void ddr_sm_reap_pump(struct ddr_sm *sm)
{
	bool due;

	if (!ddr_sm_running(sm) || !sm->kernel.enabled || sm->kernel.reap_seq || !sm->own.n_granted)
		return;
	due = sm->ticked && ddr_sm_time(sm, sm->own.reap_at + sm->own.idle_ms);
	if (!due && !(sm->own.clean_wanted && ddr_sm_time(sm, sm->own.reap_again)))
		return;
	if (!ddr_sm_room(sm, 1))
		return;
	sm->kernel.reap_seq = ddr_sm_kseq(sm);
	ddr_sm_rec(sm, DDR_U_REAP, sm->kernel.reap_seq, 0, DDR_SM_REAP_MAX);
}

/* ---- flushes ---------------------------------------------------------------- */

uint64_t ddr_sm_flush_ticket(struct ddr_sm *sm)
{
	sm->own.flush_wanted = sm->own.flush_issued + 1;
	sm->again = true;
	return sm->own.flush_wanted;
}

static void flush_complete(struct ddr_sm *sm)
{
	sm->own.flush_io = 0;
	sm->own.flush_held = false;
	sm->own.flushed = sm->own.flush_issued;
	sm->again = true;
}

void ddr_sm_flush_done(struct ddr_sm *sm, const struct ddr_input *in)
{
	if (!sm->own.flush_io || sm->own.flush_held || in->io != sm->own.flush_io) {
		ddr_sm_bug(sm, "a flush ended that was never started");
		return;
	}
	sm->own.flush_failed = in->failed_members & ddr_sm_written(sm);
	ddr_sm_count_writes(sm, sm->own.flush_failed);
	if (sm->own.flush_failed) {
		sm->own.flush_held = true;
		ddr_sm_report(sm, sm->own.flush_failed, true);
	} else {
		flush_complete(sm);
	}
}

void ddr_sm_flush_pump(struct ddr_sm *sm)
{
	struct ddr_output *out;

	if (!ddr_sm_running(sm))
		return;
	if (sm->own.flush_held && ddr_sm_agreed_out(sm, sm->own.flush_failed))
		flush_complete(sm);
	if (sm->own.flush_io || sm->own.flush_wanted <= sm->own.flush_issued || !ddr_sm_room(sm, 1))
		return;
	sm->own.flush_issued++;
	sm->own.flush_io = ddr_sm_io(sm, 0);
	out = ddr_sm_out(sm, DDR_OUT_FLUSH);
	out->io = sm->own.flush_io;
	out->members = ddr_sm_written(sm);
	sm->own.flushes++;
}

/* ---- batches ---------------------------------------------------------------- */

/* Regions whose marks stand for no write any more, and for more than what has to wait. */
static uint64_t to_clear(const struct ddr_sm *sm, uint64_t w)
{
	uint64_t waits = sm->own.look[w] & (ddr_sm_degraded(sm) ? sm->own.rep[w] : UINT64_MAX);

	return sm->own.mark[w] & ~(sm->own.granted[w] | sm->own.resync[w] | sm->own.want[w] | sm->own.work[w] | waits);
}

static void batch_begin(struct ddr_sm *sm)
{
	uint64_t any = 0;

	sm->own.clear_scan = false;
	for (uint64_t w = 0; w < sm->own.words; w++) {
		sm->own.clr[w] = to_clear(sm, w);
		any |= sm->own.clr[w];
	}
	if (!any)
		return;
	sm->own.batch = DDR_B_FLUSH;
	sm->own.batch_flush = ddr_sm_flush_ticket(sm);
}

/* Puts regions into the next MAP_SET. Returns true once the map is correct for the whole batch. */
static bool batch_map(struct ddr_sm *sm)
{
	uint32_t op = ddr_sm_degraded(sm) ? DDR_MAP_OP_DEGRADED : DDR_MAP_OP_WRITTEN;

	while (sm->own.batch_at < sm->shared.regions) {
		uint64_t r = sm->own.batch_at;

		if (r % 64 == 0 && !sm->own.clr[r / 64]) {
			sm->own.batch_at += 64;
			continue;
		}
		if (ddr_bit(sm->own.clr, r) && !ddr_sm_map_holds(sm, r, op)) {
			if (!ddr_sm_map_want(sm, r, op))
				return false;
			sm->own.batch_mapping = true;
		}
		sm->own.batch_at++;
	}
	return !sm->own.batch_mapping;
}

static void batch_clear(struct ddr_sm *sm)
{
	for (uint64_t w = 0; w < sm->own.words; w++)
		while (sm->own.clr[w]) {
			uint64_t r = w * 64 + (uint64_t)__builtin_ctzll(sm->own.clr[w]);

			ddr_bit_clear(sm->own.clr, r);
			(ddr_bit(sm->own.look, r) ? ddr_sm_mark_only_repair : ddr_sm_unmark)(sm, r);
		}
	sm->own.batch = DDR_B_IDLE;
	sm->own.sync_scan = true;
	sm->again = true;	/* the next batch may begin, even if nothing was left of this one */
}

void ddr_sm_batch_mapped(struct ddr_sm *sm)
{
	sm->own.batch_mapping = false;
}

/* A member left: regions that were mapped for a complete array must be mapped for a degraded one. */
void ddr_sm_batch_members(struct ddr_sm *sm)
{
	sm->own.batch_at = 0;
	sm->own.clear_scan = true;	/* repairs wait from now on */
}

/*
 * A member that a node knows to have failed may have dropped its cache, although our flush of it succeeded. So nothing is cleared until it is
 * out, and then the map records what it lacks.
 */
static bool may_clear(const struct ddr_sm *sm)
{
	return ddr_sm_change_idle(sm) && ddr_sm_members_settled(sm) && !sm->own.t.report_hard;
}

void ddr_sm_batch_pump(struct ddr_sm *sm)
{
	if (!ddr_sm_running(sm) || !may_clear(sm))
		return;
	if (sm->own.batch == DDR_B_IDLE && sm->own.clear_scan)
		batch_begin(sm);
	if (sm->own.batch == DDR_B_FLUSH && sm->own.flushed >= sm->own.batch_flush) {
		sm->own.batch = DDR_B_MAP;
		sm->own.batch_at = 0;
	}
	if (sm->own.batch == DDR_B_MAP && batch_map(sm))
		batch_clear(sm);
}
