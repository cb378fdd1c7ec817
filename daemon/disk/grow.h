/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prepares one member for an array that is about to grow: zeroes what will be the end of the region that the array ends in, whose
 * parity is right then, and the tail behind the new end. In a thread of its own, since it sleeps.
 *
 * It writes nothing before the present end of the array's data, and nothing else. Until done() was called the member keeps the
 * device that it has: its descriptor is in use, whatever became of the member.
 */
#ifndef DDR_DAEMON_GROW_H
#define DDR_DAEMON_GROW_H

#include <stdint.h>

#include "daemon/base/worker.h"
#include "daemon/disk/members.h"
#include "lib/disk/format.h"

struct ddr_grow {
	/* given */
	struct ddr_members *members;		/* a reference is taken: whoever comes after this process waits for the end of it */
	unsigned int member;
	struct ddr_super super;			/* of the array as it is */
	uint64_t blocks;			/* that it is to have */
	uint64_t io;				/* the caller's */
	void (*done)(void *ctx, struct ddr_grow *g);	/* from the loop, once; frees it */
	void *ctx;				/* NULL: nobody waits any more */
	/* found */
	int result;				/* 0: it is durable; -ENOSPC: the member has no space, and is there; or -EIO. And error */
	struct ddr_error error;
	/* own */
	struct ddr_worker worker;
};

/* Takes over @g (from calloc). Returns 0, or a negative errno: @g is the caller's again. */
int ddr_grow_start(struct ddr_grow *g, qb_loop_t *loop);
void ddr_grow_free(struct ddr_grow *g);
/* Bytes of the data area of a member that are zeroed, from ddr_layout_data_end() on. */
uint64_t ddr_grow_bytes(const struct ddr_super *sb, uint64_t blocks);

#endif
