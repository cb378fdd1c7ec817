/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What corosync.c asks corosync: this node's id, its list of nodes, and to report quorum and changes of the list from now on. All of it waits for corosync's
 * answer, without a limit, so it must never be called in the loop (ask.h).
 */
#ifndef DDR_DAEMON_COROSYNC_CALL_H
#define DDR_DAEMON_COROSYNC_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include <corosync/cmap.h>
#include <corosync/quorum.h>

#include "daemon/group/corosync.h"

/* Corosync's list of nodes. */
struct ddr_corosync_list {
	uint32_t listed;		/* nodes; 0: there is no list */
	bool partly;			/* some of the nodes could not be asked for, and are not among those that follow */
	uint32_t n;
	struct { uint32_t node; char name[DDR_COROSYNC_NAME_LEN]; } node[DDR_COROSYNC_NODES];	/* name: empty: it is listed without a name */
};

/* A connection on which corosync reports changes of the list: cmap_dispatch() sets @changed then. */
struct ddr_corosync_watch {
	cmap_handle_t handle;
	int fd;
	bool changed;
};

/* A connection on which quorum is reported, with the first report on its way. */
struct ddr_corosync_reports {
	quorum_handle_t handle;
	int fd;
	bool no_quorum;			/* corosync is set up without quorum, so there is no connection */
};

cs_error_t ddr_corosync_ask_node(uint32_t *node);
cs_error_t ddr_corosync_ask_list(struct ddr_corosync_list *list);
/* @w stays where it is until ddr_corosync_end_watch(). */
cs_error_t ddr_corosync_ask_watch(struct ddr_corosync_watch *w);
void ddr_corosync_end_watch(struct ddr_corosync_watch *w);
/* @report: called by quorum_dispatch(); quorum_context_get() gives @ctx. */
cs_error_t ddr_corosync_ask_reports(struct ddr_corosync_reports *r, quorum_v1_quorum_notification_fn_t report, void *ctx);
void ddr_corosync_end_reports(struct ddr_corosync_reports *r);

#endif
