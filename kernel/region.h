/* SPDX-License-Identifier: GPL-2.0-only */
/* Regions: grants, and the writes in them. */
#ifndef DDR_REGION_H
#define DDR_REGION_H

#include "dm-ddraid.h"

/*
 * One atomic word per region: GRANTED, TOUCHED, ERROR, and the number of writes in flight.
 * ddr_region_get: counted if the region is granted. Otherwise @w waits for it, and a LOCK request
 * is queued unless one is outstanding; it asks again after GRANT, or ends on REFUSE. One atomic
 * operation in the fast path, no lock. Any context.
 */
struct ddr_regions *ddr_regions_make(u64 regions);	/* NULL: no memory; may sleep */
void ddr_regions_drop(struct ddr_regions *rs);		/* NULL is allowed */
/*
 * The state of the regions of @a moves into @grown, which has more regions and becomes the
 * array's; @grown has the old one then. Under ctl_mutex, before a->regions changes, and while no
 * bio is in the target.
 */
void ddr_regions_grow(struct ddr_array *a, struct ddr_regions *grown);
enum ddr_turn ddr_region_get(struct ddr_array *a, u64 region, struct ddr_wait *w);
/*
 * @error: a member write of this bio did not succeed and no failure of the member was agreed:
 * the region must be resynced. Any context.
 */
void ddr_region_put(struct ddr_array *a, u64 region, bool error);
/*
 * Commands of the daemon, under ctl_mutex, process context; checked here, 0 or a negative errno
 * and nothing changed. @seq: of the LOCK that is answered, or 0: grants without a request, or
 * refuses all that wait in the range.
 */
/* starts the parked bios again */
int ddr_region_grant(struct ddr_array *a, u64 seq, u64 start, u64 count);
int ddr_region_refuse(struct ddr_array *a, u64 seq, u64 start, u64 count, int error);
/*
 * Closes up to @max idle grants: CLOSED runs, then REAPED. -EBUSY: the last REAP was not
 * answered yet.
 */
int ddr_region_reap(struct ddr_array *a, u64 seq, u64 max);
int ddr_region_set_bits(struct ddr_array *a, u64 start, u64 count, u32 bits);	/* DDR_RB_* */
void ddr_region_set_ahead(struct ddr_array *a, u32 regions);
/* all grants of an array that was removed; no write is left */
void ddr_region_close_all(struct ddr_array *a);
u64 ddr_region_granted_count(struct ddr_array *a);
u32 ddr_region_bits(struct ddr_array *a, u64 region);
/* all that wait for a region ask for it again; may sleep */
void ddr_region_ask_again(struct ddr_array *a);

#endif
