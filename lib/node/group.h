/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One process group for the daemons of all nodes, and the views of the arrays in it.
 *
 * Sans-I/O: it is told what the group service delivers (memberships, rings, messages), and is asked for what is to be sent and to be told. It
 * knows no socket and no clock, and never allocates. The group service must deliver memberships and messages in the same order to all
 * members of a partition, and the messages of one process in the order in which they were sent.
 *
 * Each process says in RIDE and OFF in which arrays it takes part. A view of an array are the processes that take part in it. All that
 * take part get the same views at the same place between the same messages, for two reasons:
 * - A process that joins the group takes part in nothing yet. It sends its first RIDE when it has heard a HELLO of every other one, and so
 *   knows as much as they do.
 * - When partitions meet, processes come that take part already. From there on until a HELLO of every process was delivered, which is the
 *   same message for all, a view has only those that were in the view before. They must do nothing that needs a quorum meanwhile: the
 *   others, which they do not see yet, count for it.
 * A HELLO lists what its sender took part in when it was sent. That is right at its delivery too, since its RIDE and OFF come in order.
 *
 * A process that has stopped stays in the group. The others find out by their pulses, and exclude it by a verdict (verdict.h): it takes part
 * in nothing any more, as if it had left.
 */
#ifndef DDR_LIB_NODE_GROUP_H
#define DDR_LIB_NODE_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/node/owes.h"
#include "lib/node/version.h"
#include "lib/wire/node_msg.h"

#define DDR_GROUP_PROCESSES	128u	/* of the group: as many as corosync allows */
#define DDR_GROUP_NODES		64u	/* of a view */

/* What is known of the silence of a process. verdict.c is the only code that changes it. */
struct ddr_silence {
	uint64_t name;			/* of all that it has sent since a process joined last: the same for all */
	uint32_t pulses;		/* of our own, that were delivered since its last message */
	uint64_t turn_ms;		/* when this node sends a verdict on it; 0: it is not silent */
	bool out;			/* it is excluded */
	bool spared;			/* but only left out: its node counts, and is not fenced for it */
	enum { DDR_OUT_HEARSAY, DDR_OUT_SILENT, DDR_OUT_OWES } why;	/* by a verdict that this process was delivered; hearsay: a hello has said it */
	struct ddr_node_owed owed;	/* for this, with DDR_OUT_OWES */
	bool out_logged;		/* the owner's */
	bool out_said;			/* and all know that who were in the group when a process joined last, or have heard a hello since */
};

struct ddr_group_process {
	struct ddr_group_id id;
	bool heard;			/* it has said hello: it is a ddraidd */
	bool said;			/* and has done so since the last process joined */
	struct ddr_group_vote vote;
	uint8_t fences;			/* enum ddr_fences, by its hello: the same as long as it lives */
	uint32_t n;			/* arrays in which it takes part */
	struct ddr_ride ride[DDR_NODE_RIDES];
	struct ddr_silence silence;
	struct ddr_node_debts debts;	/* by its last pulse */
	struct ddr_owes owes;
	bool debts_heard;		/* debt.c's: they were looked at since, first ... */
	uint64_t debts_ms;		/* ... at this time */
};

/* The nodes of a view in ascending order, and the number of each one's ride: another ride of a node has another number. */
struct ddr_group_view {
	uint32_t n;
	uint32_t node[DDR_GROUP_NODES], number[DDR_GROUP_NODES];
	uint8_t fences[DDR_GROUP_NODES];	/* enum ddr_fences */
	uint64_t ring;
	uint16_t version;		/* of its messages; 0: they have none in common */
};

enum ddr_group_stage {
	DDR_GROUP_FREE = 0,		/* the entry is not used */
	DDR_GROUP_HELD,			/* the owner has not said yet that it may begin */
	DDR_GROUP_WAITS,		/* RIDE is to be sent */
	DDR_GROUP_RIDES,		/* RIDE was sent */
	DDR_GROUP_ENDS,			/* OFF is to be sent */
};

/* An array in which this node takes part, or will, or did. */
struct ddr_group_array {
	enum ddr_group_stage stage;
	struct ddr_ride ride;
	uint32_t out[DDR_GROUP_NODES], n_out;	/* nodes whose daemon was excluded, and which is to be told: ddr_group_excluded() */
	bool told, crowded;
	bool known;			/* @view is what the others were told last, and this node, if it is @told. A number in it that is 0 is of a ride that has ended */
	struct ddr_group_view view;
};

struct ddr_group {
	struct ddr_group_id self;
	enum ddr_fences fences;		/* what our hello says; the owner sets it after ddr_group_init(), and then leaves it alone */
	struct ddr_group_version use;
	uint32_t rides;			/* so many that were begun here */
	struct ddr_group_process process[DDR_GROUP_PROCESSES];
	unsigned int n;
	bool held;			/* the membership waits for its ring */
	bool ring_known;
	uint64_t ring;
	bool meets;			/* not all have said hello since partitions have met, or since this process joined */
	bool hello_due;
	bool changed;			/* there may be news for the arrays; the owner resets it before it asks for them */
	uint64_t pulse;			/* counter of the last one that was sent */
	struct ddr_node_debts debts;	/* that the next one names (debt.h) */
	bool debts_news;		/* a pulse has said something; the owner resets it when it looks at the debts */
	bool pulse_due, pulse_away;	/* it is to be sent; the last one has not come back yet */
	bool verdict_due;		/* @verdict is to be sent */
	struct ddr_node_verdict verdict;
	struct ddr_group_array array[DDR_NODE_RIDES];
};

/* @pid: of this process; below 2^22. @lowest, @highest: versions of the arrays' messages that it speaks, with the module that is loaded. */
void ddr_group_init(struct ddr_group *g, uint32_t node, uint32_t pid, uint16_t lowest, uint16_t highest);
/* The random id of this machine, by which it is told from a copy of it. Before the first membership. */
void ddr_group_machine(struct ddr_group *g, const uint8_t machine[16]);

/*
 * The group has changed: it has these @n processes now, after those in @left have left. @nodes: nodes came or went, so that their ring
 * follows; @met: among those that are new here may be some that were in the group before, in another partition.
 * False: this process has left, and nothing that follows counts.
 */
bool ddr_group_members(struct ddr_group *g, const struct ddr_group_id *now, size_t n, const struct ddr_group_id *left, size_t n_left,
		       bool nodes, bool met);
/* The membership of the cluster, as a number. */
void ddr_group_ring(struct ddr_group *g, uint64_t ring);

/* What becomes of a message. */
enum ddr_group_answer {
	DDR_GROUP_DROPPED,		/* it is not of this protocol, or its sender may not send it; @why says it */
	DDR_GROUP_TAKEN,		/* it is of the group itself, or of an array but not of the last view */
	DDR_GROUP_OF_ARRAY,		/* it is one of array number @array */
	DDR_GROUP_EXCLUDED,		/* it excludes this process, and nothing that follows counts */
};
enum ddr_group_answer ddr_group_deliver(struct ddr_group *g, struct ddr_group_id from, const uint8_t *msg, size_t len, unsigned int *array,
					const char **why);

/*
 * This node will take part in array @uuid, once ddr_group_begin() is called. Returns the number of its entry; -EEXIST: it does already;
 * -ENOSPC: in too many.
 */
int ddr_group_ride(struct ddr_group *g, const uint8_t uuid[16]);
void ddr_group_begin(struct ddr_group *g, unsigned int array);
/* It takes part no longer; the entry's number becomes free on its own. */
void ddr_group_off(struct ddr_group *g, unsigned int array);

/*
 * The next message to be sent, of DDR_NODE_MSG_MAX bytes at most; 0: there is none. Until ddr_group_sent() says that it was sent it is due
 * again, perhaps with other words.
 */
size_t ddr_group_next(const struct ddr_group *g, uint8_t *buf, size_t size);
void ddr_group_sent(struct ddr_group *g);

enum ddr_group_news {
	DDR_GROUP_NO_NEWS,
	DDR_GROUP_NEW_VIEW,		/* @v is to be told; and then it is to be asked again */
	DDR_GROUP_CROWD,		/* more than DDR_GROUP_NODES nodes take part; said once. The last view stays, if there was one */
};
enum ddr_group_news ddr_group_view(struct ddr_group *g, unsigned int array, struct ddr_group_view *v);

/*
 * A node that a verdict has excluded, and of which the array has to know before it is told the view that ddr_group_view() has returned: it does not come back before it was fenced, whatever
 * its next process says. 0: there is none. Each is returned once.
 */
uint32_t ddr_group_excluded(struct ddr_group *g, unsigned int array);

/* Every DDR_PULSE_MS: a pulse is to be sent, if the last one has come back. */
void ddr_group_pulse(struct ddr_group *g);

/* Is it a process of the group that has said hello? */
bool ddr_group_knows(const struct ddr_group *g, struct ddr_group_id id);
/* The first process without a hello since a process joined last; NULL: none. Whoever joins waits for it. */
const struct ddr_group_process *ddr_group_unsaid(const struct ddr_group *g);
/* The first process whose hello views or this node's rides wait for; NULL: they wait for none. */
const struct ddr_group_process *ddr_group_awaits(const struct ddr_group *g);

#endif
