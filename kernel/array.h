/* SPDX-License-Identifier: GPL-2.0-only */
/* The array object: its life, and which table's devices it uses. */
#ifndef DDR_ARRAY_H
#define DDR_ARRAY_H

#include "dm-ddraid.h"

/* ---- array.c ------------------------------------------------------------------- */

/*
 * @uuid: NULL for an array without. The label has the present name: a device that is renamed
 * keeps its label. @md must exist. May sleep.
 */
void ddr_array_label(char *label, const uuid_t *uuid, struct mapped_device *md);

int ddr_array_init(void);			/* before any target is registered */
/* after the last target: waits until all arrays are freed */
void ddr_array_exit(void);

/*
 * .ctr: finds or creates the array of @uuid (NULL: nosync, not in the registry) for mapped
 * device @md, and adds a user with the table @t, whose devices are known. May sleep. ERR_PTR:
 * -EBUSY it is bound to another mapped device, -EINVAL the geometry or nosync differs, or it has
 * more blocks, -ENOMEM. If it has fewer blocks, t->grown is what ddr_array_activate() needs to
 * grow it; it belongs to the caller, for ddr_regions_drop().
 */
struct ddr_array *ddr_array_get(const uuid_t *uuid, struct mapped_device *md,
				const struct ddr_geometry *geo, u64 blocks, u32 region_sectors,
				sector_t data_offset, struct ddr_target *t);
/*
 * .dtr: the reverse. With the last user the array is removed: it leaves the registry, and the
 * daemon reads EOF. May sleep.
 */
void ddr_array_release(struct ddr_array *a, struct ddr_target *t);
/*
 * For a bind before the first resume: calls @describe for the loaded table, which belongs to the
 * array from then on. -EAGAIN: a table was resumed already, or more than one was loaded. May
 * sleep.
 */
int ddr_array_bind_loaded(struct ddr_array *a,
			  void (*describe)(const struct ddr_target *t, struct ddr_bind *b),
			  struct ddr_bind *b);
/* with a reference for ddr_array_put(), or NULL; may sleep */
struct ddr_array *ddr_array_find(const uuid_t *uuid);
/* may be called from any context; frees from a work item */
void ddr_array_put(struct ddr_array *a);
/*
 * The registered array with the smallest cookie above @cookie, with a reference, or NULL; may
 * sleep.
 */
struct ddr_array *ddr_array_next(u64 cookie);
/*
 * Is @t the table that a daemon was bound to before its first resume? (Its address is unique
 * while it exists.) May sleep.
 */
bool ddr_array_is_loaded(struct ddr_array *a, const struct ddr_target *t);

static inline u64 ddr_regions_of(const struct ddr_array *a, u64 blocks)
{
	return ((blocks - 1) >> a->region_blocks_shift) + 1;
}

/* ---- active.c ------------------------------------------------------------------ */

/*
 * .preresume: @t is the instance whose devices are used from now on; ends a noflush suspend.
 * Never waits for the daemon. No bio is in the target. A longer table grows the array. -EINVAL:
 * it is shorter than the array, which has grown since it was loaded.
 */
int ddr_array_activate(struct ddr_array *a, struct ddr_target *t);
/* .resume: notifies the daemon, runs parked bios. */
void ddr_array_resumed(struct ddr_array *a);
/* .postsuspend, .dtr: @t is no longer active; waits for RCU readers of a->active. */
void ddr_array_deactivate(struct ddr_array *a, struct ddr_target *t);
/* is it a device of the table that was resumed last? Process context */
bool ddr_array_names(struct ddr_array *a, dev_t dev);

#endif
