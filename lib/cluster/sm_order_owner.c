// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What a delivered message changes in the owners of slots: the part of the superblocks (format 2) that says which machine and which instance has a
 * slot, and whether that instance is known to be dead.
 *
 * A change of an owner makes its slot one of the next change of the superblocks, as a new owner does. Changes are numbered. MEMBER_DONE has the number up to
 * which its writer knew them, so that a slot whose owner has changed since is written once more: a node that starts must not be granted anything while
 * the disks still say that the owner of its slot is dead.
 *
 * Must never: take a struct ddr_sm; let the pages say that an instance is dead which was not proven dead; forget the one that was.
 */
#include "lib/math/uuid.h"
#include "sm_int.h"

static bool same(const uint8_t a[16], uint64_t a_cookie, const uint8_t b[16], uint64_t b_cookie)
{
	return a_cookie == b_cookie && !memcmp(a, b, 16);
}

/* Was this instance fenced as that of the slot? The cookie 0 means all of its boot: the machine was cut off from the members, and may run on. */
static bool was_fenced(const struct ddr_sm_owner *o, const uint8_t boot_id[16], uint64_t cookie)
{
	return o->fenced_time && same(o->fenced_boot_id, o->fenced_cookie, boot_id, o->fenced_cookie ? cookie : 0);
}

/* The superblocks follow, with the owner that the slot has, or is to get. */
static void changed(struct ddr_sm_shared *s, uint32_t slot)
{
	uint32_t node = s->change.slots >> slot & 1 ? s->change.slot_node[slot] : s->sb.slot_node[slot];

	s->owners.slot[slot].changed = ++s->owners.changes;
	s->change.slots |= 1ull << slot;
	s->change.slot_node[slot] = node;
}

/*
 * The START was accepted, so its instance was not known to be dead before. If it is now, this very START has adopted the array, and the same kernel
 * had a slot under another node id.
 */
static void lives(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	for (uint32_t i = 0; i < s->sb.slots; i++) {
		struct ddr_sm_owner *o = &s->owners.slot[i];

		if (!o->fenced_time || !same(o->fenced_boot_id, o->fenced_cookie, msg->start.boot_id, msg->start.cookie))
			continue;
		memset(o->fenced_boot_id, 0, sizeof(o->fenced_boot_id));
		o->fenced_cookie = o->fenced_time = 0;
		o->state = o->state == DDR_SLOT_FENCED ? DDR_SLOT_OWNED : o->state;
		changed(s, i);
	}
}

void ddr_order_owner_begins(struct ddr_sm_shared *s, uint32_t slot, const struct ddr_msg *msg)
{
	struct ddr_sm_owner *o = &s->owners.slot[slot];
	bool known = !ddr_uuid_is_zero(msg->start.boot_id);

	if (!s->owned)
		return;
	lives(s, msg);
	if (o->state == DDR_SLOT_FREE || !known || !same(o->boot_id, o->cookie, msg->start.boot_id, msg->start.cookie)) {
		o->since = msg->start.time;
		o->renewed = false;
	}
	o->state = DDR_SLOT_OWNED;
	memcpy(o->machine, msg->start.machine, sizeof(o->machine));
	memcpy(o->boot_id, msg->start.boot_id, sizeof(o->boot_id));
	o->cookie = known ? msg->start.cookie : 0;
	memcpy(o->name, msg->start.name, sizeof(o->name));
	changed(s, slot);
}

void ddr_order_owner_frees(struct ddr_sm_shared *s, uint32_t slot, uint64_t time)
{
	struct ddr_sm_owner *o = &s->owners.slot[slot];

	if (!s->owned)
		return;
	o->state = DDR_SLOT_FREE;
	o->since = time;
	o->renewed = false;
	o->log_seq = 0;		/* from here on nobody writes the log on members that are rebuilt */
	changed(s, slot);
}

bool ddr_order_owner_renewed(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	uint32_t slot = msg->renewed.slot;
	const struct ddr_sm_node *n = &s->nodes[ddr_shared_node_at(s, msg->sender)];
	struct ddr_sm_owner *o = &s->owners.slot[slot % DDR_MAX_SLOTS];

	if (!s->owned || slot >= s->sb.slots || s->sb.slot_node[slot] != msg->sender || !n->started || n->leaving || msg->renewed.seq > DDR_LOG_SEQ_MAX)
		return false;
	o->renewed = true;
	o->log_seq = msg->renewed.seq;
	changed(s, slot);
	return true;
}

void ddr_order_owner_dead(struct ddr_sm_shared *s, uint32_t slot, const uint8_t boot_id[16], uint64_t cookie, bool cut_off, uint64_t time)
{
	struct ddr_sm_owner *o = &s->owners.slot[slot];

	if (!s->owned)
		return;
	if (ddr_uuid_is_zero(o->boot_id) && !ddr_uuid_is_zero(boot_id)) {
		memcpy(o->boot_id, boot_id, sizeof(o->boot_id));
		o->cookie = cookie;
	}
	if (ddr_uuid_is_zero(o->boot_id) || ddr_shared_owner_dead(s, slot))
		return;
	o->state = DDR_SLOT_FENCED;
	memcpy(o->fenced_boot_id, o->boot_id, sizeof(o->fenced_boot_id));
	o->fenced_cookie = cut_off ? 0 : o->cookie;
	o->fenced_time = time ? time : 1;	/* a clock that was never set; zero says that nothing was fenced */
	changed(s, slot);
}

void ddr_order_owner_cluster(struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	bool adopts = (msg->start.flags & DDR_START_ADOPT) && ddr_shared_elsewhere(s, msg->start.cluster);

	if (s->owned && (adopts || ddr_uuid_is_zero(s->owners.cluster)))
		memcpy(s->owners.cluster, msg->start.cluster, sizeof(s->owners.cluster));
}

bool ddr_shared_elsewhere(const struct ddr_sm_shared *s, const uint8_t cluster[16])
{
	return s->owned && !ddr_uuid_is_zero(s->owners.cluster) && memcmp(s->owners.cluster, cluster, sizeof(s->owners.cluster)) != 0;
}

bool ddr_shared_owner_is(const struct ddr_sm_shared *s, const uint8_t boot_id[16], uint64_t cookie)
{
	for (uint32_t i = 0; i < s->sb.slots; i++) {
		const struct ddr_sm_owner *o = &s->owners.slot[i];

		if (o->state == DDR_SLOT_OWNED && !ddr_uuid_is_zero(boot_id) && same(o->boot_id, o->cookie, boot_id, cookie))
			return true;
	}
	return false;
}

static const struct ddr_sm_owner *owner_of(const struct ddr_sm_shared *s, uint32_t node)
{
	uint32_t slot = ddr_shared_slot_of(s, node);

	if (slot == DDR_SM_NO_SLOT)
		slot = ddr_shared_slot_claimed(s, node);
	return s->owned && slot != DDR_SM_NO_SLOT ? &s->owners.slot[slot] : NULL;
}

bool ddr_shared_owner_machine(const struct ddr_sm_shared *s, uint32_t node, const uint8_t machine[16])
{
	const struct ddr_sm_owner *o = owner_of(s, node);

	return o && o->state == DDR_SLOT_OWNED && !ddr_uuid_is_zero(machine) && memcmp(o->machine, machine, sizeof(o->machine)) == 0;
}

const char *ddr_shared_owner_name(const struct ddr_sm_shared *s, uint32_t node)
{
	const struct ddr_sm_owner *o = owner_of(s, node);

	return o ? (const char *)o->name : "";
}

bool ddr_shared_owner_gone(const struct ddr_sm_shared *s, uint32_t node, const uint8_t machine[16], const uint8_t boot_id[16], uint64_t cookie)
{
	const struct ddr_sm_owner *o = owner_of(s, node);

	/* an owner whose instance the pages do not have may be any kernel of the machine, also the one that runs */
	return ddr_shared_owner_machine(s, node, machine) && !ddr_uuid_is_zero(o->boot_id) && !same(o->boot_id, o->cookie, boot_id, cookie);
}

bool ddr_shared_stranger(const struct ddr_sm_shared *s, uint32_t node, const uint8_t machine[16])
{
	const struct ddr_sm_owner *o = owner_of(s, node);
	int at = ddr_shared_node_at(s, node);

	return o && at >= 0 && s->nodes[at].lost && o->state == DDR_SLOT_OWNED && !ddr_uuid_is_zero(machine) && !ddr_uuid_is_zero(o->machine) &&
	       memcmp(o->machine, machine, sizeof(o->machine)) != 0;
}

bool ddr_shared_stranger_begins(const struct ddr_sm_shared *s, uint32_t node, const uint8_t machine[16], const uint8_t boot_id[16], uint64_t cookie)
{
	const struct ddr_sm_owner *o = owner_of(s, node);

	return ddr_shared_stranger(s, node, machine) && (ddr_uuid_is_zero(boot_id) || !same(o->boot_id, o->cookie, boot_id, cookie));
}

bool ddr_shared_owner_dead(const struct ddr_sm_shared *s, uint32_t slot)
{
	const struct ddr_sm_owner *o = &s->owners.slot[slot];

	return o->state == DDR_SLOT_FENCED && was_fenced(o, o->boot_id, o->cookie);
}

bool ddr_shared_instance_dead(const struct ddr_sm_shared *s, const uint8_t boot_id[16], uint64_t cookie)
{
	for (uint32_t i = 0; i < s->sb.slots; i++)
		if (was_fenced(&s->owners.slot[i], boot_id, cookie))
			return true;
	return false;
}

bool ddr_shared_boot_cut_off(const struct ddr_sm_shared *s, const uint8_t boot_id[16])
{
	for (uint32_t i = 0; i < s->sb.slots; i++)
		if (!s->owners.slot[i].fenced_cookie && was_fenced(&s->owners.slot[i], boot_id, 0))
			return true;
	return false;
}

void ddr_owners_take(struct ddr_sm_owners *all, const struct ddr_owner *disk, const uint8_t cluster[16], uint32_t slots)
{
	memset(all, 0, sizeof(*all));
	memcpy(all->cluster, cluster, sizeof(all->cluster));
	for (uint32_t i = 0; i < slots; i++) {
		struct ddr_sm_owner *o = &all->slot[i];

		o->state = disk[i].state;
		memcpy(o->machine, disk[i].machine, sizeof(o->machine));
		memcpy(o->boot_id, disk[i].instance.boot_id, sizeof(o->boot_id));
		o->cookie = disk[i].instance.cookie;
		o->since = disk[i].since;
		memcpy(o->name, disk[i].name, sizeof(o->name));
		memcpy(o->fenced_boot_id, disk[i].fenced.boot_id, sizeof(o->fenced_boot_id));
		o->fenced_cookie = disk[i].fenced.cookie;
		o->fenced_time = disk[i].fenced_time;
		o->renewed = disk[i].renewed;
		o->log_seq = disk[i].log_seq;
	}
}
