// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The driver of a simulated state machine: does what the daemon does with the outputs, in order. The daemon may die between any two
 * outputs; I/O in flight then ends without anybody noticing (node_io.c). How it starts is in node_start.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"

/* ---- the end of a daemon -------------------------------------------------------- */

void node_kill(struct sim *s, struct node *n)
{
	sim_trace(s, "daemon dies");
	if (s->cluster)
		node_first_write_lands(s, n);
	free(n->sm);
	n->sm = NULL;
	n->table_due = false;
	n->seek = 0;
	n->resize = 0;
	n->k.suspended = false;
	n->k.attached = false;
	n->k.n_queue = 0;
	disk_forget_daemon(s, n);	/* the next daemon rewrites all of it */
	for (uint32_t i = 0; i < SIM_MAX_IO; i++)
		n->io[i].orphan = true;
	if (s->cluster)
		cluster_gone(s, n);
	else
		bus_forget(s, n->id);
}

/* ---- what happens to it ---------------------------------------------------------- */

bool node_record(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_K_REC };

	if (!n->sm || !n->k.n_queue)
		return false;
	in.rec = n->k.queue[0];
	memmove(n->k.queue, n->k.queue + 1, --n->k.n_queue * sizeof(in.rec));
	node_step(s, n, &in);
	return true;
}

/* What is in flight ends before the table is exchanged, and what waits is handed back. */
static bool suspended(struct sim *s, struct node *n)
{
	n->k.suspended = true;
	if (kernel_in_flight(&n->k)) {
		kernel_event(s, &n->k);
		return false;
	}
	for (const struct op *op = n->k.op; op < n->k.op + SIM_MAX_OPS; op++)
		if (op->state == OP_PARKING) {
			kernel_event(s, &n->k);
			return false;
		}
	kernel_requeue(s, &n->k);
	n->k.suspended = false;
	return true;
}

/* A new table is loaded, and the daemon binds again; or the device cannot be opened on this node. */
static void table_event(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_TABLE_DONE, .member = n->table_member, .value = n->table_place, .result = -ENXIO };
	bool shadow = n->table_place == DDR_UAPI_SHADOW;

	if (n->table_member != DDR_NO_MEMBER && disk_gone(s, n, &s->disk[n->table_member])) {
		n->table_due = false;
		n->k.suspended = false;
		node_step(s, n, &in);
		return;
	}
	if (!suspended(s, n))
		return;
	n->table_due = false;
	sim_trace(s, "node %u: table with member %d at place %u", n->id, (int)n->table_member, n->table_place);
	/* another device at a place, or a replacement in use: everything waits until the daemon that has seen this table enables it */
	n->k.unjudged |= !shadow || n->k.state[DDR_UAPI_SHADOW] != DDR_KM_OUT;
	n->k.disk[n->table_place] = n->table_member == DDR_NO_MEMBER ? SIM_NOBODY : (uint8_t)n->table_member;
	if (n->table_member != DDR_NO_MEMBER)
		kernel_forget_errors(&n->k, n->table_place);
	n->k.said_out[n->table_place] &= n->table_member == DDR_NO_MEMBER;
	if (shadow && n->table_member != DDR_NO_MEMBER)
		n->k.shadow_place = ddr_sm_super(n->sm)->member[n->table_member].role;
	else if (!shadow && n->k.shadow_place == n->table_place)
		n->k.disk[DDR_UAPI_SHADOW] = SIM_NOBODY;
	node_attach(s, n);
}

/* The daemon has searched for the device of a member. */
bool node_seeks(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_PRESENT };
	const struct ddr_super *sb;
	const struct disk *d;

	if (!n->seek || !n->sm)
		return false;
	in.member = (uint32_t)__builtin_ctz(n->seek);
	d = &s->disk[in.member];
	sb = ddr_sm_super(n->sm);
	n->seek &= n->seek - 1;
	if (disk_gone(s, n, d))
		return true;
	in.value |= node_named_by(s, n) >> in.member & 1 ? DDR_PRESENT_TABLE : 0;
	in.value |= d->has_super && ddr_super_is_last(sb, in.member, &d->super) ? DDR_PRESENT_LAST : 0;
	node_step(s, n, &in);
	return true;
}

bool node_table(struct sim *s, struct node *n)
{
	if (!n->table_due || !n->sm || !n->k.there)
		return false;
	table_event(s, n);
	return true;
}

bool node_resizes(struct sim *s, struct node *n)
{
	if (!n->resize || !n->sm || !n->k.there)
		return false;
	grow_resize(s, n);
	node_attach(s, n);
	return true;
}

static bool record_event(struct sim *s, struct node *n)
{
	return n->sm && n->k.n_queue && sim_act(s, act_of(ACT_RECORD, n));
}

bool node_event(struct sim *s, struct node *n)
{
	if (n->seek && n->sm && sim_chance(s, 4))
		return sim_act(s, act_of(ACT_SEEK, n));
	if (n->resize && n->sm && n->k.there && sim_chance(s, 8))
		return sim_act(s, act_of(ACT_RESIZE, n));
	if (n->table_due && n->sm && n->k.there && sim_chance(s, 4))
		return sim_act(s, act_of(ACT_TABLE, n));
	if (sim_chance(s, 2))
		return node_io_event(s, n) || record_event(s, n);
	return record_event(s, n) || node_io_event(s, n);
}

/* ---- outputs ------------------------------------------------------------------- */

static bool takes_part(const struct node *n)
{
	struct ddr_sm_status st;

	ddr_sm_get_status(n->sm, &st);
	return st.joined && !n->left;
}

/*
 * Would there be too few members without those that do not answer @who, and without others that have failed something and may be
 * about to fail?
 */
static bool needs_cut(const struct sim *s, uint32_t in_sync, uint32_t who)
{
	uint32_t failing = 0;

	for (uint32_t m = 0; m < s->sb0.members; m++)
		if (s->disk[m].dead || s->disk[m].faulted || s->disk[m].daemon_failed || s->disk[m].was_cut)
			failing |= 1u << m;
	for (uint32_t m = 0; m < s->sb0.members; m++)
		if ((in_sync >> m & 1) && (s->disk[m].was_cut & who) &&
		    (uint32_t)__builtin_popcount(in_sync & ~failing & ~(1u << m)) < ddr_geo_data(&s->g))
			return true;
	return false;
}

/*
 * Rule 4: is there a member that only this node does not reach, and without which there would be too few? If this node does not take
 * part and only hears of it: one that another node does not reach.
 */
static bool cut_too_far(const struct sim *s, const struct node *n)
{
	struct ddr_super sb;
	uint32_t in_sync = check_newest_super(s, &sb) ? check_in_sync(&sb) : 0;
	uint32_t who = takes_part(n) ? 1u << (n - s->node) : ~0u;

	/* the disks may already list one more in sync, which was not known when the failure was judged */
	return needs_cut(s, in_sync, who) || needs_cut(s, check_in_sync(ddr_sm_super(n->sm)), who);
}

static void event_out(struct sim *s, struct node *n, const struct ddr_output *out)
{
	switch (out->event) {
	case DDR_EV_BUG:
		sim_violation(s, "the machine says that this cannot be: %s", out->text);
	case DDR_EV_MEMBER_ERROR:
		if (out->member < DDR_MAX_MEMBERS && !s->disk[out->member].failed && !(out->event == DDR_EV_MEMBER_ERROR && out->a == DDR_EC_NOSPC))
			sim_violation(s, "an error is told of member %u, which has failed nothing", out->member);
		return;
	case DDR_EV_FAILED:
		if (s->cluster && cut_too_far(s, n))
			sim_abandon(s, "the only node that took part does not reach a member that the array needs");
		if (!s->lossy)
			sim_violation(s, "the array failed although the parity covers what happened");
		n->failed = true;
		return;
	case DDR_EV_REBUILD_DONE:
		if (out->node != DDR_NO_MEMBER)
			check_replaced(s, out->node, out->member);
		check_whole_again(s);
		return;
	case DDR_EV_CLEAN:
		n->clean = true;
		return;
	case DDR_EV_READY:
		n->ready = true;
		return;
	case DDR_EV_NODE_JOINED:
		s->stats[STAT_JOINED] += out->b == n->id;
		return;
	case DDR_EV_NODE_RECOVERED:
		s->stats[STAT_RECOVERED]++;
		return;
	case DDR_EV_LEFT:
		n->left = true;
		return;
	case DDR_EV_SUSPECT:
		s->stats[STAT_SUSPECT]++;
		return;
	default:
		return;
	}
}

/* RECOVERED reports that the slot is clear. */
static void check_sent(struct sim *s, const struct node *n, const struct ddr_output *out)
{
	struct ddr_msg msg;

	if (!ddr_msg_decode(out->msg, out->msg_len, &msg) && msg.type == DDR_M_RECOVERED)
		check_recovered(s, n, msg.recover.slot);
}

static void carry_out(struct sim *s, struct node *n, const struct ddr_output *out)
{
	char buf[1024];

	if (s->trace && s->cluster)
		sim_trace(s, "%u: %s", n->id, rig_output(out, buf, sizeof(buf)));
	else if (s->trace)
		sim_trace(s, "%s", rig_output(out, buf, sizeof(buf)));
	if (s->cluster)
		storm_steer(s, n, out);
	switch (out->type) {
	case DDR_OUT_KERNEL:
		if (out->rec.type == DDR_U_GRANT && !n->quorate)
			sim_violation(s, "rule 8: a grant without quorum");
		kernel_record(s, &n->k, &out->rec);
		return;
	case DDR_OUT_MCAST:
		s->stats[STAT_MESSAGES]++;
		if (s->cluster) {
			check_sent(s, n, out);
			cluster_send(s, n, out->msg, out->msg_len);
			return;
		}
		bus_send(s, n->id, out->msg, out->msg_len);
		return;
	case DDR_OUT_EVENT:
		event_out(s, n, out);
		return;
	case DDR_OUT_GIVE_UP:
		if (s->cluster) {
			n->gave_up = true;
			n->k.killed = true;
			kernel_run(s, &n->k);	/* waiting operations end with an error */
			s->stats[STAT_EVICTED]++;
			if (out->event != DDR_EV_EVICTED && !cut_too_far(s, n))
				sim_violation(s, "node %u gives up: %s", n->id, out->text);
			s->stats[STAT_GAVE_UP] += out->event != DDR_EV_EVICTED;
			return;
		}
		sim_violation(s, "one node has nobody to give up for");
	case DDR_OUT_TABLE:
		n->table_due = true;
		n->table_member = out->member;
		n->table_place = out->index;
		return;
	case DDR_OUT_RESIZE:
		n->resize = out->count;
		return;
	case DDR_OUT_SEEK:
		n->seek |= 1u << out->member;
		return;
	case DDR_OUT_FENCE:
		if (s->cluster) {
			cluster_fence(s, n, out);
			return;
		}
		sim_violation(s, "one node has nobody to give up for, or to fence");
	default:
		node_io_submit(s, n, out);
	}
}

/*
 * A flush failed, dropped a cache, and the superblocks do not record it yet. What happens if the daemon dies or power fails just now
 * is not promised (doc/protocol.md), so these events are postponed.
 */
bool node_limit_open(const struct sim *s)
{
	struct ddr_super sb;

	if (!check_newest_super(s, &sb))
		return false;
	for (uint32_t m = 0; m < s->sb0.members; m++)
		if (s->disk[m].dropped && !s->disk[m].dead && (check_in_sync(&sb) >> m & 1))
			return true;
	return false;
}

void node_step(struct sim *s, struct node *n, const struct ddr_input *in)
{
	struct ddr_input next = *in;
	struct ddr_outputs outs = { .out = n->out };
	const char *why;

	do {
		ddr_sm_step(n->sm, &next, &outs);
		ddr_sm_cells(n->sm, sim_cells);
		why = s->rules_only ? NULL : ddr_sm_check(n->sm);
		if (why)
			sim_violation(s, "the state machine is inconsistent: %s", why);
		for (uint32_t i = 0; i < outs.n; i++) {
			if (n->crash_after == 0 && !node_limit_open(s)) {
				node_kill(s, n);
				return;
			}
			n->crash_after -= n->crash_after > 0;
			carry_out(s, n, &outs.out[i]);
		}
		if (n->gave_up) {
			node_kill(s, n);
			return;
		}
		next = (struct ddr_input){ .type = DDR_IN_NONE };
	} while (outs.more);
}

/* ---- power --------------------------------------------------------------------- */

void node_power(struct sim *s, struct node *n)
{
	sim_trace(s, "power is lost");
	if (n->sm)
		node_kill(s, n);
	node_io_power(s, n);
	kernel_power(s, &n->k);
	if (s->cluster) {	/* the disks are shared */
		check_death(s);
		return;
	}
	for (uint32_t m = 0; m < s->sb0.members; m++) {
		s->disk[m].faulted = 0;
		s->disk[m].dropped = false;	/* what it lost, the others have lost, too */
		disk_power(s, &s->disk[m]);
		disk_landed(s, &s->disk[m], NULL);
	}
	check_crash(s);
	s->boot++;
}
