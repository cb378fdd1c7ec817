/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The sentence for a node that finds all slots of the dirty log taken: whose they are, and what frees one.
 */
#ifndef DDR_LIB_SLOTS_H
#define DDR_LIB_SLOTS_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/cluster/sm.h"
#include "lib/disk/format.h"

/* Why a node gives the array up that is given no slot: the text of DDR_OUT_GIVE_UP. Whose they are, the driver tells. */
extern const char ddr_slots_none_free[];

/* The name of a node, for people. */
typedef const char *(*ddr_slots_name_fn)(void *ctx, uint32_t node, char *buf, size_t size);

/*
 * @sb: whose slots are whose. @st: what the group knows of the nodes; NULL: there is none, without a cluster.
 * Returns @buf, of which 1024 bytes are enough.
 */
const char *ddr_slots_taken(const struct ddr_super *sb, const struct ddr_sm_status *st, ddr_slots_name_fn name, void *ctx, char *buf,
			    size_t size);

#endif
