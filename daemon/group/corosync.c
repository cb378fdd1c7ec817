// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The connection to corosync. See corosync.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <corosync/cmap.h>
#include <corosync/cpg.h>
#include <corosync/quorum.h>
#include <qb/qblog.h>

#include "daemon/group/corosync.h"

#define RETRY_MS	1000u

struct node_name {
	uint32_t node;		/* 0: unused entry */
	bool old;		/* of an earlier connection: asked again, and kept if the list does not have the node any more */
	char name[DDR_COROSYNC_NAME_LEN];	/* empty: it is listed without a name */
};

struct ddr_corosync {
	qb_loop_t *loop;
	struct qb_list_head listeners;
	qb_loop_timer_handle timer;
	bool connected;
	bool told;		/* quorum is known */
	uint64_t epoch;
	uint32_t node;
	uint32_t listed;	/* nodes in the list of corosync.conf when it was last read; 0: it has none */
	quorum_handle_t quorum;
	int fd;
	struct ddr_quorum word;
	const char *error;
	struct node_name names[DDR_COROSYNC_NODES];
};

static void try_connect(void *data);
static void learn_names(struct ddr_corosync *c);

static void tell(struct ddr_corosync *c)
{
	struct qb_list_head *iter, *next;

	qb_list_for_each_safe(iter, next, &c->listeners) {
		struct ddr_corosync_listener *l = qb_list_entry(iter, struct ddr_corosync_listener, list);

		l->changed(l->ctx);
	}
}

static void retry_later(struct ddr_corosync *c)
{
	if (qb_loop_timer_add(c->loop, QB_LOOP_MED, RETRY_MS * QB_TIME_NS_IN_MSEC, c, try_connect, &c->timer))
		qb_log(LOG_CRIT, "out of memory for a timer: this daemon no longer tries to connect to corosync. Free memory, then: systemctl restart "
		       "ddraidd; the arrays stay up");
}

static void disconnect(struct ddr_corosync *c, const char *why)
{
	if (!c->connected)
		return;
	qb_loop_poll_del(c->loop, c->fd);
	quorum_finalize(c->quorum);
	c->connected = c->told = c->word.quorate = false;
	c->error = why;
}

static void on_quorum(quorum_handle_t handle, uint32_t quorate, struct quorum_ring_id ring, uint32_t n,
		      const uint32_t *members)
{
	const void *ctx;
	struct ddr_corosync *c;

	if (quorum_context_get(handle, &ctx) != CS_OK)
		return;
	c = (struct ddr_corosync *)(uintptr_t)ctx;
	if (!c->told)
		c->epoch++;
	c->told = true;
	c->word.serial++;
	c->word.quorate = quorate != 0 && n <= DDR_COROSYNC_NODES;
	c->word.ring = (struct ddr_ring_id){ .node = ring.nodeid, .seq = ring.seq };
	c->word.n = n < DDR_COROSYNC_NODES ? n : DDR_COROSYNC_NODES;
	memcpy(c->word.node, members, c->word.n * sizeof(*members));
	c->error = "";
	qb_log(LOG_INFO, "corosync: %s, ring %" PRIu32 ".%" PRIx64, quorate ? "quorate" : "not quorate", ring.nodeid, ring.seq);
}

static int32_t on_readable(int32_t fd, int32_t revents, void *data)
{
	struct ddr_corosync *c = data;
	cs_error_t ret = CS_OK;

	(void)fd;
	if (!(revents & (POLLERR | POLLHUP | POLLNVAL))) {
		ret = quorum_dispatch(c->quorum, CS_DISPATCH_ALL);
		learn_names(c);
	}
	if (revents & (POLLERR | POLLHUP | POLLNVAL) || (ret != CS_OK && ret != CS_ERR_TRY_AGAIN)) {
		qb_log(LOG_ERR, "the connection to corosync was lost; this node is no longer in the cluster");
		disconnect(c, "corosync is not running on this node; systemctl start corosync");
		retry_later(c);
	}
	tell(c);
	return 0;
}

/* This node's id, through a connection that is closed again. */
static cs_error_t ask_node(uint32_t *node)
{
	cpg_callbacks_t none = { 0 };
	unsigned int id;
	cpg_handle_t h;
	cs_error_t ret = cpg_initialize(&h, &none);

	if (ret != CS_OK)
		return ret;
	ret = cpg_local_get(h, &id);
	if (ret == CS_OK)
		*node = id;
	cpg_finalize(h);
	return ret;
}

/* The number of nodes in corosync's list; each entry has an address. 0: there is no such list. */
static cs_error_t ask_listed(uint32_t *listed)
{
	char key[CMAP_KEYNAME_MAXLEN + 1];
	cmap_iter_handle_t iter;
	cmap_value_types_t type;
	unsigned int place;
	cmap_handle_t h;
	uint32_t n = 0;
	size_t len;
	int end;
	cs_error_t ret = cmap_initialize(&h);

	if (ret != CS_OK)
		return ret;
	ret = cmap_iter_init(h, "nodelist.node.", &iter);
	while (ret == CS_OK) {
		ret = cmap_iter_next(h, iter, key, &len, &type);
		end = 0;
		if (ret == CS_OK && sscanf(key, "nodelist.node.%u.ring0_addr%n", &place, &end) == 1 && end && key[end] == '\0')
			n++;
	}
	cmap_finalize(h);
	if (ret != CS_ERR_NO_SECTIONS)
		return ret;
	*listed = n;
	return CS_OK;
}

static cs_error_t watch_quorum(struct ddr_corosync *c)
{
	quorum_model_v1_data_t model = { .model = QUORUM_MODEL_V1, .quorum_notify_fn = on_quorum };
	uint32_t type = QUORUM_FREE;
	cs_error_t ret;

	ret = quorum_model_initialize(&c->quorum, QUORUM_MODEL_V1, (quorum_model_data_t *)&model, &type, c);
	if (ret != CS_OK)
		return ret;
	if (type != QUORUM_SET) {
		c->error = "corosync has no quorum; set 'provider: corosync_votequorum' in corosync.conf";
		ret = CS_ERR_NOT_SUPPORTED;
	}
	if (ret == CS_OK)
		ret = quorum_fd_get(c->quorum, &c->fd);
	if (ret == CS_OK)
		ret = quorum_trackstart(c->quorum, CS_TRACK_CURRENT | CS_TRACK_CHANGES);
	if (ret == CS_OK && qb_loop_poll_add(c->loop, QB_LOOP_HIGH, c->fd, POLLIN, c, on_readable))
		ret = CS_ERR_NO_MEMORY;
	if (ret != CS_OK)
		quorum_finalize(c->quorum);
	return ret;
}

static void try_connect(void *data)
{
	struct ddr_corosync *c = data;
	const char *before = c->error;
	uint32_t node = 0;
	cs_error_t ret;

	c->timer = 0;
	c->error = "corosync is not running on this node; systemctl start corosync";
	ret = ask_node(&node);
	if (ret == CS_OK && c->node && node != c->node) {
		c->error = "corosync gave this node another id; systemctl restart ddraidd";
		ret = CS_ERR_EXIST;
	}
	if (ret == CS_OK)
		ret = ask_listed(&c->listed);
	if (ret == CS_OK)
		ret = watch_quorum(c);
	if (ret != CS_OK) {
		if (strcmp(before, c->error) != 0)
			qb_log(LOG_WARNING, "%s; waiting for it", c->error);
		retry_later(c);
		return;
	}
	c->node = node;
	c->connected = true;
	c->error = "corosync has not reported yet whether this node has quorum";
	for (unsigned int i = 0; i < DDR_COROSYNC_NODES; i++)
		c->names[i].old = true;
	qb_log(LOG_NOTICE, "corosync: this is node %" PRIu32, c->node);
}

int ddr_corosync_open(struct ddr_corosync **out, qb_loop_t *loop)
{
	struct ddr_corosync *c = calloc(1, sizeof(*c));

	*out = NULL;
	if (!c)
		return -ENOMEM;
	c->loop = loop;
	c->error = "";
	qb_list_init(&c->listeners);
	try_connect(c);
	*out = c;
	return 0;
}

void ddr_corosync_close(struct ddr_corosync *c)
{
	if (!c)
		return;
	disconnect(c, "");
	if (c->timer)
		qb_loop_timer_del(c->loop, c->timer);
	free(c);
}

void ddr_corosync_listen(struct ddr_corosync *c, struct ddr_corosync_listener *l)
{
	qb_list_add_tail(&l->list, &c->listeners);
}

void ddr_corosync_unlisten(struct ddr_corosync_listener *l)
{
	qb_list_del(&l->list);
}

bool ddr_corosync_up(const struct ddr_corosync *c)
{
	return c->connected && c->told;
}

uint64_t ddr_corosync_epoch(const struct ddr_corosync *c)
{
	return c->epoch;
}

uint32_t ddr_corosync_node(const struct ddr_corosync *c)
{
	return c->node;
}

uint32_t ddr_corosync_nodes(struct ddr_corosync *c)
{
	if (c->connected)
		ask_listed(&c->listed);	/* corosync can reread a changed file while it runs; if it does not answer now, the earlier number stays */
	if (c->word.n > 1 && c->word.n > c->listed)
		return c->word.n;
	return c->listed;
}

const struct ddr_quorum *ddr_corosync_quorum(const struct ddr_corosync *c)
{
	return &c->word;
}

const char *ddr_corosync_error(const struct ddr_corosync *c)
{
	return ddr_corosync_up(c) ? "" : c->error;
}

/* ---- names ----------------------------------------------------------------------- */

/* The position of the node with this id in corosync's list; CS_ERR_NO_SECTIONS: it is not listed. Positions may have gaps. */
static cs_error_t find_listed(cmap_handle_t h, uint32_t node, unsigned int *place)
{
	char key[CMAP_KEYNAME_MAXLEN + 1];
	cmap_iter_handle_t iter;
	cmap_value_types_t type;
	uint32_t id = 0;
	size_t len;
	int end;
	cs_error_t ret = cmap_iter_init(h, "nodelist.node.", &iter);

	if (ret != CS_OK)
		return ret;
	while (id != node && (ret = cmap_iter_next(h, iter, key, &len, &type)) == CS_OK) {
		end = 0;
		if (sscanf(key, "nodelist.node.%u.nodeid%n", place, &end) != 1 || !end || key[end] != '\0')
			continue;
		ret = cmap_get_uint32(h, key, &id);
		if (ret != CS_OK)
			break;
	}
	cmap_iter_finalize(h, iter);
	return ret;
}

/* Keeps the name that a place of the list has for the node, or that it has none. If corosync does not answer it is asked again later. */
static void keep_name(cmap_handle_t h, unsigned int listed, uint32_t node, struct node_name *place)
{
	char key[CMAP_KEYNAME_MAXLEN + 1], *name;
	cs_error_t ret;

	snprintf(key, sizeof(key), "nodelist.node.%u.name", listed);
	ret = cmap_get_string(h, key, &name);
	if (ret != CS_OK && ret != CS_ERR_NOT_EXIST)
		return;
	*place = (struct node_name){ .node = node };
	if (ret == CS_OK) {
		snprintf(place->name, sizeof(place->name), "%s", name);
		free(name);
	}
}

static struct node_name *name_place(struct ddr_corosync *c, uint32_t node)
{
	for (unsigned int i = 0; i < DDR_COROSYNC_NODES; i++)
		if (c->names[i].node == node || c->names[i].node == 0)
			return &c->names[i];
	return NULL;
}

static bool asked(const struct node_name *place, uint32_t node)
{
	return !place || (place->node == node && !place->old);
}

/* Asks for the name, unless this connection has said it. A node that could not be asked for, or that is not listed, is left as it is. */
static const struct node_name *look_up(struct ddr_corosync *c, uint32_t node)
{
	struct node_name *place = node ? name_place(c, node) : NULL;	/* 0 is never a node's id */
	unsigned int listed;
	cmap_handle_t h;

	if (asked(place, node) || !c->connected || cmap_initialize(&h) != CS_OK)
		return place;
	if (find_listed(h, node, &listed) == CS_OK)
		keep_name(h, listed, node, place);
	cmap_finalize(h);
	return place;
}

static bool any_unasked(struct ddr_corosync *c)
{
	for (uint32_t i = 0; i < c->word.n; i++)
		if (!asked(name_place(c, c->word.node[i]), c->word.node[i]))
			return true;
	return false;
}

/* Whoever is here is known by name when it is lost, even if it is taken out of the list then. One walk through the list, as it may be long. */
static void learn_names(struct ddr_corosync *c)
{
	char key[CMAP_KEYNAME_MAXLEN + 1];
	cmap_iter_handle_t iter;
	cmap_value_types_t type;
	struct node_name *place;
	unsigned int listed;
	cmap_handle_t h;
	uint32_t id;
	size_t len;
	int end;

	if (!c->connected || !any_unasked(c) || cmap_initialize(&h) != CS_OK)
		return;
	if (cmap_iter_init(h, "nodelist.node.", &iter) == CS_OK) {
		while (cmap_iter_next(h, iter, key, &len, &type) == CS_OK) {
			end = 0;
			if (sscanf(key, "nodelist.node.%u.nodeid%n", &listed, &end) != 1 || !end || key[end] != '\0' ||
			    cmap_get_uint32(h, key, &id) != CS_OK || id == 0)
				continue;
			place = name_place(c, id);
			if (!asked(place, id))
				keep_name(h, listed, id, place);
		}
		cmap_iter_finalize(h, iter);
	}
	cmap_finalize(h);
}

bool ddr_corosync_known_name(struct ddr_corosync *c, uint32_t node, char *buf, size_t size)
{
	const struct node_name *place = look_up(c, node);

	snprintf(buf, size, "%s", place && place->node == node ? place->name : "");
	return *buf != '\0';
}

const char *ddr_corosync_name(struct ddr_corosync *c, uint32_t node, char *buf, size_t size)
{
	if (!ddr_corosync_known_name(c, node, buf, size))
		snprintf(buf, size, "node %" PRIu32, node);
	return buf;
}
