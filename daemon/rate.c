// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The pace of resync and of verify. See array.h.
 *
 * A credit of blocks, filled four times a second with a quarter of the limit, and spent
 * by each range that ends. Below one block resync pauses until it is filled again.
 *
 * Verify is not paced by a rate but by a share of the time, since nobody knows how fast the disks are: a read
 * that took t, while others use them, is followed by a rest in proportion.
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

static uint64_t limit(const struct ddr_array *a)
{
	const struct ddr_tunables *t = &a->tune;
	uint64_t bytes = t->resync_max ? t->resync_max : UINT64_MAX;

	if (a->rate.busy && t->resync_min < bytes)
		bytes = t->resync_min;
	return bytes / DDR_BLOCK_SIZE;
}

static void pause_if_spent(struct ddr_array *a)
{
	bool pause = a->rate.credit < 1;

	/* resuming would end a clean stop */
	if (pause == a->rate.paused || (!pause && ddr_now_ms() < a->quiet_until_ms))
		return;
	a->rate.paused = pause;
	ddr_drive_set(a, DDR_SM_RESYNC_PAUSED, pause || !a->tune.resync);
}

void ddr_rate_done(struct ddr_array *a, uint64_t blocks)
{
	a->rate.done += blocks;
	a->rate.credit -= (int64_t)blocks;
	pause_if_spent(a);
}

/* ---- verify --------------------------------------------------------------------- */

static void scan_pause(struct ddr_array *a, bool pause)
{
	if (pause == a->rate.scan_paused)
		return;
	a->rate.scan_paused = pause;
	ddr_drive_set(a, DDR_SM_VERIFY_PAUSED, pause);
}

/* Of a hundred parts of the time, by priority: what verify may have while others use the disks. */
static const uint32_t share[] = { 2, 100, 50, 20, 8, 2 };

/* Reads that take three times as long as they can meet those of somebody else: of another node, whose I/O is not seen here. */
static bool crowded(const struct ddr_array *a, uint64_t ns)
{
	return a->rate.best_ns && ns > 3 * a->rate.best_ns;
}

void ddr_rate_scanned(struct ddr_array *a, uint64_t blocks, uint64_t us)
{
	uint32_t priority = ddr_sm_super(a->sm)->verify.priority;
	uint64_t ns = blocks ? us * 1000 / blocks : 0;
	bool known = ddr_now_ms() - a->rate.busy_ms < 2 * SAMPLE_MS;
	bool busy = !known || a->rate.busy || crowded(a, ns);

	a->rate.scanned += blocks;
	if (ns && blocks >= SCAN_BLOCKS && (!a->rate.best_ns || ns < a->rate.best_ns))
		a->rate.best_ns = ns;
	if (!busy)
		a->rate.debt_us = 0;
	else if (priority < sizeof(share) / sizeof(share[0]))
		a->rate.debt_us += us * (100 - share[priority]) / share[priority] / SCANS;
	if (a->rate.debt_us > REST_MAX_US)
		a->rate.debt_us = REST_MAX_US;
	if (a->rate.debt_us >= REST_US)
		scan_pause(a, true);
}

static void scan_tick(struct ddr_array *a, uint64_t now_ms)
{
	uint64_t us = (now_ms - a->rate.scan_at_ms) * 1000;

	a->rate.scan_at_ms = now_ms;
	if (a->rate.scan_closed)
		scan_pause(a, true);
	if (!a->rate.scan_paused)
		return;
	a->rate.debt_us -= us < a->rate.debt_us ? us : a->rate.debt_us;
	if (!a->rate.debt_us && !a->rate.scan_closed)
		scan_pause(a, false);
}

void ddr_rate_tick(struct ddr_array *a, uint64_t now_ms)
{
	uint64_t ms = now_ms - a->rate.at_ms, io, quota;

	scan_tick(a, now_ms);
	if (ms < SAMPLE_MS)
		return;
	a->rate.at_ms = now_ms;
	if (a->rate.done || a->rate.paused || a->rate.per_s || a->rate.scanned || a->rate.scan_paused || a->rate.scan_per_s) {
		io = device_io(a);
		a->rate.busy = io != a->rate.io_seen;
		a->rate.io_seen = io;
		a->rate.busy_ms = now_ms;
	}
	a->rate.per_s = (a->rate.per_s * 7 + a->rate.done * 1000 / ms) / 8;
	a->rate.done = 0;
	a->rate.scan_per_s = (a->rate.scan_per_s * 7 + a->rate.scanned * 1000 / ms) / 8;
	a->rate.scanned = 0;
	a->rate.best_ns += a->rate.best_ns >> 10;	/* what was fastest long ago says nothing of the disks now */
	quota = limit(a) / (1000 / SAMPLE_MS);
	if (quota < 1)
		quota = 1;
	if (quota > INT64_MAX / 2)
		quota = INT64_MAX / 2;
	a->rate.credit = a->rate.credit > 0 ? (int64_t)quota : a->rate.credit + (int64_t)quota;
	pause_if_spent(a);
}
