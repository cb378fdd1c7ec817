// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What seldom befalls a machine with a real daemon (ddrsim --daemon): its clock is set, another program locks a disk, a client asks for the status, and
 * what else enum rare_what lists (sim.h). And two that world.c has, at the moment where they matter most: a disk gets bad sectors just where it is being
 * copied, and it hangs while a job works on it.
 *
 * All of this is drawn from numbers of its own, so that the rest of a seed is the same as without it, until the first of these happens.
 */
#include <string.h>

#include "sim.h"

#define TAKEN_MS	70000u	/* what an adoption takes at least (daemon/disk/claim.h) */
#define HANGS_MS	20000u	/* io_timeout of all daemons (twin/node.c) */

static uint64_t draw(struct sim *s, uint64_t n)
{
	return rig_random(&s->rare.rng) % n;
}

static bool chance(struct sim *s, uint64_t in)
{
	return draw(s, in) == 0;
}

static bool has(const struct sim *s, enum rare_what what)
{
	return s->rare.kinds >> what & 1;
}

/* An array that has been in use for long: all of it is in sync, so that a verify has something to compare. */
static void in_sync(struct sim *s)
{
	struct ddr_log_info info = { .slot = DDR_MAP_SLOT, .generation = 1 };
	uint64_t data[8], pq[2];

	memcpy(info.array_uuid, s->sb0.array_uuid, sizeof(info.array_uuid));
	for (uint64_t b = 0; b < s->blocks; b++) {
		memcpy(data, s->truth[b].base, sizeof(data));
		sim_parity(s, data, pq);
		for (uint32_t p = 0; p < s->g.parity; p++)
			s->disk[check_member(s, ddr_geo_data(&s->g) + p, b)].media[b] = pq[p];
	}
	for (uint32_t m = 0; m < s->sb0.members; m++) {
		for (unsigned int c = 0; c < 2; c++) {
			struct ddr_disk_log *map = (struct ddr_disk_log *)s->disk[m].map[c];

			for (uint32_t r = 0; r < s->regions; r++)
				ddr_map_set(map->payload, r, DDR_REGION_CLEAN);
			info.seq = 2 - c;
			ddr_log_encode(map, &info);
		}
		disk_landed(s, &s->disk[m], NULL);
	}
}

/* Each seed has a third of them; the copies every other one in which members are replaced at all. */
void rare_draw(struct sim *s)
{
	static const uint32_t every[] = { 100, 200, 400 };
	uint64_t later;

	s->rare.rng = s->seed * 0x9e3779b97f4a7c15u + s->n_nodes;
	for (uint32_t i = 0; i < RARE_SLOW; i++)
		s->rare.kinds |= (i == RARE_BAD_COPY ? s->replaces && s->g.parity && chance(s, 2) : chance(s, 3)) ? 1u << i : 0;
	s->rare.every = every[draw(s, 3)];
	s->rare.moments = s->rare.rng ^ 0x57a275;
	later = s->rare.rng;	/* what was added later: a seed without it is as it was before */
	for (uint32_t i = RARE_SLOW; i < RARE_WHATS; i++)
		s->rare.kinds |= rig_random(&later) % 3 == 0 ? 1u << i : 0;
	if (has(s, RARE_WRONG) && s->g.parity && !s->finding)
		in_sync(s);
}

/* Where a verify is to find something nobody writes in the last part of the run, and nothing else befalls anybody. */
bool rare_quiet(const struct sim *s)
{
	return sim_real && !s->finding && has(s, RARE_WRONG) && s->g.parity && s->event * 5 > s->events * 3;
}

static bool act(struct sim *s, const struct node *n, enum rare_what what, uint64_t first, uint64_t second)
{
	struct act a = act_of(ACT_RARE, n);

	a.sub = (uint8_t)what;
	a.arg[0] = first;
	a.arg[1] = second;
	return sim_act(s, a);
}

/* ---- where a job is at work ------------------------------------------------------- */

static const struct io *job_of(const struct node *n)
{
	for (const struct io *io = n->io; n->sm && io < n->io + SIM_MAX_IO; io++)
		if (io->used && !io->orphan && io->type == DDR_OUT_JOB_RANGE)
			return io;
	return NULL;
}

static void bad_sectors(struct sim *s, uint32_t m, uint64_t block)
{
	struct act a = act_of(ACT_BAD, NULL);

	a.arg[0] = m;
	a.arg[1] = block;
	a.arg[2] = 1 + draw(s, 5);
	a.arg[3] = draw(s, 3);
	sim_act(s, a);
}

/* It answers again after a time limit of the daemon has passed. */
static void hangs(struct sim *s, const struct node *n, const struct io *io)
{
	struct act a = act_of(ACT_HANG, n);

	a.arg[0] = io->at[draw(s, s->g.roles)];
	a.arg[1] = HANGS_MS + 1000 + draw(s, 3 * HANGS_MS);
	a.arg[2] = chance(s, 2);
	sim_act(s, a);
}

/* Copies are short: where they are to meet bad sectors there are many of them, for each disk that was replaced is put back as a spare. */
static void replaces(struct sim *s, const struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_OP_REPLACE, .value = DDR_NO_MEMBER };
	struct act back = act_of(ACT_PUT_BACK, n);
	struct ddr_super sb;

	if (!n->sm || !check_newest_super(s, &sb))
		return;
	for (uint32_t m = 0, k = 1; m < sb.members; m++)
		if (sb.member[m].state == DDR_MEMBER_REBUILDING)
			return;
		else if (sb.member[m].state == DDR_MEMBER_SPARE)
			in.value = m;
		else if (sb.member[m].state == DDR_MEMBER_IN_SYNC)
			in.member = chance(s, k++) ? m : in.member;
		else if (sim_may_put_back(s, n, m))
			back.arg[0] = m + 1;
	if (in.value != DDR_NO_MEMBER) {
		sim_operator(s, n, &in, false);
	} else if (back.arg[0]) {
		back.arg[0]--;
		sim_act(s, back);
	}
}

/* The disk gives a verify other contents than it holds. With one parity nobody can tell which disk does, so it is the one that holds the parity. */
static void wrong(struct sim *s, const struct node *n, const struct io *io)
{
	uint64_t block = io->start + draw(s, io->count);

	act(s, n, RARE_WRONG, s->g.parity == 2 ? s->at[draw(s, s->g.roles)] : check_member(s, ddr_geo_data(&s->g), block), block);
}

bool rare_peace(const struct sim *s)
{
	struct ddr_super sb;

	if (rare_quiet(s))
		return true;
	if (!sim_real || !has(s, RARE_BAD_COPY) || !check_newest_super(s, &sb))
		return false;
	for (uint32_t m = 0; m < sb.members; m++)
		if (sb.member[m].flags & DDR_MEMBER_F_REPLACING)
			return true;
	return false;
}

/* A sector that is about to be rewritten reads back differently. */
static void lies(struct sim *s, const struct node *n, const struct io *io)
{
	for (uint32_t p = 0; p < s->g.roles; p++)
		if (s->disk[io->at[p]].n_bad && act(s, n, RARE_LIES, io->at[p], 0))
			return;
	if (chance(s, 8))
		act(s, n, RARE_LIES, io->at[draw(s, s->g.roles)], 0);
}

static void where_a_verify_works(struct sim *s, const struct node *n)
{
	for (const struct io *io = n->io; n->sm && io < n->io + SIM_MAX_IO; io++) {
		if (!io->used || io->orphan || io->type != DDR_OUT_JOB_RANGE)
			continue;
		if (io->job == DDR_KA_REBUILD && io->fits && io->from == DDR_NO_MEMBER && s->g.parity == 2 && chance(s, 4))
			wrong(s, n, io);
		if (io->job != DDR_KA_VERIFY && !io->fix)
			continue;
		if (!io->fix && chance(s, 2))
			wrong(s, n, io);
		if (has(s, RARE_LIES) && !io->fix && chance(s, 8))
			bad_sectors(s, io->at[draw(s, s->g.roles)], io->start + draw(s, io->count));
		if (has(s, RARE_LIES) && io->fix && chance(s, 2))
			lies(s, n, io);
	}
}

static void where_a_job_works(struct sim *s, const struct node *n)
{
	const struct io *io = job_of(n);
	uint64_t ahead;		/* what the copy has not read yet, mostly */

	if (!io)
		return;
	if (has(s, RARE_BAD_COPY) && io->job == DDR_KA_REBUILD && io->from != DDR_NO_MEMBER && !s->disk[io->from].n_bad && chance(s, 2)) {
		ahead = io->start + draw(s, 4 * io->count);
		bad_sectors(s, io->from, ahead < s->geo.blocks ? ahead : io->start);
	}
	if (has(s, RARE_WRONG) && s->g.parity)
		where_a_verify_works(s, n);
	if (has(s, RARE_HANG) && chance(s, 40))
		hangs(s, n, io);
}

/* The operator puts back a disk that has failed; where all are there, he has them verified and repaired. */
static void operator_cares(struct sim *s, const struct node *n)
{
	struct ddr_input verify = { .type = DDR_IN_OP_VERIFY, .key = DDR_VERIFY_OP_START, .value = 1 + draw(s, 5), .members = DDR_VERIFY_F_REPAIR };
	struct act back = act_of(ACT_PUT_BACK, n);
	struct ddr_super sb;

	if (!n->sm || !check_newest_super(s, &sb))
		return;
	back.arg[0] = draw(s, sb.members);
	if (sim_may_put_back(s, n, (uint32_t)back.arg[0]))
		sim_act(s, back);
	else if (has(s, RARE_WRONG) && sb.verify.state != DDR_VERIFY_RUNNING)
		sim_operator(s, n, &verify, false);
}

/* ---- where a daemon looks at disks -------------------------------------------------- */

/* One that is not in use hangs for whoever opens it, or is another disk by the time it is locked. */
static void where_a_thread_looks(struct sim *s, const struct node *n)
{
	uint32_t m = n->looks_at - 1;

	if (has(s, RARE_SLOW) && chance(s, 2))
		act(s, n, RARE_SLOW, m, 1 + draw(s, 3 * HANGS_MS));
	if (has(s, RARE_SWAP) && chance(s, 2))
		act(s, n, chance(s, 4) ? RARE_FOREIGN : RARE_SWAP, m, 1 + draw(s, 3));
}

/* It is told to start the array, or is about to. */
static void where_a_node_starts(struct sim *s, const struct node *n)
{
	if (has(s, RARE_OLDER) && !n->k.there && !n->newer && chance(s, 2))
		act(s, n, RARE_OLDER, draw(s, 4), 0);
	if (n->older && chance(s, 20))
		act(s, n, RARE_READONLY, 1 + draw(s, HANGS_MS), 0);
	if (has(s, RARE_GONE) && n->k.there && chance(s, 40))
		act(s, n, RARE_GONE, 0, 0);
}

/* ---- at any time ------------------------------------------------------------------ */

static void one(struct sim *s, const struct node *n, enum rare_what what)
{
	switch (what) {
	case RARE_CLOCK:	/* forward, once, by up to 40 days */
		act(s, n, what, 1 + draw(s, 40ull * 86400), 0);
		return;
	case RARE_LOCK:
		act(s, n, what, draw(s, s->sb0.members), 1 + draw(s, 2 * HANGS_MS));
		return;
	case RARE_MODULE:
		act(s, n, what, draw(s, 4), draw(s, 2));
		return;
	case RARE_SHORTAGE:
		act(s, n, what, 1 + draw(s, 3 * HANGS_MS), 0);
		return;
	case RARE_USER:
		if (act(s, n, what, 1, 0))
			s->rare.user_until = s->event + 50 + draw(s, 600);
		return;
	case RARE_DAMAGED:
		act(s, n, what, draw(s, 512), 0);
		return;
	case RARE_COPIED:
		act(s, n, what, 1 + draw(s, s->n_nodes), 0);
		return;
	case RARE_NO_GROUP:
		act(s, n, what, 1 + draw(s, HANGS_MS), 0);
		return;
	case RARE_PATH:
		act(s, n, what, draw(s, s->sb0.members), 1 + draw(s, 2 * HANGS_MS));
		return;
	case RARE_FOREIGN:
		act(s, n, what, draw(s, s->sb0.members), 0);
		return;
	case RARE_READONLY:
		act(s, n, what, 1 + draw(s, HANGS_MS), 0);
		return;
	case RARE_CLONE:
		if (act(s, n, what, 1 + draw(s, s->n_nodes), 0))
			s->rare.clone_until = s->event + 500 + draw(s, 3000);
		return;
	case RARE_HIDDEN:
		act(s, n, what, !n->hidden, 0);
		return;
	case RARE_WEDGE:	/* often for longer than owe_time (twin/node.c) */
		act(s, n, what, 1 + draw(s, 6 * HANGS_MS), 0);
		return;
	case RARE_TABLE:
		act(s, n, what, 1 + draw(s, SIM_TABLES), 0);
		return;
	case RARE_ADOPT:
	case RARE_GROUP:
	case RARE_STATUS:
		act(s, n, what, 0, 0);
		return;
	default:	/* these have moments of their own */
		return;
	}
}

void rare_event(struct sim *s, struct node *n)
{
	uint32_t what;

	if (s->rare.user && s->event >= s->rare.user_until)
		act(s, &s->node[s->rare.user - 1], RARE_USER, 0, 0);
	if (s->rare.clone && s->event >= s->rare.clone_until)
		act(s, &s->node[s->rare.clone - 1], RARE_CLONE, 0, 0);
	where_a_job_works(s, n);
	if (n->looks_at)
		where_a_thread_looks(s, n);
	if (has(s, RARE_TAKEN) && !s->cluster && !s->finding && n->stopped && !s->rare.taken && chance(s, 20) &&
	    act(s, n, RARE_TAKEN, TAKEN_MS + draw(s, 2 * TAKEN_MS), 0))
		n->stopped_until = s->event + 1 + draw(s, 40);
	if (!n->sm)
		where_a_node_starts(s, n);
	if (!s->finding && !rare_quiet(s))
		starts_event(s, n);
	if ((has(s, RARE_WRONG) || has(s, RARE_SLOW) || has(s, RARE_SWAP)) && chance(s, 15))
		operator_cares(s, n);
	if (has(s, RARE_BAD_COPY) && n->ready && chance(s, 25))
		replaces(s, n);
	if (!chance(s, s->rare.every) || rare_quiet(s))
		return;
	for (what = 0; what < RARE_TAKEN; what++)
		if (has(s, (enum rare_what)what) && chance(s, 2)) {
			one(s, n, (enum rare_what)what);
			return;
		}
}

void rare_calm(struct sim *s)
{
	for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++)
		s->disk[m].wrong = s->disk[m].foreign = s->disk[m].exchanged = s->disk[m].lies = false;
	starts_calm(s);
	if (s->rare.user)
		act(s, &s->node[s->rare.user - 1], RARE_USER, 0, 0);
	if (s->rare.clone)
		act(s, &s->node[s->rare.clone - 1], RARE_CLONE, 0, 0);
	for (struct node *n = s->node; n < s->node + s->n_nodes; n++) {
		n->readonly_until = n->no_group_until = n->path_until = n->wedged_until = 0;
		memset(n->locked_until, 0, sizeof(n->locked_until));
		memset(n->slow_until, 0, sizeof(n->slow_until));
		n->short_until = 0;
		kernel_run(s, &n->k);
		act(s, n, RARE_HIDDEN, 0, 0);
	}
}
