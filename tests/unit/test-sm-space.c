// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A member that has no space left is not failed: what met the lack of space waits, is reported, is tried again, and nothing counts
 * before it is durable.
 */
#include <errno.h>

#include "sm-fixture.h"

#define PAUSE	5000u	/* more than any pause between two tries */

static int setup(void **state)
{
	return fx_setup(state, &fx_five);
}

static int setup_six(void **state)
{
	return fx_setup(state, &fx_six);
}

/* The request that waits ends: @full have no space left; @broken failed for something else. */
static void ends(struct fx *f, uint32_t i, uint32_t full, uint32_t broken)
{
	static const enum ddr_in_type types[] = {
		[DDR_OUT_LOG_WRITE] = DDR_IN_LOG_DONE, [DDR_OUT_MAP_WRITE] = DDR_IN_MAP_DONE, [DDR_OUT_SB_WRITE] = DDR_IN_SB_DONE,
		[DDR_OUT_PREPARE] = DDR_IN_PREPARED,
	};
	struct ddr_input in = { .type = types[f->log[i].type], .io = f->log[i].io, .failed_members = full | broken, .no_space = full };

	f->open[i] = false;
	fx_step(f, &in);
	fx_settle(f);
}

/* A job met no space when it wrote. */
static void job_ends(struct fx *f, uint32_t i, int result, uint32_t failed)
{
	struct ddr_input in = { .type = DDR_IN_JOB_DONE, .io = f->log[i].io, .failed_members = failed, .members = failed, .result = result };

	f->open[i] = false;
	fx_step(f, &in);
	fx_settle(f);
}

static bool dirty(const struct fx *f, uint64_t region)
{
	return ddr_sm_region(f->sm, region) & DDR_SM_REGION_DIRTY;
}

static void nobody_failed(const struct fx *f)
{
	for (uint32_t m = 0; m < f->sb.members; m++)
		assert_int_equal(fx_status(f).member_state[m], f->sb.member[m].state);
	assert_int_equal(fx_event(f, DDR_EV_MEMBER_FAILED), -1);
	assert_int_equal(fx_event(f, DDR_EV_FAILED), -1);
	assert_false(fx_status(f).failed);
}

static uint64_t written_seq(struct fx *f, uint32_t i)
{
	struct ddr_disk_log blk;
	struct ddr_log_info info = { .seq = 0 };

	assert_int_equal(f->log[i].type, DDR_OUT_LOG_WRITE);
	ddr_sm_log_block(f->sm, 0, &blk);
	for (unsigned int place = 0; place < 2; place++)
		ddr_log_decode(&blk, &f->sb, 0, 0, place, &info);
	assert_true(info.seq > 0);
	return info.seq;
}

/* ---- the log ------------------------------------------------------------------- */

/* Finding S26: no space for the write of a mark: the user's write waits, no member fails, and it continues automatically. */
static void a_mark_without_space_is_waited_for(void **state)
{
	struct fx *f = *state;
	int event;

	f->answers = FX_MSG | FX_KERNEL;
	fx_lock(f, 3, 1);
	ends(f, fx_open_io(f, DDR_OUT_LOG_WRITE), 1u << 2, 0);
	nobody_failed(f);
	assert_int_equal(fx_kernel(f, DDR_U_GRANT), -1);
	event = fx_event(f, DDR_EV_NO_SPACE);
	assert_true(event >= 0);
	assert_int_equal(f->log[event].member, 2);
	assert_int_equal(f->log[event].a, DDR_SPACE_LOG);
	assert_int_equal(fx_status(f).no_space, 1u << 2);
	assert_non_null(fx_status(f).space_wait);
	assert_int_equal(fx_find_open(f, DDR_OUT_LOG_WRITE), -1);	/* not at once */

	fx_tick(f, PAUSE);
	ends(f, fx_open_io(f, DDR_OUT_LOG_WRITE), 1u << 2, 0);
	assert_int_equal(fx_kernel(f, DDR_U_GRANT), -1);
	assert_int_equal(fx_count(f, DDR_OUT_EVENT, DDR_EV_NO_SPACE), 1);	/* once */

	fx_tick(f, 2 * PAUSE);
	ends(f, fx_open_io(f, DDR_OUT_LOG_WRITE), 0, 0);
	assert_int_equal(f->log[fx_kernel(f, DDR_U_GRANT)].rec.start, 3);
	assert_true(fx_event(f, DDR_EV_SPACE) >= 0);
	assert_int_equal(fx_status(f).no_space, 0);
	assert_null(fx_status(f).space_wait);
	nobody_failed(f);
}

/* Finding S26: the copy that is whole on all members stays as it is until the one that lacks space has another one. */
static void the_good_copy_is_not_written_over(void **state)
{
	struct fx *f = *state;
	uint64_t first, again;
	uint32_t w;

	f->answers = FX_MSG | FX_KERNEL;
	fx_lock(f, 3, 1);
	w = fx_open_io(f, DDR_OUT_LOG_WRITE);
	first = written_seq(f, w);
	ends(f, w, 1u << 2, 0);
	fx_tick(f, PAUSE);
	w = fx_open_io(f, DDR_OUT_LOG_WRITE);
	again = written_seq(f, w);
	assert_true(again > first);
	assert_int_equal(again & 1, first & 1);		/* this distinguishes the two copies */
}

/* Existing grants stay, and a region of the block that was marked before remains granted. */
static void a_grant_that_is_there_waits_for_nothing(void **state)
{
	struct fx *f = *state;

	fx_lock(f, 3, 1);
	fx_forget(f);
	f->answers = FX_MSG | FX_KERNEL;
	fx_lock(f, 4, 1);
	ends(f, fx_open_io(f, DDR_OUT_LOG_WRITE), 1u << 2, 0);
	assert_true(dirty(f, 3));
	assert_int_equal(fx_status(f).granted, 1);
}

/* Finding S26: a member that is gone fails as before, beside one that has no space. */
static void a_broken_member_fails_beside_a_full_one(void **state)
{
	struct fx *f = *state;

	f->answers = FX_MSG | FX_KERNEL;
	fx_lock(f, 3, 1);
	ends(f, fx_open_io(f, DDR_OUT_LOG_WRITE), 1u << 2, 1u << 4);
	fx_supers_done(f);
	assert_int_equal(fx_status(f).member_state[4], DDR_MEMBER_FAULTY);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_IN_SYNC);
	assert_int_equal(fx_kernel(f, DDR_U_GRANT), -1);	/* rule 1: on all members in sync */
	fx_tick(f, PAUSE);
	assert_int_equal(f->log[fx_open_io(f, DDR_OUT_LOG_WRITE)].members, 63 & ~(1u << 4));
	ends(f, fx_open_io(f, DDR_OUT_LOG_WRITE), 0, 0);
	assert_true(fx_kernel(f, DDR_U_GRANT) >= 0);
}

/* The operator's way out: a member that is failed by hand is waited for no more. */
static void waiting_writes_continue_when_the_full_member_fails(void **state)
{
	struct ddr_input fail = { .type = DDR_IN_OP_FAIL_MEMBER, .member = 2 };
	struct fx *f = *state;

	f->answers = FX_MSG | FX_KERNEL;
	fx_lock(f, 3, 1);
	ends(f, fx_open_io(f, DDR_OUT_LOG_WRITE), 1u << 2, 0);
	fx_step(f, &fail);
	fx_settle(f);
	ends(f, fx_open_io(f, DDR_OUT_SB_WRITE), 0, 0);
	fx_settle(f);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_FAULTY);
	fx_tick(f, 100);
	ends(f, fx_open_io(f, DDR_OUT_LOG_WRITE), 0, 0);
	assert_true(fx_kernel(f, DDR_U_GRANT) >= 0);
	assert_int_equal(fx_status(f).no_space, 0);
}

/* ---- the map ------------------------------------------------------------------- */

/* Finding S26: no space for the map: it clears no mark, and no member fails. */
static void a_map_without_space_is_waited_for(void **state)
{
	const struct ddr_input pause = { .type = DDR_IN_OP_SET, .key = DDR_SM_RESYNC_PAUSED, .value = 1 };
	struct fx *f = *state;

	fx_step(f, &pause);
	fx_lock(f, 3, 1);
	fx_forget(f);
	f->answers = FX_MSG | FX_KERNEL;
	fx_closed(f, 3, 1, 0);
	fx_done(f, fx_open_io(f, DDR_OUT_FLUSH), 0, 0, 0);
	fx_settle(f);
	ends(f, fx_open_io(f, DDR_OUT_MAP_WRITE), 1u << 1, 0);
	nobody_failed(f);
	assert_true(dirty(f, 3));
	assert_int_equal(fx_find_open(f, DDR_OUT_LOG_WRITE), -1);
	assert_int_equal(f->log[fx_event(f, DDR_EV_NO_SPACE)].a, DDR_SPACE_MAP);
	fx_tick(f, PAUSE);
	assert_true(dirty(f, 3));
	ends(f, fx_open_io(f, DDR_OUT_MAP_WRITE), 0, 0);
	assert_false(dirty(f, 3));
	assert_true(fx_event(f, DDR_EV_SPACE) >= 0);
}

/* ---- superblocks --------------------------------------------------------------- */

static uint64_t written_generation(const struct fx *f, struct ddr_super *sb)
{
	ddr_sm_superblock(f->sm, 0, sb);
	return sb->generation;
}

/* Finding S26: no space in a superblock: the failure of another member is not agreed before it is there, and then it is. */
static void a_superblock_without_space_is_waited_for(void **state)
{
	struct ddr_super first, again;
	struct fx *f = *state;

	f->answers = FX_MSG | FX_KERNEL;
	fx_error(f, 77, 4, DDR_EC_IO, DDR_OP_WRITE);
	written_generation(f, &first);
	ends(f, fx_open_io(f, DDR_OUT_SB_WRITE), 1u << 2, 0);
	assert_int_equal(fx_event(f, DDR_EV_MEMBER_FAILED), -1);		/* rule 3: not durable on all that remain */
	assert_int_equal(fx_kernel(f, DDR_U_RESOLVE), -1);
	assert_int_equal(f->log[fx_event(f, DDR_EV_NO_SPACE)].a, DDR_SPACE_SUPER);
	fx_tick(f, PAUSE);
	/* the same generation: a member that has not got it is one behind at most, or the next start would leave it out */
	written_generation(f, &again);
	assert_int_equal(again.generation, first.generation);
	assert_memory_equal(again.gen_id, first.gen_id, sizeof(first.gen_id));
	assert_true(again.seq > first.seq);
	ends(f, fx_open_io(f, DDR_OUT_SB_WRITE), 0, 0);
	assert_int_equal(fx_status(f).member_state[4], DDR_MEMBER_FAULTY);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_IN_SYNC);
	assert_int_equal(f->log[fx_kernel(f, DDR_U_RESOLVE)].rec.arg[0], DDR_RES_RETRY);
	assert_true(fx_event(f, DDR_EV_SPACE) >= 0);
}

/*
 * Changes that come meanwhile wait for their own generation; the member that lacks space is failed by an operator, and delays nothing. It has an old
 * superblock then, which lists the other one as in sync: neither change counts before the other members list both (rule 3).
 */
static void a_full_member_is_failed_by_hand_during_a_change(void **state)
{
	struct ddr_input fail = { .type = DDR_IN_OP_FAIL_MEMBER, .member = 2 };
	struct ddr_super first, second;
	struct fx *f = *state;

	f->answers = FX_MSG | FX_KERNEL;
	fx_error(f, 77, 4, DDR_EC_IO, DDR_OP_WRITE);
	written_generation(f, &first);
	ends(f, fx_open_io(f, DDR_OUT_SB_WRITE), 1u << 2, 0);
	fx_step(f, &fail);
	fx_settle(f);
	fx_tick(f, 100);
	assert_int_equal(f->log[fx_open_io(f, DDR_OUT_SB_WRITE)].members, 63 & ~(1u << 4 | 1u << 2));
	assert_int_equal(written_generation(f, &second), first.generation);
	ends(f, fx_open_io(f, DDR_OUT_SB_WRITE), 0, 0);
	assert_int_equal(fx_event(f, DDR_EV_MEMBER_FAILED), -1);
	assert_int_equal(fx_kernel(f, DDR_U_RESOLVE), -1);
	assert_int_equal(written_generation(f, &second), first.generation + 1);
	fx_supers_done(f);
	assert_int_equal(fx_status(f).member_state[4], DDR_MEMBER_FAULTY);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_FAULTY);
	assert_int_equal(f->log[fx_kernel(f, DDR_U_RESOLVE)].rec.arg[0], DDR_RES_RETRY);
	assert_int_equal(fx_status(f).no_space, 0);
}

/* ---- jobs ---------------------------------------------------------------------- */

/* Finding S26: the resync of a region that a write tore meets no space: the range is given back, the region stays dirty, and is done later. */
static void a_resync_without_space_is_tried_again(void **state)
{
	struct fx *f = *state;
	uint32_t tries = 0;

	fx_lock(f, 3, 1);
	fx_forget(f);
	f->answers = FX_MSG | FX_KERNEL;
	fx_closed(f, 3, 1, -EIO);
	job_ends(f, fx_open_io(f, DDR_OUT_JOB_RANGE), -ENOSPC, 1u << 4);
	nobody_failed(f);
	assert_true(dirty(f, 3));
	assert_int_equal(f->log[fx_event(f, DDR_EV_NO_SPACE)].a, DDR_SPACE_JOB);
	assert_true(fx_kernel(f, DDR_U_RELEASE) >= 0);			/* writers in the range do not wait for it */
	assert_int_equal(fx_find_open(f, DDR_OUT_JOB_RANGE), -1);
	for (uint64_t ms = 100; ms <= 30000; ms += 100) {
		fx_tick(f, ms);
		if (fx_find_open(f, DDR_OUT_JOB_RANGE) < 0)
			continue;
		job_ends(f, fx_open_io(f, DDR_OUT_JOB_RANGE), -ENOSPC, 1u << 4);
		tries++;
	}
	assert_in_range(tries, 4, 15);		/* it does not give up, and does not hammer */
	assert_int_equal(fx_count(f, DDR_OUT_EVENT, DDR_EV_NO_SPACE), 1);
	assert_int_equal(fx_status(f).err_write[4], 0);			/* nothing is wrong with it */
	nobody_failed(f);
	fx_tick(f, 30000 + PAUSE);
	f->answers = FX_ALL;
	fx_settle(f);
	assert_false(dirty(f, 3));
	assert_true(fx_event(f, DDR_EV_SPACE) >= 0);
	assert_int_equal(fx_status(f).no_space, 0);
}

/* Finding S26: a repair that meets "no space" is no reason to trust what it was to repair. */
static void a_repair_without_space_is_no_resync(void **state)
{
	struct fx *f = *state;

	fx_make_clean(f, 3, 1);
	f->answers = FX_MSG | FX_KERNEL;
	fx_record(f, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = 5, .member = 2, .status = DDR_EC_MEDIUM, .start = 800, .count = 1 });
	fx_settle(f);
	fx_answer_all_but_jobs(f);
	assert_int_equal(f->log[fx_open_io(f, DDR_OUT_JOB_RANGE)].fix, DDR_FIX_FITS | DDR_FIX_BAD);
	job_ends(f, fx_open_io(f, DDR_OUT_JOB_RANGE), -ENOSPC, 1u << 2);
	nobody_failed(f);
	assert_int_equal(fx_status(f).resync_regions, 0);
	assert_true(dirty(f, 3));
	fx_tick(f, 3 * PAUSE);
	fx_answer_all_but_jobs(f);
	assert_true(f->log[fx_open_io(f, DDR_OUT_JOB_RANGE)].fix & DDR_FIX_BAD);		/* it is looked at once more */
}

/* A flush that returns "no space" may have lost earlier writes: that is treated as any failed flush (rule 3). */
static void a_flush_error_is_never_lack_of_space(void **state)
{
	struct fx *f = *state;

	fx_lock(f, 3, 1);
	fx_forget(f);
	f->answers = FX_MSG | FX_KERNEL;
	fx_closed(f, 3, 1, 0);
	fx_done(f, fx_open_io(f, DDR_OUT_FLUSH), 1u << 2, 0, 0);
	fx_settle(f);
	f->answers = FX_ALL;
	fx_settle(f);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_FAULTY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_mark_without_space_is_waited_for, setup, fx_teardown),
		cmocka_unit_test_setup_teardown(the_good_copy_is_not_written_over, setup, fx_teardown),
		cmocka_unit_test_setup_teardown(a_grant_that_is_there_waits_for_nothing, setup, fx_teardown),
		cmocka_unit_test_setup_teardown(a_broken_member_fails_beside_a_full_one, setup_six, fx_teardown),
		cmocka_unit_test_setup_teardown(waiting_writes_continue_when_the_full_member_fails, setup, fx_teardown),
		cmocka_unit_test_setup_teardown(a_map_without_space_is_waited_for, setup, fx_teardown),
		cmocka_unit_test_setup_teardown(a_superblock_without_space_is_waited_for, setup, fx_teardown),
		cmocka_unit_test_setup_teardown(a_full_member_is_failed_by_hand_during_a_change, setup_six, fx_teardown),
		cmocka_unit_test_setup_teardown(a_resync_without_space_is_tried_again, setup, fx_teardown),
		cmocka_unit_test_setup_teardown(a_repair_without_space_is_no_resync, setup, fx_teardown),
		cmocka_unit_test_setup_teardown(a_flush_error_is_never_lack_of_space, setup, fx_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
