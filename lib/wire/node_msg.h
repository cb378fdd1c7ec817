/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Codec of the messages of a node's daemon about itself (<ddraid/proto.h>).
 *
 * It must never: allocate, log, or read beyond the end that it was given. Pure and reentrant.
 */
#ifndef DDR_LIB_NODE_MSG_H
#define DDR_LIB_NODE_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ddraid/proto.h>

/* That a process takes part in an array. @number: never 0, and another one each time that it begins to. */
struct ddr_ride {
	uint8_t uuid[16];
	uint32_t number;
};

/* A process of the group: no two that are in it have the same. */
struct ddr_group_id {
	uint32_t node, pid;
};

/* The votes that a node has for the quorum. */
struct ddr_node_votes {
	uint32_t node, votes;
};

/* What a hello belongs to: the membership of the cluster, and the process whose first hello was delivered last in it (node 0: none). */
struct ddr_node_round {
	uint64_t ring;
	struct ddr_group_id newest;
};

struct ddr_node_hello {
	uint16_t lowest, highest, lowest_format, highest_format;
	uint16_t version, flags;
	uint32_t n, n_out;
	struct ddr_node_round round;
	struct ddr_ride ride[DDR_NODE_RIDES];
	struct ddr_group_id out[DDR_NODE_OUTS];
	uint8_t machine[16];		/* zero: the sender says nothing of its machine, nor of its cluster */
	uint8_t cluster[16];		/* zero: it has no id */
	bool proposed;			/* @cluster is not agreed */
	uint64_t promised, ballot;	/* that the sender has promised, and under which it has accepted @cluster (lib/node/cluster.h) */
};

struct ddr_node_ready {
	uint64_t turn;
	struct ddr_node_round round;
};

/* What the node of an accused process owes in an array, and that it has done nothing about for @ms at least. */
struct ddr_node_owed {
	uint8_t uuid[16];
	uint8_t kind;			/* enum ddr_debt_kind */
	uint32_t ms;
};

struct ddr_node_verdict {
	uint64_t ring, name;
	struct ddr_group_id process;
	uint32_t total, quorum, flags, n;
	struct ddr_node_votes node[DDR_NODE_VOTERS];	/* each node once */
	struct ddr_node_owed owed;	/* with DDR_VERDICT_OWES; else zero */
};

/* What @node owes to the sender, or the sender to others, in the array. */
struct ddr_node_debt {
	uint8_t uuid[16];
	uint8_t kind, why;		/* enum ddr_debt_kind, enum ddr_debt_why; a later release may name others */
	uint32_t node;
	uint32_t since_ms, quiet_ms;	/* ms since it owes this, and since it did something about it last: at most as many */
};

struct ddr_node_debts {
	uint32_t n, total;		/* that are named, and that the sender knows */
	struct ddr_node_debt debt[DDR_NODE_DEBTS];
};

struct ddr_node_pulse {
	uint64_t counter;
	struct ddr_node_debts debts;	/* none, if the sender's release does not name any */
};

struct ddr_node_msg {
	enum ddr_node_msg_type type;
	uint32_t sender;
	union {
		struct ddr_node_hello hello;
		struct ddr_node_ready ready;
		struct ddr_ride ride;		/* and off */
		struct ddr_node_pulse pulse;
		struct ddr_node_verdict verdict;
	};
};

/* Is it a message of this kind, of whatever version? Otherwise it may be one of an array (msg.h). */
bool ddr_node_msg_is(const uint8_t *buf, size_t len);
/* Writes @msg to @buf of @size bytes. Returns the length, or 0 if it does not fit or is not well formed. */
size_t ddr_node_msg_encode(const struct ddr_node_msg *msg, uint8_t *buf, size_t size);
/* Reads @len bytes. Returns NULL and fills @msg, or a static sentence that says what is wrong (then @msg is undefined). */
const char *ddr_node_msg_decode(const uint8_t *buf, size_t len, struct ddr_node_msg *msg);

#endif
