/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the command needs of libdevmapper: its words for an error, and an ioctl that waits for udev. For one thread, as libdevmapper
 * is; the daemon makes its few ioctls itself.
 */
#ifndef DDR_LIB_DM_H
#define DDR_LIB_DM_H

#include <stdbool.h>
#include <stdint.h>

struct dm_task;

/* To be called once, before there are threads. */
void ddr_dm_init(void);
/* Forgets what libdevmapper said. */
void ddr_dm_forget(void);
/* What it said last since then, or what errno says. */
const char *ddr_dm_said(void);
/* Runs @t if it could be made (@ok), and waits for udev; frees it. May sleep. */
bool ddr_dm_run_synced(struct dm_task *t, bool ok);

/* A device's number as device-mapper's ioctls have it (struct dm_ioctl, dev). */
static inline uint64_t ddr_dm_dev(uint32_t major, uint32_t minor)
{
	return (minor & 0xff) | (uint64_t)major << 8 | (uint64_t)(minor & ~0xffu) << 12;
}

#endif
