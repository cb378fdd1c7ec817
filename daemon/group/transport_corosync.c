// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The transport of a cluster: arrays take part in the process group of all daemons (link.h). See transport.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/daemon.h"
#include "daemon/group/corosync.h"
#include "daemon/group/link.h"

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

static bool group_known_name(const struct ddr_daemon *d, uint32_t node, char *buf, size_t size)
{
	return ddr_corosync_known_name(d->corosync, node, buf, size);
}

static uint32_t group_bearer(const struct ddr_daemon *d, const char *name, uint32_t except)
{
	const struct ddr_quorum *q = ddr_corosync_quorum(d->corosync);
	char other[DDR_COROSYNC_NAME_LEN];

	for (uint32_t i = 0; i < q->n; i++)
		if (q->node[i] != except && !(d->link && ddr_link_node_out(d->link, q->node[i])) &&
		    ddr_corosync_known_name(d->corosync, q->node[i], other, sizeof(other)) && strcmp(other, name) == 0)
			return q->node[i];
	return 0;
}

static bool group_cluster_id(const struct ddr_daemon *d, uint8_t id[16])
{
	const uint8_t *own = ddr_ident_cluster_id(&d->ident, true);

	memset(id, 0, 16);
	if (d->link && ddr_link_cluster_id(d->link, id))
		return true;
	if (own)		/* outside of a view */
		memcpy(id, own, 16);
	return own;
}

static int group_join(struct ddr_transport **out, struct ddr_daemon *d, const uint8_t uuid[16],
		      const struct ddr_transport_events *events, void *ctx)
{
	struct ddr_rider *r = calloc(1, sizeof(*r));
	int ret;

	*out = NULL;
	if (!r)
		return -ENOMEM;
	r->base.ops = &ddr_transport_corosync;
	r->events = events;
	r->ctx = ctx;
	ret = ddr_link_join(d, r, uuid);
	if (ret) {
		free(r);
		return ret;
	}
	*out = &r->base;
	return 0;
}

static bool group_mcast(struct ddr_transport *base, const uint8_t *msg, uint32_t len)
{
	struct ddr_rider *r = (struct ddr_rider *)base;

	if (r->array < 0)
		return true;		/* as if sent to a ring that no longer exists */
	if (!ddr_queue_put(&r->queue, msg, len))
		return false;
	ddr_link_flush(r->link);
	return true;
}

static void group_leave(struct ddr_transport *base)
{
	if (base)
		ddr_link_leave((struct ddr_rider *)base);
}

const struct ddr_transport_ops ddr_transport_corosync = {
	.name = "corosync",
	.cluster = true,
	.waits = group_waits,
	.node = group_node,
	.nodes = group_nodes,
	.known_name = group_known_name,
	.bearer = group_bearer,
	.node_name = group_node_name,
	.cluster_id = group_cluster_id,
	.join = group_join,
	.mcast = group_mcast,
	.leave = group_leave,
};
