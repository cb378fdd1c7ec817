// SPDX-License-Identifier: GPL-2.0-or-later
/* Pulses of this daemon, and what follows when another one, or this one, is silent (daemon/group/link_pulse.c). Corosync's library is simulated. */
#include "tests/unit/transport-rig.h"

static void tells(uint32_t node, const struct ddr_node_msg *m)
{
	uint8_t buf[DDR_NODE_MSG_MAX];
	size_t len = ddr_node_msg_encode(m, buf, sizeof(buf));

	assert_true(len > 0);
	play.calls.cpg_deliver_fn(1, NULL, node, node == 1 ? (uint32_t)getpid() : 99 + node, buf, len);
}

static void quorum_of(uint32_t n, uint64_t seq)
{
	play.quorum = (struct ddr_quorum){ .quorate = true, .ring = { .node = 1, .seq = seq }, .n = n, .serial = play.quorum.serial + 1 };
	for (uint32_t i = 0; i < n; i++)
		play.quorum.node[i] = i + 1;
	tell_corosync();
}

/* What is sent within the next two seconds besides a pulse. @m: it. */
static enum ddr_node_msg_type sent_with_the_pulse(struct ddr_node_msg *m)
{
	run(2100);
	assert_true(play.n_own >= 1 && play.n_own <= 2);
	assert_null(ddr_node_msg_decode(play.own[0].msg, play.own[0].len, m));
	assert_int_equal(m->type, DDR_N_PULSE);
	if (play.n_own < 2)
		return (enum ddr_node_msg_type)0;
	assert_null(ddr_node_msg_decode(play.own[1].msg, play.own[1].len, m));
	return m->type;
}

/*
 * Findings T2, T3: a daemon that is stopped, or was killed and waits in a driver, stays in the group, and arrays waited for it for ever. The votes are those of the quorum service, so
 * nobody is declared dead while it does not answer. The node that was excluded does not count in the quorum that arrays are told: it is fenced at
 * once, and not after away_time.
 */
static void a_silent_daemon_is_excluded(void **state)
{
	struct ddr_node_msg m, pulse = { .type = DDR_N_PULSE, .sender = 1, .pulse = { .counter = 1 } };
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	play.whole = true;
	members(3, 2, 8);
	quorum_of(3, 8);
	assert_int_equal(play.nodes, 3);
	assert_int_equal(play.quorum_nodes, 3);
	for (pulse.pulse.counter = 1; pulse.pulse.counter <= 5; pulse.pulse.counter++)
		for (uint32_t node = 1; node <= 3; node += 2) {
			pulse.sender = node;
			tells(node, &pulse);
		}
	play.no_votes = true;
	assert_int_equal(sent_with_the_pulse(&m), 0);
	run(2100);					/* nothing waits in silence */
	assert_non_null(strstr(play.waits, "process 101 on node 2 (node 2), has sent nothing for ten seconds"));
	pump();
	play.no_votes = false;
	assert_int_equal(sent_with_the_pulse(&m), 0);	/* now they are asked, for the next time */
	pump();
	play.ms = 20000;
	assert_int_equal(sent_with_the_pulse(&m), DDR_N_VERDICT);
	assert_int_equal(m.verdict.process.node, 2);
	assert_int_equal(m.verdict.total, 3);
	pump();
	assert_int_equal(play.nodes, 2);
	assert_int_equal(play.largest_node, 3);
	assert_int_equal(play.quorum_nodes, 2);
	assert_int_equal(play.excluded, 2);
	assert_int_equal(play.excluded_views + 1, play.views);	/* before the view without it */
	assert_string_equal(play.waits, "");
	says(2, 101);
	assert_int_equal(play.received, 0);
	leave(t);
}

/* Rule L7: a daemon that takes part in nothing, on a node without a slot, is left out. Votes are not needed, and nobody is fenced. */
static void a_silent_daemon_without_a_slot_is_left_out(void **state)
{
	struct ddr_node_msg m, pulse = { .type = DDR_N_PULSE, .sender = 1 }, off = { .type = DDR_N_OFF, .sender = 2, .ride = { .number = 101 } };
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	play.whole = true;
	members(3, 2, 8);
	quorum_of(3, 8);
	memcpy(off.ride.uuid, uuid, sizeof(uuid));
	tells(2, &off);
	play.no_votes = true;
	for (pulse.pulse.counter = 1; pulse.pulse.counter <= 5; pulse.pulse.counter++)
		for (uint32_t node = 1; node <= 3; node += 2) {
			pulse.sender = node;
			tells(node, &pulse);
		}
	assert_int_equal(sent_with_the_pulse(&m), 0);	/* the array misses the node */
	pump();
	play.no_slot = true;
	play.ms = 20000;
	assert_int_equal(sent_with_the_pulse(&m), DDR_N_VERDICT);
	assert_int_equal(m.verdict.process.node, 2);
	assert_int_equal(m.verdict.flags, DDR_VERDICT_NO_SLOT);
	pump();
	assert_int_equal(play.quorum_nodes, 3);
	assert_int_equal(play.excluded, 0);
	assert_string_equal(play.waits, "");
	leave(t);
}

/* It has ended: the machine counts again, and a new daemon there gets away_time. */
static void the_machine_counts_when_the_silent_daemon_has_ended(void **state)
{
	struct ddr_node_msg m = { .type = DDR_N_HELLO, .sender = 3, .hello = { .lowest = DDR_MSG_VERSION, .highest = DDR_MSG_VERSION, .n_out = 1, .out = { { 2, 101 } } } };
	struct cpg_address list[] = { { .nodeid = 1, .pid = (uint32_t)getpid() }, { .nodeid = 3, .pid = 102 } };
	struct cpg_address gone = { .nodeid = 2, .pid = 101, .reason = CPG_REASON_PROCDOWN };
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	members(3, 2, 8);
	quorum_of(3, 8);
	tells(3, &m);
	assert_int_equal(play.quorum_nodes, 2);
	play.calls.cpg_confchg_fn(1, NULL, list, 2, &gone, 1, NULL, 0);
	assert_int_equal(play.quorum_nodes, 3);
	leave(t);
}

/* This daemon was the silent one: it stops serving its arrays, leaves, and joins anew when they do. */
static void who_was_excluded_leaves(void **state)
{
	struct ddr_node_msg m = { .type = DDR_N_HELLO, .sender = 2, .hello = { .lowest = DDR_MSG_VERSION, .highest = DDR_MSG_VERSION, .n_out = 1, .out = { { 1, (uint32_t)getpid() } } } };
	struct ddr_transport *t = join(&ddr_transport_corosync), *again;

	(void)state;
	members(2, 1, 8);
	play.may_lose = true;
	tells(2, &m);
	assert_true(play.lost);
	assert_non_null(strstr(play.why, "declared it dead"));
	assert_int_equal(play.open, 0);
	assert_true(mcast(t, 1));			/* as to a ring that is no more */
	assert_int_equal(play.sent, 0);
	t->ops->leave(t);
	assert_int_equal(ddr_transport_corosync.join(&again, &d, uuid, &events, NULL), 0);
	settled();
	assert_int_equal(play.open, 1);
	assert_int_equal(play.tried, 2);
	leave(again);
}

/*
 * Rule L8: this daemon stood still. It serves its arrays again when a pulse that it has sent since then is delivered in a quorate view; the one that was on its
 * way proves nothing.
 */
static void who_stood_still_waits_for_its_own_pulse(void **state)
{
	struct ddr_transport *t = join(&ddr_transport_corosync);
	struct ddr_node_msg m;

	(void)state;
	play.whole = true;
	members(2, 1, 8);
	quorum_of(2, 8);
	assert_int_equal(sent_with_the_pulse(&m), 0);
	play.still_ms += 7000;
	assert_true(ddr_still_held(&d.still));
	pump();						/* it was sent before */
	assert_true(ddr_still_held(&d.still));
	quorum_of(2, 9);				/* of a ring that the group has not heard of */
	assert_int_equal(sent_with_the_pulse(&m), 0);
	pump();
	assert_true(ddr_still_held(&d.still));
	lasts();
	assert_non_null(strstr(play.waits, "ddraidd did not run for 7 s"));
	pump();
	quorum_of(2, 8);
	run(2100);					/* what comes back next may have been sent already */
	pump();
	run(2100);
	pump();
	assert_false(ddr_still_held(&d.still));
	run(1200);
	assert_string_equal(play.waits, "");
	leave(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_silent_daemon_is_excluded),
		cmocka_unit_test(a_silent_daemon_without_a_slot_is_left_out),
		cmocka_unit_test(the_machine_counts_when_the_silent_daemon_has_ended),
		cmocka_unit_test(who_was_excluded_leaves),
		cmocka_unit_test(who_stood_still_waits_for_its_own_pulse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
