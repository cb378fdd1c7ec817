/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads what is on the members anew while the array runs: superblocks with the region map, or the
 * dirty log of one slot. In a thread of its own, since it sleeps; what a member has not delivered within the limit counts as
 * unreadable there. It never writes to a member.
 */
#ifndef DDR_DAEMON_RELOAD_H
#define DDR_DAEMON_RELOAD_H

#include <stdint.h>

#include "daemon/base/worker.h"
#include "daemon/disk/loader.h"
#include "lib/disk/format.h"

#define DDR_RELOAD_SUPER	0xffffu		/* instead of a slot: superblock and map */

struct ddr_reload {
	/* given */
	struct ddr_members *members;		/* a reference is taken */
	struct ddr_super super;			/* what is known of the array; of DDR_RELOAD_SUPER the newest is put here */
	uint32_t from;				/* members to read */
	uint16_t slot;				/* or DDR_RELOAD_SUPER */
	unsigned int limit_ms;			/* for each read of a member */
	uint64_t io;				/* the caller's */
	void (*done)(void *ctx, struct ddr_reload *r);	/* from the loop, once; frees it */
	void *ctx;				/* NULL: nobody waits any more */
	/* found */
	int result;				/* 0 or a negative errno */
	struct ddr_load_block *block;		/* of the slot's log, or of the map */
	/* own */
	struct ddr_worker worker;
};

/* Takes over @r (from calloc). Returns 0, or a negative errno: @r is the caller's again. */
int ddr_reload_start(struct ddr_reload *r, qb_loop_t *loop);
void ddr_reload_free(struct ddr_reload *r);

#endif
