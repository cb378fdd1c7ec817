/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The counters that the kernel keeps of a block device. */
#ifndef DDR_DAEMON_BLKSTAT_H
#define DDR_DAEMON_BLKSTAT_H

#include <stdbool.h>
#include <stdint.h>

struct ddr_blkstat {
	uint64_t ended;		/* requests: reads, writes, discards, flushes */
	uint64_t flying;	/* requests that are under way */
	uint64_t sectors;	/* read and written */
};

/* False: nobody knows. Waits for nothing, and needs no memory. */
bool ddr_blkstat(unsigned int major, unsigned int minor, struct ddr_blkstat *st);

#endif
