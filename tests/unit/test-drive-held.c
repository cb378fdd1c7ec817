// SPDX-License-Identifier: GPL-2.0-or-later
/* What the daemon does with an array without a cluster after it stood still. The rest of the world is played (drive-fixture.h). */
#include "tests/unit/drive-fixture.h"

static void says_enable(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)in;
	memset(&out->out[0], 0, sizeof(*out->out));
	out->out[0].type = DDR_OUT_KERNEL;
	out->out[0].rec.type = DDR_U_ENABLE;
	out->n = 1;
}

/* Its process stands still: the clock is not read for @ms. */
static void stands_still(struct ddr_still *still, uint64_t ms)
{
	assert_true(still->watched);
	still->ran_ms -= ms;
}

/* An array with a slot, which its stamps show on member 0. */
static struct ddr_array *begin_stamped(void)
{
	struct ddr_array *a = begin(false);

	a->ready = true;
	a->super.owner_pages = 4;
	d.ident.stored = true;
	play.owner_known = (struct ddr_owner){ .node = a->d->transport->node(a->d), .state = DDR_SLOT_OWNED };
	play.owner_known.instance.cookie = a->bind.cookie;
	play.super.members = 1;
	play.super.member[0].state = DDR_MEMBER_IN_SYNC;
	play.stamped = 1;
	a->members->open = 1;
	assert_false(a->members->still.watched);	/* of format 1 */
	ddr_drive_watch(a);
	return a;
}

/* Stamps that have just begun made each look find I/O under way, and a second one follow a second later. */
static void members_are_looked_at_before_they_are_stamped(void **state)
{
	struct ddr_array *a = begin_stamped();

	(void)state;
	a->check.wanted = 0;
	a->check.out = false;
	play.stalls = play.late_stalls = play.stamps_begun = 0;
	a->tick_ms = play.now += DDR_REST_MS;	/* no standstill */
	ddr_drive_tick(a, ddr_now_ms());
	assert_int_equal(play.stamps_begun, 1);
	assert_int_equal(play.stalls, 1);
	assert_int_equal(play.late_stalls, 0);
	end();
}

/* Rule I3: it tells its kernel nothing before the members were looked at, and is not attached anew for it. */
static void without_a_cluster_a_standstill_holds_the_array(void **state)
{
	struct ddr_array *a = begin_stamped();

	(void)state;
	play.n_told = 0;
	assert_ptr_equal(play.meta.still, &a->members->still);
	a->ping_due_ms = 0;
	a->check.out = true;			/* played: it takes a while */
	stands_still(&a->members->still, 20000);
	play.answer = says_enable;
	step(a);
	for (unsigned int i = 0; i < 5; i++)
		ddr_drive_tick(a, ddr_now_ms());
	assert_int_equal(play.n_told, 0);
	assert_true(a->members->still.held);
	assert_int_equal(ddr_drive_rests(a, ddr_now_ms()), 0);
	assert_int_equal(play.looked_at, 0);
	a->check.wanted = 0;
	ddr_drive_checked(a, 0);
	ddr_drive_tick(a, ddr_now_ms());
	assert_int_equal(play.looked_at, 1);
	ddr_drive_stamped(a, 0, DDR_STAMPED_FINE, NULL);
	assert_int_equal(play.n_told, 0);
	play.answer = NULL;
	ddr_drive_tick(a, ddr_now_ms());
	assert_false(a->members->still.held);
	assert_true(play.n_told > 0);
	assert_int_equal(play.told[0].type, DDR_U_ENABLE);
	assert_int_equal(play.told[play.n_told - 1].type, DDR_U_PING);
	assert_int_equal(play.binds, 1);
	end();
}

/* Its kernel is told that, and not what was decided before. */
static void what_another_machine_has_is_killed_at_once(void **state)
{
	const struct ddr_stamp found = { .kind = DDR_STAMP_CLAIM, .node = 8, .name = "elsewhere" };
	struct ddr_array *a = begin_stamped();

	(void)state;
	play.n_told = 0;
	a->check.out = true;
	stands_still(&a->members->still, 20000);
	play.answer = says_enable;
	step(a);
	play.answer = NULL;
	ddr_drive_tick(a, ddr_now_ms());
	a->stamp.seen = 1;
	ddr_drive_stamped(a, 0, DDR_STAMPED_TAKEN, &found);
	assert_int_equal(play.n_told, 1);
	run();
	assert_int_equal(a->state, DDR_ARRAY_REFUSED);
	assert_int_equal(play.n_told, 1);
	assert_int_equal(play.told[0].type, DDR_U_KILL);
	assert_non_null(strstr(a->error, "has claimed the array"));
	end();
}

/* Nothing on the disks would show whether another machine has it. */
static void what_shows_nothing_is_loaded_again(void **state)
{
	struct ddr_array *a = begin_stamped();

	(void)state;
	play.stamped = 0;
	play.n_told = 0;
	stands_still(&a->members->still, 20000);
	play.answer = says_enable;
	step(a);
	play.answer = NULL;
	run();
	for (unsigned int i = 0; i < play.n_told; i++)	/* by the next channel */
		assert_int_equal(play.told[i].type, DDR_U_PING);
	assert_int_equal(a->state, DDR_ARRAY_LOADING);
	assert_int_equal(play.binds, 2);
	play.owner_pages = 4;
	loaded();
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	assert_true(a->members->still.watched && a->members->still.looks);
	assert_false(ddr_still_held(&a->members->still));
	end();
}

/* What was read before a standstill is not what an array starts from, whether the loop hears first of the end of the load or of the time. */
static void a_load_does_not_outlive_a_standstill(void **state)
{
	(void)state;
	for (unsigned int first = 0; first < 2; first++) {
		struct ddr_array *a = begin(false);
		struct ddr_load *l;

		a->adopted = (struct ddr_adoption){ .until_ms = UINT64_MAX, .alone = true };
		memcpy(a->adopted.uuid, a->uuid, sizeof(a->uuid));
		ddr_identity_not_started(a);
		ddr_array_close(a, true);
		assert_int_equal(a->state, DDR_ARRAY_LOADING);
		assert_true(play.load->claim.adopted);
		l = play.load;
		stands_still(&l->still, 20000);
		if (first) {
			run();
			assert_int_equal(a->state, DDR_ARRAY_CLOSING);
		}
		play.load = NULL;
		l->ok = true;
		l->done(l->ctx);
		assert_int_equal(a->state, DDR_ARRAY_LOADING);
		assert_int_equal(play.binds, 3);
		assert_int_equal(play.made, 1);
		assert_true(play.load->claim.adopted);
		loaded();
		assert_int_equal(a->state, DDR_ARRAY_RUNNING);
		end();
	}
}

/* In a cluster others decide, and the daemon as a whole waits for that. */
static void in_a_cluster_an_array_has_no_hold_of_its_own(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	assert_false(a->members->still.watched);
	assert_ptr_equal(play.meta.still, &d.still);
	ddr_array_close(a, true);
	assert_false(play.load->still.watched);
	loaded();
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(members_are_looked_at_before_they_are_stamped),
		cmocka_unit_test(without_a_cluster_a_standstill_holds_the_array),
		cmocka_unit_test(what_another_machine_has_is_killed_at_once),
		cmocka_unit_test(what_shows_nothing_is_loaded_again),
		cmocka_unit_test(a_load_does_not_outlive_a_standstill),
		cmocka_unit_test(in_a_cluster_an_array_has_no_hold_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
