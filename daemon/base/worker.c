// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Work in a thread of its own. See worker.h.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <qb/qblog.h>

#include "daemon/base/worker.h"

#define STACK_BYTES	(512u << 10)	/* all of this process's memory is locked */

static void *thread_main(void *data)
{
	struct ddr_worker *w = data;
	uint64_t one = 1;

	w->run(w);
	if (write(w->event_fd, &one, sizeof(one)) < 0)
		qb_perror(LOG_ERR, "writing an eventfd");
	return NULL;
}

static int32_t on_done(int32_t fd, int32_t revents, void *data)
{
	struct ddr_worker *w = data;

	(void)revents;
	qb_loop_poll_del(w->loop, fd);
	pthread_join((pthread_t)w->thread, NULL);
	close(fd);
	w->done(w);
	return 0;
}

static int thread_start(struct ddr_worker *w)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread = 0;
	int ret;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_sigmask(SIG_BLOCK, &all, &old);	/* signals are the loop's */
	ret = pthread_create(&thread, &attr, thread_main, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	w->thread = (unsigned long)thread;
	return -ret;
}

int ddr_worker_start(struct ddr_worker *w, qb_loop_t *loop)
{
	int ret;

	w->loop = loop;
	w->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->event_fd < 0)
		return -errno;
	ret = qb_loop_poll_add(loop, QB_LOOP_HIGH, w->event_fd, POLLIN, w, on_done);
	if (ret == 0) {
		ret = thread_start(w);
		if (ret == 0)
			return 0;
		qb_loop_poll_del(loop, w->event_fd);
	}
	close(w->event_fd);
	return ret;
}

bool ddr_worker_end(struct ddr_worker *w, unsigned int ms)
{
	struct pollfd p = { .fd = w->event_fd, .events = POLLIN };
	int n;

	do {
		n = poll(&p, 1, (int)ms);
	} while (n < 0 && errno == EINTR);
	if (n != 1)
		return false;
	on_done(w->event_fd, p.revents, w);
	return true;
}
