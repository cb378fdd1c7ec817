// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Members that fail in jobs of the daemon, and what an array that has failed leaves behind: a disk that fails a write or a flush is
 * failed, or the array has failed; no node writes where a job's write may still land; and requests that wait for a range get its
 * error.
 */
#include <errno.h>

#include "sm-fixture.h"

static const struct rig_geometry with_spare = { .order = 2, .parity = 1, .blocks = 4096, .region_blocks = 256, .slots = 4, .spares = 1 };

static int setup(void **state)
{
	return fx_setup(state, &fx_five);
}

static int setup_spare(void **state)
{
	return fx_setup(state, &with_spare);
}

/* A write failed in the region, through no fault of a member: the region is resynced. The job is outstanding. */
static const struct ddr_output *resync(struct fx *f, uint64_t region)
{
	f->answers = FX_MSG | FX_KERNEL;
	fx_lock(f, region, 1);
	fx_answer_all_but_jobs(f);
	fx_closed(f, region, 1, -5);
	fx_answer_all_but_jobs(f);
	return fx_job(f);
}

static uint32_t flushes;		/* of the hard ones: those that failed a flush */

static void job_fails(struct fx *f, uint32_t members, uint32_t hard, int result)
{
	uint32_t i = fx_open_io(f, DDR_OUT_JOB_RANGE);
	struct ddr_input in = { .type = DDR_IN_JOB_DONE, .io = f->log[i].io, .failed_members = members, .members = hard, .flush_members = flushes,
				.result = result };

	f->open[i] = false;
	fx_step(f, &in);
	fx_settle(f);
	fx_answer_all_but_jobs(f);
}

static uint32_t released(const struct fx *f)
{
	return fx_count(f, DDR_OUT_KERNEL, DDR_U_RELEASE);
}

/* The first member has failed, and no other can be spared. */
static void one_is_out(struct fx *f)
{
	fx_error(f, 5, 0, DDR_EC_IO, DDR_OP_WRITE);
	fx_answer_all_but_jobs(f);
	assert_true(fx_status(f).degraded);
}

/* Finding S24: the operation that failed is reported and counted as what it was, with its error. */
static void the_failed_operation_is_reported(void **state)
{
	static const struct { uint32_t hard, flush; int result; uint64_t op, class; } cases[] = {
		{ 0, 0, -EIO, DDR_OP_READ, DDR_EC_IO }, { 1, 0, -EIO, DDR_OP_WRITE, DDR_EC_IO }, { 1, 1, -EIO, DDR_OP_FLUSH, DDR_EC_IO },
		{ 1, 0, -ETIMEDOUT, DDR_OP_WRITE, DDR_EC_TIMEOUT }, { 0, 0, -ETIMEDOUT, DDR_OP_READ, DDR_EC_TIMEOUT },
	};
	struct fx *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct ddr_output *e;

		resync(f, 2);
		flushes = cases[i].flush << 3;
		job_fails(f, 1u << 3, cases[i].hard << 3, cases[i].result);
		flushes = 0;
		e = &f->log[fx_event(f, DDR_EV_MEMBER_ERROR)];
		assert_int_equal(e->member, 3);
		assert_int_equal(e->b, cases[i].op);
		assert_int_equal(e->a, cases[i].class);
		assert_int_equal(fx_status(f).err_read[3], cases[i].op == DDR_OP_READ);
		assert_int_equal(fx_status(f).err_write[3], cases[i].op != DDR_OP_READ);
		fx_teardown(state);
		assert_int_equal(setup(state), 0);
		f = *state;
	}
}

/* Finding S24: a write of the daemon itself that fails counts as an error of the member as well. */
static void a_log_write_that_fails_is_counted(void **state)
{
	struct fx *f = *state;

	fx_forget(f);
	f->answers = FX_MSG | FX_KERNEL;
	fx_lock(f, 3, 1);
	fx_done(f, fx_open_io(f, DDR_OUT_LOG_WRITE), 1u << 2, 0, 0);
	fx_settle(f);
	assert_int_equal(fx_status(f).err_write[2], 1);
	assert_int_equal(fx_status(f).err_read[2], 0);
	fx_done(f, fx_open_io(f, DDR_OUT_SB_WRITE), 1u << 1, 0, 0);
	assert_int_equal(fx_status(f).err_write[1], 1);
	fx_answer_all_but_jobs(f);
}

/* The device was found to be another disk, so the rest of the job did not reach it: no error of the member, which may be a good one. */
static void a_job_on_an_exchanged_disk_is_no_error_of_the_member(void **state)
{
	struct fx *f = *state;

	resync(f, 2);
	fx_step(f, &(struct ddr_input){ .type = DDR_IN_EXCHANGED, .member = 3 });
	job_fails(f, 1u << 3, 1u << 3, -EBADF);
	assert_int_equal(fx_event(f, DDR_EV_MEMBER_ERROR), -1);
	fx_answer_all_but_jobs(f);
	assert_int_equal(fx_status(f).member_state[3], DDR_MEMBER_FAULTY);
	assert_int_equal(fx_status(f).err_write[3], 0);
}

/* A mark that was on its way there likewise. */
static void a_mark_on_an_exchanged_disk_is_no_error_of_the_member(void **state)
{
	struct fx *f = *state;

	fx_forget(f);
	f->answers = FX_MSG | FX_KERNEL;
	fx_lock(f, 3, 1);
	fx_step(f, &(struct ddr_input){ .type = DDR_IN_EXCHANGED, .member = 2 });
	fx_done(f, fx_open_io(f, DDR_OUT_LOG_WRITE), 1u << 2, 0, 0);
	f->answers = FX_ALL;
	fx_settle(f);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_FAULTY);
	assert_int_equal(fx_status(f).err_write[2], 0);
}

/* Its cache may be lost, with data that the file system had flushed in other regions. */
static void a_flush_that_fails_in_a_job_fails_its_member(void **state)
{
	struct fx *f = *state;

	resync(f, 2);
	job_fails(f, 1u << 4, 1u << 4, -5);
	assert_int_equal(fx_status(f).member_state[4], DDR_MEMBER_FAULTY);
}

/* Rule 3, where the array cannot do without it: then it has failed, and nothing is cleared. */
static void a_flush_that_fails_on_a_needed_member_fails_the_array(void **state)
{
	struct ddr_input hot = { .type = DDR_IN_OP_SET, .key = DDR_SM_HOT_SPARE, .value = 1 };
	struct fx *f = *state;
	uint64_t now = 0;
	int job = -1;

	fx_step(f, &hot);
	for (uint64_t r = 0; r < 16; r++)
		fx_lock(f, r, 1);
	f->answers = FX_MSG | FX_KERNEL;
	fx_error(f, 5, 0, DDR_EC_IO, DDR_OP_WRITE);
	while (ddr_sm_super(f->sm)->member[5].cursor < 1024) {		/* the spare is rebuilt so far */
		int table = fx_find_open(f, DDR_OUT_TABLE);

		fx_answer_all_but_jobs(f);
		if (table >= 0) {
			struct ddr_input done = { .type = DDR_IN_TABLE_DONE, .member = f->log[table].member, .value = f->log[table].index };

			f->open[table] = false;
			fx_step(f, &done);
			fx_settle(f);
		}
		job = fx_find_open(f, DDR_OUT_JOB_RANGE);
		if (job >= 0)
			fx_done(f, (uint32_t)job, 0, 0, 0);
		fx_tick(f, now += 100);
		assert_true(now < 100000);
	}
	fx_closed(f, 0, 1, -5);
	for (job = -1; job < 0 || f->log[job].job != DDR_KA_RESYNC; job = fx_find_open(f, DDR_OUT_JOB_RANGE)) {
		fx_answer_all_but_jobs(f);
		if (job >= 0)
			fx_done(f, (uint32_t)job, 0, 0, 0);
		fx_tick(f, now += 1000);
		assert_true(now < 100000);
	}
	job_fails(f, 1u << 4, 1u << 4, -5);
	assert_true(fx_status(f).failed);
}

/* A read may fail: its purpose is tried again, and the array goes on. */
static void a_read_that_fails_is_tried_again(void **state)
{
	struct fx *f = *state;

	resync(f, 2);
	one_is_out(f);
	job_fails(f, 1u << 4, 0, -5);
	assert_false(fx_status(f).failed);
	assert_int_equal(fx_status(f).member_state[4], DDR_MEMBER_IN_SYNC);
	assert_true(released(f) > 0);
	assert_true(fx_status(f).resync_regions > 0);
}

/* The member is needed, and a write to it may still land: no node writes there any more. */
static void no_node_writes_where_a_failed_write_may_still_land(void **state)
{
	struct fx *f = *state;

	resync(f, 2);
	one_is_out(f);
	assert_true(fx_status(f).degraded);
	job_fails(f, 1u << 4, 1u << 4, -ETIMEDOUT);
	for (uint64_t now = 1000; now < 60000; now += 1000)
		fx_tick(f, now);
	assert_true(fx_status(f).failed);
	assert_int_equal(released(f), 0);
}

/* If the array can do without the member, the member fails, and the range ends with it. */
static void a_range_ends_with_the_failed_member_if_the_array_can_lose_it(void **state)
{
	struct fx *f = *state;

	resync(f, 2);
	job_fails(f, 1u << 4, 1u << 4, -ETIMEDOUT);
	assert_int_equal(fx_status(f).member_state[4], DDR_MEMBER_FAULTY);
	assert_true(released(f) > 0);
	assert_false(fx_status(f).failed);
}

/* Requests that wait for a range of an array that has failed get an error, and do not wait forever. */
static void a_failed_array_gives_its_ranges_back(void **state)
{
	struct fx *f = *state;

	resync(f, 2);
	one_is_out(f);
	fx_error(f, 6, 1, DDR_EC_IO, DDR_OP_WRITE);
	assert_true(fx_status(f).failed);
	assert_int_equal(released(f), 0);		/* its job works still */
	job_fails(f, 3, 0, -5);
	assert_int_equal(released(f), fx_count(f, DDR_OUT_KERNEL, DDR_U_DRAIN));
	/* nor does it report them to a kernel that binds later */
	fx_forget(f);
	fx_step(f, &(struct ddr_input){ .type = DDR_IN_K_DETACHED });
	fx_attach(f, 7, 0, 0);
	assert_int_equal(fx_count(f, DDR_OUT_KERNEL, DDR_U_DRAIN), 0);
}

/* The same for a read that did not fit, whose range was requested and never granted. */
static void a_read_that_did_not_fit_is_answered(void **state)
{
	struct fx *f = *state;

	fx_lock(f, 2, 1);
	fx_closed(f, 2, 1, 0);
	fx_tick(f, 100);
	assert_int_equal(ddr_sm_region(f->sm, 2), DDR_REGION_CLEAN);
	fx_forget(f);
	f->answers = FX_MSG;
	fx_record(f, (struct ddr_rec){ .type = DDR_K_MISMATCH, .seq = 9, .start = 512, .count = 1 });
	fx_settle(f);
	assert_true(fx_kernel(f, DDR_U_DRAIN) >= 0);
	f->answers = FX_ALL & ~FX_KERNEL;
	fx_error(f, 5, 0, DDR_EC_IO, DDR_OP_FLUSH);
	fx_error(f, 6, 1, DDR_EC_IO, DDR_OP_FLUSH);
	assert_true(fx_status(f).failed);
	for (int i = 0, n = 0; n < 3; n++) {
		i = fx_find_nth(f, DDR_OUT_KERNEL, DDR_U_RESOLVE, (uint32_t)n);
		assert_true(i >= 0);
		if (f->log[i].rec.seq == 9)
			return;
	}
	fail_msg("the read that did not fit was not answered");
}

/* One node: its log does without the member as soon as the superblocks do, though the kernel has a write that hangs there. */
static void the_log_does_not_wait_for_a_member_that_hangs(void **state)
{
	struct fx *f = *state;

	fx_lock(f, 0, 1);
	fx_forget(f);
	f->answers = FX_MSG;			/* APPLIED does not arrive */
	fx_lock(f, 3, 1);
	fx_done(f, fx_open_io(f, DDR_OUT_LOG_WRITE), 1u << 2, 0, 0);
	fx_settle(f);
	assert_int_equal(fx_kernel(f, DDR_U_GRANT), -1);
	fx_done(f, fx_open_io(f, DDR_OUT_SB_WRITE), 0, 0, 0);
	fx_settle(f);
	fx_lock(f, 5, 1);
	fx_answer_all_but_jobs(f);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_FAULTY);
	assert_int_equal(fx_count(f, DDR_OUT_KERNEL, DDR_U_GRANT), 2);
	/* it was told earlier that the member has failed */
	assert_true(fx_kernel(f, DDR_U_MEMBER) >= 0 && fx_kernel(f, DDR_U_MEMBER) < fx_kernel(f, DDR_U_GRANT));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_failed_operation_is_reported), TEST(a_log_write_that_fails_is_counted),
		TEST(a_job_on_an_exchanged_disk_is_no_error_of_the_member), TEST(a_mark_on_an_exchanged_disk_is_no_error_of_the_member),
		TEST(a_flush_that_fails_in_a_job_fails_its_member), cmocka_unit_test_setup_teardown(a_flush_that_fails_on_a_needed_member_fails_the_array, setup_spare, fx_teardown),
		TEST(a_read_that_fails_is_tried_again), TEST(no_node_writes_where_a_failed_write_may_still_land), TEST(a_range_ends_with_the_failed_member_if_the_array_can_lose_it),
		TEST(a_failed_array_gives_its_ranges_back), TEST(a_read_that_did_not_fit_is_answered), TEST(the_log_does_not_wait_for_a_member_that_hangs),
	};

	return cmocka_run_group_tests_name("state machine: failures in jobs, failed arrays", tests, NULL, NULL);
}
