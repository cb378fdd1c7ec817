/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A connection to a process group of corosync. It is made, and the group joined, by a thread (ask.h); after that the loop has it, and it is closed by a thread
 * again. What does not come about is tried again until the owner closes it.
 *
 * It must never: wait for corosync in the loop; call the library for a handle that a thread uses; call back its owner after it was closed.
 *
 * All functions belong to the loop's thread.
 */
#ifndef DDR_DAEMON_CPG_H
#define DDR_DAEMON_CPG_H

#include <stdbool.h>
#include <stdint.h>

#include <corosync/cpg.h>
#include <qb/qbloop.h>

#include "daemon/group/ask.h"

struct ddr_cpg;

/* What the owner sets; it stays there until ddr_cpg_close(). */
struct ddr_cpg_owner {
	qb_loop_t *loop;
	struct ddr_asks *asks;
	enum qb_loop_priority priority;
	struct cpg_name name;		/* of the group */
	cpg_model_v1_data_t model;	/* what is called by ddr_cpg_dispatch(); cpg_context_get() gives @ctx */
	uint32_t largest;		/* message that is sent (bytes) */
	unsigned int retry_ms;		/* pause before a join that was refused is tried again */
	/* From the loop. */
	void (*joined)(void *ctx);
	/* There are events for ddr_cpg_dispatch(). @gone: corosync's end of the connection is closed. The owner may close it. */
	void (*readable)(void *ctx, bool gone);
	void *ctx;
};

/* Connects, and joins the group. 0, or -ENOMEM; then it is not open. */
int ddr_cpg_open(struct ddr_cpg **out, const struct ddr_cpg_owner *owner);
/* Delivers up to @n events, without waiting. False: the connection is lost. The callbacks may close it. */
bool ddr_cpg_dispatch(struct ddr_cpg *c, unsigned int n);
/* Sends a message to the group, which was joined. CS_ERR_TRY_AGAIN: corosync does not take it now. */
cs_error_t ddr_cpg_send(struct ddr_cpg *c, void *msg, size_t len);
/* Leaves the group. NULL is allowed. */
void ddr_cpg_close(struct ddr_cpg *c);

#endif
