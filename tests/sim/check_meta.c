// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the metadata on the disks says: superblocks, dirty logs, the region map; and the rules about these alone. As in check.c,
 * nothing here asks the state machine.
 */
#include <string.h>

#include "check.h"

const struct ddr_super *check_super(const struct sim *s)
{
	const struct ddr_super *best = NULL;

	for (uint32_t m = 0; m < s->sb0.members; m++) {
		const struct ddr_super *one = &s->disk[m].super;

		if (s->disk[m].dead || !s->disk[m].has_super)
			continue;
		if (!best || one->generation > best->generation ||
		    (one->generation == best->generation && one->seq > best->seq))
			best = one;
	}
	return best;
}

/* Every member with the last state of the array is dead: the remaining disks mean nothing. */
bool check_hopeless(const struct sim *s)
{
	const struct ddr_super *left = check_super(s);

	for (uint32_t m = 0; m < s->sb0.members && s->lossy; m++)
		if (!left || s->disk[m].super.generation > left->generation)
			return true;
	return false;
}

void check_places(struct sim *s)
{
	const struct ddr_super *sb = check_super(s);

	for (uint32_t m = 0; sb && m < sb->members; m++)
		if (sb->member[m].role < s->g.roles && !(sb->member[m].flags & DDR_MEMBER_F_REPLACING))
			s->at[sb->member[m].role] = (uint8_t)m;
	if (sb && sb->log_base != s->log_base)	/* no member is missing: from now on the map is about members that will be */
		memset(s->missing_write, 0, sizeof(s->missing_write));
	s->log_base = sb ? sb->log_base : s->log_base;
	if (sb && sb->array_blocks != s->blocks)
		grow_sized(s, sb->array_blocks);
}

/* The array is complete again: as many members may fail again as the parity covers, minus those that failed without being noticed. */
void check_whole_again(struct sim *s)
{
	const struct ddr_super *sb = check_super(s);

	if (!sb || (uint32_t)__builtin_popcount(check_in_sync(sb)) < s->g.roles)
		return;
	s->faults_left = s->g.parity;
	for (uint32_t p = 0; p < s->g.roles; p++)
		s->faults_left -= s->faults_left && (s->disk[s->at[p]].chosen || s->disk[s->at[p]].cut);
}

uint32_t check_member(const struct sim *s, uint32_t role, uint64_t block)
{
	return s->at[ddr_geo_member(&s->g, role, block)];
}

bool check_newest_super(const struct sim *s, struct ddr_super *sb)
{
	const struct ddr_super *best = check_super(s);

	if (best)
		*sb = *best;
	return best != NULL;
}

const struct ddr_owners *check_owners_now(const struct sim *s)
{
	const struct ddr_super *best = check_super(s);

	for (uint32_t m = 0; best && m < s->sb0.members; m++)
		if (best == &s->disk[m].super)
			return &s->disk[m].owners;
	return NULL;
}

void check_newest_owners(const struct sim *s, struct ddr_owners *owners)
{
	const struct ddr_owners *newest = check_owners_now(s);

	if (newest)
		*owners = *newest;
}

uint32_t check_in_sync(const struct ddr_super *sb)
{
	uint32_t mask = 0;

	for (uint32_t m = 0; m < sb->members; m++)
		if (sb->member[m].role != DDR_ROLE_NONE && sb->member[m].state == DDR_MEMBER_IN_SYNC)
			mask |= 1u << m;
	return mask;
}

const struct ddr_disk_log *check_newest(const struct sim *s, uint32_t member, uint32_t slot, uint64_t *seq)
{
	const struct disk *d = &s->disk[member];
	const uint64_t *seqs = slot == SIM_MAP ? d->map_seq : d->log_seq[slot];
	unsigned int place = seqs[1] > seqs[0];

	*seq = seqs[place];
	return *seq ? (const struct ddr_disk_log *)(slot == SIM_MAP ? d->map[place] : d->log[slot][place]) : NULL;
}

/* The members in use: in sync by the newest superblock, and able to answer. */
uint32_t check_counting(const struct sim *s)
{
	const struct ddr_super *sb = check_super(s);
	uint32_t mask = sb ? check_in_sync(sb) : 0;

	for (uint32_t m = 0; m < s->sb0.members; m++)
		if (s->disk[m].dead)
			mask &= ~(1u << m);
	return mask;
}

/* The members that hold their part of the block: those in use, and those that are rebuilt that far. */
uint32_t check_holding(const struct sim *s, uint64_t b, uint32_t counting)
{
	const struct ddr_super *sb = check_super(s);

	for (uint32_t m = 0; sb && m < sb->members; m++)
		if (sb->member[m].state == DDR_MEMBER_REBUILDING && !(sb->member[m].flags & DDR_MEMBER_F_REPLACING) && b < sb->member[m].cursor && !s->disk[m].dead)
			counting |= 1u << m;
	return counting;
}

bool check_marked(const struct ddr_disk_log *blk, uint64_t region, bool repair)
{
	if (!(blk->payload[region / 8] >> region % 8 & 1))
		return false;
	for (uint32_t i = 0; i < 48 && !repair; i += 2)	/* at byte 80: 16 bit numbers + 1 of the regions that are marked for a repair only */
		if ((((const uint8_t *)blk)[80 + i] | ((const uint8_t *)blk)[81 + i] << 8) == (int)region + 1)
			return false;
	return true;
}

bool check_marked_on(const struct sim *s, uint32_t m, uint32_t slot, uint64_t region, bool repair)
{
	uint64_t seq;
	const struct ddr_disk_log *blk = check_newest(s, m, slot, &seq);

	return !blk || check_marked(blk, region, repair);
}

/* Does every copy of the slot's log that might be the one that survives mark the region as dirty? */
bool check_marked_in(const struct sim *s, uint32_t slot, uint64_t region, bool repair)
{
	uint32_t counting = check_counting(s);

	for (uint32_t m = 0; m < s->sb0.members; m++)
		if ((counting >> m & 1) && !check_marked_on(s, m, slot, region, repair))
			return false;
	return true;
}

bool check_any_marked(const struct sim *s)
{
	for (uint32_t i = 0; i < s->sb0.slots; i++)
		for (uint64_t r = 0; r < s->regions; r++)
			if (check_marked_in(s, i, r, false))
				return true;
	return false;
}

bool check_marked_everywhere(const struct sim *s, uint64_t region)
{
	for (uint32_t i = 0; i < s->sb0.slots; i++)
		if (check_marked_in(s, i, region, true))
			return true;
	return false;
}

uint32_t check_slot_in(const struct ddr_super *sb, const struct node *n)
{
	for (uint32_t i = 0; i < sb->slots; i++)
		if (sb->slot_node[i] == n->nid)
			return i;
	return DDR_SM_NO_SLOT;
}

/* The slot that the newest superblock gives to the node. */
uint32_t check_slot_of(const struct sim *s, const struct node *n)
{
	const struct ddr_super *sb = check_super(s);

	return sb ? check_slot_in(sb, n) : DDR_SM_NO_SLOT;
}

/* Rule 1: no chunk before the mark is durable on all members in sync. */
void check_marks(struct sim *s, const struct node *n, uint64_t start, uint64_t count, bool repair, const char *what)
{
	uint32_t slot = check_slot_of(s, n);
	uint64_t first = start / s->geo.region_blocks, last = (start + count - 1) / s->geo.region_blocks;

	if (check_hopeless(s))
		return;
	for (uint64_t r = first; s->g.parity && r <= last; r++)
		if (slot == DDR_SM_NO_SLOT || !check_marked_in(s, slot, r, repair))
			sim_violation(s, "rule 1: %s is submitted in region %llu, which is not durably marked on all members in sync in the slot of node %u",
				      what, (unsigned long long)r, n->id);
}

/* Rule 11: a log block is newer than every copy that could be read later. */
void check_log_sequence(struct sim *s, uint32_t slot, uint64_t seq)
{
	uint32_t counting = check_counting(s);
	uint64_t there;

	for (uint32_t m = 0; m < s->sb0.members; m++)
		if ((counting >> m & 1) && check_newest(s, m, slot, &there) && there >= seq)
			sim_violation(s, "rule 11: a block of the %s is written with sequence %llu, and member %u holds %llu",
				      slot == SIM_MAP ? "map" : "log", (unsigned long long)seq, m, (unsigned long long)there);
}
