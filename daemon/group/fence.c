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
#define AGAINST_ONE	2u	/* agents that may run against one node at the same time */

struct request {
	bool used;
	bool told;		/* the time of its run is over: only a success is still reported */
	uint32_t node;
	uint64_t failure;
	uint64_t lost_ms;
	uint64_t run;		/* the run of the agent that will answer it */
	ddr_fence_done_fn done;
	void *ctx;
};

/* LATE: fence_timeout is over, and the agent may not have ended: nothing can end one that waits in the kernel for a disk. */
enum stage { RUN_UNUSED, RUN_RUNS, RUN_LATE, RUN_SETTLES, RUN_ENDED };

/* A run of an agent against a node. A run that has ended is kept until its entry is needed. */
struct run {
	enum stage stage;
	uint32_t node;
	uint64_t id;
	uint64_t began_ms;
	uint64_t until_ms;	/* RUNS: fence_timeout; SETTLES: until then it is not reported */
	char devices[DDR_FENCE_DEVICES];	/* as the agent was given them */
	uint64_t fenced_ms;	/* when the agent ended with success */
	uint32_t settle_ms;	/* the longest that a request of this run needs after that */
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

/* @late: the run has not ended, so the request stays open for its success. */
static void answer(struct ddr_fence *f, uint64_t run, bool late, int result, const char *why)
{
	for (unsigned int i = 0; i < REQUESTS; i++) {
		struct request r = f->request[i];

		if (!r.used || r.run != run)
			continue;
		f->request[i].used = f->request[i].told = late;
		if (!r.told || result == 0)
			r.done(r.ctx, r.node, r.failure, result, why);
	}
}

/* The run has ended, and @result is final. */
static void ended(struct ddr_fence *f, struct run *run, int result, const char *why)
{
	run->stage = RUN_ENDED;
	run->result = result;
	answer(f, run->id, false, result, why);
}

/* ---- time ------------------------------------------------------------------------- */

static bool has_request(const struct ddr_fence *f, const struct run *run)
{
	for (unsigned int i = 0; i < REQUESTS; i++)
		if (f->request[i].used && f->request[i].run == run->id)
			return true;
	return false;
}

/* When something is to be done about the run; UINT64_MAX: nothing before the helper says something. */
static uint64_t due_ms(const struct ddr_fence *f, const struct run *run)
{
	if (run->stage == RUN_RUNS || run->stage == RUN_SETTLES)
		return run->until_ms;
	return run->stage == RUN_ENDED && has_request(f, run) ? 0 : UINT64_MAX;
}

static void on_time(void *data);

static void set_timer(struct ddr_fence *f)
{
	uint64_t now = ddr_now_ms(), due = UINT64_MAX;

	for (unsigned int i = 0; i < DDR_FENCE_RUNS; i++)
		if (due_ms(f, &f->run[i]) < due)
			due = due_ms(f, &f->run[i]);
	if (f->timer)
		qb_loop_timer_del(f->loop, f->timer);
	f->timer = 0;
	if (due != UINT64_MAX)
		qb_loop_timer_add(f->loop, QB_LOOP_HIGH, due > now ? (due - now) * QB_TIME_NS_IN_MSEC : 0, f, on_time, &f->timer);
}

static void on_time(void *data)
{
	struct ddr_fence *f = data;
	uint64_t now = ddr_now_ms();

	f->timer = 0;
	for (unsigned int i = 0; i < DDR_FENCE_RUNS; i++) {
		struct run *run = &f->run[i];

		if (due_ms(f, run) > now)
			continue;
		if (run->stage == RUN_RUNS) {
			run->stage = RUN_LATE;
			answer(f, run->id, true, -ETIMEDOUT, "the agent did not finish in time");
		} else if (run->stage == RUN_SETTLES) {
			ended(f, run, 0, "");
		} else {
			answer(f, run->id, false, run->result, "it was fenced for another array");
		}
	}
	set_timer(f);
}

/* ---- the helper ------------------------------------------------------------------- */

static bool is_open(const struct run *run)
{
	return run->stage == RUN_RUNS || run->stage == RUN_LATE;
}

static void helper_gone(struct ddr_fence *f)
{
	qb_log(LOG_CRIT, "the process that runs fence commands has ended; systemctl restart ddraidd");
	qb_loop_poll_del(f->loop, f->fd);
	close(f->fd);
	f->fd = -1;
	for (unsigned int i = 0; i < DDR_FENCE_RUNS; i++)
		if (is_open(&f->run[i]))
			ended(f, &f->run[i], -EPIPE, "the process that runs fence commands has ended");
	set_timer(f);
}

/* An agent that was started for this failure and ended with success has fenced the node, also after fence_timeout. */
static void agent_ended(struct ddr_fence *f, struct run *run, const struct ddr_fence_answer *a)
{
	if (a->result) {
		ended(f, run, a->result, a->text);
		return;
	}
	if (run->fenced_at < time(NULL))
		run->fenced_at = time(NULL);
	run->fenced_ms = ddr_now_ms();
	run->stage = RUN_SETTLES;
	run->until_ms = run->fenced_ms + run->settle_ms;
	if (run->settle_ms)
		qb_log(LOG_NOTICE, "fencing node %u: the command has succeeded; the node counts as fenced in %u s, when nothing that it had sent can reach a member any more (settle)",
		       run->node, (run->settle_ms + 999) / 1000);
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
	for (unsigned int i = 0; i < DDR_FENCE_RUNS; i++)
		if (f->run[i].id == a.id && is_open(&f->run[i]))
			agent_ended(f, &f->run[i], &a);
	set_timer(f);
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
	if (f->timer)
		qb_loop_timer_del(f->loop, f->timer);
	if (f->fd >= 0) {
		qb_loop_poll_del(f->loop, f->fd);
		close(f->fd);	/* the helper ends; agents that run continue */
	}
	free(f);
}

/* ---- requests --------------------------------------------------------------------- */

/* Its agent may still run, or a request waits for it. */
static bool in_use(const struct ddr_fence *f, const struct run *run)
{
	return is_open(run) || run->stage == RUN_SETTLES || has_request(f, run);
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

/*
 * An agent may already run against the node for an earlier loss: it proves nothing for this one, and continues beside the new run. 0, or a
 * negative errno.
 */
static int start_run(struct ddr_fence *f, const struct ddr_fence_order *order, struct run **run)
{
	int64_t last = fenced_at(f, order->node);
	struct run *place = find_place(f, order->node);
	uint64_t now = ddr_now_ms();
	unsigned int running = 0;

	for (unsigned int i = 0; i < DDR_FENCE_RUNS; i++)
		running += is_open(&f->run[i]) && f->run[i].node == order->node;
	if (running >= AGAINST_ONE)
		return -EALREADY;
	if (!place)
		return -EBUSY;
	if (send(f->fd, order, sizeof(*order), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(*order)) {
		qb_perror(LOG_ERR, "asking the process that runs fence commands");
		return -EBUSY;
	}
	*place = (struct run){ .stage = RUN_RUNS, .node = order->node, .id = order->id, .began_ms = now, .until_ms = now + order->timeout_ms,
			       .fenced_at = last };
	memcpy(place->devices, order->devices, sizeof(place->devices));
	*run = place;
	return 0;
}

/* The run serves a request whose members need so long to settle. If it has settled for those of another array, it may have to go on. */
static void settles(struct run *run, uint32_t settle_ms)
{
	if (settle_ms <= run->settle_ms)
		return;
	run->settle_ms = settle_ms;
	if (run->stage != RUN_SETTLES && run->stage != RUN_ENDED)
		return;
	run->until_ms = run->fenced_ms + settle_ms;
	run->stage = RUN_SETTLES;
}

/* Was its agent given each of @devices? It proves nothing for a disk that it was not given (rule F7). */
static bool covers(const struct run *run, const char *devices)
{
	for (const char *d = devices; d && *d; d += strcspn(d, ","), d += *d == ',') {
		size_t n = strcspn(d, ",");
		const char *at = run->devices;

		while (*at && (strcspn(at, ",") != n || strncmp(at, d, n))) {
			at += strcspn(at, ",");
			at += *at == ',';
		}
		if (!*at)
			return false;
	}
	return true;
}

/* A run against the node that started after it was lost, covers the disks, and has not failed. One that is late has, until it succeeds. */
static struct run *find_run(struct ddr_fence *f, const struct ddr_fence_whom *whom)
{
	for (unsigned int i = 0; i < DDR_FENCE_RUNS; i++) {
		struct run *r = &f->run[i];

		if (r->node == whom->node && r->began_ms >= whom->lost_ms && covers(r, whom->devices) &&
		    (r->stage == RUN_RUNS || r->stage == RUN_SETTLES || (r->stage == RUN_ENDED && r->result == 0)))
			return r;
	}
	return NULL;
}

/* An unused entry; else one that was told about a timeout, whose late success is then not reported. NULL: all wait for an answer. */
static struct request *request_place(struct ddr_fence *f)
{
	struct request *place = NULL;

	for (unsigned int i = 0; i < REQUESTS; i++) {
		struct request *r = &f->request[i];

		if (!r->used)
			return r;
		if (r->told)
			place = r;
	}
	return place;
}

static int begin_run(struct ddr_fence *f, const struct ddr_conf *conf, const struct ddr_fence_whom *whom, struct run **run)
{
	struct ddr_fence_order order = { .node = whom->node, .timeout_ms = conf->fence_timeout_ms, .id = ++f->last_id };
	int ret;

	order.fail_time = fail_time(f, whom->node, whom->name, whom->lost_ms);
	snprintf(order.name, sizeof(order.name), "%s", whom->name);
	snprintf(order.command, sizeof(order.command), "%s", conf->fence_command);
	if (whom->devices && snprintf(order.devices, sizeof(order.devices), "%s%s", whom->devices, whom->more) >= (int)sizeof(order.devices))
		snprintf(order.devices, sizeof(order.devices), "%s", whom->devices);	/* the others ask for themselves */
	ret = start_run(f, &order, run);
	if (ret == 0)
		qb_log(LOG_NOTICE, "fencing node %u (%s): %s", whom->node, *whom->name ? whom->name : "name unknown", conf->fence_command);
	return ret;
}

int ddr_fence_ask(struct ddr_fence *f, const struct ddr_conf *conf, const struct ddr_fence_whom *whom, ddr_fence_done_fn done, void *ctx)
{
	struct request *r = request_place(f);
	struct run *run;
	int ret;

	if (!r || f->fd < 0)
		return r ? -EPIPE : -ENOBUFS;
	run = find_run(f, whom);
	ret = run ? 0 : begin_run(f, conf, whom, &run);
	if (ret)
		return ret;
	settles(run, whom->settle_ms);
	*r = (struct request){ .used = true, .node = whom->node, .failure = whom->failure, .lost_ms = whom->lost_ms, .run = run->id,
			       .done = done, .ctx = ctx };
	set_timer(f);
	return 0;
}

void ddr_fence_forget(struct ddr_fence *f, const void *ctx)
{
	for (unsigned int i = 0; f && i < REQUESTS; i++)
		if (f->request[i].ctx == ctx)
			f->request[i].used = false;
}
