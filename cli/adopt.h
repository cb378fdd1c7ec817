/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ddraid start --adopt: the operator takes an array away from its cluster, or from the node that owns a slot. */
#ifndef DDR_CLI_ADOPT_H
#define DDR_CLI_ADOPT_H

#include <stdbool.h>

#include "lib/disk/format.h"
#include "lib/wire/ipc.h"

/*
 * Explains what an adoption means, asks (unless @yes), and tells the daemon, so that the next start on this node is served. 0: done;
 * else an exit code, and the reason was printed. @node: this node's id, if the daemon has no cluster; else 0. @nodes: number of nodes
 * in the cluster; if it has others, nothing is asked, and the daemon gives the reason of its refusal.
 */
int cli_adopt(struct ddr_ipc *ipc, const struct ddr_super *sb, uint32_t node, uint32_t nodes, bool yes);

#endif
