/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Searches for the devices of members among the block devices of this machine, in a thread of its own.
 *
 * It opens and locks what it finds, reads it again, trusts only that, and writes nothing. A device that also carries another
 * program's signature is not used. lib/disk/scan.h decides which devices may be opened.
 */
#ifndef DDR_DAEMON_FINDER_H
#define DDR_DAEMON_FINDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/worker.h"
#include "lib/disk/devio.h"

#define DDR_FINDER_LEAVE_OUT	2048u

struct ddr_scan;

struct ddr_finder {
	/* set by the caller */
	uint8_t array[16];			/* uuid */
	char name[DDR_NAME_LEN];			/* of the array, for the log */
	uint64_t bytes;				/* that a member needs */
	uint32_t want;				/* members */
	uint8_t uuid[DDR_MAX_MEMBERS][16];	/* of the members in @want */
	uint32_t have;				/* of these: members with a device that is already open ... */
	dev_t rdev[DDR_MAX_MEMBERS];		/* ... with this number; if the member is still on that device, it is not opened again */
	unsigned int open_flags;		/* additional DDR_DEV_... flags; for tests */
	unsigned int limit_ms;			/* a device that has not answered within this time counts as absent */
	size_t n_leave_out;			/* devices that are in use and not searched for: they are not opened */
	dev_t leave_out[DDR_FINDER_LEAVE_OUT];
	void (*done)(void *ctx, struct ddr_finder *f);	/* called from the loop, once; frees @f. ctx NULL: the result is not needed any more */
	void *ctx;
	/* results */
	uint32_t found;				/* members */
	uint32_t same;				/* of these: members that are on the device that is already open */
	struct ddr_dev dev[DDR_MAX_MEMBERS];	/* found, but not the same device: open and locked */
	struct ddr_super super[DDR_MAX_MEMBERS];	/* as read from the device */
	struct ddr_error error[DDR_MAX_MEMBERS];	/* not found, but there is something to report */
	bool hung;				/* some device did not answer; it may be one of them */
	bool failed;				/* nothing was searched, because of this process: to be repeated */
	/* internal */
	struct ddr_worker worker;
};

/* Takes over @f (from calloc). 0, or a negative errno: then the caller keeps @f. */
int ddr_finder_start(struct ddr_finder *f, qb_loop_t *loop);
/* Closes the devices that were not taken out of dev[]. */
void ddr_finder_free(struct ddr_finder *f);
/* Logs, once, each device that hung in a scan with this limit for that array. */
void ddr_finder_tell_hung(const struct ddr_scan *scan, const char *array, unsigned int limit_ms);

#endif
