// SPDX-License-Identifier: GPL-2.0-or-later
/* Regions whose parity is computed as a whole for the first time: several are in progress at once, and each keeps to rule 2 by itself. */
#include <errno.h>

#include "sm-fixture.h"

#define REGION	1024u		/* blocks: two ranges */
#define LATER	600001u		/* ms: a region that met a bad sector is tried again */

static const struct rig_geometry eight = { .order = 2, .parity = 1, .blocks = 8 * REGION, .region_blocks = REGION, .slots = 4 };

static void set(struct fx *f, uint32_t key, uint64_t value)
{
	struct ddr_input in = { .type = DDR_IN_OP_SET, .key = key, .value = value };

	fx_step(f, &in);
	fx_settle(f);
}

static int setup(void **state)
{
	fx_setup(state, &eight);
	set(*state, DDR_SM_RESYNC_PARALLEL, 2);
	return 0;
}

static bool dirty(const struct fx *f, uint64_t region)
{
	return ddr_sm_region(f->sm, region) & DDR_SM_REGION_DIRTY;
}

static uint8_t map_state(const struct fx *f, uint64_t region)
{
	return ddr_sm_region(f->sm, region) & DDR_REGION_STATE_MASK;
}

/* The first regions were written and closed, and the background work begins. From now on the test decides when I/O ends. */
static void begin(struct fx *f, uint64_t regions)
{
	set(f, DDR_SM_RESYNC_PAUSED, 1);
	fx_lock(f, 0, regions);
	fx_closed(f, 0, regions, 0);
	assert_int_equal(fx_status(f).needs_sync, regions);
	assert_false(dirty(f, 0));
	fx_forget(f);
	f->answers = FX_MSG | FX_KERNEL;
	set(f, DDR_SM_RESYNC_PAUSED, 0);
}

static void ends(struct fx *f, enum ddr_out_type type)
{
	fx_done(f, fx_open_io(f, type), 0, 0, 0);
	fx_settle(f);
}

/* The job that begins at that block ends with that result. */
static void job_ends(struct fx *f, uint64_t start, int result)
{
	for (uint32_t i = 0; i < f->n; i++)
		if (f->open[i] && f->log[i].type == DDR_OUT_JOB_RANGE && f->log[i].start == start) {
			fx_done(f, i, result ? 2 : 0, result, 0);
			fx_settle(f);
			return;
		}
	fail_msg("no such job is under way");
}

static uint32_t jobs_open(const struct fx *f)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->n; i++)
		n += f->open[i] && f->log[i].type == DDR_OUT_JOB_RANGE;
	return n;
}

/* Resyncs that began at that block. */
static uint32_t resyncs_of(const struct fx *f, uint64_t start)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < f->n; i++)
		n += f->log[i].type == DDR_OUT_JOB_RANGE && f->log[i].job == DDR_KA_RESYNC && f->log[i].start == start;
	return n;
}

/* The oldest I/O ends, or the newest; but no job, if there is other I/O. False: none is outstanding. */
static bool one_ends(struct fx *f, bool newest, bool jobs)
{
	int at = -1;

	for (uint32_t i = 0; i < f->n; i++)
		if (f->open[i] && fx_is_io(&f->log[i]) && (jobs || f->log[i].type != DDR_OUT_JOB_RANGE) && (at < 0 || newest))
			at = (int)i;
	if (at < 0)
		return false;
	fx_done(f, (uint32_t)at, 0, 0, 0);
	fx_settle(f);
	return true;
}

static void all_end(struct fx *f)
{
	while (one_ends(f, false, true))
		;
}

/* Two regions are in work: of the first both ranges are under way, the second is marked, and waits for one. */
static void two_in_work(struct fx *f)
{
	begin(f, 4);
	ends(f, DDR_OUT_LOG_WRITE);
	ends(f, DDR_OUT_LOG_WRITE);
	assert_int_equal(jobs_open(f), 2);
	assert_true(dirty(f, 0) && dirty(f, 1));
}

/*
 * Its mark is written while the jobs of the previous region run. None of its own jobs begins before that mark is durable, nor beyond
 * the limit.
 */
static void the_next_region_is_marked_beside_jobs(void **state)
{
	struct fx *f = *state;

	begin(f, 4);
	assert_int_equal(jobs_open(f), 0);
	assert_false(dirty(f, 1));
	ends(f, DDR_OUT_LOG_WRITE);
	assert_int_equal(jobs_open(f), 2);
	assert_true(dirty(f, 1));
	assert_true(fx_find_open(f, DDR_OUT_LOG_WRITE) >= 0);
	job_ends(f, 0, 0);
	assert_int_equal(jobs_open(f), 1);
	ends(f, DDR_OUT_LOG_WRITE);
	assert_int_equal(jobs_open(f), 2);
	assert_int_equal(resyncs_of(f, REGION), 1);
	assert_false(dirty(f, 2));		/* the second region has a range to begin */
	job_ends(f, 512, 0);
	assert_int_equal(resyncs_of(f, REGION + 512), 1);
	assert_int_equal(jobs_open(f), 2);
	assert_true(dirty(f, 2));
	assert_true(fx_find_open(f, DDR_OUT_FLUSH) >= 0);
}

/* In whatever order I/O ends: each region is done once, within the limit, and the progress never exceeds the total. */
static void every_region_is_done_once(void **state)
{
	struct fx *f = *state;

	for (int newest = 0; newest < 2; newest++) {
		fx_down(f);
		fx_up(f, &eight);
		set(f, DDR_SM_RESYNC_PARALLEL, 2);
		begin(f, 8);
		do {
			struct ddr_sm_status st = fx_status(f);

			assert_true(jobs_open(f) <= 2);
			assert_true(st.resync_done <= st.resync_total && st.resync_total <= (uint64_t)8 * REGION);
			assert_true(!jobs_open(f) || st.resync_total);
		} while (one_ends(f, newest, true));
		assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 16);
		assert_int_equal(fx_status(f).clean, 8);
		assert_int_equal(fx_status(f).dirty, 0);
		assert_int_equal(fx_status(f).resync_total, 0);
	}
}

/* The jobs run while nothing else ends: no more regions are dirty then than there are places. */
static void the_background_keeps_few_regions_dirty(void **state)
{
	struct fx *f = *state;

	begin(f, 8);
	for (uint32_t region = 0; region < 8; region++) {
		assert_true(fx_status(f).dirty <= 4);
		while (jobs_open(f))
			job_ends(f, fx_job(f)->start, 0);
		if (fx_find_open(f, DDR_OUT_LOG_WRITE) >= 0)
			ends(f, DDR_OUT_LOG_WRITE);
	}
	assert_int_equal(fx_status(f).dirty, 4);
	all_end(f);
	assert_int_equal(fx_status(f).clean, 8);
}

/* The flush that the first one waits for was issued before the second one's jobs ended, and the map's change is the first one's. */
static void each_batch_has_its_own_flush_and_map_write(void **state)
{
	struct fx *f = *state;

	two_in_work(f);
	job_ends(f, 0, 0);
	job_ends(f, 512, 0);
	assert_int_equal(fx_count(f, DDR_OUT_FLUSH, 0), 1);
	job_ends(f, REGION, 0);
	job_ends(f, REGION + 512, 0);
	assert_int_equal(fx_count(f, DDR_OUT_FLUSH, 0), 1);
	ends(f, DDR_OUT_FLUSH);
	assert_int_equal(fx_count(f, DDR_OUT_FLUSH, 0), 2);
	assert_int_equal(map_state(f, 0), DDR_REGION_CLEAN);
	assert_int_equal(map_state(f, 1), DDR_REGION_NEEDS_SYNC);
	ends(f, DDR_OUT_MAP_WRITE);
	assert_int_equal(map_state(f, 1), DDR_REGION_NEEDS_SYNC);
	assert_true(dirty(f, 1));
	ends(f, DDR_OUT_FLUSH);
	assert_int_equal(map_state(f, 1), DDR_REGION_CLEAN);
	assert_true(dirty(f, 1));
}

/*
 * Regions that a crash left dirty have places of their own, and get the next ranges. The background stays where it was, and begins no
 * region before they are done.
 */
static void a_resync_does_not_wait_for_the_background(void **state)
{
	static const uint64_t order[] = { 0, 512, 6 * REGION, 6 * REGION + 512, 7 * REGION, 7 * REGION + 512, REGION, REGION + 512, 2 * REGION };
	struct fx *f = *state;

	fx_lock(f, 6, 2);
	two_in_work(f);
	fx_closed(f, 6, 2, -EIO);
	assert_int_equal(fx_status(f).resync_regions, 2);
	do {
		struct ddr_sm_status st = fx_status(f);

		assert_true(!st.resync_regions || !dirty(f, 2));
		assert_true(st.resync_done <= st.resync_total);
	} while (one_ends(f, false, true));
	for (uint32_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
		assert_int_equal(f->log[fx_find_nth(f, DDR_OUT_JOB_RANGE, 0, i)].start, order[i]);
	assert_int_equal(fx_status(f).clean, 6);
	assert_int_equal(fx_status(f).dirty, 0);
}

/* Running jobs end; until the pause ends nothing begins, in any of the regions. */
static void a_pause_stops_all_background_jobs(void **state)
{
	struct fx *f = *state;

	two_in_work(f);
	set(f, DDR_SM_RESYNC_PAUSED, 1);
	all_end(f);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 2);
	assert_int_equal(map_state(f, 0), DDR_REGION_CLEAN);
	assert_true(dirty(f, 1));
	assert_false(dirty(f, 2));
	set(f, DDR_SM_RESYNC_PAUSED, 0);
	all_end(f);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 8);
	assert_int_equal(fx_status(f).clean, 4);
	assert_int_equal(fx_status(f).dirty, 0);
}

/* A data member fails: all regions stop where they are, none is listed as lost, and nothing begins any more. */
static void a_member_failure_ends_all_background_jobs(void **state)
{
	struct fx *f = *state;

	two_in_work(f);
	job_ends(f, 0, 0);
	assert_int_equal(resyncs_of(f, REGION), 1);
	fx_error(f, 9, 1, DDR_EC_IO, DDR_OP_WRITE);
	while (one_ends(f, false, false))
		;
	assert_true(fx_status(f).degraded);
	job_ends(f, 512, 0);
	job_ends(f, REGION, 0);
	all_end(f);
	fx_tick(f, 2000);
	all_end(f);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 3);
	assert_int_equal(fx_status(f).suspect, 0);
	assert_int_equal(fx_status(f).needs_sync, 4);
	assert_int_equal(fx_status(f).dirty, 0);
}

static void a_clean_stop_ends_all_background_jobs(void **state)
{
	struct ddr_input clean = { .type = DDR_IN_OP_CLEAN };
	struct fx *f = *state;
	int at;

	two_in_work(f);
	job_ends(f, 0, 0);
	fx_step(f, &clean);
	fx_settle(f);
	assert_int_equal(fx_event(f, DDR_EV_CLEAN), -1);
	all_end(f);
	at = fx_event(f, DDR_EV_CLEAN);
	assert_true(at >= 0);
	assert_int_equal(f->log[at].a, 0);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 3);
	assert_int_equal(fx_status(f).needs_sync, 3);	/* of the first all was done */
}

/*
 * A range meets a bad sector, and a pause lasts so long that such regions are tried again when it ends. The next region then begins
 * at the same time; the first one has still not been done as a whole.
 */
static void a_bad_sector_is_not_forgotten_beside_others(void **state)
{
	struct fx *f = *state;

	set(f, DDR_SM_RESYNC_PARALLEL, 1);
	begin(f, 2);
	ends(f, DDR_OUT_LOG_WRITE);
	assert_int_equal(jobs_open(f), 1);
	set(f, DDR_SM_RESYNC_PAUSED, 1);
	job_ends(f, 0, -ENODATA);
	fx_tick(f, LATER);
	set(f, DDR_SM_RESYNC_PAUSED, 0);
	assert_int_equal(resyncs_of(f, 512), 1);
	assert_true(dirty(f, 1));
	all_end(f);
	fx_tick(f, LATER + 1000);
	all_end(f);
	assert_int_equal(resyncs_of(f, 0), 2);
	assert_int_equal(map_state(f, 0), DDR_REGION_CLEAN);
	assert_int_equal(map_state(f, 1), DDR_REGION_CLEAN);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_next_region_is_marked_beside_jobs), TEST(every_region_is_done_once), TEST(the_background_keeps_few_regions_dirty),
		TEST(each_batch_has_its_own_flush_and_map_write), TEST(a_resync_does_not_wait_for_the_background),
		TEST(a_pause_stops_all_background_jobs), TEST(a_member_failure_ends_all_background_jobs), TEST(a_clean_stop_ends_all_background_jobs),
		TEST(a_bad_sector_is_not_forgotten_beside_others),
	};

	return cmocka_run_group_tests_name("state machine: the background", tests, NULL, NULL);
}
