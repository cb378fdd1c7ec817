/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the tests of the daemon's I/O on members share: an array whose members are files full of random bytes, with jobs and metadata
 * writes on it. Time stands still; outstanding I/O ends while the loop runs.
 */
#ifndef DDR_TESTS_UNIT_JOB_RIG_H
#define DDR_TESTS_UNIT_JOB_RIG_H

#include "daemon/base/daemon.h"
#include "daemon/disk/metaio.h"
#include "daemon/job/job.h"

#define BLOCKS		1024u
#define DATA_OFFSET	(1u << 20)
#define FIRST		100u		/* of the range: it crosses two turns of the roles */
#define COUNT		500u

struct rig {
	qb_loop_t *loop;
	struct ddr_super sb;
	struct ddr_geometry geo;
	struct ddr_members *members;
	struct ddr_job_stock *stock;
	struct ddr_jobs *jobs;
	struct ddr_job_result result;
	struct ddr_metaio *meta;
	struct ddr_still still;			/* of metadata */
	uint32_t meta_failed, meta_no_space, meta_returned;
	uint32_t meta_blamed;			/* by any report so far */
	unsigned int meta_reports;
	uint32_t gone;				/* members that are not in the array any more */
	int unable;				/* this process could not make requests: with this error */
	bool done;
	uint8_t *before[DDR_MAX_ROLES + 1];	/* and of a spare */
};

/* Bytes of a member's data area. */
size_t area(const struct rig *rig);

/* Member @m is a new, unlinked file. rig->before[m] is the content of its data area; the caller frees it. */
void make_member(struct rig *rig, unsigned int m);

/* An array of @order, @parity and @layout (DDR_LAYOUT_*) with a member for each role, and I/O by @engine (DDR_ENGINE_*). */
void rig_open(struct rig *rig, unsigned int order, unsigned int parity, unsigned int layout, uint64_t engine);

/* Nothing is under way. Members that are not roles keep their rig->before. */
void rig_close(struct rig *rig);

/* Does @r and waits for its end: rig->result. */
void run(struct rig *rig, struct ddr_job_range *r);

/* Resync (@repair) or verify of @count blocks from @start with @members (mask), each at its own place. */
void job(struct rig *rig, uint32_t members, uint64_t start, uint64_t count, bool repair);

/* Lets the loop run for @ms, or until something has ended. */
void loop_for(struct rig *rig, unsigned int ms);

#endif
