/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The two halves of `ddraid rename`: rename.c decides and checks; rename_write.c writes what was decided. */
#ifndef DDR_CLI_RENAME_H
#define DDR_CLI_RENAME_H

#include "lib/disk/devio.h"

/*
 * Writes the superblock @sb, with this_member set to @member, to both copies of the member on @dev: sequence numbers @sb->seq - 1 and
 * @sb->seq (an odd one). The copy that is bad or older comes first, and the other one only after the first was read back as it was
 * written, so there is always a valid copy of the newest generation. Before that it checks that the disk is still the member @member
 * of the array. @owners: what goes beside it in format 2. 0, or -1 with @err.
 */
int rename_write(const struct ddr_dev *dev, const struct ddr_super *sb, const struct ddr_owners *owners, uint16_t member, struct ddr_error *err);

#endif
