// SPDX-License-Identifier: GPL-2.0-or-later
/* The twin of libqb's loop: what is due is called by the schedule, one at a time, in any order. */
#include <errno.h>
#include <stdlib.h>

#include <qb/qbloop.h>

#include "daemon/base/waited.h"
#include "twin.h"

#define TIMERS	64u
#define POLLS	128u

struct qb_loop {
	struct timer { uint64_t handle, due_ns, ns; enum qb_loop_priority prio; void *data; qb_loop_timer_dispatch_fn fn; } timer[TIMERS];	/* handle 0: free */
	struct poll { bool used; int fd, events; enum qb_loop_priority prio; void *data; qb_loop_poll_dispatch_fn fn; } poll[POLLS];
	uint64_t handles;
};

qb_loop_t *qb_loop_create(void)
{
	return calloc(1, sizeof(struct qb_loop));
}

int32_t qb_loop_timer_add(qb_loop_t *l, enum qb_loop_priority p, uint64_t ns, void *data, qb_loop_timer_dispatch_fn fn, qb_loop_timer_handle *handle)
{
	for (struct timer *t = l->timer; t < l->timer + TIMERS; t++)
		if (!t->handle) {
			*t = (struct timer){ ++l->handles, twin_ms(me) * 1000000 + ns, ns, p, data, fn };
			*handle = t->handle;
			return 0;
		}
	return -ENOMEM;
}

int32_t qb_loop_timer_del(qb_loop_t *l, qb_loop_timer_handle handle)
{
	for (struct timer *t = l->timer; t < l->timer + TIMERS; t++)
		if (t->handle && t->handle == handle) {
			t->handle = 0;
			return 0;
		}
	return -ENOENT;
}

static struct poll *find(qb_loop_t *l, int fd)
{
	for (struct poll *p = l->poll; p < l->poll + POLLS; p++)
		if (p->used && p->fd == fd)
			return p;
	return NULL;
}

int32_t qb_loop_poll_add(qb_loop_t *l, enum qb_loop_priority prio, int32_t fd, int32_t events, void *data, qb_loop_poll_dispatch_fn fn)
{
	if (find(l, fd))
		return -EEXIST;
	for (struct poll *p = l->poll; p < l->poll + POLLS; p++)
		if (!p->used) {
			*p = (struct poll){ true, fd, events, prio, data, fn };
			return 0;
		}
	return -ENOMEM;
}

int32_t qb_loop_poll_mod(qb_loop_t *l, enum qb_loop_priority prio, int32_t fd, int32_t events, void *data, qb_loop_poll_dispatch_fn fn)
{
	struct poll *p = find(l, fd);

	if (!p)
		return -EBADF;
	*p = (struct poll){ true, fd, events, prio, data, fn };
	return 0;
}

int32_t qb_loop_poll_del(qb_loop_t *l, int32_t fd)
{
	struct poll *p = find(l, fd);

	if (!p)
		return -EBADF;
	p->used = false;
	return 0;
}

bool twin_loop_polls(const struct proc *p, int fd)
{
	return find(p->d->loop, fd);
}

static bool due(const struct proc *p, const struct timer *t)
{
	return t->handle && t->due_ns <= twin_ms(p) * 1000000;
}

static int ready(const struct poll *p)
{
	return !p->used ? 0 : (p->events & POLLIN && twin_ready(p->fd, POLLIN) ? POLLIN : 0) | (p->events & POLLOUT && twin_ready(p->fd, POLLOUT) ? POLLOUT : 0);
}

unsigned int twin_loop_ready(const struct proc *p)
{
	const struct qb_loop *l = p->d->loop;
	unsigned int n = 0;

	for (const struct timer *t = l->timer; t < l->timer + TIMERS; t++)
		n += due(p, t);
	for (const struct poll *f = l->poll; f < l->poll + POLLS; f++)
		n += ready(f) != 0;
	return n;
}

uint64_t twin_loop_kind(const struct proc *p, unsigned int which)
{
	const struct qb_loop *l = p->d->loop;

	for (const struct timer *t = l->timer; t < l->timer + TIMERS; t++)
		if (due(p, t) && which-- == 0)
			return (uint64_t)(1 + t->prio) << 32 | (t->ns / 1000000 & 0xffffffff);
	for (const struct poll *f = l->poll; f < l->poll + POLLS; f++)
		if (ready(f) && which-- == 0)
			return (uint64_t)(9 + f->prio) << 32 | (uint64_t)twin_file(f->fd)->kind;
	return 0;
}

static void call_timer(struct timer *t)
{
	struct timer now = *t;

	t->handle = 0;
	now.fn(now.data);
}

void twin_loop_call(const struct proc *p, unsigned int which)
{
	struct qb_loop *l = p->d->loop;

	for (struct timer *t = l->timer; t < l->timer + TIMERS; t++)
		if (due(p, t) && which-- == 0) {
			call_timer(t);
			return;
		}
	for (const struct poll *f = l->poll; f < l->poll + POLLS; f++)
		if (ready(f) && which-- == 0) {
			struct poll now = *f;

			now.fn(now.fd, ready(&now), now.data);
			return;
		}
}

/* The world's processors are never short. */
uint64_t ddr_waited_ms(void)
{
	return 0;
}

void twin_loop_timers(const struct proc *p)
{
	struct qb_loop *l = p->d->loop;
	uint64_t last = l->handles;

	for (struct timer *t = l->timer; t < l->timer + TIMERS; t++)
		if (due(p, t) && t->handle <= last)
			call_timer(t);
}

void twin_loop_event(const struct proc *p, int fd)
{
	const struct poll *f = find(p->d->loop, fd);

	if (f) {
		struct poll now = *f;

		now.fn(fd, POLLIN, now.data);
	}
}
