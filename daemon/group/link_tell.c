// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the arrays of this daemon are told of the group: views, quorum, and why they cannot begin to take part. See link.h.
 *
 * Must never: report a quorum for a view that lacks nodes which count for it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <qb/qblog.h>
#include <uuid/uuid.h>

#include "daemon/base/daemon.h"
#include "daemon/group/link_int.h"
#include "lib/node/verdict.h"

void ddr_link_stop_timer(struct ddr_link *l, qb_loop_timer_handle *timer)
{
	if (*timer)
		qb_loop_timer_del(l->d->loop, *timer);
	*timer = 0;
}

bool ddr_link_begin_calls(struct ddr_link *l)
{
	bool before = l->calling;

	l->calling = true;
	return before;
}

void ddr_link_end_calls(struct ddr_link *l, bool before)
{
	l->calling = before;
	while (!before && l->dead) {
		struct ddr_rider *r = l->dead;

		l->dead = r->next;
		free(r);
	}
}

void ddr_link_lose_rider(struct ddr_link *l, struct ddr_rider *r, const char *why)
{
	l->rider[r->array] = NULL;
	r->array = -1;
	r->events->lost(r->ctx, why);
}

/*
 * Corosync's ring id as one number, the same on all nodes and for both services. Its sequence has 64 bits, but only 32 fit beside the
 * node id: the upper half is folded in by an odd factor, so that no two sequences of one node give the same number.
 */
/* Until the view has all of the partition no node may act as if it was quorate: those that the view lacks count for it. */
static void withhold_quorum(struct ddr_link *l, struct ddr_rider *r, uint64_t ring)
{
	uint32_t self = l->group.self.node;

	r->quorum_serial = 0;
	r->withheld_serial = ddr_corosync_quorum(l->d->corosync)->serial;
	r->events->quorum(r->ctx, &self, 1, false, ring);
}

void ddr_link_tell_quorum(struct ddr_link *l, unsigned int i)
{
	const struct ddr_quorum *q = ddr_corosync_quorum(l->d->corosync);
	struct ddr_rider *r = l->rider[i];

	if (!r || !r->told_any || r->quorum_serial == q->serial)
		return;
	if (!l->group.meets || !q->quorate) {
		uint32_t node[DDR_COROSYNC_NODES], n = 0;

		for (uint32_t k = 0; k < q->n; k++)	/* the machine of a daemon that is excluded runs, but nothing of it counts */
			if (!ddr_verdict_node_out(&l->group, q->node[k]))
				node[n++] = q->node[k];
		r->quorum_serial = q->serial;
		r->events->quorum(r->ctx, node, n, q->quorate, ddr_link_ring(&q->ring));
	} else if (r->withheld_serial != q->serial) {
		withhold_quorum(l, r, ddr_link_ring(&q->ring));
	}
}

/*
 * A node that joins leaves again at once. The others keep their view until it has left, as if it had never joined. If it does not
 * leave (two halves of a cluster that is too large have met), nothing changes for them, and they log it.
 */
static void too_many(struct ddr_link *l, struct ddr_rider *r)
{
	unsigned int array = (unsigned int)r->array;

	if (r->told_any) {
		char uuid[UUID_STR_LEN];

		uuid_unparse_lower(l->group.array[array].ride.uuid, uuid);
		qb_log(LOG_ERR, "more than 64 nodes run the array %s; nodes that join or leave are ignored until there are fewer. Stop the array "
				"on the nodes that joined last",
		       uuid);
		return;
	}
	ddr_link_lose_rider(l, r, "64 nodes run the array, which is the limit; stop it on one of them");
	ddr_group_off(&l->group, array);
}

static void tell_excluded_nodes(struct ddr_link *l, unsigned int i)
{
	struct ddr_rider *r = l->rider[i];
	uint32_t node;

	while (l->rider[i] == r && (node = ddr_group_excluded(&l->group, i)) != 0)
		r->events->excluded(r->ctx, node);
}

static void tell_views(struct ddr_link *l, unsigned int i)
{
	struct ddr_group_view v;

	if (l->rider[i] && l->rider[i]->told_any)
		tell_excluded_nodes(l, i);

	while (l->rider[i]) {
		struct ddr_rider *r = l->rider[i];

		switch (ddr_group_view(&l->group, i, &v)) {
		case DDR_GROUP_NO_NEWS:
			return;
		case DDR_GROUP_CROWD:
			too_many(l, r);
			return;
		case DDR_GROUP_NEW_VIEW:
			r->told_any = true;
			tell_excluded_nodes(l, i);
			if (l->rider[i] != r)
				return;
			if (l->group.meets)
				withhold_quorum(l, r, v.ring);
			if (l->rider[i] == r && v.version)
				r->events->version(r->ctx, v.version);
			if (l->rider[i] == r)
				r->events->view(r->ctx, v.node, v.number, v.fences, v.n, v.ring);
		}
	}
}

/* An array that has not begun to take part, and does not because of a node of another release. */
static void tell_foreign(struct ddr_link *l, unsigned int i)
{
	const struct ddr_group_process *p = ddr_version_foreign(&l->group);
	struct ddr_rider *r = l->rider[i];

	if (p && r && !r->told_any)
		r->events->foreign(r->ctx, p->id.node, p->vote.highest);
}

static bool held(const struct ddr_link *l, unsigned int i)
{
	return l->rider[i] && l->group.array[i].stage == DDR_GROUP_HELD;
}

/* An array begins to take part once nobody uses it who is not seen in the daemons' group. */
static void let_begin(struct ddr_link *l, unsigned int i)
{
	if (held(l, i) && l->rider[i]->presence.n && !l->group.meets && !ddr_link_used_by_other(l, l->rider[i]))
		ddr_group_begin(&l->group, i);
}

/* Once for each that is refused because a machine has its id. If that id is ours, what is true of one of both may not be said of the other any more. */
static void log_copies(struct ddr_link *l)
{
	char text[DDR_LINK_WAIT_TEXT];

	for (unsigned int i = 0; i < l->group.n; i++) {
		struct ddr_group_process *p = &l->group.process[i];

		if (p->vote.twin && memcmp(p->vote.machine, l->d->ident.id.machine, sizeof(p->vote.machine)) == 0)
			l->d->ident.doubled = true;
		if (p->vote.twin && !p->vote.twin_logged) {
			ddr_link_describe_copy(l, p, text, sizeof(text));
			qb_log(LOG_ERR, "%s", text);
		}
		p->vote.twin_logged = p->vote.twin;
	}
}

/* The others do not count this node any more: it stops serving at once, and its arrays wait until the other machine has left. */
static void yield(struct ddr_link *l, unsigned int i)
{
	struct ddr_rider *r = l->rider[i];

	if (!r || !r->told_any || !ddr_version_copied(&l->group))
		return;
	ddr_link_lose_rider(l, r, "another node has the same machine id, and its arrays go on; one of both is a copy of the other");
	ddr_group_off(&l->group, i);
}

bool ddr_link_node_out(const struct ddr_link *l, uint32_t node)
{
	return ddr_verdict_node_out(&l->group, node);
}

/* Tells the arrays what the last event means for them. */
void ddr_link_tell(struct ddr_link *l)
{
	while (l->open && l->group.changed) {
		l->group.changed = false;
		ddr_link_tell_excluded(l);
		log_copies(l);
		for (unsigned int i = 0; i < DDR_NODE_RIDES && l->open; i++) {
			yield(l, i);
			tell_views(l, i);
			ddr_link_tell_quorum(l, i);
			tell_foreign(l, i);
			let_begin(l, i);
		}
		ddr_link_watch(l);
		ddr_link_cluster(l);
	}
}
