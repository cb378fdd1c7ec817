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
#define DDR_SCHED_PATIENCE_S	600u	/* so long the node whose turn it is may take to begin, before others go on without it */
#define DDR_SCHED_MOVES_MS	300000u	/* a verify that reads tells of it each minute, or when it reads again */

/* Hours of the day as one number: from the first one on until before the last one; a span may go over midnight. */
#define DDR_HOURS(from, to)	((uint64_t)(from) << 8 | (uint64_t)(to))

/* What one array is to the schedule. */
struct ddr_sched_array {
	uint8_t uuid[16];	/* orders those that are due at the same time, on all nodes alike */
	uint64_t due;		/* seconds since 1970 from which on it is to be verified; DDR_SCHED_NEVER */
	uint64_t ready_s;	/* for so many seconds nothing but its turn was missing */
	bool able;		/* nothing hinders it: whole, in its hours, none under way */
	bool ours;		/* this node would do it */
	bool reads;		/* a verify of it is reading now, on whichever node */
};

/*
 * The next time: @every seconds after the last one began, or, without one, after the array was made. @every 0: never.
 * What lies more than a day, or more than @every, after @now was written by a clock that went wrong, and counts as long ago.
 */
uint64_t ddr_sched_due(uint64_t created, uint64_t begun, uint64_t every, uint64_t now);
/* Is @hour (0 .. 23) within @hours? */
bool ddr_sched_open(uint64_t hours, unsigned int hour);
/*
 * Where a verify was seen last, which another node may carry out. Its hours are that node's, and so is whatever else it rests for: only that it comes
 * on is known here.
 */
struct ddr_sched_progress {
	uint32_t serial;
	uint64_t cursor, at_ms;	/* there since then; 0: never seen */
};

/* Does a verify that is under way read? It has come on within the last DDR_SCHED_MOVES_MS. */
bool ddr_sched_moves(struct ddr_sched_progress *p, uint32_t serial, uint64_t cursor, uint64_t now_ms);
/* The array that this node is to begin with now, or -1: the one that is due for longest, if not @parallel of them read already. */
int ddr_sched_pick(const struct ddr_sched_array *array, size_t n, uint64_t now, uint64_t parallel);

#endif
