/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keeps the other nodes of the cluster from starting an array while a command changes it on its disks.
 *
 * A node that starts an array first joins its process group, and only reads the disks when all processes there have agreed. While a
 * command is alone in that group, in a partition with quorum, no node runs the array, and a node that starts it waits until the
 * command has ended.
 */
#ifndef DDR_CLI_HOLD_H
#define DDR_CLI_HOLD_H

#include <stdint.h>

#include <corosync/cpg.h>

#include "lib/error.h"

struct hold {
	cpg_handle_t handle;		/* 0: nothing is held */
	uint32_t nodes;			/* processes in the group, by corosync's last report; 0: none yet */
};

/*
 * Joins the group of the array, if it is empty. Checks that first without joining, so that a running array is not disturbed. Waits
 * some seconds for corosync. 0, or -1 with @err and nothing held.
 */
int hold_take(struct hold *h, const uint8_t uuid[16], struct ddr_error *err);
/* Is this command still alone? Reads corosync's reports since then. 0, or -1 with @err. */
int hold_check(struct hold *h, struct ddr_error *err);
void hold_drop(struct hold *h);

#endif
