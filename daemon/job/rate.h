/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The pace of resync, and of verify: so that they leave the disks to those who use the array, as the operator wants it.
 *
 * The state machine pauses and resumes them when it is told to; here is decided when.
 */
#ifndef DDR_DAEMON_RATE_H
#define DDR_DAEMON_RATE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/cluster/sm.h"
#include "lib/conf.h"

struct ddr_rate {
	/* given */
	void (*set)(void *ctx, enum ddr_sm_key key, uint64_t value);	/* for the state machine */
	void *ctx;
	const struct ddr_tunables *tune;
	const struct ddr_sm *sm;
	const uint64_t *quiet_until_ms;	/* a clean stop: resync is not resumed before */
	uint32_t major, minor;		/* of the device that users see */
	/* own, but for scan_closed */
	uint64_t at_ms;		/* last sample */
	uint64_t done;		/* blocks since then */
	uint64_t per_s;		/* blocks a second, smoothed */
	int64_t credit;		/* blocks that are to be done; below 1: paused, unless its share of the time is left */
	int64_t most;		/* blocks that may be done at most; below 1: paused */
	uint64_t job_debt_us;	/* for so long resync has to leave the disks to others */
	uint64_t io_seen;	/* sectors that the device had served */
	bool busy;		/* the device was in use on this node ... */
	uint64_t busy_ms;	/* ... when that was looked at last */
	bool used;		/* that it was, as told to the state machine ... */
	bool paused;		/* ... and whether resync rests */
	uint64_t scanned;	/* blocks that verify has read since the last sample */
	uint64_t scan_per_s;	/* blocks a second, smoothed */
	uint64_t alone_ns;	/* a block costs verify so much while nobody else uses the disks; 0: not known */
	uint64_t tick_ms;	/* last tick */
	uint64_t scan_end_ms;	/* a read of verify ended last */
	int64_t scan_credit;	/* blocks that verify is to read, whatever it owes */
	int64_t scan_most;	/* blocks that it may read at most, with a limit; below 1: it rests */
	int64_t debt_us;	/* for so long verify has to leave the disks to others; below 0: it did so for longer than it had to */
	bool scan_closed;	/* it began by itself, and these are not its hours */
	bool scan_paused;	/* as told to the state machine */
	bool scan_cut;		/* in this sample verify rested, or met somebody */
	bool scan_whole;	/* verify had the last sample for itself */
};

/*
 * A range of resync or rebuild has ended, which took @us microseconds. Keeps them to resync_max_rate, and, while the device is in use on any node, to
 * resync_min_rate or the share of the time that resync_priority gives, whichever is more, by
 * pausing between ranges: never within one, since users' writes wait for it.
 */
void ddr_rate_done(struct ddr_rate *r, uint64_t blocks, uint64_t us);
void ddr_rate_tick(struct ddr_rate *r, uint64_t now_ms);
/*
 * A read of verify has ended, which took @us microseconds. While others use the disks (the device serves I/O here, or, in a cluster, such a
 * read takes much longer than it can) verify has verify_min_rate or the share of the time that its priority gives, whichever is more, and pauses for
 * the rest; verify_max_rate it never exceeds.
 */
void ddr_rate_scanned(struct ddr_rate *r, uint64_t blocks, uint64_t us);

#endif
