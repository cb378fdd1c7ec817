// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Part of each unit test program: runs the one case that DDRAID_TEST_CASE names, as `./quickstart test NAME` does.
 * cmocka has a filter, but nothing to set it from outside of the program.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

__attribute__((constructor)) static void one_case(void)
{
	const char *name = getenv("DDRAID_TEST_CASE");

	if (name && *name)
		cmocka_set_test_filter(name);
}
