// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Looking for the devices of members. See finder.h.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <qb/qblog.h>

#include "daemon/finder.h"
#include "daemon/members.h"
#include "lib/scan.h"

#define LOCK_MS	3000u

/* The member that a superblock speaks for, or -1: it is not looked for. */
static int wanted(const struct ddr_finder *f, const struct ddr_super *sb)
{
	const uint8_t *own = sb->member[sb->this_member].uuid;

	if (memcmp(sb->array_uuid, f->array, sizeof(f->array)) != 0)
		return -1;
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		if ((f->want & (1u << m)) && memcmp(own, f->uuid[m], sizeof(f->uuid[m])) == 0)
			return (int)m;
	return -1;
}

static void take(struct ddr_finder *f, unsigned int m, const char *path, const struct ddr_super *sb)
{
	struct ddr_dev dev;

	if (f->found & (1u << m)) {
		ddr_error_set(&f->error[m], "%s and another device are both member %u: one is a copy of the other, or both are paths to one disk",
			      path, m);
		f->found &= ~(1u << m);
		ddr_dev_close(&f->dev[m]);
		f->want &= ~(1u << m);
		return;
	}
	if (ddr_dev_open(&dev, path, DDR_DEV_WRITE | DDR_DEV_OWN, &f->error[m]))
		return;
	ddr_members_tell_usual(&dev);
	if (dev.bytes < f->bytes) {
		ddr_error_set(&f->error[m], "%s has %" PRIu64 " bytes on this node, a member of the array needs %" PRIu64, path, dev.bytes, f->bytes);
		ddr_dev_close(&dev);
		return;
	}
	if ((f->have & (1u << m)) && dev.rdev == f->rdev[m]) {
		f->same |= 1u << m;
		ddr_dev_close(&dev);
	} else if (ddr_dev_lock(&dev, LOCK_MS, &f->error[m])) {
		ddr_dev_close(&dev);
		return;
	} else {
		f->dev[m] = dev;
	}
	f->super[m] = *sb;
	f->found |= 1u << m;
}

void ddr_finder_tell_hung(const struct ddr_scan *scan, unsigned int limit_ms)
{
	for (size_t i = 0; i < scan->n_hung; i++)
		if (!scan->hung[i].known)
			qb_log(LOG_WARNING, "%s has not answered for %u ms: it counts as not there, and is not looked at again while it hangs",
			       scan->hung[i].path, limit_ms);
}

static void run(struct ddr_worker *w)
{
	struct ddr_finder *f = ddr_worker_of(w, struct ddr_finder, worker);
	const struct ddr_scan_how how = { .limit_ms = f->limit_ms, .leave_out = f->leave_out, .n_leave_out = f->n_leave_out };
	struct ddr_scan scan;
	struct ddr_error err;

	if (ddr_scan_devices(&scan, &how, &err)) {
		qb_log(LOG_WARNING, "members are not looked for: %s", err.text);
		return;
	}
	ddr_finder_tell_hung(&scan, f->limit_ms);
	f->hung = scan.n_hung > 0;
	for (size_t i = 0; i < scan.n; i++) {
		const struct ddr_supers *s = &scan.dev[i].supers;
		int m = s->newest < 0 ? -1 : wanted(f, &s->copy[s->newest].super);

		if (m >= 0)
			take(f, (unsigned int)m, scan.dev[i].path, &s->copy[s->newest].super);
	}
	ddr_scan_free(&scan);
}

static void done(struct ddr_worker *w)
{
	struct ddr_finder *f = ddr_worker_of(w, struct ddr_finder, worker);

	f->done(f->ctx, f);
}

int ddr_finder_start(struct ddr_finder *f, qb_loop_t *loop)
{
	f->worker.run = run;
	f->worker.done = done;
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		f->dev[m].fd = -1;
	return ddr_worker_start(&f->worker, loop);
}

void ddr_finder_free(struct ddr_finder *f)
{
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		ddr_dev_close(&f->dev[m]);
	free(f);
}
