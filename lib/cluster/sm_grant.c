// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Grants: LOCK and GRANT, and the plan after a start.
 *
 * Must never: grant a region whose mark is not durable on all members in sync (rule 1), or while the log names our kernel
 * as the owner of a mark that stands for wrong parity and not only for a grant.
 *
 * About the last point: after a crash of the daemon alone, marks of regions that the kernel
 * declares held need no resync, if the block names this kernel (boot id and cookie). A
 * region that must be resynced may be granted at the same time. So a block that holds
 * such a region is written without an owner (cookie 0), and the next daemon resyncs all
 * of its marks.
 *
 * A mark may also be that of a repair only (sm_fix.c): nobody wrote in the region, and after a crash it is checked again instead of
 * resynced, since a resync would make the parity match the wrong data. The block lists such regions. A mark that stands for more
 * counts as durable only when a block has been written that does not list its region.
 *
 * In an array of format 2 a kernel that is new to its slot is granted nothing before all of the slot's log was written anew, and the superblocks say from
 * which sequence on it is this kernel's (sm_owner.c): a block with a lower one is a write of an earlier owner that landed late, over one that may have
 * had more marks (note 25).
 */
#include "sm_int.h"

/* ---- LOCK ------------------------------------------------------------------- */

static void want(struct ddr_sm *sm, uint64_t region)
{
	struct ddr_sm_log *b = ddr_sm_log_of(sm, region);

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
	ddr_sm_log_of(sm, region)->want--;
	sm->own.n_want--;
}

/* A granted region is requested again if two requests overlapped: its GRANT is in flight already. */
void ddr_sm_lock(struct ddr_sm *sm, const struct ddr_rec *rec)
{
	for (uint64_t r = rec->start; r < rec->start + rec->count; r++)
		if (!ddr_bit(sm->own.granted, r))
			want(sm, r);
	if (!sm->own.clean_wanted)
		sm->own.stopping = false;
}

/* ---- GRANT ------------------------------------------------------------------ */

static bool ready(const struct ddr_sm *sm, uint64_t region)
{
	if (sm->shared.sb.parity == 0)
		return true;
	return ddr_sm_mark_durable(sm, region) &&
	       (!ddr_bit(sm->own.resync, region) || !sm->own.log[region / DDR_LOG_REGIONS].dur_ours);
}

/* Answers the run of waiting regions that starts at @r, if that is allowed. Returns the first region that was not checked. */
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

/* ---- the plan after a start ------------------------------------------------- */

static void plan_unread(struct ddr_sm *sm)
{
	uint64_t top = ddr_sm_seq_top(sm);

	for (uint64_t r = 0; r < sm->shared.regions; r++)
		if (!sm->own.log[r / DDR_LOG_REGIONS].loaded)
			ddr_bit_set(sm->own.mark, r);
	/* an unreadable copy may be newer than all that were read; the next block goes to the place without the newest copy */
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

void ddr_sm_log_renew(struct ddr_sm *sm)
{
	for (struct ddr_sm_log *b = sm->own.log; b < sm->own.log + sm->own.n_log; b++) {
		b->dirty = true;
		b->renew = sm->shared.owned ? 2 : 1;	/* format 1 cannot say where an owner's log begins, so what is in the other place says nothing */
		b->fly_renew = false;	/* what is in flight now does not go to all of them */
	}
}

/*
 * Our kernel is another instance than that which wrote the log: all blocks are written anew, in both places, with sequences that no earlier owner can
 * have used for a write that may still land. The last one may have had one in flight that was not read.
 */
static void renew_begin(struct ddr_sm *sm)
{
	sm->own.renew_seq = ddr_sm_seq_top(sm) + 2;
	for (uint32_t i = 0; i < sm->own.n_log; i++)
		sm->own.log[i].seq = ddr_sm_seq_behind(sm->own.log[i].seq, sm->own.renew_seq);
	ddr_sm_log_renew(sm);
	sm->own.renew_sent = false;
	sm->own.start = DDR_S_RENEW;
}

/* The newest copy is used, and may lie on one member only: makes it durable on all (note 14). A member that is rebuilt may have none of it. */
static void plan_log(struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->own.n_log; i++)
		sm->own.log[i].dirty = !sm->own.log[i].loaded || ddr_any_of(ddr_sm_block_words(sm, sm->own.mark, &sm->own.log[i]));
	if (sm->shared.owned && sm->shared.sb.parity && !sm->shared.owners.slot[sm->own.slot].renewed)
		renew_begin(sm);
	else if (sm->shared.owned && sm->shared.sb.parity && ddr_sm_rebuilding(sm) != DDR_NO_MEMBER)
		ddr_sm_log_renew(sm);
}

/*
 * A grant is given when its mark is durable, and the mark stays until the grant is closed. So if the kernel holds a region that the
 * slot does not mark, another node has taken it over: this kernel was fenced (from its storage, since it still runs), and its node
 * only learns that now.
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
		ddr_sm_evict(sm, "the kernel module holds regions that this node's slot of the dirty log no longer marks: this node was fenced, "
			     "and other nodes took them over" DDR_SM_START_ANEW "; if only its disks were fenced, reboot the node instead");
		return;
	}
	if (sm->shared.sb.parity == 0) {
		memset(sm->own.mark, 0, sm->own.words * sizeof(uint64_t));
		memset(sm->own.rep, 0, sm->own.words * sizeof(uint64_t));
	}
	sm->own.n_mark = ddr_sm_marks(sm);	/* kept from here on */
	for (uint32_t i = 0; i < sm->own.n_log; i++)
		sm->own.log[i].dur_ours = names_our_kernel(sm, &sm->own.log[i]);
	for (uint64_t r = 0; r < sm->shared.regions; r++) {
		bool is_held = ddr_bit(sm->kernel.held, r), marked = ddr_bit(sm->own.mark, r);

		if (is_held)
			grant_declared(sm, r);
		if (!is_held && marked && ddr_bit(sm->own.rep, r))
			ddr_sm_look(sm, r);
		else if (is_held ? !marked || !ddr_sm_log_of(sm, r)->dur_ours : marked)
			ddr_sm_need_resync(sm, r);
		else if (is_held)
			ddr_sm_mark(sm, r);
	}
	plan_log(sm);
	sm->own.planned = true;
	for (uint64_t r = 0; r < sm->shared.regions; r++) {
		if (ddr_bit(sm->own.want, r))
			want(sm, r);
		ddr_sm_bits_changed(sm, r);
	}
	if (sm->own.n_resync) {
		out = ddr_sm_event(sm, DDR_EV_RECOVERY, NULL);
		out->a = sm->own.n_resync;
		out->b = sm->node;
	}
	sm->own.clear_scan = true;
	sm->again = true;
}

/* The same daemon, bound again: regions that the kernel closed meanwhile were never reported, so their writes may have failed. */
void ddr_sm_redeclared(struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->own.n_log; i++) {
		struct ddr_sm_log *b = &sm->own.log[i];

		if (!sm->kernel.same)
			b->dur_ours = false;
		b->dirty |= ddr_any_of(ddr_sm_block_words(sm, sm->own.mark, b));
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

void ddr_sm_started(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	sm->own.start = s->cluster ? DDR_S_READ : DDR_S_DONE;
	if (!s->cluster) {	/* in a cluster, the node that built the state has done this */
		ddr_sm_map_unread(sm, s);
		ddr_order_map_counts(s);
		ddr_sm_plan(sm);
	}
	sm->again = true;
}
