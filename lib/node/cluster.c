// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The id of the cluster. See cluster.h.
 */
#include <string.h>

#include "lib/math/uuid.h"
#include "lib/node/group.h"

static bool same_id(const uint8_t a[16], const uint8_t b[16])
{
	return memcmp(a, b, 16) == 0;
}

void ddr_cluster_stored(struct ddr_group *g, const struct ddr_cluster_ids *ids)
{
	bool known = same_id(g->use.cluster.id, ids->id) && g->use.cluster.agreed == ids->agreed;

	g->use.cluster = *ids;
	g->hello_due |= !known && g->n;
}

void ddr_cluster_say(const struct ddr_group *g, struct ddr_node_hello *hello)
{
	memcpy(hello->cluster, g->use.cluster.id, sizeof(hello->cluster));
	hello->proposed = !g->use.cluster.agreed && !ddr_uuid_is_zero(g->use.cluster.id);
}

void ddr_cluster_hello(struct ddr_group *g, struct ddr_group_vote *vote, const struct ddr_node_hello *hello)
{
	bool agreed = !hello->proposed && !ddr_uuid_is_zero(hello->cluster);

	g->changed |= !same_id(vote->cluster, hello->cluster) || vote->agreed != agreed;
	memcpy(vote->cluster, hello->cluster, sizeof(vote->cluster));
	vote->agreed = agreed;
}

/* ---- what is to be stored ----------------------------------------------------------- */

static bool before(const struct ddr_group_process *p, const struct ddr_group_process *q)
{
	return !q || p->id.node < q->id.node || (p->id.node == q->id.node && p->id.pid < q->id.pid);
}

/* It is not refused, and of a release that has an id. */
static bool counts(const struct ddr_group_process *p)
{
	return p->vote.fits && !ddr_uuid_is_zero(p->vote.machine);
}

/* The lowest process with an id other than @but (NULL: with any), that is agreed, or proposed. */
static const struct ddr_group_process *lowest_with(const struct ddr_group *g, bool agreed, const uint8_t *but)
{
	const struct ddr_group_process *low = NULL;

	for (unsigned int i = 0; i < g->n; i++) {
		const struct ddr_group_process *p = &g->process[i];

		if (counts(p) && !ddr_uuid_is_zero(p->vote.cluster) && p->vote.agreed == agreed && !(but && same_id(p->vote.cluster, but)) && before(p, low))
			low = p;
	}
	return low;
}

/* Does an array take part, and is this process the lowest? Then it proposes an id. */
static bool proposes(const struct ddr_group *g)
{
	const struct ddr_group_process *low = NULL;
	bool rides = false;

	for (unsigned int i = 0; i < g->n; i++) {
		rides |= g->process[i].vote.fits && g->process[i].n;
		if (counts(&g->process[i]) && before(&g->process[i], low))
			low = &g->process[i];
	}
	return rides && low && low->id.node == g->self.node && low->id.pid == g->self.pid;
}

static bool all_have(const struct ddr_group *g, const uint8_t id[16])
{
	for (unsigned int i = 0; i < g->n; i++)
		if (counts(&g->process[i]) && !same_id(g->process[i].vote.cluster, id))
			return false;
	return true;
}

/* Has the hello been delivered that says what is stored here? Otherwise the next one may change what is to be stored. */
static bool is_said(const struct ddr_group *g)
{
	for (unsigned int i = 0; i < g->n; i++) {
		const struct ddr_group_process *p = &g->process[i];

		if (p->id.node == g->self.node && p->id.pid == g->self.pid)
			return same_id(p->vote.cluster, g->use.cluster.id) && p->vote.agreed == g->use.cluster.agreed;
	}
	return false;
}

bool ddr_cluster_next(const struct ddr_group *g, struct ddr_cluster_ids *next, bool *create)
{
	const struct ddr_cluster_ids *own = &g->use.cluster;
	const struct ddr_group_process *lead, *other;

	*create = false;
	*next = *own;
	if (!g->n || g->held || !g->ring_known || g->meets || g->use.pending || ddr_group_unsaid(g) || !is_said(g) || !ddr_version_fits(g))
		return false;
	lead = lowest_with(g, true, NULL);
	other = lead ? lowest_with(g, true, lead->vote.cluster) : NULL;
	if (lead && own->agreed && !same_id(own->id, lead->vote.cluster))
		memcpy(next->other, own->id, sizeof(next->other));
	else if (other)
		memcpy(next->other, other->vote.cluster, sizeof(next->other));
	if (!lead)
		lead = lowest_with(g, false, NULL);
	if (!lead) {
		*create = proposes(g);
		return *create;
	}
	next->agreed = lead->vote.agreed || all_have(g, lead->vote.cluster);
	memcpy(next->id, lead->vote.cluster, sizeof(next->id));
	return !same_id(next->id, own->id) || !same_id(next->other, own->other) || next->agreed != own->agreed;
}
