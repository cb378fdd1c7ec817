/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Verdicts on processes that send pulses, but do not do what their nodes owe: a bug, a thread that hangs, a disk that hangs below one kernel only. Everything
 * that needs their answer would wait for ever.
 *
 * Such a verdict (DDR_VERDICT_OWES) names the array, the kind of the debt, and for how long nothing was done about it. Turns, votes and effect are those of
 * a verdict for silence (verdict.h). Whether it counts is judged at its delivery, by the last pulse of each process, of two at least that were delivered
 * since the last process joined and everybody has said hello after that. All who judge were delivered the same ones.
 *
 * - A process of another node waits for the debt, and nothing was done about it for so long, by its words. What the debtor has sent since about such a debt
 *   (an acknowledgement of this kind in this array) takes these words back. So does what was delivered between this pulse and the one before: who waits may
 *   not have had it yet as it sent the pulse. But it had the pulse before, since it sends none until the last one has come back.
 * - It is no reason if that process itself owes something in this array for which it waits for its own kernel or disk: if the same disk hangs on all
 *   nodes, nobody may accuse anybody.
 * - The debtor does not wait for another node in this array. Of a chain the end is lost, of a circle the highest node.
 * - The debtor does not say that it waits for a disk (which fails after its time limit). Nor that it has done something more recently: by its own words its
 *   clock stands still while it waits for a disk, or for another node. In a circle that is no excuse.
 * - The debtor is not lost already: that one is being fenced.
 * - The group uses a version in which all judge so.
 *
 * It must never: decide by a clock, or by what only this process knows.
 */
#ifndef DDR_LIB_NODE_OWES_H
#define DDR_LIB_NODE_OWES_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/wire/node_msg.h"

struct ddr_group;
struct ddr_group_process;

/* Of a process, as a part of ddr_group_process. */
struct ddr_owes {
	uint8_t told;		/* so many of its last pulses were delivered to all who judge; 2: or more */
	uint16_t paid, fresh;	/* bit i: who owes its debt number i has sent something about such a debt since the pulse before its last; since its last */
	uint64_t turn_ms;	/* when this node sends a verdict on it; 0: there is no reason for one */
};

enum ddr_owes_answer {
	DDR_OWES_COUNTS,	/* the verdict holds, if the votes suffice */
	DDR_OWES_NOT_YET,	/* nobody who may accuse it has waited for so long */
	DDR_OWES_BEHIND,	/* the debtor waits for another node */
	DDR_OWES_DISK,		/* it waits for a disk, within its limit */
	DDR_OWES_ALL,		/* all who wait for so long wait for their own disks, or kernels, as well */
	DDR_OWES_LOST,		/* the debt is the return of a lost node */
	DDR_OWES_UNKNOWN,	/* not all have said hello, or pulsed, since the last one joined; or it takes no part in the array; or the version has no such verdicts */
};

/* For group.c: @p's pulse was delivered, which says this. What it said before is still there. */
void ddr_owes_pulse(const struct ddr_group *g, struct ddr_group_process *p, const struct ddr_node_debts *says);
/* A process of @node has sent a message of this type (enum ddr_msg_type) in the array. */
void ddr_owes_did(struct ddr_group *g, uint32_t node, const uint8_t uuid[16], uint16_t type);

/* May @p be excluded for this? @behind: with DDR_OWES_BEHIND, a node that it waits for, directly or not; may be NULL. */
enum ddr_owes_answer ddr_owes_judge(const struct ddr_group *g, const struct ddr_group_process *p, const struct ddr_node_owed *owed, uint32_t *behind);
/* For how long nothing was done about it, by the words of those that may accuse, and of @p; 0: nobody may. */
uint32_t ddr_owes_quiet(const struct ddr_group *g, const struct ddr_group_process *p, const struct ddr_node_owed *owed);

/* How long nodes of the array may owe something, as this node has it set; 0: for ever. */
typedef uint32_t ddr_owes_limit(void *ctx, const uint8_t uuid[16]);
/* The process on which this node has to send a verdict now, and for what; NULL: none. It is due again later. */
const struct ddr_group_process *ddr_owes_due(struct ddr_group *g, uint64_t now_ms, ddr_owes_limit *limit, void *ctx, struct ddr_node_owed *owed);
/* Is there one that may have to be sent, now or later, if nothing is done? */
bool ddr_owes_near(const struct ddr_group *g, ddr_owes_limit *limit, void *ctx);
/* The process of the node that takes part in the array; NULL: none that is known to all. */
const struct ddr_group_process *ddr_owes_debtor(const struct ddr_group *g, uint32_t node, const uint8_t uuid[16]);

#endif
