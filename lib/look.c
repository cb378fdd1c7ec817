/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Looking at a device that may hang; see look.h. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lib/look.h"

#define STACK_BYTES	(128u << 10)	/* all of the daemon's memory is locked */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* of all that follows, and of refs, next and ended of each look */
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct ddr_look *running;	/* those whose threads have not ended */

static void make_cond(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &attr);
	pthread_condattr_destroy(&attr);
}

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* With the lock. */
static void wait_until(uint64_t ms)
{
	const struct timespec ts = { .tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000 };

	pthread_cond_timedwait(&changed, &lock, &ts);
}

/* With the lock. */
static void put(struct ddr_look *l)
{
	if (--l->refs == 0)
		free(l);
}

/* ---- the thread ------------------------------------------------------------------ */

static void *look(void *data)
{
	struct ddr_look *l = data, **p;
	struct ddr_dev dev;

	if (ddr_dev_open(&dev, l->path, l->flags, &l->error) == 0) {
		l->opened = true;
		l->bytes = dev.bytes;
		ddr_dev_read_supers(&dev, &l->supers, &l->error);
		ddr_dev_close(&dev);
	}
	pthread_mutex_lock(&lock);
	for (p = &running; *p != l; p = &(*p)->next)
		;
	*p = l->next;
	l->ended = true;
	put(l);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* 0 or an errno. */
static int thread_start(struct ddr_look *l)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	int ret;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);	/* nobody could join one that hangs */
	pthread_sigmask(SIG_BLOCK, &all, &old);
	ret = pthread_create(&thread, &attr, look, l);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return ret;
}

/* ---- who waits ------------------------------------------------------------------- */

/* With the lock. Is an earlier thread late in there? Waits for one that is not late yet. */
static bool hangs(const char *path)
{
	struct ddr_look *l = running;

	while (l) {
		if (strcmp(l->path, path) != 0) {
			l = l->next;
			continue;
		}
		if (now_ms() >= l->due_ms)
			return true;
		wait_until(l->due_ms);
		l = running;		/* it may be gone */
	}
	return false;
}

/* With the lock. */
static enum ddr_look_start start(struct ddr_look *l, unsigned int limit_ms, struct ddr_error *err)
{
	int ret;

	if (hangs(l->path))
		return DDR_LOOK_HANGS;
	l->due_ms = now_ms() + limit_ms;
	ret = thread_start(l);
	if (ret) {
		ddr_error_set(err, "%s: no thread to look at it: %s", l->path, strerror(ret));
		return DDR_LOOK_FAILED;
	}
	l->refs++;
	l->next = running;
	running = l;
	return DDR_LOOK_RUNS;
}

enum ddr_look_start ddr_look_start(struct ddr_look **look, const char *path, unsigned int flags, unsigned int limit_ms, struct ddr_error *err)
{
	struct ddr_look *l = calloc(1, sizeof(*l));
	enum ddr_look_start ret;

	*look = NULL;
	if (!l) {
		ddr_error_set(err, "out of memory");
		return DDR_LOOK_FAILED;
	}
	snprintf(l->path, sizeof(l->path), "%s", path);
	l->flags = flags;
	l->refs = 1;
	l->supers.newest = -1;
	pthread_once(&once, make_cond);
	pthread_mutex_lock(&lock);
	ret = start(l, limit_ms, err);
	pthread_mutex_unlock(&lock);
	if (ret == DDR_LOOK_RUNS)
		*look = l;
	else
		free(l);
	return ret;
}

bool ddr_look_wait(struct ddr_look *l)
{
	bool ended;

	pthread_mutex_lock(&lock);
	while (!l->ended && now_ms() < l->due_ms)
		wait_until(l->due_ms);
	ended = l->ended;
	pthread_mutex_unlock(&lock);
	return ended;
}

void ddr_look_put(struct ddr_look *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&lock);
	put(l);
	pthread_mutex_unlock(&lock);
}
