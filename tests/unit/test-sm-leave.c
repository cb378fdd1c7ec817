// SPDX-License-Identifier: GPL-2.0-or-later
/* Nodes that leave before they have begun: who owns their slots then, in memory and on the disks, and what becomes of their marks. */
#include "sm-cluster.h"

static int setup(void **state)
{
	return cx_setup(state, 4);
}

static bool sent(const struct cx_node *n, enum ddr_msg_type type, struct ddr_msg *msg)
{
	for (uint32_t k = n->n; k-- > 0;)
		if (n->log[k].type == DDR_OUT_MCAST && !ddr_msg_decode(n->log[k].msg, n->log[k].msg_len, msg) && msg->type == type)
			return true;
	return false;
}

/* The operator stops the array on a node whose kernel has nothing open. */
static void leaves(struct cx *c, uint32_t i)
{
	cx_op(c, i, DDR_IN_OP_CLEAN, 0);
	cx_settle(c);
	cx_op(c, i, DDR_IN_K_DETACHED, 0);
	cx_op(c, i, DDR_IN_OP_LEAVE, 0);
	cx_settle(c);
	assert_true(cx_event(&c->node[i], DDR_EV_LEFT) >= 0);
}

/* Node 3 was writing in region 3 when its power failed. It is back, and no slot is read, since node 4 is lost as well. */
static void dirty_owner_is_back(struct cx *c)
{
	cx_record(c, 2, (struct ddr_rec){ .type = DDR_K_LOCK, .start = 3, .count = 1 });
	cx_settle(c);
	assert_int_equal(ddr_log_get(c->disk[2].payload, 3), 1);
	cx_kill(c, 2);
	cx_kill(c, 3);
	cx_view(c, 3, 3, false);
	cx_settle(c);
	c->node[2].cookie++;
	cx_start(c, 2, 0, 0);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	assert_false(cx_status(&c->node[2]).joined);
}

/*
 * Note 52: a node says that it misses nobody, so that the version may move up, once all have agreed on the view. Who is lost is missed until it was fenced;
 * who has left is not.
 */
static void who_is_missed(void **state)
{
	struct cx *c = *state;

	for (uint32_t i = 0; i < 4; i++)
		assert_true(ddr_sm_complete(c->node[i].sm));
	cx_kill(c, 3);
	cx_view(c, 7, 7, true);
	assert_false(ddr_sm_complete(c->node[0].sm));	/* nobody has said hello */
	cx_settle(c);
	cx_tick(c, 600000);
	for (uint32_t i = 0; i < 3; i++)
		assert_false(ddr_sm_complete(c->node[i].sm));
	c->answers = CX_ALL | CX_FENCE;
	cx_settle(c);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(ddr_sm_complete(c->node[i].sm));
	leaves(c, 2);
	cx_kill(c, 2);
	cx_view(c, 3, 7, true);
	cx_settle(c);
	assert_true(ddr_sm_complete(c->node[0].sm) && ddr_sm_complete(c->node[1].sm));
	cx_view(c, 3, 3, false);
	cx_settle(c);
	assert_false(ddr_sm_complete(c->node[0].sm) || ddr_sm_complete(c->node[1].sm));
}

/*
 * The disks name it as an owner, so the others would fence it although it has not begun. They cannot know this of a node that has not
 * heard from the group yet.
 */
static void the_owner_of_a_slot_takes_part_before_its_start(void **state)
{
	struct cx *c = *state;

	assert_true(ddr_sm_takes_part(c->node[2].sm));
	cx_kill(c, 3);
	c->node[3].cookie++;
	cx_start(c, 3, 0, 0);
	assert_false(ddr_sm_takes_part(c->node[3].sm));
	cx_kill(c, 3);
	dirty_owner_is_back(c);
	assert_true(ddr_sm_takes_part(c->node[2].sm));
}

/* Rule 12: it has not read its dirty log, so it does not know what is dirty; the remaining nodes read it. */
static void a_node_that_has_not_read_its_slot_leaves_its_marks(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[2];
	struct ddr_msg msg;

	assert_int_equal(c->sb.slot_node[2], 3);
	dirty_owner_is_back(c);
	leaves(c, 2);
	assert_true(n->log[cx_event(n, DDR_EV_CLEAN)].a == UINT64_MAX);
	assert_true(sent(n, DDR_M_LEAVE, &msg));
	assert_true(msg.leave.dirty != 0);
	cx_kill(c, 2);
	cx_view(c, 3, 7, true);
	c->answers = CX_ALL | CX_FENCE;
	cx_settle(c);
	cx_tick(c, 31000);
	assert_true(cx_event(&c->node[0], DDR_EV_NODE_LEFT) >= 0);
	assert_true(cx_event(&c->node[0], DDR_EV_RECOVERY) >= 0);	/* its marks were found, and taken over */
	for (uint32_t i = 0; i < c->node[0].n; i++)
		assert_false(c->node[0].log[i].type == DDR_OUT_FENCE && c->node[0].log[i].node == 3);
	assert_int_equal(ddr_log_get(c->disk[2].payload, 3), 0);
	assert_true(cx_status(&c->node[0]).resync_regions || cx_status(&c->node[0]).resync_done);
}

/* By the disks, and by every node that is up. */
static void owners_are(struct cx *c, const uint32_t owner[CX_SLOTS])
{
	for (uint32_t s = 0; s < CX_SLOTS; s++) {
		assert_int_equal(c->sb.slot_node[s], owner[s]);
		for (uint32_t i = 0; i < CX_NODES; i++)
			if (c->node[i].sm)
				assert_int_equal(ddr_sm_super(c->node[i].sm)->slot_node[s], owner[s]);
	}
}

static void nobody_was_fenced(const struct cx *c)
{
	for (uint32_t i = 0; i < CX_NODES; i++)
		assert_int_equal(cx_find(&c->node[i], DDR_OUT_FENCE, 0), -1);
}

/* The last writer dies; its successor finds on the disks the nodes that it knows. */
static void the_next_writer_goes_on(struct cx *c)
{
	cx_kill(c, 0);
	c->answers = CX_ALL | CX_FENCE;
	cx_view(c, 6, 14, true);
	cx_settle(c);
	cx_tick(c, 31000);
	assert_false(cx_status(&c->node[1]).gave_up || cx_status(&c->node[2]).gave_up);
	assert_true(cx_status(&c->node[1]).ready && cx_status(&c->node[2]).ready);
}

/*
 * A cluster of three, in which node 4 is about to begin: all have agreed on its claim, and the superblocks that record it are being
 * written (@writes) or not.
 */
static void fourth_claims(struct cx *c, bool writes)
{
	cx_down(c);
	cx_up(c, 3, true);
	c->node[3].cfg = c->node[2].cfg;
	c->node[3].cfg.node = 4;
	c->node[3].cookie = 7;
	if (!writes)
		cx_kill(c, 0);		/* the writer, and there is no other one before it is fenced */
	cx_start(c, 3, 0, 0);
	cx_view(c, writes ? 15 : 14, writes ? 15 : 14, true);
	c->answers = writes ? CX_MSG | CX_KERNEL : CX_ALL;
	cx_settle(c);
	assert_int_equal(c->sb.slot_node[3], 0);
	assert_int_equal(cx_sees(&c->node[1], 4).state, DDR_NS_ACTIVE);
}

/* The fourth leaves while superblocks that give it a slot are on their way. */
static void claim_lands_behind_its_node(struct cx *c)
{
	uint32_t at;

	fourth_claims(c, true);
	at = cx_open(&c->node[0], DDR_OUT_SB_WRITE);
	leaves(c, 3);
	cx_done(c, &c->node[0], at);
}

/* Superblocks that give it the slot are being written: they will be on the disks, and the next ones free the slot. */
static void a_claim_being_written_is_freed_after_it(void **state)
{
	struct cx *c = *state;

	claim_lands_behind_its_node(c);
	assert_int_equal(c->sb.slot_node[3], 4);
	c->answers = CX_ALL;
	cx_settle(c);
	cx_kill(c, 3);
	cx_view(c, 7, 15, true);
	cx_settle(c);
	cx_tick(c, 100);
	owners_are(c, (uint32_t[]){ 1, 2, 3, 0 });
	nobody_was_fenced(c);
	the_next_writer_goes_on(c);
}

/* The writer dies with them on their way, and they land. The next one knows that the slot is to be free. */
static void the_next_writer_frees_the_slot_of_a_node_that_left(void **state)
{
	struct cx *c = *state;

	claim_lands_behind_its_node(c);
	cx_kill(c, 3);
	the_next_writer_goes_on(c);
	owners_are(c, (uint32_t[]){ 1, 2, 3, 0 });
}

/* No write has begun: the claim is never written, so no later start waits for the node that left. */
static void a_claim_that_was_only_wanted_is_withdrawn(void **state)
{
	struct cx *c = *state;

	fourth_claims(c, false);
	leaves(c, 3);
	cx_kill(c, 3);
	c->answers = CX_MSG | CX_KERNEL | CX_FENCE;
	cx_view(c, 6, 14, true);
	cx_settle(c);
	cx_tick(c, 31000);
	for (uint32_t i = 1; i < 3; i++)
		for (uint32_t o = 0; o < c->node[i].n; o++) {
			if (!c->node[i].open[o] || !cx_is_io(&c->node[i].log[o]))
				continue;
			cx_done(c, &c->node[i], o);
			cx_settle(c);
			assert_int_equal(c->sb.slot_node[3], 0);
		}
	c->answers = CX_ALL;
	cx_settle(c);
	owners_are(c, (uint32_t[]){ 1, 2, 3, 0 });
	assert_true(cx_status(&c->node[1]).ready);
}

/* It is back before the superblocks are there, as another process: with the slot that it gave up, or any that is free. */
static void a_node_that_left_with_a_claim_may_start_again(void **state)
{
	struct cx *c = *state;
	uint32_t at;

	fourth_claims(c, true);
	at = cx_open(&c->node[0], DDR_OUT_SB_WRITE);
	leaves(c, 3);
	c->answers = CX_MSG | CX_KERNEL;
	cx_start(c, 3, 0, 0);
	cx_view(c, 15, 15, true);
	cx_settle(c);
	assert_false(cx_status(&c->node[3]).gave_up);
	cx_done(c, &c->node[0], at);
	c->answers = CX_ALL;
	cx_settle(c);
	cx_tick(c, 100);
	assert_true(cx_status(&c->node[3]).ready && cx_status(&c->node[3]).joined);
	owners_are(c, (uint32_t[]){ 1, 2, 3, 4 });
	nobody_was_fenced(c);
}

/* All four had slots; one is back after its daemon died, and leaves as its claim is being written. */
static void the_owner_of_a_slot_leaves_while_it_claims(void **state)
{
	struct cx *c = *state;
	uint32_t at;

	cx_start(c, 3, 0, 0);
	cx_forget(c);
	cx_view(c, 15, 15, true);
	c->answers = CX_MSG | CX_KERNEL;
	cx_settle(c);
	at = cx_open(&c->node[0], DDR_OUT_SB_WRITE);
	leaves(c, 3);
	cx_done(c, &c->node[0], at);
	c->answers = CX_ALL;
	cx_settle(c);
	cx_kill(c, 3);
	cx_view(c, 7, 15, true);
	cx_settle(c);
	cx_tick(c, 100);
	assert_int_equal(c->sb.slot_node[3], 4);	/* it is recovered, and stays its own */
	nobody_was_fenced(c);
	owners_are(c, (uint32_t[]){ 1, 2, 3, 4 });
	the_next_writer_goes_on(c);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, cx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(who_is_missed), TEST(the_owner_of_a_slot_takes_part_before_its_start), TEST(a_node_that_has_not_read_its_slot_leaves_its_marks), TEST(a_claim_being_written_is_freed_after_it), TEST(the_next_writer_frees_the_slot_of_a_node_that_left),
		TEST(a_claim_that_was_only_wanted_is_withdrawn), TEST(a_node_that_left_with_a_claim_may_start_again), TEST(the_owner_of_a_slot_leaves_while_it_claims),
	};

	return cmocka_run_group_tests_name("state machine: who leaves before it has begun", tests, NULL, NULL);
}
