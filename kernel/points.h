/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Points at which tests cause rare events: an allocation fails, a member operation fails or ends
 * late, a thread waits between two steps. Only the module that the tests build has them
 * (DDR_TEST_POINTS, dm-ddraid-points.ko); in the installed one they are empty. tests/vm/README
 * describes how tests use them.
 */
#ifndef DDR_POINTS_H
#define DDR_POINTS_H

#include <linux/blk_types.h>
#include <linux/types.h>

/* points.c has their names. */
enum ddr_point {
	DDR_PT_ALLOC,	/* an allocation of a table, an array, a channel or a command: may fail */
	DDR_PT_PAGE,	/* memory for a buffer that is requested without waiting: may fail */
	DDR_PT_BUFFER,	/* an I/O has its range and is about to take its buffer */
	/* a write has checked the gate for the last time, and sends next */
	DDR_PT_WRITE_GATE,
	DDR_PT_FLUSH_GATE,	/* the same for a flush */
	DDR_PT_READ_GATE,	/* the same for a read */
	DDR_PT_RANGE_STEP,	/* a range in a list is examined: only counts */
	DDR_PT_TURNING_AWAY,	/* an I/O found the gate shut, and is about to start again */
	/* a bio was turned away and starts again elsewhere; what follows may not use it */
	DDR_PT_TURNED_AWAY,
	/* a write was parked on its region; what follows may only use the array */
	DDR_PT_REGION_PARKED,
	DDR_PT_MEMBER_READ,	/* a member has ended an operation: its status may be replaced */
	DDR_PT_MEMBER_WRITE,
	DDR_PT_MEMBER_ZEROES,
	DDR_PT_MEMBER_FLUSH,
	DDR_NR_POINTS
};

#ifdef DDR_TEST_POINTS
/* process context: waits while the point is held */
void ddr_point_wait(enum ddr_point p);
bool ddr_point_fails(enum ddr_point p);				/* any context */
/* Any context: returns a status in place of @status; @role: of the operation. */
blk_status_t ddr_point_status(enum ddr_point p, unsigned int role, blk_status_t status);
#else
static inline void ddr_point_wait(enum ddr_point p) { }
static inline bool ddr_point_fails(enum ddr_point p) { return false; }
static inline blk_status_t ddr_point_status(enum ddr_point p, unsigned int role,
					    blk_status_t status)
{
	return status;
}
#endif

/* An allocation that returns a pointer, or one that returns 0 or an error. */
#define ddr_alloc(expr)		(ddr_point_fails(DDR_PT_ALLOC) ? NULL : (expr))
/* The same for memory that is requested without waiting. */
#define ddr_alloc_now(expr)	(ddr_point_fails(DDR_PT_PAGE) ? NULL : (expr))
#define ddr_alloc_int(expr)	(ddr_point_fails(DDR_PT_ALLOC) ? -ENOMEM : (expr))

#endif
