// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The pace of resync and of verify. See array.h.
 *
 * Of each two credits of blocks, of what it is to have and of what it may have at most: filled some four times a second with as much as
 * belongs to the time since then, and spent by each range that ends. Below one block it pauses until it is filled again.
 *
 * Nobody knows how fast the disks are, so a priority is a share of the time: work that took t, while others use the disks,
 * is followed by a rest in proportion. With the first credit left there is none.
 */
#include <inttypes.h>
#include <stdio.h>

#include "daemon/array/array.h"
#include "lib/priority.h"

#define SAMPLE_MS	250u
#define REFILL_MAX_MS	1000u		/* of a time in which nobody looked, so much is made up for */
#define SCANS		2u		/* reads of verify that run side by side */
#define SCAN_BLOCKS	128u		/* shorter ones say little about the disks */
#define REST_US		50000u		/* verify rests when it owes so much ... */
#define REST_MAX_US	10000000	/* ... and never longer than this */
#define REST_AHEAD_US	100000		/* rests end with a tick, so by so much too late: that counts for the next one */

/* Sectors that the mapped device has served; resync's own I/O does not go through it. */
static uint64_t device_io(const struct ddr_array *a)
{
	uint64_t read = 0, written = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/stat", a->bind.dm_major, a->bind.dm_minor);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%*u %*u %" SCNu64 " %*u %*u %*u %" SCNu64, &read, &written) != 2)
		read = written = 0;
	fclose(f);
	return read + written;
}

/* By this node, or by another one of the cluster: these say so. */
static bool in_use(const struct ddr_array *a)
{
	return a->rate.busy || ddr_sm_used_elsewhere(a->sm);
}

/* Bytes a second. */
static uint64_t at_most(uint64_t limit)
{
	return limit ? limit : UINT64_MAX;
}

/* How long work of @us has to leave the disks to others, where @side_by_side of it run. */
static uint64_t rest_after(uint64_t priority, uint64_t us, uint64_t side_by_side)
{
	uint32_t part = ddr_priority_share(priority);

	return us * (100 - part) / part / side_by_side;
}

/* ---- resync and rebuild ---------------------------------------------------------- */

static void pause_if_spent(struct ddr_array *a)
{
	bool share_left = in_use(a) && a->tune.resync_priority < 5 && a->rate.job_debt_us == 0;	/* with 5 it has resync_min_rate alone */
	bool spent = a->rate.credit < 1 && !share_left;
	bool pause = spent || a->rate.most < 1;

	/* resuming would end a clean stop */
	if (pause == a->rate.paused || (!pause && ddr_now_ms() < a->quiet_until_ms))
		return;
	a->rate.paused = pause;
	ddr_drive_set(a, DDR_SM_RESYNC_PAUSED, pause || !a->tune.resync);
}

void ddr_rate_done(struct ddr_array *a, uint64_t blocks, uint64_t us)
{
	a->rate.done += blocks;
	if (a->rate.credit >= 1 || !in_use(a))	/* what its share of the time allowed beyond costs nothing */
		a->rate.credit -= (int64_t)blocks;
	a->rate.most -= (int64_t)blocks;
	if (in_use(a))
		a->rate.job_debt_us += rest_after(a->tune.resync_priority, us, a->tune.resync_parallel);
	else
		a->rate.job_debt_us = 0;
	if (a->rate.job_debt_us > REST_MAX_US)
		a->rate.job_debt_us = REST_MAX_US;
	pause_if_spent(a);
}

/* What @bytes a second are in @ms, but for 0 one block at least, is added to what was overdrawn. Blocks. */
static int64_t refill(int64_t credit, uint64_t bytes, uint64_t ms)
{
	int64_t quota = (int64_t)(bytes / DDR_BLOCK_SIZE * (ms < REFILL_MAX_MS ? ms : REFILL_MAX_MS) / 1000);

	if (!bytes)
		return 0;
	quota = quota < 1 ? 1 : quota;
	return credit > 0 ? quota : credit + quota;
}

/* ---- verify --------------------------------------------------------------------- */

/* It rests from when it owes enough to make that worth while, until it owes nothing. */
static void scan_pace(struct ddr_array *a)
{
	bool owes = a->rate.debt_us >= (a->rate.scan_paused ? 1 : REST_US);
	bool spent = a->tune.verify_max && a->rate.scan_most < 1;
	bool pause = a->rate.scan_closed || spent || (owes && a->rate.scan_credit < 1);

	if (pause == a->rate.scan_paused)
		return;
	a->rate.scan_paused = pause;
	a->rate.scan_cut = true;
	ddr_drive_set(a, DDR_SM_VERIFY_PAUSED, pause);
}

/*
 * What a block costs is known from a sample in which verify had the disks for itself, from its first moment to its last.
 * One read does not tell: caches, and limits that let a burst pass, answer it faster than they can go on, and others wait for that later.
 */
static void learn_cost(struct ddr_array *a, uint64_t ms)
{
	bool whole = a->rate.scanned >= SCAN_BLOCKS && !in_use(a) && !a->rate.scan_cut;
	uint64_t ns = whole ? ms * 1000000 / a->rate.scanned : 0;

	if (whole && a->rate.scan_whole)
		a->rate.alone_ns = !a->rate.alone_ns || ns < a->rate.alone_ns ? ns : a->rate.alone_ns + (ns - a->rate.alone_ns) / 16;
	a->rate.scan_whole = whole;
	a->rate.scan_cut = a->rate.scan_paused;
}

void ddr_rate_scanned(struct ddr_array *a, uint64_t blocks, uint64_t us)
{
	uint32_t priority = ddr_sm_super(a->sm)->verify.priority;
	bool known = ddr_now_ms() - a->rate.busy_ms < 2 * SAMPLE_MS;
	bool busy = !known || in_use(a);
	uint64_t alone_us = blocks * a->rate.alone_ns * SCANS / 1000;

	a->rate.scanned += blocks;
	a->rate.scan_cut |= busy;
	if (!busy)
		a->rate.debt_us = 0;
	else
		a->rate.debt_us += (int64_t)rest_after(priority, us > alone_us ? us : alone_us, SCANS);
	if (a->rate.debt_us > REST_MAX_US)
		a->rate.debt_us = REST_MAX_US;
	a->rate.scan_end_ms = ddr_now_ms();
	if (a->rate.scan_credit >= 1)
		a->rate.scan_credit -= (int64_t)blocks;
	a->rate.scan_most -= (int64_t)blocks;
	scan_pace(a);
}

/* A read that was still under way when the rest was called is work: the rest begins with its end. */
static void scan_rested(struct ddr_array *a, uint64_t now_ms)
{
	uint64_t since = a->rate.scan_end_ms > a->rate.tick_ms ? a->rate.scan_end_ms : a->rate.tick_ms;

	if (!a->rate.scan_paused || !ddr_sm_scans_idle(a->sm))
		return;
	a->rate.debt_us -= (int64_t)(now_ms - since) * 1000;
	if (a->rate.debt_us < -REST_AHEAD_US)
		a->rate.debt_us = -REST_AHEAD_US;
}

static void debts_tick(struct ddr_array *a, uint64_t now_ms)
{
	uint64_t us = (now_ms - a->rate.tick_ms) * 1000;

	a->rate.job_debt_us -= us < a->rate.job_debt_us ? us : a->rate.job_debt_us;
	scan_rested(a, now_ms);
	a->rate.tick_ms = now_ms;
	scan_pace(a);
}

static void tell_use(struct ddr_array *a)
{
	if (a->rate.busy == a->rate.used)
		return;
	a->rate.used = a->rate.busy;
	ddr_drive_set(a, DDR_SM_USED, a->rate.used);
}

void ddr_rate_tick(struct ddr_array *a, uint64_t now_ms)
{
	uint64_t ms = now_ms - a->rate.at_ms, io;

	debts_tick(a, now_ms);
	if (ms < SAMPLE_MS) {
		if (a->rate.paused)
			pause_if_spent(a);
		return;
	}
	a->rate.at_ms = now_ms;
	io = device_io(a);		/* whether anything works or not: the first look after a rest would see what was long ago */
	a->rate.busy = io != a->rate.io_seen;
	tell_use(a);
	a->rate.io_seen = io;
	a->rate.busy_ms = now_ms;
	a->rate.per_s = (a->rate.per_s * 7 + a->rate.done * 1000 / ms) / 8;
	a->rate.done = 0;
	learn_cost(a, ms);
	a->rate.scan_per_s = (a->rate.scan_per_s * 7 + a->rate.scanned * 1000 / ms) / 8;
	a->rate.scanned = 0;
	a->rate.credit = refill(a->rate.credit, in_use(a) ? a->tune.resync_min : at_most(a->tune.resync_max), ms);
	a->rate.most = refill(a->rate.most, at_most(a->tune.resync_max), ms);
	a->rate.scan_credit = refill(a->rate.scan_credit, a->tune.verify_min, ms);
	a->rate.scan_most = refill(a->rate.scan_most, at_most(a->tune.verify_max), ms);
	pause_if_spent(a);
}
