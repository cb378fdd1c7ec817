// SPDX-License-Identifier: GPL-2.0-or-later
/* Loading an array while a member hangs or stays locked. Its log and map, and what is read again: test-load-area.c. */
#include "tests/unit/load-rig.h"

static void all_members_are_loaded(void **state)
{
	(void)state;
	load();
	assert_true(rig.load->ok);
	assert_int_equal(rig.load->present, 7);
	assert_int_equal(rig.load->members->open, 7);
	assert_string_equal(rig.load->assembly.note, "");
	end();
}

/* Swap space, as mkswap makes it on a disk on which it finds nothing. */
static void make_swap(unsigned int m)
{
	static const uint8_t head[12] = { 1, 0, 0, 0, 100 };
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/ddtest%u", rig.dir, m);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, head, sizeof(head), 1024), sizeof(head));
	assert_int_equal(pwrite(fd, "SWAPSPACE2", 10, 4086), 10);
	close(fd);
}

/*
 * Finding S35: a table names a member to which another program has written. The array runs without it. A node that joins others is
 * refused, since the others have the member in sync, and starting another node would make them fail it.
 */
static void an_overwritten_member_is_left_out(void **state)
{
	(void)state;
	make_swap(1);
	rig.whole = true;
	load();
	expect_without(1);
	assert_non_null(strstr(rig.load->members->error[1], "holds a swap"));
	end();
	rig.whole = false;
	load();
	assert_false(rig.load->ok);
	assert_non_null(strstr(rig.load->error.text, "ddtest1 also holds a swap"));
	assert_non_null(strstr(rig.load->error.text, "ddraid fail fixture 1"));
	end();
}

/*
 * Finding S10: of a member's name of 87 characters 63 were left, so no command could open the device. Device-mapper allows 127. A
 * name that does not open the device is of no use either: then the kernel's name is used. Finding S42: a device that is not in sysfs
 * yet has its name from device-mapper.
 */
static void a_name_is_whole_and_opens_the_device(void **state)
{
	char name[128], whole[160];

	(void)state;
	memset(name, 'n', 119);
	name[119] = '\0';
	rig.dm_name = name;
	load();
	assert_true(rig.load->ok);
	for (unsigned int m = 0; m < MEMBERS; m++) {
		snprintf(whole, sizeof(whole), "/dev/mapper/%s.ddtest%u", name, m);
		assert_int_equal(strlen(whole), 12 + 127);
		assert_string_equal(rig.load->members->name[m], whole);
	}
	assert_int_equal(rig.asked_dm, 0);		/* sysfs answers without waiting */
	end();
	assert_true(ddr_device_dm_name(MAJOR, 1, whole, sizeof(whole)));
	rig.unshown = true;
	memset(whole, 0, sizeof(whole));
	assert_true(ddr_device_dm_name(MAJOR, 1, whole, sizeof(whole)));
	assert_string_equal(whole + 119, ".ddtest1");
	assert_int_equal(rig.asked_dm, 1);
	assert_false(ddr_device_dm_name(MAJOR + 1, 1, whole, sizeof(whole)));
	rig.unshown = false;
	rig.dm_name = "no-node";
	load();
	assert_true(rig.load->ok);
	assert_string_equal(rig.load->members->name[1], "/dev/ddtest1");
	end();
	rig.dm_name = "";
}

/* A member whose read hangs keeps this node's lock, and is not read again; when the read has ended the member is like any other. */
static void a_read_that_hangs(void **state)
{
	uint64_t begun = ddr_now_ms();

	(void)state;
	let_hang(0, 1u << 1);
	load();
	assert_in_range(ddr_now_ms() - begun, LIMIT_MS, 20 * LIMIT_MS);
	expect_without(1);
	end();
	load();
	expect_without(1);
	assert_int_equal(rig.hung[1], 1);
	end();
	let_hang(0, 0);
	for (unsigned int i = 0; i < 100; i++) {	/* the thread is not ours to wait for */
		load();
		if (rig.load->present == 7)
			break;
		expect_without(1);
		end();
	}
	assert_int_equal(rig.load->present, 7);
	end();
}

static void an_open_that_hangs(void **state)
{
	(void)state;
	let_hang(1u << 2, 0);
	load();
	expect_without(2);
	end();
	load();
	expect_without(2);
	assert_int_equal(rig.hung[2], 1);
	end();
}

/*
 * Daemon seed 265: whatever this process cannot do for lack of memory, threads or descriptors, no member counts as missing for it. The
 * load fails, says why, and that it may succeed later.
 */
static void a_failure_of_our_own_is_no_absence(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 8; i++) {
		rig.own_open = i == 0 ? 1u << 1 : 0;
		rig.own_look = i == 7 ? 1u << 1 : 0;
		rig.own_read = i == 1 ? 1u << 1 : 0;
		rig.own_node = i == 2;
		rig.own_state = i == 3;
		rig.own_area = i == 4 ? 7 : 0;
		rig.whole = i == 4;
		rig.own_scan = i == 5;
		let_hang(0, i == 5 ? 1u << 1 : 0);	/* it may be elsewhere */
		rig.own_read |= i == 6 ? 7 : 0;
		load();
		assert_false(rig.load->ok);
		assert_true(rig.load->error.own);
		end();
	}
	rig.own_look = 0;
	for (unsigned int i = 0; i < 100; i++) {	/* the thread that hung is not ours to wait for */
		load();
		if (rig.load->present == 7)
			break;
		end();
	}
	assert_true(rig.load->ok);
	assert_int_equal(rig.load->present, 7);
	end();
}

/*
 * Daemon seed 222: a log that this process could not read on one member may be the newest, from a write that did not reach the others.
 * The next write had the same sequence number, so two different blocks had it.
 */
static void a_log_of_the_others_is_not_enough(void **state)
{
	(void)state;
	rig.whole = true;
	rig.own_area = 1u << 1;			/* the member with the newest log */
	load();
	assert_false(rig.load->ok);
	assert_true(rig.load->error.own);
	end();
	rig.own_area = 0;
	rig.area_fails = 1u << 1;		/* the member fails: it is read no more */
	load();
	assert_true(rig.load->ok);
	assert_int_equal(rig.load->log[0].seq, SEQ);
	end();
}

/*
 * This process was stopped between two reads, and another node has changed the superblocks twice meanwhile: the member that was read
 * before that looked stale, and the start was refused. They are read again until all of it is of one moment.
 */
static void a_picture_of_two_moments_is_none(void **state)
{
	uint64_t generation = rig.sb.generation;

	(void)state;
	rig.moves = 3;
	load();
	assert_true(rig.load->ok);
	assert_int_equal(rig.moves, 0);
	assert_int_equal(rig.load->present, 7);
	assert_int_equal(rig.load->assembly.super.generation, generation + 6);
	assert_string_equal(rig.load->assembly.note, "");
	end();
}

/* It is opened, and then its superblock, or its lock, takes its time; meanwhile it becomes as large as the array needs. */
static void a_device_that_was_smaller_when_it_was_opened(void **state)
{
	(void)state;
	rig.small_then = 2;
	load();
	assert_true(rig.load->ok);
	assert_int_equal(rig.load->present, 7);
	end();
}

/* Not for ever; then nothing is known about the members. */
static void a_picture_that_never_stands_still(void **state)
{
	(void)state;
	rig.moves = 1000;
	load();
	assert_false(rig.load->ok);
	assert_true(rig.load->error.own);
	assert_non_null(strstr(rig.load->error.text, "another node changed the superblocks of array 'fixture' during each of 20 reads in a row"));
	assert_in_range(rig.moved, 20, 22);
	rig.moves = 0;
	end();
}

/* More than the parity covers. */
static void two_members_that_hang(void **state)
{
	(void)state;
	let_hang(1u << 2, 1u << 0);
	load();
	assert_false(rig.load->ok);
	assert_non_null(strstr(rig.load->error.text, "cannot start"));
	end();
}

static void see_waits(void *data)
{
	assert_false(rig.ended);
	ddr_load_waits(rig.load, data, 192);
}

/*
 * Finding S19: the process that holds the lock is reported during the wait, and as the reason afterwards; so is the fact that only
 * the lock left the member out.
 */
static void a_member_that_stays_locked_is_left_out(void **state)
{
	uint64_t begun = ddr_now_ms();
	char waits[192], who[64];
	qb_loop_timer_handle timer;

	(void)state;
	lock(0);
	snprintf(who, sizeof(who), "locked by test-load (pid %d)", (int)getpid());
	assert_int_equal(qb_loop_timer_add(rig.loop, QB_LOOP_HIGH, LIMIT_MS / 2 * QB_TIME_NS_IN_MSEC, waits, see_waits, &timer), 0);
	load();
	assert_in_range(ddr_now_ms() - begun, LIMIT_MS, 20 * LIMIT_MS);
	expect_without(0);
	assert_int_equal(rig.load->locked, 1);
	assert_non_null(strstr(waits, "ddtest0 is locked by"));
	assert_non_null(strstr(waits, who));
	assert_non_null(strstr(rig.load->members->error[0], who));
	ddr_load_waits(rig.load, waits, sizeof(waits));
	assert_string_equal(waits, "");
	end();
}

static void a_member_that_hangs_is_not_called_locked(void **state)
{
	(void)state;
	let_hang(1u << 2, 0);
	load();
	expect_without(2);
	assert_int_equal(rig.load->locked, 0);
	end();
}

/* ---- the usual node, locked by @usual_holder ------------------------------------------ */

/* Finding S19: a program that is no ddraidd is waited for, for the limit, and costs the array nothing. */
static void a_member_locked_by_another_program_is_left_out(void **state)
{
	uint64_t begun = ddr_now_ms();
	char waits[192];
	qb_loop_timer_handle timer;

	(void)state;
	rig.usual_locked = 1u << 1;
	rig.usual_other = true;
	assert_int_equal(qb_loop_timer_add(rig.loop, QB_LOOP_HIGH, LIMIT_MS / 2 * QB_TIME_NS_IN_MSEC, waits, see_waits, &timer), 0);
	load();
	assert_in_range(ddr_now_ms() - begun, LIMIT_MS, 20 * LIMIT_MS);
	assert_true(rig.load->ok);
	assert_int_equal(rig.load->present, 7);
	assert_int_equal(rig.load->locked, 0);
	assert_non_null(strstr(waits, "ddtest1 is locked by mkfs (pid 7)"));
	end();
}

/* Finding S19: during a restart of the daemon writers wait for it, so it waits for no program except its predecessor. */
static void a_takeover_does_not_wait_for_other_programs(void **state)
{
	uint64_t begun = ddr_now_ms();

	(void)state;
	rig.usual_locked = 7;
	rig.usual_other = rig.resumed = true;
	load();
	assert_true(ddr_now_ms() - begun < LIMIT_MS);
	assert_true(rig.load->ok);
	assert_int_equal(rig.load->present, 7);
	end();
}

static void a_predecessor_is_waited_for_by_the_usual_node(void **state)
{
	(void)state;
	rig.usual_locked = 1u << 1;
	rig.resumed = true;
	load();
	expect_without(1);
	assert_int_equal(rig.load->locked, 2);
	end();
}

/*
 * Finding S12: a newer generation was seen than the one on the disks. The array starts only if the operator has accepted exactly the
 * generation that is on the disks, and only after that has been recorded.
 */
static void an_older_generation_if_the_operator_says_so(void **state)
{
	const struct ddr_super *sb = &rig.sb;

	(void)state;
	remembered.generation = sb->generation + 3;
	memset(remembered.gen_id, 5, sizeof(remembered.gen_id));
	for (unsigned int i = 0; i < 4; i++) {
		lower_fails = i == 2 ? -EROFS : 0;
		lowered.generation = 0;
		if (i) {
			said.generation = sb->generation;
			memcpy(said.gen_id, sb->gen_id, sizeof(sb->gen_id));
			said.gen_id[3] ^= i == 1;		/* of another history */
		}
		load();
		assert_int_equal(rig.load->ok, i == 3);
		assert_int_equal(rig.load->behind, i == 3 ? remembered.generation : 0);
		assert_int_equal(lowered.generation, i < 2 ? 0 : sb->generation);
		if (i == 0)
			assert_non_null(strstr(rig.load->error.text, "--older"));
		end();
	}
	remembered.generation = said.generation = 0;
}

static void unlock_all(void *data)
{
	(void)data;
	assert_false(rig.ended);	/* longer than the limit */
	for (unsigned int m = 0; m < MEMBERS; m++)
		unlock(m);
}

/* An earlier process that has not ended at all is waited for. */
static void an_array_that_needs_locked_members_does_not_start(void **state)
{
	qb_loop_timer_handle timer;

	(void)state;
	lock(0);
	lock(1);
	assert_int_equal(qb_loop_timer_add(rig.loop, QB_LOOP_HIGH, 2ull * LIMIT_MS * QB_TIME_NS_IN_MSEC, NULL, unlock_all, &timer), 0);
	load();
	assert_true(rig.load->ok);
	assert_int_equal(rig.load->present, 7);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_members_are_loaded, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_overwritten_member_is_left_out, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_name_is_whole_and_opens_the_device, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_read_that_hangs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_failure_of_our_own_is_no_absence, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_log_of_the_others_is_not_enough, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_picture_of_two_moments_is_none, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_device_that_was_smaller_when_it_was_opened, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_picture_that_never_stands_still, set_up, tear_down),
		cmocka_unit_test_setup_teardown(two_members_that_hang, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_member_that_stays_locked_is_left_out, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_member_that_hangs_is_not_called_locked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_member_locked_by_another_program_is_left_out, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_takeover_does_not_wait_for_other_programs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_predecessor_is_waited_for_by_the_usual_node, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_older_generation_if_the_operator_says_so, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_array_that_needs_locked_members_does_not_start, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_open_that_hangs, set_up, tear_down),
	};

	alarm(120);	/* a load that waits for a hanging disk is to fail */
	return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
