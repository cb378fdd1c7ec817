/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dm-ddraid: structures and the contracts between the parts of the target.
 *
 *	target.c	table, ctr/dtr, map, suspend/resume, status, message, io_hints
 *	array.c		the array object: registry by uuid, member states, reference counts
 *	heard.c		is the daemon there: the timer that stops writes without one
 *	region.c	grants: a flat array of atomics, parked writes, read-ahead of grants, REAP
 *	range.c		block ranges in flight on this node: overlap order, EX (DRAIN/RELEASE)
 *	channel.c	/dev/ddraid: control and channel descriptors, records in and out
 *	command.c	the records of the daemon: checked, carried out
 *	io.c		.map, admission of a bio, its member bios, generations	(I/O engine; its private contract: io.h)
 *	generation.c	which I/O still obeys an older state of the members: APPLIED
 *	write.c		full-stripe writes, write-zeroes
 *	read.c		reads, reconstruction, verify_reads
 *	flush.c		flush fan-out
 *	error.c		classes of member errors, ERROR/RESOLVE parking
 *	pages.c		gather buffers
 *	stock.c		pages that are used again
 *	parity.c	glue to the kernel's xor and raid6 libraries
 *	points.c	where tests make something fail, or stand still; only in the module that they build
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
#include <linux/dm-ioctl.h>
#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mempool.h>
#include <linux/mutex.h>
#include <linux/ratelimit.h>
#include <linux/rcupdate.h>
#include <linux/spinlock.h>
#include <linux/uuid.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include <ddraid/uapi.h>
#include "lib/math/geometry.h"
#include "points.h"

#define DM_MSG_PREFIX "ddraid"

#define DDR_BLOCK_SECTORS	8u	/* sectors in a block */
/*
 * Index of the shadow among the members: a disk that replaces the one at its place. It is written like that one, and read
 * instead of it once that one is not read any more.
 */
#define DDR_SHADOW		DDR_UAPI_SHADOW
#define DDR_PLACES		DDR_UAPI_PLACES
#define DDR_UNIT_SECTORS	2048u	/* a bio never crosses a multiple of it: one role map, one range bucket */

struct ddr_array;
struct ddr_channel;

/* One member as the table names it; belongs to a target instance (struct ddr_target). */
struct ddr_dev {
	struct dm_dev	*dm;		/* NULL: '-' in the table */
};

/* Each line of the log begins with it: "UUID (NAME)", or NAME for an array without uuid. ddr_array_label() makes it. */
#define DDR_LABEL_SIZE	(UUID_STRING_LEN + 3 + DM_NAME_LEN)

/* State of one member, belongs to the array; read locklessly, written under array->lock. */
struct ddr_member {
	u32		state;		/* enum ddr_kmember; READ_ONCE */
	u64		cursor;		/* blocks; valid for reads below it when rebuilding */
};

/* Flags of struct ddr_array, atomic bit operations. */
enum {
	DDR_A_ENABLED,		/* the daemon delivered the state (or the array is nosync) */
	DDR_A_FROZEN_WRITES,
	DDR_A_FROZEN_READS,
	DDR_A_DETACHED,		/* no daemon, or it was silent for longer than the timeout */
	DDR_A_WRITES_STOPPED,	/* nothing heard for the timeout from a daemon that sent ENABLE: rule 7 */
	DDR_A_KILLED,		/* for good: all I/O fails */
	DDR_A_NOFLUSH_SUSPEND,	/* park lists were handed back to dm; later arrivals too */
	DDR_A_FLUSH_SUSPEND,	/* a suspend waits for all bios */
	DDR_A_FAIL_NO_DAEMON,	/* the active table says fail_if_no_daemon */
	DDR_A_SUSPENDED,	/* no instance is active */
	DDR_A_UNJUDGED,		/* the active table names other devices than the last ENABLE was for */
};

/* What waits in one line for memory. None of them is held up by another one. */
enum ddr_class { DDR_CLASS_READ, DDR_CLASS_SMALL, DDR_CLASS_LARGE, DDR_CLASSES };	/* reads and flushes; small writes; large ones */

struct ddr_reserve {
	mempool_t	pages;		/* enough for the largest piece of the class */
	struct mutex	lock;		/* whoever takes several pages of it */
};

/*
 * The array object: everything that has to survive a table reload. Found by uuid
 * in a registry, counted by references (targets, channel, requests in flight), bound
 * to one mapped device. nosync arrays without a uuid have one too, out of the registry.
 */
struct ddr_array {
	struct kref		kref;
	struct work_struct	free_work;
	unsigned int		users;		/* targets; under the registry mutex */
	struct ddr_target	*loaded;	/* the first table, while there is no other; under the registry mutex */
	bool			early;		/* a daemon was bound to that before it was resumed; under the registry mutex and lock */
	bool			as_bound;	/* the table that was resumed last is that one, for the first time; under lock */
	struct list_head	registry;	/* under the registry mutex */
	uuid_t			uuid;
	u64			cookie;		/* instance number, never reused within a boot */
	const struct mapped_device *md;		/* identity only, no reference: never looked into */
	dev_t			dev;		/* its number, for traces */
	char			label[DDR_LABEL_SIZE];	/* names the array in the log */
	struct ratelimit_state	errors_said;	/* of the log's lines about members: many of one array hide none of another */
	struct ddr_geometry	geo;
	u64			blocks;		/* length of the device */
	u32			region_blocks_shift;	/* log2(blocks in a region) */
	u64			regions;	/* regions, the last may be partial */
	sector_t		data_offset;	/* sectors */
	bool			nosync;
	unsigned long		flags;		/* DDR_A_* */
	struct mutex		ctl_mutex;	/* binds, commands of the daemon, detach; array.c has the lock order */
	spinlock_t		lock;		/* members, parked list, channel pointer; irq-safe, never held over submission */
	struct ddr_member	member[DDR_PLACES];
	u32			member_bits;	/* by member: in sync 0..10, rebuilding or leaving 16..26; READ_ONCE, written under lock */
	u32			present;	/* by member: the active table names a device */
	u32			said_out;	/* by member: set to OUT with the device that it has; under lock */
	struct ddr_target __rcu	*active;	/* the instance whose devices are used */
	struct bio_list		parked;		/* bios that wait for ENABLE, THAW or a daemon; under lock */
	atomic_t		nr_parked;	/* all parked bios: here, in region.c and in error.c */
	struct ddr_regions	*regions_state;	/* region.c */
	struct ddr_ranges	*ranges;	/* range.c */
	struct ddr_engine	*engine;	/* io.h: open member errors, generations of member states */
	struct ddr_channel	*channel;	/* channel.c; NULL: no daemon; under lock */
	u64			epoch;		/* of the last bind; under ctl_mutex */
	bool			started;	/* an instance was active before; under lock */
	u32			tables;		/* instances that became active; under lock, read with acquire */
	u32			shadow_place;	/* of the active table; under lock */
	dev_t			devices[DDR_PLACES];	/* by member, of the last table that named one; under lock */
	bool			gone;		/* no target is left; under ctl_mutex and lock */
	struct list_head	records;	/* struct ddr_krec that wait for the daemon; under lock */
	struct work_struct	kick_work;	/* runs parked bios again */
	struct hrtimer		deadline;	/* heard.c */
	struct work_struct	unheard_work;	/* heard.c */
	unsigned int		timeout;	/* jiffies; of the bound daemon */
	unsigned int		served_timeout;	/* the same, of the one that sent ENABLE last: when writes stop */
	unsigned long		heard;		/* jiffies of the last system call of the bound daemon; under lock */
	unsigned long		served;		/* the same, of a daemon that sent ENABLE since its bind */
	struct workqueue_struct	*io_wq;		/* reconstruction, completion with errors */
	struct workqueue_struct	*ctl_wq;	/* channel answers, release of parked bios; nothing on it sleeps for memory or for I/O */
	struct workqueue_struct	*bio_wq[DDR_CLASSES];	/* bios that were parked, one work item each, which may sleep for memory */
	/* for the status line, from DDR_U_STATUS; under lock */
	u32			action;
	u64			done, todo, synced, mismatches;
	atomic64_t		verify_mismatches;	/* nosync: counted only */
};

/* One target instance = one table. */
struct ddr_target {
	struct dm_target	*ti;
	struct ddr_array	*array;
	struct ddr_dev		dev[DDR_PLACES];
	u32			roles;
	u64			blocks;		/* the length of this table */
	struct ddr_regions	*grown;		/* for the array, if that is shorter when this table becomes active */
	u32			shadow_place;	/* whose shadow dev[DDR_SHADOW] is */
	bool			nosync, nocalc, verify_reads, fail_if_no_daemon;
	u32			present;	/* bitmap of the members that have a device */
	u32			align;		/* each piece of memory that a member reads to has a multiple of it, as its start */
	u32			vec_pages;	/* pages.c: of vectors, in a large buffer */
	mempool_t		bufs[3];	/* pages.c: struct ddr_buf: small, large, of flushes */
	struct ddr_reserve	reserve[DDR_CLASSES];	/* pages.c */
	u32			reserve_turn;	/* the one that got the last page that came back; READ_ONCE */
	s64			pages_anyway;	/* pages.c: that the array may have whatever the others have */
	struct ddr_stock	*stock;		/* pages.c: pages that were used before */
	struct work_struct	event;		/* dm_table_event() */
};

/* ---- array.c ------------------------------------------------------------------- */

/* @uuid: NULL for an array without. The name is that of now: a device that is renamed keeps its label. @md is there. May sleep. */
void ddr_array_label(char *label, const uuid_t *uuid, struct mapped_device *md);

int ddr_array_init(void);			/* before any target is registered */
void ddr_array_exit(void);			/* after the last: waits until all arrays are freed */

/*
 * .ctr: finds or makes the array of @uuid (NULL: nosync, outside of the registry) for mapped device @md, and becomes one of
 * its users, by the table @t, whose devices are known. May sleep. ERR_PTR: -EBUSY it is bound to another mapped device, -EINVAL the geometry or nosync differs, or it has more
 * blocks, -ENOMEM. If it has fewer, t->grown is what ddr_array_activate() needs to let it grow; the caller's, for ddr_regions_drop().
 */
struct ddr_array *ddr_array_get(const uuid_t *uuid, struct mapped_device *md, const struct ddr_geometry *geo,
				u64 blocks, u32 region_sectors, sector_t data_offset, struct ddr_target *t);
/* .dtr: gives that back. With the last user the array is gone: it leaves the registry, the daemon reads EOF. May sleep. */
void ddr_array_release(struct ddr_array *a, struct ddr_target *t);
/*
 * For a bind before the first resume: calls @describe for the table that was loaded, which is the array's from then on. -EAGAIN: a table was
 * resumed already, or more than one was loaded. May sleep.
 */
int ddr_array_bind_loaded(struct ddr_array *a, void (*describe)(const struct ddr_target *t, struct ddr_bind *b), struct ddr_bind *b);
struct ddr_array *ddr_array_find(const uuid_t *uuid);	/* with a reference for ddr_array_put(), or NULL; may sleep */
void ddr_array_put(struct ddr_array *a);		/* may be called from any context; frees from a work item */
/* The registered array with the smallest cookie above @cookie, with a reference, or NULL; may sleep. */
struct ddr_array *ddr_array_next(u64 cookie);

/*
 * .preresume: @t is the instance whose devices are used from now on; ends a noflush suspend. Never waits for the daemon. No bio is
 * in the target. A longer table lets the array grow. -EINVAL: it is shorter than the array has become since it was loaded.
 */
int ddr_array_activate(struct ddr_array *a, struct ddr_target *t);
/* .resume: tells the daemon, runs what is parked. */
void ddr_array_resumed(struct ddr_array *a);
/*
 * .presuspend with dm_noflush_suspending(): hands all parked bios (here, region.c, range.c, error.c) back with
 * BLK_STS_DM_REQUEUE, and from now on whatever would park. May sleep.
 */
void ddr_array_requeue_parked(struct ddr_array *a);
/*
 * .presuspend of a flushing suspend: if no daemon has ever sent ENABLE, what is parked ends with an I/O error, and so does
 * what comes, until the resume. May sleep.
 */
void ddr_array_fail_unserved(struct ddr_array *a);
void ddr_array_suspend_undo(struct ddr_array *a);	/* .presuspend_undo: park again */
/* .postsuspend, .dtr: @t is active no more; waits for RCU readers of a->active. */
void ddr_array_deactivate(struct ddr_array *a, struct ddr_target *t);

/* May @bio (data direction @write) run now? true: run. false: it was parked (or ended), the caller returns DM_MAPIO_SUBMITTED. */
bool ddr_array_admit(struct ddr_array *a, struct bio *bio, bool write);
/*
 * For I/O that has passed the gate, and waited since: must nothing of it be sent now, since the gate is shut? @begun: something of a write
 * was sent already; it goes on although the array was frozen meanwhile. To be asked inside of the generation in which it is sent, so that
 * APPLIED of a later MEMBER waits for who was told "go on". Any context.
 */
bool ddr_array_stops(struct ddr_array *a, bool write, bool begun);
/*
 * For every place that parks bios, under the lock of its list: must @bio not be parked because the array is killed, is
 * in a noflush suspend, is in a flushing one and was never served, or fails I/O without a daemon (@daemon: the wait is
 * for the daemon)? Then *@status says how it has to end (after the lock was dropped); true. false: park it. Any context.
 */
bool ddr_array_bounces(struct ddr_array *a, bool daemon, blk_status_t *status);
/* Parks @bio here until the next kick, or ends it as ddr_array_bounces() of @daemon says. It holds neither a region nor a range. Any context. */
void ddr_array_park(struct ddr_array *a, struct bio *bio, bool daemon);
/* Moves @bios, counted as parked already, to the parked list, and kicks. Any context. */
void ddr_array_rerun(struct ddr_array *a, struct bio_list *bios);
/* Gives all bios of the parked list to ddr_io_rerun(). Any context. */
void ddr_array_kick(struct ddr_array *a);
void ddr_array_kill(struct ddr_array *a);		/* all parked bios fail, all later ones too; may sleep */
void ddr_array_set_member(struct ddr_array *a, u32 member, u32 state, u64 cursor);	/* checked values; any context */
/* Whatever is parked, here and elsewhere, is asked again whether it may wait; may sleep. */
void ddr_array_sweep(struct ddr_array *a, blk_status_t status);

/* ---- heard.c ------------------------------------------------------------------- */

void ddr_heard_init(struct ddr_array *a);
void ddr_heard_end(struct ddr_array *a);	/* it is gone, or was never in use: no timer runs after this; may sleep */
/* A daemon was bound, made a system call, sent ENABLE, went, wants another timeout. @enabled: it had sent ENABLE before. May sleep. */
void ddr_array_bound(struct ddr_array *a, unsigned int timeout_ms);
void ddr_array_heard(struct ddr_array *a, bool enabled);
void ddr_array_enable(struct ddr_array *a, u32 tables);	/* for the table with that number */
void ddr_array_unbound(struct ddr_array *a);
void ddr_array_set_timeout(struct ddr_array *a, unsigned int timeout_ms, bool enabled);

/* ---- array.c: members ---------------------------------------------------------- */

/*
 * Usable bitmaps for blocks of one unit, by role, in the geometry's turn: members that are read from / written to. One that is being rebuilt
 * is read if all of the blocks lie below its cursor, and written wherever they lie.
 */
u32 ddr_array_read_mask(struct ddr_array *a, u64 block, u32 blocks);
u32 ddr_array_write_mask(struct ddr_array *a, u64 block);
bool ddr_array_shadow_readable(struct ddr_array *a, u64 block, u32 blocks);
bool ddr_array_names(struct ddr_array *a, dev_t dev);	/* is it a device of the table that was resumed last? Process context */
u32 ddr_array_written(struct ddr_array *a);	/* members that a write has to reach by their state, with a device or without */

/* ---- region.c ------------------------------------------------------------------ */

/*
 * One atomic word a region: GRANTED, TOUCHED, ERROR, and the number of writes in flight.
 * ddr_region_get: true and counted if the region is granted. Otherwise @bio is parked on it, a LOCK request is queued
 * if none is under way, and false is returned; the bio comes back through ddr_io_rerun() after GRANT, or ends on REFUSE.
 * One atomic operation in the fast path, no lock. Any context that may submit bios.
 */
struct ddr_regions *ddr_regions_make(u64 regions);	/* NULL: no memory; may sleep */
void ddr_regions_drop(struct ddr_regions *rs);		/* NULL is allowed */
/*
 * What is kept for the regions of @a goes to the places in @grown, which has more, and those are the array's from now on; @grown has
 * the old ones then. Under ctl_mutex, before a->regions changes, and while no bio is in the target.
 */
void ddr_regions_grow(struct ddr_array *a, struct ddr_regions *grown);
bool ddr_region_get(struct ddr_array *a, u64 region, struct bio *bio);	/* while parked, bio->bi_private is ours */
/* @error: a member write of this bio did not succeed and its failure was not agreed: the region must be resynced. Any context. */
void ddr_region_put(struct ddr_array *a, u64 region, bool error);
/*
 * Commands of the daemon, under ctl_mutex, process context; checked here, 0 or a negative errno and nothing changed.
 * @seq: of the LOCK that is answered, or 0: grants unasked, refuses whatever waits in the range.
 */
int ddr_region_grant(struct ddr_array *a, u64 seq, u64 start, u64 count);	/* runs parked bios, from ctl_wq */
int ddr_region_refuse(struct ddr_array *a, u64 seq, u64 start, u64 count, int error);
/* Closes up to @max idle grants: CLOSED runs, then REAPED. -EBUSY: the last REAP was not answered yet. */
int ddr_region_reap(struct ddr_array *a, u64 seq, u64 max);
int ddr_region_set_bits(struct ddr_array *a, u64 start, u64 count, u32 bits);	/* DDR_RB_* */
void ddr_region_set_ahead(struct ddr_array *a, u32 regions);
void ddr_region_close_all(struct ddr_array *a);		/* all grants of an array that is gone; no write is left */
/* A new daemon: HELD runs and HELD_END from the start, LOCK again for all that wait (DDR_F_RESENT). Under ctl_mutex. */
void ddr_region_declare(struct ddr_array *a);
/* Under ctl_mutex: fills @rec with up to @n records for the daemon; how many. ddr_region_sent() once they were read. */
unsigned int ddr_region_fill_held(struct ddr_array *a, struct ddr_rec *rec, unsigned int n);
unsigned int ddr_region_fill_closed(struct ddr_array *a, struct ddr_rec *rec, unsigned int n);
unsigned int ddr_region_fill_lock(struct ddr_array *a, struct ddr_rec *rec, unsigned int n);
void ddr_region_sent(struct ddr_array *a, const struct ddr_rec *rec);
bool ddr_region_pending(struct ddr_array *a);		/* is there anything to fill? */
bool ddr_region_declared(struct ddr_array *a);		/* HELD_END was filled */
u64 ddr_region_granted_count(struct ddr_array *a);
u32 ddr_region_bits(struct ddr_array *a, u64 region);
void ddr_region_end_parked(struct ddr_array *a, blk_status_t status);	/* ends all bios parked on regions; may sleep */

/* ---- range.c ------------------------------------------------------------------- */

/*
 * Block ranges in flight on this node, in buckets by unit (block >> DDR_GEO_UNIT_SHIFT), one spinlock a bucket.
 * A range never crosses a unit. Writers exclude writers, EX and reconstructing readers where they overlap; readers share.
 * A bio holds one range at a time, or EX may deadlock with it.
 * ddr_range_lock: 0: locked. -EINPROGRESS: queued in arrival order, @wake is called from @wq, once. -EAGAIN: it would wait, but the
 * array is killed or in a noflush suspend: give the region back, then ddr_array_park(). -ENOTCONN: so it is, or there is no daemon to end
 * the EX range that it would wait for, and I/O fails without one: the same, and tell ddr_array_park().
 * @wake finds r->locked set: the range is held now; or clear: the wait was cancelled, act as for -EAGAIN.
 */
struct ddr_range {
	struct list_head	list;		/* in the bucket */
	u64			start;		/* block */
	u32			count;		/* blocks */
	u8			write;		/* 1: writer, 0: reader */
	u8			locked;
	struct work_struct	work;
	struct workqueue_struct	*wq;		/* where it is woken */
	void			(*wake)(struct ddr_range *r);	/* NULL: a piece of an EX range */
	struct ddr_ex		*ex;		/* range.c's */
};
int ddr_ranges_init(struct ddr_array *a);
/* No daemon is left: ends its EX ranges. One that waited for another is told so through ctl_wq, which must be there still. May sleep. */
void ddr_ranges_end(struct ddr_array *a);
void ddr_ranges_free(struct ddr_array *a);	/* ended, and ctl_wq is gone: no work of it may run */
int ddr_range_lock(struct ddr_array *a, struct ddr_range *r);
void ddr_range_unlock(struct ddr_array *a, struct ddr_range *r);	/* any context */
void ddr_range_cancel_waiting(struct ddr_array *a);	/* all that wait, EX excepted, get their wake with locked clear; may sleep */
/*
 * EX: blocks start..+count (any number of units, at most DDR_EX_MAX_BLOCKS). Emits DRAINED seq once nothing of this node writes
 * there, or reads there to reconstruct. It queues as a writer would: a write that waits for DDR_U_RESOLVE keeps its range, and
 * EX waits for it. Under ctl_mutex; may sleep, does not wait for writes.
 * -EEXIST the seq is in use, -ENOSPC too many ranges, -ERANGE outside the device, -ENOMEM.
 */
#define DDR_EX_MAX_BLOCKS	(1u << 18)
#define DDR_EX_MAX		128u
int ddr_range_drain(struct ddr_array *a, u64 seq, u64 start, u64 count);
int ddr_range_release(struct ddr_array *a, u64 seq);	/* -ENOENT; may sleep */
/*
 * A new daemon knows nothing of the EX ranges of the old one, whose job may still have writes in flight to members: they
 * hold until the new one sends ENABLE, which it does after those have ended. They do not count against its DDR_EX_MAX, but there are
 * at most twice so many in all; one that lies in an older one is not kept. May sleep.
 */
void ddr_range_orphan_all(struct ddr_array *a);
void ddr_range_release_orphans(struct ddr_array *a);

/* ---- channel.c ----------------------------------------------------------------- */

/* A record for the daemon, embedded in what it speaks of, so that queueing cannot fail. */
struct ddr_krec {
	struct list_head	link;		/* in a->records; INIT_LIST_HEAD() before use */
	struct ddr_rec		rec;		/* not to be changed while queued */
};

int ddr_channel_init(void);			/* misc device */
void ddr_channel_exit(void);
/*
 * Queues @k for the bound daemon; no effect if it is queued already or if there is no daemon (at bind state is declared
 * again). It is copied when the daemon reads. ddr_channel_unqueue() before @k is freed or changed. Any context.
 */
void ddr_channel_queue(struct ddr_array *a, struct ddr_krec *k);
void ddr_channel_unqueue(struct ddr_array *a, struct ddr_krec *k);
void ddr_channel_wake(struct ddr_array *a);	/* there is something to read; any context */
void ddr_channel_announce(struct ddr_array *a, u32 type);	/* APPEARED, RESUMED, REMOVED to control descriptors; may sleep */
bool ddr_channel_attached(struct ddr_array *a);
void ddr_channel_drop(struct ddr_array *a);	/* the array goes: all grants are reported CLOSED, then reads get EOF; may sleep */

/* ---- target.c ------------------------------------------------------------------ */

/* Something that `dmsetup status` shows has changed: wakes `dmsetup wait`. Process context. */
void ddr_target_event(struct ddr_array *a);

/* ---- command.c ----------------------------------------------------------------- */

#define DDR_MIN_TIMEOUT_MS	1000u
#define DDR_MAX_TIMEOUT_MS	600000u

/* What the kernel remembers of one bind, beside the array; under ctl_mutex. */
struct ddr_session {
	bool	enabled;	/* has sent ENABLE */
	u32	tables;		/* the bind saw the table with this number */
	bool	pong_due;
	u64	pong_seq;
};

/*
 * Checks and runs one record of the daemon; 0, or a negative errno and nothing was changed. Under ctl_mutex.
 * @budget: regions that this write() may still walk over; lowered.
 */
int ddr_command_run(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec, s64 *budget);

/* ---- I/O engine: write.c read.c flush.c error.c -------------------------------- */

/* Runs @bio, which was parked, again from the start (admit, region, range), by a work item of its own. Any context. */
void ddr_io_rerun(struct ddr_array *a, struct bio *bio);
int ddr_io_map(struct ddr_target *t, struct bio *bio);		/* returns DM_MAPIO_*; .map */
int ddr_io_init(void);						/* what the module has once: limits of memory */
void ddr_io_exit(void);
/* The engine's part of an array: ddr_array_get() calls init when it makes one (io_wq exists), the last put calls free (no I/O is left). May sleep. */
int ddr_engine_init(struct ddr_array *a);
void ddr_engine_settle(struct ddr_array *a);	/* no I/O is left: nothing of it needs io_wq after this */
void ddr_engine_free(struct ddr_array *a);
/* DDR_U_RESOLVE; -ENOENT for an unknown seq. */
int ddr_error_resolve(struct ddr_array *a, u64 seq, u32 action);
void ddr_error_redeclare(struct ddr_array *a);			/* after bind: queue all open ERROR records again */
void ddr_error_forget(struct ddr_array *a, u32 member);		/* another device has the place; none of its I/O is left */
void ddr_error_out(struct ddr_array *a, u32 member);		/* the daemon has set it OUT; process context */
void ddr_error_requeue_parked(struct ddr_array *a, blk_status_t status);
/* Is APPLIED of an earlier DDR_U_MEMBER of this member still due? Then another one is refused with -EBUSY. Under ctl_mutex. */
bool ddr_io_member_busy(struct ddr_array *a, u32 member);
/*
 * DDR_U_MEMBER was set: emit APPLIED seq once all I/O that started before has ended. Does not wait; under ctl_mutex.
 * A new bind forgets the APPLIED that are due (the new daemon sends its members again): ddr_io_member_forget().
 */
void ddr_io_member_changed(struct ddr_array *a, u64 seq, u32 member);
void ddr_io_member_forget(struct ddr_array *a);

#endif
