// SPDX-License-Identifier: GPL-2.0-or-later
/* Corosync's list of nodes. See nodes.h. */
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <qb/qblog.h>

#include "daemon/group/nodes.h"

#define RETRY_MS	1000u

/* Reading of the list. @watch: a connection that is to be told when it changes, made before it is read; NULL: there is one. */
struct ddr_nodes_reading {
	struct ddr_ask ask;
	struct ddr_asks *asks;
	struct ddr_nodes *nodes;	/* NULL: nobody wants the answer any more. The loop's, as is @asks; the rest is the thread's while it reads */
	struct ddr_nodes_watch *watch;
	bool watches;			/* @watch is connected */
	cs_error_t result;
	struct ddr_corosync_list list;
};

struct ddr_nodes_watch {
	struct ddr_ask ask;		/* its end */
	struct ddr_corosync_watch is;
};

static void read_list(struct ddr_nodes *n);

/* ---- the watch ------------------------------------------------------------------- */

static void run_end_watch(struct ddr_ask *a)
{
	ddr_corosync_end_watch(&ddr_ask_of(a, struct ddr_nodes_watch, ask)->is);
}

static void on_watch_ended(struct ddr_ask *a)
{
	free(ddr_ask_of(a, struct ddr_nodes_watch, ask));
}

/* It is connected, and the loop does not use it. */
static void end_watch(struct ddr_asks *asks, struct ddr_nodes_watch *w)
{
	w->ask = (struct ddr_ask){ .run = run_end_watch, .done = on_watch_ended, .what = "close a connection" };
	ddr_asks_put_first(asks, &w->ask);
}

static void drop_watch(struct ddr_nodes *n)
{
	if (!n->watch)
		return;
	qb_loop_poll_del(n->loop, n->watch->is.fd);
	end_watch(n->asks, n->watch);
	n->watch = NULL;
}

static void on_retry(void *data)
{
	struct ddr_nodes *n = data;

	n->timer = 0;
	read_list(n);
}

/* The list, or a part of it, could not be read. */
static void read_later(struct ddr_nodes *n)
{
	if (!n->timer && qb_loop_timer_add(n->loop, QB_LOOP_LOW, RETRY_MS * QB_TIME_NS_IN_MSEC, n, on_retry, &n->timer))
		qb_log(LOG_CRIT, "out of memory for a timer: names of nodes that are added to corosync.conf from now on stay unknown. Free memory, then: systemctl "
				 "restart ddraidd; the arrays stay up");
}

/* What has changed in the list counts once it has been read; whatever changes from then on is an event again. */
static int32_t on_change(int32_t fd, int32_t revents, void *data)
{
	struct ddr_nodes *n = data;
	bool gone = revents & (POLLERR | POLLHUP | POLLNVAL);
	cs_error_t ret = gone ? CS_OK : cmap_dispatch(n->watch->is.handle, CS_DISPATCH_ALL);

	(void)fd;
	if (gone || (ret != CS_OK && ret != CS_ERR_TRY_AGAIN)) {
		drop_watch(n);
		read_later(n);
	} else if (n->watch->is.changed) {
		n->watch->is.changed = false;
		read_list(n);
	}
	return 0;
}

/* ---- the names -------------------------------------------------------------------- */

/* The entry of the node, or a free one; DDR_COROSYNC_NODES: there is none. */
static unsigned int place_of(const struct ddr_nodes *n, uint32_t node)
{
	unsigned int i = 0;

	while (i < DDR_COROSYNC_NODES && n->name[i].node && n->name[i].node != node)
		i++;
	return i;
}

/* A node that is not in the list any more, or could not be asked for, keeps the name that it had: it may have to be fenced. */
static void take_list(struct ddr_nodes *n, const struct ddr_corosync_list *list)
{
	n->listed = list->listed;
	for (uint32_t k = 0; k < list->n; k++) {
		unsigned int i = place_of(n, list->node[k].node);

		if (i == DDR_COROSYNC_NODES)
			continue;
		n->name[i].node = list->node[k].node;
		memcpy(n->name[i].name, list->node[k].name, sizeof(n->name[i].name));
	}
}

const char *ddr_nodes_name(const struct ddr_nodes *n, uint32_t node)
{
	unsigned int i = node ? place_of(n, node) : DDR_COROSYNC_NODES;		/* 0 is never a node's id */

	return i < DDR_COROSYNC_NODES && n->name[i].node ? n->name[i].name : "";
}

/* ---- reading ------------------------------------------------------------------------ */

cs_error_t ddr_nodes_read(struct ddr_nodes_reading *r)
{
	r->result = r->watch ? ddr_corosync_ask_watch(&r->watch->is) : CS_OK;
	r->watches = r->watch && r->result == CS_OK;
	if (r->result == CS_OK)
		r->result = ddr_corosync_ask_list(&r->list);
	return r->result;
}

void ddr_nodes_take(struct ddr_nodes *n, struct ddr_nodes_reading *r)
{
	if (r->watches && qb_loop_poll_add(n->loop, QB_LOOP_MED, r->watch->is.fd, POLLIN, n, on_change) == 0) {
		n->watch = r->watch;
		r->watch = NULL;
		r->watches = false;
	}
	if (r->result == CS_OK)
		take_list(n, &r->list);
	if (r->result != CS_OK || r->list.partly || !n->watch)
		read_later(n);
}

void ddr_nodes_free(struct ddr_nodes_reading *r)
{
	if (r->watches)
		end_watch(r->asks, r->watch);
	else
		free(r->watch);
	free(r);
}

static void run_reading(struct ddr_ask *a)
{
	ddr_nodes_read(ddr_ask_of(a, struct ddr_nodes_reading, ask));
}

static void on_read(struct ddr_ask *a)
{
	struct ddr_nodes_reading *r = ddr_ask_of(a, struct ddr_nodes_reading, ask);
	struct ddr_nodes *n = r->nodes;
	bool again = n && n->again;

	if (n) {
		n->reading = NULL;
		n->again = false;
		ddr_nodes_take(n, r);
	}
	ddr_nodes_free(r);
	if (again)
		read_list(n);
}

struct ddr_nodes_reading *ddr_nodes_new(struct ddr_nodes *n)
{
	struct ddr_nodes_reading *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->nodes = n;
	r->asks = n->asks;
	r->ask = (struct ddr_ask){ .run = run_reading, .done = on_read, .what = "list its nodes" };
	r->watch = n->watch ? NULL : calloc(1, sizeof(*r->watch));
	if (r->watch || n->watch)
		return r;
	free(r);
	return NULL;
}

static void read_list(struct ddr_nodes *n)
{
	if (n->reading) {
		n->again = true;
		return;
	}
	n->reading = ddr_nodes_new(n);
	if (n->reading)
		ddr_asks_put(n->asks, &n->reading->ask);
	else
		read_later(n);
}

void ddr_nodes_stop(struct ddr_nodes *n)
{
	if (n->reading)
		n->reading->nodes = NULL;
	n->reading = NULL;
	n->again = false;
	if (n->timer)
		qb_loop_timer_del(n->loop, n->timer);
	n->timer = 0;
	drop_watch(n);
}
