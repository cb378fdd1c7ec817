/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ddraid status --check: the output for monitoring systems. The codes are a public interface (design.md, section 9). */
#ifndef DDR_CLI_CHECK_H
#define DDR_CLI_CHECK_H

#include <stdbool.h>

struct json_object;

enum check_exit {
	CHECK_OPTIMAL	= 0,
	CHECK_WARNING	= 1,	/* degraded, or work is in progress or needed: I/O continues */
	CHECK_FAILED	= 2,	/* I/O fails or hangs, or the array is not started */
	CHECK_SILENT	= 3,	/* the daemon does not answer: nothing is known */
	CHECK_USAGE	= 64,
};

#define CHECK_LIMIT_S		5	/* the command ends within this time, whatever the daemon does */
#define CHECK_CONNECT_MS	3000
#define CHECK_ANSWER_MS		1500
#define CHECK_AGAIN_MS		300	/* pause before the second check, within this time */

/* Do the arguments contain --check, or an abbreviation that getopt_long() accepts? Then usage errors end with another code. */
bool check_wanted(int argc, char **argv);
/* Asks for the array @name, or all; prints a line for each (@json: the arrays as `status --json`), and returns the worst code. */
int check_run(const char *name, bool json);

#endif
