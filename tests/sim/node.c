// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The driver of a simulated state machine: does what the daemon does with the outputs, in order. The daemon may die between any two
 * outputs; I/O in flight then ends without anybody noticing (node_io.c). How it starts is in node_start.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"

const bool sim_real = false;

/* ---- the end of a daemon -------------------------------------------------------- */

void node_kill(struct sim *s, struct node *n)
{
	sim_trace(s, "daemon dies");
	if (s->cluster)
		node_first_write_lands(s, n);
	free(n->sm);
	n->sm = NULL;
	n->slept = n->table_due = false;
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

void node_free(struct sim *s, struct node *n)
{
	(void)s;
	free(n->sm);
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

/* A new table is loaded, and the daemon binds again; or the device cannot be opened on this node. */
static void table_event(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_TABLE_DONE, .member = n->table_member, .value = n->table_place, .result = -ENXIO };

	if (n->table_member != DDR_NO_MEMBER && disk_gone(s, n, &s->disk[n->table_member])) {
		n->table_due = false;
		n->k.suspended = false;
		node_step(s, n, &in);
		return;
	}
	if (!kernel_exchange(s, n))
		return;
	n->table_due = false;
	node_attach(s, n);
}

/* A state machine alone has nothing to do with it. */
bool node_has_id(const struct sim *s, const struct node *n)
{
	(void)s;
	(void)n;
	return true;
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

bool node_does(struct sim *s, struct node *n, const struct act *a)
{
	(void)a;
	return node_record(s, n);
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
			node_check_sent(s, n, out);
			cluster_send(s, n, out->msg, out->msg_len);
			return;
		}
		bus_send(s, n->id, out->msg, out->msg_len);
		return;
	case DDR_OUT_EVENT:
		node_event_out(s, n, out);
		return;
	case DDR_OUT_GIVE_UP:
		if (s->cluster) {
			n->gave_up = true;
			n->k.killed = true;
			kernel_run(s, &n->k);	/* waiting operations end with an error */
			s->stats[STAT_EVICTED]++;
			if (out->event != DDR_EV_EVICTED && !node_cut_too_far(s, n))
				sim_violation(s, "node %u gives up: %s", n->id, out->text);
			s->stats[STAT_GAVE_UP] += out->event != DDR_EV_EVICTED;
			return;
		}
		sim_violation(s, "one node has nobody to give up for");
	case DDR_OUT_ANEW:
		n->anew = true;
		return;
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

/* As the daemon does after a sleep (daemon/array/drive_step.c), before it hears of anything. */
void node_wakes(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_TICK, .now_ms = s->now };
	bool slept = n->slept;

	n->slept = false;
	if (slept && n->sm)
		node_step(s, n, &in);
}

void node_step(struct sim *s, struct node *n, const struct ddr_input *in)
{
	struct ddr_input next = *in;
	struct ddr_outputs outs = { .out = n->out };
	const char *why;

	if (in->type != DDR_IN_TICK)
		node_wakes(s, n);
	if (!n->sm)
		return;
	do {
		why = rig_step(n->sm, &next, &outs);
		if (why && !s->rules_only)
			sim_violation(s, "%s", why);
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
		if (n->gave_up || n->anew) {	/* anew: for the others and for the kernel it is as if the next daemon began */
			n->anew = false;
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

/* ---- what only real daemons can meet ------------------------------------------- */

bool node_stops(struct sim *s, struct node *n, bool stop)
{
	(void)s;
	(void)n;
	(void)stop;
	return false;
}

bool node_ends(struct sim *s, struct node *n)
{
	(void)s;
	(void)n;
	return false;
}

bool node_call_fails(struct sim *s, struct node *n, uint32_t what, int error)
{
	(void)s;
	(void)n;
	(void)what;
	(void)error;
	return false;
}

bool node_hears(struct sim *s, struct node *n, uint32_t what, uint32_t member)
{
	(void)s;
	(void)n;
	(void)what;
	(void)member;
	return false;
}

bool node_rare(struct sim *s, struct node *n, const struct act *a)
{
	(void)s;
	(void)n;
	(void)a;
	return false;
}

bool node_ordered(struct sim *s, struct node *n, const struct bus_message *msg)
{
	(void)s;
	(void)n;
	(void)msg;
	return false;
}

void node_group_ended(struct sim *s, struct node *n)
{
	(void)s;
	(void)n;
}

bool node_listens(const struct sim *s, const struct node *n, bool quorum)
{
	(void)s;
	(void)n;
	(void)quorum;
	return true;
}

void node_supers_land(struct sim *s, struct node *n)
{
	(void)s;
	(void)n;
}

bool node_held_for_good(const struct sim *s, const struct node *n)
{
	(void)s;
	(void)n;
	return false;
}

bool node_stands_still(const struct sim *s, const struct node *n)
{
	(void)s;
	(void)n;
	return false;
}

bool node_holds_back(const struct sim *s, const struct node *n, const struct io *io)
{
	(void)s;
	(void)n;
	(void)io;
	return false;
}

void node_catches_up(struct sim *s, struct node *n)
{
	(void)s;
	(void)n;
}
