// SPDX-License-Identifier: GPL-2.0-or-later
/* How much memory an array needs. All of the daemon's memory is locked, used or not. */
#include "tests/unit/served-rig.h"

#include <malloc.h>

#define LARGE_BYTES	(544ull << 20)	/* a member of an array of 16 k regions */
#define FIRST		8u	/* arrays that fill what all share */
#define MEASURED	16u	/* further ones */
#define EACH_KIB	1700u	/* of each: 64 take 107 MiB */

/* What malloc() has taken from the system. */
static size_t taken(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.arena + m.hblkhd;
}

/* Finding U8: each array had 3 MB, for messages, superblocks and records that none ever has. The memory of ranges is apart (test-job-stock.c). */
static void an_array_of_16_k_regions_needs_little_memory(void **state)
{
	const struct ddr_layout_request small_regions = {
		.member_bytes = LARGE_BYTES, .region_size = DDR_MIN_REGION, .order = 1, .parity = 1, .layout = DDR_LAYOUT_ROTATING, .slots = DDR_DEF_SLOTS,
	};
	struct ddr_array *array[FIRST + MEASURED];
	struct ddr_super sb;
	struct ddr_error err;
	size_t before = 0, each;
	int peer[FIRST + MEASURED];

	(void)state;
	begin(DDR_ENGINE_AUTO);
	fixture_super(&sb, 1, 1, DDR_LAYOUT_ROTATING, LARGE_BYTES, 0);
	assert_int_equal(ddr_layout_compute(&small_regions, &sb, &err), 0);
	assert_true(ddr_super_regions(&sb) >= 16384);
	for (unsigned int i = 0; i < FIRST + MEASURED; i++) {
		if (i == FIRST)
			before = taken();
		array[i] = calloc(1, sizeof(*array[i]));
		start(array[i], &sb, LARGE_BYTES);
		peer[i] = play.peer;
	}
	each = (taken() - before) / MEASURED;
	print_message("an array of 16 k regions takes %zu KiB\n", each >> 10);
	for (unsigned int i = 0; i < FIRST + MEASURED; i++) {
		ddr_drive_stop(array[i]);
		ddr_kchan_close(array[i]->chan);
		close(peer[i]);
		free(array[i]);
	}
	free(d.outs);
	qb_loop_destroy(d.loop);
	assert_true(each <= EACH_KIB << 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_array_of_16_k_regions_needs_little_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
