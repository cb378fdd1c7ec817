// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What status counts: progress of jobs and runs of suspect regions, compared with a walk over the regions one by one; and what
 * status costs for the largest number of regions.
 */
#include <stdio.h>
#include <time.h>

#include "tests/unit/sm-fixture.h"

#define WITHIN_MS	50u

static const struct rig_geometry geo = { .order = 2, .parity = 1, .blocks = 4092, .region_blocks = 16, .slots = 4 };	/* the last region is short */

/* ---- an array whose map says anything ------------------------------------------------ */

/* Before the start: what the map says counts as it is. */
static void load(struct fx *f, uint64_t seed)
{
	uint8_t payload[DDR_LOG_PAYLOAD] = { 0 };

	fx_load_empty(f);
	for (uint32_t r = 0; r < ddr_super_regions(&f->sb); r++)
		ddr_map_set(payload, r, (uint8_t)(rig_random(&seed) % 3 | (rig_random(&seed) & 12)));
	ddr_sm_load_map(f->sm, 0, payload, 1);
}

static bool verified(const struct ddr_sm *sm, uint64_t r)
{
	uint8_t nibble = ddr_sm_region(sm, r);

	return (nibble & DDR_REGION_STATE_MASK) == DDR_REGION_CLEAN && !(nibble & DDR_REGION_F_SUSPECT);
}

static bool used(const struct ddr_sm *sm, uint64_t r)
{
	return (ddr_sm_region(sm, r) & DDR_REGION_STATE_MASK) != DDR_REGION_UNWRITTEN;
}

static bool written(const struct ddr_sm *sm, uint64_t r)
{
	return used(sm, r) && (ddr_sm_region(sm, r) & DDR_REGION_F_WRITTEN);
}

/* The same, region by region. */
static void compare(const struct fx *f, const struct ddr_sm_progress *p, bool (*counts)(const struct ddr_sm *sm, uint64_t r))
{
	uint64_t done = 0, total = 0;

	for (uint64_t b = 0; b < f->sb.array_blocks; b++)
		if (counts(f->sm, b / geo.region_blocks)) {
			total++;
			done += b < p->at;
		}
	assert_int_equal(p->total, total);
	assert_int_equal(p->done, done);
}

static const uint64_t places[] = { 0, 1, 15, 16, 255, 256, 257, 2000, 4079, 4080, 4081, 4091, 4092 };
#define PLACES	(sizeof(places) / sizeof(places[0]))

static void progress_of_verify(void **state)
{
	(void)state;
	for (size_t i = 0; i < PLACES; i++) {
		struct ddr_sm_progress p;
		static struct fx f;

		fx_make(&f, &geo);
		f.sb.verify = (struct ddr_verify){ .serial = 1, .state = DDR_VERIFY_RUNNING, .priority = 3, .cursor = places[i] };
		f.sm = rig_sm(&f.cfg);
		assert_non_null(f.sm);
		load(&f, i);
		ddr_sm_verify_progress(f.sm, &p);
		assert_int_equal(p.at, places[i]);
		compare(&f, &p, verified);
		fx_down(&f);
	}
}

static void progress_of_rebuild(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2 * PLACES; i++) {
		bool partial = i % 2;
		struct ddr_sm_progress p;
		static struct fx f;

		fx_make(&f, &geo);
		f.sb.member[1].state = DDR_MEMBER_REBUILDING;
		f.sb.member[1].since = 1;
		f.sb.member[1].cursor = places[i / 2];
		f.sb.member[1].flags = partial ? DDR_MEMBER_F_PARTIAL : 0;
		f.sm = rig_sm(&f.cfg);
		assert_non_null(f.sm);
		load(&f, i);
		ddr_sm_rebuild_progress(f.sm, &p);
		assert_int_equal(p.at, places[i / 2]);
		compare(&f, &p, partial ? written : used);
		fx_down(&f);
	}
}

static void runs_of_suspect_regions(void **state)
{
	uint64_t start = 0, n, next = 0, found = 0, regions;
	static struct fx f;

	(void)state;
	fx_make(&f, &geo);
	f.sm = rig_sm(&f.cfg);
	load(&f, 9);
	regions = ddr_super_regions(&f.sb);
	for (; ddr_sm_suspect_run(f.sm, &start, &n); start += n) {
		assert_true(n > 0 && start + n <= regions);
		for (; next < start; next++)
			assert_false(ddr_sm_region(f.sm, next) & DDR_REGION_F_SUSPECT);
		for (; next < start + n; next++)
			assert_true(ddr_sm_region(f.sm, next) & DDR_REGION_F_SUSPECT);
		found += n;
	}
	assert_int_equal(found, fx_status(&f).suspect);
	for (; next < regions; next++)
		assert_false(ddr_sm_region(f.sm, next) & DDR_REGION_F_SUSPECT);
	fx_down(&f);
}

/* ---- a million regions ------------------------------------------------------------------ */

static uint64_t cpu_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* All that a status asks the machine for, while there is a verify and the last of a million regions is suspect. */
static uint64_t status_us(const struct fx *f)
{
	struct ddr_sm_progress p;
	uint64_t at = cpu_us(), start = 0, n;

	assert_int_equal(fx_status(f).suspect, 1);
	ddr_sm_verify_progress(f->sm, &p);
	assert_true(p.total > 0);
	assert_true(ddr_sm_suspect_run(f->sm, &start, &n));
	assert_int_equal(start, DDR_MAX_REGIONS - 1);
	return cpu_us() - at;
}

/* Finding U8: a status counted the regions, each second. */
static void status_of_a_million_regions(void **state)
{
	static const struct rig_geometry large = { .order = 2, .parity = 1, .blocks = (uint64_t)DDR_MAX_REGIONS * 16, .region_blocks = 16, .slots = 4 };
	uint8_t payload[DDR_LOG_PAYLOAD];
	uint64_t reading, running;
	struct fx *f = malloc(sizeof(*f));

	(void)state;
	assert_non_null(f);
	fx_make(f, &large);
	f->sb.verify = (struct ddr_verify){ .serial = 1, .state = DDR_VERIFY_PAUSED, .priority = 3, .cursor = large.blocks / 2 };
	f->sm = rig_sm(&f->cfg);
	assert_non_null(f->sm);
	fx_load_empty(f);
	memset(payload, DDR_REGION_CLEAN | DDR_REGION_CLEAN << 4, sizeof(payload));
	for (uint32_t i = 0; i + 1 < f->sb.map_blocks; i++)
		ddr_sm_load_map(f->sm, i, payload, 1);
	memset(payload, 0, sizeof(payload));
	ddr_map_set(payload, (DDR_MAX_REGIONS - 1) % DDR_MAP_REGIONS, DDR_REGION_NEEDS_SYNC | DDR_REGION_F_SUSPECT);
	ddr_sm_load_map(f->sm, f->sb.map_blocks - 1, payload, 1);
	reading = status_us(f);
	fx_view(f, 1, true, 1);
	fx_attach(f, 7, 0, 0);
	assert_true(fx_event(f, DDR_EV_READY) >= 0);
	running = status_us(f);
	printf("status of %u regions: %llu us before the start, %llu us after\n", DDR_MAX_REGIONS, (unsigned long long)reading, (unsigned long long)running);
	assert_true(reading < WITHIN_MS * 1000 && running < WITHIN_MS * 1000);
	fx_down(f);
	free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(progress_of_verify),
		cmocka_unit_test(progress_of_rebuild),
		cmocka_unit_test(runs_of_suspect_regions),
		cmocka_unit_test(status_of_a_million_regions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
