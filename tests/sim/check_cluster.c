// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The safety rules about several nodes, checked on the disks, the model kernels and what is in flight. Only check_digest() and
 * check_owners() ask the state machines, and only whether they agree with each other and with the disks.
 */
#include <string.h>

#include "lib/math/crc32c.h"
#include "sim.h"

/* @now: it has that id still, so its present kernel is the slot's owner. */
static const struct node *owner_of(const struct sim *s, uint32_t slot, bool *now)
{
	struct ddr_super sb;

	if (check_newest_super(s, &sb))
		for (const struct node *n = s->node; n < s->node + s->n_nodes; n++)
			if (sb.slot_node[slot] && n == cluster_machine(s, sb.slot_node[slot])) {
				*now = n->nid == sb.slot_node[slot];
				return n;
			}
	return NULL;
}

/* Rules 6, 7: the owner of the slot that is being taken over writes no more. */
static void check_dead(struct sim *s, const struct node *by, uint32_t slot)
{
	bool now;
	const struct node *n = owner_of(s, slot, &now);

	if (!n || (n == by && now))
		return;
	if (late_of(s, n->id))
		sim_violation(s, "rule 6: node %u takes over slot %u, and requests of node %u, which owned it, may still land",
			      by->id, slot, n->id);
	if (!now)
		return;		/* a boot of the machine that has ended had it */
	for (uint64_t r = 0; r < s->regions && n->up && n->k.there && !n->k.killed && !n->left; r++)
		if (n->k.granted[r])
			sim_violation(s, "rule 6: node %u takes over slot %u, and node %u, which owns it, may still write region %llu",
				      by->id, slot, n->id, (unsigned long long)r);
	for (uint64_t b = 0; b < s->blocks; b++)
		if (kernel_writes(&n->k, b))
			sim_violation(s, "rule 6: node %u takes over slot %u, and node %u, which owns it, still writes block %llu",
				      by->id, slot, n->id, (unsigned long long)b);
}

/*
 * Was the region durably marked in the slot? That is, does the newest copy on each member say so, or is it unreadable? A mark on only
 * some members was never granted, and the node that takes over the slot may not reach those members. @repair: a mark for a repair
 * only counts as well.
 */
static bool dirty(const struct sim *s, uint32_t slot, uint64_t region, bool repair)
{
	uint32_t counting = check_counting(s);
	const struct ddr_disk_log *blk;
	uint64_t seq;

	for (uint32_t m = 0; m < s->sb0.members; m++) {
		blk = counting >> m & 1 ? check_newest(s, m, slot, &seq) : NULL;
		if (blk && !check_marked(blk, region, repair))
			return false;
	}
	return s->g.parity;
}

/* Is a resync impossible? Part of its data is missing, and it is listed; or none of its parity exists. */
static bool past_resync(const struct sim *s, uint64_t region)
{
	uint32_t counting = check_counting(s), parity = 0;
	bool listed = true;

	for (uint32_t m = 0; m < s->sb0.members; m++)
		listed &= !(counting >> m & 1) || check_suspect_on(s, m, region);
	for (uint64_t b = region * s->geo.region_blocks; b < (region + 1) * s->geo.region_blocks && b < s->blocks; b++)
		for (uint32_t role = ddr_geo_data(&s->g); role < s->g.roles; role++)
			parity |= counting & 1u << check_member(s, role, b);
	return listed || !parity;
}

/* Rule 12: a mark that is cleared in a dead node's slot is in the slot of the node that takes it over, or its region was resynced since. */
static void check_copied(struct sim *s, const struct node *by, uint32_t slot)
{
	uint32_t own = check_slot_of(s, by);

	for (uint64_t r = 0; r < s->regions; r++)
		if (dirty(s, slot, r, true) && !by->resynced[r] && !past_resync(s, r) &&
		    (own == DDR_SM_NO_SLOT || !check_marked_in(s, own, r, !dirty(s, slot, r, false))))
			sim_violation(s, "rule 12: node %u clears region %llu in slot %u, and it is not durably marked in its own",
				      by->id, (unsigned long long)r, slot);
}

void check_recovered(struct sim *s, const struct node *n, uint32_t slot)
{
	for (uint64_t r = 0; r < s->regions; r++)
		if (dirty(s, slot, r, true))
			sim_violation(s, "rule 11: node %u says that slot %u is recovered, and region %llu is dirty in it", n->id, slot, (unsigned long long)r);
	s->clear[slot % SIM_MAX_NODES] = true;
}

/* The places that may only have one writer: a slot, the map, the superblocks. */
static int place_of(enum ddr_out_type type, uint32_t slot)
{
	switch (type) {
	case DDR_OUT_LOG_WRITE:
	case DDR_OUT_SLOT_WRITE: return (int)slot;
	case DDR_OUT_MAP_WRITE: return SIM_MAX_NODES;
	case DDR_OUT_SB_WRITE: return SIM_MAX_NODES + 1;
	default: return -1;
	}
}

/* No other writer may be active there: no daemon, no orphaned request of one, no machine that died. */
static void check_alone(struct sim *s, const struct node *by, const struct io *io)
{
	static const char *const names[] = { "the map", "the superblocks" };
	int place = place_of(io->type, io->slot);
	const char *what = place < SIM_MAX_NODES ? "a slot" : names[place - SIM_MAX_NODES];

	for (const struct node *n = s->node; n < s->node + s->n_nodes; n++)
		for (uint32_t i = 0; i < SIM_MAX_IO && n->n_io && n != by; i++)
			if (n->io[i].used && place_of(n->io[i].type, n->io[i].slot) == place && !node_holds_back(s, n, &n->io[i]))
				sim_violation(s, "rule 12: node %u writes %s while a write of node %u to it is on its way", by->id, what, n->id);
	for (uint32_t i = 0; i < s->n_late; i++)
		if (place_of(s->late[i].type, s->late[i].slot) == place)
			sim_violation(s, "rule 6: node %u writes %s while a write of node %u, which died, may still land",
				      by->id, what, s->late[i].node);
}

/*
 * Rule 12: for every mark in a slot there is a node that will resync the region. Who frees a slot goes by the newest copy of its log, which is without
 * marks: its owner has left so (LEAVE), or it was recovered. From then on nobody writes the log of this slot, to no member: one that was out at that time
 * and is rebuilt keeps the copy that it had, and only that one may be left later. What it marks was clear already, and costs whoever gets the slot a resync
 * (doc/protocol.md, "A log that is its owner's").
 */
static void check_freed(struct sim *s, const struct node *by, const struct ddr_super *next)
{
	for (uint32_t slot = 0; slot < next->slots; slot++) {
		bool *clear = &s->clear[slot % SIM_MAX_NODES];

		for (uint64_t r = 0; !next->slot_node[slot] && !*clear && r < s->regions; r++)
			if (dirty(s, slot, r, true))
				sim_violation(s, "rule 12: node %u frees slot %u, in which region %llu is marked", by->id, slot, (unsigned long long)r);
		*clear |= !next->slot_node[slot];
	}
}

/* Are they superblocks of the same change? Then they differ in the number of the member and of the copy alone, in counts of errors, and in the time. */
static bool same_change(struct ddr_super a, struct ddr_super b)
{
	uint8_t bytes[2][DDR_META_BLOCK];

	a.this_member = b.this_member;
	a.updated = b.updated;
	a.owner_crc = b.owner_crc;	/* of the pages of that copy */
	for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++) {
		a.member[m].err_read = b.member[m].err_read;
		a.member[m].err_write = b.member[m].err_write;
		a.member[m].err_corrected = b.member[m].err_corrected;
	}
	if (ddr_super_encode(&a, bytes[0]).code != DDR_FE_OK || ddr_super_encode(&b, bytes[1]).code != DDR_FE_OK)
		return false;
	ddr_super_set_copy(bytes[0], 0);
	ddr_super_set_copy(bytes[1], 0);
	return memcmp(bytes[0], bytes[1], DDR_META_BLOCK) == 0;
}

/* Is any of them a spare, or one that leaves? Another node may not see that disk, so all others must have the change before (lib/cluster/sm_super.c). */
static bool not_first(const struct ddr_super *disk, const struct ddr_super *next, uint32_t members)
{
	uint32_t mask = 0;

	for (uint32_t m = 0; m < disk->members; m++)
		mask |= disk->member[m].state == DDR_MEMBER_SPARE || next->member[m].state == DDR_MEMBER_MISSING ? 1u << m : 0;
	return members & mask;
}

/* Rules 11, 12: new superblocks are above the newest one on any disk. */
static void check_super(struct sim *s, const struct node *by, const struct io *io)
{
	struct ddr_super disk, next;
	uint32_t m = (uint32_t)__builtin_ctz(io->members);

	if (!io->members || !check_newest_super(s, &disk) ||
	    ddr_super_decode(io->block[m], (unsigned int)io->place, ddr_super_offset(&s->sb0, (unsigned int)io->place), &next).code != DDR_FE_OK)
		return;
	if (same_change(next, disk))
		return;
	if (not_first(&disk, &next, io->members))
		sim_violation(s, "rule 12: node %u gives a spare, or a member that leaves, superblocks that no other one has, members %x", by->id, io->members);
	if (next.seq <= disk.seq || next.generation < disk.generation)
		sim_violation(s, "rule 12: node %u writes superblocks of generation %llu, sequence %llu, and those on disk have %llu, %llu",
			      by->id, (unsigned long long)next.generation, (unsigned long long)next.seq,
			      (unsigned long long)disk.generation, (unsigned long long)disk.seq);
	check_freed(s, by, &next);
}

/*
 * Rule 12: if all power failed now, the next start would not leave out a member that the newest superblock has in the array
 * (lib/disk/assemble.c: a member may be one generation behind, not two). A member that is rebuilt with the cursor at 0 is not read,
 * so it does not matter.
 */
void check_level(struct sim *s)
{
	struct ddr_super newest;

	for (uint32_t m = 0; check_newest_super(s, &newest) && m < newest.members; m++) {
		const struct ddr_member *e = &newest.member[m];
		const struct disk *d = &s->disk[m];

		if (d->dead || !d->has_super || !(e->state == DDR_MEMBER_IN_SYNC || (e->state == DDR_MEMBER_REBUILDING && e->cursor)))
			continue;
		if (d->super.generation + 1 < newest.generation && memcmp(d->super.gen_id, newest.gen_prev, sizeof(newest.gen_prev)) != 0)
			sim_violation(s, "rule 12: member %u is in by the superblocks of generation %llu, and its own is of generation %llu", m,
				      (unsigned long long)newest.generation, (unsigned long long)d->super.generation);
	}
}

void check_submit(struct sim *s, const struct node *n, const struct io *io)
{
	if (io->type == DDR_OUT_SLOT_READ || io->type == DDR_OUT_SLOT_WRITE)
		check_dead(s, n, io->slot);
	if (io->type == DDR_OUT_SLOT_WRITE)
		check_copied(s, n, io->slot);
	if (io->type == DDR_OUT_SLOT_WRITE || io->type == DDR_OUT_LOG_WRITE)
		s->clear[io->slot % SIM_MAX_NODES] = false;
	if (place_of(io->type, io->slot) >= 0 && !node_holds_back(s, n, io))
		check_alone(s, n, io);
	/* what a daemon that stood still has not given to a disk never is, unless nothing was decided without it: then it is looked at there (rule L8) */
	if (io->type == DDR_OUT_SB_WRITE && !node_holds_back(s, n, io))
		check_super(s, n, io);
}

void check_given(struct sim *s, const struct node *n, const struct io *io)
{
	check_alone(s, n, io);
}

/* Dumps what each node knows of the array, for the reader of a trace. */
static void dump_all(struct sim *s)
{
	static char text[131072];

	for (const struct node *n = s->node; n < s->node + s->n_nodes && s->trace; n++)
		if (n->sm && ddr_sm_dump(n->sm, text, sizeof(text)))
			printf("node %u knows:\n%s", n->id, text);
}

void check_digest(struct sim *s, const struct node *n)
{
	static uint8_t buf[65536];
	uint64_t place, digest;
	uint32_t bytes;

	if (!n->sm || !ddr_sm_state_at(n->sm, buf, sizeof(buf), &place, &bytes))
		return;
	digest = ddr_crc32c(buf, bytes);
	if (s->digest[place % SIM_DIGESTS].place == place && s->digest[place % SIM_DIGESTS].digest != digest) {
		dump_all(s);
		sim_violation(s, "rule 11: node %u is at a place in the total order at which another one had another state", n->id);
	}
	s->digest[place % SIM_DIGESTS].place = place;
	s->digest[place % SIM_DIGESTS].digest = digest;
}

/* Rule 6: a node outside of the cluster would serve the array at the same time as this one, unless the superblocks record the cluster. */
void check_whose(struct sim *s, const struct node *n)
{
	struct ddr_super disk;

	if (s->n_nodes > 1 && check_newest_super(s, &disk) && !(disk.ro_compat & DDR_RO_COMPAT_CLUSTER))
		sim_violation(s, "rule 6: node %u writes, and the superblocks do not say that the array is a cluster's", n->id);
}

/*
 * Rule 11: what a kernel has been granted is marked in a log of which the disks say where it begins, and no member that counts has a block of before: such a
 * block would be one that landed late, over one that nobody can know any more (note 25).
 */
static void check_begun(struct sim *s, const struct node *n, uint32_t slot, const struct ddr_owner *o)
{
	uint32_t counting = check_counting(s);

	for (uint64_t r = 0; r < s->regions && s->g.parity && !o->renewed; r++)
		if (n->k.granted[r])
			sim_violation(s, "rule 11: node %u may write region %llu, and the disks do not say where the log of slot %u begins", n->id,
				      (unsigned long long)r, slot);
	for (uint32_t m = 0; m < s->sb0.members && slot < s->sb0.slots; m++)
		for (unsigned int place = 0; place < 2 && (counting >> m & 1); place++)
			if (s->disk[m].log_seq[slot][place] && s->disk[m].log_seq[slot][place] < o->log_seq)
				sim_violation(s, "rule 11: member %u has block %llu of slot %u, whose log begins with %llu", m,
					      (unsigned long long)s->disk[m].log_seq[slot][place], slot, (unsigned long long)o->log_seq);
}

/*
 * Rules 6, 7: a node that takes part is the owner of its slot by the newest superblock's pages, with the kernel that it has. If they called it dead, the next
 * start would take over its regions while it writes.
 */
void check_owned(struct sim *s, const struct node *n)
{
	const struct ddr_owners *owners;
	const struct ddr_owner *o;
	struct ddr_sm_status st;
	uint32_t slot;

	if (!n->sm || n->left || !n->k.there || n->k.killed || check_hopeless(s))
		return;
	slot = check_slot_of(s, n);
	owners = check_owners_now(s);
	if (slot == DDR_SM_NO_SLOT || !owners)
		return;
	o = &owners->slot[slot % DDR_MAX_SLOTS];
	check_begun(s, n, slot, o);
	/* the kernel below a real daemon may be another one before the daemon hears of it */
	if (o->state == DDR_SLOT_OWNED && (sim_real || o->instance.cookie == n->k.cookie))
		return;
	ddr_sm_get_status(n->sm, &st);		/* last: it costs most */
	if (st.joined)
		sim_violation(s, "rule 6: node %u takes part, and the disks call the owner of its slot %s, with another kernel perhaps", n->id,
			      ddr_slot_state_name(o->state));
}

/* Rule 12: the owners of the slots in the agreed state are those in the superblocks that the state says are on the disks. */
void check_owners(struct sim *s, const struct node *n)
{
	const struct ddr_super *sb = n->sm ? ddr_sm_super(n->sm) : NULL;
	static struct ddr_sm_status st;
	struct ddr_super disk;

	if (!sb || !check_newest_super(s, &disk) || disk.seq != sb->seq || memcmp(disk.gen_id, sb->gen_id, sizeof(disk.gen_id)) != 0)
		return;
	/* one that has not joined has what it read: perhaps what a node wrote that had its first change, and was gone before others knew (doc/protocol.md) */
	ddr_sm_get_status(n->sm, &st);
	if (!st.joined)
		return;
	if (sb->ro_compat != disk.ro_compat)
		sim_violation(s, "rule 12: the array is a cluster's by the state of node %u or by the superblocks of that very change, and not by both", n->id);
	for (uint32_t slot = 0; slot < sb->slots; slot++)
		if (sb->slot_node[slot] != disk.slot_node[slot])
			sim_violation(s, "rule 12: slot %u belongs to node %u by the state of node %u, and to node %u by the superblocks of that very change",
				      slot, sb->slot_node[slot], n->id, disk.slot_node[slot]);
}
