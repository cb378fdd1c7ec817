// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What a delivered message changes in the shared state: reports about devices and the rebuild, growing, the
 * region map, and the record of the verify.
 *
 * Must never: take a struct ddr_sm.
 */
#include "sm_int.h"

void ddr_order_folded(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	uint32_t m = ddr_shared_rebuilding(s);

	if (m != DDR_NO_MEMBER && s->sb.member[m].since == msg->folded.since)
		s->nodes[ddr_shared_node_at(s, msg->sender)].folded = true;
}

/* ---- devices ----------------------------------------------------------------------- */

const char *ddr_order_seek(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	uint32_t m = msg->seek.member;

	if (m >= s->sb.members)
		return "a member is searched for that does not exist";
	if (s->sb.member[m].state == DDR_MEMBER_FAULTY || s->sb.member[m].state == DDR_MEMBER_MISSING)
		s->change.back |= 1u << m;
	return NULL;
}

void ddr_order_seen(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	uint32_t sees = msg->seen.members & ((1u << s->sb.members) - 1);

	for (uint32_t m = 0; m < s->sb.members; m++)
		if (s->sb.member[m].since > msg->seen.generation)
			sees &= ~(1u << m);	/* reported before the member left, or about another one */
	s->nodes[ddr_shared_node_at(s, msg->sender)].sees = sees;
}

bool ddr_order_room(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	struct ddr_sm_node *n = &s->nodes[ddr_shared_node_at(s, msg->sender)];

	/* the members have changed: the sender measures again */
	if (!s->grow.by || msg->room.generation != s->sb.generation)
		return false;
	n->roomed = true;
	n->room = msg->room.bytes;
	n->room_member = msg->room.member;
	return true;
}

/* ---- growing ----------------------------------------------------------------------- */

const char ddr_grow_has_it[] = "the array already has that size, and arrays cannot shrink";

void ddr_order_room_void(struct ddr_sm_shared *s)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		s->nodes[i].roomed = false;
}

void ddr_order_grow_end(struct ddr_sm_shared *s)
{
	ddr_order_room_void(s);
	s->grow.by = 0;
	s->grow.want = 0;
}

const char *ddr_order_grow(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	const char *why = s->grow.by || ddr_shared_growing(s) ? "the array is already growing" : ddr_shared_room_not_now(s);

	if (!why && msg->grow.blocks && msg->grow.blocks <= s->sb.array_blocks)
		why = ddr_grow_has_it;	/* it has grown since the request */
	if (why)
		return why;
	ddr_order_grow_end(s);
	s->grow.by = msg->sender;
	s->grow.want = msg->grow.blocks;
	return NULL;
}

bool ddr_order_grow_settle(struct ddr_sm_shared *s, struct ddr_order_small *n)
{
	const struct ddr_sm_node *min = ddr_shared_room_least(s);

	if (!s->grow.by || ddr_shared_growing(s) || ddr_shared_room_target(s))
		return false;
	*n = (struct ddr_order_small){ .by = s->grow.by, .want = s->grow.want, .why = ddr_shared_room_not_now(s) };
	if (!n->why && !min)
		return false;
	if (!n->why && ddr_shared_room_fits(s, min->room) < ddr_super_blocks_in(&s->sb, min->room)) {
		n->why = "the dirty log and the region map have no room for more regions";
	} else if (!n->why) {
		n->why = "a member's device is too small";
		n->node = min;
	}
	ddr_order_grow_end(s);
	return true;
}

/* ---- the map ----------------------------------------------------------------------- */

bool ddr_order_map_set(const struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	for (uint32_t i = 0; i < msg->map_set.n; i++) {
		const struct ddr_msg_map_run *r = &msg->map_set.run[i];

		if (r->start >= s->regions || r->count > s->regions - r->start)
			return false;
	}
	return true;
}

bool ddr_order_map_region(struct ddr_sm_shared *s, uint64_t region, uint32_t op, bool *suspect)
{
	uint8_t old = ddr_shared_nibble(s, region), nibble = ddr_sm_map_apply(old, op);

	if (nibble == old)
		return false;
	ddr_shared_nibble_set(s, region, nibble);
	ddr_order_version(s, region / DDR_MAP_REGIONS)->mem++;
	*suspect = (nibble & DDR_REGION_F_SUSPECT) && !(old & DDR_REGION_F_SUSPECT);
	return true;
}

const char *ddr_order_map_done(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	for (uint32_t i = 0; i < msg->map_done.n; i++) {
		const struct ddr_msg_map_done *d = &msg->map_done.block[i];

		if (d->block >= s->n_map || d->version > s->version[d->block].mem)
			return "a version of the region map became durable that does not exist";
	}
	for (uint32_t i = 0; i < msg->map_done.n; i++) {
		const struct ddr_msg_map_done *d = &msg->map_done.block[i];

		if (d->version > s->version[d->block].dur)
			ddr_order_version(s, d->block)->dur = d->version;
	}
	return NULL;
}

/* ---- verify ------------------------------------------------------------------------ */

static void start(struct ddr_verify *v, const struct ddr_msg *msg)
{
	if (v->state == DDR_VERIFY_NONE) {
		v->serial = v->serial < UINT32_MAX ? v->serial + 1 : 1;
		v->begun = msg->verify.time;
		v->cursor = v->found = v->repaired = 0;
	}
	v->state = DDR_VERIFY_RUNNING;
	v->priority = (uint8_t)msg->verify.priority;
	v->flags = (uint8_t)msg->verify.flags;
}

static void end(struct ddr_verify *v)
{
	v->state = DDR_VERIFY_NONE;
	v->priority = v->flags = 0;
	v->cursor = 0;
}

bool ddr_order_verify(struct ddr_sm_shared *s, const struct ddr_msg *msg, enum ddr_event *told)
{
	struct ddr_verify *v = &s->sb.verify;
	bool its = v->state != DDR_VERIFY_NONE && msg->verify.serial == v->serial;

	*told = DDR_EV_BUG;
	if (s->sb.parity == 0)
		return false;	/* its sender should not have sent it */
	switch (msg->verify.op) {
	case DDR_VERIFY_OP_START:
		if (v->state != DDR_VERIFY_NONE && (msg->verify.flags & DDR_VERIFY_F_SCHEDULED))
			return false;	/* a new verify was requested meanwhile */
		start(v, msg);
		*told = DDR_EV_VERIFY_START;
		return true;
	case DDR_VERIFY_OP_PAUSE:
		if (v->state != DDR_VERIFY_RUNNING)
			return false;
		v->state = DDR_VERIFY_PAUSED;
		*told = DDR_EV_VERIFY_PAUSED;
		return true;
	case DDR_VERIFY_OP_STOP:
		if (v->state == DDR_VERIFY_NONE)
			return false;
		end(v);
		*told = DDR_EV_VERIFY_STOPPED;
		return true;
	case DDR_VERIFY_OP_PROGRESS:
	case DDR_VERIFY_OP_DONE:
		if (!its || msg->verify.cursor < v->cursor || msg->verify.cursor > s->sb.array_blocks)
			return false;	/* about a verify that was stopped meanwhile */
		v->cursor = msg->verify.cursor;
		v->found += msg->verify.found;
		v->repaired += msg->verify.repaired;
		if (msg->verify.op == DDR_VERIFY_OP_PROGRESS)
			return true;
		v->ended = msg->verify.time;
		end(v);
		*told = DDR_EV_VERIFY_DONE;
		return true;
	}
	return false;
}
