/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Looking at a device that may hang; see look.h. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lib/disk/foreign.h"
#include "lib/disk/look.h"
#include "lib/disk/task.h"

#define STACK_BYTES	(192u << 10)	/* all of the daemon's memory is locked */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;	/* protects all that follows, and refs, next and ended of each look */
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct ddr_look *running;	/* the looks whose threads have not ended */

static void make_cond(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &attr);
	pthread_condattr_destroy(&attr);
}

uint64_t ddr_look_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Call with the lock held. */
static void wait_until(uint64_t ms)
{
	const struct timespec ts = { .tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000 };

	pthread_cond_timedwait(&changed, &lock, &ts);
}

/* Call without the lock: closing a device may block, too. */
static void destroy(struct ddr_look *l)
{
	ddr_dev_close(&l->dev);
	free(l->buf);
	free(l);
}

/* ---- the thread ------------------------------------------------------------------ */

/* Is there nothing that a brief look would read? It counts as ended for those who want more: they start one of their own. */
static bool stops_here(struct ddr_look *l)
{
	bool brief;

	pthread_mutex_lock(&lock);
	brief = l->brief;
	pthread_mutex_unlock(&lock);
	if (!brief || ddr_dev_may_be_member(&l->dev))
		return false;
	pthread_mutex_lock(&lock);
	l->cut_short = brief = l->brief;
	pthread_mutex_unlock(&lock);
	return brief;
}

/*
 * Reads the superblocks, and searches for other signatures. A lack of memory in that search is ignored: it says
 * nothing about the disk.
 */
static void read_member(struct ddr_look *l)
{
	struct ddr_error ignored;

	if (stops_here(l))
		return;
	if (ddr_dev_read_supers(&l->dev, &l->supers, &l->error) == 0 && l->what != DDR_LOOK_READ)
		ddr_foreign_find(&l->dev, &l->supers.copy[l->supers.newest].super, l->foreign, sizeof(l->foreign), &ignored);
}

/* Reads or writes a part of the device. */
static bool move_bytes(struct ddr_look *l)
{
	if (l->what == DDR_LOOK_BYTES)
		return ddr_dev_read(&l->dev, l->buf, l->len, l->offset, &l->error) == 0;
	return ddr_dev_write(&l->dev, l->buf, l->len, l->offset, &l->error) == 0 && ddr_dev_sync(&l->dev, &l->error) == 0;
}

static void *look(void *data)
{
	struct ddr_look *l = data, **p;
	bool last;

	pthread_mutex_lock(&lock);
	l->tid = (int)syscall(SYS_gettid);
	pthread_mutex_unlock(&lock);
	l->opened = l->dev.fd >= 0 || ddr_dev_open(&l->dev, l->path, l->flags, &l->error) == 0;
	l->bytes = l->dev.bytes;
	if (l->opened && (l->what == DDR_LOOK_BYTES || l->what == DDR_LOOK_WRITE))
		l->whole = move_bytes(l);
	else if (l->opened && l->what != DDR_LOOK_OPEN)
		read_member(l);
	if (l->what != DDR_LOOK_OPEN)
		ddr_dev_close(&l->dev);		/* before it counts as ended: from then on it must hold no lock */
	pthread_mutex_lock(&lock);
	for (p = &running; *p != l; p = &(*p)->next)
		;
	*p = l->next;
	l->ended = true;
	last = --l->refs == 0;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	if (last)
		destroy(l);
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
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);	/* a thread that hangs could not be joined */
	pthread_sigmask(SIG_BLOCK, &all, &old);
	ret = pthread_create(&thread, &attr, look, l);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return ret;
}

/* ---- waiting ----------------------------------------------------------------------- */

/* Call with the lock held. Is an earlier thread for this path late? Waits for one that is not late yet. */
static bool hangs(const char *path)
{
	struct ddr_look *l = running;

	while (l) {
		if (strcmp(l->path, path) != 0) {
			l = l->next;
			continue;
		}
		if (ddr_look_now() >= l->due_ms)
			return true;
		wait_until(l->due_ms);
		l = running;		/* it may have been freed */
	}
	return false;
}

/*
 * Call with the lock held. Finds a thread for this path that is late, of any kind, or (@joinable) one that is not
 * late and that several callers may wait for.
 */
static struct ddr_look *find_running(const char *path, unsigned int flags, bool joinable)
{
	struct ddr_look *l;

	for (l = running; l; l = l->next)
		if (strcmp(l->path, path) == 0 && (ddr_look_now() >= l->due_ms) == !joinable &&
		    (!joinable || (l->what == DDR_LOOK_ALL && l->flags == flags)))
			return l;
	return NULL;
}

/* Call with the lock held. A running look that gives what @l is to give, or NULL. */
static struct ddr_look *join(const struct ddr_look *l)
{
	struct ddr_look *other = find_running(l->path, l->flags, true);

	if (!other || (other->cut_short && !l->brief))
		return NULL;
	other->brief &= l->brief;
	other->refs++;
	return other;
}

/* Call with the lock held. */
static enum ddr_look_start start(struct ddr_look *l, unsigned int limit_ms, struct ddr_error *err)
{
	int ret;

	if (l->what == DDR_LOOK_ALL ? find_running(l->path, 0, false) != NULL : hangs(l->path))
		return DDR_LOOK_HANGS;
	l->due_ms = ddr_look_now() + limit_ms;
	ret = thread_start(l);
	if (ret) {
		ddr_error_call(err, ret, "%s: cannot create a thread that reads it: %s", l->path, strerror(ret));
		err->own = true;	/* whatever the error: no thread has touched the device */
		return DDR_LOOK_FAILED;
	}
	l->refs++;
	l->next = running;
	running = l;
	return DDR_LOOK_RUNS;
}

static struct ddr_look *look_new(const char *path, unsigned int flags, struct ddr_error *err)
{
	struct ddr_look *l = calloc(1, sizeof(*l));

	if (!l) {
		ddr_error_call(err, ENOMEM, "out of memory");
		return NULL;
	}
	snprintf(l->path, sizeof(l->path), "%s", path);
	l->flags = flags & ~DDR_LOOK_BRIEF;
	l->brief = flags & DDR_LOOK_BRIEF;
	l->dev.fd = -1;
	l->refs = 1;
	l->supers.newest = -1;
	return l;
}

/* Takes over @l; NULL: out of memory. */
static enum ddr_look_start begin(struct ddr_look **look, struct ddr_look *l, unsigned int limit_ms, struct ddr_error *err)
{
	enum ddr_look_start ret = DDR_LOOK_FAILED;

	*look = NULL;
	if (!l)
		return ret;
	pthread_once(&once, make_cond);
	pthread_mutex_lock(&lock);
	*look = l->what == DDR_LOOK_ALL ? join(l) : NULL;
	ret = *look ? DDR_LOOK_RUNS : start(l, limit_ms, err);
	pthread_mutex_unlock(&lock);
	if (!*look && ret == DDR_LOOK_RUNS)
		*look = l;
	else
		destroy(l);
	return ret;
}

enum ddr_look_start ddr_look_start(struct ddr_look **look, const char *path, unsigned int flags, unsigned int limit_ms, struct ddr_error *err)
{
	return begin(look, look_new(path, flags, err), limit_ms, err);
}

enum ddr_look_start ddr_look_open(struct ddr_look **look, const char *path, unsigned int flags, unsigned int limit_ms, struct ddr_error *err)
{
	struct ddr_look *l = look_new(path, flags, err);

	if (l)
		l->what = DDR_LOOK_OPEN;
	return begin(look, l, limit_ms, err);
}

/* A look at a device that is open, through a descriptor of its own; with @len bytes of memory if something is to be read. */
static struct ddr_look *look_opened(const struct ddr_dev *dev, int what, size_t len, struct ddr_error *err)
{
	struct ddr_look *l = look_new(dev->path, 0, err);

	if (!l)
		return NULL;
	l->what = what;
	l->len = len;
	l->buf = len ? ddr_dev_buffer(len) : NULL;
	if (ddr_dev_dup(dev, &l->dev) == 0 && (l->buf || !len))
		return l;
	ddr_error_call(err, ENOMEM, "%s: out of memory or file descriptors while reading it", dev->path);
	destroy(l);
	return NULL;
}

enum ddr_look_start ddr_look_read(struct ddr_look **look, const struct ddr_dev *dev, unsigned int limit_ms, struct ddr_error *err)
{
	return begin(look, look_opened(dev, DDR_LOOK_READ, 0, err), limit_ms, err);
}

enum ddr_look_start ddr_look_member(struct ddr_look **look, const struct ddr_dev *dev, unsigned int limit_ms, struct ddr_error *err)
{
	return begin(look, look_opened(dev, DDR_LOOK_MEMBER, 0, err), limit_ms, err);
}

enum ddr_look_start ddr_look_bytes(struct ddr_look **look, const struct ddr_dev *dev, uint64_t offset, size_t len, unsigned int limit_ms, struct ddr_error *err)
{
	struct ddr_look *l = look_opened(dev, DDR_LOOK_BYTES, len, err);

	if (l)
		l->offset = offset;
	return begin(look, l, limit_ms, err);
}

enum ddr_look_start ddr_look_write(struct ddr_look **look, const struct ddr_dev *dev, const void *from, uint64_t offset, size_t len, unsigned int limit_ms,
				   struct ddr_error *err)
{
	struct ddr_look *l = look_opened(dev, DDR_LOOK_WRITE, len, err);

	if (l) {
		l->offset = offset;
		memcpy(l->buf, from, len);
	}
	return begin(look, l, limit_ms, err);
}

bool ddr_look_wait(struct ddr_look *l)
{
	bool ended;

	pthread_mutex_lock(&lock);
	while (!l->ended && ddr_look_now() < l->due_ms)
		wait_until(l->due_ms);
	ended = l->ended;
	pthread_mutex_unlock(&lock);
	return ended;
}

int ddr_look_wait_first(struct ddr_look *const look[], size_t n, uint64_t until_ms)
{
	int found = -1;

	pthread_mutex_lock(&lock);
	while (found < 0) {
		uint64_t now = ddr_look_now(), next = until_ms;

		for (size_t i = 0; i < n && found < 0; i++) {
			if (look[i]->ended || now >= look[i]->due_ms)
				found = (int)i;
			next = look[i]->due_ms < next ? look[i]->due_ms : next;
		}
		if (found < 0 && now >= until_ms)
			break;
		if (found < 0)
			wait_until(next);
	}
	pthread_mutex_unlock(&lock);
	return found;
}

bool ddr_look_ended(struct ddr_look *l)
{
	bool ended;

	pthread_mutex_lock(&lock);
	ended = l->ended;
	pthread_mutex_unlock(&lock);
	return ended;
}

/*
 * By its context switches: a thread that waits for one answer has none. A thread that runs, or may be running, counts
 * as making progress.
 */
uint64_t ddr_look_moves(struct ddr_look *l)
{
	static uint64_t runs = 1ull << 63;
	struct ddr_task task;
	char path[64];
	int tid;

	pthread_mutex_lock(&lock);
	tid = l->tid;
	pthread_mutex_unlock(&lock);
	snprintf(path, sizeof(path), "/proc/self/task/%d/status", tid);
	if (tid && !ddr_task_read(&task, path))
		return 0;
	return tid && task.state != 'R' ? task.switches : __atomic_add_fetch(&runs, 1, __ATOMIC_RELAXED);
}

bool ddr_look_tell(const char *path)
{
	bool first = false;

	pthread_mutex_lock(&lock);
	for (struct ddr_look *l = running; l; l = l->next)
		if (strcmp(l->path, path) == 0 && ddr_look_now() >= l->due_ms) {
			first |= !l->told;
			l->told = true;
		}
	pthread_mutex_unlock(&lock);
	return first;
}

void ddr_look_put(struct ddr_look *l)
{
	bool last;

	if (!l)
		return;
	pthread_mutex_lock(&lock);
	last = --l->refs == 0;
	pthread_mutex_unlock(&lock);
	if (last)
		destroy(l);
}
