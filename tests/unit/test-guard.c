// SPDX-License-Identifier: GPL-2.0-or-later
/* A command whose process hangs in a disk (here: until a child that shares its memory ends): what it prints, and that it ends. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "cli/guard.h"

static char said[2][512];	/* the warning, the failure */

int cli_fail(const char *what, const char *format, ...)
{
	va_list args;

	(void)what;
	va_start(args, format);
	vsnprintf(said[1], sizeof(said[1]), format, args);
	va_end(args);
	return CLI_FAILED;
}

void cli_warn(const char *what, const char *format, ...)
{
	va_list args;

	(void)what;
	va_start(args, format);
	vsnprintf(said[0], sizeof(said[0]), format, args);
	va_end(args);
}

/* Waits in the kernel, as for a disk: a process that forks this way waits there for the end of the child. */
static void hang(unsigned int seconds)
{
	struct timespec t = { .tv_sec = seconds };

	if (vfork() == 0) {
		nanosleep(&t, NULL);
		_exit(0);
	}
}

static int works(void *ctx)
{
	(void)ctx;
	cli_guard_at("/dev/one", NULL);
	return 7;
}

static int hangs(void *ctx)
{
	cli_guard_at("/dev/two", ctx);
	hang(5);
	return 0;
}

static int is_slow(void *ctx)
{
	struct timespec t = { .tv_nsec = 20000000 };

	(void)ctx;
	for (unsigned int i = 0; i < 150; i++)
		nanosleep(&t, NULL);
	return 0;
}

static int is_killed(void *ctx)
{
	(void)ctx;
	cli_guard_at("/dev/three", "half of it is written");
	raise(SIGKILL);
	return 0;
}

static double took(int (*fn)(void *), void *ctx, int wanted)
{
	struct timespec begun, ended;

	memset(said, 0, sizeof(said));
	clock_gettime(CLOCK_MONOTONIC, &begun);
	assert_int_equal(cli_guarded("create", fn, ctx), wanted);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	return (double)(ended.tv_sec - begun.tv_sec) + (double)(ended.tv_nsec - begun.tv_nsec) / 1e9;
}

static void the_exit_code_is_the_commands(void **state)
{
	(void)state;
	took(works, NULL, 7);
	assert_string_equal(said[0], "");
	assert_string_equal(said[1], "");
}

/* Finding T14: on a disk that hangs, create and add hung silently and could not be killed. */
static void a_disk_that_hangs_is_named_and_left(void **state)
{
	static char writing[] = "half of it is written";

	(void)state;
	assert_true(took(hangs, NULL, CLI_FAILED) < 4);
	assert_non_null(strstr(said[0], "/dev/two does not answer"));
	assert_non_null(strstr(said[1], "/dev/two has not answered for 1 seconds: nothing was changed"));
	assert_true(took(hangs, writing, CLI_FAILED) < 4);
	assert_non_null(strstr(said[1], writing));
}

static void a_slow_disk_is_waited_for(void **state)
{
	(void)state;
	took(is_slow, NULL, 0);
	assert_string_equal(said[0], "");
}

static void a_half_done_command_says_so(void **state)
{
	(void)state;
	took(is_killed, NULL, CLI_FAILED);
	assert_non_null(strstr(said[1], "signal 9: half of it is written"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_exit_code_is_the_commands), cmocka_unit_test(a_disk_that_hangs_is_named_and_left),
		cmocka_unit_test(a_slow_disk_is_waited_for), cmocka_unit_test(a_half_done_command_says_so),
	};

	alarm(120);
	return cmocka_run_group_tests_name("guard", tests, NULL, NULL);
}
