// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The rate of resync and of verify. See rate.h.
 *
 * Each has two credits of blocks, for its minimum and its maximum rate. They are refilled about four times a second with the blocks
 * that belong to the time since then, and each range that ends is charged to them. Below one block the work pauses until the next
 * refill.
 *
 * The speed of the disks is unknown, so a priority is a share of the time: work that took t, while others use the disks, is followed
 * by a pause in proportion to t. While the credit of the minimum rate lasts there is no pause.
 */
#include <inttypes.h>
#include <stdio.h>

#include "daemon/base/clock.h"
#include "daemon/job/rate.h"
#include "lib/disk/format.h"
#include "lib/priority.h"

#define SAMPLE_MS	250u
#define REFILL_MAX_MS	1000u		/* after a longer time without a sample, only this much is refilled */
#define SCANS		2u		/* reads of verify in parallel */
#define SCAN_BLOCKS	128u		/* a sample with fewer blocks says little about the disks */
#define REST_US		50000u		/* verify pauses when the pauses that it owes add up to this ... */
#define REST_MAX_US	10000000	/* ... and never longer than this */
#define REST_AHEAD_US	100000		/* a pause ends with a tick, so up to this much too late, which is deducted from the next one */

/* Sectors that the mapped device has served; resync's own I/O does not go through it. */
static uint64_t device_io(const struct ddr_rate *r)
{
	uint64_t read = 0, written = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/stat", r->major, r->minor);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%*u %*u %" SCNu64 " %*u %*u %*u %" SCNu64, &read, &written) != 2)
		read = written = 0;
	fclose(f);
	return read + written;
}

/* In use by this node, or by another one of the cluster, as it reports. */
static bool in_use(const struct ddr_rate *r)
{
	return r->busy || ddr_sm_used_elsewhere(r->sm);
}

/* Bytes a second. */
static uint64_t at_most(uint64_t limit)
{
	return limit ? limit : UINT64_MAX;
}

/* How long work of @us has to pause afterwards, if @side_by_side ranges run in parallel. */
static uint64_t rest_after(uint64_t priority, uint64_t us, uint64_t side_by_side)
{
	uint32_t part = ddr_priority_share(priority);

	return us * (100 - part) / part / side_by_side;
}

/*
 * What is left of @credit after @blocks were processed. The credit may be overdrawn by the ranges that run in parallel, since they
 * were started while there was some left. Work beyond the credit, which the share of the time allows, is not charged further: it does
 * not have to be paid back later.
 */
static int64_t charged(int64_t credit, uint64_t blocks, uint64_t side_by_side)
{
	int64_t least = -(int64_t)(blocks * side_by_side), left = credit - (int64_t)blocks;

	if (left >= least)
		return left;
	return credit < least ? credit : least;
}

/* ---- resync and rebuild ---------------------------------------------------------- */

static void pause_if_spent(struct ddr_rate *r)
{
	bool share_left = in_use(r) && r->tune->resync_priority < 5 && r->job_debt_us == 0;	/* with priority 5 it only has resync_min_rate */
	bool spent = r->credit < 1 && !share_left;
	bool pause = spent || r->most < 1;

	/* resuming would end a clean stop */
	if (pause == r->paused || (!pause && ddr_now_ms() < *r->quiet_until_ms))
		return;
	r->paused = pause;
	r->set(r->ctx, DDR_SM_RESYNC_PAUSED, pause || !r->tune->resync);
}

void ddr_rate_done(struct ddr_rate *r, uint64_t blocks, uint64_t us)
{
	r->done += blocks;
	r->credit = charged(r->credit, blocks, r->tune->resync_parallel);
	r->most -= (int64_t)blocks;
	if (in_use(r))
		r->job_debt_us += rest_after(r->tune->resync_priority, us, r->tune->resync_parallel);
	else
		r->job_debt_us = 0;
	if (r->job_debt_us > REST_MAX_US)
		r->job_debt_us = REST_MAX_US;
	pause_if_spent(r);
}

/* The credit after a refill with @bytes a second for @ms: at least one block unless @bytes is 0; an overdraft is deducted. In blocks. */
static int64_t refill(int64_t credit, uint64_t bytes, uint64_t ms)
{
	int64_t quota = (int64_t)(bytes / DDR_BLOCK_SIZE * (ms < REFILL_MAX_MS ? ms : REFILL_MAX_MS) / 1000);

	if (!bytes)
		return 0;
	quota = quota < 1 ? 1 : quota;
	return credit > 0 ? quota : credit + quota;
}

/* ---- verify --------------------------------------------------------------------- */

/* Verify pauses once it owes enough to make a pause worthwhile, until it owes nothing. */
static void scan_pace(struct ddr_rate *r)
{
	bool owes = r->debt_us >= (r->scan_paused ? 1 : REST_US);
	bool spent = r->tune->verify_max && r->scan_most < 1;
	bool pause = r->scan_closed || spent || (owes && r->scan_credit < 1);

	if (pause == r->scan_paused)
		return;
	r->scan_paused = pause;
	r->scan_cut = true;
	r->set(r->ctx, DDR_SM_VERIFY_PAUSED, pause);
}

/*
 * The cost of a block is measured in a sample during which verify had the disks for itself from beginning to end. A single read is
 * not enough: caches, and limits that allow bursts, answer it faster than they can sustain, and others would wait for that later.
 */
static void learn_cost(struct ddr_rate *r, uint64_t ms)
{
	bool whole = r->scanned >= SCAN_BLOCKS && !in_use(r) && !r->scan_cut;
	uint64_t ns = whole ? ms * 1000000 / r->scanned : 0;

	if (whole && r->scan_whole)
		r->alone_ns = !r->alone_ns || ns < r->alone_ns ? ns : r->alone_ns + (ns - r->alone_ns) / 16;
	r->scan_whole = whole;
	r->scan_cut = r->scan_paused;
}

void ddr_rate_scanned(struct ddr_rate *r, uint64_t blocks, uint64_t us)
{
	uint32_t priority = ddr_sm_super(r->sm)->verify.priority;
	bool known = ddr_now_ms() - r->busy_ms < 2 * SAMPLE_MS;
	bool busy = !known || in_use(r);
	uint64_t alone_us = blocks * r->alone_ns * SCANS / 1000;

	r->scanned += blocks;
	r->scan_cut |= busy;
	if (!busy)
		r->debt_us = 0;
	else
		r->debt_us += (int64_t)rest_after(priority, us > alone_us ? us : alone_us, SCANS);
	if (r->debt_us > REST_MAX_US)
		r->debt_us = REST_MAX_US;
	r->scan_end_ms = ddr_now_ms();
	r->scan_credit = charged(r->scan_credit, blocks, SCANS);
	r->scan_most -= (int64_t)blocks;
	scan_pace(r);
}

/* A read that was still in progress when the pause was due counts as work: the pause starts when it ends. */
static void scan_rested(struct ddr_rate *r, uint64_t now_ms)
{
	uint64_t since = r->scan_end_ms > r->tick_ms ? r->scan_end_ms : r->tick_ms;

	if (!r->scan_paused || !ddr_sm_scans_idle(r->sm))
		return;
	r->debt_us -= (int64_t)(now_ms - since) * 1000;
	if (r->debt_us < -REST_AHEAD_US)
		r->debt_us = -REST_AHEAD_US;
}

static void debts_tick(struct ddr_rate *r, uint64_t now_ms)
{
	uint64_t us = (now_ms - r->tick_ms) * 1000;

	r->job_debt_us -= us < r->job_debt_us ? us : r->job_debt_us;
	scan_rested(r, now_ms);
	r->tick_ms = now_ms;
	scan_pace(r);
}

static void tell_use(struct ddr_rate *r)
{
	if (r->busy == r->used)
		return;
	r->used = r->busy;
	r->set(r->ctx, DDR_SM_USED, r->used);
}

void ddr_rate_tick(struct ddr_rate *r, uint64_t now_ms)
{
	uint64_t ms = now_ms - r->at_ms, io;

	debts_tick(r, now_ms);
	if (ms < SAMPLE_MS) {
		if (r->paused)
			pause_if_spent(r);
		return;
	}
	r->at_ms = now_ms;
	io = device_io(r);		/* sampled in any case: otherwise the first sample after a pause would see I/O of long ago */
	r->busy = io != r->io_seen;
	tell_use(r);
	r->io_seen = io;
	r->busy_ms = now_ms;
	r->per_s = (r->per_s * 7 + r->done * 1000 / ms) / 8;
	r->done = 0;
	learn_cost(r, ms);
	r->scan_per_s = (r->scan_per_s * 7 + r->scanned * 1000 / ms) / 8;
	r->scanned = 0;
	r->credit = refill(r->credit, in_use(r) ? r->tune->resync_min : at_most(r->tune->resync_max), ms);
	r->most = refill(r->most, at_most(r->tune->resync_max), ms);
	r->scan_credit = refill(r->scan_credit, r->tune->verify_min, ms);
	r->scan_most = refill(r->scan_most, at_most(r->tune->verify_max), ms);
	pause_if_spent(r);
}
