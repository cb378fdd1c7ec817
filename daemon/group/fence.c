// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The daemon's side of fencing. See fence.h; the helper is fence_helper.c.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <qb/qblog.h>

#include "daemon/base/daemon.h"
#include "daemon/group/fence.h"
#include "daemon/group/fence_helper.h"

#define REQUESTS	256u	/* for all arrays: 64 arrays with a few nodes each */

struct request {
	bool used;
	uint32_t node;
	uint64_t failure;
	uint64_t lost_ms;
	uint64_t run;		/* the run of the agent that will answer it */
	ddr_fence_done_fn done;
	void *ctx;
};

/* A run of an agent against a node. A run that has ended is kept until its entry is needed. */
struct run {
	uint32_t node;		/* 0: unused entry */
	uint64_t id;
	uint64_t began_ms;
	bool ended;
	int result;
	int64_t fenced_at;	/* seconds since 1970, by the clock of that time: the latest known success against the node; 0: none */
};

struct ddr_fence {
	qb_loop_t *loop;
	int fd;			/* to the helper, or -1 when it is gone */
	uint64_t last_id;
	struct run run[DDR_FENCE_RUNS];
	struct request request[REQUESTS];
	qb_loop_timer_handle timer;
};

static void answer(struct ddr_fence *f, uint64_t run, int result, const char *why)
{
	for (unsigned int i = 0; i < REQUESTS; i++) {
		struct request r = f->request[i];

		if (!r.used || r.run != run)
			continue;
		f->request[i].used = false;
		r.done(r.ctx, r.node, r.failure, result, why);
	}
}

static void helper_gone(struct ddr_fence *f)
{
	qb_log(LOG_CRIT, "the process that runs fence commands has ended; systemctl restart ddraidd");
	qb_loop_poll_del(f->loop, f->fd);
	close(f->fd);
	f->fd = -1;
	for (unsigned int i = 0; i < DDR_FENCE_RUNS; i++) {
		if (!f->run[i].node || f->run[i].ended)
			continue;
		f->run[i].ended = true;
		f->run[i].result = -EPIPE;
		answer(f, f->run[i].id, -EPIPE, "the process that runs fence commands has ended");
	}
}

static int32_t on_answer(int32_t fd, int32_t revents, void *data)
{
	struct ddr_fence *f = data;
	struct ddr_fence_answer a;
	ssize_t n;

	(void)revents;
	n = recv(fd, &a, sizeof(a), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n != sizeof(a)) {
		helper_gone(f);
		return 0;
	}
	a.text[sizeof(a.text) - 1] = '\0';
	for (unsigned int i = 0; i < DDR_FENCE_RUNS; i++) {
		if (f->run[i].node && f->run[i].id == a.id && !f->run[i].ended) {
			f->run[i].ended = true;
			f->run[i].result = a.result;
			if (a.result == 0 && f->run[i].fenced_at < time(NULL))
				f->run[i].fenced_at = time(NULL);
			answer(f, a.id, a.result, a.text);
		}
	}
	return 0;
}

int ddr_fence_fork(struct ddr_fence **out)
{
	struct ddr_fence *f = calloc(1, sizeof(*f));
	int fds[2];
	pid_t pid;

	*out = NULL;
	if (!f)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds)) {
		free(f);
		return -errno;
	}
	pid = fork();
	if (pid < 0) {
		int ret = -errno;

		close(fds[0]);
		close(fds[1]);
		free(f);
		return ret;
	}
	if (pid == 0)
		ddr_fence_helper(fds[1]);
	close(fds[1]);
	f->fd = fds[0];
	*out = f;
	return 0;
}

int ddr_fence_open(struct ddr_fence *f, qb_loop_t *loop)
{
	f->loop = loop;
	return qb_loop_poll_add(loop, QB_LOOP_HIGH, f->fd, POLLIN, f, on_answer);
}

void ddr_fence_close(struct ddr_fence *f)
{
	if (!f)
		return;
	if (f->fd >= 0) {
		qb_loop_poll_del(f->loop, f->fd);
		close(f->fd);	/* the helper ends; agents that run continue */
	}
	free(f);
}

/* A request waits for the end of the run, or for the loop to report it. */
static bool in_use(const struct ddr_fence *f, const struct run *run)
{
	if (run->node && !run->ended)
		return true;
	for (unsigned int i = 0; i < REQUESTS; i++)
		if (f->request[i].used && f->request[i].run == run->id)
			return true;
	return false;
}

static int64_t fenced_at(const struct ddr_fence *f, uint32_t node)
{
	int64_t at = 0;

	for (unsigned int i = 0; i < DDR_FENCE_RUNS; i++)
		if (f->run[i].node == node && f->run[i].fenced_at > at)
			at = f->run[i].fenced_at;
	return at;
}

/*
 * The time of the loss, as agents need it: by the current clock, so that a clock that was set since the loss makes no difference. An
 * agent with a history (dlm_stonith) accepts a fencing in it that is not older as proof. After the clock was set back, a fencing for
 * an earlier failure may lie in the future: then the requested time is later than that one. Such an agent fences at once, but only
 * ends when the clock has reached that time.
 */
static int64_t fail_time(const struct ddr_fence *f, uint32_t node, const char *name, uint64_t lost_ms)
{
	int64_t at = time(NULL) - (int64_t)((ddr_now_ms() - lost_ms) / 1000), last = fenced_at(f, node);

	if (at > last)
		return at;
	qb_log(LOG_WARNING, "the clock was set back by %" PRId64 " seconds or more since node %u (%s) was last fenced; a fence agent that compares "
	       "times (dlm_stonith) may finish too late. Correct the clock, or make sure that the node is powered off and run ddraid fence-ack",
	       last - at + 1, node, name);
	return last + 1;
}

/*
 * An entry for a run against @node: one that ended against it, or an unused one; else the oldest one that has ended. What is known about
 * the node of that entry is lost: fail_time() could then be earlier than the last fencing of that node.
 */
static struct run *find_place(struct ddr_fence *f, uint32_t node)
{
	struct run *place = NULL;

	for (unsigned int i = 0; i < DDR_FENCE_RUNS; i++) {
		struct run *r = &f->run[i];

		if (in_use(f, r))
			continue;
		if (r->node == node)
			return r;
		if (!place || r->id < place->id)	/* 0: unused */
			place = r;
	}
	return place;
}

/* An agent may already run against the node for an earlier loss: it proves nothing for this one, and continues beside the new run. */
static struct run *start_run(struct ddr_fence *f, const struct ddr_fence_order *order)
{
	int64_t last = fenced_at(f, order->node);
	struct run *place = find_place(f, order->node);

	if (!place)
		return NULL;
	if (send(f->fd, order, sizeof(*order), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(*order)) {
		qb_perror(LOG_ERR, "asking the process that runs fence commands");
		return NULL;
	}
	*place = (struct run){ .node = order->node, .id = order->id, .began_ms = ddr_now_ms(), .fenced_at = last };
	return place;
}

/* A run against @node that started after it was lost, and has not failed. */
static struct run *find_run(struct ddr_fence *f, uint32_t node, uint64_t lost_ms)
{
	for (unsigned int i = 0; i < DDR_FENCE_RUNS; i++) {
		struct run *r = &f->run[i];

		if (r->node == node && r->began_ms >= lost_ms && (!r->ended || r->result == 0))
			return r;
	}
	return NULL;
}

static void on_known(void *data)
{
	struct ddr_fence *f = data;

	f->timer = 0;
	for (unsigned int i = 0; i < DDR_FENCE_RUNS; i++)
		if (f->run[i].node && f->run[i].ended)
			answer(f, f->run[i].id, f->run[i].result, "it was fenced for another array");
}

int ddr_fence_ask(struct ddr_fence *f, uint32_t node, const char *name, const struct ddr_conf *conf,
		  uint64_t lost_ms, uint64_t failure, ddr_fence_done_fn done, void *ctx)
{
	struct ddr_fence_order order = { .node = node, .timeout_ms = conf->fence_timeout_ms,
					 .settle_ms = conf->fence_settle_ms };
	struct request *r = NULL;
	struct run *run;

	for (unsigned int i = 0; !r && i < REQUESTS; i++)
		if (!f->request[i].used)
			r = &f->request[i];
	if (!r || f->fd < 0)
		return r ? -EPIPE : -ENOBUFS;
	run = find_run(f, node, lost_ms);
	if (!run) {
		order.id = ++f->last_id;
		order.fail_time = fail_time(f, node, name, lost_ms);
		snprintf(order.name, sizeof(order.name), "%s", name);
		snprintf(order.command, sizeof(order.command), "%s", conf->fence_command);
		run = start_run(f, &order);
		if (!run)
			return -EBUSY;
		qb_log(LOG_NOTICE, "fencing node %u (%s): %s", node, name, conf->fence_command);
	}
	*r = (struct request){ .used = true, .node = node, .failure = failure, .lost_ms = lost_ms, .run = run->id,
			       .done = done, .ctx = ctx };
	if (run->ended && !f->timer)
		qb_loop_timer_add(f->loop, QB_LOOP_HIGH, 0, f, on_known, &f->timer);
	return 0;
}

void ddr_fence_forget(struct ddr_fence *f, const void *ctx)
{
	for (unsigned int i = 0; f && i < REQUESTS; i++)
		if (f->request[i].ctx == ctx)
			f->request[i].used = false;
}
