/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Corosync's list of nodes: how many there are, and their names. It is read when this node connects (corosync.c), and again whenever corosync reports that it has
 * changed, by a thread (ask.h).
 *
 * It must never: let the loop wait for corosync; invent a name, or forget one that a node had.
 *
 * All functions but ddr_nodes_read() belong to the loop's thread.
 */
#ifndef DDR_DAEMON_NODES_H
#define DDR_DAEMON_NODES_H

#include "daemon/group/corosync_call.h"

struct ddr_nodes_reading;
struct ddr_nodes_watch;

struct ddr_nodes {
	/* set by the owner */
	qb_loop_t *loop;
	struct ddr_asks *asks;
	/* internal */
	struct ddr_nodes_reading *reading;	/* is under way */
	bool again;				/* the list has changed since that was asked for */
	struct ddr_nodes_watch *watch;		/* corosync reports changes to it; NULL: it does not */
	qb_loop_timer_handle timer;
	uint32_t listed;			/* nodes in the list when it was last read; 0: there is none */
	struct {
		uint32_t node;			/* 0: unused entry */
		char name[DDR_COROSYNC_NAME_LEN];	/* empty: it is listed without a name */
	} name[DDR_COROSYNC_NODES];
};

/* The first reading is the owner's, and its thread's: it is made, done, taken over by the loop, and freed. NULL: there is no memory. */
struct ddr_nodes_reading *ddr_nodes_new(struct ddr_nodes *n);
cs_error_t ddr_nodes_read(struct ddr_nodes_reading *r);
/* From now on the list is watched, until ddr_nodes_stop(). */
void ddr_nodes_take(struct ddr_nodes *n, struct ddr_nodes_reading *r);
void ddr_nodes_free(struct ddr_nodes_reading *r);
/* The connection has ended: names stay as they are. */
void ddr_nodes_stop(struct ddr_nodes *n);

/* The name of a node, or "" if none is known. */
const char *ddr_nodes_name(const struct ddr_nodes *n, uint32_t node);

#endif
