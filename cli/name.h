/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checks the new name of an array, for create and rename: is it valid, and is it free? And finds the array that a given name means. */
#ifndef DDR_CLI_NAME_H
#define DDR_CLI_NAME_H

#include <stddef.h>
#include <stdint.h>

#include "cli/dm.h"
#include "lib/disk/scan.h"
#include "lib/wire/ipc.h"

/*
 * Refuses @name if another array on this machine's disks has it, or another mapped device here. @own: the array that it is for, or NULL; its
 * disks do not count, nor do the @n devices at @path, which are about to be overwritten. 0, or -1 with @err.
 */
int cli_name_taken(const struct ddr_scan *scan, const char *name, const uint8_t *own, const char *const *path, size_t n, struct ddr_error *err);
/* Likewise, with a scan of its own, in which no disk that hangs is waited for; @what: the command, for warnings of such disks. */
int cli_name_free(const char *what, const char *name, const char *const *path, size_t n, struct ddr_error *err);

/*
 * The array's device on this node, whatever it is called by now, for what the operator calls it: by its name or uuid, which the daemon knows if it
 * serves it (@ipc, may be NULL), or by the name of the device. ddr_dm_init() comes before. @info->exists: there is one. 0, or -1 with @err.
 */
int cli_find_device(struct ddr_ipc *ipc, const char *which, struct cli_dm_info *info, struct ddr_error *err);

#endif
