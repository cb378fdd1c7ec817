// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Members that hang. See array.h.
 *
 * The daemon's own I/O has a time limit, but in a granted region there is none of it: a
 * write of the kernel could wait for its member for as long as the member likes. So
 * once a second the counters of each member are read. I/O that is under way while none ends for
 * io_timeout is a failure, like the daemon's own I/O that does not end.
 */
#include <inttypes.h>
#include <stdio.h>

#include <qb/qblog.h>

#include "daemon/array/array.h"
#include "daemon/array/events.h"

#define SAMPLE_MS	1000u

/* How much has ended since boot (@ended), and how much is under way; false: nobody knows. */
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

static void look_at(struct ddr_array *a, unsigned int m, uint64_t now_ms)
{
	struct ddr_stall *s = &a->stall[m];
	uint64_t ended, flying;
	char text[DDR_DEVICE_PATH_LEN + 128];

	if (!read_counters(a->members->major[m], a->members->minor[m], &ended, &flying))
		return;
	if (!flying || ended != s->ended) {
		s->ended = ended;
		s->since_ms = now_ms;
		s->told = false;
		return;
	}
	if (s->told || now_ms - s->since_ms < a->tune.io_timeout_ms)
		return;
	s->told = true;
	snprintf(text, sizeof(text), "member %u (%s) has not answered for %" PRIu64 " s", m, a->members->name[m],
		 (now_ms - s->since_ms) / 1000);
	ddr_event_plain(a, LOG_ERR, "hangs", text);
	ddr_drive_fail(a, m);		/* the state machine says why not, if not */
}

void ddr_stall_tick(struct ddr_array *a, uint64_t now_ms)
{
	struct ddr_sm_status st;

	if (!a->ready || now_ms - a->stall_at_ms < SAMPLE_MS)
		return;
	a->stall_at_ms = now_ms;
	ddr_sm_get_status(a->sm, &st);
	for (unsigned int m = 0; m < a->members->n; m++)
		if (a->members->named & (1u << m) && (st.member_state[m] == DDR_MEMBER_IN_SYNC ||
						      st.member_state[m] == DDR_MEMBER_REBUILDING))
			look_at(a, m, now_ms);
}
