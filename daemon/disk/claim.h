/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Look, claim, look: taking over slots whose owners nobody has proved dead (protocol.md, rule I3). An owner stamps its slot every two seconds. So a
 * node that wants to take over reads all stamps, waits for as long as a kernel may write without its daemon, and reads again. If nothing moved it writes
 * a random claim over the stamps of each such slot, waits as long once more, and reads again: then an owner that was only slow has seen the
 * claim and stopped, and of several that claim only the last one finds its own.
 *
 * Used by the loader, in its thread. Must never: write before the second look; take over what moved, or a slot whose claim does not stand as it was written.
 */
#ifndef DDR_DAEMON_CLAIM_H
#define DDR_DAEMON_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/disk/format_owner.h"

#define DDR_CLAIM_MORE_MS	5000u	/* waited in addition to the stop time, or alone where no kernel can be left */

struct ddr_load;

struct ddr_claim {
	/* set by the caller: who takes over, and whether it may */
	bool adopted;			/* the operator gave --adopt */
	bool alone;			/* this node is its whole cluster, or has none */
	uint32_t node;
	uint8_t machine[DDR_UUID_LEN];
	struct ddr_instance instance;	/* of our kernel's array object */
	uint32_t stop_ms;		/* of our kernel */
	char name[DDR_NODE_NAME];
	/* results */
	uint64_t slots;			/* bit s: slot s has our claim */
	uint8_t id[DDR_UUID_LEN];	/* of that claim; zero: there was nothing to claim */
};

/* The slots that have an owner other than our kernel's array object; a bit for each. */
uint64_t ddr_claim_open(const struct ddr_claim *c, const struct ddr_super *sb, const struct ddr_owners *owners);

/* The stamps that were found in the places of one slot, the newest of each place. */
struct ddr_claim_found {
	unsigned int n;
	struct ddr_stamp stamp[2];
};

/*
 * How long each of the two waits takes, in ms; 0: nothing is to be claimed. @open: ddr_claim_open(); @found: [slot].
 *
 *	open slots			this node	--adopt		wait
 *	none				any		any		0
 *	of earlier boots of		alone		any		5 s: that kernel is gone, and a copy of this machine that has the same
 *	  this machine, all of them					disks has booted as well (note 22)
 *	the same by the owner pages,	alone		any		the longest stop time of their stamps and of ours, and 5 s: another
 *	  with other stamps						machine has claimed them, or has the same disks
 *	any other			alone		yes		the same
 *					alone		no		0: the start is refused (identity.c)
 *	any				of several	yes		the same
 *					of several	no		0: the cluster proves its owner dead, or waits
 *
 * A slot is of an earlier boot of this machine if what is known of it, by its owner page and by each of its stamps, names this machine and another boot,
 * and something is known. Without --adopt a slot of which the owner page names no machine is watched for the longer time.
 */
uint32_t ddr_claim_wait(const struct ddr_claim *c, uint64_t open, const struct ddr_owners *owners, const struct ddr_claim_found *found);

/*
 * Looks, claims and looks for the array that @l has found, whose members are open and in their places. Sleeps. 0: nothing had to be claimed, or all claims
 * stand, and @l->claim says which; -1: @l->error says who uses the array, what failed, or that the load was cancelled.
 */
int ddr_claim_slots(struct ddr_load *l);

#endif
