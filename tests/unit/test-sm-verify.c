// SPDX-License-Identifier: GPL-2.0-or-later
/* Verify: what is read, what is looked at again, which node continues; and repairs in place, by verify and after a bad sector. */
#include "sm-cluster.h"
#include "sm-fixture.h"

#define REGION	256u
#define ENODATA_	(-61)

static int setup(void **state)
{
	return fx_setup(state, &fx_six);
}

static int setup_cluster(void **state)
{
	return cx_setup(state, 3);
}

/* ---- one node ------------------------------------------------------------------ */

static void ask(struct fx *f, enum ddr_verify_op op, uint32_t flags)
{
	struct ddr_input in = { .type = DDR_IN_OP_VERIFY, .key = op, .value = 3, .members = flags };

	fx_step(f, &in);
	fx_settle(f);
}

static const struct ddr_verify *record(const struct fx *f)
{
	return &ddr_sm_super(f->sm)->verify;
}

/* A job that is open ends like this. */
static void job_ends(struct fx *f, struct ddr_input in)
{
	uint32_t i = fx_open_io(f, DDR_OUT_JOB_RANGE);

	in.type = DDR_IN_JOB_DONE;
	in.io = f->log[i].io;
	f->open[i] = false;
	fx_step(f, &in);
	fx_settle(f);
}

/* Number of wrong stripes, as last reported to the kernel. */
static uint64_t told_wrong(const struct fx *f)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < f->n; i++)
		if (f->log[i].type == DDR_OUT_KERNEL && f->log[i].rec.type == DDR_U_STATUS)
			n = f->log[i].rec.arg[2];
	return n;
}

static bool job_open(const struct fx *f)
{
	for (uint32_t i = 0; i < f->n; i++)
		if (f->open[i] && f->log[i].type == DDR_OUT_JOB_RANGE)
			return true;
	return false;
}

static void three_looks(struct fx *f, uint64_t start, uint64_t count)
{
	for (uint32_t look = 0; look < 3; look++)
		job_ends(f, (struct ddr_input){ .mismatches = (uint32_t)count, .start = start, .count = count });
	fx_answer_all_but_jobs(f);
}

static void verify_reads_written_regions_without_a_range(void **state)
{
	struct fx *f = *state;

	fx_make_clean(f, 2, 1);
	fx_make_clean(f, 7, 2);
	f->answers = FX_MSG | FX_KERNEL;
	ask(f, DDR_VERIFY_OP_START, 0);
	assert_int_equal(record(f)->state, DDR_VERIFY_RUNNING);
	assert_int_equal(fx_job(f)->start, 2 * REGION);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 2);		/* two reads side by side */
	while (job_open(f)) {
		const struct ddr_output *o = fx_job(f);

		assert_true(o->unlocked && o->job == DDR_KA_VERIFY && !o->fix && o->members == 0x3f);
		assert_true(o->start / REGION == 2 || o->start / REGION == 7 || o->start / REGION == 8);
		job_ends(f, (struct ddr_input){ 0 });
	}
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 3);
	assert_int_equal(fx_kernel(f, DDR_U_DRAIN), -1);		/* no lock, no mark */
	assert_int_equal(fx_count(f, DDR_OUT_LOG_WRITE, 0), 0);
	assert_true(fx_event(f, DDR_EV_VERIFY_DONE) >= 0);
	assert_int_equal(record(f)->state, DDR_VERIFY_NONE);
}

/* As at a start whose map records the region as suspect, with all members present again. */
static void up_with_suspect(struct fx *f, const struct rig_geometry *g, uint64_t region)
{
	uint8_t payload[DDR_LOG_PAYLOAD] = { 0 };

	fx_down(f);
	fx_make(f, g);
	f->sm = rig_sm(&f->cfg);
	assert_non_null(f->sm);
	fx_load_empty(f);
	payload[region / 2] = (uint8_t)((DDR_REGION_NEEDS_SYNC | DDR_REGION_F_SUSPECT | DDR_REGION_F_WRITTEN) << (region % 2 * 4));
	ddr_sm_load_map(f->sm, 0, payload, 2);
	fx_view(f, 1, true, 1);
	fx_attach(f, 7, 0, 0);
	assert_true(fx_event(f, DDR_EV_READY) >= 0);
}

/* Finding S25: verify skips suspect regions, and its end reports their number: none, when they are accepted. */
static void the_end_of_a_verify_reports_suspect_regions(void **state)
{
	struct ddr_input accept = { .type = DDR_IN_OP_ACCEPT, .count = 16 };
	struct fx *f = *state;

	up_with_suspect(f, &fx_six, 5);
	assert_int_equal(fx_status(f).suspect, 1);
	fx_make_clean(f, 2, 1);
	ask(f, DDR_VERIFY_OP_START, 0);
	assert_int_equal(f->log[fx_event(f, DDR_EV_VERIFY_DONE)].count, 1);
	assert_int_equal(f->log[fx_event(f, DDR_EV_VERIFY_START)].count, 0);
	for (uint32_t i = 0; i < f->n; i++)
		assert_true(f->log[i].type != DDR_OUT_JOB_RANGE || f->log[i].job != DDR_KA_VERIFY || f->log[i].start / REGION == 2);
	fx_step(f, &accept);
	fx_settle(f);
	fx_forget(f);
	ask(f, DDR_VERIFY_OP_START, 0);
	assert_int_equal(f->log[fx_event(f, DDR_EV_VERIFY_DONE)].count, 0);
}

/* Writes of other nodes make parity look wrong for a moment. */
static void a_mismatch_is_read_again_before_it_counts(void **state)
{
	struct fx *f = *state;

	fx_make_clean(f, 2, 1);
	f->answers = FX_MSG | FX_KERNEL;
	ask(f, DDR_VERIFY_OP_START, 0);
	job_ends(f, (struct ddr_input){ .mismatches = 2, .start = 2 * REGION + 40, .count = 9 });
	assert_int_equal(fx_job(f)->start, 2 * REGION + 40);
	assert_int_equal(fx_job(f)->count, 9);
	assert_true(fx_job(f)->unlocked);
	job_ends(f, (struct ddr_input){ 0 });
	fx_answer_all_but_jobs(f);
	assert_int_equal(fx_kernel(f, DDR_U_DRAIN), -1);
	assert_true(fx_event(f, DDR_EV_VERIFY_DONE) >= 0);
	assert_int_equal(record(f)->found, 0);
}

/* Rule 2, note 7: the mark is durable before the range is asked for, and the range is held before anything is written. */
static void a_confirmed_mismatch_is_repaired_under_mark_and_range(void **state)
{
	struct fx *f = *state;
	int drain, log;

	fx_make_clean(f, 2, 1);
	f->answers = FX_MSG | FX_KERNEL;
	ask(f, DDR_VERIFY_OP_START, 0);
	fx_answer_all_but_jobs(f);
	for (uint32_t look = 0; look < 3; look++) {
		assert_true(fx_job(f)->unlocked);
		job_ends(f, (struct ddr_input){ .mismatches = 1, .start = 2 * REGION + 5, .count = 1 });
	}
	assert_int_equal(fx_kernel(f, DDR_U_DRAIN), -1);		/* the mark first */
	assert_false(job_open(f));
	fx_answer_all_but_jobs(f);
	log = fx_find(f, DDR_OUT_LOG_WRITE, 0);
	drain = fx_kernel(f, DDR_U_DRAIN);
	assert_true(log >= 0 && drain > log);
	assert_true(!fx_job(f)->unlocked && fx_job(f)->fix == (DDR_FIX_FITS | DDR_FIX_BAD | DDR_FIX_WRONG));
	assert_int_equal(fx_job(f)->start, 2 * REGION + 5);
	assert_int_equal(fx_job(f)->count, 1);
	assert_true(ddr_sm_region(f->sm, 2) & DDR_SM_REGION_DIRTY);
	assert_int_equal(record(f)->state, DDR_VERIFY_RUNNING);		/* it waits for that */
	job_ends(f, (struct ddr_input){ .repaired = 1, .fixed[2] = { 2 * REGION + 5, 1, 1, 0, false } });
	assert_int_equal(f->log[fx_event(f, DDR_EV_REPAIRED)].member, 2);
	assert_string_equal(f->log[fx_event(f, DDR_EV_REPAIRED)].text, "it did not match the other members");
	assert_int_equal(fx_status(f).err_corrected[2], 1);
	f->answers = FX_ALL;
	fx_settle(f);
	fx_tick(f, 1000);
	assert_true(fx_event(f, DDR_EV_VERIFY_DONE) >= 0);
	assert_int_equal(record(f)->found, 1);
	assert_int_equal(record(f)->repaired, 1);
	assert_int_equal(told_wrong(f), 1);
	assert_int_equal(ddr_sm_region(f->sm, 2), DDR_REGION_CLEAN);	/* and the mark is cleared */
}

static void parity_is_rewritten_only_if_asked_for(void **state)
{
	struct fx *f = *state;

	fx_make_clean(f, 2, 1);
	f->answers = FX_MSG | FX_KERNEL;
	ask(f, DDR_VERIFY_OP_START, DDR_VERIFY_F_REPAIR);
	for (uint32_t look = 0; look < 3; look++)
		job_ends(f, (struct ddr_input){ .mismatches = 1, .start = 2 * REGION, .count = 1 });
	fx_answer_all_but_jobs(f);
	assert_int_equal(fx_job(f)->fix, DDR_FIX_FITS | DDR_FIX_BAD | DDR_FIX_WRONG | DDR_FIX_PARITY);
	job_ends(f, (struct ddr_input){ .mismatches = 1 });
	assert_int_equal(f->log[fx_event(f, DDR_EV_MISMATCH)].a, 1);
	f->answers = FX_ALL;
	fx_settle(f);
	fx_tick(f, 1000);
	assert_int_equal(record(f)->found, 1);
	assert_int_equal(record(f)->repaired, 0);
}

/* An operator who requests it takes over a verify that began automatically. */
static void an_operator_takes_over_a_scheduled_verify(void **state)
{
	struct fx *f = *state;

	fx_make_clean(f, 2, 1);
	f->answers = FX_MSG | FX_KERNEL;
	ask(f, DDR_VERIFY_OP_START, DDR_VERIFY_F_SCHEDULED);
	assert_int_equal(record(f)->flags, DDR_VERIFY_F_SCHEDULED);
	assert_string_equal(f->log[fx_event(f, DDR_EV_VERIFY_START)].text, "started by verify_every");
	ask(f, DDR_VERIFY_OP_START, DDR_VERIFY_F_REPAIR);
	assert_int_equal(record(f)->flags, DDR_VERIFY_F_REPAIR);
	assert_int_equal(record(f)->serial, 1);
	ask(f, DDR_VERIFY_OP_PAUSE, 0);
	ask(f, DDR_VERIFY_OP_START, DDR_VERIFY_F_SCHEDULED);	/* and the schedule leaves it alone */
	assert_int_equal(record(f)->state, DDR_VERIFY_PAUSED);
	assert_int_equal(record(f)->flags, DDR_VERIFY_F_REPAIR);
	ask(f, DDR_VERIFY_OP_START, 4);
	assert_true(fx_event(f, DDR_EV_REFUSED) >= 0);
}

static void a_paused_verify_continues_at_its_cursor(void **state)
{
	struct fx *f = *state;

	fx_make_clean(f, 2, 6);
	f->answers = FX_MSG | FX_KERNEL;
	ask(f, DDR_VERIFY_OP_START, 0);
	job_ends(f, (struct ddr_input){ 0 });
	job_ends(f, (struct ddr_input){ 0 });
	fx_answer_all_but_jobs(f);
	ask(f, DDR_VERIFY_OP_PAUSE, 0);
	job_ends(f, (struct ddr_input){ 0 });
	job_ends(f, (struct ddr_input){ 0 });
	assert_false(job_open(f));
	fx_answer_all_but_jobs(f);
	assert_int_equal(f->log[fx_find_nth(f, DDR_OUT_SB_WRITE, 0, 0)].members, 0x3f);	/* recorded on the disks */
	assert_int_equal(f->log[fx_find_nth(f, DDR_OUT_SB_WRITE, 0, 1)].members, 0x40);
	assert_int_equal(record(f)->state, DDR_VERIFY_PAUSED);
	assert_int_equal(record(f)->cursor, 4 * REGION);	/* what had ended when it was recorded */
	ask(f, DDR_VERIFY_OP_START, 0);
	assert_int_equal(record(f)->serial, 1);
	assert_int_equal(fx_job(f)->start, 6 * REGION);	/* what was read meanwhile need not be read again */
	ask(f, DDR_VERIFY_OP_STOP, 0);
	assert_int_equal(record(f)->state, DDR_VERIFY_NONE);
	ask(f, DDR_VERIFY_OP_STOP, 0);
	assert_true(fx_event(f, DDR_EV_REFUSED) >= 0);
}

static void nothing_is_read_while_a_member_is_out_or_others_come_first(void **state)
{
	struct fx *f = *state;
	struct ddr_input in = { .type = DDR_IN_OP_SET, .key = DDR_SM_VERIFY_PAUSED, .value = 1 };

	fx_make_clean(f, 2, 6);
	fx_step(f, &in);
	ask(f, DDR_VERIFY_OP_START, 0);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 0);
	fx_error(f, 5, 2, DDR_EC_IO, DDR_OP_WRITE);
	in.value = 0;
	fx_step(f, &in);
	fx_settle(f);
	fx_tick(f, 1000);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 0);
	assert_int_equal(record(f)->state, DDR_VERIFY_RUNNING);
}

/* ---- a read that is checked (verify_reads) -------------------------------------- */

static uint64_t answered(const struct fx *f)
{
	int i = fx_kernel(f, DDR_U_RESOLVE);

	return i < 0 ? 0 : f->log[i].rec.arg[0];
}

/* Two parities show which chunk is wrong: it is repaired, and then the kernel reads once more. */
static void a_checked_read_gets_the_repaired_block(void **state)
{
	struct fx *f = *state;

	fx_make_clean(f, 2, 1);
	f->answers = FX_MSG | FX_KERNEL;
	fx_record(f, (struct ddr_rec){ .type = DDR_K_MISMATCH, .seq = 9, .start = 2 * REGION + 4, .count = 8, .member = DDR_NO_MEMBER });
	fx_settle(f);
	assert_int_equal(fx_job(f)->job, DDR_KA_VERIFY);
	assert_int_equal(fx_job(f)->fix, 0);
	job_ends(f, (struct ddr_input){ .mismatches = 1, .start = 2 * REGION + 6, .count = 1 });
	fx_answer_all_but_jobs(f);
	assert_int_equal(fx_job(f)->fix, DDR_FIX_FITS | DDR_FIX_BAD | DDR_FIX_WRONG);
	assert_int_equal(fx_job(f)->start, 2 * REGION + 6);
	assert_int_equal(answered(f), 0);
	job_ends(f, (struct ddr_input){ .repaired = 1, .fixed[2] = { 2 * REGION + 6, 1, 1, 0, false } });
	fx_answer_all_but_jobs(f);
	while (job_open(f)) {		/* the rest of the fix, and a last look at all that was read */
		assert_int_equal(answered(f), 0);
		job_ends(f, (struct ddr_input){ 0 });
		fx_answer_all_but_jobs(f);
	}
	assert_int_equal(answered(f), DDR_RES_RETRY);
	assert_int_equal(fx_status(f).err_corrected[2], 1);
}

static void a_checked_read_fails_if_the_wrong_chunk_is_unknown(void **state)
{
	struct fx *f = *state;
	uint32_t fixes = 0;

	fx_make_clean(f, 2, 1);
	f->answers = FX_MSG | FX_KERNEL;
	fx_record(f, (struct ddr_rec){ .type = DDR_K_MISMATCH, .seq = 9, .start = 2 * REGION + 4, .count = 8, .member = DDR_NO_MEMBER });
	fx_settle(f);
	while (job_open(f)) {
		fixes += fx_job(f)->fix != 0;
		job_ends(f, (struct ddr_input){ .mismatches = 1, .start = 2 * REGION + 6, .count = 1 });
		fx_answer_all_but_jobs(f);
	}
	assert_int_equal(answered(f), DDR_RES_FAIL);
	assert_true(fixes > 0 && fixes <= 8);
	assert_true(fx_event(f, DDR_EV_MISMATCH) >= 0);
}

/* ---- bad sectors --------------------------------------------------------------- */

/* From the range that the read met to the one block, so that nothing is written that can be read. */
static void a_bad_sector_is_found_and_rewritten(void **state)
{
	struct fx *f = *state;
	struct ddr_rec rec = { .type = DDR_K_ERROR, .seq = 4, .member = 1, .status = DDR_EC_MEDIUM, .start = 2 * REGION, .count = 40, .arg = { DDR_OP_READ } };

	fx_make_clean(f, 2, 1);
	f->answers = FX_MSG | FX_KERNEL;
	fx_record(f, rec);
	fx_settle(f);
	fx_answer_all_but_jobs(f);
	assert_int_equal(fx_job(f)->count, 40);
	assert_int_equal(fx_job(f)->fix, DDR_FIX_FITS | DDR_FIX_BAD);
	job_ends(f, (struct ddr_input){ .result = ENODATA_, .failed_members = 2 });
	assert_int_equal(fx_job(f)->start, 2 * REGION);
	assert_int_equal(fx_job(f)->count, 16);
	job_ends(f, (struct ddr_input){ 0 });
	job_ends(f, (struct ddr_input){ .result = ENODATA_, .failed_members = 2 });
	assert_int_equal(fx_job(f)->start, 2 * REGION + 16);
	assert_int_equal(fx_job(f)->count, 1);
	job_ends(f, (struct ddr_input){ .repaired = 1, .fixed[1] = { 2 * REGION + 16, 1, 1, 0, true } });
	assert_int_equal(fx_job(f)->start, 2 * REGION + 17);
	for (uint32_t b = 17; b < 32; b++)
		job_ends(f, (struct ddr_input){ 0 });
	assert_int_equal(fx_job(f)->start, 2 * REGION + 32);	/* and no longer block by block */
	assert_int_equal(fx_job(f)->count, 8);
	job_ends(f, (struct ddr_input){ 0 });
	assert_false(job_open(f));
	assert_int_equal(fx_count(f, DDR_OUT_EVENT, DDR_EV_REPAIRED), 1);
	assert_string_equal(f->log[fx_event(f, DDR_EV_REPAIRED)].text, "a bad sector was rewritten");
	assert_int_equal(fx_status(f).err_read[1], 1);
	assert_int_equal(fx_status(f).err_corrected[1], 1);
	assert_int_equal(fx_status(f).member_state[1], DDR_MEMBER_IN_SYNC);
}

static void a_member_with_too_many_is_failed(void **state)
{
	struct ddr_rec rec = { .type = DDR_K_ERROR, .seq = 4, .member = 1, .status = DDR_EC_MEDIUM, .count = 1, .arg = { DDR_OP_READ } };
	struct ddr_input limit = { .type = DDR_IN_OP_SET, .key = DDR_SM_MAX_CORRECTED, .value = 2 };
	struct fx *f = *state;

	fx_make_clean(f, 2, 1);
	fx_step(f, &limit);
	f->answers = FX_MSG | FX_KERNEL;
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(fx_status(f).member_state[1], DDR_MEMBER_IN_SYNC);
		rec.start = 2 * REGION + 8 * i;
		rec.seq++;
		fx_record(f, rec);
		fx_settle(f);
		fx_answer_all_but_jobs(f);
		job_ends(f, (struct ddr_input){ .repaired = 1, .fixed[1] = { rec.start, 1, 1, 0, false } });
	}
	f->answers = FX_ALL;
	fx_settle(f);
	assert_int_equal(fx_status(f).member_state[1], DDR_MEMBER_FAULTY);
}

/*
 * Parity is rewritten to fit the data: the data may have been wrong, on any other member. It is counted and reported, but not against
 * the member.
 */
static void an_ambiguous_mismatch_counts_against_no_member(void **state)
{
	struct ddr_input limit = { .type = DDR_IN_OP_SET, .key = DDR_SM_MAX_CORRECTED, .value = 2 };
	struct fx *f = *state;

	fx_down(f);
	fx_up(f, &fx_five);
	fx_make_clean(f, 2, 1);
	fx_step(f, &limit);
	f->answers = FX_MSG | FX_KERNEL;
	ask(f, DDR_VERIFY_OP_START, DDR_VERIFY_F_REPAIR);
	three_looks(f, 2 * REGION + 5, 9);
	assert_int_equal(fx_job(f)->fix, DDR_FIX_FITS | DDR_FIX_BAD | DDR_FIX_WRONG | DDR_FIX_PARITY);
	job_ends(f, (struct ddr_input){ .repaired = 9, .fixed[4] = { 2 * REGION + 5, 9, 9, 9, false } });
	f->answers = FX_ALL;
	fx_settle(f);
	fx_tick(f, 1000);
	assert_int_equal(record(f)->repaired, 9);
	assert_int_equal(fx_status(f).err_corrected[4], 9);
	assert_int_equal(f->log[fx_event(f, DDR_EV_REPAIRED)].a, 9);
	assert_string_equal(f->log[fx_event(f, DDR_EV_REPAIRED)].text, "parity was recomputed from the data; which of them was wrong is unknown");
	assert_int_equal(fx_event(f, DDR_EV_MEMBER_FAILED), -1);
	assert_int_equal(fx_status(f).member_state[4], DDR_MEMBER_IN_SYNC);
	/* of others that were repaired with it, some are known to be that member's */
	f->answers = FX_MSG | FX_KERNEL;
	ask(f, DDR_VERIFY_OP_START, DDR_VERIFY_F_REPAIR);
	three_looks(f, 2 * REGION + 5, 9);
	job_ends(f, (struct ddr_input){ .repaired = 9, .fixed[4] = { 2 * REGION + 5, 9, 9, 6, false } });
	f->answers = FX_ALL;
	fx_settle(f);
	assert_int_equal(fx_status(f).member_state[4], DDR_MEMBER_FAULTY);
}

/* A read that fails again after the rewrite, or the write itself. */
static void a_member_that_cannot_be_rewritten_is_failed(void **state)
{
	struct fx *f = *state;

	fx_make_clean(f, 2, 1);
	f->answers = FX_MSG | FX_KERNEL;
	fx_record(f, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = 4, .member = 1, .status = DDR_EC_MEDIUM, .start = 2 * REGION, .count = 1,
				       .arg = { DDR_OP_READ } });
	fx_settle(f);
	fx_answer_all_but_jobs(f);
	job_ends(f, (struct ddr_input){ .result = -5, .failed_members = 2 });
	f->answers = FX_ALL;
	fx_settle(f);
	assert_int_equal(fx_status(f).member_state[1], DDR_MEMBER_FAULTY);
}

/* The cursor waits for blocks that are not settled, whatever the reason. */
static void an_unfinished_repair_is_checked_again(void **state)
{
	struct fx *f = *state;

	fx_make_clean(f, 2, 1);
	f->answers = FX_MSG | FX_KERNEL;
	ask(f, DDR_VERIFY_OP_START, 0);
	three_looks(f, 2 * REGION + 5, 1);
	assert_int_equal(fx_job(f)->fix, DDR_FIX_FITS | DDR_FIX_BAD | DDR_FIX_WRONG);
	job_ends(f, (struct ddr_input){ .result = -110 });	/* no member's fault */
	fx_answer_all_but_jobs(f);
	assert_false(job_open(f));
	assert_int_equal(record(f)->state, DDR_VERIFY_RUNNING);
	fx_tick(f, 10000);
	fx_answer_all_but_jobs(f);
	assert_true(fx_job(f)->unlocked);
	assert_int_equal(fx_job(f)->start, 2 * REGION);
	three_looks(f, 2 * REGION + 5, 1);
	job_ends(f, (struct ddr_input){ .repaired = 1, .fixed[2] = { 2 * REGION + 5, 1, 1, 0, false } });
	f->answers = FX_ALL;
	fx_settle(f);
	fx_tick(f, 11000);
	assert_true(fx_event(f, DDR_EV_VERIFY_DONE) >= 0);
	assert_int_equal(record(f)->found, 1);
}

/*
 * The kernel is bound again while a fix works: the fix counts, and the region is looked at once more. A resync would make parity fit
 * whatever else is wrong in it.
 */
static void a_table_that_is_loaded_meanwhile_costs_nothing(void **state)
{
	struct ddr_input gone = { .type = DDR_IN_K_DETACHED };
	struct fx *f = *state;

	fx_make_clean(f, 2, 1);
	f->answers = FX_MSG | FX_KERNEL;
	ask(f, DDR_VERIFY_OP_START, 0);
	three_looks(f, 2 * REGION + 5, 1);
	assert_int_equal(fx_job(f)->fix, DDR_FIX_FITS | DDR_FIX_BAD | DDR_FIX_WRONG);
	fx_step(f, &gone);
	fx_attach(f, 7, 0, 0);
	job_ends(f, (struct ddr_input){ .repaired = 1, .fixed[2] = { 2 * REGION + 5, 1, 1, 0, false } });
	fx_answer_all_but_jobs(f);
	assert_int_equal(fx_status(f).resync_regions, 0);
	assert_int_equal(fx_status(f).err_corrected[2], 1);
	while (!fx_job(f)->fix)
		job_ends(f, (struct ddr_input){ 0 });
	assert_int_equal(fx_job(f)->fix, DDR_FIX_FITS | DDR_FIX_BAD | DDR_FIX_WRONG);
	assert_int_equal(fx_job(f)->start, 2 * REGION);
	assert_int_equal(fx_job(f)->count, REGION);
	f->answers = FX_ALL;
	fx_settle(f);
	fx_tick(f, 1000);
	assert_int_equal(record(f)->repaired, 1);
	assert_int_equal(ddr_sm_region(f->sm, 2), DDR_REGION_CLEAN);
}

/* A bad sector is being repaired there; that says nothing about other blocks. */
static void a_bad_sector_nearby_does_not_settle_a_mismatch(void **state)
{
	struct fx *f = *state;

	fx_make_clean(f, 2, 1);
	f->answers = FX_MSG | FX_KERNEL;
	ask(f, DDR_VERIFY_OP_START, 0);
	fx_record(f, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = 4, .member = 1, .status = DDR_EC_MEDIUM, .start = 2 * REGION, .count = 8,
				       .arg = { DDR_OP_READ } });
	fx_settle(f);
	three_looks(f, 2 * REGION + 5, 1);
	assert_int_equal(fx_job(f)->fix, DDR_FIX_FITS | DDR_FIX_BAD);
	job_ends(f, (struct ddr_input){ 0 });
	fx_answer_all_but_jobs(f);
	assert_int_equal(record(f)->state, DDR_VERIFY_RUNNING);
	assert_int_equal(fx_job(f)->fix, DDR_FIX_FITS | DDR_FIX_BAD | DDR_FIX_WRONG);
	assert_int_equal(fx_job(f)->start, 2 * REGION + 5);
}

/* Rule 2: the write may have reached some members and not others. */
static void a_rewrite_that_failed_leaves_a_resync(void **state)
{
	struct rig_geometry no_spare = fx_six;
	struct fx *f = *state;

	no_spare.spares = 0;
	fx_down(f);
	fx_up(f, &no_spare);
	fx_make_clean(f, 2, 1);
	fx_error(f, 3, 0, DDR_EC_IO, DDR_OP_WRITE);
	fx_forget(f);
	f->answers = FX_MSG | FX_KERNEL;
	fx_record(f, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = 6, .member = 2, .status = DDR_EC_MEDIUM, .start = 2 * REGION, .count = 1,
				       .arg = { DDR_OP_READ } });
	fx_settle(f);
	fx_answer_all_but_jobs(f);
	assert_int_equal(fx_job(f)->fix, DDR_FIX_FITS | DDR_FIX_BAD);
	f->answers = FX_ALL;
	fx_record(f, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = 7, .member = 1, .status = DDR_EC_IO, .start = 3, .count = 1, .arg = { DDR_OP_WRITE } });
	f->answers = FX_MSG | FX_KERNEL;
	assert_int_equal(fx_status(f).resync_regions, 0);
	job_ends(f, (struct ddr_input){ .result = -5, .failed_members = 4 });	/* and no other member can be spared now */
	fx_answer_all_but_jobs(f);
	assert_int_equal(fx_status(f).resync_regions, 1);
}

/* A message of a node that should have refused it. */
static void without_parity_nothing_is_verified(void **state)
{
	const struct rig_geometry stripe = { .order = 2, .parity = 0, .blocks = 4096, .region_blocks = 256 };
	struct ddr_msg msg = { .type = DDR_M_VERIFY, .verify = { .op = DDR_VERIFY_OP_START, .priority = 3 } };
	struct fx *f = *state;
	uint8_t buf[DDR_SM_MSG_MAX];

	fx_down(f);
	fx_up(f, &stripe);
	memcpy(msg.uuid, f->sb.array_uuid, sizeof(msg.uuid));
	msg.ring = 1;
	msg.sender = 1;
	ask(f, DDR_VERIFY_OP_START, 0);
	assert_true(fx_event(f, DDR_EV_REFUSED) >= 0);
	fx_message(f, 1, buf, (uint32_t)ddr_msg_encode(&msg, buf, sizeof(buf)));
	assert_int_equal(record(f)->state, DDR_VERIFY_NONE);
	assert_int_equal(fx_event(f, DDR_EV_VERIFY_START), -1);
}

/* Note 16: the content of the other members may be wrong there. */
static void nothing_is_rewritten_where_a_resync_is_due(void **state)
{
	struct ddr_input pause = { .type = DDR_IN_OP_SET, .key = DDR_SM_RESYNC_PAUSED, .value = 1 };
	struct fx *f = *state;

	fx_make_clean(f, 2, 1);
	fx_lock(f, 2, 1);
	fx_step(f, &pause);
	f->answers = FX_MSG | FX_KERNEL;
	fx_closed(f, 2, 1, -5);		/* a write there has failed */
	fx_forget(f);
	fx_record(f, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = 4, .member = 1, .status = DDR_EC_MEDIUM, .start = 2 * REGION, .count = 1,
				       .arg = { DDR_OP_READ } });
	fx_settle(f);
	fx_answer_all_but_jobs(f);
	for (uint32_t i = 0; i < f->n; i++)
		assert_true(f->log[i].type != DDR_OUT_JOB_RANGE || !f->log[i].fix);
}

/* ---- several nodes ------------------------------------------------------------- */

static void verify_on(struct cx *c, uint32_t i, enum ddr_verify_op op)
{
	struct ddr_input in = { .type = DDR_IN_OP_VERIFY, .key = op, .value = 2 };

	cx_step(c, &c->node[i], &in);
	cx_settle(c);
}

/* Requested on any node, done by the writer; all nodes know the result, and so do the disks. */
static void all_nodes_know_of_a_verify(void **state)
{
	struct cx *c = *state;

	cx_wrote(c, 1, 1);
	cx_forget(c);
	verify_on(c, 2, DDR_VERIFY_OP_START);
	for (uint32_t i = 0; i < 3; i++) {
		assert_true(cx_event(&c->node[i], DDR_EV_VERIFY_START) >= 0);
		assert_true(cx_event(&c->node[i], DDR_EV_VERIFY_DONE) >= 0);
		assert_int_equal(ddr_sm_super(c->node[i].sm)->verify.serial, 1);
	}
	assert_true(cx_find(&c->node[0], DDR_OUT_JOB_RANGE, 0) >= 0);
	assert_int_equal(cx_find(&c->node[1], DDR_OUT_JOB_RANGE, 0), -1);
	assert_int_equal(cx_find(&c->node[2], DDR_OUT_JOB_RANGE, 0), -1);
	assert_int_equal(c->sb.verify.serial, 1);
	assert_int_equal(c->sb.generation, 1);		/* no change of the members */
}

static void the_next_writer_goes_on(void **state)
{
	struct cx *c = *state;

	cx_wrote(c, 1, 1);
	cx_forget(c);
	c->answers = CX_MSG | CX_KERNEL | CX_FENCE;
	verify_on(c, 2, DDR_VERIFY_OP_START);
	assert_true(cx_find(&c->node[0], DDR_OUT_JOB_RANGE, 0) >= 0);
	c->answers = CX_ALL | CX_FENCE;
	cx_kill(c, 0);
	cx_view(c, 6, 6, true);
	cx_settle(c);
	for (uint32_t i = 0; i < 20; i++)
		cx_tick(c, 1000);
	assert_true(cx_find(&c->node[1], DDR_OUT_JOB_RANGE, 0) >= 0);
	assert_true(cx_event(&c->node[2], DDR_EV_VERIFY_DONE) >= 0);
	assert_int_equal(c->sb.verify.state, DDR_VERIFY_NONE);
}

/* Note 16: a write of node 2 has failed there, and it has not made the parity right yet. Node 1 sees a clean region with a bad sector. */
static void nothing_is_rewritten_where_another_node_has_a_resync_due(void **state)
{
	struct ddr_input pause = { .type = DDR_IN_OP_SET, .key = DDR_SM_RESYNC_PAUSED, .value = 1 };
	struct ddr_rec rec = { .type = DDR_K_LOCK, .seq = 101, .start = 1, .count = 1 };
	struct cx *c = *state;

	cx_wrote(c, 0, 1);
	cx_step(c, &c->node[1], &pause);
	cx_record(c, 1, rec);
	cx_settle(c);
	rec = (struct ddr_rec){ .type = DDR_K_CLOSED, .start = 1, .count = 1, .status = -5 };
	cx_record(c, 1, rec);
	cx_settle(c);
	cx_forget(c);
	rec = (struct ddr_rec){ .type = DDR_K_ERROR, .seq = 4, .member = 1, .status = DDR_EC_MEDIUM, .start = REGION, .count = 1, .arg = { DDR_OP_READ } };
	cx_record(c, 0, rec);
	cx_settle(c);
	assert_true(cx_find(&c->node[1], DDR_OUT_KERNEL, DDR_U_DRAIN) >= 0);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_JOB_RANGE, 0), -1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fx_teardown)
#define CLUSTER(name) cmocka_unit_test_setup_teardown(name, setup_cluster, cx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(verify_reads_written_regions_without_a_range), TEST(the_end_of_a_verify_reports_suspect_regions), TEST(a_mismatch_is_read_again_before_it_counts),
		TEST(a_confirmed_mismatch_is_repaired_under_mark_and_range), TEST(parity_is_rewritten_only_if_asked_for),
		TEST(an_operator_takes_over_a_scheduled_verify), TEST(a_paused_verify_continues_at_its_cursor), TEST(nothing_is_read_while_a_member_is_out_or_others_come_first),
		TEST(a_checked_read_gets_the_repaired_block), TEST(a_checked_read_fails_if_the_wrong_chunk_is_unknown),
		TEST(a_bad_sector_is_found_and_rewritten), TEST(a_member_with_too_many_is_failed), TEST(an_ambiguous_mismatch_counts_against_no_member),
		TEST(an_unfinished_repair_is_checked_again), TEST(a_table_that_is_loaded_meanwhile_costs_nothing), TEST(a_bad_sector_nearby_does_not_settle_a_mismatch),
		TEST(a_rewrite_that_failed_leaves_a_resync), TEST(without_parity_nothing_is_verified),
		TEST(a_member_that_cannot_be_rewritten_is_failed), TEST(nothing_is_rewritten_where_a_resync_is_due),
		CLUSTER(nothing_is_rewritten_where_another_node_has_a_resync_due), CLUSTER(all_nodes_know_of_a_verify), CLUSTER(the_next_writer_goes_on),
	};

	return cmocka_run_group_tests_name("state machine: verify", tests, NULL, NULL);
}
