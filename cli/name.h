/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checks a new name of an array, for create and rename: is it valid, and is it free? Also finds the array with a given name. */
#ifndef DDR_CLI_NAME_H
#define DDR_CLI_NAME_H

#include <stddef.h>
#include <stdint.h>

#include "cli/dm.h"
#include "lib/disk/scan.h"
#include "lib/wire/ipc.h"

/*
 * Refuses @name if another array on this machine's disks has it, or another mapped device on this node. @own: the array that gets the
 * name, or NULL; its disks do not count, nor do the @n devices at @path, which are about to be overwritten. 0, or -1 with @err.
 */
int cli_name_taken(const struct ddr_scan *scan, const char *name, const uint8_t *own, const char *const *path, size_t n, struct ddr_error *err);
/* The same, with a scan of its own, which does not wait for disks that hang; @what: the command, for warnings about such disks. */
int cli_name_free(const char *what, const char *name, const char *const *path, size_t n, struct ddr_error *err);

/*
 * Finds the array's device on this node, whatever its name is, by what the operator gives: the array's name or uuid, which the daemon
 * knows if it serves the array (@ipc, may be NULL), or the name of the device. Call ddr_dm_init() first. @info->exists: it was found.
 * 0, or -1 with @err.
 */
int cli_find_device(struct ddr_ipc *ipc, const char *which, struct cli_dm_info *info, struct ddr_error *err);

#endif
