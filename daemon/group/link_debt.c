// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Debts: what nodes wait for, and others owe them (lib/node/debt.h), as text: for `waits` of status, and for events. See link.h.
 *
 * Every daemon of the group says it, also one that does not serve the array: the event then names the array by its uuid. Each debt is one event when it
 * is shown first, and one when it has ended.
 *
 * A kind without a text does not compile, whatever the options of the build are: the switch below has no default.
 *
 * Must never: report what nobody has said; promise a verdict that does not come.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <qb/qblog.h>
#include <uuid/uuid.h>

#include "daemon/base/daemon.h"
#include "daemon/group/link_int.h"
#include "lib/node/verdict.h"

#pragma GCC diagnostic error "-Wswitch"

/* ---- as text ------------------------------------------------------------------- */

const char *ddr_link_debt_what(enum ddr_debt_kind kind)
{
	switch (kind) {
	case DDR_DEBT_HELLO:
		return "has not said hello since the nodes of the array changed, so nothing new begins";
	case DDR_DEBT_STATE:
		return "has not sent the state of the array to a node that starts, so nothing new begins";
	case DDR_DEBT_MEMBER_DONE:
		return "has not written the superblocks of a change of the array";
	case DDR_DEBT_MEMBER_ACK:
		return "has not acknowledged the last change of the members";
	case DDR_DEBT_EX_ACK:
		return "still writes to blocks that another node is to resync, rebuild or repair";
	case DDR_DEBT_EX_RELEASE:
		return "has not released blocks that it resyncs, rebuilds or repairs, and writes to them wait";
	case DDR_DEBT_MAP_DONE:
		return "has not written a change of the region map";
	case DDR_DEBT_RECOVERED:
		return "has not taken over the regions of a dead node";
	case DDR_DEBT_FOLDED:
		return "has not recorded its earlier writes, and the rebuild of a member waits for that";
	case DDR_DEBT_ROOM:
		return "has not said how large its disks are, so the array does not grow";
	case DDR_DEBT_RETURN:
		return "is lost, and its regions wait until it is back or is fenced";
	}
	return "owes something that only a later release of ddraid knows";
}

static const char *node_text(const struct ddr_link *l, uint32_t node, char *buf, size_t size)
{
	char name[DDR_COROSYNC_NAME_LEN];

	snprintf(buf, size, "%s (node %" PRIu32 ")", ddr_corosync_name(l->d->corosync, node, name, sizeof(name)), node);
	return buf;
}

#define NODE_TEXT	(DDR_COROSYNC_NAME_LEN + 24u)
#define UNHEARD		2u	/* pulses of our own that came back since: as a rule there is one between two of the others */

/* For how long nothing was heard of the node's daemon, in seconds; 0: it talks. What it said of its debts is as old. */
static uint32_t unheard_s(const struct ddr_link *l, uint32_t node)
{
	uint32_t pulses = 0;

	for (unsigned int i = 0; i < l->group.n; i++) {
		const struct ddr_group_process *p = &l->group.process[i];

		if (p->id.node == node && !p->silence.out && (!pulses || p->silence.pulses < pulses))
			pulses = p->silence.pulses;
	}
	return pulses < UNHEARD ? 0 : pulses * (DDR_PULSE_MS / 1000);
}

static void why_text(const struct ddr_link *l, const struct ddr_debt *d, char *buf, size_t size)
{
	uint32_t unheard = unheard_s(l, d->is.node);
	char who[NODE_TEXT];

	if (unheard) {
		snprintf(buf, size, "nothing was heard of its daemon for about %" PRIu32 " s; it may be stopped, or hang", unheard);
		return;
	}
	switch (d->is.why) {
	case DDR_WHY_KERNEL:
		snprintf(buf, size, "its kernel has not ended older requests, perhaps because a disk hangs there");
		return;
	case DDR_WHY_DISK:
		snprintf(buf, size, "a disk has not answered it yet; one that hangs fails after io_timeout");
		return;
	case DDR_WHY_ABSENT:
		snprintf(buf, size, "its kernel does not have the array at the moment");
		return;
	case DDR_WHY_RESYNC:
		if (d->behind)
			break;
		snprintf(buf, size, "it resyncs regions first, as after a crash; each part of that is progress");
		return;
	default:
		break;
	}
	if (d->behind)
		snprintf(buf, size, "it waits itself for %s, which %s", node_text(l, d->behind, who, sizeof(who)), ddr_link_debt_what((enum ddr_debt_kind)d->behind_kind));
	else
		snprintf(buf, size, "its daemon has not said why");
}

/* Who waits, behind a semicolon; "": nobody but the debtor. */
static void waits_text(const struct ddr_link *l, const struct ddr_debt *d, char *buf, size_t size)
{
	char who[NODE_TEXT];
	size_t at = 0;

	*buf = '\0';
	for (uint32_t i = 0; i < d->n_waits && i < DDR_DEBT_WAITERS && at < size; i++)
		at += (size_t)snprintf(buf + at, size - at, "%s%s", i ? ", " : "; waiting: ", node_text(l, d->waits[i], who, sizeof(who)));
	if (d->n_waits > DDR_DEBT_WAITERS && at < size)
		snprintf(buf + at, size - at, ", and %" PRIu32 " more", d->n_waits - DDR_DEBT_WAITERS);
}

/* Whether, and when, the debtor is declared dead for it, by what the pulses have said so far. */
static void fate(struct ddr_link *l, const struct ddr_debt *d, char *buf, size_t size)
{
	struct ddr_node_owed owed = { .kind = d->is.kind, .ms = 1 };
	const struct ddr_group_process *p = ddr_owes_debtor(&l->group, d->is.node, d->is.uuid);
	uint32_t limit = ddr_link_owe_limit(l, d->is.uuid), behind = 0, quiet;
	struct ddr_node_verdict v = { .flags = DDR_VERDICT_OWES };
	char who[NODE_TEXT];

	memcpy(owed.uuid, d->is.uuid, sizeof(owed.uuid));
	if (unheard_s(l, d->is.node)) {
		snprintf(buf, size, "After ten seconds of silence it is declared dead, if the cluster has quorum without it");
		return;
	}
	if (!limit) {
		snprintf(buf, size, "Nobody is declared dead for this, as owe_time is 0");
		return;
	}
	switch (p ? ddr_owes_judge(&l->group, p, &owed, &behind) : DDR_OWES_UNKNOWN) {
	case DDR_OWES_COUNTS:
		quiet = ddr_owes_quiet(&l->group, p, &owed);
		if (!ddr_link_votes(l, &v))
			snprintf(buf, size, "After %" PRIu32 " s without progress it is declared dead, if the cluster has quorum without it", limit / 1000);
		else if (!ddr_verdict_may(&l->group, p, &v))
			snprintf(buf, size, "It is not declared dead for this, since the cluster would have no quorum without it");
		else
			snprintf(buf, size, "If it makes no progress, it is declared dead in %" PRIu32 " s, and its node fenced", quiet < limit ? (limit - quiet) / 1000 : 0);
		return;
	case DDR_OWES_NOT_YET:
		snprintf(buf, size, "After %" PRIu32 " s without progress it is declared dead, if the cluster has quorum without it", limit / 1000);
		return;
	case DDR_OWES_BEHIND:
		snprintf(buf, size, "It is not declared dead while it waits itself for %s", node_text(l, behind, who, sizeof(who)));
		return;
	case DDR_OWES_DISK:
		snprintf(buf, size, "It is not declared dead while it waits for the disk");
		return;
	case DDR_OWES_ALL:
		snprintf(buf, size, "Nobody is declared dead for this while those who wait for it wait for their own disks or kernels, too");
		return;
	case DDR_OWES_LOST:
	case DDR_OWES_UNKNOWN:
		break;
	}
	snprintf(buf, size, "It is not declared dead before all nodes have said what they wait for");
}

static void describe(struct ddr_link *l, const struct ddr_debt *d, char *buf, size_t size)
{
	char who[NODE_TEXT], why[NODE_TEXT + 160], waits[DDR_DEBT_WAITERS * (NODE_TEXT + 2) + 32], then[NODE_TEXT + 160];

	waits_text(l, d, waits, sizeof(waits));
	if (d->is.kind == DDR_DEBT_RETURN) {
		snprintf(buf, size, "%s %s, for %" PRIu32 " s now%s", node_text(l, d->is.node, who, sizeof(who)),
			 ddr_link_debt_what((enum ddr_debt_kind)d->is.kind), d->is.since_ms / 1000, waits);
		return;
	}
	why_text(l, d, why, sizeof(why));
	fate(l, d, then, sizeof(then));
	snprintf(buf, size, "%s %s, for %" PRIu32 " s now (no progress for %" PRIu32 " s)%s. The reason: %s. %s. "
			    "If it lasts, read journalctl -u ddraidd there, or reboot that node", node_text(l, d->is.node, who, sizeof(who)),
		 ddr_link_debt_what((enum ddr_debt_kind)d->is.kind), d->is.since_ms / 1000, d->is.quiet_ms / 1000, waits, why, then);
}

static void describe_end(const struct ddr_link *l, const struct ddr_debt *d, char *buf, size_t size)
{
	char who[NODE_TEXT];

	snprintf(buf, size, "this has ended: %s %s", node_text(l, d->is.node, who, sizeof(who)), ddr_link_debt_what((enum ddr_debt_kind)d->is.kind));
}

/* ---- to whom -------------------------------------------------------------------- */

/* The array, if this node takes part in it. */
static struct ddr_rider *rider_of(const struct ddr_link *l, const uint8_t uuid[16])
{
	for (unsigned int i = 0; i < DDR_NODE_RIDES; i++)
		if (l->rider[i] && l->rider[i]->told_any && memcmp(l->group.array[i].ride.uuid, uuid, 16) == 0)
			return l->rider[i];
	return NULL;
}

/* Who takes part in the array has said of a lost node what there is to say: it is an event and a wait of its own there. */
static bool said_already(const struct ddr_link *l, const struct ddr_debt *d)
{
	return d->is.kind == DDR_DEBT_RETURN && rider_of(l, d->is.uuid);
}

static void tell(struct ddr_link *l, const struct ddr_debt *d, bool ends)
{
	char text[DDR_LINK_DEBT_TEXT], uuid[UUID_STR_LEN];
	struct ddr_rider *r = rider_of(l, d->is.uuid);
	struct ddr_notice n = { .array = uuid, .uuid = uuid, .event = ends ? "wait-over" : "wait", .text = text };

	if (ends)
		describe_end(l, d, text, sizeof(text));
	else
		describe(l, d, text, sizeof(text));
	if (r) {
		r->events->debt(r->ctx, ends ? DDR_DEBT_ENDS : DDR_DEBT_BEGINS, text);
		return;
	}
	uuid_unparse_lower(d->is.uuid, uuid);
	qb_log(ends ? LOG_NOTICE : LOG_WARNING, "array %s, which this node does not serve: %s", uuid, text);
	ddr_sink_tell(&l->d->sink, &n);
}

static const struct ddr_debt *find(const struct ddr_debt *list, uint32_t n, const struct ddr_debt *d)
{
	for (uint32_t i = 0; i < n; i++)
		if (list[i].is.kind == d->is.kind && list[i].is.node == d->is.node && memcmp(list[i].is.uuid, d->is.uuid, 16) == 0)
			return &list[i];
	return NULL;
}

/* For status: the oldest one of each array that this node serves, and those of other arrays. */
static void show(struct ddr_link *l, const struct ddr_debt *list, uint32_t n)
{
	struct ddr_elsewhere *other = l->d->elsewhere;
	char text[DDR_LINK_DEBT_TEXT];

	for (unsigned int i = 0; i < DDR_NODE_RIDES; i++) {
		const struct ddr_debt *d = NULL;

		for (uint32_t j = 0; l->rider[i] && l->rider[i]->told_any && !d && j < n; j++)
			d = memcmp(list[j].is.uuid, l->group.array[i].ride.uuid, 16) == 0 && !said_already(l, &list[j]) ? &list[j] : NULL;
		if (d)
			describe(l, d, text, sizeof(text));
		if (l->rider[i])
			l->rider[i]->events->debt(l->rider[i]->ctx, DDR_DEBT_LASTS, d ? text : NULL);
	}
	memset(other, 0, sizeof(l->d->elsewhere));
	for (uint32_t j = 0; j < n && other < l->d->elsewhere + DDR_ELSEWHERE; j++)
		if (!rider_of(l, list[j].is.uuid)) {
			memcpy(other->uuid, list[j].is.uuid, sizeof(other->uuid));
			describe(l, &list[j], other->waits, sizeof(other->waits));
			other++;
		}
}

bool ddr_link_debts(struct ddr_link *l)
{
	struct ddr_node_debts ours = { .n = 0 };
	struct ddr_debt list[DDR_DEBT_LIST];
	uint32_t n;

	for (unsigned int i = 0; i < DDR_NODE_RIDES; i++)
		if (l->rider[i] && l->rider[i]->told_any)
			l->rider[i]->events->debts(l->rider[i]->ctx, &ours);
	ddr_debt_ours(&l->group, &ours);
	l->group.debts_news = false;
	n = ddr_debt_list(&l->group, ddr_now_ms(), list);
	for (uint32_t i = 0; i < l->n_debts; i++)
		if (!find(list, n, &l->debt[i]) && !said_already(l, &l->debt[i]))
			tell(l, &l->debt[i], true);
	for (uint32_t i = 0; i < n; i++)
		if (!find(l->debt, l->n_debts, &list[i]) && !said_already(l, &list[i]))
			tell(l, &list[i], false);
	show(l, list, n);
	memcpy(l->debt, list, n * sizeof(list[0]));
	l->n_debts = n;
	return n || ours.n;
}

void ddr_link_debts_end(struct ddr_link *l)
{
	l->n_debts = 0;
	memset(l->d->elsewhere, 0, sizeof(l->d->elsewhere));
}
