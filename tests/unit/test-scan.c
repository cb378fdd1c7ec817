// SPDX-License-Identifier: GPL-2.0-or-later
/* A table line with another device at one place. (What is found on disks is tested in virtual machines.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "lib/scan.h"

#define HEAD	"0a1b 1 1 rotating 2048 2048 3 "

static void expect(const char *params, uint32_t place, const char *wanted, bool wanted_same)
{
	bool same = !wanted_same;
	char *text = ddr_scan_table_replace(params, place, 259, 11, &same);

	if (!wanted) {
		assert_null(text);
		return;
	}
	assert_string_equal(text, wanted);
	assert_int_equal(same, wanted_same);
	free(text);
}

static void expect_shadow(const char *params, uint32_t minor, const char *wanted, bool wanted_same)
{
	bool same = !wanted_same;
	char *text = ddr_scan_table_shadow(params, 1, minor ? 259 : 0, minor, &same);

	if (!wanted) {
		assert_null(text);
		return;
	}
	assert_string_equal(text, wanted);
	assert_int_equal(same, wanted_same);
	free(text);
}

/* The option of the disk that replaces another one, among others, comes and goes. */
static void a_shadow_is_named(void **state)
{
	(void)state;
	expect_shadow(HEAD "8:0 8:16 8:32", 7, HEAD "8:0 8:16 8:32 3 replace 1 259:7", false);
	expect_shadow(HEAD "8:0 8:16 8:32 3 replace 1 259:7", 7, HEAD "8:0 8:16 8:32 3 replace 1 259:7", true);
	expect_shadow(HEAD "8:0 8:16 8:32 3 replace 0 259:7", 7, HEAD "8:0 8:16 8:32 3 replace 1 259:7", false);
	expect_shadow(HEAD "8:0 8:16 8:32 4 replace 0 259:9 verify_reads", 7, HEAD "8:0 8:16 8:32 4 verify_reads replace 1 259:7", false);
	expect_shadow(HEAD "8:0 8:16 8:32 4 verify_reads replace 1 259:7", 0, HEAD "8:0 8:16 8:32 1 verify_reads", false);
	expect_shadow(HEAD "8:0 8:16 8:32 3 replace 1 259:7", 0, HEAD "8:0 8:16 8:32", false);
	expect_shadow(HEAD "8:0 8:16 8:32", 0, HEAD "8:0 8:16 8:32", true);
	expect_shadow("0a1b 0 1 dedicated 2048 2048 1 8:0", 7, NULL, false);
	expect_shadow(HEAD "8:0 8:16", 7, NULL, false);
	expect_shadow("0 1 error", 7, NULL, false);
}

static void one_word_is_another(void **state)
{
	(void)state;
	expect(HEAD "8:0 8:16 8:32", 0, HEAD "259:11 8:16 8:32", false);
	expect(HEAD "8:0 - 8:32", 1, HEAD "8:0 259:11 8:32", false);
	expect(HEAD "8:0 8:16 -", 2, HEAD "8:0 8:16 259:11", false);
	expect(HEAD "8:0 8:16 8:32 1 verify_reads", 2, HEAD "8:0 8:16 259:11 1 verify_reads", false);
	expect(HEAD "8:0 259:11 8:32", 1, HEAD "8:0 259:11 8:32", true);
	expect(HEAD "8:0 259:1 8:32", 1, HEAD "8:0 259:11 8:32", false);
}

/* Who stands beside another place is being copied, and stays; who stands beside this one, or is put here, does not. */
static void another_place_keeps_its_shadow(void **state)
{
	(void)state;
	expect(HEAD "8:0 8:16 8:32 3 replace 1 259:7", 0, HEAD "259:11 8:16 8:32 3 replace 1 259:7", false);
	expect(HEAD "8:0 8:16 8:32 4 verify_reads replace 1 259:7", 0, HEAD "259:11 8:16 8:32 4 verify_reads replace 1 259:7", false);
	expect(HEAD "259:11 8:16 8:32 3 replace 1 259:7", 0, HEAD "259:11 8:16 8:32 3 replace 1 259:7", true);
	expect(HEAD "8:0 8:16 8:32 3 replace 1 259:11", 1, HEAD "8:0 259:11 8:32", false);
	expect(HEAD "8:0 8:16 8:32 4 verify_reads replace 1 259:7", 1, HEAD "8:0 259:11 8:32 1 verify_reads", false);
	expect(HEAD "8:0 8:16 8:32 3 replace 1 259:11", 0, HEAD "259:11 8:16 8:32", false);
	expect(HEAD "8:0 259:11 8:32 3 replace 1 259:7", 1, HEAD "8:0 259:11 8:32", false);
	expect(HEAD "8:0 8:16 8:32 3 replace 1 259:1", 0, HEAD "259:11 8:16 8:32 3 replace 1 259:1", false);
}

/* A member is forgotten that is out: its place names nobody then, and a replacement elsewhere goes on. */
static void a_place_is_emptied_beside_a_shadow(void **state)
{
	bool same = true;
	char *text = ddr_scan_table_replace(HEAD "8:0 8:16 8:32 3 replace 1 259:7", 2, 0, 0, &same);

	(void)state;
	assert_string_equal(text, HEAD "8:0 8:16 - 3 replace 1 259:7");
	assert_false(same);
	free(text);
}

static void what_is_no_table_is_refused(void **state)
{
	(void)state;
	expect(HEAD "8:0 8:16 8:32", 3, NULL, false);
	expect(HEAD "8:0 8:16", 2, NULL, false);
	expect("0 1 error", 0, NULL, false);
	expect("", 0, NULL, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_shadow_is_named), cmocka_unit_test(one_word_is_another), cmocka_unit_test(another_place_keeps_its_shadow),
		cmocka_unit_test(a_place_is_emptied_beside_a_shadow), cmocka_unit_test(what_is_no_table_is_refused),
	};

	return cmocka_run_group_tests_name("scan", tests, NULL, NULL);
}
