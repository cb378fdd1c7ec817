/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Between metaio.c, which all operations on metadata have in common, and metaio_super.c, which does superblocks in several steps. */
#ifndef DDR_DAEMON_METAIO_INT_H
#define DDR_DAEMON_METAIO_INT_H

#include <stdbool.h>
#include <stdint.h>

#include <qb/qblist.h>

#include "daemon/disk/aio.h"
#include "daemon/disk/metaio.h"
#include "lib/disk/format.h"

/* What is done with the superblocks of one member, and what was found on it. */
struct ddr_meta_super {
	enum { DDR_MS_READ, DDR_MS_WRITE, DDR_MS_BACK, DDR_MS_PAUSE } step;
	unsigned int copy;		/* with which */
	unsigned int left;		/* copies still to be written, this one too */
	uint32_t ours;			/* bit c: copy c is a superblock of this member */
	uint32_t unread;		/* bit c: it could not be read */
	uint64_t seq[DDR_SB_COPIES];	/* of those that are ours */
	bool again;			/* this is the second look */
	uint64_t again_ms;		/* DDR_MS_PAUSE: when it begins */
	char found[120];		/* instead of a superblock of ours, in words */
};

struct ddr_meta_op {
	struct qb_list_head list;	/* free or busy */
	struct ddr_metaio *m;
	enum ddr_metaio_kind kind;
	uint64_t io;
	uint32_t members;		/* asked */
	uint32_t waiting;		/* not ended yet */
	uint32_t flying;		/* of these: a request is under way */
	uint32_t failed;
	uint32_t no_space;		/* of these: for that reason alone */
	bool reported;
	uint64_t deadline_ms;
	uint64_t timeout_ms;
	uint64_t offset;
	uint8_t *blocks;		/* for superblocks two for each member: what is written, what was read; else one */
	struct ddr_meta_supers *supers;	/* it has room for superblocks; else NULL */
	struct ddr_aio_req req[DDR_MAX_MEMBERS];
};

/* The part of an operation that only superblocks need. */
struct ddr_meta_supers {
	uint8_t array[DDR_UUID_LEN];
	uint8_t uuid[2][DDR_MAX_MEMBERS][DDR_UUID_LEN];	/* of a member, now and after the change */
	uint64_t offset[DDR_SB_COPIES];
	struct ddr_meta_super member[DDR_MAX_MEMBERS];
};

struct ddr_metaio {
	struct ddr_metaio_config cfg;
	struct ddr_aio *aio;
	struct qb_list_head free_one, free_all, busy;
	uint64_t now_ms;		/* of the last tick or operation */
	bool closing;
};

enum ddr_meta_next { DDR_MN_GOES_ON, DDR_MN_DONE, DDR_MN_FAILED };

/* One request to @member, which is open. */
void ddr_metaio_submit(struct ddr_meta_op *op, unsigned int member, enum ddr_aio_op what, void *buf, uint64_t offset);

/* ---- metaio_super.c -------------------------------------------------------------- */

static inline bool ddr_meta_of_supers(enum ddr_metaio_kind kind)
{
	return kind == DDR_META_SB || kind == DDR_META_CHECK;
}

/* Begins with @member. */
void ddr_meta_super_begin(struct ddr_meta_op *op, unsigned int member);
/* Its request has ended with @result: what follows. */
enum ddr_meta_next ddr_meta_super_next(struct ddr_meta_op *op, unsigned int member, int result);
/* Goes on with members that paused for long enough. */
void ddr_meta_super_tick(struct ddr_meta_op *op, uint64_t now_ms);

#endif
