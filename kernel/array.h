/* SPDX-License-Identifier: GPL-2.0-only */
/* The array object: its life, and which table's devices it uses. */
#ifndef DDR_ARRAY_H
#define DDR_ARRAY_H

#include "dm-ddraid.h"

/* ---- array.c ------------------------------------------------------------------- */

/*
 * @uuid: NULL for an array without. The name is that of now: a device that is renamed keeps its
 * label. @md is there. May sleep.
 */
void ddr_array_label(char *label, const uuid_t *uuid, struct mapped_device *md);

int ddr_array_init(void);			/* before any target is registered */
/* after the last: waits until all arrays are freed */
void ddr_array_exit(void);

/*
 * .ctr: finds or makes the array of @uuid (NULL: nosync, outside of the registry) for mapped device
 * @md, and becomes one of its users, by the table @t, whose devices are known. May sleep. ERR_PTR:
 * -EBUSY it is bound to another mapped device, -EINVAL the geometry or nosync differs, or it has
 * more blocks, -ENOMEM. If it has fewer, t->grown is what ddr_array_activate() needs to let it
 * grow; the caller's, for ddr_regions_drop().
 */
struct ddr_array *ddr_array_get(const uuid_t *uuid, struct mapped_device *md,
				const struct ddr_geometry *geo, u64 blocks, u32 region_sectors,
				sector_t data_offset, struct ddr_target *t);
/*
 * .dtr: gives that back. With the last user the array is gone: it leaves the registry, the daemon
 * reads EOF. May sleep.
 */
void ddr_array_release(struct ddr_array *a, struct ddr_target *t);
/*
 * For a bind before the first resume: calls @describe for the table that was loaded, which is the
 * array's from then on. -EAGAIN: a table was resumed already, or more than one was loaded. May
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
 * Is @t the table that a daemon was bound to before its resume? (No other one can have its address
 * while it is there.) May sleep.
 */
bool ddr_array_is_loaded(struct ddr_array *a, const struct ddr_target *t);

static inline u64 ddr_regions_of(const struct ddr_array *a, u64 blocks)
{
	return ((blocks - 1) >> a->region_blocks_shift) + 1;
}

/* ---- active.c ------------------------------------------------------------------ */

/*
 * .preresume: @t is the instance whose devices are used from now on; ends a noflush suspend. Never
 * waits for the daemon. No bio is in the target. A longer table lets the array grow. -EINVAL: it is
 * shorter than the array has become since it was loaded.
 */
int ddr_array_activate(struct ddr_array *a, struct ddr_target *t);
/* .resume: tells the daemon, runs what is parked. */
void ddr_array_resumed(struct ddr_array *a);
/* .postsuspend, .dtr: @t is active no more; waits for RCU readers of a->active. */
void ddr_array_deactivate(struct ddr_array *a, struct ddr_target *t);
/* is it a device of the table that was resumed last? Process context */
bool ddr_array_names(struct ddr_array *a, dev_t dev);

#endif
