/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Work on a range of blocks that is held exclusively (EX): resync, verify and rebuild.
 *
 * Verify only compares, and does not need to hold the range; with @fix it holds it, and corrects what can be identified as wrong.
 * Resync reads the members, computes parity from the data roles, writes parity where it differs, and flushes what it wrote. Rebuild
 * computes the contents of one member from as many others as it needs, writes them and flushes; with DDR_FIX_FITS it reads one more if
 * there is one, and says which blocks do not fit together. It must never: write a data role of a member that is in sync (except a bad
 * sector, or one that P and Q show to be wrong), write anything computed from a member that has left the array meanwhile, write outside of the range or without EX (which its caller holds), write parity of a
 * stripe whose data it could not read, or report a range as done before its writes are flushed.
 *
 * Its I/O has a queue of its own, apart from the dirty log's. All functions belong to the loop's thread.
 */
#ifndef DDR_DAEMON_JOB_H
#define DDR_DAEMON_JOB_H

#include <stdint.h>

#include <qb/qbloop.h>

#include "daemon/disk/members.h"
#include "lib/cluster/sm.h"
#include "lib/disk/format.h"

#define DDR_JOB_BLOCKS_MAX	512u	/* blocks of one range: 2 MiB of the device */
#define DDR_JOB_PARALLEL	14u	/* ranges in progress at the same time */
/*
 * This many of them need no memory when they start: writers wait for a range in progress, and an allocation may wait for those
 * writers. It is more than the default of resync_parallel (2); with a higher setting the others allocate at their first use. That is for
 * one array; each further one of the daemon adds one, up to eight for all (job_stock.c).
 */
#define DDR_JOB_PREPARED	4u

struct ddr_jobs;
struct ddr_job_stock;

struct ddr_job_result {
	uint64_t io;
	/*
	 * 0: done and flushed. -ENODATA, -EILSEQ: the members in failed could not read some of the blocks (bad sectors). -ENOSPC:
	 * they exist, but had no space for what was written: the range must be repeated. Another negative errno: the members in
	 * failed returned an error, or did not answer in time; if there are none, the range was refused (-ESTALE: a member that it had read has left the
	 * array; of a copy some may be written).
	 */
	int result;
	uint32_t failed;	/* bit m: member m */
	uint32_t hard;		/* of these: those whose write or flush failed, or did not end in time (-ETIMEDOUT: it may still be carried out) */
	uint32_t flush;		/* of these: those whose flush failed, or did not end in time */
	uint64_t mismatches;	/* blocks whose parity differed; of a rebuild: what they were computed from differs; of a fix: those that stay wrong */
	uint64_t bad_start, bad_count;	/* blocks from the first to the last that differed; or 0 */
	uint64_t repaired;	/* of a fix: corrected blocks ... */
	struct ddr_fixed fixed[DDR_MAX_MEMBERS];	/* ... and where, by member */
	uint64_t us;		/* duration in microseconds */
	bool scan;		/* the range was @unlocked: a read of verify */
	uint64_t blocks;	/* in the range */
};

struct ddr_jobs_config {
	qb_loop_t *loop;
	uint64_t engine;			/* enum ddr_conf_engine */
	struct ddr_members *members;		/* a reference is taken */
	struct ddr_still *still;		/* while it holds, nothing is begun; NULL: never */
	const struct ddr_super *super;		/* geometry; copied */
	struct ddr_job_stock **stock;		/* memory, shared by all arrays; NULL until the first one starts */
	/* Called once for each range, from the loop; must not close. */
	void (*done)(void *ctx, const struct ddr_job_result *r);
	void (*unable)(void *ctx, int error);	/* as in struct ddr_metaio_config */
	/* Bit m: member m is in the array now, by the group. What was read of another one counts no more: it may have lost writes. NULL: all always are. */
	uint32_t (*valid)(void *ctx);
	void *ctx;
};

int ddr_jobs_open(struct ddr_jobs **out, const struct ddr_jobs_config *cfg);
/* The array has this many blocks from now on. */
void ddr_jobs_resize(struct ddr_jobs *j, uint64_t blocks);
/*
 * done() is not called any more, and no range continues with its next step. Memory and members are freed with the last request in
 * flight; ddr_members_keep() is called as requests end.
 */
void ddr_jobs_close(struct ddr_jobs *j);

struct ddr_job_range {
	uint64_t io;		/* identifies it in the result */
	uint64_t start, count;	/* blocks, at most DDR_JOB_BLOCKS_MAX */
	uint32_t members;	/* bit m: member m is in sync for the range */
	uint32_t fix;		/* DDR_FIX_*; @repair and @rebuild are not set. With @rebuild only DDR_FIX_FITS */
	bool repair;		/* write parity where it differs; else only compare */
	bool rebuild;		/* compute and write the contents of @target; @repair is ignored */
	uint32_t target;
	/*
	 * @target replaces the member @from: it gets a copy of it (without @rebuild: of what is there at that moment). A rebuild
	 * computes the blocks that cannot be read from the others. Blocks that cannot be computed either are not written, and are
	 * reported in the result; all others are written.
	 */
	bool copy;
	uint32_t from;
	bool strict;		/* a plain I/O error of a read is not a bad sector: nothing may be computed in its place */
	bool unlocked;		/* nothing waits for it: it only reads, without EX */
	bool idle;		/* with @unlocked: read only while the disks are otherwise idle (only io_uring can do that) */
	uint8_t at[DDR_MAX_ROLES];	/* the member at each place of the stripe; 0xff: none */
};

/*
 * Starts a range. A member may take up to @timeout_ms to answer in each step. Errors are reported by done(), at the next
 * ddr_jobs_tick() at the latest.
 */
void ddr_jobs_range(struct ddr_jobs *j, const struct ddr_job_range *r, uint64_t now_ms, uint64_t timeout_ms);
/* Is no range in progress? */
bool ddr_jobs_idle(const struct ddr_jobs *j);
/* Is a request to this descriptor in progress? Later requests go to the descriptor that the member has then. */
bool ddr_jobs_use(const struct ddr_jobs *j, int fd);
/* Members with a request in progress, also in ranges that were reported: it may still be carried out. */
uint32_t ddr_jobs_asked(const struct ddr_jobs *j);
/* Of these, members with a write in progress: a late read or flush does no harm. */
uint32_t ddr_jobs_writes(const struct ddr_jobs *j);
/*
 * This process stood still for @ms: nothing that ended meanwhile was noticed, so all get that much more time. Call it before
 * ddr_jobs_tick().
 */
void ddr_jobs_delay(struct ddr_jobs *j, uint64_t ms);
/* Reports ranges in which a member is late; call it regularly. */
void ddr_jobs_tick(struct ddr_jobs *j, uint64_t now_ms);

#endif
