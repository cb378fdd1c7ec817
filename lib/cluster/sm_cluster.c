// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Views: quorum, HELLO, agreement, and START.
 *
 * After each change of the view every node sends HELLO, once the quorum service has the ring of the view and reports quorum. The
 * delivery of the last HELLO is the moment of agreement on all nodes: a new epoch begins. Until then no node changes the shared
 * state, and messages of the last epoch that arrive later are refused by all nodes. From then on it is known which nodes have the
 * group's state; it is sent to the others (sm_join.c), and until that is complete no node changes it.
 *
 * If nodes with different states meet, they were separated: the newest epoch is used, and the nodes with other states count as lost
 * until they are fenced (note 17 iv).
 *
 * Must never: agree without quorum, or with a ring that the quorum service does not have (rule 6); continue with a state if the group
 * continued without this node.
 */
#include "sm_int.h"

#define MEET_MS	3000u	/* time after the return of quorum until the nodes that have met agree without the rest */

/* ---- quorum ----------------------------------------------------------------- */

static void view_event(struct ddr_sm *sm)
{
	struct ddr_output *out = ddr_sm_event(sm, DDR_EV_VIEW, NULL);

	out->a = sm->own.c.n_view;
	out->b = sm->own.quorate;
}

static void quorum_update(struct ddr_sm *sm)
{
	sm->own.quorate = sm->own.viewed && sm->own.c.q_quorate && sm->own.c.q_ring == sm->own.ring;
	sm->again = true;
}

void ddr_sm_quorum(struct ddr_sm *sm, const struct ddr_input *in)
{
	bool was = sm->own.quorate;

	if (in->n_nodes > DDR_SM_MAX_QUORUM) {
		ddr_sm_bug(sm, "quorum was reported for too many nodes");
		return;
	}
	if (!in->quorate && sm->own.c.synced)
		sm->own.c.apart = true;
	else if (in->quorate && !sm->own.c.q_quorate)
		sm->own.c.meet_until = sm->now + MEET_MS;
	sm->own.c.q_quorate = in->quorate;
	sm->own.c.q_ring = in->ring;
	sm->own.c.q_n = in->n_nodes;
	memcpy(sm->own.c.q_nodes, in->nodes, in->n_nodes * sizeof(in->nodes[0]));
	quorum_update(sm);
	if (sm->own.viewed && was != sm->own.quorate)
		view_event(sm);
}

/* ---- views ------------------------------------------------------------------ */

/* Sorts by id, so that places are assigned in the same order on all nodes. */
static void view_sort(struct ddr_sm *sm, const struct ddr_input *in)
{
	struct ddr_sm_cluster *c = &sm->own.c;
	uint64_t before = c->view_name;

	c->n_view = in->n_nodes;
	for (uint32_t i = 0; i < in->n_nodes; i++) {
		uint32_t j = i;

		for (; j > 0 && c->view[j - 1].id > in->nodes[i]; j--)
			c->view[j] = c->view[j - 1];
		memset(&c->view[j], 0, sizeof(c->view[j]));
		c->view[j].id = in->nodes[i];
		c->view[j].pid = in->pids[i];
		c->view[j].fences = in->fences[i];
	}
	c->view_name = ddr_sm_mix(in->ring);
	if (sm->own.version != DDR_MSG_UNNAMED)	/* the same nodes agree anew when their version changes */
		c->view_name = ddr_sm_mix(c->view_name ^ sm->own.version);
	for (uint32_t i = 0; i < c->n_view; i++)
		c->view_name = ddr_sm_mix(c->view_name ^ ((uint64_t)c->view[i].id << 32 | c->view[i].pid));
	if (c->view_name != before)
		c->void_epoch = 0;
}

static void here_update(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		ddr_shared_here(s, &s->nodes[i], s->nodes[i].id && ddr_sm_viewer(sm, s->nodes[i].id));
}

static bool view_valid(const struct ddr_sm *sm, const struct ddr_input *in)
{
	bool self = false;

	if (in->n_nodes == 0 || in->n_nodes > DDR_SM_MAX_NODES)
		return false;
	for (uint32_t i = 0; i < in->n_nodes; i++) {
		if (in->nodes[i] == 0)
			return false;
		for (uint32_t j = 0; j < i; j++)
			if (in->nodes[i] == in->nodes[j])
				return false;
		self |= in->nodes[i] == sm->node;
	}
	return self;
}

/* Without a cluster nobody is asked: the view reports quorum, and this node agrees with itself on the state that it has read, and writes. */
static void agreed_alone(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_input *in)
{
	sm->own.c.q_quorate = in->quorate;
	sm->own.c.q_ring = in->ring;
	sm->own.c.phase = DDR_V_AGREED;
	ddr_sm_place(sm, s, sm->node);
	s->writer = sm->node;
}

void ddr_sm_view(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_input *in)
{
	bool ring_changed = !sm->own.viewed || in->ring != sm->own.ring;

	if (!view_valid(sm, in)) {
		sm->own.quorate = false;
		ddr_sm_bug(sm, "a view lacks this node, lists a node twice, or has too many nodes");
		return;
	}
	sm->own.viewed = true;
	sm->own.ring = in->ring;
	sm->own.version = in->version ? in->version : DDR_MSG_VERSION;
	view_sort(sm, in);
	sm->own.c.phase = DDR_V_HELLO;
	sm->own.c.hello_sent = sm->own.c.transfer = false;
	sm->own.c.n_outs = 0;
	if (!s->cluster)
		agreed_alone(sm, s, in);
	quorum_update(sm);
	ddr_sm_join_view(sm);
	if (ring_changed)
		s->ring_history = s->history;
	here_update(sm, s);
	if (sm->own.c.phase == DDR_V_AGREED && ring_changed)
		ddr_sm_resend(sm);
	view_event(sm);
}

/* ---- hellos and agreement --------------------------------------------------- */

static bool somebody_absent(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (sm->shared.nodes[i].started && !sm->shared.nodes[i].leaving && !sm->shared.nodes[i].lost && !(sm->shared.here >> i & 1))
			return true;
	return false;
}

/*
 * No node had quorum, and some nodes have met again. Nodes that have not returned yet would be fenced as soon as these agree, and a
 * healed network brings its nodes back one after the other. So wait a moment. A node that had quorum all the time does not wait.
 */
static bool others_may_come(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->own.c.n_view; i++)
		if (sm->own.c.view[i].hello)
			return false;
	return sm->own.c.apart && somebody_absent(sm) && !ddr_sm_time(sm, sm->own.c.meet_until);
}

/* As far as we know, no other node agreed on our epoch; and the agreement lost no node of this view, so none of them can have been fenced. */
static bool alone(const struct ddr_sm *sm)
{
	if (!sm->own.c.synced || sm->shared.unproven || sm->own.c.shared >= sm->own.c.epoch)
		return false;
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (sm->shared.nodes[i].lost && ddr_sm_viewer(sm, sm->shared.nodes[i].id))
			return false;
	return true;
}

static void hello_send(struct ddr_sm *sm)
{
	struct ddr_msg msg = { .type = DDR_M_HELLO };

	if (sm->own.c.phase != DDR_V_HELLO || sm->own.c.hello_sent || !sm->own.quorate || others_may_come(sm) || !ddr_sm_room(sm, 1))
		return;
	msg.hello.view = sm->own.c.view_name;
	msg.hello.history = sm->shared.ring_history;
	msg.hello.flags = sm->own.c.synced ? DDR_HELLO_SYNCED : 0;
	msg.hello.flags |= sm->own.c.synced && sm->shared.unproven ? DDR_HELLO_UNPROVEN : 0;
	msg.hello.flags |= ddr_sm_takes_part(sm) ? DDR_HELLO_ACTIVE : 0;
	msg.hello.flags |= alone(sm) ? DDR_HELLO_ALONE : 0;
	msg.hello.flags |= sm->own.c.undo ? DDR_HELLO_UNDO : 0;
	msg.hello.shared = sm->own.c.shared;
	msg.hello.undo_epoch = sm->own.c.undo_epoch;
	msg.hello.undo_history = sm->own.c.undo_history;
	msg.hello.n_out = sm->own.c.n_out;
	memcpy(msg.hello.out, sm->own.c.out, sizeof(msg.hello.out));
	memcpy(msg.hello.machine, sm->own.machine, sizeof(msg.hello.machine));
	msg.hello.settle = sm->own.settle_ms;
	ddr_sm_send(sm, &msg);
	sm->own.c.hello_sent = true;
}

/* A state, as HELLO names it. */
struct claim { uint32_t epoch; uint64_t history; bool unproven; uint32_t holders, counts; };

/* Does the node have this state, or can it go back to it? */
static bool holds(const struct ddr_sm_viewer *v, uint32_t epoch, uint64_t history)
{
	return v->synced && ((v->epoch == epoch && v->history == history) ||
			     (v->undo && v->undo_epoch == epoch && v->undo_history == history));
}

static uint32_t holders(const struct ddr_sm *sm, uint32_t epoch, uint64_t history)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < sm->own.c.n_view; i++)
		n += holds(&sm->own.c.view[i], epoch, history);
	return n;
}

/*
 * Is state b (epoch, number of nodes that have it) preferred to a? If they are equal, the lowest node's counts, which comes first.
 * A state by which somebody wrote is preferred to one that was only read: the disks match it, whatever its epoch.
 */
static bool better(const struct claim *b, const struct claim *a)
{
	if (!a->holders || a->unproven != b->unproven)
		return !a->holders || a->unproven;
	if (a->counts != b->counts)
		return b->counts > a->counts;
	if (a->holders != b->holders)
		return b->holders > a->holders;
	return b->epoch > a->epoch;
}

/*
 * A ring that breaks may have delivered the last HELLO to one node only. An epoch that only one node knows does not count: instead
 * the last one counts that this node shared with another. If the epoch changed nothing but the number, the node takes it back.
 */
static void claim(const struct ddr_sm *sm, const struct ddr_sm_viewer *v, struct claim *best)
{
	struct claim c = { .epoch = v->epoch, .history = v->history, .unproven = v->unproven, .counts = v->epoch };

	c.holders = holders(sm, c.epoch, c.history);
	if (v->alone && c.holders == 1 && v->shared < v->epoch)
		c.counts = v->shared;
	if (better(&c, best))
		*best = c;
	if (!v->undo)
		return;
	c = (struct claim){ .epoch = v->undo_epoch, .history = v->undo_history, .counts = v->undo_epoch };
	c.holders = holders(sm, c.epoch, c.history);
	if (c.holders > 1 && better(&c, best))
		*best = c;
}

/* Does a node with the same state take part? */
static bool upheld(const struct ddr_sm *sm, const struct ddr_sm_viewer *v)
{
	for (uint32_t i = 0; i < sm->own.c.n_view; i++)
		if (sm->own.c.view[i].active && (holds(&sm->own.c.view[i], v->epoch, v->history) ||
					     (v->undo && holds(&sm->own.c.view[i], v->undo_epoch, v->undo_history))))
			return true;
	return false;
}

/*
 * If no node with a state takes part in the array, the state may be old: nodes that take part may have continued elsewhere,
 * and need not have fenced anybody. So the nodes that have it forget it.
 */
static uint64_t old_states(const struct ddr_sm *sm)
{
	uint64_t old = 0;

	for (uint32_t i = 0; i < sm->own.c.n_view; i++)
		if (sm->own.c.view[i].synced && !sm->own.c.view[i].unproven && !upheld(sm, &sm->own.c.view[i]))
			old |= 1ull << i;
	return old;
}

static void forget_states(struct ddr_sm *sm, struct ddr_sm_shared *s, uint64_t whose)
{
	for (uint32_t i = 0; i < sm->own.c.n_view; i++) {
		if (!(whose >> i & 1))
			continue;
		sm->own.c.view[i].synced = sm->own.c.view[i].other = false;
		if (sm->own.c.view[i].id == sm->node)
			ddr_sm_forget(sm, s);
	}
}

/* Chooses the state to use. Returns false if no node has one. */
static bool judge_states(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	struct claim best = { 0 };
	const struct ddr_sm_viewer *own;
	uint64_t useless = 0;
	uint32_t epoch = 0;

	forget_states(sm, s, old_states(sm));
	for (uint32_t i = 0; i < sm->own.c.n_view; i++) {
		if (sm->own.c.view[i].epoch > epoch)
			epoch = sm->own.c.view[i].epoch;
		if (sm->own.c.view[i].synced)
			claim(sm, &sm->own.c.view[i], &best);
	}
	sm->own.c.provider = 0;
	for (uint32_t i = 0; best.holders && i < sm->own.c.n_view; i++) {
		struct ddr_sm_viewer *v = &sm->own.c.view[i];

		v->other = v->synced && !holds(v, best.epoch, best.history);
		useless |= v->other && !v->active ? 1ull << i : 0;
		if (v->synced && !v->other && !sm->own.c.provider)
			sm->own.c.provider = v->id;
	}
	forget_states(sm, s, useless);	/* they have not used it: no reason to evict them */
	own = ddr_sm_viewer(sm, sm->node);
	if (own->synced && !own->other) {
		/* an agreement that no other node knows counts as if it had not happened, from the start of the ring on; its number is not used again */
		s->ring_history = best.history;
		s->history = own->epoch == best.epoch && own->history == best.history ? s->history : sm->own.c.undo_history;
		sm->own.c.undo_epoch = best.epoch;
		sm->own.c.shared = best.holders > 1 && best.epoch > sm->own.c.shared ? best.epoch : sm->own.c.shared;
	}
	sm->own.c.epoch = epoch + 1;
	return best.holders != 0;
}

/*
 * Assigns places to the nodes of the view. A node that took part and is not here with our state has left
 * cleanly, or is lost. This is judged only now, not at the view: two sides that were separated and agreed on
 * nothing meanwhile have lost nobody.
 */
static void nodes_update(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++) {
		const struct ddr_sm_viewer *v = ddr_sm_viewer(sm, sm->shared.nodes[i].id);

		if (sm->shared.nodes[i].started && !(v && v->synced && !v->other))
			ddr_sm_departed(sm, s, &s->nodes[i]);
	}
	/* before nodes that only join: a node with another state may be writing, and must not disappear without being fenced */
	for (uint32_t i = 0; i < sm->own.c.n_view; i++) {
		struct ddr_sm_node *n = sm->own.c.view[i].other ? ddr_sm_place(sm, s, sm->own.c.view[i].id) : NULL;

		if (n)
			ddr_sm_lose(sm, s, n, false);
		else
			sm->bug |= sm->own.c.view[i].other;
	}
	for (uint32_t i = 0; i < sm->own.c.n_view; i++) {
		struct ddr_sm_node *n = ddr_sm_place(sm, s, sm->own.c.view[i].id);

		if (n)
			ddr_shared_here(s, n, true);		/* so that the next one does not get this place */
	}
	here_update(sm, s);
	if (ddr_sm_node_at(sm, sm->node) < 0)
		ddr_sm_no_place(sm);
	ddr_sm_writer_choose(sm, s);
}

/* Do all nodes of the view have places, is none lost, and is the writer the same? Then the agreement has not changed the shared state. */
static bool unchanged(const struct ddr_sm *sm, uint32_t writer)
{
	if (sm->shared.writer != writer || sm->own.c.transfer || sm->shared.unproven)
		return false;
	for (uint32_t i = 0; i < sm->own.c.n_view; i++) {
		int at = ddr_sm_node_at(sm, sm->own.c.view[i].id);

		if (at < 0 || sm->shared.nodes[at].lost)
			return false;
	}
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (sm->shared.nodes[i].started && !sm->shared.nodes[i].lost && !ddr_sm_viewer(sm, sm->shared.nodes[i].id))
			return false;
	return true;
}

static void agreed(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	struct ddr_sm_cluster *c = &sm->own.c;
	uint32_t writer = sm->shared.writer;
	bool known = judge_states(sm, s), whole;

	c->phase = DDR_V_AGREED;
	c->apart = false;
	if (c->synced && ddr_sm_viewer(sm, sm->node)->other) {
		ddr_sm_evict(sm, "the other nodes continued without this node" DDR_SM_START_ANEW);
		return;
	}
	if (!known) {
		c->provider = c->view[0].id;
		c->building = c->provider == sm->node;
	}
	c->transfer = !known;
	for (uint32_t i = 0; i < c->n_view; i++)
		c->transfer |= !c->view[i].synced;
	c->undo = false;
	if (!c->synced)
		return;
	c->undo_history = sm->shared.history;
	whole = unchanged(sm, writer);
	ddr_sm_settle(sm, s);
	/* while this node was cut off, others may have started to write since we read: no superblock that we know names them */
	c->writer_ready &= !sm->shared.unproven;
	s->history = ddr_sm_mix(s->history ^ c->view_name ^ c->epoch);
	nodes_update(sm, s);
	whole &= !ddr_sm_exclusions_agreed(sm, s);
	c->undo = whole && unchanged(sm, writer);
	ddr_sm_resend(sm);
}

void ddr_sm_hello(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	struct ddr_sm_viewer *v = ddr_sm_viewer(sm, msg->sender);

	if ((msg->hello.flags & DDR_HELLO_VOID) && sm->own.c.phase == DDR_V_AGREED && msg->epoch == sm->own.c.epoch && sm->own.c.synced)
		ddr_sm_void(sm, s);
	if ((msg->hello.flags & DDR_HELLO_VOID) || sm->own.c.phase != DDR_V_HELLO || msg->hello.view != sm->own.c.view_name)
		return;		/* of another view */
	if (msg->epoch < sm->own.c.void_epoch)
		return;		/* sent before its sender learned that the state is void */
	v->hello = true;
	v->synced = msg->hello.flags & DDR_HELLO_SYNCED;
	v->unproven = msg->hello.flags & DDR_HELLO_UNPROVEN;
	v->active = msg->hello.flags & DDR_HELLO_ACTIVE;
	v->alone = msg->hello.flags & DDR_HELLO_ALONE;
	v->undo = msg->hello.flags & DDR_HELLO_UNDO;
	v->shared = msg->hello.shared;
	v->undo_epoch = msg->hello.undo_epoch;
	v->undo_history = msg->hello.undo_history;
	v->epoch = msg->epoch;
	v->history = msg->hello.history;
	memcpy(v->machine, msg->hello.machine, sizeof(v->machine));
	v->settle_ms = msg->hello.settle;
	for (uint32_t i = 0; i < msg->hello.n_out; i++)
		ddr_sm_exclusion_told(sm, msg->hello.out[i]);
	for (uint32_t i = 0; i < sm->own.c.n_view; i++)
		if (!sm->own.c.view[i].hello)
			return;
	agreed(sm, s);
}

void ddr_sm_cluster_pump(struct ddr_sm *sm)
{
	hello_send(sm);
	ddr_sm_join_pump(sm);
	ddr_sm_gone_pump(sm);
	ddr_sm_fence_pump(sm);
	ddr_sm_recover_pump(sm);
}

/* ---- START ------------------------------------------------------------------ */

static void node_joined(struct ddr_sm *sm, const struct ddr_msg *msg, const struct ddr_order_start *n)
{
	struct ddr_output *out = ddr_sm_event(sm, DDR_EV_NODE_JOINED, NULL);

	out->a = n->slot;
	out->b = msg->sender;
}

void ddr_sm_start_told(struct ddr_sm *sm, const struct ddr_msg *msg, enum ddr_start_answer answer, const struct ddr_order_start *n)
{
	bool ours = msg->sender == sm->node;

	if (answer == DDR_START_REFUSED && ours)
		ddr_sm_evict(sm, n->why);
	if (answer == DDR_START_LATER && ours)
		sm->own.start = DDR_S_OFF;
	if (answer != DDR_START_BEGUN)
		return;
	if (ours) {
		sm->own.start = DDR_S_DELIVERED;
		sm->own.slot = n->slot;
	}
	sm->own.peer[ddr_sm_node_at(sm, msg->sender)].gave_up = false;
	ddr_sm_ex_ended(sm, msg->sender, &n->ended);
	ddr_sm_nodes_dead(sm, &n->dead, ddr_sm_acknowledged);
	if (n->failed)
		ddr_sm_array_failed(sm, "more members are missing than the parity covers");
	if (n->voided)
		ddr_sm_whole_voided(sm);
	if (sm->shared.rec)
		sm->again = true;
	if (sm->shared.cluster)
		node_joined(sm, msg, n);
}
