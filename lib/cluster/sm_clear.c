// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Clearing of dirty marks: REAP and CLOSED, flushes, batches, the clean stop.
 *
 * Must never: drop a mark but in the order of rule 2. The kernel closed the grant and
 * every member write ended well (CLOSED, status 0); a flush that was issued after that
 * succeeded on all members; the map says, durably, that the region was written (and,
 * while a member is missing, that it was written since); only then the mark leaves the
 * log. A region that is asked for on the way stays marked.
 */
#include "sm_int.h"

/* ---- closing ------------------------------------------------------------------- */

void ddr_sm_closed(struct ddr_sm *sm, const struct ddr_rec *rec)
{
	bool unknown = false;

	for (uint64_t r = rec->start; r < rec->start + rec->count; r++) {
		if (!ddr_bit(sm->granted, r)) {
			unknown = true;
			continue;
		}
		ddr_bit_clear(sm->granted, r);
		sm->n_granted--;
		if (rec->status != 0)
			ddr_sm_need_resync(sm, r);
	}
	if (unknown)
		ddr_sm_bug(sm, "the kernel closed a grant that it does not have");
	if (!sm->reap_seq)
		sm->clear_scan = true;
}

void ddr_sm_reaped(struct ddr_sm *sm, const struct ddr_rec *rec)
{
	if (!sm->reap_seq || rec->seq != sm->reap_seq) {
		ddr_sm_bug(sm, "REAPED without a REAP");
		return;
	}
	sm->reap_seq = 0;
	sm->reap_at = sm->now;
	sm->clear_scan = true;
	/* The first reap only notes what is in use; what two in a row leave is in use. */
	sm->reap_idle = rec->count ? 0 : sm->reap_idle + 1;
	if (sm->reap_idle >= 2) {
		sm->reap_idle = 0;
		sm->reap_wait = true;
	}
}

void ddr_sm_reap_pump(struct ddr_sm *sm)
{
	bool due = sm->ticked && sm->now - sm->reap_at >= sm->idle_ms;

	if (!ddr_sm_running(sm) || !sm->k.enabled || sm->reap_seq || !sm->n_granted)
		return;
	if (!due && !(sm->clean_wanted && !sm->reap_wait))
		return;
	if (!ddr_sm_room(sm, 1))
		return;
	sm->reap_seq = ddr_sm_kseq(sm);
	ddr_sm_rec(sm, DDR_U_REAP, sm->reap_seq, 0, DDR_SM_REAP_MAX);
}

/* ---- flushes ------------------------------------------------------------------- */

uint64_t ddr_sm_flush_ticket(struct ddr_sm *sm)
{
	sm->flush_wanted = sm->flush_issued + 1;
	sm->again = true;
	return sm->flush_wanted;
}

static void flush_complete(struct ddr_sm *sm)
{
	sm->flush_io = 0;
	sm->flush_held = false;
	sm->flushed = sm->flush_issued;
	sm->again = true;
}

void ddr_sm_flush_done(struct ddr_sm *sm, const struct ddr_input *in)
{
	if (!sm->flush_io || sm->flush_held || in->io != sm->flush_io) {
		ddr_sm_bug(sm, "the end of a flush that is not out");
		return;
	}
	sm->flush_failed = in->failed_members & ddr_sm_written(sm);
	ddr_sm_count_writes(sm, sm->flush_failed);
	if (sm->flush_failed) {
		sm->flush_held = true;
		ddr_sm_report(sm, sm->flush_failed, true);
	} else {
		flush_complete(sm);
	}
}

void ddr_sm_flush_pump(struct ddr_sm *sm)
{
	struct ddr_output *out;

	if (!ddr_sm_running(sm))
		return;
	if (sm->flush_held && ddr_sm_agreed_out(sm, sm->flush_failed))
		flush_complete(sm);
	if (sm->flush_io || sm->flush_wanted <= sm->flush_issued || !ddr_sm_room(sm, 1))
		return;
	sm->flush_issued++;
	sm->flush_io = ddr_sm_io(sm, 0);
	out = ddr_sm_out(sm, DDR_OUT_FLUSH);
	out->io = sm->flush_io;
	out->members = ddr_sm_written(sm);
	sm->flushes++;
}

/* ---- batches ------------------------------------------------------------------- */

static void batch_begin(struct ddr_sm *sm)
{
	uint64_t any = 0;

	sm->clear_scan = false;
	for (uint64_t w = 0; w < sm->words; w++) {
		sm->clr[w] = sm->mark[w] & ~(sm->granted[w] | sm->resync[w] | sm->want[w] | sm->work[w] | sm->look[w]);
		any |= sm->clr[w];
	}
	if (!any)
		return;
	sm->batch = DDR_B_FLUSH;
	sm->batch_flush = ddr_sm_flush_ticket(sm);
}

/* Puts regions into the next MAP_SET. Returns true once the map is right for all of the batch. */
static bool batch_map(struct ddr_sm *sm)
{
	uint32_t op = ddr_sm_degraded(sm) ? DDR_MAP_OP_DEGRADED : DDR_MAP_OP_WRITTEN;

	while (sm->batch_at < sm->regions) {
		uint64_t r = sm->batch_at;

		if (r % 64 == 0 && !sm->clr[r / 64]) {
			sm->batch_at += 64;
			continue;
		}
		if (ddr_bit(sm->clr, r) && !ddr_sm_map_holds(sm, r, op)) {
			if (!ddr_sm_map_want(sm, r, op))
				return false;
			sm->batch_mapping = true;
		}
		sm->batch_at++;
	}
	return !sm->batch_mapping;
}

static void batch_clear(struct ddr_sm *sm)
{
	for (uint64_t w = 0; w < sm->words; w++)
		while (sm->clr[w]) {
			uint64_t r = w * 64 + (uint64_t)__builtin_ctzll(sm->clr[w]);

			ddr_bit_clear(sm->clr, r);
			ddr_sm_unmark(sm, r);
		}
	sm->batch = DDR_B_IDLE;
	sm->sync_scan = true;
}

void ddr_sm_batch_mapped(struct ddr_sm *sm)
{
	sm->batch_mapping = false;
}

/* A member went: what was mapped for a whole array must be mapped for a degraded one. */
void ddr_sm_batch_members(struct ddr_sm *sm)
{
	sm->batch_at = 0;
}

/*
 * A member of which somebody knows that it failed may have dropped what was in its cache, though our flush of it ended well. So nothing is cleared until it is
 * out, and then what it lacks is noted.
 */
static bool may_clear(const struct ddr_sm *sm)
{
	return sm->t.state == DDR_T_IDLE && ddr_sm_members_settled(sm) && !sm->t.report_hard;
}

void ddr_sm_batch_pump(struct ddr_sm *sm)
{
	if (!ddr_sm_running(sm) || !may_clear(sm))
		return;
	if (sm->batch == DDR_B_IDLE && sm->clear_scan)
		batch_begin(sm);
	if (sm->batch == DDR_B_FLUSH && sm->flushed >= sm->batch_flush) {
		sm->batch = DDR_B_MAP;
		sm->batch_at = 0;
	}
	if (sm->batch == DDR_B_MAP && batch_map(sm))
		batch_clear(sm);
}

/* ---- clean stop ---------------------------------------------------------------- */

uint64_t ddr_sm_marks(const struct ddr_sm *sm)
{
	uint64_t n = 0;

	for (uint64_t w = 0; w < sm->words; w++)
		n += (uint64_t)__builtin_popcountll(sm->mark[w]);
	return n;
}

/* Our slot may have marks of an earlier start of this node, until we have read it. */
bool ddr_sm_marks_known(const struct ddr_sm *sm)
{
	if (!sm->c.on || sm->planned || sm->sb.parity == 0)
		return true;
	return sm->start == DDR_S_OFF && sm->c.synced && ddr_sm_slot_of(sm, sm->node) == DDR_SM_NO_SLOT;
}

bool ddr_sm_at_rest(const struct ddr_sm *sm)
{
	return !sm->n_granted && !sm->n_want && ddr_sm_works_idle(sm) && ddr_sm_fixes_idle(sm) && ddr_sm_scans_idle(sm) && ddr_sm_ranges_used(sm) == 0 &&
	       !sm->reap_seq && sm->batch == DDR_B_IDLE && !sm->clear_scan && ddr_sm_log_idle(sm) && ddr_sm_map_idle(sm) &&
	       sm->t.state == DDR_T_IDLE && (sm->c.on || !sm->c.rec);	/* the slots of an array that was adopted would keep the next start waiting for the word again */
}

void ddr_sm_clean_pump(struct ddr_sm *sm)
{
	if (!sm->clean_wanted || !ddr_sm_room(sm, 1))
		return;
	if (!sm->quorate && !sm->failed) {
		sm->clean_wanted = sm->stopping = false;
		ddr_sm_event(sm, DDR_EV_CLEAN_REFUSED, "nothing can be made clean without quorum")->a = EAGAIN;
		return;
	}
	if (ddr_sm_running(sm) && !ddr_sm_at_rest(sm))
		return;
	sm->clean_wanted = false;
	ddr_sm_event(sm, DDR_EV_CLEAN, NULL)->a = ddr_sm_marks_known(sm) ? ddr_sm_marks(sm) : UINT64_MAX;
}
