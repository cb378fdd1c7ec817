// SPDX-License-Identifier: GPL-2.0-or-later
/* Questions to corosync, in a thread. See ask.h. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <qb/qblog.h>

#include "daemon/base/clock.h"
#include "daemon/base/worker.h"
#include "daemon/group/ask.h"

#define RETRY_MS	200u	/* after a thread that could not be started */
#define DAY_S		86400u

struct ddr_asks {
	qb_loop_t *loop;
	struct qb_list_head list;	/* that wait, in their order */
	struct ddr_ask *now;		/* the thread works on it */
	struct ddr_worker worker;
	uint64_t since_ms;		/* since then */
	char since[DDR_ASK_MOMENT];	/* the same, as text */
	bool told;			/* that corosync does not answer */
	bool stuck;			/* no thread can be started, and that was logged */
	qb_loop_timer_handle retry, late;
};

static void begin(struct ddr_asks *s);

static void stop_timer(struct ddr_asks *s, qb_loop_timer_handle *timer)
{
	if (*timer)
		qb_loop_timer_del(s->loop, *timer);
	*timer = 0;
}

/* No time of day by libc: it reads the file of the time zone, which may lie on an array. */
const char *ddr_ask_moment(uint64_t ms_ago, char *buf, size_t size)
{
	unsigned int second = (unsigned int)(((uint64_t)time(NULL) - ms_ago / 1000) % DAY_S);

	snprintf(buf, size, "%02u:%02u:%02u UTC", second / 3600, second / 60 % 60, second % 60);
	return buf;
}

static void describe(const struct ddr_asks *s, char *buf, size_t size)
{
	snprintf(buf, size, "ddraidd on this node waits for corosync: it was asked to %s at %s and has not answered. See systemctl status corosync and corosync's log. "
			    "If its process is stopped: kill -CONT PID; if it hangs, restart this node", s->now->what, s->since);
}

static void on_late(void *data)
{
	struct ddr_asks *s = data;
	char text[DDR_ASK_TEXT];

	s->late = 0;
	s->told = true;
	describe(s, text, sizeof(text));
	qb_log(LOG_WARNING, "%s", text);
}

static void answered(struct ddr_asks *s)
{
	stop_timer(s, &s->late);
	if (s->told)
		qb_log(LOG_NOTICE, "corosync has answered ddraidd after %" PRIu64 " s: it was asked to %s", (ddr_now_ms() - s->since_ms) / 1000, s->now->what);
	s->told = false;
}

static void run(struct ddr_worker *w)
{
	struct ddr_asks *s = ddr_worker_of(w, struct ddr_asks, worker);

	s->now->run(s->now);
}

/* The next one is begun after done(), which may put another one. */
static void done(struct ddr_worker *w)
{
	struct ddr_asks *s = ddr_worker_of(w, struct ddr_asks, worker);
	struct ddr_ask *a = s->now;

	answered(s);
	s->now = NULL;
	a->done(a);
	begin(s);
}

static void on_retry(void *data)
{
	struct ddr_asks *s = data;

	s->retry = 0;
	begin(s);
}

/* What may end soon is tried again: memory, threads, descriptors. */
static void no_thread(struct ddr_asks *s, int error)
{
	if (!s->stuck)
		qb_log(LOG_ERR, "ddraidd cannot start a thread to ask corosync (%s); retrying", strerror(error));
	s->stuck = true;
	if (qb_loop_timer_add(s->loop, QB_LOOP_HIGH, RETRY_MS * QB_TIME_NS_IN_MSEC, s, on_retry, &s->retry))
		qb_log(LOG_CRIT, "out of memory for a timer: this daemon asks corosync nothing any more. Free memory, then: systemctl restart ddraidd; the arrays "
				 "stay up");
}

static void begin(struct ddr_asks *s)
{
	int ret;

	if (s->now || s->retry || qb_list_empty(&s->list))
		return;
	s->now = qb_list_first_entry(&s->list, struct ddr_ask, list);
	qb_list_del(&s->now->list);
	s->worker.run = run;
	s->worker.done = done;
	s->since_ms = ddr_now_ms();
	ddr_ask_moment(0, s->since, sizeof(s->since));
	ret = ddr_worker_start(&s->worker, s->loop);
	if (ret) {
		qb_list_add(&s->now->list, &s->list);
		s->now = NULL;
		no_thread(s, -ret);
		return;
	}
	s->stuck = false;
	if (qb_loop_timer_add(s->loop, QB_LOOP_LOW, DDR_ASK_LATE_MS * QB_TIME_NS_IN_MSEC, s, on_late, &s->late))
		s->late = 0;	/* it is not logged, and status has it all the same */
}

int ddr_asks_open(struct ddr_asks **out, qb_loop_t *loop)
{
	struct ddr_asks *s = *out = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->loop = loop;
	qb_list_init(&s->list);
	return 0;
}

void ddr_asks_put(struct ddr_asks *s, struct ddr_ask *a)
{
	qb_list_add_tail(&a->list, &s->list);
	begin(s);
}

void ddr_asks_put_first(struct ddr_asks *s, struct ddr_ask *a)
{
	qb_list_add(&a->list, &s->list);
	begin(s);
}

bool ddr_asks_idle(const struct ddr_asks *s)
{
	return !s->now && qb_list_empty(&s->list);
}

bool ddr_asks_late(const struct ddr_asks *s, char *buf, size_t size)
{
	if (!s || !s->now || ddr_now_ms() - s->since_ms < DDR_ASK_LATE_MS)
		return false;
	describe(s, buf, size);
	return true;
}

void ddr_asks_close(struct ddr_asks *s, unsigned int ms)
{
	uint64_t until = ddr_now_ms() + ms, now;

	if (!s)
		return;
	while (s->now) {
		now = ddr_now_ms();
		if (!ddr_worker_end(&s->worker, now < until ? (unsigned int)(until - now) : 0)) {
			qb_log(LOG_WARNING, "ddraidd ends although corosync was asked to %s and has not answered for %" PRIu64 " s: corosync drops this process "
					    "from its groups once it runs again. See systemctl status corosync", s->now->what, (now - s->since_ms) / 1000);
			return;
		}
	}
	stop_timer(s, &s->retry);
	free(s);
}
