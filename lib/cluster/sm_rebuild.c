// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A spare takes the role of a failed or missing member, and is rebuilt.
 *
 * The writer requests the spare (TAKE). Once the superblocks list it as rebuilding, every kernel writes to it, wherever the cursor
 * is. Then each node folds: its dirty regions may have been written before, so the map has to record them as written; and its slot's
 * log is written to the new member. When all have reported that (FOLDED), the writer rebuilds region by region from the cursor on,
 * under exclusive ranges of which no node has a part to resync; unwritten regions are skipped. The cursor advances with a change of
 * the superblocks, after the ranges were flushed. At the end, when the region map is on the new member as well, the member is in sync
 * (WHOLE). A new writer continues from the cursor.
 *
 * A replacement works in the same way, but the old member stays: it is read and written until the new one is WHOLE, and nothing is
 * read from the new one before. At that point both must hold the same data. So a node that resyncs after a crash copies the result to
 * both, and no node sends FOLDED while it has something to resync. If the old member fails, the rest is a rebuild from the cursor on.
 * Without parity there is no dirty log and no map: everything is copied, and again after a crash, since it is unknown where the two
 * differ.
 *
 * With two parities a rebuild could read one member more than it needs. Where the parity is known to match, the job does, and compares: if another chunk of the
 * block is wrong without an error, the new one may be wrong, too, and matches it from then on, so that a verify would blame the parity that is right. Which chunk
 * is wrong cannot be told. The rebuild goes on, the blocks are reported, and once all of the region is compared the map gets it as suspect, still clean:
 * neither verify nor resync changes anything there until the operator has decided.
 *
 * Must never: skip a region that a node may have written before the member was written; let the cursor pass a range that was not
 * written and flushed, or a region with such blocks that is not suspect yet; list the member as in sync before log and map are on it.
 */
#include "sm_int.h"

#define NO_BLOCK	UINT64_MAX
#define CURSOR_MS	10000u	/* between two changes of the cursor ... */
#define RESYNC_MS	500u	/* before blocks are tried again that another node has to resync first */
#define CURSOR_PARTS	64u	/* ... or after 1/64 of the array */

/* ---- folding ---------------------------------------------------------------- */

void ddr_sm_unfolded(struct ddr_sm *sm)
{
	if (sm->own.planned && sm->shared.sb.parity)
		ddr_sm_log_renew(sm);
	sm->own.rb.fold_at = 0;
	sm->own.rb.fold_mapping = sm->own.rb.folded_sent = false;
	sm->again = true;
}

void ddr_sm_rebuild_mapped(struct ddr_sm *sm)
{
	sm->own.rb.fold_mapping = sm->own.rb.unfit_mapping = false;
}

void ddr_sm_folded(struct ddr_sm *sm, uint32_t sender)
{
	if (sender == sm->node)
		sm->own.rb.folded_sent = false;
	sm->again = true;
}

static bool log_renewed(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->own.n_log; i++)
		if (sm->own.log[i].renew || sm->own.log[i].fly_renew)
			return false;
	return true;
}

/* Records our dirty regions in the map. Returns true once all that were dirty at the start are there, durably. */
static bool fold_map(struct ddr_sm *sm)
{
	struct ddr_sm_rebuild *rb = &sm->own.rb;
	uint32_t op = ddr_sm_degraded(sm) ? DDR_MAP_OP_DEGRADED : DDR_MAP_OP_WRITTEN;

	while (rb->fold_at < sm->shared.regions && sm->shared.sb.parity) {
		uint64_t r = rb->fold_at;

		if (r % 64 == 0 && !sm->own.mark[r / 64]) {
			rb->fold_at += 64;
			continue;
		}
		if (ddr_bit(sm->own.mark, r) && !ddr_sm_map_holds(sm, r, op)) {
			if (!ddr_sm_map_want(sm, r, op))
				return false;
			rb->fold_mapping = true;
		}
		rb->fold_at++;
	}
	return !rb->fold_mapping;
}

/*
 * Not while we take over a slot: its marks join ours at once, perhaps behind the place that the fold has reached, and RECOVERED, which resets our fold,
 * may be in flight. A FOLDED that is sent after it is delivered after it, and would count. One that was sent before the delivery of our RECOVER is reset by it.
 */
static void fold(struct ddr_sm *sm, uint32_t member)
{
	struct ddr_msg msg = { .type = DDR_M_FOLDED };
	int self = ddr_sm_node_at(sm, sm->node);

	if (sm->own.c.rc != DDR_RC_IDLE)
		return;
	if (self < 0 || sm->shared.nodes[self].folded || sm->own.rb.folded_sent || !ddr_sm_applied(sm) || !fold_map(sm) || !log_renewed(sm) ||
	    !ddr_sm_may_send(sm))
		return;
	if (sm->own.n_resync && ddr_sm_replacing(sm) != DDR_NO_MEMBER)
		return;		/* the two may still differ there */
	msg.folded.since = sm->shared.sb.member[member].since;
	sm->own.rb.folded_sent = true;
	ddr_sm_send(sm, &msg);
}

/* ---- the change of the superblocks ------------------------------------------ */

static bool ask(struct ddr_sm *sm, uint32_t op, uint32_t member, uint32_t role, uint64_t cursor)
{
	struct ddr_msg_member_set set = { .op = op, .member = member, .role = role, .cursor = cursor };

	return ddr_sm_ask(sm, &set);
}

/* The first role without a working member, and a spare for it. One at a time: the next one when this one is in sync. */
static void take(struct ddr_sm *sm)
{
	uint32_t written = ddr_sm_written(sm);

	for (uint32_t role = 0; sm->own.hot_spare && role < sm->shared.sb.roles; role++) {
		uint32_t holder = ddr_sm_member_at(sm, role);

		if (holder == DDR_NO_MEMBER || (written >> holder & 1))
			continue;
		for (uint32_t m = 0; m < sm->shared.sb.members; m++)
			if (sm->shared.sb.member[m].state == DDR_MEMBER_SPARE && ddr_sm_all_see(sm, m)) {
				ask(sm, DDR_MEMBER_OP_TAKE, m, role, 0);
				return;
			}
	}
}

/* ---- what does not fit ------------------------------------------------------- */

static void unfit(struct ddr_sm *sm, const struct ddr_sm_range *r)
{
	uint64_t region = r->start / sm->shared.region_blocks;

	ddr_sm_left_wrong(sm, r, "a member was rebuilt from chunks that do not match; which of them is wrong is unknown, so check the data of these blocks");
	sm->own.mismatches += r->mismatches;
	sm->own.rb.n_unfit += !ddr_bit(sm->own.rb.unfit, region);
	ddr_bit_set(sm->own.rb.unfit, region);
}

static void unfit_forget(struct ddr_sm *sm)
{
	memset(sm->own.rb.unfit, 0, sm->own.words * sizeof(uint64_t));
	sm->own.rb.n_unfit = 0;
}

/* The first of these regions from @r on. There is one. */
static uint64_t unfit_next(const struct ddr_sm *sm, uint64_t r)
{
	while (!ddr_bit(sm->own.rb.unfit, r))
		r += sm->own.rb.unfit[r / 64] >> r % 64 ? 1 : 64 - r % 64;
	return r;
}

/* Regions that are compared completely, those below block @done, become suspect: a new writer continues from the cursor, which waits before them. */
static void unfit_serve(struct ddr_sm *sm, uint64_t done)
{
	struct ddr_sm_rebuild *rb = &sm->own.rb;
	uint64_t left = rb->unfit_mapping ? 0 : rb->n_unfit;

	for (uint64_t r = 0; left; left--, r++) {
		r = unfit_next(sm, r);
		if (ddr_sm_region_start(sm, r) + ddr_sm_region_length(sm, r) > done)
			return;
		if (ddr_sm_map_holds(sm, r, DDR_MAP_OP_DOUBT)) {
			ddr_bit_clear(rb->unfit, r);
			rb->n_unfit--;
		} else if (ddr_sm_map_want(sm, r, DDR_MAP_OP_DOUBT)) {
			rb->unfit_mapping = true;
		} else {
			return;
		}
	}
}

/* ---- ranges ----------------------------------------------------------------- */

void ddr_sm_rebuild_range(struct ddr_sm *sm, const struct ddr_sm_range *r, bool done)
{
	struct ddr_sm_rebuild *rb = &sm->own.rb;
	bool bad = !done && (r->result == -ENODATA || r->result == -EILSEQ);

	if (bad && (!rb->bad_count || r->start <= rb->bad_start)) {
		rb->bad_start = r->start;
		rb->bad_count = r->count;
	} else if (done && r->start <= rb->bad_start && rb->bad_start < r->start + r->count) {
		rb->bad_start = rb->bad_count = 0;
	}
	if (done && !r->dirty && r->mismatches)
		unfit(sm, r);
	if (r->dirty)
		rb->again_at = sm->now + RESYNC_MS;
	if ((!done || r->dirty) && r->start < rb->redo)
		rb->redo = r->start;
	else if (done && !r->dirty)
		rb->copied += r->count;
	sm->kernel.status = true;
}

/* The lowest block that is not done; @out: are ranges in progress? */
static uint64_t done_to(const struct ddr_sm *sm, bool *out)
{
	uint64_t lowest = sm->own.rb.next < sm->own.rb.redo ? sm->own.rb.next : sm->own.rb.redo;

	*out = false;
	for (const struct ddr_sm_range *r = sm->own.range; r < sm->own.range + DDR_SM_RANGES; r++)
		if (r->kind == DDR_RK_REBUILD && r->state != DDR_R_FREE && r->state < DDR_R_RELEASE) {
			*out = true;
			lowest = r->start < lowest ? r->start : lowest;
		}
	return lowest;
}

/*
 * A job may cross a rotation of the roles. It then reads all members that any of its parts needs, with two parities one more. So a range
 * ends at a rotation; except at order 3, where half a range is too little for each of the eight members to stream.
 */
static uint64_t range_end_of(const struct ddr_sm *sm, uint64_t block)
{
	uint64_t step = sm->shared.sb.layout == DDR_LAYOUT_ROTATING && sm->shared.sb.order < 3 ? DDR_ROTATE_BLOCKS : DDR_EX_BLOCKS;
	uint64_t end = (block / step + 1) * step, region = block / sm->shared.region_blocks;
	uint64_t region_end = ddr_sm_region_start(sm, region) + ddr_sm_region_length(sm, region);

	return ddr_sm_readable_end(sm, block, end < region_end ? end : region_end);
}

/* Does the member lack the region? Unwritten regions are not needed, and a member that is back has the regions that were not written since. */
static bool lacks(const struct ddr_sm *sm, uint32_t member, uint64_t region)
{
	uint8_t nibble = ddr_sm_nibble(sm, region);

	if (sm->shared.sb.parity == 0)
		return true;
	if ((nibble & DDR_REGION_STATE_MASK) == DDR_REGION_UNWRITTEN)
		return false;
	return !(sm->shared.sb.member[member].flags & DDR_MEMBER_F_PARTIAL) || (nibble & DDR_REGION_F_WRITTEN);
}

static void ranges_begin(struct ddr_sm *sm)
{
	struct ddr_sm_rebuild *rb = &sm->own.rb;

	while (rb->next < sm->shared.sb.array_blocks) {
		uint64_t region = rb->next / sm->shared.region_blocks, end = range_end_of(sm, rb->next);
		struct ddr_sm_range *r;

		if (!lacks(sm, rb->member, region)) {
			rb->next = ddr_sm_region_start(sm, region) + ddr_sm_region_length(sm, region);
			continue;
		}
		if (ddr_bit(sm->own.resync, region))
			return;
		r = ddr_sm_range_new(sm, rb->next, end - rb->next, sm->own.parallel);
		if (!r)
			return;
		r->kind = DDR_RK_REBUILD;
		r->owner = rb->member;
		r->mismatch = rb->since;
		rb->next = end;
	}
}

/* ---- the job ---------------------------------------------------------------- */

static void begin(struct ddr_sm *sm, uint32_t member)
{
	struct ddr_sm_rebuild *rb = &sm->own.rb;

	rb->member = member;
	rb->since = sm->shared.sb.member[member].since;
	rb->next = sm->shared.sb.member[member].cursor;
	rb->redo = NO_BLOCK;
	rb->cursor_at = sm->now;
	rb->copied = 0;
	rb->again_at = 0;
	rb->bad_start = rb->bad_count = 0;
	rb->ending = false;
	unfit_forget(sm);
}

static void map_wanted(struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->shared.n_map; i++)
		sm->own.rb.map_want[i] = sm->shared.version[i].mem;
	sm->own.rb.ending = true;
}

static bool map_there(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->shared.n_map && sm->shared.sb.parity; i++)
		if (sm->shared.version[i].dur < sm->own.rb.map_want[i])
			return false;
	return true;
}

static void cursor_serve(struct ddr_sm *sm, uint64_t done)
{
	uint64_t at = sm->shared.sb.member[sm->own.rb.member].cursor;
	uint64_t unfit = sm->own.rb.n_unfit ? ddr_sm_region_start(sm, unfit_next(sm, 0)) : NO_BLOCK;

	if (done > unfit)
		done = unfit;
	if (done <= at || (done - at < sm->shared.sb.array_blocks / CURSOR_PARTS && !ddr_sm_time(sm, sm->own.rb.cursor_at + CURSOR_MS)))
		return;
	if (ask(sm, DDR_MEMBER_OP_CURSOR, sm->own.rb.member, 0, done))
		sm->own.rb.cursor_at = sm->now;
}

static void serve(struct ddr_sm *sm)
{
	struct ddr_sm_rebuild *rb = &sm->own.rb;
	bool out;
	uint64_t done = done_to(sm, &out);

	if (!out && rb->redo != NO_BLOCK) {
		rb->next = rb->redo < rb->next ? rb->redo : rb->next;
		rb->redo = NO_BLOCK;
		rb->ending = false;
	}
	if (rb->redo == NO_BLOCK && ddr_sm_all_folded(sm) && !sm->own.n_resync && ddr_sm_time(sm, rb->again_at))
		ranges_begin(sm);
	done = done_to(sm, &out);
	unfit_serve(sm, done);
	if (done < sm->shared.sb.array_blocks || out || rb->n_unfit) {
		rb->ending = false;
		cursor_serve(sm, done);
		return;
	}
	if (!rb->ending)
		map_wanted(sm);
	if (!ddr_sm_all_folded(sm) || !map_there(sm))
		return;
	ask(sm, DDR_MEMBER_OP_WHOLE, rb->member, 0, 0);
}

void ddr_sm_rebuild_pump(struct ddr_sm *sm)
{
	uint32_t member = ddr_sm_rebuilding(sm);

	if (!ddr_sm_running(sm) || !sm->kernel.enabled)
		return;
	if (member != DDR_NO_MEMBER)
		fold(sm, member);
	if (!ddr_sm_writes(sm) || sm->own.stopping || sm->own.paused || !ddr_sm_members_settled(sm) || !ddr_sm_time(sm, sm->own.hold_until) ||
	    ddr_sm_space_waits(sm, DDR_SPACE_JOB) || !ddr_sm_room(sm, 4)) {
		return;
	}
	if (member == DDR_NO_MEMBER) {
		sm->own.rb.since = 0;
		take(sm);
		return;
	}
	if (sm->own.rb.since != sm->shared.sb.member[member].since || sm->own.rb.member != member)
		begin(sm, member);
	serve(sm);
}

/* Does this node run the rebuild of the member? */
static bool ours(const struct ddr_sm *sm, uint32_t m)
{
	return ddr_sm_writer(sm) == sm->node && sm->own.rb.since && sm->own.rb.since == sm->shared.sb.member[m].since && sm->own.rb.member == m;
}

uint64_t ddr_sm_rebuild_at(const struct ddr_sm *sm)
{
	uint32_t m = ddr_sm_rebuilding(sm);
	uint64_t at;
	bool out;

	if (m == DDR_NO_MEMBER)
		return 0;
	at = ours(sm, m) ? done_to(sm, &out) : 0;
	return at > sm->shared.sb.member[m].cursor ? at : sm->shared.sb.member[m].cursor;	/* a node that does not run the rebuild only knows the cursor */
}

void ddr_sm_rebuild_progress(const struct ddr_sm *sm, struct ddr_sm_progress *p)
{
	uint32_t m = ddr_sm_rebuilding(sm);

	memset(p, 0, sizeof(*p));
	if (m == DDR_NO_MEMBER)
		return;
	p->at = ddr_sm_rebuild_at(sm);
	if (ours(sm, m)) {
		p->bad_start = sm->own.rb.bad_start;
		p->bad_count = sm->own.rb.bad_count;
	}
	if (sm->shared.sb.parity) {	/* as lacks() */
		ddr_sm_progress_copied(sm, p, sm->shared.sb.member[m].flags & DDR_MEMBER_F_PARTIAL);
	} else {
		p->total = sm->shared.sb.array_blocks;
		p->done = p->at < p->total ? p->at : p->total;
	}
}

void ddr_sm_rebuild_anew(struct ddr_sm *sm)
{
	sm->own.rb.since = 0;
}

void ddr_sm_rebuild_view(struct ddr_sm *sm)
{
	sm->own.rb.set_sent = sm->own.rb.folded_sent = false;
	sm->own.rb.fold_at = 0;
}
