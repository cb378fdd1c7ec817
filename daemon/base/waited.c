// SPDX-License-Identifier: GPL-2.0-or-later
/* See waited.h. /proc/self/schedstat: ns on a processor, ns that it waited for one, slices (proc(5) leaves it out: sched-stats.rst). */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/waited.h"

#define KEEP_MS		20u	/* all arrays ask at the same time */

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static uint64_t read_waited(void)
{
	static int fd = -1;	/* it is the process's until it ends */
	char text[96];
	uint64_t ran, waited;
	ssize_t n;

	if (fd < 0)
		fd = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	return sscanf(text, "%" SCNu64 " %" SCNu64, &ran, &waited) == 2 ? waited / 1000000 : 0;
}

uint64_t ddr_waited_ms(void)
{
	static uint64_t read_ms, waited;
	uint64_t now = now_ms();

	if (!read_ms || now - read_ms >= KEEP_MS) {
		waited = read_waited();
		read_ms = now;
	}
	return waited;
}
