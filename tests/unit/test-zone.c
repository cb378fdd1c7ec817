// SPDX-License-Identifier: GPL-2.0-or-later
/* The hour of the day, and that a zone that is changed meanwhile counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "daemon/base/zone.h"

#define NOON	(1000u * 86400u + 12u * 3600u)

static struct ddr_daemon d;

static void stop(void *data)
{
	(void)data;
	qb_loop_stop(d.loop);
}

/* The hour at noon of universal time, once it was looked at after @now_ms. */
static unsigned int noon(uint64_t now_ms)
{
	qb_loop_timer_handle timer;
	unsigned int hour = 99;

	ddr_zone_hour(&d, NOON, now_ms, &hour);
	assert_int_equal(qb_loop_timer_add(d.loop, QB_LOOP_LOW, 300 * QB_TIME_NS_IN_MSEC, NULL, stop, &timer), 0);
	qb_loop_run(d.loop);
	assert_true(ddr_zone_hour(&d, NOON, now_ms, &hour));
	return hour;
}

static void a_changed_time_zone_takes_effect(void **state)
{
	unsigned int hour;

	(void)state;
	d.loop = qb_loop_create();
	setenv("TZ", "AAA-2", 1);
	assert_false(ddr_zone_hour(&d, NOON, 1000, &hour));	/* not known before the first look */
	assert_int_equal(noon(1000), 14);
	setenv("TZ", "BBB-13", 1);
	assert_int_equal(noon(60000), 14);			/* only every minute */
	assert_int_equal(noon(61000), 1);
	setenv("TZ", "CCC+12:30", 1);
	assert_int_equal(noon(121000), 23);
	setenv("TZ", "DDD+12", 1);
	assert_int_equal(noon(181000), 0);
	qb_loop_destroy(d.loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_changed_time_zone_takes_effect),
	};

	return cmocka_run_group_tests_name("zone", tests, NULL, NULL);
}
