// SPDX-License-Identifier: GPL-2.0-or-later
/* Members that hang: each one that may be in use is watched, and reported by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/disk/stall.h"

#define TIMEOUT_MS	10000u
#define MINOR		40u		/* of member 0's device; the other members follow */

static unsigned int hanging;		/* the member that ends nothing */
static uint32_t failed;
static unsigned int told;

/* ---- what stall.c uses ----------------------------------------------------------- */

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);

/* The counters of a device: nothing ends any more, and one request is under way where it hangs. */
FILE *__wrap_fopen(const char *path, const char *mode)
{
	static char idle[] = "7 0 0 0 0 0 0 0 0 0 0", hangs[] = "7 0 0 0 0 0 0 0 1 0 0";
	unsigned int minor;

	if (sscanf(path, "/sys/dev/block/8:%u/stat", &minor) != 1)
		return __real_fopen(path, mode);
	assert_true(minor >= MINOR && minor < MINOR + DDR_MAX_MEMBERS);
	return fmemopen(minor - MINOR == hanging ? hangs : idle, sizeof(idle) - 1, "r");
}

static uint32_t watched(void *ctx)
{
	(void)ctx;
	return UINT32_MAX;
}

static uint32_t stamping;		/* members that owe this process an answer */
static uint64_t answers;		/* of each of them until now */

static bool asked(void *ctx, unsigned int m, uint64_t *ended)
{
	(void)ctx;
	*ended = answers;
	return stamping >> m & 1;
}

static void hangs(void *ctx, unsigned int m, uint64_t ms)
{
	(void)ctx;
	assert_in_range(ms, TIMEOUT_MS, TIMEOUT_MS + 2000);
	failed |= 1u << m;
	told++;
}

static void hung(void *ctx, unsigned int m, uint64_t ms)
{
	(void)ctx, (void)m, (void)ms;
	told++;
}

/* ---- the tests -------------------------------------------------------------------- */

/* As many as the table of members holds, whatever the number of roles: the last ones came as spares. */
static void a_member_that_hangs_is_taken_out_in_time(void **state)
{
	struct { struct ddr_stall s; uint8_t behind[64]; } *w = calloc(1, sizeof(*w)), *before = malloc(sizeof(*w));
	struct ddr_members *members = calloc(1, sizeof(*members));

	(void)state;
	assert_true(w && before && members);
	members->n = DDR_MAX_MEMBERS;
	members->named = (1u << DDR_MAX_MEMBERS) - 1;
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++) {
		members->major[m] = 8;
		members->minor[m] = MINOR + m;
	}
	for (hanging = 0; hanging < DDR_MAX_MEMBERS; hanging++) {
		memset(w->behind, 0x5a, sizeof(w->behind));	/* what lies after the notes on members */
		w->s = (struct ddr_stall){ .watched = watched, .asked = asked, .hangs = hangs, .members = members };
		memcpy(before, w, sizeof(*w));
		failed = told = 0;
		for (uint64_t ms = 0; ms < TIMEOUT_MS; ms += 1000)
			ddr_stall_tick(&w->s, 100000 + ms, TIMEOUT_MS);
		assert_int_equal(failed, 0);
		for (uint64_t ms = 0; ms < 5000; ms += 1000)
			ddr_stall_tick(&w->s, 100000 + TIMEOUT_MS + ms, TIMEOUT_MS);
		assert_int_equal(failed, 1u << hanging);
		assert_int_equal(told, 1);
		assert_memory_equal(w->behind, before->behind, sizeof(w->behind));
	}
	free(members);
	free(before);
	free(w);
}

/* Members that do nothing are looked at less often. What begins between two looks has all of the time limit nevertheless. */
static void a_request_begun_after_a_check_has_all_of_io_timeout(void **state)
{
	struct ddr_members *members = calloc(1, sizeof(*members));
	struct ddr_stall s;

	(void)state;
	assert_non_null(members);
	members->n = 1;
	members->named = 1;
	members->major[0] = 8;
	members->minor[0] = MINOR;
	for (uint64_t limit = TIMEOUT_MS; limit <= 12 * TIMEOUT_MS; limit += TIMEOUT_MS)
		for (uint64_t begins = 20500; begins < 30500; begins += 1000) {
			uint64_t ms = 0, rest = limit / 6 < 10000 ? limit / 6 : 10000;

			s = (struct ddr_stall){ .watched = watched, .asked = asked, .hangs = hung, .members = members };
			for (hanging = DDR_MAX_MEMBERS, told = 0; !told; ms += 1000) {
				hanging = ms < begins ? DDR_MAX_MEMBERS : 0;
				ddr_stall_tick(&s, 100000 + ms, limit);
			}
			assert_in_range(ms - 1000, begins + limit, begins + limit + rest + 2000);
		}
	free(members);
}

/* A suspended device-mapper device counts nothing; a stamp on it does not end. */
static void a_device_that_counts_nothing_hangs_with_a_stamp(void **state)
{
	struct ddr_members *members = calloc(1, sizeof(*members));
	struct ddr_stall s = { .watched = watched, .asked = asked, .hangs = hangs, .members = members };

	(void)state;
	assert_non_null(members);
	members->n = 2;
	members->named = 3;
	members->major[0] = members->major[1] = 8;
	members->minor[0] = MINOR;
	members->minor[1] = MINOR + 1;
	hanging = DDR_MAX_MEMBERS;
	failed = told = 0;
	for (uint64_t ms = 0; ms < 3 * TIMEOUT_MS; ms += 1000)
		ddr_stall_tick(&s, 100000 + ms, TIMEOUT_MS);
	stamping = 2;
	for (uint64_t ms = 0; ms < 3 * TIMEOUT_MS; ms += 1000) {
		ddr_stall_tick(&s, 200000 + ms, TIMEOUT_MS);
		assert_int_equal(failed, ms < TIMEOUT_MS ? 0 : 2);
	}
	assert_int_equal(told, 1);
	stamping = 0;
	free(members);
}

/* The counters of a device can be switched off (iostats=0). Its stamps are slow, so that one is under way at each look, but they end. */
static void a_slow_device_without_counters_does_not_hang(void **state)
{
	struct ddr_members *members = calloc(1, sizeof(*members));
	struct ddr_stall s = { .watched = watched, .asked = asked, .hangs = hangs, .members = members };
	uint64_t ms = 0;

	(void)state;
	assert_non_null(members);
	members->n = 1;
	members->named = 1;
	members->major[0] = 8;
	members->minor[0] = MINOR;
	hanging = DDR_MAX_MEMBERS;
	failed = told = 0;
	stamping = 1;
	for (; ms < 5 * TIMEOUT_MS; ms += 1000) {
		answers += ms % 4000 == 0;
		ddr_stall_tick(&s, 100000 + ms, TIMEOUT_MS);
		assert_int_equal(told, 0);
	}
	for (; ms < 7 * TIMEOUT_MS; ms += 1000)		/* now none ends */
		ddr_stall_tick(&s, 100000 + ms, TIMEOUT_MS);
	assert_int_equal(told, 1);
	stamping = 0;
	answers = 0;
	free(members);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_member_that_hangs_is_taken_out_in_time), cmocka_unit_test(a_request_begun_after_a_check_has_all_of_io_timeout),
		cmocka_unit_test(a_device_that_counts_nothing_hangs_with_a_stamp), cmocka_unit_test(a_slow_device_without_counters_does_not_hang),
	};

	return cmocka_run_group_tests_name("stall", tests, NULL, NULL);
}
