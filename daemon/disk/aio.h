/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Asynchronous I/O on members: reads, durable writes and cache flushes.
 *
 * A queue belongs to one array and one purpose (metadata, or jobs). There are two engines: io_uring, and threads where the kernel
 * refuses io_uring. With both a request in flight holds a reference to its open file, and with it the flock() on the member, beyond
 * the death of this process.
 *
 * A member that hangs delays nothing else. No queue waits for another one: each has its own threads, and there may be as many of the
 * kernel's workers, which all rings share, as there can be requests. Within a queue each descriptor has a lane, which gets at most a
 * part of the engine's room; room for one request is reserved for each lane without a request in the engine. So a request that is not
 * in the engine yet only waits for its own descriptor, and a request that is late points to the right member.
 *
 * A request that fails for lack of memory, threads or the like on this machine says nothing about the device: it does not end, but is
 * sent again at the next ddr_aio_retry().
 *
 * While this process is held (daemon/base/still.h) nothing is begun, but for reads that show whether that may end; a thread that finds that the loop
 * has not run for too long gives its write back, and it waits with the others. A queue that is closed meanwhile drops what has not begun, with
 * -ECANCELED.
 *
 * It must never: sleep in the loop's thread, allocate after ddr_aio_open(), touch a request's buffer after done() was called, or call
 * done() from within a submission.
 *
 * All functions belong to the loop's thread.
 */
#ifndef DDR_DAEMON_AIO_H
#define DDR_DAEMON_AIO_H

#include <stdbool.h>
#include <stdint.h>

#include <qb/qbloop.h>

#include "daemon/base/still.h"
#include "lib/conf.h"

enum ddr_aio_op {
	DDR_AIO_READ,
	DDR_AIO_WRITE,
	DDR_AIO_WRITE_DURABLE,	/* on the medium when done: RWF_DSYNC, a FUA write */
	DDR_AIO_FLUSH,		/* everything that ended earlier is on the medium: fdatasync */
};

struct ddr_aio_req {
	/* set by the owner, unchanged until done() */
	enum ddr_aio_op op;
	int fd;
	void *buf;			/* aligned for O_DIRECT; belongs to the caller until submission, then to the queue until done() */
	uint32_t len;			/* bytes */
	uint64_t offset;		/* bytes */
	void (*done)(struct ddr_aio_req *req);	/* called once, from the loop */
	uintptr_t tag;			/* for the owner */
	/*
	 * The owner does not wait for it any more, and has told others so, who may use the place by now. What has begun of it ends some time; it is
	 * not begun any more, nor sent again. Set at any time before done().
	 */
	bool given_up;
	bool idle;			/* a read that may wait for all others; only for requests that nothing waits for */
	bool look;			/* a read that may end a hold: begun while that lasts, before what waits for it (still.h) */
	uint64_t begin_by_ms;		/* it is not begun from then on (ddr_still_now()), and ends with -ECANCELED; 0: whenever it is its turn */
	/* for done(): 0, or a negative errno. A short transfer is -EIO. -ENOSPC only comes from a device that exists and reaches that far */
	int result;
	bool ended;
	int own;			/* not ended: a negative errno, the failure of this process for which it is sent again; 0: none */
	/* internal to the queue */
	bool late;			/* the engine has not begun it, for the loop has not run for too long */
	struct ddr_aio_req *next;
	struct ddr_aio_lane *lane;
};

/* Descriptors with requests at the same time: of members, and of former members' devices (members.h). */
#define DDR_AIO_LANES	48u

/* The requests of one descriptor. */
struct ddr_aio_lane {
	int fd;
	unsigned int begun;		/* requests in the engine */
	struct ddr_aio_req *head, **tail;	/* requests that wait for room, the oldest first */
};

struct ddr_aio;

/* The interface of an engine; aio.c does the rest. Internal to aio*.c. */
struct ddr_aio_engine {
	const char *name;
	/* Sets @q->room. */
	int (*open)(struct ddr_aio *q);
	/* Takes @req, at most @q->room at a time; starts it at kick() at the latest, or ends it with req->late. False: not now. */
	bool (*put)(struct ddr_aio *q, struct ddr_aio_req *req);
	void (*kick)(struct ddr_aio *q);
	/* The next request that has ended, with its result, or NULL. */
	struct ddr_aio_req *(*get)(struct ddr_aio *q);
	void (*close)(struct ddr_aio *q);	/* nothing is in flight */
};

struct ddr_aio {
	qb_loop_t *loop;
	struct ddr_still *still;	/* set by the owner after ddr_aio_open(), until done() of the last request once the queue is closed; NULL: nothing is ever held */
	const struct ddr_aio_engine *engine;
	void *priv;			/* for the engine */
	int event_fd;			/* readable when requests have ended */
	unsigned int depth;		/* the largest number of requests that the engine may hold */
	unsigned int room;		/* requests that it works on at the same time; one lane gets at most a quarter of it */
	unsigned int in_flight;		/* in the engine, or waiting for it */
	int ioprio;			/* as in ioprio_set(2); 0: that of the process */
	int ioprio_idle;		/* for requests with @idle */
	bool closing, dispatching;
	bool drops;			/* closed while this process was held: what has not begun is not begun any more */
	struct ddr_aio_lane lane[DDR_AIO_LANES];
	unsigned int turn;		/* the lane that is served first */
	unsigned int begun;		/* requests in the engine ... */
	unsigned int lanes_begun;	/* ... from this number of lanes */
	struct ddr_aio_req *held;	/* requests that are to be sent again */
};

/*
 * Creates a queue. @engine: enum ddr_conf_engine; @background: lowest best-effort priority. Returns 0, or a negative errno. May sleep
 * (it is called before an array runs).
 */
int ddr_aio_open(struct ddr_aio **out, qb_loop_t *loop, uint64_t engine, unsigned int depth, bool background);
/* Ends the queue. Requests in flight are not cancelled: their done() is still called, and the queue's memory is freed with the last of them. */
void ddr_aio_close(struct ddr_aio *q);
/* Takes @req; starts it at ddr_aio_kick() or earlier. Never fails: errors are reported by done(). */
void ddr_aio_submit(struct ddr_aio *q, struct ddr_aio_req *req);
/* Submits again what a failure of this process has held up, and ends what must not begin any more: call it from a tick, which is soon enough, and seldom enough. */
void ddr_aio_retry(struct ddr_aio *q);
/* Starts everything that was submitted: call it once per batch. */
void ddr_aio_kick(struct ddr_aio *q);
const char *ddr_aio_engine_name(const struct ddr_aio *q);

extern const struct ddr_aio_engine ddr_aio_uring;
extern const struct ddr_aio_engine ddr_aio_threads;

#endif
