/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For a test program that is linked with --wrap=_exit: what a process ran that ends by _exit() is counted by `./quickstart coverage`, too. The
 * runtime writes its counters at exit() alone.
 */
#ifndef DDR_TEST_COVERED_EXIT_H
#define DDR_TEST_COVERED_EXIT_H

_Noreturn void __real__exit(int code);
_Noreturn void __wrap__exit(int code);

#ifdef DDR_COVERAGE
void __gcov_dump(void);
#endif

_Noreturn void __wrap__exit(int code)
{
#ifdef DDR_COVERAGE
	__gcov_dump();
#endif
	__real__exit(code);
}

#endif
