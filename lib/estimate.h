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

/* Rates in bytes a second, all of one member: the slowest. */
struct ddr_estimate_in {
	uint8_t order, parity, layout;
	uint64_t array_bytes;
	uint64_t member_bytes;		/* of a device, metadata included; 0: not known */
	uint32_t region_size;		/* bytes */
	double read_rate, write_rate;	/* sequential; not 0 */
	double read_iops, write_iops;	/* 4 KiB random, a second; 0: unknown */
	double written;			/* written share of the array, above 0 to 1 */
	double busy_rate;		/* resync_min_rate, bytes of the array a second; not 0 */
	double afr;			/* chance that a member fails within a year, below 1; 0: unknown */
	double unreadable;		/* chance that a bit cannot be read; 0: never */
	double wait_s;			/* from a failure until a new disk is there; 0: a spare */
};

struct ddr_estimate {
	uint32_t members, data, may_fail;
	/* of the array; of a pair, the first is for rotating disks, where skipping data takes as long as reading it */
	double read_rate[2], write_rate;
	double read_iops[2], write_iops;
	double degraded_rate[2], degraded_iops[2];	/* reads while one member is missing; 0 without parity */
	/* seconds */
	double rebuild_s, rebuild_busy_s;	/* idle, and under constant load; 0 without parity */
	double verify_s, verify_busy_s[5];	/* idle, and under constant load at priorities 1 to 5; 0 without parity */
	double resync_region_s;			/* one region after a crash */
	/* per year; 0 without afr */
	double array_lost;			/* chance that more members fail than the array tolerates */
	double block_lost;			/* chance that a rebuild with no redundancy left hits an unreadable sector */
};

/* @in is valid as its comments say. */
void ddr_estimate(const struct ddr_estimate_in *in, struct ddr_estimate *out);

#endif
