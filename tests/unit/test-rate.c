// SPDX-License-Identifier: GPL-2.0-or-later
/* The pace of background work: its rates, its share of the time while the array is in use, and the hours of a verify. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "daemon/base/clock.h"
#include "daemon/job/rate.h"
#include "lib/disk/format.h"

struct rig {
	struct ddr_rate rate;
	struct ddr_tunables tune;
	uint64_t quiet_until_ms;
};

static struct ddr_super super;
static uint64_t now_ms;
static bool resync_paused, verify_paused, used, used_elsewhere;
static unsigned int reading;	/* reads of verify that are under way */

/* ---- what rate.c uses ---------------------------------------------------------- */

uint64_t ddr_now_ms(void)
{
	return now_ms;
}

static void set(void *ctx, enum ddr_sm_key key, uint64_t value)
{
	(void)ctx;
	if (key == DDR_SM_RESYNC_PAUSED)
		resync_paused = value;
	else if (key == DDR_SM_VERIFY_PAUSED)
		verify_paused = value;
	else if (key == DDR_SM_USED)
		used = value;
}

const struct ddr_super *ddr_sm_super(const struct ddr_sm *sm)
{
	(void)sm;
	return &super;
}

bool ddr_sm_used_elsewhere(const struct ddr_sm *sm)
{
	(void)sm;
	return used_elsewhere;
}

bool ddr_sm_scans_idle(const struct ddr_sm *sm)
{
	(void)sm;
	return reading == 0;
}

/* ---- the tests ----------------------------------------------------------------- */

static int setup(void **state)
{
	struct rig *a = calloc(1, sizeof(*a));

	assert_non_null(a);
	now_ms = 1000000;
	resync_paused = verify_paused = used = used_elsewhere = false;
	reading = 0;
	a->tune = (struct ddr_tunables){ .resync = 1, .resync_min = 64 * 1024, .resync_priority = 4, .resync_parallel = 2 };
	a->rate = (struct ddr_rate){ .set = set, .tune = &a->tune, .quiet_until_ms = &a->quiet_until_ms };
	super.verify.priority = 4;
	*state = a;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

/* Ticks of 100 ms, at least one, until @flag is false; returns the milliseconds. @busy: the device is in use all the time. */
static uint64_t until_free(struct rig *a, const bool *flag, bool busy)
{
	uint64_t begun = now_ms;

	do {
		now_ms += 100;
		a->rate.io_seen = busy;		/* there is no device, which has served nothing: something else than was seen */
		ddr_rate_tick(&a->rate, now_ms);
	} while (*flag && now_ms - begun < 60000);
	return now_ms - begun;
}

static void warm_up(struct rig *a, bool busy)
{
	for (uint64_t begun = now_ms; now_ms - begun < 1000; )
		until_free(a, &(const bool){ false }, busy);
}

static void a_rate_is_not_exceeded(void **state)
{
	struct rig *a = *state;

	a->tune.resync_max = 4 << 20;		/* 1024 blocks a second */
	warm_up(a, false);
	assert_false(resync_paused);
	ddr_rate_done(&a->rate, 2048, 1000);
	assert_true(resync_paused);
	assert_in_range(until_free(a, &resync_paused, false), 1500, 2500);
}

static void without_a_limit_it_does_not_rest_while_nobody_else_works(void **state)
{
	struct rig *a = *state;

	warm_up(a, false);
	for (int i = 0; i < 50; i++) {
		ddr_rate_done(&a->rate, 512, 100000);
		assert_false(resync_paused);
		until_free(a, &resync_paused, false);
	}
}

/* The device was used before, at a time when no background work was due. */
static void use_of_long_ago_does_not_count(void **state)
{
	struct rig *a = *state;

	a->rate.io_seen = 1;
	for (unsigned int i = 0; i < 10; i++)
		ddr_rate_tick(&a->rate, now_ms += 100);
	for (unsigned int i = 0; i < 10; i++) {
		ddr_rate_done(&a->rate, 512, 10000);
		assert_false(resync_paused);
		ddr_rate_tick(&a->rate, now_ms += 100);
		assert_false(a->rate.busy);
	}
}

/* A priority is a share of the time: after a range that took a second the job rests accordingly. Two ranges run side by side. */
static void a_priority_is_a_share_of_the_time(void **state)
{
	static const struct { uint64_t priority, least, most; } cases[] = { { 1, 0, 200 }, { 2, 400, 900 }, { 3, 1900, 2400 }, { 4, 5600, 6200 }, { 5, 60000, 60000 } };
	struct rig *a = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		a->tune.resync_priority = cases[i].priority;
		warm_up(a, true);
		a->rate.job_debt_us = 0;
		a->rate.credit = -1000000;	/* resync_min_rate is used up */
		ddr_rate_done(&a->rate, 512, 1000000);
		assert_in_range(until_free(a, &resync_paused, true), cases[i].least, cases[i].most);
	}
}

static void the_minimum_rate_is_kept_at_any_priority(void **state)
{
	struct rig *a = *state;
	uint64_t blocks = 0, begun;

	a->tune.resync_priority = 5;
	a->tune.resync_min = 1 << 20;		/* 256 blocks a second */
	warm_up(a, true);
	begun = now_ms;
	while (now_ms - begun < 20000) {
		if (!resync_paused) {
			ddr_rate_done(&a->rate, 64, 2000000);	/* slow disks: its share would be next to nothing */
			blocks += 64;
		}
		until_free(a, &(const bool){ false }, true);
	}
	assert_in_range(blocks, 20 * 256 * 8 / 10, 20 * 256 * 13 / 10);
}

/* Two ranges run side by side, and both were begun while the budget of resync_min_rate allowed it: both are charged, whichever ends first. */
static void parallel_ranges_do_not_double_the_minimum_rate(void **state)
{
	struct rig *a = *state;

	a->tune.resync_min = 2 << 20;		/* 512 blocks a second */
	for (a->tune.resync_priority = 4; a->tune.resync_priority <= 5; a->tune.resync_priority++) {
		uint64_t blocks = 0, begun;

		warm_up(a, true);
		begun = now_ms;
		while (now_ms - begun < 60000) {
			bool both = !resync_paused;

			until_free(a, &(const bool){ false }, true);
			for (int i = 0; i < 2 && both; i++, blocks += 1024)
				ddr_rate_done(&a->rate, 1024, 10000000);	/* slow disks: its share is next to nothing */
		}
		assert_in_range(blocks, 60 * 512 * 8 / 10, 60 * 512 * 13 / 10);
	}
}

/* The same of verify_min_rate. */
static void parallel_reads_do_not_double_the_minimum_rate(void **state)
{
	struct rig *a = *state;
	uint64_t blocks = 0, begun;

	super.verify.priority = 5;
	a->tune.verify_min = 2 << 20;
	warm_up(a, true);
	for (begun = now_ms; now_ms - begun < 60000; ) {
		bool both = !verify_paused;

		until_free(a, &(const bool){ false }, true);
		for (int i = 0; i < 2 && both; i++, blocks += 512)
			ddr_rate_scanned(&a->rate, 512, 10000000);
	}
	assert_in_range(blocks, 60 * 512 * 8 / 10, 60 * 512 * 13 / 10);
}

static void use_of_the_device_is_reported_to_other_nodes(void **state)
{
	struct rig *a = *state;

	warm_up(a, true);
	assert_true(used);
	warm_up(a, false);
	assert_false(used);
}

/* The device is not used on this node but on another one: resync has resync_min_rate, or its share. */
static void use_of_another_node_counts(void **state)
{
	struct rig *a = *state;

	a->tune.resync_priority = 5;
	a->tune.resync_min = 1 << 20;		/* 256 blocks a second */
	warm_up(a, false);
	ddr_rate_done(&a->rate, 512, 1000);
	assert_false(resync_paused);
	used_elsewhere = true;
	warm_up(a, false);
	ddr_rate_done(&a->rate, 512, 1000);
	assert_true(resync_paused);
	assert_in_range(until_free(a, &resync_paused, false), 1500, 2500);
	assert_false(used);			/* the other node reports its own use */
	a->tune.resync_priority = 3;
	a->rate.credit = -1000000;
	a->rate.job_debt_us = 0;
	ddr_rate_done(&a->rate, 512, 1000000);
	assert_in_range(until_free(a, &resync_paused, false), 1900, 2400);
}

static void verify_minds_the_use_of_another_node(void **state)
{
	struct rig *a = *state;

	super.verify.priority = 3;
	used_elsewhere = true;
	warm_up(a, false);
	ddr_rate_scanned(&a->rate, 512, 1000000);
	assert_true(verify_paused);
	assert_in_range(until_free(a, &verify_paused, false), 1900, 2200);
	used_elsewhere = false;
	ddr_rate_scanned(&a->rate, 512, 1000000);
	assert_false(verify_paused);
}

static void the_maximum_rate_holds_for_the_highest_priority_too(void **state)
{
	struct rig *a = *state;

	a->tune.resync_priority = 1;
	a->tune.resync_max = 4 << 20;
	warm_up(a, true);
	ddr_rate_done(&a->rate, 2048, 1000);
	assert_true(resync_paused);
	assert_in_range(until_free(a, &resync_paused, true), 1500, 2500);
}

static void verify_rests_in_proportion_while_others_work(void **state)
{
	struct rig *a = *state;

	warm_up(a, true);
	ddr_rate_scanned(&a->rate, 512, 1000000);
	assert_true(verify_paused);
	assert_in_range(until_free(a, &verify_paused, true), 5000, 6500);
	warm_up(a, false);
	ddr_rate_scanned(&a->rate, 512, 1000000);
	assert_false(verify_paused);
}

/* A read ends and calls for a rest of a second while another read is outstanding: the rest begins when both have ended, and covers both. */
static void a_read_under_way_is_no_rest(void **state)
{
	struct rig *a = *state;

	super.verify.priority = 2;
	warm_up(a, true);
	ddr_rate_scanned(&a->rate, 512, 2000000);
	reading = 1;
	assert_true(verify_paused);
	for (unsigned int i = 0; i < 30; i++)
		until_free(a, &(const bool){ false }, true);
	assert_true(verify_paused);
	reading = 0;
	ddr_rate_scanned(&a->rate, 512, 2000000);
	assert_in_range(until_free(a, &verify_paused, true), 1900, 2100);
}

/* Blocks that verify reads in a minute, by two concurrent reads of 512 blocks in 80 ms, begun @apart_ms after each other. */
static uint64_t read_in_a_minute(struct rig *a, unsigned int apart_ms)
{
	uint64_t ends[2] = { 0 }, begun = now_ms, blocks = 0;

	while (++now_ms - begun < 60000) {
		for (unsigned int i = 0; i < 2; i++) {
			if (ends[i] == now_ms) {
				reading--;
				ddr_rate_scanned(&a->rate, 512, 80000);
				blocks += 512;
			}
			if (ends[i] <= now_ms && !verify_paused && now_ms >= begun + i * apart_ms) {
				reading++;
				ends[i] = now_ms + 80;
			}
		}
		if (now_ms % 100)
			continue;
		a->rate.io_seen = 1;
		ddr_rate_tick(&a->rate, now_ms);
	}
	return blocks;
}

static void a_priority_of_verify_is_a_share_of_the_time(void **state)
{
	static const struct { uint64_t priority, percent; } cases[] = { { 1, 100 }, { 2, 50 }, { 3, 20 }, { 4, 8 } };
	const uint64_t all = 60000 / 80 * 2 * 512;
	struct rig *a = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (unsigned int apart_ms = 0; apart_ms < 80; apart_ms += 30) {
			super.verify.priority = cases[i].priority;
			reading = 0;
			a->rate.debt_us = 0;
			warm_up(a, true);
			assert_in_range(read_in_a_minute(a, apart_ms), all * cases[i].percent * 90 / 10000, all * cases[i].percent * 110 / 10000);
		}
}

/* A sample of 300 ms in which verify reads @blocks, in reads that each took @us. */
static void sample(struct rig *a, uint64_t blocks, uint64_t us, bool busy)
{
	for (unsigned int i = 0; i < 3; i++) {
		if (!verify_paused)
			ddr_rate_scanned(&a->rate, blocks / 3, us);
		until_free(a, &(const bool){ false }, busy);
	}
}

/* Disks that answer a single read ten times as fast as they sustain: a read costs what they sustain. */
static void a_burst_is_not_cheaper_than_what_follows(void **state)
{
	struct rig *a = *state;

	warm_up(a, false);
	for (unsigned int i = 0; i < 5; i++)
		sample(a, 1536, 20000, false);
	assert_in_range(a->rate.alone_ns, 190000, 210000);
	sample(a, 384, 5000, false);		/* once there was other load that cannot be seen */
	assert_in_range(a->rate.alone_ns, 200000, 260000);
	warm_up(a, true);
	ddr_rate_scanned(&a->rate, 512, 20000);	/* as if it had taken 200 ms */
	assert_true(verify_paused);
	assert_in_range(until_free(a, &verify_paused, true), 1000, 1500);
}

static void the_cost_of_a_read_is_not_learnt_while_verify_rests_or_others_work(void **state)
{
	struct rig *a = *state;

	warm_up(a, true);
	for (unsigned int i = 0; i < 5; i++)
		sample(a, 1536, 100, true);
	assert_int_equal(a->rate.alone_ns, 0);
	a->rate.scan_closed = true;
	sample(a, 1536, 100, false);
	a->rate.scan_closed = false;
	until_free(a, &verify_paused, false);
	sample(a, 1536, 100, false);
	assert_int_equal(a->rate.alone_ns, 0);
}

/* Another node reads, and reports its load. A sample in which verify did not begin a read shows nothing either. */
static void the_cost_of_a_read_is_not_learnt_beside_other_nodes(void **state)
{
	struct rig *a = *state;

	super.verify.priority = 1;		/* it does not rest, whatever other load there is */
	used_elsewhere = true;
	warm_up(a, false);
	ddr_rate_scanned(&a->rate, 384, 1000);
	for (unsigned int i = 0; i < 5; i++)
		sample(a, 384, 10000, false);
	assert_int_equal(a->rate.alone_ns, 0);
	used_elsewhere = false;
	warm_up(a, false);
	ddr_rate_scanned(&a->rate, 384, 1000);
	warm_up(a, false);
	assert_int_equal(a->rate.alone_ns, 0);
}

/* Blocks that verify reads in 20 s, in reads of 512 blocks that take 100 ms each. */
static uint64_t read_in_20s(struct rig *a, bool busy)
{
	uint64_t blocks = 0;

	for (uint64_t begun = now_ms; now_ms - begun < 20000; until_free(a, &(const bool){ false }, busy))
		if (!verify_paused) {
			ddr_rate_scanned(&a->rate, 512, 100000);
			blocks += 512;
		}
	return blocks;
}

static void verify_keeps_its_minimum_rate_at_any_priority(void **state)
{
	struct rig *a = *state;

	super.verify.priority = 5;
	warm_up(a, true);
	assert_in_range(read_in_20s(a, true), 512, 512 * 10);
	a->tune.verify_min = 4 << 20;		/* 1024 blocks a second */
	assert_in_range(read_in_20s(a, true), 20 * 1024 * 9 / 10, 20 * 1024 * 12 / 10);
	super.verify.priority = 1;		/* its share is more */
	a->rate.debt_us = 0;
	assert_in_range(read_in_20s(a, true), 20 * 5120 * 9 / 10, 20 * 5120);
}

static void verify_does_not_exceed_its_rate(void **state)
{
	struct rig *a = *state;

	warm_up(a, false);
	assert_in_range(read_in_20s(a, false), 20 * 5120 * 9 / 10, 20 * 5120);
	a->tune.verify_min = a->tune.verify_max = 4 << 20;
	for (unsigned int priority = 1; priority <= 5; priority += 4) {
		super.verify.priority = priority;
		assert_in_range(read_in_20s(a, false), 20 * 1024 * 8 / 10, 20 * 1024 * 11 / 10);
		assert_in_range(read_in_20s(a, true), 20 * 1024 * 8 / 10, 20 * 1024 * 11 / 10);
	}
}

/* The first reads come out of a cache, or pass a rate limit at once. */
static void slow_reads_are_not_those_of_others(void **state)
{
	struct rig *a = *state;

	warm_up(a, false);
	ddr_rate_scanned(&a->rate, 512, 5000);
	assert_false(verify_paused);
	for (unsigned int i = 0; i < 5; i++)
		sample(a, 1536, 100000, false);
	assert_false(verify_paused);
	assert_in_range(a->rate.alone_ns, 190000, 210000);
}

static void verify_rests_outside_of_its_hours(void **state)
{
	struct rig *a = *state;

	warm_up(a, false);
	a->rate.scan_closed = true;
	assert_int_equal(until_free(a, &(const bool){ false }, false), 100);
	assert_true(verify_paused);
	assert_int_equal(until_free(a, &verify_paused, false), 60000);
	a->rate.scan_closed = false;
	assert_in_range(until_free(a, &verify_paused, false), 100, 200);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_rate_is_not_exceeded), TEST(without_a_limit_it_does_not_rest_while_nobody_else_works),
		TEST(use_of_long_ago_does_not_count), TEST(a_priority_is_a_share_of_the_time),
		TEST(the_minimum_rate_is_kept_at_any_priority), TEST(the_maximum_rate_holds_for_the_highest_priority_too),
		TEST(verify_rests_in_proportion_while_others_work), TEST(a_burst_is_not_cheaper_than_what_follows),
		TEST(the_cost_of_a_read_is_not_learnt_while_verify_rests_or_others_work), TEST(the_cost_of_a_read_is_not_learnt_beside_other_nodes),
		TEST(verify_rests_outside_of_its_hours), TEST(parallel_ranges_do_not_double_the_minimum_rate), TEST(use_of_another_node_counts),
		TEST(verify_rests_outside_of_its_hours), TEST(parallel_reads_do_not_double_the_minimum_rate), TEST(use_of_another_node_counts),
		TEST(verify_rests_outside_of_its_hours), TEST(use_of_the_device_is_reported_to_other_nodes), TEST(use_of_another_node_counts),
		TEST(verify_minds_the_use_of_another_node), TEST(verify_keeps_its_minimum_rate_at_any_priority),
		TEST(verify_does_not_exceed_its_rate), TEST(a_read_under_way_is_no_rest),
		TEST(a_priority_of_verify_is_a_share_of_the_time), TEST(slow_reads_are_not_those_of_others),
	};

	return cmocka_run_group_tests_name("the pace of background work", tests, NULL, NULL);
}
