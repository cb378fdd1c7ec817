// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The marks of repairs: what the log records as a repair, what becomes of it when the region is written, and what a crash in the
 * middle of a repair leaves. A resync would make parity fit the very chunk that was to be repaired.
 */
#include "sm-cluster.h"
#include "sm-fixture.h"

#define REGION	256u

static int setup(void **state)
{
	return fx_setup(state, &fx_six);
}

static int setup_cluster(void **state)
{
	return cx_setup(state, 3);
}

/* ---- what a block says --------------------------------------------------------- */

static bool named(const struct ddr_disk_log *blk, uint32_t region)
{
	for (uint32_t i = 0; i < DDR_LOG_REPAIRS; i++)
		if ((uint32_t)(((const uint8_t *)&blk->repair[i])[0] | ((const uint8_t *)&blk->repair[i])[1] << 8) == region + 1)
			return true;
	return false;
}

/* The state of the region in the log now; '-': not marked, 'r': marked for a repair, 'w': marked. */
static char says(const struct fx *f, uint32_t region)
{
	struct ddr_disk_log blk;

	ddr_sm_log_block(f->sm, 0, &blk);
	if (!ddr_log_get(blk.payload, region))
		return '-';
	return named(&blk, region) ? 'r' : 'w';
}

/* ---- one node ------------------------------------------------------------------ */

static void make_clean(struct fx *f, uint64_t start, uint64_t count)
{
	fx_make_clean(f, start, count);
	f->answers = FX_MSG | FX_KERNEL;
}

/* The kernel met a bad sector there. */
static void bad_sector(struct fx *f, uint32_t region, uint64_t seq)
{
	fx_record(f, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = seq, .member = 2, .status = DDR_EC_MEDIUM, .start = region * REGION, .count = 1,
				       .arg = { DDR_OP_READ } });
	fx_settle(f);
}

static void answer(struct fx *f, enum ddr_out_type type)
{
	fx_done(f, fx_open_io(f, type), 0, 0, 0);
	fx_settle(f);
}

/* The daemon begins with a log in which these regions are marked; those in @repair for a repair alone. The whole array is clean. */
static void begin(struct fx *f, const uint32_t *regions, uint32_t n, const uint32_t *repair, uint32_t n_repair)
{
	uint8_t payload[DDR_LOG_PAYLOAD] = { 0 }, map[DDR_LOG_PAYLOAD] = { 0 };
	uint16_t names[DDR_LOG_REPAIRS] = { 0 };

	fx_down(f);
	f->sm = rig_sm(&f->cfg);
	assert_non_null(f->sm);
	f->n = 0;
	f->answers = FX_MSG | FX_KERNEL;
	fx_load_empty(f);
	for (uint32_t i = 0; i < n; i++)
		ddr_log_set(payload, regions[i], true);
	for (uint32_t i = 0; i < n_repair; i++) {
		ddr_log_set(payload, repair[i], true);
		names[i] = (uint16_t)(repair[i] + 1);
	}
	for (uint32_t r = 0; r < f->sb.array_blocks / REGION; r++)
		ddr_map_set(map, r, DDR_REGION_CLEAN);
	ddr_sm_load_log(f->sm, 0, 0, payload, 9, 1, (const uint8_t[16]){ 1 }, 3);
	ddr_sm_load_repairs(f->sm, 0, 0, names);
	ddr_sm_load_map(f->sm, 0, map, 1);
	fx_view(f, 1, true, 1);
	fx_attach(f, 7, 0, 0);
}

static void the_log_names_a_repair(void **state)
{
	struct fx *f = *state;

	make_clean(f, 2, 1);
	bad_sector(f, 2, 5);
	assert_int_equal(says(f, 2), 'r');
	assert_int_equal(fx_find_open(f, DDR_OUT_JOB_RANGE), -1);	/* not before the mark is durable */
	answer(f, DDR_OUT_LOG_WRITE);
	assert_int_equal(fx_job(f)->fix, DDR_FIX_FITS | DDR_FIX_BAD);
	assert_int_equal(fx_job(f)->start, 2 * REGION);
	f->answers = FX_ALL;
	fx_settle(f);
	fx_tick(f, 1000);
	assert_int_equal(says(f, 2), '-');
	assert_int_equal(ddr_sm_region(f->sm, 2), DDR_REGION_CLEAN);
}

/* A mark that exists already belongs to a write. */
static void a_region_being_written_is_not_logged_as_a_repair(void **state)
{
	struct fx *f = *state;

	make_clean(f, 2, 1);
	fx_lock(f, 2, 1);
	answer(f, DDR_OUT_LOG_WRITE);
	assert_true(fx_kernel(f, DDR_U_GRANT) >= 0);
	bad_sector(f, 2, 5);
	assert_int_equal(says(f, 2), 'w');
	assert_int_equal(fx_job(f)->fix, DDR_FIX_FITS | DDR_FIX_BAD);
}

/* Rule 1: a region is not granted while a copy of the log may lack the mark of a write there. */
static void a_write_to_a_repaired_region_is_marked_on_its_own(void **state)
{
	struct fx *f = *state;

	make_clean(f, 2, 1);
	bad_sector(f, 2, 5);
	answer(f, DDR_OUT_LOG_WRITE);
	fx_lock(f, 2, 1);
	assert_int_equal(fx_kernel(f, DDR_U_GRANT), -1);
	assert_int_equal(says(f, 2), 'w');
	answer(f, DDR_OUT_LOG_WRITE);
	assert_true(fx_kernel(f, DDR_U_GRANT) >= 0);
}

/* The write that records the repair is outstanding when the region is requested: its completion is not sufficient. */
static void a_repair_mark_in_flight_is_not_enough_for_a_grant(void **state)
{
	struct fx *f = *state;
	uint32_t out;

	make_clean(f, 2, 1);
	bad_sector(f, 2, 5);
	out = fx_open_io(f, DDR_OUT_LOG_WRITE);
	fx_lock(f, 2, 1);
	fx_done(f, out, 0, 0, 0);
	fx_settle(f);
	assert_int_equal(fx_kernel(f, DDR_U_GRANT), -1);
	assert_int_equal(says(f, 2), 'w');
	answer(f, DDR_OUT_LOG_WRITE);
	assert_true(fx_kernel(f, DDR_U_GRANT) >= 0);
}

/* Nor is parity recomputed under it: after a crash in the middle of that the region must be resynced. */
static void a_resync_gets_a_mark_of_its_own(void **state)
{
	const uint32_t both[] = { 3 };
	struct fx *f = *state;

	begin(f, NULL, 0, both, 1);
	fx_record(f, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 100, .start = 3, .count = 1 });
	fx_answer_all_but_jobs(f);
	fx_closed(f, 3, 1, -5);
	fx_answer_all_but_jobs(f);
	assert_int_equal(fx_status(f).resync_regions, 1);
	assert_int_equal(says(f, 3), 'w');
}

/* The daemon died while it put something right. */
static void a_repair_cut_short_by_a_crash_is_checked_again(void **state)
{
	const uint32_t repair[] = { 3 };
	struct fx *f = *state;

	begin(f, NULL, 0, repair, 1);
	assert_int_equal(fx_event(f, DDR_EV_RECOVERY), -1);
	fx_answer_all_but_jobs(f);
	assert_int_equal(says(f, 3), 'r');				/* on all members, unchanged */
	assert_int_equal(fx_job(f)->fix, DDR_FIX_FITS | DDR_FIX_BAD | DDR_FIX_WRONG);
	assert_int_equal(fx_job(f)->job, DDR_KA_VERIFY);
	assert_int_equal(fx_job(f)->start, 3 * REGION);
	assert_int_equal(fx_job(f)->count, REGION);
	assert_int_equal(fx_status(f).resync_regions, 0);
	assert_true(ddr_sm_region(f->sm, 3) & DDR_SM_REGION_DIRTY);
	f->answers = FX_ALL;
	fx_settle(f);
	fx_tick(f, 1000);
	assert_int_equal(ddr_sm_region(f->sm, 3), DDR_REGION_CLEAN);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 1);
}

/* Another region was written: there a resync is due, and only there. */
static void marks_of_writes_are_resynced(void **state)
{
	const uint32_t written[] = { 4 }, repair[] = { 3 };
	struct fx *f = *state;

	begin(f, written, 1, repair, 1);
	fx_answer_all_but_jobs(f);
	assert_int_equal(fx_status(f).resync_regions, 1);
	f->answers = FX_ALL;
	fx_settle(f);
	fx_tick(f, 1000);
	for (uint32_t i = 0; i < f->n; i++)
		if (f->log[i].type == DDR_OUT_JOB_RANGE)
			assert_int_equal(f->log[i].start / REGION, f->log[i].fix ? 3 : 4);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 2);
	assert_int_equal(fx_status(f).dirty, 0);
}

/* Parity that is to fit whatever is wrong: a resync does just that. */
static void a_repair_that_recomputes_parity_is_resynced_after_a_crash(void **state)
{
	struct ddr_input in = { .type = DDR_IN_OP_VERIFY, .key = DDR_VERIFY_OP_START, .value = 3, .members = DDR_VERIFY_F_REPAIR };
	struct fx *f = *state;

	make_clean(f, 2, 1);
	fx_step(f, &in);
	fx_settle(f);
	for (uint32_t look = 0; look < 3; look++) {
		uint32_t i = fx_open_io(f, DDR_OUT_JOB_RANGE);

		f->open[i] = false;
		in = (struct ddr_input){ .type = DDR_IN_JOB_DONE, .io = f->log[i].io, .mismatches = 1, .start = 2 * REGION, .count = 1 };
		fx_step(f, &in);
		fx_settle(f);
	}
	fx_answer_all_but_jobs(f);
	assert_int_equal(f->log[fx_open_io(f, DDR_OUT_JOB_RANGE)].fix, DDR_FIX_FITS | DDR_FIX_BAD | DDR_FIX_WRONG | DDR_FIX_PARITY);
	assert_int_equal(says(f, 2), 'w');
}

/* While a chunk is missing it cannot be known which one is wrong. The mark stays until it can. */
static void a_repair_mark_counts_as_dirty_while_degraded(void **state)
{
	const uint32_t repair[] = { 3 };
	struct fx *f = *state;

	f->cfg.super = &f->sb;
	f->sb.member[4].state = DDR_MEMBER_FAULTY;
	f->sb.member[4].since = 1;
	begin(f, NULL, 0, repair, 1);
	f->answers = FX_ALL;
	fx_settle(f);
	fx_tick(f, 10000);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 0);
	assert_int_equal(says(f, 3), 'r');
	assert_int_equal(fx_status(f).dirty, 1);
}

/* A write there needs a mark of its own, and no longer than it lasts: a crash while the region is at rest must leave nothing suspect. */
static void a_repair_that_waits_has_its_mark_back_after_a_write(void **state)
{
	const uint32_t repair[] = { 3 };
	struct fx *f = *state;

	f->cfg.super = &f->sb;
	f->sb.member[4].state = DDR_MEMBER_FAULTY;
	f->sb.member[4].since = 1;
	begin(f, NULL, 0, repair, 1);
	f->answers = FX_ALL;
	fx_settle(f);
	fx_lock(f, 3, 1);
	assert_int_equal(says(f, 3), 'w');
	f->answers = FX_MSG | FX_KERNEL;
	fx_closed(f, 3, 1, 0);
	assert_int_equal(says(f, 3), 'w');	/* not flushed yet */
	answer(f, DDR_OUT_FLUSH);
	assert_int_equal(says(f, 3), 'w');	/* nor in the map */
	answer(f, DDR_OUT_MAP_WRITE);
	assert_int_equal(says(f, 3), 'r');
	f->answers = FX_ALL;
	fx_settle(f);
	fx_tick(f, 10000);
	assert_int_equal(says(f, 3), 'r');
	assert_int_equal(fx_status(f).dirty, 1);
	assert_int_equal(fx_status(f).granted, 0);
	f->answers = FX_MSG | FX_KERNEL;
	fx_lock(f, 3, 1);
	assert_int_equal(says(f, 3), 'w');
	answer(f, DDR_OUT_LOG_WRITE);
	fx_closed(f, 3, 1, -5);			/* a write failed there: the region is resynced, or suspect */
	fx_answer_all_but_jobs(f);
	assert_int_equal(says(f, 3), 'w');
}

/* The repair starts over if it is interrupted here, too: a clean stop does not make the slot clean. */
static void a_stop_leaves_the_mark(void **state)
{
	struct ddr_input stop = { .type = DDR_IN_OP_CLEAN };
	const uint32_t repair[] = { 3 };
	struct fx *f = *state;

	begin(f, NULL, 0, repair, 1);
	fx_answer_all_but_jobs(f);
	fx_step(f, &stop);
	fx_done(f, fx_open_io(f, DDR_OUT_JOB_RANGE), 0, -5, 0);
	f->answers = FX_ALL;
	fx_settle(f);
	fx_tick(f, 1000);
	assert_true(fx_event(f, DDR_EV_CLEAN) >= 0);
	assert_int_equal(f->log[fx_event(f, DDR_EV_CLEAN)].a, 1);
	assert_int_equal(says(f, 3), 'r');
}

/* A block can record this many repairs; a mark beyond them counts as one of a write. */
static void more_than_a_block_can_name(void **state)
{
	uint32_t repair[DDR_LOG_REPAIRS];
	struct fx *f = *state;

	for (uint32_t i = 0; i < DDR_LOG_REPAIRS; i++)
		repair[i] = i + 1;
	f->sb.array_blocks = 64 * REGION;
	f->sb.member[4].state = DDR_MEMBER_FAULTY;
	f->sb.member[4].since = 1;
	begin(f, NULL, 0, repair, DDR_LOG_REPAIRS);
	fx_answer_all_but_jobs(f);
	bad_sector(f, 40, 5);
	for (uint32_t i = 0; i < DDR_LOG_REPAIRS; i++)
		assert_int_equal(says(f, i + 1), 'r');
	assert_int_equal(says(f, 40), 'w');
	fx_answer_all_but_jobs(f);
	assert_int_equal(fx_job(f)->start, 40 * REGION);
}

/* ---- several nodes ------------------------------------------------------------- */

/* Node 2 has written region 1, and it has become clean. */
static void region_1_is_clean(struct cx *c)
{
	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 101, .start = 1, .count = 1 });
	cx_settle(c);
	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_CLOSED, .start = 1, .count = 1 });
	for (uint32_t s = 0; s < 20; s++)
		cx_tick(c, 1000);
	assert_int_equal(ddr_sm_region(c->node[0].sm, 1), DDR_REGION_CLEAN);
}

/* The kernel of that node met one in region 1. */
static void bad_sector_at(struct cx *c, uint32_t node)
{
	cx_record(c, node, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = 4, .member = 1, .status = DDR_EC_MEDIUM, .start = REGION, .count = 1,
					     .arg = { DDR_OP_READ } });
	cx_settle(c);
}

/*
 * Node 2 dies in the middle of a repair: the node that takes its slot over records the repair before the slot is cleared, and looks
 * at the region again.
 */
static void a_recovering_node_checks_repairs_again(void **state)
{
	struct cx *c = *state;
	uint32_t own, dead;
	int i;

	region_1_is_clean(c);
	own = ddr_sm_slot(c->node[0].sm) % CX_SLOTS;
	dead = ddr_sm_slot(c->node[1].sm) % CX_SLOTS;
	cx_forget(c);
	c->answers = CX_MSG | CX_KERNEL | CX_FENCE;
	bad_sector_at(c, 1);
	i = cx_find(&c->node[1], DDR_OUT_LOG_WRITE, 0);
	assert_true(i >= 0);
	cx_done(c, &c->node[1], (uint32_t)i);
	cx_settle(c);
	assert_true(cx_find(&c->node[1], DDR_OUT_JOB_RANGE, 0) >= 0);
	assert_true(named(&c->disk[dead], 1));
	cx_kill(c, 1);
	cx_view(c, 5, 5, true);
	for (uint32_t s = 0; s < 5; s++) {
		while (cx_answer_one(c, &c->node[0]) || cx_answer_one(c, &c->node[2]))
			;
		for (uint32_t k = 0; k < c->node[0].n; k++)
			if (c->node[0].open[k] && cx_is_io(&c->node[0].log[k]) && c->node[0].log[k].type != DDR_OUT_JOB_RANGE) {
				if (c->node[0].log[k].type == DDR_OUT_SLOT_WRITE)
					assert_true(named(&c->disk[own], 1));
				cx_done(c, &c->node[0], k);
			}
		cx_tick(c, 1000);
	}
	assert_true(cx_event(&c->node[0], DDR_EV_NODE_RECOVERED) >= 0);
	assert_false(ddr_log_get(c->disk[dead].payload, 1));
	i = cx_find(&c->node[0], DDR_OUT_JOB_RANGE, 0);
	assert_true(i >= 0);
	assert_int_equal(c->node[0].log[i].fix, DDR_FIX_FITS | DDR_FIX_BAD | DDR_FIX_WRONG);
	assert_int_equal(c->node[0].log[i].start, REGION);
	assert_int_equal(cx_status(&c->node[0]).resync_regions, 0);
	assert_true(named(&c->disk[own], 1));
	c->answers = CX_ALL | CX_FENCE;
	cx_settle(c);
	for (uint32_t s = 0; s < 20; s++)
		cx_tick(c, 1000);
	assert_int_equal(cx_status(&c->node[0]).dirty, 0);
}

/* The parity is unknown there, since another node has to resync: the look is not repeated at once, again and again. */
static void a_node_that_cannot_check_a_repair_waits(void **state)
{
	struct ddr_input pause = { .type = DDR_IN_OP_SET, .key = DDR_SM_RESYNC_PAUSED, .value = 1 };
	struct cx *c = *state;
	uint32_t asked;

	region_1_is_clean(c);
	c->answers = CX_MSG | CX_KERNEL;
	cx_forget(c);
	bad_sector_at(c, 0);
	cx_done(c, &c->node[0], (uint32_t)cx_find(&c->node[0], DDR_OUT_LOG_WRITE, 0));
	cx_kill(c, 0);
	cx_view(c, 6, 7, true);
	c->answers = CX_ALL;
	cx_step(c, &c->node[1], &pause);
	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 102, .start = 1, .count = 1 });
	cx_settle(c);
	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_CLOSED, .start = 1, .count = 1, .status = -5 });
	cx_settle(c);
	cx_start(c, 0, 0, 0);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	for (uint32_t s = 0; s < 12; s++)
		cx_tick(c, 1000);
	asked = 0;
	for (uint32_t k = 0; k < c->node[0].n; k++)
		asked += c->node[0].log[k].type == DDR_OUT_KERNEL && c->node[0].log[k].rec.type == DDR_U_DRAIN;
	assert_in_range(asked, 1, 4);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_JOB_RANGE, 0), -1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fx_teardown)
#define CLUSTER(name) cmocka_unit_test_setup_teardown(name, setup_cluster, cx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_log_names_a_repair), TEST(a_region_being_written_is_not_logged_as_a_repair), TEST(a_write_to_a_repaired_region_is_marked_on_its_own),
		TEST(a_repair_mark_in_flight_is_not_enough_for_a_grant), TEST(a_resync_gets_a_mark_of_its_own), TEST(a_repair_cut_short_by_a_crash_is_checked_again),
		TEST(marks_of_writes_are_resynced), TEST(a_repair_that_recomputes_parity_is_resynced_after_a_crash), TEST(a_repair_mark_counts_as_dirty_while_degraded), TEST(a_repair_that_waits_has_its_mark_back_after_a_write),
		TEST(a_stop_leaves_the_mark), TEST(more_than_a_block_can_name), CLUSTER(a_recovering_node_checks_repairs_again), CLUSTER(a_node_that_cannot_check_a_repair_waits),
	};

	return cmocka_run_group_tests_name("state machine: marks of repairs", tests, NULL, NULL);
}
