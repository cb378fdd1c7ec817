/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A disk that is to become a member, by create or by add: may it, and what does it hold? */
#ifndef DDR_CLI_DISK_H
#define DDR_CLI_DISK_H

#include "lib/devio.h"

/*
 * Opens @path for writing, exclusively and locked, if it can be a member of an array of this order: no zones, not read-only, sectors
 * no larger than a chunk. @holds (@size bytes): what it holds now, "" if nothing is known. Data on it, and physical sectors larger than
 * a chunk, are refused without @force. Writes nothing. 0, or -1 with @err; the caller closes @dev in both cases (fd -1: not open).
 */
int disk_open(struct ddr_dev *dev, const char *path, uint64_t order, bool force, char *holds, size_t size, struct ddr_error *err);

/* Likewise, whatever it holds and whatever its sectors are: to wipe it. @file: regular files are taken, too. */
int disk_open_own(struct ddr_dev *dev, const char *path, bool file, struct ddr_error *err);

#endif
