// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The local time of day. See zone.h.
 *
 * The time zone may change while the daemon runs, so its file is read from time to time: by a thread, and only while somebody asks
 * for the time. Must never: read a file in the loop, or wait for a lock that this thread holds: the file system may lie on an array
 * that waits for us.
 */
#include <string.h>
#include <time.h>

#include <qb/qblog.h>

#include "daemon/base/worker.h"
#include "daemon/base/zone.h"

#define LOOK_MS		60000u
#define DAY_S		86400

static struct zone {
	struct ddr_worker worker;
	bool looks;		/* the thread is using the fields below, except @seen, @offset and @due_ms */
	bool found;
	long found_offset;
	bool seen;
	long offset;		/* seconds to add to universal time */
	uint64_t due_ms;
} zone;

static void look(struct ddr_worker *w)
{
	struct zone *z = ddr_worker_of(w, struct zone, worker);
	time_t now = time(NULL);
	struct tm tm;

	tzset();	/* localtime_r alone only reads the zone once */
	z->found = localtime_r(&now, &tm);
	z->found_offset = tm.tm_gmtoff;
}

static void looked(struct ddr_worker *w)
{
	struct zone *z = ddr_worker_of(w, struct zone, worker);

	z->looks = false;
	if (!z->found)
		return;
	z->seen = true;
	z->offset = z->found_offset;
}

bool ddr_zone_hour(struct ddr_daemon *d, uint64_t now, uint64_t now_ms, unsigned int *hour)
{
	struct zone *z = &zone;
	int ret;

	if (!z->looks && now_ms >= z->due_ms) {
		z->due_ms = now_ms + LOOK_MS;
		z->worker = (struct ddr_worker){ .run = look, .done = looked };
		ret = ddr_worker_start(&z->worker, d->loop);
		z->looks = ret == 0;
		if (ret)
			qb_log(LOG_WARNING, "cannot read the time zone: %s", strerror(-ret));
	}
	*hour = (unsigned int)(((int64_t)(now % DAY_S) + z->offset % DAY_S + DAY_S) % DAY_S / 3600);
	return z->seen;
}
