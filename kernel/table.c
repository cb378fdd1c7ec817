// SPDX-License-Identifier: GPL-2.0-only
/*
 * The table line:
 *
 *	<array uuid|-> <order> <parity> <dedicated|rotating> <region sectors>
 *	<data offset sectors> <#members> {<device>|-}... [<#options> {<option>}...]
 *
 * The option "replace <place> <device>" counts as three.
 *
 * Every step checks one thing and says in ti->error what is wrong with it.
 *
 * Must never: accept a line that the superblocks could not mean, or touch the array.
 */
#include <linux/ctype.h>
#include <linux/log2.h>

#include "array.h"
#include "table.h"

#define DDR_MIN_REGION		128u			/* sectors: 64 KiB */
#define DDR_MAX_REGION		2097152u		/* sectors: 1 GiB */
#define DDR_MAX_REGIONS		(1u << 20)
#define DDR_OFFSET_ALIGN	2048u			/* sectors: 1 MiB */
/* sectors; sums with a device's length do not overflow */
#define DDR_MAX_OFFSET		(1ull << 40)
#define DDR_FIXED_ARGS		7

const struct ddr_option ddr_options[DDR_NR_OPTIONS] = {
	{ "nosync", offsetof(struct ddr_target, nosync) },
	{ "nocalc", offsetof(struct ddr_target, nocalc) },
	{ "verify_reads", offsetof(struct ddr_target, verify_reads) },
	{ "fail_if_no_daemon", offsetof(struct ddr_target, fail_if_no_daemon) },
};

static int ddr_bad(struct dm_target *ti, char *error)
{
	ti->error = error;
	return -EINVAL;
}

/* A plain decimal number up to @max. */
static bool ddr_number(const char *arg, u64 max, u64 *value)
{
	return isdigit(*arg) && !kstrtou64(arg, 10, value) && *value <= max;
}

static int ddr_parse_uuid(struct dm_target *ti, struct ddr_table *tab, const char *arg)
{
	tab->no_uuid = !strcmp(arg, "-");
	if (tab->no_uuid)
		return 0;
	if (strlen(arg) != UUID_STRING_LEN || uuid_parse(arg, &tab->uuid))
		return ddr_bad(ti, "Invalid array UUID: 36 characters, or - with nosync");
	if (uuid_is_null(&tab->uuid))
		return ddr_bad(ti, "The array UUID is zero");
	return 0;
}

static int ddr_parse_geometry(struct dm_target *ti, struct ddr_table *tab, char **argv)
{
	u64 order, parity;
	bool rotating = !strcmp(argv[2], "rotating");

	if (!ddr_number(argv[0], 3, &order))
		return ddr_bad(ti, "Invalid order: 0 to 3, for 1, 2, 4 or 8 data members");
	if (!ddr_number(argv[1], 2, &parity))
		return ddr_bad(ti, "Invalid parity: 0, 1 (P) or 2 (P and Q)");
	if (!rotating && strcmp(argv[2], "dedicated"))
		return ddr_bad(ti, "Unknown layout: dedicated or rotating");
	ddr_geo_init(&tab->geo, order, parity, rotating);
	return 0;
}

static int ddr_parse_sizes(struct dm_target *ti, struct ddr_table *tab, char **argv)
{
	u64 region, offset;

	if (!ddr_number(argv[0], U64_MAX, &region))
		return ddr_bad(ti, "Invalid region size: a number of sectors");
	if (!is_power_of_2(region))
		return ddr_bad(ti, "Region size is not a power of two");
	if (region < DDR_MIN_REGION || region > DDR_MAX_REGION)
		return ddr_bad(ti, "Region size is not between 128 (64 KiB) and 2097152 (1 GiB) sectors");
	if (!ddr_number(argv[1], U64_MAX, &offset))
		return ddr_bad(ti, "Invalid data offset: a number of sectors");
	if (!offset)
		return ddr_bad(ti, "Data offset is zero: the metadata precedes the data");
	if (offset % DDR_OFFSET_ALIGN)
		return ddr_bad(ti, "Data offset is not a multiple of 2048 sectors (1 MiB)");
	if (offset > DDR_MAX_OFFSET)
		return ddr_bad(ti, "Data offset is too large");
	tab->region_sectors = region;
	tab->data_offset = offset;
	return 0;
}

static int ddr_check_length(struct dm_target *ti, struct ddr_table *tab)
{
	if (ti->begin)
		return ddr_bad(ti, "The target must start at sector 0 of the device");
	if (!ti->len || ti->len % (DDR_BLOCK_SECTORS << tab->geo.order))
		return ddr_bad(ti, "Length is not a multiple of 8 sectors (4 KiB) times the data members");
	tab->blocks = ti->len / DDR_BLOCK_SECTORS;
	if (DIV_ROUND_UP_ULL(ti->len, tab->region_sectors) > DDR_MAX_REGIONS)
		return ddr_bad(ti, "Length needs more than 1048576 regions: use larger regions");
	return 0;
}

/* ---- members ------------------------------------------------------------------ */

/* The checks that need the device open. */
static int ddr_check_device(struct ddr_target *t, struct ddr_table *tab, u32 i)
{
	struct dm_target *ti = t->ti;
	struct dm_dev *dev = t->dev[i].dm;
	struct block_device *bdev = dev->bdev;
	u64 sectors;
	u32 j;

	if (bdev->bd_disk == dm_disk(dm_table_get_md(ti->table)))
		return ddr_bad(ti, "A member is the array itself");
	for (j = 0; j < i; j++)
		if (t->dev[j].dm && t->dev[j].dm->bdev == bdev)
			return ddr_bad(ti, "A device is given twice");
	if (bdev_is_zoned(bdev))
		return ddr_bad(ti, "A member is a zoned device");
	if (bdev_logical_block_size(bdev) > tab->geo.chunk) {
		DMERR("%s: %s: its sectors of %u bytes are larger than a chunk of order %u (%u bytes)", tab->label,
		      dev->name,
		      bdev_logical_block_size(bdev), tab->geo.order, tab->geo.chunk);
		return ddr_bad(ti, "A member's logical sectors are larger than a chunk: use a lower order or other disks");
	}
	if (bdev_physical_block_size(bdev) > tab->geo.chunk)
		DMWARN("%s: %s: physical sectors of %u bytes exceed a chunk (%u): slow, and a power failure may damage other blocks",
		       tab->label, dev->name, bdev_physical_block_size(bdev), tab->geo.chunk);
	sectors = bdev_nr_sectors(bdev);
	if (!sectors) {
		tab->empty |= BIT(i);			/* ddr_table_check_empty() */
		return 0;
	}
	if (sectors < tab->data_offset + ddr_member_sectors(&tab->geo, tab->blocks)) {
		DMERR("%s: %s has %llu sectors, the array needs %llu", tab->label, dev->name,
		      sectors,
		      tab->data_offset + (u64)ddr_member_sectors(&tab->geo, tab->blocks));
		return ddr_bad(ti, "A member is too small");
	}
	return 0;
}

int ddr_table_check_empty(struct ddr_target *t, const struct ddr_table *tab)
{
	unsigned long empty = tab->empty;
	u32 i;

	for_each_set_bit(i, &empty, DDR_PLACES) {
		if (ddr_array_names(t->array, t->dev[i].dm->bdev->bd_dev))
			continue;
		DMERR("%s: %s has no sectors: it has no medium, or the disk is gone", tab->label,
		      t->dev[i].dm->name);
		return ddr_bad(t->ti, "A member is too small");
	}
	return 0;
}

static int ddr_open_member(struct ddr_target *t, struct ddr_table *tab, u32 i, const char *arg)
{
	struct dm_target *ti = t->ti;
	int r = dm_get_device(ti, arg, dm_table_get_mode(ti->table), &t->dev[i].dm);

	if (r) {
		DMERR("%s: %s cannot be opened: error %d", tab->label, arg, r);
		ti->error = "A member cannot be opened";
		return r;
	}
	t->present |= BIT(i);
	return ddr_check_device(t, tab, i);
}

static int ddr_parse_members(struct ddr_target *t, struct ddr_table *tab, u64 members, char **argv)
{
	struct dm_target *ti = t->ti;
	u32 i, missing = 0;
	int r;

	for (i = 0; i < members; i++)
		missing += !strcmp(argv[i], "-");
	if (missing > tab->geo.parity)
		return ddr_bad(ti, "More members are missing (-) than the parity covers");
	for (i = 0; i < members; i++) {
		if (!strcmp(argv[i], "-"))
			continue;
		r = ddr_open_member(t, tab, i, argv[i]);
		if (r)
			return r;
	}
	return tab->shadow ? ddr_open_member(t, tab, DDR_SHADOW, tab->shadow) : 0;
}

void ddr_table_put_devices(struct ddr_target *t)
{
	u32 i;

	for (i = DDR_PLACES; i--; )
		if (t->dev[i].dm)
			dm_put_device(t->ti, t->dev[i].dm);
}

/* ---- options --------------------------------------------------------------------- */

static int ddr_parse_option(struct ddr_target *t, const struct ddr_table *tab, const char *arg)
{
	u32 i;

	for (i = 0; i < DDR_NR_OPTIONS; i++) {
		bool *flag = ddr_option_flag(t, i);

		if (strcmp(arg, ddr_options[i].name))
			continue;
		if (*flag)
			return ddr_bad(t->ti, "An option is given twice");
		*flag = true;
		return 0;
	}
	DMERR("%s: unknown option %s", tab->label, arg);
	return ddr_bad(t->ti, "Unknown option: nosync, nocalc, verify_reads, fail_if_no_daemon, replace <place> <device>");
}

/* replace <place> <device>; the device is opened after the whole line was read. */
static int ddr_parse_replace(struct ddr_target *t, struct ddr_table *tab, unsigned int argc,
			     char **argv)
{
	u64 place;

	if (tab->shadow)
		return ddr_bad(t->ti, "An option is given twice");
	if (argc < 3)
		return ddr_bad(t->ti, "replace needs a place and a device");
	if (!ddr_number(argv[1], t->roles - 1, &place))
		return ddr_bad(t->ti, "replace: no such place");
	t->shadow_place = place;
	tab->shadow = argv[2];
	return 0;
}

static int ddr_parse_options(struct ddr_target *t, struct ddr_table *tab, unsigned int argc,
			     char **argv)
{
	u64 count;
	u32 i;
	int r;

	if (!argc)
		return 0;
	if (!ddr_number(argv[0], U64_MAX, &count))
		return ddr_bad(t->ti, "Invalid number of options");
	if (count != argc - 1)
		return ddr_bad(t->ti, "The number of options is not the number of arguments after it");
	for (i = 1; i < argc; i++) {
		bool replace = !strcmp(argv[i], "replace");

		r = replace ? ddr_parse_replace(t, tab, argc - i, argv + i) :
			      ddr_parse_option(t, tab, argv[i]);
		if (r)
			return r;
		i += replace ? 2 : 0;
	}
	return 0;
}

/* Which options are allowed together, and with which tables. */
static int ddr_check_options(struct ddr_target *t, struct ddr_table *tab, char **members)
{
	struct dm_target *ti = t->ti;

	if (t->nocalc && !t->nosync)
		return ddr_bad(ti, "nocalc needs nosync");
	if (tab->no_uuid && !t->nosync)
		return ddr_bad(ti, "An array without UUID (-) needs nosync");
	if (t->nosync && t->fail_if_no_daemon)
		return ddr_bad(ti, "nosync and fail_if_no_daemon exclude each other");
	if (t->nocalc && t->verify_reads)
		return ddr_bad(ti, "nocalc and verify_reads exclude each other");
	if (t->nosync && tab->shadow)
		return ddr_bad(ti, "nosync and replace exclude each other");
	if (tab->shadow && !strcmp(members[t->shadow_place], "-"))
		return ddr_bad(ti, "replace: the place has no member");
	if (t->verify_reads && !tab->geo.parity)
		return ddr_bad(ti, "verify_reads needs parity");
	return 0;
}

int ddr_table_parse(struct ddr_target *t, struct ddr_table *tab, unsigned int argc, char **argv)
{
	struct dm_target *ti = t->ti;
	u64 members;
	int r;

	if (argc < DDR_FIXED_ARGS)
		return ddr_bad(ti, "Not enough arguments: uuid, order, parity, layout, region, data offset, #members");
	r = ddr_parse_uuid(ti, tab, argv[0]);
	if (r)
		return r;
	ddr_array_label(tab->label, tab->no_uuid ? NULL : &tab->uuid, dm_table_get_md(ti->table));
	r = ddr_parse_geometry(ti, tab, argv + 1);
	if (!r)
		r = ddr_parse_sizes(ti, tab, argv + 4);
	if (!r)
		r = ddr_check_length(ti, tab);
	if (r)
		return r;

	if (!ddr_number(argv[6], U64_MAX, &members))
		return ddr_bad(ti, "Invalid number of members");
	if (members != tab->geo.roles)
		return ddr_bad(ti, "The number of members is not 2^order + parity");
	if (argc - DDR_FIXED_ARGS < members)
		return ddr_bad(ti, "Fewer devices than members");
	t->roles = members;

	/* options first: that is cheap, and no device is opened for an invalid line */
	r = ddr_parse_options(t, tab, argc - DDR_FIXED_ARGS - members,
				      argv + DDR_FIXED_ARGS + members);
	if (!r)
		r = ddr_check_options(t, tab, argv + DDR_FIXED_ARGS);
	if (!r)
		r = ddr_parse_members(t, tab, members, argv + DDR_FIXED_ARGS);
	if (!r && t->nocalc && t->present != BIT(t->roles) - 1)
		r = ddr_bad(ti, "nocalc needs all members");
	return r;
}
