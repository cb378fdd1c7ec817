// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the world sees of each step of a state machine, by --wrap of ddr_sm_step(): the same as node.c does for one whose hands are ddrsim's. The daemon
 * carries the outputs out itself. What it has under way is noted in n->io, for the checks (check_cluster.c) and for disk.c alone.
 */
#include <string.h>

#include "lib/wire/msg.h"
#include "lib/wire/node_msg.h"
#include "twin.h"

size_t __real_ddr_sm_step(struct ddr_sm *sm, const struct ddr_input *in, struct ddr_outputs *outs);
void __wrap_ddr_sm_step(struct ddr_sm *sm, const struct ddr_input *in, struct ddr_outputs *outs);
struct ddr_sm *__real_ddr_sm_init(void *mem, size_t size, const struct ddr_sm_config *cfg);
struct ddr_sm *__wrap_ddr_sm_init(void *mem, size_t size, const struct ddr_sm_config *cfg);

static bool answers(enum ddr_in_type in, enum ddr_out_type out)
{
	switch (in) {
	case DDR_IN_LOG_DONE: return out == DDR_OUT_LOG_WRITE || out == DDR_OUT_SLOT_WRITE;
	case DDR_IN_MAP_DONE: return out == DDR_OUT_MAP_WRITE;
	case DDR_IN_SB_DONE: return out == DDR_OUT_SB_WRITE;
	case DDR_IN_FLUSH_DONE: return out == DDR_OUT_FLUSH;
	case DDR_IN_JOB_DONE: return out == DDR_OUT_JOB_RANGE;
	case DDR_IN_RELOADED: return out == DDR_OUT_RELOAD;
	case DDR_IN_SLOT_DONE: return out == DDR_OUT_SLOT_READ;
	case DDR_IN_ROOM: return out == DDR_OUT_ROOM;
	case DDR_IN_PREPARED: return out == DDR_OUT_PREPARE;
	default: return false;
	}
}

static void forget(struct node *n, struct io *io)
{
	io->used = false;
	n->n_io--;
}

static void job_done(struct sim *s, struct node *n, const struct io *io, const struct ddr_input *in)
{
	if (!in->result && io->job == DDR_KA_REBUILD && in->mismatches && !io->misled)
		check_unfit(s, in->start, in->count, io->members);
	if (!in->result && io->job == DDR_KA_REBUILD && !in->mismatches && io->misled)
		sim_violation(s, "rule 9: a rebuild of blocks %llu+%llu does not say that what it has read does not match", (unsigned long long)io->start,
			      (unsigned long long)io->count);
	if (in->result || io->job != DDR_KA_RESYNC || io->fix)
		return;
	n->resynced[io->start / s->geo.region_blocks] = true;
	check_whole(s, io->start, io->count, io->members);
}

static void done(struct sim *s, struct node *n, const struct ddr_input *in)
{
	for (struct io *io = n->io; io < n->io + SIM_MAX_IO && n->n_io; io++)
		if (io->used && !io->orphan && io->io == in->io && answers(in->type, io->type)) {
			if (io->type == DDR_OUT_JOB_RANGE)
				job_done(s, n, io, in);
			forget(n, io);
			return;
		}
}

void twin_orphans(struct sim *s, struct node *n)
{
	for (struct io *io = n->io; io < n->io + SIM_MAX_IO && n->n_io; io++) {
		bool meta = io->type == DDR_OUT_SB_WRITE || io->type == DDR_OUT_LOG_WRITE || io->type == DDR_OUT_SLOT_WRITE || io->type == DDR_OUT_MAP_WRITE;

		if (!io->used || (n->sm && !io->orphan))
			continue;
		io->orphan = true;
		if (!meta || !twin_request_writes(s, n, io, false))
			forget(n, io);
	}
}

static void give_up(struct sim *s, struct node *n, const struct ddr_output *out)
{
	if (!s->cluster)
		sim_violation(s, "one node has nobody to give up for");
	n->gave_up = true;
	s->stats[STAT_EVICTED]++;
	if (n->outside)
		return;
	if (out->event != DDR_EV_EVICTED && !node_cut_too_far(s, n))
		sim_violation(s, "node %u gives up: %s", n->id, out->text);
	s->stats[STAT_GAVE_UP] += out->event != DDR_EV_EVICTED;
}

/* Its contents are rebuilt from here on, so what it failed before matters no more. A daemon may take it back by itself, without the operator's disk_back(). */
static void taken_back(const struct sim *s, const struct node *n, struct disk *d)
{
	d->faulted &= ~(1u << (n - s->node));
	d->daemon_failed &= ~(1u << (n - s->node));
	d->dropped = false;
}

static void look(struct sim *s, struct node *n, const struct ddr_output *out)
{
	char buf[1024];

	if (s->trace)
		sim_trace(s, "%u: %s", n->id, rig_output(out, buf, sizeof(buf)));
	if (s->cluster)
		storm_steer(s, n, out);
	switch (out->type) {
	case DDR_OUT_KERNEL:
	case DDR_OUT_TABLE:
	case DDR_OUT_RESIZE:
	case DDR_OUT_SEEK:
	case DDR_OUT_FENCE:
	case DDR_OUT_ANEW:
		return;
	case DDR_OUT_MCAST:
		s->stats[STAT_MESSAGES]++;
		if (s->cluster)
			node_check_sent(s, n, out);
		return;
	case DDR_OUT_EVENT:
		if (out->event == DDR_EV_REBUILD_START && out->member < DDR_MAX_MEMBERS)
			taken_back(s, n, &s->disk[out->member]);
		node_event_out(s, n, out);
		return;
	case DDR_OUT_GIVE_UP:
		give_up(s, n, out);
		return;
	default:
		node_io_submit(s, n, out);
	}
}

void __wrap_ddr_sm_step(struct ddr_sm *sm, const struct ddr_input *in, struct ddr_outputs *outs)
{
	struct sim *s = me->s;
	const char *why;

	me->n->sm = sm;
	/* an array that joins later learns what the process has heard already */
	if (s->cluster && (in->type == DDR_IN_VIEW || in->type == DDR_IN_QUORUM))
		me->n->quorate = me->hears ? me->due : me->quorate;
	done(s, me->n, in);
	__real_ddr_sm_step(sm, in, outs);
	ddr_sm_cells(sm, sim_cells);
	why = s->rules_only ? NULL : ddr_sm_check(sm);
	if (why)
		sim_violation(s, "the state machine is inconsistent: %s", why);
	for (uint32_t i = 0; i < outs->n; i++)
		look(s, me->n, &outs->out[i]);
	check_owned(s, me->n);
}

/* Something befell the member that makes a start count it as missing. A call of ours that failed is no such thing, nor that this process was stopped. */
static bool may_be_missing(const struct disk *d, uint32_t m)
{
	const struct sim *s = me->s;

	return s->lossy || me->was_refused || d->dead || d->failed || d->cut || d->chosen || me->absent >> m & 1 || d->hangs_until[me->n - s->node] > me->began_ms ||
	       d->back_at > me->began_ms ||	/* it looked before */
	       me->n->slow_until[m] > me->began_ms ||	/* likewise: it was a spare then */
	       twin_pending(me, m);
}

/* Of the members that the table of its kernel names: one that it does not name may be left out. */
static void check_present(const struct ddr_sm_config *cfg)
{
	for (uint32_t p = 0; p < me->s->g.roles; p++) {
		uint32_t m = me->n->k.disk[p];

		if (m < cfg->super->members && cfg->super->member[m].state == DDR_MEMBER_IN_SYNC && !(cfg->present >> m & 1) &&
		    !may_be_missing(&me->s->disk[m], m))
			sim_violation(me->s, "node %u starts without member %u, to which nothing happened", me->n->id, m);
	}
}

struct ddr_sm *__wrap_ddr_sm_init(void *mem, size_t size, const struct ddr_sm_config *cfg)
{
	struct ddr_sm *sm = __real_ddr_sm_init(mem, size, cfg);

	if (!me)
		return sm;
	check_present(cfg);
	twin_load_ends(me, cfg);
	me->n->sm = NULL;
	twin_orphans(me->s, me->n);
	me->n->sm = sm;
	me->n->sb = *cfg->super;
	me->n->ready = me->n->clean = me->n->failed = false;
	me->n->quorate = !me->s->cluster;
	return sm;
}

/* ---- what others say of it --------------------------------------------------------- */

#define PULSES_MS	6000u	/* what pulses say is that old at most */

/*
 * Does it accuse a node of owing what that has done, or could not do, in the time that it names? Where a node may owe several things of a kind, it may have
 * done another one.
 */
static bool unjust(const struct sim *s, const struct bus_message *msg)
{
	static const uint8_t done[DDR_DEBT_KINDS] = { [DDR_DEBT_HELLO] = DDR_M_HELLO, [DDR_DEBT_STATE] = DDR_M_STATE, [DDR_DEBT_MEMBER_DONE] = DDR_M_MEMBER_DONE,
						      [DDR_DEBT_MEMBER_ACK] = DDR_M_MEMBER_ACK, [DDR_DEBT_RECOVERED] = DDR_M_RECOVERED,
						      [DDR_DEBT_FOLDED] = DDR_M_FOLDED, [DDR_DEBT_ROOM] = DDR_M_ROOM };
	struct ddr_node_msg m;
	const struct node *n;
	uint64_t since;

	if (ddr_node_msg_decode(msg->bytes, msg->len, &m) || m.type != DDR_N_VERDICT || !(m.verdict.flags & DDR_VERDICT_OWES))
		return false;
	n = &s->node[m.verdict.process.node - 1];
	since = s->now + PULSES_MS - (s->now + PULSES_MS < m.verdict.owed.ms ? s->now + PULSES_MS : m.verdict.owed.ms);
	return n->did_ms[0] > since || n->did_ms[done[m.verdict.owed.kind % DDR_DEBT_KINDS]] > since;
}

bool node_ordered(struct sim *s, struct node *n, const struct bus_message *msg)
{
	struct ddr_msg m;

	if (ddr_node_msg_is(msg->bytes, msg->len))
		return unjust(s, msg);
	if (!ddr_msg_decode(msg->bytes, msg->len, &m) && (uint32_t)m.type < 64)
		n->did_ms[m.type] = s->now;
	return false;
}
