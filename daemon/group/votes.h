/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The votes of nodes, as the quorum service has them.
 *
 * libvotequorum waits for corosync's answer, without a limit: while corosync is stopped, that takes as long. (Its notifications would not, but they
 * say nothing of the votes of a node.) So a thread asks, before the answer is needed, and the last answer is kept.
 *
 * It must never: let the loop wait for corosync; use an answer from another membership.
 *
 * All functions belong to the loop's thread.
 */
#ifndef DDR_DAEMON_VOTES_H
#define DDR_DAEMON_VOTES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/group/ask.h"
#include "lib/wire/node_msg.h"

struct ddr_votes_question;

/* Zeroed at first. */
struct ddr_votes {
	struct ddr_votes_question *asked;	/* on its way; NULL: none is */
	uint64_t ring;				/* of what follows; it is the ring in which it was asked */
	bool known;
	struct ddr_node_verdict answer;		/* its votes, and nodes */
};

/*
 * Asks for the votes of the nodes of @of, as a node of the cluster with the id @self; @ring: the present membership. Does nothing if a question
 * is on its way already.
 */
void ddr_votes_ask(struct ddr_votes *v, struct ddr_asks *asks, uint32_t self, uint64_t ring, const struct ddr_node_verdict *of);
/* Fills in the votes of @of, those of its nodes, and its flag of two nodes. False: they are not known of this ring, or not all of them. */
bool ddr_votes_known(const struct ddr_votes *v, uint64_t ring, struct ddr_node_verdict *of);
/* A question that is on its way is abandoned, and nothing is known any more. */
void ddr_votes_forget(struct ddr_votes *v);

#endif
