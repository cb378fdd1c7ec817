// SPDX-License-Identifier: GPL-2.0-or-later
/* Acts: the single events. They come from a schedule, which records them, or from a tape. */
#include <stdlib.h>
#include <string.h>

#include "kernel.h"
#include "node.h"

/* ---- draws --------------------------------------------------------------------- */

#define DRAWS_MAX	(1u << 16)	/* of one act */

/* Before an act: within it a real daemon may run, whose memory is freed when it dies. */
static void pool_room(struct tape *t)
{
	if (t->room_pool - t->n_pool >= DRAWS_MAX)
		return;
	t->room_pool = 2 * t->room_pool + DRAWS_MAX;
	t->pool = realloc(t->pool, t->room_pool * sizeof(*t->pool));
	if (!t->pool)
		abort();
}

static void pool_add(struct tape *t, uint64_t v)
{
	if (t->n_pool == t->room_pool)
		abort();
	t->pool[t->n_pool++] = v;
	t->act[t->n - 1].n_draws++;
}

static bool pool_next(struct tape *t, uint64_t *v)
{
	const struct act *a = &t->act[t->at];

	*v = t->next < a->n_draws ? t->pool[a->draws + t->next] : 0;
	return t->next++ < a->n_draws;
}

uint64_t tape_rand(struct sim *s, uint64_t n)
{
	struct tape *t = s->tape;
	uint64_t v;

	if (t->inside && t->replay)
		return pool_next(t, &v) ? v % n : 0;
	v = rig_random(&s->rng) % n;
	if (t->inside)
		pool_add(t, v);
	return v;
}

bool tape_chance(struct sim *s, uint64_t in)
{
	struct tape *t = s->tape;
	uint64_t v;

	if (t->inside && t->replay)
		return pool_next(t, &v) && v == 1;
	v = rig_random(&s->rng) % in == 0;
	if (t->inside)
		pool_add(t, v);
	return v == 1;
}

void tape_free(struct tape *t)
{
	free(t->act);
	free(t->pool);
	memset(t, 0, sizeof(*t));
}

/* ---- what is in progress ----------------------------------------------------------- */

static bool settle_node(struct sim *s, struct node *n, uint64_t but)
{
	bool moved = false;

	if (!(but & SETTLE_MESSAGES)) {
		moved |= s->cluster && cluster_quorum(s, n);
		moved |= s->cluster && cluster_order(s, n);
		moved |= s->cluster && cluster_deliver(s, n);
		moved |= !s->cluster && bus_event(s);
	}
	if (!(but & SETTLE_RECORDS))
		moved |= node_record(s, n) || node_seeks(s, n) || node_resizes(s, n) || node_table(s, n);
	if (!(but & SETTLE_IO) && !sim_real)	/* the requests of a real daemon are among what node_record() has */
		moved |= node_io_any(s, n);
	if (!(but & SETTLE_OPS))
		moved |= kernel_op_any(s, &n->k);
	return moved;
}

static void settle(struct sim *s, uint64_t nodes, uint64_t but)
{
	bool moved = true;

	for (uint32_t limit = 20000; moved && limit; limit--) {
		moved = false;
		for (uint32_t i = 0; i < s->n_nodes; i++)
			if (!(nodes >> s->node[i].id & 1))
				moved |= settle_node(s, &s->node[i], but);
	}
}

/* ---- acts ------------------------------------------------------------------------ */

static bool power_off(struct sim *s, struct node *n)
{
	if (s->cluster) {
		cluster_power_off(s, n);
		return true;
	}
	if (node_limit_open(s))
		return false;
	node_power(s, n);
	return true;
}

static bool start(struct sim *s, struct node *n)
{
	if (s->cluster)
		return cluster_daemon_start(s, n);
	if (!node_may_start(n))
		return false;
	node_start(s, n);
	return true;
}

static bool kill(struct sim *s, struct node *n)
{
	if (n->sm)
		node_kill(s, n);
	return true;
}

static bool operator(struct sim *s, struct node *n, const struct act *a)
{
	struct ddr_input in = { .type = (enum ddr_in_type)a->sub, .key = (uint32_t)a->arg[0], .value = a->arg[1], .member = (uint32_t)a->arg[2],
				.members = (uint32_t)(a->arg[3] & 0xffffffff), .count = a->arg[4] };

	if (!n->sm || (in.type == DDR_IN_OP_FAIL_MEMBER && !sim_may_fail(s, in.member, a->arg[3] >> 32)))
		return false;
	node_step(s, n, &in);
	return true;
}

/* With a cluster, no new I/O starts on a device that is being stopped. */
static bool io(struct sim *s, struct node *n, const struct act *a)
{
	if (s->cluster && (!n->up || n->leaving || !n->k.enabled || !n->k.there))
		return false;
	return kernel_begin(s, &n->k, (enum op_kind)a->sub, a->arg[0], a->arg[1], (uint32_t)a->arg[2]);
}

static bool goes_on(struct sim *s, struct node *n, const struct act *a)
{
	switch (a->verb) {
	case ACT_ORDER: return cluster_order(s, n);
	case ACT_DELIVER: return cluster_deliver(s, n);
	case ACT_QUORUM: return cluster_quorum(s, n);
	case ACT_BUS: return bus_event(s);
	case ACT_RECORD: return a->arg[0] ? node_does(s, n, a) : node_record(s, n);
	case ACT_SEEK: return node_seeks(s, n);
	case ACT_TABLE: return node_table(s, n);
	case ACT_RESIZE: return node_resizes(s, n);
	case ACT_DONE: return node_io_act(s, n, a);
	case ACT_OP: return kernel_op_act(s, &n->k, (uint32_t)a->arg[0], (uint32_t)a->arg[1]);
	default: return false;
	}
}

static bool disks(struct sim *s, struct node *n, const struct act *a)
{
	switch (a->verb) {
	case ACT_DISK: return sim_disk_fails(s, (uint32_t)a->arg[0], (enum disk_fault)a->sub);
	case ACT_CUT: return sim_disk_cut(s, n, (uint32_t)a->arg[0]);
	case ACT_BAD: return sim_disk_bad(s, (uint32_t)a->arg[0], a->arg[1], a->arg[2], a->arg[3]);
	case ACT_HANG: return sim_disk_hangs(s, n, (uint32_t)a->arg[0], a->arg[1], a->arg[2]);
	case ACT_PUT_BACK: return sim_put_back(s, n, (uint32_t)a->arg[0], a->arg[1], !a->arg[2]);
	case ACT_FULL:
	case ACT_SPACE:
		for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++)
			if (a->arg[0] >> m & 1)
				s->disk[m].full = a->verb == ACT_FULL;
		return true;
	case ACT_ROOM: return grow_sees(s, a->arg[0], (uint32_t)a->arg[1]);
	default: return false;
	}
}

static bool act_do(struct sim *s, const struct act *a)
{
	struct node *n = &s->node[a->node ? (a->node - 1u) % s->n_nodes : 0];

	sim_disks_mended(s);
	if (a->verb != ACT_TICK)
		node_wakes(s, n);
	switch (a->verb) {
	case ACT_START: return start(s, n);
	case ACT_KILL: return kill(s, n);
	case ACT_KILL_SOON:
		n->crash_after = n->sm ? (int)a->arg[0] : n->crash_after;
		return true;
	case ACT_POWER_OFF: return power_off(s, n);
	case ACT_POWER_ON: return s->cluster && cluster_power_on(s, n, a->arg[0], a->arg[1]);
	case ACT_BLACKOUT:
		cluster_blackout(s);
		return true;
	case ACT_NETWORK: return s->cluster && cluster_parts(s, a->arg[0]);
	case ACT_TOGETHER:
		cluster_together(s, a->arg[0]);
		return true;
	case ACT_QUORATE: return sim_quorate(s, n);
	case ACT_FENCE_ENDS: return cluster_fence_ends(s, a);
	case ACT_FENCE_BY_HAND: return cluster_operator_fences(s, n);
	case ACT_LATE: return late_ends(s, (uint32_t)a->arg[0], a->arg[1]);
	case ACT_LEAVE: return leave_begin(s, n);
	case ACT_STAY: return leave_ends(s, n);
	case ACT_LEAVE_GOES_ON: return leave_go_on(s, n);
	case ACT_OPERATOR: return operator(s, n, a);
	case ACT_STOP: return node_stops(s, n, a->arg[0]);
	case ACT_END: return node_ends(s, n);
	case ACT_COROSYNC: return cluster_corosync(s, n, a->arg[0]);
	case ACT_CALL: return node_call_fails(s, n, a->sub, (int)a->arg[0]);
	case ACT_UEVENT: return node_hears(s, n, a->sub, (uint32_t)a->arg[0]);
	case ACT_RARE: return node_rare(s, n, a);
	case ACT_TICK:
		sim_tick(s, n, a->arg[0]);
		return true;
	case ACT_IO: return io(s, n, a);
	case ACT_SETTLE:
		settle(s, a->arg[0], a->arg[1]);
		return true;
	case ACT_CALM:
		if (s->tape)
			s->tape->inside = false;	/* free draws from here on */
		s->rng = a->arg[0];
		(s->cluster ? cluster_calm : sim_calm)(s);
		return true;
	default: return act_goes_on(a) ? goes_on(s, n, a) : disks(s, n, a);
	}
}

bool act_goes_on(const struct act *a)
{
	return a->verb >= ACT_ORDER && a->verb <= ACT_OP;
}

struct act act_of(enum act_verb verb, const struct node *n)
{
	return (struct act){ .verb = (uint8_t)verb, .node = n ? (uint8_t)n->id : 0 };
}

bool sim_operator(struct sim *s, const struct node *n, const struct ddr_input *in, bool counted)
{
	struct act a = act_of(ACT_OPERATOR, n);

	a.sub = (uint8_t)in->type;
	a.arg[0] = in->key;
	a.arg[1] = in->value;
	a.arg[2] = in->member;
	a.arg[3] = in->members | (uint64_t)counted << 32;
	a.arg[4] = in->count;
	return sim_act(s, a);
}

bool sim_act(struct sim *s, struct act a)
{
	struct tape *t = s->tape;
	bool moved;

	if (!t || t->replay || t->inside || s->calm)
		return act_do(s, &a);
	if (t->n == t->room) {
		t->room = t->room ? 2 * t->room : 1024;
		t->act = realloc(t->act, t->room * sizeof(*t->act));
		if (!t->act)
			abort();
	}
	pool_room(t);
	a.draws = (uint32_t)t->n_pool;
	a.n_draws = 0;
	t->act[t->n++] = a;
	t->inside = true;
	moved = act_do(s, &a);
	t->inside = false;
	if (!moved && !t->act[t->n - 1].n_draws)
		t->n--;		/* nothing happened */
	return moved;
}

/* ---- replay ---------------------------------------------------------------------- */

static void look(struct sim *s)
{
	check_media(s);
	for (uint32_t i = 0; i < s->n_nodes; i++) {
		struct node *n = &s->node[i];

		if (!s->cluster || (n->k.there && n->k.enabled && !n->k.killed))
			check_visible(s, n);
		if (!s->cluster)
			check_frozen(s, n);
	}
}

/* The acts of the tape; after each the checks that the schedule makes now and then. */
void tape_replay(struct sim *s)
{
	struct tape *t = s->tape;
	size_t often = t->n > 400 ? 16 : 1;

	for (t->at = 0; t->at < t->n; t->at++) {
		t->next = 0;
		t->inside = true;
		s->event++;
		act_do(s, &t->act[t->at]);
		t->inside = false;
		if (!t->blind && t->act[t->at].verb != ACT_CALM && t->at % often == 0)
			look(s);
	}
	if (!t->blind)
		look(s);
}
