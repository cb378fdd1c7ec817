// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Nodes that join and leave: their places in the table, lost nodes, nodes that left, the writer, and what status says of them.
 *
 * Must never: forget a lost node, or that a verdict has excluded it; choose another writer while the last one may still write.
 */
#include "sm_int.h"

/*
 * A place for @id: its own, an unused one, or that of a node for which nothing waits. NULL: 64 nodes are here or lost. None of them may be
 * forgotten, so a further node gets no place, and takes no part.
 */
struct ddr_sm_node *ddr_sm_place(struct ddr_sm *sm, struct ddr_sm_shared *s, uint32_t id)
{
	int at = ddr_sm_node_at(sm, id);

	for (int i = 0; at < 0 && i < (int)DDR_SM_MAX_NODES; i++)
		if (!sm->shared.nodes[i].id)
			at = i;
	for (int i = 0; at < 0 && i < (int)DDR_SM_MAX_NODES; i++)
		if (!(sm->shared.here >> i & 1) && !sm->shared.nodes[i].lost)
			at = i;
	if (at < 0)
		return NULL;
	if (s->nodes[at].id != id)
		ddr_sm_node_clear(sm, s, &s->nodes[at]);
	s->nodes[at].id = id;
	return &s->nodes[at];
}

void ddr_sm_no_place(struct ddr_sm *sm)
{
	ddr_sm_evict(sm, "the array has reached its limit of 64 nodes, lost ones included: fence the lost nodes, or stop the array on another "
			 "node, then start it here");
}

void ddr_sm_writer_chosen(struct ddr_sm *sm, enum ddr_writer_news news)
{
	if (news == DDR_WRITER_FIRST || (news == DDR_WRITER_OTHER && sm->shared.writer != sm->node))
		sm->own.c.writer_ready = sm->own.c.merging = false;
}

void ddr_sm_writer_choose(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	ddr_sm_writer_chosen(sm, ddr_order_writer(s));
}

void ddr_sm_lose(struct ddr_sm *sm, struct ddr_sm_shared *s, struct ddr_sm_node *n, bool absent)
{
	const struct ddr_sm_viewer *v = ddr_sm_viewer(sm, n->id);
	struct ddr_output *out;

	n->started = false;
	if (n->lost)
		return;
	ddr_sm_whole_void(sm, s);
	n->lost = true;
	n->absent = absent;
	n->attempt = 0;
	n->failure = (uint64_t)sm->own.c.epoch << 32 | ++s->failures;
	ddr_sm_peer(sm, n)->lost_at = sm->now;
	ddr_sm_peer(sm, n)->asked = ddr_sm_peer(sm, n)->how = 0;
	ddr_sm_peer(sm, n)->how_sent = ddr_sm_peer(sm, n)->wait_told = ddr_sm_peer(sm, n)->stranger_told = false;
	ddr_sm_peer(sm, n)->again_at = 0;
	ddr_sm_peer(sm, n)->gone_sent = false;
	out = ddr_sm_event(sm, DDR_EV_NODE_LOST, absent ? "it owns a slot of the dirty log and is absent" :
			   v && v->other ? "it started again with another state" : NULL);
	out->a = n->failure;
	out->b = n->id;
}

static void add(uint32_t *list, uint32_t *n, uint32_t node)
{
	for (uint32_t i = 0; i < *n; i++)
		if (list[i] == node)
			return;
	if (*n < DDR_HELLO_OUTS)	/* an array has no more nodes than that */
		list[(*n)++] = node;
}

void ddr_sm_exclusion(struct ddr_sm *sm, uint32_t node)
{
	add(sm->own.c.out, &sm->own.c.n_out, node);
}

void ddr_sm_exclusion_told(struct ddr_sm *sm, uint32_t node)
{
	add(sm->own.c.outs, &sm->own.c.n_outs, node);
}

void ddr_sm_exclusions_known(struct ddr_sm *sm)
{
	struct ddr_sm_cluster *c = &sm->own.c;

	for (uint32_t i = 0; i < c->n_outs; i++)
		for (uint32_t j = 0; j < c->n_out; j++)
			if (c->out[j] == c->outs[i])
				c->out[j--] = c->out[--c->n_out];
}

/* All have heard the same HELLOs, so all mark the same nodes. What was heard since our HELLO waits for the next agreement. */
bool ddr_sm_exclusions_agreed(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	struct ddr_sm_cluster *c = &sm->own.c;
	bool news = false;

	for (uint32_t i = 0; i < c->n_outs; i++) {
		int at = ddr_sm_node_at(sm, c->outs[i]);

		if (at >= 0 && s->nodes[at].lost) {
			news |= !s->nodes[at].excluded;
			s->nodes[at].excluded = true;
		}
	}
	ddr_sm_exclusions_known(sm);
	sm->again |= news;
	return news;
}

void ddr_sm_departed(struct ddr_sm *sm, struct ddr_sm_shared *s, struct ddr_sm_node *n)
{
	uint32_t slot = ddr_sm_slot_of(sm, n->id);

	if (!n->leaving) {
		ddr_sm_lose(sm, s, n, false);
		return;
	}
	if (n->leave_dirty && slot != DDR_SM_NO_SLOT) {
		ddr_sm_whole_void(sm, s);
		ddr_order_slot_recover(s, slot);
		sm->again = true;
	}
	ddr_sm_ex_gone(sm, s, n->id);
	ddr_order_recover_drop(s, n->id);
	ddr_sm_event(sm, DDR_EV_NODE_LEFT, NULL)->b = n->id;
	ddr_sm_node_clear(sm, s, n);
}

/* ---- status ----------------------------------------------------------------- */

static enum ddr_sm_node_state node_state(const struct ddr_sm *sm, const struct ddr_sm_node *n, uint32_t slot)
{
	if (n->lost)
		return n->attempt || ddr_sm_peer(sm, n)->asked || ddr_sm_peer(sm, n)->how ? DDR_NS_FENCING : DDR_NS_SUSPECT;
	if (slot != DDR_SM_NO_SLOT && (sm->shared.rec >> slot & 1))
		return DDR_NS_RECOVERING;
	if (n->started)
		return DDR_NS_ACTIVE;
	return sm->shared.here >> (n - sm->shared.nodes) & 1 ? DDR_NS_JOINING : DDR_NS_LEFT;
}

uint32_t ddr_sm_settle_ms(const struct ddr_sm *sm)
{
	uint32_t ms = sm->own.settle_ms;

	for (uint32_t i = 0; i < sm->own.c.n_view; i++)
		if (sm->own.c.view[i].settle_ms > ms)
			ms = sm->own.c.view[i].settle_ms;
	return ms;
}

/* The machine that was this lost node is in the view under another id. */
static bool is_back(const struct ddr_sm *sm, const struct ddr_sm_node *n)
{
	for (uint32_t i = 0; i < sm->own.c.n_view; i++)
		if (sm->own.c.view[i].id != n->id && ddr_shared_owner_machine(&sm->shared, n->id, sm->own.c.view[i].machine))
			return true;
	return false;
}

bool ddr_sm_fence_rests(const struct ddr_sm *sm, const struct ddr_sm_node *n)
{
	return is_back(sm, n) && !ddr_sm_time(sm, sm->own.peer[n - sm->shared.nodes].lost_at + sm->own.away_ms);
}

static enum ddr_sm_wait wait_for(const struct ddr_sm *sm, const struct ddr_sm_node *n)
{
	if (ddr_sm_fence_rests(sm, n))
		return DDR_SM_WAIT_BACK;
	if (ddr_sm_stranger(sm, n->id))
		return DDR_SM_WAIT_STRANGER;
	if (ddr_sm_nobody_fences(sm, n))
		return DDR_SM_WAIT_ACK;
	if (ddr_sm_all_failed(sm, n))
		return DDR_SM_WAIT_FAILS;
	return n->excluded ? DDR_SM_WAIT_EXCLUDED : DDR_SM_WAIT_FENCED;
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
			wait = wait_for(sm, n);
			st->wait_node = n->id;
			st->wait_fencer = wait == DDR_SM_WAIT_EXCLUDED || wait == DDR_SM_WAIT_FENCED ? ddr_sm_fence_turn(sm, n) : 0;
		}
	}
	st->agreed = sm->own.c.phase == DDR_V_AGREED;
	st->synced = sm->own.c.synced;
	st->joined = sm->own.start == DDR_S_DONE;
	if ((!sm->own.quorate && sm->own.viewed) || !st->agreed)
		st->wait_node = st->wait_fencer = 0;
	if (!sm->own.quorate && sm->own.viewed)
		wait = DDR_SM_WAIT_QUORUM;
	else if (!st->agreed)
		wait = DDR_SM_WAIT_VIEW;
	else if (!st->synced && !wait)
		wait = DDR_SM_WAIT_STATE;
	st->wait_for = wait;
	st->wait = ddr_sm_wait_text(wait);
}
