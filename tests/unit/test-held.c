// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * An array without a cluster whose daemon stood still: it is held (daemon/base/still.h) until its members were looked at (daemon/array/drive_stamp.c, with
 * daemon/disk/metaio_stamp.c and the check of the superblocks, on the disks of super-disks.h). Also stamps that had to wait, or that cannot be made.
 */
#include "tests/unit/stamp-rig.h"

/* It has two stamps on each member. */
static void runs(void)
{
	play.watched = true;
	pass(0);
	pass(2000);
	assert_int_equal(written(), 2 * w.sb.members);
	assert_false(a.members->still.held);
}

static void without_a_cluster_a_standstill_holds_the_array(void **state)
{
	(void)state;
	runs();
	pass(4999);
	assert_false(a.members->still.held);
	play.hung = 7;			/* so that all of it is seen */
	pass(5000);
	assert_true(a.members->still.held);
	assert_true(a.check.out);
	for (unsigned int i = 0; i < w.n_flying; i++)
		assert_false(of_stamps(w.flying[i]));
	play.hung = 4;
	ends();
	pass(100);			/* the superblocks of one are read still */
	assert_true(a.check.out);
	play.hung = 2;
	ends();
	for (unsigned int i = 0; i < 3; i++)
		pass(600);
	assert_true(a.members->still.held);
	play.hung = 0;
	ends();
	pass(600);			/* the rest of the tick follows at once */
	assert_false(a.members->still.held);
	assert_int_equal(play.gave_up | play.lost | play.failed | play.exchanged | play.dropped, 0);
}

/* Nothing is written to it, neither what was decided before nor stamps, and what was to be told to the kernel never is. */
static void what_another_machine_has_stays_held(void **state)
{
	struct ddr_stamp s;
	unsigned int n;

	(void)state;
	runs();
	n = written();
	put_other(2, DDR_STAMP_CLAIM, 10);
	put_other(2, DDR_STAMP_CLAIM, 11);
	pass(80000);
	for (unsigned int i = 0; i < 20; i++) {
		assert_true(a.members->still.held);
		pass(400);
	}
	assert_int_equal(written(), n);
	assert_int_equal(play.gave_up, 1);
	assert_true(a.stamp.taken && a.broken);
	assert_int_equal(play.dropped, 3);
	assert_true(found(2, 1, &s) && s.seq == 11);
}

/* One read that shows something else, once, decides nothing. */
static void a_look_looks_twice(void **state)
{
	(void)state;
	runs();
	play.lies = 2;
	pass(20000);
	for (unsigned int i = 0; i < 10; i++)
		pass(600);
	assert_false(a.members->still.held);
	assert_int_equal(play.gave_up | play.lost | play.failed | play.exchanged, 0);
}

/* It is waited for until its limit, and no longer. */
static void a_member_that_hangs_holds_it_for_its_limit(void **state)
{
	(void)state;
	runs();
	play.hung = 1;
	pass(20000);
	for (unsigned int i = 0; i < 4; i++)
		pass(1000);
	assert_true(a.members->still.held);
	assert_int_equal(play.failed, 0);
	for (unsigned int i = 0; i < 4; i++)
		pass(1000);
	assert_false(a.members->still.held);
	assert_int_equal(play.failed, 1);
	assert_int_equal(play.gave_up | play.lost | play.exchanged, 0);
}

/* Its superblocks were read, and then it hangs; or a stamp of before hangs there. */
static void a_pair_that_hangs_holds_it_for_its_limit(void **state)
{
	for (unsigned int before = 0; before < 2; before++) {
		runs();
		play.hung_stamps = 1;
		if (before)
			pass(2000);
		pass(20000);
		for (unsigned int i = 0; i < 5; i++)
			pass(1000);
		assert_true(a.members->still.held);
		for (unsigned int i = 0; i < 3; i++)
			pass(1000);
		assert_false(a.members->still.held);
		assert_int_equal(play.gave_up | play.lost | play.failed | play.exchanged, 0);
		teardown(state);
		setup(state);
	}
}

static void nobody_knows_while_no_member_delivers(void **state)
{
	(void)state;
	runs();
	play.fails = 7;
	for (unsigned int i = 0; i < 10; i++) {
		pass(i ? 2000 : 20000);
		assert_true(a.members->still.held);
	}
	play.fails = 6;			/* one is enough, if the others do not hang */
	pass(600);
	pass(600);
	assert_false(a.members->still.held);
	assert_int_equal(play.gave_up | play.lost | play.failed | play.exchanged, 0);
}

/* What one member has delivered is old when the others have been waited for. */
static void what_was_read_gets_old(void **state)
{
	(void)state;
	runs();
	a.tune.io_timeout_ms = 20000;
	play.hung_stamps = 2;
	pass(20000);
	pass(600);
	assert_int_equal(a.stamp.good, 5);
	play.hung_stamps = 7;
	for (unsigned int i = 0; i < 20; i++)
		pass(2000);
	assert_true(a.members->still.held);
	play.hung_stamps = 6;
	ends();
	pass(600);
	pass(600);
	assert_false(a.members->still.held);
}

/* A claim comes to a member that has been looked at, while another one is waited for. */
static void a_claim_during_the_look_is_seen(void **state)
{
	(void)state;
	runs();
	play.hung_stamps = 2;
	pass(20000);
	pass(600);
	assert_int_equal(a.stamp.done, 5);
	put_other(0, DDR_STAMP_CLAIM, 10);
	put_other(0, DDR_STAMP_CLAIM, 11);
	pass(600);
	assert_int_equal(a.stamp.suspect, 1);
	play.hung_stamps = 0;
	ends();
	assert_int_equal(a.stamp.done, 7);
	for (unsigned int i = 0; i < 10; i++) {
		assert_true(a.members->still.held);
		pass(400);
	}
	assert_int_equal(play.gave_up, 1);
}

/* Likewise, where only the kernel has stopped. */
static void a_claim_during_the_look_keeps_the_kernel(void **state)
{
	(void)state;
	pass(0);
	pass(2000);
	stopped();
	pass(0);
	play.hung_stamps = 2;
	pass(100);
	assert_int_equal(a.stamp.done, 5);
	put_other(0, DDR_STAMP_CLAIM, 10);
	put_other(0, DDR_STAMP_CLAIM, 11);
	pass(2000);
	assert_int_equal(a.stamp.suspect, 1);
	play.hung_stamps = 0;
	ends();
	assert_int_equal(a.stamp.done, 7);
	play.hung_stamps = 1;
	for (unsigned int i = 0; i < 10; i++)
		pass(500);
	play.hung_stamps = 0;
	for (unsigned int i = 0; i < 10; i++)
		pass(1000);
	assert_int_equal(play.told, 0);
	assert_int_equal(play.gave_up, 1);
}

/* The process is stopped again while it looks: what it has seen until then is older than that. */
static void a_second_standstill_is_a_second_look(void **state)
{
	(void)state;
	runs();
	pass(20000);
	play.hung = 4;
	pass(600);
	pass(600);
	play.hung = 0;
	put_other(0, DDR_STAMP_CLAIM, 10);
	put_other(0, DDR_STAMP_CLAIM, 11);
	pass(80000);
	for (unsigned int i = 0; i < 20; i++) {
		assert_true(a.members->still.held);
		pass(400);
	}
	assert_int_equal(play.gave_up, 1);
}

/* What this node has not written it cannot miss: the array is loaded again. So is one of which no slot is known on the disks. */
static void what_shows_nothing_is_loaded_again(void **state)
{
	(void)state;
	play.watched = true;
	play.hung = 7;
	pass(0);			/* its first stamps have not been written */
	pass(20000);
	assert_true(a.members->still.held);
	assert_non_null(a.broken);
	assert_false(a.stamp.taken);
	assert_int_equal(play.gave_up, 0);
}

/* One of several on which nothing of this node is to be found: it is not waited for, and says nothing. */
static void a_member_without_a_stamp_shows_nothing(void **state)
{
	(void)state;
	play.watched = true;
	play.hung_stamps = 1;
	pass(0);
	pass(2000);
	play.hung_stamps = 0;
	play.fails = 6;
	pass(20000);
	for (unsigned int i = 0; i < 10; i++)
		pass(1000);
	assert_true(a.members->still.held);
	assert_null(a.broken);
	play.fails = 0;
	play.hung_stamps = 1;
	pass(600);
	pass(600);
	assert_false(a.members->still.held);
	assert_int_equal(play.gave_up | play.lost | play.failed | play.exchanged, 0);
}

static void an_array_without_a_slot_is_loaded_again(void **state)
{
	(void)state;
	runs();
	play.node = 0;
	pass(20000);
	assert_true(a.members->still.held);
	assert_non_null(a.broken);
	assert_false(a.stamp.taken);
	assert_int_equal(play.gave_up, 0);
}

/* Nothing that waits is late; a check is. */
static void what_is_held_is_not_late(void **state)
{
	struct ddr_meta_op *op;

	(void)state;
	runs();
	op = ddr_metaio_get(a.meta, DDR_META_LOG, 77, 7);
	memset(ddr_metaio_block(op, 0), 0, DDR_META_BLOCK);
	ddr_metaio_at(op, ddr_log_offset(&a.super, SLOT, 0, 0));
	ddr_metaio_run(op, play.now, 5000);
	play.fails = 7;
	pass(20000);
	for (unsigned int i = 0; i < 20; i++)
		pass(1000);
	assert_true(a.members->still.held);
	assert_int_equal(play.logs, 0);
	play.fails = 0;
	pass(600);
	pass(600);
	assert_false(a.members->still.held);
	ends();
	assert_int_equal(play.logs, 1);
	assert_int_equal(play.log_failed, 0);
}

/* It has stopped in the same standstill: it need not be looked at twice. But what was seen is not good for long. */
static void the_kernel_goes_on_by_the_same_look(void **state)
{
	(void)state;
	runs();
	pass(40000);
	for (unsigned int i = 0; i < 5; i++)
		pass(600);
	assert_false(a.members->still.held);
	assert_false(ddr_drive_looks_first(&a));
	for (unsigned int i = 0; i < 5; i++)
		pass(2000);
	assert_true(ddr_drive_looks_first(&a));
}

/* ---- stamps -------------------------------------------------------------------------- */

/* A stamp that had to wait rests on what was read before: it is not written, and the pair is read again. */
static void a_stamp_that_waited_is_not_written(void **state)
{
	(void)state;
	pass(0);
	play.hung_stamps = 1;
	pass(2000);
	one_request(w.flying[--w.n_flying]);		/* the read; the write follows */
	assert_true(w.n_flying == 1 && is_write(w.flying[0]));
	put_other(0, DDR_STAMP_CLAIM, 10);
	put_other(0, DDR_STAMP_CLAIM, 11);
	play.full = true;
	play.now += 80000;
	ends();
	play.hung_stamps = 0;
	assert_int_equal(play.writes[0], 1);
	assert_int_equal(w.n_flying, 0);
	for (unsigned int i = 0; i < 8; i++)
		pass(1000);
	assert_int_equal(play.gave_up, 1);
}

/* One that cannot be made is an attempt that failed: nobody waits for it for ever. */
static void a_stamp_that_cannot_be_made_has_failed(void **state)
{
	(void)state;
	pass(0);
	pass(2000);
	stopped();
	pass(100);
	a.super.slots = 1;
	pass(100);
	assert_int_equal(a.stamp.done, 7);
	assert_int_equal(a.stamp.good, 0);
	pass(2000);
	assert_int_equal(play.told, 0);
	a.super.slots = w.sb.slots;
	pass(2000);
	pass(100);
	assert_int_equal(play.told, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(without_a_cluster_a_standstill_holds_the_array), TEST(what_another_machine_has_stays_held), TEST(a_look_looks_twice),
		TEST(a_member_that_hangs_holds_it_for_its_limit), TEST(a_pair_that_hangs_holds_it_for_its_limit), TEST(nobody_knows_while_no_member_delivers),
		TEST(what_was_read_gets_old), TEST(a_claim_during_the_look_is_seen), TEST(a_claim_during_the_look_keeps_the_kernel), TEST(a_second_standstill_is_a_second_look), TEST(what_shows_nothing_is_loaded_again),
		TEST(a_member_without_a_stamp_shows_nothing), TEST(an_array_without_a_slot_is_loaded_again), TEST(what_is_held_is_not_late),
		TEST(the_kernel_goes_on_by_the_same_look),
		TEST(a_stamp_that_waited_is_not_written), TEST(a_stamp_that_cannot_be_made_has_failed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
