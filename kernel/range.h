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
 * ddr_range_lock: if @r is not locked at once, @w waits for it, in the order of arrival. When that
 * wait is over ->locked is set, and the range is held; or it is clear, and the I/O has to ask
 * again (ddr_range_ask_again()).
 */
struct ddr_range {
	struct list_head	list;		/* in the bucket */
	u64			start;		/* block */
	u32			count;		/* blocks */
	u8			write;		/* 1: writer, 0: reader */
	u8			locked;		/* it is held; only its owner may look */
	struct ddr_wait		*wait;		/* while it is not locked */
	struct ddr_ex		*ex;		/* used by range.c; NULL: of an I/O */
};
int ddr_ranges_init(struct ddr_array *a);
/*
 * No daemon is left: ends its EX ranges. One that waited for another is notified through ctl_wq,
 * which must still exist. May sleep.
 */
void ddr_ranges_end(struct ddr_array *a);
/* ended, and ctl_wq is destroyed: no work of it may run */
void ddr_ranges_free(struct ddr_array *a);
enum ddr_turn ddr_range_lock(struct ddr_array *a, struct ddr_range *r, struct ddr_wait *w);
void ddr_range_unlock(struct ddr_array *a, struct ddr_range *r);	/* any context */
/* the wait of all that wait is over, except EX, and they have no range; may sleep */
void ddr_range_ask_again(struct ddr_array *a);
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
