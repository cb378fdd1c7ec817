/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The device-mapper side of start and stop: makes, finds and removes mapped devices of
 * ddraid. With udev it waits for the nodes; without, libdevmapper makes them.
 */
#ifndef DDR_CLI_DM_H
#define DDR_CLI_DM_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/error.h"

#define CLI_DM_PREFIX	"DDRAID-"	/* of the dm uuid; the array's uuid follows */

struct cli_dm_info {
	bool exists;
	bool live;			/* it was resumed once: others can see what is on it */
	char name[128];
	char uuid[64];			/* the array's, also if the device was made by hand; "" if it is none that has a daemon */
	unsigned int major, minor;
	bool suspended;
	uint32_t open_count;
	bool kept;			/* it is mounted, or another device lies on it */
};

/* ddr_dm_init() of lib/dm.h comes before all of these. */
/* What there is under this device name. 0, or -1 with @err. */
int cli_dm_find(const char *name, struct cli_dm_info *info, struct ddr_error *err);
/* Likewise of the device of the array with this uuid, whatever it is called now: dmsetup may have renamed it. */
int cli_dm_find_array(const char *uuid, struct cli_dm_info *info, struct ddr_error *err);
/*
 * Waits, for 5 s at most, until nobody has the device of @info open: udev reads a device whenever one that wrote closes it. Not where
 * it is kept. @info says how it ended. 0, or -1 with @err.
 */
int cli_dm_wait_closed(struct cli_dm_info *info, struct ddr_error *err);
/*
 * The lock for finding, making and showing the device of an array: udev may start an array at the moment at which a person does. It is
 * held for moments, and never while a person or a cluster is waited for; a wait of some seconds names the holder. Where /run/ddraid
 * cannot be written there is no lock, and one of two such starts may fail.
 */
int cli_dm_lock(void);
void cli_dm_unlock(int fd);
/* Makes the device and loads its table. Nobody sees it, or may wait in it, before it was resumed. */
int cli_dm_create(const char *name, const char *uuid, uint64_t sectors, const char *params, struct ddr_error *err);
/*
 * The first resume of the device of the array with this uuid, under the lock, unless another start has done it by now. One that was
 * suspended since is left as it is. 0, or -1 with @err.
 */
int cli_dm_show(const char *name, const char *uuid, struct ddr_error *err);
/* A device for the first time, with which event all others find it; or one that somebody has suspended. 0, or -1 with @err. */
int cli_dm_resume(const char *name, struct ddr_error *err);
/* Ends what waits in the device, and all that comes, with errors, so that it can be removed. */
int cli_dm_fail(const char *name, uint64_t sectors, struct ddr_error *err);
/* Removes it; tries for a moment while udev or others have it open. */
int cli_dm_remove(const char *name, struct ddr_error *err);
/* Calls @fn for each ddraid device; returns the largest of its results, or -1 with @err. */
int cli_dm_each(int (*fn)(const struct cli_dm_info *info, void *ctx), void *ctx, struct ddr_error *err);

#endif
