// SPDX-License-Identifier: GPL-2.0-or-later
/* Failures of members, as far as the array tolerates them, and what the operator does about members. */
#include <string.h>

#include "sim.h"

/* The operator fails a member that works. */
void sim_operator_fails(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_OP_FAIL_MEMBER, .member = (uint32_t)sim_rand(s, s->sb0.members) };

	if (n->sm && s->faults_left && !s->disk[in.member].chosen)
		sim_operator(s, n, &in, true);
}

/* May the operator fail the member? @counted: it is one of those that the parity covers; else it replaces another one. */
bool sim_may_fail(struct sim *s, uint32_t m, bool counted)
{
	struct ddr_super sb;

	if (m >= s->sb0.members || (counted && (s->faults_left <= finding_keeps(s) || s->disk[m].chosen)))
		return false;
	if (!counted)
		return check_newest_super(s, &sb) && (sb.member[m].flags & DDR_MEMBER_F_REPLACING);
	s->faults_left--;
	s->disk[m].chosen = true;
	return true;
}

/* Has the member failed for every kernel? Before that its disk cannot be used as a spare. */
static bool nobody_uses(const struct sim *s, uint32_t member)
{
	for (const struct node *n = s->node; n < s->node + s->n_nodes; n++)
		for (uint32_t p = 0; n->k.there && p < DDR_UAPI_PLACES; p++)
			if (n->k.disk[p] == member && n->k.state[p] != DDR_KM_OUT)
				return false;
	return true;
}

bool sim_may_put_back(const struct sim *s, const struct node *n, uint32_t m)
{
	struct ddr_super sb;

	return n->sm && !s->lossy && m < s->sb0.members && nobody_uses(s, m) && !finding_hangs(s, m) && check_newest_super(s, &sb) && sb.member[m].state != DDR_MEMBER_IN_SYNC &&
	       sb.member[m].state != DDR_MEMBER_REBUILDING && sb.member[m].state != DDR_MEMBER_SPARE;
}

/* Puts back a failed member, without the contents of its cache, and the operator asks some node for it. Sometimes the disk is still dead. */
static bool operator_seeks(struct sim *s, struct node *n)
{
	struct act a = act_of(ACT_PUT_BACK, n);

	a.arg[0] = sim_rand(s, s->sb0.members);
	if (!sim_may_put_back(s, n, (uint32_t)a.arg[0]))
		return false;
	a.arg[1] = s->disk[a.arg[0]].dead && sim_chance(s, 4);
	return sim_act(s, a);
}

/*
 * The machine died as the superblocks of a new generation were written, and only this disk has them; and it was not there when the array went on. To a daemon
 * that is a split brain: it refuses the start. So the operator wipes the disk.
 */
static bool wipe_diverged(struct sim *s, struct disk *d)
{
	struct ddr_super sb;

	if (!d->has_super || !check_newest_super(s, &sb) || d->super.generation > sb.generation || d->super.generation + 1 < sb.generation ||
	    memcmp(d->super.gen_id, d->super.generation == sb.generation ? sb.gen_id : sb.gen_prev, sizeof(sb.gen_id)) == 0)
		return false;
	memset(d->sb, 0, sizeof(d->sb));
	memset(d->pages, 0, sizeof(d->pages));
	disk_landed(s, d, NULL);
	sim_trace(s, "member %u is wiped", (uint32_t)(d - s->disk));
	return true;
}

bool sim_wipes_diverged(struct sim *s)
{
	bool any = false;

	for (uint32_t m = 0; m < s->sb0.members; m++)
		any |= !s->disk[m].exchanged && wipe_diverged(s, &s->disk[m]);
	return any;
}

bool sim_put_back(struct sim *s, struct node *n, uint32_t m, bool dead, bool asked)
{
	struct ddr_input in = { .type = DDR_IN_OP_SEEK, .member = m };
	struct disk *d = &s->disk[m % DDR_MAX_MEMBERS];

	if (!sim_may_put_back(s, n, m))
		return false;
	if (!d->dead || !dead) {
		if (sim_real && !s->cluster && d->dead)
			wipe_diverged(s, d);
		disk_back(s, d);
		sim_trace(s, "member %u is back", m);
	}
	/* the command looks at the disk first, and asks for none that holds something of another program (cli/add.c); other nodes do not look again (doc/protocol.md) */
	if (asked && !d->foreign)
		node_step(s, n, &in);
	for (struct node *o = s->node; !asked && o < s->node + s->n_nodes; o++)
		node_hears(s, o, NEWS_CHANGED, m);
	return true;
}

/*
 * Without parity nothing shows what a dead node was writing, so a copy restarts from the beginning. Such an array uses its spares
 * only once, and a copy hardly ever finishes in time. So every other seed has more of them, no member is failed, and a dead node
 * stays away for long (schedule.c).
 */
bool sim_keeps_copies(const struct sim *s)
{
	return s->replaces && !s->geo.parity && s->seed % 2 == 0;
}

/* Replaces a working member by a spare, or fails one that is replacing another. */
bool sim_replace(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_OP_REPLACE, .member = (uint32_t)sim_rand(s, s->sb0.members) };
	struct ddr_super sb;

	if (!n->sm || !check_newest_super(s, &sb))
		return false;
	for (uint32_t m = 0; m < sb.members; m++)
		if (sb.member[m].state == DDR_MEMBER_SPARE)
			in.value = m;
		else if ((sb.member[m].flags & DDR_MEMBER_F_REPLACING) && !sim_keeps_copies(s) && sim_chance(s, 3))
			in = (struct ddr_input){ .type = DDR_IN_OP_FAIL_MEMBER, .member = m };
	sim_operator(s, n, &in, false);
	return true;
}

/* Starts, resumes, pauses or stops a verify. */
static void operator_verifies(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_OP_VERIFY, .key = sim_chance(s, 3) ? DDR_VERIFY_OP_PAUSE + (uint32_t)sim_rand(s, 2) : DDR_VERIFY_OP_START,
				.value = 1 + sim_rand(s, 5), .members = sim_chance(s, 2) ? DDR_VERIFY_F_REPAIR : 0 };

	if (n->sm)
		sim_operator(s, n, &in, false);
}

/* Sets how reads that may give garbage are treated, in some seeds only. */
static bool operator_decides(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_OP_SET, .key = DDR_SM_SUSPECT_READS };

	if (s->seed % 7 != 3 || !n->sm || !sim_chance(s, 2))
		return false;
	in.value = sim_chance(s, 2);
	return sim_operator(s, n, &in, false);
}

/* The array needs all members that it has left, and nodes other than @n take part. */
static bool rule_4_applies(const struct sim *s, const struct node *n)
{
	uint32_t others = 0;
	struct ddr_super sb;

	for (const struct node *o = s->node; o < s->node + s->n_nodes; o++)
		others += o != n && o->sm && o->ready && o->quorate;
	return others && check_newest_super(s, &sb) && (uint32_t)__builtin_popcount(check_in_sync(&sb)) == ddr_geo_data(&s->g);
}

static void fails(struct sim *s, struct disk *d, enum disk_fault once)
{
	struct act a = act_of(ACT_DISK, NULL);

	a.sub = (uint8_t)once;
	a.arg[0] = (uint64_t)(d - s->disk);
	sim_act(s, a);
}

/* Does the array tolerate one more failure? */
static bool one_more(struct sim *s, struct disk *d)
{
	if (!s->lossy && (s->faults_left <= finding_keeps(s) || d->chosen))
		return false;
	s->faults_left -= !s->lossy;
	d->chosen = true;
	return true;
}

bool sim_disk_fails(struct sim *s, uint32_t m, enum disk_fault once)
{
	struct disk *d = &s->disk[m % DDR_MAX_MEMBERS];

	if (m >= s->sb0.members || d->dead || d->once != FAULT_NONE)
		return false;
	if (once != FAULT_READ_MEDIUM && once != FAULT_NOSPC && !one_more(s, d))
		return false;
	d->dead = once == FAULT_NONE;
	d->once = once;
	s->stats[STAT_FAULTS]++;
	sim_trace(s, "fault: member %u %s (%d)", m, d->dead ? "is dead" : "will fail once", d->once);
	return true;
}

bool sim_disk_cut(struct sim *s, struct node *n, uint32_t m)
{
	struct disk *d = &s->disk[m % DDR_MAX_MEMBERS];

	if (m >= s->sb0.members || !s->cluster || d->dead || d->once != FAULT_NONE || !(one_more(s, d) || rule_4_applies(s, n)))
		return false;
	d->cut |= 1u << (n - s->node);
	d->was_cut |= d->cut;
	s->stats[STAT_FAULTS]++;
	sim_trace(s, "fault: member %u is cut off from nodes %x", m, d->cut);
	return true;
}

/* Another disk gives wrong contents of the block. With one parity, or if a third one gives none, nobody could tell what it should be, nor that it does not match. */
static bool another_wrong(const struct sim *s, const struct disk *d, uint64_t block)
{
	uint32_t wrong = 0, fail = 0;

	for (const struct disk *o = s->disk; o < s->disk + s->sb0.members; o++) {
		wrong += o != d && o->wrong && o->wrong_block == block;
		fail += o != d && !o->wrong && (o->dead || o->bad[block]);
	}
	return wrong && (s->g.parity < 2 || fail);
}

/* Sectors that cannot be read until something is written there: the array has lost what they hold, as it loses a member. */
bool sim_disk_bad(struct sim *s, uint32_t m, uint64_t start, uint64_t count, uint64_t apart)
{
	struct disk *d = &s->disk[m % DDR_MAX_MEMBERS];

	if (m >= s->sb0.members || !s->g.parity || d->dead || d->once != FAULT_NONE || start >= s->blocks || (!d->n_bad && !one_more(s, d)))
		return false;
	for (uint64_t b = start; count && b < s->blocks; b += 1 + apart, count--) {
		if (another_wrong(s, d, b))
			continue;
		d->n_bad += !d->bad[b];
		d->bad[b] = true;
	}
	d->was_bad = true;
	s->stats[STAT_FAULTS]++;
	sim_trace(s, "fault: member %u has bad sectors in %u blocks", m, d->n_bad);
	return true;
}

/* What was bad on the disk was written: it has not lost anything any more. */
static void mended(struct sim *s, struct disk *d)
{
	bool counts = false;

	for (uint32_t p = 0; p < s->g.roles; p++)
		counts |= &s->disk[s->at[p]] == d;
	s->faults_left += !s->lossy && counts && d->chosen && s->faults_left < s->g.parity;
	d->chosen = d->was_bad = false;
}

void sim_disks_mended(struct sim *s)
{
	for (struct disk *d = s->disk; d < s->disk + s->sb0.members; d++)
		if (d->was_bad && !d->n_bad && !d->lies)
			mended(s, d);
}

/* That costs the member; one with bad sectors counts as one that fails already. */
bool sim_disk_lies(struct sim *s, uint32_t m)
{
	struct disk *d = &s->disk[m % DDR_MAX_MEMBERS];

	if (m >= s->sb0.members || d->dead || d->lies || d->once != FAULT_NONE || (!d->was_bad && !one_more(s, d)))
		return false;
	d->lies = true;
	s->stats[STAT_FAULTS]++;
	sim_trace(s, "fault: member %u will read back something else than was written", m);
	return true;
}

/* For a quarter of io_timeout at most, which must cost nothing; or for longer, and then it has failed on this node. */
#define SHORT_MS	5000u

bool sim_disk_hangs(struct sim *s, struct node *n, uint32_t m, uint64_t ms, bool kernel)
{
	struct disk *d = &s->disk[m % DDR_MAX_MEMBERS];

	if (m >= s->sb0.members || d->dead || d->once != FAULT_NONE || d->hangs_until[n - s->node] > s->now)
		return false;
	if (ms > SHORT_MS) {
		if (!one_more(s, d))
			return false;
		d->failed = true;
		d->was_cut |= 1u << (n - s->node);
	}
	d->hangs_until[n - s->node] = s->now + ms;
	d->hangs_kernel = kernel ? d->hangs_kernel | 1u << (n - s->node) : d->hangs_kernel & ~(1u << (n - s->node));
	s->stats[STAT_FAULTS]++;
	sim_trace(s, "fault: member %u hangs for %llu ms on node %u", m, (unsigned long long)ms, n->id);
	return true;
}

static void hangs(struct sim *s, struct node *n, struct disk *d)
{
	struct act a = act_of(ACT_HANG, n);

	a.arg[0] = (uint64_t)(d - s->disk);
	a.arg[1] = 1 + sim_rand(s, sim_chance(s, 2) ? SHORT_MS : 20 * SHORT_MS);
	a.arg[2] = sim_chance(s, 2);
	sim_act(s, a);
}

/* A member fails a flush. This is unlikely by chance, so some seeds do it. */
static bool flush_fails(struct sim *s, struct disk *d)
{
	if (s->seed % 5 != 1 || s->lossy || !s->faults_left || d->chosen || d->dead || d->once != FAULT_NONE)
		return false;
	fails(s, d, FAULT_FLUSH);
	return true;
}

/* The same: a partly copied disk dies as the array is used again after a crash. Without parity that would be one failure too many. */
void sim_old_disk_dies(struct sim *s)
{
	struct ddr_super sb;
	uint16_t role = DDR_ROLE_NONE;

	if (!s->replaces || s->seed % 2 || !s->faults_left || !check_newest_super(s, &sb))
		return;
	for (uint32_t m = 0; m < sb.members; m++)
		if ((sb.member[m].flags & DDR_MEMBER_F_REPLACING) && sb.member[m].cursor)
			role = sb.member[m].role;
	for (uint32_t m = 0; m < sb.members && role != DDR_ROLE_NONE; m++)
		if (sb.member[m].role == role && sb.member[m].state == DDR_MEMBER_IN_SYNC && !s->disk[m].chosen && !s->disk[m].dead)
			fails(s, &s->disk[m], FAULT_NONE);
}

/* In some seeds: the pool below one disk, or below all, is full for a while. */
static bool pool_fills(struct sim *s)
{
	uint32_t one = (uint32_t)sim_rand(s, 2 * s->sb0.members);
	uint64_t until = s->event + 50 + sim_rand(s, 1500);
	struct act a = act_of(ACT_FULL, NULL);

	a.arg[0] = one < s->sb0.members ? 1u << one : ~0u;
	sim_act(s, a);
	for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++)
		if (a.arg[0] >> m & 1)
			s->disk[m].full_until = until;
	s->stats[STAT_FULL]++;
	sim_trace(s, "fault: no space on member %d (-1: any) until event %llu", one < s->sb0.members ? (int)one : -1, (unsigned long long)until);
	return true;
}

void sim_pools(struct sim *s)
{
	struct act a = act_of(ACT_SPACE, NULL);

	for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++)
		a.arg[0] |= s->disk[m].full && s->event >= s->disk[m].full_until ? 1u << m : 0;
	if (a.arg[0])
		sim_act(s, a);
}

static void cut(struct sim *s, struct node *n, struct disk *d)
{
	struct act a = act_of(ACT_CUT, n);

	a.arg[0] = (uint64_t)(d - s->disk);
	sim_act(s, a);
}

void sim_member_fault(struct sim *s, struct node *n)
{
	static const enum disk_fault costly[] = { FAULT_WRITE, FAULT_FLUSH, FAULT_META, FAULT_READ_IO };
	struct disk *d = &s->disk[sim_rand(s, s->sb0.members)];

	if (sim_real && sim_chance(s, 4)) {
		hangs(s, n, d);
		return;
	}
	if (s->seed % 4 == 3 && sim_chance(s, 3) && pool_fills(s))
		return;
	if (flush_fails(s, d) || operator_decides(s, n))
		return;
	if (s->replaces && sim_chance(s, 3) && sim_replace(s, n))
		return;
	if (sim_chance(s, 3) && operator_seeks(s, n))
		return;
	if (sim_chance(s, 4)) {
		operator_verifies(s, n);
		return;
	}
	if (!s->cluster && sim_chance(s, 4)) {
		grow_wanted(s, n);
		return;
	}
	if (s->cluster && sim_chance(s, 6)) {
		sim_operator_fails(s, n);
		return;
	}
	if (d->dead || d->once != FAULT_NONE)
		return;
	if (sim_chance(s, 3)) {
		fails(s, d, sim_chance(s, 2) && s->g.parity ? FAULT_READ_MEDIUM : FAULT_NOSPC);
	} else if (s->lossy || (s->faults_left && !d->chosen)) {
		if (s->cluster && sim_chance(s, 2))
			cut(s, n, d);
		else
			fails(s, d, sim_chance(s, 2) ? FAULT_NONE : costly[sim_rand(s, 4)]);
	} else if (s->cluster && rule_4_applies(s, n)) {
		cut(s, n, d);
	}
}
