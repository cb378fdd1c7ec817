// SPDX-License-Identifier: GPL-2.0-or-later
/* Verdicts on silent processes (lib/node/verdict.c), case by case. test-verdict-worlds.c has what happens by chance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/node/verdict.h"

#define SELF	3u
#define RING	7u

static struct ddr_group g;

static enum ddr_group_answer deliver(uint32_t node, const struct ddr_node_msg *m)
{
	uint8_t buf[DDR_NODE_MSG_MAX];
	size_t len = ddr_node_msg_encode(m, buf, sizeof(buf));
	unsigned int array;
	const char *why;

	assert_true(len > 0);
	return ddr_group_deliver(&g, (struct ddr_group_id){ node, 100 + node }, buf, len, &array, &why);
}

static void says_hello(uint32_t node, uint32_t out)
{
	struct ddr_node_msg m = { .type = DDR_N_HELLO, .sender = node, .hello = { .lowest = 1, .highest = 1, .n = 1, .n_out = out != 0 } };

	m.hello.round = g.use.round;
	m.hello.ride[0] = (struct ddr_ride){ .uuid = { 1 }, .number = node };
	m.hello.out[0] = (struct ddr_group_id){ out, 100 + out };
	assert_int_equal(deliver(node, &m), DDR_GROUP_TAKEN);
}

static void pulse_of(uint32_t node, uint64_t counter)
{
	struct ddr_node_msg m = { .type = DDR_N_PULSE, .sender = node, .pulse = { .counter = counter } };

	assert_int_equal(deliver(node, &m), DDR_GROUP_TAKEN);
}

static struct ddr_group_process *process_of(uint32_t node)
{
	for (unsigned int i = 0; i < g.n; i++)
		if (g.process[i].id.node == node)
			return &g.process[i];
	fail_msg("node %u is not in the group", node);
	return NULL;
}

/* Nodes 1 to @n, each with one process; all but @but have said hello. This one is node 3. */
static void begin(uint32_t n, uint32_t but)
{
	struct ddr_group_id now[8];

	for (uint32_t i = 0; i < n; i++)
		now[i] = (struct ddr_group_id){ i + 1, 101 + i };
	ddr_group_init(&g, SELF, 100 + SELF, 1, 1);
	ddr_group_ring(&g, RING);
	assert_true(ddr_group_members(&g, now, n, NULL, 0, false, false));
	for (uint32_t i = 1; i <= n; i++)
		if (i != but)
			says_hello(i, 0);
	g.hello_due = false;
}

/* What this node has to send next comes back to it; 0: it has nothing to send. */
static enum ddr_node_msg_type send_one(void)
{
	uint8_t buf[DDR_NODE_MSG_MAX];
	size_t len = ddr_group_next(&g, buf, sizeof(buf));
	struct ddr_node_msg m;
	unsigned int array;
	const char *why;

	if (!len)
		return (enum ddr_node_msg_type)0;
	ddr_group_sent(&g);
	assert_null(ddr_node_msg_decode(buf, len, &m));
	ddr_group_deliver(&g, g.self, buf, len, &array, &why);
	return m.type;
}

static void own_pulses(unsigned int n)
{
	while (n--) {
		ddr_group_pulse(&g);
		assert_int_equal(send_one(), DDR_N_PULSE);
	}
}

/* A verdict of node @by on node @on, as a cluster of @nodes nodes with a vote each has it. */
static struct ddr_node_msg verdict_on(uint32_t by, uint32_t on, uint32_t nodes)
{
	struct ddr_node_msg m = {
		.type = DDR_N_VERDICT, .sender = by,
		.verdict = { .ring = RING, .name = process_of(on)->silence.name, .process = { on, 100 + on }, .total = nodes, .quorum = nodes / 2 + 1 },
	};

	ddr_verdict_voters(&g, &m.verdict);
	for (uint32_t i = 0; i < m.verdict.n; i++)
		m.verdict.node[i].votes = 1;
	return m;
}

static bool is_out(uint32_t node)
{
	return process_of(node)->silence.out;
}

static void the_third_node_waits_for_two(void **state)
{
	(void)state;
	begin(5, 0);
	own_pulses(4);
	assert_null(ddr_verdict_due(&g, 1000));
	pulse_of(1, 2);
	pulse_of(2, 2);
	pulse_of(5, 1);
	own_pulses(1);
	assert_null(ddr_verdict_due(&g, 1000));			/* nodes 1 and 2 are asked first */
	assert_null(ddr_verdict_due(&g, 1000 + 2 * DDR_TURN_MS - 1));
	assert_ptr_equal(ddr_verdict_due(&g, 1000 + 2 * DDR_TURN_MS), process_of(4));
	assert_null(ddr_verdict_due(&g, 1000 + 2 * DDR_TURN_MS));	/* not twice at once */
	pulse_of(4, 2);
	assert_null(ddr_verdict_due(&g, 100000));
}

/* A pulse that has not come back is the only one on its way: what waited does not come back in a row. */
static void one_pulse_is_on_its_way(void **state)
{
	uint8_t buf[DDR_NODE_MSG_MAX];

	(void)state;
	begin(3, 0);
	ddr_group_pulse(&g);
	assert_true(ddr_group_next(&g, buf, sizeof(buf)) > 0);
	ddr_group_sent(&g);
	ddr_group_pulse(&g);
	assert_int_equal(ddr_group_next(&g, buf, sizeof(buf)), 0);
	pulse_of(SELF, 1);
	ddr_group_pulse(&g);
	assert_true(ddr_group_next(&g, buf, sizeof(buf)) > 0);
}

static void an_excluded_process_is_not_heard(void **state)
{
	struct ddr_node_msg m, ride = { .type = DDR_N_RIDE, .sender = 2, .ride = { .uuid = { 2 }, .number = 9 } };

	(void)state;
	begin(3, 0);
	g.changed = false;
	m = verdict_on(1, 2, 3);
	assert_int_equal(deliver(1, &m), DDR_GROUP_TAKEN);
	assert_true(is_out(2));
	assert_true(g.changed);
	assert_int_equal(process_of(2)->n, 0);
	assert_true(ddr_verdict_node_out(&g, 2));
	assert_false(ddr_verdict_node_out(&g, 1));
	says_hello(2, 0);
	assert_int_equal(deliver(2, &ride), DDR_GROUP_TAKEN);
	assert_int_equal(process_of(2)->n, 0);
	own_pulses(6);
	pulse_of(1, 1);
	assert_null(ddr_verdict_due(&g, 1000));	/* once is enough */
	m = verdict_on(1, SELF, 3);
	m.verdict.flags = DDR_VERDICT_TWO_NODE;
	assert_int_equal(deliver(1, &m), DDR_GROUP_EXCLUDED);
}

static void what_makes_a_verdict_void(void **state)
{
	struct ddr_node_msg m, old;

	(void)state;
	begin(3, 0);
	m = verdict_on(1, 2, 3);
	pulse_of(2, 1);
	deliver(1, &m);				/* it was heard since */
	assert_false(is_out(2));
	m = verdict_on(1, 2, 3);
	m.verdict.ring++;
	deliver(1, &m);
	assert_false(is_out(2));
	m = verdict_on(1, 2, 3);
	m.verdict.n--;
	m.verdict.node[1] = m.verdict.node[2];	/* its votes are not known */
	deliver(1, &m);
	assert_false(is_out(2));
	m = verdict_on(2, 2, 3);
	deliver(2, &m);				/* on itself */
	assert_false(is_out(2));
	m = verdict_on(1, 2, 3);
	m.verdict.process.pid++;
	deliver(1, &m);				/* on nobody */
	old = verdict_on(1, 2, 3);
	ddr_group_members(&g, (struct ddr_group_id[]){ { 1, 101 }, { 2, 102 }, { 3, 103 }, { 4, 104 } }, 4, NULL, 0, false, false);
	m = verdict_on(1, 2, 5);
	m.verdict.quorum = 1;
	deliver(1, &m);				/* its sender has not said hello since */
	assert_false(is_out(2));
	says_hello(1, 0);
	old.verdict = (struct ddr_node_verdict){ .name = old.verdict.name, .ring = RING, .process = { 2, 102 }, .total = 5, .quorum = 1, .n = m.verdict.n };
	memcpy(old.verdict.node, m.verdict.node, sizeof(m.verdict.node));
	deliver(1, &old);			/* it was sent before another process joined */
	assert_false(is_out(2));
	m.verdict.quorum = 3;
	deliver(1, &m);				/* 3 and 4 have not said hello: two of five votes are left */
	assert_false(is_out(2));
	m.verdict.quorum = 2;
	deliver(1, &m);
	assert_true(is_out(2));
}

static void votes_decide(void **state)
{
	struct ddr_node_msg m;

	(void)state;
	begin(3, 0);
	m = verdict_on(1, 2, 3);
	m.verdict.node[1].votes = 2;
	deliver(1, &m);				/* one of three votes is left */
	assert_false(is_out(2));
	m.verdict.total = 4;
	deliver(1, &m);
	assert_true(is_out(2));
	m = verdict_on(1, SELF, 4);
	assert_int_equal(deliver(1, &m), DDR_GROUP_TAKEN);	/* and without this one there would be two of four */
	begin(5, 2);
	m = verdict_on(1, 4, 5);
	m.verdict.quorum = 4;
	deliver(1, &m);				/* node 2 has not said hello: it does not count either */
	assert_false(is_out(4));
	m.verdict.quorum = 3;
	deliver(1, &m);
	assert_true(is_out(4));
}

static void with_two_nodes_one_suffices(void **state)
{
	struct ddr_node_msg m;

	(void)state;
	begin(3, 0);
	ddr_group_members(&g, (struct ddr_group_id[]){ { 1, 101 }, { 3, 103 } }, 2, (struct ddr_group_id[]){ { 2, 102 } }, 1, false, false);
	m = verdict_on(SELF, 1, 2);
	deliver(SELF, &m);
	assert_false(is_out(1));
	m.verdict.flags = DDR_VERDICT_TWO_NODE;
	deliver(SELF, &m);
	assert_true(is_out(1));
}

/* It has joined and been stopped in that moment. The others do not wait for it: it is excluded like one that fell silent later. Finding T11. */
static void who_never_says_hello_is_excluded(void **state)
{
	struct ddr_node_msg m;

	(void)state;
	begin(3, 2);
	own_pulses(5);
	pulse_of(1, 1);
	assert_null(ddr_verdict_due(&g, 1000));
	assert_ptr_equal(ddr_verdict_due(&g, 1000 + DDR_TURN_MS), process_of(2));
	assert_ptr_equal(ddr_group_awaits(&g), process_of(2));
	m = verdict_on(1, 2, 3);
	assert_int_equal(deliver(1, &m), DDR_GROUP_TAKEN);
	assert_null(ddr_group_awaits(&g));
	assert_false(g.meets);
}

/* It joins the group in which node 2 was excluded before, and does not wait for its hello. */
static void who_joins_learns_of_those_that_are_out(void **state)
{
	(void)state;
	begin(3, 2);
	assert_ptr_equal(ddr_group_awaits(&g), process_of(2));
	says_hello(1, 2);
	assert_true(is_out(2));
	assert_null(ddr_group_awaits(&g));
	assert_false(g.meets);
}

/* And says it to the next. */
static void hello_lists_those_that_are_out(void **state)
{
	struct ddr_node_msg m;
	uint8_t buf[DDR_NODE_MSG_MAX];
	size_t len;

	(void)state;
	begin(3, 0);
	m = verdict_on(1, 2, 3);
	deliver(1, &m);
	ddr_group_members(&g, (struct ddr_group_id[]){ { 1, 101 }, { 2, 102 }, { 3, 103 }, { 4, 104 } }, 4, NULL, 0, false, false);
	len = ddr_group_next(&g, buf, sizeof(buf));
	assert_null(ddr_node_msg_decode(buf, len, &m));
	assert_int_equal(m.type, DDR_N_HELLO);
	assert_int_equal(m.hello.n_out, 1);
	assert_int_equal(m.hello.out[0].node, 2);
	assert_int_equal(m.hello.out[0].pid, 102);
}

/* The nodes that array number @array is told of. */
static uint32_t told_of(int array)
{
	uint32_t node = ddr_group_excluded(&g, (unsigned int)array);

	assert_int_equal(node ? ddr_group_excluded(&g, (unsigned int)array) : 0, 0);
	return node;
}

/* Interleavings 28, 30: arrays learn whose daemon was excluded, also if there is another one by the time they have a view; and each of them once. */
static void arrays_learn_of_it(void **state)
{
	struct ddr_group_view v;
	struct ddr_node_msg m;
	int one, two;

	(void)state;
	begin(3, 0);
	one = ddr_group_ride(&g, (uint8_t[16]){ 1 });
	assert_int_equal(told_of(one), 0);
	m = verdict_on(1, 2, 3);
	deliver(1, &m);
	assert_int_equal(told_of(one), 2);
	two = ddr_group_ride(&g, (uint8_t[16]){ 2 });	/* it begins afterwards, while the process is still there */
	assert_int_equal(told_of(two), 0);
	ddr_group_begin(&g, (unsigned int)two);
	assert_int_equal(send_one(), DDR_N_RIDE);
	assert_int_equal(ddr_group_view(&g, (unsigned int)two, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(told_of(two), 2);
	assert_int_equal(told_of(one), 0);
}

/*
 * Rule L7: a process that takes part in nothing, as no other one of its node does, is left out without votes, if the sender's arrays have no slot of
 * the node. The node counts, and no array is told of it.
 */
static void without_a_slot_no_votes_are_needed(void **state)
{
	struct ddr_node_msg m, off = { .type = DDR_N_OFF, .sender = 2, .ride = { .uuid = { 1 }, .number = 2 } };

	(void)state;
	begin(3, 0);
	assert_int_equal(ddr_group_ride(&g, (uint8_t[16]){ 1 }), 0);
	m = verdict_on(1, 2, 3);
	m.verdict.quorum = 3;
	m.verdict.flags = DDR_VERDICT_NO_SLOT;
	deliver(1, &m);				/* it takes part, in an array that the sender may not know */
	assert_false(is_out(2));
	deliver(2, &off);
	m = verdict_on(1, 2, 3);
	m.verdict.quorum = 3;
	deliver(1, &m);				/* an array has a slot of it, from an earlier process */
	assert_false(is_out(2));
	m.verdict.flags = DDR_VERDICT_NO_SLOT;
	deliver(1, &m);
	assert_true(is_out(2));
	assert_false(ddr_verdict_node_out(&g, 2));
	assert_int_equal(told_of(0), 0);
	m = verdict_on(1, SELF, 3);
	deliver(1, &m);				/* but its votes do not count any more */
	assert_false(is_out(SELF));
}

/*
 * What a process takes part in is known of those who have said hello since a process joined last: who has joined knows no more, and all must judge alike. So a
 * process that has not spoken since is only left out, also by those who know what it takes part in, and by itself: else it would go on beside the others.
 */
static void before_its_hello_nobody_takes_part(void **state)
{
	struct ddr_group_id all[] = { { 1, 101 }, { 2, 102 }, { 3, 103 }, { 4, 104 } };
	struct ddr_node_msg m;

	(void)state;
	begin(3, 0);
	ddr_group_members(&g, all, 4, NULL, 0, false, false);
	says_hello(1, 0);
	says_hello(SELF, 0);
	says_hello(4, 0);
	assert_int_equal(process_of(2)->n, 1);
	m = verdict_on(4, 2, 4);
	m.verdict.quorum = 4;			/* there are not so many votes without it */
	m.verdict.flags = DDR_VERDICT_NO_SLOT;
	deliver(4, &m);
	assert_true(is_out(2));
	begin(3, 0);
	ddr_group_members(&g, all, 4, NULL, 0, false, false);
	says_hello(1, 0);
	says_hello(2, 0);
	says_hello(4, 0);
	m = verdict_on(4, SELF, 4);
	m.verdict.quorum = 4;
	m.verdict.flags = DDR_VERDICT_NO_SLOT;
	assert_int_equal(deliver(4, &m), DDR_GROUP_EXCLUDED);
}

/* With two_node one node suffices, so both may accuse each other: the verdict that is delivered first counts. */
static void of_two_verdicts_the_first_counts(void **state)
{
	struct ddr_node_msg first, second;

	(void)state;
	begin(3, 0);
	ddr_group_members(&g, (struct ddr_group_id[]){ { 1, 101 }, { 3, 103 } }, 2, (struct ddr_group_id[]){ { 2, 102 } }, 1, false, false);
	first = verdict_on(SELF, 1, 2);
	second = verdict_on(1, SELF, 2);
	first.verdict.flags = second.verdict.flags = DDR_VERDICT_TWO_NODE;
	deliver(SELF, &first);
	assert_int_equal(deliver(1, &second), DDR_GROUP_TAKEN);
	assert_true(is_out(1));
	assert_false(is_out(SELF));
}

/* A process that never says hello: another one of its node speaks for the node, whose votes stay. */
static void a_stranger_costs_no_votes(void **state)
{
	struct ddr_node_msg m;

	(void)state;
	begin(3, 0);
	ddr_group_members(&g, (struct ddr_group_id[]){ { 1, 101 }, { 2, 102 }, { 3, 103 }, { 2, 200 } }, 4, NULL, 0, false, false);
	for (uint32_t i = 1; i <= 3; i++)
		says_hello(i, 0);
	m = verdict_on(1, 2, 3);
	m.verdict.process.pid = 200;
	m.verdict.name = g.process[3].silence.name;
	m.verdict.quorum = 4;			/* nor are any needed (rule L7) */
	assert_int_equal(ddr_group_ride(&g, (uint8_t[16]){ 1 }), 0);
	deliver(1, &m);
	assert_true(g.process[3].silence.out);
	assert_false(ddr_verdict_node_out(&g, 2));
	assert_int_equal(told_of(0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_third_node_waits_for_two),
		cmocka_unit_test(one_pulse_is_on_its_way),
		cmocka_unit_test(an_excluded_process_is_not_heard),
		cmocka_unit_test(what_makes_a_verdict_void),
		cmocka_unit_test(votes_decide),
		cmocka_unit_test(with_two_nodes_one_suffices),
		cmocka_unit_test(who_joins_learns_of_those_that_are_out),
		cmocka_unit_test(who_never_says_hello_is_excluded),
		cmocka_unit_test(hello_lists_those_that_are_out),
		cmocka_unit_test(arrays_learn_of_it),
		cmocka_unit_test(without_a_slot_no_votes_are_needed),
		cmocka_unit_test(before_its_hello_nobody_takes_part),
		cmocka_unit_test(of_two_verdicts_the_first_counts),
		cmocka_unit_test(a_stranger_costs_no_votes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
