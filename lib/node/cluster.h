/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The random id of the cluster, by which its arrays are told from those of others. Part of group.c, which calls what stands here.
 *
 * Each node stores the id, and says in HELLO what it has stored: so what is said outlives a crash. A new id is *proposed* first, by the lowest node of a
 * quorate group in which an array is served. It is *agreed* once all nodes of the group have stored it, and only then used. So a proposal that only some
 * have heard can be dropped without a trace.
 *
 * Nodes that join without an id take the group's. If several agreed ids meet in a quorate group, all take that of the lowest node that has one, and
 * store the other one beside it, so that messages can name it. Refused processes, and releases that say nothing of an id, have no part in this.
 *
 * It must never: change a stored id in a group without quorum, or before all of it have said hello.
 */
#ifndef DDR_LIB_NODE_CLUSTER_H
#define DDR_LIB_NODE_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

struct ddr_group;
struct ddr_group_vote;
struct ddr_node_hello;

/* As a node stores them. Zero: none. */
struct ddr_cluster_ids {
	uint8_t id[16];			/* of its cluster */
	uint8_t other[16];		/* of another cluster, that met this one last */
	bool agreed;			/* @id is in use; otherwise it is proposed */
};

/* What this node has stored; a hello follows if the others do not know it. */
void ddr_cluster_stored(struct ddr_group *g, const struct ddr_cluster_ids *ids);
/*
 * What this node has to store next, in a quorate group. False: what it has stored stays. *@create: @next->id is missing, and is to be 16 random
 * bytes.
 */
bool ddr_cluster_next(const struct ddr_group *g, struct ddr_cluster_ids *next, bool *create);

/* For version.c: what a hello says of it. */
void ddr_cluster_say(const struct ddr_group *g, struct ddr_node_hello *hello);
void ddr_cluster_hello(struct ddr_group *g, struct ddr_group_vote *vote, const struct ddr_node_hello *hello);

#endif
