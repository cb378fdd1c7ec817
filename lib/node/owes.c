// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Verdicts on processes that do not do what their nodes owe. See owes.h.
 */
#include <string.h>

#include "lib/node/verdict.h"

/* ---- what all know ---------------------------------------------------------------- */

/* Who has joined knows as much as the others once each process has said hello; and that all speak the version. */
static bool all_know(const struct ddr_group *g)
{
	for (unsigned int i = 0; i < g->n; i++)
		if (!g->process[i].said && !g->process[i].silence.out_said)
			return false;
	return !g->use.pending && g->use.version >= DDR_MSG_OWES;
}

static bool same_array(const uint8_t a[16], const uint8_t b[16])
{
	return memcmp(a, b, 16) == 0;
}

/* Do its words on this array count? Who has left it waits for nothing there; who was excluded takes part in nothing. */
static bool counts(const struct ddr_group_process *p, const uint8_t uuid[16])
{
	for (uint32_t i = 0; p->owes.told == 2 && i < p->n; i++)
		if (same_array(p->ride[i].uuid, uuid))
			return true;
	return false;
}

static bool same_debt(const struct ddr_node_debt *a, const struct ddr_node_debt *b)
{
	return a->node == b->node && a->kind == b->kind && same_array(a->uuid, b->uuid);
}

void ddr_owes_pulse(const struct ddr_group *g, struct ddr_group_process *p, const struct ddr_node_debts *says)
{
	uint16_t paid = 0;

	for (uint32_t i = 0; i < p->debts.n; i++)
		for (uint32_t j = 0; p->owes.fresh >> i & 1 && j < says->n; j++)
			if (same_debt(&p->debts.debt[i], &says->debt[j]))
				paid |= (uint16_t)(1u << j);
	p->owes.told = !all_know(g) ? 0 : p->owes.told ? 2 : 1;
	p->owes.paid = paid;
	p->owes.fresh = 0;
}

/* What a node does with such a message of an array: the debt of that kind, or a part of it. 0: none. */
static uint8_t pays(uint16_t type)
{
	switch ((enum ddr_msg_type)type) {
	case DDR_M_HELLO: return DDR_DEBT_HELLO;
	case DDR_M_STATE: return DDR_DEBT_STATE;
	case DDR_M_MEMBER_DONE: return DDR_DEBT_MEMBER_DONE;
	case DDR_M_MEMBER_ACK: return DDR_DEBT_MEMBER_ACK;
	case DDR_M_EX_ACK: return DDR_DEBT_EX_ACK;
	case DDR_M_EX_RELEASE: return DDR_DEBT_EX_RELEASE;
	case DDR_M_MAP_DONE: return DDR_DEBT_MAP_DONE;
	case DDR_M_RECOVER:
	case DDR_M_RECOVERED: return DDR_DEBT_RECOVERED;
	case DDR_M_FOLDED: return DDR_DEBT_FOLDED;
	case DDR_M_ROOM: return DDR_DEBT_ROOM;
	default: return 0;
	}
}

void ddr_owes_did(struct ddr_group *g, uint32_t node, const uint8_t uuid[16], uint16_t type)
{
	struct ddr_node_debt d = { .kind = pays(type), .node = node };

	if (!d.kind || !all_know(g))
		return;
	memcpy(d.uuid, uuid, sizeof(d.uuid));
	for (struct ddr_group_process *p = g->process; p < g->process + g->n; p++)
		for (uint32_t i = 0; p->owes.told && i < p->debts.n; i++)
			if (same_debt(&p->debts.debt[i], &d))
				p->owes.fresh |= (uint16_t)(1u << i);
}

/* ---- who waits for whom ------------------------------------------------------------ */

/* For how long nothing was done about it, by the words of @p; 0: it does not wait for it. */
static uint32_t waits(const struct ddr_group_process *p, uint32_t node, const struct ddr_node_owed *owed)
{
	for (uint32_t i = 0; p->id.node != node && counts(p, owed->uuid) && i < p->debts.n; i++) {
		const struct ddr_node_debt *d = &p->debts.debt[i];

		if (d->node == node && d->kind == owed->kind && same_array(d->uuid, owed->uuid) && !((p->owes.paid | p->owes.fresh) >> i & 1))
			return d->quiet_ms;
	}
	return 0;
}

/* Does it wait for its own kernel or disk in this array? Then it cannot tell whether the debtor waits for the same disk. */
static bool hangs(const struct ddr_group_process *p, const uint8_t uuid[16])
{
	for (uint32_t i = 0; i < p->debts.n; i++) {
		const struct ddr_node_debt *d = &p->debts.debt[i];

		if (d->node == p->id.node && same_array(d->uuid, uuid) && d->since_ms >= DDR_DEBT_OLD_MS &&
		    (d->why == DDR_WHY_KERNEL || d->why == DDR_WHY_DISK))
			return true;
	}
	return false;
}

const struct ddr_group_process *ddr_owes_debtor(const struct ddr_group *g, uint32_t node, const uint8_t uuid[16])
{
	for (unsigned int i = 0; i < g->n; i++)
		if (g->process[i].id.node == node && counts(&g->process[i], uuid))
			return &g->process[i];
	return NULL;
}

/* Nodes that have a process whose words count, each once. */
struct nodes { uint32_t n, node[DDR_GROUP_PROCESSES]; };

static void add(struct nodes *list, uint32_t node)
{
	for (uint32_t i = 0; i < list->n; i++)
		if (list->node[i] == node)
			return;
	list->node[list->n++] = node;
}

/*
 * @node, all that it waits for in the array, all that these wait for, and so on. Returns one of them of which nobody knows for whom it waits, such as a lost
 * node; 0: there is none.
 */
static uint32_t reach(const struct ddr_group *g, uint32_t node, const uint8_t uuid[16], struct nodes *list)
{
	*list = (struct nodes){ 1, { node } };
	for (uint32_t at = 0; at < list->n; at++) {
		const struct ddr_group_process *p = ddr_owes_debtor(g, list->node[at], uuid);

		for (uint32_t i = 0; p && i < p->debts.n; i++) {
			const struct ddr_node_debt *d = &p->debts.debt[i];

			if (d->since_ms < DDR_DEBT_OLD_MS || !same_array(d->uuid, uuid))
				continue;
			if (!ddr_owes_debtor(g, d->node, uuid))
				return d->node;
			add(list, d->node);
		}
	}
	return 0;
}

/* A node that @node waits for, and that comes before it; 0: none. Of those that wait for each other, and for nobody else, the highest comes first. */
static uint32_t waits_behind(const struct ddr_group *g, uint32_t node, const uint8_t uuid[16])
{
	struct nodes all, back;
	uint32_t unknown = reach(g, node, uuid, &all);

	for (uint32_t i = 1; !unknown && i < all.n; i++) {
		bool circle = false;

		reach(g, all.node[i], uuid, &back);
		for (uint32_t j = 0; j < back.n; j++)
			circle |= back.node[j] == node;
		if (!circle || all.node[i] > node)
			return all.node[i];
	}
	return unknown;
}

/* ---- the judgement ------------------------------------------------------------------ */

/* For how long nothing was done about it, by the words of those that may accuse. */
static uint32_t accused_for(const struct ddr_group *g, const struct ddr_group_process *p, const struct ddr_node_owed *owed)
{
	uint32_t longest = 0;

	for (unsigned int i = 0; i < g->n; i++) {
		uint32_t ms = waits(&g->process[i], p->id.node, owed);

		if (ms > longest && !hangs(&g->process[i], owed->uuid))
			longest = ms;
	}
	return longest;
}

/* Does it wait for another node in the array? */
static bool waits_itself(const struct ddr_group_process *p, const uint8_t uuid[16])
{
	for (uint32_t i = 0; i < p->debts.n; i++)
		if (p->debts.debt[i].node != p->id.node && p->debts.debt[i].since_ms >= DDR_DEBT_OLD_MS && same_array(p->debts.debt[i].uuid, uuid))
			return true;
	return false;
}

/* What the debtor itself says of the debt. Its clock counts if it does not stand still: in a circle, it does. */
static enum ddr_owes_answer own_words(const struct ddr_group_process *p, const struct ddr_node_owed *owed)
{
	for (uint32_t i = 0; i < p->debts.n; i++) {
		const struct ddr_node_debt *d = &p->debts.debt[i];

		if (d->node != p->id.node || d->kind != owed->kind || !same_array(d->uuid, owed->uuid))
			continue;
		if (d->why == DDR_WHY_DISK)
			return DDR_OWES_DISK;
		if (d->quiet_ms < owed->ms && !waits_itself(p, owed->uuid))
			return DDR_OWES_NOT_YET;
	}
	return DDR_OWES_COUNTS;
}

static bool anybody_waits(const struct ddr_group *g, uint32_t node, const struct ddr_node_owed *owed)
{
	for (unsigned int i = 0; i < g->n; i++) {
		uint32_t ms = waits(&g->process[i], node, owed);

		if (ms && ms >= owed->ms)
			return true;
	}
	return false;
}

enum ddr_owes_answer ddr_owes_judge(const struct ddr_group *g, const struct ddr_group_process *p, const struct ddr_node_owed *owed, uint32_t *behind)
{
	enum ddr_owes_answer own;
	uint32_t quiet, node;
	bool accused;

	if (owed->kind == DDR_DEBT_RETURN)
		return DDR_OWES_LOST;
	if (!all_know(g) || !counts(p, owed->uuid))
		return DDR_OWES_UNKNOWN;
	own = own_words(p, owed);
	if (own == DDR_OWES_DISK)
		return own;
	node = waits_behind(g, p->id.node, owed->uuid);
	if (behind)
		*behind = node;
	quiet = accused_for(g, p, owed);
	accused = quiet && quiet >= owed->ms;
	if (!accused && anybody_waits(g, p->id.node, owed))
		return DDR_OWES_ALL;	/* also in a circle: who is told that hears more than whom the debtor waits for */
	if (node)
		return DDR_OWES_BEHIND;
	return accused ? own : DDR_OWES_NOT_YET;
}

uint32_t ddr_owes_quiet(const struct ddr_group *g, const struct ddr_group_process *p, const struct ddr_node_owed *owed)
{
	uint32_t quiet = accused_for(g, p, owed);

	for (uint32_t i = 0; !waits_itself(p, owed->uuid) && i < p->debts.n; i++) {
		const struct ddr_node_debt *d = &p->debts.debt[i];

		if (d->node == p->id.node && d->kind == owed->kind && same_array(d->uuid, owed->uuid) && d->quiet_ms < quiet)
			quiet = d->quiet_ms;
	}
	return quiet;
}

/* ---- sending one ---------------------------------------------------------------------- */

/* What @p owes for which a verdict on it would hold, by the words of @by; false: nothing. */
static bool accused(const struct ddr_group *g, const struct ddr_group_process *p, const struct ddr_group_process *by, ddr_owes_limit *limit, void *ctx,
		    bool near, struct ddr_node_owed *owed)
{
	for (uint32_t i = 0; i < by->debts.n; i++) {
		const struct ddr_node_debt *d = &by->debts.debt[i];

		if (d->node != p->id.node)
			continue;
		owed->kind = d->kind;
		owed->ms = limit(ctx, d->uuid);
		memcpy(owed->uuid, d->uuid, sizeof(owed->uuid));
		if (near && owed->ms > DDR_DEBT_OLD_MS)
			owed->ms = DDR_DEBT_OLD_MS;
		if (owed->ms && ddr_owes_judge(g, p, owed, NULL) == DDR_OWES_COUNTS)
			return true;
	}
	return false;
}

/* This process sends no verdict on itself; but it says what will become of it, so what is @near may be its own debt. */
static bool anybody_accuses(const struct ddr_group *g, const struct ddr_group_process *p, ddr_owes_limit *limit, void *ctx, bool near,
			    struct ddr_node_owed *owed)
{
	bool self = !near && p->id.node == g->self.node && p->id.pid == g->self.pid;

	for (unsigned int i = 0; !self && !p->silence.out && i < g->n; i++)
		if (accused(g, p, &g->process[i], limit, ctx, near, owed))
			return true;
	return false;
}

const struct ddr_group_process *ddr_owes_due(struct ddr_group *g, uint64_t now_ms, ddr_owes_limit *limit, void *ctx, struct ddr_node_owed *owed)
{
	for (unsigned int i = 0; i < g->n; i++) {
		struct ddr_group_process *p = &g->process[i];

		if (!anybody_accuses(g, p, limit, ctx, false, owed))
			p->owes.turn_ms = 0;
		else if (ddr_verdict_turn(g, p, &p->owes.turn_ms, now_ms))
			return p;
	}
	return NULL;
}

bool ddr_owes_near(const struct ddr_group *g, ddr_owes_limit *limit, void *ctx)
{
	struct ddr_node_owed owed;

	for (unsigned int i = 0; i < g->n; i++)
		if (anybody_accuses(g, &g->process[i], limit, ctx, true, &owed))
			return true;
	return false;
}
