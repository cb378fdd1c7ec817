/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The two halves of `ddraid upgrade`: upgrade.c decides and checks; upgrade_write.c writes what was decided. */
#ifndef DDR_CLI_UPGRADE_H
#define DDR_CLI_UPGRADE_H

#include "lib/disk/devio.h"

/* A disk that serves as a member, and what it holds. */
struct upgrade_disk {
	const struct ddr_dev *dev;
	const struct ddr_supers *supers;
	uint16_t member;
};

/* Do both copies on all disks have format 2, and the generation of @now? */
bool upgrade_is_done(const struct upgrade_disk *disk, size_t n, const struct ddr_super *now);
/*
 * Gives the array format 2, or completes what an interrupted upgrade began. @disk: all that serve as members, spares included. @now: the newest
 * superblock on any of them, with @owners beside it. @gen_id: random, the name of the new generation. @begun is set when the first superblock
 * of the new format may be on a disk. Whatever interrupts it, the array is there all the same, and the same call completes it. 0, or -1 with @err.
 */
int upgrade_write(const struct upgrade_disk *disk, size_t n, const struct ddr_super *now, const struct ddr_owners *owners,
		  const uint8_t gen_id[DDR_UUID_LEN], bool *begun, struct ddr_error *err);

#endif
