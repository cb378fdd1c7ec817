// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The shared state as text, for tests and the simulator, which show where two nodes disagree.
 *
 * Generated from the lists of sm_shared.h, like the codec of STATE.
 *
 * Must never: be needed by the state machine itself.
 */
#include <stdarg.h>
#include <stdio.h>

#include "sm_int.h"

struct dump { char *buf; size_t size, used; char where[24]; };

static void __attribute__((format(printf, 2, 3))) say(struct dump *d, const char *fmt, ...)
{
	size_t left = d->used < d->size ? d->size - d->used : 0;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(left ? d->buf + d->used : NULL, left, fmt, ap);
	va_end(ap);
	d->used += n > 0 ? (size_t)n : 0;
}

static void number(struct dump *d, const char *name, uint64_t v)
{
	if (v)
		say(d, "%s%s %llu\n", d->where, name, (unsigned long long)v);
}

#define dump_U8		number
#define dump_U16	number
#define dump_U32	number
#define dump_U64	number
#define dump_FLAG	number

static void dump_SET(struct dump *d, const char *name, struct ddr_msg_member_set set)
{
	if (set.op)
		say(d, "%s%s operation %u member %u role %u cursor %llu\n", d->where, name, set.op, set.member, set.role, (unsigned long long)set.cursor);
}

static void dump_array_BYTES(struct dump *d, const char *name, const uint8_t *v, uint32_t n)
{
	uint8_t any = 0;

	for (uint32_t i = 0; i < n; i++)
		any |= v[i];
	if (!any)
		return;
	say(d, "%s%s ", d->where, name);
	for (uint32_t i = 0; i < n; i++)
		say(d, "%02x", v[i]);
	say(d, "\n");
}

static void dump_array_U32(struct dump *d, const char *name, const uint32_t *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (v[i])
			say(d, "%s%s[%u] %u\n", d->where, name, i, v[i]);
}

#define FIELD(kind, name)	dump_##kind(d, #name, of->name);
#define ARRAY(kind, name, n)	dump_array_##kind(d, #name, of->name, n);
#define DUMP(part, type, LIST) \
	static void part(struct dump *d, const struct type *of) \
	{ \
		LIST(FIELD, ARRAY) \
	}

DUMP(group, ddr_sm_shared, DDR_SHARED_GROUP)
DUMP(super, ddr_super, DDR_SHARED_SUPER)
DUMP(member, ddr_member, DDR_SHARED_MEMBER)
DUMP(verify, ddr_verify, DDR_SHARED_VERIFY)
DUMP(change, ddr_sm_change, DDR_SHARED_CHANGE)
DUMP(node, ddr_sm_node, DDR_SHARED_NODE)
DUMP(ex, ddr_sm_ex, DDR_SHARED_EX)
DUMP(grow, ddr_sm_growth, DDR_SHARED_GROW)
DUMP(version, ddr_sm_version, DDR_SHARED_VERSION)
DUMP(owner, ddr_sm_owner, DDR_SHARED_OWNER)
DUMP(owners, ddr_sm_owners, DDR_SHARED_OWNERS)

static struct dump *at(struct dump *d, const char *part, int place)
{
	if (place < 0)
		snprintf(d->where, sizeof(d->where), "%s", part);
	else
		snprintf(d->where, sizeof(d->where), "%s[%d].", part, place);
	return d;
}

size_t ddr_sm_dump(const struct ddr_sm *sm, char *buf, size_t size)
{
	const struct ddr_sm_shared *s = &sm->shared;
	struct dump d = { .buf = buf, .size = size };

	if (size)
		buf[0] = 0;
	group(&d, s);
	super(at(&d, "super.", -1), &s->sb);
	for (int i = 0; i < (int)DDR_MAX_MEMBERS; i++)
		member(at(&d, "member", i), &s->sb.member[i]);
	dump_array_U32(at(&d, "super.", -1), "slot_node", s->sb.slot_node, s->sb.slots);
	verify(at(&d, "verify.", -1), &s->sb.verify);
	change(at(&d, "change.", -1), &s->change);
	for (int i = 0; i < (int)DDR_SM_MAX_NODES; i++)
		node(at(&d, "nodes", i), &s->nodes[i]);
	for (int i = 0; i < (int)DDR_SM_EX; i++)
		ex(at(&d, "ex", i), &s->ex[i]);
	grow(at(&d, "grow.", -1), &s->grow);
	owners(at(&d, "owners.", -1), &s->owners);
	for (int i = 0; i < (int)DDR_MAX_SLOTS; i++)
		owner(at(&d, "owner", i), &s->owners.slot[i]);
	for (int i = 0; i < (int)s->n_map; i++)
		version(at(&d, "map", i), &s->version[i]);
	return d.used;
}
