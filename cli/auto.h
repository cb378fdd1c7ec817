/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Arrays that start by themselves: a udev rule starts ddraid-start@UUID.service for each member that appears. What was stopped, or
 * made, by hand is left to its operator until it is started by hand, or the machine boots: a file in /run says so.
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

/* Starts their units, without waiting for them. Returns an exit code. */
int cli_auto_units(const struct ddr_scan_name list[], size_t n);

/* Tells the daemon that an array could not be started by itself, or waits for something, and why. NULL: there is no daemon. */
void cli_auto_report(struct ddr_ipc *ipc, const char *uuid, const char *name, const char *why);
void cli_auto_report_waits(struct ddr_ipc *ipc, const char *uuid, const char *name, const char *why);

#endif
