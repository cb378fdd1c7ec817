/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Work on a range of blocks that is held exclusively (EX): resync, verify and rebuild.
 *
 * Verify only compares, and needs no range held; with @fix it has one, and puts right what can be
 * told. Resync reads the members, computes parity from the data roles, writes parity where it
 * differs, and flushes what it wrote. Rebuild computes what one member should hold from as many
 * others as it takes, writes that and flushes it. It must never: write a data role of a member
 * that is in sync (but for a bad sector, and one that P and Q call wrong), write outside the range
 * or without EX (its caller has it), write parity of a stripe whose data it could not read, or
 * report a range as done before its writes are flushed.
 *
 * Its I/O has a queue of its own, apart from the dirty log's. All functions belong to
 * the loop's thread.
 */
#ifndef DDR_DAEMON_JOB_H
#define DDR_DAEMON_JOB_H

#include <stdint.h>

#include <qb/qbloop.h>

#include "daemon/disk/members.h"
#include "lib/cluster/sm.h"
#include "lib/disk/format.h"

#define DDR_JOB_BLOCKS_MAX	512u	/* blocks of one range: 2 MiB of the device */
#define DDR_JOB_PARALLEL	14u	/* ranges in work at once */
/*
 * So many of them need no memory when they start: writers wait for a range in work, and whoever wants memory may wait for
 * those. More than resync_parallel is at first (2); whoever sets it above this makes the rest at their first use.
 */
#define DDR_JOB_PREPARED	4u

struct ddr_jobs;

struct ddr_job_result {
	uint64_t io;
	/*
	 * 0: done and flushed. -ENODATA, -EILSEQ: the members in failed could not read some of
	 * the blocks (bad sectors). -ENOSPC: they had no space for what was to be
	 * written, and are there: it is to be done again. Another negative errno: the members in failed failed a
	 * request or did not end it in time; none: the range was refused.
	 */
	int result;
	uint32_t failed;	/* bit m: member m */
	uint32_t hard;		/* of these: those that failed a write or a flush, or did not end one in time (-ETIMEDOUT: it may still be carried out) */
	uint32_t flush;		/* of these: those that failed a flush, or did not end one in time */
	uint64_t mismatches;	/* blocks whose parity differed; of a rebuild 0; of a fix: that stay so */
	uint64_t bad_start, bad_count;	/* blocks from the first that differed to the last; or 0 */
	uint64_t repaired;	/* of a fix: blocks put right ... */
	struct ddr_fixed fixed[DDR_MAX_MEMBERS];	/* ... where, by member */
	uint64_t us;		/* microseconds that it took */
	bool scan;		/* the range was @unlocked: verify */
	uint64_t blocks;	/* of the range */
};

struct ddr_jobs_config {
	qb_loop_t *loop;
	uint64_t engine;			/* enum ddr_conf_engine */
	struct ddr_members *members;		/* a reference is taken */
	const struct ddr_super *super;		/* geometry; copied */
	/* Called once for each range, from the loop; must not close. */
	void (*done)(void *ctx, const struct ddr_job_result *r);
	void *ctx;
};

int ddr_jobs_open(struct ddr_jobs **out, const struct ddr_jobs_config *cfg);
/* The array has so many blocks from now on. */
void ddr_jobs_resize(struct ddr_jobs *j, uint64_t blocks);
/*
 * No done() is called any more, and no range goes on to its next step. Memory and members go with the last request in
 * flight, and the members are told of each (ddr_members_keep()).
 */
void ddr_jobs_close(struct ddr_jobs *j);

struct ddr_job_range {
	uint64_t io;		/* named in the result */
	uint64_t start, count;	/* blocks, at most DDR_JOB_BLOCKS_MAX */
	uint32_t members;	/* bit m: member m is in sync for the range */
	uint32_t fix;		/* DDR_FIX_*; @repair and @rebuild are not set */
	bool repair;		/* write parity where it differs; else only compare */
	bool rebuild;		/* compute and write what @target holds; @repair does not count */
	uint32_t target;
	/*
	 * @target replaces the member @from: it gets a copy of it; without @rebuild, of what is there then. A rebuild computes from the
	 * others, block by block, what cannot be read there. What cannot be had at all is not written, and is the result; all else is written.
	 */
	bool copy;
	uint32_t from;
	bool strict;		/* a read that fails with a plain I/O error is no bad sector: nothing is computed where this one reads */
	bool unlocked;		/* nobody waits for it: it only reads, without EX */
	bool idle;		/* @unlocked, and read only while the disks have nothing else to do (io_uring alone can) */
	uint8_t at[DDR_MAX_ROLES];	/* the member at each place of the stripe, 0xff: none */
};

/* Starts a range; a member may take @timeout_ms to answer, in each of its steps. What is wrong with it comes by done(), at the next ddr_jobs_tick() at the latest. */
void ddr_jobs_range(struct ddr_jobs *j, const struct ddr_job_range *r, uint64_t now_ms, uint64_t timeout_ms);
/* No range is under way. */
bool ddr_jobs_idle(const struct ddr_jobs *j);
/* Is a request to this descriptor under way? What begins later goes to the one that the member has then. */
bool ddr_jobs_use(const struct ddr_jobs *j, int fd);
/* Members that have a request under way, also of ranges that were reported: it may still be carried out. */
uint32_t ddr_jobs_asked(const struct ddr_jobs *j);
/* Of these, those to which a write is under way: what a read or a flush that comes late does harms nobody. */
uint32_t ddr_jobs_writes(const struct ddr_jobs *j);
/* This process stood still for so long: nothing that ended meanwhile was seen, and all have so much more time. Before ddr_jobs_tick(). */
void ddr_jobs_delay(struct ddr_jobs *j, uint64_t ms);
/* Reports ranges one of whose members is over its time; call it every now and then. */
void ddr_jobs_tick(struct ddr_jobs *j, uint64_t now_ms);

#endif
