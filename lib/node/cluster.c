// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The id of the cluster. See cluster.h.
 */
#include <string.h>

#include "lib/math/uuid.h"
#include "lib/node/group.h"
#include "lib/node/verdict.h"

static bool same_id(const uint8_t a[16], const uint8_t b[16])
{
	return memcmp(a, b, 16) == 0;
}

void ddr_cluster_stored(struct ddr_group *g, const struct ddr_cluster_ids *ids)
{
	const struct ddr_cluster_ids *old = &g->use.cluster;
	bool known = same_id(old->id, ids->id) && old->agreed == ids->agreed && old->promised == ids->promised && old->ballot == ids->ballot;

	g->use.cluster = *ids;
	g->hello_due |= !known && g->n;
}

void ddr_cluster_say(const struct ddr_group *g, struct ddr_node_hello *hello)
{
	memcpy(hello->cluster, g->use.cluster.id, sizeof(hello->cluster));
	hello->proposed = !g->use.cluster.agreed && !ddr_uuid_is_zero(g->use.cluster.id);
	hello->promised = g->use.cluster.promised;
	hello->ballot = g->use.cluster.ballot;
}

void ddr_cluster_hello(struct ddr_group *g, struct ddr_group_vote *vote, const struct ddr_node_hello *hello)
{
	bool agreed = !hello->proposed && !ddr_uuid_is_zero(hello->cluster);

	g->changed |= !same_id(vote->cluster, hello->cluster) || vote->agreed != agreed;
	memcpy(vote->cluster, hello->cluster, sizeof(vote->cluster));
	vote->agreed = agreed;
	vote->promised = hello->promised;
	vote->ballot = hello->ballot;
}

static bool before(const struct ddr_group_process *p, const struct ddr_group_process *q)
{
	return !q || p->id.node < q->id.node || (p->id.node == q->id.node && p->id.pid < q->id.pid);
}

/* It is not refused, and of a release that has an id. */
static bool counts(const struct ddr_group_process *p)
{
	return p->vote.fits && !ddr_uuid_is_zero(p->vote.machine);
}

/* And it has said hello in this round: so all that take part know the same of it. */
static bool takes_part(const struct ddr_group_process *p)
{
	return p->vote.said && counts(p);
}

/* ---- the ballot --------------------------------------------------------------------- */

void ddr_cluster_turn(struct ddr_group *g)
{
	g->use.ballot = 0;
}

/* A store that was begun in another ballot may end in this one, and promise more than it has: then there is another one. */
void ddr_cluster_ballot(struct ddr_group *g)
{
	uint64_t most = 0;

	if (!g->n || g->held || !g->ring_known || g->use.pending || ddr_group_unsaid(g))
		return;
	for (unsigned int i = 0; i < g->n; i++)
		if (takes_part(&g->process[i]) && g->process[i].vote.promised > most)
			most = g->process[i].vote.promised;
	if (!g->use.ballot || most > g->use.ballot)
		g->use.ballot = most < DDR_BALLOT_MAX ? most + 1 : 0;
}

static bool all_have_promised(const struct ddr_group *g)
{
	for (unsigned int i = 0; i < g->n; i++)
		if (takes_part(&g->process[i]) && g->process[i].vote.promised != g->use.ballot)
			return false;
	return true;
}

static bool all_have_accepted(const struct ddr_group *g)
{
	for (unsigned int i = 0; i < g->n; i++)
		if (takes_part(&g->process[i]) && g->process[i].vote.ballot != g->use.ballot)
			return false;
	return true;
}

/* The process that has accepted an id under the highest ballot; NULL: none has. Under one ballot there is only one id. */
static const struct ddr_group_process *accepted_last(const struct ddr_group *g)
{
	const struct ddr_group_process *last = NULL;

	for (unsigned int i = 0; i < g->n; i++) {
		const struct ddr_group_process *p = &g->process[i];

		if (takes_part(p) && p->vote.ballot && (!last || p->vote.ballot > last->vote.ballot))
			last = p;
	}
	return last;
}

static bool counted_before(const struct ddr_group *g, unsigned int at)
{
	for (unsigned int i = 0; i < at; i++)
		if (g->process[i].id.node == g->process[at].id.node && takes_part(&g->process[i]))
			return true;
	return false;
}

/* If two groups have enough votes, a node is in both. With two_node corosync needs one vote for quorum; here both nodes are needed. */
static bool enough(const struct ddr_group *g, const struct ddr_node_verdict *votes)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < g->n; i++)
		for (uint32_t k = 0; takes_part(&g->process[i]) && !counted_before(g, i) && k < votes->n; k++)
			sum += votes->node[k].node == g->process[i].id.node ? votes->node[k].votes : 0;
	return votes->quorum && sum >= votes->quorum + (votes->flags & DDR_VERDICT_TWO_NODE ? 1u : 0u);
}

/* ---- what is to be stored ----------------------------------------------------------- */

/* The lowest process with an agreed id, other than @but (NULL: whichever). */
static const struct ddr_group_process *lowest_agreed(const struct ddr_group *g, const uint8_t *but)
{
	const struct ddr_group_process *low = NULL;

	for (unsigned int i = 0; i < g->n; i++) {
		const struct ddr_group_process *p = &g->process[i];

		if (counts(p) && p->vote.agreed && !(but && same_id(p->vote.cluster, but)) && before(p, low))
			low = p;
	}
	return low;
}

bool ddr_cluster_agreed(const struct ddr_group *g, uint8_t id[16])
{
	const struct ddr_group_process *lead = lowest_agreed(g, NULL);

	memset(id, 0, 16);
	if (lead)
		memcpy(id, lead->vote.cluster, 16);
	return lead;
}

static bool any_array(const struct ddr_group *g)
{
	for (unsigned int i = 0; i < g->n; i++)
		if (g->process[i].vote.fits && g->process[i].n)
			return true;
	return false;
}

static bool is_lowest(const struct ddr_group *g)
{
	const struct ddr_group_process *low = NULL;

	for (unsigned int i = 0; i < g->n; i++)
		if (takes_part(&g->process[i]) && before(&g->process[i], low))
			low = &g->process[i];
	return low && low->id.node == g->self.node && low->id.pid == g->self.pid;
}

/* Has the hello been delivered that says what is stored here? Otherwise the next one may change what is to be stored. */
static bool is_said(const struct ddr_group *g)
{
	const struct ddr_cluster_ids *own = &g->use.cluster;

	for (unsigned int i = 0; i < g->n; i++) {
		const struct ddr_group_process *p = &g->process[i];

		if (p->id.node == g->self.node && p->id.pid == g->self.pid)
			return takes_part(p) && same_id(p->vote.cluster, own->id) && p->vote.agreed == own->agreed &&
			       p->vote.promised == own->promised && p->vote.ballot == own->ballot;
	}
	return false;
}

/* Somebody has an agreed id. */
static enum ddr_cluster_step take(const struct ddr_group *g, const struct ddr_group_process *lead, struct ddr_cluster_ids *next)
{
	const struct ddr_cluster_ids *own = &g->use.cluster;
	const struct ddr_group_process *other = lowest_agreed(g, lead->vote.cluster);

	if (own->agreed && !same_id(own->id, lead->vote.cluster))
		memcpy(next->other, own->id, sizeof(next->other));
	else if (other)
		memcpy(next->other, other->vote.cluster, sizeof(next->other));
	next->agreed = true;
	memcpy(next->id, lead->vote.cluster, sizeof(next->id));
	return same_id(next->id, own->id) && same_id(next->other, own->other) && own->agreed ? DDR_CLUSTER_STAYS : DDR_CLUSTER_STORE;
}

/* Nobody has. */
static enum ddr_cluster_step agree(const struct ddr_group *g, struct ddr_cluster_ids *next)
{
	const struct ddr_group_process *last = accepted_last(g);

	if (next->promised != g->use.ballot) {
		next->promised = g->use.ballot;
		return last || any_array(g) ? DDR_CLUSTER_STORE : DDR_CLUSTER_STAYS;
	}
	if (!all_have_promised(g) || (!last && !is_lowest(g)))
		return DDR_CLUSTER_STAYS;
	if (next->ballot == g->use.ballot) {
		next->agreed = all_have_accepted(g);
		return next->agreed ? DDR_CLUSTER_STORE : DDR_CLUSTER_STAYS;
	}
	next->ballot = g->use.ballot;
	memset(next->id, 0, sizeof(next->id));
	if (!last)
		return DDR_CLUSTER_CREATE;
	memcpy(next->id, last->vote.cluster, sizeof(next->id));
	return DDR_CLUSTER_STORE;
}

enum ddr_cluster_step ddr_cluster_next(const struct ddr_group *g, const struct ddr_node_verdict *votes, struct ddr_cluster_ids *next)
{
	const struct ddr_group_process *lead;
	enum ddr_cluster_step step;

	*next = g->use.cluster;
	if (!g->n || g->held || !g->ring_known || g->meets || g->use.pending || ddr_group_unsaid(g) || !is_said(g) || !ddr_version_fits(g))
		return DDR_CLUSTER_STAYS;
	lead = lowest_agreed(g, NULL);
	if (lead)
		return take(g, lead, next);
	step = g->use.ballot ? agree(g, next) : DDR_CLUSTER_STAYS;
	return step == DDR_CLUSTER_STAYS || (votes && enough(g, votes)) ? step : DDR_CLUSTER_VOTES;
}
