// SPDX-License-Identifier: GPL-2.0-or-later
/* The transport of a cluster when corosync refuses, ends, or turns this node out; and what no message of this array's daemons is. */
#include "tests/unit/transport-rig.h"

/* Whatever the error: an array that has not joined serves nobody, and would wait for ever. */
static void a_join_that_is_refused_is_tried_again(void **state)
{
	static const cs_error_t errors[] = { CS_ERR_TRY_AGAIN, CS_ERR_EXIST, CS_ERR_NO_MEMORY, CS_ERR_NO_RESOURCES };

	(void)state;
	for (unsigned int i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		struct ddr_transport *t;

		begin(&ddr_transport_corosync);
		play.joins = errors[i];
		assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
		assert_true(mcast(t, 1));
		run(60);
		assert_true(play.tried > 1);
		assert_int_equal(play.sent, 0);			/* nothing is sent to a group that was not joined */
		play.joins = CS_OK;
		run(60);
		assert_int_equal(play.sent, 0);			/* nor before it takes part in the array */
		members(1, 1, 8);
		assert_int_equal(play.sent, 1);
		leave(t);
	}
}

/* It is gone, or was started anew since: views and quorum of this connection say nothing any more. Once. */
static void corosync_is_lost(void **state)
{
	struct cpg_address late = { .nodeid = 3, .pid = 103, .reason = CPG_REASON_JOIN };
	static const char byte;

	(void)state;
	for (unsigned int how = 0; how < 4; how++) {
		struct ddr_transport *t = join(&ddr_transport_corosync);

		members(2, 1, 8);
		assert_int_equal(play.views, 1);
		tell_corosync();				/* nothing new */
		assert_int_equal(play.told, 1);
		play.may_lose = true;
		play.down = how == 0;
		play.epoch = how == 1;
		play.dispatches = how == 2 ? CS_ERR_LIBRARY : CS_ERR_TRY_AGAIN;
		if (how < 2)
			tell_corosync();
		if (how == 2)
			assert_int_equal(write(play.pipe[1], &byte, 1), 1);
		if (how == 3) {					/* its end of the connection is closed */
			close(play.pipe[1]);
			play.pipe[1] = dup(play.pipe[0]);
		}
		run(60);
		assert_true(play.lost);
		assert_string_equal(play.why, "the connection to corosync was lost");
		assert_int_equal(play.told, 2);
		assert_int_equal(play.open, 0);
		play.may_lose = false;
		tell_corosync();
		play.calls.cpg_confchg_fn(1, NULL, &late, 1, NULL, 0, &late, 1);	/* on its way already */
		says(2, 101);
		assert_true(mcast(t, 9));			/* as to a ring that is no more */
		run(60);
		assert_int_equal(play.told, 2);
		assert_int_equal(play.sent, 0);
		leave(t);
	}
}

/* Corosync took this process out of the group: what the others agree on from then on is not heard here. */
static void a_node_removed_from_the_group_loses_it(void **state)
{
	struct cpg_address all[] = { { .nodeid = 1, .pid = (uint32_t)getpid() }, { .nodeid = 2, .pid = 101 } };
	struct cpg_address stranger = { .nodeid = 1, .pid = 1, .reason = CPG_REASON_PROCDOWN };
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	members(2, 1, 8);
	play.calls.cpg_confchg_fn(1, NULL, all, 2, &stranger, 1, NULL, 0);	/* another process of this node */
	assert_false(play.lost);
	play.may_lose = true;
	play.calls.cpg_confchg_fn(1, NULL, all + 1, 1, all, 1, NULL, 0);
	assert_true(play.lost);
	assert_non_null(strstr(play.why, "removed this node from the daemons' group"));
	leave(t);
}

/* Node 2's daemon was replaced by another one within one change: its node was gone in between, whatever the two lists say together. */
static void a_daemon_that_was_replaced_was_gone(void **state)
{
	struct cpg_address now[] = { { .nodeid = 1, .pid = (uint32_t)getpid() }, { .nodeid = 2, .pid = 200 } };
	struct cpg_address left = { .nodeid = 2, .pid = 101, .reason = CPG_REASON_PROCDOWN };
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	play.whole = true;
	members(2, 1, 8);
	says(2, 101);
	assert_int_equal(play.views, 1);
	play.pid2 = 0;
	play.calls.cpg_confchg_fn(1, NULL, now, 2, &left, 1, now + 1, 1);
	assert_int_equal(play.views, 2);		/* without it */
	assert_int_equal(play.nodes, 1);
	says(2, 101);					/* what the one before had sent */
	says(2, 200);					/* not in the array yet */
	assert_int_equal(play.received, 1);
	says_hello(2, 200);
	assert_int_equal(play.views, 3);
	assert_int_equal(play.pid2, 200);
	says(2, 200);
	assert_int_equal(play.received, 2);
	now[1].pid = 300;				/* one that nobody heard of is no daemon: the array has the same nodes as before */
	left.pid = 250;
	play.calls.cpg_confchg_fn(1, NULL, now, 2, &left, 1, now + 1, 1);
	assert_int_equal(play.nodes, 1);
	leave(t);
}

/* What is no message of this array's daemons is not given on, whoever sends it. */
static void hostile_messages(void **state)
{
	struct ddr_transport *t = join(&ddr_transport_corosync);
	uint8_t junk[DDR_SM_MSG_MAX + 100];
	struct ddr_msg msg = { .type = DDR_M_HELLO, .sender = 2 };
	size_t len;

	(void)state;
	play.whole = true;
	says(2, 101);					/* before any view */
	assert_int_equal(play.received, 0);
	members(2, 1, 8);
	memset(junk, 0xff, sizeof(junk));
	for (size_t n = 0; n < sizeof(junk); n += n < 64 ? 1 : 97)
		play.calls.cpg_deliver_fn(1, NULL, 2, 101, junk, n);
	len = ddr_msg_encode(&msg, junk, sizeof(junk));	/* with the uuid of no array */
	assert_true(len > 0);
	play.calls.cpg_deliver_fn(1, NULL, 2, 101, junk, len);
	says(3, 101);					/* no member */
	says_hello(3, 101);
	assert_int_equal(play.received, 0);
	assert_int_equal(play.foreign, 0);
	assert_int_equal(play.nodes, 2);
	says(2, 101);
	assert_int_equal(play.received, 1);
	assert_false(t->ops->mcast(t, junk, DDR_SM_MSG_MAX + 1));
	leave(t);
}

/* An array that ends within what it is told: nothing more is told, and nothing is used that is no more. */
static void a_group_may_be_left_within_an_event(void **state)
{
	(void)state;
	for (unsigned int how = 0; how < 2; how++) {
		struct ddr_transport *t = join(&ddr_transport_corosync);

		members(2, 1, 8);
		play.may_lose = true;
		play.leaves = t;
		if (how == 0) {
			play.quorum = (struct ddr_quorum){ .ring = { .node = 1, .seq = 8 }, .serial = 1 };
			tell_corosync();
		} else {
			play.down = true;
			tell_corosync();
		}
		assert_int_equal(play.told, 2);
		assert_null(play.leaves);
		run(20);
		assert_int_equal(play.told, 2);
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_join_that_is_refused_is_tried_again),
		cmocka_unit_test(corosync_is_lost),
		cmocka_unit_test(a_node_removed_from_the_group_loses_it),
		cmocka_unit_test(a_daemon_that_was_replaced_was_gone),
		cmocka_unit_test(hostile_messages),
		cmocka_unit_test(a_group_may_be_left_within_an_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
