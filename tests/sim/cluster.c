// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Several nodes: the process group and the quorum service as corosync promises them, networks that split and heal, machines and
 * daemons that die, and fencing. When this happens: schedule.c.
 *
 * What a node sends waits in its outbox until it is ordered; what is ordered waits at each member until it is delivered there. When
 * the network changes, nodes that stay together deliver the same messages of the old ring, but perhaps not all that other nodes did;
 * what was not ordered yet comes in the new ring. The quorum service notifies each node separately, before or after the view.
 */
#include <stdlib.h>
#include <string.h>

#include "node.h"

const struct node *cluster_machine(const struct sim *s, uint32_t nid)
{
	return &s->node[(nid - 1) % SIM_MAX_NODES];
}

/* ---- the group ----------------------------------------------------------------- */

static struct bus_event *push(struct sim *s, struct node *n)
{
	static struct bus_event nowhere;

	if (n->stuck || (n->lasting && n->n_events == SIM_MAX_EVENTS))
		return &nowhere;	/* nobody reads it any more */
	if (n->n_events == SIM_MAX_EVENTS)
		sim_violation(s, "more than %d messages wait at node %u", SIM_MAX_EVENTS, n->id);
	memset(&n->events[n->n_events], 0, offsetof(struct bus_event, msg.bytes));
	return &n->events[n->n_events++];
}

/* A view of the nodes of @part, or of those of them that were together in @old, if it is not SIM_MAX_NODES. */
static void push_view(struct sim *s, struct node *to, uint32_t part, const uint32_t *old)
{
	struct bus_event *e = push(s, to);

	e->ring = s->ring[part];
	e->n = 0;
	for (struct node *n = s->node; n < s->node + s->n_nodes; n++)
		if (n->in_group && n->part == part && (!old || old[n - s->node] == old[to - s->node])) {
			e->nodes[e->n] = n->nid;
			e->pids[e->n++] = n->pid;
		}
	if (s->silent && s->node[s->silent - 1].part == part) {
		e->nodes[e->n] = s->silent;
		e->pids[e->n++] = SIM_SILENT_PID;
	}
}

static bool together;	/* joins and leaves are collected into one view */
static bool views_due;

static void views(struct sim *s, uint32_t part)
{
	views_due = together;
	if (together)
		return;
	for (struct node *n = s->node; n < s->node + s->n_nodes; n++)
		if (n->in_group && n->part == part)
			push_view(s, n, part, NULL);
}

void cluster_together(struct sim *s, bool begin)
{
	together = begin;
	for (uint32_t p = 0; p < s->n_nodes && views_due && !begin; p++)
		views(s, p);
	views_due &= begin;
}

void cluster_silent(struct sim *s, const struct node *n)
{
	uint32_t part = n ? n->part : s->node[s->silent - 1].part;

	sim_trace(s, "a process that says nothing %s", n ? "joins" : "leaves");
	s->silent = n ? n->id : 0;
	s->silent_ring = s->ring[part];
	views(s, part);
}

void cluster_send(struct sim *s, struct node *n, const uint8_t *bytes, uint32_t len)
{
	struct bus_message *m = &n->outbox[n->n_outbox];

	if (n->n_outbox == SIM_MAX_EVENTS)
		sim_violation(s, "node %u sends more than %d messages at once", n->id, SIM_MAX_EVENTS);
	m->sender = n->nid;
	m->len = len;
	memcpy(m->bytes, bytes, len);
	n->n_outbox++;
}

void cluster_joined(struct sim *s, struct node *n)
{
	n->in_group = true;
	n->quorum_due = true;
	n->did_ms[0] = s->now;
	n->n_events = n->n_outbox = 0;
	views(s, n->part);
}

void cluster_gone(struct sim *s, struct node *n)
{
	if (!n->in_group || n->stuck)
		return;
	n->in_group = false;
	n->n_events = n->n_outbox = 0;
	views(s, n->part);
}

void cluster_unstick(struct sim *s, struct node *n)
{
	for (uint32_t m = 0; m < s->sb0.members && n->stuck; m++)
		if (s->disk[m].hangs_until[n - s->node] > s->now)
			return;
	if (!n->stuck)
		return;
	n->stuck = false;
	cluster_gone(s, n);
}

/* The oldest message of a node takes its place in the order. */
bool cluster_order(struct sim *s, struct node *from)
{
	bool is_unjust = from->n_outbox && node_ordered(s, from, &from->outbox[0]);

	if (!from->n_outbox)
		return false;
	for (struct node *n = s->node; n < s->node + s->n_nodes; n++)
		if (n->in_group && n->part == from->part) {
			struct bus_event *e = push(s, n);

			e->unjust = is_unjust;
			e->msg.sender = from->outbox[0].sender;
			e->msg.len = from->outbox[0].len;
			memcpy(e->msg.bytes, from->outbox[0].bytes, e->msg.len);
		}
	memmove(from->outbox, from->outbox + 1, --from->n_outbox * sizeof(from->outbox[0]));
	return true;
}

static uint32_t machines(const struct sim *s, uint32_t part)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->n_nodes; i++)
		n += s->node[i].up && !s->node[i].deaf && s->node[i].part == part;
	return n;
}

void cluster_members(const struct sim *s, const struct node *n, struct ddr_input *in)
{
	for (uint32_t i = 0; i < s->n_nodes; i++)
		if (s->node[i].up && !s->node[i].deaf && s->node[i].part == n->part)
			in->nodes[in->n_nodes++] = s->node[i].nid;
}

void cluster_word(struct sim *s, struct node *n, struct ddr_input *in)
{
	n->quorum_due = false;
	cluster_members(s, n, in);
	in->ring = n->q_ring = s->ring[n->part];
	in->quorate = n->q_quorate = machines(s, n->part) * 2 > s->n_nodes;
	n->quorate = n->q_quorate && n->q_ring == n->v_ring;
}

bool cluster_quorum(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_QUORUM };

	if (!n->sm || !n->quorum_due || n->stopped || !node_listens(s, n, true))
		return false;
	node_catches_up(s, n);
	if (!n->sm || !n->quorum_due || !node_listens(s, n, true))
		return true;
	cluster_word(s, n, &in);
	node_step(s, n, &in);
	check_frozen(s, n);
	return true;
}

static void delivered(struct sim *s, const struct bus_message *m)
{
	struct ddr_msg msg;

	if (!ddr_msg_decode(m->bytes, m->len, &msg) && msg.type == DDR_M_RECOVERED)
		finding_recovered(s, msg.recover.slot, true);
}

bool cluster_deliver(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_MSG };
	static struct bus_event e;

	if (!n->sm || !n->n_events || n->stopped || !node_listens(s, n, false))
		return false;
	node_catches_up(s, n);
	if (!n->sm || !n->n_events || !node_listens(s, n, false))
		return true;
	e = n->events[0];
	memmove(n->events, n->events + 1, --n->n_events * sizeof(e));
	n->unjust = e.unjust;
	if (e.msg.len) {
		in.node = e.msg.sender;
		in.msg = e.msg.bytes;
		in.msg_len = e.msg.len;
	} else {
		in.type = DDR_IN_VIEW;
		in.ring = n->v_ring = e.ring;
		in.n_nodes = e.n;
		memcpy(in.nodes, e.nodes, e.n * sizeof(e.nodes[0]));
		memcpy(in.pids, e.pids, e.n * sizeof(e.pids[0]));
		memset(in.fences, s->fencing ? DDR_FENCES_YES : DDR_FENCES_NO, e.n);
		n->quorate = n->q_quorate && n->q_ring == n->v_ring;
		sim_trace(s, "node %u: view of %u, ring %llu", n->id, e.n, (unsigned long long)e.ring);
	}
	node_step(s, n, &in);
	check_owners(s, n);
	check_owned(s, n);
	if (e.msg.len && s->finding)
		delivered(s, &e.msg);
	if (e.msg.len)
		check_digest(s, n);
	else
		check_frozen(s, n);
	return true;
}

/* ---- the network --------------------------------------------------------------- */

static bool moves_with(const struct node *a, const struct node *b, const uint32_t *old, const struct sim *s)
{
	return a->in_group && a->part == b->part && old[a - s->node] == old[b - s->node];
}

/*
 * Messages at the end of the old ring may have reached only nodes in the other parts. After the first missing one, only messages of
 * senders that stay together are delivered.
 */
static void forget_tail(struct sim *s, struct node *first, const uint32_t *old)
{
	uint32_t tail = SIM_MAX_EVENTS;
	bool hole = false;

	for (struct node *n = first; n < s->node + s->n_nodes; n++) {
		uint32_t t = 0;

		if (!moves_with(n, first, old, s))
			continue;
		while (t < n->n_events && n->events[n->n_events - 1 - t].msg.len)
			t++;
		tail = t < tail ? t : tail;
	}
	for (; tail; tail--) {
		uint32_t sender = first->events[first->n_events - tail].msg.sender;

		if (moves_with(cluster_machine(s, sender), first, old, s))
			continue;
		hole |= sim_chance(s, 3);
		if (!hole)
			continue;
		for (struct node *n = first; n < s->node + s->n_nodes; n++)
			if (moves_with(n, first, old, s)) {
				memmove(&n->events[n->n_events - tail], &n->events[n->n_events - tail + 1],
					(tail - 1) * sizeof(n->events[0]));
				n->n_events--;
			}
	}
}

/* Applies the present parts of the network; @old: the parts before. */
static void reconfigure(struct sim *s, const uint32_t *old)
{
	bool steps = sim_chance(s, 2);

	for (struct node *n = s->node; sim_real && n < s->node + s->n_nodes; n++)
		node_first_write_lands(s, n);	/* the reads before it give a split more time to come between */
	for (struct node *n = s->node; n < s->node + s->n_nodes; n++) {
		bool is_first = n->in_group;

		for (struct node *o = s->node; o < n; o++)
			is_first &= !moves_with(o, n, old, s);
		if (is_first)
			forget_tail(s, n, old);
	}
	for (uint32_t p = 0; p < s->n_nodes; p++)
		s->ring[p] = ++s->bus.ring;
	for (struct node *n = s->node; n < s->node + s->n_nodes; n++) {
		n->quorum_due |= n->up && !n->deaf;
		/* between corosync and the state machine is lib/node/group.c, to which the ring is told once all of its processes are known */
		if (n->in_group && steps && !sim_real)
			push_view(s, n, n->part, old);
		if (n->in_group)
			push_view(s, n, n->part, NULL);
	}
	s->stats[STAT_SPLITS]++;
}

static void parts(const struct sim *s, uint32_t *old)
{
	for (uint32_t i = 0; i < s->n_nodes; i++)
		old[i] = s->node[i].part;
}

bool cluster_parts(struct sim *s, uint64_t in)
{
	uint32_t old[SIM_MAX_NODES];

	parts(s, old);
	for (uint32_t i = 0; i < s->n_nodes; i++) {
		s->node[i].part = (uint32_t)(in >> 4 * i & 15) % s->n_nodes;
		sim_trace(s, "network: node %u in part %u", s->node[i].id, s->node[i].part);
	}
	reconfigure(s, old);
	return true;
}

bool cluster_corosync(struct sim *s, struct node *n, bool ends)
{
	uint32_t old[SIM_MAX_NODES];

	if (!sim_real || !s->cluster || !n->up || n->deaf == ends)
		return false;
	sim_trace(s, "node %u: corosync %s", n->id, ends ? "ends" : "runs again");
	parts(s, old);
	n->deaf = ends;
	if (ends) {
		n->in_group = n->quorum_due = false;
		n->n_events = n->n_outbox = 0;
		node_group_ended(s, n);
	}
	reconfigure(s, old);
	return true;
}

static void network(struct sim *s, uint64_t parts)
{
	struct act a = act_of(ACT_NETWORK, NULL);

	a.arg[0] = parts;
	sim_act(s, a);
}

void cluster_split(struct sim *s, uint32_t n)
{
	uint64_t to = 0;

	for (uint32_t i = 0; i < s->n_nodes; i++)
		to |= sim_rand(s, n) << 4 * i;
	network(s, to);
}

void cluster_isolate(struct sim *s, struct node *n)
{
	network(s, 1ull << 4 * (n - s->node));
}

void cluster_heal(struct sim *s)
{
	network(s, 0);
}

void cluster_flap(struct sim *s)
{
	uint64_t as_is = 0;

	for (uint32_t i = 0; i < s->n_nodes; i++)
		as_is |= (uint64_t)s->node[i].part << 4 * i;
	network(s, as_is);
}

/* ---- machines ------------------------------------------------------------------ */

void cluster_power_off(struct sim *s, struct node *n)
{
	uint32_t old[SIM_MAX_NODES];

	if (!n->up)
		return;
	sim_trace(s, "node %u: power off", n->id);
	n->up = false;
	if (s->finding)
		finding_power_off(s, n);
	node_power(s, n);
	n->leaving = n->left = n->gave_up = n->deaf = false;
	parts(s, old);
	reconfigure(s, old);
	s->stats[STAT_DEATHS]++;
}

bool cluster_may_rename(const struct sim *s, const struct node *n)
{
	struct ddr_super sb;

	if (sim_real || s->calm || n->up || !check_newest_super(s, &sb))
		return false;
	for (uint32_t i = 0; i < sb.slots; i++)
		if (sb.slot_node[i] && cluster_machine(s, sb.slot_node[i])->nid != sb.slot_node[i])
			return false;
	return true;
}

/* Does the machine that has its slot by the disks count, and is that not the one which has its id now? */
static bool has_slot_of_another(const struct sim *s, const struct node *n)
{
	static struct ddr_owners owners;
	struct ddr_super sb;

	if (!check_newest_super(s, &sb))
		return false;
	check_newest_owners(s, &owners);
	for (uint32_t i = 0; i < sb.slots; i++)
		if (sb.slot_node[i] == n->nid)
			return owners.slot[i].state == DDR_SLOT_OWNED && owners.slot[i].machine[1] != n->hardware;
	return false;
}

/* In every fourth seed, so that the others stay as they are, machines are replaced by others with their ids (note 24). */
bool cluster_replaces(const struct sim *s)
{
	return s->cluster && !sim_real && s->seed % 4 == 3;
}

/* Only one that has a slot is missed: of another one the group has nothing. */
bool cluster_may_replace(const struct sim *s, const struct node *n)
{
	struct ddr_super sb;

	if (s->calm || n->up || n->nid != n->id || !check_newest_super(s, &sb))
		return false;
	for (uint32_t i = 0; i < sb.slots; i++)
		if (sb.slot_node[i] == n->nid)
			return true;
	return false;
}

void cluster_settles(struct sim *s)
{
	for (struct node *n = s->node; n < s->node + s->n_nodes; n++)
		if (n->settles_at && n->settles_at <= s->now) {
			n->settles_at = 0;
			late_settle(s, n->id);
		}
}

bool cluster_power_on(struct sim *s, struct node *n, bool renamed, bool another)
{
	uint32_t old[SIM_MAX_NODES];

	if (n->up)
		return false;
	parts(s, old);
	n->unlisted = false;
	n->boot++;
	n->settles_at = 0;
	if (renamed && cluster_may_rename(s, n)) {
		n->nid = n->nid == n->id ? n->id + SIM_MAX_NODES : n->id;
		n->settles_at = s->now + 1 + sim_rand(s, 3000);
		s->stats[STAT_RENAMED]++;
	}
	if (another && cluster_may_replace(s, n)) {
		n->hardware++;
		n->replaced = true;
		s->stats[STAT_REPLACED]++;
		sim_trace(s, "node %u: it is another machine", n->id);
	}
	n->up = true;
	sim_trace(s, "node %u: power on, as node %u", n->id, n->nid);
	reconfigure(s, old);
	return true;
}

/* All power fails: the disks' caches are lost, too. */
void cluster_blackout(struct sim *s)
{
	sim_trace(s, "all power is lost");
	for (struct node *n = s->node; n < s->node + s->n_nodes; n++)
		cluster_power_off(s, n);
	late_settle(s, 0);
	for (uint32_t m = 0; m < s->sb0.members; m++) {
		disk_power(s, &s->disk[m]);
		disk_landed(s, &s->disk[m], NULL);
	}
	check_crash(s);
	s->stats[STAT_CRASHES]++;
}

/* Starts the daemon, unless a request of the last one is still in flight; the device of an evicted array is created again. */
bool cluster_daemon_start(struct sim *s, struct node *n)
{
	if (!n->up || n->sm || !node_may_start(n) || n->stuck || s->silent == n->id)
		return false;
	n->recovered = false;
	n->replaced &= has_slot_of_another(s, n);
	if (!n->settles_at && !n->replaced)
		late_settle(s, n->id);	/* of the machine before its restart */
	if (n->k.killed || n->left) {
		if (kernel_in_flight(&n->k))
			return false;
		memset(&n->k, 0, sizeof(n->k));
		disk_forget_kernel(s, n);
	}
	node_start(s, n);
	return true;
}

/* ---- fencing ------------------------------------------------------------------- */

void cluster_fence(struct sim *s, struct node *n, const struct ddr_output *out)
{
	for (uint32_t i = 0; i < SIM_MAX_FENCES; i++)
		if (!s->fence[i].used) {
			s->fence[i].used = true;
			s->fence[i].by = n->id;
			s->fence[i].pid = n->pid;
			s->fence[i].target = out->node;
			s->fence[i].failure = out->failure;
			s->fence[i].hangs = sim_real && !s->calm && sim_chance(s, s->finding == FINDING_T9 ? 2 : 10);
			return;
		}
	sim_violation(s, "more fencing under way than nodes could need");
}

/* Cuts the node off: its requests in flight have ended. */
static void cut_off(struct sim *s, uint32_t id)
{
	struct node *n = &s->node[cluster_machine(s, id)->id - 1];

	cluster_power_off(s, n);
	late_settle(s, n->id);
	n->replaced = false;
	s->stats[STAT_FENCED]++;
}

static bool hangs(const struct sim *s, uint32_t i)
{
	return s->fence[i].hangs && (!s->calm || s->finding == FINDING_T9);
}

bool cluster_fence_event(struct sim *s)
{
	uint32_t i = (uint32_t)sim_rand(s, SIM_MAX_FENCES);
	struct act a = act_of(ACT_FENCE_ENDS, NULL);

	for (uint32_t left = SIM_MAX_FENCES; left && !(s->fence[i].used && !hangs(s, i)); left--)
		i = (i + 1) % SIM_MAX_FENCES;
	if (!s->fence[i].used || hangs(s, i))
		return false;
	a.node = (uint8_t)s->fence[i].by;
	a.arg[0] = s->fence[i].target;
	for (uint32_t j = 0; j < i; j++)
		a.arg[3] += s->fence[j].used && s->fence[j].by == s->fence[i].by && s->fence[j].target == s->fence[i].target;
	a.arg[1] = !s->calm && s->storm.fence_fails && sim_chance(s, s->storm.fence_fails);
	/* an agent that reports a failure, or died with its node, may still have fenced the node */
	a.arg[2] = a.arg[1] && sim_chance(s, 4);
	return sim_act(s, a);
}

/* Does the machine run under another id by now? */
static bool lives_on(const struct sim *s, uint32_t nid)
{
	const struct node *n = cluster_machine(s, nid);

	return n->up && n->nid != nid;
}

bool cluster_fence_ends(struct sim *s, const struct act *a)
{
	struct ddr_input in = { .type = DDR_IN_FENCED, .result = a->arg[1] ? -5 : 0 };
	uint64_t left = a->arg[3];
	struct node *by;
	uint32_t i = 0;

	while (i < SIM_MAX_FENCES && !(s->fence[i].used && s->fence[i].by == a->node && s->fence[i].target == a->arg[0] && left-- == 0))
		i++;
	if (i == SIM_MAX_FENCES || s->node[s->fence[i].by - 1].stopped)
		return false;		/* the answer waits for it */
	s->fence[i].used = false;
	in.node = s->fence[i].target;
	in.failure = s->fence[i].failure;
	by = &s->node[s->fence[i].by - 1];
	if (lives_on(s, in.node))
		in.result = -5;		/* no agent is called with the name of a machine that runs (rule F4) */
	else if (in.result == 0 || a->arg[2])
		cut_off(s, in.node);
	if (by->sm && by->up && by->pid == s->fence[i].pid)
		node_step(s, by, &in);
	return true;
}

/* Has this machine, which is another one or counts as one since it lost its identity, another kernel by now than any that has a slot, and nothing else of it left? */
static bool began_anew(const struct node *n, const struct node *machine)
{
	static struct ddr_sm_status st;
	struct ddr_owner o;

	if (!machine->up || !machine->sm || machine->stopped)
		return false;
	for (uint32_t slot = 0; slot < ddr_sm_super(n->sm)->slots; slot++) {
		ddr_sm_owner(n->sm, slot, &o);
		if (o.instance.cookie == machine->k.cookie && o.instance.boot_id[0] == machine->k.boot && o.instance.boot_id[1] == machine->id)
			return false;
	}
	ddr_sm_get_status(machine->sm, &st);
	return st.attached;
}

bool cluster_waits_for_operator(const struct node *n)
{
	static struct ddr_sm_status st;

	if (!n->sm || !n->quorate || n->stopped)
		return false;
	ddr_sm_get_status(n->sm, &st);
	return st.wait_for == DDR_SM_WAIT_STRANGER;
}

/*
 * The operator sees that a node is another machine than the one that has its slot. That one is off: real daemons have lost their identity, and their machine has
 * booted since; else it was replaced. So the new one need not be cut off, and if it were, two nodes would have no quorum, and would forget what was typed
 * together with the rest of what they know.
 */
static bool knows_stranger(struct sim *s, struct node *n, uint32_t nid)
{
	struct ddr_input in = { .type = DDR_IN_OP_FENCE_ACK, .node = nid };
	struct node *machine = &s->node[cluster_machine(s, nid)->id - 1];

	if (!began_anew(n, machine))
		return false;
	sim_trace(s, "node %u: the operator knows that what node %u was before is off", n->id, machine->id);
	late_settle(s, machine->id);
	machine->replaced = false;
	node_step(s, n, &in);
	return true;
}

/* Fencing is off: the operator cuts off the lost node, and acknowledges it. */
bool cluster_operator_fences(struct sim *s, struct node *n)
{
	static struct ddr_sm_status st;
	struct ddr_input in = { .type = DDR_IN_OP_FENCE_ACK };

	if (!n->sm || !n->quorate)
		return false;
	ddr_sm_get_status(n->sm, &st);
	if (st.wait_for == DDR_SM_WAIT_STRANGER)
		return knows_stranger(s, n, st.wait_node);
	for (uint32_t i = 0; i < st.n_nodes && n->sm; i++)
		if (st.node[i].failure && st.node[i].id != n->nid && !lives_on(s, st.node[i].id)) {
			finding_fences(s, n->id, st.node[i].id, true);
			cut_off(s, st.node[i].id);
			in.node = st.node[i].id;
			if (n->sm)
				node_step(s, n, &in);
			return true;
		}
	return false;
}

/* ---- a cluster -------------------------------------------------------------------- */

void cluster_init(struct sim *s)
{
	s->fencing = !sim_chance(s, 5);
	s->lossy = false;
	storm_draw(s);
	together = views_due = false;
	for (uint32_t i = 0; i < s->n_nodes; i++) {
		struct node *n = &s->node[i];

		n->id = n->nid = i + 1;
		n->up = true;
		n->boot = 1;
		n->quorate = false;
		n->crash_after = -1;
		n->events = calloc(SIM_MAX_EVENTS, sizeof(*n->events));
		n->outbox = calloc(SIM_MAX_EVENTS, sizeof(*n->outbox));
		if (!n->events || !n->outbox)
			sim_violation(s, "out of memory");
	}
	for (uint32_t p = 0; p < s->n_nodes; p++)
		s->ring[p] = ++s->bus.ring;
}

void cluster_begin(struct sim *s)
{
	for (uint32_t i = 0; i < s->n_nodes; i++)
		if (sim_chance(s, 2))
			sim_act(s, act_of(ACT_START, &s->node[i]));
}

void cluster_free(struct sim *s)
{
	for (uint32_t i = 0; i < SIM_MAX_NODES; i++)
		node_free(s, &s->node[i]);
	for (uint32_t i = 0; i < SIM_MAX_NODES; i++) {
		free(s->node[i].events);
		free(s->node[i].outbox);
	}
	late_free(s);
}
