/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * dm-ddraid: structures and the contracts between the parts of the target.
 *
 *	target.c	table, ctr/dtr, map, suspend/resume, status, message, io_hints
 *	array.c		the array object: registry by uuid, reference counts
 *	active.c	a table becomes active, or stops being active: resume, suspend, reload
 *	member.c	states of the members
 *	gate.c		the gate that every bio passes first
 *	sweep.c		what ends all waiting: suspend, kill
 *	heard.c		does the daemon respond: the timer that stops writes without one
 *	region.c	regions: their words, writes in flight and parked, read-ahead of grants
 *	grant.c		the daemon's commands on regions: GRANT, REFUSE, REAP
 *	range.c		block ranges in flight on this node: overlap order, EX (DRAIN/RELEASE)
 *	record.c	records for the daemon, made when it reads: HELD, LOCK, CLOSED and others
 *	control.c	control descriptors of /dev/ddraid: which arrays exist
 *	channel.c	/dev/ddraid: its file operations, the channel of an array
 *	command.c	the records of the daemon: checked, carried out
 *	engine.c	.map: the entry of a bio into the I/O engine
 *	io.c		the pieces of a bio, their member bios (the engine's private contract: io.h)
 *	phase.c		the phases of an I/O: where it continues after a wait
 *	generation.c	which I/O still uses older states of the members: APPLIED
 *	write.c		full-stripe writes, write-zeroes
 *	read.c		reads, reconstruction, verify_reads
 *	flush.c		flush fan-out
 *	error.c		classes of member errors, ERROR/RESOLVE parking
 *	pages.c		memory of I/O
 *	buffer.c	gather buffers: their layout, copying
 *	stock.c		pages that are reused
 *	parity.c	glue to the kernel's xor and raid6 libraries
 *	points.c	test points that inject failures; only in the module that the tests build
 *	compat/		differences between kernels, nowhere else
 *
 * The order in which a write takes things; it gives them back in reverse:
 * array open (not frozen, enabled) -> region reference -> range -> pages -> member bios.
 *
 * Locks of the module, outer to inner: one may be taken while those above it are held.
 *
 *	ddr_channel.rmutex	records staged for read(). A bind takes it,
 *	ddr_channel.wmutex	records taken from write(), then this one
 *	ddr_array.ctl_mutex	the daemon's side of an array: binds, commands and the making of
 *				records run one at a time. epoch, session, maps and cursors of
 *				struct ddr_regions
 *	ddr_registry_mutex	the list of arrays, their users, loaded, early (array.c). No memory
 *				is allocated under it
 *	ddr_controls_lock	control descriptors (control.c). A spinlock with interrupts on;
 *				inside it only a wait queue's
 *	ddr_ranges.ex_mutex	the list of EX ranges (range.c). Not under the two above
 *	ddr_park_bucket.lock	bios parked on the bucket's regions
 *	ddr_range_bucket.lock	the bucket's list, ->locked in it
 *	ddr_errors.lock		open errors and the bios that wait for them
 *	ddr_engine.lock		changes of the generation, APPLIED. One of these four at a time,
 *				inside ctl_mutex, ex_mutex or no other lock
 *	ddr_array.lock		members, the active table, parked bios, the channel, records, flags
 *				(see DDR_A_*), what the daemon reports for status. Under the
 *				registry's mutex too
 *	wait queue of a channel	threads that sleep in read() or poll()
 *
 *	ddr_reserve.lock	the right to take several pages of a reserve (pages.c). A mutex;
 *				none of the others is held then
 *	ddr_stock_part.lock	pages of a part of a stock (stock.c). In ddr_reserve.lock or alone
 *
 * Spinlocks are taken with interrupts off unless it says otherwise, and no bio is submitted or
 * ended under them. A function that relies on its caller's lock has a lockdep_assert_held().
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
 * Index of the shadow among the members: a disk that replaces the one at its place. It is
 * written like that one, and is read instead of it once that one is not read any more.
 */
#define DDR_SHADOW		DDR_UAPI_SHADOW
#define DDR_PLACES		DDR_UAPI_PLACES
/* a bio never crosses a multiple of it: one role map, one range bucket */
#define DDR_UNIT_SECTORS	2048u

struct ddr_array;
struct ddr_channel;

/* What an I/O waits for. */
enum ddr_reason {
	DDR_WAIT_GATE,		/* ENABLE, THAW, a daemon that responds: gate.c */
	DDR_WAIT_REGION,	/* GRANT: region.c */
	DDR_WAIT_RANGE,		/* the end of I/O of this node that overlaps it: range.c */
	DDR_WAIT_EX,		/* RELEASE of an EX range that overlaps it: range.c */
	DDR_WAIT_ANSWER,	/* RESOLVE of a member's error, or of a mismatch: error.c */
};

/*
 * An I/O as the places see it at which it waits. Each place has lists of its own, under a lock of
 * its own, since at each something else has to happen. The rest is the same for all, and in gate.h:
 * whether an I/O may wait at all, and how a wait ends. The I/O then continues in a work item of its
 * own, in the phase in which it began to wait.
 */
struct ddr_wait {
	struct list_head	list;		/* of the place, under its lock */
	u64			region;		/* region.c: the one that it waits for */
	enum ddr_reason		reason;
	/* how the I/O has to end that may not wait, or not any longer; else BLK_STS_OK */
	blk_status_t		status;
};

/* What an I/O does that has asked for something. */
enum ddr_turn {
	DDR_GO,		/* it has it */
	DDR_WAIT,	/* it waits, and may run at any time: the caller must not use it any more */
	DDR_END,	/* it may not wait: the caller ends it with wait->status */
};

/* One member as the table names it; belongs to a target instance (struct ddr_target). */
struct ddr_dev {
	struct dm_dev	*dm;		/* NULL: '-' in the table */
};

/*
 * Each line of the log begins with it: "UUID (NAME)", or NAME for an array without uuid.
 * ddr_array_label() makes it.
 */
#define DDR_LABEL_SIZE	(UUID_STRING_LEN + 3 + DM_NAME_LEN)

/* State of one member, belongs to the array; read locklessly, written under array->lock. */
struct ddr_member {
	u32		state;		/* enum ddr_kmember; READ_ONCE */
	u64		cursor;		/* blocks; valid for reads below it when rebuilding */
};

/*
 * Flags of struct ddr_array, atomic bit operations. L: changed under a->lock.
 *
 * A flag that "stops" I/O holds it at the gate, and turns back I/O that has passed the gate and has
 * not sent anything yet (ddr_flags_admit()). A flag that "ends" I/O ends all waiting I/O, and all
 * that would have to wait (ddr_wait_ends()); the code that sets it sweeps all lists afterwards
 * (sweep.c).
 *
 * ENABLED L		set: ENABLE (heard.c); for nosync when the array is made (array.c)
 *			cleared: a bind before the first resume (array.c); that resume, if the
 *			daemon has gone by then (active.c)
 *			while it is clear: stops all I/O
 * FROZEN_WRITES	set: FREEZE; cleared: THAW (command.c)
 *			stops writes and flushes, except those that have sent a part already
 * FROZEN_READS		set: FREEZE with DDR_F_READS; cleared: FREEZE without it, THAW (command.c)
 *			stops reads
 * DETACHED L		set: when the array is made (array.c); the daemon has closed the channel or
 *			was silent for its timeout (heard.c)
 *			cleared: a bind; the next system call of the daemon (heard.c)
 *			with FAIL_NO_DAEMON: ends, with an error, what would wait for the daemon
 * WRITES_STOPPED L	set: the timer of rule 7, a daemon that sent ENABLE is silent (heard.c)
 *			cleared: ENABLE (heard.c)
 *			stops writes and flushes, including those that have sent a part already
 * READS_STOPPED L	set: together with WRITES_STOPPED, if that ENABLE had DDR_F_READS (heard.c)
 *			cleared: ENABLE (heard.c)
 *			stops reads
 * KILLED		set: KILL (sweep.c); never cleared
 *			stops all I/O, and ends it with an error
 * NOFLUSH_SUSPEND	set: presuspend; cleared: presuspend_undo (sweep.c), resume (active.c)
 *			ends what waits, for dm to send it again after the resume
 * FLUSH_SUSPEND	set: presuspend; cleared: presuspend_undo (sweep.c), resume (active.c)
 *			while ENABLED is clear: ends what waits, with an error
 * FAIL_NO_DAEMON L	set or cleared: resume, from the table (active.c)
 *			see DETACHED
 * SUSPENDED L		set: when the array is made (array.c); postsuspend, dtr (active.c)
 *			cleared: resume (active.c)
 *			stops nothing, dm holds bios back; the daemon is told
 * UNJUDGED L		set: a resume whose table has another device, another shadow or more blocks
 *			than the last one, or is not the one that the daemon was bound to (active.c)
 *			cleared: ENABLE for this table (heard.c)
 *			stops all I/O
 */
enum {
	DDR_A_ENABLED,		/* the daemon delivered the state (or the array is nosync) */
	DDR_A_FROZEN_WRITES,
	DDR_A_FROZEN_READS,
	DDR_A_DETACHED,		/* no daemon, or it was silent for longer than the timeout */
	/* a daemon that sent ENABLE was silent for the timeout: rule 7; reads, if it asked for that */
	DDR_A_WRITES_STOPPED,
	DDR_A_READS_STOPPED,
	DDR_A_KILLED,		/* permanent: all I/O fails */
	DDR_A_NOFLUSH_SUSPEND,	/* park lists were handed back to dm; later arrivals too */
	DDR_A_FLUSH_SUSPEND,	/* a suspend waits for all bios */
	DDR_A_FAIL_NO_DAEMON,	/* the active table has the option fail_if_no_daemon */
	DDR_A_SUSPENDED,	/* no instance is active */
	/* the active table has other devices than the one that the last ENABLE was for */
	DDR_A_UNJUDGED,
};

/* Classes of I/O that wait for memory in separate queues. None delays another. */
/* reads and flushes; small writes; large ones */
enum ddr_class { DDR_CLASS_READ, DDR_CLASS_SMALL, DDR_CLASS_LARGE, DDR_CLASSES };

struct ddr_reserve {
	mempool_t	pages;		/* enough for the largest piece of the class */
	struct mutex	lock;		/* for taking several pages of it */
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
	/* the first table, until it is resumed; under the registry mutex */
	struct ddr_target	*loaded;
	/* a daemon was bound to it before it was resumed; under the registry mutex and lock */
	bool			early;
	/* the last resume was the first one of that table; under lock */
	bool			as_bound;
	struct list_head	registry;	/* under the registry mutex */
	uuid_t			uuid;
	u64			cookie;		/* instance number, never reused within a boot */
	const struct mapped_device *md;		/* identity only; never dereferenced */
	dev_t			dev;		/* its number, for traces */
	char			label[DDR_LABEL_SIZE];	/* names the array in the log */
	/* of the log's lines about members: a flood from one array hides none of another */
	struct ratelimit_state	errors_said;
	struct ddr_geometry	geo;
	u64			blocks;		/* length of the device */
	u32			region_blocks_shift;	/* log2(blocks in a region) */
	u64			regions;	/* regions, the last may be partial */
	sector_t		data_offset;	/* sectors */
	bool			nosync;
	unsigned long		flags;		/* DDR_A_* */
	/* binds, commands of the daemon, detach; the lock order is above */
	struct mutex		ctl_mutex;
	/* members, parked list, channel pointer; irq-safe, never held over submission */
	spinlock_t		lock;
	struct ddr_member	member[DDR_PLACES];
	/* by member: in sync 0..10, rebuilding or leaving 16..26; READ_ONCE, written under lock */
	u32			member_bits;
	u32			present;	/* by member: the active table names a device */
	/* by member: set to OUT while it had this device; under lock */
	u32			said_out;
	struct ddr_target __rcu	*active;	/* the instance whose devices are used */
	/* struct ddr_wait: for ENABLE, THAW or a daemon; under lock */
	struct list_head	parked;
	/* all I/O that waits for the daemon, here and elsewhere */
	atomic_t		nr_parked;
	struct ddr_regions	*regions_state;	/* region.c */
	struct ddr_ranges	*ranges;	/* range.c */
	/* phase.c: the I/O of @w continues in a work item of its own; any context */
	void			(*wake)(struct ddr_wait *w);
	/* io.h: open member errors, generations of member states */
	struct ddr_engine	*engine;
	struct ddr_channel	*channel;	/* channel.c; NULL: no daemon; under lock */
	u64			epoch;		/* of the last bind; under ctl_mutex */
	bool			started;	/* an instance was active before; under lock */
	/* instances that became active; under lock, read with acquire */
	u32			tables;
	u32			shadow_place;	/* of the active table; under lock */
	/* by member, of the last table that named one; under lock */
	dev_t			devices[DDR_PLACES];
	bool			gone;		/* no target is left; under ctl_mutex and lock */
	/* struct ddr_krec that wait for the daemon; under lock */
	struct list_head	records;
	struct hrtimer		deadline;	/* heard.c */
	struct work_struct	unheard_work;	/* heard.c */
	unsigned int		timeout;	/* jiffies; of the bound daemon */
	/* the same, of the last daemon that sent ENABLE: when writes stop */
	unsigned int		served_timeout;
	/* jiffies of the last system call of the bound daemon; under lock */
	unsigned long		heard;
	/* the same, of a daemon that has sent ENABLE since its bind */
	unsigned long		served;
	/* when writes stop, reads do: the last ENABLE had DDR_F_READS; under lock */
	bool			stops_reads;
	u32			stops;		/* how often WRITES_STOPPED was set; under lock */
	struct workqueue_struct	*io_wq;		/* reconstruction, completion with errors */
	/* channel answers, release of parked bios; nothing on it sleeps for memory or for I/O */
	struct workqueue_struct	*ctl_wq;
	/* bios that were parked, one work item each, which may sleep for memory */
	struct workqueue_struct	*bio_wq[DDR_CLASSES];
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
	/* for the array, if the array is shorter when this table becomes active */
	struct ddr_regions	*grown;
	u32			shadow_place;	/* the member whose shadow is dev[DDR_SHADOW] */
	bool			nosync, nocalc, verify_reads, fail_if_no_daemon;
	u32			present;	/* bitmap of the members that have a device */
	/* each piece of memory that a member reads into starts at a multiple of it */
	u32			align;
	u32			vec_pages;	/* pages.c: of vectors, in a large buffer */
	/* pages.c: struct ddr_buf: small, large, of flushes */
	mempool_t		bufs[3];
	struct ddr_reserve	reserve[DDR_CLASSES];	/* pages.c */
	/* the reserve that got the last returned page; READ_ONCE */
	u32			reserve_turn;
	/* pages.c: pages that the array may have, whatever the others have */
	s64			pages_anyway;
	struct ddr_stock	*stock;		/* pages.c: pages for reuse */
	struct work_struct	event;		/* dm_table_event() */
};

#endif
