/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Processes of the group that have fallen silent, and verdicts on them. (owes.h has those that are not silent, but do not do what they owe.)
 *
 * A process that is stopped, or hangs in a disk's driver, stays in the group, and everything waits for it. So every process sends a pulse
 * every two seconds, from the loop that does the arrays' work. A process is silent if five of our own pulses have been delivered since its last
 * message. That is counted by deliveries, not by a clock: while the group stands still, nobody becomes silent. And a process sends a
 * pulse only when its last one has come back, so that pulses which had to wait are not delivered in a row.
 *
 * The lowest node then sends a verdict, which names the process and the last message that was heard from it; after three seconds the next node
 * does, and so on. Whether a verdict counts is judged at its delivery, by what all members of the group know alike:
 * - the ring, and whether its sender has said hello since the last process joined;
 * - the last message of the process, by a hash of all that it has sent since the last process joined: if it has sent more, it lives. A verdict for a debt is
 *   judged by what pulses say of it instead;
 * - votes, as the sender's quorum service has them: without the node of the process, those that were excluded before, and those of whose
 *   processes none has said hello since the last process joined, the cluster must have quorum. With two_node one node suffices.
 *   Nobody counts votes for a process that is only *left out*, for nobody is fenced for it: another process of its node has said hello, or no process of the
 *   node takes part in an array, and none of the sender's arrays has a slot of the node.
 *
 * A process that was excluded sends nothing any more that counts, and takes part in nothing. HELLO lists such processes for those that join.
 *
 * It must never: decide by a clock, or by what only this process knows.
 */
#ifndef DDR_LIB_NODE_VERDICT_H
#define DDR_LIB_NODE_VERDICT_H

#include "lib/node/group.h"

#define DDR_PULSE_MS	2000u
#define DDR_SILENT	5u		/* own pulses */
#define DDR_TURN_MS	3000u		/* after which the next node sends a verdict */

/* For group.c: what is delivered. @p: the sender. */
void ddr_verdict_joined(struct ddr_group *g);
void ddr_verdict_heard(struct ddr_group_process *p, const uint8_t *msg, size_t len);
void ddr_verdict_pulse_back(struct ddr_group *g);
/* The process that is excluded by the verdict of @p; NULL: the verdict is void. */
struct ddr_group_process *ddr_verdict_judge(struct ddr_group *g, const struct ddr_group_process *p, const struct ddr_node_verdict *v);
/* The process is excluded. All who hear what we hear know it. */
void ddr_verdict_exclude(struct ddr_group_process *p);

/*
 * The process on which this node has to send a verdict now; NULL: none. It is due again later, unless the process is excluded or heard
 * by then.
 */
const struct ddr_group_process *ddr_verdict_due(struct ddr_group *g, uint64_t now_ms);
/* Is it this node's turn to send a verdict on @p? @turn_ms: 0 at first; it is due again later. */
bool ddr_verdict_turn(const struct ddr_group *g, const struct ddr_group_process *p, uint64_t *turn_ms, uint64_t now_ms);
/* A process that is silent and not excluded; NULL: there is none. */
const struct ddr_group_process *ddr_verdict_silent(const struct ddr_group *g);
/* The nodes of the group, each once; their votes are the caller's to fill in. */
void ddr_verdict_voters(const struct ddr_group *g, struct ddr_node_verdict *v);
/* Is a process near the moment from which on it counts as silent, so that a verdict on it may be needed soon? */
bool ddr_verdict_near(const struct ddr_group *g);
/* Is the process only left out by a verdict with these flags? */
bool ddr_verdict_spares(const struct ddr_group *g, const struct ddr_group_process *p, const struct ddr_node_verdict *v);
/* May @p be excluded? It is only left out, or the cluster would be quorate, by @v's votes, without it and all that are lost already. */
bool ddr_verdict_may(const struct ddr_group *g, const struct ddr_group_process *p, const struct ddr_node_verdict *v);
/* The verdict on @p is to be sent: with @v's votes, of the ring as it is. */
void ddr_verdict_send(struct ddr_group *g, const struct ddr_group_process *p, const struct ddr_node_verdict *v);

/* Has the node a process that was excluded, and no other one? */
bool ddr_verdict_node_out(const struct ddr_group *g, uint32_t node);

#endif
