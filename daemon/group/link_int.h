/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What link.c (the connection to corosync), link_tell.c (what the arrays are told), link_wait.c (what they wait for) and link_pulse.c (who is silent)
 * share. Nobody else includes it.
 */
#ifndef DDR_DAEMON_LINK_INT_H
#define DDR_DAEMON_LINK_INT_H

#include <corosync/cpg.h>
#include <qb/qbloop.h>

#include "daemon/group/corosync.h"
#include "daemon/group/cpg.h"
#include "daemon/group/link.h"
#include "daemon/group/votes.h"
#include "lib/node/debt.h"

struct ddr_link {
	struct ddr_daemon *d;
	struct ddr_corosync_listener listener;
	struct ddr_cpg *cpg;
	uint64_t epoch;			/* of the connection to corosync */
	bool open;			/* the daemon takes part in the group, or is about to: @cpg is open */
	bool joined;			/* the group was joined */
	bool calling;			/* riders are being told something: none is freed */
	struct ddr_rider *dead;		/* those that left meanwhile */
	qb_loop_timer_handle timer;	/* what corosync did not take is tried again */
	qb_loop_timer_handle silence;	/* something waits: whether it lasts is looked at again */
	qb_loop_timer_handle pulse;
	uint64_t pulse_ms;		/* the pulse that has not come back was sent after that; 0: none */
	unsigned int away;		/* times that one was due since, while this daemon ran */
	struct ddr_votes votes;
	uint64_t outs;			/* name of the set of nodes whose daemons are excluded, as the arrays know it */
	uint64_t line_until_ms;		/* end of the minute that is counted */
	unsigned int lines;
	struct ddr_debt debt[DDR_DEBT_LIST];	/* link_debt.c's: as shown last */
	uint32_t n_debts;
	cs_error_t refusal;		/* the last logged error of a message */
	bool stores;			/* the id of the cluster is being stored */
	struct ddr_rider *rider[DDR_NODE_RIDES];
	struct ddr_group group;
};

/* Begins and ends a round of calls to riders. Riders that leave meanwhile are freed at its end. @before: what the begin returned. */
bool ddr_link_begin_calls(struct ddr_link *l);
void ddr_link_end_calls(struct ddr_link *l, bool before);
/* The group is lost for this rider; @why: static text. Within such a round, as all that follow. */
void ddr_link_lose_rider(struct ddr_link *l, struct ddr_rider *r, const char *why);
/* The last report of the quorum service, if the array number @i has not been told it and may know it. */
void ddr_link_tell_quorum(struct ddr_link *l, unsigned int i);
/* What the last change of the group means for the arrays. */
void ddr_link_tell(struct ddr_link *l);

/* link_wait.c: notes what each array waits for, and tells it what lasts. Within such a round. */
void ddr_link_watch(struct ddr_link *l);
/* The same in a moment, from the loop. */
void ddr_link_watch_later(struct ddr_link *l);

/* link_debt.c: asks the arrays what they are owed, for the next pulse, and tells what is owed to anybody for long. Within such a round. True: look again. */
bool ddr_link_debts(struct ddr_link *l);
/* The group is lost: what others have said counts no more. */
void ddr_link_debts_end(struct ddr_link *l);

/* Two nodes whose machines have the same id: @p, which is refused for it, and another one. Writes one sentence. */
void ddr_link_describe_copy(const struct ddr_link *l, const struct ddr_group_process *p, char *buf, size_t size);
/* Is a process in the array's own group that is not known from the group of the daemons? */
bool ddr_link_used_by_other(const struct ddr_link *l, const struct ddr_rider *r);

/* What a node has not done that owes this: a sentence without its subject. A later release may know more kinds. */
const char *ddr_link_debt_what(enum ddr_debt_kind kind);
/* link_votes.c. The quorum service and the group have the same membership. */
bool ddr_link_same_ring(const struct ddr_link *l);
/* Asks for the votes, if a verdict may need them soon. */
void ddr_link_ask_votes(struct ddr_link *l);
/* How long nodes of the array may owe something, as this node has it set (ms; 0: for ever). @ctx: the link. */
uint32_t ddr_link_owe_limit(void *ctx, const uint8_t uuid[16]);
/* Are the votes known now by which a verdict on @p can be judged? They are filled in. */
bool ddr_link_votes(struct ddr_link *l, struct ddr_node_verdict *v);
/* The other nodes have excluded this daemon: logs for what, and returns the reason as a static text. */
const char *ddr_link_say_why_excluded(const struct ddr_link *l);

/* Pulses begin; they end with the timer. */
void ddr_link_pulse(struct ddr_link *l);
/* Has the last pulse not come back for seconds? */
bool ddr_link_unreturned(const struct ddr_link *l);
/* A message of the group was delivered. If it is our pulse, a daemon that stood still may be served again. */
void ddr_link_pulse_back(struct ddr_link *l);
/* Processes that were excluded since it was called last are logged, and the arrays learn that their nodes do not count for the quorum. */
void ddr_link_tell_excluded(struct ddr_link *l);

/* link_store.c: stores the id of the cluster, if it is time to. Within such a round. */
void ddr_link_cluster(struct ddr_link *l);
/* The group begins with what this node has stored. @stored: called from the loop, when what ddr_link_cluster() stores is durable. */
void ddr_link_cluster_begin(struct ddr_link *l, void (*stored)(void *ctx));
void ddr_link_cluster_end(struct ddr_link *l);

/* Corosync's ring id as one number, the same on all nodes and for both services. */
static inline uint64_t ddr_link_ring(const struct ddr_ring_id *ring)
{
	return (ring->seq << 32 | ring->node) ^ (ring->seq >> 32) * 0x9e3779b97f4a7c15u;
}
void ddr_link_stop_timer(struct ddr_link *l, qb_loop_timer_handle *timer);

#endif
