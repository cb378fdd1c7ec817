/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * When which array is verified: the decision alone, without clock, disk or network.
 *
 * All nodes of a cluster decide for themselves, from what all of them know; each starts only what it would do itself.
 */
#ifndef DDR_LIB_SCHEDULE_H
#define DDR_LIB_SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DDR_SCHED_NEVER		UINT64_MAX
#define DDR_SCHED_PATIENCE_S	600u	/* time for the node whose turn it is to start, before others go first */
#define DDR_SCHED_MOVES_MS	300000u	/* a verify that reads reports progress each minute, or when it resumes */

/* Hours of the day as one number: from the first one on until before the last one; a span may go over midnight. */
#define DDR_HOURS(from, to)	((uint64_t)(from) << 8 | (uint64_t)(to))

/* One array, as the schedule sees it. */
struct ddr_sched_array {
	uint8_t uuid[16];	/* decides between arrays that are due at the same time, on all nodes alike */
	uint64_t due;		/* seconds since 1970 from which it is due; DDR_SCHED_NEVER */
	uint64_t ready_s;	/* for how many seconds only its turn has been missing */
	bool able;		/* it can be verified now: complete, in its hours, no verify in progress */
	bool ours;		/* this node would verify it */
	bool reads;		/* a verify of it is reading now, on any node */
};

/*
 * When the array is due next: @every seconds after the last verify started or, without one, after the array was
 * created. @every 0: never. A date that lies more than a day, or more than @every, after @now was written with a
 * wrong clock, and counts as long ago.
 */
uint64_t ddr_sched_due(uint64_t created, uint64_t begun, uint64_t every, uint64_t now);
/* Is @hour (0 .. 23) within @hours? */
bool ddr_sched_open(uint64_t hours, unsigned int hour);
/*
 * The last known position of a verify, which may run on another node. That node's hours and other reasons to pause are not known here, only
 * whether the verify makes progress.
 */
struct ddr_sched_progress {
	uint32_t serial;
	uint64_t cursor, at_ms;	/* reached at that time; 0: never seen */
};

/* Does a verify in progress read? That is, has it made progress within the last DDR_SCHED_MOVES_MS? */
bool ddr_sched_moves(struct ddr_sched_progress *p, uint32_t serial, uint64_t cursor, uint64_t now_ms);
/* The array that this node should start to verify now, or -1: the one that has been due for longest, unless @parallel arrays are being read already. */
int ddr_sched_pick(const struct ddr_sched_array *array, size_t n, uint64_t now, uint64_t parallel);

#endif
