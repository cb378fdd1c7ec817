// SPDX-License-Identifier: GPL-2.0-or-later
/* The daemon's clock. See clock.h. */
#include <time.h>

#include "daemon/base/clock.h"

uint64_t ddr_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}
