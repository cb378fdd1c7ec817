// SPDX-License-Identifier: GPL-2.0-or-later
/* The safety rules, checked on the disks and the model. Nothing here asks the state machine, since that is what is being tested. */
#include <string.h>

#include "check.h"

/* ---- parity -------------------------------------------------------------------- */

static uint64_t media_read(const struct disk *d, uint64_t block)
{
	return d->media[block];
}

static uint8_t map_on(const struct sim *s, uint32_t m, uint64_t region)
{
	uint64_t seq;
	const struct ddr_disk_log *blk = check_newest(s, m, SIM_MAP, &seq);

	return blk ? ddr_map_get(blk->payload, (uint32_t)region) : DDR_REGION_NEEDS_SYNC | DDR_REGION_F_WRITTEN | DDR_REGION_F_SUSPECT;
}

bool check_suspect_on(const struct sim *s, uint32_t m, uint64_t region)
{
	return map_on(s, m, region) & DDR_REGION_F_SUSPECT;
}

static bool region_written(const struct sim *s, uint64_t r)
{
	for (uint64_t b = r * s->geo.region_blocks; b < (r + 1) * s->geo.region_blocks && b < s->blocks; b++)
		if (s->truth[b].ever)
			return true;
	return false;
}

/* Checks the map of each member that might be the one that survives, for regions that are not marked. */
static void media_map(struct sim *s, uint32_t counting)
{
	for (uint32_t m = 0; m < s->sb0.members; m++)
		for (uint64_t r = 0; (counting >> m & 1) && r < s->regions; r++) {
			uint8_t nibble = map_on(s, m, r);

			if (!region_written(s, r) || check_marked_everywhere(s, r))
				continue;
			if ((nibble & DDR_REGION_STATE_MASK) == DDR_REGION_UNWRITTEN)
				sim_violation(s, "rule 2: region %llu was written and is neither marked nor written in the map of member %u",
					      (unsigned long long)r, m);
			if (s->missing_write[r] && !(nibble & DDR_REGION_F_WRITTEN))
				sim_violation(s, "region %llu was written while a member was missing, and the map of member %u does not know",
					      (unsigned long long)r, m);
		}
}

/* If power failed now and all caches were lost: would every wrong block be marked, and would the map know what was written? */
void check_media(struct sim *s)
{
	uint32_t counting = check_counting(s);

	/*
	 * A member that dropped its cache in a failed flush, and has not failed for all yet. It is not promised that the failure is
	 * agreed before any mark is cleared (doc/protocol.md, Not promised), only that the member fails (check_final).
	 */
	for (uint32_t m = 0; m < s->sb0.members; m++)
		counting &= (s->cluster ? s->disk[m].dropped : s->disk[m].faulted != 0) ? ~(1u << m) : ~0u;

	if (!s->g.parity || s->lossy)
		return;
	for (uint64_t r = 0; r < s->regions; r++) {
		bool clean = true, suspect = true;

		if (check_marked_everywhere(s, r))
			continue;
		for (uint32_t m = 0; m < s->sb0.members; m++) {
			suspect &= !(counting >> m & 1) || (map_on(s, m, r) & DDR_REGION_F_SUSPECT);
			clean &= !(counting >> m & 1) || (map_on(s, m, r) & DDR_REGION_STATE_MASK) == DDR_REGION_CLEAN;
		}
		if (suspect)
			continue;	/* rule 9: it could not be resynced, and it is listed */
		for (uint64_t b = r * s->geo.region_blocks; b < (r + 1) * s->geo.region_blocks && b < s->blocks; b++)
			if ((s->truth[b].ever || clean) && !parity_right(s, b, check_holding(s, b, counting), media_read))
				sim_violation(s, "rule 2: the parity of block %llu is wrong on the media and its region %llu is not marked",
					      (unsigned long long)b, (unsigned long long)r);
	}
	media_map(s, counting);
}

/* ---- data ---------------------------------------------------------------------- */

/* A reconstruction of a block that was in flight at a crash may give anything; no other block may (rule 9). */
static bool torn(const struct sim *s, const struct truth *t, uint64_t b, uint32_t role, uint32_t readable)
{
	return t->torn && !t->acked && !(readable >> check_member(s, role, b) & 1);
}

static bool written_since(const struct truth *t, uint32_t role, uint64_t b, uint64_t token)
{
	for (uint32_t i = 0; i < t->n_later; i++)
		if (token == sim_token(t->later[i], role, b))
			return true;
	return t->acked && token == sim_token(t->acked, role, b);
}

static bool one_of(const struct truth *t, uint32_t role, uint64_t b, uint64_t token)
{
	return token == t->base[role] || written_since(t, role, b, token);
}

/* After a crash: each chunk is the promised one, or one written since. Its contents are the expected ones from now on. */
static void crash_block(struct sim *s, uint64_t b, uint32_t members)
{
	struct truth *t = &s->truth[b];

	t->torn |= !parity_right(s, b, members, media_read);
	for (uint32_t i = 0; i < ddr_geo_data(&s->g); i++) {
		bool direct = members >> check_member(s, i, b) & 1;
		/*
		 * in flight (or never written), and reconstructed: may be anything (rule 9); blocks that were never written are
		 * skipped by a rebuild
		 */
		bool undefined = direct ? !t->ever && s->geo.spares : t->n_later || t->failed || t->torn || !t->ever;
		uint64_t token;

		if (!parity_read(s, b, i, members, media_read, &token))
			sim_violation(s, "block %llu, chunk %u: too few members are left", (unsigned long long)b, i);
		if (written_since(t, i, b, token) && !t->torn)
			t->unknown &= (uint8_t)~(1u << i);
		if (!(t->unknown >> i & 1) && !t->lost && (!one_of(t, i, b, token) || (t->torn && !direct))) {
			if (!undefined)
				sim_violation(s, "block %llu, chunk %u: what was acknowledged and flushed is lost",
					      (unsigned long long)b, i);
			t->unknown |= (uint8_t)(1u << i);
		}
		t->base[i] = token;
	}
	t->n_later = 0;
	t->acked = 0;
	t->failed = t->spoiled = t->wild = false;
}

void check_torn(struct sim *s, uint64_t b)
{
	if (s->truth[b].wild)
		s->truth[b].torn |= !parity_right(s, b, check_holding(s, b, check_counting(s)), disk_read);
}

static bool listed(const struct sim *s, uint64_t region)
{
	uint32_t counting = check_counting(s);

	for (uint32_t m = 0; m < s->sb0.members; m++)
		if ((counting >> m & 1) && !check_suspect_on(s, m, region))
			return false;
	return true;
}

/* A member got its chunk of the block from the others: the contents may not have been promised, if the block was in flight at a crash. */
void check_rebuilt(struct sim *s, uint64_t b, uint32_t role, uint64_t token)
{
	struct truth *t = &s->truth[b];

	if (role >= ddr_geo_data(&s->g) || one_of(t, role, b, token) || (t->ever && !t->torn && !t->wild && !t->failed))
		return;
	if (t->ever && !t->failed && !listed(s, b / s->geo.region_blocks))
		sim_violation(s, "rule 9: block %llu was in flight at a crash, a member is rebuilt from what is left of it, and its region is not listed as suspect",
			      (unsigned long long)b);
	for (uint32_t i = 0; i < ddr_geo_data(&s->g) && t->acked; i++)
		t->base[i] = sim_token(t->acked, i, b);
	t->acked = 0;
	t->base[role] = token;
	t->unknown |= (uint8_t)(1u << role);
}

void check_unfit(struct sim *s, uint64_t start, uint64_t count, uint32_t members)
{
	bool found = false;

	for (uint64_t b = start; b < start + count && b < s->blocks; b++) {
		const struct truth *t = &s->truth[b];

		if (parity_right(s, b, members, disk_read))
			continue;
		found = true;
		if (!t->failed && !t->spoiled && !t->torn && !t->wild && !t->lost)
			sim_violation(s, "rule 9: a rebuild took the parity of block %llu for one that matches", (unsigned long long)b);
	}
	if (!found)
		sim_violation(s, "a rebuild says that blocks %llu+%llu do not match, and they do", (unsigned long long)start, (unsigned long long)count);
}

/* The contents of a block before its first write: whatever is on the members that hold its roles now, since a rebuild skips it. */
void check_before(struct sim *s, uint64_t b)
{
	uint32_t there = check_counting(s) | check_holding(s, b, 0);

	for (uint32_t i = 0; i < ddr_geo_data(&s->g); i++) {
		uint32_t m = check_member(s, i, b);

		s->truth[b].unknown &= (uint8_t)~(1u << i);	/* in an earlier crash no member may have held the role */
		if (there >> m & 1)
			s->truth[b].base[i] = disk_read(&s->disk[m], b);
		else
			s->truth[b].unknown |= (uint8_t)(1u << i);
	}
}

/* Computes the chunk of a role from the other members; false: too few of them have theirs. */
bool check_chunk(const struct sim *s, uint64_t b, uint32_t role, uint32_t members, uint64_t *token)
{
	uint32_t data = ddr_geo_data(&s->g);
	uint64_t tokens[8], pq[2];

	if (role < data)
		return parity_read(s, b, role, members, disk_read, token);
	for (uint32_t i = 0; i < data; i++)
		if (!parity_read(s, b, i, members, disk_read, &tokens[i]))
			return false;
	sim_parity(s, tokens, pq);
	*token = pq[role - data];
	return true;
}

void check_death(struct sim *s)
{
	check_media(s);
	for (uint64_t b = 0; b < s->blocks; b++)
		check_torn(s, b);
}

void check_crash(struct sim *s)
{
	uint32_t counting = check_counting(s);

	check_media(s);
	for (uint64_t b = 0; b < s->blocks && !s->lossy; b++)
		crash_block(s, b, check_holding(s, b, counting));
}

bool check_parity(const struct sim *s, uint64_t start, uint64_t count, uint32_t members)
{
	for (uint64_t b = start; b < start + count; b++)
		if (!parity_right(s, b, members, disk_read))
			return false;
	return true;
}

static bool data_there(const struct sim *s, uint64_t b, uint32_t members)
{
	for (uint32_t i = 0; i < ddr_geo_data(&s->g); i++)
		if (!(members >> check_member(s, i, b) & 1))
			return false;
	return true;
}

/*
 * Blocks whose parity is correct again on all of @members (including the data), and where it was rebuilt, are no longer torn. This
 * must hold on the media, too, since what a job only wrote to caches may be lost in the next crash.
 */
void check_whole(struct sim *s, uint64_t start, uint64_t count, uint32_t members)
{
	for (uint64_t b = start; b < start + count; b++)
		if (data_there(s, b, members) && parity_right(s, b, check_holding(s, b, members), disk_read) && parity_right(s, b, check_holding(s, b, members), media_read))
			s->truth[b].torn = s->truth[b].spoiled = false;
}

static bool written_now(const struct sim *s, uint64_t b)
{
	if (late_writes(s, b, 1))
		return true;
	for (uint32_t i = 0; i < s->n_nodes; i++)
		if (kernel_writes(&s->node[i].k, b))
			return true;
	return false;
}

/* A chunk of a block that was in flight when a node died: old or new; if it is reconstructed, anything until it was resynced. */
static bool wild(const struct sim *s, const struct truth *t, uint64_t b, uint32_t role, uint64_t token, uint32_t readable)
{
	return t->wild && (one_of(t, role, b, token) || !(readable >> check_member(s, role, b) & 1));
}

/* The members that the kernel reads this block from. */
static uint32_t rebuilt(const struct sim *s, const struct kernel *k, uint64_t b)
{
	uint32_t mask = 0;

	for (uint32_t p = 0; p < s->g.roles; p++)
		if (kernel_reads(k, p, b) != SIM_NOBODY)
			mask |= 1u << kernel_reads(k, p, b);
	return mask;
}

/* What a reader on this node gets now must be the last acknowledged write, whatever members are missing. */
void check_visible(struct sim *s, const struct node *n)
{
	uint32_t in_sync = 0, well = 0;
	uint8_t at[DDR_MAX_ROLES];

	if (s->lossy || n->k.unjudged)
		return;		/* no read gets there before the daemon has bound to the table */
	memcpy(at, s->at, sizeof(at));
	for (uint32_t p = 0; p < s->g.roles; p++) {
		uint32_t m = kernel_reads(&n->k, p, s->blocks), some = kernel_reads(&n->k, p, 0);

		some = some == SIM_NOBODY ? n->k.disk[p] : some;
		s->at[p] = (uint8_t)some;	/* the superblocks may name another member already */
		if (s->disk[some].dead || (s->disk[some].faulted && !s->cluster))
			continue;
		well |= 1u << some;
		if (m != SIM_NOBODY)
			in_sync |= 1u << m;
	}
	if (!(check_counting(s) & well & ~in_sync))	/* a kernel that does not know all states yet proves nothing */
		check_whole(s, 0, s->blocks, in_sync);
	for (uint64_t b = 0; b < s->blocks; b++) {
		struct truth *t = &s->truth[b];
		uint32_t readable = in_sync | (rebuilt(s, &n->k, b) & well);
		uint64_t token;

		if (written_now(s, b) || t->failed || t->lost)
			continue;
		for (uint32_t i = 0; i < ddr_geo_data(&s->g); i++) {
			uint64_t want = t->acked ? sim_token(t->acked, i, b) : t->base[i];

			if ((t->unknown >> i & 1 && !t->acked) || !parity_read(s, b, i, readable, disk_read, &token))
				continue;
			if (!t->ever && !(readable >> check_member(s, i, b) & 1))
				continue;	/* never written: its contents are undefined */
			if (token != want && t->ever && !torn(s, t, b, i, readable) && !wild(s, t, b, i, token, readable))
				sim_violation(s, "block %llu, chunk %u: a reader (members %x) gets something else than what was acknowledged (version %u, promised %u, %u later)",
					      (unsigned long long)b, i, readable, t->acked, t->promised, t->n_later);
		}
		/* behind the end of its table nothing is read: there the superblocks may have grown the array, and failed a member that could not be prepared for it */
		if (!s->cluster && b < n->k.blocks && (n->k.bits[b / s->geo.region_blocks] & DDR_RB_CLEAN) && !n->k.error[b / s->geo.region_blocks] &&
		    !parity_right(s, b, readable, disk_read))
			sim_violation(s, "the kernel was told that region %llu is clean, and the parity of block %llu is wrong",
				      (unsigned long long)(b / s->geo.region_blocks), (unsigned long long)b);
	}
	memcpy(s->at, at, sizeof(at));
}

/* Rule 3: before a write or flush completes, every superblock that is used lists the members that it left out, or that failed it, as failed. */
void check_completion(struct sim *s, const struct kernel *k, const struct op *op)
{
	uint32_t counting = check_counting(s), done = kernel_members(s, k, op->done & ~op->broken);
	const struct ddr_super *newest = check_super(s);

	if (op->kind == OP_READ || check_hopeless(s) || !newest)
		return;
	for (uint32_t m = 0; m < s->sb0.members; m++) {
		uint32_t left;

		if (!(counting >> m & 1))
			continue;
		if (s->disk[m].has_super && s->disk[m].super.generation < newest->member[m].since)
			continue;	/* the others list it as in sync, but it has no superblock of that: it counts as stale */
		left = s->disk[m].has_super ? check_in_sync(&s->disk[m].super) & ~done : 1u << m;
		if (left)
			sim_violation(s, "rule 3: a %s completes without member %d, which the superblock of member %u still has in sync",
				      op->kind == OP_WRITE ? "write" : "flush", __builtin_ctz(left), m);
	}
}

void check_replaced(struct sim *s, uint32_t old, uint32_t new)
{
	const struct ddr_super *sb = check_super(s);

	if (s->disk[old].dead || s->disk[new].dead || !sb || sb->member[new].state != DDR_MEMBER_IN_SYNC)
		return;
	for (const struct node *n = s->node; n < s->node + s->n_nodes; n++)
		for (uint32_t p = 0; p < DDR_UAPI_PLACES && n->k.there; p++)
			if (n->k.disk[p] == old && (n->k.state[p] == DDR_KM_OUT || p == DDR_UAPI_SHADOW))
				return;		/* the group has already continued without it */
	for (uint64_t b = 0; b < s->blocks; b++)
		if (s->truth[b].ever && !s->truth[b].failed && !s->truth[b].lost && !written_now(s, b) && disk_read(&s->disk[old], b) != disk_read(&s->disk[new], b))
			sim_violation(s, "member %u has replaced member %u, and holds something else in block %llu", new, old, (unsigned long long)b);
}

/* Rule 8: without quorum the kernel is frozen as soon as the daemon knows. */
void check_frozen(struct sim *s, const struct node *n)
{
	struct ddr_sm_status st;

	/* one that stands still tells its kernel nothing: that stops by itself after a time (rule 7) */
	if (!n->sm || !n->k.there || n->quorate || n->gave_up || node_stands_still(s, n))
		return;
	ddr_sm_get_status(n->sm, &st);
	if (st.attached && !st.failed && !n->k.frozen)
		sim_violation(s, "rule 8: node %u has no quorum, and its kernel goes on writing", n->id);
}

/* Rule 5: W and EX never overlap. No write may be in flight or start there, neither in a running kernel nor from a machine that died. */
void check_job_range(struct sim *s, uint64_t start, uint64_t count)
{
	for (uint32_t i = 0; i < s->n_nodes; i++)
		for (uint64_t b = start; b < start + count; b++)
			if (kernel_may_write(s, &s->node[i].k, b))
				sim_violation(s, "rule 5: a job works on block %llu while node %u writes there, or may",
					      (unsigned long long)b, s->node[i].id);
	if (late_writes(s, start, count))
		sim_violation(s, "rule 6: a job works on blocks %llu+%llu while a write of a dead node may still land there",
			      (unsigned long long)start, (unsigned long long)count);
}

/* ---- the end ------------------------------------------------------------------- */

/* Must a chunk of the block be reconstructed that a crash left undefined, and that was not rewritten since? */
static bool undefined(const struct sim *s, uint64_t b, uint32_t counting)
{
	const struct truth *t = &s->truth[b];

	for (uint32_t i = 0; i < ddr_geo_data(&s->g) && t->ever && !t->acked; i++)
		if ((t->unknown >> i & 1) && !(counting >> check_member(s, i, b) & 1))
			return true;
	return false;
}

static void final_region(struct sim *s, uint32_t counting, uint64_t r)
{
	bool degraded = (uint32_t)__builtin_popcount(check_in_sync(check_super(s))) < s->g.roles;
	uint8_t nibble = map_on(s, (uint32_t)__builtin_ctz(counting), r);

	/* what is marked for a repair alone stays so while a member is out: it is looked at when all are back */
	for (uint32_t i = 0; i < s->sb0.slots && s->g.parity; i++)
		if (check_marked_in(s, i, r, !degraded))
			sim_violation(s, "liveness: region %llu is still marked in slot %u", (unsigned long long)r, i);
	for (uint64_t b = r * s->geo.region_blocks; b < (r + 1) * s->geo.region_blocks && b < s->blocks; b++)
		if (s->truth[b].ever && !(nibble & DDR_REGION_F_SUSPECT) && !parity_right(s, b, check_holding(s, b, counting), disk_read))
			sim_violation(s, "the parity of block %llu is wrong at the end", (unsigned long long)b);
	if (!degraded && s->g.parity && (nibble & DDR_REGION_STATE_MASK) == DDR_REGION_NEEDS_SYNC)
		sim_violation(s, "liveness: region %llu still needs its sync", (unsigned long long)r);
	/* rule 9: blocks that a crash left undefined are listed until they are rewritten */
	for (uint64_t b = r * s->geo.region_blocks; b < (r + 1) * s->geo.region_blocks && b < s->blocks; b++)
		if (undefined(s, b, check_holding(s, b, counting)) && !(nibble & DDR_REGION_F_SUSPECT))
			sim_violation(s, "rule 9: block %llu is undefined and its region %llu is not listed as suspect",
				      (unsigned long long)b, (unsigned long long)r);
}

void check_final(struct sim *s, struct node *n)
{
	uint32_t counting = check_counting(s);

	for (uint32_t m = 0; m < s->sb0.members; m++)
		if ((s->disk[m].faulted || s->disk[m].daemon_failed) && (counting >> m & 1))
			sim_violation(s, "rule 3: member %u failed a write or a flush, and is in sync", m);
	if (n->sm && ddr_sm_super(n->sm)->policy != check_super(s)->policy)
		sim_violation(s, "rule 12: node %u goes by another policy than the disks", n->id);
	if (n->k.there)
		check_visible(s, n);
	check_media(s);
	for (uint64_t r = 0; r < s->regions; r++)
		final_region(s, counting, r);
}
