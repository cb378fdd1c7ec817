// SPDX-License-Identifier: GPL-2.0-or-later
/* The daemon's search for devices: of members whose disk was away, and of devices that another node asks for. */
#include "tests/unit/drive-spare.h"

static void asks_to_seek(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)in;
	asks(out, DDR_OUT_SEEK, 0, 0);
	out->out[0].member = PLACE;
	play.answer = NULL;
}

/* Member PLACE has failed, and its device is searched for. */
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

/* Findings S5, S38: the array was started without PLACE, whose disk was late. When the disk appears, the member is called back. */
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

/* Finding S38: the disk was pulled, which the kernel reports a little later, and is plugged in again; or the option forbids a return. */
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

/* Finding S38: a member stays failed if its disk was present when it failed, if an operator failed it, or if it has been replaced. */
static void a_failed_member_that_never_left_is_not_taken_back(void **state)
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
static void a_member_failed_by_a_check_is_taken_back(void **state)
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

/* Finding S38: a disk that disappears again and again is not called back forever. */
static void a_member_that_fails_repeatedly_is_not_taken_back(void **state)
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

/* Writes to a member must not have to allocate: without memory for its superblocks it does not get its device yet. */
static void a_device_for_which_there_is_no_memory_waits(void **state)
{
	struct ddr_array *a = begin_to_seek();

	(void)state;
	play.prepare_fails = true;
	found(50);
	assert_int_equal(play.last.type, DDR_IN_NONE);
	assert_int_equal(play.replaced, 0);
	play.prepare_fails = false;
	tick(a);
	assert_non_null(play.finder);
	found(50);
	assert_int_equal(play.last.type, DDR_IN_PRESENT);
	assert_int_equal(play.replaced, 1u << PLACE);
	end();
}

/* Finding S19: PLACE was left out of the start because its disk was locked. It is failed, then called back, once. */
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

/* A late write may still overwrite what a rebuild has written: the member comes back when all late writes have ended. */
static void a_member_comes_back_when_its_old_requests_have_ended(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		struct ddr_array *a = begin_to_seek();

		/* I/O on other members does not count: that never ends */
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

/* During the search the member was removed, or came in; and while the members are read, nothing is exchanged. */
static void a_device_found_at_the_wrong_time_is_not_used(void **state)
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

/* The array is closed during a search for devices: the search ends by itself. */
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

/* Ends the search, and lets the next one begin. */
static struct ddr_finder *look_once_more(struct ddr_array *a)
{
	nothing_found(false);
	a->seek.at_ms = ddr_now_ms();
	ddr_drive_seek_tick(a, ddr_now_ms());
	assert_non_null(play.finder);
	return play.finder;
}

/* A device that is open as a member is not opened again, since it may hang, unless its member is searched for or is to be released. */
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

/* A device that was left out may be the one that is searched for, once it is free. */
static void a_device_left_out_earlier_is_searched_once_it_is_free(void **state)
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

/* A disk with the device number of a member that is released late is opened after that release, and is not released itself. */
static void a_reused_device_number_waits_for_the_old_member_to_be_closed(void **state)
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

/* The search found a device that this node had, and released before that result arrived: it is searched for again, and opened. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_member_that_was_late_comes_back),
		cmocka_unit_test(a_member_that_was_pulled_comes_back),
		cmocka_unit_test(a_failed_member_that_never_left_is_not_taken_back),
		cmocka_unit_test(a_member_failed_by_a_check_is_taken_back),
		cmocka_unit_test(a_member_that_fails_repeatedly_is_not_taken_back),
		cmocka_unit_test(a_device_that_was_found_is_told),
		cmocka_unit_test(a_device_for_which_there_is_no_memory_waits),
		cmocka_unit_test(a_member_that_was_locked_is_called_back),
		cmocka_unit_test(the_device_that_is_open_is_not_opened_anew),
		cmocka_unit_test(a_member_comes_back_when_its_old_requests_have_ended),
		cmocka_unit_test(a_device_found_at_the_wrong_time_is_not_used),
		cmocka_unit_test(a_device_that_is_not_there_is_waited_for),
		cmocka_unit_test(members_that_are_open_are_left_out),
		cmocka_unit_test(a_device_left_out_earlier_is_searched_once_it_is_free),
		cmocka_unit_test(after_a_disk_that_hangs_it_is_looked_again),
		cmocka_unit_test(a_reused_device_number_waits_for_the_old_member_to_be_closed),
		cmocka_unit_test(a_device_that_was_let_go_meanwhile_is_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
