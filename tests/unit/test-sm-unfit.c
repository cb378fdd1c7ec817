// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A rebuild with two parities that meets a block of which another chunk is wrong without an error: what it was computed from does not match. The rebuild goes on, the
 * block is reported, and its region is suspect before the rebuild counts, but stays clean: no resync and no verify makes the parity match.
 */
#include <errno.h>

#include "sm-fixture.h"

#define REGION	256u
#define SPARE	6u
#define OUT	2u		/* the member that fails */
#define FIRST	4u		/* of three clean regions */

static uint64_t now;

/* Time passes. All is answered but jobs, and I/O of the type @but. */
static void pass_but(struct fx *f, uint64_t ms, enum ddr_out_type but)
{
	for (uint64_t end = now + ms; now < end; now += 20) {
		for (uint32_t i = 0; i < f->n; i++) {
			const struct ddr_output *o = &f->log[i];

			if (!f->open[i] || o->type == DDR_OUT_JOB_RANGE || o->type == but)
				continue;
			if (fx_is_io(o)) {
				fx_done(f, i, 0, 0, 0);
			} else if (o->type == DDR_OUT_TABLE) {
				f->open[i] = false;
				fx_step(f, &(struct ddr_input){ .type = DDR_IN_TABLE_DONE, .member = o->member, .value = o->index });
			}
			fx_settle(f);
		}
		fx_tick(f, now);
	}
}

static void pass(struct fx *f)
{
	pass_but(f, 1000, DDR_OUT_JOB_RANGE);
}

/* Three regions whose parity is known to match, one whose parity is not; a member fails, and a spare is to take its role. */
static int setup(void **state)
{
	struct ddr_input hot = { .type = DDR_IN_OP_SET, .key = DDR_SM_HOT_SPARE, .value = 1 };
	struct fx *f;

	fx_setup(state, &fx_six);
	f = *state;
	now = 1000;
	fx_make_clean(f, FIRST, 3);
	fx_lock(f, FIRST + 4, 1);
	fx_step(f, &hot);
	f->answers = FX_MSG | FX_KERNEL;
	fx_error(f, 5, OUT, DDR_EC_IO, DDR_OP_WRITE);
	pass(f);
	return 0;
}

/* There is a job for this region; it ends with so many blocks from the eighth on that do not match. */
static void rebuilt(struct fx *f, uint64_t region, uint32_t fix, uint32_t unfit)
{
	struct ddr_input in = { .type = DDR_IN_JOB_DONE, .mismatches = unfit, .start = unfit ? region * REGION + 7 : 0, .count = unfit };
	uint32_t i = 0;

	while (i < f->n && !(f->open[i] && f->log[i].type == DDR_OUT_JOB_RANGE && f->log[i].start == region * REGION))
		i++;
	assert_true(i < f->n);
	assert_int_equal(f->log[i].job, DDR_KA_REBUILD);
	assert_int_equal(f->log[i].member, SPARE);
	assert_int_equal(f->log[i].count, REGION);
	assert_int_equal(f->log[i].fix, fix);
	in.io = f->log[i].io;
	f->open[i] = false;
	fx_step(f, &in);
	pass(f);
}

static bool in_sync(const struct fx *f)
{
	return fx_status(f).member_state[SPARE] == DDR_MEMBER_IN_SYNC;
}

/* Only where the parity is known to match can a block that does not match say something. */
static void a_rebuild_compares_where_the_parity_is_known(void **state)
{
	struct fx *f = *state;

	for (uint64_t r = FIRST; r < FIRST + 3; r++)
		rebuilt(f, r, DDR_FIX_FITS, 0);
	rebuilt(f, FIRST + 4, 0, 0);
	assert_true(in_sync(f));
	assert_int_equal(fx_event(f, DDR_EV_MISMATCH), -1);
	assert_int_equal(fx_status(f).suspect, 0);
	assert_int_equal(fx_status(f).mismatches, 0);
}

static void what_does_not_match_is_reported_and_suspect(void **state)
{
	struct fx *f = *state;
	const struct ddr_output *o;

	rebuilt(f, FIRST, DDR_FIX_FITS, 0);
	rebuilt(f, FIRST + 1, DDR_FIX_FITS, 2);
	assert_true(fx_event(f, DDR_EV_MISMATCH) >= 0);
	o = &f->log[fx_event(f, DDR_EV_MISMATCH)];
	assert_int_equal(o->start, (FIRST + 1) * REGION + 7);
	assert_int_equal(o->count, 2);
	assert_int_equal(o->a, 2);
	assert_non_null(o->text);
	assert_int_equal(fx_status(f).mismatches, 2);
	rebuilt(f, FIRST + 2, DDR_FIX_FITS, 0);
	rebuilt(f, FIRST + 4, 0, 0);
	assert_true(in_sync(f));
	assert_int_equal(ddr_sm_region(f->sm, FIRST + 1), DDR_REGION_CLEAN | DDR_REGION_F_SUSPECT);
	assert_int_equal(ddr_sm_region(f->sm, FIRST) & DDR_REGION_F_SUSPECT, 0);
	assert_int_equal(fx_status(f).suspect, 1);
	o = &f->log[fx_event(f, DDR_EV_SUSPECT)];
	assert_int_equal(o->start, FIRST + 1);
	assert_non_null(o->text);
}

/* All is rebuilt, and the map is not written: a crash now must not leave a whole member, or a cursor behind the region, and nothing that says what does not match. */
static void no_member_is_whole_before_the_map_says_what_is_suspect(void **state)
{
	struct fx *f = *state;
	struct ddr_input last = { .type = DDR_IN_JOB_DONE };
	uint32_t i;

	rebuilt(f, FIRST, DDR_FIX_FITS, 0);
	rebuilt(f, FIRST + 2, DDR_FIX_FITS, 0);
	rebuilt(f, FIRST + 4, 0, 0);
	i = fx_open_io(f, DDR_OUT_JOB_RANGE);
	assert_int_equal(f->log[i].start, (FIRST + 1) * REGION);
	last.io = f->log[i].io;
	last.mismatches = last.count = 1;
	last.start = (FIRST + 1) * REGION;
	f->open[i] = false;
	fx_step(f, &last);
	fx_settle(f);
	pass_but(f, 30000, DDR_OUT_MAP_WRITE);
	fx_open_io(f, DDR_OUT_MAP_WRITE);
	assert_int_equal(ddr_sm_super(f->sm)->member[SPARE].state, DDR_MEMBER_REBUILDING);
	assert_true(ddr_sm_super(f->sm)->member[SPARE].cursor <= (FIRST + 1) * REGION);
	pass(f);
	assert_true(in_sync(f));
}

/* A result that names other blocks is not believed. */
static void blocks_that_are_not_in_the_range_are_not_named(void **state)
{
	struct fx *f = *state;
	uint32_t i = fx_open_io(f, DDR_OUT_JOB_RANGE);

	f->open[i] = false;
	fx_step(f, &(struct ddr_input){ .type = DDR_IN_JOB_DONE, .io = f->log[i].io, .mismatches = 1, .start = 3, .count = 1 });
	fx_settle(f);
	i = (uint32_t)fx_event(f, DDR_EV_MISMATCH);
	assert_int_equal(f->log[i].start, FIRST * REGION);
	assert_int_equal(f->log[i].count, REGION);
}

/* A member fails meanwhile, so that the range is not done: it is repeated, and reported then. */
static void a_range_that_is_not_done_reports_nothing(void **state)
{
	struct fx *f = *state;
	uint32_t i = fx_open_io(f, DDR_OUT_JOB_RANGE);

	f->open[i] = false;
	fx_step(f, &(struct ddr_input){ .type = DDR_IN_JOB_DONE, .io = f->log[i].io, .result = -ENODATA, .failed_members = 1, .mismatches = 1,
					.start = FIRST * REGION, .count = 1 });
	fx_settle(f);
	assert_int_equal(fx_event(f, DDR_EV_MISMATCH), -1);
	assert_int_equal(fx_status(f).mismatches, 0);
}

static bool read_by_a_job(const struct fx *f, uint64_t region)
{
	for (uint32_t i = 0; i < f->n; i++)
		if (f->log[i].type == DDR_OUT_JOB_RANGE && f->log[i].start / REGION == region)
			return true;
	return false;
}

/* A verify would find that Q alone does not match, and correct it: the damage could not be seen any more. The operator decides, and then it may. */
static void no_job_touches_the_region_before_it_is_accepted(void **state)
{
	struct ddr_input verify = { .type = DDR_IN_OP_VERIFY, .key = DDR_VERIFY_OP_START, .value = 3, .members = DDR_VERIFY_F_REPAIR };
	struct ddr_input accept = { .type = DDR_IN_OP_ACCEPT, .start = FIRST + 1, .count = 1 };
	struct fx *f = *state;

	rebuilt(f, FIRST, DDR_FIX_FITS, 0);
	rebuilt(f, FIRST + 1, DDR_FIX_FITS, 1);
	rebuilt(f, FIRST + 2, DDR_FIX_FITS, 0);
	rebuilt(f, FIRST + 4, 0, 0);
	assert_true(in_sync(f));
	fx_forget(f);
	f->answers = FX_ALL;
	fx_closed(f, FIRST + 4, 1, 0);
	for (uint32_t i = 0; i < 100; i++)
		fx_tick(f, now += 1000);
	assert_int_equal(ddr_sm_region(f->sm, FIRST + 4), DDR_REGION_CLEAN);	/* what can be resynced in the background is */
	assert_false(read_by_a_job(f, FIRST + 1));
	fx_step(f, &verify);
	fx_settle(f);
	assert_true(fx_event(f, DDR_EV_VERIFY_DONE) >= 0);
	assert_int_equal(f->log[fx_event(f, DDR_EV_VERIFY_DONE)].count, 1);
	assert_true(read_by_a_job(f, FIRST));
	assert_false(read_by_a_job(f, FIRST + 1));
	fx_step(f, &accept);
	fx_settle(f);
	fx_step(f, &verify);
	fx_settle(f);
	assert_true(read_by_a_job(f, FIRST + 1));
	assert_int_equal(ddr_sm_region(f->sm, FIRST + 1), DDR_REGION_CLEAN);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_rebuild_compares_where_the_parity_is_known),
		TEST(what_does_not_match_is_reported_and_suspect),
		TEST(no_member_is_whole_before_the_map_says_what_is_suspect),
		TEST(blocks_that_are_not_in_the_range_are_not_named),
		TEST(a_range_that_is_not_done_reports_nothing),
		TEST(no_job_touches_the_region_before_it_is_accepted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
