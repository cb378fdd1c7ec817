// SPDX-License-Identifier: GPL-2.0-only
/*
 * The device-mapper target: constructor and destructor, suspend and resume, status, table,
 * messages, limits. doc/dm-ddraid.7 describes what the user sees.
 *
 * The array object (array.c) outlives the tables; a target instance is one table.
 *
 * Must never: wait for the daemon in a callback of device-mapper (the daemon may be the process
 * that reloads the table), or show a table that could not be loaded again.
 */
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "array.h"
#include "channel.h"
#include "compat/limits.h"
#include "gate.h"
#include "heard.h"
#include "io.h"
#include "region.h"
#include "release.h"
#include "table.h"

/* One write-zeroes or discard bio; it runs as pieces of at most a unit. */
#define DDR_MAX_ZEROES_SECTORS	(16 * DDR_UNIT_SECTORS)

static void ddr_event_work(struct work_struct *work)
{
	struct ddr_target *t = container_of(work, struct ddr_target, event);

	dm_table_event(t->ti->table);
}

/* ---- constructor, destructor ------------------------------------------------------- */

static bool ddr_members_write_zeroes(struct ddr_target *t)
{
	u32 i;

	for (i = 0; i < DDR_PLACES; i++)
		if (t->dev[i].dm && !bdev_write_zeroes_sectors(t->dev[i].dm->bdev))
			return false;
	return true;
}

/*
 * The requirements of drivers for a bio's segments: whole logical blocks, and their own address
 * alignment.
 */
static u32 ddr_members_align(struct ddr_target *t)
{
	u32 align = SECTOR_SIZE, i;

	for (i = 0; i < DDR_PLACES; i++)
		if (t->dev[i].dm)
			align = max3(align, bdev_logical_block_size(t->dev[i].dm->bdev),
				     roundup_pow_of_two(1 +
							bdev_dma_alignment(t->dev[i].dm->bdev)));
	return align;
}

static int ddr_attach_array(struct ddr_target *t, const struct ddr_table *tab)
{
	struct dm_target *ti = t->ti;
	struct ddr_array *a = ddr_array_get(tab->no_uuid ? NULL : &tab->uuid,
					    dm_table_get_md(ti->table), &tab->geo, tab->blocks,
					    tab->region_sectors, tab->data_offset, t);

	if (!IS_ERR(a)) {
		t->array = a;
		return 0;
	}
	switch (PTR_ERR(a)) {
	case -EBUSY:
		ti->error = "The array is in use by another mapped device";
		break;
	case -EINVAL:
		ti->error = "Geometry or nosync differ from the table that is loaded, or this one is shorter: remove the device first";
		break;
	default:
		ti->error = "Cannot allocate the array";
	}
	return PTR_ERR(a);
}

static void ddr_dtr(struct dm_target *ti)
{
	struct ddr_target *t = ti->private;

	/*
	 * it still is active if another target of the table failed to resume: the table was not
	 * suspended then
	 */
	ddr_array_deactivate(t->array, t);
	cancel_work_sync(&t->event);
	ddr_pools_exit(t);
	ddr_regions_drop(t->grown);
	ddr_array_release(t->array, t);
	ddr_table_put_devices(t);
	kfree(t);
}

static int ddr_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct ddr_table tab = { };
	struct ddr_target *t = ddr_alloc(kzalloc(sizeof(*t), GFP_KERNEL));
	int r;

	if (!t) {
		ti->error = "Cannot allocate the target";
		return -ENOMEM;
	}
	t->ti = ti;
	INIT_WORK(&t->event, ddr_event_work);

	r = ddr_table_parse(t, &tab, argc, argv);
	if (r)
		goto put_devices;
	r = dm_set_target_max_io_len(ti, min(tab.region_sectors, DDR_UNIT_SECTORS));
	if (r)
		goto put_devices;
	t->blocks = tab.blocks;
	t->align = ddr_members_align(t);
	r = ddr_attach_array(t, &tab);
	if (r)
		goto put_devices;
	r = ddr_table_check_empty(t, &tab);
	if (r)
		goto release_array;
	r = ddr_pools_init(t);
	if (r) {
		ti->error = "Cannot allocate the reserves of memory";
		goto release_array;
	}

	ti->private = t;
	ti->num_flush_bios = 1;
	ti->num_discard_bios = 1;
	ti->num_write_zeroes_bios = 1;
	ti->discards_supported = ddr_members_write_zeroes(t);
	ti->needs_bio_set_dev = true;
	ti->per_io_data_size = sizeof(struct ddr_io);
	return 0;

release_array:
	ddr_regions_drop(t->grown);
	ddr_array_release(t->array, t);
put_devices:
	ddr_table_put_devices(t);
	kfree(t);
	return r;
}

/* ---- I/O, suspend, resume ------------------------------------------------------------ */

static int ddr_map(struct dm_target *ti, struct bio *bio)
{
	return ddr_io_map(ti->private, bio);
}

/*
 * A noflush suspend takes back parked bios. A flushing one waits for them, or ends those that
 * were never served.
 */
static void ddr_presuspend(struct dm_target *ti)
{
	struct ddr_target *t = ti->private;

	if (dm_noflush_suspending(ti))
		ddr_array_requeue_parked(t->array);
	else
		ddr_array_fail_unserved(t->array);
}

static void ddr_presuspend_undo(struct dm_target *ti)
{
	struct ddr_target *t = ti->private;

	ddr_array_suspend_undo(t->array);
}

static void ddr_postsuspend(struct dm_target *ti)
{
	struct ddr_target *t = ti->private;

	ddr_array_deactivate(t->array, t);
}

static int ddr_preresume(struct dm_target *ti)
{
	struct ddr_target *t = ti->private;

	return ddr_array_activate(t->array, t);
}

static void ddr_resume(struct dm_target *ti)
{
	struct ddr_target *t = ti->private;

	ddr_array_resumed(t->array);
}

/* ---- status, messages ------------------------------------------------------------------- */

static char ddr_member_letter(struct ddr_target *t, u32 i)
{
	if (!t->dev[i].dm)
		return '-';
	switch (READ_ONCE(t->array->member[i].state)) {
	case DDR_KM_IN_SYNC:
		return 'A';
	case DDR_KM_REBUILDING:
	case DDR_KM_LEAVING:
		return 'a';
	default:
		return 'D';
	}
}

static const char *ddr_action_name(u32 action)
{
	static const char *const names[] = {
		[DDR_KA_IDLE] = "idle",
		[DDR_KA_RESYNC] = "resync",
		[DDR_KA_REBUILD] = "rebuild",
		[DDR_KA_VERIFY] = "verify",
		[DDR_KA_FROZEN] = "frozen",
	};

	return action < ARRAY_SIZE(names) ? names[action] : "idle";
}

static const char *ddr_daemon_name(struct ddr_target *t)
{
	if (t->nosync)
		return "nosync";
	return ddr_channel_attached(t->array) ? "attached" : "detached";
}

struct ddr_status {
	u32 action;
	u64 synced, done, todo, mismatches, dirty;
};

static void ddr_get_status(struct ddr_target *t, struct ddr_status *s)
{
	struct ddr_array *a = t->array;

	spin_lock_irq(&a->lock);
	s->action = a->action;
	s->synced = t->nosync ? a->regions : a->synced;
	s->done = a->done;
	s->todo = a->todo;
	s->mismatches = a->mismatches;
	spin_unlock_irq(&a->lock);
	if (t->nosync)
		s->mismatches = atomic64_read(&a->verify_mismatches);
	s->dirty = t->nosync ? 0 : ddr_region_granted_count(a);
}

static void ddr_status_info(struct ddr_target *t, char *result, unsigned int maxlen)
{
	struct ddr_status s;
	unsigned int sz = 0;
	u32 i;

	ddr_get_status(t, &s);
	for (i = 0; i < t->roles; i++)
		DMEMIT("%c", ddr_member_letter(t, i));
	DMEMIT(" %llu/%llu %s %llu/%llu %llu %llu %d %s", s.synced, t->array->regions,
	       ddr_action_name(s.action), s.done, s.todo, s.mismatches, s.dirty,
	       atomic_read(&t->array->nr_parked), ddr_daemon_name(t));
}

static void ddr_status_table(struct ddr_target *t, char *result, unsigned int maxlen)
{
	struct ddr_array *a = t->array;
	unsigned int sz = 0;
	u32 i, options = 0;

	if (uuid_is_null(&a->uuid))
		DMEMIT("-");
	else
		DMEMIT("%pUb", &a->uuid);
	DMEMIT(" %u %u %s %u %llu %u", a->geo.order, a->geo.parity,
	       DDR_LAYOUT_NAME(a->geo.rotating),
	       DDR_BLOCK_SECTORS << a->region_blocks_shift, (u64)a->data_offset, t->roles);
	for (i = 0; i < t->roles; i++)
		DMEMIT(" %s", t->dev[i].dm ? t->dev[i].dm->name : "-");
	for (i = 0; i < DDR_NR_OPTIONS; i++)
		options += *ddr_option_flag(t, i);
	options += t->dev[DDR_SHADOW].dm ? 3 : 0;
	if (!options)
		return;
	DMEMIT(" %u", options);
	for (i = 0; i < DDR_NR_OPTIONS; i++)
		if (*ddr_option_flag(t, i))
			DMEMIT(" %s", ddr_options[i].name);
	if (t->dev[DDR_SHADOW].dm)
		DMEMIT(" replace %u %s", t->shadow_place, t->dev[DDR_SHADOW].dm->name);
}

static void ddr_status_ima(struct ddr_target *t, char *result, unsigned int maxlen)
{
	struct ddr_array *a = t->array;
	unsigned int sz = 0;
	u32 i;

	DMEMIT_TARGET_NAME_VERSION(t->ti->type);
	DMEMIT(",array_uuid=%pUb,order=%u,parity=%u,layout=%s,region_sectors=%u,data_offset=%llu,members=%u",
	       &a->uuid, a->geo.order, a->geo.parity, DDR_LAYOUT_NAME(a->geo.rotating),
	       DDR_BLOCK_SECTORS << a->region_blocks_shift, (u64)a->data_offset, t->roles);
	for (i = 0; i < t->roles; i++)
		DMEMIT(",member_%u=%s", i, t->dev[i].dm ? t->dev[i].dm->name : "-");
	for (i = 0; i < t->roles; i++)
		DMEMIT(",member_%u_state=%c", i, ddr_member_letter(t, i));
	if (t->dev[DDR_SHADOW].dm)
		DMEMIT(",replace_%u=%s", t->shadow_place, t->dev[DDR_SHADOW].dm->name);
	for (i = 0; i < DDR_NR_OPTIONS; i++)
		DMEMIT(",%s=%c", ddr_options[i].name, *ddr_option_flag(t, i) ? 'y' : 'n');
	DMEMIT(";");
}

static void ddr_status(struct dm_target *ti, status_type_t type, unsigned int flags, char *result,
		       unsigned int maxlen)
{
	struct ddr_target *t = ti->private;

	*result = '\0';
	switch (type) {
	case STATUSTYPE_INFO:
		ddr_status_info(t, result, maxlen);
		break;
	case STATUSTYPE_TABLE:
		ddr_status_table(t, result, maxlen);
		break;
	case STATUSTYPE_IMA:
		ddr_status_ima(t, result, maxlen);
		break;
	}
}

/*
 * fail_member INDEX: as if a write to it had failed. With a daemon, the daemon has to decide
 * that.
 */
static int ddr_fail_member(struct ddr_target *t, const char *arg)
{
	u32 member;

	if (!t->nosync) {
		DMERR("%s: fail_member: only with nosync; else use: ddraid fail", t->array->label);
		return -EINVAL;
	}
	if (kstrtouint(arg, 10, &member) || member >= t->roles) {
		DMERR("%s: fail_member: %s is no member", t->array->label, arg);
		return -EINVAL;
	}
	if (!ddr_error_fail_member(t, member)) {
		DMERR("%s: fail_member: the array cannot do without member %u", t->array->label,
		      member);
		return -EBUSY;
	}
	return 0;
}

static int ddr_message(struct dm_target *ti, unsigned int argc, char **argv, char *result,
		       unsigned int maxlen)
{
	struct ddr_target *t = ti->private;

	if (argc == 2 && !strcasecmp(argv[0], "fail_member"))
		return ddr_fail_member(t, argv[1]);
	DMERR("%s: unknown message or wrong number of arguments: %s", t->array->label,
	      argc ? argv[0] : "(none)");
	return -EINVAL;
}

/* ---- devices and limits -------------------------------------------------------------------- */

static int ddr_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn, void *data)
{
	struct ddr_target *t = ti->private;
	struct ddr_array *a = t->array;
	int r = 0;
	u32 i;

	for (i = 0; i < DDR_PLACES && !r; i++)
		if (t->dev[i].dm)
			r = fn(ti, t->dev[i].dm, a->data_offset,
			       ddr_member_sectors(&a->geo, t->blocks), data);
	return r;
}

/*
 * The members' limits do not apply to our bios: these are copied, and the members' bios are
 * split where necessary. Nor does their memory alignment: a read of a mirror whose pages do not
 * suit the members is copied like all others (ddr_read_fits()).
 */
static void ddr_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	struct ddr_target *t = ti->private;
	struct ddr_array *a = t->array;
	u32 granularity = limits->discard_granularity << a->geo.order;

	limits->logical_block_size = DDR_BLOCK_SECTORS << SECTOR_SHIFT;
	limits->physical_block_size = DDR_BLOCK_SECTORS << SECTOR_SHIFT;
	limits->io_min = DDR_BLOCK_SECTORS << SECTOR_SHIFT;
	limits->io_opt = DDR_UNIT_SECTORS << SECTOR_SHIFT;
	limits->alignment_offset = 0;
	limits->dma_alignment = SECTOR_SIZE - 1;
	ddr_limits_copied(limits, DDR_UNIT_SECTORS);

	if (ti->discards_supported) {
		limits->discard_granularity = max(granularity, limits->logical_block_size);
		limits->discard_alignment = 0;
		ddr_limits_zeroes(limits, DDR_MAX_ZEROES_SECTORS);
	} else {
		ddr_limits_zeroes(limits, 0);
	}
}

static struct target_type ddr_target_type = {
	.name = "ddraid",
	.version = { 1, 1, 0 },
	.module = THIS_MODULE,
	.ctr = ddr_ctr,
	.dtr = ddr_dtr,
	.map = ddr_map,
	.presuspend = ddr_presuspend,
	.presuspend_undo = ddr_presuspend_undo,
	.postsuspend = ddr_postsuspend,
	.preresume = ddr_preresume,
	.resume = ddr_resume,
	.status = ddr_status,
	.message = ddr_message,
	.iterate_devices = ddr_iterate_devices,
	.io_hints = ddr_io_hints,
};

static int __init ddr_init(void)
{
	int r = ddr_io_init();

	if (r)
		return r;
	r = ddr_array_init();
	if (r)
		goto exit_io;
	r = ddr_channel_init();
	if (r)
		goto exit_array;
	r = ddr_alloc_int(dm_register_target(&ddr_target_type));
	if (r)
		goto exit_channel;
	return 0;

exit_channel:
	ddr_channel_exit();
exit_array:
	ddr_array_exit();
exit_io:
	ddr_io_exit();
	return r;
}

static void __exit ddr_exit(void)
{
	dm_unregister_target(&ddr_target_type);
	ddr_channel_exit();
	ddr_array_exit();
	ddr_io_exit();
}

/*
 * The interface version of the loaded module, and the versions of the protocol between nodes that
 * it serves (the lowest, the highest), for packages and for the command: a release that
 * is about to be installed must be able to serve the arrays that are up. Read-only.
 */
static int ddr_abi_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%u\n", DDR_ABI_VERSION);
}

static int ddr_protocol_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%u %u\n", DDR_SERVES_LOWEST, DDR_SERVES_HIGHEST);
}

static int ddr_param_set(const char *text, const struct kernel_param *kp)
{
	return -EPERM;
}

static const struct kernel_param_ops ddr_abi_ops = {
	.set = ddr_param_set,
	.get = ddr_abi_get,
};

static const struct kernel_param_ops ddr_protocol_ops = {
	.set = ddr_param_set,
	.get = ddr_protocol_get,
};
module_param_cb(abi, &ddr_abi_ops, NULL, 0444);
MODULE_PARM_DESC(abi, "version of the interface to ddraidd (read only)");
module_param_cb(protocol, &ddr_protocol_ops, NULL, 0444);
MODULE_PARM_DESC(protocol, "lowest and highest version of the protocol between nodes (read only)");

module_init(ddr_init);
module_exit(ddr_exit);

MODULE_VERSION(DDR_RELEASE);

MODULE_DESCRIPTION(DM_NAME " ddraid: RAID 3.5 for clusters");
MODULE_AUTHOR("The ddraid authors");
MODULE_LICENSE("GPL");
MODULE_ALIAS("dm-ddraid");
