// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The queues of both transports: until corosync is free again (or the loop runs) messages that are sent wait, in order; a message
 * that does not fit is refused to the caller, and messages that were accepted are delivered all the same. And who takes part in an
 * array. Corosync's library is simulated.
 */
#include "tests/unit/transport-rig.h"

#define QUEUE	(DDR_QUEUE_BYTES / (DDR_SM_MSG_MAX + (uint32_t)sizeof(uint32_t)))	/* of both transports: that many of the longest messages fit */

static void fill(struct ddr_transport *t)
{
	for (uint32_t i = 1; i <= QUEUE; i++)
		assert_true(mcast(t, i));
	assert_false(mcast(t, QUEUE + 1));
	assert_false(mcast(t, QUEUE + 1));
}

static void waits_until_corosync_takes_it(cs_error_t answer)
{
	struct ddr_transport *t = join(&ddr_transport_corosync);

	members(1, 1, 8);
	play.answer = answer;
	fill(t);
	run(60);
	assert_true(play.refused > 1);			/* it is tried again, automatically */
	assert_int_equal(play.sent, 0);
	play.answer = CS_OK;
	run(60);
	assert_int_equal(play.sent, QUEUE);
	assert_true(mcast(t, QUEUE + 1));
	assert_int_equal(play.sent, QUEUE + 1);
	leave(t);
}

static void a_busy_corosync_gets_all_that_was_taken(void **state)
{
	(void)state;
	waits_until_corosync_takes_it(CS_ERR_TRY_AGAIN);
}

/* Whatever the error: no message is skipped, or later ones would arrive without it. */
static void a_corosync_that_refuses_gets_all_that_was_taken(void **state)
{
	(void)state;
	waits_until_corosync_takes_it(CS_ERR_NO_MEMORY);
}

/* Without corosync an array does not join, and begins anew. */
static void a_join_says_that_there_is_no_corosync(void **state)
{
	struct ddr_transport *t;

	(void)state;
	begin(&ddr_transport_corosync);
	play.down = true;
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), -ENOTCONN);
	assert_null(t);
	end();
}

/* Corosync is there, but has no room for a connection, or ends it at once, or takes no message of that length: this is tried again until it is otherwise. */
static void a_connection_is_tried_again(void **state)
{
	for (unsigned int i = 0; i < 4; i++) {
		struct ddr_transport *t;

		(void)state;
		begin(&ddr_transport_corosync);
		play.opens = i == 0 ? CS_ERR_LIBRARY : i == 1 ? CS_ERR_TRY_AGAIN : CS_OK;
		play.asked = i == 2 ? CS_ERR_LIBRARY : CS_OK;
		play.largest = i == 3 ? DDR_SM_MSG_MAX - 1 : 1u << 20;
		assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
		run(1200);
		assert_int_equal(play.tried, 0);
		assert_int_equal(play.open, 0);
		assert_string_equal(play.waits, "");
		lasts();
		assert_non_null(strstr(play.waits, "corosync has not said yet who is in the group of the daemons"));
		play.opens = play.asked = CS_OK;
		play.largest = 1u << 20;
		UNTIL(play.tried && play.own_group[0].context);
		assert_int_equal(play.open, 1);
		members(1, 1, 8);
		assert_int_equal(play.views, 1);
		leave(t);
	}
}

static void messages_to_oneself_wait_for_the_loop(void **state)
{
	struct ddr_transport *t = join(&ddr_transport_local);

	(void)state;
	fill(t);
	assert_int_equal(play.received, 0);		/* never from within a call */
	run(60);
	assert_int_equal(play.version, DDR_MSG_HIGHEST);	/* what daemon and module speak, without a cluster, too */
	assert_int_equal(play.received, QUEUE);
	assert_true(mcast(t, QUEUE + 1));
	run(60);
	assert_int_equal(play.received, QUEUE + 1);
	leave(t);
}

/* Another release is reported as long as it is in the group and this node takes part in nothing; and this node does not begin to. */
static void a_daemon_of_another_release_is_told(void **state)
{
	struct cpg_address list[] = { { .nodeid = 1, .pid = (uint32_t)getpid() }, { .nodeid = 2, .pid = 50 } };
	struct cpg_ring_id ring = { .nodeid = 1, .seq = 8 };
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	play.calls.cpg_totem_confchg_fn(1, ring, 0, NULL);
	play.calls.cpg_confchg_fn(1, NULL, list, 2, NULL, 0, list, 2);
	says_hello_of(2, 70, DDR_MSG_HIGHEST + 1, 0);	/* a process that is not in the group */
	says_hello_of(1, 70, DDR_MSG_HIGHEST + 1, 0);	/* not our daemon */
	pump();
	assert_int_equal(play.foreign, 0);
	says_hello_of(2, 50, DDR_MSG_HIGHEST + 1, 50);
	pump();
	assert_int_equal(play.foreign, 1);
	assert_int_equal(play.views, 0);
	t->ops->leave(t);
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
	run(60);
	assert_true(play.foreign > 1);			/* also to an array that comes later, and from the loop */
	play.calls.cpg_confchg_fn(1, NULL, list, 1, list + 1, 1, NULL, 0);
	pump();
	assert_int_equal(play.views, 1);
	leave(t);
}

/* A daemon that comes later, or takes part in nothing, is refused by the others, and said to be: on every node that serves an array. */
static void a_daemon_that_is_refused_is_said(void **state)
{
	struct cpg_address list[] = { { .nodeid = 1, .pid = (uint32_t)getpid() }, { .nodeid = 2, .pid = 50 } };
	struct ddr_transport *t = join(&ddr_transport_corosync);
	char text[128];

	(void)state;
	members(1, 1, 8);
	assert_int_equal(play.views, 1);
	assert_int_equal(play.version, DDR_MSG_LOWEST);
	play.calls.cpg_confchg_fn(1, NULL, list, 2, NULL, 0, list + 1, 1);
	pump();
	says_hello_of(2, 50, DDR_MSG_HIGHEST + 1, 0);
	lasts();
	snprintf(text, sizeof(text), "process 50 on node 2 (node 2), speaks versions %u to %u of the protocol between nodes", DDR_MSG_HIGHEST + 1,
		 DDR_MSG_HIGHEST + 1);
	assert_non_null(strstr(play.waits, text));
	assert_int_equal(play.foreign, 0);
	assert_int_equal(play.views, 1);
	leave(t);
}

/* A second array joins through the same connection, and does not disturb the first. What is for one is not given to the other. */
static void arrays_share_one_connection(void **state)
{
	static const uint8_t other[16] = { 2 };
	struct ddr_transport *t = join(&ddr_transport_corosync), *second;

	(void)state;
	play.whole = true;
	members(2, 1, 8);
	assert_int_equal(play.views, 1);
	assert_int_equal(ddr_transport_corosync.join(&second, &d, other, &events, NULL), 0);
	assert_int_equal(play.open, 1);
	pump();
	assert_int_equal(play.views, 2);
	assert_int_equal(play.nodes, 1);		/* node 2 is not in it */
	says(2, 101);
	assert_int_equal(play.received, 1);
	second->ops->leave(second);
	pump();
	says(2, 101);
	assert_int_equal(play.received, 2);
	assert_int_equal(play.views, 2);
	leave(t);
}

/* A command holds the array, or a daemon of an older release serves it: they are in the array's own group, and not in that of the daemons. */
static void who_uses_the_array_is_waited_for(void **state)
{
	struct ddr_transport *t;

	(void)state;
	begin(&ddr_transport_corosync);
	play.own_group[0].other = 60;
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
	members(2, 1, 8);				/* node 2's daemon is another process */
	lasts();
	assert_int_equal(play.views, 0);
	assert_non_null(strstr(play.waits, "process 60 on node 2 (node 2) uses the array; it starts here when"));
	play.own_group[0].other = 101;			/* only that is left */
	own_group_changes(0);
	pump();
	assert_int_equal(play.views, 1);
	assert_int_equal(play.nodes, 2);
	assert_string_equal(play.waits, "");
	play.own_group[0].other = 60;			/* who comes later sees that the array is in use */
	own_group_changes(0);
	pump();
	assert_int_equal(play.views, 1);
	lasts();
	assert_non_null(strstr(play.waits, "process 60 on node 2 (node 2) waits for this array"));
	leave(t);
}

/*
 * The connection to an array's own group is lost alone: the array goes on, and is soon in that group again, for others would take it for one
 * that is not in use.
 */
static void a_presence_that_is_lost_alone_is_made_anew(void **state)
{
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	members(2, 1, 8);
	assert_int_equal(play.views, 1);
	own_group_ends(0);
	UNTIL(!play.own_group[0].ended);		/* this connection is closed */
	UNTIL(play.own_group[0].context);
	assert_int_equal(play.own_group[0].joined, 1);
	play.opens = CS_ERR_TRY_AGAIN;			/* corosync has no room for it at first */
	own_group_ends(0);
	UNTIL(!play.own_group[0].context);
	run(200);
	assert_null(play.own_group[0].context);
	play.opens = CS_OK;
	UNTIL(play.own_group[0].context);
	assert_int_equal(play.own_group[0].joined, 1);
	assert_int_equal(play.told, 1);			/* nothing else happened */
	play.opens = CS_ERR_TRY_AGAIN;			/* an array that stops meanwhile is not in it again */
	own_group_ends(0);
	UNTIL(!play.own_group[0].context);
	play.opens = CS_OK;
	t->ops->leave(t);
	run(1200);
	assert_null(play.own_group[0].context);
	end();
}

/* The same while the array waits for another user of it: it starts when that one has ended, which is seen in the new connection. */
static void a_lost_presence_does_not_hold_the_array(void **state)
{
	struct ddr_transport *t;

	(void)state;
	begin(&ddr_transport_corosync);
	play.own_group[0].other = 60;
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
	members(2, 1, 8);
	assert_int_equal(play.views, 0);
	play.opens = CS_ERR_TRY_AGAIN;
	own_group_ends(0);
	UNTIL(!play.own_group[0].context);
	assert_int_equal(play.views, 0);
	play.own_group[0].other = 0;
	play.opens = CS_OK;
	UNTIL(play.own_group[0].context);
	pump();
	assert_int_equal(play.views, 1);
	leave(t);
}

/* Nothing waits in silence: a process without a hello, for which the arrays of this node wait, is named, once and until it ends. */
static void who_is_waited_for_is_said(void **state)
{
	struct cpg_address list[] = { { .nodeid = 1, .pid = (uint32_t)getpid() }, { .nodeid = 2, .pid = 50 } };
	struct cpg_ring_id ring = { .nodeid = 1, .seq = 8 };
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	play.calls.cpg_totem_confchg_fn(1, ring, 0, NULL);
	play.calls.cpg_confchg_fn(1, NULL, list, 2, NULL, 0, list, 2);
	pump();
	run(1200);
	assert_int_equal(play.told_waits, 0);		/* most of it ends at once */
	lasts();
	assert_non_null(strstr(play.waits, "process 50 on node 2 (node 2), has not said hello, so nobody knows whether it uses this array, which starts"));
	lasts();
	assert_int_equal(play.told_waits, 1);
	says_hello(2, 50);
	pump();
	assert_int_equal(play.views, 1);
	assert_string_equal(play.waits, "");
	lasts();
	assert_int_equal(play.told_waits, 1);
	leave(t);
}

/* The same where partitions have met: no quorum is reported, which is not for want of nodes. And where only others wait, people here know it. */
static void a_hello_that_is_missing_is_said_everywhere(void **state)
{
	struct cpg_address all[] = { { .nodeid = 1, .pid = (uint32_t)getpid() }, { .nodeid = 2, .pid = 101, .reason = CPG_REASON_NODEUP } };
	struct cpg_ring_id ring = { .nodeid = 1, .seq = 12 };
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	members(1, 1, 8);
	play.calls.cpg_confchg_fn(1, NULL, all, 2, NULL, 0, all + 1, 1);
	play.calls.cpg_totem_confchg_fn(1, ring, 0, NULL);
	pump();
	lasts();
	assert_non_null(strstr(play.waits, "process 101 on node 2 (node 2), has not said hello since parts of the cluster met again"));
	says_hello(2, 101);
	assert_string_equal(play.waits, "");
	all[1].pid = 102;
	all[1].reason = CPG_REASON_JOIN;
	play.calls.cpg_confchg_fn(1, NULL, all, 2, NULL, 0, all + 1, 1);
	pump();
	lasts();
	assert_non_null(strstr(play.waits, "process 102 on node 2 (node 2), has not said hello: arrays that start on other nodes wait for it"));
	says_hello(2, 102);
	assert_string_equal(play.waits, "");
	leave(t);
}

/* What corosync itself keeps an array from: it is not in a group, or what it says does not come back. */
static void a_corosync_that_is_waited_for_is_said(void **state)
{
	struct cpg_address self = { .nodeid = 1, .pid = (uint32_t)getpid() };
	struct cpg_ring_id ring = { .nodeid = 1, .seq = 8 };
	struct ddr_transport *t;
	unsigned int tried;

	(void)state;
	begin(&ddr_transport_corosync);
	play.joins = CS_ERR_TRY_AGAIN;
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
	lasts();
	assert_non_null(strstr(play.waits, "corosync has not said yet who is in the group of the daemons"));
	tried = play.tried;
	play.joins = CS_OK;
	UNTIL(play.tried > tried);
	settled();
	play.calls.cpg_totem_confchg_fn(1, ring, 0, NULL);
	play.calls.cpg_confchg_fn(1, NULL, &self, 1, NULL, 0, &self, 1);
	assert_string_equal(play.waits, "");
	lasts();
	assert_non_null(strstr(play.waits, "corosync does not deliver what this node sends"));
	pump();
	assert_int_equal(play.views, 1);
	assert_string_equal(play.waits, "");
	play.opens = CS_ERR_TRY_AGAIN;
	own_group_ends(0);
	UNTIL(!play.own_group[0].context);
	lasts();
	assert_non_null(strstr(play.waits, "corosync has not let this node into the group ddraid:01000000-0000-0000-0000-000000000000 again"));
	play.opens = CS_OK;
	UNTIL(!*play.waits);
	leave(t);
}

/* Nodes come: corosync tells the members, then the ring. In between there is no view, since messages of the new ring are not those of the old. */
static void members_wait_for_their_ring(void **state)
{
	struct cpg_address all[] = { { .nodeid = 1, .pid = (uint32_t)getpid() }, { .nodeid = 2, .pid = 101, .reason = CPG_REASON_NODEUP } };
	struct cpg_ring_id ring = { .nodeid = 1, .seq = 12 };
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	members(1, 1, 8);
	assert_int_equal(play.views, 1);
	play.calls.cpg_confchg_fn(1, NULL, all, 2, NULL, 0, all + 1, 1);
	assert_int_equal(play.views, 1);
	play.calls.cpg_totem_confchg_fn(1, ring, 0, NULL);
	pump();
	assert_int_equal(play.views, 2);
	assert_int_equal(play.nodes, 1);		/* it has not said yet in what it takes part */
	assert_false(play.quorate);			/* and may count for the quorum that this view seems to have */
	play.quorum = (struct ddr_quorum){ .ring = { .node = 1, .seq = 12 }, .serial = 1, .quorate = true };
	tell_corosync();
	assert_false(play.quorate);
	says_hello(2, 101);
	assert_true(play.quorate);
	assert_int_equal(play.views, 3);
	assert_int_equal(play.nodes, 2);
	assert_true(play.ring == (12ull << 32 | 1));
	leave(t);
}

/* Finding U9: corosync's ring numbers have 64 bits. Two rings that differ in the upper half alone are two rings, for messages and for quorum. */
static void rings_beyond_32_bits_differ(void **state)
{
	static const uint64_t seqs[] = { 8, 8 + (1ull << 32), 8 + (1ull << 33), 8 + (1ull << 63), 12, 12 + (1ull << 32), UINT64_MAX, UINT32_MAX };
	struct ddr_transport *t = join(&ddr_transport_corosync);
	uint64_t seen[sizeof(seqs) / sizeof(seqs[0])];

	(void)state;
	for (uint32_t i = 0; i < sizeof(seqs) / sizeof(seqs[0]); i++) {
		play.quorum = (struct ddr_quorum){ .ring = { .node = 1, .seq = seqs[i] }, .serial = i + 1 };
		members(2, 1, seqs[i]);
		seen[i] = play.ring;
		assert_true(play.ring == play.quorum_ring);		/* both services give the same number for the same ring */
		for (uint32_t j = 0; j < i; j++)
			assert_true(seen[j] != seen[i]);
	}
	assert_true(seen[0] == (8ull << 32 | 1));
	leave(t);
}

/*
 * Finding U9: the 65th node that joins the group leaves it again. It does not affect the 64 others: their view stays as it was, and
 * the next change is reported to them as usual.
 */
static void the_65th_node_is_turned_away(void **state)
{
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	members(DDR_SM_MAX_NODES, DDR_SM_MAX_NODES, 8);
	assert_int_equal(play.nodes, DDR_SM_MAX_NODES);
	members(DDR_SM_MAX_NODES + 1, 1, 8);		/* on_lost() fails the test */
	assert_int_equal(play.nodes, DDR_SM_MAX_NODES);
	assert_int_equal(play.largest_node, DDR_SM_MAX_NODES);
	members(DDR_SM_MAX_NODES - 1, 0, 8);
	assert_int_equal(play.nodes, DDR_SM_MAX_NODES - 1);
	leave(t);
	t = join(&ddr_transport_corosync);		/* now this node is the one too many */
	play.may_lose = true;
	members(DDR_SM_MAX_NODES + 1, 1, 8);
	assert_true(play.lost);
	assert_int_equal(play.views, 0);
	assert_non_null(strstr(play.why, "64 nodes"));
	leave(t);
}

/* Finding U9: a node's id may be any number but 0, up to 2^32 - 1. */
static void the_largest_node_id(void **state)
{
	struct cpg_address list[] = { { .nodeid = 1, .pid = (uint32_t)getpid() }, { .nodeid = 65, .pid = 7 }, { .nodeid = UINT32_MAX, .pid = 8 } };
	struct cpg_ring_id ring = { .nodeid = 1, .seq = 8 };
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	play.whole = true;
	play.calls.cpg_totem_confchg_fn(1, ring, 0, NULL);
	play.calls.cpg_confchg_fn(1, NULL, list, 3, NULL, 0, list + 1, 2);
	pump();
	says_hello(65, 7);
	says_hello(UINT32_MAX, 8);
	pump();
	assert_int_equal(play.nodes, 3);
	assert_true(play.largest_node == UINT32_MAX);
	says(UINT32_MAX, 8);
	assert_int_equal(play.received, 1);
	leave(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_busy_corosync_gets_all_that_was_taken),
		cmocka_unit_test(a_corosync_that_refuses_gets_all_that_was_taken),
		cmocka_unit_test(a_join_says_that_there_is_no_corosync),
		cmocka_unit_test(a_connection_is_tried_again),
		cmocka_unit_test(messages_to_oneself_wait_for_the_loop),
		cmocka_unit_test(arrays_share_one_connection),
		cmocka_unit_test(who_uses_the_array_is_waited_for),
		cmocka_unit_test(a_presence_that_is_lost_alone_is_made_anew),
		cmocka_unit_test(a_lost_presence_does_not_hold_the_array),
		cmocka_unit_test(who_is_waited_for_is_said),
		cmocka_unit_test(a_hello_that_is_missing_is_said_everywhere),
		cmocka_unit_test(a_corosync_that_is_waited_for_is_said),
		cmocka_unit_test(a_daemon_of_another_release_is_told),
		cmocka_unit_test(a_daemon_that_is_refused_is_said),
		cmocka_unit_test(rings_beyond_32_bits_differ),
		cmocka_unit_test(the_65th_node_is_turned_away),
		cmocka_unit_test(the_largest_node_id),
		cmocka_unit_test(members_wait_for_their_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
