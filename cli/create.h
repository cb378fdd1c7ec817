/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The two halves of `ddraid create`: create.c decides and checks and writes nothing;
 * create_write.c writes what was decided and decides nothing.
 */
#ifndef DDR_CLI_CREATE_H
#define DDR_CLI_CREATE_H

#include "lib/disk/devio.h"
#include "lib/disk/format.h"

struct create_plan {
	struct ddr_super super;			/* complete but for this_member and seq */
	struct ddr_dev dev[DDR_MAX_MEMBERS];	/* members, then spares: as in super.member */
	char holds[DDR_MAX_MEMBERS][160];	/* what each of them holds now; empty: nothing that is known */
	bool wipe;				/* --overwrite: old signatures are wiped */
	bool unequal;				/* the disks are not of one size, and --unequal says that this is meant */
};

/*
 * Makes the members. On an error nothing that looks like an array is left, or the
 * sentence in @err says on which devices it is. Returns 0 or -1.
 */
int create_write(const struct create_plan *plan, struct ddr_error *err);
/* From now on the disk is a member of no array: superblocks that can be read are zeroed, as many as there are. Returns 0 or -1. */
int create_retire(const struct ddr_dev *dev, struct ddr_error *err);
/*
 * Makes one disk ready for a superblock of the array of @sb: empty log and map, and nothing that anybody could take for a superblock.
 * @wipe: old signatures go first. Returns 0 or -1.
 */
int create_prepare(const struct ddr_super *sb, bool wipe, const struct ddr_dev *dev, struct ddr_error *err);

#endif
