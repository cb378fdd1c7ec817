/* SPDX-License-Identifier: GPL-2.0-only */
/* The states of the members, and what they mean for an I/O. */
#ifndef DDR_MEMBER_H
#define DDR_MEMBER_H

#include "dm-ddraid.h"

/* checked values; any context */
void ddr_array_set_member(struct ddr_array *a, u32 member, u32 state, u64 cursor);
/* under a->lock */
void __ddr_array_set_member(struct ddr_array *a, u32 member, u32 state, u64 cursor);
/* The result of one look at the member states, for blocks of one unit. */
struct ddr_states {
	/* by role, in the geometry's turn: members with a device that are read from / written to */
	u32	read, write;
	u32	written;	/* by member: a write has to reach it, with a device or without */
};

/*
 * A member that is being rebuilt is read if all of the blocks lie below its cursor, and written
 * wherever they lie. Any context.
 */
void ddr_array_states(struct ddr_array *a, u64 block, u32 blocks, struct ddr_states *s);
bool ddr_array_shadow_readable(struct ddr_array *a, u64 block, u32 blocks);

/* Something in `dmsetup status` has changed: wakes `dmsetup wait`. Process context. */
void ddr_target_event(struct ddr_array *a);

#endif
