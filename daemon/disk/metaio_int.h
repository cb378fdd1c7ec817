/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by metaio.c, which has what all metadata operations have in common, and by those that take several steps: metaio_super.c (superblocks) and
 * metaio_stamp.c.
 */
#ifndef DDR_DAEMON_METAIO_INT_H
#define DDR_DAEMON_METAIO_INT_H

#include <stdbool.h>
#include <stdint.h>

#include <qb/qblist.h>

#include "daemon/disk/aio.h"
#include "daemon/disk/metaio.h"
#include "lib/disk/format.h"
#include "lib/disk/format_owner.h"

/* The state of the superblock steps on one member, and what was found there. */
struct ddr_meta_super {
	enum { DDR_MS_READ, DDR_MS_READ_PAGES, DDR_MS_WRITE_PAGES, DDR_MS_WRITE, DDR_MS_BACK, DDR_MS_BACK_PAGES, DDR_MS_PAUSE } step;
	unsigned int copy;		/* the current copy */
	unsigned int left;		/* copies still to be written, including this one */
	uint32_t ours;			/* bit c: copy c is a superblock of this member */
	uint32_t torn;			/* bit c: copy c is one, but its owner pages are not those that it was written with */
	uint32_t unread;		/* bit c: copy c could not be read */
	uint64_t seq[DDR_SB_COPIES];	/* of the copies that are ours */
	unsigned int looks;		/* how often both copies were read */
	uint32_t before;		/* @ours of the look before this one */
	uint64_t again_ms;		/* DDR_MS_PAUSE: when the next one starts */
	char found[120];		/* what the disk holds instead of our superblock */
};

struct ddr_meta_op {
	struct qb_list_head list;	/* free or busy */
	struct ddr_metaio *m;
	enum ddr_metaio_kind kind;
	uint64_t io;
	uint32_t members;		/* requested */
	uint32_t waiting;		/* not ended yet */
	uint32_t flying;		/* of these: with a request in progress */
	uint32_t failed;
	uint32_t no_space;		/* of these: failed only because they have no space */
	bool back;			/* taken back: no step of it begins any more */
	uint32_t returned;		/* of those that failed: only because of that */
	bool reported;
	uint64_t deadline_ms;
	uint64_t timeout_ms;
	uint64_t offset;
	uint8_t *block;			/* for all members alike. Of superblocks: for members without a device, so it is not sent anywhere */
	struct ddr_meta_supers *supers;	/* if it has room for superblocks; else NULL */
	struct ddr_meta_stamp *stamp;	/* STAMP only: each member has one such operation; its @block has the places as written, then as read */
	struct ddr_aio_req req[DDR_MAX_MEMBERS];
};

#define DDR_META_CLUSTERS	3u

/* The part of an operation that only superblocks need. */
struct ddr_meta_supers {
	uint8_t array[DDR_UUID_LEN];
	uint8_t uuid[2][DDR_MAX_MEMBERS][DDR_UUID_LEN];	/* of each member, now and after the change */
	uint64_t offset[DDR_SB_COPIES];
	struct ddr_meta_super member[DDR_MAX_MEMBERS];
	uint8_t *pair[DDR_MAX_MEMBERS];		/* two blocks for each member that had a device here: to write, and as read. They stay */
	/* format 2: the pages as read follow these two blocks; those to write are the same for all members */
	bool owned;				/* this change has pages */
	uint8_t whose[DDR_META_CLUSTERS][DDR_UUID_LEN];	/* the clusters that may own the array ... */
	unsigned int clusters;			/* ... and their number; 0: any cluster may */
	uint64_t generation;			/* of the array, as this node knows it */
	uint64_t loaded_generation, loaded_seq;	/* and as this node began with it */
	uint8_t *pages[DDR_SB_COPIES];
	uint32_t crc[DDR_SB_COPIES];		/* of them */
	uint64_t pages_offset[DDR_SB_COPIES];
};

/* The part of an operation that only stamps need; it stays from one stamp to the next. */
struct ddr_meta_stamp {
	struct ddr_stamp next;		/* the one in progress */
	struct ddr_super sb;		/* of the array then */
	uint64_t seq;			/* the last number on this device */
	unsigned int mine;		/* bit p: place p holds what this node wrote there */
	bool look;			/* the pair is only read */
	bool writing;			/* the pair was read, and is as it should be */
	bool left;			/* the member has another device now, and another one of these */
	uint64_t begun_ms;		/* when its read was started: ddr_still_now() */
	uint64_t ended;			/* reads and writes that have ended */
	int error;			/* of the last attempt: said once; -EBADMSG: it could not be encoded */
};

struct ddr_metaio {
	struct ddr_metaio_config cfg;
	struct ddr_aio *aio;
	struct ddr_meta_op *ops;	/* those that are preallocated, in one piece ... */
	uint8_t *blocks;		/* ... and their blocks */
	struct qb_list_head free_one, free_all, busy;
	struct ddr_meta_op *stamp[DDR_MAX_MEMBERS];	/* format 2: for each member that had a device here */
	uint64_t now_ms;		/* time of the last tick or operation */
	bool taken;			/* cfg.taken() was called: no superblock is written any more */
	uint32_t returned;		/* during done(): of the operation */
	bool closing;
};

enum ddr_meta_next { DDR_MN_GOES_ON, DDR_MN_DONE, DDR_MN_FAILED };

/* Sends one request for @blocks blocks to @member, which is open. */
void ddr_metaio_submit(struct ddr_meta_op *op, unsigned int member, enum ddr_aio_op what, void *buf, unsigned int blocks, uint64_t offset);

/* ---- metaio_super.c -------------------------------------------------------------- */

static inline bool ddr_meta_of_supers(enum ddr_metaio_kind kind)
{
	return kind == DDR_META_SB || kind == DDR_META_CHECK;
}

/* Starts with @member. */
void ddr_meta_super_begin(struct ddr_meta_op *op, unsigned int member);
/* Its request has ended with @result: continues with the next step. */
enum ddr_meta_next ddr_meta_super_next(struct ddr_meta_op *op, unsigned int member, int result);
/* Continues with members whose pause is over. */
void ddr_meta_super_tick(struct ddr_meta_op *op, uint64_t now_ms);

/* ---- metaio_stamp.c -------------------------------------------------------------- */

/* These members get a device, or another one. False: out of memory. Format 1: nothing to do. */
bool ddr_meta_stamp_prepare(struct ddr_metaio *m, uint32_t members);
/* Frees a stamp's operation, which is not in progress; NULL is fine. */
void ddr_meta_stamp_free(struct ddr_meta_op *op);
/* Its request has ended with @result. True: the next one is under way. */
bool ddr_meta_stamp_next(struct ddr_meta_op *op, unsigned int member, int result);

#endif
