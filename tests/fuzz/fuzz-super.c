/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzzes what happens to a superblock from the disk: decoding, sentences, geometry,
 * re-encoding, assembly with two of them. The input is two blocks of 4096 bytes.
 */
#include <string.h>

#include "lib/disk/assemble.h"
#include "lib/disk/layout.h"
#include "lib/math/crc32c.h"
#include "tests/fuzz/fuzz.h"

#define CRC_AT	offsetof(struct ddr_disk_sb, crc32c)

/* What every later user of a decoded superblock relies on. */
static void require_sane(const struct ddr_super *sb)
{
	struct ddr_geometry geo = { 0 };
	uint64_t regions = ddr_super_regions(sb);
	uint64_t log_end = ddr_log_offset(sb, sb->slots, 0, 0), map_end = ddr_map_offset(sb, sb->map_blocks, 0);

	ddr_super_geometry(sb, &geo);
	fuzz_require(geo.roles == sb->roles && geo.chunk == sb->chunk);
	fuzz_require(regions > 0 && regions <= DDR_MAX_REGIONS);
	fuzz_require((uint64_t)sb->log_blocks * DDR_LOG_REGIONS >= regions);
	fuzz_require((uint64_t)sb->map_blocks * DDR_MAP_REGIONS >= regions);
	fuzz_require(sb->log_offset >= DDR_SB_OFFSET + DDR_META_BLOCK && log_end <= sb->map_offset);
	fuzz_require(map_end + DDR_META_BLOCK <= sb->data_offset && sb->data_offset <= DDR_DATA_OFFSET_MAX);
	fuzz_require(ddr_layout_data_end(sb) / sb->chunk >= sb->array_blocks);
	fuzz_require(memchr(sb->name, 0, sizeof(sb->name)) != NULL && sb->name[0]);
	fuzz_require(sb->this_member < sb->members && sb->members <= DDR_MAX_MEMBERS && sb->slots <= DDR_MAX_SLOTS);
	for (uint32_t m = 0; m < sb->members; m++)
		fuzz_require(sb->member[m].role < sb->roles || sb->member[m].role == DDR_ROLE_NONE);
}

static int decode(const uint8_t *block, unsigned int copy, struct ddr_super *sb)
{
	uint64_t data_offset = 0, offset = DDR_SB_OFFSET;
	struct ddr_fault fault;
	uint8_t again[DDR_META_BLOCK];
	char text[256];

	/* a reader that looks for copy 1 finds it where it says that it lies */
	memcpy(&data_offset, block + offsetof(struct ddr_disk_sb, data_offset), sizeof(data_offset));
	if (copy)
		offset = data_offset - DDR_META_BLOCK;
	memset(sb, 0, sizeof(*sb));
	fault = ddr_super_decode(block, copy, offset, sb);
	fuzz_require(strlen(ddr_fault_text(&fault, text, sizeof(text))) > 0 && !strchr(text, '\n'));
	fuzz_require(strlen(ddr_format_error_name(fault.code)) > 0);
	if (fault.code)
		return -1;
	require_sane(sb);
	fuzz_require(ddr_super_check(sb).code == DDR_FE_OK);
	if (ddr_super_ro_only(sb)) {
		fuzz_require(ddr_super_encode(sb, again).code == DDR_FE_RO_COMPAT);
	} else {
		fuzz_require(ddr_super_encode(sb, again).code == DDR_FE_OK);
		/* without unknown features the codec keeps every byte */
		fuzz_require(sb->compat || memcmp(again, block, sizeof(again)) == 0);
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct ddr_super sb[2];
	static struct ddr_assembly out;
	struct ddr_candidate cand[2] = { { .device = "a" }, { .device = "b" } };
	struct ddr_error err;
	uint8_t block[DDR_META_BLOCK];

	for (unsigned int i = 0; i < 2; i++) {
		size_t from = i * sizeof(block), have = size > from ? size - from : 0;

		memset(block, 0, sizeof(block));
		memcpy(block, data + (have ? from : 0), have < sizeof(block) ? have : sizeof(block));
		cand[i].bytes = UINT64_MAX;
		if (decode(block, 0, &sb[i]) == 0 || decode(block, 1, &sb[i]) == 0)
			cand[i].super = &sb[i];
	}
	err.text[0] = '\0';
	if (ddr_assemble(cand, 2, NULL, &out, &err) == 0) {
		fuzz_require((unsigned int)__builtin_popcount(out.usable) >= 1u << out.super.order);
		for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++)
			fuzz_require(out.device[m] < 2);
	} else {
		fuzz_require(err.text[0] && !strchr(err.text, '\n'));
	}
	return 0;
}

static void seed_super(struct ddr_super *sb, uint64_t n)
{
	struct ddr_layout_request req = {
		.member_bytes = (8ull << 20) << (n >> 8) % 24, .order = n % 4, .parity = n / 4 % 3, .layout = n / 12 % 2,
		.slots = 1 + (n >> 16) % DDR_MAX_SLOTS,
	};

	memset(sb, 0, sizeof(*sb));
	fuzz_require(ddr_layout_compute(&req, sb, NULL) == 0);
	sb->seq = 2 + (n >> 24) % 2;
	sb->generation = 1 + (n >> 32) % 2;
	memset(sb->array_uuid, 0x11, sizeof(sb->array_uuid));
	memset(sb->gen_id, (int)sb->generation, sizeof(sb->gen_id));
	memset(sb->gen_prev, (int)sb->generation - 1, sizeof(sb->gen_prev));
	strcpy(sb->name, "fuzz");
	sb->members = sb->roles + (n >> 40) % 3;
	for (uint16_t m = 0; m < sb->members; m++) {
		memset(sb->member[m].uuid, 0x20 + m, sizeof(sb->member[m].uuid));
		sb->member[m].state = m < sb->roles ? DDR_MEMBER_IN_SYNC : DDR_MEMBER_SPARE;
		sb->member[m].role = m < sb->roles ? m : DDR_ROLE_NONE;
		sb->member[m].since = 1;
	}
}

size_t fuzz_seed(uint64_t n, uint8_t *buf)
{
	struct ddr_super sb;

	seed_super(&sb, n);
	for (unsigned int i = 0; i < 2; i++) {
		sb.this_member = (uint16_t)(i % sb.members);
		fuzz_require(ddr_super_encode(&sb, buf + i * DDR_META_BLOCK).code == DDR_FE_OK);
	}
	return 2u * DDR_META_BLOCK;
}

void fuzz_repair(uint8_t *buf, size_t size)
{
	for (size_t from = 0; from + DDR_META_BLOCK <= size; from += DDR_META_BLOCK) {
		uint32_t crc = ddr_crc32c_block(buf + from, DDR_META_BLOCK, CRC_AT);

		for (unsigned int i = 0; i < 4; i++)
			buf[from + CRC_AT + i] = (uint8_t)(crc >> (8 * i));
	}
}
