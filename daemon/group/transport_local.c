// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The transport of one node without a cluster: a view with this node only, and messages that are delivered back in order, from the
 * loop. See transport.h.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <qb/qblog.h>

#include "daemon/base/daemon.h"
#include "daemon/group/queue.h"
#include "daemon/group/transport.h"
#include "lib/cluster/sm.h"

struct local {
	struct ddr_transport base;
	qb_loop_t *loop;
	const struct ddr_transport_events *events;
	void *ctx;
	uint32_t node;
	struct ddr_speaks speaks;
	int event_fd;
	bool joined;			/* the view was delivered */
	struct ddr_queue queue;
};

static void wake(struct local *t)
{
	uint64_t one = 1;

	if (write(t->event_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		qb_perror(LOG_ERR, "writing an eventfd");
}

static int32_t deliver(int32_t fd, int32_t revents, void *data)
{
	struct local *t = data;
	unsigned int n = t->queue.n;	/* messages that are sent meanwhile are delivered in the next round */
	const uint32_t no_pid = 0;
	const uint8_t fences = DDR_FENCES_NO;
	uint8_t msg[DDR_SM_MSG_MAX];
	uint64_t count;

	(void)revents;
	if (read(fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
		qb_perror(LOG_ERR, "reading an eventfd");
	if (!t->joined) {
		t->joined = true;
		t->events->version(t->ctx, t->speaks.highest);
		t->events->view(t->ctx, &t->node, &no_pid, &fences, 1, 1);
	}
	while (n--) {
		uint32_t len = ddr_queue_first(&t->queue, msg);

		ddr_queue_drop(&t->queue);
		t->events->message(t->ctx, t->node, msg, len);
	}
	if (t->queue.n)
		wake(t);
	return 0;
}

static const char *local_waits(const struct ddr_daemon *d)
{
	(void)d;
	return NULL;
}

static uint32_t local_node(const struct ddr_daemon *d)
{
	return (uint32_t)d->conf.node_id;
}

static uint32_t local_nodes(const struct ddr_daemon *d)
{
	(void)d;
	return 1;
}

static bool local_known_name(const struct ddr_daemon *d, uint32_t node, char *buf, size_t size)
{
	if (node != local_node(d) || gethostname(buf, size - 1))
		buf[0] = '\0';
	buf[size - 1] = '\0';
	return *buf != '\0';
}

static uint32_t local_bearer(const struct ddr_daemon *d, const char *name, uint32_t except)
{
	(void)d, (void)name, (void)except;
	return 0;
}

static const char *local_node_name(const struct ddr_daemon *d, uint32_t node, char *buf, size_t size)
{
	if (!local_known_name(d, node, buf, size))
		snprintf(buf, size, "node %u", node);
	return buf;
}

static bool local_cluster_id(const struct ddr_daemon *d, uint8_t id[16])
{
	const uint8_t *own = ddr_ident_cluster_id(&d->ident, false);

	memset(id, 0, 16);
	if (own)
		memcpy(id, own, 16);
	return own;
}

static int local_join(struct ddr_transport **out, struct ddr_daemon *d, const uint8_t uuid[16],
		      const struct ddr_transport_events *events, void *ctx)
{
	struct local *t = calloc(1, sizeof(*t));
	int ret;

	(void)uuid;
	*out = NULL;
	if (!t)
		return -ENOMEM;
	t->base.ops = &ddr_transport_local;
	t->loop = d->loop;
	t->events = events;
	t->ctx = ctx;
	t->node = local_node(d);
	t->speaks = d->speaks;
	t->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (t->event_fd < 0) {
		ret = -errno;
		free(t);
		return ret;
	}
	ret = qb_loop_poll_add(t->loop, QB_LOOP_HIGH, t->event_fd, POLLIN, t, deliver);
	if (ret) {
		close(t->event_fd);
		free(t);
		return ret;
	}
	wake(t);
	*out = &t->base;
	return 0;
}

static bool local_mcast(struct ddr_transport *base, const uint8_t *msg, uint32_t len)
{
	struct local *t = (struct local *)base;

	if (!ddr_queue_put(&t->queue, msg, len))
		return false;
	if (t->queue.n == 1)
		wake(t);
	return true;
}

static void local_leave(struct ddr_transport *base)
{
	struct local *t = (struct local *)base;

	if (!t)
		return;
	qb_loop_poll_del(t->loop, t->event_fd);
	close(t->event_fd);
	free(t);
}

const struct ddr_transport_ops ddr_transport_local = {
	.name = "local",
	.waits = local_waits,
	.node = local_node,
	.nodes = local_nodes,
	.known_name = local_known_name,
	.bearer = local_bearer,
	.node_name = local_node_name,
	.cluster_id = local_cluster_id,
	.join = local_join,
	.mcast = local_mcast,
	.leave = local_leave,
};
