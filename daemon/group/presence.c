// SPDX-License-Identifier: GPL-2.0-or-later
/* The process group of one array. See presence.h. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <qb/qblog.h>
#include <uuid/uuid.h>

#include "daemon/group/presence.h"

#define RETRY_MS	50u
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

/* If corosync is gone, the connection of all arrays reports it (link.c). */
static int32_t on_readable(int32_t fd, int32_t revents, void *data)
{
	struct ddr_presence *p = data;
	cs_error_t ret = CS_OK;

	(void)fd;
	for (unsigned int i = 0; i < BATCH && ret == CS_OK; i++)
		ret = cpg_dispatch(p->handle, CS_DISPATCH_ONE_NONBLOCKING);
	if ((ret != CS_OK && ret != CS_ERR_TRY_AGAIN) || revents & (POLLERR | POLLHUP | POLLNVAL)) {
		ddr_presence_close(p);
		return 0;
	}
	p->changed(p->ctx);
	return 0;
}

static void try_join(void *data)
{
	struct ddr_presence *p = data;
	cs_error_t ret = cpg_join(p->handle, &p->name);

	p->timer = 0;
	if (ret == CS_OK)
		return;
	/* EXIST: an earlier connection of ours is still being closed */
	if (ret != CS_ERR_TRY_AGAIN && ret != CS_ERR_EXIST && ret != p->refusal) {
		qb_log(LOG_ERR, "corosync refuses to join the group %.*s: error %d; retrying", (int)p->name.length, p->name.value, ret);
		p->refusal = ret;
	}
	if (qb_loop_timer_add(p->loop, QB_LOOP_MED, RETRY_MS * QB_TIME_NS_IN_MSEC, p, try_join, &p->timer))
		qb_log(LOG_CRIT, "out of memory for a timer: the group %.*s is not joined, and its array not served. Free memory, then: systemctl restart "
		       "ddraidd; the arrays stay up",
		       (int)p->name.length, p->name.value);
}

int ddr_presence_open(struct ddr_presence *p, qb_loop_t *loop, const uint8_t uuid[16], void (*changed)(void *ctx), void *ctx)
{
	cpg_model_v1_data_t model = { .model = CPG_MODEL_V1, .cpg_deliver_fn = on_message, .cpg_confchg_fn = on_members };
	char text[UUID_STR_LEN];
	int ret = 0;

	*p = (struct ddr_presence){ .loop = loop, .changed = changed, .ctx = ctx, .refusal = CS_OK };
	uuid_unparse_lower(uuid, text);
	p->name.length = (uint32_t)snprintf(p->name.value, sizeof(p->name.value), "ddraid:%s", text);
	if (cpg_model_initialize(&p->handle, CPG_MODEL_V1, (cpg_model_data_t *)&model, p) != CS_OK)
		return -ENOTCONN;
	if (cpg_fd_get(p->handle, &p->fd) != CS_OK)
		ret = -ENOTCONN;
	else if (qb_loop_poll_add(loop, QB_LOOP_MED, p->fd, POLLIN, p, on_readable))
		ret = -EIO;
	if (ret) {
		cpg_finalize(p->handle);
		return ret;
	}
	p->open = true;
	try_join(p);
	return 0;
}

void ddr_presence_close(struct ddr_presence *p)
{
	if (!p->open)
		return;
	p->open = false;
	p->n = 0;
	if (p->timer)
		qb_loop_timer_del(p->loop, p->timer);
	p->timer = 0;
	qb_loop_poll_del(p->loop, p->fd);
	cpg_finalize(p->handle);
}
