/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * This node's connection to corosync: its id, the names of nodes, and quorum with its ring. There is one for the daemon; every
 * array's transport listens to it.
 *
 * Without corosync it tries again every second. It must never: let the loop wait for corosync, or call a listener from within a call of ours.
 *
 * All functions belong to the loop's thread.
 */
#ifndef DDR_DAEMON_COROSYNC_H
#define DDR_DAEMON_COROSYNC_H

#include <stdbool.h>
#include <stdint.h>

#include <qb/qblist.h>
#include <qb/qbloop.h>

#include "daemon/group/ask.h"
#include "lib/cluster/sm.h"

#define DDR_COROSYNC_NODES	DDR_SM_MAX_QUORUM	/* of a cluster, with or without arrays; a larger cluster counts as not quorate */
#define DDR_COROSYNC_NAME_LEN	64u	/* bytes of a node's name, with the NUL; longer ones are cut */

/* Corosync's id of a membership. Two partitions with different nodes may use the same seq. */
struct ddr_ring_id {
	uint32_t node;
	uint64_t seq;
};

struct ddr_corosync;

/* An entry in the connection's list while it listens; the owner's memory. */
struct ddr_corosync_listener {
	struct qb_list_head list;
	void (*changed)(void *ctx);	/* connected, lost, or quorum or ring changed. It may unlisten itself, but no other */
	void *ctx;
};

/* Connects as soon as corosync answers. 0, or a negative errno. */
int ddr_corosync_open(struct ddr_corosync **out, qb_loop_t *loop, struct ddr_asks *asks);
void ddr_corosync_close(struct ddr_corosync *c);
void ddr_corosync_listen(struct ddr_corosync *c, struct ddr_corosync_listener *l);
void ddr_corosync_unlisten(struct ddr_corosync_listener *l);

/* Connected, and quorum is known? */
bool ddr_corosync_up(const struct ddr_corosync *c);
/* Grows with each connection: groups that were joined in an earlier one are lost. */
uint64_t ddr_corosync_epoch(const struct ddr_corosync *c);
/* This node's id; 0: not known yet. It stays known while corosync is down. */
uint32_t ddr_corosync_node(const struct ddr_corosync *c);
/*
 * The number of nodes in the cluster: by its current list, or those that are present, if these are more. 1: there is definitely no
 * other one; 0: unknown, since there is no list of nodes.
 */
uint32_t ddr_corosync_nodes(const struct ddr_corosync *c);
/* The last report of the quorum service. */
struct ddr_quorum {
	bool quorate;
	struct ddr_ring_id ring;
	uint32_t n;			/* members of this node's partition */
	uint32_t node[DDR_COROSYNC_NODES];
	uint64_t serial;		/* grows with each report of the service */
};
const struct ddr_quorum *ddr_corosync_quorum(const struct ddr_corosync *c);

/*
 * The name of a node in corosync.conf, or the last one that it had there while this node was connected. False: none is known, and @buf is
 * empty. The list is read when the node connects, and whenever it changes.
 */
bool ddr_corosync_known_name(const struct ddr_corosync *c, uint32_t node, char *buf, size_t size);
/* The same, or "node ID". Returns @buf. */
const char *ddr_corosync_name(const struct ddr_corosync *c, uint32_t node, char *buf, size_t size);
/* Why it is not up: one sentence; "" if it is up. */
const char *ddr_corosync_error(struct ddr_corosync *c);

/*
 * corosync_conf.c: does a node with this corosync.conf belong to a cluster? Not if the file does not exist, nor if it lists a single
 * node: Debian's package contains such a file. Without a list corosync finds its nodes by multicast. Returns 1, 0, or a negative
 * errno: it cannot be read. @node: the id in the list of a single node; 0: there is none. @err: one line if it cannot be read or parsed (an unparsable
 * file counts as a cluster), else "".
 */
int ddr_corosync_configured(const char *path, uint32_t *node, char *err, size_t size);

#endif
