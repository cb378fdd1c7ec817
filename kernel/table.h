/* SPDX-License-Identifier: GPL-2.0-only */
/* The table line: shared by table.c and target.c. */
#ifndef DDR_TABLE_H
#define DDR_TABLE_H

#include "dm-ddraid.h"

/* Options of the table, in the order in which they are shown. */
struct ddr_option {
	const char	*name;
	size_t		offset;		/* of the bool in struct ddr_target */
};
#define DDR_NR_OPTIONS	4
extern const struct ddr_option ddr_options[DDR_NR_OPTIONS];

static inline bool *ddr_option_flag(struct ddr_target *t, u32 i)
{
	return (void *)t + ddr_options[i].offset;
}

#define DDR_LAYOUT_NAME(rotating)	((rotating) ? "rotating" : "dedicated")

/* What the table has in addition to struct ddr_target. */
struct ddr_table {
	uuid_t			uuid;
	bool			no_uuid;		/* '-' */
	char			label[DDR_LABEL_SIZE];	/* ddr_array_label() */
	struct ddr_geometry	geo;
	u64			blocks;
	u32			region_sectors;
	u64			data_offset;		/* sectors */
	/* device of "replace", or NULL; of the arguments */
	const char		*shadow;
	/* places whose device has no size: ddr_table_check_empty() */
	u32			empty;
};

/* Sectors that the data area needs on each member. */
static inline sector_t ddr_member_sectors(const struct ddr_geometry *g, u64 blocks)
{
	return ddr_geo_offset(g, blocks) >> SECTOR_SHIFT;
}

/*
 * Parses the arguments into @tab and @t and opens the devices; 0 or a negative errno and
 * ti->error. Opened devices are in t->dev[] in either case, for ddr_table_put_devices(). Process
 * context (.ctr).
 */
int ddr_table_parse(struct ddr_target *t, struct ddr_table *tab, unsigned int argc, char **argv);
/*
 * A disk that was pulled has no size any more. If it was in the previous table, the new one may
 * name it as well: otherwise nothing about the other places could be changed while it is there.
 * A device that is new to the array must be large enough. With t->array; 0 or -EINVAL and
 * ti->error.
 */
int ddr_table_check_empty(struct ddr_target *t, const struct ddr_table *tab);
void ddr_table_put_devices(struct ddr_target *t);

#endif
