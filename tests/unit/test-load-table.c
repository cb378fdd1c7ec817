// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The table of an array that is loaded, against the superblocks: a table that does not fit would read and write the wrong places. Devices that the
 * table does not name, and that count all the same.
 */
#include "tests/unit/load-rig.h"

static unsigned int at;		/* which alteration */

/* ---- a table that does not fit ------------------------------------------------------------ */

static const char *const wrong[] = {
	"the members do not belong to the array", "order", "parity", "layout", "region sectors", "data offset sectors", "length in sectors", "members",
};

static void spoil(struct ddr_load *l)
{
	struct ddr_bind *b = &l->bind;

	switch (at) {
	case 0: b->uuid[5] ^= 1; break;
	case 1: b->order++; break;
	case 2: b->parity++; break;
	case 3: b->layout++; break;
	case 4: b->region_sectors *= 2; break;
	case 5: b->data_offset_sectors += 8; break;
	case 6: b->sectors += 8; break;
	case 7: b->members++; break;
	}
}

/* Whatever differs is named, with both values where it is a number, and nothing is begun. */
static void each_field_of_the_table(void **state)
{
	(void)state;
	rig.alter = spoil;
	for (at = 0; at < sizeof(wrong) / sizeof(wrong[0]); at++) {
		load();
		assert_false(rig.load->ok);
		if (!strstr(rig.load->error.text, wrong[at]) || (at && !strstr(rig.load->error.text, "ddraid table")))
			fail_msg("field %u: %s", at, rig.load->error.text);
		end();
	}
}

static void shorten(struct ddr_load *l)
{
	l->bind.sectors -= 8;
}

/* The array has grown, and this node's table is from before. */
static void a_shorter_table_is_made_longer_later(void **state)
{
	(void)state;
	rig.alter = shorten;
	load();
	assert_true(rig.load->ok);
	end();
}

/* ---- a device that is at the wrong place ---------------------------------------------------- */

static void exchange(struct ddr_load *l)
{
	l->bind.dev_minor[0] = 1;
	l->bind.dev_minor[1] = 0;
}

static void two_exchanged_members_are_refused(void **state)
{
	(void)state;
	rig.alter = exchange;
	load();
	assert_false(rig.load->ok);
	assert_non_null(strstr(rig.load->error.text, "is at position 0 of the table, but holds role 1"));
	end();
}

static void write_all(void)
{
	for (unsigned int m = 0; m < MEMBERS; m++)
		make_member(m);
}

static void write_as_another_array(void)
{
	struct ddr_super sb = rig.sb;

	rig.sb.array_uuid[3] ^= 1;
	memset(rig.sb.name, 0, sizeof(rig.sb.name));
	strcpy(rig.sb.name, "other");
	make_member(2);
	rig.sb = sb;
}

/* It is neither left out, which would be a degraded array, nor used. */
static void a_member_of_another_array(void **state)
{
	(void)state;
	write_as_another_array();
	load();
	assert_false(rig.load->ok);
	assert_non_null(strstr(rig.load->error.text, "belong to different arrays (fixture and other)"));
	end();
}

static void expect_two(void)
{
	assert_string_equal(rig.load->error.text, "");
	assert_true(rig.load->ok);
	assert_int_equal(rig.load->present, 3);
	assert_int_equal(rig.load->members->open, 3);
	end();
}

/* The same, once the member has failed for it: the array must be served by a daemon that is restarted. */
static void a_failed_member_of_another_array(void **state)
{
	(void)state;
	write_as_another_array();
	rig.sb.member[2].state = DDR_MEMBER_FAULTY;
	for (unsigned int m = 0; m < MEMBERS; m++)
		if (m != 2)
			make_member(m);
	load();
	expect_two();
}

static void no_devices(struct ddr_load *l)
{
	memset(l->bind.dev_major, 0, sizeof(l->bind.dev_major));
	memset(l->bind.dev_minor, 0, sizeof(l->bind.dev_minor));
}

static void a_table_without_devices(void **state)
{
	(void)state;
	rig.alter = no_devices;
	load();
	assert_false(rig.load->ok);
	assert_non_null(strstr(rig.load->error.text, "no member in the table can be opened"));
	end();
}

/* ---- devices that the table does not name ------------------------------------------------------- */

static void without_2(struct ddr_load *l)
{
	l->bind.dev_major[2] = l->bind.dev_minor[2] = 0;
}

/* Somebody has put '-' at its place: that is not undone behind their back. */
static void a_member_that_the_table_leaves_out_is_not_loaded(void **state)
{
	(void)state;
	rig.alter = without_2;
	rig.found = 7;
	load();
	expect_two();
}

/* A member that is being rebuilt need not be in the table yet. */
static void a_rebuilding_member_outside_the_table_is_found(void **state)
{
	(void)state;
	rig.alter = without_2;
	rig.sb.member[2].state = DDR_MEMBER_REBUILDING;
	write_all();
	rig.found = 7;			/* the others are named, and are not taken twice */
	load();
	assert_true(rig.load->ok);
	assert_int_equal(rig.load->present, 7);
	assert_int_equal(rig.load->table, 3);
	assert_int_equal(rig.load->members->open, 7);
	assert_int_equal(rig.load->members->n, MEMBERS);
	end();
	rig.found = UINT32_MAX;		/* a machine whose devices cannot be searched: it starts without it */
	load();
	expect_two();
}

static void locked_2(void)
{
	lock(2);
}

/* Between the search and the lock it became a member of another array: what it says under the lock counts. And what stays locked does without. */
static void a_found_member_that_changes_is_not_used(void **state)
{
	(void)state;
	rig.alter = without_2;
	rig.sb.member[2].state = DDR_MEMBER_REBUILDING;
	write_all();
	rig.found = 4;
	rig.after_search = locked_2;
	load();
	assert_int_equal(rig.load->locked, 4);		/* it comes back by itself */
	expect_two();
	unlock(2);
	rig.after_search = write_as_another_array;
	load();
	assert_int_equal(rig.load->locked, 0);
	expect_two();
}

/* Each member has all of it. */
static void mirror(void)
{
	fixture_super(&rig.sb, 0, 2, DDR_LAYOUT_DEDICATED, MEMBER_BYTES, 0);
	assert_int_equal(rig.sb.roles, MEMBERS);
}

/* Another array's disk is behind the device of member 2 now, which has failed for that. */
static void member_2_is_exchanged(void)
{
	write_as_another_array();
	rig.sb.member[2].state = DDR_MEMBER_FAULTY;
	rig.sb.member[2].since = ++rig.sb.generation;
	memcpy(rig.sb.gen_prev, rig.sb.gen_id, sizeof(rig.sb.gen_prev));
	rig.sb.gen_id[0]++;
	make_member(0);
	make_member(1);
}

static void without_1(struct ddr_load *l)
{
	l->bind.dev_major[1] = l->bind.dev_minor[1] = 0;
}

/* That happens while the array is loaded: after the devices of the table were read, and before all are read again because one more was found. */
static void a_member_that_is_exchanged_during_the_search(void **state)
{
	(void)state;
	mirror();
	rig.sb.member[1].state = DDR_MEMBER_REBUILDING;
	write_all();
	rig.alter = without_1;
	rig.found = 2;
	rig.after_search = member_2_is_exchanged;
	load();
	expect_two();
}

/* ---- the end ---------------------------------------------------------------------------------- */

/* An array that is removed while a member stays locked does not wait for it. */
static void cancel(void *data)
{
	(void)data;
	ddr_load_cancel(rig.load);
}

static void a_load_that_is_cancelled(void **state)
{
	qb_loop_timer_handle timer;
	uint64_t began = ddr_now_ms();

	(void)state;
	lock(0);
	lock(1);
	assert_int_equal(qb_loop_timer_add(rig.loop, QB_LOOP_HIGH, 100 * QB_TIME_NS_IN_MSEC, NULL, cancel, &timer), 0);
	load();
	assert_false(rig.load->ok);
	assert_true(ddr_now_ms() - began < 60000);
	end();
	ddr_load_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_field_of_the_table, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_shorter_table_is_made_longer_later, set_up, tear_down),
		cmocka_unit_test_setup_teardown(two_exchanged_members_are_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_member_of_another_array, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_failed_member_of_another_array, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_table_without_devices, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_member_that_the_table_leaves_out_is_not_loaded, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_rebuilding_member_outside_the_table_is_found, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_found_member_that_changes_is_not_used, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_member_that_is_exchanged_during_the_search, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_load_that_is_cancelled, set_up, tear_down),
	};

	alarm(120);
	return cmocka_run_group_tests_name("load, table", tests, NULL, NULL);
}
