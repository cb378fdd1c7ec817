// SPDX-License-Identifier: GPL-2.0-only
/*
 * The array object: everything that must survive a table reload, and the registry that finds it
 * by uuid.
 *
 * Must never: clear a dirty mark or close a grant by itself, or wait for the daemon in a dm
 * callback.
 *
 * The registry mutex is taken inside the channel's mutexes and ctl_mutex. Inside it only a->lock
 * is taken, and no memory is allocated: a daemon that looks for an array must not wait for a
 * constructor that waits for memory, which may wait for that daemon.
 *
 * Lifetime: targets, channels and list walks hold references. The last put leaves the rest to a
 * work item, which first stops the workqueues: work items on them need no reference of their
 * own.
 */
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "array.h"
#include "channel.h"
#include "engine.h"
#include "gate.h"
#include "heard.h"
#include "range.h"
#include "region.h"

#define DDR_DEFAULT_TIMEOUT_MS	10000
#define DDR_LARGE_WORKERS	16

static DEFINE_MUTEX(ddr_registry_mutex);
static LIST_HEAD(ddr_registry);			/* by cookie, ascending */
static u64 ddr_last_cookie;
static struct workqueue_struct *ddr_free_wq;

static void ddr_array_free_bio_wqs(struct ddr_array *a)
{
	int i;

	for (i = 0; i < DDR_CLASSES; i++)
		if (a->bio_wq[i])
			destroy_workqueue(a->bio_wq[i]);
}

/*
 * Large writes that sleep all wait for the same memory, one after the other: a worker for each
 * would not help.
 */
static bool ddr_array_make_bio_wqs(struct ddr_array *a)
{
	static const char *const names[DDR_CLASSES] = {
		"ddraid-read", "ddraid-small", "ddraid-large"
	};
	int i;

	for (i = 0; i < DDR_CLASSES; i++) {
		int active = 0;

		if (i == DDR_CLASS_LARGE)
			active = max(DDR_LARGE_WORKERS, 2 * (int)num_online_cpus());
		a->bio_wq[i] = ddr_alloc(alloc_workqueue("%s", WQ_UNBOUND | WQ_MEM_RECLAIM,
							 active, names[i]));
		if (!a->bio_wq[i])
			return false;
	}
	return true;
}

/*
 * No bio is left. But the work item that handed over the last one (started it again, ended it)
 * may still run: each queue is destroyed, which waits for its work items, before anything that
 * these may use.
 */
static void ddr_array_free(struct ddr_array *a)
{
	ddr_heard_end(a);
	if (a->engine)
		ddr_engine_settle(a);		/* what it waits for uses io_wq */
	if (a->io_wq)
		destroy_workqueue(a->io_wq);
	ddr_array_free_bio_wqs(a);
	if (a->ctl_wq) {
		if (a->ranges)
			ddr_ranges_end(a);	/* what waits there uses ctl_wq */
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
	ddr_gate_init(a);
	ddr_heard_init(a);
	INIT_LIST_HEAD(&a->registry);
	INIT_LIST_HEAD(&a->records);
	mutex_init(&a->ctl_mutex);
	spin_lock_init(&a->lock);
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

	lockdep_assert_held(&ddr_registry_mutex);
	list_for_each_entry(a, &ddr_registry, registry)
		if (uuid_equal(&a->uuid, uuid))
			return a;
	return NULL;
}

/*
 * May a table like this be loaded for the array? A longer one grows the array; without a daemon
 * growing is not possible.
 */
static bool ddr_array_matches(const struct ddr_array *a, const struct ddr_geometry *geo,
			      u64 blocks, u32 region_sectors, sector_t data_offset, bool nosync)
{
	return a->geo.order == geo->order && a->geo.parity == geo->parity &&
	       a->geo.rotating == geo->rotating &&
	       (nosync ? blocks == a->blocks : blocks >= READ_ONCE(a->blocks)) &&
	       DDR_BLOCK_SECTORS << a->region_blocks_shift == region_sectors &&
	       a->data_offset == data_offset && a->nosync == nosync;
}

/*
 * Under the registry mutex: the array of @uuid with one more user; NULL if there is none; or an
 * error if it does not fit this table.
 */
static struct ddr_array *ddr_array_join(const uuid_t *uuid, struct mapped_device *md,
					const struct ddr_geometry *geo, u64 blocks,
					u32 region_sectors, sector_t data_offset, bool nosync)
{
	struct ddr_array *a = __ddr_array_find(uuid);

	lockdep_assert_held(&ddr_registry_mutex);
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
	lockdep_assert_held(&ddr_registry_mutex);
	a->loaded = t;
	/* the clock makes it unique across a reload of the module, too */
	a->cookie = max_t(u64, ktime_get_boottime_ns(), ddr_last_cookie + 1);
	ddr_last_cookie = a->cookie;
	list_add_tail(&a->registry, &ddr_registry);
}

/*
 * A user of @a, which may be shorter than its table: then with the memory to grow. Nothing else
 * is allocated again.
 */
static struct ddr_array *ddr_array_join_longer(struct ddr_array *a, u64 blocks,
					       struct ddr_target *t)
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
			return ddr_array_alloc(uuid, md, geo, blocks, region_sectors, data_offset,
					       nosync);
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
		ddr_array_free(new);	/* another one was faster */
	return IS_ERR(a) ? a : ddr_array_join_longer(a, blocks, t);
}

/*
 * Under the registry mutex, which protects @t from being freed. What the daemon sets for the
 * members from now on belongs to these devices, as after a resume; no bio has reached the array
 * yet.
 */
static bool ddr_array_take_loaded(struct ddr_array *a, const struct ddr_target *t)
{
	bool taken;
	u32 m;

	lockdep_assert_held(&ddr_registry_mutex);
	spin_lock_irq(&a->lock);
	taken = !a->started;
	for (m = 0; taken && m < DDR_PLACES; m++)
		a->devices[m] = t->dev[m].dm ? t->dev[m].dm->bdev->bd_dev : 0;
	if (taken) {
		a->early = true;
		a->shadow_place = t->shadow_place;
		WRITE_ONCE(a->present, t->present);
		clear_bit(DDR_A_ENABLED, &a->flags);	/* set for an earlier daemon */
	}
	spin_unlock_irq(&a->lock);
	return taken;
}

bool ddr_array_is_loaded(struct ddr_array *a, const struct ddr_target *t)
{
	bool is;

	mutex_lock(&ddr_registry_mutex);
	is = a->early && a->loaded == t;
	mutex_unlock(&ddr_registry_mutex);
	return is;
}

int ddr_array_bind_loaded(struct ddr_array *a,
			  void (*describe)(const struct ddr_target *t, struct ddr_bind *b),
			  struct ddr_bind *b)
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

/* The array is removed: all grants are reported CLOSED, then reads get EOF. */
static void ddr_array_drop(struct ddr_array *a)
{
	if (a->regions_state)
		ddr_region_close_all(a);
	ddr_channel_wake(a);
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
	ddr_array_drop(a);
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
