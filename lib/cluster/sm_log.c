// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The writes of our slot's dirty log: group commit, and the handling of failed writes.
 *
 * Must never: have two writes of one block in flight; call a mark durable that is not on all members in sync (rule 1).
 */
#include "sm_int.h"

static void log_complete(struct ddr_sm *sm, struct ddr_sm_log *b, enum ddr_write_event event)
{
	ddr_log_on(sm, b, event);
	b->dur_ours = b->fly_ours;
	if (b->fly_renew)
		b->dirty |= --b->renew > 0;
	b->fly_renew = false;
	b->ready = true;
	memcpy(ddr_sm_block_words(sm, sm->own.dur, b), ddr_sm_block_words(sm, sm->own.fly, b), DDR_WORDS_LOG * sizeof(uint64_t));
	sm->again = true;
	if (!b->no_space)
		return;
	b->no_space = false;
	for (uint32_t i = 0; i < sm->own.n_log; i++)
		if (sm->own.log[i].no_space)
			return;
	ddr_sm_space_done(sm, DDR_SPACE_LOG);
}

/*
 * A member has no space for the block: this write does not count, and is repeated, at the same one of the two places, since the other
 * place may hold the only copy that this member has.
 */
static void log_again(struct ddr_sm *sm, struct ddr_sm_log *b, uint32_t members)
{
	ddr_log_on(sm, b, DDR_WE_NO_SPACE);
	b->dirty = b->no_space = true;
	b->fly_renew = false;
	b->seq++;
	ddr_sm_space_none(sm, DDR_SPACE_LOG, members);
}

void ddr_sm_log_done(struct ddr_sm *sm, const struct ddr_input *in)
{
	uint32_t i = ddr_sm_io_index(in->io);
	struct ddr_sm_log *b = i < sm->own.n_log ? &sm->own.log[i] : NULL;
	uint32_t full;

	if (!b || b->state != DDR_W_FLYING || b->io != in->io) {
		ddr_sm_bug(sm, "a log write ended that was never started");
		return;
	}
	full = in->failed_members & in->no_space & ddr_sm_written(sm);
	b->failed = in->failed_members & ddr_sm_written(sm) & ~full;
	ddr_sm_count_writes(sm, b->failed);
	if (b->failed)
		ddr_sm_report(sm, b->failed, true);
	if (full)
		log_again(sm, b, full);
	else if (b->failed)
		ddr_log_on(sm, b, DDR_WE_MEMBER_FAILED);
	else
		log_complete(sm, b, DDR_WE_DONE);
}

/* The regions of @rep that the block can list: it has room for some. The marks of the others count as those of writes. */
static void repairs_named(const uint64_t *rep, uint64_t *named)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < DDR_WORDS_LOG; i++) {
		named[i] = 0;
		for (uint64_t left = rep[i]; left && n < DDR_LOG_REPAIRS; left &= left - 1, n++)
			named[i] |= left & -left;
	}
}

static void log_write(struct ddr_sm *sm, struct ddr_sm_log *b)
{
	uint64_t *mark = ddr_sm_block_words(sm, sm->own.mark, b), *fly = ddr_sm_block_words(sm, sm->own.fly, b);
	uint64_t *dur = ddr_sm_block_words(sm, sm->own.dur, b), *rep = ddr_sm_block_words(sm, sm->own.rep, b), *rep_fly = ddr_sm_block_words(sm, sm->own.rep_fly, b);
	struct ddr_output *out = ddr_sm_out(sm, DDR_OUT_LOG_WRITE);

	for (uint32_t i = 0; i < DDR_WORDS_LOG; i++) {
		fly[i] = mark[i];
		dur[i] &= mark[i] & ~(rep_fly[i] & ~rep[i]);	/* until this write has ended, a copy may list them */
	}
	repairs_named(rep, rep_fly);
	ddr_log_on(sm, b, DDR_WE_BEGUN);
	b->dirty = false;
	b->fly_renew = b->renew > 0;
	b->fly_ours = !ddr_any_of_both(mark, ddr_sm_block_words(sm, sm->own.resync, b));
	b->dur_ours |= b->fly_ours;
	b->seq++;
	b->io = ddr_sm_io(sm, (uint32_t)(b - sm->own.log));
	out->io = b->io;
	out->index = (uint32_t)(b - sm->own.log);
	out->members = ddr_sm_written(sm);
	sm->own.log_writes++;
}

/*
 * The log is durable without these members: the superblocks list them as failed or missing, and no node of a cluster reads them any
 * more. A single node does not wait for its kernel's I/O to them: the kernel is told before any grant, and I/O on such a disk may
 * hang for long.
 */
static bool out_for_the_log(const struct ddr_sm *sm, uint32_t members)
{
	return !((ddr_sm_written(sm) | sm->shared.change.leaving | ddr_sm_going(sm)) & members);
}

void ddr_sm_log_pump(struct ddr_sm *sm)
{
	if (!ddr_sm_logs(sm))
		return;
	for (struct ddr_sm_log *b = sm->own.log; b < sm->own.log + sm->own.n_log; b++) {
		if (b->state == DDR_W_HELD && out_for_the_log(sm, b->failed))
			log_complete(sm, b, DDR_WE_OUT);
		if (b->want && b->dur_ours && b->state == DDR_W_IDLE &&
		    ddr_any_of_both(ddr_sm_block_words(sm, sm->own.want, b), ddr_sm_block_words(sm, sm->own.resync, b)))
			b->dirty = true;
		if (b->state == DDR_W_IDLE && b->dirty && !(b->no_space && ddr_sm_space_waits(sm, DDR_SPACE_LOG)) && ddr_sm_room(sm, 1))
			log_write(sm, b);
	}
}

bool ddr_sm_log_idle(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->own.n_log; i++)
		if (sm->own.log[i].state != DDR_W_IDLE || sm->own.log[i].dirty)
			return false;
	return true;
}
