// SPDX-License-Identifier: GPL-2.0-or-later
/* The use of the device: each node reports it to the node that does background work, again in each view, and not with each pause. */
#include "sm-cluster.h"

static int setup(void **state)
{
	int ret = cx_setup(state, 2);

	cx_wrote(*state, 0, 1);
	cx_tick(*state, 60000);		/* its first resync is long past */
	cx_forget(*state);
	return ret;
}

static void use(struct cx *c, uint32_t i, bool used)
{
	struct ddr_input in = { .type = DDR_IN_OP_SET, .key = DDR_SM_USED, .value = used };

	cx_step(c, &c->node[i], &in);
	cx_settle(c);
}

/* It does not end: nothing answers its reads. */
static void verify(struct cx *c, uint32_t i, enum ddr_verify_op op)
{
	struct ddr_input in = { .type = DDR_IN_OP_VERIFY, .key = op, .value = 3 };

	c->answers = CX_MSG | CX_KERNEL;
	cx_step(c, &c->node[i], &in);
	cx_settle(c);
	assert_int_equal(ddr_sm_super(c->node[0].sm)->verify.state, op == DDR_VERIFY_OP_START ? DDR_VERIFY_RUNNING : DDR_VERIFY_NONE);
}

/* Reports of the node on its use since cx_forget(). */
static uint32_t told(const struct cx *c, uint32_t i)
{
	uint32_t n = 0;

	for (uint32_t j = 0; j < c->node[i].n; j++) {
		const struct ddr_output *o = &c->node[i].log[j];
		struct ddr_msg m;

		if (o->type != DDR_OUT_MCAST)
			continue;
		assert_null(ddr_msg_decode(o->msg, o->msg_len, &m));
		n += m.type == DDR_M_USE;
	}
	return n;
}

static bool heard(const struct cx *c, uint32_t i)
{
	return ddr_sm_used_elsewhere(c->node[i].sm);
}

static void use_is_reported_while_a_verify_runs(void **state)
{
	struct cx *c = *state;

	use(c, 1, true);
	cx_tick(c, 100);
	assert_int_equal(told(c, 1), 0);	/* no node works */
	verify(c, 1, DDR_VERIFY_OP_START);
	assert_int_equal(told(c, 1), 1);
	assert_true(heard(c, 0));
	assert_false(heard(c, 1));		/* a node's own work is no news to it */
	cx_tick(c, 5000);
	assert_int_equal(told(c, 1), 1);
	use(c, 1, false);
	cx_tick(c, 1900);
	assert_true(heard(c, 0));
	cx_tick(c, 100);
	assert_false(heard(c, 0));
	assert_int_equal(told(c, 1), 2);
	assert_int_equal(told(c, 0), 0);
	use(c, 0, true);
	assert_true(heard(c, 1));
	verify(c, 1, DDR_VERIFY_OP_STOP);
	use(c, 1, true);
	cx_tick(c, 100);
	assert_int_equal(told(c, 1), 2);
}

static void a_short_pause_of_use_is_not_reported(void **state)
{
	struct cx *c = *state;

	verify(c, 1, DDR_VERIFY_OP_START);
	use(c, 1, true);
	for (unsigned int i = 0; i < 20; i++) {
		use(c, 1, false);
		cx_tick(c, 1500);
		use(c, 1, true);
		cx_tick(c, 100);
	}
	assert_true(heard(c, 0));
	assert_int_equal(told(c, 1), 1);
}

/* The other nodes know of a resync by the ranges that it requests. */
static void use_is_reported_to_nodes_that_ask_for_ranges(void **state)
{
	struct ddr_msg m = { .type = DDR_M_EX_REQUEST, .sender = 1, .epoch = 1, .ex = { .id = 77, .mode = DDR_EX_RANGE, .count = 1 } };
	struct cx *c = *state;
	struct ddr_output *o = &c->buf[0];

	use(c, 1, true);
	m.ring = c->ring;
	memcpy(m.uuid, c->sb.array_uuid, sizeof(m.uuid));
	o->type = DDR_OUT_MCAST;
	o->msg_len = (uint32_t)ddr_msg_encode(&m, o->msg, sizeof(o->msg));
	cx_forget(c);
	cx_send(c, &c->node[0], o);
	assert_true(cx_deliver(c, &c->node[1], NULL));
	cx_settle(c);
	assert_int_equal(told(c, 1), 1);
	assert_true(heard(c, 0));
	use(c, 1, false);
	cx_tick(c, 2000);
	assert_false(heard(c, 0));
	cx_tick(c, 59000);		/* it works no more */
	use(c, 1, true);
	cx_tick(c, 100);
	assert_int_equal(told(c, 1), 2);
}

static void a_joiner_learns_of_use_and_nodes_that_left_do_not_count(void **state)
{
	struct cx *c = *state;

	verify(c, 1, DDR_VERIFY_OP_START);
	use(c, 1, true);
	c->node[2].cfg = c->node[1].cfg;
	c->node[2].cfg.node = 3;
	c->node[2].cookie = 7;
	cx_third_joins(c);
	c->answers = CX_MSG | CX_KERNEL;
	cx_settle(c);
	assert_true(heard(c, 0));
	assert_true(heard(c, 2));
	cx_kill(c, 1);
	cx_view(c, 5, 5, true);
	cx_settle(c);
	assert_false(heard(c, 0));
	assert_false(heard(c, 2));
}

/* The report was on its way when the view changed, and is delivered to nobody. */
static void a_report_lost_with_a_view_is_repeated(void **state)
{
	struct cx *c = *state;

	verify(c, 1, DDR_VERIFY_OP_START);
	c->answers = CX_KERNEL;
	use(c, 1, true);
	assert_int_equal(told(c, 1), 1);
	for (uint32_t i = 0; i < 2; i++)
		c->node[i].n_queue = 0;
	cx_view(c, 3, 3, true);
	c->answers = CX_MSG | CX_KERNEL;
	cx_settle(c);
	assert_int_equal(told(c, 1), 2);
	assert_true(heard(c, 0));
}

/* A node that is alone has no one to report to. */
static void a_node_alone_reports_no_use(void **state)
{
	struct cx *c = *state;

	cx_kill(c, 1);
	c->answers = CX_ALL | CX_FENCE;
	cx_view(c, 1, 1, true);
	cx_settle(c);
	verify(c, 0, DDR_VERIFY_OP_START);
	use(c, 0, true);
	cx_tick(c, 100);
	assert_int_equal(told(c, 0), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, cx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(use_is_reported_while_a_verify_runs), TEST(a_short_pause_of_use_is_not_reported), TEST(use_is_reported_to_nodes_that_ask_for_ranges),
		TEST(a_joiner_learns_of_use_and_nodes_that_left_do_not_count), TEST(a_report_lost_with_a_view_is_repeated), TEST(a_node_alone_reports_no_use),
	};

	return cmocka_run_group_tests_name("who uses the device", tests, NULL, NULL);
}
