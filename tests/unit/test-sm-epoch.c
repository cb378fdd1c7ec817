// SPDX-License-Identifier: GPL-2.0-or-later
/* A node that alone has agreed on an epoch fails no other node: it takes the epoch back, or yields to the majority. */
#include "sm-cluster.h"

static int setup(void **state)
{
	struct cx *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	cx_up(c, 3, true);
	*state = c;
	return 0;
}

static int teardown(void **state)
{
	cx_down(*state);
	free(*state);
	return 0;
}

static bool gave_up(const struct cx *c, uint32_t i)
{
	return cx_find(&c->node[i], DDR_OUT_GIVE_UP, 0) >= 0;
}

static void all_go_on(struct cx *c, uint32_t nodes)
{
	for (uint32_t i = 0; i < nodes; i++) {
		assert_false(gave_up(c, i));
		assert_true(cx_status(&c->node[i]).agreed && cx_status(&c->node[i]).joined);
		assert_int_equal(cx_find(&c->node[i], DDR_OUT_FENCE, 0), -1);
		assert_int_equal(cx_event(&c->node[i], DDR_EV_NODE_LOST), -1);
	}
}

/* A view of all three nodes. Only the node at place @i receives the last hello: the epoch is agreed there alone. */
static void agrees_alone(struct cx *c, uint32_t i)
{
	cx_forget(c);
	c->answers = 0;
	cx_view(c, 7, 7, true);
	for (int hello = 0; hello < 3; hello++)
		assert_true(cx_deliver(c, &c->node[i], NULL));
	for (uint32_t k = 0; k < 3; k++)
		assert_int_equal(cx_status(&c->node[k]).agreed, k == i);
}

static void one_agrees_alone(struct cx *c)
{
	agrees_alone(c, 0);
}

/* Finding U4: the ring breaks when only one node has agreed: it takes the epoch back, and all three continue. */
static void an_agreement_that_nobody_heard_of_is_taken_back(void **state)
{
	struct cx *c = *state;

	for (int again = 0; again < 3; again++)
		one_agrees_alone(c);
	c->answers = CX_ALL;
	cx_view(c, 7, 7, true);
	cx_settle(c);
	all_go_on(c, 3);
}

/*
 * Finding U4: this happens to one node after the other, so each has agreed on an epoch of its own. None has the previous state as its
 * present one, and all can return to it: no node is evicted.
 */
static void nodes_that_agreed_alone_one_after_the_other_resume(void **state)
{
	struct cx *c = *state;

	for (uint32_t i = 0; i < 3; i++)
		agrees_alone(c, i);
	c->answers = CX_ALL;
	cx_view(c, 7, 7, true);
	cx_settle(c);
	all_go_on(c, 3);
}

/*
 * Finding U4: a node has taken its epoch back, a message is sent, and a fourth daemon joins the group while corosync's ring stays the
 * same. A node that has taken something back reports the same beginning of the ring as the others. Otherwise they would take it for a
 * node with another state, and have it fenced.
 */
static void messages_of_a_withdrawn_agreement_are_not_repeated_in_that_ring(void **state)
{
	struct ddr_input verify = { .type = DDR_IN_OP_VERIFY, .key = DDR_VERIFY_OP_START, .value = 3 };
	struct cx *c = *state;

	cx_down(c);
	memset(c, 0, sizeof(*c));
	cx_make(c, 4, true);
	for (uint32_t i = 0; i < 3; i++)
		cx_start(c, i, 0, 0);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	one_agrees_alone(c);
	c->answers = CX_ALL;
	cx_view(c, 7, 7, true);
	cx_settle(c);
	cx_step(c, &c->node[0], &verify);
	cx_settle(c);
	cx_start(c, 3, 0, 0);
	c->ring--;
	cx_view(c, 15, 15, true);
	cx_settle(c);
	all_go_on(c, 4);
}

/* Finding U4: the same, and the other two agree without it before it is back: they have lost it, and it is the one that is put out. */
static void a_node_that_agreed_alone_and_was_left_behind_is_evicted(void **state)
{
	struct cx *c = *state;

	one_agrees_alone(c);
	c->answers = CX_ALL;
	cx_view(c, 1, 1, false);
	cx_view(c, 6, 6, true);
	cx_settle(c);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	assert_true(gave_up(c, 0));
	assert_false(gave_up(c, 1));
	assert_false(gave_up(c, 2));
}

/* Finding U4: it has sent a message that it alone has delivered: that cannot be taken back. It yields to the two others. */
static void a_node_alone_with_an_epoch_yields_to_the_majority(void **state)
{
	struct cx *c = *state;
	struct ddr_input verify = { .type = DDR_IN_OP_VERIFY, .key = DDR_VERIFY_OP_START, .value = 3 };

	one_agrees_alone(c);
	cx_step(c, &c->node[0], &verify);
	while (cx_deliver(c, &c->node[0], NULL))
		;
	c->answers = CX_ALL;
	cx_view(c, 7, 7, true);
	cx_settle(c);
	assert_true(gave_up(c, 0));
	assert_false(gave_up(c, 1));
	assert_false(gave_up(c, 2));
	assert_true(cx_status(&c->node[1]).agreed && cx_status(&c->node[2]).agreed);
	assert_true(cx_find(&c->node[1], DDR_OUT_FENCE, 0) >= 0);	/* rule 6: like a dead one */
}

/*
 * One node continued with quorum, and its partner comes back with a new process: another node had agreed on the newer epoch too, so
 * it counts, whichever side is larger.
 */
static void an_epoch_that_others_agreed_on_counts(void **state)
{
	struct cx *c = *state;

	cx_down(c);
	memset(c, 0, sizeof(*c));
	cx_up(c, 4, true);
	cx_view(c, 3, 3, true);		/* two nodes of four, with a vote more */
	cx_settle(c);
	cx_kill(c, 1);
	cx_start(c, 1, 0, 0);
	cx_view(c, 15, 15, true);
	cx_settle(c);
	assert_false(gave_up(c, 0));
	assert_true(gave_up(c, 2));
	assert_true(gave_up(c, 3));
}

/* An agreement that has lost a node is not taken back: a node that is to be fenced by it must not meet it again. */
static void an_agreement_that_lost_a_node_stands(void **state)
{
	struct cx *c = *state;

	cx_forget(c);
	c->answers = 0;
	cx_view(c, 3, 3, true);
	for (int hello = 0; hello < 2; hello++)
		assert_true(cx_deliver(c, &c->node[0], NULL));
	assert_true(cx_find(&c->node[0], DDR_OUT_FENCE, 0) >= 0);
	c->answers = CX_ALL;
	cx_view(c, 7, 7, true);
	cx_settle(c);
	assert_false(gave_up(c, 0));
	assert_true(gave_up(c, 2));
}

static bool counts_as_lost(const struct cx_node *n, uint32_t id)
{
	struct ddr_sm_status st = cx_status(n);

	for (uint32_t i = 0; i < st.n_nodes; i++)
		if (st.node[i].id == id)
			return st.node[i].state == DDR_NS_SUSPECT || st.node[i].state == DDR_NS_FENCING;
	return false;
}

/*
 * The same, and the lost node does not come back. The node that has agreed names that failure, and has the node fenced. If the other
 * one continued with the previous state, it would give the failure another name, and the two would never agree that the node is dead.
 */
static void a_loss_has_the_same_number_on_all_nodes(void **state)
{
	struct cx *c = *state;

	cx_kill(c, 2);
	cx_forget(c);
	c->answers = 0;
	cx_view(c, 3, 3, true);
	for (int hello = 0; hello < 2; hello++)
		assert_true(cx_deliver(c, &c->node[0], NULL));
	assert_true(cx_find(&c->node[0], DDR_OUT_FENCE, 0) >= 0);
	c->answers = CX_ALL | CX_FENCE;
	cx_view(c, 3, 3, true);
	cx_settle(c);
	cx_tick(c, 60000);
	for (uint32_t i = 0; i < 2; i++)
		assert_false(!gave_up(c, i) && counts_as_lost(&c->node[i], 3));
	assert_false(gave_up(c, 0));
}

/* No epoch is used twice: what was written in the epoch that was taken back is older than all that follows. */
static void an_epoch_that_was_taken_back_does_not_return(void **state)
{
	struct cx *c = *state;
	struct ddr_msg msg;
	uint32_t before = 0, after = 0;

	one_agrees_alone(c);
	for (uint32_t i = 0; i < c->node[0].n; i++)
		if (c->node[0].log[i].type == DDR_OUT_MCAST && !ddr_msg_decode(c->node[0].log[i].msg, c->node[0].log[i].msg_len, &msg) &&
		    msg.type == DDR_M_HELLO)
			before = msg.epoch + 1;
	cx_forget(c);
	c->answers = CX_ALL;
	cx_view(c, 7, 7, true);
	cx_settle(c);
	cx_forget(c);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	for (uint32_t i = 0; i < c->node[1].n; i++)
		if (c->node[1].log[i].type == DDR_OUT_MCAST && !ddr_msg_decode(c->node[1].log[i].msg, c->node[1].log[i].msg_len, &msg) &&
		    msg.type == DDR_M_HELLO)
			after = msg.epoch;
	assert_true(before && after > before);
	all_go_on(c, 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_agreement_that_nobody_heard_of_is_taken_back), TEST(nodes_that_agreed_alone_one_after_the_other_resume),
		TEST(messages_of_a_withdrawn_agreement_are_not_repeated_in_that_ring), TEST(a_loss_has_the_same_number_on_all_nodes), TEST(a_node_that_agreed_alone_and_was_left_behind_is_evicted),
		TEST(a_node_alone_with_an_epoch_yields_to_the_majority), TEST(an_epoch_that_others_agreed_on_counts), TEST(an_agreement_that_lost_a_node_stands),
		TEST(an_epoch_that_was_taken_back_does_not_return),
	};

	return cmocka_run_group_tests_name("state machine: epochs", tests, NULL, NULL);
}
