// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What is dirty: marks of our slot in memory, regions that must be resynced, and those that must be checked again after a repair.
 *
 * Must never: clear a mark (sm_clear.c does, in the order of rule 2); list a mark that stands for wrong parity as one of a repair
 * only.
 */
#include "sm_int.h"

void ddr_sm_mark(struct ddr_sm *sm, uint64_t region)
{
	if (sm->shared.sb.parity == 0 || (ddr_bit(sm->own.mark, region) && !ddr_bit(sm->own.rep, region)))
		return;
	sm->own.n_mark += !ddr_bit(sm->own.mark, region);
	ddr_bit_set(sm->own.mark, region);
	ddr_bit_clear(sm->own.rep, region);
	ddr_sm_log_of(sm, region)->dirty = true;
	sm->again = true;
}

void ddr_sm_mark_repair(struct ddr_sm *sm, uint64_t region)
{
	if (sm->shared.sb.parity == 0 || ddr_bit(sm->own.mark, region))
		return;
	ddr_sm_mark(sm, region);
	ddr_bit_set(sm->own.rep, region);
}

bool ddr_sm_mark_durable(const struct ddr_sm *sm, uint64_t region)
{
	return ddr_bit(sm->own.mark, region) && ddr_bit(sm->own.dur, region) && (ddr_bit(sm->own.rep, region) || !ddr_bit(sm->own.rep_fly, region));
}

void ddr_sm_unmark(struct ddr_sm *sm, uint64_t region)
{
	sm->own.n_mark -= ddr_bit(sm->own.mark, region);
	ddr_bit_clear(sm->own.mark, region);
	ddr_bit_clear(sm->own.rep, region);
	ddr_sm_log_of(sm, region)->dirty = true;
	sm->again = true;
}

void ddr_sm_look(struct ddr_sm *sm, uint64_t region)
{
	ddr_sm_mark_repair(sm, region);
	ddr_bit_clear(sm->own.clr, region);
	if (sm->shared.sb.parity == 0 || ddr_bit(sm->own.resync, region) || ddr_bit(sm->own.look, region))
		return;
	ddr_bit_set(sm->own.look, region);
	sm->own.n_look++;
	sm->again = true;
}

void ddr_sm_look_drop(struct ddr_sm *sm, uint64_t region)
{
	if (!ddr_bit(sm->own.look, region))
		return;
	ddr_bit_clear(sm->own.look, region);
	ddr_bit_clear(sm->own.clr, region);	/* whatever follows needs its mark */
	sm->own.n_look--;
}

/* Does the block name our kernel, on the disks or soon? */
static bool says_ours(const struct ddr_sm_log *b)
{
	return b->dur_ours || (b->state != DDR_W_IDLE && b->fly_ours);
}

void ddr_sm_need_resync(struct ddr_sm *sm, uint64_t region)
{
	if (sm->shared.sb.parity == 0)
		return;
	ddr_sm_mark(sm, region);
	ddr_sm_look_drop(sm, region);
	ddr_bit_clear(sm->own.clr, region);
	for (uint32_t i = 0; i < DDR_SM_WORKS; i++)
		if (sm->own.wk[i].state != DDR_WK_FREE && sm->own.wk[i].region == region)
			sm->own.wk[i].again = true;
	if (ddr_bit(sm->own.resync, region))
		return;
	ddr_bit_set(sm->own.resync, region);
	/* the mark is no longer for a grant only; our next daemon would not resync what the kernel holds, if its block names the kernel */
	if (ddr_bit(sm->own.granted, region))
		ddr_sm_log_of(sm, region)->dirty |= says_ours(ddr_sm_log_of(sm, region));
	if (sm->own.n_resync++ == 0) {
		sm->own.resync_total = sm->own.resync_done = 0;
		sm->own.resync_regions_done = sm->own.resync_blocks = 0;
		sm->own.resync_told = false;
	}
	sm->own.resync_total += ddr_sm_region_length(sm, region);
	sm->kernel.status = true;
	sm->again = true;
	ddr_sm_bits_changed(sm, region);
}

void ddr_sm_mark_only_repair(struct ddr_sm *sm, uint64_t region)
{
	ddr_bit_set(sm->own.rep, region);
	ddr_sm_log_of(sm, region)->dirty = true;
	sm->again = true;
}

uint64_t ddr_sm_marks(const struct ddr_sm *sm)
{
	uint64_t n = 0;

	if (sm->own.planned)
		return sm->own.n_mark;
	for (uint64_t w = 0; w < sm->own.words; w++)
		n += (uint64_t)__builtin_popcountll(sm->own.mark[w]);
	return n;
}
