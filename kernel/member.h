/* SPDX-License-Identifier: GPL-2.0-only */
/* The states of the members, and what follows from them for an I/O. */
#ifndef DDR_MEMBER_H
#define DDR_MEMBER_H

#include "dm-ddraid.h"

/* checked values; any context */
void ddr_array_set_member(struct ddr_array *a, u32 member, u32 state, u64 cursor);
/* under a->lock */
void __ddr_array_set_member(struct ddr_array *a, u32 member, u32 state, u64 cursor);
/*
 * Usable bitmaps for blocks of one unit, by role, in the geometry's turn: members that are read
 * from / written to. One that is being rebuilt is read if all of the blocks lie below its cursor,
 * and written wherever they lie.
 */
u32 ddr_array_read_mask(struct ddr_array *a, u64 block, u32 blocks);
u32 ddr_array_write_mask(struct ddr_array *a, u64 block);
bool ddr_array_shadow_readable(struct ddr_array *a, u64 block, u32 blocks);
/* members that a write has to reach by their state, with a device or without */
u32 ddr_array_written(struct ddr_array *a);

/* Something that `dmsetup status` shows has changed: wakes `dmsetup wait`. Process context. */
void ddr_target_event(struct ddr_array *a);

#endif
