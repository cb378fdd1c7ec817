// SPDX-License-Identifier: GPL-2.0-or-later
/* The transport of a cluster when corosync refuses, ends, or turns this node out; and what no message of this array's daemons is. */
#include <sys/socket.h>

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
		UNTIL(play.tried > 1);
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

/* ---- corosync does not answer ------------------------------------------------------ */

/*
 * Rule L4: corosync is stopped, or hangs, while this daemon joins the group. The loop goes on, says for what the array waits, and the array goes on when corosync
 * does.
 */
static void a_join_that_is_not_answered_is_said(void **state)
{
	struct ddr_transport *t;

	(void)state;
	begin(&ddr_transport_corosync);
	play.hangs = 1;
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
	assert_true(mcast(t, 1));
	run(2200);
	assert_non_null(play.hung);
	assert_string_equal(play.waits, "");
	play.ms += 5000;
	run(3200);
	assert_non_null(strstr(play.waits, "ddraidd on this node waits for corosync: it was asked to let ddraidd join a process group at "));
	assert_non_null(strstr(play.waits, " UTC and has not answered. See systemctl status corosync"));
	assert_int_equal(play.told_waits, 1);
	assert_int_equal(play.sent, 0);
	answers();
	members(1, 1, 8);
	assert_int_equal(play.views, 1);
	assert_int_equal(play.sent, 1);
	assert_string_equal(play.waits, "");
	leave(t);
}

/* The connection to corosync ends while a question is under way, and another one is made: what is answered then is nobody's, and is closed. */
static void an_answer_of_an_earlier_connection_is_dropped(void **state)
{
	struct ddr_transport *t;

	(void)state;
	for (unsigned int how = 0; how < 4; how++) {
		bool again = how % 2;

		begin(&ddr_transport_corosync);
		play.hangs = 1 + how / 2;
		assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
		run(20);
		play.may_lose = true;
		play.down = true;
		tell_corosync();
		assert_true(play.lost);
		play.may_lose = play.lost = play.down = false;
		play.epoch++;
		t->ops->leave(t);
		if (again)
			assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
		answers();
		assert_int_equal(play.open, again);
		assert_int_equal(play.own_group[0].context != NULL, again);
		assert_int_equal(play.tried, how / 2 + again);
		assert_int_equal(play.told, 1);
		if (again) {
			members(1, 1, 8);
			assert_int_equal(play.views, 1);
			leave(t);
		} else {
			end();
		}
	}
}

/* A handle belongs to one thread: while one joins the group, the loop takes nothing from that connection, and finds it afterwards. */
static void a_connection_is_not_used_while_it_joins(void **state)
{
	struct ddr_transport *t;

	(void)state;
	begin(&ddr_transport_corosync);
	play.joins = CS_ERR_TRY_AGAIN;
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
	UNTIL(play.tried > 1);
	play.hangs = 1;
	UNTIL(play.hung);
	play.dispatched = 0;
	assert_int_equal(write(play.pipe[1], "", 1), 1);
	run(60);
	assert_int_equal(play.dispatched, 0);
	play.joins = CS_OK;
	answers();
	run(60);
	assert_true(play.dispatched > 0);
	members(1, 1, 8);
	assert_int_equal(play.views, 1);
	leave(t);
}

/* An array that runs goes on: the others and it hear of each other, while its own group is to be joined again. It may end meanwhile. */
static void an_array_goes_on_while_corosync_is_asked(void **state)
{
	struct ddr_transport *t;

	(void)state;
	for (unsigned int how = 0; how < 2; how++) {
		t = join(&ddr_transport_corosync);
		play.whole = true;
		members(2, 1, 8);
		play.hangs = 1;
		own_group_ends(0);
		UNTIL(play.hung);
		play.ms += 5000;
		run(3200);
		says(2, 101);
		assert_int_equal(play.received, 1);
		assert_non_null(strstr(play.waits, "ddraidd on this node waits for corosync: it was asked to let ddraidd "));
		assert_true(play.n_own > 0);			/* its pulse */
		if (how == 1)
			t->ops->leave(t);
		answers();
		run(100);
		settled();
		assert_int_equal(play.own_group[0].context != NULL, how == 0);
		if (how == 1) {
			end();
			continue;
		}
		pump();
		UNTIL(!*play.waits);
		leave(t);
	}
}

/* What was sent does not come back for seconds: corosync hangs without a question of ours. */
static void a_corosync_that_delivers_nothing_is_said(void **state)
{
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	members(2, 1, 8);
	run(2200);
	assert_true(play.n_own > 0);
	assert_int_equal(play.told_waits, 0);
	run(4400);
	assert_int_equal(play.told_waits, 0);
	run(4400);
	assert_int_equal(play.told_waits, 1);
	assert_non_null(strstr(play.waits, "corosync on this node has not delivered what ddraidd sent at "));
	pump();
	run(1200);
	assert_string_equal(play.waits, "");
	leave(t);
}

/*
 * A corosync that takes nothing from its sockets: libqb sends a byte with each message, and tries it without end while the socket is full. So a message is sent
 * only if there is room.
 */
static void a_full_socket_is_not_written_to(void **state)
{
	struct ddr_transport *t;
	int pair[2], kept;
	char byte = 0;

	(void)state;
	begin(&ddr_transport_corosync);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
	kept = play.pipe[0];
	play.pipe[0] = pair[0];
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
	members(1, 1, 8);
	assert_true(mcast(t, 1));
	assert_int_equal(play.sent, 1);
	while (write(pair[0], &byte, 1) == 1)
		;
	assert_true(mcast(t, 2));
	run(60);
	assert_int_equal(play.sent, 1);
	assert_int_equal(play.refused, 0);
	while (read(pair[1], &byte, 1) == 1)
		;
	run(60);
	assert_int_equal(play.sent, 2);
	play.pipe[0] = kept;
	leave(t);
	close(pair[0]);
	close(pair[1]);
}

/* Note 52: the version does not move up while an array of this node misses another one, which may come back and speak the lower one alone. */
static void the_version_waits_for_each_array(void **state)
{
	struct ddr_transport *t;

	(void)state;
	begin(&ddr_transport_corosync);
	d.speaks.highest = DDR_MSG_LOWEST + 1;
	play.misses = true;
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
	members(1, 1, 8);
	run(2500);
	pump();
	assert_int_equal(play.views, 1);
	assert_int_equal(play.version, DDR_MSG_LOWEST);
	play.misses = false;				/* it was fenced: a message of the array said so */
	run(1500);
	pump();
	assert_int_equal(play.views, 2);
	assert_int_equal(play.version, DDR_MSG_LOWEST + 1);
	leave(t);
}

/*
 * Note 51: this node's hello says what its daemon does with the module that is loaded. When that was exchanged the process leaves the group and says hello
 * anew, but not while arrays of the module of before still say what they have to.
 */
static void another_module_is_said_anew(void **state)
{
	static const uint8_t other[16] = { 2 };
	struct ddr_transport *t, *second;

	(void)state;
	begin(&ddr_transport_corosync);
	d.speaks.highest = DDR_MSG_LOWEST + 1;
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
	members(1, 1, 8);
	assert_int_equal(play.views, 2);		/* it begins with the lowest one */
	assert_int_equal(play.version, DDR_MSG_LOWEST + 1);
	assert_int_equal(play.speaks.lowest, DDR_MSG_LOWEST);
	assert_int_equal(play.speaks.highest, DDR_MSG_LOWEST + 1);
	d.speaks.highest = DDR_MSG_LOWEST;
	assert_int_equal(ddr_transport_corosync.join(&second, &d, other, &events, NULL), -EAGAIN);
	assert_int_equal(play.open, 1);
	assert_int_equal(play.told, 2);			/* the first one goes on until it ends by itself */
	t->ops->leave(t);
	pump();
	play.tried = 0;
	assert_int_equal(ddr_transport_corosync.join(&second, &d, other, &events, NULL), 0);
	UNTIL(play.tried == 1);
	assert_int_equal(play.open, 1);
	members(1, 1, 12);
	assert_int_equal(play.views, 3);
	assert_int_equal(play.version, DDR_MSG_LOWEST);
	assert_int_equal(play.speaks.highest, DDR_MSG_LOWEST);
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);	/* of the same module: in the same group */
	assert_int_equal(play.open, 1);
	assert_int_equal(play.tried, 1);
	t->ops->leave(t);
	leave(second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_module_is_said_anew),
		cmocka_unit_test(the_version_waits_for_each_array),
		cmocka_unit_test(a_join_that_is_refused_is_tried_again),
		cmocka_unit_test(corosync_is_lost),
		cmocka_unit_test(a_node_removed_from_the_group_loses_it),
		cmocka_unit_test(a_daemon_that_was_replaced_was_gone),
		cmocka_unit_test(hostile_messages),
		cmocka_unit_test(a_group_may_be_left_within_an_event),
		cmocka_unit_test(a_join_that_is_not_answered_is_said),
		cmocka_unit_test(an_answer_of_an_earlier_connection_is_dropped),
		cmocka_unit_test(a_connection_is_not_used_while_it_joins),
		cmocka_unit_test(an_array_goes_on_while_corosync_is_asked),
		cmocka_unit_test(a_corosync_that_delivers_nothing_is_said),
		cmocka_unit_test(a_full_socket_is_not_written_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
