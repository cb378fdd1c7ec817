// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The shared state as bytes: for a joiner (STATE), and for the digest with which tests compare nodes.
 *
 * Everything here is generated from the lists of sm_shared.h; the order of the lists is that of doc/protocol.md.
 *
 * ddr_sm_shared_forget() drops all but the superblock and the map: status still shows these, and the next state replaces them as a whole.
 *
 * Must never: judge the received state (sm_join.c does); include anything that only this node knows.
 */
#include "sm_int.h"

#define STATE_FIXED	26624u	/* bytes, at most, of all but the map */

uint32_t ddr_sm_state_size(uint32_t n_map)
{
	return STATE_FIXED + n_map * (16 + DDR_LOG_PAYLOAD);
}

/* ---- fields ----------------------------------------------------------------- */

static void walk_U8(struct ddr_walk *w, uint8_t *v)
{
	*v = (uint8_t)ddr_walk_int(w, *v, 1);
}

static void walk_U16(struct ddr_walk *w, uint16_t *v)
{
	*v = (uint16_t)ddr_walk_int(w, *v, 2);
}

static void walk_U32(struct ddr_walk *w, uint32_t *v)
{
	*v = (uint32_t)ddr_walk_int(w, *v, 4);
}

static void walk_U64(struct ddr_walk *w, uint64_t *v)
{
	*v = ddr_walk_int(w, *v, 8);
}

static void walk_FLAG(struct ddr_walk *w, bool *v)
{
	*v = ddr_walk_int(w, *v, 1) != 0;
}

static void walk_SET(struct ddr_walk *w, struct ddr_msg_member_set *set)
{
	walk_U32(w, &set->op);
	walk_U32(w, &set->member);
	walk_U32(w, &set->role);
	walk_U64(w, &set->cursor);
	ddr_walk_bytes(w, set->uuid, sizeof(set->uuid));
}

static void walk_array_BYTES(struct ddr_walk *w, uint8_t *v, uint32_t n)
{
	ddr_walk_bytes(w, v, n);
}

static void walk_array_U32(struct ddr_walk *w, uint32_t *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		walk_U32(w, &v[i]);
}

/* ---- the parts -------------------------------------------------------------- */

#define FIELD(kind, name)	walk_##kind(w, &of->name);
#define ARRAY(kind, name, n)	walk_array_##kind(w, of->name, n);
#define WALK(part, type, LIST) \
	static void walk_##part(struct ddr_walk *w, struct type *of) \
	{ \
		LIST(FIELD, ARRAY) \
	}

WALK(group, ddr_sm_shared, DDR_SHARED_GROUP)
WALK(super_head, ddr_super, DDR_SHARED_SUPER)
WALK(member, ddr_member, DDR_SHARED_MEMBER)
WALK(verify, ddr_verify, DDR_SHARED_VERIFY)
WALK(change, ddr_sm_change, DDR_SHARED_CHANGE)
WALK(node, ddr_sm_node, DDR_SHARED_NODE)
WALK(ex, ddr_sm_ex, DDR_SHARED_EX)
WALK(grow, ddr_sm_growth, DDR_SHARED_GROW)
WALK(version, ddr_sm_version, DDR_SHARED_VERSION)
WALK(owners_head, ddr_sm_owners, DDR_SHARED_OWNERS)
WALK(owner, ddr_sm_owner, DDR_SHARED_OWNER)

static void walk_super(struct ddr_walk *w, struct ddr_super *sb)
{
	walk_super_head(w, sb);
	for (uint32_t i = 0; i < DDR_MAX_MEMBERS; i++)
		walk_member(w, &sb->member[i]);
	walk_array_U32(w, sb->slot_node, sb->slots);
	walk_verify(w, &sb->verify);
}

static void walk_owners(struct ddr_walk *w, struct ddr_sm_shared *s)
{
	if (!s->owned)
		return;
	walk_owners_head(w, &s->owners);
	for (uint32_t i = 0; i < s->sb.slots; i++)
		walk_owner(w, &s->owners.slot[i]);
}

/* The map up to the last region; behind that it is zero. */
static void walk_map(struct ddr_walk *w, struct ddr_sm_shared *s)
{
	size_t all = (size_t)s->n_map * DDR_LOG_PAYLOAD, used;

	for (uint32_t i = 0; i < s->n_map; i++)
		walk_version(w, ddr_order_version(s, i));
	if (w->c.bad || (!w->write && !ddr_shared_sized(s))) {
		w->c.bad = true;
		return;
	}
	used = (size_t)((s->regions + DDR_MAP_REGIONS - 1) / DDR_MAP_REGIONS) * DDR_LOG_PAYLOAD;
	ddr_walk_bytes(w, ddr_order_map(s), used);
	if (!w->write)
		memset(ddr_order_map(s) + used, 0, all - used);
}

static void walk_state(struct ddr_walk *w, struct ddr_sm_shared *s, struct ddr_sm_change *change)
{
	walk_group(w, s);
	walk_super(w, &s->sb);
	walk_change(w, change);
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		walk_node(w, &s->nodes[i]);
	for (uint32_t i = 0; i < DDR_SM_EX; i++)
		walk_ex(w, &s->ex[i]);
	walk_grow(w, &s->grow);
	walk_owners(w, s);
	walk_map(w, s);
}

/* A change that all have acknowledged has ended, even if this node has not processed that yet. */
static struct ddr_sm_change change_known(const struct ddr_sm *sm)
{
	struct ddr_sm_change c = sm->shared.change;

	if (c.ack && !(ddr_sm_voters(sm) & ~c.acked)) {
		c.ack = false;
		c.leaving = 0;
	}
	return c;
}

/* ---- nothing is known ------------------------------------------------------- */

#define GONE(kind, name)	memset(&s->name, 0, sizeof(s->name));
#define GONE_ARRAY(kind, name, n)	memset(s->name, 0, sizeof(s->name));

void ddr_sm_shared_forget(struct ddr_sm_shared *s)
{
	DDR_SHARED_GROUP(GONE, GONE_ARRAY)
	memset(&s->change, 0, sizeof(s->change));
	memset(s->nodes, 0, sizeof(s->nodes));
	memset(s->ex, 0, sizeof(s->ex));
	memset(&s->grow, 0, sizeof(s->grow));
	memset(&s->owners, 0, sizeof(s->owners));
}

/* ---- the whole -------------------------------------------------------------- */

uint32_t ddr_sm_state_encode(const struct ddr_sm *sm, uint8_t *buf, uint32_t size)
{
	struct ddr_walk w = { { buf, buf + size, false }, true };
	struct ddr_sm_change change = change_known(sm);

	walk_state(&w, (struct ddr_sm_shared *)(uintptr_t)&sm->shared, &change);	/* only writes to @buf */
	return w.c.bad ? 0 : (uint32_t)(w.c.p - buf);
}

bool ddr_sm_state_decode(struct ddr_sm *sm, struct ddr_sm_shared *s, const uint8_t *buf, uint32_t bytes)
{
	struct ddr_walk w = { { (uint8_t *)(uintptr_t)buf, (uint8_t *)(uintptr_t)buf + bytes, false }, false };

	walk_state(&w, s, &s->change);
	sm->own.t.state = DDR_T_IDLE;
	sm->own.t.mark = DDR_MARK_KEEP;
	memset(&sm->own.t.set, 0, sizeof(sm->own.t.set));
	return !w.c.bad && w.c.p == w.c.end;
}

uint64_t ddr_sm_state_digest(const uint8_t *buf, uint32_t bytes)
{
	uint64_t h = bytes, v;

	for (; bytes >= sizeof(v); bytes -= sizeof(v), buf += sizeof(v)) {
		memcpy(&v, buf, sizeof(v));
		h = ddr_sm_mix(h ^ v);
	}
	if (!bytes)
		return h;
	v = 0;
	memcpy(&v, buf, bytes);
	return ddr_sm_mix(h ^ v);
}

/*
 * Mixes 64 bits (the finalizer of SplitMix64; Steele, Lea and Flood, "Fast splittable
 * pseudorandom number generators", 2014).
 */
uint64_t ddr_sm_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

bool ddr_shared_sized(struct ddr_sm_shared *s)
{
	if (!s->sb.array_blocks || s->sb.array_blocks > ddr_super_most_blocks(&s->sb))
		return false;
	s->regions = ddr_super_regions(&s->sb);
	return true;
}
