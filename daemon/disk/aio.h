/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Asynchronous I/O on members: reads, durable writes and cache flushes.
 *
 * One queue belongs to one array and one purpose (metadata, or jobs). Two engines: io_uring,
 * and threads where the kernel refuses io_uring. Either way a request in flight holds a
 * reference to its open file, and with it the flock() on the member, beyond the death of
 * this process.
 *
 * A member that hangs holds up nobody else. No queue waits for another one: threads are a
 * queue's own, and the kernel's workers, which all rings share, may be as many as there can
 * be requests. Within a queue each descriptor has a lane: it gets a part of the engine's room
 * at most, and of the rest one request's worth is kept for each that has nothing with the
 * engine. So a request that the engine does not have yet waits for its own descriptor, and
 * whoever finds it late blames the right member.
 *
 * It must never: sleep in the loop's thread, allocate after ddr_aio_open(), touch a
 * request's buffer after done() was called, or call done() from within a submission.
 *
 * All functions belong to the loop's thread.
 */
#ifndef DDR_DAEMON_AIO_H
#define DDR_DAEMON_AIO_H

#include <stdbool.h>
#include <stdint.h>

#include <qb/qbloop.h>

#include "lib/conf.h"

enum ddr_aio_op {
	DDR_AIO_READ,
	DDR_AIO_WRITE,
	DDR_AIO_WRITE_DURABLE,	/* on the medium when done: RWF_DSYNC, a FUA write */
	DDR_AIO_FLUSH,		/* everything that ended before is on the medium: fdatasync */
};

struct ddr_aio_req {
	/* set by the owner, untouched until done() */
	enum ddr_aio_op op;
	int fd;
	void *buf;			/* aligned for O_DIRECT; the caller's until submission, then the queue's until done() */
	uint32_t len;			/* bytes */
	uint64_t offset;		/* bytes */
	void (*done)(struct ddr_aio_req *req);	/* called once, from the loop */
	uintptr_t tag;			/* the owner's */
	bool idle;			/* a read that may wait for all others; not for requests that anybody waits for */
	/* for done(): 0, or a negative errno; a short transfer is -EIO, and -ENOSPC comes from a device that is there and reaches that far */
	int result;
	bool ended;
	/* the queue's own */
	struct ddr_aio_req *next;
	struct ddr_aio_lane *lane;
};

/* Descriptors that have requests at the same time: of members, and of devices that were one (members.h). */
#define DDR_AIO_LANES	48u

/* The requests of one descriptor. */
struct ddr_aio_lane {
	int fd;
	unsigned int begun;		/* with the engine */
	struct ddr_aio_req *head, **tail;	/* waiting for room, the oldest first */
};

struct ddr_aio;

/* What an engine does; aio.c does the rest. Internal to aio*.c. */
struct ddr_aio_engine {
	const char *name;
	/* Sets @q->room. */
	int (*open)(struct ddr_aio *q);
	/* Takes @req, at most @q->room at a time; it is started by kick() at the latest. False: not now. */
	bool (*put)(struct ddr_aio *q, struct ddr_aio_req *req);
	void (*kick)(struct ddr_aio *q);
	/* The next request that ended with its result set, or NULL. */
	struct ddr_aio_req *(*get)(struct ddr_aio *q);
	void (*close)(struct ddr_aio *q);	/* nothing is in flight */
};

struct ddr_aio {
	qb_loop_t *loop;
	const struct ddr_aio_engine *engine;
	void *priv;			/* the engine's */
	int event_fd;			/* readable when requests ended */
	unsigned int depth;		/* requests that the engine may have at most */
	unsigned int room;		/* requests that it works on at the same time; a lane's part is a quarter of it */
	unsigned int in_flight;		/* with the engine, or waiting for it */
	int ioprio;			/* as in ioprio_set(2), 0: the process's */
	int ioprio_idle;		/* of requests that are @idle */
	bool closing, dispatching;
	struct ddr_aio_lane lane[DDR_AIO_LANES];
	unsigned int turn;		/* the lane that is looked at first */
	unsigned int begun;		/* requests with the engine ... */
	unsigned int lanes_begun;	/* ... of so many lanes */
};

/*
 * Makes a queue. @engine: enum ddr_conf_engine; @background: lowest best-effort
 * priority. Returns 0 or a negative errno. May sleep (called before an array runs).
 */
int ddr_aio_open(struct ddr_aio **out, qb_loop_t *loop, uint64_t engine, unsigned int depth, bool background);
/*
 * Ends the queue. Requests in flight are not cancelled: their done() is still called,
 * and the queue's memory goes with the last of them.
 */
void ddr_aio_close(struct ddr_aio *q);
/* Takes @req, starts it at ddr_aio_kick() or earlier. Never fails: what is wrong comes by done(). */
void ddr_aio_submit(struct ddr_aio *q, struct ddr_aio_req *req);
/* Starts all that was submitted: once for a batch. */
void ddr_aio_kick(struct ddr_aio *q);
const char *ddr_aio_engine_name(const struct ddr_aio *q);

extern const struct ddr_aio_engine ddr_aio_uring;
extern const struct ddr_aio_engine ddr_aio_threads;

#endif
