/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which version of the protocol the group uses, and whom it refuses. Part of group.c, which calls what stands here.
 *
 * All processes decide the same at the same place in the order, and each decision is on the hellos of one *round*:
 * - A round begins when the ring changes, and when the first hello of a process is delivered. Then everybody says hello again, and names the
 *   round. It ends when a hello of it has been delivered from each process: that is when the version is decided.
 * - A hello says which version its sender uses. That is what all use who were in the group before, for it does not change during a round.
 *   The new version is this one, unless a process is there now that does not speak it: then it is the highest that all speak.
 * - A process whose versions have none in common with those of the others is refused: it takes part in nothing. Who takes part in something
 *   comes before who does not, and then the lower node.
 * - Of two nodes whose machines have the same id one is a copy of the other. It is refused in the same way, if it takes part in nothing yet and
 *   the other does; both are if neither does.
 * - The version moves up when each process has said, since somebody came, left, or began to take part last, that it misses no node: that
 *   all whom its arrays have lost were fenced, or have come back (DDR_N_READY).
 */
#ifndef DDR_LIB_NODE_VERSION_H
#define DDR_LIB_NODE_VERSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/node/cluster.h"
#include "lib/wire/node_msg.h"

struct ddr_group;
struct ddr_group_process;

/* Versions of the arrays' messages; highest 0: none. */
struct ddr_speaks {
	uint16_t lowest, highest;
};

/*
 * What a daemon speaks over a module: what both do, for its node promises to the others what its kernel has to keep [note 51]. False: they have
 * nothing in common, and @both is empty.
 */
bool ddr_speaks_both(struct ddr_speaks daemon, struct ddr_speaks module, struct ddr_speaks *both);

/* Of a process, as a part of ddr_group_process. */
struct ddr_group_vote {
	uint16_t lowest, highest;	/* versions that it speaks; 0: it has not said hello */
	uint16_t lowest_format, highest_format;	/* of superblocks */
	uint16_t version;		/* that it used when it said so; 0: none yet */
	bool said;			/* hello, in this round */
	bool fits;			/* by the last decision: it is not refused */
	uint8_t machine[16];		/* zero: it has not said it */
	uint8_t cluster[16];		/* that it has stored; zero: none */
	bool agreed;			/* @cluster is in use */
	uint64_t promised, ballot;	/* ballots for the id of the cluster (cluster.h) */
	bool twin;			/* by the last decision: it is refused because another node has the same machine id */
	bool twin_logged;		/* the owner's */
	bool ready;			/* it misses no node */
};

/* Of this process, as a part of ddr_group. */
struct ddr_group_version {
	uint16_t lowest, highest;	/* that this daemon speaks, with the module that is loaded */
	uint8_t machine[16];		/* of this machine; zero: it has none */
	struct ddr_cluster_ids cluster;	/* that it has stored */
	uint64_t ballot;		/* of the processes that are there now; 0: not all have said hello */
	uint16_t version;		/* that the group uses; 0: it is not decided yet */
	uint16_t most;			/* the highest that all speak who are not refused */
	bool known;			/* our first hello has been delivered */
	bool pending;			/* not all have said hello in this round */
	bool judge_due;			/* who fits may have changed */
	bool ready_due;
	uint64_t turn;			/* what has happened since the last decision by which a node may be missed */
	struct ddr_node_round round;
};

void ddr_version_init(struct ddr_group *g, uint16_t lowest, uint16_t highest);
/* A process has said hello. */
void ddr_version_hello(struct ddr_group *g, struct ddr_group_process *p, const struct ddr_node_hello *hello);
/* The ring is another one: a round begins. */
void ddr_version_ring(struct ddr_group *g);
/* A process of @node has left, or is counted out, or has begun to take part in an array: nobody is ready. @number: its pid, or that of its ride. */
void ddr_version_turn(struct ddr_group *g, uint32_t node, uint32_t number);
/* What has happened may have ended the round. */
void ddr_version_decide(struct ddr_group *g);
/* DDR_N_READY of a process. */
void ddr_version_ready(struct ddr_group *g, struct ddr_group_process *p, const struct ddr_node_ready *ready);

/* Fills in what a hello says of versions and formats. */
void ddr_version_say(const struct ddr_group *g, struct ddr_node_hello *hello);
/* The first process whose hello of this round is missing, of a node of which no process has said one; NULL: none. */
const struct ddr_group_process *ddr_version_unsaid(const struct ddr_group *g);
/* May this process begin to take part in arrays? Not before the first decision, and not while it is refused. */
bool ddr_version_fits(const struct ddr_group *g);

/* Does the group use a lower version than all speak, and has this process not said yet that it misses no node? */
bool ddr_version_may_rise(const struct ddr_group *g);
/* It does not: no array of this node has lost one. */
void ddr_version_rise(struct ddr_group *g);
/* The version of a view with these nodes; 0: one of them does not speak the group's. */
struct ddr_group_view;
uint16_t ddr_version_of(const struct ddr_group *g, const struct ddr_group_view *v);
/* A process that this one has no version in common with, and for which it is refused; NULL: it is not refused. */
const struct ddr_group_process *ddr_version_foreign(const struct ddr_group *g);
/* A process of another node with the same machine id, for which @p is refused, or would be; NULL: there is none. */
const struct ddr_group_process *ddr_version_twin(const struct ddr_group *g, const struct ddr_group_process *p);
/* Is this process refused for its machine id? Then it ends what it takes part in: the others do not count it any more. */
bool ddr_version_copied(const struct ddr_group *g);
/* The first process that is refused; NULL: there is none. */
const struct ddr_group_process *ddr_version_refused(const struct ddr_group *g);

#endif
