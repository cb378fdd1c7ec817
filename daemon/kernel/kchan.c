// SPDX-License-Identifier: GPL-2.0-or-later
/* The channel of one array. See kchan.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <qb/qblog.h>

#include "daemon/kernel/kchan.h"

#define BATCH	256u
#define RING	(DDR_KCHAN_QUEUE + 1)	/* the last entry is reserved for KILL */

struct ddr_kchan {
	qb_loop_t *loop;
	const struct ddr_kchan_ops *ops;
	void *ctx;
	int fd;
	bool started, polls_out;
	bool quiet;				/* held: nothing is asked of the descriptor but whether the array is gone */
	bool failed;				/* superseded, or closed */
	bool deaf;				/* the array is gone: nothing is written any more, the remaining records are read */
	bool killed;				/* KILL was queued */
	unsigned int head, n;			/* queue: a ring */
	struct ddr_rec queue[RING];
	struct ddr_rec tx[BATCH], rx[BATCH];	/* two buffers: records may be written while received ones are processed */
};

static int32_t on_ready(int32_t fd, int32_t revents, void *data);

/* CLOCK_BOOTTIME in ns: grows strictly from bind to bind while the kernel that remembers the last one runs, and needs no file. */
static uint64_t next_epoch(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

int ddr_kchan_open(struct ddr_kchan **out, qb_loop_t *loop, struct ddr_bind *bind,
		   const struct ddr_kchan_ops *ops, void *ctx)
{
	struct ddr_kchan *c = calloc(1, sizeof(*c));
	int ret;

	*out = NULL;
	if (!c)
		return -ENOMEM;
	c->loop = loop;
	c->ops = ops;
	c->ctx = ctx;
	c->fd = open("/dev/" DDR_DEVICE_NAME, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (c->fd < 0) {
		ret = -errno;
		goto fail;
	}
	bind->abi = DDR_ABI_VERSION;
	bind->flags = DDR_BIND_F_LOADED;
	bind->epoch = next_epoch();
	if (ioctl(c->fd, DDR_IOC_BIND, bind)) {
		ret = -errno;
		goto fail;
	}
	*out = c;
	return 0;

fail:
	if (c->fd >= 0)
		close(c->fd);
	free(c);
	return ret;
}

static void poll_for(struct ddr_kchan *c, bool out, bool quiet)
{
	int events = quiet ? 0 : out ? POLLIN | POLLOUT : POLLIN;

	if (c->started && (c->polls_out != out || c->quiet != quiet))
		qb_loop_poll_mod(c->loop, QB_LOOP_HIGH, c->fd, events, c, on_ready);
	c->polls_out = c->started && out;
	c->quiet = c->started && quiet;
}

static void poll_out(struct ddr_kchan *c, bool on)
{
	poll_for(c, on, false);
}

static bool held(struct ddr_kchan *c)
{
	if (!c->ops->held || !c->ops->held(c->ctx))
		return false;
	poll_for(c, c->polls_out, true);
	return true;
}

int ddr_kchan_start(struct ddr_kchan *c)
{
	int ret = qb_loop_poll_add(c->loop, QB_LOOP_HIGH, c->fd, POLLIN, c, on_ready);

	c->started = ret == 0;
	if (c->failed)
		poll_out(c, true);	/* seen before it could be reported: on_ready() will report it */
	return ret;
}

void ddr_kchan_close(struct ddr_kchan *c)
{
	if (!c)
		return;
	if (c->started)
		qb_loop_poll_del(c->loop, c->fd);
	if (c->fd >= 0)
		close(c->fd);
	free(c);
}

unsigned int ddr_kchan_room(const struct ddr_kchan *c)
{
	return c->n < DDR_KCHAN_QUEUE ? DDR_KCHAN_QUEUE - c->n : 0;
}

bool ddr_kchan_put(struct ddr_kchan *c, const struct ddr_rec *rec)
{
	bool kill = rec->type == DDR_U_KILL;

	if ((kill && c->killed) || (c->failed && !c->deaf))
		return true;	/* KILL is on its way already; the kernel does not read this channel any more, and gone() will be called */
	if (c->n >= DDR_KCHAN_QUEUE && !kill)
		return false;
	c->killed |= kill;
	c->queue[(c->head + c->n) % RING] = *rec;
	c->n++;
	return true;
}

bool ddr_kchan_take(struct ddr_kchan *c, struct ddr_rec *rec)
{
	if (c->n == 0)
		return false;
	*rec = c->queue[c->head];
	c->head = (c->head + 1) % RING;
	c->n--;
	return true;
}

/* Copies the front of the queue to tx; returns the number of records. */
static unsigned int front(struct ddr_kchan *c)
{
	unsigned int n = c->n < BATCH ? c->n : BATCH;

	for (unsigned int i = 0; i < n; i++)
		c->tx[i] = c->queue[(c->head + i) % RING];
	return n;
}

static void advance(struct ddr_kchan *c, unsigned int n)
{
	c->head = (c->head + n) % RING;
	c->n -= n;
}

/* The kernel refused a record: it changed nothing, so the others remain valid. */
static void refused(const struct ddr_rec *rec, int error)
{
	/* -ENOENT: an answer to a request that has ended meanwhile (a bio that was requeued, an array that was killed) */
	qb_log(error == ENOENT ? LOG_DEBUG : LOG_ERR,
	       "the kernel module refused a record of type %u, seq %llu, start %llu, count %llu: %s", rec->type,
	       (unsigned long long)rec->seq, (unsigned long long)rec->start, (unsigned long long)rec->count,
	       strerror(error));
}

void ddr_kchan_flush(struct ddr_kchan *c)
{
	bool late = false;

	if (c->failed || held(c))
		return;			/* on_ready() will be called, or was */
	while (c->n && !c->deaf) {
		unsigned int n = front(c);
		ssize_t done = write(c->fd, c->tx, n * sizeof(struct ddr_rec));

		if (done > 0) {
			advance(c, (unsigned int)((size_t)done / sizeof(struct ddr_rec)));
		} else if (done < 0 && errno == ETIME && !late) {
			/* this process was silent for long before that call, and perhaps stopped in it: may it go on? */
			if (held(c))
				return;
			late = true;
		} else if (done < 0 && (errno == EAGAIN || errno == ETIME)) {
			poll_out(c, true);
			return;
		} else if (done < 0 && errno == EINTR) {
			continue;
		} else if (done < 0 && errno == ENODEV) {
			c->deaf = true;		/* the remaining records come first, then the end of file */
		} else if (done < 0 && (errno == ESTALE || errno == EPIPE)) {
			c->failed = true;	/* on_ready() reports it, outside of the caller */
			poll_out(c, true);
			return;
		} else {
			refused(&c->tx[0], done < 0 ? errno : EIO);
			advance(c, 1);
		}
	}
	poll_out(c, false);
}

static void gone(struct ddr_kchan *c, int error)
{
	qb_loop_poll_del(c->loop, c->fd);
	c->started = false;
	c->failed = true;
	c->deaf |= error == -ENODEV;
	close(c->fd);
	c->fd = -1;
	c->ops->gone(c->ctx, error);	/* may free c */
}

static int32_t on_ready(int32_t fd, int32_t revents, void *data)
{
	struct ddr_kchan *c = data;
	ssize_t n;

	if (!(revents & (POLLHUP | POLLERR)) && held(c))
		return 0;
	if (revents & POLLOUT)
		ddr_kchan_flush(c);
	if (c->failed) {
		gone(c, -ESTALE);
		return 0;
	}
	n = read(fd, c->rx, sizeof(c->rx));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0 || (size_t)n % sizeof(struct ddr_rec)) {
		gone(c, n < 0 ? -errno : n ? -EPROTO : -ENODEV);
		return 0;
	}
	for (size_t i = 0; i < (size_t)n / sizeof(struct ddr_rec) && !c->failed; i++)
		c->ops->record(c->ctx, &c->rx[i]);
	return 0;
}
