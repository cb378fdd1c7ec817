// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The version of the protocol that the group uses. See version.h.
 *
 * Must never: decide by what only this process knows; or move the version up while a node is missed that may still speak only a lower one, for it
 * may come back with its state.
 */
#include <string.h>

#include <ddraid/format.h>

#include "lib/math/uuid.h"
#include "lib/node/group.h"
#include "lib/node/version.h"

void ddr_version_init(struct ddr_group *g, uint16_t lowest, uint16_t highest)
{
	g->use = (struct ddr_group_version){ .lowest = lowest, .highest = highest, .pending = true };
}

bool ddr_speaks_both(struct ddr_speaks daemon, struct ddr_speaks module, struct ddr_speaks *both)
{
	*both = (struct ddr_speaks){ .lowest = daemon.lowest > module.lowest ? daemon.lowest : module.lowest,
				     .highest = daemon.highest < module.highest ? daemon.highest : module.highest };
	if (both->lowest <= both->highest && both->highest)
		return true;
	*both = (struct ddr_speaks){ 0 };
	return false;
}

static bool same_process(struct ddr_group_id a, struct ddr_group_id b)
{
	return a.node == b.node && a.pid == b.pid;
}

static bool same_round(const struct ddr_node_round *a, const struct ddr_node_round *b)
{
	return a->ring == b->ring && same_process(a->newest, b->newest);
}

/* ---- rounds ----------------------------------------------------------------------- */

static void forget_ready(struct ddr_group *g)
{
	for (unsigned int i = 0; i < g->n; i++)
		g->process[i].vote.ready = false;
	g->use.ready_due = false;
}

static void begin_round(struct ddr_group *g, struct ddr_group_id newest)
{
	g->use.round = (struct ddr_node_round){ .ring = g->ring, .newest = newest };
	g->use.pending = true;
	ddr_cluster_turn(g);
	g->hello_due |= g->n != 0;
	for (unsigned int i = 0; i < g->n; i++)
		g->process[i].vote.said = false;
	forget_ready(g);
}

void ddr_version_ring(struct ddr_group *g)
{
	if (g->ring != g->use.round.ring)
		begin_round(g, (struct ddr_group_id){ 0 });
}

void ddr_version_hello(struct ddr_group *g, struct ddr_group_process *p, const struct ddr_node_hello *hello)
{
	if (hello->flags & DDR_NODE_FIRST)
		begin_round(g, p->id);	/* also of one that is excluded: not all may know that yet, and all are in the same round */
	if (!p->silence.out) {
		p->vote.lowest = hello->lowest;
		p->vote.highest = hello->highest;
		p->vote.lowest_format = hello->lowest_format;
		p->vote.highest_format = hello->highest_format;
		p->vote.version = hello->version;
		memcpy(p->vote.machine, hello->machine, sizeof(p->vote.machine));
		ddr_cluster_hello(g, &p->vote, hello);
		p->vote.said |= same_round(&hello->round, &g->use.round);
	}
	g->use.known |= same_process(p->id, g->self);
	g->use.judge_due = true;
}

/* The order does not matter: a sum. */
void ddr_version_turn(struct ddr_group *g, uint32_t node, uint32_t number)
{
	uint64_t what = ((uint64_t)node << 32 | number) * 0x9e3779b97f4a7c15u;

	g->use.turn += what ^ what >> 29;
	ddr_cluster_turn(g);
	g->use.judge_due = true;
	forget_ready(g);
}

void ddr_version_say(const struct ddr_group *g, struct ddr_node_hello *hello)
{
	hello->lowest = g->use.lowest;
	hello->highest = g->use.highest;
	hello->lowest_format = DDR_FORMAT_VERSION;
	hello->highest_format = DDR_FORMAT_HIGHEST;
	hello->version = g->use.version;
	hello->flags = g->use.known ? 0 : DDR_NODE_FIRST;
	hello->round = g->use.round;
	memcpy(hello->machine, g->use.machine, sizeof(hello->machine));
	ddr_cluster_say(g, hello);
}

/* ---- whom the group refuses --------------------------------------------------------- */

static bool disjoint(const struct ddr_group_vote *a, const struct ddr_group_vote *b)
{
	return a->lowest > b->highest || b->lowest > a->highest;
}

/* Does @a come before @b? */
static bool before(const struct ddr_group_process *a, const struct ddr_group_process *b)
{
	if ((a->n > 0) != (b->n > 0))
		return a->n > 0;
	return a->id.node != b->id.node ? a->id.node < b->id.node : a->id.pid < b->id.pid;
}

/* The one that comes next behind @last; NULL: there is none. */
static struct ddr_group_process *next_behind(struct ddr_group *g, const struct ddr_group_process *last)
{
	struct ddr_group_process *next = NULL;

	for (unsigned int i = 0; i < g->n; i++) {
		struct ddr_group_process *p = &g->process[i];

		if (p->vote.highest && (!last || before(last, p)) && (!next || before(p, next)))
			next = p;
	}
	return next;
}

/* One that fits, and with which @p has no version in common. Of ranges, any two of which overlap, all have a version in common. */
static const struct ddr_group_process *opponent(const struct ddr_group *g, const struct ddr_group_process *p)
{
	for (unsigned int i = 0; i < g->n; i++)
		if (g->process[i].vote.fits && disjoint(&g->process[i].vote, &p->vote))
			return &g->process[i];
	return NULL;
}

/*
 * Who takes part in something was there first: the others wait until they know its id, and do not begin then. If both do, they met with their
 * partitions, or one of them had begun when the other came.
 */
const struct ddr_group_process *ddr_version_twin(const struct ddr_group *g, const struct ddr_group_process *p)
{
	for (unsigned int i = 0; i < g->n; i++) {
		const struct ddr_group_process *q = &g->process[i];

		if (q->id.node == p->id.node || ddr_uuid_is_zero(p->vote.machine) || memcmp(q->vote.machine, p->vote.machine, sizeof(q->vote.machine)) != 0)
			continue;
		if (!p->n || (q->n && q->id.node < p->id.node))
			return q;
	}
	return NULL;
}

/* @used: the version so far; 0: there was none. Nobody raises it by being there. Does anybody fit? */
static bool judge(struct ddr_group *g, uint16_t used)
{
	struct ddr_group_process *p = NULL;
	bool any = false;

	for (unsigned int i = 0; i < g->n; i++) {
		g->process[i].vote.fits = false;
		g->process[i].vote.twin = ddr_version_twin(g, &g->process[i]) != NULL;
	}
	while ((p = next_behind(g, p))) {
		p->vote.fits = (!used || p->vote.lowest <= used) && !opponent(g, p) && !p->vote.twin;
		any |= p->vote.fits;
	}
	return any;
}

/* ---- the decision -------------------------------------------------------------------- */

static bool node_said(const struct ddr_group *g, uint32_t node)
{
	for (unsigned int i = 0; i < g->n; i++)
		if (g->process[i].id.node == node && g->process[i].vote.said)
			return true;
	return false;
}

const struct ddr_group_process *ddr_version_unsaid(const struct ddr_group *g)
{
	for (unsigned int i = 0; g->use.pending && i < g->n; i++)
		if (!g->process[i].silence.out && !node_said(g, g->process[i].id.node))
			return &g->process[i];
	return NULL;
}

/* If nobody is left who speaks the version so far, those who are there begin anew. */
static void set_version(struct ddr_group *g, uint16_t used)
{
	uint16_t least = 0, most = UINT16_MAX;

	if (!judge(g, used)) {
		used = 0;
		judge(g, 0);
	}
	for (unsigned int i = 0; i < g->n; i++) {
		const struct ddr_group_vote *v = &g->process[i].vote;

		if (!v->fits)
			continue;
		least = v->lowest > least ? v->lowest : least;
		most = v->highest < most ? v->highest : most;
	}
	if (!used)
		used = least;	/* somebody may be missed who speaks no other */
	g->use.version = used < most ? used : most;
	g->use.most = most;
	g->changed = true;
}

static uint16_t used_so_far(const struct ddr_group *g)
{
	uint16_t used = 0;

	for (unsigned int i = 0; i < g->n; i++) {
		const struct ddr_group_vote *v = &g->process[i].vote;

		if (v->said && v->version && (!used || v->version < used))
			used = v->version;
	}
	return used;
}

void ddr_version_decide(struct ddr_group *g)
{
	if (!g->n || !g->ring_known || g->held || (!g->use.pending && !g->use.judge_due) || ddr_version_unsaid(g))
		return;
	g->use.judge_due = false;
	if (g->use.pending) {
		g->use.turn = 0;
		forget_ready(g);
	}
	set_version(g, g->use.pending ? used_so_far(g) : g->use.version);
	g->use.pending = false;
}

/* ---- up ------------------------------------------------------------------------------- */

static const struct ddr_group_process *own(const struct ddr_group *g)
{
	for (unsigned int i = 0; i < g->n; i++)
		if (same_process(g->process[i].id, g->self))
			return &g->process[i];
	return NULL;
}

bool ddr_version_fits(const struct ddr_group *g)
{
	const struct ddr_group_process *self = own(g);

	return self && self->vote.fits;
}

bool ddr_version_may_rise(const struct ddr_group *g)
{
	const struct ddr_group_process *self = own(g);

	return self && self->vote.fits && !self->vote.ready && !g->use.pending && g->use.version < g->use.most;
}

void ddr_version_rise(struct ddr_group *g)
{
	g->use.ready_due = ddr_version_may_rise(g);
}

void ddr_version_ready(struct ddr_group *g, struct ddr_group_process *p, const struct ddr_node_ready *ready)
{
	if (g->use.pending || ready->turn != g->use.turn || !same_round(&ready->round, &g->use.round))
		return;
	p->vote.ready = true;
	for (unsigned int i = 0; i < g->n; i++)
		if (g->process[i].vote.fits && !g->process[i].vote.ready)
			return;
	set_version(g, g->use.most);
	ddr_version_turn(g, 0, g->use.version);
}

/* ---- what follows -------------------------------------------------------------------- */

uint16_t ddr_version_of(const struct ddr_group *g, const struct ddr_group_view *v)
{
	for (unsigned int i = 0; i < g->n; i++) {
		const struct ddr_group_vote *vote = &g->process[i].vote;

		for (uint32_t k = 0; k < v->n; k++)
			if (v->node[k] == g->process[i].id.node && g->process[i].n &&
			    (vote->lowest > g->use.version || vote->highest < g->use.version))
				return 0;
	}
	return g->use.version;
}

const struct ddr_group_process *ddr_version_foreign(const struct ddr_group *g)
{
	const struct ddr_group_process *self = own(g);

	return self && self->vote.highest && !self->vote.fits && !g->use.pending ? opponent(g, self) : NULL;
}

bool ddr_version_copied(const struct ddr_group *g)
{
	const struct ddr_group_process *self = own(g);

	return self && self->vote.twin;
}

const struct ddr_group_process *ddr_version_refused(const struct ddr_group *g)
{
	for (unsigned int i = 0; i < g->n && !g->use.pending; i++)
		if (g->process[i].vote.highest && !g->process[i].vote.fits)
			return &g->process[i];
	return NULL;
}
