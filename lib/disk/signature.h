/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a disk already holds, as libblkid and our own format see it, and how to wipe it. Works on an open struct
 * ddr_dev, but reads and writes through a descriptor of its own, since libblkid's buffers are not aligned for
 * O_DIRECT.
 */
#ifndef DDR_LIB_SIGNATURE_H
#define DDR_LIB_SIGNATURE_H

#include <stddef.h>

#include "lib/disk/devio.h"

/*
 * Puts what the device holds ("ext4 file system", "gpt partition table", "member of ddraid array data") into @buf, or
 * an empty string if nothing known was found. Returns 0, or -1 with @err if it cannot be read.
 */
int ddr_signature_find(const struct ddr_dev *dev, char *buf, size_t size, struct ddr_error *err);
/* The first signature that libblkid sees in the open file @fd, which stands for @dev; @buf is left alone if there is none. 0, or -1 with @err. */
int ddr_signature_probe(int fd, const struct ddr_dev *dev, char *buf, size_t size, struct ddr_error *err);
/*
 * Removes all signatures that libblkid knows, at the start and at the end of the
 * device. (ddraid's own metadata is overwritten by create.) Returns 0, or -1 with @err.
 */
int ddr_signature_wipe(const struct ddr_dev *dev, struct ddr_error *err);

#endif
