// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Where the state of the group comes from: from disk at its start, from another node for
 * a joiner; and what a new writer has to learn from the disks.
 *
 * The provider (the lowest node that has the state) sends it as it is at the moment of
 * agreement: nobody changes it until the last chunk was delivered. A chunk has the
 * epoch, its number, how many there are, and the digest of all; with the last one
 * all joiners of the view have the state, at the same place in the order.
 *
 * A state built from the disks while somebody may still write them is not proven: nobody writes
 * until all owners of slots are here or proven dead. Then the writer reads again, and
 * if anything has changed, all begin anew (ddr_sm_void).
 *
 * Must never: take what was read from disk before this moment for the truth; go on with a
 * state that is not complete; let a node write superblocks or map before it knows
 * what the writer before it left there (rule 12).
 */
#include "sm_int.h"

#define STATE_FIXED	14336u	/* bytes, at most, of all but the map */
#define RETRY_MS	1000u

uint32_t ddr_sm_state_size(uint32_t n_map)
{
	return STATE_FIXED + n_map * (16 + DDR_LOG_PAYLOAD);
}

/* ---- the state as bytes -------------------------------------------------------- */

static void w8(struct ddr_walk *w, uint8_t *v)
{
	*v = (uint8_t)ddr_walk_int(w, *v, 1);
}

static void w16(struct ddr_walk *w, uint16_t *v)
{
	*v = (uint16_t)ddr_walk_int(w, *v, 2);
}

static void w32(struct ddr_walk *w, uint32_t *v)
{
	*v = (uint32_t)ddr_walk_int(w, *v, 4);
}

static void w64(struct ddr_walk *w, uint64_t *v)
{
	*v = ddr_walk_int(w, *v, 8);
}

static void flag(struct ddr_walk *w, bool *v)
{
	*v = ddr_walk_int(w, *v, 1) != 0;
}

static void walk_super(struct ddr_walk *w, struct ddr_super *sb)
{
	w64(w, &sb->generation);
	w64(w, &sb->seq);
	w64(w, &sb->log_base);
	w64(w, &sb->array_blocks);
	w32(w, &sb->policy);
	w32(w, &sb->ro_compat);
	ddr_walk_bytes(w, sb->gen_id, sizeof(sb->gen_id));
	ddr_walk_bytes(w, sb->gen_prev, sizeof(sb->gen_prev));
	w16(w, &sb->members);
	for (uint32_t i = 0; i < DDR_MAX_MEMBERS; i++) {
		struct ddr_member *m = &sb->member[i];

		ddr_walk_bytes(w, m->uuid, sizeof(m->uuid));
		w8(w, &m->state);
		w8(w, &m->flags);
		w16(w, &m->role);
		w64(w, &m->cursor);
		w64(w, &m->since);
		ddr_walk_bytes(w, m->last_gen, sizeof(m->last_gen));
	}
	for (uint32_t s = 0; s < sb->slots; s++)
		w32(w, &sb->slot_node[s]);
	w32(w, &sb->verify.serial);
	w8(w, &sb->verify.state);
	w8(w, &sb->verify.priority);
	w8(w, &sb->verify.flags);
	w64(w, &sb->verify.begun);
	w64(w, &sb->verify.ended);
	w64(w, &sb->verify.cursor);
	w64(w, &sb->verify.found);
	w64(w, &sb->verify.repaired);
}

static void walk_node(struct ddr_walk *w, struct ddr_sm_node *n)
{
	w32(w, &n->id);
	flag(w, &n->lost);
	flag(w, &n->started);
	flag(w, &n->leaving);
	flag(w, &n->absent);
	flag(w, &n->dead);
	flag(w, &n->folded);
	w32(w, &n->sees);
	flag(w, &n->roomed);
	w64(w, &n->room);
	w32(w, &n->room_member);
	w32(w, &n->leave_dirty);
	w32(w, &n->attempt);
	w64(w, &n->failure);
	ddr_walk_bytes(w, n->boot_id, sizeof(n->boot_id));
	w64(w, &n->cookie);
}

static void walk_range(struct ddr_walk *w, struct ddr_sm_ex *x)
{
	flag(w, &x->used);
	w32(w, &x->node);
	w32(w, &x->id);
	w64(w, &x->start);
	w64(w, &x->count);
	w64(w, &x->acked);
	w64(w, &x->dirty);
	flag(w, &x->granted);
}

/* A change of the members: what is wanted, and whether the last one still waits for acknowledgements. */
static void walk_change(struct ddr_walk *w, struct ddr_sm *sm)
{
	struct ddr_sm_trans *t = &sm->t;
	uint32_t faulty = t->want_faulty | t->faulty, missing = t->want_missing | t->missing;
	uint64_t slots = t->want_slots | t->slots;
	struct ddr_msg_member_set set = t->set.op ? t->set : t->want_set;
	bool ack = t->state == DDR_T_ACK && (ddr_sm_voters(sm) & ~t->acked) != 0;
	uint32_t leaving = ack || t->state != DDR_T_ACK ? t->leaving : 0;
	uint8_t mark = t->want_mark ? t->want_mark : t->mark;

	flag(w, &ack);
	w64(w, &t->acked);
	w32(w, &faulty);
	w32(w, &missing);
	w32(w, &leaving);
	w32(w, &t->exchanged);
	w64(w, &slots);
	w64(w, &t->died);
	w8(w, &mark);
	flag(w, &t->copy_void);
	for (uint32_t s = 0; s < DDR_MAX_SLOTS; s++)
		w32(w, &t->slot_node[s]);
	w32(w, &set.op);
	w32(w, &set.member);
	w32(w, &set.role);
	w64(w, &set.cursor);
	ddr_walk_bytes(w, set.uuid, sizeof(set.uuid));
	w32(w, &t->back);
	flag(w, &t->restart);
	if (w->write)
		return;
	t->want_set = set;
	t->want_mark = mark;
	t->mark = DDR_MARK_KEEP;
	memset(&t->set, 0, sizeof(t->set));
	t->state = ack ? DDR_T_ACK : DDR_T_IDLE;
	t->want_faulty = faulty;
	t->want_missing = missing;
	t->want_slots = slots;
	t->leaving = leaving;
}

/* The map, as far as there are regions; behind that it is zero everywhere. */
static void walk_map(struct ddr_walk *w, struct ddr_sm *sm)
{
	size_t all = (size_t)sm->n_map * DDR_LOG_PAYLOAD, used;

	for (uint32_t i = 0; i < sm->n_map; i++) {
		w64(w, &sm->mapb[i].mem);
		w64(w, &sm->mapb[i].dur);
	}
	if (w->c.bad || (!w->write && !ddr_sm_sized(sm))) {
		w->c.bad = true;
		return;
	}
	used = (size_t)((sm->regions + DDR_MAP_REGIONS - 1) / DDR_MAP_REGIONS) * DDR_LOG_PAYLOAD;
	ddr_walk_bytes(w, sm->map, used);
	if (!w->write)
		memset(sm->map + used, 0, all - used);
}

static void walk_state(struct ddr_walk *w, struct ddr_sm *sm)
{
	struct ddr_sm_cluster *c = &sm->c;

	w64(w, &c->history);
	w64(w, &c->ring_history);
	w32(w, &c->failures);
	w32(w, &c->writer);
	flag(w, &c->unproven);
	flag(w, &sm->failed);
	w64(w, &c->rec);
	for (uint32_t s = 0; s < DDR_MAX_SLOTS; s++)
		w32(w, &c->rec_by[s]);
	walk_super(w, &sm->sb);
	walk_change(w, sm);
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		walk_node(w, &sm->nodes[i]);
	for (uint32_t i = 0; i < DDR_SM_EX; i++)
		walk_range(w, &sm->ex[i]);
	w32(w, &sm->g.by);
	w64(w, &sm->g.want);
	walk_map(w, sm);
}

static uint64_t digest_of(const uint8_t *p, uint32_t n)
{
	uint64_t h = n;

	for (uint32_t i = 0; i < n; i += 8) {
		uint64_t v = 0;

		memcpy(&v, p + i, n - i < 8 ? n - i : 8);
		h = ddr_sm_mix(h ^ v);
	}
	return h;
}

bool ddr_sm_digest(struct ddr_sm *sm, uint8_t *buf, size_t size, uint64_t *place, uint64_t *digest)
{
	struct ddr_walk w = { { buf, buf + size, false }, true };

	if (!sm->c.on || !sm->c.synced || sm->c.phase != DDR_V_AGREED || sm->c.transfer)
		return false;
	walk_state(&w, sm);
	*place = ddr_sm_mix(ddr_sm_mix(sm->c.history ^ sm->c.epoch) ^ sm->ring);
	*digest = digest_of(buf, (uint32_t)(w.c.p - buf));
	return !w.c.bad;
}

/* ---- sending ------------------------------------------------------------------- */

static void state_pack(struct ddr_sm *sm)
{
	struct ddr_walk w = { { sm->c.buf, sm->c.buf + sm->c.size, false }, true };

	ddr_sm_settle(sm);
	walk_state(&w, sm);
	if (w.c.bad)
		sm->bug = true;
	sm->c.used = (uint32_t)(w.c.p - sm->c.buf);
	sm->c.digest = digest_of(sm->c.buf, sm->c.used);
	sm->c.chunks = (sm->c.used + DDR_STATE_DATA - 1) / DDR_STATE_DATA;
}

static void chunks_send(struct ddr_sm *sm)
{
	struct ddr_sm_cluster *c = &sm->c;
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

/* ---- receiving ----------------------------------------------------------------- */

static bool state_valid(const struct ddr_sm *sm)
{
	const struct ddr_msg_member_set *set = &sm->t.want_set;

	if (ddr_super_check(&sm->sb).code != DDR_FE_OK)
		return false;
	for (uint32_t i = 0; i < DDR_SM_EX; i++) {
		const struct ddr_sm_ex *x = &sm->ex[i];

		if (x->used && (x->count == 0 || x->count > DDR_EX_BLOCKS || x->start >= sm->sb.array_blocks ||
				x->count > sm->sb.array_blocks - x->start))
			return false;
	}
	for (uint32_t i = 0; i < sm->n_map; i++)
		if (sm->mapb[i].dur > sm->mapb[i].mem)
			return false;
	if (!ddr_member_set_formed(set) || set->member >= sm->sb.members + (set->op == DDR_MEMBER_OP_ADD ? 1u : 0u) ||
	    (set->op && set->role >= sm->sb.roles) ||
	    (set->op != DDR_MEMBER_OP_POLICY &&
	     set->cursor > (set->op == DDR_MEMBER_OP_GROW ? ddr_super_most_blocks(&sm->sb) : sm->sb.array_blocks)) || sm->t.back >> sm->sb.members)
		return false;
	if (ddr_super_ro_only(&sm->sb) || sm->t.want_mark > DDR_MARK_ALONE || (sm->t.died && sm->sb.parity) || sm->t.exchanged >> sm->sb.members)
		return false;
	return !(sm->t.leaving >> sm->sb.members) && !(sm->t.leaving & ddr_sm_written(sm));
}

/* What was received is not believed: nothing of it may be shown, or looked at, as if it were the array's. @why: another reason to give up. */
static void state_drop(struct ddr_sm *sm, const struct ddr_super *was, void (*why)(struct ddr_sm *))
{
	sm->sb = *was;
	ddr_sm_sized(sm);
	memset(&sm->t, 0, sizeof(sm->t));
	memset(sm->ex, 0, sizeof(sm->ex));
	for (uint32_t i = 0; i < sm->n_map; i++)
		sm->mapb[i].mem = sm->mapb[i].dur = sm->mapb[i].fly = 0;
	if (why)
		why(sm);
	ddr_sm_give_up(sm, "the state that the other nodes sent is damaged, or of another array" DDR_SM_START_ANEW);
}

static void state_take(struct ddr_sm *sm)
{
	struct ddr_sm_cluster *c = &sm->c;
	struct ddr_walk w = { { c->buf, c->buf + c->used, false }, false };
	const struct ddr_super was = sm->sb;

	if (digest_of(c->buf, c->used) == c->digest)
		walk_state(&w, sm);
	else
		w.c.bad = true;
	if (w.c.bad || w.c.p != w.c.end || !state_valid(sm)) {
		state_drop(sm, &was, NULL);
		return;
	}
	if (ddr_sm_node_at(sm, sm->node) < 0) {
		state_drop(sm, &was, ddr_sm_no_place);
		return;
	}
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++) {
		struct ddr_sm_node *n = &sm->nodes[i];

		n->here = n->id && ddr_sm_viewer(sm, n->id);
		n->lost_at = sm->now;
	}
	for (uint32_t i = 0; i < sm->n_map; i++) {
		sm->mapb[i].loaded = true;
		sm->mapb[i].fly = sm->mapb[i].dur;
	}
	ddr_sm_map_counts(sm);
	ddr_sm_ex_adopt(sm);
	ddr_sm_members_known(sm, &was);
	c->synced = true;
}

static void all_synced(struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < sm->c.n_view; i++)
		if (!sm->c.view[i].other)
			sm->c.view[i].synced = true;
	sm->c.transfer = false;
	sm->again = true;
}

void ddr_sm_state(struct ddr_sm *sm, const struct ddr_msg *msg)
{
	struct ddr_sm_cluster *c = &sm->c;
	uint32_t at = c->delivered * DDR_STATE_DATA;

	if (c->phase != DDR_V_AGREED || !c->transfer || msg->state.epoch != c->epoch || msg->sender != c->provider)
		return;		/* of an earlier agreement */
	if (msg->state.index != c->delivered || at + msg->state.bytes > c->size) {
		ddr_sm_bug(sm, "a chunk of the state that is out of order, or too large");
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
		state_take(sm);
	all_synced(sm);
}

/* Another view: what was on its way begins anew. */
void ddr_sm_join_view(struct ddr_sm *sm)
{
	sm->c.building = sm->c.merging = sm->c.merge_sent = false;
	sm->c.chunks = sm->c.sent = sm->c.delivered = sm->c.used = 0;
}

/* ---- reading the disks --------------------------------------------------------- */

static void reload(struct ddr_sm *sm)
{
	struct ddr_output *out;

	if (sm->c.reload_io || sm->now < sm->c.reload_at || !ddr_sm_room(sm, 1))
		return;
	sm->c.reload_io = ddr_sm_io(sm, 0);
	sm->c.reload_epoch = sm->c.epoch;
	sm->c.disk_known = sm->c.disk_changed = false;
	for (uint32_t i = 0; i < sm->n_map; i++)
		sm->mapb[i].loaded &= !sm->c.building;
	out = ddr_sm_out(sm, DDR_OUT_RELOAD);
	out->io = sm->c.reload_io;
	out->members = sm->present;
}

void ddr_sm_load_super(struct ddr_sm *sm, const struct ddr_super *sb)
{
	sm->c.disk = *sb;
	sm->c.disk_known = true;
}

/* Is it this array, as it was made? */
static bool disk_valid(const struct ddr_sm *sm)
{
	const struct ddr_super *a = &sm->sb, *b = &sm->c.disk;

	return sm->c.disk_known && ddr_super_check(b).code == DDR_FE_OK &&
	       !memcmp(a->array_uuid, b->array_uuid, sizeof(a->array_uuid)) && !ddr_super_geometry_differs(a, b) &&
	       a->slots == b->slots;
}

/* Nobody has the state: it is what is on disk. Every owner of a slot counts as failed until it is here and declared. */
static void build(struct ddr_sm *sm)
{
	struct ddr_sm_cluster *c = &sm->c;
	const struct ddr_super was = sm->sb;

	c->building = false;
	sm->sb = c->disk;
	ddr_sm_members_known(sm, &was);
	ddr_sm_sized(sm);
	ddr_sm_map_unread(sm);
	for (uint32_t i = 0; i < sm->n_map; i++) {
		sm->mapb[i].mem = 1;
		sm->mapb[i].fly = sm->mapb[i].dur = 0;
	}
	ddr_sm_map_counts(sm);
	c->history = sm->ring;
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t e;

		memcpy(&e, sm->entropy + 8 * i, sizeof(e));
		c->history = ddr_sm_mix(c->history ^ e);
	}
	c->ring_history = c->history;
	/* all owners have places: there are not more slots than these. Then come we, who build the state, and the others as far as there are places */
	for (uint32_t s = 0; s < sm->sb.slots; s++)
		if (sm->sb.slot_node[s])
			ddr_sm_lose(sm, ddr_sm_place(sm, sm->sb.slot_node[s]), true);
	if (!ddr_sm_place(sm, sm->node)) {
		ddr_sm_no_place(sm);
		return;
	}
	for (uint32_t i = 0; i < c->n_view; i++) {
		struct ddr_sm_node *n = ddr_sm_place(sm, c->view[i].id);

		if (n)
			n->here = true;
	}
	/* that the superblocks have a member out does not say that every kernel has heard of it */
	ddr_sm_members_leave(sm, ((1u << sm->sb.members) - 1) & ~ddr_sm_written(sm));
	c->writer = 0;
	c->writer_ready = false;
	c->synced = c->unproven = true;
	ddr_sm_viewer(sm, sm->node)->synced = true;
	c->transfer = c->n_view > 1;
	sm->again = true;
}

void ddr_sm_forget(struct ddr_sm *sm)
{
	struct ddr_sm_cluster *c = &sm->c;
	/* what failed here has failed, whatever the group knew of it; and the kernel's errors wait for the word on it */
	struct ddr_sm_trans none = { .report_hard = sm->seen_hard, .report_soft = sm->seen_soft };

	memset(sm->nodes, 0, sizeof(sm->nodes));
	ddr_sm_ex_forget(sm);
	sm->t = none;
	sm->rb.since = 0;
	ddr_sm_rebuild_view(sm);
	ddr_sm_seek_view(sm);
	ddr_sm_verify_view(sm);
	ddr_sm_use_view(sm);
	ddr_sm_grow_forget(sm);
	memset(c->rec_by, 0, sizeof(c->rec_by));
	c->rec = c->reload_at = 0;
	c->writer = 0;
	c->synced = c->unproven = c->writer_ready = c->undo = c->rc_sent = c->leave_sent = c->leave_done = false;
	sm->start = DDR_S_OFF;
	ddr_sm_join_view(sm);
	sm->again = true;
}

/*
 * Nobody takes part yet (that takes the first MEMBER_DONE), so there is nothing to lose: all say
 * hello once more, without a state, and it is built anew.
 */
void ddr_sm_void(struct ddr_sm *sm)
{
	struct ddr_sm_cluster *c = &sm->c;

	if (!c->unproven || sm->start >= DDR_S_READ) {
		ddr_sm_bug(sm, "the state of the group is called void while nodes take part");
		return;
	}
	ddr_sm_forget(sm);
	for (uint32_t i = 0; i < c->n_view; i++)
		c->view[i].hello = c->view[i].synced = c->view[i].other = false;
	c->hello_sent = false;
	c->void_epoch = c->epoch;
	c->phase = DDR_V_HELLO;
}

/* The disks are not as they were when the state was built from them: somebody wrote after that, and is proven dead only now. */
static bool voided(struct ddr_sm *sm)
{
	struct ddr_msg msg = { .type = DDR_M_HELLO };

	if (!sm->c.unproven || (sm->c.disk.seq == sm->sb.seq && !sm->c.disk_changed))
		return false;
	sm->c.reload_at = sm->now + RETRY_MS;
	if (!ddr_sm_may_send(sm))
		return true;
	msg.hello.view = sm->c.view_name;
	msg.hello.flags = DDR_HELLO_VOID;
	ddr_sm_send(sm, &msg);
	return true;
}

/*
 * Does a slot on the disks belong to a node that began where we were not? Then our state is old, and our superblocks would take
 * the slot away, with what is dirty in it (rule 12). A claim that we know of is one whose end nobody heard.
 */
static bool owner_unknown(const struct ddr_sm *sm)
{
	for (uint32_t s = 0; s < sm->sb.slots; s++) {
		uint32_t id = sm->c.disk.slot_node[s];
		int at = ddr_sm_node_at(sm, id);

		if (!id || id == sm->sb.slot_node[s] || ((sm->t.want_slots | sm->t.slots) >> s & 1))
			continue;
		if (at < 0 || !(sm->nodes[at].started || sm->nodes[at].lost))
			return true;
	}
	return false;
}

void ddr_sm_reloaded(struct ddr_sm *sm, const struct ddr_input *in)
{
	struct ddr_sm_cluster *c = &sm->c;

	if (!c->reload_io || in->io != c->reload_io) {
		ddr_sm_bug(sm, "the end of a reading that was not asked for");
		return;
	}
	c->reload_io = 0;
	sm->again = true;
	if (c->reload_epoch != c->epoch)
		return;		/* what was read before this agreement may be older than what the others wrote */
	if (in->result || !c->disk_known) {
		c->reload_at = sm->now + RETRY_MS;
		return;
	}
	if (!disk_valid(sm)) {
		ddr_sm_give_up(sm, "the superblocks on the members are not those of this array any more. Find out what wrote to these disks (ddraid examine shows what they "
				   "hold) before the array is stopped and started again");
		return;
	}
	if (c->building) {
		build(sm);
	} else if (c->writer == sm->node && c->synced && !c->writer_ready && !voided(sm)) {
		if (owner_unknown(sm)) {
			ddr_sm_evict(sm, "the others went on without this node" DDR_SM_START_ANEW);
			return;
		}
		ddr_sm_member_takeover(sm, &c->disk);
		c->merging = true;
		c->merge_at = 0;
	}
}

/*
 * May the disks be read for what the last writer left? Not while our own write is out, nor while anybody is lost: where it is,
 * the last writer may be proven dead, too, and it may have become the next one.
 */
static bool at_peace(const struct ddr_sm *sm)
{
	return !sm->t.io && !sm->g.prep_io && !ddr_sm_any_lost(sm);
}

void ddr_sm_join_pump(struct ddr_sm *sm)
{
	const struct ddr_sm_cluster *c = &sm->c;

	if (c->phase != DDR_V_AGREED || !sm->quorate)
		return;
	/* a new process of the writer is not the writer before its START: until then its node is lost */
	if (c->building ||
	    (c->synced && c->writer == sm->node && sm->start >= DDR_S_DELIVERED && !c->writer_ready && !c->merging && at_peace(sm)))
		reload(sm);
	if (c->merging)
		ddr_sm_map_merge(sm);
	if (c->synced && c->transfer && c->provider == sm->node)
		chunks_send(sm);
}
