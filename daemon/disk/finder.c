// SPDX-License-Identifier: GPL-2.0-or-later
/* Searches for the devices of members. See finder.h. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <qb/qblog.h>

#include "daemon/disk/finder.h"
#include "daemon/disk/members.h"
#include "lib/disk/look.h"
#include "lib/disk/scan.h"

#define LOCK_MS	3000u

/* The member that a superblock belongs to, or -1: it is not searched for. */
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

static void tell_foreign(struct ddr_finder *f, unsigned int m, const char *path, const char *foreign)
{
	ddr_error_set(&f->error[m], "%s is not used: it also holds a %s, so another program has written to it; ddraid add --overwrite %s rebuilds "
		      "it as a new disk", path, foreign, path);
}

/* Opens a device for writing. If the open hangs, the thread that is in it keeps it. */
static bool open_device(struct ddr_finder *f, unsigned int m, const char *path, struct ddr_dev *dev)
{
	struct ddr_look *look;
	bool open = false;

	switch (ddr_look_open(&look, path, DDR_DEV_WRITE | DDR_DEV_OWN | f->open_flags, f->limit_ms, &f->error[m])) {
	case DDR_LOOK_FAILED:
		return false;
	case DDR_LOOK_HANGS:
		ddr_error_set(&f->error[m], "%s does not answer", path);
		return false;
	case DDR_LOOK_RUNS:
		break;
	}
	if (!ddr_look_wait(look)) {
		ddr_error_set(&f->error[m], "%s could not be opened within %u ms", path, f->limit_ms);
	} else if (!look->opened) {
		f->error[m] = look->error;
	} else {
		*dev = look->dev;
		look->dev = (struct ddr_dev){ .fd = -1 };
		ddr_members_tell_usual(dev);
		open = true;
	}
	ddr_look_put(look);
	return open;
}

/*
 * Reads the device again, now that it is locked. Only this result is trusted: before the lock another program may have had the
 * device, and may have written to it. Returns the member that it still is, or -1: none that is searched for; f->error[m] has the
 * reason if there is something to report.
 */
static int read_locked(struct ddr_finder *f, unsigned int m, const struct ddr_dev *dev, struct ddr_super *sb)
{
	struct ddr_look *look;
	int is = -1;

	switch (ddr_look_member(&look, dev, f->limit_ms, &f->error[m])) {
	case DDR_LOOK_FAILED:
		return -1;
	case DDR_LOOK_HANGS:
		ddr_error_set(&f->error[m], "%s does not answer", dev->path);
		return -1;
	case DDR_LOOK_RUNS:
		break;
	}
	if (!ddr_look_wait(look)) {
		ddr_error_set(&f->error[m], "%s has not delivered its superblock within %u ms", dev->path, f->limit_ms);
	} else if (look->supers.newest < 0) {
		f->error[m] = look->error;
	} else if (look->foreign[0]) {
		tell_foreign(f, m, dev->path, look->foreign);
	} else {
		*sb = look->supers.copy[look->supers.newest].super;
		is = wanted(f, sb);
		if (is < 0)
			ddr_error_set(&f->error[m], "%s was overwritten while it was being opened, and is no longer that member", dev->path);
	}
	ddr_look_put(look);
	return is;
}

/* Opens, locks and reads a device: only then it is trusted. */
static int lock_and_read(struct ddr_finder *f, unsigned int m, const char *path, struct ddr_dev *dev, struct ddr_super *sb)
{
	if (!open_device(f, m, path, dev))
		return -1;
	if (dev->bytes < f->bytes) {
		ddr_error_set(&f->error[m], "%s has %" PRIu64 " bytes on this node, a member of the array needs %" PRIu64, path, dev->bytes, f->bytes);
		return -1;
	}
	if ((f->have & (1u << m)) && dev->rdev == f->rdev[m])
		return (int)m;		/* it is already open and locked as that member */
	return ddr_dev_lock(dev, LOCK_MS, &f->error[m]) ? -1 : read_locked(f, m, dev, sb);
}

static void take(struct ddr_finder *f, unsigned int m, const struct ddr_scan_device *d)
{
	struct ddr_super sb = d->supers.copy[d->supers.newest].super;
	struct ddr_dev dev = { .fd = -1 };

	if (f->found & (1u << m)) {
		ddr_error_set(&f->error[m], "%s and another device are both member %u: one is a copy of the other, or both are paths to one disk",
			      d->path, m);
		f->found &= ~(1u << m);
		ddr_dev_close(&f->dev[m]);
		f->want &= ~(1u << m);
		return;
	}
	if (d->foreign[0]) {
		tell_foreign(f, m, d->path, d->foreign);
		return;
	}
	if (lock_and_read(f, m, d->path, &dev, &sb) != (int)m) {
		ddr_dev_close(&dev);
		return;
	}
	if ((f->have & (1u << m)) && dev.rdev == f->rdev[m]) {
		f->same |= 1u << m;
		ddr_dev_close(&dev);
	} else {
		f->dev[m] = dev;
	}
	f->super[m] = sb;
	f->found |= 1u << m;
}

void ddr_finder_tell_hung(const struct ddr_scan *scan, const char *array, unsigned int limit_ms)
{
	for (size_t i = 0; i < scan->n_hung; i++)
		if (!scan->hung[i].known && !scan->hung[i].pending)
			qb_log(LOG_WARNING, "array '%s': while searching for members: %s has not answered for %u ms; it counts as missing, and is "
			       "not read again while it hangs", array, scan->hung[i].path, limit_ms);
}

/* Were all members found? Then a disk that hangs and has nothing to do with them is not waited for. */
static bool all_found(void *ctx, const struct ddr_scan *scan)
{
	const struct ddr_finder *f = ctx;
	uint32_t found = 0;

	for (size_t i = 0; i < scan->n; i++) {
		const struct ddr_supers *s = &scan->dev[i].supers;
		int m = s->newest < 0 ? -1 : wanted(f, &s->copy[s->newest].super);

		found |= m < 0 ? 0 : 1u << m;
	}
	return (f->want & ~found) == 0;
}

static void run(struct ddr_worker *w)
{
	struct ddr_finder *f = ddr_worker_of(w, struct ddr_finder, worker);
	const struct ddr_scan_how how = { .limit_ms = f->limit_ms, .leave_out = f->leave_out, .n_leave_out = f->n_leave_out,
					  .enough = all_found, .ctx = f };
	struct ddr_scan scan;
	struct ddr_error err;

	if (ddr_scan_devices(&scan, &how, &err)) {
		qb_log(LOG_WARNING, "array '%s': cannot search the devices of this machine for missing members: %s", f->name, err.text);
		f->failed = true;
		return;
	}
	ddr_finder_tell_hung(&scan, f->name, f->limit_ms);
	f->hung = scan.n_hung > 0;
	for (size_t i = 0; i < scan.n; i++) {
		const struct ddr_supers *s = &scan.dev[i].supers;
		int m = s->newest < 0 ? -1 : wanted(f, &s->copy[s->newest].super);

		if (m >= 0)
			take(f, (unsigned int)m, &scan.dev[i]);
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
