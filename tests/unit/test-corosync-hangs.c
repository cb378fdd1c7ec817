// SPDX-License-Identifier: GPL-2.0-or-later
/* Corosync does not answer: the loop goes on, says what it waits for, and takes the answer when it comes (rule L4). */
#include "tests/unit/corosync-rig.h"

static unsigned int ticks;

static void on_tick(void *data)
{
	qb_loop_timer_handle timer;

	ticks++;
	assert_int_equal(qb_loop_timer_add(data, QB_LOOP_MED, 10 * QB_TIME_NS_IN_MSEC, data, on_tick, &timer), 0);
}

/* Does the loop go on? */
static void goes_on(qb_loop_t *loop)
{
	unsigned int before = ticks;

	run(loop, 100);
	assert_true(ticks > before);
}

/* Rule L4: corosync hangs in each call of the connection. The loop goes on, says what it waits for, and is connected when corosync answers. */
static void a_connection_that_is_not_answered(void **state)
{
	static const enum call calls[] = { LOCAL_GET, TRACK_ADD, LIST_NEXT, TRACK_START };
	struct ddr_corosync *c;
	char name[DDR_COROSYNC_NAME_LEN];
	qb_loop_t *loop;

	(void)state;
	for (unsigned int i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		c = begin(&loop, calls[i]);
		on_tick(loop);
		goes_on(loop);
		assert_false(ddr_corosync_up(c));
		assert_string_equal(ddr_corosync_error(c), "ddraidd connects to corosync");
		play.ms += DDR_ASK_LATE_MS;
		goes_on(loop);
		assert_non_null(strstr(ddr_corosync_error(c), "ddraidd on this node waits for corosync: it was asked to let ddraidd connect at "));
		answers();
		UNTIL(loop, ddr_asks_idle(asks));
		assert_int_equal(play.open, 2);
		assert_true(quorate_of(c, 3)->quorate);
		assert_true(ddr_corosync_known_name(c, 2, name, sizeof(name)));
		close_it(c, loop);
	}
}

/* ... while the list is read again: quorum is reported all the same, and names are known as before. */
static void a_list_that_is_not_answered(void **state)
{
	char name[DDR_COROSYNC_NAME_LEN], text[DDR_ASK_TEXT];
	struct ddr_corosync *c;
	qb_loop_t *loop;

	(void)state;
	c = open_it(&loop);
	on_tick(loop);
	play.hangs = LIST_NEXT;
	play.id[2] = 1000;
	list_changes();
	UNTIL(loop, !ddr_asks_idle(asks));
	goes_on(loop);
	assert_true(quorate_of(c, 3)->quorate);
	assert_int_equal(write(play.pipe[1], "", 1), 1);
	goes_on(loop);
	assert_true(ddr_corosync_up(c));
	assert_true(ddr_corosync_known_name(c, 3, name, sizeof(name)));
	assert_false(ddr_corosync_known_name(c, 1000, name, sizeof(name)));
	assert_int_equal(ddr_corosync_nodes(c), NODES);
	assert_false(ddr_asks_late(asks, text, sizeof(text)));
	play.ms += DDR_ASK_LATE_MS;
	assert_true(ddr_asks_late(asks, text, sizeof(text)));
	assert_non_null(strstr(text, "it was asked to list its nodes at "));
	assert_string_equal(ddr_corosync_error(c), "");
	play.id[3] = 1001;				/* changes again; a thread is under way, and it is not asked twice at once */
	list_changed_meanwhile(loop);
	answers();
	UNTIL(loop, ddr_corosync_known_name(c, 1000, name, sizeof(name)) && ddr_corosync_known_name(c, 1001, name, sizeof(name)));
	assert_false(ddr_asks_late(asks, text, sizeof(text)));
	close_it(c, loop);
}

/* The connection is lost while a thread waits in it: what it hears is nobody's, and the next connection is made when it is back. Nothing is closed twice. */
static void an_answer_to_an_earlier_connection(void **state)
{
	char name[DDR_COROSYNC_NAME_LEN];
	struct ddr_corosync *c;
	qb_loop_t *loop;

	(void)state;
	c = open_it(&loop);
	on_tick(loop);
	assert_true(quorate_of(c, 3)->quorate);
	play.hangs = LIST_NEXT;
	play.id[2] = 1000;
	list_changes();
	UNTIL(loop, !ddr_asks_idle(asks));
	lose_connection();
	UNTIL(loop, !ddr_corosync_up(c));
	play.dispatch = CS_OK;
	run(loop, 1200);
	goes_on(loop);
	assert_int_equal(play.open, 3);			/* what the thread uses, and what is closed behind it */
	play.local = CS_ERR_LIBRARY;
	answers();
	UNTIL(loop, play.open == 0 && ddr_asks_idle(asks));
	assert_false(ddr_corosync_known_name(c, 1000, name, sizeof(name)));
	all_answer();
	UNTIL(loop, play.open == 2 && ddr_asks_idle(asks));
	assert_true(quorate_of(c, 3)->quorate);
	assert_true(ddr_corosync_known_name(c, 1000, name, sizeof(name)));
	close_it(c, loop);
}

/* The daemon ends while corosync hangs: it waits for a moment, and not longer. */
static void the_end_does_not_wait_for_long(void **state)
{
	static const enum call calls[] = { LOCAL_GET, LIST_NEXT, QUORUM_END };
	struct ddr_corosync *c;
	qb_loop_t *loop;
	uint64_t began;

	(void)state;
	for (unsigned int i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		static struct ddr_asks *left[3];	/* the thread uses it until the process has ended */

		c = calls[i] == QUORUM_END ? open_it(&loop) : begin(&loop, calls[i]);
		play.hangs = calls[i];
		began = ddr_now_ms();
		ddr_corosync_close(c);
		ddr_asks_close(asks, 50);
		assert_true(ddr_now_ms() - began >= 40);
		assert_true(ddr_now_ms() - began < 2000);
		assert_true(play.open > 0);
		left[i] = asks;
		assert_false(ddr_asks_idle(left[i]));
		answers();
		ddr_asks_close(left[i], 5000);		/* as the end of the process would */
		assert_int_equal(play.open, 0);
		end(loop);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_that_is_not_answered),
		cmocka_unit_test(a_list_that_is_not_answered),
		cmocka_unit_test(an_answer_to_an_earlier_connection),
		cmocka_unit_test(the_end_does_not_wait_for_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
