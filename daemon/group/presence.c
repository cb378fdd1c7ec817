// SPDX-License-Identifier: GPL-2.0-or-later
/* The process group of one array. See presence.h. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <qb/qblog.h>
#include <uuid/uuid.h>

#include "daemon/group/presence.h"

#define RETRY_MS	50u	/* pause before a join is tried again, and before a connection that was lost is made anew */
#define AGAIN_MS	1000u	/* between further attempts to connect */
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

static void later(struct ddr_presence *p, uint64_t ms)
{
	if (qb_loop_timer_add(p->loop, QB_LOOP_MED, ms * QB_TIME_NS_IN_MSEC, p, on_timer, &p->timer))
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
	if (!p->open)
		return;
	p->open = false;
	qb_loop_poll_del(p->loop, p->fd);
	cpg_finalize(p->handle);
}

/*
 * If corosync is gone, the connection of all arrays is lost, too, and closes this one (link.c). If this connection alone was lost, others no
 * longer see that the array is in use, so it is made anew.
 */
static int32_t on_readable(int32_t fd, int32_t revents, void *data)
{
	struct ddr_presence *p = data;
	cs_error_t ret = CS_OK;

	(void)fd;
	for (unsigned int i = 0; i < BATCH && ret == CS_OK; i++)
		ret = cpg_dispatch(p->handle, CS_DISPATCH_ONE_NONBLOCKING);
	if ((ret != CS_OK && ret != CS_ERR_TRY_AGAIN) || revents & (POLLERR | POLLHUP | POLLNVAL)) {
		disconnect(p);
		p->lost = true;
		later(p, RETRY_MS);
	}
	p->changed(p->ctx);
	return 0;
}

static void try_join(struct ddr_presence *p)
{
	cs_error_t ret = cpg_join(p->handle, &p->name);

	if (ret == CS_OK) {
		if (p->lost)
			qb_log(LOG_NOTICE, "corosync had ended the connection to the group %.*s; this node is in it again", (int)p->name.length,
			       p->name.value);
		p->lost = false;
		p->refusal = CS_OK;
		return;
	}
	/* EXIST: an earlier connection of ours is still being closed */
	if (ret != CS_ERR_TRY_AGAIN && ret != CS_ERR_EXIST && ret != p->refusal) {
		qb_log(LOG_ERR, "corosync refuses to join the group %.*s: error %d; retrying", (int)p->name.length, p->name.value, ret);
		p->refusal = ret;
	}
	later(p, RETRY_MS);
}

/* 0, or a negative errno. */
static int connect_group(struct ddr_presence *p)
{
	cpg_model_v1_data_t model = { .model = CPG_MODEL_V1, .cpg_deliver_fn = on_message, .cpg_confchg_fn = on_members };
	int ret = 0;

	if (cpg_model_initialize(&p->handle, CPG_MODEL_V1, (cpg_model_data_t *)&model, p) != CS_OK)
		return -ENOTCONN;
	if (cpg_fd_get(p->handle, &p->fd) != CS_OK)
		ret = -ENOTCONN;
	else if (qb_loop_poll_add(p->loop, QB_LOOP_MED, p->fd, POLLIN, p, on_readable))
		ret = -EIO;
	if (ret) {
		cpg_finalize(p->handle);
		return ret;
	}
	p->open = true;
	try_join(p);
	return 0;
}

static void on_timer(void *data)
{
	struct ddr_presence *p = data;

	p->timer = 0;
	if (p->open)
		try_join(p);
	else if (connect_group(p))
		later(p, AGAIN_MS);
}

int ddr_presence_open(struct ddr_presence *p, qb_loop_t *loop, const uint8_t uuid[16], void (*changed)(void *ctx), void *ctx)
{
	char text[UUID_STR_LEN];

	*p = (struct ddr_presence){ .loop = loop, .changed = changed, .ctx = ctx, .refusal = CS_OK };
	uuid_unparse_lower(uuid, text);
	p->name.length = (uint32_t)snprintf(p->name.value, sizeof(p->name.value), "ddraid:%s", text);
	return connect_group(p);
}

void ddr_presence_close(struct ddr_presence *p)
{
	disconnect(p);
}
