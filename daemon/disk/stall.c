// SPDX-License-Identifier: GPL-2.0-or-later
/* Detects members that hang. See stall.h. */
#include <inttypes.h>
#include <stdio.h>

#include "daemon/disk/stall.h"

#define SAMPLE_MS	1000u
#define REST_PART	6u		/* of the limit: between two looks while no member has I/O under way ... */
#define REST_MS		10000u		/* ... but never more */

/* The number of requests ended since boot (@ended), and of those in flight; false: unknown. */
static bool read_counters(unsigned int major, unsigned int minor, uint64_t *ended, uint64_t *flying)
{
	uint64_t n[17] = { 0 };
	char path[64];
	unsigned int i = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/stat", major, minor);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (i < 17 && fscanf(f, "%" SCNu64, &n[i]) == 1)
		i++;
	fclose(f);
	*ended = n[0] + n[4] + n[11] + n[15];	/* reads, writes, discards, flushes */
	*flying = n[8];
	return i > 8;
}

static void look_at(struct ddr_stall *s, unsigned int m, uint64_t now_ms, uint64_t limit_ms)
{
	uint64_t ended, flying, ours = 0;

	if (!read_counters(s->members->major[m], s->members->minor[m], &ended, &flying))
		return;
	flying += s->asked(s->ctx, m, &ours);
	ended += ours;
	s->flying |= flying != 0;
	/* what was not under way at the last look began since then: it must not count as old */
	if (!flying || ended != s->member[m].ended || !s->member[m].flying) {
		s->member[m].flying = flying != 0;
		s->member[m].ended = ended;
		s->member[m].since_ms = now_ms;
		s->member[m].told = false;
		return;
	}
	if (s->member[m].told || now_ms - s->member[m].since_ms < limit_ms)
		return;
	s->member[m].told = true;
	s->hangs(s->ctx, m, now_ms - s->member[m].since_ms);
}

void ddr_stall_tick(struct ddr_stall *s, uint64_t now_ms, uint64_t limit_ms)
{
	uint64_t rest = limit_ms / REST_PART < REST_MS ? limit_ms / REST_PART : REST_MS;
	uint32_t watched;

	if (now_ms - s->at_ms < (s->flying || rest < SAMPLE_MS ? SAMPLE_MS : rest))
		return;
	s->at_ms = now_ms;
	s->flying = false;
	watched = s->watched(s->ctx);
	for (unsigned int m = 0; m < s->members->n; m++)
		if (watched & s->members->named & (1u << m))
			look_at(s, m, now_ms, limit_ms);
}
