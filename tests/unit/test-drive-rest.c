// SPDX-License-Identifier: GPL-2.0-or-later
/* An array with nothing under way rests: when it does, when it wakes up, and what it does then. The state machine is played. */
#include "drive-fixture.h"

/* What the state machine was given, in its order. */
static struct { enum ddr_in_type type; uint64_t now_ms; } given[64];
static unsigned int n_given;

static void note(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)out;
	if (in->type != DDR_IN_NONE && n_given < 64) {
		given[n_given].type = in->type;
		given[n_given++].now_ms = in->now_ms;
	}
}

/* One that serves, and whose state machine wants nothing. */
static struct ddr_array *resting(bool cluster)
{
	struct ddr_array *a = begin(cluster);

	play.due = UINT64_MAX;
	a->ready = true;
	a->check.wanted = 0;
	a->tune.daemon_timeout_ms = 30000;
	run();
	assert_true(a->rests);
	n_given = 0;
	play.answer = note;
	return a;
}

/* Finding U8: an array with nothing to do had a tick every 100 ms. */
static void an_array_with_nothing_to_do_rests(void **state)
{
	struct ddr_array *a = resting(false);

	(void)state;
	assert_in_range(ddr_drive_rests(a, play.now), 1, DDR_REST_MS);
	ddr_drive_tick(a, ddr_now_ms());
	assert_int_equal(n_given, 0);		/* its clock would be all that changes */
	end();
}

/* All wake up together, at full multiples of the clock. */
static void resting_arrays_wake_up_together(void **state)
{
	struct ddr_array *a = resting(false);

	(void)state;
	a->ping_due_ms = 1ull << 40;
	for (uint64_t now = 100000; now < 100000 + 2 * DDR_REST_MS; now += 77)
		assert_int_equal((now + ddr_drive_rests(a, now)) % DDR_REST_MS, 0);
	end();
}

/* The state machine's own time comes before that. */
static void a_wait_of_the_state_machine_ends_the_rest(void **state)
{
	struct ddr_array *a = resting(false);

	(void)state;
	a->ping_due_ms = 1ull << 40;
	play.due = 100500;
	assert_int_equal(ddr_drive_rests(a, 100000), 500);
	assert_int_equal(ddr_drive_rests(a, 100600), 0);
	ddr_drive_tick(a, 100600);
	assert_int_equal(n_given, 1);
	assert_int_equal(given[0].type, DDR_IN_TICK);
	assert_int_equal(given[0].now_ms, 100600);
	end();
}

/* Times are counted from the clock, so the state machine has it before anything else that comes after a rest. */
static void the_clock_comes_first(void **state)
{
	struct ddr_array *a = resting(false);
	uint64_t before = play.now;

	(void)state;
	play.now += 60000;
	ddr_drive_step(a, ddr_drive_input(a, DDR_IN_OP_STAY));
	assert_int_equal(n_given, 2);
	assert_int_equal(given[0].type, DDR_IN_TICK);
	assert_true(given[0].now_ms >= before + 60000);
	assert_int_equal(given[1].type, DDR_IN_OP_STAY);
	assert_false(a->rests);
	ddr_drive_step(a, ddr_drive_input(a, DDR_IN_OP_STAY));
	assert_int_equal(n_given, 3);
	end();
}

#define WAKES(what) do { \
	struct ddr_array *a = resting(true); \
	what; \
	assert_false(a->rests); \
	end(); \
} while (0)

/* Whatever leaves something for the next tick makes that tick come soon. */
static void an_event_ends_the_rest(void **state)
{
	(void)state;
	WAKES(ddr_drive_check(a, 1));
	WAKES(ddr_drive_seek_again(a->d, 300));
	WAKES(ddr_drive_clean_late(a));
	WAKES(ddr_drive_replace_late(a, 3));
	WAKES(ddr_drive_transport_events.foreign(a, 7, 1));
}

#define KEEPS(what) do { \
	struct ddr_array *a = resting(true); \
	assert_true(ddr_drive_rests(a, play.now) > 0); \
	what; \
	assert_int_equal(ddr_drive_rests(a, play.now), 0); \
	end(); \
} while (0)

static void an_array_with_work_under_way_does_not_rest(void **state)
{
	(void)state;
	KEEPS(a->ready = false);
	KEEPS(a->broken = "broken");
	KEEPS(a->removed = true);
	KEEPS(a->clean_asked = true);
	KEEPS(a->quiet_until_ms = UINT64_MAX);
	KEEPS(a->check.out = true);
	KEEPS(a->table_asked = 1);
	KEEPS(a->grow.resize = 5);
	KEEPS(a->seek.locked = 1);
	KEEPS(a->back.watched = 1);
	KEEPS(a->cluster.lost = true);
	KEEPS(a->cluster.answer[5].used = true);
	KEEPS(a->rate.done = 1);
	KEEPS(a->rate.per_s = 1);
	KEEPS(a->rate.scanned = 1);
	KEEPS(a->rate.scan_per_s = 1);
	KEEPS(a->rate.paused = true);
	KEEPS(a->rate.scan_paused = true);
	KEEPS(play.busy = true);
	KEEPS(play.super.verify.state = DDR_VERIFY_RUNNING);
	KEEPS((play.super.members = 2, play.super.member[1].state = DDR_MEMBER_REBUILDING));
}

/* A rest is none of the time in which this process was stopped. */
static void a_rest_is_no_standstill(void **state)
{
	struct ddr_array *a = resting(false);
	uint64_t now = a->tick_ms;

	(void)state;
	assert_in_range(a->rest_ms, 101, DDR_REST_MS);
	ddr_drive_tick(a, now + a->rest_ms + 100);
	assert_int_equal(play.meta_delay, 0);
	end();
	a = resting(false);
	ddr_drive_tick(a, a->tick_ms + a->rest_ms + 30000);
	assert_int_equal(play.meta_delay, 30000);
	end();
	a = resting(false);
	play.now = a->tick_ms + a->rest_ms + 30000;
	ddr_drive_wake(a);
	ddr_drive_tick(a, a->tick_ms + a->rest_ms + 30000);
	assert_int_equal(play.meta_delay, 30000);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_array_with_nothing_to_do_rests),
		cmocka_unit_test(resting_arrays_wake_up_together),
		cmocka_unit_test(a_wait_of_the_state_machine_ends_the_rest),
		cmocka_unit_test(the_clock_comes_first),
		cmocka_unit_test(an_event_ends_the_rest),
		cmocka_unit_test(an_array_with_work_under_way_does_not_rest),
		cmocka_unit_test(a_rest_is_no_standstill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
