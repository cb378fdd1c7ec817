// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What befalls real daemons (ddrsim --daemon) beside what befalls the state machine: processes that are stopped and go on, corosync that ends and comes
 * back, calls of the system that fail once, events of block devices, disks that vanish and return without an operator. How likely each is comes from the seed.
 */
#include <errno.h>

#include "sim.h"

void world_draw(struct sim *s)
{
	static const uint32_t often[WORLD_EVENTS] = { [WORLD_STOP] = 3, [WORLD_COROSYNC] = 2, [WORLD_CALL] = 4, [WORLD_UEVENT] = 2, [WORLD_VANISH] = 2, [WORLD_BAD] = 4, [WORLD_END] = 1,
								[WORLD_CLIENT] = 2 };
	static const uint32_t every[] = { 100, 200, 400, 1000 };
	struct world *w = &s->world;

	for (uint32_t i = 0; i < WORLD_EVENTS; i++) {
		w->weight[i] = sim_chance(s, 3) ? 0 : often[i] * (1 + (uint32_t)sim_rand(s, 4));
		w->sum += w->weight[i];
	}
	w->every = every[sim_rand(s, 4)];
}

static void stop(struct sim *s, struct node *n, bool on)
{
	struct act a = act_of(ACT_STOP, n);

	a.arg[0] = on;
	if (sim_act(s, a) && on)
		n->stopped_until = s->event + 20 + sim_rand(s, sim_chance(s, 2) ? 100 : 1000);
}

static void corosync(struct sim *s, struct node *n, bool ends)
{
	struct act a = act_of(ACT_COROSYNC, n);

	a.arg[0] = ends;
	if (sim_act(s, a) && ends)
		n->deaf_until = s->event + 5 + sim_rand(s, sim_chance(s, 2) ? 50 : 600);
}

static void call(struct sim *s, struct node *n)
{
	static const int errors[WORLD_CALLS][2] = {
		[CALL_OPEN] = { EMFILE, ENXIO }, [CALL_BIND] = { ENOMEM, EINTR }, [CALL_EVENTFD] = { EMFILE, ENFILE }, [CALL_THREAD] = { EAGAIN, ENOMEM },
		[CALL_MEMORY] = { ENOMEM, ENOMEM }, [CALL_CONNECT] = { ENOSPC, ENOMEM }, [CALL_BUSY] = { EAGAIN, EAGAIN }, [CALL_FENCE] = { EAGAIN, EPIPE },
		[CALL_SYSFS] = { EMFILE, ENOMEM }, [CALL_READ] = { ENOMEM, EINTR }, [CALL_REQUEST] = { ENOMEM, EAGAIN }, [CALL_LOCK] = { ENOLCK, EINTR },
		[CALL_STATE] = { EMFILE, ENOMEM }, [CALL_INOTIFY] = { EMFILE, ENOSPC }, [CALL_CONTROL] = { EIO, ENODEV },
	};
	struct act a = act_of(ACT_CALL, n);

	a.sub = (uint8_t)sim_rand(s, WORLD_CALLS);
	a.arg[0] = (uint64_t)errors[a.sub][sim_rand(s, 2)];
	sim_act(s, a);
}

static void uevent(struct sim *s, struct node *n)
{
	struct act a = act_of(ACT_UEVENT, n);

	a.sub = (uint8_t)sim_rand(s, WORLD_NEWS);
	a.arg[0] = sim_rand(s, s->sb0.members);
	sim_act(s, a);
}

/* A disk that is gone returns, and nobody asks for it; or one that is there goes. */
static void vanish(struct sim *s, const struct node *n)
{
	struct act a = act_of(ACT_DISK, NULL), back = act_of(ACT_PUT_BACK, n);
	uint32_t m = (uint32_t)sim_rand(s, s->sb0.members);

	a.sub = FAULT_NONE;
	a.arg[0] = back.arg[0] = m;
	back.arg[2] = 1;
	if (!s->disk[m].dead)
		sim_act(s, a);
	else if (sim_may_put_back(s, n, m))
		sim_act(s, back);
}

/* A client asks for what others would have to see, or has waited for it for long enough (daemon/ipc/ipc_wait.c). */
static void client(struct sim *s, const struct node *n)
{
	struct ddr_input in = { .type = sim_chance(s, 2) ? DDR_IN_OP_ADD : DDR_IN_OP_WITHDRAW, .value = 1 + sim_rand(s, 3) };
	struct ddr_super sb;

	if (n->sm && sim_chance(s, 3) && check_newest_super(s, &sb))
		in = (struct ddr_input){ .type = DDR_IN_OP_REPLACE, .member = (uint32_t)sim_rand(s, sb.members), .value = DDR_NO_MEMBER };
	if (n->sm)
		sim_operator(s, n, &in, false);
}

/* A disk gets bad sectors; often the one that is being replaced, or is replaced now, since that is why it is. */
static void bad(struct sim *s, const struct node *n)
{
	struct act a = act_of(ACT_BAD, NULL);
	struct ddr_super sb = { 0 };

	a.arg[0] = sim_rand(s, s->sb0.members);
	a.arg[1] = sim_rand(s, s->blocks);
	a.arg[2] = 1 + sim_rand(s, 6);
	a.arg[3] = sim_rand(s, 3);
	for (uint32_t m = 0; check_newest_super(s, &sb) && m < sb.members && !sim_chance(s, 3); m++)
		for (uint32_t old = 0; old < sb.members && (sb.member[m].flags & DDR_MEMBER_F_REPLACING); old++)
			if (old != m && sb.member[old].role == sb.member[m].role && sb.member[old].state == DDR_MEMBER_IN_SYNC) {
				a.arg[0] = old;
				a.arg[1] = sb.member[m].cursor < s->blocks ? sb.member[m].cursor + sim_rand(s, s->blocks - sb.member[m].cursor) : 0;
			}
	if (!sim_act(s, a) || !s->replaces || !n->sm || sim_chance(s, 3))
		return;
	for (uint32_t m = 0; m < sb.members; m++)
		if (sb.member[m].state == DDR_MEMBER_SPARE)
			sim_operator(s, n, &(struct ddr_input){ .type = DDR_IN_OP_REPLACE, .member = (uint32_t)a.arg[0], .value = m }, false);
}

void world_event(struct sim *s, struct node *n)
{
	uint64_t at;
	uint32_t what = 0;

	for (struct node *o = s->node; o < s->node + s->n_nodes; o++) {
		if (o->stopped && s->event >= o->stopped_until)
			stop(s, o, false);
		if (o->deaf && s->event >= o->deaf_until)
			corosync(s, o, false);
	}
	if (s->finding)
		finding_event(s, n);
	else
		rare_event(s, n);
	if (!s->world.sum || !sim_chance(s, s->world.every) || rare_quiet(s))
		return;
	at = sim_rand(s, s->world.sum);
	while (at >= s->world.weight[what])
		at -= s->world.weight[what++];
	switch ((enum world_event)what) {
	case WORLD_STOP: stop(s, n, true); return;
	case WORLD_COROSYNC: corosync(s, n, true); return;
	case WORLD_CALL: call(s, n); return;
	case WORLD_UEVENT: uevent(s, n); return;
	case WORLD_VANISH: vanish(s, n); return;
	case WORLD_BAD: bad(s, n); return;
	case WORLD_END: sim_act(s, act_of(ACT_END, n)); return;
	case WORLD_CLIENT: client(s, n); return;
	case WORLD_EVENTS: return;
	}
}

/* All of it ends. */
void world_calm(struct sim *s)
{
	for (struct node *n = s->node; n < s->node + s->n_nodes; n++) {
		if (s->finding != FINDING_T2 || !n->lasting)
			node_stops(s, n, false);
		node_call_fails(s, n, WORLD_CALLS, 0);
		cluster_corosync(s, n, false);
	}
	rare_calm(s);
}
