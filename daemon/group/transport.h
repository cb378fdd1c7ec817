/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the daemons of an array's nodes communicate: views and totally ordered messages.
 *
 * A transport delivers the same messages in the same order, between the same views, to every member of a view, including the sender.
 * It must never: call back from within a call of ours, sleep, reorder, or lose a message that it accepted.
 *
 * All functions belong to the loop's thread.
 */
#ifndef DDR_DAEMON_TRANSPORT_H
#define DDR_DAEMON_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ddr_daemon;
struct ddr_node_debts;

/* DDR_DEBT_LASTS comes at each look: the oldest one as it is now, for status; NULL: there is none. */
enum ddr_debt_news { DDR_DEBT_BEGINS, DDR_DEBT_ENDS, DDR_DEBT_LASTS };

struct ddr_transport_events {
	/*
	 * A new view: node ids in ascending order, and a number of each: a node that left the array and came back has another one.
	 * @fences: of each, whether it can fence others (enum ddr_fences).
	 * @ring: the membership of the cluster that it belongs to; a process that joins or leaves changes the view but not the ring.
	 * If a node left and joined in one event, a view without it is delivered in between.
	 */
	void (*view)(void *ctx, const uint32_t *nodes, const uint32_t *numbers, const uint8_t *fences, uint32_t n, uint64_t ring);
	/* A verdict has excluded the daemon of this node. Before the view without it. */
	void (*excluded)(void *ctx, uint32_t node);
	/* The last report of the quorum service: the cluster's members, and the ring. May come before or after the view. */
	void (*quorum)(void *ctx, const uint32_t *nodes, uint32_t n, bool quorate, uint64_t ring);
	void (*message)(void *ctx, uint32_t node, const uint8_t *msg, uint32_t len);
	/* The daemon of a node speaks only other versions of the protocol, so this node does not join. May come more than once. */
	void (*foreign)(void *ctx, uint32_t node, uint16_t version);
	/* The version of the messages from the next view on. */
	void (*version)(void *ctx, uint16_t version);
	/* Have all nodes of the last view agreed on it, and does the array miss no other one, which may come back and speak an older version? */
	bool (*complete)(void *ctx);
	/* Does the node own a slot of the array, or has claimed one, or is it missed? */
	bool (*has_slot)(void *ctx, uint32_t node);
	/* How long a member of the array may not answer (ms). */
	uint64_t (*io_timeout)(void *ctx);
	/* What the array has waited for in the group for some seconds: one sentence, which names who and what to do. NULL: that has ended. */
	void (*waits)(void *ctx, const char *text);
	/* Adds what the array is owed, and owes, to the list: ddr_sm_debts(). */
	void (*debts)(void *ctx, struct ddr_node_debts *list);
	/* A node owes another one something for some seconds: one sentence, which names who, what, since when, and why. */
	void (*debt)(void *ctx, enum ddr_debt_news news, const char *text);
	/* The group is lost for this node: nothing follows, and messages that were sent may be lost. @why: static text. */
	void (*lost)(void *ctx, const char *why);
};

struct ddr_transport {
	const struct ddr_transport_ops *ops;
};

struct ddr_transport_ops {
	const char *name;		/* as `status` shows it */
	bool cluster;			/* quorum() is called, and there may be other nodes; otherwise there is one view with this node */
	/* Why no group can be joined now: one sentence, or NULL. */
	const char *(*waits)(const struct ddr_daemon *d);
	/* This node's id; valid once waits() has returned NULL. */
	uint32_t (*node)(const struct ddr_daemon *d);
	/*
	 * The configured number of nodes in the cluster; 1: only this one; 0: unknown, there may be others. Valid once waits() has
	 * returned NULL.
	 */
	uint32_t (*nodes)(const struct ddr_daemon *d);
	/*
	 * A node's name, or the last one that is known: fence agents are called with it. False: none is known, and @buf is empty. A name is
	 * never invented: it might be another machine's.
	 */
	bool (*known_name)(const struct ddr_daemon *d, uint32_t node, char *buf, size_t size);
	/* A node of the cluster other than @except that has this name now, unless its daemon was excluded by a verdict; 0: there is none. */
	uint32_t (*bearer)(const struct ddr_daemon *d, const char *name, uint32_t except);
	/* A node's name for messages; if none is known, its id. Returns @buf. */
	const char *(*node_name)(const struct ddr_daemon *d, uint32_t node, char *buf, size_t size);
	/*
	 * The id of the cluster that this node is in, by which arrays are told from those of others; without corosync the machine's. False: there is
	 * none (yet), or it could not be stored, and @id is zero. With a cluster it is valid in a view: all of its nodes have said hello.
	 */
	bool (*cluster_id)(const struct ddr_daemon *d, uint8_t id[16]);
	/* Takes part in array @uuid; a view with this node follows. Returns 0, or a negative errno; -ENOTCONN: the cluster is gone; -EAGAIN: not yet. */
	int (*join)(struct ddr_transport **out, struct ddr_daemon *d, const uint8_t uuid[16],
		    const struct ddr_transport_events *events, void *ctx);
	/* Queues a message; false if the queue is full. */
	bool (*mcast)(struct ddr_transport *t, const uint8_t *msg, uint32_t len);
	/* Sends what can be sent at once, and leaves; there are no callbacks any more. NULL is allowed. */
	void (*leave)(struct ddr_transport *t);
};

extern const struct ddr_transport_ops ddr_transport_local;
extern const struct ddr_transport_ops ddr_transport_corosync;

#endif
