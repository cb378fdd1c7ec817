// SPDX-License-Identifier: GPL-2.0-or-later
/* Who waits for whom, as pulses say it (lib/node/debt.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/node/debt.h"
#include "lib/node/verdict.h"

#define SELF	3u

static struct ddr_group g;
static struct ddr_debt list[DDR_DEBT_LIST];

static void deliver(uint32_t node, const struct ddr_node_msg *m)
{
	uint8_t buf[DDR_NODE_MSG_MAX];
	size_t len = ddr_node_msg_encode(m, buf, sizeof(buf));
	unsigned int array;
	const char *why;

	assert_true(len > 0);
	assert_int_equal(ddr_group_deliver(&g, (struct ddr_group_id){ node, 100 + node }, buf, len, &array, &why), DDR_GROUP_TAKEN);
}

/* Nodes 1 to 4; this one is node 3. */
static int begin(void **state)
{
	struct ddr_group_id now[4];

	(void)state;
	for (uint32_t i = 0; i < 4; i++)
		now[i] = (struct ddr_group_id){ i + 1, 101 + i };
	ddr_group_init(&g, SELF, 100 + SELF, 1, 1);
	ddr_group_ring(&g, 7);
	assert_true(ddr_group_members(&g, now, 4, NULL, 0, false, false));
	for (uint32_t i = 1; i <= 4; i++) {
		struct ddr_node_msg m = { .type = DDR_N_HELLO, .sender = i, .hello = { .lowest = 1, .highest = 1 } };

		m.hello.round = g.use.round;
		deliver(i, &m);
	}
	return 0;
}

static struct ddr_node_debt debt(uint8_t kind, uint32_t node, uint32_t since, uint32_t quiet)
{
	return (struct ddr_node_debt){ .uuid = { 9 }, .kind = kind, .node = node, .since_ms = since, .quiet_ms = quiet };
}

static void says(uint32_t node, uint32_t n, const struct ddr_node_debt *d)
{
	struct ddr_node_msg m = { .type = DDR_N_PULSE, .sender = node, .pulse = { .counter = 1, .debts = { .n = n, .total = n } } };

	if (n)
		memcpy(m.pulse.debts.debt, d, n * sizeof(*d));
	deliver(node, &m);
}

static void one(uint32_t node, uint8_t kind, uint32_t debtor, uint32_t since, uint32_t quiet)
{
	struct ddr_node_debt d = debt(kind, debtor, since, quiet);

	says(node, 1, &d);
}

/* A node that has nothing to do with it knows all the same who waits for whom, and why. */
static void what_all_say_is_one_debt(void **state)
{
	struct ddr_node_debt own = debt(DDR_DEBT_MEMBER_ACK, 2, 6500, 6500);

	(void)state;
	own.why = DDR_WHY_KERNEL;
	one(1, DDR_DEBT_MEMBER_ACK, 2, 6000, 6000);
	one(4, DDR_DEBT_MEMBER_ACK, 2, 7000, 5500);
	says(2, 1, &own);
	assert_int_equal(ddr_debt_list(&g, 1000, list), 1);
	assert_int_equal(list[0].is.node, 2);
	assert_int_equal(list[0].is.kind, DDR_DEBT_MEMBER_ACK);
	assert_int_equal(list[0].is.uuid[0], 9);
	assert_int_equal(list[0].is.why, DDR_WHY_KERNEL);
	assert_int_equal(list[0].is.since_ms, 7000);
	assert_int_equal(list[0].is.quiet_ms, 5500);
	assert_int_equal(list[0].n_waits, 2);
	assert_int_equal(list[0].waits[0], 1);
	assert_int_equal(list[0].waits[1], 4);
	assert_int_equal(ddr_debt_list(&g, 1500, list), 1);		/* time passes for it as well */
	assert_int_equal(list[0].is.since_ms, 7500);
	assert_int_equal(list[0].is.quiet_ms, 6000);
}

static void a_reason_is_the_debtors_own(void **state)
{
	struct ddr_node_debt d = debt(DDR_DEBT_EX_ACK, 2, 6000, 6000);

	(void)state;
	d.why = DDR_WHY_DISK;
	says(1, 1, &d);
	assert_int_equal(ddr_debt_list(&g, 1000, list), 1);
	assert_int_equal(list[0].is.why, DDR_WHY_UNKNOWN);
	d = debt(DDR_DEBT_EX_ACK, 2, 4000, 4000);
	d.why = DDR_WHY_KERNEL;
	says(2, 1, &d);			/* it heard of it later, but says why: what is shown first, and the event with it, has the reason */
	assert_int_equal(ddr_debt_list(&g, 1000, list), 1);
	assert_int_equal(list[0].is.since_ms, 6000);
	assert_int_equal(list[0].is.why, DDR_WHY_KERNEL);
	one(4, DDR_DEBT_EX_ACK, 2, 3000, 3000);
	assert_int_equal(ddr_debt_list(&g, 1000, list), 1);
	assert_int_equal(list[0].n_waits, 2);
	assert_int_equal(list[0].waits[1], 4);
	assert_int_equal(list[0].is.quiet_ms, 6000);
}

/* All nodes name those who wait in the same order, and count each once, whenever it heard of the debt. */
static void who_waits_is_named_alike(void **state)
{
	struct ddr_node_debt ours = debt(DDR_DEBT_EX_ACK, 2, 8000, 8000);

	(void)state;
	one(4, DDR_DEBT_EX_ACK, 2, 3000, 3000);
	one(1, DDR_DEBT_EX_ACK, 2, 6000, 6000);
	ddr_debt_ours(&g, &(struct ddr_node_debts){ .n = 1, .total = 1, .debt = { ours } });
	assert_int_equal(ddr_debt_list(&g, 1000, list), 1);
	assert_int_equal(list[0].n_waits, 3);
	assert_int_equal(list[0].waits[0], 1);
	assert_int_equal(list[0].waits[1], 3);
	assert_int_equal(list[0].waits[2], 4);
}

/* Most of what is owed is paid at once. What is not that old by a pulse may have ended by now. */
static void what_is_young_is_not_shown(void **state)
{
	(void)state;
	one(1, DDR_DEBT_EX_ACK, 2, 4999, 0);
	assert_int_equal(ddr_debt_list(&g, 1000, list), 0);
	assert_int_equal(ddr_debt_list(&g, 60000, list), 0);
	one(1, DDR_DEBT_EX_ACK, 2, 5000, 0);
	assert_int_equal(ddr_debt_list(&g, 1000, list), 1);
}

static void what_is_paid_is_not_shown(void **state)
{
	(void)state;
	one(1, DDR_DEBT_EX_ACK, 2, 9000, 9000);
	assert_int_equal(ddr_debt_list(&g, 1000, list), 1);
	says(1, 0, NULL);
	assert_int_equal(ddr_debt_list(&g, 1000, list), 0);
}

/* Of the words of a node that is gone, or was excluded, none counts. */
static void the_dead_wait_for_nobody(void **state)
{
	struct ddr_group_id now[] = { { 2, 102 }, { 3, 103 }, { 4, 104 } }, left[] = { { 1, 101 } };

	(void)state;
	one(1, DDR_DEBT_EX_ACK, 2, 9000, 9000);
	one(4, DDR_DEBT_ROOM, 2, 9000, 9000);
	assert_int_equal(ddr_debt_list(&g, 1000, list), 2);
	assert_true(ddr_group_members(&g, now, 3, left, 1, false, false));
	assert_int_equal(ddr_debt_list(&g, 1000, list), 1);
	assert_int_equal(list[0].is.kind, DDR_DEBT_ROOM);
	for (unsigned int i = 0; i < g.n; i++)
		if (g.process[i].id.node == 4)
			ddr_verdict_exclude(&g.process[i]);
	assert_int_equal(ddr_debt_list(&g, 1000, list), 0);
}

/* What this node knows counts, and not what its last pulse said. */
static void our_own_are_the_newest(void **state)
{
	struct ddr_node_debts ours = { .n = 1, .total = 1, .debt = { debt(DDR_DEBT_ROOM, 2, 8000, 8000) } }, none = { .n = 0 };
	uint8_t buf[DDR_NODE_MSG_MAX];
	struct ddr_node_msg m;
	size_t len;

	(void)state;
	g.hello_due = false;
	one(SELF, DDR_DEBT_EX_ACK, 1, 9000, 9000);
	ddr_debt_ours(&g, &ours);
	assert_int_equal(ddr_debt_list(&g, 1000, list), 1);
	assert_int_equal(list[0].is.kind, DDR_DEBT_ROOM);
	assert_int_equal(list[0].waits[0], SELF);
	ddr_group_pulse(&g);
	len = ddr_group_next(&g, buf, sizeof(buf));
	assert_null(ddr_node_msg_decode(buf, len, &m));
	assert_int_equal(m.type, DDR_N_PULSE);
	assert_int_equal(m.pulse.debts.n, 1);
	assert_int_equal(m.pulse.debts.total, 1);
	assert_memory_equal(&m.pulse.debts.debt[0], &ours.debt[0], sizeof(ours.debt[0]));
	ddr_debt_ours(&g, &none);
	assert_int_equal(ddr_debt_list(&g, 1000, list), 0);
}

/* Node 1 waits for node 2, and that one for node 4. In another array it may wait for whom it likes. */
static void the_debtor_waits_itself(void **state)
{
	struct ddr_node_debt of_2[] = { debt(DDR_DEBT_MEMBER_ACK, 4, 9000, 9000), debt(DDR_DEBT_ROOM, 1, 6000, 6000), debt(DDR_DEBT_ROOM, 3, 20000, 0) };

	(void)state;
	of_2[2].uuid[0] = 8;
	one(1, DDR_DEBT_EX_ACK, 2, 8000, 8000);
	says(2, 3, of_2);
	assert_int_equal(ddr_debt_list(&g, 1000, list), 4);
	assert_int_equal(list[0].is.node, 3);		/* the oldest comes first */
	assert_int_equal(list[1].is.node, 4);
	assert_int_equal(list[1].behind, 0);
	assert_int_equal(list[2].is.node, 2);
	assert_int_equal(list[2].behind, 4);
	assert_int_equal(list[2].behind_kind, DDR_DEBT_MEMBER_ACK);
	of_2[0].since_ms = of_2[0].quiet_ms = 4000;
	says(2, 1, of_2);
	assert_int_equal(ddr_debt_list(&g, 1000, list), 1);
	assert_int_equal(list[0].behind, 0);
}

/* Nobody else sees how far a resync has come, so its progress is what the debtor says; but not while it waits for another node. */
static void the_progress_of_a_resync(void **state)
{
	struct ddr_node_debt of_2[] = { debt(DDR_DEBT_FOLDED, 2, 90000, 1000), debt(DDR_DEBT_MEMBER_ACK, 4, 7000, 7000) };

	(void)state;
	of_2[0].why = DDR_WHY_RESYNC;
	one(1, DDR_DEBT_FOLDED, 2, 90000, 90000);
	says(2, 1, of_2);
	assert_int_equal(ddr_debt_list(&g, 1000, list), 1);
	assert_int_equal(list[0].is.since_ms, 90000);
	assert_int_equal(list[0].is.quiet_ms, 1000);
	says(2, 2, of_2);
	assert_int_equal(ddr_debt_list(&g, 1000, list), 2);
	assert_int_equal(list[0].is.quiet_ms, 90000);
}

/* More than a list has room for, from as many nodes as there are. */
static void a_list_has_an_end(void **state)
{
	struct ddr_node_debt many[DDR_NODE_DEBTS];

	(void)state;
	for (uint32_t node = 1; node <= 4; node++) {
		for (uint32_t i = 0; i < DDR_NODE_DEBTS; i++)
			many[i] = debt((uint8_t)(i + 1), 100 * node + i, UINT32_MAX - i, 0);
		if (node != SELF)
			says(node, DDR_NODE_DEBTS, many);
	}
	ddr_debt_ours(&g, &(struct ddr_node_debts){ .n = DDR_NODE_DEBTS, .total = 1000 });
	for (uint32_t i = 0; i < DDR_NODE_DEBTS; i++)
		g.debts.debt[i] = debt(1, 5000 + i, 6000, 6000);
	assert_int_equal(ddr_debt_list(&g, 1000, list), DDR_DEBT_LIST);
	one(1, 77, 9, 6000, 6000);
	assert_int_equal(ddr_debt_list(&g, 900000, list), DDR_DEBT_LIST - DDR_NODE_DEBTS + 1);
	assert_int_equal(list[0].is.since_ms, UINT32_MAX);
}

#define TEST(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_all_say_is_one_debt), TEST(a_reason_is_the_debtors_own), TEST(who_waits_is_named_alike), TEST(what_is_young_is_not_shown), TEST(what_is_paid_is_not_shown),
		TEST(the_dead_wait_for_nobody), TEST(our_own_are_the_newest), TEST(the_debtor_waits_itself), TEST(the_progress_of_a_resync), TEST(a_list_has_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
