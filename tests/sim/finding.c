// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Findings: defects that real use has shown and that are not corrected yet (or whose correction a mutation takes out), looked for by random seeds with real
 * daemons (ddrsim --daemon --finding T2). A run with a finding is one like any other, but for one kind of fault that lasts: it does not end when everything
 * else does, and the nodes that it did not befall must come to rest nevertheless. tests/tools/findings.py runs all of them.
 *
 * The others have rules of their own, which hold only once the finding is corrected. Such runs are neither recorded nor shrunk.
 */
#include <string.h>

#include "sim.h"

static const char *const name[FINDINGS] = {
	[FINDING_T1] = "T1", [FINDING_T2] = "T2", [FINDING_T3] = "T3", [FINDING_T4] = "T4", [FINDING_T6] = "T6", [FINDING_T7] = "T7", [FINDING_T8] = "T8",
	[FINDING_T9] = "T9", [FINDING_T10] = "T10", [FINDING_T11] = "T11", [FINDING_S27] = "S27",
};

bool finding_named(const char *text, enum finding *out)
{
	for (uint32_t i = 1; i < FINDINGS; i++)
		if (strcmp(text, name[i]) == 0) {
			*out = (enum finding)i;
			return true;
		}
	return false;
}

/* Nobody writes superblocks just now: one that looks and then writes cannot see what happens in between. */
static bool supers_at_rest(const struct sim *s)
{
	for (const struct node *n = s->node; n < s->node + s->n_nodes; n++)
		for (uint32_t i = 0; i < SIM_MAX_IO && n->n_io; i++)
			if (n->io[i].used && n->io[i].type == DDR_OUT_SB_WRITE)
				return false;
	return true;
}

/* S27: another disk is behind the device of a member, on all nodes; their kernels report that the device changed. */
static void exchange(struct sim *s)
{
	uint32_t m = (uint32_t)sim_rand(s, s->sb0.members);
	struct disk *d = &s->disk[m];

	if (d->dead || d->exchanged || d->chosen || !s->faults_left || s->lossy || !supers_at_rest(s))
		return;
	s->faults_left--;
	d->chosen = d->failed = d->exchanged = true;
	d->strayed = 0;
	d->was_cut = ~0u;
	sim_trace(s, "fault: member %u is another disk now", m);
	for (struct node *n = s->node; n < s->node + s->n_nodes; n++)
		node_hears(s, n, NEWS_CHANGED, m);
}

/* T8: the operator takes a node that is down out of corosync.conf, on the others. */
static void unlist(struct sim *s, struct node *n)
{
	for (const struct node *o = s->node; o < s->node + s->n_nodes; o++)
		if (o->unlisted)
			return;
	if (n->up)
		return;
	sim_trace(s, "node %u is not in corosync's list any more", n->id);
	n->unlisted = true;
}

/* T11: a process that says nothing joins the group of the daemons, on a node whose daemon does not run. */
static void joins_in_silence(struct sim *s, const struct node *n)
{
	if (!s->silent && n->up && !n->deaf && !n->sm && node_may_start(n))
		cluster_silent(s, n);
}

/* T1: corosync.conf is gone on a node whose daemon does not run; what it starts next knows of no cluster, and the array belongs to one by now. */
static void leaves_cluster(struct sim *s, struct node *n)
{
	struct ddr_super sb;

	if (n->outside || !n->up || n->sm || !node_may_start(n) || !check_newest_super(s, &sb) || !(sb.ro_compat & DDR_RO_COMPAT_CLUSTER))
		return;
	sim_trace(s, "node %u has no corosync.conf", n->id);
	n->outside = true;
	n->outside_until = s->event + 200;
}

/* Requests of the node to the member end no more, until the machine restarts. */
static bool hangs_for_good(const struct sim *s, const struct node *n)
{
	for (uint32_t m = 0; m < s->sb0.members; m++)
		if (s->disk[m].hangs_until[n - s->node] == UINT64_MAX)
			return true;
	return false;
}

static bool member_hangs(const struct sim *s)
{
	for (const struct node *n = s->node; n < s->node + s->n_nodes; n++)
		if (hangs_for_good(s, n))
			return true;
	return false;
}

static bool of_hangs(const struct sim *s)
{
	return s->finding == FINDING_T3 || s->finding == FINDING_T4;
}

uint32_t finding_keeps(const struct sim *s)
{
	return of_hangs(s) && !s->hung;
}

bool finding_hangs(const struct sim *s, uint32_t m)
{
	for (uint32_t i = 0; i < s->n_nodes; i++)
		if (s->disk[m].hangs_until[i] == UINT64_MAX)
			return true;
	return false;
}

/* T3, T4: a member hangs in the driver of one node, for the daemon and the kernel. T3: the daemon is killed meanwhile; T4: it fails with an error on another node. */
static void hangs(struct sim *s, struct node *n)
{
	struct disk *d = &s->disk[sim_rand(s, s->sb0.members)];
	const struct node *other = &s->node[sim_rand(s, s->n_nodes)];

	if (s->finding == FINDING_T3 && n->sm && hangs_for_good(s, n)) {
		sim_act(s, act_of(ACT_KILL, n));
		return;
	}
	if (s->hung && !member_hangs(s))
		return;		/* it was the failure that the array tolerates */
	if (s->hung && other != n && hangs_for_good(s, n)) {
		for (uint32_t m = 0; m < s->sb0.members && s->finding == FINDING_T4; m++)
			if (finding_hangs(s, m))
				s->disk[m].was_cut |= s->disk[m].cut |= 1u << (other - s->node);
		return;
	}
	/* once in each run, at any time */
	if (s->hung || !n->sm || d->dead || d->chosen || d->once != FAULT_NONE || !s->faults_left || !sim_chance(s, 1 + s->events / 400))
		return;
	s->hung = d->chosen = d->failed = true;
	s->faults_left--;
	d->was_cut |= 1u << (n - s->node);
	d->hangs_kernel |= 1u << (n - s->node);
	d->hangs_until[n - s->node] = UINT64_MAX;
	sim_trace(s, "fault: member %u hangs on node %u, until that restarts", (uint32_t)(d - s->disk), n->id);
}

static void back_inside(struct sim *s, struct node *n)
{
	if (n->sm || !node_may_start(n))
		node_kill(s, n);
	n->outside = false;
}

void finding_power_off(struct sim *s, struct node *n)
{
	for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++)
		if (s->disk[m].hangs_until[n - s->node] == UINT64_MAX)
			s->disk[m].hangs_until[n - s->node] = 0;
	n->lasting = n->outside = false;
	s->silent = s->silent == n->id ? 0 : s->silent;
	if (!n->stuck)
		return;
	n->stuck = false;
	cluster_gone(s, n);
}

void finding_event(struct sim *s, struct node *n)
{
	if (s->finding == FINDING_T3)
		for (struct node *o = s->node; o < s->node + s->n_nodes; o++)
			cluster_unstick(s, o);
	if (n->outside && s->event >= n->outside_until && n->up)
		back_inside(s, n);
	if (!sim_chance(s, 200))
		return;
	switch (s->finding) {
	case FINDING_T1: leaves_cluster(s, n); return;
	case FINDING_T3:
	case FINDING_T4: hangs(s, n); return;
	case FINDING_T8: unlist(s, n); return;
	case FINDING_T11: joins_in_silence(s, n); return;
	case FINDING_S27: exchange(s); return;
	default: return;
	}
}

/* Does it last on this node? */
static bool lasts(const struct sim *s, const struct node *n)
{
	switch (s->finding) {
	case FINDING_T2: return n->stopped;
	case FINDING_T3: return n->stuck;
	case FINDING_T4: return n->up && n->sm && hangs_for_good(s, n);
	case FINDING_T9:
	case FINDING_T10: return !n->up;
	case FINDING_T11: return s->silent == n->id;
	default: return false;
	}
}

void finding_calm(struct sim *s)
{
	bool one = false;

	for (struct node *n = s->node; n < s->node + s->n_nodes; n++) {
		n->lasting = !one && lasts(s, n);
		one |= n->lasting;
		for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++)
			if (!n->lasting || s->disk[m].hangs_until[n - s->node] != UINT64_MAX)
				s->disk[m].hangs_until[n - s->node] = 0;
		if (n->outside)
			back_inside(s, n);
		if (!n->lasting)
			cluster_unstick(s, n);
		n->unlisted = false;
		if (n->lasting)
			sim_trace(s, "it lasts on node %u", n->id);
	}
	for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++)
		s->disk[m].exchanged = false;
	if (s->silent && !s->node[s->silent - 1].lasting)
		cluster_silent(s, NULL);
}

/* A RECOVERED is sent, and what was delivered of it counts: the node whose slot it is has not started since it died. */
void finding_recovered(struct sim *s, uint32_t slot, bool delivered)
{
	struct ddr_super sb;
	struct node *n;

	if (!s->finding || !check_newest_super(s, &sb) || slot >= sb.slots || !sb.slot_node[slot] || sb.slot_node[slot] > s->n_nodes)
		return;
	n = &s->node[sb.slot_node[slot] - 1];
	if (n->sm || !node_may_start(n))
		return;
	if (!delivered)
		n->recovering_pid = n->pid + 1;
	else if (n->recovering_pid == n->pid + 1)
		n->recovered = true;
}

/* T6; T7, where only the operator fences: is a node waited for that was proven dead and recovered, and has not started since? */
void finding_fences(struct sim *s, uint32_t by, uint32_t id, bool by_hand)
{
	if (s->finding == (by_hand ? FINDING_T7 : FINDING_T6) && id <= s->n_nodes && s->node[id - 1].recovered)
		sim_violation(s, "%s: node %u wants node %u fenced, which was fenced and recovered, and has not started since", name[s->finding], by, id);
}

/* T10: no node that is there can fence the lost one, and this one says so. */
bool finding_asks_operator(const struct sim *s, const struct node *n)
{
	static struct ddr_sm_status st;

	if (s->finding != FINDING_T10 || !s->fencing || !n->sm)
		return false;
	ddr_sm_get_status(n->sm, &st);
	return st.wait_for == DDR_SM_WAIT_ACK;
}

void finding_no_rest(struct sim *s)
{
	static const char *const what[FINDINGS] = {
		[FINDING_T2] = "its daemon is stopped", [FINDING_T3] = "its dead daemon is stuck in the driver", [FINDING_T4] = "a member hangs there",
		[FINDING_T9] = "it is dead, and an agent hangs", [FINDING_T10] = "it is dead, and the lowest node cannot fence", [FINDING_T11] = "a process there says nothing",
	};

	for (const struct node *n = s->node; n < s->node + s->n_nodes; n++)
		if (n->lasting)
			sim_violation(s, "%s: the others wait for node %u without end: %s", name[s->finding], n->id, what[s->finding]);
}
