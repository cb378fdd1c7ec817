// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Consistency of the state machine with itself, for tests: O(regions), no side effects.
 *
 * Checks what must hold between any two steps. The code relies on each of these conditions, so a violation is a bug even if no safety
 * rule was broken yet.
 */
#include "sm_int.h"

/* Without an instruction for it that is a function, and most words are 0. */
static uint64_t bits(uint64_t word)
{
	return word ? (uint64_t)__builtin_popcountll(word) : 0;
}

static const char *check_counts(const struct ddr_sm *sm)
{
	uint64_t granted = 0, want = 0, resync = 0, look = 0, mark = 0, unfit = 0, clean, needs_sync, suspect, block_want = 0;

	for (uint64_t w = 0; w < sm->own.words; w++) {
		granted += bits(sm->own.granted[w]);
		want += bits(sm->own.want[w]);
		resync += bits(sm->own.resync[w]);
		look += bits(sm->own.look[w]);
		mark += bits(sm->own.mark[w]);
		unfit += bits(sm->own.rb.unfit[w]);
	}
	for (uint32_t i = 0; i < sm->own.n_log; i++)
		block_want += sm->own.log[i].want;
	ddr_shared_map_count(&sm->shared, &clean, &needs_sync, &suspect);
	if (granted != sm->own.n_granted || want != sm->own.n_want || block_want != want || resync != sm->own.n_resync || look != sm->own.n_look || unfit != sm->own.rb.n_unfit ||
	    (sm->own.planned && mark != sm->own.n_mark))
		return "a counter of regions does not match the regions";
	if (sm->own.planned && (clean != sm->shared.n_clean || needs_sync != sm->shared.n_needs_sync || suspect != sm->shared.n_suspect))
		return "a counter of the region map does not match the map";
	return NULL;
}

static const char *check_regions(const struct ddr_sm *sm)
{
	if (!sm->own.planned || sm->shared.sb.parity == 0)
		return NULL;
	for (uint64_t w = 0; w < sm->own.words; w++) {
		uint64_t mark = sm->own.mark[w];

		if (sm->own.granted[w] & ~mark)
			return "a region is granted but not marked dirty";
		if (sm->own.resync[w] & ~mark)
			return "a region is queued for resync but not marked dirty";
		if (sm->own.work[w] & ~mark)
			return "a job works on a region that is not marked dirty";
		if (sm->own.want[w] & ~mark)
			return "a region was requested for a write but is not marked dirty";
		if (sm->own.want[w] & sm->own.granted[w])
			return "a region is both granted and still requested";
		if (sm->own.rep[w] & (~mark | sm->own.granted[w] | sm->own.resync[w] | sm->own.want[w]))
			return "a dirty mark counts as a repair's alone, but stands for more";
		if (sm->own.look[w] & (~mark | sm->own.resync[w]))
			return "a region is queued for a check, but is being resynced or is not marked dirty";
		if (sm->own.clr[w] & (~mark | sm->own.granted[w] | sm->own.resync[w] | sm->own.want[w] | sm->own.work[w] | (sm->own.look[w] & sm->own.rep[w])))
			return "a region is being cleared that must stay marked dirty";
		if (sm->own.batch == DDR_B_IDLE && sm->own.clr[w])
			return "a region belongs to a batch that does not exist";
		if (sm->own.dur[w] & ~sm->own.fly[w])
			return "a dirty mark counts as durable but was not written";
	}
	return NULL;
}

static const char *check_blocks(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->own.n_log; i++) {
		const struct ddr_sm_log *b = &sm->own.log[i];
		size_t at = (size_t)i * DDR_WORDS_LOG, bytes = DDR_WORDS_LOG * sizeof(uint64_t);

		if (sm->own.planned && b->state == DDR_W_IDLE && !b->dirty && memcmp(sm->own.fly + at, sm->own.mark + at, bytes))
			return "a log block differs from its copy on disk, but no write of it is due";
		for (uint32_t k = 0; k < DDR_WORDS_LOG; k++)
			if (b->state == DDR_W_IDLE && !b->dirty && (sm->own.rep_fly[at + k] & ~sm->own.rep[at + k]))
				return "a log block lists a region as a repair's alone, but its mark stands for more";
		if (b->no_space && b->state == DDR_W_IDLE && !b->dirty)
			return "a log block whose write failed for lack of space is not due to be written again";
		if (b->state == DDR_W_IDLE && !b->no_space && memcmp(sm->own.fly + at, sm->own.dur + at, bytes))
			return "a log write ended without becoming durable";
	}
	for (uint32_t i = 0; i < sm->shared.n_map; i++)
		if (sm->shared.version[i].dur > sm->own.mapb[i].fly || sm->own.mapb[i].fly > sm->shared.version[i].mem)
			return "the versions of a region map block are out of order";
	if (sm->own.mq.n > DDR_MAP_RUNS || (sm->own.mq.state != DDR_MQ_FREE && !sm->own.mq.n))
		return "a change of the region map in flight is malformed";
	return NULL;
}

static const char *check_range(const struct ddr_sm *sm, const struct ddr_sm_range *r)
{
	bool in_force = false;

	for (uint32_t i = 0; i < DDR_SM_EX; i++)
		in_force |= sm->shared.ex[i].used && sm->shared.ex[i].node == sm->node && sm->shared.ex[i].id == r->id;
	if (in_force != (r->state >= DDR_R_ACKS))
		return "a range of this node does not match the ranges in force";
	if (r->kind == DDR_RK_WORK && r->state < DDR_R_RELEASE && sm->own.wk[r->owner].state != DDR_WK_RUN)
		return "a range belongs to a job that does not run";
	return NULL;
}

static const char *check_ranges(const struct ddr_sm *sm)
{
	uint32_t out[DDR_SM_WORKS] = { 0 };
	const char *why;

	for (uint32_t i = 0; i < DDR_SM_EX; i++)
		for (uint32_t j = 0; j < i && sm->shared.ex[i].used; j++)
			if (sm->shared.ex[j].used && sm->shared.ex[i].start < sm->shared.ex[j].start + sm->shared.ex[j].count &&
			    sm->shared.ex[j].start < sm->shared.ex[i].start + sm->shared.ex[i].count)
				return "two exclusive ranges overlap";
	for (const struct ddr_sm_range *r = sm->own.range; r < sm->own.range + DDR_SM_RANGES; r++) {
		if (r->state == DDR_R_FREE)
			continue;
		why = check_range(sm, r);
		if (why)
			return why;
		out[r->owner % DDR_SM_WORKS] += r->kind == DDR_RK_WORK && r->state < DDR_R_RELEASE;
	}
	for (uint32_t i = 0; i < DDR_SM_WORKS; i++) {
		const struct ddr_sm_work *w = &sm->own.wk[i];

		if (w->state != DDR_WK_FREE && (w->out != out[i] || !ddr_bit(sm->own.work, w->region)))
			return "a job does not know its ranges";
		if (w->state != DDR_WK_FREE && w->crash != (i < DDR_SM_PARALLEL))
			return "a job holds a position that does not fit its kind";
		for (uint32_t j = 0; j < i && w->state != DDR_WK_FREE; j++)
			if (sm->own.wk[j].state != DDR_WK_FREE && sm->own.wk[j].region == w->region)
				return "two jobs work on the same region";
	}
	return NULL;
}

static const char *check_members(const struct ddr_sm *sm)
{
	const struct ddr_sm_change *c = &sm->shared.change;
	const struct ddr_sm_trans *t = &sm->own.t;
	uint32_t n = 0;

	for (uint32_t i = 0; i < DDR_SM_ERRORS; i++)
		n += sm->kernel.err[i].used;
	if (n != sm->kernel.n_err)
		return "the count of waiting errors is wrong";
	if (ddr_sm_change_idle(sm) && (t->faulty | t->missing | t->io))
		return "a step belongs to a change of the members that is not under way";
	if (sm->own.t.state != DDR_T_IDLE && !(ddr_sm_going(sm) || c->slots || c->mark || c->set.op))
		return "superblocks are being written for a change that is no longer wanted";
	if (sm->shared.change.leaving & ddr_sm_written(sm))
		return "a member leaves that the superblocks still list in the array";
	if ((uint32_t)__builtin_popcount(ddr_sm_in_sync(sm)) < 1u << sm->shared.sb.order)
		return "fewer members are in sync than hold the data";
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (sm->shared.nodes[i].excluded && (!sm->shared.nodes[i].lost || sm->shared.nodes[i].started))
			return "a node was excluded by a verdict, and does not count as lost";
	if (sm->shared.regions != ddr_super_regions(&sm->shared.sb))
		return "the number of regions differs from the superblock";
	if (ddr_super_check(&sm->shared.sb).code != DDR_FE_OK)
		return "the superblock is not valid";
	return NULL;
}

bool ddr_sm_same(struct ddr_sm *a, const struct ddr_sm *b, size_t size)
{
	a->now = b->now;
	a->wall = b->wall;
	a->due = b->due;
	a->ticked = b->ticked;
	return memcmp(a, b, size) == 0;
}

const char *ddr_sm_check(const struct ddr_sm *sm)
{
	static const char *(*const checks[])(const struct ddr_sm *) = {
		check_counts, check_regions, check_blocks, check_ranges, check_members,
	};

	if (sm->bug)
		return "a step produced more outputs, or a longer message, than fits";
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		const char *why = checks[i](sm);

		if (why)
			return why;
	}
	return NULL;
}
