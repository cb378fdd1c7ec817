/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ddraid start --adopt: the operator takes an array away from its cluster, or from the node that owns a slot. */
#ifndef DDR_CLI_ADOPT_H
#define DDR_CLI_ADOPT_H

#include <stdbool.h>

#include "lib/disk/scan.h"
#include "lib/wire/ipc.h"

/* Who this node is, as its daemon says. */
struct adopt_node {
	uint32_t alone;			/* its id, if the daemon has no cluster; else 0 */
	uint32_t nodes;			/* in the cluster; 1: only this one; 0: unknown */
	uint8_t cluster[DDR_UUID_LEN];	/* id of the cluster, or of the machine without one; zero: none is known */
};

/* From the answer to a ping. */
void cli_adopt_node(struct json_object *ping, struct adopt_node *node);
/*
 * May the node start the array without an adoption, as far as the disks and the daemon say now? 0, or -1 with @err; the daemon judges again. *@recorded:
 * the cluster that the owner pages name; zero: none, or they cannot be read.
 */
int cli_adopt_needed(const struct adopt_node *node, const struct ddr_scan_array *array, uint8_t recorded[DDR_UUID_LEN], struct ddr_error *err);
/*
 * Explains what an adoption means, asks (unless @yes), and tells the daemon, so that the next start on this node is served. 0: done;
 * else an exit code, and the reason was printed. Where the daemon will refuse it, nothing is asked, and the daemon gives the reason.
 */
int cli_adopt(struct ddr_ipc *ipc, const struct ddr_scan_array *array, const struct adopt_node *node, const uint8_t recorded[DDR_UUID_LEN], bool yes);

#endif
