/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by node.c, node_out.c, node_start.c and node_io.c; sim.h has what other files call. */
#ifndef DDR_TESTS_SIM_NODE_H
#define DDR_TESTS_SIM_NODE_H

#include "sim.h"

/* ---- node_start.c -------------------------------------------------------------- */

/* Loads the newest blocks of a slot's log, or the map (SIM_MAP), from those members. @unreadable: all of it is unreadable. */
void node_load_blocks(struct sim *s, struct node *n, uint32_t in_sync, uint32_t slot, uint64_t since, bool unreadable);
/* The members that the kernel's table names at their roles. */
uint32_t node_named_by(const struct sim *s, const struct node *n);
/* The daemon binds to its kernel, which declares its state. */
void node_attach(struct sim *s, struct node *n);

/* ---- node_out.c ---------------------------------------------------------------- */

/*
 * Rule 4: is there a member that only this node does not reach, and without which there would be too few? If this node takes no part,
 * and only hears of it: that another one does not reach.
 */
bool node_cut_too_far(const struct sim *s, const struct node *n);
void node_event_out(struct sim *s, struct node *n, const struct ddr_output *out);
/* RECOVERED says that the slot is clear. */
void node_check_sent(struct sim *s, const struct node *n, const struct ddr_output *out);

/* ---- node_io.c ------------------------------------------------------------------- */

void node_io_submit(struct sim *s, struct node *n, const struct ddr_output *out);
/* A part of some request ends; false: there is none. */
bool node_io_event(struct sim *s, struct node *n);
/* Power fails: what was in flight lands whole, torn, later or never. */
void node_io_power(struct sim *s, struct node *n);
/* The first owner of an array dies: its first superblocks land. */
void node_first_write_lands(struct sim *s, struct node *n);

#endif
