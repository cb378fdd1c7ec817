/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Codec of log blocks and map blocks: see format.h. A block that was torn, is outdated, or belongs to another slot,
 * index or array is reported as such and never read as "nothing dirty".
 */
#include <endian.h>
#include <string.h>

#include "lib/disk/format.h"
#include "lib/math/crc32c.h"

#define FAULT(c, found, want) ((struct ddr_fault){ .code = (c), .a = (found), .b = (want) })
#define FINE ((struct ddr_fault){ .code = DDR_FE_OK })

/* A block that was never written reads as zeroes. */
static bool is_blank(const void *buf, size_t len)
{
	const uint8_t *p = buf;
	uint8_t any = 0;

	for (size_t i = 0; i < len; i++)
		any |= p[i];
	return !any;
}

/* The payload may only mark regions of the array; the rest is zero. */
static struct ddr_fault check_log_payload(const uint8_t *payload, uint64_t first, uint64_t regions)
{
	uint64_t here = first < regions ? regions - first : 0;	/* a block may also cover regions that the array does not have yet */

	for (uint32_t i = here < DDR_LOG_REGIONS ? (uint32_t)here : DDR_LOG_REGIONS; i < DDR_LOG_REGIONS; i++) {
		if (i % 8 == 0 && payload[i / 8] == 0)
			i += 7;		/* eight of them at once: most arrays are much smaller than what one block covers */
		else if (ddr_log_get(payload, i))
			return FAULT(DDR_FE_L_BIT, first + i, regions);
	}
	return FINE;
}

static struct ddr_fault check_map_payload(const uint8_t *payload, uint64_t first, uint64_t regions)
{
	for (uint32_t i = 0; i < DDR_MAP_REGIONS; i++) {
		uint8_t nibble = ddr_map_get(payload, i);

		if (i % 2 == 0 && payload[i / 2] == 0) {
			i++;
			continue;
		}
		if (first + i >= regions && nibble)
			return FAULT(DDR_FE_L_BIT, first + i, regions);
		if ((nibble & DDR_REGION_STATE_MASK) > DDR_REGION_CLEAN)
			return FAULT(DDR_FE_L_STATE, first + i, nibble);
	}
	return FINE;
}

/* A region that is named for a repair must be marked; a block of the map names none. */
static struct ddr_fault check_repairs(const struct ddr_disk_log *d, bool map)
{
	uint32_t last = 0;
	bool end = false;

	for (uint32_t i = 0; i < DDR_LOG_REPAIRS; i++) {
		uint32_t at = le16toh(d->repair[i].raw);

		if (at && (map || end || at <= last || at > DDR_LOG_REGIONS || !ddr_log_get(d->payload, at - 1)))
			return FAULT(DDR_FE_L_REPAIR, at, 0);
		end |= !at;
		last = at;
	}
	return FINE;
}

static void decode_header(const struct ddr_disk_log *d, struct ddr_log_info *info)
{
	memset(info, 0, sizeof(*info));
	info->slot = le16toh(d->slot.raw);
	info->index = le32toh(d->index.raw);
	info->seq = le64toh(d->seq.raw);
	info->generation = le64toh(d->generation.raw);
	memcpy(info->array_uuid, d->array_uuid, sizeof(info->array_uuid));
	memcpy(info->boot_id, d->boot_id, sizeof(info->boot_id));
	info->cookie = le64toh(d->cookie.raw);
	info->node = le32toh(d->node.raw);
	for (uint32_t i = 0; i < DDR_LOG_REPAIRS; i++)
		info->repair[i] = le16toh(d->repair[i].raw);
}

static struct ddr_fault check_envelope(const struct ddr_disk_log *d, bool map)
{
	uint32_t magic = map ? DDR_MAP_MAGIC : DDR_LOG_MAGIC;
	uint32_t crc;

	if (is_blank(d, sizeof(*d)))
		return FAULT(DDR_FE_BLANK, 0, 0);
	if (le32toh(d->magic.raw) != magic)
		return FAULT(DDR_FE_MAGIC, le32toh(d->magic.raw), magic);
	if (le16toh(d->version.raw) != DDR_FORMAT_VERSION)
		return FAULT(DDR_FE_VERSION, le16toh(d->version.raw), DDR_FORMAT_VERSION);
	if (le32toh(d->length.raw) != sizeof(*d))
		return FAULT(DDR_FE_LENGTH, le32toh(d->length.raw), sizeof(*d));
	crc = ddr_crc32c_block(d, sizeof(*d), offsetof(struct ddr_disk_log, crc32c));
	if (le32toh(d->crc32c.raw) != crc)
		return FAULT(DDR_FE_CRC, le32toh(d->crc32c.raw), crc);
	return FINE;
}

static struct ddr_fault check_header(const struct ddr_log_info *h, const struct ddr_super *sb, uint16_t slot,
				     uint32_t index, unsigned int place)
{
	if (memcmp(h->array_uuid, sb->array_uuid, sizeof(h->array_uuid)) != 0)
		return FAULT(DDR_FE_L_UUID, 0, 0);
	if (h->slot != slot)
		return FAULT(DDR_FE_L_SLOT, h->slot, slot);
	if (h->index != index)
		return FAULT(DDR_FE_L_INDEX, h->index, index);
	if (h->seq == 0 || (h->seq & 1) != place)
		return FAULT(DDR_FE_SEQ, h->seq, place);
	if (h->seq > DDR_LOG_SEQ_MAX)
		return FAULT(DDR_FE_SEQ_LIMIT, h->seq, 0);
	if (h->generation == 0)
		return FAULT(DDR_FE_L_GENERATION, 0, 0);
	/* boot id and cookie identify the kernel that holds the marks: without the node's id they mean nothing */
	if (h->node == 0 && (h->cookie || !ddr_uuid_is_zero(h->boot_id)))
		return FAULT(DDR_FE_L_OWNER, h->cookie, 0);
	return FINE;
}

struct ddr_fault ddr_log_decode(const void *buf, const struct ddr_super *sb, uint16_t slot, uint32_t index,
				unsigned int place, struct ddr_log_info *info)
{
	bool map = slot == DDR_MAP_SLOT;
	uint64_t regions = ddr_super_regions(sb);
	uint64_t first = (uint64_t)index * (map ? DDR_MAP_REGIONS : DDR_LOG_REGIONS);
	const struct ddr_disk_log *d = buf;
	struct ddr_log_info host;
	struct ddr_fault fault;

	if (!map && slot >= sb->slots)
		return FAULT(DDR_FE_L_SLOT, slot, sb->slots);
	if (index >= (map ? sb->map_blocks : sb->log_blocks))
		return FAULT(DDR_FE_L_INDEX, index, map ? sb->map_blocks : sb->log_blocks);
	fault = check_envelope(d, map);
	if (fault.code)
		return fault;
	decode_header(d, &host);
	fault = check_header(&host, sb, slot, index, place);
	if (!fault.code)
		fault = map ? check_map_payload(d->payload, first, regions) :
			      check_log_payload(d->payload, first, regions);
	if (!fault.code)
		fault = check_repairs(d, map);
	if (!fault.code)
		*info = host;
	return fault;
}

void ddr_log_encode(struct ddr_disk_log *blk, const struct ddr_log_info *info)
{
	blk->magic.raw = htole32(info->slot == DDR_MAP_SLOT ? DDR_MAP_MAGIC : DDR_LOG_MAGIC);
	blk->version.raw = htole16(DDR_FORMAT_VERSION);
	blk->slot.raw = htole16(info->slot);
	blk->index.raw = htole32(info->index);
	blk->seq.raw = htole64(info->seq);
	blk->generation.raw = htole64(info->generation);
	memcpy(blk->array_uuid, info->array_uuid, sizeof(blk->array_uuid));
	memcpy(blk->boot_id, info->boot_id, sizeof(blk->boot_id));
	blk->cookie.raw = htole64(info->cookie);
	blk->node.raw = htole32(info->node);
	blk->length.raw = htole32(sizeof(*blk));
	for (uint32_t i = 0; i < DDR_LOG_REPAIRS; i++)
		blk->repair[i].raw = htole16(info->repair[i]);
	blk->crc32c.raw = htole32(ddr_crc32c_block(blk, sizeof(*blk), offsetof(struct ddr_disk_log, crc32c)));
}
