// SPDX-License-Identifier: GPL-2.0-or-later
/* The daemon when an array is to stop: a clean stop that is taken back or refused, and a node that leaves. */
#include "tests/unit/drive-fixture.h"

/* ---- a clean stop ---------------------------------------------------------------- */

static unsigned int stays;

static void counts_stays(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)out;
	stays += in->type == DDR_IN_OP_STAY;
}

static void refuses_clean(const struct ddr_input *in, struct ddr_outputs *out)
{
	counts_stays(in, out);
	if (in->type != DDR_IN_OP_CLEAN)
		return;
	memset(&out->out[0], 0, sizeof(*out->out));
	out->out[0].type = DDR_OUT_EVENT;
	out->out[0].event = DDR_EV_CLEAN_REFUSED;
	out->n = 1;
}

static struct ddr_array *asked_to_stop(void)
{
	struct ddr_array *a = begin(false);

	stays = 0;
	play.answer = counts_stays;
	assert_null(ddr_drive_clean(a));
	assert_true(a->clean_asked);
	ddr_drive_tick(a, ddr_now_ms());
	assert_int_equal(stays, 0);
	return a;
}

/* Nobody waits for the stop any more. */
static void a_stop_that_nobody_waits_for_is_taken_back(void **state)
{
	struct ddr_array *a = asked_to_stop();

	(void)state;
	ddr_drive_clean_late(a);
	assert_int_equal(stays, 0);		/* not from within whatever step */
	ddr_drive_tick(a, ddr_now_ms());
	assert_int_equal(stays, 1);
	assert_false(a->clean_asked);
	assert_int_equal(a->quiet_until_ms, 0);
	ddr_drive_tick(a, ddr_now_ms());
	assert_int_equal(stays, 1);
	end();
	a = asked_to_stop();
	ddr_drive_clean_late(a);
	assert_null(ddr_drive_clean(a));	/* another one wants it */
	ddr_drive_tick(a, ddr_now_ms());
	assert_int_equal(stays, 0);
	assert_true(a->clean_asked);
	end();
}

/* Its device is gone: nobody can use it any more, and the remaining regions are cleared. */
static void a_removed_array_goes_on_stopping(void **state)
{
	struct ddr_array *a = asked_to_stop();

	(void)state;
	a->removed = true;
	ddr_drive_clean_late(a);
	ddr_drive_tick(a, ddr_now_ms());
	a->removed = false;
	a->parting = true;
	ddr_drive_tick(a, ddr_now_ms());
	assert_int_equal(stays, 0);
	assert_true(a->clean_asked);
	assert_int_equal(a->quiet_until_ms, UINT64_MAX);
	a->parting = false;
	end();
}

/* It is clean, and the device was not removed. */
static void an_array_that_stays_after_a_clean_stop_continues(void **state)
{
	struct ddr_array *a = asked_to_stop();

	(void)state;
	a->clean_asked = false;			/* as events.c does */
	a->quiet_until_ms = ddr_now_ms() + 10000;
	ddr_drive_tick(a, a->quiet_until_ms - 1);
	assert_int_equal(stays, 0);
	ddr_drive_tick(a, a->quiet_until_ms);
	assert_int_equal(stays, 1);
	assert_int_equal(a->quiet_until_ms, 0);
	end();
}

static void a_stop_that_is_refused_leaves_nothing(void **state)
{
	struct ddr_array *a = begin(false);

	(void)state;
	stays = 0;
	play.answer = refuses_clean;
	assert_non_null(ddr_drive_clean(a));
	assert_false(a->clean_asked);
	assert_int_equal(a->quiet_until_ms, 0);
	ddr_drive_tick(a, ddr_now_ms());
	assert_int_equal(stays, 1);
	end();
}

/* ---- leaving ---------------------------------------------------------------------- */

/* Rule 2, note 6: while any write may still land, wherever it was issued, the state machine is told of it before it decides. */
static void the_state_machine_is_told_of_writes_that_may_still_land(void **state)
{
	struct ddr_array *a = begin(true);
	uint32_t *writes[] = { &play.meta_writes, &play.jobs_writes, &play.late };

	(void)state;
	play.meta_writes = 4;
	assert_true(ddr_drive_leave(a));
	assert_int_equal(play.last.type, DDR_IN_OP_LEAVE);
	assert_true(play.landing);
	for (size_t i = 0; i < 3; i++) {
		play.meta_writes = play.jobs_writes = play.late = 0;
		step(a);
		assert_false(play.landing);
		*writes[i] = 4;
		step(a);
		assert_true(play.landing);
	}
	play.late = 0;
	a->grow.work[2] = calloc(1, sizeof(struct ddr_grow));
	step(a);
	assert_true(play.landing);
	free(a->grow.work[2]);
	a->grow.work[2] = NULL;
	play.meta_asked = play.jobs_asked = 4;	/* reads and flushes */
	step(a);
	assert_false(play.landing);
	end();
}

/* Rule I6: also while it does not leave, of what is left of earlier instances; and of another machine that has its id. */
static void the_state_machine_is_told_of_what_is_left_over(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	assert_int_equal(play.settle_ms, 10000);	/* by its members */
	play.meta_writes = play.jobs_writes = 4;	/* of this instance */
	step(a);
	assert_false(play.left_over);
	play.late = 4;
	step(a);
	assert_true(play.left_over);
	play.late = 0;
	step(a);
	assert_false(play.left_over);
	d.ident.doubled = true;
	step(a);
	assert_true(play.left_over);
	d.ident.doubled = false;
	a->cluster.left_over = true;	/* a device was left out as the array was loaded: it was locked */
	step(a);
	assert_true(play.left_over);
	end();
}

/* The write does not end: the node leaves the group without LEAVE, so that the others fence it. */
static void a_node_that_cannot_leave_in_time_leaves_without_a_message(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	play.jobs_writes = 4;
	a->removed = a->parting = true;
	a->part_until_ms = 0;
	run();
	assert_int_equal(play.left, 0);
	assert_true(a->cluster.leaving);
	assert_true(play.landing);
	a->part_until_ms = 0;
	run();
	assert_string_equal(play.event, "left-unsaid");
	assert_int_equal(play.left, 1);
	assert_int_equal(d.n_arrays, 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stop_that_nobody_waits_for_is_taken_back),
		cmocka_unit_test(a_removed_array_goes_on_stopping),
		cmocka_unit_test(an_array_that_stays_after_a_clean_stop_continues),
		cmocka_unit_test(a_stop_that_is_refused_leaves_nothing),
		cmocka_unit_test(the_state_machine_is_told_of_writes_that_may_still_land),
		cmocka_unit_test(the_state_machine_is_told_of_what_is_left_over),
		cmocka_unit_test(a_node_that_cannot_leave_in_time_leaves_without_a_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
