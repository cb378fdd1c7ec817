// SPDX-License-Identifier: GPL-2.0-or-later
/* Members that hang. See stall.h. */
#include "daemon/base/pulse.h"
#include "daemon/disk/blkstat.h"
#include "daemon/disk/stall.h"

#define SAMPLE_MS	1000u	/* while I/O is under way */
#define IDLE_PARTS	8u	/* else so many looks within the time that a member has */

static void look_at(struct ddr_stall *s, unsigned int m, uint64_t now_ms, uint64_t before_ms, uint64_t limit_ms)
{
	struct ddr_blkstat st;

	if (!ddr_blkstat(s->members->major[m], s->members->minor[m], &st))
		return;
	if (!st.flying || st.ended != s->member[m].ended) {
		s->member[m].ended = st.ended;
		s->member[m].since_ms = now_ms;
		s->member[m].flying = st.flying;
		s->member[m].told = false;
		return;
	}
	/* it may have begun just now, if the last look was long ago */
	if (!s->member[m].flying && now_ms - before_ms > SAMPLE_MS)
		s->member[m].since_ms = now_ms - SAMPLE_MS;
	s->member[m].flying = true;
	if (s->member[m].told || now_ms - s->member[m].since_ms < limit_ms)
		return;
	s->member[m].told = true;
	s->hangs(s->ctx, m, now_ms - s->member[m].since_ms);
}

uint64_t ddr_stall_next(const struct ddr_stall *s, uint64_t now_ms, uint64_t limit_ms)
{
	uint64_t rarely = limit_ms / IDLE_PARTS > SAMPLE_MS ? limit_ms / IDLE_PARTS : SAMPLE_MS;

	for (unsigned int m = 0; m < s->members->n; m++)
		if (s->member[m].flying)
			return s->at_ms + SAMPLE_MS;
	return ddr_pulse_grid(now_ms, rarely);
}

void ddr_stall_tick(struct ddr_stall *s, uint64_t now_ms, uint64_t limit_ms)
{
	uint64_t before = s->at_ms;
	uint32_t watched;

	if (now_ms - s->at_ms < SAMPLE_MS)
		return;
	s->at_ms = now_ms;
	watched = s->watched(s->ctx);
	for (unsigned int m = 0; m < s->members->n; m++) {
		if (watched & s->members->named & (1u << m))
			look_at(s, m, now_ms, before, limit_ms);
		else
			s->member[m].flying = false;
	}
}
