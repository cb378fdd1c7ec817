// SPDX-License-Identifier: GPL-2.0-or-later
/* Grants, marks, clearing and resync of the state machine, one rule a test. */
#include <errno.h>

#include "sm-fixture.h"

static int setup(void **state)
{
	return fx_setup(state, &fx_five);
}

static bool dirty(const struct fx *f, uint64_t region)
{
	return ddr_sm_region(f->sm, region) & DDR_SM_REGION_DIRTY;
}

static uint8_t map_state(const struct fx *f, uint64_t region)
{
	return ddr_sm_region(f->sm, region) & DDR_REGION_STATE_MASK;
}

/* A clean instance with the state that the caller loads. */
/* A new process of the daemon. The last one had started: the superblocks name its slot. */
static void restart(struct fx *f)
{
	fx_down(f);
	f->sb.slot_node[0] = 1;
	f->sm = rig_sm(&f->cfg);
	assert_non_null(f->sm);
	f->n = 0;
	f->answers = FX_ALL;
	fx_load_empty(f);
}

static void load_dirty(struct fx *f, const uint8_t *regions, uint32_t n, uint64_t cookie, uint64_t seq)
{
	uint8_t payload[DDR_LOG_PAYLOAD] = { 0 }, boot[16] = { 1 };

	for (uint32_t i = 0; i < n; i++)
		ddr_log_set(payload, regions[i], true);
	ddr_sm_load_log(f->sm, 0, 0, payload, seq, 1, boot, cookie);
}

/* ---- rule 1 -------------------------------------------------------------------- */

static void rule_1_grant_waits_for_the_log(void **state)
{
	struct fx *f = *state;
	uint32_t w;

	f->answers = FX_MSG | FX_KERNEL;
	fx_lock(f, 3, 2);
	assert_int_equal(fx_kernel(f, DDR_U_GRANT), -1);
	w = fx_open_io(f, DDR_OUT_LOG_WRITE);
	assert_int_equal(f->log[w].members, 31);
	fx_done(f, w, 0, 0, 0);
	assert_int_equal(f->log[fx_kernel(f, DDR_U_GRANT)].rec.start, 3);
	assert_int_equal(f->log[fx_kernel(f, DDR_U_GRANT)].rec.count, 2);
}

static void group_commit_includes_requests_that_arrived_meanwhile(void **state)
{
	struct fx *f = *state;

	f->answers = FX_MSG | FX_KERNEL;
	fx_lock(f, 1, 1);
	for (uint64_t r = 4; r < 12; r += 2)
		fx_lock(f, r, 1);
	assert_int_equal(fx_count(f, DDR_OUT_LOG_WRITE, 0), 1);
	fx_done(f, fx_open_io(f, DDR_OUT_LOG_WRITE), 0, 0, 0);
	assert_int_equal(fx_count(f, DDR_OUT_KERNEL, DDR_U_GRANT), 1);	/* region 1 alone */
	assert_int_equal(fx_count(f, DDR_OUT_LOG_WRITE, 0), 2);
	fx_done(f, fx_open_io(f, DDR_OUT_LOG_WRITE), 0, 0, 0);
	assert_int_equal(fx_status(f).granted, 5);
	assert_int_equal(fx_status(f).log_writes, 2);
}

static void a_granted_region_costs_nothing_more(void **state)
{
	struct fx *f = *state;
	uint64_t mcasts;

	fx_lock(f, 3, 1);
	mcasts = fx_status(f).mcasts;
	fx_forget(f);
	fx_lock(f, 3, 1);		/* overlapping request: the answer is on its way already */
	assert_int_equal(f->n, 0);
	fx_lock(f, 4, 1);		/* a cold region: one log write, no message */
	assert_int_equal(fx_status(f).log_writes, 2);
	assert_int_equal(fx_status(f).mcasts, mcasts);
}

static void parity_0_has_no_log(void **state)
{
	const struct rig_geometry stripe = { .order = 2, .parity = 0, .blocks = 4096, .region_blocks = 256 };
	struct fx *f = *state;

	fx_down(f);
	fx_up(f, &stripe);
	fx_lock(f, 3, 2);
	assert_true(fx_kernel(f, DDR_U_GRANT) >= 0);
	assert_int_equal(fx_status(f).dirty, 0);
	assert_int_equal(fx_status(f).log_writes, 0);
	fx_closed(f, 3, 2, -5);
	assert_int_equal(fx_status(f).resync_regions, 0);
}

static void parity_0_stops_cleanly(void **state)
{
	const struct rig_geometry stripe = { .order = 2, .parity = 0, .blocks = 4096, .region_blocks = 256 };
	struct ddr_input in = { .type = DDR_IN_OP_CLEAN };
	struct fx *f = *state;

	fx_down(f);
	fx_up(f, &stripe);
	fx_lock(f, 3, 2);
	fx_step(f, &in);
	assert_int_equal(fx_event(f, DDR_EV_CLEAN), -1);
	fx_closed(f, 3, 2, 0);
	fx_settle(f);
	assert_true(fx_event(f, DDR_EV_CLEAN) >= 0);
	assert_int_equal(fx_status(f).log_writes, 0);
}

/* ---- rule 2 -------------------------------------------------------------------- */

/* Takes region 3 to just before its flush. */
static void close_one(struct fx *f)
{
	fx_lock(f, 3, 1);
	fx_forget(f);
	f->answers = 0;
	fx_closed(f, 3, 1, 0);
}

static void rule_2_the_order_of_clearing(void **state)
{
	struct fx *f = *state;
	struct ddr_msg msg;

	close_one(f);
	assert_int_equal(fx_count(f, DDR_OUT_FLUSH, 0), 1);
	assert_int_equal(fx_count(f, DDR_OUT_MCAST, 0), 0);
	fx_done(f, fx_open_io(f, DDR_OUT_FLUSH), 0, 0, 0);
	fx_sent(f, DDR_M_MAP_SET, &msg);
	assert_int_equal(msg.map_set.run[0].op, DDR_MAP_OP_WRITTEN);
	assert_true(dirty(f, 3));
	f->answers = FX_MSG;
	fx_settle(f);
	assert_true(dirty(f, 3));				/* the map is not durable yet */
	assert_int_equal(fx_count(f, DDR_OUT_LOG_WRITE, 0), 0);
	fx_done(f, fx_open_io(f, DDR_OUT_MAP_WRITE), 0, 0, 0);
	fx_settle(f);
	assert_int_equal(fx_count(f, DDR_OUT_LOG_WRITE, 0), 1);
	assert_int_equal(map_state(f, 3), DDR_REGION_NEEDS_SYNC);
}

static void rule_2_a_lock_during_the_flush_keeps_the_mark(void **state)
{
	struct fx *f = *state;

	close_one(f);
	fx_lock(f, 3, 1);
	assert_true(fx_kernel(f, DDR_U_GRANT) >= 0);		/* at once, without a write */
	assert_int_equal(fx_count(f, DDR_OUT_LOG_WRITE, 0), 0);
	f->answers = FX_ALL;
	fx_settle(f);
	assert_true(dirty(f, 3));
	assert_int_equal(fx_count(f, DDR_OUT_LOG_WRITE, 0), 0);
}

static void rule_2_a_lock_during_the_map_write_keeps_the_mark(void **state)
{
	struct fx *f = *state;

	close_one(f);
	f->answers = FX_MSG;
	fx_done(f, fx_open_io(f, DDR_OUT_FLUSH), 0, 0, 0);
	fx_settle(f);
	fx_lock(f, 3, 1);
	assert_true(fx_kernel(f, DDR_U_GRANT) >= 0);
	f->answers = FX_ALL;
	fx_settle(f);
	assert_true(dirty(f, 3));
	assert_int_equal(fx_count(f, DDR_OUT_LOG_WRITE, 0), 0);
}

static void rule_2_a_lock_during_the_clear_marks_again(void **state)
{
	const struct ddr_input pause = { .type = DDR_IN_OP_SET, .key = DDR_SM_RESYNC_PAUSED, .value = 1 };
	struct fx *f = *state;

	fx_step(f, &pause);
	close_one(f);
	f->answers = FX_MSG;
	fx_done(f, fx_open_io(f, DDR_OUT_FLUSH), 0, 0, 0);
	fx_settle(f);
	fx_done(f, fx_open_io(f, DDR_OUT_MAP_WRITE), 0, 0, 0);
	fx_settle(f);
	assert_false(dirty(f, 3));
	fx_lock(f, 3, 1);
	assert_int_equal(fx_kernel(f, DDR_U_GRANT), -1);	/* the clear is outstanding */
	fx_done(f, fx_open_io(f, DDR_OUT_LOG_WRITE), 0, 0, 0);
	assert_int_equal(fx_kernel(f, DDR_U_GRANT), -1);	/* the mark is outstanding */
	fx_done(f, fx_open_io(f, DDR_OUT_LOG_WRITE), 0, 0, 0);
	assert_true(fx_kernel(f, DDR_U_GRANT) >= 0);
	assert_true(dirty(f, 3));
}

static void rule_2_a_flush_counts_only_for_what_was_closed_before(void **state)
{
	struct fx *f = *state;

	fx_lock(f, 3, 2);
	fx_forget(f);
	f->answers = FX_MSG;
	fx_closed(f, 3, 1, 0);
	fx_closed(f, 4, 1, 0);		/* the flush is outstanding: this one needs another */
	fx_done(f, fx_open_io(f, DDR_OUT_FLUSH), 0, 0, 0);
	fx_settle(f);
	fx_done(f, fx_open_io(f, DDR_OUT_MAP_WRITE), 0, 0, 0);
	fx_settle(f);
	assert_true(dirty(f, 4));
	assert_int_equal(fx_count(f, DDR_OUT_FLUSH, 0), 2);
}

static void rule_2_the_flush_of_a_job_counts_only_for_what_was_closed_before(void **state)
{
	struct fx *f = *state;

	fx_lock(f, 3, 2);
	fx_forget(f);
	f->answers = FX_MSG | FX_KERNEL;
	fx_closed(f, 3, 1, -5);
	fx_done(f, fx_open_io(f, DDR_OUT_JOB_RANGE), 0, 0, 1);
	fx_settle(f);
	assert_int_equal(fx_count(f, DDR_OUT_FLUSH, 0), 1);	/* the job's */
	fx_closed(f, 4, 1, 0);
	fx_done(f, fx_open_io(f, DDR_OUT_FLUSH), 0, 0, 0);
	fx_settle(f);
	assert_int_equal(fx_count(f, DDR_OUT_FLUSH, 0), 2);
	assert_true(dirty(f, 4));
}

static void rule_2_a_failed_write_leaves_the_region_to_be_resynced(void **state)
{
	struct fx *f = *state;

	fx_lock(f, 3, 1);
	fx_forget(f);
	f->answers = FX_MSG | FX_KERNEL;
	fx_closed(f, 3, 1, -5);
	assert_int_equal(fx_status(f).resync_regions, 1);
	fx_done(f, fx_open_io(f, DDR_OUT_JOB_RANGE), 0, 0, 1);
	fx_settle(f);
	assert_true(dirty(f, 3));
	f->answers = FX_ALL;
	fx_settle(f);
	assert_false(dirty(f, 3));
	assert_int_equal(map_state(f, 3), DDR_REGION_CLEAN);
	assert_int_equal(fx_status(f).mismatches, 1);
}

static void a_failure_during_the_resync_starts_it_again(void **state)
{
	struct fx *f = *state;

	fx_lock(f, 3, 1);
	fx_closed(f, 3, 1, 0);
	f->answers = FX_MSG | FX_KERNEL;
	fx_lock(f, 3, 1);
	f->answers = FX_ALL;
	fx_settle(f);
	fx_forget(f);
	f->answers = FX_MSG | FX_KERNEL;
	fx_closed(f, 3, 1, -5);
	fx_lock(f, 3, 1);		/* granted while the job runs; the log must not call it a mere grant */
	fx_done(f, fx_open_io(f, DDR_OUT_LOG_WRITE), 0, 0, 0);
	assert_true(fx_kernel(f, DDR_U_GRANT) >= 0);
	fx_closed(f, 3, 1, -5);
	f->answers = FX_ALL;
	fx_settle(f);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 2);
	assert_false(dirty(f, 3));
}

/* ---- crashes ------------------------------------------------------------------- */

static void rule_7_regions_held_by_the_same_kernel_stay_granted(void **state)
{
	static const uint8_t regions[] = { 3, 4, 5 };
	struct fx *f = *state;

	restart(f);
	load_dirty(f, regions, 3, 7, 9);
	fx_view(f, 1, true, 1);
	fx_attach(f, 7, 4, 1);
	assert_int_equal(f->log[fx_event(f, DDR_EV_RECOVERY)].a, 2);	/* 3 and 5 */
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 2);
	assert_int_equal(fx_status(f).granted, 1);
	assert_true(dirty(f, 4));
	assert_false(dirty(f, 3));
}

static void rule_7_another_kernel_holds_nothing_that_counts(void **state)
{
	static const uint8_t regions[] = { 3, 4 };
	struct fx *f = *state;

	for (int what = 0; what < 2; what++) {
		restart(f);
		load_dirty(f, regions, 2, what ? 7 : 6, 9);
		if (what) {	/* the cookie matches, the boot does not */
			uint8_t payload[DDR_LOG_PAYLOAD] = { 0x18 }, boot[16] = { 2 };

			ddr_sm_load_log(f->sm, 0, 0, payload, 9, 1, boot, 7);
		}
		fx_view(f, 1, true, 1);
		fx_attach(f, 7, 4, 1);
		assert_int_equal(f->log[fx_event(f, DDR_EV_RECOVERY)].a, 2);
		assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 2);
	}
}

/* Rule 11 and note 14: the newest copy may be on one member alone. */
static void marks_are_made_durable_again_before_they_count(void **state)
{
	static const uint8_t regions[] = { 4 };
	struct fx *f = *state;
	uint32_t w;

	restart(f);
	load_dirty(f, regions, 1, 6, 9);
	f->answers = FX_MSG | FX_KERNEL;
	fx_view(f, 1, true, 1);
	fx_attach(f, 7, 0, 0);
	fx_done(f, fx_open_io(f, DDR_OUT_SB_WRITE), 0, 0, 0);
	fx_settle(f);
	assert_true(fx_event(f, DDR_EV_READY) >= 0);
	fx_lock(f, 4, 1);
	assert_int_equal(fx_kernel(f, DDR_U_GRANT), -1);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 0);
	w = fx_open_io(f, DDR_OUT_LOG_WRITE);
	fx_done(f, w, 0, 0, 0);
	assert_true(fx_kernel(f, DDR_U_GRANT) >= 0);
}

static void rule_11_an_unreadable_log_means_everything_dirty(void **state)
{
	struct ddr_disk_log blk;
	struct fx *f = *state;
	struct ddr_log_info info;
	uint8_t boot[16] = { 1 };

	restart(f);
	ddr_sm_load_log(f->sm, 0, 0, NULL, 12, 0, boot, 0);
	f->answers = FX_MSG | FX_KERNEL;
	fx_view(f, 1, true, 1);
	fx_attach(f, 7, 4, 2);
	fx_done(f, fx_open_io(f, DDR_OUT_SB_WRITE), 0, 0, 0);
	fx_settle(f);
	assert_int_equal(fx_status(f).dirty, 16);
	assert_int_equal(fx_status(f).resync_regions, 16);	/* held regions too: nothing records which of them was marked */
	fx_open_io(f, DDR_OUT_LOG_WRITE);
	ddr_sm_log_block(f->sm, 0, &blk);
	for (unsigned int place = 0; place < 2; place++)
		if (ddr_log_decode(&blk, &f->sb, 0, 0, place, &info).code == DDR_FE_OK)
			assert_true(info.seq > 1ull << 32);
	assert_int_equal(info.cookie, 0);			/* no owner while a resync is due */
}

static void rule_11_an_unreadable_map_means_written(void **state)
{
	struct fx *f = *state;

	restart(f);
	ddr_sm_load_map(f->sm, 0, NULL, 0);
	f->answers = FX_MSG | FX_KERNEL;
	fx_view(f, 1, true, 1);
	fx_attach(f, 7, 0, 0);
	fx_done(f, fx_open_io(f, DDR_OUT_SB_WRITE), 0, 0, 0);
	fx_settle(f);
	assert_int_equal(fx_status(f).needs_sync, 16);
}

static void rule_9_a_region_that_cannot_be_resynced_is_suspect(void **state)
{
	static const uint8_t regions[] = { 2 };
	struct fx *f = *state;

	f->sb.member[1].state = DDR_MEMBER_FAULTY;
	f->sb.generation = 2;
	memset(f->sb.gen_prev, 9, 16);
	f->cfg.present &= ~2u;
	restart(f);
	load_dirty(f, regions, 1, 6, 9);
	fx_view(f, 1, true, 1);
	fx_attach(f, 7, 0, 0);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 0);
	assert_true(fx_event(f, DDR_EV_SUSPECT) >= 0);
	assert_int_equal(fx_status(f).suspect, 1);
	assert_false(dirty(f, 2));
	assert_int_equal(ddr_sm_region(f->sm, 2), DDR_REGION_NEEDS_SYNC | DDR_REGION_F_SUSPECT | DDR_REGION_F_WRITTEN);
}

static void rule_9_a_missing_parity_member_leaves_nothing_suspect(void **state)
{
	static const uint8_t regions[] = { 2 };
	struct fx *f = *state;

	f->sb.member[4].state = DDR_MEMBER_FAULTY;
	f->sb.generation = 2;
	memset(f->sb.gen_prev, 9, 16);
	restart(f);
	load_dirty(f, regions, 1, 6, 9);
	fx_view(f, 1, true, 1);
	fx_attach(f, 7, 0, 0);
	assert_int_equal(fx_status(f).suspect, 0);
	assert_false(dirty(f, 2));
}

/* ---- without quorum, detach, stop ---------------------------------------------- */

static void rule_8_without_quorum_nothing_is_granted(void **state)
{
	struct fx *f = *state;

	fx_view(f, 1, false, 1);
	assert_int_equal(f->log[fx_kernel(f, DDR_U_FREEZE)].rec.flags, DDR_F_READS);
	fx_lock(f, 3, 1);
	assert_int_equal(fx_kernel(f, DDR_U_GRANT), -1);
	assert_int_equal(fx_count(f, DDR_OUT_LOG_WRITE, 0), 0);
	fx_view(f, 1, true, 1);
	assert_true(fx_kernel(f, DDR_U_THAW) >= 0);
	assert_true(fx_kernel(f, DDR_U_GRANT) >= 0);
}

/* No other node can fail a member, or this node, while the daemon is silent: reads need not stop. */
static void a_stopped_kernel_of_a_single_node_is_enabled_again(void **state)
{
	struct fx *f = *state;
	int at;

	fx_forget(f);
	fx_record(f, (struct ddr_rec){ .type = DDR_K_STOPPED, .member = DDR_NO_MEMBER });
	fx_settle(f);
	at = fx_kernel(f, DDR_U_ENABLE);
	assert_true(at >= 0);
	assert_int_equal(f->log[at].rec.flags, 0);
}

static void a_region_closed_while_detached_is_resynced(void **state)
{
	struct fx *f = *state;
	struct ddr_input in = { .type = DDR_IN_K_DETACHED };

	fx_lock(f, 3, 2);
	fx_step(f, &in);
	assert_false(fx_status(f).attached);
	fx_forget(f);
	fx_attach(f, 7, 4, 1);		/* region 3 is gone, and how its writes ended is unknown */
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 1);
	assert_int_equal(f->log[fx_find(f, DDR_OUT_JOB_RANGE, 0)].start, 3 * 256);
	assert_true(f->log[fx_find(f, DDR_OUT_JOB_RANGE, 0)].strict);	/* what was in flight there cannot be computed */
	assert_true(dirty(f, 4));
	assert_int_equal(fx_status(f).granted, 1);
}

static void a_clean_stop_leaves_nothing_marked(void **state)
{
	struct fx *f = *state;
	struct ddr_input in = { .type = DDR_IN_OP_CLEAN };

	fx_lock(f, 3, 2);
	fx_tick(f, 10);
	fx_forget(f);
	fx_step(f, &in);
	assert_true(fx_kernel(f, DDR_U_REAP) >= 0);
	assert_int_equal(fx_event(f, DDR_EV_CLEAN), -1);
	fx_closed(f, 3, 2, 0);
	fx_settle(f);
	assert_int_equal(f->log[fx_event(f, DDR_EV_CLEAN)].a, 0);
	assert_int_equal(fx_status(f).dirty, 0);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 0);	/* and nothing new is begun */
	fx_lock(f, 5, 1);		/* until the region is written again */
	fx_closed(f, 5, 1, 0);
	assert_true(fx_count(f, DDR_OUT_JOB_RANGE, 0) > 0);
}

static int job(const struct fx *f)
{
	return fx_find(f, DDR_OUT_JOB_RANGE, 0);
}

/* A stop that does not complete, and then is withdrawn: the array is as before. */
static void a_clean_stop_is_taken_back(void **state)
{
	struct ddr_input clean = { .type = DDR_IN_OP_CLEAN }, stay = { .type = DDR_IN_OP_STAY };
	const struct ddr_input resume = { .type = DDR_IN_OP_SET, .key = DDR_SM_RESYNC_PAUSED, .value = 0 };
	struct fx *f = *state;

	fx_lock(f, 3, 2);
	fx_tick(f, 10);
	fx_step(f, &clean);
	fx_settle(f);
	fx_forget(f);
	fx_step(f, &resume);		/* a setting does not end it */
	fx_closed(f, 3, 1, -5);
	assert_int_equal(job(f), -1);
	fx_step(f, &stay);
	fx_settle(f);
	assert_int_equal(f->log[job(f)].start, 3 * 256);
	fx_forget(f);
	fx_closed(f, 4, 1, 0);
	fx_settle(f);
	assert_int_equal(fx_event(f, DDR_EV_CLEAN), -1);
	assert_true(job(f) >= 0);	/* computed for the first time */
	fx_forget(f);
	fx_step(f, &clean);		/* and a later one ends */
	fx_settle(f);
	assert_true(fx_event(f, DDR_EV_CLEAN) >= 0);
}

/* The stop completed, and the device stayed. */
static void an_array_can_be_used_after_a_clean_stop(void **state)
{
	struct ddr_input clean = { .type = DDR_IN_OP_CLEAN }, stay = { .type = DDR_IN_OP_STAY };
	struct fx *f = *state;

	fx_lock(f, 3, 1);
	fx_step(f, &clean);
	fx_closed(f, 3, 1, 0);
	fx_settle(f);
	assert_true(fx_event(f, DDR_EV_CLEAN) >= 0);
	assert_int_equal(job(f), -1);
	fx_step(f, &stay);
	fx_settle(f);
	assert_true(job(f) >= 0);
}

static void regions_that_are_idle_are_closed(void **state)
{
	struct fx *f = *state;
	struct ddr_input in = { .type = DDR_IN_OP_SET, .key = DDR_SM_IDLE_MS, .value = 200 };

	fx_step(f, &in);
	fx_tick(f, 1000);
	fx_lock(f, 3, 1);
	fx_forget(f);
	fx_tick(f, 1199);
	assert_int_equal(fx_kernel(f, DDR_U_REAP), -1);
	fx_tick(f, 1200);
	assert_true(fx_kernel(f, DDR_U_REAP) >= 0);
}

static void the_background_computes_what_was_written_once(void **state)
{
	struct fx *f = *state;

	fx_lock(f, 3, 1);
	fx_closed(f, 3, 1, 0);
	assert_int_equal(map_state(f, 3), DDR_REGION_CLEAN);
	assert_int_equal(map_state(f, 2), DDR_REGION_UNWRITTEN);
	assert_int_equal(fx_status(f).dirty, 0);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 1);
}

/* Answers all outstanding outputs but jobs. */
static void settle_but_jobs(struct fx *f)
{
	f->answers = FX_MSG | FX_KERNEL;
	for (uint32_t before = f->n + 1; f->n != before;) {
		before = f->n;
		fx_settle(f);
		for (uint32_t i = 0; i < before; i++)
			if (f->open[i] && fx_is_io(&f->log[i]) && f->log[i].type != DDR_OUT_JOB_RANGE)
				fx_done(f, i, 0, 0, 0);
		fx_settle(f);
	}
}

/*
 * A data member fails while background work is in progress in a region. Nothing was in flight there, so its parity describes the
 * member's data as well as before: the region is not listed as one that has lost data, and is done when another member has taken the
 * place.
 */
static void the_background_ends_where_data_goes_missing(void **state)
{
	struct fx *f = *state;

	fx_lock(f, 5, 1);
	f->answers = FX_MSG | FX_KERNEL;
	fx_closed(f, 5, 1, 0);
	settle_but_jobs(f);
	fx_tick(f, 1000);
	assert_int_equal(f->log[fx_open_io(f, DDR_OUT_JOB_RANGE)].start / 256, 5);
	assert_false(f->log[fx_open_io(f, DDR_OUT_JOB_RANGE)].strict);	/* nothing was in flight there */
	fx_error(f, 9, 1, DDR_EC_IO, DDR_OP_WRITE);
	settle_but_jobs(f);
	assert_true(fx_status(f).degraded);
	fx_done(f, fx_open_io(f, DDR_OUT_JOB_RANGE), 0, 0, 0);
	f->answers = FX_ALL;
	fx_settle(f);
	fx_tick(f, 2000);
	assert_int_equal(fx_event(f, DDR_EV_SUSPECT), -1);
	assert_int_equal(fx_status(f).suspect, 0);
	assert_int_equal(map_state(f, 5) & DDR_REGION_STATE_MASK, DDR_REGION_NEEDS_SYNC);
	assert_false(dirty(f, 5));
}

/* A stop ends a resync in the middle, and the resync starts over when the region is written again: its progress is not counted twice. */
static void a_stopped_resync_has_done_nothing(void **state)
{
	static const struct rig_geometry large = { .order = 2, .parity = 1, .blocks = 32768, .region_blocks = 8192, .slots = 4 };
	struct ddr_input stop = { .type = DDR_IN_OP_CLEAN }, go_on = { .type = DDR_IN_OP_SET, .key = DDR_SM_RESYNC_PAUSED };
	struct fx *f = *state;

	fx_down(f);
	fx_make(f, &large);
	f->sm = rig_sm(&f->cfg);
	assert_non_null(f->sm);
	fx_load_empty(f);
	fx_view(f, 1, true, 1);
	fx_attach(f, 7, 0, 0);
	fx_lock(f, 3, 1);
	f->answers = FX_MSG | FX_KERNEL;
	fx_closed(f, 3, 1, -EIO);
	for (uint32_t round = 0; round < 3; round++) {
		settle_but_jobs(f);
		fx_done(f, fx_open_io(f, DDR_OUT_JOB_RANGE), 0, 0, 0);
		assert_true(fx_status(f).resync_done > 0);
		fx_step(f, &stop);
		while (fx_find_open(f, DDR_OUT_JOB_RANGE) >= 0)
			fx_done(f, (uint32_t)fx_find_open(f, DDR_OUT_JOB_RANGE), 0, 0, 0);
		settle_but_jobs(f);
		assert_true(fx_event(f, DDR_EV_CLEAN) >= 0);
		assert_int_equal(fx_status(f).resync_done, 0);
		assert_int_equal(fx_status(f).resync_total, 8192);
		fx_forget(f);
		fx_step(f, &go_on);
	}
	f->answers = FX_ALL;
	fx_settle(f);
	assert_int_equal(fx_status(f).resync_done, 8192);
}

/* ---- size ---------------------------------------------------------------------- */

static void a_million_regions(void **state)
{
	const struct rig_geometry big = { .order = 3, .parity = 2, .blocks = 16ull << 20, .region_blocks = 16, .slots = 1 };
	struct fx *f = *state;
	struct ddr_input in = { .type = DDR_IN_K_REC };
	struct ddr_outputs outs = { .out = f->buf };
	uint32_t steps;

	fx_down(f);
	fx_up(f, &big);
	assert_int_equal(fx_status(f).regions, 1u << 20);
	assert_true(ddr_sm_size(&f->cfg) < 8u << 20);
	f->answers = 0;
	for (uint64_t r = 0; r < 1u << 20; r += 512)	/* scattered: no two in one run */
		fx_lock(f, r, 1);
	for (uint32_t i = 0; i < f->sb.log_blocks; i++)
		fx_done(f, fx_open_io(f, DDR_OUT_LOG_WRITE), 0, 0, 0);
	fx_forget(f);
	in.rec = (struct ddr_rec){ .type = DDR_K_LOCK, .start = 0, .count = 1u << 20 };
	ddr_sm_step(f->sm, &in, &outs);
	for (steps = 0; outs.more || steps == 0; steps++) {
		assert_true(outs.n <= DDR_SM_MAX_OUT);
		in.type = DDR_IN_NONE;
		ddr_sm_step(f->sm, &in, &outs);
	}
	assert_null(ddr_sm_check(f->sm));
	assert_int_equal(fx_status(f).dirty, 1u << 20);
}

/* A batch of which nothing is left, since its region is written again, does not keep the next one waiting for a tick. */
static void the_next_batch_follows_an_empty_one(void **state)
{
	struct fx *f = *state;
	struct ddr_input in = { .type = DDR_IN_FLUSH_DONE };
	uint32_t at;

	fx_lock(f, 1, 2);
	f->answers = FX_MSG | FX_KERNEL;
	fx_closed(f, 1, 1, 0);
	at = (uint32_t)fx_open_io(f, DDR_OUT_FLUSH);
	fx_lock(f, 1, 1);		/* the mark stays */
	fx_closed(f, 2, 1, 0);
	in.io = f->log[at].io;
	f->open[at] = false;
	fx_step(f, &in);
	assert_int_not_equal(fx_open_io(f, DDR_OUT_FLUSH), at);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(rule_1_grant_waits_for_the_log), TEST(group_commit_includes_requests_that_arrived_meanwhile),
		TEST(a_granted_region_costs_nothing_more), TEST(parity_0_has_no_log), TEST(parity_0_stops_cleanly),
		TEST(rule_2_the_order_of_clearing),
		TEST(rule_2_a_lock_during_the_flush_keeps_the_mark), TEST(rule_2_a_lock_during_the_map_write_keeps_the_mark),
		TEST(rule_2_a_lock_during_the_clear_marks_again), TEST(rule_2_a_flush_counts_only_for_what_was_closed_before),
		TEST(rule_2_the_flush_of_a_job_counts_only_for_what_was_closed_before),
		TEST(rule_2_a_failed_write_leaves_the_region_to_be_resynced), TEST(a_failure_during_the_resync_starts_it_again),
		TEST(rule_7_regions_held_by_the_same_kernel_stay_granted), TEST(rule_7_another_kernel_holds_nothing_that_counts),
		TEST(marks_are_made_durable_again_before_they_count), TEST(rule_11_an_unreadable_log_means_everything_dirty),
		TEST(rule_11_an_unreadable_map_means_written), TEST(rule_9_a_region_that_cannot_be_resynced_is_suspect),
		TEST(rule_9_a_missing_parity_member_leaves_nothing_suspect), TEST(rule_8_without_quorum_nothing_is_granted),
		TEST(a_stopped_kernel_of_a_single_node_is_enabled_again), TEST(a_region_closed_while_detached_is_resynced), TEST(a_clean_stop_leaves_nothing_marked),
		TEST(a_clean_stop_is_taken_back), TEST(an_array_can_be_used_after_a_clean_stop),
		TEST(regions_that_are_idle_are_closed), TEST(the_background_computes_what_was_written_once),
		TEST(the_background_ends_where_data_goes_missing), TEST(a_stopped_resync_has_done_nothing),
		TEST(a_million_regions), TEST(the_next_batch_follows_an_empty_one),
	};

	return cmocka_run_group_tests_name("state machine: grants and marks", tests, NULL, NULL);
}
