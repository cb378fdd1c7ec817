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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, cx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_late_success_counts_and_a_late_failure_does_not),
	};

	return cmocka_run_group_tests_name("state machine: fencing", tests, NULL, NULL);
}
