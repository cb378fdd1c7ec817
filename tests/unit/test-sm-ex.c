// SPDX-License-Identifier: GPL-2.0-or-later
/* Exclusive ranges: drains, acknowledgements of all nodes of the view, jobs, release, and what happens in between. */
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

static void from_other(struct fx *f, struct ddr_msg *m)
{
	uint8_t buf[DDR_MSG_MAX];
	size_t len;

	m->sender = 2;
	m->ring = 2;
	memcpy(m->uuid, f->sb.array_uuid, sizeof(m->uuid));
	len = ddr_msg_encode(m, buf, sizeof(buf));
	assert_true(len > 0);
	fx_message(f, 2, buf, (uint32_t)len);
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

static void rule_5_all_of_the_view_acknowledge(void **state)
{
	struct ddr_msg m = { .type = DDR_M_EX_ACK };
	struct fx *f = *state;
	struct ddr_msg asked;

	fx_view(f, 2, true, 2);
	want_resync(f);
	f->answers = FX_MSG | FX_KERNEL | FX_IO;
	fx_sent(f, DDR_M_EX_REQUEST, &asked);
	fx_settle(f);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 0);		/* ours alone is not enough */
	m.ex_ack.owner = 1;
	m.ex_ack.id = asked.ex.id;
	from_other(f, &m);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 1);
}

static void a_node_that_left_counts_until_it_is_fenced(void **state)
{
	struct ddr_input in = { .type = DDR_IN_FENCED, .node = 2 };
	struct fx *f = *state;

	fx_view(f, 2, true, 2);
	want_resync(f);
	f->answers = FX_MSG | FX_KERNEL | FX_IO;
	fx_settle(f);
	fx_view(f, 1, true, 3);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 0);
	fx_step(f, &in);
	fx_settle(f);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 1);
}

static void a_range_of_another_node_is_served(void **state)
{
	struct ddr_msg m = { .type = DDR_M_EX_REQUEST }, ack;
	struct fx *f = *state;

	fx_view(f, 2, true, 2);
	fx_forget(f);
	f->answers = FX_MSG;
	m.ex.id = 5;
	m.ex.mode = DDR_EX_RANGE;
	m.ex.start = 512;
	m.ex.count = 512;
	from_other(f, &m);
	assert_int_equal(f->log[fx_kernel(f, DDR_U_DRAIN)].rec.start, 512);
	fx_tick(f, 10);
	assert_int_equal(fx_count(f, DDR_OUT_MCAST, 0), 0);
	fx_kernel_answer(f, (uint32_t)fx_kernel(f, DDR_U_DRAIN));
	fx_sent(f, DDR_M_EX_ACK, &ack);
	assert_int_equal(ack.ex_ack.owner, 2);
	assert_int_equal(ack.ex_ack.id, 5);
	m.ex.id = 6;
	m.ex.start = 1023;		/* overlaps: refused, on all nodes alike */
	from_other(f, &m);
	assert_int_equal(fx_count(f, DDR_OUT_KERNEL, DDR_U_DRAIN), 1);
	m.type = DDR_M_EX_RELEASE;
	m.ex_release.id = 5;
	from_other(f, &m);
	assert_true(fx_kernel(f, DDR_U_RELEASE) >= 0);
}

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
	const struct CMUnitTest tests[] = {
		TEST(rule_5_the_order_of_a_range), TEST(rule_5_all_of_the_view_acknowledge),
		TEST(a_node_that_left_counts_until_it_is_fenced), TEST(a_range_of_another_node_is_served),
		TEST(rule_7_a_job_over_a_rebound_kernel_does_not_count), TEST(note_17_a_failure_ends_ranges_that_wait),
		TEST(a_job_that_fails_for_no_members_fault_is_tried_later), TEST(a_member_that_fails_in_a_job_goes),
		TEST(a_bad_sector_in_a_job), TEST(ranges_never_cross_a_turn_when_degraded), TEST(ranges_are_bounded_and_parallel),
	};

	return cmocka_run_group_tests_name("state machine: exclusive ranges and jobs", tests, NULL, NULL);
}
