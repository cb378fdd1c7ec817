/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by check.c, check_meta.c and parity.c; sim.h has what other files call. */
#ifndef DDR_TESTS_SIM_CHECK_H
#define DDR_TESTS_SIM_CHECK_H

#include "sim.h"

/* ---- check_meta.c -------------------------------------------------------------- */

/* The newest superblock of the members that are alive, or NULL. */
const struct ddr_super *check_super(const struct sim *s);
/* Of @counting, the members that hold their part of the block. */
uint32_t check_holding(const struct sim *s, uint64_t b, uint32_t counting);
bool check_marked_everywhere(const struct sim *s, uint64_t region);

/* ---- parity.c ------------------------------------------------------------------ */

/* What a disk holds of a block: what is durable, or what a read would return. */
typedef uint64_t (*reader)(const struct disk *d, uint64_t block);

/* The token of a data role as a reader with @members gets it; false: impossible. */
bool parity_read(const struct sim *s, uint64_t b, uint32_t role, uint32_t members, reader get, uint64_t *token);
/* Is the parity of a block correct, as far as @members hold it? */
bool parity_right(const struct sim *s, uint64_t b, uint32_t members, reader get);

#endif
