// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Questions about nodes and slots: who votes, who writes, who is lost, who owns a slot, and whether a node may start in it.
 *
 * Must never: change anything.
 */
#include "sm_int.h"

bool ddr_shared_others_started(const struct ddr_sm_shared *s, const struct ddr_sm_node *n)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (s->nodes[i].started && &s->nodes[i] != n)
			return true;
	return false;
}

int ddr_shared_node_at(const struct ddr_sm_shared *s, uint32_t id)
{
	for (int i = 0; i < (int)DDR_SM_MAX_NODES; i++)
		if (s->nodes[i].id == id && id != 0)
			return i;
	return -1;
}

uint64_t ddr_shared_voters(const struct ddr_sm_shared *s)
{
	uint64_t mask = 0;

	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (s->nodes[i].lost || (s->nodes[i].started && !s->nodes[i].leaving))
			mask |= 1ull << i;
	return mask;
}

uint32_t ddr_shared_writer(const struct ddr_sm_shared *s)
{
	return s->writer;
}

struct ddr_sm_viewer *ddr_sm_viewer(const struct ddr_sm *sm, uint32_t id)
{
	for (uint32_t i = 0; i < sm->own.c.n_view; i++)
		if (sm->own.c.view[i].id == id)
			return (struct ddr_sm_viewer *)(uintptr_t)&sm->own.c.view[i];
	return NULL;
}

/* Does a daemon of a release that does not say whether it can fence take part? It counts all nodes, so all do. */
static bool some_unsaid(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->own.c.n_view; i++)
		if (sm->own.c.view[i].fences == DDR_FENCES_UNSAID)
			return true;
	return false;
}

/* Can it fence that node? A node that is back and has not started is lost; if it fenced itself, nobody would hear of it. */
static bool able(const struct ddr_sm_viewer *v, const struct ddr_sm_node *n)
{
	return v->fences == DDR_FENCES_YES && v->id != n->id;
}

bool ddr_sm_fences_in_turn(const struct ddr_sm *sm, const struct ddr_sm_node *n, const struct ddr_sm_viewer *v)
{
	return v->synced && !v->other && !ddr_sm_excluded(sm, v->id) && (able(v, n) || some_unsaid(sm));
}

uint32_t ddr_sm_fencers(const struct ddr_sm *sm, const struct ddr_sm_node *n)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < sm->own.c.n_view; i++)
		count += ddr_sm_fences_in_turn(sm, n, &sm->own.c.view[i]);
	return count;
}

/* Those that take turns, by id, one after the other. */
uint32_t ddr_sm_fence_turn(const struct ddr_sm *sm, const struct ddr_sm_node *n)
{
	uint32_t able_ones = ddr_sm_fencers(sm, n), at = 0;

	for (uint32_t i = 0; able_ones && i < sm->own.c.n_view; i++)
		if (ddr_sm_fences_in_turn(sm, n, &sm->own.c.view[i]) && at++ == n->attempt % able_ones)
			return sm->own.c.view[i].id;
	return 0;
}

bool ddr_sm_nobody_fences(const struct ddr_sm *sm, const struct ddr_sm_node *n)
{
	if (some_unsaid(sm))
		return !sm->own.c.fencing;
	for (uint32_t i = 0; i < sm->own.c.n_view; i++)
		if (able(&sm->own.c.view[i], n) && !sm->own.c.view[i].other && !ddr_sm_excluded(sm, sm->own.c.view[i].id))
			return false;
	return true;
}

bool ddr_sm_all_failed(const struct ddr_sm *sm, const struct ddr_sm_node *n)
{
	uint32_t fencers = ddr_sm_fencers(sm, n);

	return fencers && n->attempt >= fencers;
}

bool ddr_sm_in_quorum(const struct ddr_sm *sm, uint32_t id)
{
	for (uint32_t i = 0; i < sm->own.c.q_n; i++)
		if (sm->own.c.q_nodes[i] == id)
			return true;
	return false;
}

bool ddr_shared_any_lost(const struct ddr_sm_shared *s)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (s->nodes[i].lost)
			return true;
	return false;
}

bool ddr_shared_excluded(const struct ddr_sm_shared *s, uint32_t node)
{
	int at = ddr_shared_node_at(s, node);

	return at >= 0 && s->nodes[at].excluded;
}

/* Has a node left with dirty regions, in a slot that is not recovered yet? */
bool ddr_shared_left_dirty(const struct ddr_sm_shared *s)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (s->nodes[i].leaving && s->nodes[i].leave_dirty)
			return true;
	return false;
}

/* ---- slots ------------------------------------------------------------------ */

uint32_t ddr_shared_slot_of(const struct ddr_sm_shared *s, uint32_t node)
{
	for (uint32_t i = 0; i < s->sb.slots; i++)
		if (node && s->sb.slot_node[i] == node)
			return i;
	return DDR_SM_NO_SLOT;
}

uint32_t ddr_sm_slot(const struct ddr_sm *sm)
{
	return sm->own.slot;
}

uint32_t ddr_shared_slot_claimed(const struct ddr_sm_shared *s, uint32_t node)
{
	for (uint32_t i = 0; i < s->sb.slots; i++)
		if ((s->change.slots >> i & 1) && s->change.slot_node[i] == node && s->sb.slot_node[i] != node)
			return i;
	return DDR_SM_NO_SLOT;
}

/* Is the slot free in the superblocks, and not claimed, or claimed by a node that left before that was agreed? Then nothing was ever marked there. */
static bool slot_free(const struct ddr_sm_shared *s, uint32_t slot)
{
	return !s->sb.slot_node[slot] && (!(s->change.slots >> slot & 1) || !s->change.slot_node[slot]);
}

/* The slot for @node: its own, or the first free one that is not assigned; or DDR_SM_NO_SLOT. */
uint32_t ddr_shared_slot_choose(const struct ddr_sm_shared *s, uint32_t node)
{
	uint32_t own = ddr_shared_slot_of(s, node);

	if (own == DDR_SM_NO_SLOT)
		own = ddr_shared_slot_claimed(s, node);	/* by an earlier process of this node */
	for (uint32_t i = 0; own == DDR_SM_NO_SLOT && i < s->sb.slots; i++)
		if (slot_free(s, i))
			own = i;
	return own;
}

static bool none_started(const struct ddr_sm_shared *s)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (s->nodes[i].started)
			return false;
	return true;
}

bool ddr_shared_slot_settled(const struct ddr_sm_shared *s, uint32_t slot, uint32_t node)
{
	/* a survivor takes over the node's dirty regions; if there is none, the node does that itself, as after a fast reboot */
	if ((s->rec >> slot & 1) && (s->rec_by[slot] || !none_started(s)))
		return false;
	return !(s->change.slots >> slot & 1) || s->change.slot_node[slot] == node || slot_free(s, slot);
}

bool ddr_shared_can_begin(const struct ddr_sm_shared *s, uint32_t node)
{
	uint32_t slot = ddr_shared_slot_choose(s, node);

	return !ddr_shared_excluded(s, node) && slot != DDR_SM_NO_SLOT && ddr_shared_slot_settled(s, slot, node);
}

/* May the others, or the disks, know that we take part? From our first superblock write on, which may have landed. */
bool ddr_sm_complete(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (sm->shared.nodes[i].lost)
			return false;
	return sm->own.c.phase == DDR_V_AGREED && sm->own.c.synced && !sm->own.c.transfer && sm->own.quorate;
}

bool ddr_sm_has_slot(const struct ddr_sm *sm, uint32_t node)
{
	int at = ddr_sm_node_at(sm, node);

	return (at >= 0 && (sm->shared.nodes[at].lost || sm->shared.nodes[at].started)) || ddr_sm_slot_of(sm, node) != DDR_SM_NO_SLOT ||
	       ddr_sm_slot_claimed(sm, node) != DDR_SM_NO_SLOT;
}

bool ddr_sm_takes_part(const struct ddr_sm *sm)
{
	if (!sm->own.c.synced || sm->own.start < DDR_S_DELIVERED)
		return false;
	return sm->own.t.io || sm->own.t.written || (!sm->shared.unproven && ddr_sm_slot_of(sm, sm->node) != DDR_SM_NO_SLOT);
}
