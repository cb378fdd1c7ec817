// SPDX-License-Identifier: GPL-2.0-or-later
/* A connection to a process group. See cpg.h. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <linux/sockios.h>
#include <qb/qblog.h>

#include "daemon/group/cpg.h"

#define AGAIN_MS	1000u	/* between two attempts to connect */

enum stage {
	CONNECTS = 0,		/* there is no handle yet */
	JOINS,			/* there is, and the group has not been joined */
	JOINED,
	CLOSES,			/* the owner has closed it */
};

struct ddr_cpg {
	struct ddr_ask ask;
	struct ddr_cpg_owner own;
	enum stage stage;
	_Atomic bool unwanted;	/* the same for the thread, if it has not begun yet */
	bool asked;		/* @ask is on its way: all that follows to @result belongs to the thread */
	bool connected;		/* there is a @handle */
	bool member;		/* cpg_join() succeeded */
	cpg_handle_t handle;
	int fd;
	int room;		/* in the socket of that descriptor (bytes, as the kernel counts them); 0: unknown */
	cs_error_t result;
	bool dispatches;	/* a callback of the library is under way */
	cs_error_t refusal;	/* the last one that was logged */
	qb_loop_timer_handle timer;
};

/* ---- the end -------------------------------------------------------------------- */

static void run_close(struct ddr_ask *a)
{
	cpg_finalize(ddr_ask_of(a, struct ddr_cpg, ask)->handle);
}

static void on_closed(struct ddr_ask *a)
{
	free(ddr_ask_of(a, struct ddr_cpg, ask));
}

/* Nothing uses it any more, neither a thread nor a callback. */
static void finish(struct ddr_cpg *c)
{
	if (!c->connected) {
		free(c);
		return;
	}
	c->ask = (struct ddr_ask){ .run = run_close, .done = on_closed, .what = "let ddraidd leave a process group" };
	ddr_asks_put_first(c->own.asks, &c->ask);
}

void ddr_cpg_close(struct ddr_cpg *c)
{
	if (!c)
		return;
	if (c->timer)
		qb_loop_timer_del(c->own.loop, c->timer);
	c->timer = 0;
	if (!c->asked && c->connected)
		qb_loop_poll_del(c->own.loop, c->fd);
	c->stage = CLOSES;
	atomic_store(&c->unwanted, true);
	if (!c->asked && !c->dispatches)
		finish(c);
}

/* ---- the beginning ---------------------------------------------------------------- */

static void run_join(struct ddr_ask *a);
static void on_asked(struct ddr_ask *a);

static void ask(struct ddr_cpg *c)
{
	c->asked = true;
	c->ask = (struct ddr_ask){ .run = run_join, .done = on_asked, .what = "let ddraidd join a process group" };
	ddr_asks_put(c->own.asks, &c->ask);
}

static void go_on(void *data)
{
	struct ddr_cpg *c = data;

	c->timer = 0;
	if (c->connected)
		qb_loop_poll_del(c->own.loop, c->fd);
	ask(c);
}

static void later(struct ddr_cpg *c, unsigned int ms)
{
	if (qb_loop_timer_add(c->own.loop, QB_LOOP_HIGH, ms * QB_TIME_NS_IN_MSEC, c, go_on, &c->timer))
		qb_log(LOG_CRIT, "out of memory for a timer: this node does not join the group %.*s, without which arrays do not start. Free memory, then: systemctl "
				 "restart ddraidd; the arrays stay up",
		       (int)c->own.name.length, c->own.name.value);
}

static cs_error_t connect_group(struct ddr_cpg *c)
{
	socklen_t len = sizeof(c->room);
	uint32_t largest = 0;
	cs_error_t ret = cpg_model_initialize(&c->handle, CPG_MODEL_V1, (cpg_model_data_t *)&c->own.model, c->own.ctx);

	if (ret != CS_OK)
		return ret;
	c->connected = true;
	ret = cpg_fd_get(c->handle, &c->fd);
	if (ret == CS_OK)
		ret = cpg_max_atomic_msgsize_get(c->handle, &largest);
	if (ret == CS_OK && largest < c->own.largest)
		ret = CS_ERR_TOO_BIG;
	if (ret == CS_OK && getsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &c->room, &len))
		c->room = 0;
	if (ret == CS_OK)
		return ret;
	cpg_finalize(c->handle);
	c->connected = false;
	return ret;
}

/* In the thread. While corosync synchronises the group it refuses joins (TRY_AGAIN); the loop tries again later, so that other questions come between. */
static void run_join(struct ddr_ask *a)
{
	struct ddr_cpg *c = ddr_ask_of(a, struct ddr_cpg, ask);

	c->result = atomic_load(&c->unwanted) ? CS_ERR_INTERRUPT : c->connected ? CS_OK : connect_group(c);
	if (c->result == CS_OK && !c->member)
		c->result = cpg_join(c->handle, &c->own.name);
	c->member |= c->result == CS_OK;
}

static int32_t on_readable(int32_t fd, int32_t revents, void *data)
{
	struct ddr_cpg *c = data;

	(void)fd;
	c->own.readable(c->own.ctx, revents & (POLLERR | POLLHUP | POLLNVAL));
	return 0;
}

static void refused(struct ddr_cpg *c, cs_error_t ret)
{
	/* EXIST: an earlier connection of ours is still being closed */
	if (ret == CS_ERR_TRY_AGAIN || ret == CS_ERR_EXIST || ret == c->refusal)
		return;
	c->refusal = ret;
	qb_log(LOG_ERR, "corosync refuses to let ddraidd %s the group %.*s: error %d; retrying", c->connected ? "join" : "connect to", (int)c->own.name.length,
	       c->own.name.value, ret);
}

static void on_asked(struct ddr_ask *a)
{
	struct ddr_cpg *c = ddr_ask_of(a, struct ddr_cpg, ask);

	c->asked = false;
	if (c->stage == CLOSES) {
		finish(c);
		return;
	}
	if (c->result != CS_OK)
		refused(c, c->result);
	/* also before the group is joined: so the end of the connection shows */
	if (c->connected && qb_loop_poll_add(c->own.loop, c->own.priority, c->fd, POLLIN, c, on_readable)) {
		qb_log(LOG_ERR, "out of memory for the connection to corosync; retrying");
		c->result = CS_ERR_NO_MEMORY;
	}
	c->stage = !c->connected ? CONNECTS : c->result == CS_OK ? JOINED : JOINS;
	if (c->stage != JOINED) {
		later(c, c->connected ? c->own.retry_ms : AGAIN_MS);
		return;
	}
	c->refusal = CS_OK;
	c->own.joined(c->own.ctx);
}

int ddr_cpg_open(struct ddr_cpg **out, const struct ddr_cpg_owner *owner)
{
	struct ddr_cpg *c = *out = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->own = *owner;
	c->refusal = CS_OK;
	ask(c);
	return 0;
}

/* ---- its use ---------------------------------------------------------------------- */

bool ddr_cpg_dispatch(struct ddr_cpg *c, unsigned int n)
{
	cs_error_t ret = CS_OK;

	c->dispatches = true;
	while (n-- && ret == CS_OK && c->stage != CLOSES)
		ret = cpg_dispatch(c->handle, CS_DISPATCH_ONE_NONBLOCKING);
	c->dispatches = false;
	if (c->stage == CLOSES) {
		finish(c);
		return true;
	}
	return ret == CS_OK || ret == CS_ERR_TRY_AGAIN;
}

/*
 * With each message libqb sends a byte on a socket, and it tries that again and again, without a pause, while the socket is full: that comes about when
 * corosync is stopped. So it is looked at before.
 */
static bool has_room(const struct ddr_cpg *c)
{
	int queued;

	return !c->room || ioctl(c->fd, SIOCOUTQ, &queued) || queued < c->room;
}

cs_error_t ddr_cpg_send(struct ddr_cpg *c, void *msg, size_t len)
{
	struct iovec iov = { .iov_base = msg, .iov_len = len };

	return has_room(c) ? cpg_mcast_joined(c->handle, CPG_TYPE_AGREED, &iov, 1) : CS_ERR_TRY_AGAIN;
}
