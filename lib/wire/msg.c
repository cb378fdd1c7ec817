// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Codec of the group's messages. One function walks each body both for reading and for writing, so that the two
 * cannot differ.
 *
 * Must never: read or write beyond the cursor's end, or use a count before it was compared with its limit.
 */
#include <endian.h>
#include <string.h>

#include "lib/math/uuid.h"
#include "lib/wire/msg.h"

static uint8_t *take(struct ddr_walk *w, size_t n)
{
	uint8_t *p = w->c.p;

	if (w->c.bad || (size_t)(w->c.end - p) < n) {
		w->c.bad = true;
		return NULL;
	}
	w->c.p += n;
	return p;
}

uint64_t ddr_walk_int(struct ddr_walk *w, uint64_t v, unsigned int bytes)
{
	uint64_t le = w->write ? htole64(v) : 0;

	ddr_walk_bytes(w, (uint8_t *)&le, bytes);
	return w->c.bad ? 0 : le64toh(le);
}

static void walk8(struct ddr_walk *w, uint8_t *v)
{
	*v = (uint8_t)ddr_walk_int(w, *v, 1);
}

static void walk16(struct ddr_walk *w, uint16_t *v)
{
	*v = (uint16_t)ddr_walk_int(w, *v, 2);
}

static void walk32(struct ddr_walk *w, uint32_t *v)
{
	*v = (uint32_t)ddr_walk_int(w, *v, 4);
}

static void walk64(struct ddr_walk *w, uint64_t *v)
{
	*v = ddr_walk_int(w, *v, 8);
}

void ddr_walk_bytes(struct ddr_walk *w, uint8_t *v, size_t n)
{
	uint8_t *p = take(w, n);

	if (!p)
		return;
	if (w->write)
		memcpy(p, v, n);
	else
		memcpy(v, p, n);
}

/* A field that must be zero in this version. */
static void walk_zero(struct ddr_walk *w, unsigned int bytes)
{
	if (ddr_walk_int(w, 0, bytes))
		w->c.bad = true;
}

static bool walk_count(struct ddr_walk *w, uint32_t *n, uint32_t max)
{
	walk32(w, n);
	if (!w->c.bad && (*n == 0 || *n > max))
		w->c.bad = true;
	return !w->c.bad;
}

static void walk_map_set(struct ddr_walk *w, struct ddr_msg *m)
{
	walk32(w, &m->map_set.id);
	if (!walk_count(w, &m->map_set.n, DDR_MAP_RUNS))
		return;
	for (uint32_t i = 0; i < m->map_set.n; i++) {
		struct ddr_msg_map_run *r = &m->map_set.run[i];

		walk32(w, &r->start);
		walk32(w, &r->count);
		walk32(w, &r->op);
		if (r->count == 0 || r->op < DDR_MAP_OP_WRITTEN || r->op > DDR_MAP_OP_DOUBT)
			w->c.bad = true;
	}
}

static void walk_map_done(struct ddr_walk *w, struct ddr_msg *m)
{
	if (!walk_count(w, &m->map_done.n, DDR_MAP_DONES))
		return;
	walk_zero(w, 4);
	for (uint32_t i = 0; i < m->map_done.n; i++) {
		walk32(w, &m->map_done.block[i].block);
		walk_zero(w, 4);
		walk64(w, &m->map_done.block[i].version);
	}
}

/* What only the version has that a build with DDRAID_NEXT_VERSION speaks: its number once more. */
static void walk_next(struct ddr_walk *w, const struct ddr_msg *m)
{
	if (DDR_MSG_HIGHEST > DDR_MSG_VERSION && m->version > DDR_MSG_VERSION && ddr_walk_int(w, m->version, 4) != m->version)
		w->c.bad = true;
}

static void walk_hello(struct ddr_walk *w, struct ddr_msg *m)
{
	walk64(w, &m->hello.view);
	walk64(w, &m->hello.history);
	walk32(w, &m->hello.flags);
	walk32(w, &m->hello.shared);
	walk32(w, &m->hello.undo_epoch);
	walk32(w, &m->hello.n_out);
	walk64(w, &m->hello.undo_history);
	ddr_walk_bytes(w, m->hello.machine, sizeof(m->hello.machine));
	walk32(w, &m->hello.settle);
	walk_zero(w, 4);
	if (m->hello.flags & ~(DDR_HELLO_SYNCED | DDR_HELLO_VOID | DDR_HELLO_UNPROVEN | DDR_HELLO_ACTIVE | DDR_HELLO_ALONE | DDR_HELLO_UNDO) ||
	    m->hello.n_out > DDR_HELLO_OUTS || m->hello.settle > DDR_HELLO_SETTLE)
		w->c.bad = true;
	for (uint32_t i = 0; i < m->hello.n_out && !w->c.bad; i++) {
		walk32(w, &m->hello.out[i]);
		if (!m->hello.out[i])
			w->c.bad = true;
	}
	walk_next(w, m);
}

static void walk_state(struct ddr_walk *w, struct ddr_msg *m)
{
	walk64(w, &m->state.digest);
	walk32(w, &m->state.epoch);
	walk32(w, &m->state.index);
	walk32(w, &m->state.count);
	if (walk_count(w, &m->state.bytes, DDR_STATE_DATA))
		ddr_walk_bytes(w, m->state.data, m->state.bytes);
	if (m->state.index >= m->state.count)
		w->c.bad = true;
}

bool ddr_member_op_names(uint32_t op)
{
	return op == DDR_MEMBER_OP_ADD || op == DDR_MEMBER_OP_REMOVE;
}

/* Operations that concern no member. */
static bool of_none(uint32_t op)
{
	return !op || op == DDR_MEMBER_OP_RECORD || op == DDR_MEMBER_OP_GROW || op == DDR_MEMBER_OP_POLICY;
}

static bool cursor_formed(const struct ddr_msg_member_set *s)
{
	switch (s->op) {
	case DDR_MEMBER_OP_CURSOR: return true;
	case DDR_MEMBER_OP_GROW: return s->cursor != 0;
	case DDR_MEMBER_OP_POLICY: return !(s->cursor & ~(uint64_t)DDR_POLICY_ALL);
	}
	return !s->cursor;
}

bool ddr_member_set_formed(const struct ddr_msg_member_set *s)
{
	bool has_role = s->op == DDR_MEMBER_OP_TAKE || s->op == DDR_MEMBER_OP_REPLACE;

	return (s->op <= DDR_MEMBER_OP_STAY || of_none(s->op)) && (!of_none(s->op) || !s->member) && (has_role || !s->role) && cursor_formed(s) &&
	       ddr_uuid_is_zero(s->uuid) == !ddr_member_op_names(s->op);
}

static void walk_set(struct ddr_walk *w, struct ddr_msg_member_set *s)
{
	walk32(w, &s->op);
	walk32(w, &s->member);
	walk32(w, &s->role);
	walk_zero(w, 4);
	walk64(w, &s->cursor);
	ddr_walk_bytes(w, s->uuid, sizeof(s->uuid));
	if (!ddr_member_set_formed(s))
		w->c.bad = true;
}

static void walk_done(struct ddr_walk *w, struct ddr_msg *m)
{
	walk64(w, &m->done.generation);
	walk64(w, &m->done.seq);
	ddr_walk_bytes(w, m->done.gen_id, sizeof(m->done.gen_id));
	ddr_walk_bytes(w, m->done.gen_prev, sizeof(m->done.gen_prev));
	walk32(w, &m->done.faulty);
	walk32(w, &m->done.missing);
	walk64(w, &m->done.slots);
	for (uint32_t s = 0; s < DDR_MAX_SLOTS; s++) {
		walk32(w, &m->done.owner[s]);
		if (m->done.owner[s] && !(m->done.slots >> s & 1))
			w->c.bad = true;
	}
	walk32(w, &m->done.mark);
	walk32(w, &m->done.changes);
	if (m->done.mark > DDR_MARK_ALONE)
		w->c.bad = true;
	walk_set(w, &m->done.set);
}

/* Fields that do not belong to the operation must be zero. */
static void walk_verify(struct ddr_walk *w, struct ddr_msg *m)
{
	bool start, told;

	walk32(w, &m->verify.op);
	walk32(w, &m->verify.priority);
	walk32(w, &m->verify.flags);
	walk32(w, &m->verify.serial);
	walk64(w, &m->verify.time);
	walk64(w, &m->verify.cursor);
	walk64(w, &m->verify.found);
	walk64(w, &m->verify.repaired);
	start = m->verify.op == DDR_VERIFY_OP_START;
	told = m->verify.op == DDR_VERIFY_OP_PROGRESS || m->verify.op == DDR_VERIFY_OP_DONE;
	if (m->verify.op < DDR_VERIFY_OP_START || m->verify.op > DDR_VERIFY_OP_DONE || (m->verify.flags & ~DDR_VERIFY_F_ALL) ||
	    (start ? m->verify.priority < 1 || m->verify.priority > 5 : m->verify.priority || m->verify.flags) ||
	    (!start && m->verify.op != DDR_VERIFY_OP_DONE && m->verify.time) ||
	    (!told && (m->verify.serial || m->verify.cursor || m->verify.found || m->verify.repaired)))
		w->c.bad = true;
}

/* A node's name: printable ASCII, ended and filled up with NUL. It is written to the superblocks' pages, and shown on terminals. */
static void walk_name(struct ddr_walk *w, char name[DDR_NODE_NAME])
{
	size_t n;

	ddr_walk_bytes(w, (uint8_t *)name, DDR_NODE_NAME);
	n = strnlen(name, DDR_NODE_NAME);
	for (size_t i = 0; i < n; i++)
		if (name[i] < ' ' || name[i] > '~')
			w->c.bad = true;
	for (size_t i = n; i < DDR_NODE_NAME; i++)
		if (name[i])
			w->c.bad = true;
	if (n == DDR_NODE_NAME)
		w->c.bad = true;
}

static void walk_start(struct ddr_walk *w, struct ddr_msg *m)
{
	walk32(w, &m->start.slot);
	walk32(w, &m->start.missing);
	walk64(w, &m->start.cookie);
	ddr_walk_bytes(w, m->start.boot_id, sizeof(m->start.boot_id));
	walk32(w, &m->start.present);
	walk32(w, &m->start.held);
	walk64(w, &m->start.room);
	walk32(w, &m->start.flags);
	walk_zero(w, 4);
	if (m->start.flags & ~DDR_START_FLAGS)
		w->c.bad = true;
	walk64(w, &m->start.time);
	ddr_walk_bytes(w, m->start.machine, sizeof(m->start.machine));
	ddr_walk_bytes(w, m->start.cluster, sizeof(m->start.cluster));
	walk_name(w, m->start.name);
}

/* It is nothing without the ids by which it is judged. */
static void walk_gone(struct ddr_walk *w, struct ddr_msg *m)
{
	walk32(w, &m->gone.node);
	walk_zero(w, 4);
	walk64(w, &m->gone.failure);
	walk64(w, &m->gone.time);
	walk64(w, &m->gone.cookie);
	ddr_walk_bytes(w, m->gone.boot_id, sizeof(m->gone.boot_id));
	ddr_walk_bytes(w, m->gone.machine, sizeof(m->gone.machine));
	if (!m->gone.node || ddr_uuid_is_zero(m->gone.boot_id) || ddr_uuid_is_zero(m->gone.machine))
		w->c.bad = true;
}

/* The body of m->type; false: there is no such type. */
static bool walk_body(struct ddr_walk *w, struct ddr_msg *m)
{
	switch (m->type) {
	case DDR_M_START:
		walk_start(w, m);
		return true;
	case DDR_M_HELLO:
		walk_hello(w, m);
		return true;
	case DDR_M_STATE:
		walk_state(w, m);
		return true;
	case DDR_M_LEAVE:
		walk32(w, &m->leave.slot);
		walk32(w, &m->leave.dirty);
		walk64(w, &m->leave.time);
		return true;
	case DDR_M_FENCED:
		walk32(w, &m->fenced.node);
		walk32(w, &m->fenced.how);
		walk64(w, &m->fenced.failure);
		walk64(w, &m->fenced.time);
		if (m->fenced.how < DDR_FENCED_AGENT || m->fenced.how > DDR_FENCED_STORAGE)
			w->c.bad = true;
		return true;
	case DDR_M_RECOVER:
		walk32(w, &m->recover.slot);
		walk_zero(w, 4);
		return true;
	case DDR_M_RECOVERED:
		walk32(w, &m->recover.slot);
		walk_zero(w, 4);
		walk64(w, &m->recover.cookie);
		ddr_walk_bytes(w, m->recover.boot_id, sizeof(m->recover.boot_id));
		walk64(w, &m->recover.time);
		return true;
	case DDR_M_RENEWED:
		walk32(w, &m->renewed.slot);
		walk_zero(w, 4);
		walk64(w, &m->renewed.seq);
		if (!m->renewed.seq)
			w->c.bad = true;
		return true;
	case DDR_M_GONE:
		walk_gone(w, m);
		return true;
	case DDR_M_MEMBER_FAIL:
		walk32(w, &m->fail.hard);
		walk32(w, &m->fail.soft);
		walk32(w, &m->fail.exchanged);
		walk_zero(w, 4);
		if (m->fail.exchanged & ~m->fail.hard)
			w->c.bad = true;
		return true;
	case DDR_M_MEMBER_DONE:
		walk_done(w, m);
		return true;
	case DDR_M_MEMBER_SET:
		walk_set(w, &m->set);
		if (!m->set.op)
			w->c.bad = true;
		return true;
	case DDR_M_FOLDED:
		walk64(w, &m->folded.since);
		return true;
	case DDR_M_SEEK:
		walk32(w, &m->seek.member);
		walk_zero(w, 4);
		return true;
	case DDR_M_SEEN:
		walk32(w, &m->seen.members);
		walk_zero(w, 4);
		walk64(w, &m->seen.generation);
		return true;
	case DDR_M_VERIFY:
		walk_verify(w, m);
		return true;
	case DDR_M_GROW:
		walk64(w, &m->grow.blocks);
		return true;
	case DDR_M_ROOM:
		walk64(w, &m->room.bytes);
		walk32(w, &m->room.member);
		walk_zero(w, 4);
		walk64(w, &m->room.generation);
		return true;
	case DDR_M_USE:
		walk32(w, &m->use.used);
		walk_zero(w, 4);
		if (m->use.used > 1)
			w->c.bad = true;
		return true;
	case DDR_M_MEMBER_ACK:
		walk64(w, &m->ack.seq);
		return true;
	case DDR_M_EX_REQUEST:
		walk32(w, &m->ex.id);
		walk8(w, &m->ex.mode);
		walk8(w, &m->ex.job);
		walk_zero(w, 2);
		walk64(w, &m->ex.start);
		walk64(w, &m->ex.count);
		if (m->ex.mode != DDR_EX_RANGE || m->ex.count == 0 || m->ex.count > DDR_EX_BLOCKS)
			w->c.bad = true;
		return true;
	case DDR_M_EX_ACK:
		walk32(w, &m->ex_ack.owner);
		walk32(w, &m->ex_ack.id);
		walk64(w, &m->ex_ack.dirty);
		return true;
	case DDR_M_EX_RELEASE:
		walk32(w, &m->ex_release.id);
		walk_zero(w, 4);
		return true;
	case DDR_M_EX_VOID:
		walk_zero(w, 8);
		return true;
	case DDR_M_MAP_SET:
		walk_map_set(w, m);
		return true;
	case DDR_M_MAP_DONE:
		walk_map_done(w, m);
		return true;
	}
	return false;
}

size_t ddr_msg_encode(const struct ddr_msg *msg, uint8_t *buf, size_t size)
{
	struct ddr_msg m = *msg;
	struct ddr_walk w = { { buf, buf + size, false }, true };
	uint32_t magic = DDR_MSG_MAGIC, length = 0;
	uint16_t type = (uint16_t)m.type;
	uint8_t *at_length;

	m.version = m.version ? m.version : DDR_MSG_VERSION;
	walk32(&w, &magic);
	walk16(&w, &m.version);
	walk16(&w, &type);
	at_length = w.c.p;
	walk32(&w, &length);
	walk32(&w, &m.sender);
	ddr_walk_bytes(&w, m.uuid, sizeof(m.uuid));
	walk64(&w, &m.ring);
	walk32(&w, &m.serial);
	walk32(&w, &m.epoch);
	if (!walk_body(&w, &m) || w.c.bad)
		return 0;
	length = (uint32_t)(w.c.p - buf);
	w.c.p = at_length;
	walk32(&w, &length);
	return length;
}

const char *ddr_msg_decode(const uint8_t *buf, size_t len, struct ddr_msg *msg)
{
	uint8_t copy[DDR_MSG_MAX];
	struct ddr_walk w = { { copy, copy + len, false }, false };
	uint32_t magic = 0, length = 0;
	uint16_t version = 0, type = 0;

	if (len > sizeof(copy))
		return "message longer than any of this version";
	if (len < DDR_MSG_HEADER)
		return "message shorter than its header";
	memcpy(copy, buf, len);
	memset(msg, 0, sizeof(*msg));
	walk32(&w, &magic);
	if (magic != DDR_MSG_MAGIC)
		return "not a message of ddraid";
	walk16(&w, &version);
	if (version < DDR_MSG_LOWEST || version > DDR_MSG_HIGHEST)
		return "message of another protocol version";
	walk16(&w, &type);
	walk32(&w, &length);
	if (length != len)
		return "message whose length is not what it says";
	msg->version = version;
	msg->type = (enum ddr_msg_type)type;
	walk32(&w, &msg->sender);
	ddr_walk_bytes(&w, msg->uuid, sizeof(msg->uuid));
	walk64(&w, &msg->ring);
	walk32(&w, &msg->serial);
	walk32(&w, &msg->epoch);
	if (!walk_body(&w, msg))
		return "message of an unknown type";
	if (w.c.bad)
		return "message with a damaged body";
	if (w.c.p != w.c.end)
		return "message with bytes behind its body";
	return NULL;
}

uint16_t ddr_msg_other_version(const uint8_t *buf, size_t len)
{
	uint8_t copy[6];
	struct ddr_walk w = { { copy, copy + sizeof(copy), false }, false };
	uint16_t version = 0;
	uint32_t magic = 0;

	if (len < sizeof(copy))
		return 0;
	memcpy(copy, buf, sizeof(copy));
	walk32(&w, &magic);
	walk16(&w, &version);
	return magic == DDR_MSG_MAGIC && (version < DDR_MSG_LOWEST || version > DDR_MSG_HIGHEST) ? version : 0;
}
