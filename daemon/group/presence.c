// SPDX-License-Identifier: GPL-2.0-or-later
/* The process group of one array. See presence.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <qb/qblog.h>
#include <uuid/uuid.h>

#include "daemon/group/presence.h"

#define RETRY_MS	50u	/* pause before a join is tried again, and before a connection that was lost is made anew */
#define BATCH		64u	/* events in one round of the loop */

static void on_members(cpg_handle_t handle, const struct cpg_name *name, const struct cpg_address *member, size_t n_member,
		       const struct cpg_address *left, size_t n_left, const struct cpg_address *joined, size_t n_joined)
{
	struct ddr_presence *p;
	void *ctx;

	(void)name, (void)left, (void)n_left, (void)joined, (void)n_joined;
	if (cpg_context_get(handle, &ctx) != CS_OK)
		return;
	p = ctx;
	p->n = n_member < DDR_GROUP_PROCESSES ? (unsigned int)n_member : DDR_GROUP_PROCESSES;
	for (unsigned int i = 0; i < p->n; i++)
		p->process[i] = (struct ddr_group_id){ .node = member[i].nodeid, .pid = member[i].pid };
}

/* Whoever says something here does not speak to us. */
static void on_message(cpg_handle_t handle, const struct cpg_name *name, uint32_t node, uint32_t pid, void *msg, size_t len)
{
	(void)handle, (void)name, (void)node, (void)pid, (void)msg, (void)len;
}

static void on_timer(void *data);

static void later(struct ddr_presence *p)
{
	if (qb_loop_timer_add(p->loop, QB_LOOP_MED, RETRY_MS * QB_TIME_NS_IN_MSEC, p, on_timer, &p->timer))
		qb_log(LOG_CRIT, "out of memory for a timer: this node does not join the group %.*s, by which others see that its array is in use, and without "
		       "which the array does not start. Free memory, then: systemctl restart ddraidd; the arrays stay up",
		       (int)p->name.length, p->name.value);
}

static void disconnect(struct ddr_presence *p)
{
	if (p->timer)
		qb_loop_timer_del(p->loop, p->timer);
	p->timer = 0;
	p->n = 0;
	ddr_cpg_close(p->cpg);
	p->cpg = NULL;
}

/*
 * If corosync is gone, the connection of all arrays is lost, too, and closes this one (link.c). If this connection alone was lost, others no
 * longer see that the array is in use, so it is made anew.
 */
static void on_readable(void *ctx, bool gone)
{
	struct ddr_presence *p = ctx;

	if (!ddr_cpg_dispatch(p->cpg, BATCH) || gone) {
		disconnect(p);
		p->lost = true;
		later(p);
	}
	p->changed(p->ctx);
}

static void on_joined(void *ctx)
{
	struct ddr_presence *p = ctx;

	if (p->lost)
		qb_log(LOG_NOTICE, "corosync had ended the connection to the group %.*s; this node is in it again", (int)p->name.length, p->name.value);
	p->lost = false;
}

/* 0, or -ENOMEM. */
static int connect_group(struct ddr_presence *p)
{
	struct ddr_cpg_owner own = {
		.loop = p->loop, .asks = p->asks, .priority = QB_LOOP_MED, .name = p->name, .retry_ms = RETRY_MS,
		.model = { .model = CPG_MODEL_V1, .cpg_deliver_fn = on_message, .cpg_confchg_fn = on_members },
		.joined = on_joined, .readable = on_readable, .ctx = p,
	};

	return ddr_cpg_open(&p->cpg, &own);
}

static void on_timer(void *data)
{
	struct ddr_presence *p = data;

	p->timer = 0;
	if (connect_group(p))
		later(p);
}

int ddr_presence_open(struct ddr_presence *p, qb_loop_t *loop, struct ddr_asks *asks, const uint8_t uuid[16], void (*changed)(void *ctx), void *ctx)
{
	char text[UUID_STR_LEN];

	*p = (struct ddr_presence){ .loop = loop, .asks = asks, .changed = changed, .ctx = ctx };
	uuid_unparse_lower(uuid, text);
	p->name.length = (uint32_t)snprintf(p->name.value, sizeof(p->name.value), "ddraid:%s", text);
	return connect_group(p);
}

void ddr_presence_close(struct ddr_presence *p)
{
	disconnect(p);
}
