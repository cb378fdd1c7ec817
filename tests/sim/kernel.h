/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by the two halves of the model of the kernel target: how it handles requests (kernel.c), and its channel to the daemon
 * (kernel_channel.c).
 */
#ifndef DDR_TESTS_SIM_KERNEL_H
#define DDR_TESTS_SIM_KERNEL_H

#include "sim.h"

static inline uint64_t region_of(const struct sim *s, uint64_t block)
{
	return block / s->geo.region_blocks;
}

const struct node *kernel_node(const struct sim *s, const struct kernel *k);

/* ---- kernel_channel.c ---------------------------------------------------------- */

void kernel_tell(struct sim *s, struct kernel *k, const struct ddr_rec *rec);
void kernel_tell_regions(struct sim *s, struct kernel *k, uint32_t type, uint64_t start, uint64_t count, int status);
void kernel_tell_mismatch(struct sim *s, struct kernel *k, const struct op *op);
/* The entry for an error of this operation on member @m. */
struct kerror *kernel_error_of(struct kernel *k, const struct op *op, uint32_t m);
/* The member failed the operation: reports it to the daemon, unless that was done already. */
void kernel_report(struct sim *s, struct kernel *k, const struct op *op, uint32_t m);

/* ---- kernel.c ------------------------------------------------------------------ */

/* The members that writes go to. */
uint32_t kernel_written(const struct sim *s, const struct kernel *k);
/* The answer that the operation waits for has arrived. */
void kernel_op_resume(struct sim *s, struct kernel *k, struct op *op, uint32_t answer);

#endif
