// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The pace of resync and of verify. See array.h.
 *
 * Two credits of blocks, filled four times a second with a quarter of what resync is to have and of what it may have at most, and spent
 * by each range that ends. Below one block resync pauses until it is filled again.
 *
 * Nobody knows how fast the disks are, so a priority is a share of the time: work that took t, while others use the disks,
 * is followed by a rest in proportion. Verify has nothing else; resync and rebuild have at least resync_min_rate.
 */
#include <inttypes.h>
#include <stdio.h>

#include "daemon/array.h"

#define SAMPLE_MS	250u
#define SCANS		2u		/* reads of verify that run side by side */
#define SCAN_BLOCKS	128u		/* shorter ones say little about the disks */
#define REST_US		50000u		/* verify rests when it owes so much ... */
#define REST_MAX_US	10000000u	/* ... and never longer than this */

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

/* By this node, or by another one of the cluster: these say so whenever they leave a range to a job of ours. */
static bool in_use(const struct ddr_array *a)
{
	return a->rate.busy || ddr_sm_used_elsewhere(a->sm);
}

static uint64_t limit(const struct ddr_array *a, bool busy)
{
	const struct ddr_tunables *t = &a->tune;
	uint64_t bytes = t->resync_max ? t->resync_max : UINT64_MAX;

	if (busy && t->resync_min < bytes)
		bytes = t->resync_min;
	return bytes / DDR_BLOCK_SIZE;
}

/* Of a hundred parts of the time, by priority: what background work may have while others use the disks. */
static const uint32_t share[] = { 2, 100, 50, 20, 8, 2 };

/* How long work of @us has to leave the disks to others, where @side_by_side of it run. */
static uint64_t rest_after(uint64_t priority, uint64_t us, uint64_t side_by_side)
{
	uint32_t part = share[priority < sizeof(share) / sizeof(share[0]) ? priority : 0];

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

/* The quarter of a second's part of @per_s blocks is added to what was overdrawn. */
static int64_t refill(int64_t credit, uint64_t per_s)
{
	uint64_t quota = per_s / (1000 / SAMPLE_MS);

	quota = quota < 1 ? 1 : quota > INT64_MAX / 2 ? INT64_MAX / 2 : quota;
	return credit > 0 ? (int64_t)quota : credit + (int64_t)quota;
}

/* ---- verify --------------------------------------------------------------------- */

static void scan_pause(struct ddr_array *a, bool pause)
{
	if (pause == a->rate.scan_paused)
		return;
	a->rate.scan_paused = pause;
	a->rate.scan_cut = true;
	ddr_drive_set(a, DDR_SM_VERIFY_PAUSED, pause);
}

/* Reads that take three times as long as they can meet those of somebody else: of another node, whose I/O is not seen here. */
static bool crowded(const struct ddr_array *a, uint64_t ns)
{
	return a->rate.best_ns && ns > 3 * a->rate.best_ns;
}

/*
 * What a block costs is known from a sample in which verify had the disks for itself, from its first moment to its last.
 * One read does not tell: caches, and limits that let a burst pass, answer it faster than they can go on, and others wait for that later.
 */
static void learn_cost(struct ddr_array *a, uint64_t ms)
{
	bool whole = a->rate.scanned >= SCAN_BLOCKS && !a->rate.busy && !a->rate.scan_cut;
	uint64_t ns = whole ? ms * 1000000 / a->rate.scanned : 0;

	if (whole && a->rate.scan_whole)
		a->rate.alone_ns = !a->rate.alone_ns || ns < a->rate.alone_ns ? ns : a->rate.alone_ns + (ns - a->rate.alone_ns) / 16;
	a->rate.scan_whole = whole;
	a->rate.scan_cut = a->rate.scan_paused;
}

void ddr_rate_scanned(struct ddr_array *a, uint64_t blocks, uint64_t us)
{
	uint32_t priority = ddr_sm_super(a->sm)->verify.priority;
	uint64_t ns = blocks ? us * 1000 / blocks : 0;
	bool known = ddr_now_ms() - a->rate.busy_ms < 2 * SAMPLE_MS;
	bool busy = !known || a->rate.busy || crowded(a, ns);
	uint64_t alone_us = blocks * a->rate.alone_ns * SCANS / 1000;

	a->rate.scanned += blocks;
	if (ns && blocks >= SCAN_BLOCKS && (!a->rate.best_ns || ns < a->rate.best_ns))
		a->rate.best_ns = ns;
	a->rate.scan_cut |= busy;
	if (!busy)
		a->rate.debt_us = 0;
	else
		a->rate.debt_us += rest_after(priority, us > alone_us ? us : alone_us, SCANS);
	if (a->rate.debt_us > REST_MAX_US)
		a->rate.debt_us = REST_MAX_US;
	if (a->rate.debt_us >= REST_US)
		scan_pause(a, true);
}

static void pay(uint64_t *debt_us, uint64_t us)
{
	*debt_us -= us < *debt_us ? us : *debt_us;
}

static void debts_tick(struct ddr_array *a, uint64_t now_ms)
{
	uint64_t us = (now_ms - a->rate.scan_at_ms) * 1000;

	a->rate.scan_at_ms = now_ms;
	pay(&a->rate.job_debt_us, us);
	if (a->rate.scan_closed)
		scan_pause(a, true);
	if (!a->rate.scan_paused)
		return;
	pay(&a->rate.debt_us, us);
	if (!a->rate.debt_us && !a->rate.scan_closed)
		scan_pause(a, false);
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
	a->rate.best_ns += a->rate.best_ns >> 10;	/* what was fastest long ago says nothing of the disks now */
	a->rate.credit = refill(a->rate.credit, limit(a, in_use(a)));
	a->rate.most = refill(a->rate.most, limit(a, false));
	pause_if_spent(a);
}
