/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A disk that create or add wants as a member: is it allowed, and what does it hold? */
#ifndef DDR_CLI_DISK_H
#define DDR_CLI_DISK_H

#include "lib/disk/devio.h"

/* What the operator has allowed, each by an option of its own. */
struct disk_allow {
	bool overwrite;			/* --overwrite: what it holds is destroyed */
	bool e512;			/* --allow-512e: physical sectors larger than a chunk */
	bool files;			/* --allow-files: image files */
};

/*
 * Opens @path for writing, exclusively and locked, if it can be a member of an array of this order: no zones, not read-only, sectors
 * no larger than a chunk. @holds (@size bytes): what it holds now, "" if nothing is known. What @allow does not allow is refused.
 * Writes nothing. 0, or -1 with @err; the caller closes @dev in both cases (fd -1: not open).
 */
int disk_open(struct ddr_dev *dev, const char *path, uint64_t order, const struct disk_allow *allow, char *holds, size_t size, struct ddr_error *err);
/* Likewise, whatever it holds and whatever its sectors are: to wipe it. */
int disk_open_own(struct ddr_dev *dev, const char *path, bool file, struct ddr_error *err);

#endif
