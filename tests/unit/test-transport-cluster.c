// SPDX-License-Identifier: GPL-2.0-or-later
/* The id of the cluster: when this daemon stores one, and what it says of it (daemon/group/link_store.c). Corosync's library is simulated. */
#include "tests/unit/transport-rig.h"

static struct ddr_transport *join_stored(void)
{
	struct ddr_transport *t;

	begin(&ddr_transport_corosync);
	d.ident.id.machine[0] = 1;
	d.ident.stored = true;
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
	return t;
}

static void quorum_is(bool quorate, uint64_t seq)
{
	play.quorum = (struct ddr_quorum){ .quorate = quorate, .ring = { .node = 1, .seq = seq }, .n = 2, .node = { 1, 2 }, .serial = play.quorum.serial + 1 };
	tell_corosync();
}

/* Node 2 has stored @id. @promised, @ballot: 0, if it is agreed or none. */
static void hello_of_id(const uint8_t id[16], uint64_t promised, uint64_t ballot)
{
	struct ddr_node_msg m = { .type = DDR_N_HELLO, .sender = 2,
				  .hello = { .lowest = DDR_MSG_VERSION, .highest = DDR_MSG_VERSION, .n = 1, .round = play.round, .machine = { 2 },
					     .proposed = ballot != 0, .promised = promised, .ballot = ballot } };
	uint8_t buf[DDR_NODE_MSG_MAX];
	size_t len;

	memcpy(m.hello.cluster, id, sizeof(m.hello.cluster));
	m.hello.ride[0].number = 101;
	memcpy(m.hello.ride[0].uuid, uuid, sizeof(uuid));
	len = ddr_node_msg_encode(&m, buf, sizeof(buf));
	assert_true(len > 0);
	play.calls.cpg_deliver_fn(1, NULL, 2, 101, buf, len);
}

static void hello_with(uint8_t cluster, uint64_t promised)
{
	uint8_t id[16] = { cluster };

	hello_of_id(id, promised, 0);
}

static void stored(void)
{
	d.ident.stored = true;
	d.ident.changed(d.ident.ctx);
}

/* What this daemon says of the id next. */
static struct ddr_node_hello said(void)
{
	struct ddr_node_msg m;

	assert_int_equal(play.n_own, 1);
	assert_null(ddr_node_msg_decode(play.own[0].msg, play.own[0].len, &m));
	assert_int_equal(m.type, DDR_N_HELLO);
	pump();
	return m.hello;
}

static bool is_made(const uint8_t id[16])
{
	static const uint8_t none[16];

	return memcmp(id, none, 16) != 0;
}

/* An id is made with quorum only, and with the votes of enough nodes; it is said when it is stored, and used when all have stored it. */
static void an_id_is_made_with_quorum(void **state)
{
	struct ddr_transport *t = join_stored();
	struct ddr_node_hello h;
	uint8_t id[16];

	(void)state;
	play.whole = true;
	members(2, 1, 8);
	hello_with(0, 0);
	pump();
	quorum_is(true, 7);			/* of another ring */
	quorum_is(false, 8);
	play.no_votes = true;
	quorum_is(true, 8);
	run(2100);
	assert_int_equal(play.stores, 0);	/* it is not known who has votes */
	play.no_votes = false;
	run(4200);				/* the pulse asks, and the next one looks */
	assert_int_equal(play.stores, 1);
	assert_int_equal(d.ident.id.cluster.promised, 1);
	quorum_is(true, 8);
	hello_with(0, 0);
	assert_int_equal(play.stores, 1);
	pump();
	ddr_link_flush(d.link);
	assert_int_equal(play.n_own, 0);	/* it is not stored yet */
	stored();
	assert_int_equal(said().promised, 1);
	assert_int_equal(play.stores, 1);	/* the other one has not promised */
	hello_with(0, 1);
	assert_int_equal(play.stores, 2);
	memcpy(id, d.ident.id.cluster.id, 16);
	assert_true(is_made(id));
	assert_false(d.ident.id.cluster.agreed);
	stored();
	h = said();
	assert_memory_equal(h.cluster, id, 16);
	assert_true(h.proposed && h.ballot == 1);
	assert_int_equal(play.stores, 2);
	hello_of_id(id, 1, 1);
	assert_int_equal(play.stores, 3);
	assert_true(d.ident.id.cluster.agreed);
	assert_memory_equal(d.ident.id.cluster.id, id, 16);
	stored();
	assert_false(said().proposed);
	assert_int_equal(play.stores, 3);
	leave(t);
}

/* A node without an id takes the cluster's; one that comes from another cluster does so, too, and knows both from then on. */
static void who_joins_takes_the_id(void **state)
{
	(void)state;
	for (unsigned int own = 0; own <= 9; own += 9) {
		struct ddr_transport *t;

		begin(&ddr_transport_corosync);
		play.node = 3;
		d.ident.id.machine[0] = 1;
		d.ident.id.cluster = (struct ddr_cluster_ids){ .id = { (uint8_t)own }, .agreed = own != 0 };
		d.ident.stored = true;
		assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
		play.calls.cpg_totem_confchg_fn(1, (struct cpg_ring_id){ .nodeid = 1, .seq = 8 }, 0, NULL);
		play.calls.cpg_confchg_fn(1, NULL, (struct cpg_address[]){ { .nodeid = 2, .pid = 101 }, { .nodeid = 3, .pid = (uint32_t)getpid() } }, 2, NULL, 0,
					  (struct cpg_address[]){ { .nodeid = 3, .pid = (uint32_t)getpid(), .reason = CPG_REASON_JOIN } }, 1);
		pump();
		hello_with(5, 0);
		pump();
		quorum_is(true, 8);
		assert_int_equal(play.stores, 1);
		assert_int_equal(d.ident.id.cluster.id[0], 5);
		assert_int_equal(d.ident.id.cluster.other[0], own);
		assert_true(d.ident.id.cluster.agreed);
		stored();
		assert_int_equal(said().cluster[0], 5);
		assert_int_equal(play.stores, 1);
		leave(t);
	}
}

/* With a file that cannot be written nothing is said that would be forgotten. */
static void without_a_file_there_is_no_id(void **state)
{
	struct ddr_transport *t = join_stored();

	(void)state;
	d.ident.stored = false;
	members(2, 1, 8);
	hello_with(5, 0);
	pump();
	quorum_is(true, 8);
	assert_int_equal(play.stores, 0);
	assert_int_equal(play.n_own, 0);
	leave(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_id_is_made_with_quorum),
		cmocka_unit_test(who_joins_takes_the_id),
		cmocka_unit_test(without_a_file_there_is_no_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
