// SPDX-License-Identifier: GPL-2.0-or-later
/* A kernel is unbound and bound again while ranges are in force: what its previous binding acknowledged, rule 5. */
#include "sm-cluster.h"

static int setup(void **state)
{
	return cx_setup(state, 3);
}

/* The kernel's answer to every record of the type that waits for one. */
static void kernel_answers(struct cx *c, uint32_t i, uint32_t type)
{
	struct cx_node *n = &c->node[i];

	for (uint32_t k = 0; k < n->n; k++)
		if (n->open[k] && n->log[k].type == DDR_OUT_KERNEL && n->log[k].rec.type == type)
			cx_kernel_answer(c, n, k);
}

/* Regions 0 and 1 are clean, by the map and by all kernels. */
static void two_are_clean(struct cx *c)
{
	for (uint64_t region = 0; region < 2; region++) {
		cx_record(c, 0, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 3, .start = region, .count = 1 });
		cx_settle(c);
		cx_record(c, 0, (struct ddr_rec){ .type = DDR_K_CLOSED, .start = region, .count = 1 });
		cx_settle(c);
	}
	cx_tick(c, 1000);
	cx_tick(c, 1000);
	assert_int_equal(cx_status(&c->node[0]).clean, 2);
	cx_forget(c);
}

/* The node requests a range with this block, and its kernel does not answer automatically any more: the others are asked, and drain. */
static void wants(struct cx *c, uint32_t i, uint64_t block)
{
	c->answers = CX_MSG;
	cx_record(c, i, (struct ddr_rec){ .type = DDR_K_MISMATCH, .seq = 9, .start = block, .count = 1 });
	cx_settle(c);
}

/* A range of node 1, which it and node 2 have acknowledged, and node 3 has not. */
static void two_of_three_acknowledge(struct cx *c)
{
	two_are_clean(c);
	wants(c, 0, 1);
	kernel_answers(c, 0, DDR_U_DRAIN);
	kernel_answers(c, 1, DDR_U_DRAIN);
	cx_settle(c);
}

static void detached(struct cx *c, uint32_t i)
{
	cx_op(c, i, DDR_IN_K_DETACHED, 0);
}

/* Another binding of the same kernel, which holds no region; it has heard of the members. */
static void attached(struct cx *c, uint32_t i)
{
	struct cx_node *n = &c->node[i];
	struct ddr_input in = { .type = DDR_IN_K_ATTACHED, .cookie = n->cookie, .boot_id[0] = 1,
				.members = n->cfg.present & ((1u << c->sb.roles) - 1), .count = c->sb.array_blocks };

	n->n = 0;		/* whatever the last binding was asked for */
	cx_step(c, n, &in);
	cx_record(c, i, (struct ddr_rec){ .type = DDR_K_HELD_END });
	cx_settle(c);
	kernel_answers(c, i, DDR_U_MEMBER);
	cx_settle(c);
}

static bool enabled(struct cx *c, uint32_t i)
{
	return cx_find(&c->node[i], DDR_OUT_KERNEL, DDR_U_ENABLE) >= 0;
}

static bool works(struct cx *c, uint32_t i)
{
	return cx_find(&c->node[i], DDR_OUT_JOB_RANGE, 0) >= 0;
}

/* ENABLE would release the bios that wait in the kernel for a range of its previous daemon; a job works in that range. */
static void enable_waits_for_a_job(void **state)
{
	struct cx *c = *state;

	two_are_clean(c);
	c->answers = CX_MSG | CX_KERNEL;
	cx_record(c, 0, (struct ddr_rec){ .type = DDR_K_MISMATCH, .seq = 9, .start = 1, .count = 1 });
	cx_settle(c);
	assert_true(works(c, 0));
	cx_start(c, 1, 0, 0);
	c->answers = CX_MSG;
	cx_view(c, 7, 7, true);
	cx_settle(c);
	cx_done(c, &c->node[0], cx_open(&c->node[0], DDR_OUT_SB_WRITE));
	cx_settle(c);
	kernel_answers(c, 1, DDR_U_MEMBER);
	cx_settle(c);
	cx_done(c, &c->node[1], cx_open(&c->node[1], DDR_OUT_SLOT_READ));
	cx_settle(c);
	assert_false(enabled(c, 1));
	kernel_answers(c, 1, DDR_U_DRAIN);
	cx_settle(c);
	assert_true(enabled(c, 1));
}

/* The acknowledgement of the last binding does not count if not all nodes had acknowledged: the job waits for that of the new binding. */
static void an_acknowledgement_is_taken_back(void **state)
{
	struct cx *c = *state;

	two_of_three_acknowledge(c);
	detached(c, 1);
	attached(c, 1);
	assert_true(enabled(c, 1));
	kernel_answers(c, 2, DDR_U_DRAIN);
	cx_settle(c);
	assert_false(works(c, 0));
	kernel_answers(c, 1, DDR_U_DRAIN);
	cx_settle(c);
	assert_true(works(c, 0));
}

/* Until all know that it does not count, the kernel keeps what the last binding drained: the job may begin meanwhile. */
static void enable_waits_until_acknowledgements_are_taken_back(void **state)
{
	struct cx *c = *state;

	two_of_three_acknowledge(c);
	c->answers = 0;
	kernel_answers(c, 2, DDR_U_DRAIN);	/* its acknowledgement is ordered before the withdrawal of the other's */
	detached(c, 1);
	attached(c, 1);
	assert_false(enabled(c, 1));
	c->answers = CX_MSG;
	cx_settle(c);
	assert_true(works(c, 0));
	assert_false(enabled(c, 1));
	cx_done(c, &c->node[0], cx_open(&c->node[0], DDR_OUT_JOB_RANGE));
	cx_settle(c);
	assert_true(enabled(c, 1));
}

/* The withdrawal is sent again in the next view if it was not delivered in the last one. */
static void an_acknowledgement_is_taken_back_in_the_next_view(void **state)
{
	struct cx *c = *state;

	two_of_three_acknowledge(c);
	c->answers = 0;
	detached(c, 1);
	cx_view(c, 7, 7, true);
	c->answers = CX_MSG;
	cx_settle(c);
	kernel_answers(c, 2, DDR_U_DRAIN);
	cx_settle(c);
	assert_false(works(c, 0));
	attached(c, 1);
	assert_true(enabled(c, 1));
}

/* Two are bound again at once, each with a range that all had acknowledged and in which no job had begun: neither waits for the other. */
static void two_rebinds_at_once(void **state)
{
	struct cx *c = *state;

	two_are_clean(c);
	wants(c, 0, 1);
	wants(c, 1, 300);
	kernel_answers(c, 0, DDR_U_DRAIN);
	kernel_answers(c, 1, DDR_U_DRAIN);
	cx_settle(c);
	c->answers = 0;
	kernel_answers(c, 2, DDR_U_DRAIN);
	detached(c, 0);
	detached(c, 1);
	c->answers = CX_MSG;
	cx_settle(c);
	assert_false(works(c, 0) || works(c, 1));
	attached(c, 0);
	attached(c, 1);
	assert_true(enabled(c, 0) && enabled(c, 1));
	wants(c, 0, 1);		/* the new binding meets the same blocks, and nothing of the last one is in the way */
	wants(c, 1, 300);
	for (uint32_t i = 0; i < 3; i++)
		kernel_answers(c, i, DDR_U_DRAIN);
	cx_settle(c);
	assert_true(works(c, 0) && works(c, 1));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, cx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(enable_waits_for_a_job), TEST(an_acknowledgement_is_taken_back), TEST(enable_waits_until_acknowledgements_are_taken_back),
		TEST(an_acknowledgement_is_taken_back_in_the_next_view), TEST(two_rebinds_at_once),
	};

	return cmocka_run_group_tests_name("state machine: a kernel that is bound anew", tests, NULL, NULL);
}
