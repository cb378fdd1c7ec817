/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Detects members that hang.
 *
 * The daemon's own I/O has a time limit, but in a granted region the daemon does none: a write of the kernel could wait for its
 * member without any limit. So the counters of each member are read once a second, and less often while no member has I/O in flight. A member with I/O
 * in flight of which nothing ends for the time limit has failed, as if the daemon's own I/O had not ended.
 *
 * Some devices count only what they have begun (a device-mapper device that is suspended), or nothing (iostats=0 in sysfs). So the daemon's own stamps, which
 * have no time limit of their own, are I/O as well: one that has not ended is in flight, and one that ends has ended.
 */
#ifndef DDR_DAEMON_STALL_H
#define DDR_DAEMON_STALL_H

#include "daemon/disk/members.h"

struct ddr_stall {
	/* set by the caller */
	uint32_t (*watched)(void *ctx);		/* the members to check now */
	/* Has this process I/O in flight on member @m, whatever the device counts? @ended: how much of it has ended since the array was opened. */
	bool (*asked)(void *ctx, unsigned int m, uint64_t *ended);
	/* This member has I/O in flight and has ended none for @ms. Called once, until it ends some again. */
	void (*hangs)(void *ctx, unsigned int m, uint64_t ms);
	void *ctx;
	const struct ddr_members *members;
	/* internal */
	uint64_t at_ms;
	bool flying;			/* some I/O was under way at the last look */
	struct {
		uint64_t ended;		/* the number of ended requests at the last check, the device's and this process's */
		uint64_t since_ms;	/* the first check that saw what is in flight now, or the last one before which some had ended */
		bool flying;		/* I/O was in flight then */
		bool told;
	} member[DDR_MAX_MEMBERS];
};

void ddr_stall_tick(struct ddr_stall *s, uint64_t now_ms, uint64_t limit_ms);

/* This process was stopped for @ms: members must not be blamed for that time. */
static inline void ddr_stall_delay(struct ddr_stall *s, uint64_t ms)
{
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		s->member[m].since_ms += ms;
}

#endif
