/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * P and Q in userspace, by ISA-L: for the jobs of the daemon and for the tests.
 *
 * P is the XOR of the data chunks, Q the sum of 2^i * D_i in GF(2^8) modulo 0x11d
 * (H. P. Anvin, "The mathematics of RAID-6"), the same as in the kernel's raid6
 * library. With order 0 all roles hold the same bytes, and no library is called.
 *
 * All functions work on runs: @piece[r] points to @len bytes of role r, one chunk after
 * the other, for as many blocks as the run has. Byte j of all pieces belong together, so a
 * run may have any length that is a multiple of DDR_PARITY_ALIGN (each chunk is). The
 * pieces are aligned to DDR_PARITY_ALIGN and do not overlap.
 * Nothing here allocates, blocks or fails on valid input.
 */
#ifndef DDR_LIB_PARITY_H
#define DDR_LIB_PARITY_H

#include <stddef.h>
#include <stdint.h>

#include "lib/math/geometry.h"

#define DDR_PARITY_ALIGN	64u	/* bytes */

/* Computes P, and Q where the array has it, into piece[2^order] and piece[2^order + 1]. */
void ddr_parity_generate(const struct ddr_geometry *geo, size_t len, void *const piece[]);

/* How to compute the lost roles of a stripe from the others; planned once, used for many runs. */
struct ddr_recovery {
	uint8_t data;			/* 2^order */
	uint8_t lost[2];		/* roles to compute */
	uint8_t n_lost;
	uint8_t source[8];		/* the 2^order roles that are read */
	uint8_t sum[2];			/* of lost[i]: not 0 if it is the XOR of the sources */
	unsigned char tables[32 * 8 * 2];	/* ISA-L's multiplication tables */
};

/*
 * Plans the recovery of the roles in @lost (bit r: role r). Sources are all remaining data roles, then P, then Q;
 * plan->source lists what is read. Returns 0, or -1 if @lost is empty, has more roles than the parity covers, or
 * roles that the array does not have.
 */
int ddr_recovery_plan(struct ddr_recovery *plan, const struct ddr_geometry *geo, uint32_t lost);
/* Computes the lost pieces from the sources. Other pieces are not touched, and may be NULL. */
void ddr_recovery_run(const struct ddr_recovery *plan, size_t len, void *const piece[]);

/*
 * Which single piece of a stripe with P and Q is wrong? (Anvin, section 4: a single wrong data piece i changes P and
 * Q so that dQ = 2^i * dP in every byte.) @piece: all roles, as read; @calc: P and Q computed from the data pieces.
 * Returns the role, or -1 if all fit or more than one is wrong.
 */
int ddr_parity_locate(const struct ddr_geometry *geo, size_t len, const void *const piece[], const void *const calc[2]);

#endif
