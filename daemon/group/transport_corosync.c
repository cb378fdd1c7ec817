// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The transport of a cluster: one closed process group of corosync for each array, named "ddraid:" and the array's uuid. See
 * transport.h.
 *
 * A view is the membership of the group once its ring is known: when nodes come or go, corosync reports the membership first and the
 * ring after it; when only processes do, it reports the membership alone. Nothing is delivered in between.
 *
 * Not every process of the group has to be ddraidd: a node's daemon is the process that sent the first valid message from there, and
 * only its messages are accepted until it leaves. Messages that do not belong to this protocol are dropped, with a few log messages a
 * minute.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <corosync/cpg.h>
#include <qb/qblog.h>
#include <uuid/uuid.h>

#include "daemon/base/daemon.h"
#include "daemon/group/corosync.h"
#include "daemon/group/queue.h"
#include "daemon/group/transport.h"
#include "lib/cluster/sm.h"
#include "lib/wire/msg.h"

#define RETRY_MS	5u	/* pause before a queue that corosync did not accept, or a join, is tried again */
#define BATCH		64u	/* deliveries in one round of the loop */
#define LINES		5u	/* log messages about dropped messages in a minute */

struct process {
	uint32_t node, pid;
	bool heard;		/* it is its node's daemon */
};

struct group {
	struct ddr_transport base;
	struct ddr_daemon *d;
	struct ddr_corosync_listener listener;
	const struct ddr_transport_events *events;
	void *ctx;
	uint8_t uuid[16];
	struct cpg_name name;
	cpg_handle_t handle;
	int fd;
	uint64_t epoch;			/* of the connection to corosync */
	bool joined;			/* cpg_join() succeeded */
	bool lost;			/* the handle is closed */
	bool calling, left;		/* leave() was called within a callback: freed after it */
	qb_loop_timer_handle timer;

	struct process process[CPG_MEMBERS_MAX];
	unsigned int n;
	bool held;			/* the membership waits for its ring */
	bool ring_known;
	struct ddr_ring_id ring;

	bool told_any;			/* a view was delivered */
	bool crowded;			/* there are too many nodes for a view; the last view stays */
	uint64_t quorum_serial;		/* the last report of the quorum service that was delivered */

	uint64_t line_until_ms;		/* end of the minute that is counted */
	unsigned int lines;
	cs_error_t refusal;		/* the last logged error of a message or of the join */

	struct ddr_queue queue;
};

static void on_timer(void *data);

static void retry_later(struct group *g)
{
	if (!g->timer && qb_loop_timer_add(g->d->loop, QB_LOOP_HIGH, RETRY_MS * QB_TIME_NS_IN_MSEC, g, on_timer, &g->timer))
		qb_log(LOG_CRIT, "out of memory for a timer: messages of this node to the cluster wait, and writes with them. Free memory, then: systemctl "
		       "restart ddraidd; the arrays stay up");
}

static void close_handle(struct group *g)
{
	if (g->lost)
		return;
	g->lost = true;
	qb_loop_poll_del(g->d->loop, g->fd);
	cpg_finalize(g->handle);
}

static void lose(struct group *g, const char *why)
{
	if (g->lost)
		return;
	close_handle(g);
	g->events->lost(g->ctx, why);
}

/* Ends a round of callbacks, in which leave() may have been called. */
static void end_calls(struct group *g)
{
	g->calling = false;
	if (g->left)
		free(g);
}

/* ---- sending --------------------------------------------------------------------- */

/* Gives corosync as much as it accepts; the rest waits for the timer. */
static void flush(struct group *g)
{
	uint8_t msg[DDR_SM_MSG_MAX];

	while (g->queue.n && g->joined && !g->lost) {
		struct iovec iov = { .iov_base = msg, .iov_len = ddr_queue_first(&g->queue, msg) };
		cs_error_t ret = cpg_mcast_joined(g->handle, CPG_TYPE_AGREED, &iov, 1);

		if (ret == CS_ERR_TRY_AGAIN || ret == CS_ERR_INTERRUPT) {
			retry_later(g);
			return;
		}
		if (ret != CS_OK) {
			/* a dead connection also shows at its descriptor, and is reported there */
			if (ret != g->refusal)
				qb_log(LOG_ERR, "corosync refuses a message to the group %.*s: error %d; retrying",
				       (int)g->name.length, g->name.value, ret);
			g->refusal = ret;
			retry_later(g);
			return;
		}
		g->refusal = CS_OK;
		ddr_queue_drop(&g->queue);
	}
}

static bool group_mcast(struct ddr_transport *base, const uint8_t *msg, uint32_t len)
{
	struct group *g = (struct group *)base;

	if (g->lost)
		return true;		/* as if sent to a ring that no longer exists */
	if (!ddr_queue_put(&g->queue, msg, len))
		return false;
	if (!g->timer)
		flush(g);
	return true;
}

/* ---- views ----------------------------------------------------------------------- */

/*
 * Corosync's ring id as one number, the same on all nodes and for both services. Its sequence has 64 bits, but only 32 fit beside the
 * node id: the upper half is folded in by an odd factor, so that no two sequences of one node give the same number.
 */
static uint64_t ring_number(const struct ddr_ring_id *ring)
{
	return (ring->seq << 32 | ring->node) ^ (ring->seq >> 32) * 0x9e3779b97f4a7c15u;
}

static int compare(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	if (x->heard != y->heard)
		return x->heard ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static bool listed(const uint32_t *nodes, uint32_t n, uint32_t node)
{
	for (uint32_t i = 0; i < n; i++)
		if (nodes[i] == node)
			return true;
	return false;
}

/*
 * A node that joins leaves again at once. The others keep their view until it has left, as if it had never joined. If it does not
 * leave (it is not ddraidd, or two halves of a cluster that is too large have met), nothing changes for them, and they log it.
 */
static void too_many(struct group *g)
{
	if (!g->told_any)
		lose(g, "64 nodes run the array, which is the limit; stop it on one of them");
	else if (!g->crowded)
		qb_log(LOG_ERR, "the group %.*s has more than 64 nodes; nodes that join or leave are ignored until there are fewer. Stop the array "
				"on the nodes that joined last",
		       (int)g->name.length, g->name.value);
	g->crowded = true;
}

/* Reports the nodes of the group as a view, except those in @without. */
static void call_view(struct group *g, const uint32_t *without, uint32_t n_without)
{
	uint32_t nodes[DDR_SM_MAX_NODES], pids[DDR_SM_MAX_NODES], n = 0, self = ddr_corosync_node(g->d->corosync);
	struct process all[CPG_MEMBERS_MAX];

	memcpy(all, g->process, g->n * sizeof(*all));
	qsort(all, g->n, sizeof(*all), compare);
	for (unsigned int i = 0; i < g->n; i++) {
		if (listed(without, n_without, all[i].node) || (n > 0 && nodes[n - 1] == all[i].node))
			continue;
		if (n == DDR_SM_MAX_NODES) {
			too_many(g);
			return;
		}
		nodes[n] = all[i].node;
		pids[n++] = all[i].node == self ? (uint32_t)getpid() : all[i].pid;
	}
	if (!listed(nodes, n, self))
		return;
	g->told_any = true;
	g->crowded = false;
	g->events->view(g->ctx, nodes, pids, n, ring_number(&g->ring));
}

static void update_view(struct group *g)
{
	if (!g->held && g->ring_known && !g->lost && !g->left)
		call_view(g, NULL, 0);
}

static void update_quorum(struct group *g)
{
	const struct ddr_quorum *q = ddr_corosync_quorum(g->d->corosync);

	if (g->lost || g->left || !g->told_any || g->quorum_serial == q->serial)
		return;
	g->quorum_serial = q->serial;
	g->events->quorum(g->ctx, q->node, q->n, q->quorate, ring_number(&q->ring));
}

static struct process *find_process(struct group *g, uint32_t node, uint32_t pid)
{
	for (unsigned int i = 0; i < g->n; i++)
		if (g->process[i].node == node && g->process[i].pid == pid)
			return &g->process[i];
	return NULL;
}

/* Lists nodes whose daemon left but that stay in the group: the daemon was replaced in one event. Returns their number. */
static uint32_t replaced_nodes(struct group *g, const struct cpg_address *member, size_t n_member,
			       const struct cpg_address *left, size_t n_left, uint32_t nodes[DDR_SM_MAX_NODES])
{
	uint32_t n = 0;

	for (size_t i = 0; i < n_left && n < DDR_SM_MAX_NODES; i++) {
		struct process *p = find_process(g, left[i].nodeid, left[i].pid);

		if (!p || !p->heard)
			continue;
		p->heard = false;	/* in case the same pid is back already */
		for (size_t m = 0; m < n_member; m++)
			if (member[m].nodeid == p->node && !listed(nodes, n, p->node))
				nodes[n++] = p->node;
	}
	return n;
}

static void set_members(struct group *g, const struct cpg_address *member, size_t n)
{
	struct process now[CPG_MEMBERS_MAX];
	unsigned int count = n < CPG_MEMBERS_MAX ? (unsigned int)n : CPG_MEMBERS_MAX;

	for (unsigned int i = 0; i < count; i++) {
		const struct process *old = find_process(g, member[i].nodeid, member[i].pid);

		now[i] = (struct process){ .node = member[i].nodeid, .pid = member[i].pid, .heard = old && old->heard };
	}
	memcpy(g->process, now, count * sizeof(*now));
	g->n = count;
}

static bool is_node_event(const struct cpg_address *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].reason == CPG_REASON_NODEDOWN || list[i].reason == CPG_REASON_NODEUP)
			return true;
	return false;
}

static void on_members(cpg_handle_t handle, const struct cpg_name *name, const struct cpg_address *member,
		       size_t n_member, const struct cpg_address *left, size_t n_left,
		       const struct cpg_address *joined, size_t n_joined)
{
	uint32_t replaced[DDR_SM_MAX_NODES], n_replaced;
	struct group *g;
	void *ctx;

	(void)name;
	if (cpg_context_get(handle, &ctx) != CS_OK)
		return;
	g = ctx;
	if (g->left || g->lost)
		return;
	for (size_t i = 0; i < n_left; i++)
		if (left[i].nodeid == ddr_corosync_node(g->d->corosync) && left[i].pid == (uint32_t)getpid()) {
			lose(g, "corosync removed this node from the array's group");
			return;
		}
	n_replaced = replaced_nodes(g, member, n_member, left, n_left, replaced);
	set_members(g, member, n_member);
	if (n_replaced && g->told_any)
		call_view(g, replaced, n_replaced);
	g->held |= is_node_event(left, n_left) || is_node_event(joined, n_joined);
	update_view(g);
	update_quorum(g);
}

static void on_ring(cpg_handle_t handle, struct cpg_ring_id ring, uint32_t n, const uint32_t *member)
{
	struct group *g;
	void *ctx;

	(void)n;
	(void)member;
	if (cpg_context_get(handle, &ctx) != CS_OK)
		return;
	g = ctx;
	if (g->left || g->lost)
		return;
	g->ring = (struct ddr_ring_id){ .node = ring.nodeid, .seq = ring.seq };
	g->ring_known = true;
	g->held = false;
	update_view(g);
	update_quorum(g);
}

/* Quorum has changed, or corosync is gone. */
static void on_corosync(void *data)
{
	struct group *g = data;

	g->calling = true;
	if (ddr_corosync_epoch(g->d->corosync) != g->epoch || !ddr_corosync_up(g->d->corosync))
		lose(g, "the connection to corosync was lost");
	else
		update_quorum(g);
	end_calls(g);
}

/* ---- messages -------------------------------------------------------------------- */

static void dropped(struct group *g, uint32_t node, uint32_t pid, const char *why)
{
	uint64_t now = ddr_now_ms();
	char name[DDR_COROSYNC_NAME_LEN];

	if (now >= g->line_until_ms) {
		g->line_until_ms = now + 60000;
		g->lines = 0;
	}
	if (g->lines >= LINES)
		return;
	g->lines++;
	qb_log(LOG_WARNING, "process %" PRIu32 " of %s in the group %.*s: %s; ignored%s", pid,
	       ddr_corosync_name(g->d->corosync, node, name, sizeof(name)), (int)g->name.length, g->name.value, why,
	       g->lines == LINES ? "; more of it is not logged for a minute" : "");
}

/* Until now the lowest pid of its node was taken for the node's daemon, here. (A node never mistakes another process for its own daemon.) */
static bool another_was_told(const struct group *g, const struct process *p)
{
	for (unsigned int i = 0; i < g->n && p->node != ddr_corosync_node(g->d->corosync); i++)
		if (g->process[i].node == p->node && g->process[i].pid < p->pid)
			return true;
	return false;
}

/* Has a process of the node been identified as its daemon? */
static bool node_heard(const struct group *g, uint32_t node)
{
	for (unsigned int i = 0; i < g->n; i++)
		if (g->process[i].node == node && g->process[i].heard)
			return true;
	return false;
}

/*
 * NULL if the message is from the node's daemon, else why not. The first message of a daemon shows which process it is. If another
 * process was taken for it, the view is delivered again before the message: otherwise its identity would differ between nodes until
 * the next change, and nothing could be agreed on.
 */
static const char *stranger(struct group *g, uint32_t node, uint32_t pid, const void *msg, size_t len)
{
	struct process *p = find_process(g, node, pid);
	struct ddr_msg m;
	const char *why;

	if (node == ddr_corosync_node(g->d->corosync) && pid != (uint32_t)getpid())
		return "a process that is not ddraidd";
	if (!p)
		return "a message from a process that has left";
	why = ddr_msg_decode(msg, len, &m);
	if (why)
		return why;
	if (memcmp(m.uuid, g->uuid, sizeof(m.uuid)) != 0)
		return "message of another array";
	if (p->heard)
		return NULL;
	if (node_heard(g, node))
		return "another process than the node's ddraidd";
	p->heard = true;
	if (another_was_told(g, p))
		update_view(g);
	return NULL;
}

/* The protocol version of a message that is not ours but of another release, from a node without an identified daemon; or 0. */
static uint16_t other_release(struct group *g, uint32_t node, uint32_t pid, const void *msg, size_t len)
{
	if (node == ddr_corosync_node(g->d->corosync) || !find_process(g, node, pid) || node_heard(g, node))
		return 0;
	return ddr_msg_other_version(msg, len);
}

static void on_message(cpg_handle_t handle, const struct cpg_name *name, uint32_t node, uint32_t pid, void *msg, size_t len)
{
	struct group *g;
	const char *why;
	uint16_t version;
	void *ctx;

	(void)name;
	if (cpg_context_get(handle, &ctx) != CS_OK)
		return;
	g = ctx;
	if (g->left || g->lost)
		return;
	why = stranger(g, node, pid, msg, len);
	if (why)
		dropped(g, node, pid, why);
	if (!g->told_any || g->left || g->lost)
		return;
	version = why ? other_release(g, node, pid, msg, len) : 0;
	if (!why)
		g->events->message(g->ctx, node, msg, (uint32_t)len);
	else if (version)
		g->events->foreign(g->ctx, node, version);
}

static int32_t on_readable(int32_t fd, int32_t revents, void *data)
{
	struct group *g = data;
	cs_error_t ret = CS_OK;

	(void)fd;
	g->calling = true;
	for (unsigned int i = 0; i < BATCH && ret == CS_OK && !g->lost && !g->left; i++)
		ret = cpg_dispatch(g->handle, CS_DISPATCH_ONE_NONBLOCKING);
	if (!g->left && !g->lost && ((ret != CS_OK && ret != CS_ERR_TRY_AGAIN) || revents & (POLLERR | POLLHUP | POLLNVAL)))
		lose(g, "the connection to corosync was lost");
	if (!g->left && !g->timer)
		flush(g);
	end_calls(g);
	return 0;
}

/* ---- joining and leaving --------------------------------------------------------- */

/*
 * While corosync synchronises the group it refuses joins: the timer tries again. It also does so after any other error: an array that has
 * not joined its group is not served, and nothing else would try.
 */
static void try_join(struct group *g)
{
	cs_error_t ret = cpg_join(g->handle, &g->name);

	if (ret == CS_OK) {
		g->joined = true;
		g->refusal = CS_OK;
		return;
	}
	/* EXIST: an earlier connection of ours is still being closed */
	if (ret != CS_ERR_TRY_AGAIN && ret != CS_ERR_EXIST && ret != g->refusal) {
		qb_log(LOG_ERR, "corosync refuses to join the group %.*s: error %d; retrying", (int)g->name.length, g->name.value, ret);
		g->refusal = ret;
	}
	retry_later(g);
}

static void on_timer(void *data)
{
	struct group *g = data;

	g->timer = 0;
	if (g->lost)
		return;
	if (!g->joined)
		try_join(g);
	if (!g->timer)
		flush(g);
}

/* -ENOTCONN: corosync is not running, or is just ending; it may succeed later. */
static int open_group(struct group *g)
{
	cpg_model_v1_data_t model = {
		.model = CPG_MODEL_V1, .cpg_deliver_fn = on_message, .cpg_confchg_fn = on_members,
		.cpg_totem_confchg_fn = on_ring, .flags = CPG_MODEL_V1_DELIVER_INITIAL_TOTEM_CONF,
	};
	uint32_t max = 0;
	int ret = 0;

	if (cpg_model_initialize(&g->handle, CPG_MODEL_V1, (cpg_model_data_t *)&model, g) != CS_OK)
		return -ENOTCONN;
	if (cpg_fd_get(g->handle, &g->fd) != CS_OK || cpg_max_atomic_msgsize_get(g->handle, &max) != CS_OK)
		ret = -ENOTCONN;
	else if (max < DDR_SM_MSG_MAX)
		ret = -EMSGSIZE;
	else if (qb_loop_poll_add(g->d->loop, QB_LOOP_HIGH, g->fd, POLLIN, g, on_readable))
		ret = -EIO;
	if (ret)
		cpg_finalize(g->handle);
	return ret;
}

static const char *group_waits(const struct ddr_daemon *d)
{
	return ddr_corosync_up(d->corosync) ? NULL : ddr_corosync_error(d->corosync);
}

static uint32_t group_node(const struct ddr_daemon *d)
{
	return ddr_corosync_node(d->corosync);
}

static uint32_t group_nodes(const struct ddr_daemon *d)
{
	return ddr_corosync_nodes(d->corosync);
}

static const char *group_node_name(const struct ddr_daemon *d, uint32_t node, char *buf, size_t size)
{
	return ddr_corosync_name(d->corosync, node, buf, size);
}

static int group_join(struct ddr_transport **out, struct ddr_daemon *d, const uint8_t uuid[16],
		      const struct ddr_transport_events *events, void *ctx)
{
	struct group *g = calloc(1, sizeof(*g));
	char text[37];
	int ret;

	*out = NULL;
	if (!g)
		return -ENOMEM;
	g->base.ops = &ddr_transport_corosync;
	g->d = d;
	g->events = events;
	g->ctx = ctx;
	g->epoch = ddr_corosync_epoch(d->corosync);
	memcpy(g->uuid, uuid, sizeof(g->uuid));
	uuid_unparse_lower(uuid, text);
	g->name.length = (uint32_t)snprintf(g->name.value, sizeof(g->name.value), "ddraid:%s", text);
	ret = open_group(g);
	if (ret) {
		free(g);
		return ret;
	}
	g->listener = (struct ddr_corosync_listener){ .changed = on_corosync, .ctx = g };
	ddr_corosync_listen(d->corosync, &g->listener);
	try_join(g);
	*out = &g->base;
	return 0;
}

static void group_leave(struct ddr_transport *base)
{
	struct group *g = (struct group *)base;

	if (!g)
		return;
	flush(g);
	close_handle(g);
	if (g->timer)
		qb_loop_timer_del(g->d->loop, g->timer);
	ddr_corosync_unlisten(&g->listener);
	g->left = true;
	if (!g->calling)
		free(g);
}

const struct ddr_transport_ops ddr_transport_corosync = {
	.name = "corosync",
	.cluster = true,
	.waits = group_waits,
	.node = group_node,
	.nodes = group_nodes,
	.node_name = group_node_name,
	.join = group_join,
	.mcast = group_mcast,
	.leave = group_leave,
};
