// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Pulses of this daemon, and verdicts on those that are silent (lib/node/verdict.h), or do not do what they owe (lib/node/owes.h). See link.h.
 *
 * The pulse is sent by the loop that does the arrays' work, and by nothing else: it shows that this loop runs.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <qb/qblog.h>

#include "daemon/base/daemon.h"
#include "daemon/group/link_int.h"
#include "lib/node/verdict.h"

#define AWAY		3u	/* times that a pulse was due and the last one was not back: corosync needs milliseconds, and some seconds after nodes came or went */

static void on_pulse(void *data);

void ddr_link_pulse(struct ddr_link *l)
{
	if (l->open && qb_loop_timer_add(l->d->loop, QB_LOOP_HIGH, DDR_PULSE_MS * QB_TIME_NS_IN_MSEC, l, on_pulse, &l->pulse))
		qb_log(LOG_CRIT, "out of memory for a timer: this daemon sends no signs of life any more, so the other nodes fence this node. Free memory, "
				 "then: systemctl restart ddraidd; the arrays stay up");
}

/* No array of this daemon has a slot of the node, or misses it. */
static bool no_slot(const struct ddr_link *l, uint32_t node)
{
	for (unsigned int i = 0; i < DDR_NODE_RIDES; i++)
		if (l->rider[i] && l->rider[i]->events->has_slot(l->rider[i]->ctx, node))
			return false;
	return true;
}

#define CRIME_TEXT	256u

/* Why the process is accused, or was excluded. @owed: NULL: for silence. */
static const char *crime(const struct ddr_node_owed *owed, char *buf, size_t size)
{
	if (owed)
		snprintf(buf, size, "%s, and has done nothing about that for %" PRIu32 " s", ddr_link_debt_what((enum ddr_debt_kind)owed->kind), owed->ms / 1000);
	else
		snprintf(buf, size, "has sent nothing for ten seconds");
	return buf;
}

static void accuse(struct ddr_link *l, const struct ddr_group_process *p, const struct ddr_node_owed *owed)
{
	struct ddr_node_verdict v = { 0 };
	char name[DDR_COROSYNC_NAME_LEN], why[CRIME_TEXT];
	bool votes = ddr_link_votes(l, &v);

	ddr_corosync_name(l->d->corosync, p->id.node, name, sizeof(name));
	crime(owed, why, sizeof(why));
	if (owed) {
		v.flags |= DDR_VERDICT_OWES;
		v.owed = *owed;
	} else if (no_slot(l, p->id.node)) {
		v.flags |= DDR_VERDICT_NO_SLOT;
	}
	if (!ddr_verdict_spares(&l->group, p, &v) && !votes) {
		qb_log(LOG_WARNING, "ddraidd on node %" PRIu32 " (%s), process %" PRIu32 ", %s; it is not declared dead, since "
				    "corosync does not say now which votes there are without it. This is tried again; see corosync-quorumtool -s",
		       p->id.node, name, p->id.pid, why);
		return;
	}
	if (!ddr_verdict_may(&l->group, p, &v)) {
		qb_log(LOG_WARNING, "ddraidd on node %" PRIu32 " (%s), process %" PRIu32 ", %s; arrays wait for it, since the cluster "
				    "would have no quorum without it. End the process there, or restart the node",
		       p->id.node, name, p->id.pid, why);
		return;
	}
	qb_log(LOG_WARNING, "ddraidd on node %" PRIu32 " (%s), process %" PRIu32 ", %s; asking the other nodes to declare it dead",
	       p->id.node, name, p->id.pid, why);
	ddr_verdict_send(&l->group, p, &v);
}

/* Silent processes come first: what such a process has said of its debts may be old. */
static void judge(struct ddr_link *l)
{
	const struct ddr_group_process *p = l->joined ? ddr_verdict_due(&l->group, ddr_now_ms()) : NULL;
	struct ddr_node_owed owed;

	if (p) {
		accuse(l, p, NULL);
		return;
	}
	p = l->joined ? ddr_owes_due(&l->group, ddr_now_ms(), ddr_link_owe_limit, l, &owed) : NULL;
	if (p)
		accuse(l, p, &owed);
}

/* The pulse that ends it is the next one that the timer sends: one that came earlier would shorten the time after which others count as silent. */
static void note_still(struct ddr_link *l)
{
	if (!ddr_still_held(&l->d->still) || l->d->still.logged)
		return;
	l->d->still.logged = true;
	qb_log(LOG_WARNING, "ddraidd did not run for %" PRIu64 " ms, and the other nodes may have declared it dead meanwhile: it grants and writes nothing until "
			    "corosync has delivered what it sends now", l->d->still.stood_ms);
	ddr_link_watch_later(l);
}

bool ddr_link_unreturned(const struct ddr_link *l)
{
	return l->pulse_ms && l->away >= AWAY;
}

void ddr_link_pulse_back(struct ddr_link *l)
{
	uint64_t sent_ms = l->pulse_ms;

	if (!sent_ms || l->group.pulse_away)
		return;
	l->pulse_ms = 0;
	if (ddr_link_same_ring(l) && ddr_still_heard(&l->d->still, sent_ms))
		qb_log(LOG_NOTICE, "no other node has declared ddraidd dead while it did not run: it serves its arrays again, after %" PRIu64 " ms",
		       l->d->still.ran_ms - l->d->still.since_ms);
}

static void on_pulse(void *data)
{
	struct ddr_link *l = data;
	bool before = ddr_link_begin_calls(l);

	l->pulse = 0;
	note_still(l);
	ddr_link_pulse(l);
	l->away = l->pulse_ms ? l->away + 1 : 0;
	if (ddr_link_debts(l))
		ddr_link_watch_later(l);
	ddr_group_pulse(&l->group);
	ddr_link_ask_votes(l);
	judge(l);
	if (ddr_verdict_silent(&l->group) || ddr_asks_late(l->d->asks, NULL, 0) || ddr_link_unreturned(l))
		ddr_link_watch_later(l);
	ddr_link_cluster(l);
	ddr_link_flush(l);
	ddr_link_end_calls(l, before);
}

static void say_excluded(struct ddr_link *l, const struct ddr_group_process *p)
{
	char name[DDR_COROSYNC_NAME_LEN], why[CRIME_TEXT];

	ddr_corosync_name(l->d->corosync, p->id.node, name, sizeof(name));
	crime(p->silence.why == DDR_OUT_OWES ? &p->silence.owed : NULL, why, sizeof(why));
	if (p->silence.spared)
		qb_log(LOG_WARNING, "ddraidd on node %" PRIu32 " (%s), process %" PRIu32 ", %s and is left out: nobody waits for it, and its "
				    "node is not fenced for that. See there what the process waits for, or end it", p->id.node, name, p->id.pid, why);
	else if (p->silence.why == DDR_OUT_HEARSAY)
		qb_log(LOG_ERR, "ddraidd on node %" PRIu32 " (%s), process %" PRIu32 ", was declared dead before this node joined: arrays go on without "
				"it as soon as the node is fenced. See there what the process waits for, or restart the node", p->id.node, name, p->id.pid);
	else
		qb_log(LOG_ERR, "ddraidd on node %" PRIu32 " (%s), process %" PRIu32 ", was declared dead, for it %s: arrays go on without "
				"it as soon as the node is fenced. See there what the process waits for, or restart the node", p->id.node, name, p->id.pid, why);
}

const char *ddr_link_say_why_excluded(const struct ddr_link *l)
{
	for (unsigned int i = 0; i < l->group.n; i++) {
		const struct ddr_group_process *p = &l->group.process[i];

		if (p->id.node != l->group.self.node || p->id.pid != l->group.self.pid)
			continue;
		if (p->silence.why == DDR_OUT_SILENT)
			return "the other nodes heard nothing from this daemon for ten seconds, and declared it dead; if fencing is set up they fence this node";
		if (p->silence.why == DDR_OUT_HEARSAY)
			break;
		qb_log(LOG_CRIT, "the other nodes waited %" PRIu32 " s for this one, which %s. If that is not a disk that hangs here, it is a fault of ddraid: please "
				 "report it, with this log and the kernel's", p->silence.owed.ms / 1000, ddr_link_debt_what((enum ddr_debt_kind)p->silence.owed.kind));
		return "this node did not do what the other nodes waited for, and they declared it dead; if fencing is set up they fence this node";
	}
	return "the other nodes do not count this daemon any more: they declared it dead; if fencing is set up they fence this node";
}

void ddr_link_tell_excluded(struct ddr_link *l)
{
	uint64_t outs = 0;

	for (unsigned int i = 0; i < l->group.n; i++) {
		struct ddr_group_process *p = &l->group.process[i];

		if (p->silence.out && !p->silence.out_logged)
			say_excluded(l, p);
		p->silence.out_logged = p->silence.out;
		if (ddr_verdict_node_out(&l->group, p->id.node))
			outs += (uint64_t)p->id.node * 0x9e3779b97f4a7c15u;
	}
	if (outs == l->outs)
		return;
	l->outs = outs;
	for (unsigned int i = 0; i < DDR_NODE_RIDES; i++)
		if (l->rider[i])
			l->rider[i]->quorum_serial = 0;
}
