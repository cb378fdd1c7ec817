/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The process group of one array, "ddraid:" and its uuid. The daemons that serve the array are in it without a message, for two kinds of
 * others: a command that changes the superblocks of a stopped array (`ddraid rename`), and a daemon of a release before the daemons had a
 * group together, which waits for a hello of everybody in it. Whoever comes later sees that the array is in use; and a daemon waits for those
 * that were there before it.
 *
 * Each array has a connection of its own for this. Corosync may end one alone; it is made anew until the presence is closed.
 *
 * All functions belong to the loop's thread.
 */
#ifndef DDR_DAEMON_PRESENCE_H
#define DDR_DAEMON_PRESENCE_H

#include <corosync/cpg.h>
#include <qb/qbloop.h>

#include "daemon/group/cpg.h"
#include "lib/node/group.h"

struct ddr_presence {
	qb_loop_t *loop;
	struct ddr_asks *asks;
	void (*changed)(void *ctx);	/* from the loop: the group has changed */
	void *ctx;
	struct cpg_name name;
	struct ddr_cpg *cpg;
	bool lost;			/* corosync ended an earlier connection, and the group has not been joined since */
	qb_loop_timer_handle timer;	/* the connection is made anew */
	unsigned int n;			/* processes of the group; 0: not known yet, or not any more */
	struct ddr_group_id process[DDR_GROUP_PROCESSES];
};

/* Joins the group of array @uuid. 0, or -ENOMEM. */
int ddr_presence_open(struct ddr_presence *p, qb_loop_t *loop, struct ddr_asks *asks, const uint8_t uuid[16], void (*changed)(void *ctx), void *ctx);
/* Leaves it. It may not be open. */
void ddr_presence_close(struct ddr_presence *p);

#endif
