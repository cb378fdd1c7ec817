// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Codec of the messages of a node's daemon about itself. As in msg.c, one function walks each body for both directions.
 *
 * Must never: read or write beyond the cursor's end, or use a count before it was compared with its limit.
 */
#include <string.h>

#include "lib/wire/msg.h"
#include "lib/wire/node_msg.h"

static uint16_t walk16(struct ddr_walk *w, uint16_t v)
{
	return (uint16_t)ddr_walk_int(w, v, 2);
}

static uint32_t walk32(struct ddr_walk *w, uint32_t v)
{
	return (uint32_t)ddr_walk_int(w, v, 4);
}

static uint64_t walk64(struct ddr_walk *w, uint64_t v)
{
	return ddr_walk_int(w, v, 8);
}

static void walk_zero(struct ddr_walk *w)
{
	if (ddr_walk_int(w, 0, 4))
		w->c.bad = true;
}

static void walk_ride(struct ddr_walk *w, struct ddr_ride *r)
{
	ddr_walk_bytes(w, r->uuid, sizeof(r->uuid));
	r->number = walk32(w, r->number);
	walk_zero(w);
	if (r->number == 0)
		w->c.bad = true;
}

/* No node has the id 0. */
static void walk_process(struct ddr_walk *w, struct ddr_group_id *p)
{
	p->node = walk32(w, p->node);
	p->pid = walk32(w, p->pid);
	if (p->node == 0)
		w->c.bad = true;
}

static void walk_round(struct ddr_walk *w, struct ddr_node_round *r)
{
	r->ring = walk64(w, r->ring);
	r->newest.node = walk32(w, r->newest.node);
	r->newest.pid = walk32(w, r->newest.pid);
}

/* Of a release that says nothing of its machine the message ends before. */
static void walk_ids(struct ddr_walk *w, struct ddr_node_hello *h)
{
	if (!w->write && w->c.p == w->c.end) {
		memset(h->machine, 0, sizeof(h->machine));
		memset(h->cluster, 0, sizeof(h->cluster));
		h->proposed = false;
		h->promised = h->ballot = 0;
		return;
	}
	ddr_walk_bytes(w, h->machine, sizeof(h->machine));
	ddr_walk_bytes(w, h->cluster, sizeof(h->cluster));
	h->proposed = walk32(w, w->write && h->proposed ? DDR_NODE_PROPOSED : 0) & DDR_NODE_PROPOSED;
	walk32(w, 0);
	h->promised = walk64(w, h->promised);
	h->ballot = walk64(w, h->ballot);
	if (h->promised > DDR_BALLOT_MAX || h->ballot > h->promised)
		w->c.bad = true;
}

/* Flags that a later release adds are nothing to this one. */
static void walk_hello(struct ddr_walk *w, struct ddr_node_hello *h)
{
	h->lowest = walk16(w, h->lowest);
	h->highest = walk16(w, h->highest);
	h->lowest_format = walk16(w, h->lowest_format);
	h->highest_format = walk16(w, h->highest_format);
	h->n = walk32(w, h->n);
	h->n_out = walk32(w, h->n_out);
	h->version = walk16(w, h->version);
	h->flags = walk16(w, h->flags);
	walk_round(w, &h->round);
	if (h->lowest == 0 || h->lowest > h->highest || h->n > DDR_NODE_RIDES || h->n_out > DDR_NODE_OUTS)
		w->c.bad = true;
	for (uint32_t i = 0; i < h->n && !w->c.bad; i++)
		walk_ride(w, &h->ride[i]);
	for (uint32_t i = 0; i < h->n_out && !w->c.bad; i++)
		walk_process(w, &h->out[i]);
	if (!w->c.bad)
		walk_ids(w, h);
}

static void walk_debt(struct ddr_walk *w, struct ddr_node_debt *d)
{
	ddr_walk_bytes(w, d->uuid, sizeof(d->uuid));
	d->kind = (uint8_t)ddr_walk_int(w, d->kind, 1);
	d->why = (uint8_t)ddr_walk_int(w, d->why, 1);
	walk16(w, 0);
	d->node = walk32(w, d->node);
	d->since_ms = walk32(w, d->since_ms);
	d->quiet_ms = walk32(w, d->quiet_ms);
	if (d->kind == 0 || d->node == 0 || d->quiet_ms > d->since_ms)
		w->c.bad = true;
}

/* Of a release that says nothing of debts the message ends before. */
static void walk_pulse(struct ddr_walk *w, struct ddr_node_pulse *p)
{
	p->counter = walk64(w, p->counter);
	if (p->counter == 0)
		w->c.bad = true;
	if (!w->write && w->c.p == w->c.end) {
		p->debts.n = p->debts.total = 0;
		return;
	}
	p->debts.n = walk32(w, p->debts.n);
	p->debts.total = walk32(w, p->debts.total);
	if (p->debts.n > DDR_NODE_DEBTS || p->debts.total < p->debts.n)
		w->c.bad = true;
	for (uint32_t i = 0; i < p->debts.n && !w->c.bad; i++)
		walk_debt(w, &p->debts.debt[i]);
}

static void walk_voters(struct ddr_walk *w, struct ddr_node_verdict *v)
{
	for (uint32_t i = 0; !w->c.bad && i < v->n; i++) {
		v->node[i].node = walk32(w, v->node[i].node);
		v->node[i].votes = walk32(w, v->node[i].votes);
		w->c.bad |= v->node[i].node == 0;
		for (uint32_t j = 0; j < i; j++)
			w->c.bad |= v->node[j].node == v->node[i].node;
	}
}

static void walk_owed(struct ddr_walk *w, struct ddr_node_owed *o)
{
	ddr_walk_bytes(w, o->uuid, sizeof(o->uuid));
	o->kind = (uint8_t)ddr_walk_int(w, o->kind, 1);
	if (ddr_walk_int(w, 0, 1) || walk16(w, 0))
		w->c.bad = true;
	o->ms = walk32(w, o->ms);
	if (o->kind == 0 || o->ms == 0)
		w->c.bad = true;
}

static void walk_verdict(struct ddr_walk *w, struct ddr_node_verdict *v)
{
	v->ring = walk64(w, v->ring);
	v->name = walk64(w, v->name);
	walk_process(w, &v->process);
	v->total = walk32(w, v->total);
	v->quorum = walk32(w, v->quorum);
	v->flags = walk32(w, v->flags);
	v->n = walk32(w, v->n);
	if (v->flags & ~(DDR_VERDICT_TWO_NODE | DDR_VERDICT_NO_SLOT | DDR_VERDICT_OWES) || v->n > DDR_NODE_VOTERS)
		w->c.bad = true;
	walk_voters(w, v);
	if (v->flags & DDR_VERDICT_OWES && !w->c.bad)
		walk_owed(w, &v->owed);
	else
		v->owed = (struct ddr_node_owed){ .kind = 0 };
}

static bool walk_body(struct ddr_walk *w, struct ddr_node_msg *m)
{
	switch (m->type) {
	case DDR_N_HELLO:
		walk_hello(w, &m->hello);
		break;
	case DDR_N_READY:
		m->ready.turn = walk64(w, m->ready.turn);
		walk_round(w, &m->ready.round);
		break;
	case DDR_N_RIDE:
	case DDR_N_OFF:
		walk_ride(w, &m->ride);
		break;
	case DDR_N_PULSE:
		walk_pulse(w, &m->pulse);
		break;
	case DDR_N_VERDICT:
		walk_verdict(w, &m->verdict);
		break;
	default:
		return false;
	}
	return !w->c.bad;
}

static struct ddr_walk begin(const uint8_t *buf, size_t len, bool write)
{
	/* a walk that reads never writes through its cursor */
	return (struct ddr_walk){ .c = { .p = (uint8_t *)(uintptr_t)buf, .end = buf + len }, .write = write };
}

bool ddr_node_msg_is(const uint8_t *buf, size_t len)
{
	struct ddr_walk w = begin(buf, len, false);

	return walk32(&w, 0) == DDR_NODE_MAGIC && !w.c.bad;
}

size_t ddr_node_msg_encode(const struct ddr_node_msg *msg, uint8_t *buf, size_t size)
{
	struct ddr_walk w = begin(buf, size, true);
	struct ddr_node_msg m = *msg;
	uint8_t *length;

	walk32(&w, DDR_NODE_MAGIC);
	walk16(&w, DDR_NODE_VERSION);
	walk16(&w, (uint16_t)m.type);
	length = w.c.p;
	walk32(&w, 0);
	walk32(&w, m.sender);
	if (w.c.bad || !walk_body(&w, &m))
		return 0;
	size = (size_t)(w.c.p - buf);
	w.c = (struct ddr_cursor){ .p = length, .end = length + 4 };
	walk32(&w, (uint32_t)size);
	return size;
}

static bool may_be_longer(enum ddr_node_msg_type type)
{
	return type == DDR_N_HELLO || type == DDR_N_PULSE;
}

const char *ddr_node_msg_decode(const uint8_t *buf, size_t len, struct ddr_node_msg *msg)
{
	struct ddr_walk w = begin(buf, len, false);
	uint32_t magic = walk32(&w, 0), length;
	uint16_t version = walk16(&w, 0);

	msg->type = (enum ddr_node_msg_type)walk16(&w, 0);
	length = walk32(&w, 0);
	msg->sender = walk32(&w, 0);
	if (w.c.bad || magic != DDR_NODE_MAGIC)
		return "no message of a ddraidd";
	if (version != DDR_NODE_VERSION && msg->type != DDR_N_HELLO)
		return "message of a node in another version";
	if (length != len)
		return "message of a node with a wrong length";
	if (!walk_body(&w, msg) || (!may_be_longer(msg->type) && w.c.p != w.c.end))
		return "malformed message of a node";
	return NULL;
}
