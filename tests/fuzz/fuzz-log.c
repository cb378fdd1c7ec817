/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzzes the decoding of log and map blocks. The input: one byte each for the shape of
 * the array, slot, index and place, four of padding, then the block.
 */
#include <string.h>

#include "lib/disk/layout.h"
#include "lib/math/crc32c.h"
#include "tests/fuzz/fuzz.h"

#define HEAD	8u
#define CRC_AT	offsetof(struct ddr_disk_log, crc32c)

static void array_of(struct ddr_super *sb, uint8_t shape)
{
	/* from a fraction of a block to many blocks of regions */
	struct ddr_layout_request req = {
		.member_bytes = (6ull << 20) << shape % 25, .order = shape % 4, .parity = 1, .slots = 1 + shape % 64,
	};

	memset(sb, 0, sizeof(*sb));
	fuzz_require(ddr_layout_compute(&req, sb, NULL) == 0);
	memset(sb->array_uuid, 0x11, sizeof(sb->array_uuid));
}

static uint16_t slot_of(uint8_t byte)
{
	return byte & 1 ? byte >> 1 : DDR_MAP_SLOT;
}

static void require_sane(const struct ddr_disk_log *blk, const struct ddr_super *sb, const struct ddr_log_info *info,
			 bool map)
{
	uint32_t here = map ? DDR_MAP_REGIONS : DDR_LOG_REGIONS;
	uint64_t first = (uint64_t)info->index * here, regions = ddr_super_regions(sb);

	fuzz_require(info->seq > 0 && info->generation > 0);
	fuzz_require(info->index < (map ? sb->map_blocks : sb->log_blocks));	/* there may be room for more regions */
	for (uint32_t i = 0; i < here; i++) {
		uint8_t value = map ? ddr_map_get(blk->payload, i) : ddr_log_get(blk->payload, i);

		fuzz_require(first + i < regions || value == 0);
		fuzz_require(!map || (value & DDR_REGION_STATE_MASK) <= DDR_REGION_CLEAN);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ddr_disk_log blk, again;
	struct ddr_log_info info;
	struct ddr_super sb;
	struct ddr_fault fault;
	char text[256];
	uint16_t slot;

	if (size < HEAD)
		return 0;
	array_of(&sb, data[0]);
	slot = slot_of(data[1]);
	memset(&blk, 0, sizeof(blk));
	memcpy(&blk, data + HEAD, size - HEAD < sizeof(blk) ? size - HEAD : sizeof(blk));
	fault = ddr_log_decode(&blk, &sb, slot, data[2], data[3] & 1, &info);
	fuzz_require(strlen(ddr_fault_text(&fault, text, sizeof(text))) > 0 && !strchr(text, '\n'));
	if (fault.code)
		return 0;
	fuzz_require(info.slot == slot && info.index == data[2] && (info.seq & 1) == (data[3] & 1));
	require_sane(&blk, &sb, &info, slot == DDR_MAP_SLOT);
	again = blk;
	ddr_log_encode(&again, &info);
	fuzz_require(memcmp(&again, &blk, sizeof(blk)) == 0);
	return 0;
}

size_t fuzz_seed(uint64_t n, uint8_t *buf)
{
	struct ddr_log_info info = { .seq = 1 + (n >> 32) % 8, .generation = 1, .node = 1, .cookie = n };
	struct ddr_disk_log blk;
	struct ddr_super sb;

	memset(buf, 0, HEAD);
	buf[0] = (uint8_t)n;
	array_of(&sb, buf[0]);
	buf[1] = n & 256 ? 0 : (uint8_t)((n >> 9) % sb.slots << 1 | 1);
	buf[2] = (uint8_t)((n >> 16) % (buf[1] ? sb.log_blocks : sb.map_blocks));
	buf[3] = info.seq & 1;
	info.slot = slot_of(buf[1]);
	info.index = buf[2];
	memcpy(info.array_uuid, sb.array_uuid, sizeof(info.array_uuid));
	memset(&blk, 0, sizeof(blk));
	ddr_log_encode(&blk, &info);
	memcpy(buf + HEAD, &blk, sizeof(blk));
	return HEAD + sizeof(blk);
}

void fuzz_repair(uint8_t *buf, size_t size)
{
	uint32_t crc;

	if (size < HEAD + DDR_META_BLOCK)
		return;
	crc = ddr_crc32c_block(buf + HEAD, DDR_META_BLOCK, CRC_AT);
	for (unsigned int i = 0; i < 4; i++)
		buf[HEAD + CRC_AT + i] = (uint8_t)(crc >> (8 * i));
}
