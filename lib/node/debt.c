// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Who waits for whom, as the pulses of all nodes say it. See debt.h.
 */
#include <string.h>

#include "lib/node/debt.h"

void ddr_debt_ours(struct ddr_group *g, const struct ddr_node_debts *debts)
{
	g->debts = *debts;
}

static bool same(const struct ddr_node_debt *a, const struct ddr_node_debt *b)
{
	return a->kind == b->kind && a->node == b->node && memcmp(a->uuid, b->uuid, sizeof(a->uuid)) == 0;
}

static uint32_t older(uint32_t ms, uint64_t by)
{
	return by > UINT32_MAX - ms ? UINT32_MAX : ms + (uint32_t)by;
}

/* What a process says counts from the moment at which it was heard; nothing knows the time of a delivery, so the first look after it counts as that. */
static uint64_t heard_before(struct ddr_group_process *p, uint64_t now_ms)
{
	if (!p->debts_heard) {
		p->debts_heard = true;
		p->debts_ms = now_ms;
	}
	return now_ms < p->debts_ms ? 0 : now_ms - p->debts_ms;
}

static void waits(struct ddr_debt *d, uint32_t node)
{
	for (uint32_t i = 0; i < d->n_waits && i < DDR_DEBT_WAITERS; i++)
		if (d->waits[i] == node)
			return;
	if (d->n_waits < DDR_DEBT_WAITERS)
		d->waits[d->n_waits] = node;
	d->n_waits++;
}

/* Node @by says @n, which it said @ago ms before. */
static uint32_t put(struct ddr_debt *list, uint32_t n_list, uint32_t by, const struct ddr_node_debt *n, uint64_t ago)
{
	struct ddr_debt *d = list;
	uint32_t since = older(n->since_ms, ago), quiet = older(n->quiet_ms, ago);

	while (d < list + n_list && !same(&d->is, n))
		d++;
	if (d == list + DDR_DEBT_LIST)
		return n_list;
	if (d == list + n_list) {
		*d = (struct ddr_debt){ .is = *n };
		d->is.why = DDR_WHY_UNKNOWN;
		d->is.since_ms = since;
		d->is.quiet_ms = quiet;
		n_list++;
	}
	if (since > d->is.since_ms)
		d->is.since_ms = since;
	/* who owes it stops its clock while it waits itself (lib/cluster/sm_debt.c), so it is asked only if nobody else knows of it */
	if (by != n->node && (!d->n_waits || quiet < d->is.quiet_ms))
		d->is.quiet_ms = quiet;
	if (by != n->node)
		waits(d, by);
	return n_list;
}

/*
 * Who else waits, and why it is owed, by the words of the debtor. These count before they are as old as what is shown, since the nodes do not hear of it at
 * the same moment; and the event for it is written once.
 */
static void complete(struct ddr_debt *d, uint32_t by, const struct ddr_node_debts *said, uint64_t ago)
{
	for (uint32_t i = 0; i < said->n; i++) {
		if (!same(&said->debt[i], &d->is))
			continue;
		if (by != d->is.node) {
			if (said->debt[i].since_ms < DDR_DEBT_SHOWN_MS)		/* else it counts already */
				waits(d, by);
			continue;
		}
		d->is.why = said->debt[i].why;
		d->own_ms = older(said->debt[i].quiet_ms, ago);
	}
}

/* The node that @d's debtor waits for, by its own words. */
static void look_behind(struct ddr_debt *d, uint32_t by, const struct ddr_node_debts *said)
{
	uint32_t longest = 0;

	for (uint32_t i = 0; by == d->is.node && i < said->n; i++) {
		const struct ddr_node_debt *n = &said->debt[i];

		if (n->node == by || n->since_ms < DDR_DEBT_SHOWN_MS || n->since_ms < longest || memcmp(n->uuid, d->is.uuid, sizeof(n->uuid)) != 0)
			continue;
		longest = n->since_ms;
		d->behind = n->node;
		d->behind_kind = n->kind;
	}
}

/* All nodes name them in the same order. */
static void sort_waits(struct ddr_debt *d)
{
	for (uint32_t i = 1; i < d->n_waits && i < DDR_DEBT_WAITERS; i++)
		for (uint32_t j = i; j > 0 && d->waits[j - 1] > d->waits[j]; j--) {
			uint32_t node = d->waits[j];

			d->waits[j] = d->waits[j - 1];
			d->waits[j - 1] = node;
		}
}

static bool is_self(const struct ddr_group *g, const struct ddr_group_process *p)
{
	return p->id.node == g->self.node && p->id.pid == g->self.pid;
}

static void sort(struct ddr_debt *list, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		for (uint32_t j = i; j > 0 && list[j - 1].is.since_ms < list[j].is.since_ms; j--) {
			struct ddr_debt d = list[j];

			list[j] = list[j - 1];
			list[j - 1] = d;
		}
}

/* Our own process is not asked: what it said last is older than what we know. */
uint32_t ddr_debt_list(struct ddr_group *g, uint64_t now_ms, struct ddr_debt *list)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->debts.n; i++)
		if (g->debts.debt[i].since_ms >= DDR_DEBT_SHOWN_MS)
			n = put(list, n, g->self.node, &g->debts.debt[i], 0);
	for (unsigned int i = 0; i < g->n; i++) {
		struct ddr_group_process *p = &g->process[i];
		uint64_t ago = heard_before(p, now_ms);

		for (uint32_t j = 0; !is_self(g, p) && !p->silence.out && j < p->debts.n; j++)
			if (p->debts.debt[j].since_ms >= DDR_DEBT_SHOWN_MS)
				n = put(list, n, p->id.node, &p->debts.debt[j], ago);
	}
	for (uint32_t i = 0; i < n; i++) {
		complete(&list[i], g->self.node, &g->debts, 0);
		look_behind(&list[i], g->self.node, &g->debts);
		for (unsigned int j = 0; j < g->n; j++) {
			struct ddr_group_process *p = &g->process[j];

			if (is_self(g, p) || p->silence.out)
				continue;
			complete(&list[i], p->id.node, &p->debts, heard_before(p, now_ms));
			look_behind(&list[i], p->id.node, &p->debts);
		}
		if (list[i].is.why == DDR_WHY_RESYNC && !list[i].behind)	/* nobody else sees its progress */
			list[i].is.quiet_ms = list[i].own_ms;
		sort_waits(&list[i]);
	}
	sort(list, n);
	return n;
}
