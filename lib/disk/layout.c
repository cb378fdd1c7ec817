/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sizes and places of a member's areas; see layout.h and doc/on-disk-format.md. */
#include <inttypes.h>

#include "lib/disk/format_owner.h"
#include "lib/disk/layout.h"

static uint64_t div_up(uint64_t n, uint64_t by)
{
	return n / by + (n % by != 0);
}

/*
 * The areas for one region size. The metadata is sized for several times as many regions as the whole device could
 * hold, so it always suffices, and the data offset does not have to be computed again. Returns the number of regions,
 * or 0 if the device is too small or the regions would be more than the format allows.
 */
static uint64_t lay_out(const struct ddr_layout_request *req, uint32_t region_size, struct ddr_super *sb)
{
	uint64_t region_blocks = region_size / DDR_BLOCK_SIZE;
	uint64_t bound = div_up(req->member_bytes / sb->chunk, region_blocks);
	uint64_t bytes = req->leave ? ddr_layout_offered(req->member_bytes) : req->member_bytes;
	uint64_t owners = req->owners ? ddr_owner_bytes(req->slots) : 0;
	uint64_t log_bytes, map_bytes, meta_end, blocks, regions, most;

	/* a little more than the limit may still fit once the metadata is subtracted */
	if (bound > 2u * DDR_MAX_REGIONS)
		return 0;
	most = bound * DDR_DEF_GROWTH < DDR_MAX_REGIONS ? bound * DDR_DEF_GROWTH : DDR_MAX_REGIONS;
	sb->log_blocks = (uint32_t)div_up(most, DDR_LOG_REGIONS);
	sb->map_blocks = (uint32_t)div_up(most, DDR_MAP_REGIONS);
	log_bytes = (uint64_t)req->slots * sb->log_blocks * 2 * DDR_META_BLOCK;
	map_bytes = (uint64_t)sb->map_blocks * 2 * DDR_META_BLOCK;
	sb->log_offset = DDR_SB_OFFSET + DDR_META_BLOCK;
	sb->map_offset = sb->log_offset + log_bytes;
	meta_end = sb->map_offset + map_bytes + owners + DDR_META_BLOCK;
	sb->data_offset = div_up(meta_end, DDR_DATA_ALIGN) * DDR_DATA_ALIGN;
	if (bytes < sb->data_offset + DDR_TAIL_BYTES)
		return 0;
	blocks = (bytes - sb->data_offset - DDR_TAIL_BYTES) / sb->chunk;
	blocks -= blocks % (1u << sb->order);
	regions = div_up(blocks, region_blocks);
	if (blocks < DDR_MIN_ARRAY_BLOCKS || regions > DDR_MAX_REGIONS || sb->data_offset > DDR_DATA_OFFSET_MAX)
		return 0;
	sb->region_size = region_size;
	sb->array_blocks = blocks;
	sb->slots = req->slots;
	return regions;
}

static int too_large_or_small(const struct ddr_layout_request *req, uint32_t region_size, struct ddr_error *err)
{
	uint32_t data = 1u << req->order;

	if (req->member_bytes < 2u * DDR_DATA_OFFSET_MAX)
		return ddr_error_set(err, "a member of %" PRIu64 " bytes is too small: metadata, tail and 1 MiB of "
				     "the array do not fit; use larger devices", req->member_bytes);
	if (region_size == DDR_MAX_REGION)
		return ddr_error_set(err, "%u members of %" PRIu64 " bytes make an array above the limit of 1 PiB; "
				     "use smaller partitions", data, req->member_bytes);
	return ddr_error_set(err, "regions of %" PRIu32 " KiB are too small for members of %" PRIu64
			     " bytes: more than %u regions; use a larger region size, or leave it out",
			     region_size >> 10, req->member_bytes, DDR_MAX_REGIONS);
}

/* The area of format 2, which ends where superblock copy 1 begins. */
static void set_owners(struct ddr_super *sb)
{
	sb->incompat |= DDR_INCOMPAT_OWNERS;
	sb->owner_offset = ddr_super_offset(sb, 1) - ddr_owner_bytes(sb->slots);
	sb->owner_pages = (uint16_t)ddr_owner_pages(sb->slots);
}

int ddr_layout_compute(const struct ddr_layout_request *req, struct ddr_super *sb, struct ddr_error *err)
{
	struct ddr_super new = *sb;
	struct ddr_geometry geo;
	uint32_t region_size = req->region_size;
	uint64_t regions;

	if (!ddr_geo_init(&geo, req->order, req->parity, req->layout))
		return ddr_error_set(err, "order must be 0 to 3, parity 0 to 2, layout dedicated or rotating");
	if (req->slots == 0 || req->slots > DDR_MAX_SLOTS)
		return ddr_error_set(err, "an array has 1 to %u node slots, not %" PRIu32, DDR_MAX_SLOTS, req->slots);
	if (region_size && (region_size & (region_size - 1) || region_size < DDR_MIN_REGION ||
			    region_size > DDR_MAX_REGION))
		return ddr_error_set(err, "the region size must be a power of two from 64 KiB to 1 GiB, not %" PRIu32
				     " bytes", region_size);
	new.order = geo.order;
	new.parity = geo.parity;
	new.layout = req->layout;
	new.chunk = geo.chunk;
	new.roles = geo.roles;
	new.block_size = DDR_BLOCK_SIZE;
	if (region_size) {
		regions = lay_out(req, region_size, &new);
	} else {
		region_size = DDR_DEF_REGION;
		while (!(regions = lay_out(req, region_size, &new)) || regions > DDR_DEF_REGIONS) {
			if (region_size == DDR_MAX_REGION)
				break;
			region_size *= 2;
		}
	}
	if (!regions)
		return too_large_or_small(req, region_size, err);
	if (req->owners)
		set_owners(&new);
	*sb = new;
	return 0;
}

int ddr_layout_owners(struct ddr_super *sb, struct ddr_error *err)
{
	uint64_t need = ddr_owner_bytes(sb->slots);
	uint64_t gap = ddr_super_offset(sb, 1) - ddr_map_offset(sb, sb->map_blocks, 0);
	uint64_t used = div_up(ddr_super_regions(sb), DDR_MAP_REGIONS), block = 2u * DDR_META_BLOCK;
	uint64_t spare = (sb->map_blocks - used) * block;
	uint64_t taken = need > gap ? div_up(need - gap, block) : 0;

	if (ddr_super_has_owners(sb))
		return ddr_error_set(err, "array %s already has format 2", sb->name);
	if (taken > sb->map_blocks - used)
		return ddr_error_set(err, "the metadata of array %s has no room for format 2: %" PRIu32 " slots need %" PRIu64 " bytes. There are %" PRIu64
				     " behind the region map, and %" PRIu64 " in the part of it that is kept for growth", sb->name, sb->slots, need,
				     gap, spare);
	sb->map_blocks -= (uint32_t)taken;
	set_owners(sb);
	return 0;
}
