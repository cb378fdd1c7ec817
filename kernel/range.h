/* SPDX-License-Identifier: GPL-2.0-only */
/* Block ranges in flight on this node, and EX. */
#ifndef DDR_RANGE_H
#define DDR_RANGE_H

#include "record.h"

/*
 * Block ranges in flight on this node, in buckets by unit (block >> DDR_GEO_UNIT_SHIFT), with
 * one spinlock per bucket. A range never spans two units. Writers exclude writers, EX and
 * reconstructing readers where they overlap; readers share. A bio holds one range at a time,
 * otherwise EX may deadlock with it.
 *
 * ddr_range_lock returns 0: locked. -EINPROGRESS: queued in arrival order, @wake runs on @wq,
 * once. -EAGAIN: it would wait, but the array is killed or in a noflush suspend: give the region
 * back, then end the bio or start it again, as ddr_array_bounces() says. -ENOTCONN: the same, or
 * there is no daemon to end the EX range that it would wait for, and I/O fails without one: do
 * the same, and pass this on to ddr_array_bounces(). @wake finds ->locked set: the range is held
 * now; or clear: the wait was cancelled, act as for -EAGAIN.
 */
struct ddr_range {
	struct list_head	list;		/* in the bucket */
	u64			start;		/* block */
	u32			count;		/* blocks */
	u8			write;		/* 1: writer, 0: reader */
	u8			locked;
	struct work_struct	work;
	struct workqueue_struct	*wq;		/* where it is woken */
	work_func_t		wake;		/* of @work; NULL: a piece of an EX range */
	struct ddr_ex		*ex;		/* used by range.c */
};
int ddr_ranges_init(struct ddr_array *a);
/*
 * No daemon is left: ends its EX ranges. One that waited for another is notified through ctl_wq,
 * which must still exist. May sleep.
 */
void ddr_ranges_end(struct ddr_array *a);
/* ended, and ctl_wq is destroyed: no work of it may run */
void ddr_ranges_free(struct ddr_array *a);
int ddr_range_lock(struct ddr_array *a, struct ddr_range *r);
void ddr_range_unlock(struct ddr_array *a, struct ddr_range *r);	/* any context */
/* all waiters except EX get their wake with locked clear; may sleep */
void ddr_range_cancel_waiting(struct ddr_array *a);
/*
 * EX: blocks start..+count (any number of units, at most DDR_EX_MAX_BLOCKS). Sends DRAINED seq
 * once nothing of this node writes there, or reads there to reconstruct. It queues like a
 * writer: a write that waits for DDR_U_RESOLVE keeps its range, and EX waits for it. Under
 * ctl_mutex; may sleep, does not wait for writes.
 *
 * -EEXIST the seq is in use, -ENOSPC too many ranges, -ERANGE outside the device, -ENOMEM.
 */
#define DDR_EX_MAX_BLOCKS	(1u << 18)
#define DDR_EX_MAX		128u
int ddr_range_drain(struct ddr_array *a, u64 seq, u64 start, u64 count);
int ddr_range_release(struct ddr_array *a, u64 seq);	/* -ENOENT; may sleep */
/*
 * A new daemon does not know the EX ranges of the old one, whose job may still have writes to
 * members in flight: they stay until the new one sends ENABLE, which it does after those writes
 * have ended. They do not count against its DDR_EX_MAX, but there are at most twice as many in
 * all; a range that lies in an older one is dropped. May sleep.
 */
void ddr_range_orphan_all(struct ddr_array *a);
void ddr_range_release_orphans(struct ddr_array *a);

#endif
