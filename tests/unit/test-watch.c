// SPDX-License-Identifier: GPL-2.0-or-later
/* The rate of other nodes' jobs, computed from what the group knows of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/array/array.h"

static struct ddr_super super;
static uint64_t now_ms, looked;

/* ---- what watch.c uses ---------------------------------------------------------- */

const struct ddr_super *ddr_sm_super(const struct ddr_sm *sm)
{
	(void)sm;
	return &super;
}

/* Half of the blocks before the cursor was ever written. */
void ddr_sm_rebuild_progress(const struct ddr_sm *sm, struct ddr_sm_progress *p)
{
	(void)sm;
	looked++;
	*p = (struct ddr_sm_progress){ .at = super.member[2].cursor, .done = super.member[2].cursor / 2, .total = 1 << 20 };
}

void ddr_sm_verify_progress(const struct ddr_sm *sm, struct ddr_sm_progress *p)
{
	(void)sm;
	looked++;
	*p = (struct ddr_sm_progress){ .at = super.verify.cursor, .done = super.verify.cursor, .total = 1 << 20 };
}

/* ---- the tests ----------------------------------------------------------------- */

static int setup(void **state)
{
	struct ddr_array *a = calloc(1, sizeof(*a));

	assert_non_null(a);
	memset(&super, 0, sizeof(super));
	super.members = 5;
	super.member[2].state = DDR_MEMBER_REBUILDING;
	super.member[2].since = 9;
	now_ms = 1000000;
	looked = 0;
	*state = a;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static void pass(struct ddr_array *a, uint64_t ms)
{
	for (uint64_t end = now_ms + ms; now_ms < end;)
		ddr_watch_tick(a, now_ms += 100);
}

static void a_rate_is_known_from_the_second_report_on(void **state)
{
	struct ddr_array *a = *state;

	super.member[2].cursor = 100000;	/* it began before this node first looked */
	pass(a, 3000);
	assert_int_equal(a->watch.rebuild.per_s, 0);
	super.member[2].cursor = 120000;
	pass(a, 10000);
	assert_in_range(a->watch.rebuild.per_s, 3300, 3500);	/* half of 20000, in the 2.9 s since it was seen */
	super.member[2].cursor = 140000;
	pass(a, 10000);
	assert_in_range(a->watch.rebuild.per_s, 2100, 2300);	/* smoothed: 1000 now */
	assert_int_equal(looked, 3);
}

static void without_a_job_there_is_no_rate(void **state)
{
	struct ddr_array *a = *state;

	super.member[2].state = DDR_MEMBER_IN_SYNC;
	super.member[2].cursor = 0;
	pass(a, 1000);
	assert_int_equal(looked, 0);
	assert_int_equal(a->watch.rebuild.per_s, 0);
}

static void the_next_job_begins_anew(void **state)
{
	struct ddr_array *a = *state;

	pass(a, 1000);
	super.member[2].cursor = 20000;
	pass(a, 1000);
	assert_true(a->watch.rebuild.per_s > 0);
	super.member[2].since = 12;
	super.member[2].cursor = 30000;
	pass(a, 1000);
	assert_int_equal(a->watch.rebuild.per_s, 0);
}

/* A job whose cursor went back, since its node died, has no rate until progress was received again. */
static void a_cursor_that_goes_back_has_no_rate(void **state)
{
	struct ddr_array *a = *state;

	pass(a, 1000);
	super.member[2].cursor = 20000;
	pass(a, 1000);
	super.member[2].cursor = 10000;
	pass(a, 1000);
	assert_int_equal(a->watch.rebuild.per_s, 0);
	super.member[2].cursor = 12000;
	pass(a, 1000);
	assert_in_range(a->watch.rebuild.per_s, 900, 1100);
}

static void a_job_that_is_silent_for_too_long_has_no_rate(void **state)
{
	struct ddr_array *a = *state;

	super.verify = (struct ddr_verify){ .state = DDR_VERIFY_RUNNING, .serial = 1 };
	pass(a, 1000);
	super.verify.cursor = super.member[2].cursor = 20000;
	pass(a, 29000);
	assert_true(a->watch.rebuild.per_s > 0);
	pass(a, 2000);
	assert_int_equal(a->watch.rebuild.per_s, 0);
	pass(a, 148000);
	assert_true(a->watch.verify.per_s > 0);		/* a verify may be silent for a minute */
	pass(a, 2000);
	assert_int_equal(a->watch.verify.per_s, 0);
}

static void a_paused_verify_has_no_rate(void **state)
{
	struct ddr_array *a = *state;

	super.verify = (struct ddr_verify){ .state = DDR_VERIFY_RUNNING, .serial = 1 };
	pass(a, 1000);
	super.verify.cursor = 20000;
	pass(a, 1000);
	assert_true(a->watch.verify.per_s > 0);
	super.verify.state = DDR_VERIFY_PAUSED;
	pass(a, 1000);
	assert_int_equal(a->watch.verify.per_s, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_rate_is_known_from_the_second_report_on), TEST(without_a_job_there_is_no_rate), TEST(the_next_job_begins_anew),
		TEST(a_cursor_that_goes_back_has_no_rate), TEST(a_job_that_is_silent_for_too_long_has_no_rate), TEST(a_paused_verify_has_no_rate),
	};

	return cmocka_run_group_tests_name("jobs of other nodes", tests, NULL, NULL);
}
