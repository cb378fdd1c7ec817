// SPDX-License-Identifier: GPL-2.0-or-later
/* The votes of nodes (daemon/group/votes.c): asked in a thread, which hangs while corosync does. The library is simulated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <semaphore.h>
#include <string.h>

#include <corosync/votequorum.h>
#include <qb/qbdefs.h>
#include <qb/qbloop.h>
#include <qb/qbutil.h>

#include "daemon/group/votes.h"

static struct {
	sem_t goes_on;			/* corosync answers one question of a node */
	cs_error_t init, eighth;
	bool two_node;
	_Atomic int open;
} play;

static qb_loop_t *loop;
static struct ddr_asks *asks;

cs_error_t votequorum_initialize(votequorum_handle_t *handle, votequorum_callbacks_t *callbacks)
{
	(void)callbacks;
	*handle = 1;
	play.open += play.init == CS_OK;
	return play.init;
}

cs_error_t votequorum_finalize(votequorum_handle_t handle)
{
	(void)handle;
	play.open--;
	return CS_OK;
}

/* Each node has as many votes as its id says; node 9 is not known. */
cs_error_t votequorum_getinfo(votequorum_handle_t handle, unsigned int node, struct votequorum_info *info)
{
	(void)handle;
	while (sem_wait(&play.goes_on))
		;
	if (node == 9)
		return CS_ERR_NOT_EXIST;
	if (node == 8)
		return play.eighth;
	*info = (struct votequorum_info){ .node_id = node, .node_votes = node, .total_votes = 12, .quorum = 7, .flags = play.two_node ? VOTEQUORUM_INFO_TWONODE : 0 };
	return CS_OK;
}

static void corosync_answers(unsigned int questions)
{
	while (questions--)
		sem_post(&play.goes_on);
}

static const struct ddr_node_verdict *nodes(uint32_t a, uint32_t b)
{
	static struct ddr_node_verdict v;

	v = (struct ddr_node_verdict){ .n = 2, .node = { { .node = a, .votes = 99 }, { .node = b, .votes = 99 } } };
	return &v;
}

static void stop(void *data)
{
	(void)data;
	qb_loop_stop(loop);
}

static void loop_runs(unsigned int ms)
{
	qb_loop_timer_handle t;

	assert_int_equal(qb_loop_timer_add(loop, QB_LOOP_LOW, ms * QB_TIME_NS_IN_MSEC, NULL, stop, &t), 0);
	qb_loop_run(loop);
}

/* Until the question has been answered: its answer is an event of the loop. */
static void wait_for(const struct ddr_votes *v)
{
	while (v->asked)
		loop_runs(1);
}

/* By them it is judged whether the cluster can do without a node: half an answer is none, nor is one of another membership, or of other nodes. */
static void an_answer_is_of_its_ring_and_nodes(void **state)
{
	struct ddr_node_verdict of;
	struct ddr_votes v = { 0 };

	(void)state;
	of = *nodes(1, 9);
	assert_false(ddr_votes_known(&v, 5, &of));
	corosync_answers(3);
	ddr_votes_ask(&v, asks, 2, 5, nodes(1, 9));
	wait_for(&v);
	assert_false(ddr_votes_known(&v, 6, &of));
	assert_true(ddr_votes_known(&v, 5, &of));
	assert_int_equal(of.total, 12);
	assert_int_equal(of.quorum, 7);
	assert_int_equal(of.flags, 0);
	assert_int_equal(of.node[0].votes, 1);
	assert_int_equal(of.node[1].votes, 0);
	of = *nodes(1, 3);
	of.flags = DDR_VERDICT_NO_SLOT;
	assert_false(ddr_votes_known(&v, 5, &of));
	play.two_node = true;
	corosync_answers(3);
	ddr_votes_ask(&v, asks, 2, 6, nodes(1, 3));
	wait_for(&v);
	assert_true(ddr_votes_known(&v, 6, &of));
	assert_int_equal(of.flags, DDR_VERDICT_TWO_NODE | DDR_VERDICT_NO_SLOT);
	assert_int_equal(of.node[1].votes, 3);
	play.eighth = CS_ERR_TRY_AGAIN;
	corosync_answers(3);
	ddr_votes_ask(&v, asks, 2, 6, nodes(1, 8));
	wait_for(&v);
	assert_false(ddr_votes_known(&v, 6, &of));
	play.init = CS_ERR_LIBRARY;
	ddr_votes_ask(&v, asks, 2, 6, nodes(1, 3));
	wait_for(&v);
	assert_false(ddr_votes_known(&v, 6, &of));
	play.init = play.eighth = CS_OK;
	play.two_node = false;
	assert_int_equal(play.open, 0);
}

/* Rule L4: corosync is stopped (SIGSTOP). The loop goes on, nothing is asked twice, and what was known before stays known. */
static void the_loop_does_not_wait_for_corosync(void **state)
{
	struct ddr_node_verdict of = *nodes(1, 3);
	struct ddr_votes v = { 0 };

	(void)state;
	corosync_answers(3);
	ddr_votes_ask(&v, asks, 2, 5, nodes(1, 3));
	wait_for(&v);
	ddr_votes_ask(&v, asks, 2, 5, nodes(1, 3));
	ddr_votes_ask(&v, asks, 2, 5, nodes(1, 3));
	loop_runs(20);
	assert_non_null(v.asked);
	assert_true(ddr_votes_known(&v, 5, &of));
	corosync_answers(3);
	wait_for(&v);
	assert_true(ddr_votes_known(&v, 5, &of));
	assert_int_equal(play.open, 0);
}

/* The connection to corosync ended while it was asked: what the thread still hears is nobody's. */
static void a_question_is_abandoned(void **state)
{
	struct ddr_node_verdict of = *nodes(1, 3);
	struct ddr_votes v = { 0 };

	(void)state;
	ddr_votes_ask(&v, asks, 2, 5, nodes(1, 3));
	ddr_votes_forget(&v);
	assert_null(v.asked);
	corosync_answers(3);
	ddr_votes_ask(&v, asks, 2, 6, nodes(3, 4));
	corosync_answers(3);
	wait_for(&v);
	of = *nodes(3, 4);
	assert_true(ddr_votes_known(&v, 6, &of));
	while (play.open)
		loop_runs(1);
	loop_runs(20);
	assert_false(ddr_votes_known(&v, 5, &of));
	assert_true(ddr_votes_known(&v, 6, &of));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_is_of_its_ring_and_nodes),
		cmocka_unit_test(the_loop_does_not_wait_for_corosync),
		cmocka_unit_test(a_question_is_abandoned),
	};
	int ret;

	sem_init(&play.goes_on, 0, 0);
	play.init = play.eighth = CS_OK;
	loop = qb_loop_create();
	if (ddr_asks_open(&asks, loop))
		return 1;
	ret = cmocka_run_group_tests(tests, NULL, NULL);
	ddr_asks_close(asks, 0);
	qb_loop_destroy(loop);
	return ret;
}
