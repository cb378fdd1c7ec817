// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The connection to corosync. See corosync.h. Whatever waits for corosync's answer is in corosync_call.c, and a thread calls it (ask.h).
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <corosync/quorum.h>
#include <qb/qblog.h>

#include "daemon/group/corosync.h"
#include "daemon/group/nodes.h"

#define RETRY_MS	1000u

/* A connection, with all that is to be known when it begins. */
struct connection {
	struct ddr_ask ask;		/* its beginning, and its end */
	struct ddr_asks *asks;
	struct ddr_corosync *c;		/* NULL: nobody wants it any more. The loop's, as is @asks; the rest is the thread's while it connects */
	void *ctx;			/* for on_quorum() */
	struct ddr_nodes_reading *list;
	cs_error_t result;
	uint32_t node;
	struct ddr_corosync_reports reports;
};

struct ddr_corosync {
	qb_loop_t *loop;
	struct ddr_asks *asks;
	struct qb_list_head listeners;
	qb_loop_timer_handle timer;
	struct connection *asked;	/* is being made; NULL: none is */
	struct connection *on;		/* there is one */
	bool told;		/* quorum is known */
	uint64_t epoch;
	uint32_t node;
	struct ddr_quorum word;
	const char *error;
	char late[DDR_ASK_TEXT];	/* the same, while corosync does not answer */
	struct ddr_nodes nodes;
};

static void try_connect(void *data);

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

/* ---- the end of a connection ------------------------------------------------------ */

static void run_end(struct ddr_ask *a)
{
	ddr_corosync_end_reports(&ddr_ask_of(a, struct connection, ask)->reports);
}

static void on_ended(struct ddr_ask *a)
{
	free(ddr_ask_of(a, struct connection, ask));
}

/* The connection stands, and the loop does not use it. */
static void end_connection(struct ddr_asks *asks, struct connection *k)
{
	k->ask = (struct ddr_ask){ .run = run_end, .done = on_ended, .what = "close a connection" };
	ddr_asks_put_first(asks, &k->ask);
}

static void disconnect(struct ddr_corosync *c, const char *why)
{
	ddr_nodes_stop(&c->nodes);
	if (!c->on)
		return;
	qb_loop_poll_del(c->loop, c->on->reports.fd);
	end_connection(c->asks, c->on);
	c->on = NULL;
	c->told = c->word.quorate = false;
	c->error = why;
}

/* ---- quorum --------------------------------------------------------------------- */

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
	if (!(revents & (POLLERR | POLLHUP | POLLNVAL)))
		ret = quorum_dispatch(c->on->reports.handle, CS_DISPATCH_ALL);
	if (revents & (POLLERR | POLLHUP | POLLNVAL) || (ret != CS_OK && ret != CS_ERR_TRY_AGAIN)) {
		qb_log(LOG_ERR, "the connection to corosync was lost; this node is no longer in the cluster");
		disconnect(c, "corosync is not running on this node; systemctl start corosync");
		retry_later(c);
	}
	tell(c);
	return 0;
}

/* ---- the beginning of a connection ------------------------------------------------ */

static void run_connect(struct ddr_ask *a)
{
	struct connection *k = ddr_ask_of(a, struct connection, ask);

	k->result = ddr_corosync_ask_node(&k->node);
	if (k->result == CS_OK)
		k->result = ddr_nodes_read(k->list);
	if (k->result == CS_OK)
		k->result = ddr_corosync_ask_reports(&k->reports, on_quorum, k->ctx);
}

/* It is not wanted, or did not come about. */
static void drop(struct connection *k)
{
	if (k->result == CS_OK)
		end_connection(k->asks, k);
	else
		free(k);
}

/* Why it cannot be used; NULL: it can. */
static const char *fault(const struct ddr_corosync *c, const struct connection *k)
{
	if (c->node && k->node && k->node != c->node)
		return "corosync gave this node another id; systemctl restart ddraidd";
	if (k->reports.no_quorum)
		return "corosync has no quorum; set 'provider: corosync_votequorum' in corosync.conf";
	return k->result == CS_OK ? NULL : "corosync is not running on this node; systemctl start corosync";
}

static void use(struct ddr_corosync *c, struct connection *k)
{
	c->on = k;
	c->node = k->node;
	c->error = "corosync has not reported yet whether this node has quorum";
	ddr_nodes_take(&c->nodes, k->list);
	qb_log(LOG_NOTICE, "corosync: this is node %" PRIu32, c->node);
}

static void on_connected(struct ddr_ask *a)
{
	struct connection *k = ddr_ask_of(a, struct connection, ask);
	struct ddr_corosync *c = k->c;
	const char *why = c ? fault(c, k) : NULL;

	if (c)
		c->asked = NULL;
	if (c && !why && qb_loop_poll_add(c->loop, QB_LOOP_HIGH, k->reports.fd, POLLIN, c, on_readable))
		why = "out of memory for the connection to corosync; this is tried again";
	if (c && !why)
		use(c, k);
	ddr_nodes_free(k->list);
	k->list = NULL;
	if (c && !why)
		return;
	drop(k);
	if (!c)
		return;
	if (strcmp(c->error, why) != 0)
		qb_log(LOG_WARNING, "%s; waiting for it", why);
	c->error = why;
	retry_later(c);
}

static void try_connect(void *data)
{
	struct ddr_corosync *c = data;
	struct connection *k = calloc(1, sizeof(*k));

	c->timer = 0;
	if (k)
		k->list = ddr_nodes_new(&c->nodes);
	if (!k || !k->list) {
		free(k);
		retry_later(c);
		return;
	}
	k->c = k->ctx = c;
	k->asks = c->asks;
	k->ask = (struct ddr_ask){ .run = run_connect, .done = on_connected, .what = "let ddraidd connect" };
	c->asked = k;
	ddr_asks_put(c->asks, &k->ask);
}

int ddr_corosync_open(struct ddr_corosync **out, qb_loop_t *loop, struct ddr_asks *asks)
{
	struct ddr_corosync *c = calloc(1, sizeof(*c));

	*out = NULL;
	if (!c)
		return -ENOMEM;
	c->loop = loop;
	c->asks = asks;
	c->error = "ddraidd connects to corosync";
	c->nodes = (struct ddr_nodes){ .loop = loop, .asks = asks };
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
	if (c->asked)
		c->asked->c = NULL;
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
	return c->on && c->told;
}

uint64_t ddr_corosync_epoch(const struct ddr_corosync *c)
{
	return c->epoch;
}

uint32_t ddr_corosync_node(const struct ddr_corosync *c)
{
	return c->node;
}

uint32_t ddr_corosync_nodes(const struct ddr_corosync *c)
{
	if (c->word.n > 1 && c->word.n > c->nodes.listed)
		return c->word.n;
	return c->nodes.listed;
}

const struct ddr_quorum *ddr_corosync_quorum(const struct ddr_corosync *c)
{
	return &c->word;
}

const char *ddr_corosync_error(struct ddr_corosync *c)
{
	if (ddr_corosync_up(c))
		return "";
	return ddr_asks_late(c->asks, c->late, sizeof(c->late)) ? c->late : c->error;
}

bool ddr_corosync_known_name(const struct ddr_corosync *c, uint32_t node, char *buf, size_t size)
{
	snprintf(buf, size, "%s", ddr_nodes_name(&c->nodes, node));
	return *buf != '\0';
}

const char *ddr_corosync_name(const struct ddr_corosync *c, uint32_t node, char *buf, size_t size)
{
	if (!ddr_corosync_known_name(c, node, buf, size))
		snprintf(buf, size, "node %" PRIu32, node);
	return buf;
}
