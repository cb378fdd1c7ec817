/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ddr_layout_compute(): limits, defaults, and that its result obeys the format. */
#include <inttypes.h>

#include "tests/unit/fixture.h"
#include "lib/disk/format_owner.h"

#define KIB	(1ull << 10)
#define MIB	(1ull << 20)
#define GIB	(1ull << 30)
#define TIB	(1ull << 40)

static bool owners;	/* format 2 */

static int compute(struct ddr_super *sb, uint64_t bytes, unsigned int order, unsigned int parity, uint32_t region,
		   uint32_t slots, struct ddr_error *err)
{
	struct ddr_layout_request req = {
		.member_bytes = bytes, .order = (uint8_t)order, .parity = (uint8_t)parity,
		.layout = DDR_LAYOUT_ROTATING, .region_size = region, .slots = slots, .owners = owners,
	};

	memset(sb, 0, sizeof(*sb));
	err->text[0] = '\0';
	return ddr_layout_compute(&req, sb, err);
}

/* Everything that must hold of any layout. */
static void check(const struct ddr_super *sb, uint64_t bytes)
{
	uint64_t regions = ddr_super_regions(sb);

	assert_int_equal(sb->data_offset % MIB, 0);
	assert_true(sb->data_offset <= DDR_DATA_OFFSET_MAX);
	assert_true(sb->log_offset >= 8192);
	assert_int_equal(sb->log_offset % 4096, 0);
	assert_true(ddr_log_offset(sb, sb->slots - 1, sb->log_blocks - 1, 1) + 4096 <= sb->map_offset);
	assert_true(ddr_map_offset(sb, sb->map_blocks - 1, 1) + 4096 <= ddr_super_offset(sb, 1));
	assert_int_equal(ddr_super_has_owners(sb), owners);
	if (owners)	/* pages and stamps between the map and copy 1, and growth keeps its room */
		assert_true(sb->owner_offset >= ddr_map_offset(sb, sb->map_blocks, 0) &&
			    sb->owner_offset + ddr_owner_bytes(sb->slots) == ddr_super_offset(sb, 1) && sb->owner_pages == ddr_owner_pages(sb->slots));
	assert_int_equal(ddr_super_offset(sb, 1) + 4096, sb->data_offset);
	assert_int_equal(sb->array_blocks % (1u << sb->order), 0);
	assert_true(sb->array_blocks >= DDR_MIN_ARRAY_BLOCKS);
	assert_true(ddr_layout_member_bytes(sb) <= bytes);
	/* nothing is wasted beyond one multiple of 2^order blocks */
	assert_true(bytes - ddr_layout_member_bytes(sb) < (uint64_t)sb->chunk << sb->order);
	assert_true(regions >= 1 && regions <= DDR_MAX_REGIONS);
	assert_true((uint64_t)sb->log_blocks * DDR_LOG_REGIONS >= regions);
	assert_true((uint64_t)sb->map_blocks * DDR_MAP_REGIONS >= regions);
}

static void test_all_sizes(void **state)
{
	struct ddr_super sb, full;
	struct ddr_error err;
	uint64_t seed = 4;

	(void)state;
	for (unsigned int i = 0; i < 4000; i++) {
		unsigned int order = i % 4, parity = i / 4 % 3;
		uint32_t slots = 1 + (uint32_t)(fixture_random(&seed) % DDR_MAX_SLOTS);
		/* any magnitude from 4 MiB to 1 PiB */
		uint64_t bytes = fixture_random(&seed) >> (14 + fixture_random(&seed) % 27);

		bytes = bytes % (1024 * TIB >> order) + 4 * MIB;
		if (compute(&sb, bytes, order, parity, 0, slots, &err))
			fail_msg("%" PRIu64 " bytes, order %u: %s", bytes, order, err.text);
		check(&sb, bytes);
		/* and the decoder finds nothing wrong with it */
		fixture_super(&full, (uint8_t)order, (uint8_t)parity, DDR_LAYOUT_ROTATING, bytes, 0);
		assert_int_equal(ddr_super_check(&full).code, DDR_FE_OK);
	}
}

/* The smallest from 4 MiB up that needs at most 64 k regions, 1 GiB beyond 64 TiB. */
static void test_default_region_size(void **state)
{
	static const struct { uint64_t member; unsigned int order; uint64_t region; } rows[] = {
		{ 64 * MIB, 0, 4 * MIB }, { 256 * GIB, 0, 4 * MIB }, { 256 * GIB + 8 * MIB, 0, 8 * MIB },
		{ 128 * GIB, 1, 4 * MIB }, { 129 * GIB, 1, 8 * MIB }, { TIB, 2, 64 * MIB }, { 16 * TIB, 2, GIB },
		{ 32 * TIB, 1, GIB }, { 65 * TIB, 0, GIB }, { 200 * TIB, 2, GIB }, { 127 * TIB, 3, GIB },
	};
	struct ddr_super sb;
	struct ddr_error err;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(compute(&sb, rows[i].member, rows[i].order, 1, 0, 16, &err), 0);
		assert_int_equal(sb.region_size, rows[i].region);
		assert_true(ddr_super_regions(&sb) <= 65536 || sb.region_size == GIB);
		if (sb.region_size > 4 * MIB)	/* half of it would have been too small */
			assert_true(sb.array_blocks * 4096 > 65536ull * sb.region_size / 2);
	}
}

static void refused(uint64_t bytes, unsigned int order, uint32_t region, uint32_t slots, const char *words)
{
	struct ddr_super sb, before;
	struct ddr_error err;

	memset(&before, 0, sizeof(before));
	assert_int_equal(compute(&sb, bytes, order, 1, region, slots, &err), -1);
	if (!strstr(err.text, words))
		fail_msg("'%s' does not speak of '%s'", err.text, words);
	assert_memory_equal(&sb, &before, sizeof(sb));
}

static void test_limits(void **state)
{
	struct ddr_super sb;
	struct ddr_error err;

	(void)state;
	refused(0, 0, 0, 16, "too small");
	refused(4096, 2, 0, 16, "too small");
	refused(MIB + 64 * KIB, 2, 0, 16, "too small");
	/* 1 MiB metadata, 1 MiB array, tail: just enough, and one sector less */
	assert_int_equal(compute(&sb, MIB + MIB + 64 * KIB, 0, 1, 0, 16, &err), 0);
	check(&sb, 2 * MIB + 64 * KIB);
	assert_int_equal(sb.array_blocks, 256);
	refused(2 * MIB + 64 * KIB - 512, 0, 0, 16, "too small");
	refused(TIB, 4, 0, 16, "order");
	refused(TIB, 2, 0, 0, "slots");
	refused(TIB, 2, 0, 65, "slots");
	refused(TIB, 2, 32 * KIB, 16, "region size");
	refused(TIB, 2, 2u << 30, 16, "region size");
	refused(TIB, 2, 3 << 20, 16, "region size");
	refused(TIB, 2, 64 * KIB, 16, "regions");
	refused(1025 * TIB, 0, 0, 16, "1 PiB");
	refused(129 * TIB, 3, 0, 16, "1 PiB");
	refused(UINT64_MAX, 3, 0, 16, "1 PiB");
	refused(UINT64_MAX, 0, 64 * KIB, 64, "regions");
	refused(UINT64_MAX, 0, GIB, 64, "1 PiB");
}

/* Findings S14, P10: a disk of another maker that is a few sectors smaller could not replace one. A new array leaves 1 %, 100 MiB at most. */
static void test_what_is_left_free(void **state)
{
	static const uint64_t disks[] = { 8 * MIB, 64 * MIB, GIB, 9 * GIB, 10 * GIB, TIB, 20 * TIB };
	struct ddr_super sb;
	struct ddr_error err;

	(void)state;
	for (size_t i = 0; i < sizeof(disks) / sizeof(disks[0]); i++) {
		uint64_t bytes = disks[i] + 512, left = bytes / 100 < 100 * MIB ? bytes / 100 : 100 * MIB;
		struct ddr_layout_request req = { .member_bytes = bytes, .order = 2, .parity = 1, .layout = DDR_LAYOUT_ROTATING, .slots = 16, .leave = true };

		memset(&sb, 0, sizeof(sb));
		assert_int_equal(ddr_layout_compute(&req, &sb, &err), 0);
		assert_in_range(bytes - ddr_layout_member_bytes(&sb), left, left + 4096);
		assert_int_equal(ddr_layout_offered(bytes), bytes - left);
		assert_true(ddr_super_blocks_in(&sb, ddr_layout_offered(bytes)) == sb.array_blocks);	/* and nothing is there to grow into */
	}
}

/* The largest of everything: 1 PiB, a million regions, 64 slots. */
static void test_largest(void **state)
{
	struct ddr_super sb;
	struct ddr_error err;
	uint64_t bytes = 1024 * TIB;

	(void)state;
	assert_int_equal(compute(&sb, bytes, 0, 2, 0, 64, &err), 0);
	check(&sb, bytes);
	assert_int_equal(ddr_super_regions(&sb), DDR_MAX_REGIONS);
	assert_int_equal(compute(&sb, 64 * GIB + 8 * MIB, 0, 2, 64 * KIB, 64, &err), 0);
	assert_true(ddr_super_regions(&sb) > DDR_MAX_REGIONS - 1024);
	check(&sb, 64 * GIB + 8 * MIB);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_sizes),
		cmocka_unit_test(test_what_is_left_free),
		cmocka_unit_test(test_default_region_size),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_largest),
	};

	int failed = cmocka_run_group_tests_name("layout, format 1", tests, NULL, NULL);

	owners = true;
	return failed + cmocka_run_group_tests_name("layout, format 2", tests, NULL, NULL);
}
