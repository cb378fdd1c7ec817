// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Views of several nodes: quorum, hellos, agreement, and START.
 *
 * After each change of the view every node says hello, once the quorum service has the ring of
 * the view and says that it is quorate. The last hello that is delivered is, for all nodes
 * alike, the moment of agreement: a new epoch begins. Until then nobody changes what the
 * group shares, and what was sent in the last epoch and comes later is refused by all. Then
 * those who have the state of the group are known; if somebody has not, it is sent
 * (sm_join.c), and until it is complete again nobody changes it.
 *
 * Nodes that come together with different states were apart: the newest epoch goes on,
 * and the others count as lost until they were fenced (note 17 iv).
 *
 * Must never: agree without quorum, or with a ring that the quorum service does not
 * have (rule 6); go on with a state of which the group went on without this node.
 */
#include "sm_int.h"

#define MEET_MS	3000u	/* from the quorum that is back until those who have met agree without the rest */

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

	if (!sm->shared.cluster || in->n_nodes > DDR_SM_MAX_QUORUM) {
		ddr_sm_bug(sm, "quorum was reported without a cluster, or for too many nodes");
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

/* By id, so that places are given in the same order everywhere. */
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
	}
	c->view_name = ddr_sm_mix(in->ring);
	for (uint32_t i = 0; i < c->n_view; i++)
		c->view_name = ddr_sm_mix(c->view_name ^ ((uint64_t)c->view[i].id << 32 | c->view[i].pid));
	if (c->view_name != before)
		c->void_epoch = 0;
}

static void here_update(struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		ddr_sm_here(sm, &sm->shared.nodes[i], sm->shared.nodes[i].id && ddr_sm_viewer(sm, sm->shared.nodes[i].id));
}

void ddr_sm_cluster_view(struct ddr_sm *sm, const struct ddr_input *in)
{
	bool ring_changed = !sm->own.viewed || in->ring != sm->own.ring;

	if (!ddr_sm_view_valid(sm, in)) {
		ddr_sm_bug(sm, "a view lacks this node, lists a node twice, or has too many nodes");
		return;
	}
	sm->own.viewed = true;
	sm->own.ring = in->ring;
	view_sort(sm, in);
	quorum_update(sm);
	sm->own.c.phase = DDR_V_HELLO;
	sm->own.c.hello_sent = sm->own.c.transfer = false;
	ddr_sm_join_view(sm);
	if (ring_changed)
		sm->shared.ring_history = sm->shared.history;
	here_update(sm);
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
 * Nobody had quorum, and some have met again: those who are still on their way would be fenced as soon as these agree. A healed network
 * brings its nodes one after the other. Whoever had quorum all the time waits for nobody, and says hello.
 */
static bool others_may_come(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->own.c.n_view; i++)
		if (sm->own.c.view[i].hello)
			return false;
	return sm->own.c.apart && sm->now < sm->own.c.meet_until && somebody_absent(sm);
}

/* Nobody else is known to have agreed on our epoch; and nobody of this view was lost by it, and may have been fenced. */
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
	ddr_sm_send(sm, &msg);
	sm->own.c.hello_sent = true;
}

/* A state, as the hellos name it. */
struct claim { uint32_t epoch; uint64_t history; bool unproven; uint32_t holders, counts; };

/* Has it this state, or can it go back to it? */
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
 * Is state b (epoch, how many have it) to be preferred to a? Of equals the one of the lowest node, which comes first.
 * One by which somebody wrote comes before one that was only read: the disks are as the first says, whatever its epoch.
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
 * A ring that breaks may have brought the last hello to one node alone. An epoch of which no two nodes know is no word of the group: what
 * counts is the last one that its node shared with another. And where nothing came of it but the number it is taken back.
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

/* Has somebody the same state and takes part? */
static bool upheld(const struct ddr_sm *sm, const struct ddr_sm_viewer *v)
{
	for (uint32_t i = 0; i < sm->own.c.n_view; i++)
		if (sm->own.c.view[i].active && (holds(&sm->own.c.view[i], v->epoch, v->history) ||
					     (v->undo && holds(&sm->own.c.view[i], v->undo_epoch, v->undo_history))))
			return true;
	return false;
}

/*
 * A state of which nobody here takes part in the array may be old: those who do may have gone on elsewhere, and fenced
 * nobody for it. Who has it forgets it.
 */
static uint64_t old_states(const struct ddr_sm *sm)
{
	uint64_t old = 0;

	for (uint32_t i = 0; i < sm->own.c.n_view; i++)
		if (sm->own.c.view[i].synced && !sm->own.c.view[i].unproven && !upheld(sm, &sm->own.c.view[i]))
			old |= 1ull << i;
	return old;
}

static void forget_states(struct ddr_sm *sm, uint64_t whose)
{
	for (uint32_t i = 0; i < sm->own.c.n_view; i++) {
		if (!(whose >> i & 1))
			continue;
		sm->own.c.view[i].synced = sm->own.c.view[i].other = false;
		if (sm->own.c.view[i].id == sm->node)
			ddr_sm_forget(sm);
	}
}

/* Whose state the group's is. Returns false if nobody has one. */
static bool judge_states(struct ddr_sm *sm)
{
	struct claim best = { 0 };
	const struct ddr_sm_viewer *own;
	uint64_t useless = 0;
	uint32_t epoch = 0;

	forget_states(sm, old_states(sm));
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
	forget_states(sm, useless);	/* they have done nothing by it: no reason to put them out */
	own = ddr_sm_viewer(sm, sm->node);
	if (own->synced && !own->other) {
		/* what else was agreed on by nobody else is as if it had not been, from the ring's begin on; its number is not used again */
		sm->shared.ring_history = best.history;
		sm->shared.history = own->epoch == best.epoch && own->history == best.history ? sm->shared.history : sm->own.c.undo_history;
		sm->own.c.undo_epoch = best.epoch;
		sm->own.c.shared = best.holders > 1 && best.epoch > sm->own.c.shared ? best.epoch : sm->own.c.shared;
	}
	sm->own.c.epoch = epoch + 1;
	return best.holders != 0;
}

/*
 * Nodes of the view have places. Of those that took part, who is not here with our state left
 * cleanly, or is lost. Only now, not with the view: two sides that were apart and agreed on
 * nothing meanwhile have lost nobody.
 */
static void nodes_update(struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++) {
		const struct ddr_sm_viewer *v = ddr_sm_viewer(sm, sm->shared.nodes[i].id);

		if (sm->shared.nodes[i].started && !(v && v->synced && !v->other))
			ddr_sm_departed(sm, &sm->shared.nodes[i]);
	}
	/* before those who only join: who came with another state may write by it, and must not go without being fenced */
	for (uint32_t i = 0; i < sm->own.c.n_view; i++) {
		struct ddr_sm_node *n = sm->own.c.view[i].other ? ddr_sm_place(sm, sm->own.c.view[i].id) : NULL;

		if (n)
			ddr_sm_lose(sm, n, false);
		else
			sm->bug |= sm->own.c.view[i].other;
	}
	for (uint32_t i = 0; i < sm->own.c.n_view; i++) {
		struct ddr_sm_node *n = ddr_sm_place(sm, sm->own.c.view[i].id);

		if (n)
			ddr_sm_here(sm, n, true);		/* so that the next one does not get it */
	}
	here_update(sm);
	if (ddr_sm_node_at(sm, sm->node) < 0)
		ddr_sm_no_place(sm);
	ddr_sm_writer_choose(sm);
}

/* Have the nodes of the view places, is nobody lost by it, and is the writer the same? Then nothing of what all share has changed. */
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

static void agreed(struct ddr_sm *sm)
{
	struct ddr_sm_cluster *c = &sm->own.c;
	uint32_t writer = sm->shared.writer;
	bool known = judge_states(sm), whole;

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
	ddr_sm_settle(sm);
	/* others may have begun to write since we read, while this node was cut off: no superblock names them to us */
	c->writer_ready &= !sm->shared.unproven;
	sm->shared.history = ddr_sm_mix(sm->shared.history ^ c->view_name ^ c->epoch);
	nodes_update(sm);
	c->undo = whole && unchanged(sm, writer);
	ddr_sm_resend(sm);
}

void ddr_sm_hello(struct ddr_sm *sm, const struct ddr_msg *msg)
{
	struct ddr_sm_viewer *v = ddr_sm_viewer(sm, msg->sender);

	if ((msg->hello.flags & DDR_HELLO_VOID) && sm->own.c.phase == DDR_V_AGREED && msg->epoch == sm->own.c.epoch && sm->own.c.synced)
		ddr_sm_void(sm);
	if ((msg->hello.flags & DDR_HELLO_VOID) || sm->own.c.phase != DDR_V_HELLO || msg->hello.view != sm->own.c.view_name)
		return;		/* of another view */
	if (msg->epoch < sm->own.c.void_epoch)
		return;		/* said before its sender heard that the state is void */
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
	for (uint32_t i = 0; i < sm->own.c.n_view; i++)
		if (!sm->own.c.view[i].hello)
			return;
	agreed(sm);
}

void ddr_sm_cluster_pump(struct ddr_sm *sm)
{
	if (!sm->shared.cluster) {
		if (sm->shared.rec)		/* slots of a cluster whose array was adopted */
			ddr_sm_recover_pump(sm);
		return;
	}
	hello_send(sm);
	ddr_sm_join_pump(sm);
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

static void start_refused(struct ddr_sm *sm, const struct ddr_msg *msg, const char *why)
{
	bool ours = msg->sender == sm->node;

	if (!why)
		ddr_sm_event(sm, DDR_EV_REFUSED, "a node started in a slot that belongs to another node")->b = msg->sender;
	else if (ours)
		(sm->shared.cluster ? ddr_sm_evict : ddr_sm_give_up)(sm, why);
}

void ddr_sm_start_told(struct ddr_sm *sm, const struct ddr_msg *msg, enum ddr_start_answer answer, const struct ddr_order_start *n)
{
	bool ours = msg->sender == sm->node;

	if (answer == DDR_START_REFUSED)
		start_refused(sm, msg, n->why);
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
	ddr_sm_nodes_dead(sm, &n->dead, DDR_FENCED_OPERATOR);
	if (n->failed)
		ddr_sm_array_failed(sm, "more members are missing than the parity covers");
	if (n->voided)
		ddr_sm_whole_voided(sm);
	if (sm->shared.rec)
		sm->again = true;
	if (sm->shared.cluster)
		node_joined(sm, msg, n);
}

/* ---- status ----------------------------------------------------------------- */

static enum ddr_sm_node_state node_state(const struct ddr_sm *sm, const struct ddr_sm_node *n, uint32_t slot)
{
	if (n->lost)
		return ddr_sm_peer(sm, n)->asked || ddr_sm_peer(sm, n)->how ? DDR_NS_FENCING : DDR_NS_SUSPECT;
	if (slot != DDR_SM_NO_SLOT && (sm->shared.rec >> slot & 1))
		return DDR_NS_RECOVERING;
	if (n->started)
		return DDR_NS_ACTIVE;
	return sm->shared.here >> (n - sm->shared.nodes) & 1 ? DDR_NS_JOINING : DDR_NS_LEFT;
}

void ddr_sm_nodes_status(const struct ddr_sm *sm, struct ddr_sm_status *st)
{
	enum ddr_sm_wait wait = DDR_SM_WAIT_NOTHING;

	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++) {
		const struct ddr_sm_node *n = &sm->shared.nodes[i];
		struct ddr_sm_node_status *s = &st->node[st->n_nodes];

		if (!n->id)
			continue;
		st->n_nodes++;
		s->id = n->id;
		s->slot = ddr_sm_slot_of(sm, n->id);
		s->state = node_state(sm, n, s->slot);
		s->failure = n->lost ? n->failure : 0;
		if (n->lost && !wait) {
			wait = sm->own.c.fencing ? DDR_SM_WAIT_FENCED : DDR_SM_WAIT_ACK;
			st->wait_node = n->id;
		}
	}
	st->agreed = sm->own.c.phase == DDR_V_AGREED;
	st->synced = sm->own.c.synced;
	st->joined = sm->own.start == DDR_S_DONE;
	if ((!sm->own.quorate && sm->own.viewed) || !st->agreed)
		st->wait_node = 0;
	if (!sm->own.quorate && sm->own.viewed)
		wait = DDR_SM_WAIT_QUORUM;
	else if (!st->agreed)
		wait = DDR_SM_WAIT_VIEW;
	else if (!st->synced && !wait)
		wait = DDR_SM_WAIT_STATE;
	st->wait_for = wait;
	st->wait = ddr_sm_wait_text(wait);
}

bool ddr_sm_view_valid(const struct ddr_sm *sm, const struct ddr_input *in)
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
