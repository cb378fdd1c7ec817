// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The process group of all daemons, by corosync's libcpg. See link.h.
 *
 * When nodes come or go, corosync reports the membership first and the ring after it; when only processes do, it reports the membership
 * alone. Messages that do not belong to this protocol are dropped, with a few log messages a minute.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <corosync/cpg.h>
#include <qb/qblog.h>

#include "daemon/base/daemon.h"
#include "daemon/group/corosync.h"
#include "daemon/group/link_int.h"
#include "lib/wire/msg.h"

#define GROUP		"ddraid"
#define RETRY_MS	5u	/* pause before a queue that corosync did not accept is tried again */
#define JOIN_MS		20u	/* pause before a join that corosync refused is tried again */
#define BATCH		64u	/* deliveries in one round of the loop */
#define LINES		5u	/* log messages about dropped messages in a minute */

_Static_assert(CPG_MEMBERS_MAX <= DDR_GROUP_PROCESSES, "all processes of a group fit");
_Static_assert(DDR_SM_MAX_NODES <= DDR_GROUP_NODES && DDR_ARRAYS_MAX <= DDR_NODE_RIDES, "all views and arrays fit");

static void on_timer(void *data);

static void retry_later(struct ddr_link *l)
{
	if (!l->timer && qb_loop_timer_add(l->d->loop, QB_LOOP_HIGH, RETRY_MS * QB_TIME_NS_IN_MSEC, l, on_timer, &l->timer))
		qb_log(LOG_CRIT, "out of memory for a timer: messages of this node to the cluster wait, and writes with them. Free memory, then: systemctl "
		       "restart ddraidd; the arrays stay up");
}

static void close_handle(struct ddr_link *l)
{
	if (!l->open)
		return;
	l->open = l->joined = false;
	ddr_link_stop_timer(l, &l->timer);
	ddr_link_stop_timer(l, &l->silence);
	ddr_link_stop_timer(l, &l->pulse);
	ddr_votes_forget(&l->votes);
	ddr_link_debts_end(l);
	ddr_cpg_close(l->cpg);
	l->cpg = NULL;
}

/* The group is lost, for all arrays. */
static void lose(struct ddr_link *l, const char *why)
{
	if (!l->open)
		return;
	close_handle(l);
	for (unsigned int i = 0; i < DDR_NODE_RIDES; i++) {
		if (!l->rider[i])
			continue;
		ddr_presence_close(&l->rider[i]->presence);
		ddr_link_lose_rider(l, l->rider[i], why);
	}
}

/* ---- sending --------------------------------------------------------------------- */

/* False: corosync did not take it; it is tried again. */
static bool send_one(struct ddr_link *l, uint8_t *msg, size_t len)
{
	cs_error_t ret = ddr_cpg_send(l->cpg, msg, len);

	if (ret != CS_OK)
		retry_later(l);
	/* a dead connection also shows at its descriptor, and is reported there */
	if (ret != CS_OK && ret != CS_ERR_TRY_AGAIN && ret != CS_ERR_INTERRUPT && ret != l->refusal)
		qb_log(LOG_ERR, "corosync refuses a message to the group " GROUP ": error %d; retrying", ret);
	if (ret != CS_ERR_TRY_AGAIN && ret != CS_ERR_INTERRUPT)
		l->refusal = ret;
	return ret == CS_OK;
}

static bool send_queue(struct ddr_link *l, struct ddr_rider *r)
{
	uint8_t msg[DDR_SM_MSG_MAX];

	while (r->queue.n) {
		if (!send_one(l, msg, ddr_queue_first(&r->queue, msg)))
			return false;
		ddr_queue_drop(&r->queue);
	}
	return true;
}

void ddr_link_flush(struct ddr_link *l)
{
	uint8_t msg[DDR_NODE_MSG_MAX];
	size_t len;

	if (!l->joined || l->timer)
		return;
	while ((len = ddr_group_next(&l->group, msg, sizeof(msg))) > 0) {
		uint64_t now = ddr_still_now(), pulse = l->group.pulse;	/* before it is sent: this process may be stopped behind that */

		if (!send_one(l, msg, len))
			return;
		ddr_group_sent(&l->group);
		if (l->group.pulse != pulse)
			l->pulse_ms = now;
	}
	for (unsigned int i = 0; i < DDR_NODE_RIDES; i++)
		if (l->rider[i] && l->group.array[i].stage == DDR_GROUP_RIDES && !send_queue(l, l->rider[i]))
			return;
}

/* ---- what corosync says ---------------------------------------------------------- */

static struct ddr_link *link_of(cpg_handle_t handle)
{
	struct ddr_link *l;
	void *ctx;

	if (cpg_context_get(handle, &ctx) != CS_OK)
		return NULL;
	l = ctx;
	return l->open ? l : NULL;
}

static size_t copy_ids(struct ddr_group_id ids[DDR_GROUP_PROCESSES], const struct cpg_address *list, size_t n)
{
	size_t k = n < DDR_GROUP_PROCESSES ? n : DDR_GROUP_PROCESSES;

	for (size_t i = 0; i < k; i++)
		ids[i] = (struct ddr_group_id){ .node = list[i].nodeid, .pid = list[i].pid };
	return k;
}

static bool has_reason(const struct cpg_address *list, size_t n, uint32_t reason)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].reason == reason)
			return true;
	return false;
}

static void on_members(cpg_handle_t handle, const struct cpg_name *name, const struct cpg_address *member,
		       size_t n_member, const struct cpg_address *left, size_t n_left,
		       const struct cpg_address *joined, size_t n_joined)
{
	struct ddr_group_id now[DDR_GROUP_PROCESSES], gone[DDR_GROUP_PROCESSES];
	struct ddr_link *l = link_of(handle);
	bool met = has_reason(joined, n_joined, CPG_REASON_NODEUP);

	(void)name;
	if (!l)
		return;
	n_member = copy_ids(now, member, n_member);
	n_left = copy_ids(gone, left, n_left);
	if (ddr_group_members(&l->group, now, n_member, gone, n_left, met || has_reason(left, n_left, CPG_REASON_NODEDOWN), met))
		ddr_link_tell(l);
	else
		lose(l, "corosync removed this node from the daemons' group");
}

static void on_ring(cpg_handle_t handle, struct cpg_ring_id ring, uint32_t n, const uint32_t *member)
{
	struct ddr_link *l = link_of(handle);

	(void)n;
	(void)member;
	if (!l)
		return;
	ddr_group_ring(&l->group, ddr_link_ring(&(struct ddr_ring_id){ .node = ring.nodeid, .seq = ring.seq }));
	ddr_link_tell(l);
}

static void dropped(struct ddr_link *l, uint32_t node, uint32_t pid, const char *why)
{
	uint64_t now = ddr_now_ms();
	char name[DDR_COROSYNC_NAME_LEN];

	if (now >= l->line_until_ms) {
		l->line_until_ms = now + 60000;
		l->lines = 0;
	}
	if (l->lines >= LINES)
		return;
	l->lines++;
	qb_log(LOG_WARNING, "process %" PRIu32 " of %s in the group " GROUP ": %s; ignored%s", pid,
	       ddr_corosync_name(l->d->corosync, node, name, sizeof(name)), why, l->lines == LINES ? "; more of it is not logged for a minute" : "");
}

static void on_message(cpg_handle_t handle, const struct cpg_name *name, uint32_t node, uint32_t pid, void *msg, size_t len)
{
	struct ddr_group_id from = { .node = node, .pid = pid };
	struct ddr_link *l = link_of(handle);
	const char *why;
	unsigned int i;

	(void)name;
	if (!l)
		return;
	switch (ddr_group_deliver(&l->group, from, msg, len, &i, &why)) {
	case DDR_GROUP_DROPPED:
		dropped(l, node, pid, why);
		return;
	case DDR_GROUP_OF_ARRAY:
		if (l->rider[i])
			l->rider[i]->events->message(l->rider[i]->ctx, node, msg, (uint32_t)len);
		return;
	case DDR_GROUP_EXCLUDED:
		lose(l, ddr_link_say_why_excluded(l));
		return;
	case DDR_GROUP_TAKEN:
		ddr_link_pulse_back(l);
		if (l->group.debts_news && ddr_link_debts(l))
			ddr_link_watch_later(l);
		ddr_link_tell(l);
	}
}

static void on_readable(void *ctx, bool gone)
{
	struct ddr_link *l = ctx;
	bool before = ddr_link_begin_calls(l);

	if ((!ddr_cpg_dispatch(l->cpg, BATCH) || gone) && l->open)
		lose(l, "the connection to corosync was lost");
	ddr_link_flush(l);
	ddr_link_end_calls(l, before);
}

/* Quorum has changed, or corosync is gone. */
static void on_corosync(void *data)
{
	struct ddr_link *l = data;
	bool before = ddr_link_begin_calls(l);

	if (ddr_corosync_epoch(l->d->corosync) != l->epoch || !ddr_corosync_up(l->d->corosync))
		lose(l, "the connection to corosync was lost");
	for (unsigned int i = 0; i < DDR_NODE_RIDES && l->open; i++)
		ddr_link_tell_quorum(l, i);
	ddr_link_cluster(l);
	ddr_link_end_calls(l, before);
}

/* The id of the cluster is durable, so the group may hear of it. */
static void on_stored(void *ctx)
{
	struct ddr_link *l = ctx;
	bool before = ddr_link_begin_calls(l);

	l->stores = false;
	if (l->open) {
		ddr_cluster_stored(&l->group, &l->d->ident.id.cluster);
		ddr_link_flush(l);
		ddr_link_cluster(l);
	}
	ddr_link_end_calls(l, before);
}

/* ---- joining and leaving --------------------------------------------------------- */

static void on_joined(void *ctx)
{
	struct ddr_link *l = ctx;
	bool before = ddr_link_begin_calls(l);

	l->joined = true;
	ddr_link_tell(l);
	ddr_link_flush(l);
	ddr_link_end_calls(l, before);
}

static void on_timer(void *data)
{
	struct ddr_link *l = data;
	bool before = ddr_link_begin_calls(l);

	l->timer = 0;
	ddr_link_tell(l);
	ddr_link_flush(l);
	ddr_link_end_calls(l, before);
}

/* No array is served without the group, and nothing else would try again: so the connection does, after any error (cpg.h). */
static int open_group(struct ddr_link *l)
{
	struct ddr_cpg_owner own = {
		.loop = l->d->loop, .asks = l->d->asks, .priority = QB_LOOP_HIGH, .retry_ms = JOIN_MS,
		.name = { .length = sizeof(GROUP) - 1, .value = GROUP },
		.model = {
			.model = CPG_MODEL_V1, .cpg_deliver_fn = on_message, .cpg_confchg_fn = on_members,
			.cpg_totem_confchg_fn = on_ring, .flags = CPG_MODEL_V1_DELIVER_INITIAL_TOTEM_CONF,
		},
		.largest = DDR_NODE_MSG_MAX > DDR_SM_MSG_MAX ? DDR_NODE_MSG_MAX : DDR_SM_MSG_MAX,
		.joined = on_joined, .readable = on_readable, .ctx = l,
	};

	return ddr_cpg_open(&l->cpg, &own);
}

/* The group of the array's own has changed. */
static void on_presence(void *data)
{
	struct ddr_link *l = data;
	bool before = ddr_link_begin_calls(l);

	l->group.changed = true;
	ddr_link_tell(l);
	ddr_link_flush(l);
	ddr_link_end_calls(l, before);
}

static int connect_link(struct ddr_link *l)
{
	int ret = ddr_corosync_up(l->d->corosync) ? open_group(l) : -ENOTCONN;

	if (ret)
		return ret;
	l->open = true;
	l->pulse_ms = 0;
	l->away = 0;
	ddr_still_watch(&l->d->still);
	l->epoch = ddr_corosync_epoch(l->d->corosync);
	l->refusal = CS_OK;
	ddr_group_init(&l->group, ddr_corosync_node(l->d->corosync), (uint32_t)getpid(), l->d->speaks.lowest, l->d->speaks.highest);
	l->group.fences = strcmp(l->d->conf.fence_command, DDR_FENCE_NONE) == 0 ? DDR_FENCES_NO : DDR_FENCES_YES;
	l->outs = 0;
	ddr_group_machine(&l->group, l->d->ident.id.machine);
	ddr_link_cluster_begin(l, on_stored);
	ddr_link_pulse(l);
	return 0;
}

static struct ddr_link *make(struct ddr_daemon *d)
{
	struct ddr_link *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->d = d;
	l->listener = (struct ddr_corosync_listener){ .changed = on_corosync, .ctx = l };
	ddr_corosync_listen(d->corosync, &l->listener);
	d->link = l;
	return l;
}

/*
 * What this process said in its hello, it said for the module that was loaded then. If the module that has the next array serves other versions, the process
 * leaves, and joins anew with these: the other nodes would rely on what this one does not do [note 51]. Arrays of the other module are gone, but may not have
 * said so to the group yet: they do that first.
 */
static int forget_other_module(struct ddr_link *l)
{
	const struct ddr_speaks *now = &l->d->speaks;

	if (!l->open || (l->group.use.lowest == now->lowest && l->group.use.highest == now->highest))
		return 0;
	for (unsigned int i = 0; i < DDR_NODE_RIDES; i++)
		if (l->rider[i])
			return -EAGAIN;
	qb_log(LOG_NOTICE, "the kernel module was replaced: with it this node speaks versions %u to %u of the protocol between nodes, and joins the other nodes anew",
	       now->lowest, now->highest);
	close_handle(l);
	return 0;
}

int ddr_link_join(struct ddr_daemon *d, struct ddr_rider *r, const uint8_t uuid[16])
{
	struct ddr_link *l = d->link ? d->link : make(d);
	int ret;

	if (!l)
		return -ENOMEM;
	/* corosync was started anew, and its loss has not been told yet */
	if (l->open && l->epoch != ddr_corosync_epoch(d->corosync))
		return -ENOTCONN;
	ret = forget_other_module(l);
	if (ret)
		return ret;
	ret = l->open ? 0 : connect_link(l);
	if (ret)
		return ret;
	ret = ddr_presence_open(&r->presence, d->loop, d->asks, uuid, on_presence, l);
	if (ret)
		return ret;
	r->array = ddr_group_ride(&l->group, uuid);
	if (r->array < 0) {
		ddr_presence_close(&r->presence);
		return r->array;
	}
	r->link = l;
	l->rider[r->array] = r;
	ddr_link_flush(l);
	ddr_link_watch_later(l);
	if (ddr_version_foreign(&l->group)) {	/* it is told from the loop */
		l->group.changed = true;
		retry_later(l);
	}
	return 0;
}

void ddr_link_leave(struct ddr_rider *r)
{
	struct ddr_link *l = r->link;

	ddr_link_flush(l);
	if (r->array >= 0) {
		l->rider[r->array] = NULL;
		ddr_group_off(&l->group, (unsigned int)r->array);
		ddr_link_flush(l);
	}
	r->array = -1;
	ddr_presence_close(&r->presence);
	if (l->calling) {
		r->next = l->dead;
		l->dead = r;
		return;
	}
	free(r);
}

void ddr_link_close(struct ddr_daemon *d)
{
	struct ddr_link *l = d->link;

	d->link = NULL;
	if (!l)
		return;
	close_handle(l);
	ddr_link_cluster_end(l);
	ddr_corosync_unlisten(&l->listener);
	free(l);
}
