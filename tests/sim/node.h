/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What node.c, node_start.c and node_io.c know of each other; sim.h has what others call of them. */
#ifndef DDR_TESTS_SIM_NODE_H
#define DDR_TESTS_SIM_NODE_H

#include "sim.h"

/* ---- node_start.c -------------------------------------------------------------- */

/* The newest block of a slot's log, or the map (SIM_MAP), of those members. @unreadable: nothing of it can be read. */
void node_load_blocks(struct sim *s, struct node *n, uint32_t in_sync, uint32_t slot, bool unreadable);
/* The members that the kernel's table names at their roles. */
uint32_t node_named_by(const struct sim *s, const struct node *n);
/* The daemon binds itself to its kernel, and is told what that has. */
void node_attach(struct sim *s, struct node *n);

/* ---- node_io.c ------------------------------------------------------------------- */

void node_io_submit(struct sim *s, struct node *n, const struct ddr_output *out);
/* A part of some request ends; false: there is none. */
bool node_io_event(struct sim *s, struct node *n);
/* Power is lost: what was out lands whole, torn, later or never. */
void node_io_power(struct sim *s, struct node *n);
/* The first owner of an array dies: its first superblocks land. */
void node_first_write_lands(struct sim *s, struct node *n);

#endif
