/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The share that a priority gives. The daemon divides the time by it (daemon/job/rate.c), and estimates use it (estimate.c); the manual,
 * ddraid.conf(5), has the same figures.
 */
#ifndef DDRAID_PRIORITY_H
#define DDRAID_PRIORITY_H

#include <stdint.h>

#define DDR_PRIORITY_LAST	5u	/* leaves the disks to everything else; 1 goes first */

/* Percent of the time that background work may use while others use the disks. An invalid priority counts as the last one. */
static inline uint32_t ddr_priority_share(uint64_t priority)
{
	static const uint32_t share[DDR_PRIORITY_LAST] = { 100, 50, 20, 8, 2 };

	return share[priority >= 1 && priority <= DDR_PRIORITY_LAST ? priority - 1 : DDR_PRIORITY_LAST - 1];
}

#endif
