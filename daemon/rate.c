// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The pace of resync. See array.h.
 *
 * A credit of blocks, filled four times a second with a quarter of the limit, and spent
 * by each range that ends. Below one block resync pauses until it is filled again.
 */
#include <inttypes.h>
#include <stdio.h>

#include "daemon/array.h"

#define SAMPLE_MS	250u

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

void ddr_rate_tick(struct ddr_array *a, uint64_t now_ms)
{
	uint64_t ms = now_ms - a->rate.at_ms, io, quota;

	if (ms < SAMPLE_MS)
		return;
	a->rate.at_ms = now_ms;
	if (a->rate.done || a->rate.paused || a->rate.per_s) {
		io = device_io(a);
		a->rate.busy = io != a->rate.io_seen;
		a->rate.io_seen = io;
	}
	a->rate.per_s = (a->rate.per_s * 7 + a->rate.done * 1000 / ms) / 8;
	a->rate.done = 0;
	quota = limit(a) / (1000 / SAMPLE_MS);
	if (quota < 1)
		quota = 1;
	if (quota > INT64_MAX / 2)
		quota = INT64_MAX / 2;
	a->rate.credit = a->rate.credit > 0 ? (int64_t)quota : a->rate.credit + (int64_t)quota;
	pause_if_spent(a);
}
