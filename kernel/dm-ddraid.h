/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dm-ddraid: structures and the contracts between the parts of the target.
 *
 *	target.c	table, ctr/dtr, map, suspend/resume, status, message, io_hints
 *	array.c		the array object: registry by uuid, member states, reference counts
 *	region.c	grants: a flat array of atomics, parked writes, read-ahead of grants, REAP
 *	range.c		block ranges in flight on this node: overlap order, EX (DRAIN/RELEASE)
 *	channel.c	/dev/ddraid: control and channel descriptors, records in and out
 *	io.c		.map, admission of a bio, its member bios, generations	(I/O engine; its private contract: io.h)
 *	write.c		full-stripe writes, write-zeroes
 *	read.c		reads, reconstruction, verify_reads
 *	flush.c		flush fan-out
 *	error.c		classes of member errors, ERROR/RESOLVE parking
 *	pages.c		gather buffers
 *	parity.c	glue to the kernel's xor and raid6 libraries
 *	compat/		differences between kernels, nowhere else
 *
 * The order in which a write takes things, and gives them back in reverse:
 * array open (not frozen, enabled) -> region reference -> range -> pages -> member bios.
 */
#ifndef DM_DDRAID_H
#define DM_DDRAID_H

#include <linux/atomic.h>
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/device-mapper.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mempool.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/uuid.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include <ddraid/uapi.h>
#include "lib/geometry.h"

#define DM_MSG_PREFIX "ddraid"

#define DDR_BLOCK_SECTORS	8u	/* sectors in a block */
#define DDR_UNIT_SECTORS	2048u	/* a bio never crosses a multiple of it: one role map, one range bucket */

struct ddr_array;
struct ddr_channel;

/* One member as the table names it; belongs to a target instance (struct ddr_target). */
struct ddr_dev {
	struct dm_dev	*dm;		/* NULL: '-' in the table */
};

/* State of one member, belongs to the array; read locklessly, written under array->lock. */
struct ddr_member {
	u32		state;		/* enum ddr_kmember; READ_ONCE */
	u64		cursor;		/* blocks; valid for reads below it when rebuilding */
	atomic_t	err_read, err_write;
};

/* Flags of struct ddr_array, atomic bit operations. */
enum {
	DDR_A_ENABLED,		/* the daemon delivered the state (or the array is nosync) */
	DDR_A_FROZEN_WRITES,
	DDR_A_FROZEN_READS,
	DDR_A_DETACHED,		/* no daemon, or it was silent for longer than the timeout */
	DDR_A_WRITES_STOPPED,	/* detached for longer than the bound: rule 7 */
	DDR_A_KILLED,		/* for good: all I/O fails */
	DDR_A_NOFLUSH_SUSPEND,	/* park lists were handed back to dm; later arrivals too */
};

/*
 * The array object: everything that has to survive a table reload. Found by uuid
 * in a registry, counted by references (targets, channel, requests in flight), bound
 * to one mapped device. nosync arrays without a uuid have one too, out of the registry.
 */
struct ddr_array {
	struct kref		kref;
	struct list_head	registry;	/* under the registry mutex */
	uuid_t			uuid;
	u64			cookie;		/* instance number, never reused within a boot */
	struct mapped_device	*md;		/* identity only, no reference */
	struct ddr_geometry	geo;
	u64			blocks;		/* length of the device */
	u32			region_blocks_shift;	/* log2(blocks in a region) */
	u64			regions;	/* regions, the last may be partial */
	sector_t		data_offset;	/* sectors */
	bool			nosync;
	unsigned long		flags;		/* DDR_A_* */
	spinlock_t		lock;		/* members, parked list, channel pointer; irq-safe, never held over submission */
	struct ddr_member	member[DDR_GEO_MAX_ROLES];
	struct ddr_target __rcu	*active;	/* the instance whose devices are used */
	struct bio_list		parked;		/* bios that wait for ENABLE, THAW or a daemon; under lock */
	atomic_t		nr_parked;	/* all parked bios: here, in region.c and in error.c */
	struct ddr_regions	*regions_state;	/* region.c */
	struct ddr_ranges	*ranges;	/* range.c */
	struct ddr_engine	*engine;	/* io.c: open member errors, generations of member states */
	struct ddr_channel	*channel;	/* channel.c; NULL: no daemon; under lock */
	u64			epoch;		/* of the last bind; under lock */
	struct workqueue_struct	*io_wq;		/* reconstruction, completion with errors */
	struct workqueue_struct	*ctl_wq;	/* channel answers, release of parked bios */
	/* for the status line, from DDR_U_STATUS; under lock */
	u32			action;
	u64			done, todo, synced, mismatches;
	atomic64_t		verify_mismatches;	/* nosync: counted only */
};

/* One target instance = one table. */
struct ddr_target {
	struct dm_target	*ti;
	struct ddr_array	*array;
	struct ddr_dev		dev[DDR_GEO_MAX_ROLES];
	u32			roles;
	bool			nosync, nocalc, verify_reads, fail_if_no_daemon;
	u32			present;	/* bitmap of the members that have a device */
	mempool_t		bufs[2];	/* pages.c: struct ddr_buf, small and large */
	mempool_t		pages;		/* pages.c: reserve for the largest I/O */
	struct mutex		pages_lock;	/* whoever takes several pages of the reserve */
	struct work_struct	event;		/* dm_table_event() */
};

/* ---- array.c ------------------------------------------------------------------- */

/*
 * Finds or makes the array of @uuid for mapped device @md; may sleep. -EBUSY if it is
 * bound to another mapped device, -EINVAL if the geometry differs. A reference is taken.
 */
struct ddr_array *ddr_array_get(const uuid_t *uuid, struct mapped_device *md, const struct ddr_geometry *geo,
				u64 blocks, u32 region_sectors, sector_t data_offset, bool nosync);
struct ddr_array *ddr_array_find(const uuid_t *uuid);	/* with a reference, or NULL; may sleep */
void ddr_array_put(struct ddr_array *a);		/* may be called from any context; frees from a work item */
/* Calls @fn for each registered array under the registry mutex; may sleep. */
void ddr_array_for_each(void (*fn)(struct ddr_array *a, void *data), void *data);

/* May @bio (data direction @write) run now? true: run. false: it was parked (or ended), the caller returns DM_MAPIO_SUBMITTED. */
bool ddr_array_admit(struct ddr_array *a, struct bio *bio, bool write);
/* Puts all bios of the parked list through ddr_target_map_parked() again, from ctl_wq. Any context. */
void ddr_array_kick(struct ddr_array *a);
/* noflush suspend: hand all parked bios (here, region.c, error.c) back with BLK_STS_DM_REQUEUE; may sleep. */
void ddr_array_requeue_parked(struct ddr_array *a);
void ddr_array_kill(struct ddr_array *a);		/* all parked bios fail, all later ones too; may sleep */

/* Usable bitmaps for one block, by role, in the geometry's turn: members that are read from / written to. */
u32 ddr_array_read_mask(struct ddr_array *a, u64 block);
u32 ddr_array_write_mask(struct ddr_array *a, u64 block);

/* ---- region.c ------------------------------------------------------------------ */

/*
 * One atomic word a region: GRANTED, TOUCHED, ERROR, and the number of writes in flight.
 * ddr_region_get: true and counted if the region is granted. Otherwise @bio is parked on it, a LOCK request is queued
 * if none is under way, and false is returned; the bio comes back through ddr_io_resubmit() after GRANT, or ends on REFUSE.
 * One atomic operation in the fast path, no lock. Any context that may submit bios.
 */
int ddr_regions_init(struct ddr_array *a);		/* kvzalloc; may sleep */
void ddr_regions_free(struct ddr_array *a);
bool ddr_region_get(struct ddr_array *a, u64 region, struct bio *bio);
/* @error: a member write of this bio did not succeed and its failure was not agreed: the region must be resynced. Any context. */
void ddr_region_put(struct ddr_array *a, u64 region, bool error);
void ddr_region_grant(struct ddr_array *a, u64 start, u64 count);	/* process context; runs parked bios from ctl_wq */
void ddr_region_refuse(struct ddr_array *a, u64 start, u64 count, int error);
/* Closes up to @max idle grants, emitting CLOSED runs through ddr_channel_queue(), then REAPED; may sleep. */
void ddr_region_reap(struct ddr_array *a, u64 seq, u64 max);
/* Closes the grants start..+count (new writes park), waits until their writes ended, emits CLOSED runs. From ctl_wq. */
void ddr_region_revoke(struct ddr_array *a, u64 start, u64 count);
/* Emits HELD runs and HELD_END, then re-queues LOCK for all that wait (DDR_F_RESENT). From bind; may sleep. */
void ddr_region_declare(struct ddr_array *a);
u64 ddr_region_granted_count(struct ddr_array *a);
void ddr_region_set_bits(struct ddr_array *a, u64 start, u64 count, u32 bits);	/* DDR_RB_* */
u32 ddr_region_bits(struct ddr_array *a, u64 region);
void ddr_region_requeue_parked(struct ddr_array *a, blk_status_t status);	/* ends all bios parked on regions */

/* ---- range.c ------------------------------------------------------------------- */

/*
 * Block ranges in flight on this node, in buckets by unit (block >> DDR_GEO_UNIT_SHIFT), one spinlock a bucket.
 * A range never crosses a unit. Writers exclude writers, EX and reconstructing readers where they overlap; readers share.
 * ddr_range_lock: 0: locked. -EINPROGRESS: queued in arrival order, @wake is called from ctl_wq once locked.
 */
struct ddr_range {
	struct list_head	list;		/* in the bucket */
	u64			start;		/* block */
	u32			count;		/* blocks */
	u8			write;		/* 1: writer, 0: reader */
	u8			locked;
	struct work_struct	work;
	void			(*wake)(struct ddr_range *r);
};
int ddr_ranges_init(struct ddr_array *a);
void ddr_ranges_free(struct ddr_array *a);
int ddr_range_lock(struct ddr_array *a, struct ddr_range *r);
void ddr_range_unlock(struct ddr_array *a, struct ddr_range *r);	/* any context */
/*
 * EX: blocks start..+count (any number of units, at most DDR_EX_MAX_BLOCKS). Emits DRAINED seq once nothing of this node writes there.
 * -EEXIST the seq is in use, -ENOSPC too many ranges, -ERANGE outside the device. May sleep.
 */
#define DDR_EX_MAX_BLOCKS	(1u << 18)
int ddr_range_drain(struct ddr_array *a, u64 seq, u64 start, u64 count, bool revoke);
int ddr_range_release(struct ddr_array *a, u64 seq);	/* -ENOENT; may sleep */
void ddr_range_release_all(struct ddr_array *a);	/* a new bind starts without EX; may sleep */

/* ---- channel.c ----------------------------------------------------------------- */

int ddr_channel_init(void);			/* misc device */
void ddr_channel_exit(void);
/* Queues a record for the bound daemon. The queue never fails: elements are embedded or preallocated; a record for no daemon is dropped (state is re-declared at bind). Any context. */
void ddr_channel_queue(struct ddr_array *a, const struct ddr_rec *rec);
void ddr_channel_announce(struct ddr_array *a, u32 type);	/* APPEARED, RESUMED, REMOVED to control descriptors; may sleep */
bool ddr_channel_attached(struct ddr_array *a);
void ddr_channel_drop(struct ddr_array *a);	/* the array goes: reads get EOF */

/* ---- I/O engine: write.c read.c flush.c error.c -------------------------------- */

/* Runs @bio again from the start (admit, region, range); from ctl_wq or io_wq. */
void ddr_io_resubmit(struct ddr_array *a, struct bio *bio);
int ddr_io_map(struct ddr_target *t, struct bio *bio);		/* returns DM_MAPIO_*; .map */
int ddr_io_init(void);						/* what the module has once: limits of memory */
void ddr_io_exit(void);
/* The engine's part of an array: ddr_array_get() calls init when it makes one (io_wq exists), the last put calls free (no I/O is left). May sleep. */
int ddr_engine_init(struct ddr_array *a);
void ddr_engine_free(struct ddr_array *a);
/* DDR_U_RESOLVE; -ENOENT for an unknown seq. */
int ddr_error_resolve(struct ddr_array *a, u64 seq, u32 action);
void ddr_error_redeclare(struct ddr_array *a);			/* after bind: queue all open ERROR records again */
void ddr_error_requeue_parked(struct ddr_array *a, blk_status_t status);
/* DDR_U_MEMBER was set: emit APPLIED seq once all I/O that started before has ended. */
void ddr_io_member_changed(struct ddr_array *a, u64 seq, u32 member);

#endif
