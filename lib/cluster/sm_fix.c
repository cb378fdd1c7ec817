// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Repair in place, from the other members: of a bad sector that a read hit, and of chunks that verify found not to match.
 *
 * Any node repairs what it has found itself. The region is marked in its slot, the blocks are held exclusively, and read again: they
 * may have been written meanwhile. A range with an unreadable sector is repeated in smaller pieces, down to one block, so that no
 * readable block is written. The mark is cleared like any other: after a flush. If nobody writes in the region, the log records the
 * mark as a repair's: if the repair is interrupted, the whole region is checked again, and not resynced, since a resync would make
 * the parity match the wrong data.
 *
 * Must never: write without mark and range (protocol-notes, 7); work where parity may be wrong, as after a crash (note 16), or where
 * a member is missing or being rebuilt; wait for anything that a writer waits for.
 */
#include "sm_int.h"

#define SMALL_STEP	16u	/* blocks of a range after a larger one hit a bad sector */

static uint64_t region_of(const struct ddr_sm *sm, const struct ddr_sm_fix *f)
{
	return f->start / sm->shared.region_blocks;
}

static bool overlaps(const struct ddr_sm_fix *f, uint64_t start, uint64_t count)
{
	return f->start < start + count && start < f->start + f->count;
}

/* Can the other members be trusted there, and is there a member to write to? */
static bool possible(const struct ddr_sm *sm, const struct ddr_sm_fix *f)
{
	uint64_t r = region_of(sm, f);

	if (sm->shared.sb.parity == 0 || sm->shared.failed || sm->shared.rec || ddr_sm_any_lost(sm) || ddr_sm_left_dirty(sm) || ddr_sm_rebuilding(sm) != DDR_NO_MEMBER)
		return false;
	if (ddr_bit(sm->own.resync, r) || (ddr_sm_nibble(sm, r) & DDR_REGION_F_SUSPECT))
		return false;
	return !(f->what & DDR_FIX_WRONG) || (!ddr_sm_degraded(sm) && ddr_sm_parity_known(sm, f->start, f->count));
}

bool ddr_sm_fix_possible(const struct ddr_sm *sm, const struct ddr_sm_range *r)
{
	return possible(sm, &sm->own.fix[r->owner]) && !r->dirty;
}

/* Does this fix cover everything that is requested for these blocks? */
static bool covers(const struct ddr_sm_fix *f, uint64_t start, uint64_t count, uint32_t what)
{
	return !(what & ~f->what) && f->at <= start && start + count <= f->start + f->count;
}

bool ddr_sm_fix_new(struct ddr_sm *sm, uint64_t start, uint64_t count, uint32_t what)
{
	struct ddr_sm_fix *fresh = NULL;
	bool of_verify = what & DDR_SM_FIX_OF_VERIFY;
	uint64_t end;

	what &= ~DDR_SM_FIX_OF_VERIFY;
	if (count == 0 || start >= sm->shared.sb.array_blocks)
		return true;
	end = ddr_sm_region_start(sm, start / sm->shared.region_blocks) + ddr_sm_region_length(sm, start / sm->shared.region_blocks);
	if (count > end - start)
		count = end - start;
	for (struct ddr_sm_fix *f = sm->own.fix; f < sm->own.fix + DDR_SM_FIXES; f++) {
		if (f->state == DDR_FX_FREE)
			fresh = fresh ? fresh : f;
		else if (overlaps(f, start, count))
			return covers(f, start, count, what) && (f->of_verify || !of_verify);
	}
	if (!fresh)
		return false;
	*fresh = (struct ddr_sm_fix){ .start = start, .count = count, .at = start, .step = DDR_EX_BLOCKS, .what = what,
				      .of_verify = of_verify };
	ddr_fix_on(sm, fresh, DDR_FXE_FOUND);
	if (!possible(sm, fresh)) {
		ddr_fix_on(sm, fresh, DDR_FXE_REFUSED);
		return false;
	}
	sm->again = true;
	return true;
}

bool ddr_sm_fix_room(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < DDR_SM_FIXES; i++)
		if (sm->own.fix[i].state == DDR_FX_FREE)
			return true;
	return false;
}

bool ddr_sm_fix_pending(const struct ddr_sm *sm, uint64_t start, uint64_t count)
{
	for (const struct ddr_sm_fix *f = sm->own.fix; f < sm->own.fix + DDR_SM_FIXES; f++)
		if (f->state != DDR_FX_FREE && overlaps(f, start, count))
			return true;
	return false;
}

bool ddr_sm_fixes_idle(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < DDR_SM_FIXES; i++)
		if (sm->own.fix[i].state != DDR_FX_FREE)
			return false;
	return true;
}

uint64_t ddr_sm_fix_lowest(const struct ddr_sm *sm, uint64_t block)
{
	for (const struct ddr_sm_fix *f = sm->own.fix; f < sm->own.fix + DDR_SM_FIXES; f++)
		if (f->state != DDR_FX_FREE && f->of_verify && f->start < block)
			block = f->start;
	return block;
}

/* A place that verify found was not repaired: verify reads again from its cursor, after a while. */
static void verify_again(struct ddr_sm *sm)
{
	sm->own.vf.begun = false;
	sm->own.vf.again_at = sm->now + DDR_SM_RETRY_MS;
}

static void fix_end(struct ddr_sm *sm, struct ddr_sm_fix *f)
{
	uint64_t r = region_of(sm, f);

	if (f->look && f->at < f->start + f->count) {
		ddr_sm_look(sm, r);
		sm->own.look_until = sm->now + DDR_SM_RETRY_MS;	/* what prevents it, such as a resync by another node, takes its time */
	}
	if (f->state != DDR_FX_WAIT) {
		ddr_bit_clear(sm->own.work, r);
		sm->own.clear_scan = sm->own.sync_scan = true;
	}
	if (f->of_verify && f->at < f->start + f->count)
		verify_again(sm);
	if (!f->left && !f->given_up)	/* the background job may have hit it */
		ddr_bit_clear(sm->own.skip, r);
	ddr_fix_on(sm, f, DDR_FXE_ENDED);
	sm->again = true;
}

/* ---- the result of a range -------------------------------------------------- */

static bool within(const struct ddr_sm_range *r, uint64_t start, uint64_t count)
{
	return start >= r->start && count && count <= r->count && start - r->start <= r->count - count;
}

/*
 * Only what was certainly wrong on the member counts against it: a bad sector, or a chunk that P and Q identify. Recomputed parity
 * proves nothing about its disk.
 */
static void repaired(struct ddr_sm *sm, const struct ddr_sm_range *r)
{
	for (uint32_t m = 0; m < sm->shared.sb.members; m++) {
		struct ddr_output *out;
		uint64_t n = r->fixed[m].blocks, unsure = r->fixed[m].unsure;

		if (!n || n > r->count || unsure > n || !within(r, r->fixed[m].start, r->fixed[m].count))
			continue;
		if (sm->own.errors[m].corrected < UINT32_MAX - (uint32_t)n)
			sm->own.errors[m].corrected += (uint32_t)n;
		sm->own.corrected[m] += (uint32_t)(n - unsure);
		out = ddr_sm_event(sm, DDR_EV_REPAIRED, r->fixed[m].unread ? "a bad sector was rewritten" : unsure == n ?
				   "parity was recomputed from the data; which of them was wrong is unknown" : "it did not match the other members");
		out->member = m;
		out->start = r->fixed[m].start;
		out->count = r->fixed[m].count;
		out->a = n;
		if (sm->own.max_corrected && sm->own.corrected[m] > sm->own.max_corrected && ddr_sm_can_lose(sm, 1u << m))
			ddr_sm_report(sm, 1u << m, false);
	}
}

void ddr_sm_left_wrong(struct ddr_sm *sm, const struct ddr_sm_range *r, const char *why)
{
	struct ddr_output *out = ddr_sm_event(sm, DDR_EV_MISMATCH, why);

	out->start = within(r, r->bad_start, r->bad_count) ? r->bad_start : r->start;
	out->count = within(r, r->bad_start, r->bad_count) ? r->bad_count : r->count;
	out->a = r->mismatches ? r->mismatches : r->count;
}

static void counted(struct ddr_sm *sm, const struct ddr_sm_fix *f, const struct ddr_sm_range *r)
{
	if (r->mismatches)
		ddr_sm_left_wrong(sm, r, sm->shared.sb.parity == 1 ? "parity does not match the data; which of them is wrong is unknown" :
			   "more than one chunk of a block is wrong; which ones is unknown");
	if (f->of_verify) {
		sm->own.vf.found += r->mismatches + r->repaired;
		sm->own.vf.repaired += r->repaired;
	}
	repaired(sm, r);
}

void ddr_sm_fix_range(struct ddr_sm *sm, struct ddr_sm_range *r, bool done)
{
	struct ddr_sm_fix *f = &sm->own.fix[r->owner];
	bool medium = r->result == -ENODATA || r->result == -EILSEQ;

	f->out = false;
	if ((done || r->tainted) && !r->result && !r->failed && !r->dirty) {
		counted(sm, f, r);
		if (r->tainted)	/* our kernel was bound again meanwhile: check once more. A resync would trust other wrong data there */
			ddr_sm_look(sm, region_of(sm, f));
		f->at += r->count;
		if (f->step < DDR_EX_BLOCKS && f->at % (f->step == 1 ? SMALL_STEP : DDR_EX_BLOCKS) == 0)
			f->step = f->step == 1 ? SMALL_STEP : DDR_EX_BLOCKS;
	} else if (medium && r->count > 1) {
		f->step = r->count > SMALL_STEP ? SMALL_STEP : 1;
	} else if (medium) {
		ddr_sm_left_wrong(sm, r, "a bad sector was not repaired: too few other members could be read, or what they hold does not match");
		f->left = true;
		f->at += r->count;
	} else {
		if (r->failed & ddr_sm_written(sm))	/* rule 2: a write failed on a member that stays */
			ddr_sm_need_resync(sm, region_of(sm, f));
		else if (r->tainted || r->no_space)	/* what it has written is correct; the rest is found again */
			ddr_sm_look(sm, region_of(sm, f));
		f->given_up = true;	/* it is started again when the block is hit again */
	}
}

/* ---- interrupted repairs ---------------------------------------------------- */

static void look_begin(struct ddr_sm *sm, uint64_t r)
{
	bool known = sm->shared.sb.parity == 2 && (ddr_sm_nibble(sm, r) & DDR_REGION_STATE_MASK) == DDR_REGION_CLEAN;

	if (ddr_sm_nibble(sm, r) & DDR_REGION_F_SUSPECT) {
		ddr_sm_look_drop(sm, r);
		sm->own.clear_scan = true;
		return;
	}
	if (!ddr_sm_fix_new(sm, ddr_sm_region_start(sm, r), ddr_sm_region_length(sm, r), DDR_FIX_BAD | (known ? DDR_FIX_WRONG : 0)))
		return;
	for (struct ddr_sm_fix *f = sm->own.fix; f < sm->own.fix + DDR_SM_FIXES; f++)
		f->look |= f->state != DDR_FX_FREE && region_of(sm, f) == r;
	ddr_sm_look_drop(sm, r);
}

/* Not while a member is missing: the mark stays, and the region is checked when all members are back. */
static void look_pump(struct ddr_sm *sm)
{
	if (!sm->own.n_look || sm->own.stopping || ddr_sm_degraded(sm) || !ddr_sm_fix_room(sm))
		return;
	if (!ddr_sm_time(sm, sm->own.hold_until) || ddr_sm_space_waits(sm, DDR_SPACE_JOB) || !ddr_sm_time(sm, sm->own.look_until))
		return;
	for (uint64_t w = 0; w < sm->own.words && sm->own.n_look; w++)
		for (uint64_t bits = sm->own.look[w]; bits && ddr_sm_fix_room(sm); bits &= bits - 1)
			look_begin(sm, w * 64 + (uint64_t)__builtin_ctzll(bits));
}

/* ---- the life of a fix ------------------------------------------------------ */

static void ranges_begin(struct ddr_sm *sm, struct ddr_sm_fix *f)
{
	uint64_t end = f->start + f->count, step = (f->at / f->step + 1) * f->step;
	struct ddr_sm_range *r;

	r = ddr_sm_range_new(sm, f->at, (step < end ? step : end) - f->at, DDR_SM_RANGES);	/* a read may wait for it, so it comes before resync */
	if (!r)
		return;
	r->kind = DDR_RK_FIX;
	r->owner = (uint32_t)(f - sm->own.fix);
	f->out = true;
}

static void serve(struct ddr_sm *sm, struct ddr_sm_fix *f)
{
	uint64_t r = region_of(sm, f);

	if (f->out)
		return;
	if (f->given_up || sm->own.stopping || f->at >= f->start + f->count || !possible(sm, f)) {
		fix_end(sm, f);
		return;
	}
	if (f->state == DDR_FX_WAIT && !ddr_bit(sm->own.work, r) && !ddr_bit(sm->own.clr, r)) {
		ddr_fix_on(sm, f, DDR_FXE_ALONE);
		ddr_bit_set(sm->own.work, r);
		/* if the parity is to be recomputed whatever is wrong, a resync may do that just as well */
		(f->what & DDR_FIX_PARITY ? ddr_sm_mark : ddr_sm_mark_repair)(sm, r);
	}
	if (f->state == DDR_FX_MARK && ddr_sm_mark_durable(sm, r))
		ddr_fix_on(sm, f, DDR_FXE_MARKED);
	if (f->state == DDR_FX_RUN && ddr_sm_time(sm, sm->own.hold_until) && !ddr_sm_space_waits(sm, DDR_SPACE_JOB))
		ranges_begin(sm, f);
}

void ddr_sm_fix_pump(struct ddr_sm *sm)
{
	if (!ddr_sm_running(sm) || !sm->kernel.enabled || !ddr_sm_members_settled(sm))
		return;
	look_pump(sm);
	for (struct ddr_sm_fix *f = sm->own.fix; f < sm->own.fix + DDR_SM_FIXES; f++)
		if (f->state != DDR_FX_FREE && ddr_sm_room(sm, 4))
			serve(sm, f);
}
