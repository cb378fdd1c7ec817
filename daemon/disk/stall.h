/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Members that hang.
 *
 * The daemon's own I/O has a time limit, but in a granted region there is none of it: a
 * write of the kernel could wait for its member for as long as the member likes. So
 * once a second the counters of each member are read. I/O that is under way while none ends for
 * so long is a failure, like the daemon's own I/O that does not end.
 */
#ifndef DDR_DAEMON_STALL_H
#define DDR_DAEMON_STALL_H

#include "daemon/disk/members.h"

struct ddr_stall {
	/* given */
	uint32_t (*watched)(void *ctx);		/* the members that are to be looked at, now */
	/* This one has I/O under way and has ended none for @ms. Once, until it ends some. */
	void (*hangs)(void *ctx, unsigned int m, uint64_t ms);
	void *ctx;
	const struct ddr_members *members;
	/* own */
	uint64_t at_ms;
	struct {
		uint64_t ended;		/* I/O that had ended at the last look */
		uint64_t since_ms;	/* no I/O was under way, or some ended, then */
		bool told;
	} member[DDR_MAX_MEMBERS];
};

void ddr_stall_tick(struct ddr_stall *s, uint64_t now_ms, uint64_t limit_ms);

/* This process was stopped for so long, which is not their time. */
static inline void ddr_stall_delay(struct ddr_stall *s, uint64_t ms)
{
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		s->member[m].since_ms += ms;
}

#endif
