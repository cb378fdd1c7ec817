// SPDX-License-Identifier: GPL-2.0-only
/*
 * The array object: what must survive a table reload, the registry that finds it by
 * uuid, and the gate that every bio passes first.
 *
 * The gate parks a bio while the state is not complete (no ENABLE yet), while the
 * daemon froze the array, and, for writes, once the daemon was silent for longer than
 * its timeout (rule 7: a kernel without its daemon stops within a bounded time). Only a
 * daemon that has sent ENABLE since its bind extends that time: one that attaches and
 * does not get ready must not keep old member states alive.
 *
 * Must never: clear a dirty mark or close a grant by itself, wait for the daemon in a
 * dm callback, or let a bio run that the gate should have stopped.
 *
 * Lock order, outer to inner:
 *	channel's read and write mutexes -> a->ctl_mutex -> ex_mutex (range.c)
 *	-> park bucket (region.c), range bucket (range.c), the engine's locks
 *	-> a->lock -> wait queues
 * The registry mutex is taken inside of the channel's and ctl_mutex, and nothing but a->lock is taken, and no memory
 * allocated, inside of it: a daemon that looks for an array must not wait for a
 * constructor that waits for memory, which may wait for that daemon.
 * Locks from the buckets down are taken with interrupts off; no bio is submitted or
 * ended under them. Whoever parks asks ddr_array_bounces() under the lock of its own
 * list; whoever sets one of the flags it looks at, sweeps all lists afterwards. So
 * either the parker sees the flag, or the sweep sees the bio.
 *
 * Lifetime: targets, channels and list walks hold references. The last put leaves the
 * rest to a work item, which first stops the workqueues: work items on them need no
 * reference of their own.
 */
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "dm-ddraid.h"

#define DDR_DEFAULT_TIMEOUT_MS	10000
#define DDR_LARGE_WORKERS	16

static DEFINE_MUTEX(ddr_registry_mutex);
static LIST_HEAD(ddr_registry);			/* by cookie, ascending */
static u64 ddr_last_cookie;
static struct workqueue_struct *ddr_free_wq;

/* ---- the gate ------------------------------------------------------------------ */

static inline bool ddr_flags_admit(unsigned long flags, bool write)
{
	unsigned long stop = BIT(DDR_A_KILLED) | BIT(DDR_A_UNJUDGED);

	if (write)
		stop |= BIT(DDR_A_FROZEN_WRITES) | BIT(DDR_A_WRITES_STOPPED);
	else
		stop |= BIT(DDR_A_FROZEN_READS);
	return (flags & (stop | BIT(DDR_A_ENABLED))) == BIT(DDR_A_ENABLED);
}

static void ddr_end_bio(struct bio *bio, blk_status_t status)
{
	bio->bi_status = status;
	bio_endio(bio);
}

/*
 * dm turns BLK_STS_DM_REQUEUE into EIO outside of a noflush suspend, and an interrupted
 * suspend ends before our presuspend_undo runs: ask dm, not only our flag.
 */
static bool ddr_array_noflush(struct ddr_array *a)
{
	struct ddr_target *t;
	bool noflush = false;

	if (!test_bit(DDR_A_NOFLUSH_SUSPEND, &a->flags))
		return false;
	rcu_read_lock();
	t = rcu_dereference(a->active);
	if (t)
		noflush = dm_noflush_suspending(t->ti);
	rcu_read_unlock();
	return noflush;
}

bool ddr_array_bounces(struct ddr_array *a, bool daemon, blk_status_t *status)
{
	unsigned long flags = READ_ONCE(a->flags);
	unsigned long alone = BIT(DDR_A_DETACHED) | BIT(DDR_A_FAIL_NO_DAEMON);
	unsigned long unserved = BIT(DDR_A_FLUSH_SUSPEND) | BIT(DDR_A_ENABLED);

	if (flags & BIT(DDR_A_KILLED))
		*status = BLK_STS_IOERR;
	else if (ddr_array_noflush(a))
		*status = BLK_STS_DM_REQUEUE;
	else if ((flags & unserved) == BIT(DDR_A_FLUSH_SUSPEND))
		*status = BLK_STS_IOERR;
	else if (daemon && (flags & alone) == alone)
		*status = BLK_STS_IOERR;
	else
		return false;
	return true;
}

static bool ddr_array_admit_slow(struct ddr_array *a, struct bio *bio, bool write)
{
	blk_status_t status = BLK_STS_IOERR;
	unsigned long irq;
	bool end;

	spin_lock_irqsave(&a->lock, irq);
	if (ddr_flags_admit(READ_ONCE(a->flags), write)) {
		spin_unlock_irqrestore(&a->lock, irq);
		return true;
	}
	/* read-ahead is worth no wait */
	end = (bio->bi_opf & REQ_RAHEAD) || ddr_array_bounces(a, true, &status);
	if (!end) {
		bio_list_add(&a->parked, bio);
		atomic_inc(&a->nr_parked);
	}
	spin_unlock_irqrestore(&a->lock, irq);
	if (end)
		ddr_end_bio(bio, status);
	return false;
}

bool ddr_array_admit(struct ddr_array *a, struct bio *bio, bool write)
{
	if (likely(ddr_flags_admit(READ_ONCE(a->flags), write)))
		return true;
	return ddr_array_admit_slow(a, bio, write);
}

bool ddr_array_stops(struct ddr_array *a, bool write, bool begun)
{
	unsigned long flags = READ_ONCE(a->flags);

	if (begun)
		flags &= ~BIT(DDR_A_FROZEN_WRITES);
	return !ddr_flags_admit(flags, write);
}

void ddr_array_park(struct ddr_array *a, struct bio *bio, bool daemon)
{
	blk_status_t status;
	unsigned long irq;
	bool end;

	spin_lock_irqsave(&a->lock, irq);
	end = ddr_array_bounces(a, daemon, &status);
	if (!end) {
		bio_list_add(&a->parked, bio);
		atomic_inc(&a->nr_parked);
	}
	spin_unlock_irqrestore(&a->lock, irq);
	if (end) {
		ddr_end_bio(bio, status);
		return;
	}
	ddr_point_wait(DDR_PT_PARK_KICK);
	ddr_array_kick(a);	/* if the reason is not over, the gate parks it again */
}

static void ddr_array_kick_work(struct work_struct *work)
{
	struct ddr_array *a = container_of(work, struct ddr_array, kick_work);
	struct bio_list run = BIO_EMPTY_LIST;
	struct bio *bio;

	spin_lock_irq(&a->lock);
	bio_list_merge(&run, &a->parked);
	bio_list_init(&a->parked);
	spin_unlock_irq(&a->lock);
	while ((bio = bio_list_pop(&run))) {
		atomic_dec(&a->nr_parked);
		ddr_io_rerun(a, bio);
		cond_resched();
	}
}

void ddr_array_rerun(struct ddr_array *a, struct bio_list *bios)
{
	unsigned long irq;

	if (bio_list_empty(bios))
		return;
	spin_lock_irqsave(&a->lock, irq);
	bio_list_merge(&a->parked, bios);
	spin_unlock_irqrestore(&a->lock, irq);
	ddr_array_kick(a);
}

void ddr_array_kick(struct ddr_array *a)
{
	queue_work(a->ctl_wq, &a->kick_work);
}

void ddr_array_sweep(struct ddr_array *a, blk_status_t status)
{
	ddr_array_kick(a);
	if (a->regions_state)
		ddr_region_end_parked(a, status);
	ddr_range_cancel_waiting(a);
	ddr_error_requeue_parked(a, status);
}

void ddr_array_requeue_parked(struct ddr_array *a)
{
	set_bit(DDR_A_NOFLUSH_SUSPEND, &a->flags);
	ddr_array_sweep(a, BLK_STS_DM_REQUEUE);
}

/*
 * A flushing suspend waits for all bios. Those of an array that no daemon has ever let run may wait for ever: the daemon
 * refused it, or there is none. Nothing was read or written there, so nobody can have stored anything behind them, and
 * an error tells the truth. Once a daemon has sent ENABLE a file system may rely on its writes: then the suspend waits.
 */
void ddr_array_fail_unserved(struct ddr_array *a)
{
	set_bit(DDR_A_FLUSH_SUSPEND, &a->flags);
	if (!test_bit(DDR_A_ENABLED, &a->flags))
		ddr_array_kick(a);	/* all that is parked waits at the gate */
}

void ddr_array_suspend_undo(struct ddr_array *a)
{
	clear_bit(DDR_A_NOFLUSH_SUSPEND, &a->flags);
	clear_bit(DDR_A_FLUSH_SUSPEND, &a->flags);
	ddr_array_kick(a);
}

void ddr_array_kill(struct ddr_array *a)
{
	if (test_and_set_bit(DDR_A_KILLED, &a->flags))
		return;
	DMERR("%s: killed by the daemon, all I/O fails", a->label);
	ddr_array_sweep(a, BLK_STS_IOERR);
}

/* ---- members -------------------------------------------------------------------- */

#define DDR_MB_REBUILDING	16	/* shift in member_bits */

/* Under a->lock. */
static void __ddr_array_set_member(struct ddr_array *a, u32 member, u32 state, u64 cursor)
{
	u32 bits = a->member_bits & ~(BIT(member) | BIT(member + DDR_MB_REBUILDING));

	/* what is complete without it on this node must not be written to it again */
	if (state == DDR_KM_LEAVING && (a->said_out & BIT(member)) &&
	    (member != DDR_SHADOW || (a->present & BIT(DDR_SHADOW))))
		state = DDR_KM_OUT;	/* a shadow that no table names holds up what is written, no more */
	if (state == DDR_KM_OUT)
		a->said_out |= BIT(member);
	else
		a->said_out &= ~BIT(member);
	WRITE_ONCE(a->member[member].cursor, cursor);
	WRITE_ONCE(a->member[member].state, state);
	if (state == DDR_KM_IN_SYNC)
		bits |= BIT(member);
	else if (state == DDR_KM_REBUILDING || state == DDR_KM_LEAVING)
		bits |= BIT(member + DDR_MB_REBUILDING);	/* leaving: the cursor is 0 */
	/* the cursor is visible before the state that makes it count: ddr_array_read_mask() */
	smp_store_release(&a->member_bits, bits);
}

void ddr_array_set_member(struct ddr_array *a, u32 member, u32 state, u64 cursor)
{
	unsigned long irq;

	spin_lock_irqsave(&a->lock, irq);
	__ddr_array_set_member(a, member, state, cursor);
	spin_unlock_irqrestore(&a->lock, irq);
}

/* From members to the roles that they play at @block. */
static u32 ddr_array_turn(struct ddr_array *a, u32 members, u64 block)
{
	u32 n = a->geo.roles, turn = ddr_geo_turn(&a->geo, block);

	return ((members >> turn) | (members << (n - turn))) & (BIT(n) - 1);
}

u32 ddr_array_read_mask(struct ddr_array *a, u64 block, u32 blocks)
{
	/* the state before its cursor: __ddr_array_set_member() */
	u32 bits = smp_load_acquire(&a->member_bits);
	unsigned long rebuilding = bits >> DDR_MB_REBUILDING;
	u32 members = bits & (BIT(DDR_GEO_MAX_ROLES) - 1), m;

	for_each_set_bit(m, &rebuilding, DDR_GEO_MAX_ROLES)
		if (block + blocks <= READ_ONCE(a->member[m].cursor))
			members |= BIT(m);
	return ddr_array_turn(a, members & READ_ONCE(a->present), block);
}

bool ddr_array_shadow_readable(struct ddr_array *a, u64 block, u32 blocks)
{
	u32 bits = smp_load_acquire(&a->member_bits);	/* as ddr_array_read_mask() */

	if (bits & BIT(DDR_SHADOW))
		return true;
	return (bits & BIT(DDR_SHADOW + DDR_MB_REBUILDING)) && block + blocks <= READ_ONCE(a->member[DDR_SHADOW].cursor);
}

u32 ddr_array_written(struct ddr_array *a)
{
	u32 bits = READ_ONCE(a->member_bits);

	return (bits | bits >> DDR_MB_REBUILDING) & (BIT(DDR_PLACES) - 1);
}

u32 ddr_array_write_mask(struct ddr_array *a, u64 block)
{
	u32 members = ddr_array_written(a) & READ_ONCE(a->present) & (BIT(DDR_GEO_MAX_ROLES) - 1);

	return ddr_array_turn(a, members, block);
}

/* ---- the active instance --------------------------------------------------------- */

/*
 * Under a->lock, before what the daemon has to judge: a late ENABLE for the table before must not take that back. No table is active
 * until the new one is, so who sees the number sees that table, or none.
 */
static void ddr_array_next_table(struct ddr_array *a)
{
	smp_store_release(&a->tables, a->tables + 1);	/* with ddr_bind() */
}

/*
 * Under a->lock. States are those of the devices that the daemon saw. Another device in a member's place may hold
 * anything: nothing is read from it, nor written to it, until a daemon that has seen this table enables it.
 * Returns the places whose device was not in the table before (bit: place).
 */
static u32 ddr_array_compare(struct ddr_array *a, struct ddr_target *t)
{
	bool other, back;
	u32 m, fresh = 0;
	dev_t dev;

	ddr_array_next_table(a);
	/* a shadow that is in use may not go, nor be another place's, unless the daemon says so */
	if (a->member[DDR_SHADOW].state != DDR_KM_OUT && a->started &&
	    ((a->present & ~t->present & BIT(DDR_SHADOW)) || a->shadow_place != t->shadow_place))
		set_bit(DDR_A_UNJUDGED, &a->flags);
	for (m = 0; m < DDR_PLACES; m++) {
		if (!t->dev[m].dm)
			continue;
		dev = t->dev[m].dm->bdev->bd_dev;
		other = a->devices[m] && a->devices[m] != dev;
		/* the number may be another device's by now */
		back = a->started && !(a->present & BIT(m)) && a->member[m].state != DDR_KM_OUT;
		if ((other || back) && !a->nosync) {
			set_bit(DDR_A_UNJUDGED, &a->flags);
			DMINFO("%s: the table names a new device for member %u, all I/O waits for the daemon", a->label, m);
		}
		/* whoever had the place was out, and failed, not this one: other nodes may read it already */
		if (other || !(a->present & BIT(m)))
			fresh |= BIT(m);
		a->devices[m] = dev;
	}
	a->said_out &= ~fresh;
	return fresh;
}

static u64 ddr_regions_of(const struct ddr_array *a, u64 blocks)
{
	return ((blocks - 1) >> a->region_blocks_shift) + 1;
}

/*
 * The array gets the blocks of a longer table. Grants stay: their regions are as long as the array, and the one that it ended in has
 * more blocks now, in which the daemon may have ranges of which we were not told. So all I/O waits until it has told us, and enables this table.
 */
static void ddr_array_grow(struct ddr_array *a, struct ddr_target *t)
{
	u64 regions = ddr_regions_of(a, t->blocks);

	mutex_lock(&a->ctl_mutex);
	if (regions > a->regions)
		ddr_regions_grow(a, t->grown);
	spin_lock_irq(&a->lock);
	WRITE_ONCE(a->blocks, t->blocks);
	WRITE_ONCE(a->regions, regions);
	ddr_array_next_table(a);
	set_bit(DDR_A_UNJUDGED, &a->flags);
	spin_unlock_irq(&a->lock);
	mutex_unlock(&a->ctl_mutex);
	DMINFO("%s: the table has %llu blocks now, all I/O waits for the daemon", a->label, t->blocks);
}

/* A daemon was bound to the first table before its resume: is it @t? (No other one can have its address while it is there.) */
static bool ddr_array_is_loaded(struct ddr_array *a, const struct ddr_target *t)
{
	bool is;

	mutex_lock(&ddr_registry_mutex);
	is = a->early && a->loaded == t;
	mutex_unlock(&ddr_registry_mutex);
	return is;
}

/*
 * Under a->lock, at the first resume. If a daemon was bound before, what it said is of the table that it was bound to (@same), and as long as it
 * is there.
 */
static void ddr_array_first(struct ddr_array *a, bool same)
{
	if (a->early && !same)
		set_bit(DDR_A_UNJUDGED, &a->flags);
	if (test_bit(DDR_A_DETACHED, &a->flags))
		clear_bit(DDR_A_ENABLED, &a->flags);
	WRITE_ONCE(a->as_bound, same);
}

int ddr_array_activate(struct ddr_array *a, struct ddr_target *t)
{
	bool same = !a->nosync && ddr_array_is_loaded(a, t);
	unsigned long fresh;
	u32 m;

	if (t->blocks < a->blocks) {
		DMERR("%s: the table is shorter than the array has become", a->label);
		return -EINVAL;
	}
	if (t->blocks > a->blocks)
		ddr_array_grow(a, t);
	spin_lock_irq(&a->lock);
	fresh = ddr_array_compare(a, t);
	spin_unlock_irq(&a->lock);
	/* before a daemon can bind to this table and is told of them */
	for_each_set_bit(m, &fresh, DDR_PLACES)
		ddr_error_forget(a, m);

	spin_lock_irq(&a->lock);
	WRITE_ONCE(a->present, t->present);
	a->shadow_place = t->shadow_place;
	if (!a->started && !a->nosync)
		ddr_array_first(a, same);
	else
		WRITE_ONCE(a->as_bound, false);
	/* nosync: nobody tells. What failed or was missing once is stale: it stays out for good */
	if (a->nosync)
		for (m = 0; m < a->geo.roles; m++)
			if (!(t->present & BIT(m)) || !a->started)
				__ddr_array_set_member(a, m, t->present & BIT(m) ?
						       DDR_KM_IN_SYNC : DDR_KM_OUT, 0);
	a->started = true;
	rcu_assign_pointer(a->active, t);
	assign_bit(DDR_A_FAIL_NO_DAEMON, &a->flags, t->fail_if_no_daemon);
	clear_bit(DDR_A_SUSPENDED, &a->flags);
	clear_bit(DDR_A_NOFLUSH_SUSPEND, &a->flags);
	clear_bit(DDR_A_FLUSH_SUSPEND, &a->flags);
	spin_unlock_irq(&a->lock);
	return 0;
}

void ddr_array_resumed(struct ddr_array *a)
{
	ddr_channel_wake(a);
	ddr_channel_announce(a, DDR_K_RESUMED);
	ddr_array_kick(a);
}

void ddr_array_deactivate(struct ddr_array *a, struct ddr_target *t)
{
	spin_lock_irq(&a->lock);
	if (rcu_access_pointer(a->active) == t) {
		RCU_INIT_POINTER(a->active, NULL);
		set_bit(DDR_A_SUSPENDED, &a->flags);
	}
	spin_unlock_irq(&a->lock);
	synchronize_rcu();
	ddr_channel_wake(a);
}

/* The table that was resumed last is there until the next one is, and holds its devices: no other has one of these numbers. */
bool ddr_array_names(struct ddr_array *a, dev_t dev)
{
	bool named = false;
	u32 m;

	spin_lock_irq(&a->lock);
	for (m = 0; m < DDR_PLACES; m++)
		named |= (a->present & BIT(m)) && a->devices[m] == dev;
	spin_unlock_irq(&a->lock);
	return named;
}

/* ---- registry and lifetime -------------------------------------------------------- */

static void ddr_array_free_bio_wqs(struct ddr_array *a)
{
	int i;

	for (i = 0; i < DDR_CLASSES; i++)
		if (a->bio_wq[i])
			destroy_workqueue(a->bio_wq[i]);
}

/* Large writes that sleep do so one behind the other for the same memory: a worker for each would be of no use to any. */
static bool ddr_array_make_bio_wqs(struct ddr_array *a)
{
	static const char *const names[DDR_CLASSES] = { "ddraid-read", "ddraid-small", "ddraid-large" };
	int i;

	for (i = 0; i < DDR_CLASSES; i++) {
		int active = i == DDR_CLASS_LARGE ? max(DDR_LARGE_WORKERS, 2 * (int)num_online_cpus()) : 0;

		a->bio_wq[i] = ddr_alloc(alloc_workqueue("%s", WQ_UNBOUND | WQ_MEM_RECLAIM, active, names[i]));
		if (!a->bio_wq[i])
			return false;
	}
	return true;
}

/*
 * No bio is left. But a work item that has given its bio away (parked it, ended it) may still be about to run what is parked, which goes
 * through ctl_wq: so that ends last.
 */
static void ddr_array_free(struct ddr_array *a)
{
	ddr_heard_end(a);
	if (a->engine)
		ddr_engine_settle(a);		/* what it waits for comes through io_wq */
	if (a->io_wq)
		destroy_workqueue(a->io_wq);
	ddr_array_free_bio_wqs(a);
	if (a->ctl_wq) {
		if (a->ranges)
			ddr_ranges_end(a);	/* what waits there comes through ctl_wq */
		destroy_workqueue(a->ctl_wq);
	}
	if (a->engine)
		ddr_engine_free(a);
	if (a->ranges)
		ddr_ranges_free(a);
	ddr_regions_drop(a->regions_state);
	mutex_destroy(&a->ctl_mutex);
	kfree(a);
}

static void ddr_array_free_work(struct work_struct *work)
{
	ddr_array_free(container_of(work, struct ddr_array, free_work));
}

static void ddr_array_last_put(struct kref *kref)
{
	struct ddr_array *a = container_of(kref, struct ddr_array, kref);

	queue_work(ddr_free_wq, &a->free_work);
}

void ddr_array_put(struct ddr_array *a)
{
	kref_put(&a->kref, ddr_array_last_put);
}

void ddr_array_label(char *label, const uuid_t *uuid, struct mapped_device *md)
{
	char name[DM_NAME_LEN];

	if (dm_copy_name_and_uuid(md, name, NULL))
		strscpy(name, dm_device_name(md), sizeof(name));
	if (uuid)
		snprintf(label, DDR_LABEL_SIZE, "%pUb (%s)", uuid, name);
	else
		strscpy(label, name, DDR_LABEL_SIZE);
}

static struct ddr_array *ddr_array_alloc(const uuid_t *uuid, struct mapped_device *md,
					 const struct ddr_geometry *geo, u64 blocks,
					 u32 region_sectors, sector_t data_offset, bool nosync)
{
	struct ddr_array *a = ddr_alloc(kzalloc(sizeof(*a), GFP_KERNEL));
	int r = -ENOMEM;

	if (!a)
		return ERR_PTR(r);
	kref_init(&a->kref);
	INIT_WORK(&a->free_work, ddr_array_free_work);
	INIT_WORK(&a->kick_work, ddr_array_kick_work);
	ddr_heard_init(a);
	INIT_LIST_HEAD(&a->registry);
	INIT_LIST_HEAD(&a->records);
	mutex_init(&a->ctl_mutex);
	spin_lock_init(&a->lock);
	bio_list_init(&a->parked);
	if (uuid)
		uuid_copy(&a->uuid, uuid);
	a->users = 1;
	a->md = md;
	a->dev = disk_devt(dm_disk(md));
	ddr_array_label(a->label, uuid, md);
	ratelimit_state_init(&a->errors_said, DEFAULT_RATELIMIT_INTERVAL, DEFAULT_RATELIMIT_BURST);
	a->geo = *geo;
	a->blocks = blocks;
	a->region_blocks_shift = ilog2(region_sectors / DDR_BLOCK_SECTORS);
	a->regions = ddr_regions_of(a, blocks);
	a->data_offset = data_offset;
	a->nosync = nosync;
	a->timeout = msecs_to_jiffies(DDR_DEFAULT_TIMEOUT_MS);
	a->flags = BIT(DDR_A_SUSPENDED) | (nosync ? BIT(DDR_A_ENABLED) : BIT(DDR_A_DETACHED));

	a->ctl_wq = ddr_alloc(alloc_workqueue("ddraid-ctl", WQ_UNBOUND | WQ_MEM_RECLAIM, 0));
	a->io_wq = ddr_alloc(alloc_workqueue("ddraid-io", WQ_UNBOUND | WQ_MEM_RECLAIM, 0));
	if (!nosync)
		a->regions_state = ddr_regions_make(a->regions);
	if (!a->ctl_wq || !a->io_wq || !ddr_array_make_bio_wqs(a) || (!nosync && !a->regions_state))
		goto fail;
	r = ddr_ranges_init(a);
	if (!r)
		r = ddr_engine_init(a);
	if (!r)
		return a;
fail:
	ddr_array_free(a);
	return ERR_PTR(r);
}

/* Under the registry mutex. */
static struct ddr_array *__ddr_array_find(const uuid_t *uuid)
{
	struct ddr_array *a;

	list_for_each_entry(a, &ddr_registry, registry)
		if (uuid_equal(&a->uuid, uuid))
			return a;
	return NULL;
}

/* May a table like this be loaded for the array? A longer one lets it grow; without a daemon nobody knows of that. */
static bool ddr_array_matches(const struct ddr_array *a, const struct ddr_geometry *geo,
			      u64 blocks, u32 region_sectors, sector_t data_offset, bool nosync)
{
	return a->geo.order == geo->order && a->geo.parity == geo->parity &&
	       a->geo.rotating == geo->rotating && (nosync ? blocks == a->blocks : blocks >= READ_ONCE(a->blocks)) &&
	       DDR_BLOCK_SECTORS << a->region_blocks_shift == region_sectors &&
	       a->data_offset == data_offset && a->nosync == nosync;
}

/* Under the registry mutex: the array of @uuid with one user more, NULL if there is none, or why it is not for this table. */
static struct ddr_array *ddr_array_join(const uuid_t *uuid, struct mapped_device *md, const struct ddr_geometry *geo,
					u64 blocks, u32 region_sectors, sector_t data_offset, bool nosync)
{
	struct ddr_array *a = __ddr_array_find(uuid);

	if (!a)
		return NULL;
	if (a->md != md)
		return ERR_PTR(-EBUSY);
	if (!ddr_array_matches(a, geo, blocks, region_sectors, data_offset, nosync))
		return ERR_PTR(-EINVAL);
	a->loaded = NULL;
	a->users++;
	return a;
}

/* Under the registry mutex. */
static void ddr_array_register(struct ddr_array *a, struct ddr_target *t)
{
	a->loaded = t;
	/* the clock makes it unique over a reload of the module as well */
	a->cookie = max_t(u64, ktime_get_boottime_ns(), ddr_last_cookie + 1);
	ddr_last_cookie = a->cookie;
	list_add_tail(&a->registry, &ddr_registry);
}

/* A user of @a, which may be shorter than its table: with what it needs to grow. Nothing else is made anew. */
static struct ddr_array *ddr_array_join_longer(struct ddr_array *a, u64 blocks, struct ddr_target *t)
{
	if (blocks <= READ_ONCE(a->blocks) || ddr_regions_of(a, blocks) == READ_ONCE(a->regions))
		return a;
	t->grown = ddr_regions_make(ddr_regions_of(a, blocks));
	if (t->grown)
		return a;
	ddr_array_release(a, t);
	return ERR_PTR(-ENOMEM);
}

struct ddr_array *ddr_array_get(const uuid_t *uuid, struct mapped_device *md,
				const struct ddr_geometry *geo, u64 blocks, u32 region_sectors,
				sector_t data_offset, struct ddr_target *t)
{
	struct ddr_array *new = NULL, *a;
	bool nosync = t->nosync;

	if (!uuid && !nosync)
		return ERR_PTR(-EINVAL);
	for (;;) {
		if (!uuid)
			return ddr_array_alloc(uuid, md, geo, blocks, region_sectors, data_offset, nosync);
		mutex_lock(&ddr_registry_mutex);
		a = ddr_array_join(uuid, md, geo, blocks, region_sectors, data_offset, nosync);
		if (!a && new)
			ddr_array_register(new, t);
		mutex_unlock(&ddr_registry_mutex);
		if (a || new)
			break;
		new = ddr_array_alloc(uuid, md, geo, blocks, region_sectors, data_offset, nosync);
		if (IS_ERR(new))
			return new;
	}
	if (!a) {
		ddr_channel_announce(new, DDR_K_APPEARED);
		return new;
	}
	if (new)
		ddr_array_free(new);	/* somebody else was quicker */
	return IS_ERR(a) ? a : ddr_array_join_longer(a, blocks, t);
}

/*
 * Under the registry mutex, with which a table goes: @t is there. What the daemon says of its members from now on is of these devices, as
 * after a resume; no bio has reached the array yet.
 */
static bool ddr_array_take_loaded(struct ddr_array *a, const struct ddr_target *t)
{
	bool taken;
	u32 m;

	spin_lock_irq(&a->lock);
	taken = !a->started;
	for (m = 0; taken && m < DDR_PLACES; m++)
		a->devices[m] = t->dev[m].dm ? t->dev[m].dm->bdev->bd_dev : 0;
	if (taken) {
		a->early = true;
		a->shadow_place = t->shadow_place;
		WRITE_ONCE(a->present, t->present);
		clear_bit(DDR_A_ENABLED, &a->flags);	/* of a daemon before this one */
	}
	spin_unlock_irq(&a->lock);
	return taken;
}

int ddr_array_bind_loaded(struct ddr_array *a, void (*describe)(const struct ddr_target *t, struct ddr_bind *b), struct ddr_bind *b)
{
	int r = -EAGAIN;

	mutex_lock(&ddr_registry_mutex);
	if (a->loaded && ddr_array_take_loaded(a, a->loaded)) {
		describe(a->loaded, b);
		r = 0;
	}
	mutex_unlock(&ddr_registry_mutex);
	return r;
}

void ddr_array_release(struct ddr_array *a, struct ddr_target *t)
{
	bool last;

	mutex_lock(&ddr_registry_mutex);
	if (a->loaded == t)
		a->loaded = NULL;
	last = !--a->users;
	if (last)
		list_del_init(&a->registry);
	mutex_unlock(&ddr_registry_mutex);
	if (!last)
		return;

	mutex_lock(&a->ctl_mutex);
	spin_lock_irq(&a->lock);
	a->gone = true;
	spin_unlock_irq(&a->lock);
	ddr_channel_drop(a);
	mutex_unlock(&a->ctl_mutex);
	ddr_heard_end(a);
	if (!uuid_is_null(&a->uuid))
		ddr_channel_announce(a, DDR_K_REMOVED);
	ddr_array_put(a);
}

struct ddr_array *ddr_array_find(const uuid_t *uuid)
{
	struct ddr_array *a;

	mutex_lock(&ddr_registry_mutex);
	a = __ddr_array_find(uuid);
	if (a)
		kref_get(&a->kref);
	mutex_unlock(&ddr_registry_mutex);
	return a;
}

struct ddr_array *ddr_array_next(u64 cookie)
{
	struct ddr_array *a, *next = NULL;

	mutex_lock(&ddr_registry_mutex);
	list_for_each_entry(a, &ddr_registry, registry)
		if (a->cookie > cookie && !a->nosync) {
			kref_get(&a->kref);
			next = a;
			break;
		}
	mutex_unlock(&ddr_registry_mutex);
	return next;
}

int ddr_array_init(void)
{
	ddr_free_wq = ddr_alloc(alloc_workqueue("ddraid-free", WQ_UNBOUND, 0));
	return ddr_free_wq ? 0 : -ENOMEM;
}

void ddr_array_exit(void)
{
	destroy_workqueue(ddr_free_wq);
}
