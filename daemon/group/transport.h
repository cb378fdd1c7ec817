/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the daemons of an array's nodes talk: views and totally ordered messages.
 *
 * A transport delivers to every member of a view, the sender included, the same
 * messages in the same order, between the same views. It must never: call back from
 * within a call of ours, sleep, reorder, or lose a message that it took.
 *
 * All functions belong to the loop's thread.
 */
#ifndef DDR_DAEMON_TRANSPORT_H
#define DDR_DAEMON_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ddr_daemon;

struct ddr_transport_events {
	/*
	 * A new view: node ids in order, and the number of each one's process. @ring: the cluster's membership that it
	 * belongs to; a process that joins or leaves changes the view and not the ring. A node whose daemon left and
	 * joined in one event is missing from a view of its own in between.
	 */
	void (*view)(void *ctx, const uint32_t *nodes, const uint32_t *pids, uint32_t n, uint64_t ring);
	/* What the quorum service said last: the cluster's members, and for which ring. May come before and after the view. */
	void (*quorum)(void *ctx, const uint32_t *nodes, uint32_t n, bool quorate, uint64_t ring);
	void (*message)(void *ctx, uint32_t node, const uint8_t *msg, uint32_t len);
	/* The daemon of a node, of which no message was taken so far, speaks another version of them. May come more than once. */
	void (*foreign)(void *ctx, uint32_t node, uint16_t version);
	/* The group is gone for this node: nothing follows, and what was sent may be lost. @why: static text. */
	void (*lost)(void *ctx, const char *why);
};

struct ddr_transport {
	const struct ddr_transport_ops *ops;
};

struct ddr_transport_ops {
	const char *name;		/* as `status` shows it */
	bool cluster;			/* quorum() is called, and other nodes may be there; else one view with this node */
	/* Why no group can be joined now, one sentence, or NULL. */
	const char *(*waits)(const struct ddr_daemon *d);
	/* Own node id; valid once waits() was NULL. */
	uint32_t (*node)(const struct ddr_daemon *d);
	/* How many nodes the cluster has by its configuration; 1: this one alone; 0: not known, there may be others. Valid once waits() was NULL. */
	uint32_t (*nodes)(const struct ddr_daemon *d);
	/* A node's name for people. Returns @buf. */
	const char *(*node_name)(const struct ddr_daemon *d, uint32_t node, char *buf, size_t size);
	/* Joins the group of array @uuid; a view with this node follows. Returns 0 or a negative errno; -ENOTCONN: there is no cluster now. */
	int (*join)(struct ddr_transport **out, struct ddr_daemon *d, const uint8_t uuid[16],
		    const struct ddr_transport_events *events, void *ctx);
	/* Takes a message to send; false if the queue is full. */
	bool (*mcast)(struct ddr_transport *t, const uint8_t *msg, uint32_t len);
	/* Sends what can be sent at once, and leaves; nothing is called back any more. NULL is allowed. */
	void (*leave)(struct ddr_transport *t);
};

extern const struct ddr_transport_ops ddr_transport_local;
extern const struct ddr_transport_ops ddr_transport_corosync;

#endif
