// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Grants and the dirty log of our slot: LOCK, marks, group commit, GRANT.
 *
 * Must never: grant a region whose mark is not durable on all members in sync (rule 1);
 * have two writes of one log block out at once; let the log name our kernel as the owner
 * of a mark that stands for wrong parity and not only for a grant.
 *
 * The last point: after a crash of the daemon alone, marks of regions that the kernel
 * declares held need no resync, if the block names this kernel (boot id and cookie). A
 * region that must be resynced may be granted at the same time. So a block that holds
 * such a region is written without an owner (cookie 0), and the next daemon resyncs all
 * of its marks.
 *
 * A mark may also be that of a repair alone (sm_fix.c): nobody wrote in the region, and after a crash it is looked at again instead of
 * resynced, which would make parity fit what was to be put right. The block names such regions. A mark that stands for more
 * does not count as durable before a block has been written that does not name its region.
 */
#include "sm_int.h"

static struct ddr_sm_log *log_of(struct ddr_sm *sm, uint64_t region)
{
	return &sm->own.log[region / DDR_LOG_REGIONS];
}

static uint64_t *block_words(const struct ddr_sm *sm, uint64_t *map, const struct ddr_sm_log *b)
{
	return map + (size_t)(b - sm->own.log) * DDR_WORDS_LOG;
}

static bool any_of_both(const uint64_t *a, const uint64_t *b)
{
	for (uint32_t i = 0; i < DDR_WORDS_LOG; i++)
		if (a[i] & b[i])
			return true;
	return false;
}

static bool any_of(const uint64_t *a)
{
	return any_of_both(a, a);
}

/* ---- marks --------------------------------------------------------------------- */

void ddr_sm_mark(struct ddr_sm *sm, uint64_t region)
{
	if (sm->shared.sb.parity == 0 || (ddr_bit(sm->own.mark, region) && !ddr_bit(sm->own.rep, region)))
		return;
	ddr_bit_set(sm->own.mark, region);
	ddr_bit_clear(sm->own.rep, region);
	log_of(sm, region)->dirty = true;
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
	ddr_bit_clear(sm->own.mark, region);
	ddr_bit_clear(sm->own.rep, region);
	log_of(sm, region)->dirty = true;
	sm->again = true;
}

/* Does the block, as it is on the disks or will be soon, name our kernel? */
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
	/* the mark of a grant stands for more now; our next daemon would not resync what the kernel holds, if its block names the kernel */
	if (ddr_bit(sm->own.granted, region))
		log_of(sm, region)->dirty |= says_ours(log_of(sm, region));
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

/* ---- LOCK ---------------------------------------------------------------------- */

static void want(struct ddr_sm *sm, uint64_t region)
{
	struct ddr_sm_log *b = log_of(sm, region);

	if (!ddr_bit(sm->own.want, region)) {
		ddr_bit_set(sm->own.want, region);
		b->want++;
		sm->own.n_want++;
	}
	b->ready = true;
	if (!sm->own.planned)
		return;
	ddr_bit_clear(sm->own.clr, region);
	ddr_sm_mark(sm, region);
}

static void unwant(struct ddr_sm *sm, uint64_t region)
{
	ddr_bit_clear(sm->own.want, region);
	log_of(sm, region)->want--;
	sm->own.n_want--;
}

/* A granted region is asked for again when two requests overlapped: its GRANT is on the way already. */
void ddr_sm_lock(struct ddr_sm *sm, const struct ddr_rec *rec)
{
	for (uint64_t r = rec->start; r < rec->start + rec->count; r++)
		if (!ddr_bit(sm->own.granted, r))
			want(sm, r);
	if (!sm->own.clean_wanted)
		sm->own.stopping = false;
}

/* ---- GRANT --------------------------------------------------------------------- */

static bool ready(const struct ddr_sm *sm, uint64_t region)
{
	if (sm->shared.sb.parity == 0)
		return true;
	return ddr_sm_mark_durable(sm, region) &&
	       (!ddr_bit(sm->own.resync, region) || !sm->own.log[region / DDR_LOG_REGIONS].dur_ours);
}

/* Answers the run of waiting regions that begins at @r, if it may. Returns the region behind what was looked at. */
static uint64_t answer_run(struct ddr_sm *sm, uint64_t r)
{
	uint64_t start = r;

	for (; r < sm->shared.regions && ddr_bit(sm->own.want, r) && (sm->shared.failed || ready(sm, r)); r++) {
		unwant(sm, r);
		if (sm->shared.failed)
			continue;
		ddr_bit_set(sm->own.granted, r);
		sm->own.n_granted++;
	}
	if (r == start)
		return r + 1;
	if (sm->shared.failed)
		ddr_sm_rec(sm, DDR_U_REFUSE, 0, start, r - start)->status = -EIO;
	else
		ddr_sm_rec(sm, DDR_U_GRANT, 0, start, r - start);
	return r;
}

static bool answer_block(struct ddr_sm *sm, struct ddr_sm_log *b)
{
	uint64_t first = (uint64_t)(b - sm->own.log) * DDR_LOG_REGIONS;
	uint64_t end = first + DDR_LOG_REGIONS < sm->shared.regions ? first + DDR_LOG_REGIONS : sm->shared.regions;
	uint64_t r = first;

	while (r < end && b->want) {
		if (r % 64 == 0 && !sm->own.want[r / 64]) {
			r += 64;
		} else if (!ddr_bit(sm->own.want, r)) {
			r++;
		} else {
			if (!ddr_sm_room(sm, 1))
				return false;
			r = answer_run(sm, r);
		}
	}
	return true;
}

void ddr_sm_grant_pump(struct ddr_sm *sm)
{
	if (!ddr_sm_running(sm) && !(sm->shared.failed && sm->kernel.state == DDR_K_ATTACHED))
		return;
	for (struct ddr_sm_log *b = sm->own.log; b < sm->own.log + sm->own.n_log; b++) {
		if (!b->want || !(b->ready || sm->shared.failed))
			continue;
		if (!answer_block(sm, b))
			return;
		b->ready = false;
	}
}

/* ---- writes of the log --------------------------------------------------------- */

static void log_complete(struct ddr_sm *sm, struct ddr_sm_log *b)
{
	b->state = DDR_W_IDLE;
	b->dur_ours = b->fly_ours;
	b->fly_renew = false;
	b->ready = true;
	memcpy(block_words(sm, sm->own.dur, b), block_words(sm, sm->own.fly, b), DDR_WORDS_LOG * sizeof(uint64_t));
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
 * A member has no space for the block: nothing of this write counts, and it is written again. To the same of the two places, since the other
 * one may be the only copy that this member has.
 */
static void log_again(struct ddr_sm *sm, struct ddr_sm_log *b, uint32_t members)
{
	b->state = DDR_W_IDLE;
	b->dirty = b->no_space = true;
	b->renew |= b->fly_renew;
	b->seq++;
	ddr_sm_space_none(sm, DDR_SPACE_LOG, members);
}

void ddr_sm_log_done(struct ddr_sm *sm, const struct ddr_input *in)
{
	uint32_t i = ddr_sm_io_index(in->io);
	struct ddr_sm_log *b = i < sm->own.n_log ? &sm->own.log[i] : NULL;
	uint32_t full;

	if (ddr_sm_slot_written(sm, in))
		return;
	if (!b || b->state != DDR_W_FLYING || b->io != in->io) {
		ddr_sm_bug(sm, "the end of a log write that is not out");
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
		b->state = DDR_W_HELD;
	else
		log_complete(sm, b);
}

/* What the block names of the regions in @rep: it has room for some. The others' marks count as those of writes. */
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
	uint64_t *mark = block_words(sm, sm->own.mark, b), *fly = block_words(sm, sm->own.fly, b);
	uint64_t *dur = block_words(sm, sm->own.dur, b), *rep = block_words(sm, sm->own.rep, b), *rep_fly = block_words(sm, sm->own.rep_fly, b);
	struct ddr_output *out = ddr_sm_out(sm, DDR_OUT_LOG_WRITE);

	for (uint32_t i = 0; i < DDR_WORDS_LOG; i++) {
		fly[i] = mark[i];
		dur[i] &= mark[i] & ~(rep_fly[i] & ~rep[i]);	/* until this write has ended, a copy may name them */
	}
	repairs_named(rep, rep_fly);
	b->state = DDR_W_FLYING;
	b->dirty = false;
	b->fly_renew = b->renew;
	b->renew = false;
	b->fly_ours = !any_of_both(mark, block_words(sm, sm->own.resync, b));
	b->dur_ours |= b->fly_ours;
	b->seq++;
	b->io = ddr_sm_io(sm, (uint32_t)(b - sm->own.log));
	out->io = b->io;
	out->index = (uint32_t)(b - sm->own.log);
	out->members = ddr_sm_written(sm);
	sm->own.log_writes++;
}

/*
 * The log counts without these members: the superblocks have them out, and none of several nodes reads them any more. A node by itself need
 * not wait for its kernel to be done with them: that is told before any grant, and what hangs on such a disk may hang for long.
 */
static bool out_for_the_log(const struct ddr_sm *sm, uint32_t members)
{
	return !((ddr_sm_written(sm) | sm->shared.change.leaving | ddr_sm_going(sm)) & members);
}

void ddr_sm_log_pump(struct ddr_sm *sm)
{
	if (!ddr_sm_running(sm))
		return;
	for (struct ddr_sm_log *b = sm->own.log; b < sm->own.log + sm->own.n_log; b++) {
		if (b->state == DDR_W_HELD && out_for_the_log(sm, b->failed))
			log_complete(sm, b);
		if (b->want && b->dur_ours && b->state == DDR_W_IDLE &&
		    any_of_both(block_words(sm, sm->own.want, b), block_words(sm, sm->own.resync, b)))
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

/* ---- the plan after a start ---------------------------------------------------- */

uint64_t ddr_sm_seq_behind(uint64_t seq, uint64_t top)
{
	return top > seq ? top + ((top ^ seq) & 1) : seq;
}

/*
 * What could not be read counts as the worst (rule 11). Its sequence must go on behind any
 * that a copy may have which is readable again later: the superblocks were written anew
 * for this start, so their own sequence is higher than at any earlier one.
 */
uint64_t ddr_sm_seq_top(const struct ddr_sm *sm)
{
	uint64_t top = sm->shared.sb.seq << DDR_SM_SEQ_SHIFT;

	for (uint32_t i = 0; i < sm->own.n_log; i++)
		top = sm->own.log[i].seq > top ? sm->own.log[i].seq : top;
	for (uint32_t i = 0; i < sm->shared.n_map; i++)
		top = sm->own.mapb[i].seq > top ? sm->own.mapb[i].seq : top;
	return top;
}

static void plan_unread(struct ddr_sm *sm)
{
	uint64_t top = ddr_sm_seq_top(sm);

	for (uint64_t r = 0; r < sm->shared.regions; r++)
		if (!sm->own.log[r / DDR_LOG_REGIONS].loaded)
			ddr_bit_set(sm->own.mark, r);
	ddr_sm_map_unread(sm);
	/* a copy that nobody could read may be newer than all that were read; the next block goes where the newest is not */
	for (uint32_t i = 0; i < sm->own.n_log; i++)
		sm->own.log[i].seq = sm->own.log[i].loaded ? ddr_sm_seq_behind(sm->own.log[i].seq, top) : top;
}

static bool names_our_kernel(const struct ddr_sm *sm, const struct ddr_sm_log *b)
{
	return b->loaded && b->node == sm->node && b->cookie && b->cookie == sm->kernel.cookie &&
	       memcmp(b->boot_id, sm->kernel.boot_id, sizeof(b->boot_id)) == 0;
}

static void grant_declared(struct ddr_sm *sm, uint64_t region)
{
	if (ddr_bit(sm->own.granted, region))
		return;
	ddr_bit_set(sm->own.granted, region);
	sm->own.n_granted++;
}

/*
 * A grant is given when its mark is durable, and the mark stays until the grant is closed. So what the kernel holds and the slot does not
 * mark, others have taken over: this instance was fenced (by its storage, or it would not live), and its node has heard of it only now.
 */
static bool holds_unmarked(const struct ddr_sm *sm)
{
	for (uint64_t w = 0; w < sm->own.words && sm->shared.sb.parity; w++)
		if (sm->kernel.held[w] & ~sm->own.mark[w])
			return true;
	return false;
}

void ddr_sm_plan(struct ddr_sm *sm)
{
	struct ddr_output *out;

	plan_unread(sm);
	if (holds_unmarked(sm)) {
		ddr_sm_evict(sm, "its kernel holds regions that its slot of the dirty log does not mark any more: others have taken them over, since this "
			     "node was fenced" DDR_SM_START_ANEW "; if only its disks were fenced, reboot it instead");
		return;
	}
	if (sm->shared.sb.parity == 0) {
		memset(sm->own.mark, 0, sm->own.words * sizeof(uint64_t));
		memset(sm->own.rep, 0, sm->own.words * sizeof(uint64_t));
	}
	for (uint32_t i = 0; i < sm->own.n_log; i++)
		sm->own.log[i].dur_ours = names_our_kernel(sm, &sm->own.log[i]);
	for (uint64_t r = 0; r < sm->shared.regions; r++) {
		bool is_held = ddr_bit(sm->kernel.held, r), marked = ddr_bit(sm->own.mark, r);

		if (is_held)
			grant_declared(sm, r);
		if (!is_held && marked && ddr_bit(sm->own.rep, r))
			ddr_sm_look(sm, r);
		else if (is_held ? !marked || !log_of(sm, r)->dur_ours : marked)
			ddr_sm_need_resync(sm, r);
		else if (is_held)
			ddr_sm_mark(sm, r);
	}
	/* The newest copy counts, and may lie on one member alone: make it durable on all (rule 14). */
	for (uint32_t i = 0; i < sm->own.n_log; i++)
		sm->own.log[i].dirty = !sm->own.log[i].loaded || any_of(block_words(sm, sm->own.mark, &sm->own.log[i]));
	sm->own.planned = true;
	for (uint64_t r = 0; r < sm->shared.regions; r++) {
		if (ddr_bit(sm->own.want, r))
			want(sm, r);
		ddr_sm_bits_changed(sm, r);
	}
	ddr_sm_map_counts(sm);
	if (sm->own.n_resync) {
		out = ddr_sm_event(sm, DDR_EV_RECOVERY, NULL);
		out->a = sm->own.n_resync;
		out->b = sm->node;
	}
	sm->own.clear_scan = true;
	sm->again = true;
}

/* The same daemon, bound again: what the kernel closed meanwhile was never reported, so its writes may have failed. */
void ddr_sm_redeclared(struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->own.n_log; i++) {
		struct ddr_sm_log *b = &sm->own.log[i];

		if (!sm->kernel.same)
			b->dur_ours = false;
		b->dirty |= any_of(block_words(sm, sm->own.mark, b));
		b->want = 0;
	}
	memset(sm->own.want, 0, sm->own.words * sizeof(uint64_t));
	sm->own.n_want = 0;
	for (uint64_t r = 0; r < sm->shared.regions; r++) {
		bool is_held = ddr_bit(sm->kernel.held, r), was = ddr_bit(sm->own.granted, r);

		if (was == is_held)
			continue;
		if (is_held) {
			grant_declared(sm, r);
		} else {
			ddr_bit_clear(sm->own.granted, r);
			sm->own.n_granted--;
		}
		ddr_sm_need_resync(sm, r);
	}
	sm->own.clear_scan = true;
	sm->again = true;
}
