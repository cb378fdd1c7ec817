/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checks a disk for create or add: may it become a member, and what does it hold? */
#ifndef DDR_CLI_DISK_H
#define DDR_CLI_DISK_H

#include "lib/disk/devio.h"

/* Overrides by the operator, each with an option of its own. */
struct disk_allow {
	bool overwrite;			/* --overwrite: its contents are destroyed */
	bool e512;			/* --allow-512e: physical sectors larger than a chunk */
	bool files;			/* --allow-files: image files */
};

/*
 * Opens @path for writing, exclusively and locked, if it can be a member of an array of this order: not zoned, not read-only, and
 * with sectors no larger than a chunk. @holds (@size bytes): what it holds now, "" if nothing known was found. Refuses what @allow
 * does not allow. Writes nothing. 0, or -1 with @err; the caller closes @dev in both cases (fd -1: not open).
 */
int disk_open(struct ddr_dev *dev, const char *path, uint64_t order, const struct disk_allow *allow, char *holds, size_t size, struct ddr_error *err);
/* The same, whatever it holds and whatever its sectors are: for wiping it. */
int disk_open_own(struct ddr_dev *dev, const char *path, bool file, struct ddr_error *err);

#endif
