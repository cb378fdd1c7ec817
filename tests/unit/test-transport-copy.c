// SPDX-License-Identifier: GPL-2.0-or-later
/* Two nodes of a cluster have the same machine id: which of them serves arrays, and what both say (daemon/group/link_tell.c). Corosync's library is simulated. */
#include "tests/unit/transport-rig.h"

#define MACHINE	7u

static struct ddr_transport *join_as(uint32_t node)
{
	struct ddr_transport *t;

	begin(&ddr_transport_corosync);
	play.node = node;
	d.ident.id.machine[0] = MACHINE;
	strcpy(d.conf.state_dir, "/some/where");
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
	return t;
}

static void hello_on(uint32_t node, uint8_t machine, uint32_t number)
{
	struct ddr_node_msg m = { .type = DDR_N_HELLO, .sender = node,
				  .hello = { .lowest = DDR_MSG_VERSION, .highest = DDR_MSG_VERSION, .n = number ? 1 : 0, .round = play.round, .machine = { machine } } };
	uint8_t buf[DDR_NODE_MSG_MAX];
	size_t len;

	m.hello.ride[0].number = number;
	memcpy(m.hello.ride[0].uuid, uuid, sizeof(uuid));
	len = ddr_node_msg_encode(&m, buf, sizeof(buf));
	assert_true(len > 0);
	play.calls.cpg_deliver_fn(1, NULL, node, 100 + node, buf, len);
	pump();
}

/* The group has these nodes now; the last one is new, or comes back with its partition. */
static void group_of(uint32_t n, const uint32_t *node, bool met)
{
	struct cpg_ring_id ring = { .nodeid = 1, .seq = 8 + n };
	struct cpg_address list[4];

	for (uint32_t i = 0; i < n; i++)
		list[i] = (struct cpg_address){ .nodeid = node[i], .pid = node[i] == ddr_corosync_node(NULL) ? (uint32_t)getpid() : 100 + node[i],
						.reason = met ? CPG_REASON_NODEUP : CPG_REASON_JOIN };
	play.calls.cpg_confchg_fn(1, NULL, list, n, NULL, 0, list + n - 1, 1);
	if (met || n == 1)
		play.calls.cpg_totem_confchg_fn(1, ring, 0, NULL);
	pump();
}

/* Finding T1, note 24: the first one goes on, and says of both what to do. */
static void a_copy_that_joins_later_does_not_serve(void **state)
{
	struct ddr_transport *t = join_as(3);

	(void)state;
	group_of(1, (uint32_t[]){ 3 }, false);
	assert_int_equal(play.nodes, 1);
	group_of(2, (uint32_t[]){ 3, 2 }, false);
	hello_on(2, MACHINE, 0);
	lasts();
	assert_non_null(strstr(play.waits, "node 2 (node 2) and node 3 (node 3) have the same machine id"));
	assert_non_null(strstr(play.waits, "node 2 starts no array"));
	assert_non_null(strstr(play.waits, "rm /some/where/identity; systemctl restart ddraidd"));
	assert_int_equal(play.nodes, 1);
	assert_true(d.ident.doubled);
	hello_on(2, MACHINE + 1, 102);
	assert_int_equal(play.nodes, 2);
	assert_string_equal(play.waits, "");
	assert_true(d.ident.doubled);	/* for good: who was who is not known any more */
	d.ident.doubled = false;
	leave(t);
}

/* This node is the later one: its array waits, and says for whom. */
static void the_copy_waits(void **state)
{
	struct ddr_transport *t = join_as(1);

	(void)state;
	group_of(2, (uint32_t[]){ 1, 2 }, true);
	hello_on(2, MACHINE, 102);
	lasts();
	assert_int_equal(play.views, 0);
	assert_non_null(strstr(play.waits, "node 1 (node 1) and node 2 (node 2) have the same machine id"));
	assert_non_null(strstr(play.waits, "node 1 starts no array"));
	assert_true(d.ident.doubled);
	d.ident.doubled = false;
	hello_on(2, MACHINE, 0);
	lasts();
	assert_int_equal(play.views, 0);
	assert_non_null(strstr(play.waits, "neither of them starts an array"));
	group_of(1, (uint32_t[]){ 1 }, false);
	assert_int_equal(play.views, 1);
	leave(t);
}

/* Both served, each in its partition. The lower node goes on; this one stops at once, for nobody counts it any more. */
static void of_two_that_serve_the_higher_one_stops(void **state)
{
	struct ddr_transport *t = join_as(3);
	struct ddr_node_msg m;

	(void)state;
	group_of(1, (uint32_t[]){ 3 }, false);
	assert_int_equal(play.nodes, 1);
	play.may_lose = true;
	group_of(2, (uint32_t[]){ 3, 2 }, true);
	assert_false(play.lost);
	play.answer = CS_ERR_TRY_AGAIN;
	hello_on(2, MACHINE, 102);
	assert_true(play.lost);
	assert_non_null(strstr(play.why, "another node has the same machine id"));
	play.answer = CS_OK;
	UNTIL(play.n_own > 0);
	assert_null(ddr_node_msg_decode(play.own[0].msg, play.own[0].len, &m));
	assert_int_equal(m.type, DDR_N_OFF);
	leave(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_copy_that_joins_later_does_not_serve),
		cmocka_unit_test(the_copy_waits),
		cmocka_unit_test(of_two_that_serve_the_higher_one_stops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
