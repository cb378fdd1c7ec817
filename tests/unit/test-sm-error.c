// SPDX-License-Identifier: GPL-2.0-or-later
/* Errors of members by class and operation, and mismatches of parity. */
#include "sm-fixture.h"

static int setup(void **state)
{
	return fx_setup(state, &fx_five);
}

static uint64_t answer(const struct fx *f)
{
	int i = fx_kernel(f, DDR_U_RESOLVE);

	return i < 0 ? 0 : f->log[i].rec.arg[0];
}

enum { STAYS, GOES };

/* Kernel notes, 8: what an error means for the member, and for the bios that wait. */
static void every_error_class_and_operation_has_its_answer(void **state)
{
	static const struct { enum ddr_error_class class; enum ddr_error_op op; int fate; uint64_t answer; } rows[] = {
		{ DDR_EC_IO, DDR_OP_READ, GOES, DDR_RES_RETRY },	{ DDR_EC_IO, DDR_OP_WRITE, GOES, DDR_RES_RETRY },
		{ DDR_EC_IO, DDR_OP_FLUSH, GOES, DDR_RES_RETRY },	{ DDR_EC_IO, DDR_OP_ZEROES, GOES, DDR_RES_RETRY },
		{ DDR_EC_TIMEOUT, DDR_OP_READ, GOES, DDR_RES_RETRY },	{ DDR_EC_TIMEOUT, DDR_OP_WRITE, GOES, DDR_RES_RETRY },
		{ DDR_EC_TIMEOUT, DDR_OP_FLUSH, GOES, DDR_RES_RETRY },	{ DDR_EC_MEDIUM, DDR_OP_READ, STAYS, DDR_RES_RETRY },
		{ DDR_EC_MEDIUM, DDR_OP_WRITE, GOES, DDR_RES_RETRY },	{ DDR_EC_MEDIUM, DDR_OP_FLUSH, GOES, DDR_RES_RETRY },
		{ DDR_EC_NOSPC, DDR_OP_WRITE, STAYS, DDR_RES_FAIL },	{ DDR_EC_NOSPC, DDR_OP_FLUSH, GOES, DDR_RES_RETRY },
		{ DDR_EC_NOSPC, DDR_OP_ZEROES, STAYS, DDR_RES_FAIL },	{ DDR_EC_INVAL, DDR_OP_WRITE, STAYS, DDR_RES_FAIL },
		{ DDR_EC_INVAL, DDR_OP_READ, STAYS, DDR_RES_FAIL },	{ DDR_EC_INVAL, DDR_OP_FLUSH, GOES, DDR_RES_RETRY },
	};
	struct fx *f = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		fx_down(f);
		fx_up(f, &fx_five);
		fx_error(f, 70 + i, 2, rows[i].class, rows[i].op);
		assert_int_equal(fx_status(f).member_state[2], rows[i].fate == GOES ? DDR_MEMBER_FAULTY : DDR_MEMBER_IN_SYNC);
		assert_int_equal(answer(f), rows[i].answer);
		assert_int_equal(f->log[fx_kernel(f, DDR_U_RESOLVE)].rec.seq, 70 + i);
		assert_int_equal(fx_status(f).failed, false);
		assert_int_equal(fx_status(f).err_read[2] + fx_status(f).err_write[2], 1);
		assert_int_equal(fx_status(f).err_read[2], rows[i].op == DDR_OP_READ);
	}
}

/* The spare replaces member 2, and the kernel is told that it is its shadow. */
static void replace_begins(struct fx *f)
{
	const uint32_t spare = f->sb.roles;
	struct ddr_input in = { .type = DDR_IN_OP_REPLACE, .member = 2, .value = spare };
	struct ddr_input done = { .type = DDR_IN_TABLE_DONE, .member = spare, .value = DDR_UAPI_SHADOW };

	f->answers = FX_ALL & ~FX_IO;		/* so that the copy does not complete */
	fx_step(f, &in);
	fx_settle(f);
	fx_supers_done(f);
	assert_true(fx_find(f, DDR_OUT_TABLE, 0) >= 0);
	fx_step(f, &done);
	fx_settle(f);
	assert_int_equal(fx_status(f).rebuilding, spare);
	assert_int_equal(fx_status(f).replaced, 2);
	f->answers = FX_ALL;
	fx_forget(f);
}

/* Whatever write fails on the new disk of a replacement: the old disk and the other members have all data, so it is no error of the array. */
static void rule_3_no_error_of_a_copy_goes_up(void **state)
{
	static const struct { enum ddr_error_class class; enum ddr_error_op op; } rows[] = {
		{ DDR_EC_IO, DDR_OP_WRITE }, { DDR_EC_MEDIUM, DDR_OP_WRITE }, { DDR_EC_NOSPC, DDR_OP_WRITE }, { DDR_EC_NOSPC, DDR_OP_ZEROES },
		{ DDR_EC_TIMEOUT, DDR_OP_FLUSH }, { DDR_EC_INVAL, DDR_OP_WRITE }, { DDR_EC_INVAL, DDR_OP_ZEROES }, { DDR_EC_INVAL, DDR_OP_FLUSH },
	};
	struct fx *f = *state;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		fx_down(f);
		fx_up(f, &fx_six);
		replace_begins(f);
		fx_error(f, 70 + i, DDR_UAPI_SHADOW, rows[i].class, rows[i].op);
		assert_int_equal(fx_status(f).member_state[f->sb.roles], DDR_MEMBER_FAULTY);
		assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_IN_SYNC);
		assert_int_equal(answer(f), DDR_RES_RETRY);
		assert_int_equal(f->log[fx_kernel(f, DDR_U_RESOLVE)].rec.seq, 70 + i);
		assert_int_equal(fx_status(f).rebuilding, DDR_NO_MEMBER);
	}
}

static void rule_8_a_fenced_node_gives_up(void **state)
{
	struct fx *f = *state;

	fx_error(f, 5, 1, DDR_EC_FENCED, DDR_OP_WRITE);
	assert_true(fx_find(f, DDR_OUT_GIVE_UP, 0) >= 0);
	assert_true(fx_status(f).gave_up);
	assert_int_equal(fx_status(f).member_state[1], DDR_MEMBER_IN_SYNC);
	fx_forget(f);
	fx_lock(f, 1, 1);		/* and does nothing any more */
	assert_int_equal(f->n, 0);
}

static void rule_4_a_member_that_is_needed_stays(void **state)
{
	struct fx *f = *state;

	fx_error(f, 5, 1, DDR_EC_IO, DDR_OP_WRITE);
	fx_forget(f);
	fx_error(f, 6, 2, DDR_EC_IO, DDR_OP_READ);	/* the operation that failed is an error, and nothing more */
	assert_int_equal(answer(f), DDR_RES_FAIL);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_IN_SYNC);
	assert_false(fx_status(f).failed);
	fx_forget(f);
	fx_error(f, 7, 2, DDR_EC_IO, DDR_OP_WRITE);	/* the array cannot write any more */
	assert_int_equal(answer(f), DDR_RES_FAIL);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_IN_SYNC);
	assert_int_equal(fx_status(f).generation, 2);
	assert_true(fx_event(f, DDR_EV_FAILED) >= 0);
	fx_forget(f);
	fx_lock(f, 3, 1);
	assert_int_equal(f->log[fx_kernel(f, DDR_U_REFUSE)].rec.status, -5);
	assert_int_equal(fx_count(f, DDR_OUT_LOG_WRITE, 0), 0);
}

static void a_bad_sector_without_parity_is_an_error_and_no_more(void **state)
{
	const struct rig_geometry stripe = { .order = 2, .parity = 0, .blocks = 4096, .region_blocks = 256 };
	struct fx *f = *state;

	fx_down(f);
	fx_up(f, &stripe);
	fx_error(f, 5, 1, DDR_EC_MEDIUM, DDR_OP_READ);
	assert_int_equal(answer(f), DDR_RES_FAIL);
	assert_false(fx_status(f).failed);
	assert_int_equal(fx_status(f).member_state[1], DDR_MEMBER_IN_SYNC);
}

static void more_errors_than_the_table_holds_are_tried_again(void **state)
{
	struct fx *f = *state;

	f->answers = 0;
	for (uint64_t seq = 1; seq <= 4097; seq++)
		fx_record(f, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = seq, .member = 1, .status = DDR_EC_IO, .arg = { DDR_OP_WRITE } });
	assert_int_equal(fx_count(f, DDR_OUT_KERNEL, DDR_U_RESOLVE), 1);
	assert_int_equal(f->log[fx_kernel(f, DDR_U_RESOLVE)].rec.seq, 4097);
	assert_int_equal(answer(f), DDR_RES_RETRY);
	fx_sent(f, DDR_M_MEMBER_FAIL, &(struct ddr_msg){ 0 });
}

/* ---- a member that the table has no device for ------------------------------------ */

/* Does any message speak of a member that fails? */
static bool reports(const struct fx *f)
{
	struct ddr_msg msg;

	for (uint32_t i = 0; i < f->n; i++)
		if (f->log[i].type == DDR_OUT_MCAST && !ddr_msg_decode(f->log[i].msg, f->log[i].msg_len, &msg) &&
		    msg.type == DDR_M_MEMBER_FAIL)
			return true;
	return false;
}

/* The daemon binds to a table that has the devices in @present; the kernel had a write and a flush that member 2 belongs to. */
static void bind_without(struct fx *f, uint32_t present)
{
	fx_down(f);
	fx_make(f, &fx_five);
	f->cfg.present = present;
	f->sm = rig_sm(&f->cfg);
	assert_non_null(f->sm);
	fx_load_empty(f);
	fx_view(f, 1, true, 1);
	f->answers = 0;
	fx_attach(f, 7, 0, 0);
	fx_error(f, 5, 2, DDR_EC_ABSENT, DDR_OP_FLUSH);
	assert_int_equal(fx_kernel(f, DDR_U_RESOLVE), -1);
	f->answers = FX_ALL;
	fx_settle(f);
}

static void rule_3_a_member_without_a_device_is_out_before_the_write_goes_on(void **state)
{
	struct fx *f = *state;
	int told = -1;

	bind_without(f, 0x1f & ~4u);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_MISSING);
	assert_int_equal(fx_status(f).generation, 2);
	assert_int_equal(fx_status(f).err_write[2], 0);	/* nothing is wrong with the disk */
	assert_false(reports(f));
	for (int i = 0, at; (at = fx_find_nth(f, DDR_OUT_KERNEL, DDR_U_MEMBER, (uint32_t)i)) >= 0; i++)
		if (f->log[at].rec.member == 2 && f->log[at].rec.arg[0] == DDR_KM_OUT)
			told = at;
	assert_true(told > fx_find(f, DDR_OUT_SB_WRITE, 0));
	assert_true(fx_kernel(f, DDR_U_RESOLVE) > told);
	assert_int_equal(answer(f), DDR_RES_RETRY);
	assert_int_equal(f->log[fx_kernel(f, DDR_U_RESOLVE)].rec.seq, 5);
	fx_forget(f);
	fx_error(f, 6, 2, DDR_EC_ABSENT, DDR_OP_WRITE);	/* of a bio that looked a moment before */
	assert_int_equal(answer(f), DDR_RES_RETRY);
}

static void rule_4_more_members_without_a_device_than_parity_covers(void **state)
{
	struct fx *f = *state;

	bind_without(f, 0x1f & ~6u);
	assert_true(fx_event(f, DDR_EV_FAILED) >= 0);
	assert_int_equal(answer(f), DDR_RES_FAIL);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_IN_SYNC);
	assert_int_equal(fx_count(f, DDR_OUT_SB_WRITE, 0), 0);
}

/* The table was one without the device, and is one with it when the daemon looks. */
static void a_device_that_is_back_is_tried_again(void **state)
{
	struct fx *f = *state;

	fx_error(f, 5, 2, DDR_EC_ABSENT, DDR_OP_WRITE);
	assert_int_equal(answer(f), DDR_RES_RETRY);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_IN_SYNC);
	assert_int_equal(fx_status(f).generation, 1);
	assert_false(reports(f));
}

/* ---- mismatches ---------------------------------------------------------------- */

/* Region 3 becomes clean, and the kernel reports that its parity is wrong. */
static void mismatch(struct fx *f, uint64_t start)
{
	fx_lock(f, 3, 1);
	fx_closed(f, 3, 1, 0);
	fx_forget(f);
	f->answers = FX_MSG | FX_KERNEL;
	fx_record(f, (struct ddr_rec){ .type = DDR_K_MISMATCH, .seq = 9, .start = start, .count = 4, .member = DDR_NO_MEMBER });
	fx_settle(f);
}

static void rule_9_a_mismatch_is_read_again_under_ex(void **state)
{
	struct fx *f = *state;
	uint32_t job;

	mismatch(f, 3 * 256 + 7);
	assert_true(fx_kernel(f, DDR_U_DRAIN) >= 0);
	job = fx_open_io(f, DDR_OUT_JOB_RANGE);
	assert_int_equal(f->log[job].job, DDR_KA_VERIFY);
	assert_int_equal(f->log[job].start, 3 * 256 + 7);
	assert_int_equal(f->log[job].count, 4);
	fx_done(f, job, 0, 0, 0);
	assert_int_equal(answer(f), DDR_RES_RETRY);	/* the earlier read may have been wrong, and the data right since */
	fx_settle(f);
	assert_true(fx_kernel(f, DDR_U_RELEASE) >= 0);
	for (uint32_t look = 1; look <= 8; look++) {	/* the stripe is written all the time */
		fx_forget(f);
		fx_record(f, (struct ddr_rec){ .type = DDR_K_MISMATCH, .seq = 9 + look, .start = 3 * 256 + 7, .count = 4, .member = DDR_NO_MEMBER, .arg = { look } });
		fx_settle(f);
		fx_done(f, fx_open_io(f, DDR_OUT_JOB_RANGE), 0, 0, 0);
		assert_int_equal(answer(f), look == 8 ? DDR_RES_PASS : DDR_RES_RETRY);
		fx_settle(f);
	}
}

static void rule_9_a_mismatch_that_stays_fails_the_read(void **state)
{
	struct fx *f = *state;

	mismatch(f, 3 * 256);
	fx_done(f, fx_open_io(f, DDR_OUT_JOB_RANGE), 0, 0, 2);
	assert_int_equal(answer(f), DDR_RES_FAIL);
	assert_int_equal(fx_status(f).mismatches, 2);
	assert_int_equal(ddr_sm_region(f->sm, 3), DDR_REGION_CLEAN);	/* with P alone nobody knows which chunk is right */
}

static void a_mismatch_in_a_region_without_known_parity_passes(void **state)
{
	struct fx *f = *state;

	mismatch(f, 4 * 256);
	assert_int_equal(answer(f), DDR_RES_PASS);
	assert_int_equal(fx_count(f, DDR_OUT_JOB_RANGE, 0), 0);
}

static void a_mismatch_meets_a_bad_sector(void **state)
{
	struct fx *f = *state;

	mismatch(f, 3 * 256);
	fx_done(f, fx_open_io(f, DDR_OUT_JOB_RANGE), 2, -61, 0);	/* -ENODATA */
	assert_int_equal(answer(f), DDR_RES_RETRY);
	assert_int_equal(fx_status(f).member_state[1], DDR_MEMBER_IN_SYNC);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(every_error_class_and_operation_has_its_answer), TEST(rule_3_no_error_of_a_copy_goes_up), TEST(rule_8_a_fenced_node_gives_up), TEST(rule_4_a_member_that_is_needed_stays),
		TEST(a_bad_sector_without_parity_is_an_error_and_no_more), TEST(more_errors_than_the_table_holds_are_tried_again),
		TEST(rule_3_a_member_without_a_device_is_out_before_the_write_goes_on),
		TEST(rule_4_more_members_without_a_device_than_parity_covers), TEST(a_device_that_is_back_is_tried_again),
		TEST(rule_9_a_mismatch_is_read_again_under_ex), TEST(rule_9_a_mismatch_that_stays_fails_the_read),
		TEST(a_mismatch_in_a_region_without_known_parity_passes), TEST(a_mismatch_meets_a_bad_sector),
	};

	return cmocka_run_group_tests_name("state machine: errors", tests, NULL, NULL);
}
