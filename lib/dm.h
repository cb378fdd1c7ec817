/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What the command needs of libdevmapper: its words for an error, and an ioctl that waits for udev. For one thread, as libdevmapper
 * is; the daemon makes its few ioctls itself (daemon/kernel/table.c).
 */
#ifndef DDR_LIB_DM_H
#define DDR_LIB_DM_H

#include <stdbool.h>

struct dm_task;

/* To be called once, before there are threads. */
void ddr_dm_init(void);
/* Forgets what libdevmapper said. */
void ddr_dm_forget(void);
/* What it said last since then, or what errno says. */
const char *ddr_dm_said(void);
/* Runs @t if it could be made (@ok), and waits for udev; frees it. May sleep. */
bool ddr_dm_run_synced(struct dm_task *t, bool ok);

#endif
