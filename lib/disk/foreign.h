/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Signatures of other programs on a member: mkfs, pvcreate, mdadm or parted on a disk of a stopped array write their own signature,
 * and leave at least one of our superblocks. Such a disk looks like a member, but part of its data was overwritten.
 *
 * libblkid decides what a signature is. It only sees what ddraid did not write: the first 4 KiB, blocks of the metadata
 * area that are not valid ones of ours, and what lies behind the data area. User data are never taken for a signature.
 * Must never write to the device.
 */
#ifndef DDR_LIB_FOREIGN_H
#define DDR_LIB_FOREIGN_H

#include <stddef.h>

#include "lib/disk/devio.h"

/*
 * Puts the other signature on the member with the superblock @sb ("xfs file system", "gpt partition table") into @buf, or an empty string.
 * Unreadable blocks count as empty. Returns 0, or -1 with @err: the search failed.
 */
int ddr_foreign_find(const struct ddr_dev *dev, const struct ddr_super *sb, char *buf, size_t size, struct ddr_error *err);

#endif
