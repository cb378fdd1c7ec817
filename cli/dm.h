/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The device-mapper side of start and stop: creates, finds and removes ddraid's mapped devices. With udev it waits for the device
 * nodes; without udev libdevmapper creates them.
 */
#ifndef DDR_CLI_DM_H
#define DDR_CLI_DM_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/error.h"

#define CLI_DM_PREFIX	"DDRAID-"	/* prefix of the dm uuid; the array's uuid follows */

struct cli_dm_info {
	bool exists;
	bool live;			/* it was resumed once: other programs can see its contents */
	char name[128];
	char uuid[64];			/* the array's, also if the device was created by hand; "" if it is not served by a daemon */
	unsigned int major, minor;
	bool suspended;
	uint32_t open_count;
	bool kept;			/* it is mounted, or another device lies on it */
};

/* Call ddr_dm_init() of lib/dm.h before any of these. */
/* Looks up the device with this name. 0, or -1 with @err. */
int cli_dm_find(const char *name, struct cli_dm_info *info, struct ddr_error *err);
/* The same for the device of the array with this uuid, whatever its name is: it may have been renamed (dmsetup). */
int cli_dm_find_array(const char *uuid, struct cli_dm_info *info, struct ddr_error *err);
/*
 * Waits, for at most 5 s, until nobody has the device of @info open: udev reads a device whenever a program that wrote to it closes
 * it. Does not wait if it is mounted or used by another device. @info has the result. 0, or -1 with @err.
 */
int cli_dm_wait_closed(struct cli_dm_info *info, struct ddr_error *err);
/*
 * Takes the lock for finding, creating and resuming the device of an array: udev may start an array at the same moment as a person.
 * It is held only for moments, and never while waiting for a person or a cluster; a wait of some seconds is reported with the name of
 * the holder. If /run/ddraid cannot be written to there is no lock, and one of two such starts may fail.
 */
int cli_dm_lock(void);
void cli_dm_unlock(int fd);
/* Creates the device and loads its table. Until it is resumed, no other program sees it, and none can block in it. */
int cli_dm_create(const char *name, const char *uuid, uint64_t sectors, const char *params, struct ddr_error *err);
/*
 * The first resume of the device of the array with this uuid, under the lock, unless another start, or the daemon that exchanged a member, has done it
 * by now; then it only waits for the node, or makes it. A device that was suspended since stays suspended. 0, or -1 with @err.
 */
int cli_dm_show(const char *name, const char *uuid, struct ddr_error *err);
/* Resumes a device: for the first time, and the event makes it visible to all other programs; or one that was suspended. 0, or -1 with @err. */
int cli_dm_resume(const char *name, struct ddr_error *err);
/* Makes all I/O on the device fail, waiting and new, so that it can be removed. */
int cli_dm_fail(const char *name, uint64_t sectors, struct ddr_error *err);
/* Removes it; retries for a moment while udev or another program has it open. */
int cli_dm_remove(const char *name, struct ddr_error *err);
/* Calls @fn for each ddraid device; returns the largest of its results, or -1 with @err. */
int cli_dm_each(int (*fn)(const struct cli_dm_info *info, void *ctx), void *ctx, struct ddr_error *err);

#endif
