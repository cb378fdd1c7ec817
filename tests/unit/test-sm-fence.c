// SPDX-License-Identifier: GPL-2.0-or-later
/* Which node fences a lost one, when it tries again, and which answers count. */
#include "sm-cluster.h"

/* Three nodes, the third of which has left corosync, so it is fenced at once: node 1 begins. */
static int setup(void **state)
{
	int ret = cx_setup(state, 3);
	struct cx *c = *state;

	cx_kill(c, 2);
	cx_forget(c);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	return ret;
}

static unsigned int asked(const struct cx_node *n)
{
	unsigned int count = 0;

	for (uint32_t i = 0; i < n->n; i++)
		count += n->log[i].type == DDR_OUT_FENCE;
	return count;
}

/* The number of FENCED that it has sent. */
static unsigned int said(const struct cx_node *n)
{
	unsigned int count = 0;
	struct ddr_msg m;

	for (uint32_t i = 0; i < n->n; i++)
		if (n->log[i].type == DDR_OUT_MCAST && !ddr_msg_decode(n->log[i].msg, n->log[i].msg_len, &m) && m.type == DDR_M_FENCED)
			count++;
	return count;
}

static void fails(struct cx *c, uint32_t i)
{
	cx_fenced(c, &c->node[i], cx_open(&c->node[i], DDR_OUT_FENCE), -5);
	cx_settle(c);
}

/* An answer that comes after the one by which the time of the agent was over. */
static void late(struct cx *c, uint32_t i, int result)
{
	struct ddr_input in = { .type = DDR_IN_FENCED, .node = 3, .failure = cx_sees(&c->node[i], 3).failure, .result = result };

	cx_step(c, &c->node[i], &in);
	cx_settle(c);
}

/* Rule F7: how long the storage may keep what a dead machine has sent each node knows by its own disks, and the longest time counts. */
static void the_longest_settle_time_counts(void **state)
{
	struct ddr_input set = { .type = DDR_IN_OP_SET, .key = DDR_SM_SETTLE_MS };
	struct cx *c = calloc(1, sizeof(*c));

	(void)state;
	assert_non_null(c);
	cx_make(c, CX_NODES, true);
	for (uint32_t i = 0; i < 3; i++) {
		c->node[i].fences = DDR_FENCES_YES;
		c->node[i].cfg.settle_ms = 1000 * i;
		cx_start(c, i, 0, 0);
	}
	cx_view(c, 7, 7, true);
	cx_settle(c);
	set.value = 5000;				/* a member has another device; the others learn it with the next view */
	cx_step(c, &c->node[1], &set);
	assert_true(cx_event(&c->node[1], DDR_EV_REFUSED) < 0);
	cx_kill(c, 2);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_int_equal(c->node[0].log[cx_find(&c->node[0], DDR_OUT_FENCE, 0)].settle_ms, 5000);
	cx_down(c);
	free(c);
}

/* Finding T9: the agent was started for this failure, so its success is proof also after the next node was asked. That it failed is known. */
static void a_late_success_counts_and_a_late_failure_does_not(void **state)
{
	struct cx *c = *state;

	assert_int_equal(asked(&c->node[0]), 1);
	fails(c, 0);
	assert_int_equal(said(&c->node[0]), 1);
	assert_int_equal(asked(&c->node[1]), 1);
	late(c, 0, -5);
	assert_int_equal(said(&c->node[0]), 1);
	late(c, 0, 0);
	assert_int_equal(said(&c->node[0]), 2);
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(cx_event(&c->node[i], DDR_EV_NODE_FENCED) >= 0);
		assert_true(cx_event(&c->node[i], DDR_EV_NODE_RECOVERED) >= 0);
	}
}

static void tick(struct cx *c, uint64_t ms)
{
	cx_tick(c, ms);
	cx_settle(c);
}

static unsigned int waits(const struct cx_node *n, enum ddr_sm_wait wait)
{
	unsigned int count = 0;

	for (uint32_t i = 0; i < n->n; i++)
		count += n->log[i].type == DDR_OUT_EVENT && n->log[i].event == DDR_EV_WAIT && strcmp(n->log[i].text, ddr_sm_wait_text(wait)) == 0;
	return count;
}

/* Finding T8: nobody can fence it, so the agents are called less and less often, in turn, and the log has a line for each call. */
static void attempts_become_rare(void **state)
{
	static const uint64_t pause[] = { 3000, 6000, 12000, 24000, 48000, 60000, 60000, 60000 };
	struct cx *c = *state;
	unsigned int calls = 2;

	assert_int_equal(cx_status(&c->node[0]).wait_fencer, 1);
	fails(c, 0);
	assert_int_equal(waits(&c->node[0], DDR_SM_WAIT_TOLD_NEXT), 1);
	assert_int_equal(cx_status(&c->node[1]).wait_for, DDR_SM_WAIT_FENCED);
	for (uint32_t i = 0; i < 2; i++)	/* all nodes know whose turn it is */
		assert_int_equal(cx_status(&c->node[i]).wait_fencer, 2);
	fails(c, 1);			/* at once: each node tries it before there is a pause */
	for (unsigned int i = 0; i < 8; i++) {
		assert_int_equal(cx_status(&c->node[1]).wait_for, DDR_SM_WAIT_FAILS);
		assert_int_equal(cx_status(&c->node[1]).wait_fencer, 0);
		assert_int_equal(cx_sees(&c->node[1], 3).state, DDR_NS_FENCING);
		tick(c, pause[i] - 100);
		assert_int_equal(asked(&c->node[0]) + asked(&c->node[1]), calls);
		tick(c, 100);
		assert_int_equal(asked(&c->node[0]) + asked(&c->node[1]), ++calls);
		fails(c, i % 2);
	}
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(waits(&c->node[i], DDR_SM_WAIT_TOLD_NEXT), 1);
		assert_int_equal(waits(&c->node[i], DDR_SM_WAIT_TOLD_FAILS), calls - 1);
	}
}

/* Another failure of the node: whatever hindered the agents may be over. */
static void a_new_failure_starts_the_series_again(void **state)
{
	struct cx *c = *state;

	for (uint32_t i = 0; i < 2; i++)
		fails(c, i);
	cx_start(c, 2, 0, 0);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	assert_int_equal(cx_sees(&c->node[0], 3).state, DDR_NS_ACTIVE);
	cx_kill(c, 2);
	cx_forget(c);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_int_equal(asked(&c->node[0]), 1);
	fails(c, 0);
	assert_int_equal(asked(&c->node[1]), 1);
}

/* What each node can do, as the view says, and as it is configured. */
static void can(struct cx *c, enum ddr_fences first, enum ddr_fences second)
{
	const enum ddr_fences fences[] = { first, second, DDR_FENCES_YES };

	cx_down(c);
	cx_make(c, 3, true);
	for (uint32_t i = 0; i < 3; i++) {
		c->node[i].fences = fences[i];
		c->node[i].cfg.fencing = fences[i] != DDR_FENCES_NO;
		cx_start(c, i, 0, 0);
	}
	cx_view(c, 7, 7, true);
	cx_settle(c);
	cx_kill(c, 2);
	cx_forget(c);
	cx_view(c, 3, 3, true);
	cx_settle(c);
}

/* Finding T10: the lowest node has no fence_command. The next one does it, and does not wait for it, however often it fails. */
static void only_nodes_that_can_are_asked(void **state)
{
	struct cx *c = *state;

	can(c, DDR_FENCES_NO, DDR_FENCES_YES);
	assert_int_equal(asked(&c->node[1]), 1);
	fails(c, 1);
	assert_int_equal(cx_status(&c->node[0]).wait_for, DDR_SM_WAIT_FAILS);
	tick(c, 3000);
	assert_int_equal(asked(&c->node[1]), 2);
	assert_int_equal(asked(&c->node[0]), 0);
	assert_int_equal(waits(&c->node[0], DDR_SM_WAIT_TOLD_ACK), 0);
	can(c, DDR_FENCES_YES, DDR_FENCES_NO);
	fails(c, 0);
	tick(c, 3000);
	assert_int_equal(asked(&c->node[0]), 2);
	cx_fenced(c, &c->node[0], cx_open(&c->node[0], DDR_OUT_FENCE), 0);
	cx_settle(c);
	assert_true(cx_event(&c->node[1], DDR_EV_NODE_RECOVERED) >= 0);
}

/* All nodes say so, each once, with what to type. */
static void nobody_can(void **state)
{
	struct cx *c = *state;

	can(c, DDR_FENCES_NO, DDR_FENCES_NO);
	tick(c, 100000);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(asked(&c->node[i]), 0);
		assert_int_equal(waits(&c->node[i], DDR_SM_WAIT_TOLD_ACK), 1);
		assert_int_equal(cx_status(&c->node[i]).wait_for, DDR_SM_WAIT_ACK);
		assert_int_equal(cx_status(&c->node[i]).wait_node, 3);
	}
	c->node[3].cfg = c->node[0].cfg;		/* one that can joins */
	c->node[3].cfg.node = 4;
	c->node[3].cfg.fencing = true;
	c->node[3].fences = DDR_FENCES_YES;
	cx_start(c, 3, 0, 0);
	cx_view(c, 11, 11, true);
	cx_settle(c);
	assert_int_equal(cx_status(&c->node[0]).wait_for, DDR_SM_WAIT_FENCED);
	assert_int_equal(asked(&c->node[3]), 1);
}

/* Finding T10: the lowest node is back without its kernel, and stays lost. It is here, and can fence, but its own death proves nothing to anybody. */
static void nobody_fences_itself(void **state)
{
	struct cx *c = *state;

	for (unsigned int last = 0; last < 2; last++) {
		can(c, DDR_FENCES_YES, last ? DDR_FENCES_NO : DDR_FENCES_YES);
		cx_kill(c, 0);
		c->answers = CX_ALL | CX_FENCE;		/* of node 3 */
		cx_daemon(c, 0);
		cx_view(c, 3, 3, true);
		cx_settle(c);
		c->answers = CX_ALL;
		assert_true(cx_status(&c->node[0]).synced);
		assert_true(cx_sees(&c->node[1], 1).failure != 0);
		cx_forget(c);
		tick(c, 40000);
		assert_int_equal(asked(&c->node[0]), 0);
		assert_int_equal(asked(&c->node[1]), !last);
		assert_int_equal(cx_status(&c->node[1]).wait_for, last ? DDR_SM_WAIT_ACK : DDR_SM_WAIT_FENCED);
	}
}

/* A node of a release that does not say it counts all nodes, as it has always done: if the others left some out, each might wait for another one. */
static void beside_an_older_node_all_take_turns(void **state)
{
	struct cx *c = *state;

	can(c, DDR_FENCES_YES, DDR_FENCES_UNSAID);
	assert_int_equal(asked(&c->node[0]), 1);
	fails(c, 0);
	assert_int_equal(asked(&c->node[1]), 1);
	can(c, DDR_FENCES_NO, DDR_FENCES_UNSAID);
	assert_int_equal(asked(&c->node[0]) + asked(&c->node[1]), 0);
	assert_int_equal(waits(&c->node[0], DDR_SM_WAIT_TOLD_ACK), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, cx_teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_longest_settle_time_counts),
		TEST(a_late_success_counts_and_a_late_failure_does_not), TEST(attempts_become_rare), TEST(a_new_failure_starts_the_series_again),
		TEST(only_nodes_that_can_are_asked), TEST(nobody_can), TEST(nobody_fences_itself), TEST(beside_an_older_node_all_take_turns),
	};

	return cmocka_run_group_tests_name("state machine: fencing", tests, NULL, NULL);
}
