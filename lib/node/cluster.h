/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The random id of the cluster, by which its arrays are told from those of others. Part of group.c, which calls what stands here.
 *
 * Each node stores the id, and says in HELLO what it has stored: so what is said outlives a crash. An id that is *agreed* is given up for another
 * cluster's only. Arrays record it, so no crash may bring the same nodes to agree on a second one, although some nodes are always missing. That is a
 * consensus, and it is found as in Paxos (L. Lamport, "The Part-Time Parliament", 1998):
 * - A *ballot* is a number for the processes that are in the group together: one more than any of them has promised. When one comes or goes, there is
 *   another ballot.
 * - Each stores that it *promises* the ballot, and accepts no lower one from then on.
 * - When all have promised, they *accept* an id under this ballot: of the ids accepted by any of them before, the one with the highest ballot. If there is none,
 *   the lowest process makes one, and the others take that.
 * - When all have accepted, the id is agreed. Other nodes take an agreed id from any HELLO that has one.
 * All this needs the votes of more than half of the nodes *whose daemons take part*: then any two such groups have a node in common, which remembers.
 *
 * Nodes that join without an id take the group's. If several agreed ids meet in a quorate group, all take that of the lowest node that has one, and
 * store the other one beside it, so that messages can name it. Refused processes, and releases that say nothing of an id, have no part in this.
 *
 * It must never: change a stored id in a group without quorum, or before all of it have said hello; or let two groups agree on two ids.
 */
#ifndef DDR_LIB_NODE_CLUSTER_H
#define DDR_LIB_NODE_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

struct ddr_group;
struct ddr_group_vote;
struct ddr_node_hello;
struct ddr_node_verdict;

/* As a node stores them. Zero: none. */
struct ddr_cluster_ids {
	uint8_t id[16];			/* of its cluster */
	uint8_t other[16];		/* of another cluster, that met this one last */
	bool agreed;			/* @id is in use; otherwise it is accepted only */
	uint64_t promised;		/* no lower ballot counts here */
	uint64_t ballot;		/* under which @id was accepted; <= @promised */
};

/* What this node has stored; a hello follows if the others do not know it. */
void ddr_cluster_stored(struct ddr_group *g, const struct ddr_cluster_ids *ids);

enum ddr_cluster_step {
	DDR_CLUSTER_STAYS,		/* what it has stored */
	DDR_CLUSTER_STORE,		/* @next */
	DDR_CLUSTER_CREATE,		/* @next, in which the id is missing: 16 random bytes */
	DDR_CLUSTER_VOTES,		/* nothing, for it is not known to have enough votes */
};
/*
 * What this node has to store now, in a quorate group. @votes: those of the nodes of the group (ddr_verdict_voters()), and what is needed for quorum;
 * NULL: not known of the present membership.
 */
enum ddr_cluster_step ddr_cluster_next(const struct ddr_group *g, const struct ddr_node_verdict *votes, struct ddr_cluster_ids *next);

/*
 * The id that the group has agreed, as its hellos say: that of the lowest process that has one. It is known as soon as all have said hello, also on a node
 * that has not stored it yet. False: none, and @id is zero.
 */
bool ddr_cluster_agreed(const struct ddr_group *g, uint8_t id[16]);

/* For version.c: what a hello says of it. */
void ddr_cluster_say(const struct ddr_group *g, struct ddr_node_hello *hello);
void ddr_cluster_hello(struct ddr_group *g, struct ddr_group_vote *vote, const struct ddr_node_hello *hello);

/* For version.c and group.c: somebody came or went, and with the next ballot */
void ddr_cluster_turn(struct ddr_group *g);
/* that follows it once all have said hello: all know the same then, and number it alike. */
void ddr_cluster_ballot(struct ddr_group *g);

#endif
