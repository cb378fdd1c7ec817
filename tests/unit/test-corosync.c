// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the daemon asks corosync, and what it makes of the answers: ids, names, and the quorum of large clusters. Corosync's libraries
 * are simulated.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <corosync/cmap.h>
#include <corosync/cpg.h>
#include <corosync/quorum.h>
#include <qb/qbloop.h>

#include "daemon/group/corosync.h"

#define NODES	70u

static struct {
	int pipe[2];
	quorum_model_v1_data_t calls;
	const void *context;
	uint32_t place[NODES], id[NODES];	/* of corosync's list */
	unsigned int at;
	/* what the calls answer; they are all CS_OK at first */
	cs_error_t local, init, fd, track, dispatch, cmap, iter, next, number, text;
	uint32_t type, self;			/* 0: QUORUM_SET, UINT32_MAX */
	int open;				/* handles of all libraries, and of this process's list */
	unsigned int asked;			/* names */
} play;

static cs_error_t opened(cs_error_t answer)
{
	play.open += answer == CS_OK;
	return answer;
}

static cs_error_t closed(void)
{
	play.open--;
	assert_true(play.open >= 0);
	return CS_OK;
}

cs_error_t cpg_initialize(cpg_handle_t *handle, cpg_callbacks_t *callbacks)
{
	(void)callbacks;
	*handle = 1;
	return opened(CS_OK);
}

cs_error_t cpg_local_get(cpg_handle_t handle, unsigned int *node)
{
	(void)handle;
	*node = play.self ? play.self : UINT32_MAX;
	return play.local;
}

cs_error_t cpg_finalize(cpg_handle_t handle)
{
	(void)handle;
	return closed();
}

cs_error_t quorum_model_initialize(quorum_handle_t *handle, quorum_model_t model, quorum_model_data_t *data, uint32_t *type, void *context)
{
	(void)model;
	memcpy(&play.calls, data, sizeof(play.calls));
	play.context = context;
	*type = play.type == 7 ? QUORUM_FREE : QUORUM_SET;
	*handle = 1;
	return opened(play.init);
}

cs_error_t quorum_finalize(quorum_handle_t handle)
{
	(void)handle;
	return closed();
}

cs_error_t quorum_fd_get(quorum_handle_t handle, int *fd)
{
	(void)handle;
	*fd = play.pipe[0];
	return play.fd;
}

cs_error_t quorum_trackstart(quorum_handle_t handle, unsigned int flags)
{
	(void)handle, (void)flags;
	return play.track;
}

cs_error_t quorum_dispatch(quorum_handle_t handle, cs_dispatch_flags_t types)
{
	char byte;

	(void)handle, (void)types;
	assert_int_equal(read(play.pipe[0], &byte, 1), 1);
	return play.dispatch;
}

cs_error_t quorum_context_get(quorum_handle_t handle, const void **context)
{
	(void)handle;
	*context = play.context;
	return CS_OK;
}

cs_error_t cmap_initialize(cmap_handle_t *handle)
{
	*handle = 1;
	return opened(play.cmap);
}

cs_error_t cmap_finalize(cmap_handle_t handle)
{
	(void)handle;
	return closed();
}

cs_error_t cmap_iter_init(cmap_handle_t handle, const char *prefix, cmap_iter_handle_t *iter)
{
	(void)handle, (void)prefix;
	play.at = 0;
	*iter = 1;
	return play.iter;
}

cs_error_t cmap_iter_next(cmap_handle_t handle, cmap_iter_handle_t iter, char key[], size_t *len, cmap_value_types_t *type)
{
	static const char *const names[] = { "name", "nodeid", "ring0_addr" };
	unsigned int node = play.at / 3;

	(void)handle, (void)iter, (void)len, (void)type;
	if (play.next != CS_OK && node == 1)
		return play.next;
	if (node == NODES)
		return CS_ERR_NO_SECTIONS;
	snprintf(key, CMAP_KEYNAME_MAXLEN, "nodelist.node.%u.%s", play.place[node], names[play.at++ % 3]);
	return CS_OK;
}

cs_error_t cmap_iter_finalize(cmap_handle_t handle, cmap_iter_handle_t iter)
{
	(void)handle, (void)iter;
	return CS_OK;
}

cs_error_t cmap_get_uint32(cmap_handle_t handle, const char *key, uint32_t *value)
{
	unsigned int place;

	(void)handle;
	if (play.number != CS_OK)
		return play.number;
	if (sscanf(key, "nodelist.node.%u.nodeid", &place) != 1)
		return CS_ERR_NOT_EXIST;
	for (unsigned int i = 0; i < NODES; i++)
		if (play.place[i] == place) {
			*value = play.id[i];
			return CS_OK;
		}
	return CS_ERR_NOT_EXIST;
}

cs_error_t cmap_get_string(cmap_handle_t handle, const char *key, char **value)
{
	unsigned int place;

	(void)handle;
	play.asked++;
	if (play.text != CS_OK)
		return play.text;
	if (sscanf(key, "nodelist.node.%u.name", &place) != 1 || asprintf(value, "at%u", place) < 0)
		return CS_ERR_NOT_EXIST;
	return CS_OK;
}

static void all_answer(void)
{
	play.local = play.init = play.fd = play.track = play.dispatch = play.cmap = play.iter = play.next = play.number = play.text = CS_OK;
}

static struct ddr_corosync *open_it(qb_loop_t **loop)
{
	struct ddr_corosync *c;

	memset(&play, 0, sizeof(play));
	all_answer();
	for (uint32_t i = 0; i < NODES; i++) {
		play.place[i] = i < 64 ? i : i + 100;		/* nodes were taken out of the file while corosync ran */
		play.id[i] = i + 1;
	}
	play.id[NODES - 1] = UINT32_MAX;
	assert_int_equal(pipe(play.pipe), 0);
	*loop = qb_loop_create();
	assert_int_equal(ddr_corosync_open(&c, *loop), 0);
	return c;
}

static void close_it(struct ddr_corosync *c, qb_loop_t *loop)
{
	ddr_corosync_close(c);
	assert_int_equal(play.open, 0);
	qb_loop_destroy(loop);
	close(play.pipe[0]);
	if (play.pipe[1] >= 0)
		close(play.pipe[1]);
}

static void stop(void *data)
{
	qb_loop_stop(data);
}

static void run(qb_loop_t *loop, unsigned int ms)
{
	qb_loop_timer_handle timer;

	assert_int_equal(qb_loop_timer_add(loop, QB_LOOP_LOW, ms * QB_TIME_NS_IN_MSEC, loop, stop, &timer), 0);
	qb_loop_run(loop);
}

static const struct ddr_quorum *quorate_of(struct ddr_corosync *c, uint32_t n)
{
	uint32_t nodes[DDR_COROSYNC_NODES + 1];
	struct quorum_ring_id ring = { .nodeid = 1, .seq = (5ull << 32) + 4 };

	for (uint32_t i = 0; i < n; i++)
		nodes[i] = i + 1;
	play.calls.quorum_notify_fn(1, 1, ring, n, nodes);
	return ddr_corosync_quorum(c);
}

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
	quorate_of(c, 5);				/* whoever is here is known, although nobody asks for it yet */
	assert_int_equal(write(play.pipe[1], "", 1), 1);
	run(loop, 50);
	play.id[3] = 1000;
	assert_true(ddr_corosync_known_name(c, 4, name, sizeof(name)));
	assert_string_equal(name, "at3");
	assert_false(ddr_corosync_known_name(c, 1001, name, sizeof(name)));
	assert_string_equal(name, "");
	play.dispatch = CS_ERR_LIBRARY;
	assert_int_equal(write(play.pipe[1], "", 1), 1);
	play.local = CS_ERR_LIBRARY;
	run(loop, 50);
	all_answer();
	run(loop, 1200);
	assert_true(ddr_corosync_known_name(c, 4, name, sizeof(name)));
	assert_string_equal(name, "at3");
	play.text = CS_ERR_NOT_EXIST;			/* another list, without names */
	assert_false(ddr_corosync_known_name(c, 5, name, sizeof(name)));
	all_answer();
	assert_false(ddr_corosync_known_name(c, 5, name, sizeof(name)));
	close_it(c, loop);
}

/*
 * What could not be asked just now is no name, and is asked again: fence agents are called by it, and one that is called by an invented
 * name fails for ever, or fences a machine that has this name.
 */
static void a_name_that_could_not_be_asked(void **state)
{
	char name[DDR_COROSYNC_NAME_LEN];
	struct ddr_corosync *c;
	qb_loop_t *loop;
	cs_error_t *const calls[] = { &play.cmap, &play.iter, &play.next, &play.number, &play.text };

	(void)state;
	c = open_it(&loop);
	for (uint32_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		char at[16];

		*calls[i] = CS_ERR_TRY_AGAIN;
		snprintf(at, sizeof(at), "node %u", i + 2);
		assert_string_equal(ddr_corosync_name(c, i + 2, name, sizeof(name)), at);
		all_answer();
		snprintf(at, sizeof(at), "at%u", i + 1);
		assert_string_equal(ddr_corosync_name(c, i + 2, name, sizeof(name)), at);
	}
	assert_string_equal(ddr_corosync_name(c, 1000, name, sizeof(name)), "node 1000");	/* added to the list while corosync runs */
	play.id[3] = 1000;
	assert_string_equal(ddr_corosync_name(c, 1000, name, sizeof(name)), "at3");
	play.text = CS_ERR_NOT_EXIST;								/* has none, and that is remembered */
	play.asked = 0;
	for (int i = 0; i < 2; i++)
		assert_string_equal(ddr_corosync_name(c, 50, name, sizeof(name)), "node 50");
	assert_int_equal(play.asked, 1);
	all_answer();
	for (int i = 0; i < 2; i++)
		assert_string_equal(ddr_corosync_name(c, 51, name, sizeof(name)), "at50");
	assert_int_equal(play.asked, 2);
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
			play.dispatch = CS_ERR_LIBRARY;
			assert_int_equal(write(play.pipe[1], "", 1), 1);
		} else {
			close(play.pipe[1]);			/* the end of the connection */
			play.pipe[1] = -1;
		}
		play.local = CS_ERR_LIBRARY;			/* it is not there */
		run(loop, 50);
		assert_int_equal(listeners.told[0], 1);
		assert_int_equal(listeners.told[1], 1);
		assert_false(ddr_corosync_up(c));
		assert_false(ddr_corosync_quorum(c)->quorate);
		assert_non_null(strstr(ddr_corosync_error(c), "systemctl start corosync"));
		assert_int_equal(play.open, 0);
		run(loop, 1200);
		assert_false(ddr_corosync_up(c));
		if (how == 1) {
			close_it(c, loop);
			continue;
		}
		all_answer();
		run(loop, 1200);
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
		{ &play.local, "systemctl start corosync" }, { &play.cmap, "systemctl start corosync" }, { &play.next, "systemctl start corosync" },
		{ &play.init, "systemctl start corosync" }, { &play.fd, "systemctl start corosync" }, { &play.track, "systemctl start corosync" },
		{ NULL, "corosync has no quorum" }, { NULL, "another id" },
	};
	struct ddr_corosync *c;
	qb_loop_t *loop;

	(void)state;
	c = open_it(&loop);
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(quorate_of(c, 3)->quorate);
		play.dispatch = CS_ERR_LIBRARY;
		assert_int_equal(write(play.pipe[1], "", 1), 1);
		if (cases[i].call)
			*cases[i].call = CS_ERR_TRY_AGAIN;
		play.type = strstr(cases[i].why, "no quorum") ? 7 : 0;
		play.self = strstr(cases[i].why, "another id") ? 5 : 0;
		run(loop, 1100);
		assert_false(ddr_corosync_up(c));
		assert_int_equal(play.open, 0);
		if (!strstr(ddr_corosync_error(c), cases[i].why))
			fail_msg("case %u: %s", i, ddr_corosync_error(c));
		assert_true(ddr_corosync_node(c) == UINT32_MAX);	/* that of the time before, which arrays go by */
		all_answer();
		play.type = play.self = 0;
		run(loop, 1100);
		assert_int_equal(play.open, 1);
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
	assert_int_equal(ddr_corosync_nodes(c), NODES);
	all_answer();
	play.next = CS_ERR_LIBRARY;			/* half of the list is none */
	assert_int_equal(ddr_corosync_nodes(c), NODES);
	play.next = CS_ERR_NO_SECTIONS;			/* one node is left in it */
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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
