// SPDX-License-Identifier: GPL-2.0-or-later
/* Exclusive ranges: drains, acknowledgements of all nodes of the view, jobs, release, and what happens in between. */
#include "sm-cluster.h"
#include "sm-fixture.h"

static int setup(void **state)
{
	return fx_setup(state, &fx_five);
}

/* A write in region 3 failed: its resync asks for one range. */
static void want_resync(struct fx *f)
{
	fx_lock(f, 3, 1);
	fx_forget(f);
	f->answers = FX_IO;
	fx_closed(f, 3, 1, -5);
}

static void deliver(struct fx *f, enum ddr_msg_type type)
{
	struct ddr_msg m;
	uint32_t i = fx_sent(f, type, &m);
	struct ddr_output copy = f->log[i];

	f->open[i] = false;
	fx_message(f, 1, copy.msg, copy.msg_len);
}

static void rule_5_the_order_of_a_range(void **state)
{
	struct fx *f = *state;
	struct ddr_msg m;

	want_resync(f);
	f->answers = 0;
	fx_sent(f, DDR_M_EX_REQUEST, &m);
	assert_int_equal(m.ex.start, 3 * 256);
	assert_int_equal(m.ex.count, 256);
	assert_int_equal(fx_kernel(f, DDR_U_DRAIN), -1);
	deliver(f, DDR_M_EX_REQUEST);
	assert_true(fx_kernel(f, DDR_U_DRAIN) >= 0);
	fx_tick(f, 10);
	assert_int_equal(fx_count(f, DDR_OUT_MCAST, 0), 1);		/* no acknowledgement yet */
	fx_kernel_answer(f, (uint32_t)fx_kernel(f, DDR_U_DRAIN));
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 0);
	fx_sent(f, DDR_M_EX_ACK, &m);
	assert_int_equal(m.ex_ack.dirty, 1);				/* note 16 */
	deliver(f, DDR_M_EX_ACK);
	assert_int_equal(f->log[fx_open_io(f, DDR_OUT_JOB_RANGE)].job, DDR_KA_RESYNC);
	assert_int_equal(fx_kernel(f, DDR_U_RELEASE), -1);
	fx_done(f, fx_open_io(f, DDR_OUT_JOB_RANGE), 0, 0, 0);
	assert_int_equal(fx_kernel(f, DDR_U_RELEASE), -1);
	deliver(f, DDR_M_EX_RELEASE);
	assert_int_equal(f->log[fx_kernel(f, DDR_U_RELEASE)].rec.seq, f->log[fx_kernel(f, DDR_U_DRAIN)].rec.seq);
}

/* ---- two nodes ------------------------------------------------------------------ */

static int two_nodes(void **state)
{
	return cx_setup(state, 2);
}

/* The same as want_resync(), on the first of two nodes. */
static void first_wants_resync(struct cx *c)
{
	struct ddr_rec rec = { .type = DDR_K_LOCK, .seq = 900, .start = 3, .count = 1 };

	cx_record(c, 0, rec);
	cx_settle(c);
	cx_forget(c);
	c->answers = CX_IO | CX_KERNEL;
	rec.type = DDR_K_CLOSED;
	rec.status = -5;
	cx_record(c, 0, rec);
	cx_settle(c);
}

/* Delivers to the node what was sent so far. */
static void deliver_to(struct cx *c, uint32_t i)
{
	for (uint32_t n = c->node[i].n_queue; n; n--)
		cx_deliver(c, &c->node[i], NULL);
	cx_settle(c);
}

static bool job_runs(const struct cx *c)
{
	return cx_find(&c->node[0], DDR_OUT_JOB_RANGE, 0) >= 0;
}

static void rule_5_all_of_the_view_acknowledge(void **state)
{
	struct cx *c = *state;

	first_wants_resync(c);
	deliver_to(c, 0);		/* the request, */
	deliver_to(c, 0);		/* and our acknowledgement: it is not enough */
	assert_false(job_runs(c));
	deliver_to(c, 1);
	assert_false(job_runs(c));
	deliver_to(c, 0);
	assert_true(job_runs(c));
}

static void a_node_that_left_counts_until_it_is_fenced(void **state)
{
	struct cx *c = *state;

	first_wants_resync(c);
	deliver_to(c, 0);
	deliver_to(c, 0);
	cx_kill(c, 1);
	c->answers = CX_ALL;
	cx_view(c, 1, 1, true);
	cx_settle(c);
	assert_false(job_runs(c));
	cx_fenced(c, &c->node[0], cx_open(&c->node[0], DDR_OUT_FENCE), 0);
	cx_settle(c);
	assert_true(job_runs(c));
}

/* The records of a type that the second node has sent to its kernel. */
static uint32_t second_kernel(const struct cx *c, uint32_t type)
{
	const struct cx_node *n = &c->node[1];
	uint32_t count = 0;

	for (uint32_t i = 0; i < n->n; i++)
		count += n->log[i].type == DDR_OUT_KERNEL && n->log[i].rec.type == type;
	return count;
}

static void a_range_of_another_node_is_served(void **state)
{
	struct cx *c = *state;
	struct cx_node *other = &c->node[1];
	struct ddr_msg m;
	uint32_t drain;

	first_wants_resync(c);
	assert_null(ddr_msg_decode(other->queue[0].bytes, other->queue[0].len, &m));
	assert_int_equal(m.type, DDR_M_EX_REQUEST);
	c->answers = CX_IO;
	deliver_to(c, 1);
	drain = (uint32_t)cx_find(other, DDR_OUT_KERNEL, DDR_U_DRAIN);
	assert_int_equal(other->log[drain].rec.start, 3 * 256);
	assert_int_equal(cx_find(other, DDR_OUT_MCAST, 0), -1);
	cx_kernel_answer(c, other, drain);
	assert_null(ddr_msg_decode(other->log[cx_find(other, DDR_OUT_MCAST, 0)].msg, other->log[cx_find(other, DDR_OUT_MCAST, 0)].msg_len, &m));
	assert_int_equal(m.type, DDR_M_EX_ACK);
	assert_int_equal(m.ex_ack.owner, 1);
	c->answers = CX_ALL;
	cx_settle(c);
	assert_int_equal(second_kernel(c, DDR_U_DRAIN), 1);
	assert_int_equal(second_kernel(c, DDR_U_RELEASE), 1);
}

/* A request that overlaps a range in force is refused, by all nodes alike, and asked for again when the range has ended. */
static void a_range_that_overlaps_one_in_force_is_refused(void **state)
{
	struct cx *c = *state;
	struct ddr_rec rec = { .type = DDR_K_LOCK, .seq = 901, .start = 3, .count = 1 };
	uint32_t job;

	cx_record(c, 1, rec);		/* both nodes write to region 3, and both writes fail */
	cx_settle(c);
	first_wants_resync(c);
	c->answers = CX_MSG | CX_KERNEL;
	cx_settle(c);
	job = cx_open(&c->node[0], DDR_OUT_JOB_RANGE);
	rec.type = DDR_K_CLOSED;
	rec.status = -5;
	cx_record(c, 1, rec);
	cx_settle(c);
	assert_int_equal(cx_find(&c->node[1], DDR_OUT_JOB_RANGE, 0), -1);
	cx_done(c, &c->node[0], job);
	cx_settle(c);
	assert_true(cx_find(&c->node[1], DDR_OUT_JOB_RANGE, 0) >= 0);
}

/* ---- one node ------------------------------------------------------------------- */

static void rule_7_a_job_over_a_rebound_kernel_does_not_count(void **state)
{
	struct fx *f = *state;
	uint32_t job;

	want_resync(f);
	f->answers = FX_MSG | FX_KERNEL;
	fx_settle(f);
	job = fx_open_io(f, DDR_OUT_JOB_RANGE);
	fx_attach(f, 7, 0, 0);		/* the range is drained again for its last part */
	assert_int_equal(fx_count(f, DDR_OUT_KERNEL, DDR_U_DRAIN), 2);
	fx_done(f, job, 0, 0, 0);
	f->answers = FX_ALL;
	fx_settle(f);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 2);
	assert_int_equal(fx_status(f).resync_regions, 0);
}

static void note_17_a_failure_ends_ranges_that_wait(void **state)
{
	struct fx *f = *state;

	want_resync(f);
	f->answers = FX_MSG;
	fx_settle(f);
	assert_true(fx_kernel(f, DDR_U_DRAIN) >= 0);	/* it waits for a write that waits for this: */
	fx_error(f, 9, 4, DDR_EC_IO, DDR_OP_WRITE);
	assert_true(fx_kernel(f, DDR_U_RELEASE) >= 0);
	f->answers = FX_ALL;
	fx_settle(f);
	assert_int_equal(f->log[fx_kernel(f, DDR_U_RESOLVE)].rec.arg[0], DDR_RES_RETRY);
	assert_int_equal(fx_status(f).resync_regions, 0);
}

static void a_job_that_fails_for_no_members_fault_is_tried_later(void **state)
{
	struct fx *f = *state;

	fx_tick(f, 1000);
	want_resync(f);
	f->answers = FX_MSG | FX_KERNEL;
	fx_settle(f);
	fx_done(f, fx_open_io(f, DDR_OUT_JOB_RANGE), 0, -12, 0);
	f->answers = FX_ALL;
	fx_settle(f);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 1);
	assert_int_equal(fx_status(f).resync_regions, 1);
	fx_tick(f, 7000);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 2);
	assert_int_equal(fx_status(f).resync_regions, 0);
}

static void a_member_that_fails_in_a_job_goes(void **state)
{
	struct fx *f = *state;

	want_resync(f);
	f->answers = FX_MSG | FX_KERNEL;
	fx_settle(f);
	fx_done(f, fx_open_io(f, DDR_OUT_JOB_RANGE), 1u << 4, -5, 0);
	f->answers = FX_ALL;
	fx_settle(f);
	assert_int_equal(fx_status(f).member_state[4], DDR_MEMBER_FAULTY);
	assert_int_equal(fx_status(f).resync_regions, 0);
	assert_int_equal(fx_status(f).suspect, 0);	/* the data members are all there */
}

/* A bad sector in the data costs the parity of its block, not the member and not its neighbours. */
static void a_bad_sector_in_a_job(void **state)
{
	struct fx *f = *state;

	want_resync(f);
	f->answers = FX_MSG | FX_KERNEL;
	fx_settle(f);
	for (int left = 400; left && fx_status(f).resync_regions; left--) {
		int at = -1;

		f->answers = FX_MSG | FX_KERNEL;
		fx_settle(f);
		for (uint32_t i = 0; i < f->n; i++)
			at = f->open[i] && f->log[i].type == DDR_OUT_JOB_RANGE ? (int)i : at;
		if (at >= 0 && f->log[at].start <= 800 && f->log[at].start + f->log[at].count > 800)
			fx_done(f, (uint32_t)at, 2, -61, 0);
		else if (at >= 0)
			fx_done(f, (uint32_t)at, 0, 0, 0);
		f->answers = FX_ALL;
		for (uint32_t i = 0; at < 0 && i < f->n; i++)
			if (f->open[i] && fx_is_io(&f->log[i]))
				fx_done(f, i, 0, 0, 0);
		if (f->n > FX_MAX / 2)
			fail_msg("it does not end");
	}
	f->answers = FX_ALL;
	fx_settle(f);
	assert_int_equal(fx_status(f).resync_regions, 0);
	assert_int_equal(fx_status(f).suspect, 1);
	assert_int_equal(fx_status(f).member_state[1], DDR_MEMBER_IN_SYNC);
}

static void ranges_never_cross_a_turn_when_degraded(void **state)
{
	const struct rig_geometry turning = { .order = 2, .parity = 2, .layout = DDR_LAYOUT_ROTATING, .blocks = 8192,
					      .region_blocks = 2048 };
	struct fx *f = *state;

	fx_down(f);
	fx_up(f, &turning);
	fx_error(f, 9, 1, DDR_EC_IO, DDR_OP_WRITE);
	fx_lock(f, 1, 1);
	fx_forget(f);
	fx_closed(f, 1, 1, -5);
	assert_true(fx_count(f, DDR_OUT_JOB_RANGE, 0) > 0);
	for (int i = 0, at; (at = fx_find_nth(f, DDR_OUT_JOB_RANGE, 0, (uint32_t)i)) >= 0; i++) {
		assert_int_equal(f->log[at].start % 256, 0);
		assert_int_equal(f->log[at].count, 256);
	}
	assert_int_equal(fx_status(f).suspect, 1);	/* in some turns the missing one held data */
	assert_int_equal(fx_status(f).resync_regions, 0);
}

static void ranges_are_bounded_and_parallel(void **state)
{
	const struct rig_geometry big = { .order = 2, .parity = 1, .blocks = 8192, .region_blocks = 2048 };
	struct ddr_input in = { .type = DDR_IN_OP_SET, .key = DDR_SM_RESYNC_PARALLEL, .value = 8 };
	struct fx *f = *state;

	fx_down(f);
	fx_up(f, &big);
	fx_step(f, &in);
	fx_lock(f, 0, 4);
	fx_forget(f);
	f->answers = FX_MSG | FX_KERNEL;
	fx_closed(f, 0, 4, -5);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 8);
	for (int i = 0; i < 8; i++)
		assert_int_equal(f->log[fx_find_nth(f, DDR_OUT_JOB_RANGE, 0, (uint32_t)i)].count, 512);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fx_teardown)
#define TEST_2(name) cmocka_unit_test_setup_teardown(name, two_nodes, cx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(rule_5_the_order_of_a_range), TEST_2(rule_5_all_of_the_view_acknowledge),
		TEST_2(a_node_that_left_counts_until_it_is_fenced), TEST_2(a_range_of_another_node_is_served),
		TEST_2(a_range_that_overlaps_one_in_force_is_refused),
		TEST(rule_7_a_job_over_a_rebound_kernel_does_not_count), TEST(note_17_a_failure_ends_ranges_that_wait),
		TEST(a_job_that_fails_for_no_members_fault_is_tried_later), TEST(a_member_that_fails_in_a_job_goes),
		TEST(a_bad_sector_in_a_job), TEST(ranges_never_cross_a_turn_when_degraded), TEST(ranges_are_bounded_and_parallel),
	};

	return cmocka_run_group_tests_name("state machine: exclusive ranges and jobs", tests, NULL, NULL);
}
