// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Gives an array format 2; see upgrade.h and doc/on-disk-format.md, section 10.
 *
 * 1. If a disk is one generation behind, all get the newest generation first: two generations behind it would be stale after an interruption of step 3.
 * 2. On every disk the room of the owner pages and stamps is zeroed, and flushed. Nothing that the array uses lies there.
 * 3. Every disk gets the superblocks of format 2, with the next generation: both copies one after the other, each behind its pages. Spares come last.
 *
 * Interrupted before step 3, the array has format 1. Interrupted within it, some disks have format 2, and the others the generation before it: these still
 * serve as members, and the next change of the superblocks, by the daemon or by the same command, gives them format 2.
 *
 * Must never: zero anything on a disk that has format 2 already, where the pages in use lie there.
 */
#include <string.h>

#include "cli/rename.h"
#include "cli/upgrade.h"
#include "lib/disk/layout.h"

static bool is_owned(const struct ddr_supers *s)
{
	for (unsigned int c = 0; c < DDR_SB_COPIES; c++)
		if (s->copy[c].found && ddr_super_has_owners(&s->copy[c].super))
			return true;
	return false;
}

bool upgrade_is_done(const struct upgrade_disk *disk, size_t n, const struct ddr_super *now)
{
	for (size_t i = 0; i < n; i++)
		for (unsigned int c = 0; c < DDR_SB_COPIES; c++) {
			const struct ddr_super *sb = &disk[i].supers->copy[c].super;

			if (!disk[i].supers->copy[c].found || !ddr_super_has_owners(sb) || sb->generation != now->generation)
				return false;
		}
	return true;
}

static bool is_spare(const struct upgrade_disk *disk, const struct ddr_super *sb)
{
	return sb->member[disk->member].state == DDR_MEMBER_SPARE;
}

/* Writes @sb to all, spares last: what only a spare has would be passed over by a start that does not see it. */
static int write_all(const struct upgrade_disk *disk, size_t n, const struct ddr_super *sb, const struct ddr_owners *owners, struct ddr_error *err)
{
	for (unsigned int spares = 0; spares < 2; spares++)
		for (size_t i = 0; i < n; i++)
			if (is_spare(&disk[i], sb) == (spares == 1) && rename_write(disk[i].dev, sb, owners, disk[i].member, err))
				return -1;
	return 0;
}

static bool is_level(const struct upgrade_disk *disk, size_t n, const struct ddr_super *now)
{
	for (size_t i = 0; i < n; i++)
		if (!is_spare(&disk[i], now) && disk[i].supers->copy[disk[i].supers->newest].super.generation != now->generation)
			return false;
	return true;
}

/* From the end of the map to superblock copy 1. */
static int zero_room(const struct upgrade_disk *disk, size_t n, const struct ddr_super *next, struct ddr_error *err)
{
	uint64_t from = ddr_map_offset(next, next->map_blocks, 0);

	for (size_t i = 0; i < n; i++) {
		if (is_owned(disk[i].supers))
			continue;
		if (ddr_dev_zero(disk[i].dev, from, ddr_super_offset(next, 1) - from, err) || ddr_dev_sync(disk[i].dev, err))
			return -1;
	}
	return 0;
}

int upgrade_write(const struct upgrade_disk *disk, size_t n, const struct ddr_super *now, const struct ddr_owners *owners,
		  const uint8_t gen_id[DDR_UUID_LEN], bool *begun, struct ddr_error *err)
{
	struct ddr_super next = *now;

	*begun = ddr_super_has_owners(now);
	if (!*begun) {
		if (ddr_layout_owners(&next, err))
			return -1;
		if (!is_level(disk, n, now)) {
			struct ddr_super level = *now;

			level.seq = next.seq = ddr_super_seq_behind(now->seq);
			if (write_all(disk, n, &level, NULL, err))
				return -1;
		}
		next.generation++;
		memcpy(next.gen_prev, now->gen_id, sizeof(next.gen_prev));
		memcpy(next.gen_id, gen_id, sizeof(next.gen_id));
	}
	if (zero_room(disk, n, &next, err))
		return -1;
	*begun = true;
	next.seq = ddr_super_seq_behind(next.seq);
	return write_all(disk, n, &next, owners, err);
}
