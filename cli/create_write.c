/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writing a new array. The order, and why:
 *
 * 1. On every member the superblocks of an earlier array are zeroed; flush. Nothing else is written there before that. So a crash
 *    leaves a member of the old array unchanged, or a disk that is no member, but never an old member with new contents.
 * 2. Signatures of other programs are wiped. On every member the whole metadata area is written: empty logs, the map of step 3, and
 *    zeroes where the superblocks will be. The places where copy 1 would be searched for, and the tail, are zeroed; flush. No
 *    superblock of either array exists now.
 * 3. The first and the last 16 MiB of the array are zeroed on every member with a role, including parity: otherwise a signature there
 *    (a file system, LVM, GPT of an earlier array) would appear on the new device. Zeroes have correct parity, so the map marks the
 *    regions that were completely zeroed as clean; flush.
 * 4. Both superblocks on every member; flush; read back.
 * 5. When all are written, each is read once more: two paths to one disk are only detected now.
 *
 * A crash before step 4 leaves disks without an array.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/create.h"
#include "cli/guard.h"
#include "lib/disk/signature.h"
#include "lib/disk/layout.h"

/* The end of the message if a disk does not answer any more: before any superblock was written, and after that. */
#define OVERWRITTEN	"no array was created, but the disks given may be overwritten; create again with --overwrite, and without that disk"
#define INCOMPLETE	"the array is incomplete, and some of the disks given may hold its superblocks. Do not start it; create again with " \
			"--overwrite, and without that disk"

/* Sequence numbers of the first superblocks and log blocks: one for each copy or place. */
#define FIRST_SEQ	1u
#define LAST_SEQ	2u
/* Blocks zeroed at the beginning and at the end of the array: other programs look for signatures only there. */
#define ZERO_BLOCKS	((16u << 20) / DDR_BLOCK_SIZE)

/* -------------------------------------------------- what is zeroed, and its state in the map */

/* The array's blocks [0, head) and [tail, array_blocks). */
struct ends {
	uint64_t head, tail;
};

/* With small regions only whole regions are zeroed, so that nothing is left to sync. A small array is completely zeroed. */
static struct ends zeroed_ends(const struct ddr_super *sb)
{
	uint64_t blocks = sb->array_blocks, region = sb->region_size / DDR_BLOCK_SIZE;
	struct ends e = { .head = ZERO_BLOCKS, .tail = blocks > ZERO_BLOCKS ? blocks - ZERO_BLOCKS : 0 };

	if (region <= ZERO_BLOCKS) {
		e.head = (e.head + region - 1) / region * region;
		e.tail -= e.tail % region;
	}
	if (e.head >= e.tail)
		e.head = e.tail = blocks;
	return e;
}

/* The number of blocks of [@from, @to) that are zeroed. */
static uint64_t zeroed_in(const struct ends *e, uint64_t from, uint64_t to)
{
	uint64_t head = from < e->head ? (to < e->head ? to : e->head) - from : 0;
	uint64_t tail = to > e->tail ? to - (from > e->tail ? from : e->tail) : 0;

	return head + tail;
}

static uint8_t state_of_region(const struct ddr_super *sb, const struct ends *e, uint64_t r)
{
	uint64_t region = sb->region_size / DDR_BLOCK_SIZE, from = r * region;
	uint64_t to = from + region < sb->array_blocks ? from + region : sb->array_blocks;
	uint64_t zeroed = zeroed_in(e, from, to);

	if (!zeroed || !sb->parity)		/* without parity there is no map */
		return DDR_REGION_UNWRITTEN;
	return zeroed == to - from ? DDR_REGION_CLEAN : DDR_REGION_NEEDS_SYNC;
}

static void fill_map(const struct ddr_super *sb, const struct ends *e, uint32_t index, uint8_t *payload)
{
	uint64_t first = (uint64_t)index * DDR_MAP_REGIONS, regions = ddr_super_regions(sb);

	for (uint32_t i = 0; i < DDR_MAP_REGIONS && first + i < regions; i++)
		ddr_map_set(payload, i, state_of_region(sb, e, first + i));
}

/* -------------------------------------------------- the metadata area */

static uint8_t *image_at(uint8_t *image, uint64_t offset)
{
	return image + (offset - DDR_SB_OFFSET);
}

/* @e: NULL, or the zeroed blocks, which count as written in the map. */
static void new_block(const struct ddr_super *sb, const struct ends *e, uint8_t *image, uint16_t slot, uint32_t index)
{
	struct ddr_log_info info = { .slot = slot, .index = index, .generation = sb->generation };

	memcpy(info.array_uuid, sb->array_uuid, sizeof(info.array_uuid));
	for (info.seq = FIRST_SEQ; info.seq <= LAST_SEQ; info.seq++) {
		unsigned int place = info.seq & 1;
		uint64_t offset = slot == DDR_MAP_SLOT ? ddr_map_offset(sb, index, place) :
							 ddr_log_offset(sb, slot, index, place);
		struct ddr_disk_log *blk = (struct ddr_disk_log *)image_at(image, offset);

		if (e && slot == DDR_MAP_SLOT)
			fill_map(sb, e, index, blk->payload);
		ddr_log_encode(blk, &info);
	}
}

/* The metadata area from DDR_SB_OFFSET to data_offset, the same on every member, with zeroes in place of the superblocks. */
static uint8_t *make_image(const struct ddr_super *sb, const struct ends *e)
{
	uint8_t *image = ddr_dev_buffer(sb->data_offset - DDR_SB_OFFSET);

	if (!image)
		return NULL;
	for (uint32_t slot = 0; slot < sb->slots; slot++)
		for (uint32_t i = 0; i < sb->log_blocks; i++)
			new_block(sb, e, image, (uint16_t)slot, i);
	for (uint32_t i = 0; i < sb->map_blocks; i++)
		new_block(sb, e, image, DDR_MAP_SLOT, i);
	return image;
}

/* Zeroes the superblocks that the disk has now. Returns 1: there were some, 0: none, -1: @err. */
static int zero_supers(const struct ddr_dev *dev, struct ddr_error *err)
{
	struct ddr_supers s;
	int ret = 0;

	ddr_dev_read_supers(dev, &s, err);
	for (unsigned int i = 0; i < DDR_SB_COPIES; i++) {
		if (!s.copy[i].found)
			continue;
		if (ddr_dev_zero(dev, s.copy[i].offset, DDR_META_BLOCK, err))
			return -1;
		ret = 1;
	}
	return ret && ddr_dev_sync(dev, err) ? -1 : ret;
}

/* If several arrays lived on the disk one after the other, one superblock may hide behind another. */
int create_retire(const struct ddr_dev *dev, struct ddr_error *err)
{
	unsigned int places = DDR_DATA_OFFSET_MAX / DDR_DATA_ALIGN + 1;
	int ret;

	while ((ret = zero_supers(dev, err)) > 0)
		if (!places--)
			return ddr_error_set(err, "%s: its old superblocks were overwritten with zeroes, but it still returns them; use another "
						  "disk", dev->path);
	return ret;
}

/* If both new superblocks were lost, a superblock of an earlier array might be found at these places. */
static int zero_search_places(const struct ddr_dev *dev, const struct ddr_super *sb, struct ddr_error *err)
{
	int rc = 0;

	for (uint64_t end = sb->data_offset + DDR_DATA_ALIGN; !rc && end <= DDR_DATA_OFFSET_MAX && end <= dev->bytes;
	     end += DDR_DATA_ALIGN)
		rc = ddr_dev_zero(dev, end - DDR_META_BLOCK, DDR_META_BLOCK, err);
	return rc;
}

/* Zeroes the first and the last bytes behind the data area, where other programs look for signatures; nothing of ours lies there. */
static int zero_tail(const struct ddr_dev *dev, const struct ddr_super *sb, struct ddr_error *err)
{
	uint64_t from = ddr_layout_data_end(sb);
	uint64_t sectors_end = dev->bytes - dev->bytes % dev->logical_sector;
	uint64_t last = sectors_end < DDR_SIGNATURE_BYTES ? 0 : (sectors_end - DDR_SIGNATURE_BYTES) / DDR_META_BLOCK * DDR_META_BLOCK;

	if (last < from)
		last = from;
	else if (ddr_dev_zero(dev, from, DDR_TAIL_BYTES, err))
		return -1;
	return sectors_end > last ? ddr_dev_zero(dev, last, sectors_end - last, err) : 0;
}

static int prepare(const struct ddr_super *sb, bool wipe, const struct ddr_dev *dev, const uint8_t *image, struct ddr_error *err)
{
	if (create_retire(dev, err) || (wipe && ddr_signature_wipe(dev, err)))
		return -1;
	if (ddr_dev_write(dev, image, sb->data_offset - DDR_SB_OFFSET, DDR_SB_OFFSET, err) ||
	    zero_search_places(dev, sb, err) || zero_tail(dev, sb, err))
		return -1;
	return ddr_dev_sync(dev, err);
}

static int zero_ends(const struct ddr_super *sb, const struct ends *e, const struct ddr_dev *dev, struct ddr_error *err)
{
	uint64_t tail = sb->array_blocks - e->tail;

	if (ddr_dev_zero(dev, sb->data_offset, e->head * sb->chunk, err) ||
	    (tail && ddr_dev_zero(dev, sb->data_offset + e->tail * sb->chunk, tail * sb->chunk, err)))
		return -1;
	return ddr_dev_sync(dev, err);
}

static int write_supers(const struct create_plan *plan, uint16_t member, struct ddr_error *err)
{
	struct ddr_super sb = plan->super;
	struct ddr_owners owners;		/* of format 2: nobody has a slot */
	struct ddr_supers back;

	ddr_owners_init(&owners, &sb);
	sb.this_member = member;
	for (sb.seq = FIRST_SEQ; sb.seq <= LAST_SEQ; sb.seq++)
		if (ddr_dev_write_owned(&plan->dev[member], &sb, &owners, err))
			return -1;
	if (ddr_dev_read_supers(&plan->dev[member], &back, err))
		return -1;
	for (unsigned int copy = 0; copy < DDR_SB_COPIES; copy++) {
		if (back.copy[copy].found)
			continue;
		return ddr_error_set(err, "%s: superblock copy %u was written, but cannot be read back", plan->dev[member].path,
				     copy);
	}
	return ddr_dev_drop_cache(&plan->dev[member], err);
}

/* If another member's superblock of this array is read back, the disk was also written through another path. */
static int check_disk(const struct create_plan *plan, uint16_t member, struct ddr_error *err)
{
	const struct ddr_dev *dev = &plan->dev[member];
	const struct ddr_super *sb;
	struct ddr_supers back;

	if (ddr_dev_read_supers(dev, &back, err))
		return -1;
	sb = &back.copy[back.newest].super;
	if (memcmp(sb->array_uuid, plan->super.array_uuid, sizeof(sb->array_uuid)) != 0)
		return ddr_error_set(err, "%s: its superblock was written, but now it holds one of another array (%s); another program or node "
				     "writes to it", dev->path, sb->name);
	if (sb->this_member != member)
		return ddr_error_set(err, "%s and %s are two paths to one disk: each member needs its own; put the paths under multipath, and "
				     "give the disk once", dev->path, plan->dev[sb->this_member].path);
	return 0;
}

/* -------------------------------------------------- after an error */

/* Appends " PATH" to the text for each device of @set. */
static void append_paths(const struct create_plan *plan, uint32_t set, char *buf, size_t size)
{
	size_t used = strlen(buf);

	for (uint32_t m = 0; m < plan->super.members && used < size; m++) {
		int n = set >> m & 1 ? snprintf(buf + used, size - used, " %s", plan->dev[m].path) : 0;

		used += n > 0 ? (size_t)n : 0;
	}
}

/* Removes the superblocks that were written; @err names the devices where that failed. */
static int undo(const struct create_plan *plan, uint32_t changed, uint32_t written, struct ddr_error *err)
{
	const struct ddr_super *sb = &plan->super;
	struct ddr_error why = *err;
	char paths[512] = "";
	uint32_t left = 0;

	for (uint32_t m = 0; m < sb->members; m++) {
		if (!(written >> m & 1))
			continue;
		cli_guard_at(plan->dev[m].path, INCOMPLETE);
		if (ddr_dev_zero(&plan->dev[m], ddr_super_offset(sb, 0), DDR_META_BLOCK, NULL) ||
		    ddr_dev_zero(&plan->dev[m], ddr_super_offset(sb, 1), DDR_META_BLOCK, NULL) ||
		    ddr_dev_sync(&plan->dev[m], NULL))
			left |= 1u << m;
	}
	append_paths(plan, left ? left : changed, paths, sizeof(paths));
	if (left)
		return ddr_error_set(err, "%s; the array was not created, but its superblocks may be left on%s: do not use them. Replace what is "
				     "broken and create again with --overwrite", why.text, paths);
	return ddr_error_set(err, "%s; the array was not created. No superblock of it is left, but the former content of%s is overwritten. Replace "
			     "what is broken and create again", why.text, paths);
}

int create_write(const struct create_plan *plan, struct ddr_error *err)
{
	struct ends e = zeroed_ends(&plan->super);
	uint8_t *image = make_image(&plan->super, &e);
	uint32_t changed = 0, written = 0;
	int rc = 0;

	if (!image)
		return ddr_error_set(err, "out of memory; nothing was changed");
	for (uint16_t m = 0; !rc && m < plan->super.members; m++) {
		changed |= 1u << m;
		cli_guard_at(plan->dev[m].path, OVERWRITTEN);
		rc = prepare(&plan->super, plan->wipe, &plan->dev[m], image, err);
	}
	for (uint16_t m = 0; !rc && m < plan->super.members; m++) {
		cli_guard_at(plan->dev[m].path, OVERWRITTEN);
		if (plan->super.member[m].role != DDR_ROLE_NONE)
			rc = zero_ends(&plan->super, &e, &plan->dev[m], err);
	}
	for (uint16_t m = 0; !rc && m < plan->super.members; m++) {
		written |= 1u << m;
		cli_guard_at(plan->dev[m].path, INCOMPLETE);
		rc = write_supers(plan, m, err);
	}
	for (uint16_t m = 0; !rc && m < plan->super.members; m++) {
		cli_guard_at(plan->dev[m].path, INCOMPLETE);
		rc = check_disk(plan, m, err);
	}
	free(image);
	return rc ? undo(plan, changed, written, err) : 0;
}

int create_prepare(const struct ddr_super *sb, bool wipe, const struct ddr_dev *dev, struct ddr_error *err)
{
	uint8_t *image = make_image(sb, NULL);
	int rc = image ? prepare(sb, wipe, dev, image, err) : ddr_error_set(err, "out of memory; nothing was changed");

	free(image);
	return rc;
}
