// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What befalls a machine with a real daemon while it starts the array: its table is a wrong one, disks of another array lie where its own should be, calls
 * fail while it loads. And while its operator adopts the array: another machine stamps or claims it, writes its superblocks, disks hang, are exchanged or die.
 * Beside that tables that cannot be loaded, and arrays that grow, once it runs. twin/starts.c has what follows, and what may not.
 *
 * Time passes faster where nothing but time is waited for: an adoption waits for more than a minute, in steps that are too short for a standstill.
 *
 * Drawn from numbers of its own, like rare.c.
 */
#include <errno.h>

#include "sim.h"

#define STEP_MS		1900u	/* the daemon ran within the last two seconds (twin/node.c, STOOD_STILL_MS) */
#define HANGS_MS	20000u	/* io_timeout of all daemons */

static uint64_t draw(struct sim *s, uint64_t n)
{
	return rig_random(&s->rare.moments) % n;
}

static bool chance(struct sim *s, uint64_t in)
{
	return draw(s, in) == 0;
}

static bool has(const struct sim *s, enum rare_what what)
{
	return s->rare.kinds >> what & 1;
}

static bool act(struct sim *s, const struct node *n, enum rare_what what, uint64_t first, uint64_t second)
{
	struct act a = act_of(ACT_RARE, n);

	a.sub = (uint8_t)what;
	a.arg[0] = first;
	a.arg[1] = second;
	return sim_act(s, a);
}

/* Mostly all members, else any of them. */
static uint64_t members(struct sim *s)
{
	uint64_t all = (1u << s->sb0.members) - 1;

	return chance(s, 2) ? all : 1 + draw(s, all);
}

/* A call that a load makes fails, for a reason of its own machine. */
static void call_fails(struct sim *s, const struct node *n)
{
	static const struct { uint8_t what; int error; } calls[] = {
		{ CALL_READ, ENOMEM }, { CALL_MEMORY, ENOMEM }, { CALL_THREAD, EAGAIN }, { CALL_LOCK, ENOLCK }, { CALL_STATE, EMFILE }, { CALL_OPEN, EMFILE },
	};
	struct act a = act_of(ACT_CALL, n);
	uint64_t i = draw(s, sizeof(calls) / sizeof(calls[0]));

	a.sub = calls[i].what;
	a.arg[0] = (uint64_t)calls[i].error;
	sim_act(s, a);
}

/* ---- before it starts ---------------------------------------------------------------- */

static void while_it_is_off(struct sim *s, struct node *n)
{
	if (has(s, RARE_TABLE) && chance(s, s->cluster ? 100 : 12))
		act(s, n, RARE_TABLE, 1 + draw(s, SIM_TABLES), 0);
	if (has(s, RARE_STRANGERS) && chance(s, 20))
		act(s, n, RARE_STRANGERS, members(s), 0);
}

static void while_it_loads(struct sim *s, struct node *n)
{
	if (has(s, RARE_OTHERS) && !s->cluster && chance(s, 30))
		act(s, n, RARE_ADOPT, 0, 0);
	if (has(s, RARE_LOADS) && chance(s, 60))
		call_fails(s, n);
	if (has(s, RARE_LOADS) && chance(s, 80))
		act(s, n, RARE_LOCK, draw(s, s->sb0.members), 1 + draw(s, 2 * HANGS_MS));
	if (has(s, RARE_SWAP) && chance(s, 15))
		act(s, n, RARE_SWAP, draw(s, s->sb0.members), 1 + draw(s, 3));
	if (has(s, RARE_NO_GROUP) && s->cluster && chance(s, 60))
		act(s, n, RARE_NO_GROUP, HANGS_MS + draw(s, 2 * HANGS_MS), 0);
}

/* ---- while it adopts -------------------------------------------------------------------- */

static void one_of_those(struct sim *s, const struct node *n)
{
	struct act a = act_of(ACT_DISK, NULL);

	switch (draw(s, 8)) {
	case 0:
	case 1:
	case 2:
		act(s, n, RARE_OTHERS, 1 + draw(s, 4), members(s));
		return;
	case 3:
	case 4:
		act(s, n, RARE_MUTE, members(s), HANGS_MS / 2 + draw(s, 3 * HANGS_MS));
		return;
	case 5:
		act(s, n, RARE_SWAP, draw(s, s->sb0.members), 1 + draw(s, 3));
		return;
	case 6:
		call_fails(s, n);
		return;
	default:
		a.sub = FAULT_NONE;
		a.arg[0] = draw(s, s->sb0.members);
		sim_act(s, a);
	}
}

static void while_it_claims(struct sim *s, struct node *n)
{
	struct act tick = act_of(ACT_TICK, n), end = act_of(ACT_END, n);

	if (has(s, RARE_OTHERS) && chance(s, 60))
		one_of_those(s, n);
	if (has(s, RARE_GONE) && chance(s, 200))
		act(s, n, RARE_GONE, 0, 0);
	if (chance(s, 500))
		sim_act(s, end);
	tick.arg[0] = 1 + draw(s, STEP_MS);
	if (chance(s, 2))
		sim_act(s, tick);
}

/* ---- while it runs ---------------------------------------------------------------------- */

/* All disks become larger, and then the array does. */
static void grows(struct sim *s, const struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_OP_GROW };
	struct act a = act_of(ACT_ROOM, NULL);
	struct ddr_super sb;

	if (s->lossy || !check_newest_super(s, &sb) || (uint32_t)__builtin_popcount(check_in_sync(&sb)) < s->g.roles)
		return;
	a.arg[0] = s->room + (draw(s, 2ull * s->geo.region_blocks) << s->g.order);
	for (uint32_t i = 0; i < s->n_nodes; i++)
		a.arg[1] |= chance(s, 8) ? 0 : 1u << s->node[i].id;
	sim_act(s, a);
	sim_operator(s, n, &in, false);
}

static void while_it_runs(struct sim *s, struct node *n)
{
	static const int errors[] = { ENOMEM, EAGAIN, EBUSY, EINVAL };

	if (!has(s, RARE_MAPS) || !n->ready)
		return;
	if ((n->table_due || n->resize) && chance(s, 8))
		act(s, n, RARE_MAPS, (uint64_t)errors[draw(s, 4)], 0);
	if (chance(s, 150))
		grows(s, n);
}

/* A thread has found a member, and opens or reads it. */
static void while_it_looks(struct sim *s, const struct node *n)
{
	uint32_t m = n->looks_at - 1;

	if (has(s, RARE_PATH) && chance(s, 3))
		act(s, n, RARE_PATH, m, 1 + draw(s, 4 * HANGS_MS));
	if (has(s, RARE_LOADS) && chance(s, 3))
		act(s, n, RARE_SLOW, m, HANGS_MS + draw(s, 3 * HANGS_MS));
	if (has(s, RARE_LOADS) && chance(s, 4))
		call_fails(s, n);
	if (has(s, RARE_STRANGERS) && chance(s, 4))
		act(s, n, RARE_SWAP, m, 1 + draw(s, 3));
}

void starts_event(struct sim *s, struct node *n)
{
	if (n->looks_at)
		while_it_looks(s, n);
	if (n->sm)
		while_it_runs(s, n);
	else if (n->claims)
		while_it_claims(s, n);
	else if (n->k.there)
		while_it_loads(s, n);
	else
		while_it_is_off(s, n);
}

void starts_calm(struct sim *s)
{
	for (struct node *n = s->node; n < s->node + s->n_nodes; n++) {
		n->mute = 0;
		n->strangers_gone = n->strangers;
		n->strangers = 0;
		n->no_table = 0;
	}
}
