// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What happens to several nodes, and when. Seeds differ in what is likely (storm_draw): the same mixture everywhere would find the
 * same bugs everywhere.
 *
 * Faults happen at random, and also just after outputs at which a rule is at stake (a slot being taken over, a fencing, a range, a
 * write of shared metadata): a uniform schedule rarely hits these moments.
 */
#include <string.h>

#include "sim.h"

/* ---- leaving ------------------------------------------------------------------- */

static void op(struct sim *s, struct node *n, enum ddr_in_type type, uint32_t key, uint64_t value)
{
	struct ddr_input in = { .type = type, .key = key, .value = value };

	if (n->sm)
		node_step(s, n, &in);
}

bool leave_begin(struct sim *s, struct node *n)
{
	if (!n->sm || n->leaving)	/* also one that has not completely started */
		return false;
	sim_trace(s, "node %u: the array is to be stopped", n->id);
	n->leaving = true;
	n->clean = n->clean_asked = false;
	return true;
}

/* The stop was cancelled, and nothing is paused. */
static void go_on(struct sim *s, struct node *n)
{
	n->leaving = n->clean = n->clean_asked = false;
	op(s, n, DDR_IN_OP_STAY, 0, 0);
	op(s, n, DDR_IN_OP_SET, DDR_SM_RESYNC_PAUSED, 0);
}

/* The device is still there: the stop took too long, or was cancelled. */
bool leave_ends(struct sim *s, struct node *n)
{
	if (!n->leaving || !n->clean_asked || !n->k.there || !n->sm || n->left)
		return false;
	sim_trace(s, "node %u: the array is not to be stopped any more", n->id);
	go_on(s, n);
	return true;
}

bool leave_go_on(struct sim *s, struct node *n)
{
	if (!n->leaving || !n->sm || n->stopped)
		return false;
	if (!n->clean_asked && !kernel_busy(&n->k)) {
		n->clean_asked = true;
		op(s, n, DDR_IN_OP_CLEAN, 0, 0);
	} else if (n->left) {
		sim_trace(s, "node %u: leaves", n->id);
		s->stats[STAT_LEFT]++;
		n->leaving = false;
		node_kill(s, n);
		n->left = true;
	} else if (n->clean && n->k.there && !kernel_busy(&n->k)) {
		for (uint64_t r = 0; r < s->regions; r++)
			if (n->k.granted[r])
				return false;
		memset(&n->k, 0, sizeof(n->k));
		op(s, n, DDR_IN_K_DETACHED, 0, 0);
		op(s, n, DDR_IN_OP_LEAVE, 0, 0);
	} else {
		return false;
	}
	return true;
}

/* ---- faults ------------------------------------------------------------------------ */

enum misfortune { POWER_OFF, POWER_OFF_TWO, REBOOT, BLACKOUT, KILL_SOON, KILL_ALL, RESTART, SPLIT_TWO, SPLIT_THREE, ISOLATE, HEAL, FLAP,
	LEAVE, LEAVE_ALL, JOIN_ALL, LEAVE_AND_JOIN, SLEEP, MEMBER, GROW, SETTINGS };

static const uint32_t often[SIM_MISFORTUNES] = {
	[POWER_OFF] = 4, [POWER_OFF_TWO] = 1, [REBOOT] = 3, [BLACKOUT] = 1, [KILL_SOON] = 6, [KILL_ALL] = 2, [RESTART] = 4, [SPLIT_TWO] = 2,
	[SPLIT_THREE] = 1, [ISOLATE] = 4, [HEAL] = 4, [FLAP] = 2, [LEAVE] = 4, [LEAVE_ALL] = 1, [JOIN_ALL] = 2, [LEAVE_AND_JOIN] = 2, [SLEEP] = 2,
	[MEMBER] = 3, [GROW] = 4, [SETTINGS] = 1,
};

static uint32_t one_of(struct sim *s, const uint32_t *list, uint32_t n)
{
	return list[sim_rand(s, n)];
}

void storm_draw(struct sim *s)
{
	static const uint32_t every[] = { 80, 150, 300, 600, 1500 }, steer[] = { 0, 2, 4, 8, 16 }, patience[] = { 0, 50, 150, 400 };
	static const uint32_t back[] = { 15, 40, 100, 300 }, fails[] = { 0, 8, 3, 2 }, speed[] = { 4, 15, 60, 200 }, io[] = { 4, 8, 15 };
	static const uint32_t away[] = { 1000, 5000, 30000 }, idle[] = { 100, 500, 2000, 5000 };
	struct storm *w = &s->storm;

	for (uint32_t i = 0; i < SIM_MISFORTUNES; i++) {
		w->weight[i] = sim_chance(s, 3) ? 0 : often[i] * (1 + (uint32_t)sim_rand(s, 4));
		w->sum += w->weight[i];
	}
	w->weight[SETTINGS] += s->seed % 7 == 3 ? 10 : 1;	/* never zero */
	w->sum += s->seed % 7 == 3 ? 10 : 1;
	w->every = one_of(s, every, 5);
	w->steer = one_of(s, steer, 5);
	w->patience = one_of(s, patience, 4);
	w->daemon_back = one_of(s, back, 4);
	w->power_back = one_of(s, back, 4);
	w->heal_back = one_of(s, back, 4) * 2;
	w->fence_fails = one_of(s, fails, 4);
	w->fence_speed = one_of(s, speed, 4);
	w->io = one_of(s, io, 3);
	w->away_ms = one_of(s, away, 3);
	w->idle_ms = one_of(s, idle, 4);
	w->focus = sim_rand(s, s->regions);
	w->focus_regions = 1 + sim_rand(s, 3);
	w->slow = sim_chance(s, 4) ? 1 + (uint32_t)sim_rand(s, s->n_nodes) : 0;
}

static void kill_soon(struct sim *s, struct node *n)
{
	struct act a = act_of(ACT_KILL_SOON, n);

	if (!n->sm)
		return;
	a.arg[0] = sim_rand(s, 8);
	sim_act(s, a);
	s->stats[STAT_KILLS]++;
}

static void kill_now(struct sim *s, struct node *n)
{
	if (!n->sm)
		return;
	sim_act(s, act_of(ACT_KILL, n));
	s->stats[STAT_KILLS]++;
}

static void all(struct sim *s, void (*what)(struct sim *, struct node *))
{
	for (struct node *n = s->node; n < s->node + s->n_nodes; n++)
		what(s, n);
}

static void start(struct sim *s, struct node *n)
{
	if (n->up && node_may_start(n))
		sim_act(s, act_of(ACT_START, n));
}

static void power_off(struct sim *s, struct node *n)
{
	if (n->up)
		sim_act(s, act_of(ACT_POWER_OFF, n));
}

static void gather(struct sim *s, bool begin)
{
	struct act a = act_of(ACT_TOGETHER, NULL);

	a.arg[0] = begin;
	sim_act(s, a);
}

/* Most of the running nodes leave at the same moment. */
static void maybe_leave(struct sim *s, struct node *n)
{
	if (!sim_chance(s, 3))
		sim_act(s, act_of(ACT_LEAVE, n));
}

static struct node *any(struct sim *s)
{
	return &s->node[sim_rand(s, s->n_nodes)];
}

static void setting(struct sim *s, struct node *n, uint32_t key, uint64_t value)
{
	sim_operator(s, n, &(struct ddr_input){ .type = DDR_IN_OP_SET, .key = key, .value = value }, false);
}

static void befall(struct sim *s, enum misfortune what, struct node *n)
{
	switch (what) {
	case POWER_OFF_TWO:
		power_off(s, any(s));	/* and also */
		__attribute__((fallthrough));
	case POWER_OFF:
		power_off(s, n);
		return;
	case REBOOT:	/* faster than anybody notices */
		if (n->up) {
			power_off(s, n);
			sim_act(s, act_of(ACT_POWER_ON, n));
			start(s, n);
		}
		return;
	case BLACKOUT:
		sim_act(s, act_of(ACT_BLACKOUT, NULL));
		return;
	case KILL_SOON:
		kill_soon(s, n);
		return;
	case KILL_ALL:
		all(s, kill_now);
		return;
	case RESTART:
		kill_now(s, n);
		start(s, n);
		return;
	case SPLIT_TWO:
		cluster_split(s, 2);
		return;
	case SPLIT_THREE:
		cluster_split(s, 3);
		return;
	case ISOLATE:
		cluster_isolate(s, n);
		return;
	case HEAL:
		cluster_heal(s);
		return;
	case FLAP:
		cluster_flap(s);
		return;
	case LEAVE:
		sim_act(s, act_of(ACT_LEAVE, n));
		return;
	case LEAVE_ALL:
		all(s, maybe_leave);
		return;
	case JOIN_ALL:
		gather(s, true);
		all(s, start);
		gather(s, false);
		return;
	case LEAVE_AND_JOIN:	/* in one event, together with the join of another node */
		gather(s, true);
		kill_now(s, n);
		start(s, n);
		start(s, any(s));
		gather(s, false);
		return;
	case SLEEP:
		if (!sim_real)	/* those stop (world.c) */
			n->asleep = s->event + 20 + sim_rand(s, 300);
		return;
	case MEMBER:
		sim_member_fault(s, n);
		return;
	case GROW:
		grow_wanted(s, n);
		return;
	case SETTINGS:
		setting(s, n, DDR_SM_RESYNC_PARALLEL, 1 + sim_rand(s, 8));
		if (s->seed % 7 == 3)	/* not drawn in the others */
			setting(s, n, DDR_SM_SUSPECT_READS, sim_rand(s, 2));
		s->storm.focus = sim_rand(s, s->regions);
		return;
	}
}

static void misfortune(struct sim *s, struct node *n)
{
	uint64_t at = sim_rand(s, s->storm.sum);
	uint32_t what = 0;

	if (s->event < s->storm.peace_until || rare_peace(s))
		return;
	while (at >= s->storm.weight[what])
		at -= s->storm.weight[what++];
	s->storm.peace_until = s->event + s->storm.patience;
	befall(s, (enum misfortune)what, n);
}

/* How much is at stake: one of this many such outputs is followed by a fault; 0: nothing. */
static uint32_t stake(const struct ddr_output *out)
{
	struct ddr_msg msg;

	switch (out->type) {
	case DDR_OUT_KERNEL:	/* a member fails */
		return out->rec.type == DDR_U_MEMBER && out->rec.arg[0] != DDR_KM_IN_SYNC ? 4 : out->rec.type == DDR_U_RESOLVE ? 2 : 0;
	case DDR_OUT_FENCE:
	case DDR_OUT_SLOT_READ:
	case DDR_OUT_SLOT_WRITE:
	case DDR_OUT_TABLE:
	case DDR_OUT_SEEK:
	case DDR_OUT_PREPARE:
	case DDR_OUT_RESIZE:
	case DDR_OUT_RELOAD: return 1;
	case DDR_OUT_SB_WRITE: return 2;
	case DDR_OUT_JOB_RANGE:
	case DDR_OUT_MAP_WRITE: return 4;
	case DDR_OUT_LOG_WRITE: return 8;
	case DDR_OUT_MCAST: break;
	default: return 0;
	}
	if (ddr_msg_decode(out->msg, out->msg_len, &msg))
		return 0;
	switch (msg.type) {
	case DDR_M_RENEWED:
	case DDR_M_RECOVER:
	case DDR_M_RECOVERED:
	case DDR_M_LEAVE:
	case DDR_M_FOLDED:
	case DDR_M_MEMBER_SET:
	case DDR_M_SEEK:
	case DDR_M_SEEN:
	case DDR_M_GROW:
	case DDR_M_ROOM:
	case DDR_M_FENCED: return 1;
	case DDR_M_START:
	case DDR_M_MEMBER_FAIL:
	case DDR_M_MEMBER_ACK:
	case DDR_M_MEMBER_DONE: return 2;
	case DDR_M_STATE:
	case DDR_M_HELLO: return 16;
	default: return 6;
	}
}

static void steer(struct sim *s, const struct node *n, const struct ddr_output *out)
{
	s->storm.hot_left = 1 + (uint32_t)sim_rand(s, sim_chance(s, 2) ? 4 : 40);
	s->storm.hot_node = sim_chance(s, 3) ? any(s)->id : n->id;
	if (out->type == DDR_OUT_JOB_RANGE && sim_chance(s, 2)) {	/* and others want to write there */
		s->storm.focus = out->start / s->geo.region_blocks;
		s->storm.focus_regions = 1;
	}
}

void storm_steer(struct sim *s, const struct node *n, const struct ddr_output *out)
{
	uint32_t in = s->calm || !s->storm.steer || s->storm.hot_left || s->event < s->storm.peace_until ? 0 : stake(out);
	struct tape *tape = s->tape;

	if (tape && tape->replay)
		return;		/* it is known what happens next */
	s->tape = NULL;		/* and it is no part of what happens now */
	if (in && sim_chance(s, in * s->storm.steer))
		steer(s, n, out);
	s->tape = tape;
}

/* ---- the schedule -------------------------------------------------------------- */

static bool order(struct sim *s, struct node *n)
{
	return n->n_outbox && sim_act(s, act_of(ACT_ORDER, n));
}

static bool deliver(struct sim *s, struct node *n)
{
	return n->sm && n->n_events && sim_act(s, act_of(ACT_DELIVER, n));
}

/* One of the things that wait on the node happens; false: there is none. */
static bool progress(struct sim *s, struct node *n)
{
	uint64_t first = sim_rand(s, 8);

	if (n->asleep > s->event && !s->calm)
		return kernel_event(s, &n->k);
	for (uint64_t i = 0; i < 8; i++)
		switch ((first + i) % 8) {
		case 0:
			if (n->sm && n->quorum_due)
				return sim_act(s, act_of(ACT_QUORUM, n));
			break;
		case 1:
		case 2:
			if (!order(s, n))
				break;
			while (!sim_chance(s, 4) && order(s, n))
				;
			return true;
		case 3:
		case 4:
		case 5:
			if (!deliver(s, n))
				break;
			while (!sim_chance(s, 4) && deliver(s, n))
				;
			return true;
		default:
			if (sim_progress(s, n))
				return true;
		}
	return false;
}

static enum op_kind kind(struct sim *s)
{
	return sim_chance(s, 8) ? OP_FLUSH : sim_chance(s, 8) ? OP_READ : sim_chance(s, 30) ? OP_MISMATCH : OP_WRITE;
}

static void look(struct sim *s)
{
	struct node *n = any(s);

	if (sim_chance(s, 16))
		check_media(s);
	if (sim_chance(s, 32) && n->k.there && n->k.enabled && !n->k.killed)
		check_visible(s, n);
}

/*
 * A member is being copied without parity: a node that returned at once would claim its slot, and would not test what its death does
 * to the copy.
 */
static bool stays_away(const struct sim *s)
{
	struct ddr_super sb;
	bool copied = false, up = false;

	if (!sim_keeps_copies(s) || !check_newest_super(s, &sb))
		return false;
	for (uint32_t m = 0; m < sb.members; m++)
		copied |= (sb.member[m].flags & DDR_MEMBER_F_REPLACING) != 0;
	for (const struct node *n = s->node; n < s->node + s->n_nodes; n++)
		up |= n->up;
	return copied && up;
}

/* In every fourth seed, so that the others stay as they are, machines come back under another id (note 41). */
static void power_on(struct sim *s, struct node *n)
{
	struct act a = act_of(ACT_POWER_ON, n);

	a.arg[0] = s->seed % 4 == 2 && cluster_may_rename(s, n) && sim_chance(s, 2);
	a.arg[1] = cluster_replaces(s) && cluster_may_replace(s, n) && sim_chance(s, 2);
	sim_act(s, a);
}

/* Things that recover automatically. */
static void comes_back(struct sim *s, struct node *n)
{
	const struct storm *w = &s->storm;

	if (!n->up && sim_chance(s, w->power_back) && !stays_away(s))
		power_on(s, n);
	else if (n->up && !n->sm && sim_chance(s, w->daemon_back))
		start(s, n);
	else if (n->part && sim_chance(s, w->heal_back))
		cluster_heal(s);
	if (n->leaving && sim_chance(s, 8))
		sim_act(s, act_of(sim_chance(s, 12) ? ACT_STAY : ACT_LEAVE_GOES_ON, n));
	if (sim_chance(s, w->fence_speed))
		(cluster_waits_for_operator(n) && sim_act(s, act_of(ACT_FENCE_BY_HAND, n))) ||
			(s->fencing ? cluster_fence_event(s) : sim_act(s, act_of(ACT_FENCE_BY_HAND, n)));
	if (s->n_late && sim_chance(s, 8))
		late_event(s);
}

static void time_goes_on(struct sim *s, struct node *n, uint64_t ms)
{
	struct act a = act_of(ACT_TICK, n);

	a.arg[0] = ms;
	sim_act(s, a);
}

void cluster_one_event(struct sim *s)
{
	struct node *n = any(s);
	bool moved = false;

	s->event++;
	sim_pools(s);
	if (sim_real)
		world_event(s, n);
	if (s->storm.hot_left && --s->storm.hot_left == 0) {
		s->stats[STAT_STEERED]++;
		misfortune(s, &s->node[s->storm.hot_node - 1]);
	} else if (sim_chance(s, s->storm.every)) {
		misfortune(s, n);
	}
	comes_back(s, n);
	if (s->replaces && sim_chance(s, 200))
		sim_replace(s, n);
	if (n->id == s->storm.slow && !sim_chance(s, 6))
		n = any(s);
	if (sim_rand(s, 100) < s->storm.io && !rare_quiet(s) && n->up && !n->leaving && n->k.enabled && n->k.there)
		moved = kernel_start(s, &n->k, kind(s));
	for (uint32_t i = 0; i < s->n_nodes && !moved; i++)
		moved = progress(s, &s->node[(n->id - 1 + i) % s->n_nodes]);
	if (!moved || sim_chance(s, 40))
		time_goes_on(s, n, 1 + sim_rand(s, 1000));
	look(s);
}

/* ---- the end ------------------------------------------------------------------- */

static bool node_at_rest(const struct sim *s, const struct node *n)
{
	static struct ddr_sm_status st;

	if (n->lasting)
		return true;
	if (!n->up || !n->sm || n->n_events || n->n_outbox || n->quorum_due || node_io_count(n) || kernel_busy(&n->k) || n->resize)
		return false;
	ddr_sm_get_status(n->sm, &st);
	for (uint32_t i = 0; i < st.n_nodes; i++)
		if (st.node[i].state != DDR_NS_ACTIVE && st.node[i].state != DDR_NS_LEFT)
			return false;
	if (ddr_sm_super(n->sm)->verify.state == DDR_VERIFY_RUNNING && !st.degraded)
		return false;
	return st.ready && st.joined && !st.granted && (!st.dirty || (st.degraded && !check_any_marked(s))) && !st.resync_regions &&
	       (st.degraded || !st.needs_sync || !s->g.parity);
}

static bool at_rest(const struct sim *s)
{
	for (uint32_t i = 0; i < s->n_nodes; i++)
		if (!node_at_rest(s, &s->node[i]) || (!s->finding && !node_has_id(s, &s->node[i])))
			return false;
	return true;
}

void cluster_calm(struct sim *s)
{
	if (s->finding)
		finding_calm(s);
	world_calm(s);
	s->calm = true;
	cluster_heal(s);
	grow_calm(s);
	for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++) {
		s->disk[m].once = FAULT_NONE;
		s->disk[m].full = false;
		disk_readable(&s->disk[m]);
		if (!s->finding)
			memset(s->disk[m].hangs_until, 0, sizeof(s->disk[m].hangs_until));
		s->disk[m].cut = 0;
	}
	for (struct node *n = s->node; n < s->node + s->n_nodes; n++) {
		n->crash_after = -1;
		n->leaving = n->leaving && n->sm && (n->clean_asked || !n->k.there);
		if (!n->leaving)
			go_on(s, n);
	}
	for (uint64_t limit = s->event + (s->finding ? 300000 : sim_real ? 2000000 : 200000); !at_rest(s); s->event++) {
		struct node *n = any(s);

		if (s->event == limit && s->finding)
			finding_no_rest(s);
		if (s->event == limit)
			sim_violation(s, "liveness: it does not come to rest");
		if (!n->up && !n->lasting)
			cluster_power_on(s, n, false, false);
		else if (cluster_waits_for_operator(n) && sim_chance(s, 200) && cluster_operator_fences(s, n))
			continue;
		else if (s->fencing ? cluster_fence_event(s) : (sim_chance(s, 200) && (cluster_operator_fences(s, n), true)))
			continue;
		else if (finding_asks_operator(s, n) && sim_chance(s, 200) && cluster_operator_fences(s, n))
			continue;
		else if ((!n->gave_up || sim_chance(s, 200)) && cluster_daemon_start(s, n))	/* by the operator, who sees why */
			continue;
		else if (sim_chance(s, 40))
			leave_go_on(s, n);
		else if (!progress(s, n) && sim_chance(s, 4))
			sim_tick(s, n, 300);
	}
	for (struct node *n = s->node; n < s->node + s->n_nodes; n++)
		if (!n->lasting)
			check_final(s, n);
}

