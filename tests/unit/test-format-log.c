/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The codec of log and map blocks: round trip, torn writes, every field damaged. */
#include <inttypes.h>

#include "tests/unit/fixture.h"

#define CRC_AT	offsetof(struct ddr_disk_log, crc32c)
#define AT(f)	offsetof(struct ddr_disk_log, f)
#define GIB	(1ull << 30)

/* 2040 regions or so: one log block a slot, one map block, both with room behind the end. */
static struct ddr_super sb;

static int setup(void **state)
{
	(void)state;
	fixture_super(&sb, 2, 1, DDR_LAYOUT_ROTATING, 2 * GIB, 0);
	return 0;
}

static void make_info(struct ddr_log_info *info, uint16_t slot, uint32_t index, uint64_t seq)
{
	memset(info, 0, sizeof(*info));
	info->slot = slot;
	info->index = index;
	info->seq = seq;
	info->generation = 3;
	memcpy(info->array_uuid, sb.array_uuid, sizeof(info->array_uuid));
	fixture_uuid(info->boot_id, 55);
	info->cookie = 0x123456789abcdef0u;
	info->node = 4;
}

static void make(struct ddr_disk_log *blk, uint16_t slot, uint64_t seq)
{
	struct ddr_log_info info;

	memset(blk, 0, sizeof(*blk));
	make_info(&info, slot, 0, seq);
	ddr_log_encode(blk, &info);
}

static void fix_crc(struct ddr_disk_log *blk)
{
	fixture_put((uint8_t *)blk + CRC_AT, fixture_crc32c(blk, 4096, (long)CRC_AT), 4);
}

static void test_round_trip(void **state)
{
	struct ddr_log_info info, back;
	struct ddr_disk_log blk;
	uint64_t seed = 5;

	(void)state;
	for (uint64_t seq = 1; seq < 40; seq++) {
		bool map = seq % 3 == 0;
		uint16_t slot = map ? DDR_MAP_SLOT : (uint16_t)(seq % sb.slots);

		memset(&blk, 0, sizeof(blk));
		for (uint64_t r = 0; r < ddr_super_regions(&sb); r++) {
			if (map)
				ddr_map_set(blk.payload, (uint32_t)r, (uint8_t)(fixture_random(&seed) % 3 | (seq & 12)));
			else
				ddr_log_set(blk.payload, (uint32_t)r, fixture_random(&seed) & 1);
		}
		make_info(&info, slot, 0, seq);
		ddr_log_encode(&blk, &info);
		assert_int_equal(fixture_get((uint8_t *)&blk + CRC_AT, 4), fixture_crc32c(&blk, 4096, (long)CRC_AT));
		memset(&back, 0, sizeof(back));
		assert_int_equal(ddr_log_decode(&blk, &sb, slot, 0, seq & 1, &back).code, DDR_FE_OK);
		assert_memory_equal(&info, &back, sizeof(info));
	}
}

/* Bit r % 8 of byte r / 8; low nibble first. */
static void test_payload_bits(void **state)
{
	uint8_t payload[DDR_LOG_PAYLOAD] = { 0 };

	(void)state;
	ddr_log_set(payload, 0, true);
	ddr_log_set(payload, 11, true);
	ddr_log_set(payload, DDR_LOG_REGIONS - 1, true);
	assert_int_equal(payload[0], 1);
	assert_int_equal(payload[1], 8);
	assert_int_equal(payload[DDR_LOG_PAYLOAD - 1], 0x80);
	assert_true(ddr_log_get(payload, 11));
	ddr_log_set(payload, 11, false);
	assert_false(ddr_log_get(payload, 11));
	assert_int_equal(payload[1], 0);
	memset(payload, 0, sizeof(payload));
	ddr_map_set(payload, 2, 9);
	ddr_map_set(payload, 3, 6);
	assert_int_equal(payload[1], 0x69);
	ddr_map_set(payload, 2, 1);
	assert_int_equal(ddr_map_get(payload, 2), 1);
	assert_int_equal(ddr_map_get(payload, 3), 6);
	ddr_map_set(payload, DDR_MAP_REGIONS - 1, 15);
	assert_int_equal(payload[DDR_LOG_PAYLOAD - 1], 0xf0);
}

/* No two blocks of any slots overlap at any place. */
static void test_offsets_are_apart(void **state)
{
	struct ddr_super big;
	uint64_t at = 0;

	(void)state;
	fixture_super(&big, 0, 1, DDR_LAYOUT_DEDICATED, 600ull << 40, 0);
	assert_true(big.log_blocks > 1 && big.map_blocks > 1);
	at = big.log_offset;
	for (uint32_t slot = 0; slot < big.slots; slot++)
		for (uint32_t i = 0; i < big.log_blocks; i++)
			for (unsigned int place = 0; place < 2; place++, at += 4096)
				assert_int_equal(ddr_log_offset(&big, slot, i, place), at);
	assert_int_equal(big.map_offset, at);
	for (uint32_t i = 0; i < big.map_blocks; i++)
		for (unsigned int place = 0; place < 2; place++, at += 4096)
			assert_int_equal(ddr_map_offset(&big, i, place), at);
}

static void test_every_bit_flip_is_noticed(void **state)
{
	struct ddr_disk_log blk;
	struct ddr_log_info info;
	uint8_t *b = (uint8_t *)&blk;

	(void)state;
	make(&blk, 3, 10);
	for (uint32_t i = 0; i < 4096; i++) {
		b[i] ^= (uint8_t)(1u << i % 8);
		assert_int_not_equal(ddr_log_decode(&blk, &sb, 3, 0, 0, &info).code, DDR_FE_OK);
		b[i] ^= (uint8_t)(1u << i % 8);
	}
	assert_int_equal(ddr_log_decode(&blk, &sb, 3, 0, 0, &info).code, DDR_FE_OK);
}

static void test_torn_write(void **state)
{
	struct ddr_disk_log old, new, torn;
	struct ddr_log_info info;

	(void)state;
	make(&old, 3, 10);
	make(&new, 3, 12);
	ddr_log_set(new.payload, 2000, true);
	fix_crc(&new);
	for (uint32_t cut = 512; cut < 4096; cut += 512) {
		bool whole;

		memcpy(&torn, &new, cut);
		memcpy((uint8_t *)&torn + cut, (uint8_t *)&old + cut, 4096 - cut);
		whole = memcmp(&torn, &new, sizeof(torn)) == 0;
		assert_int_equal(ddr_log_decode(&torn, &sb, 3, 0, 0, &info).code, whole ? DDR_FE_OK : DDR_FE_CRC);
	}
	memset(&torn, 0, sizeof(torn));
	assert_int_equal(ddr_log_decode(&torn, &sb, 3, 0, 0, &info).code, DDR_FE_BLANK);
}

/* -------------------------------------------------- every field, with a right crc */

struct row {
	const char *field;
	uint32_t offset;
	uint8_t size;
	uint64_t value;
	enum ddr_format_error want;
};

#define ROW(f, v, e) { #f, AT(f), sizeof(((struct ddr_disk_log *)0)->f), v, e }

static const struct row rows[] = {
	ROW(magic, DDR_MAP_MAGIC, DDR_FE_MAGIC), ROW(magic, DDR_SB_MAGIC, DDR_FE_MAGIC), ROW(version, 2, DDR_FE_VERSION),
	ROW(version, 0, DDR_FE_VERSION), ROW(slot, 4, DDR_FE_L_SLOT), ROW(slot, DDR_MAP_SLOT, DDR_FE_L_SLOT),
	ROW(slot, 63, DDR_FE_L_SLOT), ROW(index, 1, DDR_FE_L_INDEX), ROW(index, UINT32_MAX, DDR_FE_L_INDEX),
	ROW(seq, 0, DDR_FE_SEQ), ROW(seq, 11, DDR_FE_SEQ), ROW(generation, 0, DDR_FE_L_GENERATION),
	ROW(node, 0, DDR_FE_L_OWNER), ROW(length, 4095, DDR_FE_LENGTH), ROW(length, 0, DDR_FE_LENGTH),
	ROW(cookie, 0, DDR_FE_OK), ROW(node, 5, DDR_FE_OK), ROW(node, UINT32_MAX, DDR_FE_OK), ROW(cookie, UINT64_MAX, DDR_FE_OK),
	/* Finding U9: a number that nothing can follow */
	ROW(seq, 1ull << 32, DDR_FE_OK), ROW(seq, DDR_LOG_SEQ_MAX, DDR_FE_OK), ROW(seq, DDR_LOG_SEQ_MAX + 2, DDR_FE_SEQ_LIMIT),
	ROW(seq, UINT64_MAX - 1, DDR_FE_SEQ_LIMIT),
	{ "array_uuid", AT(array_uuid) + 7, 1, 0xff, DDR_FE_L_UUID },
	{ "boot_id", AT(boot_id), 8, 1, DDR_FE_OK },
	{ "repair", AT(repair), 2, 3, DDR_FE_L_REPAIR }, { "repair", AT(repair) + 46, 2, 1, DDR_FE_L_REPAIR },
	{ "payload", AT(payload) + DDR_LOG_PAYLOAD - 1, 1, 0x80, DDR_FE_L_BIT },
	{ "payload", AT(payload), 1, 0xff, DDR_FE_OK },
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

static void test_every_field_is_checked(void **state)
{
	struct ddr_disk_log good, blk;
	struct ddr_log_info info;
	char text[256];

	(void)state;
	make(&good, 3, 10);
	for (size_t i = 0; i < N_ROWS; i++) {
		struct ddr_fault fault;

		blk = good;
		fixture_put((uint8_t *)&blk + rows[i].offset, rows[i].value, rows[i].size);
		assert_memory_not_equal(&blk, &good, sizeof(blk));
		fix_crc(&blk);
		memset(&info, 0xee, sizeof(info));
		fault = ddr_log_decode(&blk, &sb, 3, 0, 0, &info);
		if (fault.code != rows[i].want)
			fail_msg("row %zu, %s = %" PRIu64 ": %s", i, rows[i].field, rows[i].value,
				 ddr_fault_text(&fault, text, sizeof(text)));
		if (fault.code)
			assert_int_equal(info.node, 0xeeeeeeeeu);
	}
}

static void test_every_field_has_a_row(void **state)
{
	const struct ddr_field *f;
	size_t n = ddr_fields(true, &f);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		bool found = strcmp(f[i].name, "crc32c") == 0;

		for (size_t r = 0; r < N_ROWS && !found; r++)
			found = strcmp(rows[r].field, f[i].name) == 0;
		if (!found)
			fail_msg("no row damages %s", f[i].name);
	}
}

/* Bits behind the last region, and the first of them exactly. */
static void test_end_of_the_array(void **state)
{
	uint64_t regions = ddr_super_regions(&sb);
	struct ddr_disk_log blk;
	struct ddr_log_info info;
	struct ddr_fault fault;

	(void)state;
	make(&blk, 0, 2);
	ddr_log_set(blk.payload, (uint32_t)regions - 1, true);
	fix_crc(&blk);
	assert_int_equal(ddr_log_decode(&blk, &sb, 0, 0, 0, &info).code, DDR_FE_OK);
	ddr_log_set(blk.payload, (uint32_t)regions, true);
	fix_crc(&blk);
	fault = ddr_log_decode(&blk, &sb, 0, 0, 0, &info);
	assert_int_equal(fault.code, DDR_FE_L_BIT);
	assert_int_equal(fault.a, regions);

	make(&blk, DDR_MAP_SLOT, 2);
	ddr_map_set(blk.payload, (uint32_t)regions - 1, DDR_REGION_CLEAN);
	fix_crc(&blk);
	assert_int_equal(ddr_log_decode(&blk, &sb, DDR_MAP_SLOT, 0, 0, &info).code, DDR_FE_OK);
	ddr_map_set(blk.payload, (uint32_t)regions, DDR_REGION_CLEAN);
	fix_crc(&blk);
	assert_int_equal(ddr_log_decode(&blk, &sb, DDR_MAP_SLOT, 0, 0, &info).code, DDR_FE_L_BIT);
	make(&blk, DDR_MAP_SLOT, 2);
	ddr_map_set(blk.payload, 17, 3 | DDR_REGION_F_SUSPECT);
	fix_crc(&blk);
	fault = ddr_log_decode(&blk, &sb, DDR_MAP_SLOT, 0, 0, &info);
	assert_int_equal(fault.code, DDR_FE_L_STATE);
	assert_int_equal(fault.a, 17);
}

/* A block that was asked for where there is none. */
static void test_outside(void **state)
{
	struct ddr_disk_log blk;
	struct ddr_log_info info;

	(void)state;
	make(&blk, 3, 10);
	assert_int_equal(ddr_log_decode(&blk, &sb, (uint16_t)sb.slots, 0, 0, &info).code, DDR_FE_L_SLOT);
	assert_int_equal(ddr_log_decode(&blk, &sb, 3, sb.log_blocks, 0, &info).code, DDR_FE_L_INDEX);
	assert_int_equal(ddr_log_decode(&blk, &sb, DDR_MAP_SLOT, sb.map_blocks, 0, &info).code, DDR_FE_L_INDEX);
	assert_int_equal(ddr_log_decode(&blk, &sb, DDR_MAP_SLOT, 0, 0, &info).code, DDR_FE_MAGIC);
	assert_int_equal(ddr_log_decode(&blk, &sb, 3, 0, 1, &info).code, DDR_FE_SEQ);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_payload_bits),
		cmocka_unit_test(test_offsets_are_apart),
		cmocka_unit_test(test_every_bit_flip_is_noticed),
		cmocka_unit_test(test_torn_write),
		cmocka_unit_test(test_every_field_is_checked),
		cmocka_unit_test(test_every_field_has_a_row),
		cmocka_unit_test(test_end_of_the_array),
		cmocka_unit_test(test_outside),
	};

	return cmocka_run_group_tests_name("format-log", tests, setup, NULL);
}
