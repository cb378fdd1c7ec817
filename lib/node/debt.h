/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Who waits for whom, as the pulses of all nodes say it.
 *
 * Each pulse names what its sender waits for, and what it owes itself (struct ddr_node_debts). This puts together what belongs together: the same
 * debtor and the same kind in the same array are one debt, whoever waits for it. It is shown once a pulse has said that it is DDR_DEBT_SHOWN_MS
 * old: that is at most one pulse later, and what has ended in between is never shown.
 *
 * It must never: decide anything; keep what a process has said that is gone, or was excluded.
 */
#ifndef DDR_LIB_NODE_DEBT_H
#define DDR_LIB_NODE_DEBT_H

#include "lib/node/group.h"

#define DDR_DEBT_SHOWN_MS	DDR_DEBT_OLD_MS
#define DDR_DEBT_WAITERS	8u
#define DDR_DEBT_LIST		64u

/* One debt. @is.node owes it; @is.why is what that node says, or unknown. */
struct ddr_debt {
	struct ddr_node_debt is;	/* since_ms: the longest that anybody says, by now; quiet_ms: the shortest, of a resync what the debtor says */
	uint32_t own_ms;		/* quiet_ms, as the debtor says it */
	uint32_t waits[DDR_DEBT_WAITERS], n_waits;	/* nodes that wait for it, without the debtor; n_waits: of all */
	uint32_t behind;		/* the node for which the debtor itself waits in this array the longest; 0: none */
	uint8_t behind_kind;
};

/* Our own debts, those of which this node's arrays know, are what the next pulse says. */
void ddr_debt_ours(struct ddr_group *g, const struct ddr_node_debts *debts);
/* Those that are shown, the oldest first; at most DDR_DEBT_LIST. Returns their number. @now_ms: of a clock that nobody sets. */
uint32_t ddr_debt_list(struct ddr_group *g, uint64_t now_ms, struct ddr_debt *list);

#endif
