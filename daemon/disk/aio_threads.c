// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Asynchronous I/O by threads, where the kernel refuses io_uring. See aio.h.
 *
 * A thread that waits in the kernel for a member keeps the process's files open, and with them the lock on the member, as an io_uring
 * request does.
 *
 * The pool never has more requests than threads, so no request waits in here for another one that hangs; aio.c decides how many of
 * them each member may have. Half of the threads suffice for one request to each member that an array can have.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <ddraid/format.h>
#include <qb/qblog.h>

#include "daemon/disk/aio.h"

#define THREADS_MAX	32u
_Static_assert(THREADS_MAX / 2 >= DDR_MAX_MEMBERS, "a thread for each member of an array, whatever the others do");
#define STACK_BYTES	(128u << 10)
#define IOPRIO_WHO_PROCESS 1

struct pool {
	struct ddr_aio *q;
	pthread_mutex_t lock;		/* protects everything below */
	pthread_cond_t work;
	struct ddr_aio_req *todo, **todo_tail;
	struct ddr_aio_req *ended, **ended_tail;
	bool stop;
	unsigned int threads;
	pthread_t thread[THREADS_MAX];
};

static int transfer(const struct ddr_aio_req *req)
{
	struct iovec iov = { .iov_base = req->buf, .iov_len = req->len };
	ssize_t n;

	switch (req->op) {
	case DDR_AIO_READ:
		n = preadv2(req->fd, &iov, 1, (off_t)req->offset, 0);
		break;
	case DDR_AIO_WRITE:
		n = pwritev2(req->fd, &iov, 1, (off_t)req->offset, 0);
		break;
	case DDR_AIO_WRITE_DURABLE:
		n = pwritev2(req->fd, &iov, 1, (off_t)req->offset, RWF_DSYNC);
		break;
	default:
		return fdatasync(req->fd) ? -errno : 0;
	}
	if (n < 0)
		return -errno;
	return (uint32_t)n == req->len ? 0 : -EIO;
}

static bool is_write(const struct ddr_aio_req *req)
{
	return req->op == DDR_AIO_WRITE || req->op == DDR_AIO_WRITE_DURABLE;
}

static void append(struct ddr_aio_req ***tail, struct ddr_aio_req *req)
{
	req->next = NULL;
	**tail = req;
	*tail = &req->next;
}

static struct ddr_aio_req *take(struct ddr_aio_req **head, struct ddr_aio_req ***tail)
{
	struct ddr_aio_req *req = *head;

	if (req) {
		*head = req->next;
		if (!*head)
			*tail = head;
	}
	return req;
}

static void *worker(void *data)
{
	struct pool *p = data;
	struct ddr_aio_req *req;
	uint64_t one = 1;

	if (p->q->ioprio)
		syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, p->q->ioprio);
	pthread_mutex_lock(&p->lock);
	for (;;) {
		req = take(&p->todo, &p->todo_tail);
		if (!req) {
			if (p->stop)
				break;
			pthread_cond_wait(&p->work, &p->lock);
			continue;
		}
		pthread_mutex_unlock(&p->lock);
		req->late = is_write(req) && ddr_still_late(p->q->still);
		if (!req->late)
			req->result = transfer(req);
		pthread_mutex_lock(&p->lock);
		append(&p->ended_tail, req);
		if (write(p->q->event_fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
			qb_perror(LOG_ERR, "writing an eventfd");
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void pool_stop(struct pool *p)
{
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
	for (unsigned int i = 0; i < p->threads; i++)
		pthread_join(p->thread[i], NULL);
	pthread_cond_destroy(&p->work);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

static int pool_start(struct pool *p)
{
	unsigned int want = p->q->depth < THREADS_MAX ? p->q->depth : THREADS_MAX;
	sigset_t all, old;
	pthread_attr_t attr;
	int ret = 0;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	pthread_sigmask(SIG_BLOCK, &all, &old);	/* only the loop handles signals */
	while (p->threads < want && ret == 0) {
		ret = pthread_create(&p->thread[p->threads], &attr, worker, p);
		if (ret == 0)
			p->threads++;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	p->q->room = p->threads;
	return p->threads == want ? 0 : -ret;	/* with fewer threads one member might have to wait for another one */
}

static int threads_open(struct ddr_aio *q)
{
	struct pool *p = calloc(1, sizeof(*p));
	int ret;

	if (!p)
		return -ENOMEM;
	p->q = q;
	p->todo_tail = &p->todo;
	p->ended_tail = &p->ended;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	ret = pool_start(p);
	if (ret) {
		pool_stop(p);
		return ret;
	}
	q->priv = p;
	return 0;
}

static bool threads_put(struct ddr_aio *q, struct ddr_aio_req *req)
{
	struct pool *p = q->priv;

	pthread_mutex_lock(&p->lock);
	append(&p->todo_tail, req);
	pthread_cond_signal(&p->work);
	pthread_mutex_unlock(&p->lock);
	return true;
}

static void threads_kick(struct ddr_aio *q)
{
	(void)q;
}

static struct ddr_aio_req *threads_get(struct ddr_aio *q)
{
	struct pool *p = q->priv;
	struct ddr_aio_req *req;

	pthread_mutex_lock(&p->lock);
	req = take(&p->ended, &p->ended_tail);
	pthread_mutex_unlock(&p->lock);
	return req;
}

static void threads_close(struct ddr_aio *q)
{
	pool_stop(q->priv);
}

const struct ddr_aio_engine ddr_aio_threads = {
	.name = "threads",
	.open = threads_open,
	.put = threads_put,
	.kick = threads_kick,
	.get = threads_get,
	.close = threads_close,
};
