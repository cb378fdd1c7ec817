// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the daemon does as the members of an array change: another table, devices that are
 * looked for, members that are let go while something of theirs is under way.
 */
#include "tests/unit/drive-fixture.h"

/* ---- another table --------------------------------------------------------------- */

#define SPARE	5u
#define PLACE	2u

static void asks_for_table(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)in;
	asks(out, DDR_OUT_TABLE, 0, 0);
	out->out[0].member = SPARE;
	out->out[0].index = PLACE;
	play.answer = NULL;
}

/* Five members and a spare, 8:10 to 8:15, of which the table names five. */
static struct ddr_array *begin_with_spare(void)
{
	struct ddr_array *a;

	a = begin_on(true, 10);
	play.super.members = play.members->n = SPARE + 1;
	for (uint32_t m = 0; m <= SPARE; m++) {
		play.super.member[m].role = m < SPARE ? (uint16_t)m : DDR_ROLE_NONE;
		play.members->major[m] = 8;
		play.members->minor[m] = 10 + m;
		play.members->open |= 1u << m;
		snprintf(play.members->name[m], sizeof(play.members->name[m]), "/dev/sd%c", 'a' + (int)m);
	}
	return a;
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
	assert_int_not_equal(play.last.type, DDR_IN_TABLE_DONE);	/* the new binding says it */
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

/* The spare stands in the table: the state machine hears of it in its place, and the node stays in the group. */
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

/* Finding S42: the array is served before its device is resumed; the table that was resumed is the one that it was bound to: nothing begins again. */
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

/* Finding S42: another table was the first that was resumed, as by hand. What the kernel was told is of the one before. */
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

static void prepares(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)in;
	asks(out, DDR_OUT_PREPARE, 0, 0);
	out->out[0].io = 9;
	out->out[0].members = 1u << PLACE;
	out->out[0].start = out->out[0].count = 100;
	play.answer = NULL;
}

/* The array is to grow, member PLACE hangs while it is zeroed, and is out of the array after some time. */
static void hangs_while_it_is_zeroed(struct ddr_array *a)
{
	play.answer = prepares;
	step(a);
	assert_non_null(a->grow.work[PLACE]);
	play.now = a->grow.due_ms;
	ddr_drive_grow_tick(a, ddr_now_ms());
	assert_int_equal(play.last.type, DDR_IN_PREPARED);
	assert_int_equal(play.last.failed_members, 1u << PLACE);
	play.super.member[PLACE].state = DDR_MEMBER_FAULTY;
}

static void zeroes_end(void)
{
	struct ddr_grow *g = play.grow[PLACE];

	play.grow[PLACE] = NULL;
	g->done(g->ctx, g);
}

/* Whoever serves the array next may have the other members at once. */
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

/* ---- devices that are looked for --------------------------------------------------- */

static void asks_to_seek(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)in;
	asks(out, DDR_OUT_SEEK, 0, 0);
	out->out[0].member = PLACE;
	play.answer = NULL;
}

/* Member PLACE is out, and sought. */
static struct ddr_array *begin_to_seek(void)
{
	struct ddr_array *a = begin_with_spare();

	for (uint32_t p = 0; p < SPARE; p++)
		a->bind.dev_major[p] = 8, a->bind.dev_minor[p] = 10 + p;
	memset(play.super.member[PLACE].uuid, 0x22, sizeof(play.super.member[PLACE].uuid));
	play.super.member[PLACE].state = DDR_MEMBER_FAULTY;
	play.sought = 1u << PLACE;
	play.replaced = play.let_go = play.found_freed = 0;
	play.answer = asks_to_seek;
	step(a);
	play.last = (struct ddr_input){ 0 };
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_non_null(play.finder);
	assert_int_equal(play.finder->want, 1u << PLACE);
	assert_memory_equal(play.finder->uuid[PLACE], play.super.member[PLACE].uuid, 16);
	return a;
}

/* The finder ends: it found the device 8:@minor, or the one that is open. */
static void found(unsigned int minor_number)
{
	struct ddr_finder *f = play.finder;

	play.finder = NULL;
	f->found = 1u << PLACE;
	f->same = minor_number == 10 + PLACE ? f->found : 0;
	f->dev[PLACE].rdev = makedev(8, minor_number);
	f->super[PLACE] = play.super;
	f->super[PLACE].this_member = PLACE;
	f->done(f->ctx, f);
}

/* ---- members whose disk was away ---------------------------------------------------- */

/* Member PLACE is in sync, its disk is open by descriptor 40; ticks are 6 s apart. */
static struct ddr_array *begin_with_disks(void)
{
	struct ddr_array *a = begin_with_spare();

	a->ready = true;
	play.super.parity = 1;
	play.members->dev[PLACE].fd = 40;
	for (uint32_t m = 0; m < SPARE; m++)
		play.super.member[m].state = DDR_MEMBER_IN_SYNC;
	play.super.member[SPARE].state = DDR_MEMBER_SPARE;
	memset(play.super.member[PLACE].uuid, 0x22, sizeof(play.super.member[PLACE].uuid));
	play.last = (struct ddr_input){ 0 };
	return a;
}

static void tick(struct ddr_array *a)
{
	play.now += 6000;
	ddr_drive_seek_tick(a, play.now);
}

/* It looks for PLACE alone, and finds it: is it called back? */
static bool is_called_back(struct ddr_array *a)
{
	struct ddr_finder *f = play.finder;

	play.last = (struct ddr_input){ 0 };
	if (!f)
		return false;
	assert_int_equal(f->want, 1u << PLACE);
	play.finder = NULL;
	f->found = 1u << PLACE;
	memcpy(f->uuid[PLACE], play.super.member[PLACE].uuid, sizeof(f->uuid[PLACE]));
	f->dev[PLACE].rdev = makedev(8, 50);
	f->done(f->ctx, f);
	assert_true(play.last.type == DDR_IN_NONE || play.last.member == PLACE);
	(void)a;
	return play.last.type == DDR_IN_OP_SEEK;
}

/* Findings S5, S38: the array was started without PLACE, whose disk was late. When that comes the member is called back. */
static void a_member_that_was_late_comes_back(void **state)
{
	struct ddr_array *a = begin_with_disks();

	(void)state;
	a->back.away = 1u << PLACE;
	tick(a);
	assert_null(play.finder);			/* it is not out yet */
	play.super.member[PLACE].state = DDR_MEMBER_MISSING;
	tick(a);
	assert_true(is_called_back(a));
	tick(a);
	assert_null(play.finder);			/* once */
	end();
}

/* Finding S38: the disk was pulled, which the kernel says a little later, and is plugged in again; or the option says no. */
static void a_member_that_was_pulled_comes_back(void **state)
{
	struct ddr_array *a = begin_with_disks();

	(void)state;
	tick(a);
	play.super.member[PLACE].state = DDR_MEMBER_FAULTY;
	tick(a);
	assert_null(play.finder);
	play.gone = 1ull << 40;
	a->tune.take_back = 0;
	tick(a);
	assert_null(play.finder);
	a->tune.take_back = 1;
	tick(a);
	assert_true(is_called_back(a));
	end();
}

/* Finding S38: what has failed while its disk was there, or by the operator's word, or whose place another one has, stays out. */
static void who_was_there_all_the_time_stays_out(void **state)
{
	struct ddr_array *a = begin_with_disks();

	(void)state;
	tick(a);
	play.super.member[PLACE].state = DDR_MEMBER_FAULTY;
	for (unsigned int i = 0; i < 100; i++)
		tick(a);
	play.gone = 1ull << 40;				/* much later */
	for (unsigned int i = 0; i < 100; i++)
		tick(a);
	assert_null(play.finder);
	ddr_drive_path_is_back(&d, 8, 10 + PLACE);	/* but it is a multipath device, and has a path again */
	tick(a);
	assert_true(is_called_back(a));
	play.super.member[PLACE].state = DDR_MEMBER_IN_SYNC;
	play.gone = 0;
	tick(a);
	assert_null(ddr_drive_fail_by_hand(a, PLACE));
	tick(a);
	play.super.member[PLACE].state = DDR_MEMBER_FAULTY;
	play.gone = 1ull << 40;
	tick(a);
	ddr_drive_path_is_back(&d, 8, 10 + PLACE);
	tick(a);
	assert_null(play.finder);
	end();
}

/* Findings S4, S38: this node's own look at the member failed it, since no path was left, and not the operator. */
static void who_was_failed_by_a_look_comes_back(void **state)
{
	struct ddr_array *a = begin_with_disks();

	(void)state;
	tick(a);
	ddr_drive_check(a, 1u << PLACE);
	ddr_drive_checked(a, 1u << PLACE);
	assert_int_equal(play.last.type, DDR_IN_OP_FAIL_MEMBER);
	play.super.member[PLACE].state = DDR_MEMBER_FAULTY;
	tick(a);
	assert_null(play.finder);
	ddr_drive_path_is_back(&d, 8, 10 + PLACE);
	tick(a);
	assert_true(is_called_back(a));
	end();
}

/* Finding S38: a disk that goes again and again does not come back for ever. */
static void who_goes_again_and_again_stays_out(void **state)
{
	struct ddr_array *a = begin_with_disks();
	unsigned int times = 0;

	(void)state;
	for (unsigned int i = 0; i < 5; i++) {
		play.super.member[PLACE].state = DDR_MEMBER_IN_SYNC;
		play.gone = 0;
		tick(a);
		play.super.member[PLACE].state = DDR_MEMBER_FAULTY;
		play.gone = 1ull << 40;
		tick(a);
		tick(a);
		times += is_called_back(a);
	}
	assert_int_equal(times, 3);
	end();
}

static void a_device_that_was_found_is_told(void **state)
{
	struct ddr_array *a = begin_to_seek();

	(void)state;
	memset(play.super.gen_id, 7, sizeof(play.super.gen_id));
	memset(play.super.member[PLACE].last_gen, 7, DDR_LAST_GEN_LEN);
	found(50);
	assert_int_equal(play.last.type, DDR_IN_PRESENT);
	assert_int_equal(play.last.member, PLACE);
	assert_int_equal(play.last.value, DDR_PRESENT_LAST);	/* the table names another one */
	assert_int_equal(play.replaced, 1u << PLACE);
	assert_int_equal(play.found_freed, 1);
	play.busy = true;
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.members->n_old, 1);		/* a request may use it still */
	play.busy = false;
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.members->n_old, 0);
	assert_null(play.finder);				/* it is not looked for any more */
	end();
}

/* Finding S19: the array was started without PLACE, for its disk was locked: when that is out it is called back, once, and not before. */
static void a_member_that_was_locked_is_called_back(void **state)
{
	struct ddr_array *a = begin_with_spare();

	(void)state;
	a->ready = true;
	a->seek.locked = 1u << PLACE;
	play.super.member[PLACE].state = DDR_MEMBER_IN_SYNC;
	play.super.member[PLACE + 1].state = DDR_MEMBER_FAULTY;		/* and this one has failed */
	play.last = (struct ddr_input){ 0 };
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.last.type, DDR_IN_NONE);
	play.super.member[PLACE].state = DDR_MEMBER_MISSING;
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.last.type, DDR_IN_OP_SEEK);
	assert_int_equal(play.last.member, PLACE);
	play.last = (struct ddr_input){ 0 };
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.last.type, DDR_IN_NONE);
	end();
}

static void the_device_that_is_open_is_not_opened_anew(void **state)
{
	(void)state;
	begin_to_seek();
	memset(play.super.member[PLACE].last_gen, 9, DDR_LAST_GEN_LEN);
	found(10 + PLACE);
	assert_int_equal(play.last.type, DDR_IN_PRESENT);
	assert_int_equal(play.last.value, DDR_PRESENT_TABLE);	/* and its superblock is an older one */
	assert_int_equal(play.replaced, 0);
	end();
}

/* A write that it did not answer in time may still be carried out, then over what a rebuild has written: it comes back when all have ended. */
static void a_member_comes_back_when_its_old_requests_have_ended(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		struct ddr_array *a = begin_to_seek();

		/* what others are asked does not count: that never ends */
		play.meta_asked = (i == 0 ? 1u << PLACE : 0) | 1u << (PLACE + 1);
		play.jobs_asked = (i == 1 ? 1u << PLACE : 0) | 1u << (PLACE - 1);
		if (i == 2)
			hangs_while_it_is_zeroed(a);
		play.last = (struct ddr_input){ 0 };
		found(10 + PLACE);
		assert_int_not_equal(play.last.type, DDR_IN_PRESENT);
		play.meta_asked &= ~(1u << PLACE);
		play.jobs_asked &= ~(1u << PLACE);
		if (i == 2)
			zeroes_end();
		play.now = a->seek.at_ms;	/* it is looked for again */
		ddr_drive_seek_tick(a, ddr_now_ms());
		assert_non_null(play.finder);
		found(10 + PLACE);
		assert_int_equal(play.last.type, DDR_IN_PRESENT);
		assert_int_equal(play.last.member, PLACE);
		end();
	}
}

/* While it was looked for the member was removed, or came in; while members are read nothing is exchanged. */
static void what_is_found_too_late_or_too_early(void **state)
{
	struct ddr_array *a = begin_to_seek();

	(void)state;
	play.super.member[PLACE].uuid[0]++;
	found(50);
	assert_int_not_equal(play.last.type, DDR_IN_PRESENT);
	assert_int_equal(play.replaced, 0);
	end();

	a = begin_to_seek();
	play.sought = 0;
	found(50);
	assert_int_not_equal(play.last.type, DDR_IN_PRESENT);
	end();

	a = begin_to_seek();
	a->cluster.reload[0] = (struct ddr_reload *)&play;
	found(50);
	assert_int_not_equal(play.last.type, DDR_IN_PRESENT);
	a->cluster.reload[0] = NULL;
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.last.type, DDR_IN_PRESENT);
	end();
}

/* The finder ends, and found nothing; or, @hung: a disk hung. */
static void nothing_found(bool hung)
{
	struct ddr_finder *f = play.finder;

	play.finder = NULL;
	f->hung = hung;
	f->done(f->ctx, f);
}

/* The array goes while it is looked for devices: the search ends by itself. */
static void end_looking(void)
{
	struct ddr_finder *f = play.finder;

	end();
	assert_null(f->ctx);
	f->done(f->ctx, f);
	play.finder = NULL;
}

/* It is not there: it is looked for again when the kernel has a new device, and not before. */
static void a_device_that_is_not_there_is_waited_for(void **state)
{
	struct ddr_array *a = begin_to_seek();

	(void)state;
	nothing_found(false);
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_null(play.finder);
	a->seek.at_ms = ddr_now_ms();
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_non_null(play.finder);
	end_looking();
}

static bool is_left_out(const struct ddr_finder *f, unsigned int minor_number)
{
	for (size_t i = 0; i < f->n_leave_out; i++)
		if (f->leave_out[i] == makedev(8, minor_number))
			return true;
	return false;
}

/* Ends the finder, and has the next one begin. */
static struct ddr_finder *look_once_more(struct ddr_array *a)
{
	nothing_found(false);
	a->seek.at_ms = ddr_now_ms();
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_non_null(play.finder);
	return play.finder;
}

/* A member that hangs holds up nobody who looks for another one: what is open as a member is not opened. What is looked for, or let go, is. */
static void members_that_are_open_are_left_out(void **state)
{
	struct ddr_array *a = begin_to_seek(), other = { .d = a->d };
	struct ddr_members others = { .open = 1u << 1 };
	struct ddr_finder *f;

	(void)state;
	assert_int_equal(play.finder->limit_ms, a->tune.io_timeout_ms);
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		a->members->dev[m].rdev = makedev(8, 10 + m);
	others.dev[1].rdev = makedev(8, 91);
	others.dev[2].rdev = makedev(8, 92);
	other.members = &others;
	other.seek.at_ms = UINT64_MAX;
	qb_list_add_tail(&other.list, &d.arrays);
	f = look_once_more(a);
	for (unsigned int m = 0; m < SPARE; m++)
		assert_int_equal(is_left_out(f, 10 + m), m != PLACE && (a->members->open & (1u << m)));
	assert_true(is_left_out(f, 10 + (PLACE ? 0 : 1)));
	assert_true(is_left_out(f, 91));
	assert_false(is_left_out(f, 92));
	other.seek.dropped = 1u << 1;
	f = look_once_more(a);
	assert_false(is_left_out(f, 91));
	other.seek.dropped = 0;
	other.seek.replaced = 1u << 1;
	f = look_once_more(a);
	assert_false(is_left_out(f, 91));
	qb_list_del(&other.list);
	end_looking();
}

/* What was left out may be what is looked for, once it is free. */
static void what_is_free_is_looked_at(void **state)
{
	struct ddr_array *a = begin_to_seek();

	(void)state;
	nothing_found(false);
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_null(play.finder);
	a->seek.dropped = 1u << SPARE;
	ddr_drive_seek_tick(a, ddr_now_ms() + 1000);
	assert_non_null(play.finder);
	end_looking();
}

/* A disk that hangs may be the one: it is looked at again, but not all the time. */
static void after_a_disk_that_hangs_it_is_looked_again(void **state)
{
	struct ddr_array *a = begin_to_seek();

	(void)state;
	nothing_found(true);
	ddr_drive_seek_tick(a, ddr_now_ms() + a->tune.io_timeout_ms / 2);
	assert_null(play.finder);
	ddr_drive_seek_tick(a, ddr_now_ms() + a->tune.io_timeout_ms + 1000);
	assert_non_null(play.finder);
	end_looking();
}

static void removes(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)in;
	asks(out, DDR_OUT_EVENT, 0, 0);
	out->out[0].event = DDR_EV_MEMBER_REMOVED;
	out->out[0].member = PLACE;
	play.answer = NULL;
}

/* The kernel's table names it no more, and this process lets it go: it may be used for anything. */
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

/* Its descriptor is what the zeroes go to: were it closed, they would go to whatever file has the number next. */
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

/* Another disk has the number of one that is let go late: it comes when that has gone, and is not let go in its stead. */
static void what_has_the_number_of_one_that_is_let_go_late_comes_after_it(void **state)
{
	struct ddr_array *a = begin_to_seek();

	(void)state;
	hangs_while_it_is_zeroed(a);
	play.answer = removes;
	step(a);
	zeroes_end();
	play.last = (struct ddr_input){ 0 };
	found(50);			/* between two ticks */
	assert_int_not_equal(play.last.type, DDR_IN_PRESENT);
	assert_int_equal(play.replaced, 0);
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.let_go, 1u << PLACE);
	play.now = a->seek.at_ms;
	ddr_drive_seek_tick(a, ddr_now_ms());
	found(50);
	assert_int_equal(play.last.type, DDR_IN_PRESENT);
	assert_int_equal(play.replaced, 1u << PLACE);
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.members->minor[PLACE], 50);
	end();
}

/* The finder saw that this node has the device, which was let go before it said so: it is looked for again, and opened. */
static void a_device_that_was_let_go_meanwhile_is_not_there(void **state)
{
	struct ddr_array *a = begin_to_seek();

	(void)state;
	play.answer = removes;
	step(a);
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_int_equal(play.let_go, 1u << PLACE);
	play.last = (struct ddr_input){ 0 };
	found(10 + PLACE);
	assert_int_not_equal(play.last.type, DDR_IN_PRESENT);
	assert_true(a->seek.wanted >> PLACE & 1);
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

/* Others write the old disk still, and our table names it: it has its name, and stays open, until neither is so. */
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

/* It came back as a spare before: this node needs it. */
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
	if (in->type == DDR_IN_OP_REPLACE)
		forgotten = *in;
}

/* Whoever waits may be told from within a step: the state machine hears of it at the next tick. */
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

/* A table without a member that works: whoever made it leaves the member out, so the array is loaded anew, and judged. */
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

/* What no disk has taken is no state of the array: the next start would miss the members that have it. */
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

/* Note 8: by a node that is not the writer as well, since nobody knows who starts first after all have gone. */
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
 * Findings S15, P8: an array whose device was renamed (dmsetup rename) could not be found. By its own name, its uuid and the name of its device; of two with
 * one name it is the one whose device has it, or none.
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
		cmocka_unit_test(a_table_outlives_its_array),
		cmocka_unit_test(a_table_of_known_devices_is_taken_in_place),
		cmocka_unit_test(an_array_is_served_before_its_device_is_there),
		cmocka_unit_test(another_table_is_resumed_first),
		cmocka_unit_test(an_old_device_is_not_the_member),
		cmocka_unit_test(what_no_job_reads_is_closed),
		cmocka_unit_test(a_device_that_was_found_is_told),
		cmocka_unit_test(a_member_that_was_locked_is_called_back),
		cmocka_unit_test(a_member_that_was_late_comes_back),
		cmocka_unit_test(a_member_that_was_pulled_comes_back),
		cmocka_unit_test(who_was_there_all_the_time_stays_out),
		cmocka_unit_test(who_was_failed_by_a_look_comes_back),
		cmocka_unit_test(who_goes_again_and_again_stays_out),
		cmocka_unit_test(the_device_that_is_open_is_not_opened_anew),
		cmocka_unit_test(what_is_found_too_late_or_too_early),
		cmocka_unit_test(a_device_that_is_not_there_is_waited_for),
		cmocka_unit_test(a_member_comes_back_when_its_old_requests_have_ended),
		cmocka_unit_test(members_that_are_open_are_left_out),
		cmocka_unit_test(what_is_free_is_looked_at),
		cmocka_unit_test(after_a_disk_that_hangs_it_is_looked_again),
		cmocka_unit_test(a_member_that_was_removed_is_let_go),
		cmocka_unit_test(a_member_that_is_zeroed_is_let_go_when_that_has_ended),
		cmocka_unit_test(nothing_is_closed_while_a_member_is_zeroed),
		cmocka_unit_test(a_member_that_is_zeroed_stays_locked_beyond_the_array),
		cmocka_unit_test(what_has_the_number_of_one_that_is_let_go_late_comes_after_it),
		cmocka_unit_test(a_device_that_was_let_go_meanwhile_is_not_there),
		cmocka_unit_test(a_member_that_was_replaced_is_let_go_last),
		cmocka_unit_test(a_member_that_was_replaced_and_is_back_stays),
		cmocka_unit_test(a_replacement_that_is_late_is_forgotten),
		cmocka_unit_test(a_table_that_leaves_a_member_out_is_judged),
		cmocka_unit_test(a_table_of_unknown_devices_is_looked_at_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
