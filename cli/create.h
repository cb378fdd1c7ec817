/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The two halves of `ddraid create`: create.c decides and checks, and writes nothing; create_write.c writes what was decided, and
 * decides nothing.
 */
#ifndef DDR_CLI_CREATE_H
#define DDR_CLI_CREATE_H

#include "lib/disk/devio.h"
#include "lib/disk/format.h"

struct create_plan {
	struct ddr_super super;			/* complete except for this_member and seq */
	struct ddr_dev dev[DDR_MAX_MEMBERS];	/* members, then spares, as in super.member */
	char holds[DDR_MAX_MEMBERS][160];	/* what each of them holds now; empty: nothing known */
	bool wipe;				/* --overwrite: old signatures are wiped */
	bool unequal;				/* the disks differ in size, and --unequal confirms that this is intended */
};

/*
 * Writes the members. After an error nothing that looks like an array is left; otherwise the message in @err names the devices where
 * it is. Returns 0 or -1.
 */
int create_write(const struct create_plan *plan, struct ddr_error *err);
/* Makes the disk no member of any array: all superblocks that can be found are overwritten with zeroes. Returns 0 or -1. */
int create_retire(const struct ddr_dev *dev, struct ddr_error *err);
/*
 * Prepares one disk for a superblock of the array of @sb: empty log and map, and nothing that looks like a superblock. @wipe: old
 * signatures are removed first. Returns 0 or -1.
 */
int create_prepare(const struct ddr_super *sb, bool wipe, const struct ddr_dev *dev, struct ddr_error *err);

#endif
