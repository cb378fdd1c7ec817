// SPDX-License-Identifier: GPL-2.0-or-later
/* When which array is verified: how often, in which hours, how many at the same time, and that none is forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "daemon/array/array.h"
#include "daemon/array/events.h"
#include "daemon/base/zone.h"
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

/* Finding U9: a clock that was set back puts a verify off by one turn at most, however short that is. */
static void a_clock_that_was_set_back_puts_it_off_by_one_turn(void **state)
{
	static const uint64_t every[] = { 60, 3600, 7200, 86400, 30 * 86400 };

	(void)state;
	for (unsigned int i = 0; i < 5; i++)
		for (uint64_t back = 0; back <= 90000; back += 900) {
			uint64_t now = 2000000000, due = ddr_sched_due(500, now + back, every[i], now);

			assert_true(due <= now || (due - now <= 2 * every[i] && due - now <= every[i] + 86400));
			assert_true(ddr_sched_due(500, now, every[i], now + back) == now + every[i]);	/* and forth: as ever */
		}
}

/* A clock that once showed the year 2100 must not put the verify off until then. */
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

static void the_verify_that_is_due_longest_goes_first(void **state)
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

static void the_number_of_verifies_at_once_is_limited(void **state)
{
	struct ddr_sched_array list[] = {
		{ .due = NOW - 5, .able = true, .ours = true }, { .due = NOW, .reads = true }, { .due = NOW, .reads = true, .ours = true },
	};

	(void)state;
	assert_int_equal(ddr_sched_pick(list, 3, NOW, 2), -1);
	assert_int_equal(ddr_sched_pick(list, 3, NOW, 3), 0);
	list[2].reads = false;		/* it waits for a member, for example */
	assert_int_equal(ddr_sched_pick(list, 3, NOW, 2), 0);
}

/* The node of the first array begins with it; if it does not, nobody waits forever. */
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

/* Arrays that were made at the same moment, for example: each node lists them in its own order, and one of them begins. */
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
static void every_array_gets_its_turn(void **state)
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

/* ---- what the daemon makes of it --------------------------------------------------- */

/* Two arrays that begin a verify automatically. A verify of the first is running, on this node or another one; that of the second is due. */
static struct played {
	struct ddr_array array;
	struct ddr_super super;
	uint32_t writer;
} first, second;
static struct ddr_daemon d;
static unsigned int hour;
static const struct ddr_array *begun;

static struct played *of(const struct ddr_sm *sm) { return (void *)(uintptr_t)sm; }
const struct ddr_super *ddr_sm_super(const struct ddr_sm *sm) { return &of(sm)->super; }
void ddr_event_plain(struct ddr_array *a, int priority, const char *event, const char *text) { (void)a, (void)priority, (void)event, (void)text; }

void ddr_sm_get_status(const struct ddr_sm *sm, struct ddr_sm_status *st)
{
	*st = (struct ddr_sm_status){ .ready = true, .quorate = true, .rebuilding = DDR_NO_MEMBER, .writer = of(sm)->writer };
}

bool ddr_zone_hour(struct ddr_daemon *daemon, uint64_t now, uint64_t now_ms, unsigned int *h)
{
	(void)daemon, (void)now, (void)now_ms;
	*h = hour;
	return true;
}

const char *ddr_drive_verify(struct ddr_array *a, uint32_t op, uint32_t priority, uint32_t flags)
{
	assert_int_equal(op, DDR_VERIFY_OP_START);
	assert_true(flags & DDR_VERIFY_F_SCHEDULED);
	(void)priority;
	begun = a;
	return NULL;
}

static uint32_t node(const struct ddr_daemon *daemon)
{
	(void)daemon;
	return 1;
}

static void make(struct played *p, uint32_t writer)
{
	memset(p, 0, sizeof(*p));
	p->array.d = &d;
	p->array.sm = (void *)p;
	p->array.ready = true;
	p->array.tune.verify_hours = DDR_HOURS(0, 24);
	p->array.tune.verify_every_ms = 3600000;
	p->super.parity = 1;
	p->super.created = (uint64_t)time(NULL) - 7200;
	p->writer = writer;
	qb_list_add_tail(&p->array.list, &d.arrays);
}

static void begin(uint32_t writer)
{
	static struct ddr_transport_ops ops = { .node = node };

	memset(&d, 0, sizeof(d));
	qb_list_init(&d.arrays);
	d.transport = &ops;
	d.conf.verify_parallel = 1;
	d.n_arrays = 2;
	hour = 12;
	begun = NULL;
	make(&first, writer);
	make(&second, 1);
	first.super.verify = (struct ddr_verify){ .state = DDR_VERIFY_RUNNING, .serial = 3, .cursor = 100, .flags = DDR_VERIFY_F_SCHEDULED };
}

/*
 * Ticks each second for @ms; the verify of the first array advances by @blocks each minute. Returns the time after which the second
 * one begins.
 */
static uint64_t until_begun(uint64_t from_ms, uint64_t ms, uint64_t blocks)
{
	for (uint64_t t = 0; t < ms; t += 1000) {
		ddr_schedule_tick(&d, from_ms + t);
		if (begun)
			return t;
		if (t % 60000 == 0)
			first.super.verify.cursor += blocks;
	}
	return ms;
}

/* The other node has its own permitted hours, which this node does not know. */
static void a_paused_verify_of_another_node_delays_nobody(void **state)
{
	(void)state;
	begin(2);
	assert_int_equal(until_begun(100000, 3600000, 1), 3600000);
	assert_int_equal(until_begun(100000 + 3600000, 3600000, 0), DDR_SCHED_MOVES_MS - 59000);	/* it was seen to move a second after it did */
	assert_ptr_equal(begun, &second.array);
	begin(2);
	first.array.tune.verify_hours = DDR_HOURS(1, 5);	/* ours do not count: it reads */
	assert_int_equal(until_begun(100000, 3600000, 1), 3600000);
	begin(1);
	assert_int_equal(until_begun(100000, 3600000, 0), 3600000);	/* this node's waits for the disks only */
	begin(1);
	first.array.tune.verify_hours = DDR_HOURS(1, 5);
	assert_int_equal(until_begun(100000, 3600000, 1), 0);
	assert_ptr_equal(begun, &second.array);
}

static void a_verify_moves_as_long_as_its_cursor_does(void **state)
{
	struct ddr_sched_progress p = { 0 };

	(void)state;
	assert_true(ddr_sched_moves(&p, 1, 0, 1000));
	assert_true(ddr_sched_moves(&p, 1, 0, 1000 + DDR_SCHED_MOVES_MS - 1));
	assert_false(ddr_sched_moves(&p, 1, 0, 1000 + DDR_SCHED_MOVES_MS));
	assert_true(ddr_sched_moves(&p, 1, 5, 2 * DDR_SCHED_MOVES_MS));
	assert_false(ddr_sched_moves(&p, 1, 5, 3 * DDR_SCHED_MOVES_MS));
	assert_true(ddr_sched_moves(&p, 2, 5, 3 * DDR_SCHED_MOVES_MS));		/* the next one */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_one_counts_from_the_beginning_of_the_last), cmocka_unit_test(hours_may_go_over_midnight),
		cmocka_unit_test(a_clock_that_was_set_back_puts_it_off_by_one_turn),
		cmocka_unit_test(a_clock_that_was_wrong_does_not_put_it_off),
		cmocka_unit_test(the_verify_that_is_due_longest_goes_first), cmocka_unit_test(the_number_of_verifies_at_once_is_limited),
		cmocka_unit_test(the_turn_of_another_node_is_waited_for), cmocka_unit_test(all_nodes_break_a_tie_alike), cmocka_unit_test(every_array_gets_its_turn),
		cmocka_unit_test(a_paused_verify_of_another_node_delays_nobody), cmocka_unit_test(a_verify_moves_as_long_as_its_cursor_does),
	};

	return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
