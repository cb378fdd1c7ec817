/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Arrays that start automatically: a udev rule starts ddraid-start@UUID.service for each member that appears. An array that was stopped or
 * created by hand is not started until the operator starts it, or the machine boots: a file in /run records this.
 */
#ifndef DDR_CLI_AUTO_H
#define DDR_CLI_AUTO_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/disk/scan.h"

struct ddr_ipc;

void cli_auto_hold(const char *uuid);
void cli_auto_release(const char *uuid);	/* NULL: all */
bool cli_auto_held(const char *uuid);

/* Starts the units of these arrays, without waiting for them. Returns an exit code. */
int cli_auto_units(const struct ddr_scan_name list[], size_t n);

/* Reports to the daemon why an array could not be started automatically, or what it waits for. @ipc NULL: there is no daemon. */
void cli_auto_report(struct ddr_ipc *ipc, const char *uuid, const char *name, const char *why);
void cli_auto_report_waits(struct ddr_ipc *ipc, const char *uuid, const char *name, const char *why);

#endif
