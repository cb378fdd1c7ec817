/* SPDX-License-Identifier: GPL-2.0-only OR LGPL-2.1-or-later */
/*
 * Geometry: where the pieces of a block lie. Compiled by the kernel and by
 * userspace alike, so it stands here once and uses nothing but integers.
 *
 * Must never: allocate, log, fail on valid input, or know a device.
 *
 * A block is 4096 bytes of the device. Role i < 2^order holds bytes
 * [i * chunk, (i + 1) * chunk) of every block, role 2^order holds P, role
 * 2^order + 1 holds Q. Every member keeps its piece of block b at byte
 * b * chunk of its data area, whatever the role. The layout only says which
 * member plays which role for a given block.
 */
#ifndef DDRAID_GEOMETRY_H
#define DDRAID_GEOMETRY_H

#ifdef __KERNEL__
#include <linux/types.h>
typedef u8 ddr_u8;
typedef u32 ddr_u32;
typedef u64 ddr_u64;
#else
#include <stdbool.h>
#include <stdint.h>
typedef uint8_t ddr_u8;
typedef uint32_t ddr_u32;
typedef uint64_t ddr_u64;
#endif

#define DDR_GEO_BLOCK_SHIFT	12u	/* bytes in a block, as a power of two */
#define DDR_GEO_UNIT_SHIFT	8u	/* blocks in a rotation unit (1 MiB of the device) */
#define DDR_GEO_MAX_ROLES	10u

struct ddr_geometry {
	ddr_u8 order;		/* 2^order data members, 0..3 */
	ddr_u8 parity;		/* 0, 1 (P) or 2 (P and Q) */
	ddr_u8 rotating;	/* 0: dedicated, 1: rotating */
	ddr_u8 roles;		/* 2^order + parity: members with a role */
	ddr_u32 chunk;		/* bytes of one block on one member: 4096 >> order */
};

static inline ddr_u32 ddr_geo_data(const struct ddr_geometry *g)
{
	return 1u << g->order;
}

/* The data roles, and all roles, as bits. */
static inline ddr_u32 ddr_data_mask(const struct ddr_geometry *g)
{
	return (1u << ddr_geo_data(g)) - 1;
}

static inline ddr_u32 ddr_role_mask(const struct ddr_geometry *g)
{
	return (1u << g->roles) - 1;
}

/* Fills @g; false if order, parity or layout lie outside the limits. */
static inline bool ddr_geo_init(struct ddr_geometry *g, ddr_u32 order, ddr_u32 parity, ddr_u32 layout)
{
	if (order > 3 || parity > 2 || layout > 1)
		return false;
	g->order = (ddr_u8)order;
	g->parity = (ddr_u8)parity;
	g->rotating = (ddr_u8)layout;
	g->roles = (ddr_u8)((1u << order) + parity);
	g->chunk = 1u << (DDR_GEO_BLOCK_SHIFT - order);
	return true;
}

/* By how many members the roles are rotated at @block. Constant over a rotation unit. */
static inline ddr_u32 ddr_geo_turn(const struct ddr_geometry *g, ddr_u64 block)
{
	/* an array ends at 1 PiB (DDR_MAX_REGIONS of 1 GiB), so its units fit 32 bits */
	ddr_u32 unit = (ddr_u32)(block >> DDR_GEO_UNIT_SHIFT);

	return g->rotating ? unit % g->roles : 0;
}

/* The member (position in the part of the table that has roles) that holds @role at @block. */
static inline ddr_u32 ddr_geo_member(const struct ddr_geometry *g, ddr_u32 role, ddr_u64 block)
{
	ddr_u32 m = role + ddr_geo_turn(g, block);

	return m >= g->roles ? m - g->roles : m;
}

/* The role that @member holds at @block: the inverse of ddr_geo_member(). */
static inline ddr_u32 ddr_geo_role(const struct ddr_geometry *g, ddr_u32 member, ddr_u64 block)
{
	ddr_u32 turn = ddr_geo_turn(g, block);

	return member >= turn ? member - turn : member + g->roles - turn;
}

/* Byte in a member's data area at which its chunk of @block begins. */
static inline ddr_u64 ddr_geo_offset(const struct ddr_geometry *g, ddr_u64 block)
{
	return block << (DDR_GEO_BLOCK_SHIFT - g->order);
}

#endif
