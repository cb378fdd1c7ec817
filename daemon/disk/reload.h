/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads the members again while the array runs: superblocks and region map, or the dirty log of one slot. In a thread of its own,
 * since it sleeps. What a member has not delivered within the limit counts as unreadable there. It never writes to a member.
 */
#ifndef DDR_DAEMON_RELOAD_H
#define DDR_DAEMON_RELOAD_H

#include <stdint.h>

#include "daemon/base/worker.h"
#include "daemon/disk/loader.h"
#include "lib/disk/format.h"

#define DDR_RELOAD_SUPER	0xffffu		/* in place of a slot: superblock and map */

struct ddr_reload {
	/* set by the caller */
	struct ddr_members *members;		/* a reference is taken */
	struct ddr_super super;			/* the known superblock; with DDR_RELOAD_SUPER it is replaced by the newest one */
	struct ddr_owners owners;		/* likewise */
	uint32_t from;				/* members to read */
	uint16_t slot;				/* or DDR_RELOAD_SUPER */
	uint64_t since;				/* of a slot: its log_seq */
	unsigned int limit_ms;			/* for each read of a member */
	uint64_t io;				/* for the caller */
	void (*done)(void *ctx, struct ddr_reload *r);	/* called from the loop, once; frees @r */
	void *ctx;				/* NULL: the result is not needed any more */
	/* results */
	int result;				/* 0 or a negative errno */
	struct ddr_load_block *block;		/* of the slot's log, or of the map */
	/* internal */
	struct ddr_worker worker;
};

/* Takes over @r (from calloc). Returns 0, or a negative errno: then the caller keeps @r. */
int ddr_reload_start(struct ddr_reload *r, qb_loop_t *loop);
void ddr_reload_free(struct ddr_reload *r);

#endif
