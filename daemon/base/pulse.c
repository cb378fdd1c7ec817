// SPDX-License-Identifier: GPL-2.0-or-later
/* Deadlines of the loop. See pulse.h. */
#include <errno.h>
#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <qb/qblog.h>

#include "daemon/base/clock.h"
#include "daemon/base/pulse.h"

static int32_t on_timer(int32_t fd, int32_t revents, void *data)
{
	struct ddr_pulse *p = data;
	uint64_t times;

	(void)revents;
	if (read(fd, &times, sizeof(times)) < 0)
		return 0;	/* it was put off meanwhile */
	p->due(p->ctx);		/* may free it */
	return 0;
}

int ddr_pulse_open(struct ddr_pulse *p, qb_loop_t *loop, enum qb_loop_priority priority, void (*due)(void *ctx), void *ctx)
{
	int ret;

	*p = (struct ddr_pulse){ .loop = loop, .due = due, .ctx = ctx, .due_ms = DDR_PULSE_NEVER };
	p->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (p->fd < 0)
		return -errno;
	ret = qb_loop_poll_add(loop, priority, p->fd, POLLIN, p, on_timer);
	if (ret)
		close(p->fd);
	p->open = ret == 0;
	return ret;
}

void ddr_pulse_close(struct ddr_pulse *p)
{
	if (!p->open)
		return;
	qb_loop_poll_del(p->loop, p->fd);
	close(p->fd);
	p->open = false;
}

void ddr_pulse_set(struct ddr_pulse *p, uint64_t due_ms)
{
	struct itimerspec at = { 0 };
	uint64_t now, ms;

	p->due_ms = due_ms;
	if (!p->open)
		return;
	if (due_ms != DDR_PULSE_NEVER) {
		now = ddr_now_ms();
		ms = due_ms > now ? due_ms - now : 0;
		at.it_value.tv_sec = (time_t)(ms / 1000);
		at.it_value.tv_nsec = (long)(ms % 1000 * 1000000) + (ms ? 0 : 1);	/* all 0 would be never */
	}
	if (timerfd_settime(p->fd, 0, &at, NULL))
		qb_perror(LOG_CRIT, "setting a timer");
}
