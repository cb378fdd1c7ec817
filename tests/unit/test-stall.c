// SPDX-License-Identifier: GPL-2.0-or-later
/* Members that hang: each one that may be in use is looked at, and told of by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/array/array.h"
#include "daemon/array/events.h"

#define TIMEOUT_MS	10000u
#define MINOR		40u		/* of member 0's device; the others follow */

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

void ddr_sm_get_status(const struct ddr_sm *sm, struct ddr_sm_status *st)
{
	(void)sm;
	memset(st, 0, sizeof(*st));
	memset(st->member_state, DDR_MEMBER_IN_SYNC, sizeof(st->member_state));
}

void ddr_event_plain(struct ddr_array *a, int priority, const char *name, const char *text)
{
	(void)a, (void)priority, (void)text;
	assert_string_equal(name, "hangs");
	told++;
}

const char *ddr_drive_fail(struct ddr_array *a, uint32_t member)
{
	(void)a;
	failed |= 1u << member;
	return NULL;
}

/* ---- the test -------------------------------------------------------------------- */

/* As many as the table of members holds, whatever the array has of roles: the last ones came as spares. */
static void a_member_that_hangs_is_taken_out_in_time(void **state)
{
	struct ddr_array *a = calloc(1, sizeof(*a)), *before = malloc(sizeof(*a));
	struct ddr_members *members = calloc(1, sizeof(*members));

	(void)state;
	assert_true(a && before && members);
	members->n = DDR_MAX_MEMBERS;
	members->named = (1u << DDR_MAX_MEMBERS) - 1;
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++) {
		members->major[m] = 8;
		members->minor[m] = MINOR + m;
	}
	for (hanging = 0; hanging < DDR_MAX_MEMBERS; hanging++) {
		memset(a, 0, sizeof(*a));
		memset(&a->rate, 0x5a, sizeof(a->rate));	/* what stands behind the notes on members */
		a->ready = true;
		a->members = members;
		a->tune.io_timeout_ms = TIMEOUT_MS;
		memcpy(before, a, sizeof(*a));
		failed = told = 0;
		for (uint64_t ms = 0; ms < TIMEOUT_MS; ms += 1000)
			ddr_stall_tick(a, 100000 + ms);
		assert_int_equal(failed, 0);
		for (uint64_t ms = 0; ms < 5000; ms += 1000)
			ddr_stall_tick(a, 100000 + TIMEOUT_MS + ms);
		assert_int_equal(failed, 1u << hanging);
		assert_int_equal(told, 1);
		assert_memory_equal(&a->rate, &before->rate, sizeof(a->rate));
	}
	free(members);
	free(before);
	free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_member_that_hangs_is_taken_out_in_time) };

	return cmocka_run_group_tests_name("stall", tests, NULL, NULL);
}
