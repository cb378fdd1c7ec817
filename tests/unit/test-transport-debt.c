// SPDX-License-Identifier: GPL-2.0-or-later
/* What every daemon says of debts, its own and those of others (daemon/group/link_debt.c). Corosync's library is simulated. */
#include "tests/unit/transport-rig.h"
#include "daemon/group/link_int.h"
#include "lib/node/verdict.h"

static struct { unsigned int n; char event[16], uuid[40], text[1024]; } sunk;

static void take_notice(void *ctx, const struct ddr_notice *n)
{
	(void)ctx;
	sunk.n++;
	snprintf(sunk.event, sizeof(sunk.event), "%s", n->event);
	snprintf(sunk.uuid, sizeof(sunk.uuid), "%s", n->uuid);
	snprintf(sunk.text, sizeof(sunk.text), "%s", n->text);
}

static struct ddr_node_debt debt(uint8_t kind, uint32_t node, uint32_t since_ms)
{
	struct ddr_node_debt owed = { .kind = kind, .node = node, .since_ms = since_ms, .quiet_ms = since_ms };

	memcpy(owed.uuid, uuid, sizeof(owed.uuid));
	return owed;
}

static void pulse_of(uint32_t node, uint32_t n, const struct ddr_node_debt *list)
{
	struct ddr_node_msg m = { .type = DDR_N_PULSE, .sender = node, .pulse = { .counter = 1, .debts = { .n = n, .total = n } } };
	uint8_t buf[DDR_NODE_MSG_MAX];
	size_t len;

	if (n)
		memcpy(m.pulse.debts.debt, list, n * sizeof(*list));
	len = ddr_node_msg_encode(&m, buf, sizeof(buf));
	assert_true(len > 0);
	play.calls.cpg_deliver_fn(1, NULL, node, 99 + node, buf, len);
}

static struct ddr_transport *three(void)
{
	struct ddr_transport *t = join(&ddr_transport_corosync);

	memset(&sunk, 0, sizeof(sunk));
	d.sink = (struct ddr_sink){ .take = take_notice };
	play.whole = true;
	members(3, 2, 8);
	return t;
}

/* Node 2 waits for node 3. This node does not, but serves the array: it says so at once, once, and says when it is over. */
static void what_another_node_waits_for(void **state)
{
	struct ddr_node_debt of_2 = debt(DDR_DEBT_EX_ACK, 3, 4999), of_3 = debt(DDR_DEBT_EX_ACK, 3, 5000);
	struct ddr_transport *t = three();

	(void)state;
	of_3.why = DDR_WHY_KERNEL;
	pulse_of(2, 1, &of_2);
	assert_int_equal(play.debt_begins, 0);
	of_2.since_ms = 7000;
	pulse_of(3, 1, &of_3);
	pulse_of(2, 1, &of_2);
	assert_int_equal(play.debt_begins, 1);
	assert_non_null(strstr(play.debt_event, "node 3 (node 3) still writes to blocks that another node is to resync"));
	assert_non_null(strstr(play.debt_event, "its kernel has not ended older requests"));
	assert_non_null(strstr(play.debt, "for 7 s now"));
	assert_non_null(strstr(play.debt, "waiting: node 2 (node 2)"));
	play.ms += 2000;
	pulse_of(2, 1, &of_2);
	assert_int_equal(play.debt_begins, 1);
	assert_int_equal(play.debt_ends, 0);
	pulse_of(2, 0, NULL);
	assert_int_equal(play.debt_ends, 0);		/* node 3 itself says that it owes it */
	pulse_of(3, 0, NULL);
	assert_int_equal(play.debt_ends, 1);
	assert_non_null(strstr(play.debt_event, "this has ended: node 3 (node 3) still writes"));
	assert_string_equal(play.debt, "");
	assert_int_equal(sunk.n, 0);
	leave(t);
}

/* What this node's array is owed goes out with the next pulse, and is said here as well. */
static void what_this_node_waits_for(void **state)
{
	struct ddr_transport *t = three();
	struct ddr_node_msg m;

	(void)state;
	play.debts = (struct ddr_node_debts){ .n = 1, .total = 1, .debt = { debt(DDR_DEBT_MEMBER_ACK, 2, 6000) } };
	run(2100);
	assert_int_equal(play.n_own, 1);
	assert_null(ddr_node_msg_decode(play.own[0].msg, play.own[0].len, &m));
	assert_int_equal(m.type, DDR_N_PULSE);
	assert_int_equal(m.pulse.debts.n, 1);
	assert_memory_equal(m.pulse.debts.debt[0].uuid, uuid, sizeof(uuid));
	assert_int_equal(m.pulse.debts.debt[0].kind, DDR_DEBT_MEMBER_ACK);
	assert_int_equal(m.pulse.debts.debt[0].node, 2);
	assert_int_equal(m.pulse.debts.debt[0].since_ms, 6000);
	assert_int_equal(play.debt_begins, 1);
	assert_non_null(strstr(play.debt, "node 2 (node 2) has not acknowledged the last change of the members, for 6 s now"));
	assert_non_null(strstr(play.debt, "waiting: node 1 (node 1)"));
	play.debts.n = 0;
	run(1200);					/* it is looked at again while it lasts */
	assert_int_equal(play.debt_ends, 1);
	leave(t);
}

/* A chain: node 2 waits for node 3, and that one for node 1. */
static void a_chain_is_named(void **state)
{
	struct ddr_node_debt of_2 = debt(DDR_DEBT_MEMBER_DONE, 3, 9000), of_3 = debt(DDR_DEBT_ROOM, 1, 8000);
	struct ddr_transport *t = three();

	(void)state;
	pulse_of(3, 1, &of_3);
	pulse_of(2, 1, &of_2);
	assert_int_equal(play.debt_begins, 2);
	assert_non_null(strstr(play.debt, "node 3 (node 3) has not written the superblocks of a change"));
	assert_non_null(strstr(play.debt, "it waits itself for node 1 (node 1), which has not said how large its disks are"));
	pulse_of(3, 2, (struct ddr_node_debt[]){ of_3, { .kind = DDR_DEBT_MEMBER_DONE, .node = 3, .why = DDR_WHY_RESYNC, .since_ms = 9000 } });
	assert_non_null(strstr(play.debt, "it waits itself for node 1 (node 1), which has not said how large its disks are"));
	leave(t);
}

/* A node that does not take part in the array says it as well, by the array's uuid. What a later release knows has no text, but a debtor. */
static void an_array_elsewhere(void **state)
{
	struct ddr_node_debt of_2[] = { debt(DDR_DEBT_RETURN, 3, 9000), debt(99, 3, 6000) };
	struct ddr_transport *t = three();

	(void)state;
	of_2[0].uuid[0] = of_2[1].uuid[0] = 0xee;
	pulse_of(2, 2, of_2);
	assert_int_equal(play.debt_begins, 0);
	assert_int_equal(sunk.n, 2);
	assert_string_equal(sunk.event, "wait");
	assert_string_equal(sunk.uuid, "ee000000-0000-0000-0000-000000000000");
	assert_non_null(strstr(sunk.text, "node 3 (node 3) owes something that only a later release of ddraid knows"));
	assert_int_equal(d.elsewhere[0].uuid[0], 0xee);
	assert_non_null(strstr(d.elsewhere[0].waits, "node 3 (node 3) is lost"));
	assert_string_equal(d.elsewhere[2].waits, "");
	pulse_of(2, 0, NULL);
	assert_int_equal(sunk.n, 4);
	assert_string_equal(sunk.event, "wait-over");
	assert_string_equal(d.elsewhere[0].waits, "");
	leave(t);
}

/* ---- whoever does not do it is declared dead ----------------------------------------- */

static struct ddr_transport *three_with_quorum(void)
{
	struct ddr_transport *t = three();

	play.quorum = (struct ddr_quorum){ .quorate = true, .ring = { .node = 1, .seq = 8 }, .n = 3, .node = { 1, 2, 3 }, .serial = 1 };
	tell_corosync();
	for (uint32_t i = 0; i < 2; i++) {
		pulse_of(2, 0, NULL);
		pulse_of(3, 0, NULL);
	}
	return t;
}

/* What this node sends within the next two seconds besides a pulse; it comes back. @m: it. */
static enum ddr_node_msg_type sends(struct ddr_node_msg *m)
{
	enum ddr_node_msg_type type = (enum ddr_node_msg_type)0;

	run(2100);
	assert_true(play.n_own >= 1 && play.n_own <= 2);
	assert_null(ddr_node_msg_decode(play.own[0].msg, play.own[0].len, m));
	assert_int_equal(m->type, DDR_N_PULSE);
	if (play.n_own == 2) {
		assert_null(ddr_node_msg_decode(play.own[1].msg, play.own[1].len, m));
		type = m->type;
	}
	pump();
	return type;
}

/* Rule L3: node 3 answers, but does nothing of what node 2 waits for. Its node is lost, and the text has said when. */
static void who_does_not_do_it_is_declared_dead(void **state)
{
	struct ddr_node_debt of_2 = debt(DDR_DEBT_EX_ACK, 3, 240000);
	struct ddr_transport *t = three_with_quorum();
	struct ddr_node_msg m;

	(void)state;
	pulse_of(2, 1, &of_2);
	assert_non_null(strstr(play.debt, "After 250 s without progress it is declared dead, if the cluster has quorum without it"));
	assert_int_equal(sends(&m), 0);
	assert_int_equal(sends(&m), 0);
	pulse_of(3, 0, NULL);
	pulse_of(2, 1, &of_2);
	assert_non_null(strstr(play.debt, "If it makes no progress, it is declared dead in 10 s, and its node fenced"));
	of_2.since_ms = of_2.quiet_ms = 250000;
	pulse_of(2, 1, &of_2);
	play.ms += 4000;
	assert_int_equal(sends(&m), DDR_N_VERDICT);
	assert_int_equal(m.verdict.flags, DDR_VERDICT_OWES);
	assert_int_equal(m.verdict.process.node, 3);
	assert_int_equal(m.verdict.total, 3);
	assert_int_equal(m.verdict.owed.kind, DDR_DEBT_EX_ACK);
	assert_int_equal(m.verdict.owed.ms, 250000);
	assert_memory_equal(m.verdict.owed.uuid, uuid, sizeof(uuid));
	assert_int_equal(play.excluded, 3);
	assert_int_equal(play.excluded_views + 1, play.views);
	assert_int_equal(play.nodes, 2);
	leave(t);
}

/* A disk may take longer in this array, and the limit follows; or there is none. */
static void a_longer_time_limit_of_disks_counts(void **state)
{
	struct ddr_node_debt of_2 = debt(DDR_DEBT_EX_ACK, 3, 280000);
	struct ddr_transport *t = three_with_quorum();
	struct ddr_node_msg m;

	(void)state;
	play.io_timeout_ms = 70000;
	pulse_of(2, 1, &of_2);
	assert_int_equal(sends(&m), 0);
	assert_int_equal(sends(&m), 0);
	pulse_of(3, 0, NULL);
	pulse_of(2, 1, &of_2);
	assert_non_null(strstr(play.debt, "it is declared dead in 10 s"));
	d.conf.owe_ms = 30000;			/* less than a disk may take */
	pulse_of(2, 1, &of_2);
	assert_non_null(strstr(play.debt, "it is declared dead in 0 s"));
	of_2.since_ms = of_2.quiet_ms = 79000;
	pulse_of(2, 1, &of_2);
	assert_non_null(strstr(play.debt, "it is declared dead in 1 s"));
	d.conf.owe_ms = 0;
	of_2.since_ms = of_2.quiet_ms = 900000;
	pulse_of(2, 1, &of_2);
	assert_non_null(strstr(play.debt, "Nobody is declared dead for this, as owe_time is 0"));
	assert_int_equal(sends(&m), 0);
	leave(t);
}

/* What the text says when nobody will be declared dead. */
static void why_nobody_is_declared_dead(void **state)
{
	struct ddr_node_debt of_2[] = { debt(DDR_DEBT_EX_ACK, 3, 260000), debt(DDR_DEBT_EX_ACK, 2, 6000) }, of_3 = debt(DDR_DEBT_EX_ACK, 3, 260000);
	struct ddr_transport *t = three_with_quorum();
	struct ddr_node_msg m, hello = { .type = DDR_N_HELLO, .sender = 3, .hello = { .lowest = DDR_MSG_VERSION, .highest = DDR_MSG_VERSION, .n = 1, .n_out = 1, .out = { { 2, 101 } } } };
	uint8_t buf[DDR_NODE_MSG_MAX];
	size_t len;

	(void)state;
	of_3.why = DDR_WHY_DISK;
	pulse_of(3, 1, &of_3);
	pulse_of(2, 1, of_2);
	assert_non_null(strstr(play.debt, "It is not declared dead while it waits for the disk"));
	of_3 = debt(DDR_DEBT_ROOM, 1, 6000);
	pulse_of(3, 1, &of_3);
	assert_non_null(strstr(play.debt, "It is not declared dead while it waits itself for node 1 (node 1)"));
	pulse_of(3, 0, NULL);
	of_2[1].why = DDR_WHY_KERNEL;
	pulse_of(2, 2, of_2);
	assert_non_null(strstr(play.debt, "Nobody is declared dead for this while those who wait for it wait for their own disks or kernels, too"));
	assert_int_equal(sends(&m), 0);
	hello.hello.round = play.round;
	hello.hello.ride[0].number = 102;
	memcpy(hello.hello.ride[0].uuid, uuid, sizeof(uuid));
	len = ddr_node_msg_encode(&hello, buf, sizeof(buf));
	play.calls.cpg_deliver_fn(1, NULL, 3, 102, buf, len);
	play.debts = (struct ddr_node_debts){ .n = 1, .total = 1, .debt = { debt(DDR_DEBT_MEMBER_ACK, 3, 260000) } };
	for (int i = 0; i < 3; i++) {
		assert_int_equal(sends(&m), 0);
		pulse_of(3, 0, NULL);
	}
	assert_non_null(strstr(play.debt, "It is not declared dead for this, since the cluster would have no quorum without it"));
	leave(t);
}

/* The debtor says nothing any more: that comes first, since the verdict for silence does. It is said whatever owe_time is. */
static void a_debtor_that_is_silent(void **state)
{
	struct ddr_node_debt of_2 = debt(DDR_DEBT_EX_ACK, 3, 6000);
	struct ddr_transport *t = three_with_quorum();
	struct ddr_node_msg m;

	(void)state;
	d.conf.owe_ms = 0;
	pulse_of(3, 0, NULL);
	assert_int_equal(sends(&m), 0);
	pulse_of(2, 1, &of_2);
	assert_non_null(strstr(play.debt, "its daemon has not said why"));
	assert_int_equal(sends(&m), 0);
	pulse_of(2, 1, &of_2);
	assert_non_null(strstr(play.debt, "The reason: nothing was heard of its daemon for about 4 s; it may be stopped, or hang. "
					  "After ten seconds of silence it is declared dead, if the cluster has quorum without it. If it lasts"));
	pulse_of(3, 0, NULL);
	assert_int_equal(sends(&m), 0);
	pulse_of(2, 1, &of_2);
	assert_non_null(strstr(play.debt, "its daemon has not said why. Nobody is declared dead for this, as owe_time is 0"));
	leave(t);
}

/* This daemon is the one. Its log must not say that it was silent. */
static void this_daemon_did_not_do_it(void **state)
{
	struct ddr_node_msg m = { .type = DDR_N_VERDICT, .sender = 2, .verdict = { .process = { 1, (uint32_t)getpid() }, .total = 3, .quorum = 2, .flags = DDR_VERDICT_OWES } };
	struct ddr_node_debt of_2 = debt(DDR_DEBT_EX_ACK, 1, 240000);
	struct ddr_transport *t = three_with_quorum();
	uint8_t buf[DDR_NODE_MSG_MAX];
	struct ddr_node_msg sent;
	size_t len;

	(void)state;
	assert_int_equal(sends(&sent), 0);
	assert_int_equal(sends(&sent), 0);
	pulse_of(2, 1, &of_2);
	m.verdict.ring = d.link->group.ring;
	m.verdict.owed = (struct ddr_node_owed){ .kind = DDR_DEBT_EX_ACK, .ms = 240000 };
	memcpy(m.verdict.owed.uuid, uuid, sizeof(uuid));
	ddr_verdict_voters(&d.link->group, &m.verdict);
	for (uint32_t i = 0; i < m.verdict.n; i++)
		m.verdict.node[i].votes = 1;
	len = ddr_node_msg_encode(&m, buf, sizeof(buf));
	assert_true(len > 0);
	play.may_lose = true;
	play.calls.cpg_deliver_fn(1, NULL, 2, 101, buf, len);
	assert_true(play.lost);
	assert_non_null(strstr(play.why, "this node did not do what the other nodes waited for"));
	leave(t);
}

/* A lost node is an event and a wait of its own where the array is served. */
static void a_lost_node_is_said_once(void **state)
{
	struct ddr_node_debt of_2 = debt(DDR_DEBT_RETURN, 9, 9000);
	struct ddr_transport *t = three();

	(void)state;
	pulse_of(2, 1, &of_2);
	assert_int_equal(play.debt_begins, 0);
	assert_string_equal(play.debt, "");
	assert_int_equal(sunk.n, 0);
	pulse_of(2, 0, NULL);
	assert_int_equal(play.debt_ends, 0);
	leave(t);
}

/* Without the group nobody knows what goes on in arrays elsewhere. */
static void what_was_said_ends_with_the_group(void **state)
{
	struct ddr_node_debt of_2 = debt(DDR_DEBT_ROOM, 3, 9000);
	struct ddr_transport *t = three();

	(void)state;
	of_2.uuid[0] = 0xee;
	pulse_of(2, 1, &of_2);
	assert_true(d.elsewhere[0].waits[0] != '\0');
	play.may_lose = true;
	play.down = true;
	tell_corosync();
	assert_true(play.lost);
	assert_string_equal(d.elsewhere[0].waits, "");
	leave(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_another_node_waits_for), cmocka_unit_test(what_this_node_waits_for), cmocka_unit_test(a_chain_is_named),
		cmocka_unit_test(who_does_not_do_it_is_declared_dead), cmocka_unit_test(a_longer_time_limit_of_disks_counts),
		cmocka_unit_test(why_nobody_is_declared_dead), cmocka_unit_test(a_debtor_that_is_silent), cmocka_unit_test(this_daemon_did_not_do_it),
		cmocka_unit_test(an_array_elsewhere), cmocka_unit_test(a_lost_node_is_said_once), cmocka_unit_test(what_was_said_ends_with_the_group),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
