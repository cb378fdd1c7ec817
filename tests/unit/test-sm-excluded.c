// SPDX-License-Identifier: GPL-2.0-or-later
/* Nodes that a verdict has excluded: they stay lost until they are proven dead, whatever their next process says. */
#include "sm-cluster.h"

#include "lib/cluster/sm_int.h"

static int setup(void **state)
{
	return cx_setup(state, 2);
}

/* The nodes of @mask (bit: place) hear that node @id is excluded. */
static void excluded(struct cx *c, uint32_t mask, uint32_t id)
{
	for (uint32_t i = 0; i < CX_NODES; i++)
		if (mask >> i & 1)
			cx_op(c, i, DDR_IN_EXCLUDED, id);
}

/* Node 2 holds region 2, and its daemon falls silent. */
static void second_falls_silent(struct cx *c)
{
	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 3, .start = 2, .count = 1 });
	cx_settle(c);
	cx_kill(c, 1);
	cx_forget(c);
	excluded(c, 1, 2);
	cx_view(c, 1, 1, true);
	cx_settle(c);
}

static bool is_lost(const struct cx_node *n, uint32_t id)
{
	enum ddr_sm_node_state s = cx_sees(n, id).state;

	return s == DDR_NS_SUSPECT || s == DDR_NS_FENCING;
}

/* Its daemon goes on, or a new one starts: a START before the fencing does not make it active (note 28). The same instance never comes back. */
static void a_start_does_not_bring_it_back(void **state)
{
	struct cx *c = *state;

	second_falls_silent(c);
	assert_true(cx_find(&c->node[0], DDR_OUT_FENCE, 0) >= 0);	/* at once */
	cx_start(c, 1, 2, 1);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	cx_tick(c, 60000);
	assert_false(cx_status(&c->node[1]).joined);
	assert_true(cx_status(&c->node[1]).synced);
	assert_true(is_lost(&c->node[0], 2) && is_lost(&c->node[1], 2));
	assert_int_equal(cx_status(&c->node[0]).wait_for, DDR_SM_WAIT_EXCLUDED);
	assert_int_equal(cx_status(&c->node[1]).wait_for, DDR_SM_WAIT_EXCLUDED);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_SLOT_WRITE, 0), -1);
	assert_int_equal(cx_find(&c->node[1], DDR_OUT_FENCE, 0), -1);	/* it does not fence itself */
	assert_true(c->node[1].n < 20);					/* nor says the same again and again */
	cx_fenced(c, &c->node[0], cx_open(&c->node[0], DDR_OUT_FENCE), 0);
	cx_settle(c);
	assert_true(cx_event(&c->node[0], DDR_EV_NODE_RECOVERED) >= 0);
	assert_true(cx_find(&c->node[1], DDR_OUT_GIVE_UP, 0) >= 0);
	c->node[1].cookie++;
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[1]).joined);
}

/* If fencing fails, the turn goes round without the excluded node. */
static void it_is_never_its_turn_to_fence(void **state)
{
	struct cx *c = *state;

	second_falls_silent(c);
	cx_start(c, 1, 2, 1);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	for (int i = 0; i < 3; i++) {
		cx_fenced(c, &c->node[0], cx_open(&c->node[0], DDR_OUT_FENCE), -5);
		cx_settle(c);
		cx_tick(c, 60000);			/* the pause after an attempt that failed */
		assert_int_equal(cx_find(&c->node[1], DDR_OUT_FENCE, 0), -1);
	}
}

/* A node that joins afterwards knows it, and still knows it when those who heard the verdict are gone. */
static void a_joiner_knows_it(void **state)
{
	struct cx *c = *state;

	second_falls_silent(c);
	c->node[2].cfg = c->node[0].cfg;
	c->node[2].cfg.node = 3;
	c->node[2].cookie = 7;
	cx_start(c, 2, 0, 0);
	cx_view(c, 5, 5, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[2]).synced);
	cx_kill(c, 0);
	cx_start(c, 1, 2, 1);
	cx_view(c, 6, 6, true);
	cx_settle(c);
	cx_tick(c, 60000);
	assert_true(is_lost(&c->node[2], 2) && is_lost(&c->node[2], 1));
	assert_false(cx_status(&c->node[1]).joined);
}

/* No node has a state: it is built from the disks, and the nodes that heard the verdict say what it was. */
static void a_state_from_the_disks_knows_it(void **state)
{
	struct cx *c = *state;

	cx_kill(c, 0);
	cx_kill(c, 1);
	cx_forget(c);
	c->node[2].cfg = c->node[1].cfg;
	c->node[2].cfg.node = 3;
	c->node[2].cookie = 7;
	for (uint32_t i = 0; i < 3; i++)
		cx_start(c, i, 0, 0);
	excluded(c, 4, 2);		/* the one that builds the state has not heard it itself */
	cx_view(c, 7, 7, true);
	cx_settle(c);
	cx_tick(c, 60000);
	assert_true(is_lost(&c->node[0], 2));
	assert_false(cx_status(&c->node[1]).joined);
	cx_fenced(c, &c->node[0], cx_open(&c->node[0], DDR_OUT_FENCE), 0);
	cx_settle(c);
	assert_true(cx_status(&c->node[0]).joined && cx_status(&c->node[2]).joined);
}

/*
 * The last node was leaving: its slot is free by the disks, and the superblocks that say so may be on their way still. Whoever begins anew with the
 * disks writes nothing before it is proven dead.
 */
static void a_state_from_the_disks_does_not_trust_its_free_slot(void **state)
{
	struct cx *c = *state;

	cx_kill(c, 0);
	cx_kill(c, 1);
	cx_forget(c);
	for (uint32_t i = 0; i < c->sb.slots; i++)
		c->sb.slot_node[i] = 0;
	cx_start(c, 0, 0, 0);
	excluded(c, 1, 2);
	c->answers = CX_ALL & ~CX_FENCE;
	cx_view(c, 1, 1, true);
	cx_settle(c);
	cx_tick(c, 60000);
	assert_true(is_lost(&c->node[0], 2));
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_SB_WRITE, 0), -1);
	cx_fenced(c, &c->node[0], cx_open(&c->node[0], DDR_OUT_FENCE), 0);
	cx_settle(c);
	cx_tick(c, 1000);
	assert_true(cx_status(&c->node[0]).joined);
}

/* What is heard behind one's own HELLO is said with the next one. */
static void heard_too_late_for_a_hello(void **state)
{
	struct cx *c = *state;

	cx_kill(c, 1);
	cx_view(c, 1, 1, true);		/* HELLO is sent, and not delivered yet */
	excluded(c, 1, 2);
	cx_settle(c);
	assert_true(is_lost(&c->node[0], 2));
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	cx_tick(c, 1000);
	assert_true(is_lost(&c->node[0], 2));
	assert_false(cx_status(&c->node[1]).joined);
}

/* A node that was excluded and has no slot is only left out: it starts when it is there again. */
static void without_a_slot_it_is_only_left_out(void **state)
{
	struct cx *c = *state;

	excluded(c, 3, 3);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_FENCE, 0), -1);
	c->node[2].cfg = c->node[1].cfg;
	c->node[2].cfg.node = 3;
	c->node[2].cookie = 7;
	cx_start(c, 2, 0, 0);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[2]).joined);
}

/* The others may stop the array while it waits: it cannot begin, so it holds up nobody. */
static void the_last_one_does_not_wait_for_it(void **state)
{
	struct cx *c = *state;

	second_falls_silent(c);
	cx_start(c, 1, 2, 1);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	cx_forget(c);
	cx_op(c, 0, DDR_IN_OP_LEAVE, 0);
	cx_settle(c);
	cx_tick(c, 1000);
	assert_true(cx_event(&c->node[0], DDR_EV_REFUSED) < 0);
	assert_true(cx_event(&c->node[0], DDR_EV_LEFT) >= 0);
}

/* A state in which a node is excluded and not lost is not believed. */
static void excluded_is_lost(void **state)
{
	struct cx *c = *state;
	struct ddr_sm_shared *s = &c->node[0].sm->in_order;

	s->nodes[1].excluded = true;
	assert_non_null(ddr_sm_check(c->node[0].sm));
	s->nodes[1].excluded = false;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, cx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_start_does_not_bring_it_back),
		TEST(it_is_never_its_turn_to_fence),
		TEST(a_joiner_knows_it),
		TEST(a_state_from_the_disks_knows_it),
		TEST(a_state_from_the_disks_does_not_trust_its_free_slot),
		TEST(heard_too_late_for_a_hello),
		TEST(without_a_slot_it_is_only_left_out),
		TEST(the_last_one_does_not_wait_for_it),
		TEST(excluded_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
