// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a node remembers of an array (daemon/disk/state.c): the last generation is in the file, and a thread runs only if it is not.
 * Threads are simulated: they run when the test says so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <uuid/uuid.h>

#include "daemon/disk/state.h"
#include "lib/disk/format.h"

static struct {
	unsigned int begun;		/* threads */
	bool later;			/* the next one runs by run_now() */
	int refuse;			/* an errno */
	void *(*fn)(void *);
	void *arg;
} play;

static char top[64], dir[80], away[80];

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	(void)thread, (void)attr;
	if (play.refuse)
		return play.refuse;
	play.begun++;
	if (play.later) {
		assert_null(play.fn);
		play.fn = fn;
		play.arg = arg;
	} else {
		assert_null(fn(arg));
	}
	return 0;
}

static void run_now(void)
{
	assert_non_null(play.fn);
	assert_null(play.fn(play.arg));
	play.fn = NULL;
	play.later = false;
}

/* The number of threads that begin when array @array is seen at generation @generation of history @id. */
static unsigned int seen(uint8_t array, uint64_t generation, uint8_t id)
{
	uint8_t uuid[16] = { array }, gen_id[16] = { id };
	unsigned int before = play.begun;

	ddr_state_seen(dir, uuid, generation, gen_id);
	return play.begun - before;
}

static void file_of(uint8_t array, char path[160])
{
	uint8_t uuid[16] = { array };
	char text[37];

	uuid_unparse_lower(uuid, text);
	snprintf(path, 160, "%s/%s.generation", dir, text);
}

/* By its text, not by the loader. */
static void assert_file(uint8_t array, uint64_t generation, uint8_t id)
{
	uint8_t gen_id[16] = { id };
	char path[160], want[96], have[96] = "", text[37];
	FILE *f;

	file_of(array, path);
	uuid_unparse_lower(gen_id, text);
	snprintf(want, sizeof(want), "%llu %s\n", (unsigned long long)generation, text);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_non_null(fgets(have, sizeof(have), f));
	fclose(f);
	assert_string_equal(have, want);
}

static int begin(void **state)
{
	(void)state;
	memset(&play, 0, sizeof(play));
	snprintf(top, sizeof(top), "/tmp/ddraid-state-XXXXXX");
	assert_non_null(mkdtemp(top));
	snprintf(dir, sizeof(dir), "%s/in", top);
	snprintf(away, sizeof(away), "%s-away", top);
	return 0;
}

static int end(void **state)
{
	char path[160];

	(void)state;
	for (unsigned int array = 0; array < 256; array++) {
		file_of((uint8_t)array, path);
		unlink(path);
	}
	rmdir(dir);
	return rmdir(top) && errno != ENOENT;
}

/* ---- the tests ------------------------------------------------------------------- */

static void a_known_generation_is_not_written_again(void **state)
{
	(void)state;
	assert_int_equal(seen(1, 5, 1), 1);
	assert_file(1, 5, 1);
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(seen(1, 5, 1), 0);
	assert_int_equal(seen(1, 6, 1), 1);
	assert_file(1, 6, 1);
	assert_int_equal(seen(1, 6, 2), 1);		/* another history */
	assert_file(1, 6, 2);
	assert_int_equal(seen(2, 6, 2), 1);		/* another array */
	assert_file(2, 6, 2);
	assert_int_equal(seen(1, 0, 3), 0);		/* nothing */
	assert_int_equal(seen(1, 6, 2), 0);
}

static void a_later_generation_in_the_file_stays(void **state)
{
	(void)state;
	assert_int_equal(seen(1, 9, 1), 1);
	seen(1, 8, 1);
	assert_file(1, 9, 1);
	seen(1, 9, 1);
	assert_file(1, 9, 1);
	seen(1, 10, 1);
	assert_file(1, 10, 1);
}

/* Finding S12: the operator starts the array from older superblocks: from then on these count, and their successors. */
static void an_older_generation_counts_with_older(void **state)
{
	const uint8_t uuid[16] = { 1 };
	struct ddr_known known = { .generation = 5, .gen_id = { 3 } };

	(void)state;
	seen(1, 9, 1);
	assert_int_equal(ddr_state_lower(dir, uuid, &known), 0);
	assert_file(1, 5, 3);
	assert_int_equal(seen(1, 5, 3), 0);
	assert_int_equal(seen(1, 10, 4), 1);
	assert_file(1, 10, 4);
	assert_true(ddr_state_lower("/dev/null/none", uuid, &known) < 0);
}

/* A file system that hangs, maybe on the array itself, gets no more threads by that. */
static void a_queued_generation_is_not_written_twice(void **state)
{
	(void)state;
	play.later = true;
	assert_int_equal(seen(1, 5, 1), 1);
	for (unsigned int i = 0; i < 100; i++)
		assert_int_equal(seen(1, 5, 1), 0);
	run_now();
	assert_file(1, 5, 1);
	assert_int_equal(seen(1, 5, 1), 0);
}

static void a_failed_write_of_the_file_is_retried(void **state)
{
	(void)state;
	play.refuse = EAGAIN;
	assert_int_equal(seen(1, 5, 1), 0);
	play.refuse = 0;
	assert_int_equal(rmdir(top), 0);		/* the directory cannot be made */
	assert_int_equal(seen(1, 5, 1), 1);
	assert_int_equal(seen(1, 5, 1), 1);
	assert_int_equal(mkdir(top, 0700), 0);
	assert_int_equal(seen(1, 5, 1), 1);
	assert_file(1, 5, 1);
	assert_int_equal(seen(1, 5, 1), 0);
}

/* That an older generation could not be written has no effect on the next one. */
static void a_failure_of_an_older_write_does_not_undo_a_newer_one(void **state)
{
	(void)state;
	assert_int_equal(rmdir(top), 0);
	play.later = true;
	assert_int_equal(seen(1, 5, 1), 1);
	play.later = false;
	assert_int_equal(mkdir(top, 0700), 0);
	assert_int_equal(seen(1, 6, 1), 1);
	assert_file(1, 6, 1);
	assert_int_equal(rename(dir, away), 0);
	assert_int_equal(rmdir(top), 0);
	run_now();
	assert_int_equal(mkdir(top, 0700), 0);
	assert_int_equal(rename(away, dir), 0);
	assert_int_equal(seen(1, 6, 1), 0);
}

/* The operator removed the file: an array that is loaded again does not find it, and writes it. */
static void a_removed_file_is_written_at_the_next_start(void **state)
{
	uint8_t uuid[16] = { 1 };
	struct ddr_known known;
	char path[160];

	(void)state;
	seen(1, 5, 1);
	file_of(1, path);
	assert_int_equal(unlink(path), 0);
	ddr_state_load(dir, uuid, &known);
	assert_int_equal(known.generation, 0);
	assert_int_equal(seen(1, 5, 1), 1);
	assert_file(1, 5, 1);
	ddr_state_load(dir, uuid, &known);
	assert_int_equal(known.generation, 5);
	assert_int_equal(known.gen_id[0], 1);
	assert_int_equal(seen(1, 5, 1), 0);
}

/*
 * Finding U9: a generation that no array can be at is damage, and is not remembered. With --older an array continues after the
 * remembered generation, and after this one there is none.
 */
static void a_number_that_nothing_can_follow_is_damage(void **state)
{
	static const char *const numbers[] = { "9223372036854775807", "9223372036854775808", "18446744073709551615", "99999999999999999999" };
	uint8_t uuid[16] = { 1 };
	struct ddr_known known;
	char path[160];

	(void)state;
	seen(1, 5, 1);
	for (unsigned int i = 0; i < 4; i++) {
		FILE *f;

		file_of(1, path);
		f = fopen(path, "w");
		assert_non_null(f);
		fprintf(f, "%s 01000000-0000-0000-0000-000000000000\n", numbers[i]);
		fclose(f);
		ddr_state_load(dir, uuid, &known);
		assert_true(known.generation == 0);
		unlink(path);
	}
	seen(1, DDR_GENERATION_START - 1, 1);
	ddr_state_load(dir, uuid, &known);
	assert_true(known.generation == DDR_GENERATION_START - 1);
}

/* More than it can have in mind: each is written, if more often than it has to be. */
static void many_arrays_are_all_remembered(void **state)
{
	(void)state;
	for (unsigned int round = 0; round < 2; round++)
		for (unsigned int array = 0; array < 200; array++) {
			seen((uint8_t)array, 5 + round, 1);
			assert_file((uint8_t)array, 5 + round, 1);
			assert_int_equal(seen((uint8_t)array, 5 + round, 1), 0);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_known_generation_is_not_written_again, begin, end),
		cmocka_unit_test_setup_teardown(a_later_generation_in_the_file_stays, begin, end), cmocka_unit_test_setup_teardown(an_older_generation_counts_with_older, begin, end),
		cmocka_unit_test_setup_teardown(a_queued_generation_is_not_written_twice, begin, end),
		cmocka_unit_test_setup_teardown(a_failed_write_of_the_file_is_retried, begin, end),
		cmocka_unit_test_setup_teardown(a_failure_of_an_older_write_does_not_undo_a_newer_one, begin, end),
		cmocka_unit_test_setup_teardown(a_removed_file_is_written_at_the_next_start, begin, end),
		cmocka_unit_test_setup_teardown(a_number_that_nothing_can_follow_is_damage, begin, end),
		cmocka_unit_test_setup_teardown(many_arrays_are_all_remembered, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
