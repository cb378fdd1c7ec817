// SPDX-License-Identifier: GPL-2.0-or-later
/* The memory of ranges that a daemon's arrays share: what is prepared, and that no array waits for another one. */
#include "tests/unit/fixture.h"

#include <errno.h>

#include "daemon/job/job_int.h"

#define KIB	1024u
#define MOST	8u		/* prepared for all arrays */

static struct { unsigned int made; bool none; } play;

int __real_posix_memalign(void **p, size_t align, size_t size);
int __wrap_posix_memalign(void **p, size_t align, size_t size);

int __wrap_posix_memalign(void **p, size_t align, size_t size)
{
	play.made += !play.none;
	return play.none ? ENOMEM : __real_posix_memalign(p, align, size);
}

static struct ddr_job_stock *stock;

static int setup(void **state)
{
	(void)state;
	memset(&play, 0, sizeof(play));
	stock = NULL;
	return 0;
}

static void join(unsigned int arrays, size_t size)
{
	for (unsigned int i = 0; i < arrays; i++)
		assert_int_equal(ddr_job_stock_join(&stock, size), 0);
}

static void leave(unsigned int arrays)
{
	for (unsigned int i = 0; i < arrays; i++)
		ddr_job_stock_leave(&stock);
	assert_null(stock);
}

/* How many ranges start without an allocation. */
static unsigned int prepared(size_t size)
{
	struct ddr_job_memory *m[64];
	unsigned int n = 0;

	play.none = true;
	while (n < 64 && (m[n] = ddr_job_stock_take(stock, size))) {
		assert_true(m[n]->size >= size);
		for (unsigned int i = 0; i < n; i++)
			assert_ptr_not_equal(m[n], m[i]);
		n++;
	}
	play.none = false;
	for (unsigned int i = 0; i < n; i++)
		m[i]->used = false;
	return n;
}

/* Finding U8: each array had all of the memory that it might ever need. */
static void each_array_adds_to_what_is_prepared(void **state)
{
	(void)state;
	join(1, 64 * KIB);
	assert_int_equal(prepared(64 * KIB), DDR_JOB_PREPARED);
	join(1, 64 * KIB);
	assert_int_equal(prepared(64 * KIB), DDR_JOB_PREPARED + 1);
	join(62, 64 * KIB);
	assert_int_equal(prepared(64 * KIB), MOST);
	assert_int_equal(play.made, MOST);
	leave(64);
}

/* Ranges of each array find theirs, and little more than that is kept. */
static void large_buffers_serve_all_arrays(void **state)
{
	unsigned int n = 0;

	(void)state;
	join(3, 64 * KIB);
	join(1, 256 * KIB);
	assert_int_equal(prepared(256 * KIB), DDR_JOB_PREPARED + 3);
	assert_int_equal(prepared(64 * KIB), DDR_JOB_PREPARED + 3);
	join(1, 64 * KIB);
	assert_int_equal(prepared(256 * KIB), DDR_JOB_PREPARED + 3);
	assert_int_equal(prepared(64 * KIB), DDR_JOB_PREPARED + 4);
	n = play.made;
	assert_true(n <= 2 * (DDR_JOB_PREPARED + 4));
	leave(5);
}

/* The members of one array hang, and its ranges keep their memory: others get their own. */
static void no_array_waits_for_another(void **state)
{
	struct ddr_job_memory *m[20];
	unsigned int made;

	(void)state;
	join(2, 64 * KIB);
	made = play.made;
	for (unsigned int i = 0; i < 20; i++)
		assert_non_null(m[i] = ddr_job_stock_take(stock, 64 * KIB));
	assert_int_equal(play.made - made, 20 - (DDR_JOB_PREPARED + 1));
	join(1, 256 * KIB);			/* what is in use stays */
	for (unsigned int i = 0; i < 20; i++)
		assert_true(m[i]->used);
	assert_int_equal(prepared(256 * KIB), DDR_JOB_PREPARED + 2);
	leave(3);
}

static void without_memory_no_array_starts(void **state)
{
	(void)state;
	play.none = true;
	assert_int_equal(ddr_job_stock_join(&stock, 64 * KIB), -ENOMEM);
	assert_null(stock);
	play.none = false;
	join(1, 64 * KIB);
	play.none = true;
	assert_int_equal(ddr_job_stock_join(&stock, 256 * KIB), -ENOMEM);
	assert_int_equal(prepared(64 * KIB), DDR_JOB_PREPARED);
	leave(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(each_array_adds_to_what_is_prepared, setup),
		cmocka_unit_test_setup(large_buffers_serve_all_arrays, setup),
		cmocka_unit_test_setup(no_array_waits_for_another, setup),
		cmocka_unit_test_setup(without_memory_no_array_starts, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
