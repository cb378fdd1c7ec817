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
#include <stdint.h>

#include <qb/qbloop.h>

#include "lib/conf.h"

struct ddr_transport_events {
	/* A new view; @ring names it, and grows. */
	void (*view)(void *ctx, const uint32_t *nodes, uint32_t n, bool quorate, uint64_t ring);
	void (*message)(void *ctx, uint32_t node, const uint8_t *msg, uint32_t len);
};

struct ddr_transport {
	const struct ddr_transport_ops *ops;
};

struct ddr_transport_ops {
	const char *name;		/* as `status` shows it */
	/* Joins the group of array @uuid; a view with this node follows. Returns 0 or a negative errno. */
	int (*join)(struct ddr_transport **out, qb_loop_t *loop, const struct ddr_conf *conf, const uint8_t uuid[16],
		    const struct ddr_transport_events *events, void *ctx);
	/* Takes a message to send; false if the queue is full. */
	bool (*mcast)(struct ddr_transport *t, const uint8_t *msg, uint32_t len);
	void (*leave)(struct ddr_transport *t);
};

extern const struct ddr_transport_ops ddr_transport_local;

#endif
