// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What an array waits for in the group of all daemons, as text: for `waits` of status, and for an event. See link.h.
 *
 * A reason without a text does not compile, whatever the options of the build are: the switch below has no default.
 *
 * Must never: let an array wait without a word, or report what has ended by now.
 */
#include <inttypes.h>
#include <stdio.h>

#include <qb/qblog.h>

#include "daemon/base/daemon.h"
#include "daemon/group/link_int.h"
#include "lib/node/verdict.h"

#pragma GCC diagnostic error "-Wswitch"

#define LOOK_MS		1000u	/* between two looks while something waits */
#define SILENT_MS	5000u	/* what has lasted so long is reported: most of it ends on its own before */

static void on_look(void *data);

static struct ddr_link_wait waits_for(enum ddr_link_wait_kind kind, const struct ddr_group_id *id)
{
	struct ddr_link_wait w = { .kind = kind };

	if (id)
		w.id = *id;
	return w;
}

/* Another process of the array's own group, by which the array is in use; NULL: there is none. */
static const struct ddr_group_id *other_user(const struct ddr_link *l, const struct ddr_rider *r)
{
	for (unsigned int i = 0; i < r->presence.n; i++)
		if (!ddr_group_knows(&l->group, r->presence.process[i]))
			return &r->presence.process[i];
	return NULL;
}

bool ddr_link_used_by_other(const struct ddr_link *l, const struct ddr_rider *r)
{
	return other_user(l, r) != NULL;
}

static struct ddr_link_wait waits_for_refused(const struct ddr_link *l, const struct ddr_group_process *p)
{
	const struct ddr_group_process *twin = p->vote.twin ? ddr_version_twin(&l->group, p) : NULL;

	return waits_for(!twin ? DDR_LINK_WAIT_REFUSED : twin->vote.twin ? DDR_LINK_WAIT_COPIES : DDR_LINK_WAIT_COPY, &p->id);
}

/* An array that has not been told a view yet. */
static struct ddr_link_wait before_view(const struct ddr_link *l, unsigned int i)
{
	const struct ddr_group_process *refused = ddr_version_refused(&l->group);
	const struct ddr_rider *r = l->rider[i];
	const struct ddr_group_id *user = other_user(l, r);

	if (ddr_version_foreign(&l->group))		/* the array is refused */
		return waits_for(DDR_LINK_WAIT_NOTHING, NULL);
	if (l->group.array[i].stage != DDR_GROUP_HELD)
		return refused ? waits_for_refused(l, refused) : waits_for(DDR_LINK_WAIT_ECHO, NULL);
	if (!r->presence.n)
		return waits_for(DDR_LINK_WAIT_PRESENCE, NULL);
	return waits_for(user ? DDR_LINK_WAIT_USER : DDR_LINK_WAIT_NOTHING, user);
}

/* An array that has a view. Only the first of these delays its own I/O; of the others people on this node should know. */
static struct ddr_link_wait with_view(const struct ddr_link *l, unsigned int i)
{
	const struct ddr_group_process *unsaid = ddr_group_unsaid(&l->group), *refused = ddr_version_refused(&l->group);
	const struct ddr_group_id *user = other_user(l, l->rider[i]);

	if (!l->rider[i]->presence.n)
		return waits_for(DDR_LINK_WAIT_UNSEEN, NULL);
	if (unsaid)
		return waits_for(DDR_LINK_WAIT_OTHERS, &unsaid->id);
	if (refused)
		return waits_for_refused(l, refused);
	return waits_for(user ? DDR_LINK_WAIT_OLDER : DDR_LINK_WAIT_NOTHING, user);
}

static struct ddr_link_wait look(const struct ddr_link *l, unsigned int i)
{
	const struct ddr_group_process *p = ddr_group_awaits(&l->group), *silent = ddr_verdict_silent(&l->group);
	bool told = l->rider[i]->told_any;

	if (l->d->still.held)
		return waits_for(DDR_LINK_WAIT_STILL, NULL);
	if (ddr_asks_late(l->d->asks, NULL, 0))
		return waits_for(DDR_LINK_WAIT_COROSYNC, NULL);
	if (ddr_link_unreturned(l))
		return waits_for(DDR_LINK_WAIT_RETURN, NULL);
	if (!l->joined || !l->group.n || l->group.held || !l->group.ring_known)
		return waits_for(DDR_LINK_WAIT_GROUP, NULL);
	if (silent)
		return waits_for(DDR_LINK_WAIT_SILENT, &silent->id);
	if (p && p->id.node == l->group.self.node && p->id.pid == l->group.self.pid)
		return waits_for(DDR_LINK_WAIT_ECHO, NULL);
	if (p)
		return waits_for(told ? DDR_LINK_WAIT_MEETS : DDR_LINK_WAIT_HELLO, &p->id);
	return told ? with_view(l, i) : before_view(l, i);
}

/* ---- as text ------------------------------------------------------------------- */

static void describe_versions(const struct ddr_link *l, struct ddr_group_id id, const char *who, char *buf, size_t size)
{
	for (unsigned int i = 0; i < l->group.n; i++) {
		const struct ddr_group_process *p = &l->group.process[i];

		if (p->id.node == id.node && p->id.pid == id.pid)
			snprintf(buf, size, "ddraidd, %s, speaks versions %u to %u of the protocol between nodes with its kernel module, and the others use version %u: "
					    "it serves no array. Install the same release there, and load its module", who, p->vote.lowest, p->vote.highest,
				 l->group.use.version);
	}
}

void ddr_link_describe_copy(const struct ddr_link *l, const struct ddr_group_process *p, char *buf, size_t size)
{
	const struct ddr_group_process *q = ddr_version_twin(&l->group, p);
	char name[2][DDR_COROSYNC_NAME_LEN], which[DDR_COROSYNC_NAME_LEN + 48];

	*buf = '\0';
	if (!q)
		return;
	ddr_corosync_name(l->d->corosync, p->id.node, name[0], sizeof(name[0]));
	ddr_corosync_name(l->d->corosync, q->id.node, name[1], sizeof(name[1]));
	snprintf(which, sizeof(which), q->vote.twin ? "neither of them starts an array" : "%s starts no array", name[0]);
	snprintf(buf, size, "%s (node %" PRIu32 ") and %s (node %" PRIu32 ") have the same machine id, since the disk image of one was copied to the other: %s. On "
			    "the copy, type: rm %s/identity; systemctl restart ddraidd", name[0], p->id.node, name[1], q->id.node, which, l->d->conf.state_dir);
}

static void describe_copy(const struct ddr_link *l, struct ddr_group_id id, char *buf, size_t size)
{
	for (unsigned int i = 0; i < l->group.n; i++)
		if (l->group.process[i].id.node == id.node && l->group.process[i].id.pid == id.pid)
			ddr_link_describe_copy(l, &l->group.process[i], buf, size);
}

#define WHO_TEXT	(DDR_COROSYNC_NAME_LEN + 48u)

static void describe_who(const struct ddr_link *l, struct ddr_group_id id, char buf[WHO_TEXT])
{
	char name[DDR_COROSYNC_NAME_LEN];

	buf[0] = '\0';
	if (id.node)
		snprintf(buf, WHO_TEXT, "process %" PRIu32 " on %s (node %" PRIu32 ")", id.pid,
			 ddr_corosync_name(l->d->corosync, id.node, name, sizeof(name)), id.node);
}

static void describe_return(const struct ddr_link *l, char *buf, size_t size)
{
	char when[DDR_ASK_MOMENT];

	ddr_ask_moment(ddr_still_now() - l->pulse_ms, when, sizeof(when));
	snprintf(buf, size, "corosync on this node has not delivered what ddraidd sent at %s, so what needs other nodes waits, and they may fence this one. See "
			    "systemctl status corosync and corosync's log. If its process is stopped: kill -CONT PID; if it hangs, restart this node", when);
}

static void describe(const struct ddr_link *l, const struct ddr_rider *r, char *buf, size_t size)
{
	const struct cpg_name *group = &r->presence.name;
	struct ddr_group_id id = r->wait.id;
	char who[WHO_TEXT];

	describe_who(l, id, who);
	buf[0] = '\0';
	switch (r->wait.kind) {
	case DDR_LINK_WAIT_NOTHING:
		break;
	case DDR_LINK_WAIT_STILL:
		snprintf(buf, size, "ddraidd did not run for %" PRIu64 " s, so the other nodes may have declared this node dead: what needs ddraidd waits until "
				    "corosync delivers, with quorum, what this node has sent since. See corosync-quorumtool -s", l->d->still.stood_ms / 1000);
		break;
	case DDR_LINK_WAIT_COROSYNC:
		ddr_asks_late(l->d->asks, buf, size);
		break;
	case DDR_LINK_WAIT_RETURN:
		describe_return(l, buf, size);
		break;
	case DDR_LINK_WAIT_GROUP:
		snprintf(buf, size, "corosync has not said yet who is in the group of the daemons, so the array waits. See corosync's log; if it "
				    "lasts: systemctl restart ddraidd");
		break;
	case DDR_LINK_WAIT_ECHO:
		snprintf(buf, size, "corosync does not deliver what this node sends, so the array waits. See corosync-cfgtool -s and corosync's log");
		break;
	case DDR_LINK_WAIT_HELLO:
		snprintf(buf, size, "ddraidd, %s, has not said hello, so nobody knows whether it uses this array, which starts here after that. If it "
				    "hangs, end it there", who);
		break;
	case DDR_LINK_WAIT_MEETS:
		snprintf(buf, size, "ddraidd, %s, has not said hello since parts of the cluster met again, so nobody knows whether it uses this array. "
				    "I/O is frozen until then. If it hangs, end it there", who);
		break;
	case DDR_LINK_WAIT_OTHERS:
		snprintf(buf, size, "ddraidd, %s, has not said hello: arrays that start on other nodes wait for it. If it hangs, end it there", who);
		break;
	case DDR_LINK_WAIT_PRESENCE:
		snprintf(buf, size, "corosync has not let this node into the group %.*s, so the array does not start here. See corosync's log; if it "
				    "lasts: systemctl restart ddraidd", (int)group->length, group->value);
		break;
	case DDR_LINK_WAIT_UNSEEN:
		snprintf(buf, size, "corosync has not let this node into the group %.*s again, so others do not see that the array is in use: do not "
				    "rename it. See corosync's log", (int)group->length, group->value);
		break;
	case DDR_LINK_WAIT_USER:
		snprintf(buf, size, "%s uses the array; it starts here when that process has ended. It is a ddraidd of an older release, or a command "
				    "such as `ddraid rename`", who);
		break;
	case DDR_LINK_WAIT_OLDER:
		snprintf(buf, size, "%s waits for this array, which this release serves: it is a ddraidd of an older release. Install the same release "
				    "there", who);
		break;
	case DDR_LINK_WAIT_SILENT:
		snprintf(buf, size, "ddraidd, %s, has sent nothing for ten seconds, and I/O that needs its answer waits. The others declare it dead only if "
				    "the cluster has quorum without it. See what it does there: kill -CONT if it is stopped; else end it, or restart "
				    "that node", who);
		break;
	case DDR_LINK_WAIT_REFUSED:
		describe_versions(l, id, who, buf, size);
		break;
	case DDR_LINK_WAIT_COPY:
	case DDR_LINK_WAIT_COPIES:
		describe_copy(l, id, buf, size);
		break;
	}
}

/* ---- when ------------------------------------------------------------------------ */

static bool same(const struct ddr_link_wait *a, const struct ddr_link_wait *b)
{
	return a->kind == b->kind && a->id.node == b->id.node && a->id.pid == b->id.pid;
}

/* Has it lasted for seconds when it is noted first? */
static bool lasts(enum ddr_link_wait_kind kind)
{
	return kind == DDR_LINK_WAIT_SILENT || kind == DDR_LINK_WAIT_COROSYNC || kind == DDR_LINK_WAIT_RETURN;
}

static void note(struct ddr_link *l, unsigned int i)
{
	struct ddr_rider *r = l->rider[i];
	struct ddr_link_wait now = look(l, i);
	char text[DDR_LINK_WAIT_TEXT];
	bool told = r->wait.told;

	if (!same(&now, &r->wait)) {
		r->wait = now;
		r->wait.since_ms = ddr_now_ms();
		if (told)
			r->events->waits(r->ctx, NULL);
		return;
	}
	if (told || now.kind == DDR_LINK_WAIT_NOTHING || (!lasts(now.kind) && ddr_now_ms() - r->wait.since_ms < SILENT_MS))
		return;
	r->wait.told = true;
	describe(l, r, text, sizeof(text));
	r->events->waits(r->ctx, text);
}

void ddr_link_watch_later(struct ddr_link *l)
{
	if (!l->silence && qb_loop_timer_add(l->d->loop, QB_LOOP_LOW, LOOK_MS * QB_TIME_NS_IN_MSEC, l, on_look, &l->silence))
		qb_log(LOG_CRIT, "out of memory for a timer: nothing will say for which node arrays wait. Free memory, then: systemctl restart ddraidd; the "
		       "arrays stay up");
}

/*
 * The group could use a higher version: this node agrees as soon as none of its arrays misses a node. Whether one does changes by messages of
 * arrays, so it is looked at again until then.
 */
static bool let_rise(struct ddr_link *l)
{
	if (!l->open || !ddr_version_may_rise(&l->group))
		return false;
	for (unsigned int i = 0; i < DDR_NODE_RIDES; i++)
		if (l->rider[i] && (!l->rider[i]->told_any || !l->rider[i]->events->complete(l->rider[i]->ctx)))
			return true;
	ddr_version_rise(&l->group);
	ddr_link_flush(l);
	return true;
}

void ddr_link_watch(struct ddr_link *l)
{
	bool waits = l->open && ddr_link_debts(l);

	for (unsigned int i = 0; l->open && i < DDR_NODE_RIDES; i++) {
		if (l->rider[i])
			note(l, i);
		waits |= l->rider[i] && l->rider[i]->wait.kind != DDR_LINK_WAIT_NOTHING;
	}
	if (let_rise(l) || waits)
		ddr_link_watch_later(l);
	else
		ddr_link_stop_timer(l, &l->silence);
}

static void on_look(void *data)
{
	struct ddr_link *l = data;
	bool before = ddr_link_begin_calls(l);

	l->silence = 0;
	ddr_link_watch(l);
	ddr_link_end_calls(l, before);
}
