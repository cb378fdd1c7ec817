// SPDX-License-Identifier: GPL-2.0-or-later
/* What `ddraid estimate` expects of an array: figures that can be computed by hand. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/disk/format.h"
#include "lib/estimate.h"

#define MIB	1048576.0
#define TIB	(1ull << 40)
#define YEAR_S	(365.25 * 86400)

/* Disks of 1 TiB that read 100 MiB a second and write 80. */
static struct ddr_estimate_in disks(uint8_t order, uint8_t parity, uint8_t layout)
{
	return (struct ddr_estimate_in){
		.order = order, .parity = parity, .layout = layout, .array_bytes = TIB << order, .region_size = 4u << 20,
		.read_rate = 100 * MIB, .write_rate = 80 * MIB, .read_iops = 120, .write_iops = 100, .written = 1, .busy_rate = 10 * MIB,
	};
}

static struct ddr_estimate estimate(const struct ddr_estimate_in *in)
{
	struct ddr_estimate out;

	ddr_estimate(in, &out);
	return out;
}

/* Within a millionth. */
static void assert_near(double is, double wanted)
{
	if (!(fabs(is - wanted) <= 1e-6 * fabs(wanted)))
		fail_msg("%.17g instead of %.17g", is, wanted);
}

static void all_data_disks_work_for_every_block(void **state)
{
	struct ddr_estimate_in in = disks(2, 1, DDR_LAYOUT_ROTATING);
	struct ddr_estimate e = estimate(&in);

	(void)state;
	assert_int_equal(e.members, 5);
	assert_int_equal(e.data, 4);
	assert_int_equal(e.may_fail, 1);
	assert_near(e.write_rate, 320 * MIB);
	assert_near(e.read_rate[0], 400 * MIB);
	assert_near(e.read_rate[1], 500 * MIB);
	assert_near(e.write_iops, 100);
	assert_near(e.read_iops[0], 120);
	assert_near(e.read_iops[1], 150);
	assert_near(e.degraded_rate[0], 400 * MIB);
	assert_near(e.degraded_rate[1], 400 * MIB);
}

static void a_dedicated_parity_disk_reads_nothing(void **state)
{
	struct ddr_estimate_in in = disks(3, 2, DDR_LAYOUT_DEDICATED);
	struct ddr_estimate e = estimate(&in);

	(void)state;
	assert_int_equal(e.members, 10);
	assert_near(e.read_rate[0], 800 * MIB);
	assert_near(e.read_rate[1], 800 * MIB);
	assert_near(e.read_iops[1], 120);
}

static void without_parity_nothing_is_rebuilt(void **state)
{
	struct ddr_estimate_in in = disks(2, 0, DDR_LAYOUT_DEDICATED);
	struct ddr_estimate e;

	(void)state;
	in.afr = 0.02;
	e = estimate(&in);
	assert_int_equal(e.may_fail, 0);
	assert_near(e.read_rate[0], 400 * MIB);
	assert_true(e.rebuild_s == 0 && e.verify_s == 0 && e.resync_region_s == 0 && e.degraded_rate[0] == 0);
	assert_near(e.array_lost, 1 - pow(0.98, 4));
	assert_true(e.block_lost == 0);
}

/* The slower of reading and writing counts; blocks that were never written do not. */
static void a_rebuild_takes_as_long_as_a_disk_is_large(void **state)
{
	struct ddr_estimate_in in = disks(2, 1, DDR_LAYOUT_ROTATING);
	double whole = (double)TIB / (80 * MIB * 0.95);
	struct ddr_estimate e = estimate(&in);

	(void)state;
	assert_near(e.rebuild_s, whole);
	assert_near(e.rebuild_busy_s, (double)TIB * 4 / (10 * MIB));
	assert_near(e.verify_s, (double)TIB / (100 * MIB * 0.95));
	assert_near(e.verify_busy_s[0], e.verify_s);
	assert_near(e.verify_busy_s[4], e.verify_s * 50);
	assert_near(e.resync_region_s, MIB / (80 * MIB * 0.95));
	in.written = 0.1;
	e = estimate(&in);
	assert_near(e.rebuild_s, whole / 10);
	in.busy_rate = 10000 * MIB;		/* more than there is */
	e = estimate(&in);
	assert_near(e.rebuild_busy_s, whole / 10);
}

/*
 * Two disks, each of which fails every hundred years: one of the two fails every fifty years, and the other one may fail before it is
 * replaced.
 */
static void a_mirror_is_lost_when_both_fail(void **state)
{
	struct ddr_estimate_in in = disks(0, 1, DDR_LAYOUT_DEDICATED);
	struct ddr_estimate e;

	(void)state;
	in.afr = -expm1(-0.01);
	in.wait_s = YEAR_S / 100;
	e = estimate(&in);
	assert_near(e.array_lost, -expm1(-0.02 * 0.01 * (in.wait_s + e.rebuild_s) / YEAR_S));
	assert_true(e.block_lost == 0);
}

static void two_parities_need_a_third_failure(void **state)
{
	struct ddr_estimate_in in = disks(2, 2, DDR_LAYOUT_ROTATING);
	struct ddr_estimate e;
	double part;

	(void)state;
	in.afr = -expm1(-0.01);
	e = estimate(&in);
	part = 0.01 * e.rebuild_s / YEAR_S;
	assert_near(e.array_lost, -expm1(-0.06 * (5 * part) * (4 * part)));
}

/*
 * A rebuild without redundancy left reads all data: 4 TiB. At an error rate of 1e-14 a bit, a sector of it is unreadable in three of
 * ten cases.
 */
static void unreadable_sectors_in_a_rebuild_count_as_lost(void **state)
{
	struct ddr_estimate_in in = disks(2, 1, DDR_LAYOUT_ROTATING);
	double meets = -expm1(4.0 * (double)TIB * 8 * log1p(-1e-14));
	struct ddr_estimate e;

	(void)state;
	assert_in_range((unsigned long)(meets * 1000), 290, 300);
	in.afr = -expm1(-0.01);
	in.unreadable = 1e-14;
	e = estimate(&in);
	assert_near(e.block_lost, -expm1(-0.05 * meets));
	in.parity = 2;
	e = estimate(&in);
	assert_near(e.block_lost, -expm1(-0.06 * (5 * 0.01 * e.rebuild_s / YEAR_S) * meets));
}

/* However bad the disks, it is a chance. */
static void a_chance_is_at_most_one(void **state)
{
	struct ddr_estimate_in in = disks(3, 2, DDR_LAYOUT_ROTATING);
	struct ddr_estimate e;

	(void)state;
	in.afr = 0.99;
	in.wait_s = 10 * YEAR_S;
	in.unreadable = 0.1;
	e = estimate(&in);
	assert_true(e.array_lost > 0.99 && e.array_lost <= 1);
	assert_true(e.block_lost > 0.99 && e.block_lost <= 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_data_disks_work_for_every_block),
		cmocka_unit_test(a_dedicated_parity_disk_reads_nothing),
		cmocka_unit_test(without_parity_nothing_is_rebuilt),
		cmocka_unit_test(a_rebuild_takes_as_long_as_a_disk_is_large),
		cmocka_unit_test(a_mirror_is_lost_when_both_fail),
		cmocka_unit_test(two_parities_need_a_third_failure),
		cmocka_unit_test(unreadable_sectors_in_a_rebuild_count_as_lost),
		cmocka_unit_test(a_chance_is_at_most_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
