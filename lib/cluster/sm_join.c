// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Getting the state of the group: from the disks at the group's start, from another node for a joiner; and what a new writer has to
 * read from the disks.
 *
 * The provider (the lowest node that has the state) sends it as it is at the moment of agreement: no node changes it until the last
 * chunk was delivered. A chunk has the epoch, its number, the number of chunks, and the digest of the whole; with the last chunk all
 * joiners of the view have the state, at the same place in the order.
 *
 * A state built from the disks while another node may still write to them is unproven: no node writes until all owners of slots are
 * here or proven dead. Then the writer reads again, and if anything has changed, all nodes start again without a state (ddr_sm_void).
 *
 * Must never: trust an earlier read of the disks; continue with an incomplete state; let a node write superblocks or map before it
 * knows what the last writer left there (rule 12).
 */
#include "sm_int.h"

#define RETRY_MS	1000u

bool ddr_sm_state_at(struct ddr_sm *sm, uint8_t *buf, size_t size, uint64_t *place, uint32_t *bytes)
{
	if (!sm->own.c.synced || sm->own.c.phase != DDR_V_AGREED || sm->own.c.transfer)
		return false;
	*bytes = ddr_sm_state_encode(sm, buf, (uint32_t)size);
	*place = ddr_sm_mix(ddr_sm_mix(sm->shared.history ^ sm->own.c.epoch) ^ sm->own.ring);
	return *bytes != 0;
}

/* ---- sending ---------------------------------------------------------------- */

static void state_pack(struct ddr_sm *sm)
{
	sm->own.c.used = ddr_sm_state_encode(sm, sm->own.c.buf, sm->own.c.size);
	sm->bug |= !sm->own.c.used;
	sm->own.c.digest = ddr_sm_state_digest(sm->own.c.buf, sm->own.c.used);
	sm->own.c.chunks = (sm->own.c.used + DDR_STATE_DATA - 1) / DDR_STATE_DATA;
}

static bool sends_state(const struct ddr_sm *sm)
{
	const struct ddr_sm_cluster *c = &sm->own.c;

	return c->phase == DDR_V_AGREED && sm->own.quorate && c->synced && c->transfer && c->provider == sm->node;
}

bool ddr_sm_state_due(const struct ddr_sm *sm)
{
	return sends_state(sm) && !sm->own.c.chunks;
}

static void chunks_send(struct ddr_sm *sm)
{
	struct ddr_sm_cluster *c = &sm->own.c;
	struct ddr_msg msg = { .type = DDR_M_STATE };

	if (!c->chunks)
		state_pack(sm);
	while (c->sent < c->chunks && c->sent - c->delivered < DDR_SM_CHUNKS && ddr_sm_room(sm, 1)) {
		uint32_t at = c->sent * DDR_STATE_DATA;

		msg.state.digest = c->digest;
		msg.state.epoch = c->epoch;
		msg.state.index = c->sent;
		msg.state.count = c->chunks;
		msg.state.bytes = c->used - at < DDR_STATE_DATA ? c->used - at : DDR_STATE_DATA;
		memcpy(msg.state.data, c->buf + at, msg.state.bytes);
		ddr_sm_send(sm, &msg);
		c->sent++;
	}
}

/* ---- receiving -------------------------------------------------------------- */

/* The owner pages can be written as they would follow from these owners. */
static bool owners_valid(const struct ddr_sm *sm)
{
	struct ddr_owners owners;

	memset(&owners, 0, sizeof(owners));
	for (uint32_t i = 0; i < sm->shared.sb.slots; i++)
		ddr_sm_owner(sm, i, &owners.slot[i]);
	return ddr_owners_check(&owners, &sm->shared.sb).code == DDR_FE_OK;
}

static bool state_valid(const struct ddr_sm *sm)
{
	const struct ddr_msg_member_set *set = &sm->shared.change.set;

	if (ddr_super_check(&sm->shared.sb).code != DDR_FE_OK || !owners_valid(sm))
		return false;
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (sm->shared.nodes[i].excluded && (!sm->shared.nodes[i].lost || sm->shared.nodes[i].started))
			return false;
	for (uint32_t i = 0; i < DDR_SM_EX; i++) {
		const struct ddr_sm_ex *x = &sm->shared.ex[i];

		if (x->used && (x->count == 0 || x->count > DDR_EX_BLOCKS || x->start >= sm->shared.sb.array_blocks ||
				x->count > sm->shared.sb.array_blocks - x->start))
			return false;
	}
	for (uint32_t i = 0; i < sm->shared.n_map; i++)
		if (sm->shared.version[i].dur > sm->shared.version[i].mem)
			return false;
	if (!ddr_member_set_formed(set) || set->member >= sm->shared.sb.members + (set->op == DDR_MEMBER_OP_ADD ? 1u : 0u) ||
	    (set->op && set->role >= sm->shared.sb.roles) ||
	    (set->op != DDR_MEMBER_OP_POLICY &&
	     set->cursor > (set->op == DDR_MEMBER_OP_GROW ? ddr_super_most_blocks(&sm->shared.sb) : sm->shared.sb.array_blocks)) || sm->shared.change.back >> sm->shared.sb.members)
		return false;
	if (ddr_super_ro_only(&sm->shared.sb) || sm->shared.change.mark > DDR_MARK_ALONE || (sm->shared.change.died && sm->shared.sb.parity) || sm->shared.change.exchanged >> sm->shared.sb.members)
		return false;
	return !(sm->shared.change.leaving >> sm->shared.sb.members) && !(sm->shared.change.leaving & ddr_sm_written(sm));
}

/* The received state is not trusted: nothing of it may be used or shown as the array's. @why: another reason to give up. */
static void state_drop(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_super *was, void (*why)(struct ddr_sm *))
{
	s->sb = *was;
	ddr_shared_sized(s);
	ddr_order_map_counts(s);
	memset(&s->change, 0, sizeof(s->change));
	memset(&s->owners, 0, sizeof(s->owners));
	memset(s->nodes, 0, sizeof(s->nodes));
	memset(&sm->own.t, 0, sizeof(sm->own.t));
	memset(s->ex, 0, sizeof(s->ex));
	memset(sm->own.drain, 0, sizeof(sm->own.drain));
	for (uint32_t i = 0; i < sm->shared.n_map; i++)
		ddr_order_version(s, i)->mem = ddr_order_version(s, i)->dur = sm->own.mapb[i].fly = 0;
	if (why)
		why(sm);
	ddr_sm_give_up(sm, "the state received from the other nodes is damaged, or belongs to another array" DDR_SM_START_ANEW);
}

static void state_take(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	struct ddr_sm_cluster *c = &sm->own.c;
	const struct ddr_super was = sm->shared.sb;

	if (ddr_sm_state_digest(c->buf, c->used) != c->digest || !ddr_sm_state_decode(sm, s, c->buf, c->used) || !state_valid(sm)) {
		state_drop(sm, s, &was, NULL);
		return;
	}
	if (ddr_sm_node_at(sm, sm->node) < 0) {
		state_drop(sm, s, &was, ddr_sm_no_place);
		return;
	}
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++) {
		struct ddr_sm_node *n = &s->nodes[i];

		ddr_shared_here(s, n, n->id && ddr_sm_viewer(sm, n->id));
		ddr_sm_peer(sm, n)->lost_at = sm->now;
	}
	for (uint32_t i = 0; i < sm->shared.n_map; i++) {
		sm->own.mapb[i].loaded = true;
		sm->own.mapb[i].fly = sm->shared.version[i].dur;
	}
	ddr_order_map_counts(s);
	ddr_sm_exclusions_known(sm);	/* by those who had the state, and STATE says it */
	ddr_sm_ex_adopt(sm);
	ddr_sm_members_known(sm, &was);
	c->synced = true;
}

static void all_synced(struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->own.c.n_view; i++)
		if (!sm->own.c.view[i].other)
			sm->own.c.view[i].synced = true;
	sm->own.c.transfer = false;
	sm->again = true;
}

void ddr_sm_state(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	struct ddr_sm_cluster *c = &sm->own.c;
	uint32_t at = c->delivered * DDR_STATE_DATA;

	if (c->phase != DDR_V_AGREED || !c->transfer || msg->state.epoch != c->epoch || msg->sender != c->provider)
		return;		/* of an earlier agreement */
	if (msg->state.index != c->delivered || at + msg->state.bytes > c->size) {
		ddr_sm_bug(sm, "a part of the group's state is out of order or too large");
		return;
	}
	c->delivered++;
	if (!c->synced) {
		memcpy(c->buf + at, msg->state.data, msg->state.bytes);
		c->used = at + msg->state.bytes;
		c->digest = msg->state.digest;
	}
	if (c->delivered < msg->state.count)
		return;
	if (!c->synced)
		state_take(sm, s);
	all_synced(sm);
}

/* A new view: an unfinished transfer starts again. */
void ddr_sm_join_view(struct ddr_sm *sm)
{
	sm->own.c.building = sm->own.c.merging = sm->own.c.merge_sent = false;
	sm->own.c.chunks = sm->own.c.sent = sm->own.c.delivered = sm->own.c.used = 0;
}

/* ---- reading the disks ------------------------------------------------------ */

static void reload(struct ddr_sm *sm)
{
	struct ddr_output *out;

	if (sm->own.c.reload_io || !ddr_sm_time(sm, sm->own.c.reload_at) || !ddr_sm_room(sm, 1))
		return;
	sm->own.c.reload_io = ddr_sm_io(sm, 0);
	sm->own.c.reload_epoch = sm->own.c.epoch;
	sm->own.c.disk_known = sm->own.c.disk_changed = false;
	memset(sm->own.c.disk_owner, 0, sizeof(sm->own.c.disk_owner));
	memset(sm->own.c.disk_cluster, 0, sizeof(sm->own.c.disk_cluster));
	for (uint32_t i = 0; i < sm->shared.n_map; i++)
		sm->own.mapb[i].loaded &= !sm->own.c.building;
	out = ddr_sm_out(sm, DDR_OUT_RELOAD);
	out->io = sm->own.c.reload_io;
	out->members = sm->own.present;
}

void ddr_sm_load_super(struct ddr_sm *sm, const struct ddr_super *sb)
{
	sm->own.c.disk = *sb;
	sm->own.c.disk_known = true;
}

/* Is it this array, with the shape that it was created with? */
static bool disk_valid(const struct ddr_sm *sm)
{
	const struct ddr_super *a = &sm->shared.sb, *b = &sm->own.c.disk;

	return sm->own.c.disk_known && ddr_super_check(b).code == DDR_FE_OK &&
	       !memcmp(a->array_uuid, b->array_uuid, sizeof(a->array_uuid)) && !ddr_super_geometry_differs(a, b) &&
	       a->slots == b->slots;
}

/*
 * A node that a verdict has excluded may own no slot by the disks any more, and still write to them: the superblocks that free its slot. It is lost
 * like an owner, until it is proven dead.
 */
static void exclusions_lost(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	for (uint32_t i = 0; i < sm->own.c.n_outs; i++) {
		struct ddr_sm_node *n = ddr_sm_place(sm, s, sm->own.c.outs[i]);

		if (n && !n->lost)
			ddr_sm_lose(sm, s, n, false);
	}
	ddr_sm_exclusions_agreed(sm, s);
}

/*
 * An owner of a slot counts as lost until it is here and has declared; or as dead, if the pages say that it was fenced or acknowledged, and that
 * nobody has started in the slot since. Then the slot is only to be recovered.
 */
static void owner_absent(struct ddr_sm *sm, struct ddr_sm_shared *s, uint32_t slot)
{
	struct ddr_sm_node *n = ddr_sm_place(sm, s, s->sb.slot_node[slot]);
	const struct ddr_sm_owner *o = &s->owners.slot[slot];

	if (!ddr_shared_owner_dead(s, slot)) {
		ddr_sm_lose(sm, s, n, true);
		return;
	}
	n->dead = true;
	n->cookie = o->fenced_cookie;
	n->cut_off = !o->fenced_cookie;
	memcpy(n->boot_id, o->fenced_boot_id, sizeof(n->boot_id));
	ddr_order_slot_died(s, slot);
	ddr_order_slot_recover(s, slot);
}

/* No node has the state, so it is built from the disks. */
static void build(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	struct ddr_sm_cluster *c = &sm->own.c;
	const struct ddr_super was = sm->shared.sb;

	c->building = false;
	ddr_sm_shared_forget(s);
	s->sb = c->disk;
	s->owned = ddr_super_has_owners(&s->sb);
	if (s->owned)
		ddr_owners_take(&s->owners, c->disk_owner, c->disk_cluster, s->sb.slots);
	memset(sm->own.errors, 0, sizeof(sm->own.errors));
	ddr_sm_members_known(sm, &was);
	ddr_shared_sized(s);
	ddr_sm_map_unread(sm, s);
	for (uint32_t i = 0; i < s->n_map; i++) {
		ddr_order_version(s, i)->mem = 1;
		sm->own.mapb[i].fly = ddr_order_version(s, i)->dur = 0;
	}
	ddr_order_map_counts(s);
	s->history = sm->own.ring;
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t e;

		memcpy(&e, sm->own.entropy + 8 * i, sizeof(e));
		s->history = ddr_sm_mix(s->history ^ e);
	}
	s->ring_history = s->history;
	/*
	 * owners of slots get places first: there are no more slots than places. Then this node, which builds the state, and then
	 * others while there are places
	 */
	for (uint32_t i = 0; i < s->sb.slots; i++)
		if (s->sb.slot_node[i])
			owner_absent(sm, s, i);
	exclusions_lost(sm, s);
	if (!ddr_sm_place(sm, s, sm->node)) {
		ddr_sm_no_place(sm);
		return;
	}
	for (uint32_t i = 0; i < c->n_view; i++) {
		struct ddr_sm_node *n = ddr_sm_place(sm, s, c->view[i].id);

		if (n)
			ddr_shared_here(s, n, true);
	}
	/* a member that the superblocks list as failed or missing may still be used by a kernel that does not know it */
	ddr_order_members_leave(s, ((1u << s->sb.members) - 1) & ~ddr_shared_written(s));
	c->writer_ready = false;
	c->synced = s->unproven = true;
	ddr_sm_viewer(sm, sm->node)->synced = true;
	c->transfer = c->n_view > 1;
	sm->again = true;
}

void ddr_sm_forget(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	struct ddr_sm_cluster *c = &sm->own.c;
	/* a member that failed on this node has failed, whatever the group knew; and errors of the kernel wait for the decision */
	struct ddr_sm_trans none = { .report_hard = sm->own.seen_hard, .report_soft = sm->own.seen_soft };

	memset(sm->own.peer, 0, sizeof(sm->own.peer));
	s->here = 0;
	ddr_sm_ex_forget(sm, s);
	sm->own.t = none;
	sm->own.rb.since = 0;
	ddr_sm_rebuild_view(sm);
	ddr_sm_seek_view(sm);
	ddr_sm_verify_view(sm);
	ddr_sm_use_view(sm);
	ddr_sm_grow_forget(sm);
	ddr_sm_shared_forget(s);
	c->reload_at = 0;
	c->synced = c->writer_ready = c->undo = c->rc_sent = c->leave_sent = c->leave_done = false;
	sm->own.start = DDR_S_OFF;
	sm->own.slot = DDR_SM_NO_SLOT;
	ddr_sm_join_view(sm);
	sm->again = true;
}

/*
 * No node takes part yet (that needs the first MEMBER_DONE), so nothing can be lost: all send HELLO again, without a state, and it is
 * built again.
 */
void ddr_sm_void(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	struct ddr_sm_cluster *c = &sm->own.c;

	if (!sm->shared.unproven || sm->own.start >= DDR_S_READ) {
		ddr_sm_bug(sm, "the group's state was declared void although nodes take part");
		return;
	}
	ddr_sm_forget(sm, s);
	for (uint32_t i = 0; i < c->n_view; i++)
		c->view[i].hello = c->view[i].synced = c->view[i].other = false;
	c->hello_sent = false;
	c->void_epoch = c->epoch;
	c->phase = DDR_V_HELLO;
}

/* The disks changed after the state was built from them: a node wrote later, and is proven dead only now. */
static bool voided(struct ddr_sm *sm)
{
	struct ddr_msg msg = { .type = DDR_M_HELLO };

	if (!sm->shared.unproven || (sm->own.c.disk.seq == sm->shared.sb.seq && !sm->own.c.disk_changed))
		return false;
	sm->own.c.reload_at = sm->now + RETRY_MS;
	if (!ddr_sm_may_send(sm))
		return true;
	msg.hello.view = sm->own.c.view_name;
	msg.hello.flags = DDR_HELLO_VOID;
	ddr_sm_send(sm, &msg);
	return true;
}

/*
 * Does a slot on the disks belong to a node that started on another side? Then our state is old, and our superblocks would take
 * the slot away, with its dirty regions (rule 12). A claim that we know of is one whose MEMBER_DONE was not delivered.
 */
static bool owner_unknown(const struct ddr_sm *sm)
{
	for (uint32_t s = 0; s < sm->shared.sb.slots; s++) {
		uint32_t id = sm->own.c.disk.slot_node[s];
		int at = ddr_sm_node_at(sm, id);

		if (!id || id == sm->shared.sb.slot_node[s] || (sm->shared.change.slots >> s & 1))
			continue;
		if (at < 0 || !(sm->shared.nodes[at].started || sm->shared.nodes[at].lost))
			return true;
	}
	return false;
}

void ddr_sm_reloaded(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_input *in)
{
	struct ddr_sm_cluster *c = &sm->own.c;

	if (!c->reload_io || in->io != c->reload_io) {
		ddr_sm_bug(sm, "a read of the dirty log or the region map ended that was never started");
		return;
	}
	c->reload_io = 0;
	sm->again = true;
	if (c->reload_epoch != c->epoch)
		return;		/* reads from before this agreement may be older than writes of the others */
	if (in->result || !c->disk_known) {
		c->reload_at = sm->now + RETRY_MS;
		return;
	}
	if (!disk_valid(sm)) {
		ddr_sm_give_up(sm, "the superblocks on the members no longer belong to this array. Find out what wrote to these disks (ddraid "
				   "examine DEV... shows what they hold) before you stop the array and start it again");
		return;
	}
	if (c->building) {
		build(sm, s);
	} else if (sm->shared.writer == sm->node && c->synced && !c->writer_ready && !voided(sm)) {
		if (owner_unknown(sm)) {
			ddr_sm_evict(sm, "the other nodes continued without this node" DDR_SM_START_ANEW);
			return;
		}
		ddr_sm_member_takeover(sm, &c->disk);
		c->merging = true;
		c->merge_at = 0;
	}
}

/*
 * May the disks be read for what the last writer left? Not while our own write is in flight, nor while any node is lost: on its side
 * the last writer may be proven dead, too, and the lost node may have become the writer.
 */
static bool at_peace(const struct ddr_sm *sm)
{
	return !sm->own.t.io && !sm->own.g.prep_io && !ddr_sm_any_lost(sm);
}

void ddr_sm_join_pump(struct ddr_sm *sm)
{
	const struct ddr_sm_cluster *c = &sm->own.c;

	if (c->phase != DDR_V_AGREED || !sm->own.quorate)
		return;
	/* a new process of the writer is not the writer before its START: until then its node is lost */
	if (c->building ||
	    (c->synced && sm->shared.writer == sm->node && sm->own.start >= DDR_S_DELIVERED && !c->writer_ready && !c->merging && at_peace(sm)))
		reload(sm);
	if (c->merging)
		ddr_sm_map_merge(sm);
	if (sends_state(sm))
		chunks_send(sm);
}
