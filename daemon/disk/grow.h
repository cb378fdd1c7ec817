/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prepares one member for an array that is about to grow. Zeroes the rest of the region in which the array ends now, so that its
 * parity is correct, and the tail behind the new end. In a thread of its own, since it sleeps.
 *
 * It writes nothing before the present end of the array's data, and nothing else. Until done() was called the member keeps its
 * device, whatever happens to the member: the thread uses its descriptor.
 */
#ifndef DDR_DAEMON_GROW_H
#define DDR_DAEMON_GROW_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/still.h"
#include "daemon/base/worker.h"
#include "daemon/disk/members.h"
#include "lib/disk/format.h"

struct ddr_grow {
	/* set by the caller */
	struct ddr_still *still;		/* once its loop has not run for too long, nothing more is written; NULL: never */
	struct ddr_members *members;		/* a reference is taken: a process that takes over waits for the end of this */
	unsigned int member;
	struct ddr_super super;			/* of the array as it is now */
	uint64_t blocks;			/* the new size */
	uint64_t io;				/* for the caller */
	void (*done)(void *ctx, struct ddr_grow *g);	/* called from the loop, once; frees @g */
	void *ctx;				/* NULL: the result is not needed any more */
	/* results */
	int result;				/* 0: durable; -ENOSPC: the member exists but has no space; -ENOMEM: a failure of this process; -EAGAIN: it stood still; or -EIO. Else see error */
	struct ddr_error error;
	/* internal */
	struct ddr_worker worker;
	bool late;
};

/* Takes over @g (from calloc). Returns 0, or a negative errno: then the caller keeps @g. */
int ddr_grow_start(struct ddr_grow *g, qb_loop_t *loop);
void ddr_grow_free(struct ddr_grow *g);
/* How many bytes of a member's data area are zeroed, starting at ddr_layout_data_end(). */
uint64_t ddr_grow_bytes(const struct ddr_super *sb, uint64_t blocks);

#endif
