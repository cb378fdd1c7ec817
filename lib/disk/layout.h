/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Where the areas of a member lie and how large an array becomes. Pure arithmetic on
 * 64 bits, checked against overflow; must never touch a device.
 */
#ifndef DDR_LIB_LAYOUT_H
#define DDR_LIB_LAYOUT_H

#include <stdbool.h>

#include "lib/disk/format.h"
#include "lib/error.h"

#define DDR_DEF_REGION		(4u << 20)	/* bytes: the smallest region size chosen by default */
#define DDR_DEF_REGIONS		(1u << 16)	/* by default the region size grows beyond this number of regions */
#define DDR_DEF_GROWTH		8u		/* the metadata has room for this many times the regions of the device at creation */
#define DDR_LEFT_PERCENT	1u		/* of a member, left free at its end: a slightly smaller disk of another manufacturer can replace it */
#define DDR_LEFT_MOST		(100ull << 20)	/* bytes: at most this is left free */
#define DDR_SIGNATURE_BYTES	(1u << 20)	/* signatures that libblkid knows at the end of a disk begin within this distance */
#define DDR_MIN_ARRAY_BLOCKS	256u		/* blocks: an array is at least 1 MiB */

struct ddr_layout_request {
	uint64_t member_bytes;		/* size of the smallest member */
	uint8_t order, parity, layout;
	uint32_t region_size;		/* bytes; 0: the default for the size */
	uint32_t slots;
	bool leave;			/* the array leaves some of each member free, see ddr_layout_offered() */
	bool owners;			/* format 2, with room for owner pages and stamps (format_owner.h); otherwise format 1 */
};

/*
 * How many bytes of a disk of @bytes a new or growing array may use. The rest stays free, so that a slightly smaller
 * disk can replace it. An existing array only needs ddr_layout_member_bytes().
 */
static inline uint64_t ddr_layout_offered(uint64_t bytes)
{
	uint64_t left = bytes / 100 * DDR_LEFT_PERCENT;

	return bytes - (left < DDR_LEFT_MOST ? left : DDR_LEFT_MOST);
}

/*
 * Fills the geometry of @sb (order to map_blocks, roles; in format 2 incompat, owner_offset and owner_pages) for members of this size: superblock, log, map,
 * owner pages and stamps in format 2, superblock, data from a multiple of 1 MiB, and behind it at least DDR_TAIL_BYTES. Log and map have room for DDR_DEF_GROWTH
 * times the regions that the device could hold, as far as the format allows: this is how far the array can grow
 * later. Changes nothing else of @sb. Returns 0, or -1 with the reason in @err and @sb unchanged.
 */
int ddr_layout_compute(const struct ddr_layout_request *req, struct ddr_super *sb, struct ddr_error *err);

/*
 * Makes @sb, an existing array's, one of format 2: finds room for the owner pages and stamps (format_owner.h), and sets incompat, owner_offset and owner_pages. The area
 * ends where superblock copy 1 begins. If it is larger than the gap behind the map, the map gives up blocks at its end that the array does not use:
 * then map_blocks is smaller, and the array can grow less. Nothing else moves. Returns 0, or -1 with the reason in @err and @sb unchanged: there is
 * no room, or it is of format 2 already.
 */
int ddr_layout_owners(struct ddr_super *sb, struct ddr_error *err);

/* The default layout: rotating, except where each member holds whole blocks, or there is no parity. */
static inline uint8_t ddr_layout_default(uint64_t order, uint64_t parity)
{
	return order && parity ? DDR_LAYOUT_ROTATING : DDR_LAYOUT_DEDICATED;
}

/* First byte behind the data area of a member. */
static inline uint64_t ddr_layout_data_end(const struct ddr_super *sb)
{
	return sb->data_offset + sb->array_blocks * sb->chunk;
}

/* The size in bytes that a device must have to be a member. */
static inline uint64_t ddr_layout_member_bytes(const struct ddr_super *sb)
{
	return ddr_layout_data_end(sb) + DDR_TAIL_BYTES;
}

#endif
