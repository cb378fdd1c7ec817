/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The two halves of `ddraid rename`: rename.c decides and checks; rename_write.c writes what was decided. */
#ifndef DDR_CLI_RENAME_H
#define DDR_CLI_RENAME_H

#include "lib/disk/devio.h"

/*
 * Gives the member on @dev the superblock @sb, whose this_member is set here, in both copies: sequence numbers @sb->seq - 1 and @sb->seq (an odd one).
 * First the copy that is bad or older; the other one only when that came back as it was written, so a valid copy of the newest generation is
 * there at every moment. The disk must still be the member @member of the array: it is looked at first. 0, or -1 with @err.
 */
int rename_write(const struct ddr_dev *dev, const struct ddr_super *sb, uint16_t member, struct ddr_error *err);

#endif
