// SPDX-License-Identifier: GPL-2.0-or-later
/* How the daemon ends: what it waits for, and when it does not end at all. Arrays and state machines are simulated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/array/array.h"
#include "daemon/ending.h"

static struct ddr_daemon d;
static struct ddr_ending e;
static struct ddr_transport_ops transport;
static struct ddr_array one, two;
static uint64_t dirty[2];
static unsigned int cleans, lates;
static uint32_t failing;		/* members of the second array */

/* ---- what ending.c uses ----------------------------------------------------------- */

const char *ddr_drive_clean(struct ddr_array *a)
{
	a->clean_asked = true;
	cleans++;
	return NULL;
}

void ddr_drive_clean_late(struct ddr_array *a)
{
	a->clean_late = true;
	lates++;
}

void __wrap_ddr_sm_get_status(const struct ddr_sm *sm, struct ddr_sm_status *st);

void __wrap_ddr_sm_get_status(const struct ddr_sm *sm, struct ddr_sm_status *st)
{
	memset(st, 0, sizeof(*st));
	st->dirty = *(const uint64_t *)(const void *)sm;
	st->failing = (const void *)sm == &dirty[1] ? failing : 0;
}

/* ---- the stage -------------------------------------------------------------------- */

static void serve(struct ddr_array *a, unsigned int i, uint64_t regions)
{
	memset(a, 0, sizeof(*a));
	a->d = &d;
	a->state = DDR_ARRAY_RUNNING;
	a->ready = true;
	dirty[i] = regions;
	a->sm = (struct ddr_sm *)(void *)&dirty[i];
	qb_list_add_tail(&a->list, &d.arrays);
}

static void gone(struct ddr_array *a)
{
	qb_list_del(&a->list);
}

static int setup(void **state)
{
	(void)state;
	memset(&d, 0, sizeof(d));
	memset(&e, 0, sizeof(e));
	memset(&transport, 0, sizeof(transport));
	d.transport = &transport;
	qb_list_init(&d.arrays);
	cleans = lates = failing = 0;
	return 0;
}

/* ---- tests ------------------------------------------------------------------------ */

static void without_a_request_the_daemon_does_not_end(void **state)
{
	(void)state;
	assert_false(ddr_ending_due(&e, &d, 5));
}

static void without_arrays_the_daemon_ends_at_once(void **state)
{
	(void)state;
	ddr_ending_begin(&e, &d, DDR_ENDING_STOP, 1000);
	assert_true(ddr_ending_due(&e, &d, 1000));
}

/* Finding S44: a daemon that is asked to stop while an array is started runs until that array is closed. */
static void a_started_array_keeps_the_daemon(void **state)
{
	(void)state;
	serve(&one, 0, 0);
	ddr_ending_begin(&e, &d, DDR_ENDING_STOP, 1000);
	assert_false(ddr_ending_due(&e, &d, 1000));
	assert_false(e.refused);			/* it may be on its way out */
	assert_false(ddr_ending_due(&e, &d, 1000 + DDR_ENDING_REST_MS));
	assert_true(e.refused);
	assert_false(ddr_ending_due(&e, &d, 1000000));
	gone(&one);
	assert_true(ddr_ending_due(&e, &d, 1000001));
}

/* Whatever keeps it from being served now: its I/O waits for this daemon. */
static void an_array_that_waits_to_be_served_keeps_the_daemon(void **state)
{
	(void)state;
	serve(&one, 0, 0);
	for (int s = DDR_ARRAY_DOWN; s <= DDR_ARRAY_CLOSING; s++) {
		one.state = (enum ddr_array_state)s;
		one.waiting = s == DDR_ARRAY_DOWN;
		memset(&e, 0, sizeof(e));
		ddr_ending_begin(&e, &d, DDR_ENDING_STOP, 1000);
		assert_int_equal(ddr_ending_due(&e, &d, 50000), s == DDR_ARRAY_REFUSED);
	}
}

/* Rule 3: only this daemon knows that a member failed a flush. It ends when the superblocks say so, or after a time: the service manager would kill it soon. */
static void a_failure_that_only_this_daemon_knows_is_told_first(void **state)
{
	(void)state;
	serve(&one, 0, 0);
	serve(&two, 1, 0);
	failing = 1;
	ddr_ending_begin(&e, &d, DDR_ENDING_LEAVE, 1000);
	assert_false(ddr_ending_due(&e, &d, 1000));
	assert_false(e.refused);
	assert_false(ddr_ending_due(&e, &d, 1000 + DDR_ENDING_REST_MS));
	assert_true(e.refused);				/* it says what it waits for, once */
	assert_false(ddr_ending_due(&e, &d, 1000 + DDR_ENDING_REST_MS + DDR_ENDING_TELL_MS - 1));
	failing = 0;
	assert_true(ddr_ending_due(&e, &d, 1000 + DDR_ENDING_REST_MS));
	failing = 1;
	assert_true(ddr_ending_due(&e, &d, 1000 + DDR_ENDING_REST_MS + DDR_ENDING_TELL_MS));
	two.broken = "it does not write any more";
	assert_true(ddr_ending_due(&e, &d, 1000));
	two.broken = NULL;
	two.state = DDR_ARRAY_DOWN;
	assert_true(ddr_ending_due(&e, &d, 1000));
}

/* Finding S7: regions that nobody writes are made clean before the daemon ends; that may take two seconds at most. */
static void idle_regions_are_made_clean(void **state)
{
	(void)state;
	serve(&one, 0, 3);
	serve(&two, 1, 0);
	ddr_ending_begin(&e, &d, DDR_ENDING_LEAVE, 1000);
	assert_int_equal(cleans, 1);
	assert_false(ddr_ending_due(&e, &d, 1100));
	one.clean_asked = false;
	assert_true(ddr_ending_due(&e, &d, 1200));
	one.clean_asked = true;
	assert_false(ddr_ending_due(&e, &d, 999 + DDR_ENDING_REST_MS));
	assert_true(ddr_ending_due(&e, &d, 1000 + DDR_ENDING_REST_MS));
}

/* The last marks of an array that was removed just now are cleared before it ends. */
static void an_array_that_parts_is_waited_for(void **state)
{
	(void)state;
	serve(&one, 0, 1);
	one.removed = true;
	ddr_ending_begin(&e, &d, DDR_ENDING_STOP, 1000);
	assert_int_equal(cleans, 0);
	assert_false(ddr_ending_due(&e, &d, 8000));
	gone(&one);
	assert_true(ddr_ending_due(&e, &d, 8001));
	serve(&one, 0, 1);
	one.removed = true;
	memset(&e, 0, sizeof(e));
	ddr_ending_begin(&e, &d, DDR_ENDING_LEAVE, 1000);
	assert_false(ddr_ending_due(&e, &d, 1100));
	gone(&one);
	assert_true(ddr_ending_due(&e, &d, 1101));
}

/* A clean stop that did not complete blocks all background work: it is taken back when the daemon keeps running. */
static void a_daemon_that_stays_continues_to_serve(void **state)
{
	(void)state;
	serve(&one, 0, 3);
	ddr_ending_begin(&e, &d, DDR_ENDING_STOP, 1000);
	assert_true(one.clean_asked);
	assert_false(ddr_ending_due(&e, &d, 1000 + DDR_ENDING_REST_MS));
	assert_int_equal(lates, 1);
	assert_false(ddr_ending_due(&e, &d, 2000 + DDR_ENDING_REST_MS));
	assert_int_equal(lates, 1);
}

/* A restart after a refused stop replaces it; a stop does not hold a daemon that leaves already. */
static void leaving_goes_before_stopping(void **state)
{
	(void)state;
	serve(&one, 0, 0);
	ddr_ending_begin(&e, &d, DDR_ENDING_STOP, 1000);
	assert_false(ddr_ending_due(&e, &d, 9000));
	ddr_ending_begin(&e, &d, DDR_ENDING_LEAVE, 9000);
	assert_true(ddr_ending_due(&e, &d, 9000));
	ddr_ending_begin(&e, &d, DDR_ENDING_STOP, 9001);
	assert_true(ddr_ending_due(&e, &d, 9001));
}

static void arrays_that_cannot_be_cleaned_are_left_alone(void **state)
{
	(void)state;
	serve(&one, 0, 3);
	one.ready = false;
	serve(&two, 1, 3);
	two.broken = "broken";
	ddr_ending_begin(&e, &d, DDR_ENDING_LEAVE, 1000);
	assert_int_equal(cleans, 0);
	assert_true(ddr_ending_due(&e, &d, 1000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(without_a_request_the_daemon_does_not_end, setup),
		cmocka_unit_test_setup(without_arrays_the_daemon_ends_at_once, setup),
		cmocka_unit_test_setup(a_started_array_keeps_the_daemon, setup),
		cmocka_unit_test_setup(an_array_that_waits_to_be_served_keeps_the_daemon, setup),
		cmocka_unit_test_setup(a_failure_that_only_this_daemon_knows_is_told_first, setup),
		cmocka_unit_test_setup(idle_regions_are_made_clean, setup),
		cmocka_unit_test_setup(an_array_that_parts_is_waited_for, setup),
		cmocka_unit_test_setup(a_daemon_that_stays_continues_to_serve, setup),
		cmocka_unit_test_setup(leaving_goes_before_stopping, setup),
		cmocka_unit_test_setup(arrays_that_cannot_be_cleaned_are_left_alone, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
