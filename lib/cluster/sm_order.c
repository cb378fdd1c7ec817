// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What a delivered message changes of what all nodes share. These handlers are given that part and the message alone: they
 * cannot look at what only this node knows, so they come to the same on every node. What follows from a message for this
 * node (it was ours; our kernel must hear of it) is done behind that, by the file that asks for it (sm_view.c calls both).
 *
 * Must never: take a struct ddr_sm.
 */
#include "sm_int.h"

/* ---- exclusive ranges, changes of the members -------------------------------------- */

struct ddr_sm_ex *ddr_shared_ex_find(struct ddr_sm_shared *s, uint32_t node, uint32_t id)
{
	for (struct ddr_sm_ex *x = s->ex; x < s->ex + DDR_SM_EX; x++)
		if (x->used && x->node == node && x->id == id)
			return x;
	return NULL;
}

void ddr_order_ex_ack(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	struct ddr_sm_ex *x = ddr_shared_ex_find(s, msg->ex_ack.owner, msg->ex_ack.id);

	if (!x)
		return;		/* it was cancelled, and the acknowledgement is late */
	x->acked |= 1ull << ddr_shared_node_at(s, msg->sender);
	x->dirty |= msg->ex_ack.dirty;
}

const char *ddr_order_member_ack(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	if (!s->change.ack || msg->ack.seq != s->sb.seq)
		return "an acknowledgement of a change of the members that is not under way";
	s->change.acked |= 1ull << ddr_shared_node_at(s, msg->sender);
	return NULL;
}

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
		return "a member that does not exist is sought";
	if (s->sb.member[m].state == DDR_MEMBER_FAULTY || s->sb.member[m].state == DDR_MEMBER_MISSING)
		s->change.back |= 1u << m;
	return NULL;
}

void ddr_order_seen(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	uint32_t sees = msg->seen.members & ((1u << s->sb.members) - 1);

	for (uint32_t m = 0; m < s->sb.members; m++)
		if (s->sb.member[m].since > msg->seen.generation)
			sees &= ~(1u << m);	/* said before it went, or was another one */
	s->nodes[ddr_shared_node_at(s, msg->sender)].sees = sees;
}

bool ddr_order_room(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	struct ddr_sm_node *n = &s->nodes[ddr_shared_node_at(s, msg->sender)];

	/* the members are others by now: whoever said it looks again */
	if (!s->grow.by || msg->room.generation != s->sb.generation)
		return false;
	n->roomed = true;
	n->room = msg->room.bytes;
	n->room_member = msg->room.member;
	return true;
}

/* ---- the map ----------------------------------------------------------------------- */

const char *ddr_order_map_done(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	for (uint32_t i = 0; i < msg->map_done.n; i++) {
		const struct ddr_msg_map_done *d = &msg->map_done.block[i];

		if (d->block >= s->n_map || d->version > s->version[d->block].mem)
			return "a durable version of the map that does not exist";
	}
	for (uint32_t i = 0; i < msg->map_done.n; i++) {
		const struct ddr_msg_map_done *d = &msg->map_done.block[i];

		if (d->version > s->version[d->block].dur)
			s->version[d->block].dur = d->version;
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
		return false;	/* its sender should not have */
	switch (msg->verify.op) {
	case DDR_VERIFY_OP_START:
		if (v->state != DDR_VERIFY_NONE && (msg->verify.flags & DDR_VERIFY_F_SCHEDULED))
			return false;	/* somebody asked for one meanwhile */
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
			return false;	/* of one that was stopped meanwhile */
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
