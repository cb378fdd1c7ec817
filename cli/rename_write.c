// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Writes the superblocks of an array that gets another name; see rename.h.
 *
 * The name is not part of the members' state, so the generation stays the same, as for slots and counters. An interrupted change
 * leaves members with the same generation, some with higher sequence numbers. The name on those is valid (lib/disk/assemble.c); the
 * next change of the superblocks, or the same command again, writes it to the others.
 *
 * Must never: write a copy while the other one is not known to be valid; write to a disk that is not this member now.
 */
#include <string.h>

#include "cli/rename.h"

static bool is_member(const struct ddr_super *found, const struct ddr_super *sb, uint16_t member)
{
	return memcmp(found->array_uuid, sb->array_uuid, DDR_UUID_LEN) == 0 &&
	       memcmp(found->member[found->this_member].uuid, sb->member[member].uuid, DDR_UUID_LEN) == 0;
}

static int write_copy(const struct ddr_dev *dev, const struct ddr_super *sb, const struct ddr_owners *owners, unsigned int copy, struct ddr_error *err)
{
	struct ddr_super new = *sb;
	struct ddr_supers back;

	new.seq = (sb->seq & ~1ull) | copy;
	if (ddr_dev_write_owned(dev, &new, owners, err) || ddr_dev_read_supers(dev, &back, err))
		return -1;
	if (!back.copy[copy].found || back.copy[copy].super.seq != new.seq || strcmp(back.copy[copy].super.name, new.name) != 0)
		return ddr_error_set(err, "%s: superblock copy %u was written, but different data was read back", dev->path, copy);
	return 0;
}

int rename_write(const struct ddr_dev *dev, const struct ddr_super *sb, const struct ddr_owners *owners, uint16_t member, struct ddr_error *err)
{
	struct ddr_super own = *sb;
	struct ddr_supers now;
	unsigned int first;

	own.this_member = member;
	if (ddr_dev_read_supers(dev, &now, err))
		return -1;
	if (!is_member(&now.copy[now.newest].super, sb, member) || now.copy[now.newest].super.seq >= sb->seq - 1 ||
	    now.copy[now.newest].super.generation > sb->generation)
		return ddr_error_set(err, "%s: another program or node changed its superblock meanwhile", dev->path);
	first = now.copy[0].found && now.copy[1].found ? (now.newest == 0) : now.copy[0].found;
	if (write_copy(dev, &own, owners, first, err) || write_copy(dev, &own, owners, 1 - first, err))
		return -1;
	return ddr_dev_drop_cache(dev, err);
}
