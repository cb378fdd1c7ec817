/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a priority gives. The daemon shares the time by it (daemon/job/rate.c), and estimates rest on it (estimate.c); the manual,
 * ddraid.conf(5), has the same figures.
 */
#ifndef DDRAID_PRIORITY_H
#define DDRAID_PRIORITY_H

#include <stdint.h>

#define DDR_PRIORITY_LAST	5u	/* leaves the disks to everything else; 1 goes first */

/* Of a hundred parts of the time: what background work may have while others use the disks. What is no priority has as much as the last one. */
static inline uint32_t ddr_priority_share(uint64_t priority)
{
	static const uint32_t share[DDR_PRIORITY_LAST] = { 100, 50, 20, 8, 2 };

	return share[priority >= 1 && priority <= DDR_PRIORITY_LAST ? priority - 1 : DDR_PRIORITY_LAST - 1];
}

#endif
