// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Asynchronous I/O by io_uring. See aio.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/uio.h>

#include <liburing.h>
#include <qb/qblog.h>

#include "daemon/disk/aio.h"

struct uring {
	struct io_uring ring;
};

static unsigned int requests;	/* the largest number of requests of all rings of this process */

/*
 * The kernel hands requests that may block to its workers: each flush, and whatever the driver has no room for at once. By default
 * there are four workers per CPU, shared by all rings of this task: a few flushes that hang would delay those of every array. So
 * there may be one for each request. Workers are created when they are needed, and end when they are idle.
 */
static void allow_workers(struct uring *u)
{
	unsigned int set[2] = { requests, 0 }, now[2] = { 0, 0 };	/* for disks ("bounded" workers in io_uring's terms); for other files unchanged */
	static bool told;
	int ret = io_uring_register_iowq_max_workers(&u->ring, set);

	if (ret == 0)
		ret = io_uring_register_iowq_max_workers(&u->ring, now);
	if (told || (ret == 0 && now[0] >= requests))
		return;
	told = true;
	if (ret)
		qb_log(LOG_WARNING, "cannot set the number of io_uring workers (%s); a flush that hangs may delay other members",
		       qb_strerror_r(-ret, (char[64]){ 0 }, 64));
	else
		qb_log(LOG_WARNING, "io_uring has only %u of %u workers (a limit on processes); a flush that hangs may delay other members",
		       now[0], requests);
}

static int uring_open(struct ddr_aio *q)
{
	struct uring *u = calloc(1, sizeof(*u));
	int ret;

	if (!u)
		return -ENOMEM;
	ret = io_uring_queue_init(q->depth, &u->ring, IORING_SETUP_CLAMP);
	if (ret) {
		free(u);
		return ret;
	}
	io_uring_ring_dontfork(&u->ring);
	ret = io_uring_register_eventfd(&u->ring, q->event_fd);
	if (ret) {
		io_uring_queue_exit(&u->ring);
		free(u);
		return ret;
	}
	requests += q->depth;
	allow_workers(u);
	q->room = q->depth;	/* the completion queue has room for more than that */
	q->priv = u;
	return 0;
}

/*
 * What the kernel was not given yet is given as requests that do nothing, so that it ends like all others: this process stood still between a put and
 * its kick. Reads that may end the hold are given as they are.
 */
static void give_back(const struct ddr_aio *q)
{
	struct uring *u = q->priv;
	struct io_uring_sq *sq = &u->ring.sq;

	for (unsigned int i = sq->sqe_tail - io_uring_sq_ready(&u->ring); i != sq->sqe_tail; i++) {
		struct io_uring_sqe *sqe = &sq->sqes[i & sq->ring_mask];
		struct ddr_aio_req *req = (struct ddr_aio_req *)(uintptr_t)sqe->user_data;

		if (req->look && q->still->looks)
			continue;
		req->late = true;
		io_uring_prep_nop(sqe);
		io_uring_sqe_set_data(sqe, req);
	}
}

static int submit(struct ddr_aio *q)
{
	struct uring *u = q->priv;

	if (ddr_still_held(q->still))
		give_back(q);
	return io_uring_submit(&u->ring);
}

static bool uring_put(struct ddr_aio *q, struct ddr_aio_req *req)
{
	struct uring *u = q->priv;
	struct io_uring_sqe *sqe;

	sqe = io_uring_get_sqe(&u->ring);
	if (!sqe) {
		submit(q);
		sqe = io_uring_get_sqe(&u->ring);
		if (!sqe)
			return false;
	}
	switch (req->op) {
	case DDR_AIO_READ:
		io_uring_prep_read(sqe, req->fd, req->buf, req->len, req->offset);
		break;
	case DDR_AIO_WRITE:
	case DDR_AIO_WRITE_DURABLE:
		io_uring_prep_write(sqe, req->fd, req->buf, req->len, req->offset);
		if (req->op == DDR_AIO_WRITE_DURABLE)
			sqe->rw_flags = RWF_DSYNC;
		break;
	case DDR_AIO_FLUSH:
		io_uring_prep_fsync(sqe, req->fd, IORING_FSYNC_DATASYNC);
		break;
	}
	if (req->op != DDR_AIO_FLUSH)
		sqe->ioprio = (__u16)(req->idle ? q->ioprio_idle : q->ioprio);
	io_uring_sqe_set_data(sqe, req);
	return true;
}

static void uring_kick(struct ddr_aio *q)
{
	struct uring *u = q->priv;
	int ret;

	if (io_uring_sq_ready(&u->ring) == 0)
		return;
	do
		ret = submit(q);
	while (ret == -EINTR);
	/* -EAGAIN, -EBUSY: the entries stay in the ring; the next completion or tick kicks again */
	if (ret < 0 && ret != -EAGAIN && ret != -EBUSY)
		qb_log(LOG_ERR, "io_uring_submit failed with error %d; requests wait and are retried", -ret);
}

static struct ddr_aio_req *uring_get(struct ddr_aio *q)
{
	struct uring *u = q->priv;
	struct io_uring_cqe *cqe;
	struct ddr_aio_req *req;

	if (io_uring_peek_cqe(&u->ring, &cqe))
		return NULL;
	req = io_uring_cqe_get_data(cqe);
	if (cqe->res < 0)
		req->result = cqe->res;
	else if (req->op != DDR_AIO_FLUSH && (uint32_t)cqe->res != req->len)
		req->result = -EIO;
	else
		req->result = 0;
	io_uring_cqe_seen(&u->ring, cqe);
	return req;
}

static void uring_close(struct ddr_aio *q)
{
	struct uring *u = q->priv;

	requests -= q->depth;
	io_uring_queue_exit(&u->ring);
	free(u);
}

const struct ddr_aio_engine ddr_aio_uring = {
	.name = "io_uring",
	.open = uring_open,
	.put = uring_put,
	.kick = uring_kick,
	.get = uring_get,
	.close = uring_close,
};
