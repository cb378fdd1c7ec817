// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Debts: what this node waits for, and another node owes it. A pulse of the daemon names them (lib/node/debt.h), so that every node knows who
 * waits for whom. What this node owes itself is among them, since only it can say why it has not done that yet.
 *
 * This only looks: after each step it compares what is owed now with what was owed after the last one. So a debt has the time of the step in which it
 * arose, and no other file has to remember to note it. A debt is known by its kind and its debtor. Where the same node owes several things of a
 * kind, the oldest counts; when that one is done, the debtor has done something, and the age is that of the next one.
 *
 * A lost node owes one thing only: to come back, or to be fenced. Whatever else waits for it waits for that.
 *
 * Must never: influence any decision; take what this node alone waits for (its own kernel, a member without space) for a debt of another node.
 */
#include "sm_int.h"
#include "lib/wire/node_msg.h"

/* The bits that are owed now, by kind. */
struct look { uint64_t open[DDR_DEBT_KINDS]; };

/* @thing: a name of what is owed; @step: changes with each part of it that is done. @since: when it began to be owed. */
struct owed { enum ddr_debt_kind kind; uint32_t at, node; uint64_t thing, step, since; };

static void owe(struct ddr_sm *sm, struct look *k, const struct owed *o)
{
	struct ddr_sm_debt *d = &sm->own.debt[o->kind][o->at];

	k->open[o->kind] |= 1ull << o->at;
	if (!(sm->own.debts[o->kind] >> o->at & 1) || d->node != o->node) {
		/* it may have been owed before, and nobody could do it meanwhile: the nodes agreed on a view, or had no quorum */
		*d = (struct ddr_sm_debt){ .node = o->node, .thing = o->thing, .step = o->step, .since = o->since, .moved = sm->now };
	} else if (d->thing != o->thing) {
		d->thing = o->thing;
		d->step = o->step;
		d->since = o->since;
		d->moved = sm->now;
	} else if (d->step != o->step) {
		d->step = o->step;
		d->moved = sm->now;
	}
}

/* The nodes of @who (bit: place in the table of nodes) owe this; but not those that are lost. */
static void owe_each(struct ddr_sm *sm, struct look *k, uint64_t who, struct owed o)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++) {
		const struct ddr_sm_node *n = &sm->shared.nodes[i];

		if (!(who >> i & 1) || !n->id || n->lost)
			continue;
		o.at = i;
		o.node = n->id;
		owe(sm, k, &o);
	}
}

static uint64_t place_of(const struct ddr_sm *sm, uint32_t node)
{
	int at = ddr_sm_node_at(sm, node);

	return at < 0 ? 0 : 1ull << at;
}

static uint64_t active_nodes(const struct ddr_sm *sm)
{
	uint64_t mask = 0;

	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		mask |= ddr_sm_node_active(&sm->shared.nodes[i]) ? 1ull << i : 0;
	return mask;
}

/* ---- views ------------------------------------------------------------------ */

static void hellos(struct ddr_sm *sm, struct look *k)
{
	const struct ddr_sm_cluster *c = &sm->own.c;

	for (uint32_t i = 0; i < c->n_view; i++)
		if (!c->view[i].hello)
			owe(sm, k, &(struct owed){ DDR_DEBT_HELLO, i, c->view[i].id, c->view_name, 0, sm->now });
}

static void state(struct ddr_sm *sm, struct look *k)
{
	const struct ddr_sm_cluster *c = &sm->own.c;

	for (uint32_t i = 0; i < c->n_view; i++)
		if (c->view[i].id == c->provider)
			owe(sm, k, &(struct owed){ DDR_DEBT_STATE, i, c->provider, c->epoch, c->delivered, sm->now });
}

static void lost(struct ddr_sm *sm, struct look *k)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++) {
		const struct ddr_sm_node *n = &sm->shared.nodes[i];

		if (n->id && n->lost)
			owe(sm, k, &(struct owed){ DDR_DEBT_RETURN, i, n->id, n->failure, n->attempt, sm->now });
	}
}

/* ---- members, map ----------------------------------------------------------- */

/* While a node is lost, nobody recovers a slot, rebuilds a member or grows the array: that waits for the lost node. */
static void members(struct ddr_sm *sm, struct look *k)
{
	const struct ddr_sm_shared *s = &sm->shared;

	if (s->change.ack)
		owe_each(sm, k, ddr_shared_voters(s) & ~s->change.acked, (struct owed){ .kind = DDR_DEBT_MEMBER_ACK, .thing = s->sb.seq, .since = sm->now });
	else if (!ddr_sm_members_settled(sm))
		owe_each(sm, k, place_of(sm, ddr_sm_writer(sm)), (struct owed){ .kind = DDR_DEBT_MEMBER_DONE, .thing = s->sb.seq, .since = sm->now });
}

static void slots(struct ddr_sm *sm, struct look *k)
{
	uint64_t lowest = active_nodes(sm);

	lowest &= -lowest;
	for (uint32_t i = 0; i < sm->shared.sb.slots; i++)
		if (sm->shared.rec >> i & 1) {
			uint32_t by = sm->shared.rec_by[i];

			owe_each(sm, k, by ? place_of(sm, by) : lowest, (struct owed){ .kind = DDR_DEBT_RECOVERED, .thing = i, .step = by, .since = sm->now });
			return;		/* one after the other */
		}
}

/*
 * The writer waits for all. Each other node that has not folded says so as well, since it alone knows why: while a disk is replaced it resyncs first, for as
 * long as that takes, and each range of that is progress.
 */
static void folds(struct ddr_sm *sm, struct look *k)
{
	uint64_t who = 0, self = place_of(sm, sm->node);
	uint32_t m = ddr_sm_rebuilding(sm);
	struct owed o = { .kind = DDR_DEBT_FOLDED, .since = sm->now };

	if (m == DDR_NO_MEMBER)
		return;
	o.thing = sm->shared.sb.member[m].since;
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		who |= sm->shared.nodes[i].folded ? 0 : 1ull << i;
	who &= active_nodes(sm);
	if (ddr_sm_writer(sm) == sm->node)
		owe_each(sm, k, who & ~self, o);
	o.step = sm->own.n_resync << 40 ^ sm->own.resync_done;
	owe_each(sm, k, who & self, o);
}

static void rooms(struct ddr_sm *sm, struct look *k)
{
	uint64_t who = 0;

	if (!sm->shared.grow.by)
		return;
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		who |= sm->shared.nodes[i].roomed ? 0 : 1ull << i;
	owe_each(sm, k, who & active_nodes(sm), (struct owed){ .kind = DDR_DEBT_ROOM, .thing = sm->shared.grow.by, .step = sm->shared.grow.want, .since = sm->now });
}

/* The writer owes each block that is not durable as it is in memory, whoever waits for it. */
static void map(struct ddr_sm *sm, struct look *k)
{
	struct owed o = { .kind = DDR_DEBT_MAP_DONE, .thing = sm->own.mq.id, .since = sm->now };
	bool owed = sm->own.mq.state == DDR_MQ_WAIT;

	for (uint32_t i = 0; !owed && ddr_sm_writer(sm) == sm->node && i < sm->shared.n_map; i++)
		if (sm->shared.version[i].mem > sm->shared.version[i].dur) {
			o.thing = (uint64_t)i << 32 ^ sm->shared.version[i].dur ^ 1ull << 63;
			owed = true;
		}
	if (owed)
		owe_each(sm, k, place_of(sm, ddr_sm_writer(sm)), o);
}

/* ---- ranges ----------------------------------------------------------------- */

/* Since when this node has seen the range as it is: not acknowledged by all, or in work. */
static uint64_t since(struct ddr_sm *sm, const struct ddr_sm_ex *x)
{
	struct ddr_sm_drain *d = ddr_sm_drain(sm, x);

	uint8_t now = ddr_sm_ex_acked(sm, x) ? 2 : 1;

	if (d->seen != now) {
		d->seen = now;
		d->since = sm->now;
	}
	return d->since;
}

/*
 * Of each node the oldest range counts. Acknowledgements are missed by the owner of the range, and by this node, if it is the one that has not
 * acknowledged.
 */
static void ranges(struct ddr_sm *sm, struct look *k)
{
	const struct ddr_sm_ex *oldest[2][DDR_SM_MAX_NODES] = { { NULL } };
	uint64_t self = place_of(sm, sm->node);

	for (const struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++) {
		uint64_t at = x->used ? since(sm, x) : 0, who;
		bool acked = x->used && ddr_sm_ex_acked(sm, x);

		if (!x->used)
			continue;
		who = acked ? place_of(sm, x->node) : ddr_sm_voters(sm) & ~x->acked & (x->node == sm->node ? ~0ull : self);
		for (; who; who &= who - 1) {
			const struct ddr_sm_ex **o = &oldest[acked][__builtin_ctzll(who)];

			if (!*o || ddr_sm_drain(sm, *o)->since > at)
				*o = x;
		}
	}
	for (uint32_t i = 0; i < 2 * DDR_SM_MAX_NODES; i++) {
		const struct ddr_sm_ex *x = oldest[i / DDR_SM_MAX_NODES][i % DDR_SM_MAX_NODES];

		if (x)
			owe_each(sm, k, 1ull << i % DDR_SM_MAX_NODES, (struct owed){ .kind = i < DDR_SM_MAX_NODES ? DDR_DEBT_EX_ACK : DDR_DEBT_EX_RELEASE,
				 .thing = (uint64_t)x->node << 32 | x->id, .since = ddr_sm_drain(sm, x)->since });
	}
}

/* ---- why ---------------------------------------------------------------------- */

static enum ddr_debt_why kernel_why(const struct ddr_sm *sm, bool done)
{
	return sm->kernel.state != DDR_K_ATTACHED ? DDR_WHY_ABSENT : done ? DDR_WHY_UNKNOWN : DDR_WHY_KERNEL;
}

static bool all_drained(const struct ddr_sm *sm)
{
	for (const struct ddr_sm_ex *x = sm->shared.ex; x < sm->shared.ex + DDR_SM_EX; x++)
		if (x->used && ddr_sm_drain(sm, x)->drain_sent && !ddr_sm_drain(sm, x)->drained)
			return false;
	return true;
}

static bool map_flies(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->shared.n_map; i++)
		if (sm->own.mapb[i].state == DDR_W_FLYING)
			return true;
	return false;
}

static bool job_runs(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < DDR_SM_RANGES; i++)
		if (sm->own.range[i].state == DDR_R_JOB)
			return true;
	return false;
}

static bool log_renews(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->own.n_log; i++)
		if (sm->own.log[i].fly_renew)
			return true;
	return false;
}

static enum ddr_debt_why fold_why(const struct ddr_sm *sm)
{
	if (!ddr_sm_applied(sm))
		return kernel_why(sm, false);
	if (sm->own.n_resync && ddr_sm_replacing(sm) != DDR_NO_MEMBER)
		return DDR_WHY_RESYNC;
	return log_renews(sm) ? DDR_WHY_DISK : DDR_WHY_UNKNOWN;
}

/* What this node waits for, that owes this. */
static enum ddr_debt_why why(const struct ddr_sm *sm, enum ddr_debt_kind kind)
{
	const struct ddr_sm_cluster *c = &sm->own.c;
	bool disk = false;

	switch (kind) {
	case DDR_DEBT_MEMBER_ACK:
		return kernel_why(sm, ddr_sm_applied(sm));
	case DDR_DEBT_FOLDED:
		return fold_why(sm);
	case DDR_DEBT_EX_ACK:
		return kernel_why(sm, all_drained(sm));
	case DDR_DEBT_STATE:
		disk = c->reload_io != 0;
		break;
	case DDR_DEBT_MEMBER_DONE:
		disk = sm->own.t.io || sm->own.g.prep_io || c->reload_io;
		break;
	case DDR_DEBT_EX_RELEASE:
		disk = job_runs(sm);
		break;
	case DDR_DEBT_MAP_DONE:
		disk = map_flies(sm);
		break;
	case DDR_DEBT_RECOVERED:
		disk = c->rc_io != 0;
		break;
	case DDR_DEBT_ROOM:
		disk = sm->own.g.room_io != 0;
		break;
	case DDR_DEBT_HELLO:
	case DDR_DEBT_RETURN:
		break;
	}
	return disk ? DDR_WHY_DISK : DDR_WHY_UNKNOWN;
}

/* ---- the look --------------------------------------------------------------- */

/* Does this node wait for another one for so long that its own clock stands still? */
static bool waits_long(const struct ddr_sm *sm, uint64_t now)
{
	for (uint32_t kind = 0; kind < DDR_DEBT_KINDS; kind++)
		for (uint64_t open = sm->own.debts[kind]; open; open &= open - 1) {
			const struct ddr_sm_debt *d = &sm->own.debt[kind][__builtin_ctzll(open)];

			if (d->node != sm->node && now >= d->since + DDR_DEBT_OLD_MS)
				return true;
		}
	return false;
}

/* Its jobs wait for disks, or for somebody to let them go on: that is not this node's fault. */
static bool resync_stands(const struct ddr_sm *sm)
{
	return job_runs(sm) || sm->own.paused || sm->own.stopping || ddr_sm_space_waits(sm, DDR_SPACE_JOB);
}

static bool stands_still(const struct ddr_sm *sm, enum ddr_debt_kind kind)
{
	enum ddr_debt_why is = why(sm, kind);

	return is == DDR_WHY_DISK || (is == DDR_WHY_RESYNC && resync_stands(sm));
}

/*
 * This node's clock stands still while it waits for a disk, which fails after its time limit, or for another node: that one is at the end of the chain. It is
 * not declared lost for what it did not do meanwhile (lib/node/owes.h). It goes on from zero. @waited: it does not wait for another one any more.
 */
static void go_on(struct ddr_sm *sm, bool waited)
{
	for (uint32_t kind = 0; kind < DDR_DEBT_KINDS; kind++)
		for (uint64_t open = sm->own.debts[kind]; open; open &= open - 1) {
			struct ddr_sm_debt *d = &sm->own.debt[kind][__builtin_ctzll(open)];
			bool still = d->node == sm->node && stands_still(sm, (enum ddr_debt_kind)kind);

			if (d->node == sm->node && (waited || (d->still && !still)))
				d->moved = sm->now;
			d->still = still;
		}
}

void ddr_sm_debts_look(struct ddr_sm *sm)
{
	bool waited = waits_long(sm, sm->now);
	struct look k = { { 0 } };

	if (!sm->own.quorate || sm->own.c.left_told) {
		memset(sm->own.debts, 0, sizeof(sm->own.debts));	/* what waits, waits for quorum */
		return;
	}
	if (sm->own.c.phase == DDR_V_HELLO) {
		hellos(sm, &k);
	} else if (sm->own.c.phase == DDR_V_AGREED && sm->own.c.transfer) {
		state(sm, &k);
	} else if (sm->own.c.phase == DDR_V_AGREED && sm->own.c.synced) {
		lost(sm, &k);
		members(sm, &k);
		map(sm, &k);
		ranges(sm, &k);
		if (!k.open[DDR_DEBT_RETURN]) {
			slots(sm, &k);
			rooms(sm, &k);
		}
		if (!k.open[DDR_DEBT_RETURN] && !k.open[DDR_DEBT_RECOVERED] && !ddr_sm_left_dirty(sm))
			folds(sm, &k);
	}
	memcpy(sm->own.debts, k.open, sizeof(sm->own.debts));
	go_on(sm, waited && !waits_long(sm, sm->now));
}

/* ---- questions -------------------------------------------------------------- */

static uint32_t age(uint64_t now, uint64_t at)
{
	return now < at ? 0 : now - at > UINT32_MAX ? UINT32_MAX : (uint32_t)(now - at);
}

/* The oldest come first; of equals the first that is given. */
static void insert(struct ddr_node_debts *list, const struct ddr_node_debt *d)
{
	uint32_t at = list->n;

	list->total++;
	while (at > 0 && list->debt[at - 1].since_ms < d->since_ms)
		at--;
	if (at == DDR_NODE_DEBTS)
		return;
	list->n += list->n < DDR_NODE_DEBTS;
	memmove(&list->debt[at + 1], &list->debt[at], (list->n - at - 1) * sizeof(*d));
	list->debt[at] = *d;
}

void ddr_sm_debts(const struct ddr_sm *sm, uint64_t now_ms, struct ddr_node_debts *list)
{
	bool waits = waits_long(sm, now_ms);

	for (uint32_t i = 0; i < DDR_DEBT_KINDS * DDR_SM_MAX_NODES; i++) {
		enum ddr_debt_kind kind = (enum ddr_debt_kind)(i / DDR_SM_MAX_NODES);
		const struct ddr_sm_debt *d = &sm->own.debt[kind][i % DDR_SM_MAX_NODES];
		struct ddr_node_debt n = { .kind = (uint8_t)kind, .node = d->node };

		if (sm->own.gave_up || !(sm->own.debts[kind] >> (i % DDR_SM_MAX_NODES) & 1))
			continue;
		memcpy(n.uuid, sm->shared.sb.array_uuid, sizeof(n.uuid));
		n.why = (uint8_t)(d->node == sm->node ? why(sm, kind) : DDR_WHY_UNKNOWN);
		n.since_ms = age(now_ms, d->since);
		n.quiet_ms = d->node == sm->node && (d->still || waits) ? 0 : age(now_ms, d->moved);
		insert(list, &n);
	}
}
