// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the daemon asks corosync, and what it makes of the answers: ids, names, and the quorum of large clusters. Corosync's libraries
 * are simulated.
 */
#include "tests/unit/corosync-rig.h"

/* Finding U9: a cluster may have more than 64 nodes. The 65th, whether it has the array or not, must not take quorum from the others. */
static void more_than_64_nodes_have_quorum(void **state)
{
	const struct ddr_quorum *q;
	struct ddr_corosync *c;
	qb_loop_t *loop;

	(void)state;
	c = open_it(&loop);
	for (uint32_t n = 63; n <= 66; n++) {
		q = quorate_of(c, n);
		assert_true(q->quorate);
		assert_int_equal(q->n, n);
		assert_int_equal(q->node[n - 1], n);
		assert_true(q->ring.seq == (5ull << 32) + 4);
	}
	assert_true(quorate_of(c, DDR_COROSYNC_NODES)->quorate);
	q = quorate_of(c, DDR_COROSYNC_NODES + 1);		/* corosync allows no more; a node that cannot be listed is not quorate */
	assert_false(q->quorate);
	close_it(c, loop);
}

/* Finding U9: whatever place a node has in corosync's list, and whatever its id, its name is found: fence agents are called by it. */
static void names_behind_the_64th_place(void **state)
{
	char name[DDR_COROSYNC_NAME_LEN];
	struct ddr_corosync *c;
	qb_loop_t *loop;

	(void)state;
	c = open_it(&loop);
	assert_true(ddr_corosync_node(c) == UINT32_MAX);
	assert_string_equal(ddr_corosync_name(c, 1, name, sizeof(name)), "at0");
	assert_string_equal(ddr_corosync_name(c, 64, name, sizeof(name)), "at63");
	assert_string_equal(ddr_corosync_name(c, 65, name, sizeof(name)), "at164");
	assert_string_equal(ddr_corosync_name(c, UINT32_MAX, name, sizeof(name)), "at169");
	assert_string_equal(ddr_corosync_name(c, 1000, name, sizeof(name)), "node 1000");
	assert_string_equal(ddr_corosync_name(c, 0, name, sizeof(name)), "node 0");
	assert_int_equal(ddr_corosync_nodes(c), NODES);
	close_it(c, loop);
}

/*
 * Finding T8: a node that was lost is taken out of the list. Whoever has known its name still does, also after corosync was started again, and a
 * node that has none gets none.
 */
static void the_last_known_name(void **state)
{
	char name[DDR_COROSYNC_NAME_LEN];
	struct ddr_corosync *c;
	qb_loop_t *loop;

	(void)state;
	c = open_it(&loop);
	play.id[3] = 1000;				/* node 4 is taken out, although it was never asked for */
	list_changed(loop);
	assert_true(ddr_corosync_known_name(c, 4, name, sizeof(name)));
	assert_string_equal(name, "at3");
	assert_false(ddr_corosync_known_name(c, 1001, name, sizeof(name)));
	assert_string_equal(name, "");
	play.id[3] = 1002;
	lose_connection();
	play.local = CS_ERR_LIBRARY;
	UNTIL(loop, !play.open);
	assert_true(ddr_corosync_known_name(c, 4, name, sizeof(name)));
	all_answer();
	UNTIL(loop, play.open == 2 && ddr_asks_idle(asks));
	assert_true(ddr_corosync_known_name(c, 4, name, sizeof(name)));
	assert_string_equal(name, "at3");
	assert_true(ddr_corosync_known_name(c, 1000, name, sizeof(name)));
	assert_true(ddr_corosync_known_name(c, 1002, name, sizeof(name)));
	play.text = CS_ERR_NOT_EXIST;			/* another list, without names */
	list_changed(loop);
	assert_false(ddr_corosync_known_name(c, 5, name, sizeof(name)));
	assert_true(ddr_corosync_known_name(c, 4, name, sizeof(name)));
	close_it(c, loop);
}

/*
 * What could not be asked just now is no name, and is asked again: fence agents are called by it, and one that is called by an invented
 * name fails for ever, or fences a machine that has this name.
 */
static void a_name_that_could_not_be_asked(void **state)
{
	char name[DDR_COROSYNC_NAME_LEN], at[32];
	struct ddr_corosync *c;
	qb_loop_t *loop;
	cs_error_t *const calls[] = { &play.cmap, &play.iter, &play.next, &play.number, &play.text };

	(void)state;
	c = open_it(&loop);
	for (uint32_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		*calls[i] = CS_ERR_TRY_AGAIN;
		play.id[i + 1] = 1000 + i;		/* added to the list while corosync runs */
		list_changed(loop);
		snprintf(at, sizeof(at), "node %u", 1000 + i);
		assert_string_equal(ddr_corosync_name(c, 1000 + i, name, sizeof(name)), at);
		assert_string_equal(ddr_corosync_name(c, 1, name, sizeof(name)), "at0");
		all_answer();
		snprintf(at, sizeof(at), "at%u", i + 1);
		UNTIL(loop, strcmp(ddr_corosync_name(c, 1000 + i, name, sizeof(name)), at) == 0);
	}
	close_it(c, loop);
}

/* Corosync ends the connection that reports changes of the list, and no other: it is made anew, and what has changed meanwhile is found. */
static void the_list_is_watched_again(void **state)
{
	char name[DDR_COROSYNC_NAME_LEN];
	struct ddr_corosync *c;
	qb_loop_t *loop;

	(void)state;
	c = open_it(&loop);
	assert_true(quorate_of(c, 3)->quorate);
	play.changes = CS_ERR_LIBRARY;
	list_changes();
	UNTIL(loop, play.open == 1);
	play.id[2] = 1000;
	all_answer();
	UNTIL(loop, play.open == 2 && ddr_corosync_known_name(c, 1000, name, sizeof(name)));
	assert_true(ddr_corosync_up(c));
	play.id[2] = 1001;
	list_changed(loop);
	assert_true(ddr_corosync_known_name(c, 1001, name, sizeof(name)));
	close_it(c, loop);
}

/* ---- corosync comes and goes ---------------------------------------------------------- */

static struct {
	struct ddr_corosync_listener l[2];
	unsigned int told[2];
} listeners;

/* The first one listens no more when it is told: an array that ends. */
static void changed(void *ctx)
{
	unsigned int *told = ctx;

	if (++*told == 1 && told == &listeners.told[0])
		ddr_corosync_unlisten(&listeners.l[0]);
}

static void listen_to(struct ddr_corosync *c)
{
	memset(&listeners, 0, sizeof(listeners));
	for (int i = 0; i < 2; i++) {
		listeners.l[i] = (struct ddr_corosync_listener){ .changed = changed, .ctx = &listeners.told[i] };
		ddr_corosync_listen(c, &listeners.l[i]);
	}
}

/* Without corosync there is no quorum, at once; all that listen are told, and what is behind the next connection is another epoch. */
static void corosync_goes_and_comes_back(void **state)
{
	struct ddr_corosync *c;
	qb_loop_t *loop;
	uint64_t epoch;

	(void)state;
	for (int how = 0; how < 2; how++) {
		c = open_it(&loop);
		assert_false(ddr_corosync_up(c));		/* nothing is known of quorum yet */
		assert_non_null(strstr(ddr_corosync_error(c), "has not reported yet"));
		assert_true(quorate_of(c, 3)->quorate);
		assert_true(ddr_corosync_up(c));
		assert_string_equal(ddr_corosync_error(c), "");
		epoch = ddr_corosync_epoch(c);
		listen_to(c);
		if (how == 0) {
			lose_connection();
		} else {
			close(play.pipe[1]);			/* the end of the connection */
			play.pipe[1] = -1;
		}
		play.local = CS_ERR_LIBRARY;			/* it is not there */
		UNTIL(loop, !play.open);
		assert_int_equal(listeners.told[0], 1);
		assert_int_equal(listeners.told[1], 1);
		assert_false(ddr_corosync_up(c));
		assert_false(ddr_corosync_quorum(c)->quorate);
		assert_non_null(strstr(ddr_corosync_error(c), "systemctl start corosync"));
		run(loop, 1200);
		assert_false(ddr_corosync_up(c));
		if (how == 1) {
			close_it(c, loop);
			continue;
		}
		all_answer();
		UNTIL(loop, play.open == 2);
		UNTIL(loop, ddr_asks_idle(asks));
		assert_false(ddr_corosync_up(c));		/* connected, but what it said last is of the time before */
		assert_true(quorate_of(c, 2)->quorate);
		assert_true(ddr_corosync_up(c));
		assert_true(ddr_corosync_epoch(c) > epoch);
		close_it(c, loop);
	}
}

/* Whatever call fails: it is not connected, says why, keeps nothing open, and tries again by itself. */
static void every_call_of_corosync_may_fail(void **state)
{
	static const struct { cs_error_t *call; const char *why; } cases[] = {
		{ &play.local, "systemctl start corosync" }, { &play.cmap, "systemctl start corosync" }, { &play.watch, "systemctl start corosync" }, { &play.next, "systemctl start corosync" },
		{ &play.init, "systemctl start corosync" }, { &play.fd, "systemctl start corosync" }, { &play.track, "systemctl start corosync" },
		{ NULL, "corosync has no quorum" }, { NULL, "another id" },
	};
	struct ddr_corosync *c;
	qb_loop_t *loop;

	(void)state;
	c = open_it(&loop);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(quorate_of(c, 3)->quorate);
		lose_connection();
		UNTIL(loop, !ddr_corosync_up(c));
		play.dispatch = CS_OK;
		if (cases[i].call)
			*cases[i].call = CS_ERR_TRY_AGAIN;
		play.type = strstr(cases[i].why, "no quorum") ? 7 : 0;
		play.self = strstr(cases[i].why, "another id") ? 5 : 0;
		run(loop, 1200);
		assert_false(ddr_corosync_up(c));
		UNTIL(loop, ddr_asks_idle(asks));
		assert_int_equal(play.open, 0);
		if (!strstr(ddr_corosync_error(c), cases[i].why))
			fail_msg("case %u: %s", i, ddr_corosync_error(c));
		assert_true(ddr_corosync_node(c) == UINT32_MAX);	/* that of the time before, which arrays go by */
		all_answer();
		play.type = play.self = 0;
		UNTIL(loop, play.open == 2 && ddr_asks_idle(asks));
	}
	close_it(c, loop);
}

/* How many there are is known from the last answer, and from quorum where the list says less. */
static void the_number_of_nodes_of_the_cluster(void **state)
{
	struct ddr_corosync *c;
	qb_loop_t *loop;

	(void)state;
	c = open_it(&loop);
	play.cmap = CS_ERR_TRY_AGAIN;
	list_changed(loop);
	assert_int_equal(ddr_corosync_nodes(c), NODES);
	all_answer();
	play.next = CS_ERR_LIBRARY;			/* half of the list is none */
	list_changed(loop);
	assert_int_equal(ddr_corosync_nodes(c), NODES);
	play.next = CS_ERR_NO_SECTIONS;			/* one node is left in it */
	list_changed(loop);
	assert_int_equal(ddr_corosync_nodes(c), 1);
	quorate_of(c, 4);
	assert_int_equal(ddr_corosync_nodes(c), 4);
	close_it(c, loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_than_64_nodes_have_quorum),
		cmocka_unit_test(names_behind_the_64th_place),
		cmocka_unit_test(a_name_that_could_not_be_asked),
		cmocka_unit_test(the_last_known_name),
		cmocka_unit_test(corosync_goes_and_comes_back),
		cmocka_unit_test(every_call_of_corosync_may_fail),
		cmocka_unit_test(the_number_of_nodes_of_the_cluster),
		cmocka_unit_test(the_list_is_watched_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
