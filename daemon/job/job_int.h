/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Internal to job*.c. Here a member is identified by its place in the stripe. The files from the lowest layer to the highest, each
 * calling only lower ones: job_stock.c and job_request.c; job_rebuild.c; job_resync.c; job_copy.c and job_fix.c; job.c.
 */
#ifndef DDR_DAEMON_JOB_INT_H
#define DDR_DAEMON_JOB_INT_H

#include "daemon/disk/aio.h"
#include "daemon/job/job.h"
#include "lib/math/parity.h"

/* parity writes of a range: at most two for each part of it with the same rotation of roles */
#define SEGMENTS_MAX	(DDR_JOB_BLOCKS_MAX / (1u << DDR_GEO_UNIT_SHIFT) + 1)
#define REQUESTS_MAX	16u
_Static_assert(REQUESTS_MAX >= SEGMENTS_MAX * DDR_MAX_PARITY, "room for all writes of a range");
_Static_assert(REQUESTS_MAX >= DDR_MAX_ROLES, "room for all reads of a range");

#define DDR_JOB_COPY	DDR_MAX_ROLES	/* as a place: the disk that replaces the one at the target */

enum ddr_job_step { STEP_FREE, STEP_READ, STEP_PIECES, STEP_OTHERS, STEP_RUNS, STEP_WRITE, STEP_FLUSH, STEP_CHECK, STEP_REPORT };

/* The memory of one range. */
struct ddr_job_memory {
	struct ddr_job_memory *next;
	size_t size;
	bool used;
	uint8_t *at;
};

struct ddr_job_work {
	struct ddr_jobs *j;
	enum ddr_job_step step;
	struct ddr_job_range what;
	struct ddr_job_result result;
	uint64_t deadline_ms, timeout_ms;
	bool renew;				/* another step has started: from the next tick on it has the full time limit again */
	bool reported;
	unsigned int waiting;			/* requests of this step that have not ended */
	uint32_t readable;			/* places whose members hold valid contents */
	unsigned int target;			/* the place that is rebuilt, or copied */
	bool copy;				/* what.target replaces the member at that place */
	uint32_t unread;			/* places on which a read of this step failed */
	uint32_t plain;				/* members whose read failed with a plain I/O error */
	uint32_t written;			/* places that were written, to be flushed */
	uint32_t rewritten;			/* of these: rewritten bad sectors, to be read back */
	size_t from[DDR_MAX_ROLES], to[DDR_MAX_ROLES];	/* by place: the bytes that a fix changed; from >= to: none */
	/* for a copy of a disk with bad sectors */
	uint64_t lacks[DDR_JOB_BLOCKS_MAX / 64];	/* bit b: block b of the range is missing */
	uint32_t next;				/* the next block of the range */
	uint32_t dropped;			/* places whose chunk of that block cannot be read either */
	uint32_t unreadable;			/* members with an unreadable chunk that is missing in the end */
	uint64_t began_us;
	struct ddr_job_memory *memory;		/* holds all of these: */
	uint8_t *piece[DDR_MAX_ROLES];		/* by place: its part of the range */
	uint8_t *calc[DDR_MAX_PARITY];		/* the correct parity; in a rebuild: scratch space for roles that are not needed */
	struct ddr_aio_req req[REQUESTS_MAX];
	uint32_t req_place[REQUESTS_MAX];
	unsigned int n_req;
};

struct ddr_jobs {
	struct ddr_jobs_config cfg;
	struct ddr_geometry geo;
	uint64_t data_offset;		/* bytes */
	uint64_t blocks;
	struct ddr_aio *aio;
	void (*ended)(struct ddr_job_work *r);	/* all requests of a step have ended */
	bool closing;
	unsigned int busy;
	struct ddr_job_work range[DDR_JOB_PARALLEL];
	/*
	 * Ranges without a free entry (requests that hang hold them all); the next tick reports them. The state machine never has
	 * more than this many.
	 */
	uint64_t refused[DDR_JOB_PARALLEL];
	unsigned int n_refused;
};

/* The number of bytes that a member holds of the range. */
static inline size_t ddr_job_bytes(const struct ddr_job_work *r)
{
	return (size_t)r->what.count * r->j->geo.chunk;
}

/* ---- job_stock.c ----------------------------------------------------------------- */

/*
 * An array starts, whose ranges need @size bytes each: allocates what is to be prepared. A negative errno: there is not enough memory,
 * and the array does not count.
 */
int ddr_job_stock_join(struct ddr_job_stock **stock, size_t size);
/* None of its ranges has memory any more. The last one frees the stock. */
void ddr_job_stock_leave(struct ddr_job_stock **stock);
/* Memory of @size bytes or more, which is allocated if none is left; NULL: it could not be. The range sets used to false when it has ended. */
struct ddr_job_memory *ddr_job_stock_take(struct ddr_job_stock *s, size_t size);

/* ---- job_request.c --------------------------------------------------------------- */

/* Starts the next step; its requests are added after this. */
void ddr_job_step(struct ddr_job_work *r, enum ddr_job_step step);
/* @from and @len: bytes of the place's piece. */
void ddr_job_request(struct ddr_job_work *r, enum ddr_aio_op op, unsigned int place, size_t from, size_t len);
/* The same, from or to @buf. */
void ddr_job_buffer(struct ddr_job_work *r, enum ddr_aio_op op, unsigned int place, size_t from, size_t len, uint8_t *buf);

typedef void (*ddr_job_segment_fn)(struct ddr_job_work *r, uint64_t block, size_t from, size_t len, void *ctx);
/* Calls @fn for each run of blocks with the same rotation of roles. @from and @len: bytes of a piece. */
void ddr_job_segments(struct ddr_job_work *r, ddr_job_segment_fn fn, void *ctx);
/* Does this error of a read mean that the blocks are bad, not the member? */
bool ddr_job_bad_sector(int error);
/* The other members do not suffice for what could not be read: reports those that may be gone as failed. */
void ddr_job_too_few(struct ddr_job_work *r);
/* The failure of this process (a negative errno) for which a request waits to be sent again; 0: none. */
int ddr_job_own(const struct ddr_job_work *r);
/* What has not ended is not begun any more, nor again: others may work on the range from now on. */
void ddr_job_give_up(struct ddr_job_work *r);
/* Reports members that did not answer as failed. */
void ddr_job_late(struct ddr_job_work *r);

/* ---- job_resync.c ---------------------------------------------------------------- */

/*
 * Computes the parity of one segment; if the range is a resync, writes it where it differs. @ctx: one byte for each block, set if it
 * differs.
 */
void ddr_job_check(struct ddr_job_work *r, uint64_t block, size_t from, size_t len, void *ctx);
/* Enters the blocks marked in @diff into the result. */
void ddr_job_differing(struct ddr_job_work *r, const uint8_t *diff);

/* All was read: compares, and writes what differs if the range is a resync. */
void ddr_job_compare(struct ddr_job_work *r);

/* ---- job_rebuild.c --------------------------------------------------------------- */

/* The places to read for the contents of the target; false: they do not suffice. */
bool ddr_job_sources(struct ddr_job_work *r, uint32_t *places);
/*
 * If one role is lost and there are two parities, more can be read than is needed: this role is computed as well, to see whether all of it fits together.
 * Otherwise a chunk that is wrong without an error would make the lost one wrong, too. -1: nothing is to spare, or the parity need not match there.
 */
int ddr_job_to_compare(const struct ddr_job_work *r, uint32_t lost);
/* The places to read for the contents of the target at @block, if those in @readable can be; 0: they do not suffice. */
uint32_t ddr_job_needs(const struct ddr_job_work *r, uint32_t readable, uint64_t block);
/*
 * Computes them, for blocks with the same rotation of roles, from what ddr_job_needs() names. The result counts the blocks that do not fit with what is to
 * spare. @from and @len: bytes of a piece.
 */
void ddr_job_compute(struct ddr_job_work *r, uint32_t readable, uint64_t block, size_t from, size_t len);
/* All was read: computes and writes the contents of the target. */
void ddr_job_rebuild(struct ddr_job_work *r);
/* The whole piece of the replaced member was read: writes it to the one that replaces it. */
void ddr_job_copy_whole(struct ddr_job_work *r);

/* ---- job_copy.c ----------------------------------------------------------------- */

/* All requests of a step have ended: does it belong to a copy with bad sectors, and were new requests started? */
bool ddr_job_copy_step(struct ddr_job_work *r);
/* It was flushed: the result reports whether a block is missing. */
void ddr_job_copy_end(struct ddr_job_work *r);

/* ---- job_fix.c ------------------------------------------------------------------ */

/* All could be read: finds the blocks that do not match and what is wrong, and adds the writes. */
void ddr_job_fix_wrong(struct ddr_job_work *r);
/* One block with some unreadable chunks: computes them from the others, and adds the writes. False: these do not suffice. */
bool ddr_job_fix_unread(struct ddr_job_work *r);
/* Reads back what was rewritten (at most as many places as there is parity), and compares it. */
void ddr_job_read_back(struct ddr_job_work *r);
void ddr_job_check_back(struct ddr_job_work *r);

#endif
