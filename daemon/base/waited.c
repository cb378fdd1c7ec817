// SPDX-License-Identifier: GPL-2.0-or-later
/* See waited.h. /proc/self/schedstat: ns on a processor, ns that it waited for one, slices (proc(5) leaves it out: sched-stats.rst). */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon/base/waited.h"

uint64_t ddr_waited_ms(void)
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
