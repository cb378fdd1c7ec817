// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Which regions are resynced, and when: works, each for one region, and their ranges.
 *
 * A region that was dirty at a crash, or in which a write failed, is resynced at once,
 * several ranges in parallel; one whose parity was never computed as a whole (needs-sync)
 * is done in the background, when there is nothing else to do and nobody writes it. There the regions
 * overlap, so that the disks do not wait for the log and the map: the next one is marked as soon as
 * all ranges of the previous one have started. Each has its own mark, flush and change of the map.
 *
 * Must never: write parity into a region whose mark is not durable; call a region clean
 * before all its ranges were written and a flush issued after that has succeeded; skip
 * a part (a data member is missing) without recording that in the map (rule 9).
 */
#include "sm_int.h"

#define SMALL_STEP	16u	/* blocks of a range after one of 512 hit a bad sector */

bool ddr_sm_works_idle(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < DDR_SM_WORKS; i++)
		if (sm->own.wk[i].state != DDR_WK_FREE)
			return false;
	return true;
}

/* ---- the life of a work ----------------------------------------------------- */

/* The work so far does not count: the whole region is repeated. */
static void work_undo(struct ddr_sm *sm, struct ddr_sm_work *w)
{
	if (w->crash)
		sm->own.resync_done -= w->done;
	w->done = 0;
}

static void work_restart(struct ddr_sm *sm, struct ddr_sm_work *w, enum ddr_work_event event)
{
	ddr_work_on(sm, w, event);
	w->next = ddr_sm_region_start(sm, w->region);
	w->end = w->next + ddr_sm_region_length(sm, w->region);
	work_undo(sm, w);
	w->again = w->suspect = w->skip = false;
	sm->again = true;
}

static bool needs_sync(const struct ddr_sm *sm, uint64_t region)
{
	return (ddr_sm_nibble(sm, region) & DDR_REGION_STATE_MASK) == DDR_REGION_NEEDS_SYNC;
}

/* Blocks that background work still has to sync; the array's last region may be short. */
static uint64_t needs_sync_blocks(const struct ddr_sm *sm)
{
	uint64_t last = sm->shared.regions - 1, blocks = sm->shared.n_needs_sync * sm->shared.region_blocks;

	if (needs_sync(sm, last))
		blocks -= sm->shared.region_blocks - ddr_sm_region_length(sm, last);
	return blocks;
}

void ddr_sm_resync_progress(const struct ddr_sm *sm, uint64_t *done, uint64_t *total)
{
	bool background = false;

	*done = sm->own.resync_done;
	*total = sm->own.resync_total;
	for (const struct ddr_sm_work *w = sm->own.wk; w < sm->own.wk + DDR_SM_WORKS && !sm->own.n_resync; w++) {
		if (w->state == DDR_WK_FREE || w->crash)
			continue;
		if (!background) {
			*total = needs_sync_blocks(sm);
			*done = 0;
			background = true;
		}
		*done += w->done;
		*total += needs_sync(sm, w->region) ? 0 : ddr_sm_region_length(sm, w->region);	/* the map already says so, but that is not durable yet */
	}
}

static void work_begin(struct ddr_sm *sm, struct ddr_sm_work *w, uint64_t region, bool crash)
{
	memset(w, 0, sizeof(*w));
	w->region = region;
	w->crash = crash;
	w->step = DDR_EX_BLOCKS;
	work_restart(sm, w, DDR_WKE_BEGUN);
	ddr_bit_set(sm->own.work, region);
	ddr_sm_mark(sm, region);
	if (!crash) {
		sm->own.resync_total = sm->own.resync_done = 0;		/* the work of that crash is finished */
	} else if (!sm->own.resync_told) {
		sm->own.resync_told = true;
		ddr_sm_event(sm, DDR_EV_RESYNC_START, NULL)->a = sm->own.n_resync;
	}
	sm->kernel.status = true;
}

static void work_end(struct ddr_sm *sm, struct ddr_sm_work *w, enum ddr_work_event event)
{
	ddr_work_on(sm, w, event);
	ddr_bit_clear(sm->own.work, w->region);
	sm->own.clear_scan = sm->own.sync_scan = true;
	sm->kernel.status = true;
	sm->again = true;
}

/* The map records the result for the region. */
static void work_finish(struct ddr_sm *sm, struct ddr_sm_work *w)
{
	struct ddr_output *out;

	if (w->again) {
		work_restart(sm, w, DDR_WKE_AGAIN);
		return;
	}
	if (w->crash) {
		sm->own.resync_done += ddr_sm_region_length(sm, w->region) - w->done;
		ddr_bit_clear(sm->own.resync, w->region);
		sm->own.n_resync--;
		sm->own.resync_regions_done++;
		ddr_sm_bits_changed(sm, w->region);
		if (sm->own.n_resync == 0) {
			out = ddr_sm_event(sm, DDR_EV_RESYNC_DONE, NULL);
			out->a = sm->own.resync_regions_done;
			out->b = sm->own.resync_blocks;
		}
	}
	work_end(sm, w, DDR_WKE_KNOWN);
}

void ddr_sm_work_range(struct ddr_sm *sm, struct ddr_sm_range *r, bool done)
{
	struct ddr_sm_work *w = &sm->own.wk[r->owner];

	w->out--;
	sm->kernel.status = true;
	if (done) {
		w->done += r->count;
		sm->own.resync_done += w->crash ? r->count : 0;
		sm->own.resync_blocks += r->mismatches;
		sm->own.mismatches += w->crash ? r->mismatches : 0;
	} else if (r->result != -ENODATA && r->result != -EILSEQ) {
		w->again = true;
	} else if (w->crash && w->step > 1) {
		w->step = w->step > SMALL_STEP ? SMALL_STEP : 1;
		w->again = true;
	} else if (w->crash) {
		w->suspect = true;	/* a part of this block's data is missing: its parity cannot be computed */
	} else {
		w->skip = true;
		ddr_bit_set(sm->own.skip, w->region);
		sm->own.skip_until = sm->now + DDR_SM_SKIP_MS;
	}
}

void ddr_sm_works_mapped(struct ddr_sm *sm)
{
	for (struct ddr_sm_work *w = sm->own.wk; w < sm->own.wk + DDR_SM_WORKS; w++)
		if (w->state == DDR_WK_MAP_SENT)
			work_finish(sm, w);
}

void ddr_sm_works_restart(struct ddr_sm *sm)
{
	for (struct ddr_sm_work *w = sm->own.wk; w < sm->own.wk + DDR_SM_WORKS; w++)
		w->again |= w->state == DDR_WK_MARK || w->state == DDR_WK_RUN;
}

/* ---- ranges ----------------------------------------------------------------- */

/* End of the range that begins at w->next: where the roles rotate if that matters, otherwise at a multiple of 512 blocks. */
static uint64_t range_end_of(const struct ddr_sm *sm, const struct ddr_sm_work *w)
{
	bool turns = sm->shared.sb.layout == DDR_LAYOUT_ROTATING && ddr_sm_degraded(sm);
	uint64_t step = turns && w->step > DDR_ROTATE_BLOCKS ? DDR_ROTATE_BLOCKS : w->step;
	uint64_t end = (w->next / step + 1) * step;

	return ddr_sm_readable_end(sm, w->next, end < w->end ? end : w->end);
}

static void work_run(struct ddr_sm *sm, struct ddr_sm_work *w)
{
	while (w->next < w->end && !w->again) {
		uint64_t end = range_end_of(sm, w);
		enum ddr_doable doable = ddr_sm_doable(sm, w->next);
		struct ddr_sm_range *r;

		/* readable blocks of a member that is being replaced are copied, whatever the parity */
		if (doable == DDR_DO_JOB || ddr_sm_replacing(sm) != DDR_NO_MEMBER) {
			r = ddr_sm_range_new(sm, w->next, end - w->next, sm->own.parallel);
			if (!r)
				return;
			r->owner = (uint32_t)(w - sm->own.wk);
			w->out++;
		}
		w->suspect |= doable == DDR_DO_SUSPECT;
		w->next = end;
	}
}

static uint32_t work_op(const struct ddr_sm *sm, const struct ddr_sm_work *w)
{
	if (w->suspect)
		return DDR_MAP_OP_SUSPECT;
	return ddr_sm_degraded(sm) ? DDR_MAP_OP_DEGRADED : DDR_MAP_OP_CLEAN;
}

static void work_map(struct ddr_sm *sm, struct ddr_sm_work *w)
{
	uint32_t op = work_op(sm, w);

	if (ddr_sm_map_holds(sm, w->region, op))
		work_finish(sm, w);
	else if (ddr_sm_map_want(sm, w->region, op))
		ddr_work_on(sm, w, DDR_WKE_ASKED);
}

/*
 * Must the work end where it is? Background work stops while a member is missing: nothing was in flight in its regions, so
 * their parity is as good as before. It starts again when the array is complete.
 */
static bool work_stops(const struct ddr_sm *sm, const struct ddr_sm_work *w)
{
	return sm->own.stopping || (!w->crash && ddr_sm_degraded(sm));
}

static void work_serve(struct ddr_sm *sm, struct ddr_sm_work *w)
{
	bool stops = work_stops(sm, w), may_run = !stops && !sm->own.paused && ddr_sm_time(sm, sm->own.hold_until) && !ddr_sm_space_waits(sm, DDR_SPACE_JOB);

	if (w->state == DDR_WK_MARK && ddr_sm_mark_durable(sm, w->region) && may_run)
		ddr_work_on(sm, w, DDR_WKE_MARKED);
	if (w->state == DDR_WK_RUN && may_run)
		work_run(sm, w);
	if (w->state == DDR_WK_RUN && w->out == 0) {
		if (w->again) {
			work_restart(sm, w, DDR_WKE_AGAIN);
		} else if (w->next == w->end && w->skip) {
			work_end(sm, w, DDR_WKE_SKIPPED);
		} else if (w->next == w->end) {
			ddr_work_on(sm, w, DDR_WKE_ALL_RUN);
			w->flush = ddr_sm_flush_ticket(sm);
		}
	}
	if (stops && w->out == 0 && (w->state == DDR_WK_MARK || w->state == DDR_WK_RUN)) {
		work_undo(sm, w);
		work_end(sm, w, DDR_WKE_STOPPED);
	}
	if (w->state == DDR_WK_FLUSH && sm->own.flushed >= w->flush)
		ddr_work_on(sm, w, DDR_WKE_FLUSHED);
	if (w->state == DDR_WK_MAP)
		work_map(sm, w);
}

/* ---- which region is next --------------------------------------------------- */

static bool next_crash(struct ddr_sm *sm, uint64_t *region)
{
	for (uint64_t i = 0; i <= sm->own.words; i++) {
		uint64_t w = (sm->own.resync_at / 64 + i) % sm->own.words;
		uint64_t bits = sm->own.resync[w] & ~sm->own.work[w];

		if (bits) {
			*region = w * 64 + (uint64_t)__builtin_ctzll(bits);
			sm->own.resync_at = *region;
			return true;
		}
	}
	return false;
}

/* A step must stay short: a search checks this number of regions, and the next search continues there. */
#define BACKGROUND_SCAN	8192u
#define SCAN_MS		100u	/* ... after this time, */
#define SCAN_REST_MS	1000u	/* or this, if it was over all regions in vain */

static bool next_background(struct ddr_sm *sm, uint64_t *region)
{
	if (sm->own.skip_until && ddr_sm_time(sm, sm->own.skip_until)) {
		memset(sm->own.skip, 0, sm->own.words * sizeof(uint64_t));
		sm->own.skip_until = 0;
	}
	if (!sm->shared.n_needs_sync || ddr_sm_degraded(sm))
		return false;
	if (ddr_sm_writer(sm) != sm->node)
		return false;	/* one node is enough */
	if (!sm->own.sync_scan && !ddr_sm_time(sm, sm->own.sync_again))
		return false;
	for (uint64_t i = 0; i < sm->shared.regions && i < BACKGROUND_SCAN; i++) {
		uint64_t r = sm->own.sync_at;

		sm->own.sync_at = sm->own.sync_at + 1 < sm->shared.regions ? sm->own.sync_at + 1 : 0;
		if (needs_sync(sm, r) && !ddr_bit(sm->own.mark, r) && !ddr_bit(sm->own.want, r) && !ddr_bit(sm->own.skip, r)) {
			sm->own.sync_scan = true;	/* there may be one more */
			sm->own.sync_looked = 0;
			*region = r;
			return true;
		}
		sm->own.sync_looked++;
	}
	sm->own.sync_scan = false;
	sm->own.sync_again = sm->now + (sm->own.sync_looked < sm->shared.regions ? SCAN_MS : SCAN_REST_MS);
	ddr_sm_time(sm, sm->own.sync_again);	/* a tick is needed then */
	return false;
}

/*
 * A place for the next background region, or NULL: not now. While regions only wait for the end of their jobs, a flush or the map,
 * the disks have time for the next one; more than these few would be dirty after a crash, and be done no sooner. Ranges of a replacement
 * run between two regions.
 */
static struct ddr_sm_work *background_place(struct ddr_sm *sm)
{
	bool alone = ddr_sm_replacing(sm) != DDR_NO_MEMBER;
	struct ddr_sm_work *fresh = NULL;

	for (struct ddr_sm_work *w = sm->own.wk; w < sm->own.wk + DDR_SM_WORKS; w++) {
		bool begins = w->state == DDR_WK_MARK || (w->state == DDR_WK_RUN && (w->again || w->next < w->end));

		if (w->state == DDR_WK_FREE)
			fresh = w >= sm->own.wk + DDR_SM_PARALLEL ? w : fresh;
		else if (w->crash || begins || alone)
			return NULL;
	}
	return fresh;
}

void ddr_sm_resync_pump(struct ddr_sm *sm)
{
	struct ddr_sm_work *fresh;
	uint64_t region;
	bool may_begin;

	if (!ddr_sm_running(sm) || !sm->kernel.enabled || sm->shared.sb.parity == 0 || !ddr_sm_members_settled(sm))
		return;
	may_begin = !sm->own.stopping && !sm->own.paused && ddr_sm_time(sm, sm->own.hold_until) && !ddr_sm_space_waits(sm, DDR_SPACE_JOB) && ddr_sm_room(sm, 4);
	for (uint32_t i = 0; i < sm->own.parallel && may_begin && sm->own.n_resync; i++)
		if (sm->own.wk[i].state == DDR_WK_FREE && next_crash(sm, &region))
			work_begin(sm, &sm->own.wk[i], region, true);
	for (struct ddr_sm_work *w = sm->own.wk; w < sm->own.wk + DDR_SM_WORKS; w++)
		if (w->state != DDR_WK_FREE && ddr_sm_room(sm, 4))
			work_serve(sm, w);
	fresh = may_begin && !sm->own.n_resync ? background_place(sm) : NULL;
	if (fresh && next_background(sm, &region))
		work_begin(sm, fresh, region, false);
}
