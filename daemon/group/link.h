/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * This daemon's place in the process group of all daemons of the cluster: one connection to corosync, for all arrays. lib/node/group.h
 * says how the arrays' views come about.
 *
 * The connection is made when the first array joins, and lasts until corosync is gone or the daemon ends. It must never: call back from
 * within a call of ours, sleep, or lose a message that it accepted while the connection lasts.
 *
 * All functions belong to the loop's thread.
 */
#ifndef DDR_DAEMON_LINK_H
#define DDR_DAEMON_LINK_H

#include "daemon/group/presence.h"
#include "daemon/group/queue.h"
#include "daemon/group/transport.h"

struct ddr_link;

/* What an array waits for in the group, as link_wait.c reports it. */
enum ddr_link_wait_kind {
	DDR_LINK_WAIT_NOTHING = 0,
	DDR_LINK_WAIT_STILL,		/* this process stood still, and no pulse that it sent since has come back in a quorate view */
	DDR_LINK_WAIT_COROSYNC,		/* corosync does not answer this daemon */
	DDR_LINK_WAIT_RETURN,		/* what this node sent last has not come back for long */
	DDR_LINK_WAIT_GROUP,		/* corosync has not let this node into the group of the daemons, or not said who is in it */
	DDR_LINK_WAIT_ECHO,		/* what this node sends does not come back */
	DDR_LINK_WAIT_HELLO,		/* a process has not said hello; before that nothing starts */
	DDR_LINK_WAIT_MEETS,		/* the same since partitions have met: quorum is withheld */
	DDR_LINK_WAIT_OTHERS,		/* the same, and only arrays that start on other nodes wait */
	DDR_LINK_WAIT_PRESENCE,		/* corosync has not let this node into the array's own group */
	DDR_LINK_WAIT_UNSEEN,		/* the same, of an array that runs */
	DDR_LINK_WAIT_USER,		/* a process uses the array that is not in the group of the daemons */
	DDR_LINK_WAIT_OLDER,		/* such a process waits for the array, which runs */
	DDR_LINK_WAIT_SILENT,		/* a process has sent nothing for five pulses, and was not declared dead */
	DDR_LINK_WAIT_REFUSED,		/* a process has no version in common with the others */
	DDR_LINK_WAIT_COPY,		/* a process is refused because another node's machine has the same id */
	DDR_LINK_WAIT_COPIES,		/* that one is refused, too */
};

#define DDR_LINK_WAIT_TEXT	512u
#define DDR_LINK_DEBT_TEXT	1024u

struct ddr_link_wait {
	enum ddr_link_wait_kind kind;
	struct ddr_group_id id;		/* of the process that is waited for; node 0: none */
	uint64_t since_ms;
	bool told;			/* to the array */
};

/* An array that uses the link; its memory belongs to the link from ddr_link_join() on. */
struct ddr_rider {
	struct ddr_transport base;
	struct ddr_link *link;
	struct ddr_rider *next;		/* in a list of those that are to be freed */
	const struct ddr_transport_events *events;
	void *ctx;
	int array;			/* its entry in the group; -1: lost */
	bool told_any;			/* a view was delivered */
	uint64_t quorum_serial;		/* the last report of the quorum service that was delivered */
	uint64_t withheld_serial;	/* the last one that was told as no quorum, since partitions meet */
	struct ddr_link_wait wait;
	struct ddr_presence presence;
	struct ddr_queue queue;
};

/*
 * @r begins to take part in array @uuid. 0; or a negative errno, then @r stays the caller's: -ENOTCONN: corosync is not running, or is just
 * ending; -EAGAIN: arrays of another module than that of @d->speaks have not left yet; it may succeed later.
 */
int ddr_link_join(struct ddr_daemon *d, struct ddr_rider *r, const uint8_t uuid[16]);
/* Sends what corosync takes at once; the rest follows on its own. */
void ddr_link_flush(struct ddr_link *l);
/* @r takes part no more, and is freed. */
void ddr_link_leave(struct ddr_rider *r);
/* Has the node a process that was excluded by a verdict, and no other one? */
bool ddr_link_node_out(const struct ddr_link *l, uint32_t node);
/* The id that the group of the daemons has agreed for its cluster; see ddr_cluster_agreed(). */
bool ddr_link_cluster_id(const struct ddr_link *l, uint8_t id[16]);
/* The daemon ends; no array takes part. */
void ddr_link_close(struct ddr_daemon *d);

#endif
