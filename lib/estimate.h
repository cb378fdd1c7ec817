/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Estimates speed and reliability of an array from the figures of one of its members. The model assumes that the disks are the
 * bottleneck. It ignores CPU, bus and network, so the result is an upper bound. Touches no device; its figures were
 * compared with measured ones (doc/performance.md).
 */
#ifndef DDR_LIB_ESTIMATE_H
#define DDR_LIB_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

/* Rates in bytes a second; all of one member, the slowest. */
struct ddr_estimate_in {
	uint8_t order, parity, layout;
	uint64_t array_bytes;
	uint64_t member_bytes;		/* of a device, metadata included; 0: not known */
	uint32_t region_size;		/* bytes */
	double read_rate, write_rate;	/* one after the other; not 0 */
	double read_iops, write_iops;	/* of 4 KiB at random, a second; 0: not known */
	double written;			/* part of the array that was ever written, above 0 to 1 */
	double busy_rate;		/* resync_min_rate, bytes of the array a second; not 0 */
	double afr;			/* chance that a member fails within a year, below 1; 0: not known */
	double unreadable;		/* chance of each bit that it cannot be read; 0: never */
	double wait_s;			/* from a failure until there is another disk; 0: a spare */
};

struct ddr_estimate {
	uint32_t members, data, may_fail;
	/* of the array; of a pair the first counts where skipping what is not read takes as long as reading it: on disks that turn */
	double read_rate[2], write_rate;
	double read_iops[2], write_iops;
	double degraded_rate[2], degraded_iops[2];	/* reads while one member is out; 0 without parity */
	/* seconds */
	double rebuild_s, rebuild_busy_s;	/* idle, and while the array never is; 0 without parity */
	double verify_s, verify_busy_s[5];	/* idle, and beside a load that never pauses at priority 1 to 5; 0 without parity */
	double resync_region_s;			/* of a region after a crash */
	/* a year; 0 without afr */
	double array_lost;			/* chance that more members fail than may */
	double block_lost;			/* chance that a rebuild without redundancy left meets a sector that cannot be read */
};

/* @in is valid as its comments say. */
void ddr_estimate(const struct ddr_estimate_in *in, struct ddr_estimate *out);

#endif
