// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The process group of all daemons, and the views of arrays in it. See group.h.
 *
 * Must never: tell a view from which a process is missing that the others know; or let this node take part in an array before it knows who
 * else does.
 */
#include <errno.h>
#include <string.h>

#include "lib/node/group.h"
#include "lib/node/verdict.h"
#include "lib/wire/msg.h"

void ddr_group_init(struct ddr_group *g, uint32_t node, uint32_t pid, uint16_t lowest, uint16_t highest)
{
	memset(g, 0, sizeof(*g));
	g->self = (struct ddr_group_id){ .node = node, .pid = pid };
	ddr_version_init(g, lowest, highest);
}

void ddr_group_machine(struct ddr_group *g, const uint8_t machine[16])
{
	memcpy(g->use.machine, machine, sizeof(g->use.machine));
}

static bool same(struct ddr_group_id a, struct ddr_group_id b)
{
	return a.node == b.node && a.pid == b.pid;
}

static struct ddr_group_process *find(struct ddr_group *g, struct ddr_group_id id)
{
	for (unsigned int i = 0; i < g->n; i++)
		if (same(g->process[i].id, id))
			return &g->process[i];
	return NULL;
}

/* ---- who takes part ----------------------------------------------------------- */

static int ride_at(const struct ddr_group_process *p, const uint8_t uuid[16])
{
	for (uint32_t i = 0; i < p->n; i++)
		if (memcmp(p->ride[i].uuid, uuid, sizeof(p->ride[i].uuid)) == 0)
			return (int)i;
	return -1;
}

/* A ride has ended: if there was a view with it, one without it follows, even if the same node takes part again by then. */
static void note_ended(struct ddr_group *g, uint32_t node, const struct ddr_ride *ride)
{
	for (unsigned int i = 0; i < DDR_NODE_RIDES; i++) {
		struct ddr_group_view *v = &g->array[i].view;

		if (!g->array[i].known || memcmp(g->array[i].ride.uuid, ride->uuid, sizeof(ride->uuid)) != 0)
			continue;
		for (uint32_t j = 0; j < v->n; j++)
			if (v->node[j] == node && v->number[j] == ride->number)
				v->number[j] = 0;
	}
}

static void end_ride(struct ddr_group *g, struct ddr_group_process *p, uint32_t at)
{
	note_ended(g, p->id.node, &p->ride[at]);
	p->ride[at] = p->ride[--p->n];
	g->use.judge_due = true;
	g->changed = true;
}

static void end_rides(struct ddr_group *g, struct ddr_group_process *p)
{
	while (p->n)
		end_ride(g, p, p->n - 1);
}

/* What the message says holds from here on; it may repeat what is known. */
static void begin_ride(struct ddr_group *g, struct ddr_group_process *p, const struct ddr_ride *ride)
{
	int at = ride_at(p, ride->uuid);

	if (at >= 0 && p->ride[at].number == ride->number)
		return;
	if (at >= 0)
		end_ride(g, p, (uint32_t)at);
	if (p->n < DDR_NODE_RIDES)
		p->ride[p->n++] = *ride;
	g->use.judge_due = true;
	g->changed = true;
}

static void tell_excluded(struct ddr_group_array *a, uint32_t node)
{
	for (uint32_t i = 0; i < a->n_out; i++)
		if (a->out[i] == node)
			return;
	if (a->n_out < DDR_GROUP_NODES)		/* an array has no more nodes than that */
		a->out[a->n_out++] = node;
}

uint32_t ddr_group_excluded(struct ddr_group *g, unsigned int array)
{
	struct ddr_group_array *a = &g->array[array];

	return a->n_out ? a->out[--a->n_out] : 0;
}

static void exclude(struct ddr_group *g, struct ddr_group_process *p)
{
	if (!p->silence.out)
		ddr_version_turn(g, p->id.node, p->id.pid);
	ddr_verdict_exclude(p);
	p->vote = (struct ddr_group_vote){ 0 };
	end_rides(g, p);
	g->changed = true;
}

static void list_rides_of(struct ddr_group *g, struct ddr_group_process *p, const struct ddr_node_hello *h)
{
	for (uint32_t i = p->n; i-- > 0;) {
		bool listed = false;

		for (uint32_t j = 0; j < h->n; j++)
			listed |= memcmp(&h->ride[j], &p->ride[i], sizeof(p->ride[i])) == 0;
		if (!listed)
			end_ride(g, p, i);
	}
	for (uint32_t j = 0; j < h->n; j++)
		begin_ride(g, p, &h->ride[j]);
}

static void hello(struct ddr_group *g, struct ddr_group_process *p, const struct ddr_node_hello *h)
{
	g->changed |= !p->heard || !p->said;
	p->heard = p->said = true;
	p->fences = h->flags & DDR_NODE_FENCES ? DDR_FENCES_YES : h->flags & DDR_NODE_FENCES_NOT ? DDR_FENCES_NO : DDR_FENCES_UNSAID;
	ddr_version_hello(g, p, h);
	/* also by one that is excluded itself: those who have joined since do not know that yet, and all must know the same */
	for (uint32_t i = 0; i < h->n_out; i++) {
		struct ddr_group_process *out = find(g, h->out[i]);

		if (out)
			exclude(g, out);
	}
	if (!p->silence.out)
		list_rides_of(g, p, h);
}

/* ---- the group ---------------------------------------------------------------- */

static bool node_said(const struct ddr_group *g, uint32_t node)
{
	for (unsigned int i = 0; i < g->n; i++)
		if (g->process[i].id.node == node && g->process[i].said && !g->process[i].silence.out)
			return true;
	return false;
}

/* A process that never said hello is no ddraidd, if another one of its node is. */
const struct ddr_group_process *ddr_group_unsaid(const struct ddr_group *g)
{
	for (unsigned int i = 0; i < g->n; i++) {
		const struct ddr_group_process *p = &g->process[i];

		if (!p->silence.out && !p->said && (p->heard || !node_said(g, p->id.node)))
			return p;
	}
	return ddr_version_unsaid(g);
}

const struct ddr_group_process *ddr_group_awaits(const struct ddr_group *g)
{
	return g->meets ? ddr_group_unsaid(g) : NULL;
}

static void meet(struct ddr_group *g)
{
	ddr_version_decide(g);
	ddr_cluster_ballot(g);
	if (g->n && !g->held && g->ring_known && !g->use.pending && !ddr_group_unsaid(g))
		g->meets = false;
}

static bool listed(const struct ddr_group_id *list, size_t n, struct ddr_group_id id)
{
	for (size_t i = 0; i < n; i++)
		if (same(list[i], id))
			return true;
	return false;
}

/* Those who left are dropped, also if one with the same pid is there again. */
static void drop_left(struct ddr_group *g, const struct ddr_group_id *now, size_t n, const struct ddr_group_id *left, size_t n_left)
{
	for (unsigned int i = g->n; i-- > 0;) {
		struct ddr_group_process *p = &g->process[i];

		if (listed(now, n, p->id) && !listed(left, n_left, p->id))
			continue;
		end_rides(g, p);
		ddr_version_turn(g, p->id.node, p->id.pid);
		*p = g->process[--g->n];
	}
}

bool ddr_group_members(struct ddr_group *g, const struct ddr_group_id *now, size_t n, const struct ddr_group_id *left, size_t n_left,
		       bool nodes, bool met)
{
	bool first = g->n == 0, joined = false;

	if (listed(left, n_left, g->self))
		return false;
	drop_left(g, now, n, left, n_left);
	for (size_t i = 0; i < n && g->n < DDR_GROUP_PROCESSES; i++) {
		if (find(g, now[i]))
			continue;
		g->process[g->n] = (struct ddr_group_process){ .id = now[i] };
		g->n++;
		joined = true;
	}
	for (unsigned int i = 0; joined && i < g->n; i++)
		g->process[i].said = false;
	if (joined)
		ddr_verdict_joined(g);
	g->hello_due |= joined;
	g->meets |= joined && (met || first);
	g->held |= nodes;
	g->changed = true;
	meet(g);
	return true;
}

void ddr_group_ring(struct ddr_group *g, uint64_t ring)
{
	g->ring = ring;
	g->ring_known = true;
	g->held = false;
	g->changed = true;
	ddr_version_ring(g);
	meet(g);
}

bool ddr_group_knows(const struct ddr_group *g, struct ddr_group_id id)
{
	for (unsigned int i = 0; i < g->n; i++)
		if (same(g->process[i].id, id))
			return g->process[i].heard;
	return false;
}

/* ---- messages ----------------------------------------------------------------- */

static void verdict(struct ddr_group *g, const struct ddr_group_process *p, const struct ddr_node_verdict *v)
{
	struct ddr_group_process *out = ddr_verdict_judge(g, p, v);

	if (!out)
		return;
	if (!out->silence.out) {
		out->silence.why = v->flags & DDR_VERDICT_OWES ? DDR_OUT_OWES : DDR_OUT_SILENT;
		out->silence.owed = v->owed;
	}
	exclude(g, out);
	for (unsigned int i = 0; i < DDR_NODE_RIDES && !out->silence.spared; i++)
		if (g->array[i].stage != DDR_GROUP_FREE)
			tell_excluded(&g->array[i], out->id.node);
}

static void ride(struct ddr_group *g, struct ddr_group_process *p, const struct ddr_node_msg *m)
{
	int at = ride_at(p, m->ride.uuid);

	if (m->type == DDR_N_RIDE) {
		begin_ride(g, p, &m->ride);
		ddr_version_turn(g, p->id.node, m->ride.number);	/* by its disks the array may miss a node */
	} else if (at >= 0 && p->ride[at].number == m->ride.number) {
		end_ride(g, p, (uint32_t)at);
	}
}

static void pulse(struct ddr_group *g, struct ddr_group_process *p, const struct ddr_node_pulse *pulse)
{
	g->debts_news |= p->debts.n || pulse->debts.n;
	ddr_owes_pulse(g, p, &pulse->debts);
	p->debts = pulse->debts;
	p->debts_heard = false;
	if (same(p->id, g->self))
		ddr_verdict_pulse_back(g);
}

static enum ddr_group_answer of_node(struct ddr_group *g, struct ddr_group_process *p, const uint8_t *msg, size_t len, const char **why)
{
	struct ddr_group_process *self = find(g, g->self);
	struct ddr_node_msg m;

	*why = ddr_node_msg_decode(msg, len, &m);
	if (!*why && m.sender != p->id.node)
		*why = "message in the name of another node";
	if (!*why && m.type != DDR_N_HELLO && !p->heard)
		*why = "a process that has not said hello";
	if (*why)
		return DDR_GROUP_DROPPED;
	if (p->silence.out && m.type != DDR_N_HELLO)
		return DDR_GROUP_TAKEN;
	if (m.type == DDR_N_HELLO)
		hello(g, p, &m.hello);
	else if (m.type == DDR_N_VERDICT)
		verdict(g, p, &m.verdict);
	else if (m.type == DDR_N_READY)
		ddr_version_ready(g, p, &m.ready);
	else if (m.type != DDR_N_PULSE)
		ride(g, p, &m);
	else
		pulse(g, p, &m.pulse);
	meet(g);
	return self && self->silence.out ? DDR_GROUP_EXCLUDED : DDR_GROUP_TAKEN;
}

/* Both are in the view that was told last, and the sender still takes part as it did then. */
static bool in_view(const struct ddr_group_array *a, const struct ddr_group_process *p, int at)
{
	for (uint32_t i = 0; a->told && i < a->view.n; i++)
		if (a->view.node[i] == p->id.node)
			return a->view.number[i] == p->ride[at].number;
	return false;
}

static enum ddr_group_answer of_array(struct ddr_group *g, struct ddr_group_process *p, const uint8_t *msg, size_t len, unsigned int *array,
				      const char **why)
{
	struct ddr_msg m;
	int at;

	*why = ddr_msg_decode(msg, len, &m);
	at = *why ? -1 : ride_at(p, m.uuid);
	if (p->silence.out)
		return DDR_GROUP_TAKEN;
	if (!*why && at < 0)
		*why = "message of an array in which the process takes no part";
	if (*why)
		return DDR_GROUP_DROPPED;
	ddr_owes_did(g, p->id.node, m.uuid, (uint16_t)m.type);
	for (unsigned int i = 0; i < DDR_NODE_RIDES; i++) {
		struct ddr_group_array *a = &g->array[i];

		if (a->stage != DDR_GROUP_RIDES || memcmp(a->ride.uuid, m.uuid, sizeof(m.uuid)) != 0 || !in_view(a, p, at))
			continue;
		*array = i;
		return DDR_GROUP_OF_ARRAY;
	}
	return DDR_GROUP_TAKEN;
}

enum ddr_group_answer ddr_group_deliver(struct ddr_group *g, struct ddr_group_id from, const uint8_t *msg, size_t len, unsigned int *array,
					const char **why)
{
	struct ddr_group_process *p = find(g, from);

	*why = NULL;
	if (p)		/* whatever it says: the others count it too */
		ddr_verdict_heard(p, msg, len);
	if (from.node == g->self.node && from.pid != g->self.pid)
		*why = "a process that is not ddraidd";
	else if (!p)
		*why = "a message from a process that has left";
	if (*why)
		return DDR_GROUP_DROPPED;
	return ddr_node_msg_is(msg, len) ? of_node(g, p, msg, len, why) : of_array(g, p, msg, len, array, why);
}

/* ---- what this node takes part in ------------------------------------------------ */

int ddr_group_ride(struct ddr_group *g, const uint8_t uuid[16])
{
	int place = -ENOSPC;

	for (int i = 0; i < (int)DDR_NODE_RIDES; i++) {
		struct ddr_group_array *a = &g->array[i];

		if (a->stage == DDR_GROUP_FREE)
			place = place < 0 ? i : place;
		else if (a->stage != DDR_GROUP_ENDS && memcmp(a->ride.uuid, uuid, sizeof(a->ride.uuid)) == 0)
			return -EEXIST;
	}
	if (place < 0)
		return place;
	g->array[place] = (struct ddr_group_array){ .stage = DDR_GROUP_HELD };
	memcpy(g->array[place].ride.uuid, uuid, sizeof(g->array[place].ride.uuid));
	/* another process of the node has another pid */
	g->array[place].ride.number = g->self.pid << 10 | (++g->rides & 1023);
	return place;
}

void ddr_group_begin(struct ddr_group *g, unsigned int array)
{
	if (g->array[array].stage == DDR_GROUP_HELD)
		g->array[array].stage = DDR_GROUP_WAITS;
}

void ddr_group_off(struct ddr_group *g, unsigned int array)
{
	struct ddr_group_array *a = &g->array[array];

	a->told = a->known = false;
	a->stage = a->stage == DDR_GROUP_RIDES ? DDR_GROUP_ENDS : DDR_GROUP_FREE;
}

/* What is to be sent next. An end before a begin: it may be of the same array. */
static int next_of(const struct ddr_group *g, enum ddr_group_stage stage)
{
	for (int i = 0; i < (int)DDR_NODE_RIDES; i++)
		if (g->array[i].stage == stage)
			return i;
	return -1;
}

/* The entry whose message is to be sent next; -1: none. */
static int next_array(const struct ddr_group *g)
{
	int at = next_of(g, DDR_GROUP_ENDS);

	if (at < 0 && g->n && !g->meets && ddr_version_fits(g))
		at = next_of(g, DDR_GROUP_WAITS);
	return at;
}

static size_t encode_hello(const struct ddr_group *g, struct ddr_node_msg *m, uint8_t *buf, size_t size)
{
	struct ddr_node_hello *h = &m->hello;

	ddr_version_say(g, h);
	h->flags |= g->fences == DDR_FENCES_YES ? DDR_NODE_FENCES : g->fences == DDR_FENCES_NO ? DDR_NODE_FENCES_NOT : 0;
	for (unsigned int i = 0; i < DDR_NODE_RIDES; i++)
		if (g->array[i].stage == DDR_GROUP_RIDES)
			h->ride[h->n++] = g->array[i].ride;
	for (unsigned int i = 0; i < g->n && h->n_out < DDR_NODE_OUTS; i++)
		if (g->process[i].silence.out)
			h->out[h->n_out++] = g->process[i].id;
	return ddr_node_msg_encode(m, buf, size);
}

void ddr_group_pulse(struct ddr_group *g)
{
	if (!g->pulse_away && ddr_group_knows(g, g->self))
		g->pulse_due = true;
}

/* HELLO first: nothing else of a process counts before it. Ends before begins, which may be of the same array. */
static enum ddr_node_msg_type next_type(const struct ddr_group *g, int at)
{
	if (g->hello_due)
		return DDR_N_HELLO;
	if (g->pulse_due)
		return DDR_N_PULSE;
	if (g->verdict_due)
		return DDR_N_VERDICT;
	if (at < 0)
		return g->use.ready_due ? DDR_N_READY : (enum ddr_node_msg_type)0;
	return g->array[at].stage == DDR_GROUP_ENDS ? DDR_N_OFF : DDR_N_RIDE;
}

size_t ddr_group_next(const struct ddr_group *g, uint8_t *buf, size_t size)
{
	int at = next_array(g);
	struct ddr_node_msg m = { .type = next_type(g, at), .sender = g->self.node };

	switch (m.type) {
	case DDR_N_HELLO:
		return encode_hello(g, &m, buf, size);
	case DDR_N_PULSE:
		m.pulse = (struct ddr_node_pulse){ .counter = g->pulse + 1, .debts = g->debts };
		break;
	case DDR_N_VERDICT:
		m.verdict = g->verdict;
		break;
	case DDR_N_RIDE:
	case DDR_N_OFF:
		m.ride = g->array[at].ride;
		break;
	case DDR_N_READY:
		m.ready = (struct ddr_node_ready){ .turn = g->use.turn, .round = g->use.round };
		break;
	default:
		return 0;
	}
	return ddr_node_msg_encode(&m, buf, size);
}

void ddr_group_sent(struct ddr_group *g)
{
	int at = next_array(g);

	switch (next_type(g, at)) {
	case DDR_N_HELLO:
		g->hello_due = false;
		break;
	case DDR_N_PULSE:
		g->pulse++;
		g->pulse_due = false;
		g->pulse_away = true;
		break;
	case DDR_N_VERDICT:
		g->verdict_due = false;
		break;
	case DDR_N_RIDE:
		g->array[at].stage = DDR_GROUP_RIDES;
		break;
	case DDR_N_OFF:
		g->array[at].stage = DDR_GROUP_FREE;
		break;
	case DDR_N_READY:
		g->use.ready_due = false;
		break;
	}
}

/* ---- views -------------------------------------------------------------------- */

/* Of two processes of a node the one with the lower pid counts, but for our own node this one. */
static bool counts(const struct ddr_group *g, const struct ddr_group_process *p, const uint8_t uuid[16])
{
	if (p->id.node == g->self.node)
		return p->id.pid == g->self.pid;
	for (unsigned int i = 0; i < g->n; i++)
		if (g->process[i].id.node == p->id.node && g->process[i].id.pid < p->id.pid && ride_at(&g->process[i], uuid) >= 0)
			return false;
	return true;
}

static void move_entry(struct ddr_group_view *v, uint32_t to, uint32_t from)
{
	v->node[to] = v->node[from];
	v->number[to] = v->number[from];
	v->fences[to] = v->fences[from];
}

/* False: they are too many. */
static bool gather(const struct ddr_group *g, const struct ddr_group_array *a, struct ddr_group_view *v)
{
	*v = (struct ddr_group_view){ .ring = g->ring };
	for (unsigned int i = 0; i < g->n; i++) {
		const struct ddr_group_process *p = &g->process[i];
		int ride = ride_at(p, a->ride.uuid);
		uint32_t at = v->n;

		if (ride < 0 || p->vote.twin || !counts(g, p, a->ride.uuid))
			continue;
		if (v->n == DDR_GROUP_NODES)
			return false;
		for (; at > 0 && v->node[at - 1] > p->id.node; at--)
			move_entry(v, at, at - 1);
		v->node[at] = p->id.node;
		v->number[at] = p->ride[ride].number;
		v->fences[at] = p->fences;
		v->n++;
	}
	return true;
}

static int node_at(const struct ddr_group_view *v, uint32_t node)
{
	for (uint32_t i = 0; i < v->n; i++)
		if (v->node[i] == node)
			return (int)i;
	return -1;
}

/* Takes the nodes out of @v whose ride was another one when the last view was told. */
static void drop_changed(const struct ddr_group_view *told, struct ddr_group_view *v)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->n; i++) {
		int was = node_at(told, v->node[i]);

		if (was >= 0 && told->number[was] != v->number[i])
			continue;
		move_entry(v, n++, i);
	}
	v->n = n;
}

/* Takes the nodes out of @v that were not in the last view as they are now. */
static void keep_known(const struct ddr_group_view *told, struct ddr_group_view *v)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < v->n; i++) {
		int was = node_at(told, v->node[i]);

		if (was < 0 || told->number[was] != v->number[i])
			continue;
		move_entry(v, n++, i);
	}
	v->n = n;
}

static bool equal(const struct ddr_group_view *a, const struct ddr_group_view *b)
{
	return a->n == b->n && a->ring == b->ring && a->version == b->version && memcmp(a->node, b->node, a->n * sizeof(a->node[0])) == 0 &&
	       memcmp(a->number, b->number, a->n * sizeof(a->number[0])) == 0;
}

static enum ddr_group_news crowd(struct ddr_group_array *a)
{
	bool said = a->crowded;

	a->crowded = true;
	return said ? DDR_GROUP_NO_NEWS : DDR_GROUP_CROWD;
}

static enum ddr_group_news next_view(struct ddr_group *g, struct ddr_group_array *a, struct ddr_group_view *v)
{
	struct ddr_group_view all;
	int self;

	if (a->stage != DDR_GROUP_RIDES || (g->meets && !a->known) || g->held || !g->ring_known)
		return DDR_GROUP_NO_NEWS;
	if (!gather(g, a, &all))
		return crowd(a);
	self = node_at(&all, g->self.node);
	if (self < 0 || all.number[self] != a->ride.number)
		return DDR_GROUP_NO_NEWS;	/* our RIDE has not been delivered yet */
	if (g->meets)
		keep_known(&a->view, &all);
	a->crowded = false;
	all.version = ddr_version_of(g, &all);
	if (a->known && equal(&all, &a->view))
		return DDR_GROUP_NO_NEWS;
	*v = all;
	if (a->known)
		drop_changed(&a->view, v);
	v->version = ddr_version_of(g, v);
	a->view = *v;
	a->known = true;
	return DDR_GROUP_NEW_VIEW;
}

/*
 * A view without a version is no first one: a node that is to be refused began at the same time, and this one, or the other, ends. But those who have
 * had a view are told it, and this node goes on from it as they do: when partitions meet all keep whom they had in it, and there is a version.
 */
enum ddr_group_news ddr_group_view(struct ddr_group *g, unsigned int array, struct ddr_group_view *v)
{
	struct ddr_group_array *a = &g->array[array];
	enum ddr_group_news news;

	do
		news = next_view(g, a, v);
	while (news == DDR_GROUP_NEW_VIEW && !a->told && !v->version);
	if (news != DDR_GROUP_NEW_VIEW)
		return news;
	for (unsigned int i = 0; i < g->n && !a->told; i++)
		if (ddr_verdict_node_out(g, g->process[i].id.node))
			tell_excluded(a, g->process[i].id.node);
	a->told = true;
	return news;
}
