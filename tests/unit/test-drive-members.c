// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the daemon does when the members of an array change: another table, members that are released while I/O of theirs is
 * outstanding. The search for devices: test-drive-seek.c.
 */
#include "tests/unit/drive-spare.h"

/* ---- another table --------------------------------------------------------------- */

static void asks_for_table(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)in;
	asks(out, DDR_OUT_TABLE, 0, 0);
	out->out[0].member = SPARE;
	out->out[0].index = PLACE;
	play.answer = NULL;
}

static void ask(struct ddr_array *a)
{
	play.answer = asks_for_table;
	step(a);
	play.last = (struct ddr_input){ 0 };
	ddr_drive_table_tick(a);
}

static void a_table_with_the_spare_is_loaded(void **state)
{
	struct ddr_array *a = begin_with_spare();

	(void)state;
	ask(a);
	assert_non_null(play.table);
	assert_int_equal(play.table->place, PLACE);
	assert_int_equal(play.table->major, 8);
	assert_int_equal(play.table->minor, 10 + SPARE);
	play.table->done(play.table->ctx, play.table);
	assert_int_not_equal(play.last.type, DDR_IN_TABLE_DONE);	/* the new binding reports it */
	ask(a);
	play.table->result = -EALREADY;
	play.table->done(play.table->ctx, play.table);
	assert_int_equal(play.last.type, DDR_IN_TABLE_DONE);
	assert_int_equal(play.last.member, SPARE);
	assert_int_equal(play.last.result, 0);
	ask(a);
	play.table->result = -EIO;
	snprintf(play.table->error.text, sizeof(play.table->error.text), "no");
	play.table->done(play.table->ctx, play.table);
	assert_int_equal(play.last.type, DDR_IN_TABLE_DONE);
	assert_int_equal(play.last.result, -EIO);
	assert_string_equal(play.event, "table-failed");
	end();
}

static unsigned int times_asked;

static void asks_whenever_refused(const struct ddr_input *in, struct ddr_outputs *out)
{
	asks_for_table(in, out);
	play.answer = ++times_asked < 9 ? asks_whenever_refused : NULL;
}

/* The refusal is an answer, and the state machine may ask again because of it: a tick that served that too would not end. */
static void what_is_refused_waits_for_the_next_tick(void **state)
{
	struct ddr_array *a = begin_with_spare();

	(void)state;
	play.members->open &= ~(1u << SPARE);
	times_asked = 0;
	play.answer = asks_whenever_refused;
	step(a);
	ddr_drive_table_tick(a);
	assert_int_equal(times_asked, 2);
	ddr_drive_table_tick(a);
	assert_int_equal(times_asked, 3);
	play.answer = NULL;
	end();
}

static void a_spare_that_is_not_there_is_said(void **state)
{
	struct ddr_array *a = begin_with_spare();

	(void)state;
	play.members->open &= ~(1u << SPARE);
	ask(a);
	assert_null(play.table);
	assert_int_equal(play.last.type, DDR_IN_TABLE_DONE);
	assert_int_equal(play.last.member, SPARE);
	assert_int_equal(play.last.result, -ENODEV);
	end();
}

/* An array that ends while its table is loaded hears nothing of that any more. */
static void a_table_outlives_its_array(void **state)
{
	struct ddr_array *a = begin_with_spare();
	struct ddr_table *t;

	(void)state;
	ask(a);
	t = play.table;
	end();
	assert_null(t->ctx);
	t->done(t->ctx, t);
}

/* The spare is in the table: the state machine gets a new binding without a reload, and the node stays in the group. */
static void a_table_of_known_devices_is_taken_in_place(void **state)
{
	struct ddr_array *a = begin_with_spare();
	unsigned int made = play.made;

	(void)state;
	play.super.member[PLACE].role = DDR_ROLE_NONE;
	play.super.member[SPARE].role = PLACE;
	ddr_array_resumed(&d, uuid, false);		/* with APPEARED */
	play.minor[PLACE] = 10 + SPARE;
	ddr_array_resumed(&d, uuid, false);
	assert_int_equal(play.last.type, DDR_IN_K_ATTACHED);
	assert_int_equal(play.last.members, 0x3f & ~(1u << PLACE));
	assert_int_equal(play.binds, 2);
	assert_int_equal(play.made, made);
	assert_int_equal(play.left, 0);
	assert_null(play.load);
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	end();
}

/*
 * Finding S42: the array is served before its device is resumed. The table that is then resumed is the one that the array was bound
 * to: nothing starts over.
 */
static void an_array_is_served_before_its_device_is_there(void **state)
{
	struct ddr_array *a;

	(void)state;
	bind_early = true;
	a = begin_with_spare();
	bind_early = false;
	ddr_array_resumed(&d, uuid, true);
	assert_int_equal(play.binds, 1);
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	ddr_array_resumed(&d, uuid, false);		/* and another one later is another one */
	assert_int_equal(play.binds, 2);
	end();
}

/*
 * Finding S42: the first table to be resumed is another one, loaded by hand for instance. What the kernel was told belongs to the
 * previous table.
 */
static void another_table_is_resumed_first(void **state)
{
	struct ddr_array *a;

	(void)state;
	bind_early = true;
	a = begin_with_spare();
	bind_early = false;
	play.super.member[PLACE].role = DDR_ROLE_NONE;
	play.super.member[SPARE].role = PLACE;
	play.minor[PLACE] = 10 + SPARE;
	ddr_array_resumed(&d, uuid, false);
	assert_int_equal(play.binds, 2);
	assert_int_equal(play.last.type, DDR_IN_K_ATTACHED);
	assert_int_equal(play.last.members, 0x3f & ~(1u << PLACE));
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	end();
}

/* The place is the spare's by the superblocks, and the table names the old device still: it does not count as there. */
static void an_old_device_is_not_the_member(void **state)
{
	struct ddr_array *a = begin_with_spare();

	(void)state;
	play.super.member[PLACE].role = DDR_ROLE_NONE;
	play.super.member[SPARE].role = PLACE;
	ddr_array_resumed(&d, uuid, false);
	ddr_array_resumed(&d, uuid, false);
	assert_int_equal(play.last.type, DDR_IN_K_ATTACHED);
	assert_int_equal(play.last.members, 0x1f & ~(1u << PLACE));
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	end();
}

static void a_table_of_unknown_devices_is_looked_at_anew(void **state)
{
	struct ddr_array *a = begin_with_spare();

	(void)state;
	ddr_array_resumed(&d, uuid, false);
	play.minor[PLACE] = 77;
	ddr_array_resumed(&d, uuid, false);
	assert_int_equal(play.left, 1);
	assert_non_null(play.load);
	assert_int_equal(a->state, DDR_ARRAY_LOADING);
	end();
}

/* ---- a member that hangs while it is zeroed ----------------------------------------- */

/* The other members are free at once for the next process that serves the array. */
static void a_member_that_is_zeroed_stays_locked_beyond_the_array(void **state)
{
	struct ddr_array *a = begin_with_spare();

	(void)state;
	hangs_while_it_is_zeroed(a);
	assert_int_equal(play.ends, 0);
	ddr_array_close(a, false);
	assert_int_equal(play.kept_growing, 1u << PLACE);
	assert_int_equal(play.ends, 1);
	zeroes_end();
	end();
}

/* The kernel's table does not name it any more, and this process releases it: the disk is free for any use. */
static void a_member_that_was_removed_is_let_go(void **state)
{
	struct ddr_array *a = begin_with_spare();
	unsigned int made = play.made;

	(void)state;
	for (uint32_t p = 0; p < SPARE; p++)
		a->bind.dev_major[p] = 8, a->bind.dev_minor[p] = play.minor[p] = 10 + p;
	ddr_array_resumed(&d, uuid, false);		/* with APPEARED */
	play.super.member[PLACE].state = DDR_MEMBER_MISSING;
	play.answer = removes;
	step(a);
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.let_go, 1u << PLACE);
	ddr_drive_table_tick(a);
	assert_non_null(play.table);
	assert_int_equal(play.table->place, PLACE);
	assert_int_equal(play.table->major + play.table->minor, 0);
	play.table->done(play.table->ctx, play.table);
	play.minor[PLACE] = 0;
	ddr_array_resumed(&d, uuid, false);
	assert_int_equal(play.last.type, DDR_IN_K_ATTACHED);
	assert_int_equal(play.made, made);	/* bound in place */
	end();
}

/* The zeroes are written through its descriptor: if that were closed, they would go to whatever file gets the same number next. */
static void a_member_that_is_zeroed_is_let_go_when_that_has_ended(void **state)
{
	struct ddr_array *a = begin_with_spare();

	(void)state;
	hangs_while_it_is_zeroed(a);
	play.answer = removes;
	step(a);
	ddr_drive_seek_tick(a, ddr_now_ms());
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.let_go, 0);
	assert_true(play.members->open >> PLACE & 1);
	zeroes_end();
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.let_go, 1u << PLACE);
	assert_int_equal(play.members->n_old, 0);
	end();
}

/* Verify always has a read under way, but not to a disk that was taken out. */
static void what_no_job_reads_is_closed(void **state)
{
	struct ddr_array *a = begin_with_spare();

	(void)state;
	play.members->n_old = 2;
	play.members->old[0].fd = 70;
	play.members->old[1].fd = 71;
	play.jobs_fd = 70;
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.members->n_old, 1);
	assert_int_equal(play.members->old[0].fd, 70);
	play.jobs_fd = 0;
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.members->n_old, 0);
	end();
}

/* Whatever else is to be closed waits as well. */
static void nothing_is_closed_while_a_member_is_zeroed(void **state)
{
	struct ddr_array *a = begin_with_spare();

	(void)state;
	hangs_while_it_is_zeroed(a);
	play.members->n_old = 1;
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.members->n_old, 1);
	zeroes_end();
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.members->n_old, 0);
	end();
}

static void replaced(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)in;
	asks(out, DDR_OUT_EVENT, PLACE, 0);	/* node: the member that was replaced */
	out->out[0].event = DDR_EV_REBUILD_DONE;
	out->out[0].member = SPARE;
	play.super.member[PLACE].role = DDR_ROLE_NONE;
	play.super.member[PLACE].state = DDR_MEMBER_MISSING;
	play.super.member[SPARE].role = PLACE;
	play.answer = NULL;
}

/* The table names the new disk beside the old one, and the old one was replaced. */
static struct ddr_array *begin_replaced(void)
{
	struct ddr_array *a = begin_with_spare();

	for (uint32_t p = 0; p < SPARE; p++)
		a->bind.dev_major[p] = 8, a->bind.dev_minor[p] = play.minor[p] = 10 + p;
	a->bind.shadow_place = PLACE;
	a->bind.dev_major[DDR_UAPI_SHADOW] = 8;
	a->bind.dev_minor[DDR_UAPI_SHADOW] = 10 + SPARE;
	play.answer = replaced;
	step(a);
	ddr_drive_seek_tick(a, ddr_now_ms());
	return a;
}

/* Other nodes still write the old disk, and this node's table names it: it keeps its name and stays open until both have ended. */
static void a_member_that_was_replaced_is_let_go_last(void **state)
{
	struct ddr_array *a = begin_replaced();

	(void)state;
	assert_int_equal(play.let_go, 0);
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.let_go, 0);
	a->bind.dev_minor[PLACE] = 10 + SPARE;
	a->bind.shadow_place = DDR_NO_MEMBER;
	a->bind.dev_major[DDR_UAPI_SHADOW] = a->bind.dev_minor[DDR_UAPI_SHADOW] = 0;
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.let_go, 1u << PLACE);
	assert_int_equal(a->table_unname, 0);	/* its place is another one's */
	end();
}

/* It has come back as a spare before that: this node needs it. */
static void a_member_that_was_replaced_and_is_back_stays(void **state)
{
	struct ddr_array *a = begin_replaced();

	(void)state;
	play.super.member[PLACE].state = DDR_MEMBER_SPARE;
	ddr_drive_seek_tick(a, ddr_now_ms());
	a->bind.dev_minor[PLACE] = 10 + SPARE;
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.let_go, 0);
	end();
}

static struct ddr_input forgotten;

static void notes_what_is_forgotten(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)out;
	if (in->type == DDR_IN_OP_REPLACE || in->type == DDR_IN_OP_WITHDRAW)
		forgotten = *in;
}

/* The waiting client may be answered from within a step, so the state machine gets the withdrawal at the next tick. */
static void a_replacement_that_is_late_is_forgotten(void **state)
{
	struct ddr_array *a = begin_with_spare();

	(void)state;
	play.answer = notes_what_is_forgotten;
	assert_null(ddr_drive_replace(a, PLACE, SPARE));
	assert_int_equal(forgotten.member, PLACE);
	assert_int_equal(forgotten.value, SPARE);
	forgotten = (struct ddr_input){ 0 };
	ddr_drive_replace_late(a, SPARE);
	assert_int_equal(forgotten.type, DDR_IN_NONE);
	run();
	assert_int_equal(forgotten.type, DDR_IN_OP_REPLACE);
	assert_int_equal(forgotten.member, SPARE);
	assert_int_equal(forgotten.value, DDR_NO_MEMBER);
	end();
}

static void an_add_that_is_late_is_withdrawn(void **state)
{
	struct ddr_array *a = begin_with_spare();
	uint8_t disk[16];

	(void)state;
	memset(disk, 0xa1, sizeof(disk));
	play.answer = notes_what_is_forgotten;
	forgotten = (struct ddr_input){ 0 };
	ddr_drive_add_late(a, disk);
	assert_int_equal(forgotten.type, DDR_IN_NONE);
	run();
	assert_int_equal(forgotten.type, DDR_IN_OP_WITHDRAW);
	assert_memory_equal(forgotten.uuid, disk, sizeof(disk));
	forgotten = (struct ddr_input){ 0 };
	run();
	assert_int_equal(forgotten.type, DDR_IN_NONE);
	end();
}

/* A table leaves out a working member, so whoever loaded it decided that: the array is loaded and judged again. */
static void a_table_that_leaves_a_member_out_is_judged(void **state)
{
	struct ddr_array *a = begin_with_spare();

	(void)state;
	for (uint32_t p = 0; p < SPARE; p++) {
		a->bind.dev_major[p] = 8;
		a->bind.dev_minor[p] = play.minor[p] = 10 + p;
		play.super.member[p].state = DDR_MEMBER_IN_SYNC;
	}
	ddr_array_resumed(&d, uuid, false);
	play.minor[PLACE] = 0;
	ddr_array_resumed(&d, uuid, false);
	assert_int_equal(a->state, DDR_ARRAY_LOADING);
	end();
}

/* A generation that no disk has is no state of the array: the next start would look for disks that have it, and find none. */
static void a_generation_is_noted_when_a_disk_has_it(void **state)
{
	struct ddr_array *a = begin(false);

	(void)state;
	play.generation_seen = 0;
	a->gen_writing = 9;
	a->gen_members = 0x3;
	play.meta.done(play.meta.ctx, DDR_META_SB, 1, 0x3, 0);
	assert_int_equal(play.generation_seen, 0);
	play.meta.done(play.meta.ctx, DDR_META_LOG, 1, 0, 0);
	assert_int_equal(play.generation_seen, 0);
	play.meta.done(play.meta.ctx, DDR_META_SB, 1, 0x1, 0);
	assert_int_equal(play.generation_seen, 9);
	end();
}

/* Note 8: also by a node that is not the writer, since any node may be the first to start after all have stopped. */
static void a_generation_is_noted_when_all_have_it(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	play.super.generation = 12;
	step(a);
	assert_int_equal(play.generation_seen, 12);
	play.generation_seen = 0;
	step(a);
	assert_int_equal(play.generation_seen, 0);	/* not with each grant: that asks for memory */
	play.super.gen_id[3]++;
	step(a);
	assert_int_equal(play.generation_seen, 12);
	end();
}

/* ---- names ----------------------------------------------------------------------- */

/*
 * Findings S15, P8: an array whose device was renamed (dmsetup rename) could not be found. It is found by its own name, its uuid and
 * its device's name. If two arrays have the same name, it means the one whose device has that name, or neither.
 */
static void an_array_is_found_whatever_its_device_is_called(void **state)
{
	struct ddr_array *a = begin(true);
	static struct ddr_array other;

	(void)state;
	snprintf(a->name, sizeof(a->name), "data");
	a->bind.dm_minor = 1;
	dm_name[1] = "moved";
	assert_ptr_equal(ddr_array_find(&d, "data"), a);
	assert_ptr_equal(ddr_array_find(&d, "moved"), a);
	assert_ptr_equal(ddr_array_find(&d, a->uuid_text), a);
	assert_null(ddr_array_find(&d, "other"));
	snprintf(other.name, sizeof(other.name), "moved");
	snprintf(other.uuid_text, sizeof(other.uuid_text), "b");
	other.bind.dm_minor = 2;
	dm_name[2] = "data";
	qb_list_add(&other.list, &d.arrays);
	assert_ptr_equal(ddr_array_find(&d, "moved"), &other);	/* an array's name counts before a device's */
	assert_ptr_equal(ddr_array_find(&d, "data"), a);
	snprintf(other.name, sizeof(other.name), "data");
	assert_ptr_equal(ddr_array_find(&d, "data"), &other);
	assert_ptr_equal(ddr_array_find(&d, "moved"), a);
	dm_name[2] = "else";
	assert_null(ddr_array_find(&d, "data"));
	assert_ptr_equal(ddr_array_find(&d, "else"), &other);
	qb_list_del(&other.list);
	dm_name[1] = dm_name[2] = "";
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_array_is_found_whatever_its_device_is_called),
		cmocka_unit_test(a_generation_is_noted_when_a_disk_has_it),
		cmocka_unit_test(a_generation_is_noted_when_all_have_it),
		cmocka_unit_test(a_table_with_the_spare_is_loaded),
		cmocka_unit_test(a_spare_that_is_not_there_is_said),
		cmocka_unit_test(what_is_refused_waits_for_the_next_tick),
		cmocka_unit_test(a_table_outlives_its_array),
		cmocka_unit_test(a_table_of_known_devices_is_taken_in_place),
		cmocka_unit_test(an_array_is_served_before_its_device_is_there),
		cmocka_unit_test(another_table_is_resumed_first),
		cmocka_unit_test(an_old_device_is_not_the_member),
		cmocka_unit_test(what_no_job_reads_is_closed),
		cmocka_unit_test(a_member_that_was_removed_is_let_go),
		cmocka_unit_test(a_member_that_is_zeroed_is_let_go_when_that_has_ended),
		cmocka_unit_test(nothing_is_closed_while_a_member_is_zeroed),
		cmocka_unit_test(a_member_that_is_zeroed_stays_locked_beyond_the_array),
		cmocka_unit_test(a_member_that_was_replaced_is_let_go_last),
		cmocka_unit_test(a_member_that_was_replaced_and_is_back_stays),
		cmocka_unit_test(a_replacement_that_is_late_is_forgotten),
		cmocka_unit_test(an_add_that_is_late_is_withdrawn),
		cmocka_unit_test(a_table_that_leaves_a_member_out_is_judged),
		cmocka_unit_test(a_table_of_unknown_devices_is_looked_at_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
