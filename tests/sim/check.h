/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What check.c, check_meta.c and parity.c know of each other; sim.h has what others call of them. */
#ifndef DDR_TESTS_SIM_CHECK_H
#define DDR_TESTS_SIM_CHECK_H

#include "sim.h"

/* ---- check_meta.c -------------------------------------------------------------- */

/* The newest superblock of the members that live, or NULL. */
const struct ddr_super *check_super(const struct sim *s);
/* Of the members that count, those that hold their part of the block. */
uint32_t check_holding(const struct sim *s, uint64_t b, uint32_t counting);
bool check_marked_everywhere(const struct sim *s, uint64_t region);

/* ---- parity.c ------------------------------------------------------------------ */

/* What a disk holds of a block: what is durable, or what a read would get. */
typedef uint64_t (*reader)(const struct disk *d, uint64_t block);

/* The token of a data role as a reader with @members gets it; false: it cannot be had. */
bool parity_read(const struct sim *s, uint64_t b, uint32_t role, uint32_t members, reader get, uint64_t *token);
/* Is the parity of a block right, as far as @members hold it? */
bool parity_right(const struct sim *s, uint64_t b, uint32_t members, reader get);

#endif
