/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keeps the other nodes of the cluster from starting an array while a command changes it on its disks.
 *
 * A node that starts an array joins its process group first, and reads the disks only when all processes there have agreed. While a command
 * is alone in that group, in a part of the cluster with quorum, no node runs the array, and a node that begins to start it waits
 * until the command has ended.
 */
#ifndef DDR_CLI_HOLD_H
#define DDR_CLI_HOLD_H

#include <stdint.h>

#include <corosync/cpg.h>

#include "lib/error.h"

struct hold {
	cpg_handle_t handle;		/* 0: nothing is held */
	uint32_t nodes;			/* processes in the group, as heard last; 0: not heard yet */
};

/*
 * Takes part in the group of the array, alone. Looks first, without joining: a group in which the array runs is not disturbed. Waits for corosync
 * for some seconds. 0, or -1 with @err and nothing held.
 */
int hold_take(struct hold *h, const uint8_t uuid[16], struct ddr_error *err);
/* Is this command still alone? Reads what corosync has said since. 0, or -1 with @err. */
int hold_check(struct hold *h, struct ddr_error *err);
void hold_drop(struct hold *h);

#endif
