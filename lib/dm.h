/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the command needs of libdevmapper: its error messages, and an ioctl that waits for udev. For a single thread,
 * like libdevmapper itself; the daemon issues its few ioctls itself.
 */
#ifndef DDR_LIB_DM_H
#define DDR_LIB_DM_H

#include <stdbool.h>
#include <stdint.h>

struct dm_task;

/* Call once, before threads are started. */
void ddr_dm_init(void);
/* After that: did udev run, which makes the nodes of devices? */
bool ddr_dm_has_udev(void);
/* Forgets the last message of libdevmapper. */
void ddr_dm_forget(void);
/* The last message of libdevmapper since then, or the text of errno. */
const char *ddr_dm_said(void);
/* Runs @t if it could be prepared (@ok), waits for udev, and frees it. May sleep. */
bool ddr_dm_run_synced(struct dm_task *t, bool ok);

/* A device's number as device-mapper's ioctls have it (struct dm_ioctl, dev). */
static inline uint64_t ddr_dm_dev(uint32_t major, uint32_t minor)
{
	return (minor & 0xff) | (uint64_t)major << 8 | (uint64_t)(minor & ~0xffu) << 12;
}

#endif
