// SPDX-License-Identifier: GPL-2.0-or-later
/* When which array is verified: how often, in which hours, how many at the same time, and that none is forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/schedule.h"

#define NOW	1000000u

static void the_next_one_counts_from_the_beginning_of_the_last(void **state)
{
	(void)state;
	assert_int_equal(ddr_sched_due(500, 0, 100, 550), 600);
	assert_int_equal(ddr_sched_due(500, 900, 100, 950), 1000);
	assert_int_equal(ddr_sched_due(500, 900, 0, 950), DDR_SCHED_NEVER);
	assert_int_equal(ddr_sched_due(500, 900, UINT64_MAX, 950), DDR_SCHED_NEVER);
}

/* Nobody is to wait for the year 2100 because a clock was there. */
static void a_clock_that_was_wrong_does_not_put_it_off(void **state)
{
	(void)state;
	assert_int_equal(ddr_sched_due(500, 2 * NOW, 100, NOW), 100);
	assert_int_equal(ddr_sched_due(2 * NOW, 0, 100, NOW), 100);
	assert_int_equal(ddr_sched_due(500, NOW + 60, 100, NOW), NOW + 160);	/* another node's clock is a bit ahead */
}

static void hours_may_go_over_midnight(void **state)
{
	(void)state;
	for (unsigned int hour = 0; hour < 24; hour++) {
		assert_true(ddr_sched_open(DDR_HOURS(0, 24), hour));
		assert_int_equal(ddr_sched_open(DDR_HOURS(1, 5), hour), hour >= 1 && hour < 5);
		assert_int_equal(ddr_sched_open(DDR_HOURS(22, 6), hour), hour >= 22 || hour < 6);
		assert_int_equal(ddr_sched_open(DDR_HOURS(24, 6), hour), hour < 6);
	}
}

static void what_is_due_for_longest_goes_first(void **state)
{
	struct ddr_sched_array list[] = {
		{ .due = NOW - 5, .able = true, .ours = true }, { .due = NOW - 9, .able = true, .ours = true },
		{ .due = NOW - 50, .ours = true }, { .due = NOW + 1, .able = true, .ours = true },
	};

	(void)state;
	assert_int_equal(ddr_sched_pick(list, 4, NOW, 1), 1);
	list[2].able = true;
	assert_int_equal(ddr_sched_pick(list, 4, NOW, 1), 2);
	assert_int_equal(ddr_sched_pick(list, 4, NOW - 60, 1), -1);
	list[3].due = DDR_SCHED_NEVER;
	assert_int_equal(ddr_sched_pick(list + 3, 1, NOW, 1), -1);
}

static void no_more_than_so_many_at_once(void **state)
{
	struct ddr_sched_array list[] = {
		{ .due = NOW - 5, .able = true, .ours = true }, { .due = NOW, .reads = true }, { .due = NOW, .reads = true, .ours = true },
	};

	(void)state;
	assert_int_equal(ddr_sched_pick(list, 3, NOW, 2), -1);
	assert_int_equal(ddr_sched_pick(list, 3, NOW, 3), 0);
	list[2].reads = false;		/* it waits for a member, say */
	assert_int_equal(ddr_sched_pick(list, 3, NOW, 2), 0);
}

/* The node of the first one begins with it; if it does not, nobody waits for ever. */
static void the_turn_of_another_node_is_waited_for(void **state)
{
	struct ddr_sched_array list[] = {
		{ .due = NOW - 9, .able = true, .ready_s = 5 }, { .due = NOW - 5, .able = true, .ours = true, .ready_s = 5 },
	};

	(void)state;
	assert_int_equal(ddr_sched_pick(list, 2, NOW, 1), -1);
	list[0].ready_s = DDR_SCHED_PATIENCE_S + 1;
	assert_int_equal(ddr_sched_pick(list, 2, NOW, 1), 1);
}

/* Made at the same moment, say: each node lists them in its own order, and one of them begins. */
static void all_nodes_break_a_tie_alike(void **state)
{
	struct ddr_sched_array a = { .uuid = { 1, 9 }, .due = NOW - 5, .able = true }, b = { .uuid = { 2 }, .due = NOW - 5, .able = true };

	(void)state;
	for (unsigned int mine = 0; mine < 2; mine++) {
		a.ours = !mine;
		b.ours = mine;
		assert_int_equal(ddr_sched_pick((struct ddr_sched_array[]){ a, b }, 2, NOW, 1), mine ? -1 : 0);
		assert_int_equal(ddr_sched_pick((struct ddr_sched_array[]){ b, a }, 2, NOW, 1), mine ? -1 : 1);
	}
}

/* However many arrays there are, and however long each takes. */
static void none_is_forgotten(void **state)
{
	struct ddr_sched_array list[50];
	uint64_t begun[50] = { 0 }, every = 100, now = 1, longest = 0;
	int running = -1;

	(void)state;
	for (unsigned int step = 0; step < 2000; step++, now += 1 + step % 7) {
		if (running >= 0 && step % 3 == 0)
			running = -1;
		for (int i = 0; i < 50; i++)
			list[i] = (struct ddr_sched_array){ .due = ddr_sched_due(1, begun[i], every, now), .ours = true, .able = i != running, .reads = i == running };
		if (running < 0) {
			running = ddr_sched_pick(list, 50, now, 1);
			if (running >= 0) {
				longest = begun[running] && now - begun[running] > longest ? now - begun[running] : longest;
				begun[running] = now;
			}
		}
	}
	for (int i = 0; i < 50; i++)
		assert_true(begun[i] > now - 1000);
	assert_true(longest < 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_one_counts_from_the_beginning_of_the_last), cmocka_unit_test(hours_may_go_over_midnight),
		cmocka_unit_test(a_clock_that_was_wrong_does_not_put_it_off),
		cmocka_unit_test(what_is_due_for_longest_goes_first), cmocka_unit_test(no_more_than_so_many_at_once),
		cmocka_unit_test(the_turn_of_another_node_is_waited_for), cmocka_unit_test(all_nodes_break_a_tie_alike), cmocka_unit_test(none_is_forgotten),
	};

	return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
