/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Looks for the devices of members among the block devices of this machine, beside whatever else goes on.
 *
 * It opens and locks what it finds, reads it again, believes only that, and writes nothing. A member that carries somebody else's
 * signature, too, is not taken. What it may open is lib/disk/scan.h's to say.
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
	/* given */
	uint8_t array[16];			/* uuid */
	char name[DDR_NAME_LEN];			/* of the array, for the log */
	uint64_t bytes;				/* that a member needs */
	uint32_t want;				/* members */
	uint8_t uuid[DDR_MAX_MEMBERS][16];	/* of these */
	uint32_t have;				/* of these: a device is open already ... */
	dev_t rdev[DDR_MAX_MEMBERS];		/* ... with this number; if it is that one still, it is not opened anew */
	unsigned int open_flags;		/* more of DDR_DEV_...; for tests */
	unsigned int limit_ms;			/* a device that has not answered by then counts as not there */
	size_t n_leave_out;			/* devices that are in use already, and not looked for: they are not opened */
	dev_t leave_out[DDR_FINDER_LEAVE_OUT];
	void (*done)(void *ctx, struct ddr_finder *f);	/* from the loop, once; frees it. ctx NULL: nobody waits any more */
	void *ctx;
	/* found */
	uint32_t found;				/* members */
	uint32_t same;				/* of these: the device that is open is theirs */
	struct ddr_dev dev[DDR_MAX_MEMBERS];	/* found and not the same: open and locked */
	struct ddr_super super[DDR_MAX_MEMBERS];	/* as the device says */
	struct ddr_error error[DDR_MAX_MEMBERS];	/* not found, but something was there */
	bool hung;				/* some device did not answer; it may be one of them */
	/* own */
	struct ddr_worker worker;
};

/* Takes over @f (from calloc). 0, or a negative errno: @f is the caller's again. */
int ddr_finder_start(struct ddr_finder *f, qb_loop_t *loop);
/* Closes what was not taken out of dev[]. */
void ddr_finder_free(struct ddr_finder *f);
/* A line of the log for each device that a scan with this limit, for that array, has found to hang, once. */
void ddr_finder_tell_hung(const struct ddr_scan *scan, const char *array, unsigned int limit_ms);

#endif
