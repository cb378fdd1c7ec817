/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What another program has put on a member: mkfs, pvcreate, mdadm or parted on a disk of a stopped array write their own signature,
 * and leave one of our superblocks at least. Such a disk looks like a member, but what it holds is not what it held as one.
 *
 * libblkid decides what a signature is. It gets to see only what ddraid did not write: the first 4 KiB, blocks of the metadata
 * area that are not valid ones of ours, and what lies behind the data area. User data are never taken for a signature, wherever
 * they lie. Must never write to the device.
 */
#ifndef DDR_LIB_FOREIGN_H
#define DDR_LIB_FOREIGN_H

#include <stddef.h>

#include "lib/disk/devio.h"

/*
 * Puts what the member with the superblock @sb holds besides ("xfs file system", "gpt partition table") into @buf, or an empty string.
 * What cannot be read holds nothing. Returns 0, or -1 with @err: it could not be looked for.
 */
int ddr_foreign_find(const struct ddr_dev *dev, const struct ddr_super *sb, char *buf, size_t size, struct ddr_error *err);

#endif
