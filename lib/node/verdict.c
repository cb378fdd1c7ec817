// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Silent processes, and verdicts on them. See verdict.h.
 */
#include <string.h>

#include "lib/node/verdict.h"

/* ---- who is silent ------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
	x ^= x >> 32;
	x *= 0x9e3779b97f4a7c15u;
	return x ^ x >> 29;
}

/*
 * From here on all count alike what each process sends. The name that they begin with is that of the processes of the group, so that a
 * verdict from before does not fit.
 */
void ddr_verdict_joined(struct ddr_group *g)
{
	uint64_t name = g->n;

	for (unsigned int i = 0; i < g->n; i++)
		name += mix((uint64_t)g->process[i].id.node << 32 | g->process[i].id.pid);
	for (unsigned int i = 0; i < g->n; i++) {
		g->process[i].silence.name = mix(name);
		g->process[i].silence.out_said = false;
		g->process[i].owes = (struct ddr_owes){ .turn_ms = g->process[i].owes.turn_ms };
	}
}

void ddr_verdict_heard(struct ddr_group_process *p, const uint8_t *msg, size_t len)
{
	uint64_t name = mix(p->silence.name + len);

	for (size_t i = 0; i < len; i++)
		name = (name ^ msg[i]) * 0x100000001b3u;
	p->silence.name = name;
	p->silence.pulses = 0;
	p->silence.turn_ms = 0;
}

void ddr_verdict_pulse_back(struct ddr_group *g)
{
	g->pulse_away = false;
	for (unsigned int i = 0; i < g->n; i++)
		if (g->process[i].id.node != g->self.node || g->process[i].id.pid != g->self.pid)
			g->process[i].silence.pulses++;
}

/* ---- what a verdict does -------------------------------------------------------- */

/* Has the node a process, other than @but, that has said hello since the last one joined, and was not excluded? */
static bool lives(const struct ddr_group *g, uint32_t node, const struct ddr_group_process *but)
{
	for (unsigned int i = 0; i < g->n; i++) {
		const struct ddr_group_process *p = &g->process[i];

		if (p->id.node == node && p != but && p->said && !p->silence.out_said)
			return true;
	}
	return false;
}

/* Its votes are subtracted from @left. False: the sender did not know how many it has. */
static bool subtract(const struct ddr_node_verdict *v, uint32_t node, uint32_t *left)
{
	for (uint32_t i = 0; i < v->n; i++) {
		if (v->node[i].node != node)
			continue;
		*left -= *left < v->node[i].votes ? *left : v->node[i].votes;
		return true;
	}
	return false;
}

static bool first_of_node(const struct ddr_group *g, unsigned int at)
{
	for (unsigned int i = 0; i < at; i++)
		if (g->process[i].id.node == g->process[at].id.node)
			return false;
	return true;
}

/* As far as all know it: who has joined since knows what a process takes part in only once it has said hello. */
static bool node_rides(const struct ddr_group *g, uint32_t node)
{
	for (unsigned int i = 0; i < g->n; i++)
		if (g->process[i].id.node == node && g->process[i].said && g->process[i].n)
			return true;
	return false;
}

bool ddr_verdict_spares(const struct ddr_group *g, const struct ddr_group_process *p, const struct ddr_node_verdict *v)
{
	return lives(g, p->id.node, p) || (v->flags & DDR_VERDICT_NO_SLOT && !node_rides(g, p->id.node));
}

bool ddr_verdict_may(const struct ddr_group *g, const struct ddr_group_process *p, const struct ddr_node_verdict *v)
{
	uint32_t left = v->total;

	if (ddr_verdict_spares(g, p, v))
		return true;
	for (unsigned int i = 0; i < g->n; i++)
		if (first_of_node(g, i) && !lives(g, g->process[i].id.node, p) && !subtract(v, g->process[i].id.node, &left))
			return false;
	return v->flags & DDR_VERDICT_TWO_NODE || (v->quorum && left >= v->quorum);
}

/* It is silent, or owes what it is accused of. Who owes something pulses: nothing follows from the last message that was heard. */
static bool deserved(const struct ddr_group *g, const struct ddr_group_process *out, const struct ddr_node_verdict *v)
{
	return v->flags & DDR_VERDICT_OWES ? ddr_owes_judge(g, out, &v->owed, NULL) == DDR_OWES_COUNTS : out->silence.name == v->name;
}

/*
 * A process that was excluded before may be excluded again: those who were in the group then know it, and those who have joined since need not. So only
 * what all know counts here.
 */
struct ddr_group_process *ddr_verdict_judge(struct ddr_group *g, const struct ddr_group_process *p, const struct ddr_node_verdict *v)
{
	struct ddr_group_process *out = NULL;

	if (!p->said || g->held || !g->ring_known || v->ring != g->ring)
		return NULL;
	for (unsigned int i = 0; i < g->n; i++)
		if (g->process[i].id.node == v->process.node && g->process[i].id.pid == v->process.pid)
			out = &g->process[i];
	if (!out || out == p || out->silence.out_said || !deserved(g, out, v) || !ddr_verdict_may(g, out, v))
		return NULL;
	out->silence.spared = ddr_verdict_spares(g, out, v);
	return out;
}

void ddr_verdict_exclude(struct ddr_group_process *p)
{
	p->silence.out = p->silence.out_said = true;
}

/* ---- sending one ---------------------------------------------------------------- */

/* Nodes that have their turn before this one: those with a lower id and a daemon, but for @but. */
static uint32_t before_us(const struct ddr_group *g, const struct ddr_group_process *but)
{
	uint32_t n = 0;

	for (unsigned int i = 0; i < g->n; i++)
		n += g->process[i].id.node < g->self.node && first_of_node(g, i) && lives(g, g->process[i].id.node, but);
	return n;
}

static uint32_t nodes(const struct ddr_group *g)
{
	uint32_t n = 0;

	for (unsigned int i = 0; i < g->n; i++)
		n += first_of_node(g, i);
	return n;
}

bool ddr_verdict_turn(const struct ddr_group *g, const struct ddr_group_process *p, uint64_t *turn_ms, uint64_t now_ms)
{
	if (!*turn_ms)
		*turn_ms = now_ms + (uint64_t)before_us(g, p) * DDR_TURN_MS;
	if (now_ms < *turn_ms)
		return false;
	*turn_ms = now_ms + (uint64_t)nodes(g) * DDR_TURN_MS;
	return true;
}

const struct ddr_group_process *ddr_verdict_due(struct ddr_group *g, uint64_t now_ms)
{
	for (unsigned int i = 0; i < g->n; i++) {
		struct ddr_group_process *p = &g->process[i];

		if (!p->silence.out && p->silence.pulses >= DDR_SILENT && ddr_verdict_turn(g, p, &p->silence.turn_ms, now_ms))
			return p;
	}
	return NULL;
}

bool ddr_verdict_near(const struct ddr_group *g)
{
	for (unsigned int i = 0; i < g->n; i++)
		if (!g->process[i].silence.out && g->process[i].silence.pulses >= DDR_SILENT - 2)
			return true;
	return false;
}

const struct ddr_group_process *ddr_verdict_silent(const struct ddr_group *g)
{
	for (unsigned int i = 0; i < g->n; i++)
		if (!g->process[i].silence.out && g->process[i].silence.pulses >= DDR_SILENT)
			return &g->process[i];
	return NULL;
}

void ddr_verdict_voters(const struct ddr_group *g, struct ddr_node_verdict *v)
{
	v->n = 0;
	for (unsigned int i = 0; i < g->n; i++)
		if (first_of_node(g, i))
			v->node[v->n++] = (struct ddr_node_votes){ .node = g->process[i].id.node };
}

void ddr_verdict_send(struct ddr_group *g, const struct ddr_group_process *p, const struct ddr_node_verdict *v)
{
	g->verdict = *v;
	g->verdict.ring = g->ring;
	g->verdict.name = p->silence.name;
	g->verdict.process = p->id;
	g->verdict_due = true;
}

bool ddr_verdict_node_out(const struct ddr_group *g, uint32_t node)
{
	bool out = false;

	for (unsigned int i = 0; i < g->n; i++) {
		if (g->process[i].id.node != node)
			continue;
		if (g->process[i].heard && !g->process[i].silence.out)
			return false;
		out |= g->process[i].silence.out && !g->process[i].silence.spared;
	}
	return out;
}
