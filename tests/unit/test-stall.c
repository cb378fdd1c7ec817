// SPDX-License-Identifier: GPL-2.0-or-later
/* Members that hang: each one that may be in use is looked at, and told of by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/disk/blkstat.h"
#include "daemon/disk/stall.h"

#define TIMEOUT_MS	10000u
#define MINOR		40u		/* of member 0's device; the others follow */

static unsigned int hanging;		/* the member that ends nothing */
static uint32_t failed;
static unsigned int told, looks;

/* ---- what stall.c uses ----------------------------------------------------------- */

/* The counters of a device: nothing ends any more, and one request is under way where it hangs. */
bool ddr_blkstat(unsigned int major, unsigned int minor, struct ddr_blkstat *st)
{
	assert_int_equal(major, 8);
	assert_true(minor >= MINOR && minor < MINOR + DDR_MAX_MEMBERS);
	*st = (struct ddr_blkstat){ .ended = 7, .flying = minor - MINOR == hanging };
	looks++;
	return true;
}

static uint32_t watched(void *ctx)
{
	(void)ctx;
	return UINT32_MAX;
}

static void hangs(void *ctx, unsigned int m, uint64_t ms)
{
	(void)ctx;
	assert_true(ms >= TIMEOUT_MS);
	failed |= 1u << m;
	told++;
}

/* ---- the test -------------------------------------------------------------------- */

/* As many as the table of members holds, whatever the array has of roles: the last ones came as spares. */
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
		memset(w->behind, 0x5a, sizeof(w->behind));	/* what stands behind the notes on members */
		w->s = (struct ddr_stall){ .watched = watched, .hangs = hangs, .members = members };
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

/*
 * Finding U8: while nothing is under way the counters are read eight times within the time that a member has, and once a second from when
 * something is. What begins between two of these looks has all of its time.
 */
static void what_rests_is_looked_at_rarely(void **state)
{
	struct ddr_members *members = calloc(1, sizeof(*members));
	struct ddr_stall s = { .watched = watched, .hangs = hangs, .members = members };
	const uint64_t limit = 8 * TIMEOUT_MS, begun = 1000000;
	uint64_t ms = begun, next;

	(void)state;
	assert_non_null(members);
	members->n = members->named = 1;
	members->major[0] = 8;
	members->minor[0] = MINOR;
	hanging = DDR_MAX_MEMBERS;
	failed = told = looks = 0;
	for (; ms < begun + 10 * TIMEOUT_MS; ms = next) {
		ddr_stall_tick(&s, ms, limit);
		next = ddr_stall_next(&s, ms, limit);
		assert_in_range(next, ms + 1, ms + TIMEOUT_MS);
	}
	assert_in_range(looks, 10, 11);
	hanging = 0;
	ddr_stall_tick(&s, ms, limit);
	assert_int_equal(ddr_stall_next(&s, ms, limit), ms + 1000);
	for (next = ms; !told && next < ms + 2 * limit; next += 1000)
		ddr_stall_tick(&s, next, limit);
	assert_int_equal(failed, 1);
	assert_in_range(next - ms, limit - 1000, limit + 1000);
	free(members);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_member_that_hangs_is_taken_out_in_time), cmocka_unit_test(what_rests_is_looked_at_rarely) };

	return cmocka_run_group_tests_name("stall", tests, NULL, NULL);
}
