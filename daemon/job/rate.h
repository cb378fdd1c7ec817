/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The rate of resync and of verify: how much of the disks' time they leave to the users of the array, as the operator configured it.
 *
 * The state machine pauses and resumes them; this decides when.
 */
#ifndef DDR_DAEMON_RATE_H
#define DDR_DAEMON_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/cluster/sm.h"
#include "lib/conf.h"

struct ddr_rate {
	/* set by the caller */
	void (*set)(void *ctx, enum ddr_sm_key key, uint64_t value);	/* for the state machine */
	void *ctx;
	const struct ddr_tunables *tune;
	const struct ddr_sm *sm;
	const uint64_t *quiet_until_ms;	/* a clean stop: resync is not resumed before this time */
	uint32_t major, minor;		/* of the array's device */
	/* internal, except scan_closed */
	uint64_t at_ms;		/* last sample */
	uint64_t done;		/* blocks since then */
	uint64_t per_s;		/* blocks a second, smoothed */
	int64_t credit;		/* blocks left of the minimum rate; below 1: paused, unless the share of the time allows more */
	int64_t most;		/* blocks left of the maximum rate; below 1: paused */
	uint64_t job_debt_us;	/* how long resync still has to pause */
	uint64_t io_seen;	/* sectors that the device had served */
	bool busy;		/* the device was in use on this node ... */
	uint64_t busy_ms;	/* ... at this time */
	bool used;		/* the state machine was told that it was in use ... */
	bool paused;		/* ... and that resync is paused */
	uint64_t scanned;	/* blocks that verify has read since the last sample */
	uint64_t scan_per_s;	/* blocks a second, smoothed */
	uint64_t alone_ns;	/* time that verify needs for a block while nobody else uses the disks; 0: unknown */
	uint64_t tick_ms;	/* last tick */
	uint64_t scan_end_ms;	/* when a read of verify last ended */
	int64_t scan_credit;	/* blocks left of verify's minimum rate */
	int64_t scan_most;	/* blocks left of its maximum rate, if there is one; below 1: paused */
	int64_t debt_us;	/* how long verify still has to pause; below 0: it paused longer than it had to */
	bool scan_closed;	/* it started automatically, and it is outside of its hours */
	bool scan_paused;	/* the state machine was told that verify is paused */
	bool scan_cut;		/* in this sample verify paused, or others used the disks */
	bool scan_whole;	/* verify had the disks for itself in the last sample */
};

/*
 * A range of resync or rebuild has ended, which took @us microseconds. Limits them to resync_max_rate and, while the device is in use
 * on any node, to resync_min_rate or the share of the time that resync_priority gives, whichever is more, by pausing between ranges:
 * never within one, since users' writes wait for it.
 */
void ddr_rate_done(struct ddr_rate *r, uint64_t blocks, uint64_t us);
void ddr_rate_tick(struct ddr_rate *r, uint64_t now_ms);
/*
 * A read of verify has ended, which took @us microseconds. While others use the disks (the device serves I/O here, or, in a cluster,
 * such a read takes much longer than it should), verify gets verify_min_rate or the share of the time of its priority, whichever is
 * more, and pauses for the rest. It never exceeds verify_max_rate.
 */
void ddr_rate_scanned(struct ddr_rate *r, uint64_t blocks, uint64_t us);

/* Has a range ended lately, or is one held back? Then speed and pace change with the ticks. */
static inline bool ddr_rate_moves(const struct ddr_rate *r)
{
	return r->done || r->per_s || r->scanned || r->scan_per_s || r->paused || r->scan_paused;
}

#endif
