/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What udev's database says of block devices, and which devices a scan may leave unread because of it.
 *
 * udev's record of a disk is as old as the last event of that disk on this node: another node may have written to the disk
 * since. So the records only decide what is read first. A path of a multipath device is never read, whatever is searched.
 * Must never: open a device.
 */
#ifndef DDR_LIB_SCAN_UDEV_H
#define DDR_LIB_SCAN_UDEV_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/disk/format.h"

struct ddr_scan_record {
	bool known;			/* udev has processed the device */
	bool path;			/* it is one path of a multipath device: that one is the member, even if it does not exist yet */
	char type[32];			/* ID_FS_TYPE; "": none was found */
	char uuid[37];			/* ID_FS_UUID: of a member, that of its array; "": its superblock is damaged */
	char label[DDR_NAME_LEN];	/* ID_FS_LABEL: of a member, the name of its array */
};

/* Reads the record of the block device with this name in sysfs. Without udev, nothing is known. */
void ddr_scan_record_read(const char *name, struct ddr_scan_record *record);
/* Reads @text, a file of udev's database. False: it has another format than we know. */
bool ddr_scan_record_parse(const char *text, struct ddr_scan_record *record);

/* A scan that reads only a part of the devices. */
struct ddr_scan_first {
	const char *uuid;		/* the array that is searched; NULL: any */
	char label[DDR_NAME_LEN];	/* out: the name that udev has for that array; arrays of the same name are read, too */
	size_t unread;			/* out: devices that were left out, or not searched for a second superblock */
};

enum ddr_scan_pick {
	DDR_SCAN_SKIP,
	DDR_SCAN_BRIEF,			/* a single read, at the place of the first superblock (DDR_LOOK_BRIEF) */
	DDR_SCAN_WHOLE,
};

/* Decides by the records what is read of each of @n devices. @first NULL: all but paths of multipath devices. */
void ddr_scan_picks(const struct ddr_scan_record *record, size_t n, struct ddr_scan_first *first, enum ddr_scan_pick *pick);

#endif
