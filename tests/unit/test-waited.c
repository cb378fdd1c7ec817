// SPDX-License-Identifier: GPL-2.0-or-later
/* How long this process waited for a processor: beside another one that never rests, on one processor. */
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/base/waited.h"

static uint64_t clock_ms(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Both want the processor: what this process did not get of it, it waited for, but for what the child's start and the kernel took. */
static void what_another_one_got_is_waited_for(void **state)
{
	uint64_t wall = clock_ms(CLOCK_MONOTONIC), cpu = clock_ms(CLOCK_PROCESS_CPUTIME_ID), waited = ddr_waited_ms(), lost;
	pid_t pid;

	(void)state;
	pid = fork();
	assert_true(pid >= 0);
	while (pid == 0)
		;
	while (clock_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu < 500)
		;
	lost = clock_ms(CLOCK_MONOTONIC) - wall - (clock_ms(CLOCK_PROCESS_CPUTIME_ID) - cpu);
	waited = ddr_waited_ms() - waited;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_true(lost > 100);
	assert_in_range(waited, lost / 2, lost + 50);
}

static void who_sleeps_waits_for_none(void **state)
{
	struct timespec half = { .tv_nsec = 500000000 };
	uint64_t wall = clock_ms(CLOCK_MONOTONIC), waited = ddr_waited_ms();

	(void)state;
	nanosleep(&half, NULL);
	waited = ddr_waited_ms() - waited;
	assert_in_range(waited, 0, clock_ms(CLOCK_MONOTONIC) - wall - 500 + 20);	/* a loaded machine wakes it late */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_another_one_got_is_waited_for),
		cmocka_unit_test(who_sleeps_waits_for_none),
	};
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		return 1;
	return cmocka_run_group_tests_name("waited", tests, NULL, NULL);
}
