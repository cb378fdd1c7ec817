// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The id of this node's cluster (lib/node/cluster.h): stores what this node promises, accepts and takes over, and makes an id if it has to. See link.h.
 *
 * Must never: say in the group what is not stored yet.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include <qb/qblog.h>
#include <uuid/uuid.h>

#include "daemon/base/daemon.h"
#include "daemon/group/link_int.h"
#include "lib/math/uuid.h"
#include "lib/node/verdict.h"

/* The quorum service has quorum, in the group's ring. */
static bool quorate(const struct ddr_link *l)
{
	const struct ddr_quorum *q = ddr_corosync_quorum(l->d->corosync);

	return l->group.ring_known && !l->group.held && q->quorate && ddr_link_ring(&q->ring) == l->group.ring;
}

void ddr_link_cluster_begin(struct ddr_link *l, void (*stored)(void *ctx))
{
	l->d->ident.changed = stored;
	l->d->ident.ctx = l;
	if (l->d->ident.stored)
		ddr_cluster_stored(&l->group, &l->d->ident.id.cluster);
}

bool ddr_link_cluster_id(const struct ddr_link *l, uint8_t id[16])
{
	return ddr_cluster_agreed(&l->group, id);
}

void ddr_link_cluster_end(struct ddr_link *l)
{
	l->d->ident.changed = NULL;
}

static void tell(const struct ddr_cluster_ids *old, const struct ddr_cluster_ids *next)
{
	char id[UUID_STR_LEN], other[UUID_STR_LEN];

	uuid_unparse_lower(next->id, id);
	uuid_unparse_lower(next->other, other);
	if (memcmp(old->other, next->other, sizeof(old->other)) != 0)
		qb_log(LOG_WARNING, "two clusters have met: this one has the id %s from now on, on all nodes; the other one was %s", id, other);
	else if (next->agreed && !old->agreed)
		qb_log(LOG_NOTICE, "the cluster has the id %s", id);
}

/* Without enough votes the quorum service is asked anew; the next pulse looks at what it has answered. */
static enum ddr_cluster_step next_step(struct ddr_link *l, struct ddr_cluster_ids *next)
{
	struct ddr_node_verdict votes = { 0 };
	enum ddr_cluster_step step;

	ddr_verdict_voters(&l->group, &votes);
	step = ddr_cluster_next(&l->group, ddr_votes_known(&l->votes, l->group.ring, &votes) ? &votes : NULL, next);
	if (step != DDR_CLUSTER_VOTES)
		return step;
	ddr_votes_ask(&l->votes, l->d->asks, l->group.self.node, l->group.ring, &votes);
	return DDR_CLUSTER_STAYS;
}

void ddr_link_cluster(struct ddr_link *l)
{
	const struct ddr_ident *ident = &l->d->ident;
	struct ddr_cluster_ids next;
	enum ddr_cluster_step step;

	/* with a file that must not be written, nothing would be kept */
	if (!l->open || l->stores || !ident->stored || !quorate(l))
		return;
	step = next_step(l, &next);
	if (step == DDR_CLUSTER_STAYS || (step == DDR_CLUSTER_CREATE && getrandom(next.id, sizeof(next.id), 0) != sizeof(next.id)))
		return;
	tell(&ident->id.cluster, &next);
	l->stores = true;
	ddr_ident_cluster(&l->d->ident, &next);
}
