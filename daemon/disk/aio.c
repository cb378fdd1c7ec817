// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Asynchronous I/O: what both engines share. See aio.h.
 */
#include <errno.h>
#include <poll.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <qb/qblog.h>

#include "daemon/disk/aio.h"
#include "lib/error.h"

/*
 * The lowest level of the best-effort class, not the idle class: a job works under an exclusive range that users' writes wait for,
 * and an idle-class request can be starved for seconds by the very load that waits for it.
 */
#define IOPRIO_CLASS_SHIFT	13
#define IOPRIO_BACKGROUND	((2 << IOPRIO_CLASS_SHIFT) | 7)
#define IOPRIO_IDLE		(3 << IOPRIO_CLASS_SHIFT)

static void queue_free(struct ddr_aio *q)
{
	qb_loop_poll_del(q->loop, q->event_fd);
	q->engine->close(q);
	close(q->event_fd);
	free(q);
}

/* ---- lanes ----------------------------------------------------------------------- */

/*
 * The lane of a descriptor, for as long as it has requests. Lanes suffice for all descriptors of members; if there were more, some
 * would share a lane, which would only cost fairness.
 */
static struct ddr_aio_lane *lane_of(struct ddr_aio *q, int fd)
{
	struct ddr_aio_lane *unused = NULL;

	for (struct ddr_aio_lane *l = q->lane; l < q->lane + DDR_AIO_LANES; l++) {
		bool used = l->begun || l->head;

		if (used && l->fd == fd)
			return l;
		if (!used && !unused)
			unused = l;
	}
	if (!unused)
		return &q->lane[(unsigned int)fd % DDR_AIO_LANES];
	unused->fd = fd;
	return unused;
}

/*
 * The first request of a lane may take any free place. Further ones leave as many places free as there are lanes without a request in
 * the engine (in a small engine, up to half of it): requests to other descriptors must not have to wait for one that hangs.
 */
static bool has_room(const struct ddr_aio *q, const struct ddr_aio_lane *l)
{
	unsigned int left = q->room - q->begun;
	unsigned int lanes = q->room / 2 < DDR_AIO_LANES ? q->room / 2 : DDR_AIO_LANES;

	if (left == 0 || l->begun == 0)
		return left != 0;
	return l->begun < q->room / 4 && q->lanes_begun + left > lanes;
}

/* @at: where the lane has the request. */
static bool begin(struct ddr_aio *q, struct ddr_aio_lane *l, struct ddr_aio_req **at)
{
	struct ddr_aio_req *req = *at, *rest = req->next;

	if (!q->engine->put(q, req))
		return false;
	*at = rest;		/* the engine owns req now */
	if (!rest)
		l->tail = at;
	q->lanes_begun += l->begun++ == 0;
	q->begun++;
	return true;
}

static void ended(struct ddr_aio *q, struct ddr_aio_lane *l)
{
	q->begun--;
	q->lanes_begun -= --l->begun == 0;
}

static bool given_up(struct ddr_aio_req *req)
{
	if (req->begin_by_ms && ddr_still_now() >= req->begin_by_ms)
		req->given_up = true;
	return req->given_up;
}

/*
 * What was given up before it was begun is not begun. It ends at the next event or tick, since nobody expects that here. @all: not only where it would
 * be begun next.
 */
static void set_aside(struct ddr_aio *q, bool all)
{
	for (struct ddr_aio_lane *l = q->lane; l < q->lane + DDR_AIO_LANES; l++)
		for (struct ddr_aio_req **at = &l->head; *at;) {
			struct ddr_aio_req *req = *at;

			if (!given_up(req)) {
				if (!all)
					break;
				at = &req->next;
				continue;
			}
			*at = req->next;
			if (!*at)
				l->tail = at;
			req->result = -ECANCELED;
			req->next = q->held;
			q->held = req;
		}
}

/* What shows whether the hold may end, and nothing else. */
static void feed_looks(struct ddr_aio *q)
{
	for (struct ddr_aio_lane *l = q->lane; l < q->lane + DDR_AIO_LANES; l++)
		for (struct ddr_aio_req **at = &l->head; *at;) {
			if (!(*at)->look || (*at)->given_up)
				at = &(*at)->next;
			else if (!has_room(q, l) || !begin(q, l, at))
				break;
		}
}

/* Gives the engine one request of each lane in turn, until there is no room or nothing waits. */
static void feed(struct ddr_aio *q)
{
	bool more = q->in_flight > q->begun;	/* usually nothing waits */

	if (more && ddr_still_held(q->still)) {
		if (q->still->looks)
			feed_looks(q);
		return;
	}
	while (more) {
		more = false;
		set_aside(q, false);
		for (unsigned int i = 0; i < DDR_AIO_LANES; i++) {
			struct ddr_aio_lane *l = &q->lane[(q->turn + i) % DDR_AIO_LANES];

			if (!l->head || !has_room(q, l))
				continue;
			if (!begin(q, l, &l->head))
				return;
			more = true;
		}
		q->turn++;
	}
}

/* ---- the queue ------------------------------------------------------------------- */

/*
 * The kernel answers a write beyond the end of a device with "no space", and a read there with nothing. The size of a disk that was
 * pulled is 0. So these errors are only taken as such if the device still reaches that far; otherwise the disk would seem full, or
 * seem to have a bad sector. Asking for the size does not block. (Anything but a block device has no end.)
 */
static bool place_gone(const struct ddr_aio_req *req)
{
	uint64_t bytes;

	if (ioctl(req->fd, BLKGETSIZE64, &bytes))
		return errno != ENOTTY;
	return bytes == 0 || req->offset > bytes || req->len > bytes - req->offset;
}

/* A failure of this process: EAGAIN and ECANCELED are io_uring's, which has no worker for the request. */
static bool is_own(int result)
{
	return result == -EAGAIN || result == -ECANCELED || ddr_own_failure(-result);
}

static void hold(struct ddr_aio *q, struct ddr_aio_req *req)
{
	if (!req->own)
		qb_log(LOG_WARNING, "a request to a member could not be made on this node (%s); it is repeated", qb_strerror_r(-req->result, (char[64]){ 0 }, 64));
	req->own = req->result;
	req->next = q->held;
	q->held = req;
}

/* The owner of a queue that is closed may end with its last request, and what it was held by with it. */
static void may_forget(struct ddr_aio *q)
{
	if (q->closing && !q->in_flight)
		q->still = NULL;
}

static void end(struct ddr_aio *q, struct ddr_aio_req *req)
{
	q->in_flight--;
	may_forget(q);
	req->ended = true;
	if (req->result && place_gone(req))
		req->result = -ENODEV;
	req->done(req);
}

/* It waits again, behind those that came after it: requests that may not change places are never in the queue together. */
static void append(struct ddr_aio *q, struct ddr_aio_req *req)
{
	req->next = NULL;
	req->late = false;
	req->lane = lane_of(q, req->fd);
	*req->lane->tail = req;
	req->lane->tail = &req->next;
}

/* What waits in a lane while this process is held would be begun when that is over, and nobody would want it any more. */
static void end_lanes(struct ddr_aio *q)
{
	for (struct ddr_aio_lane *l = q->lane; l < q->lane + DDR_AIO_LANES; l++)
		while (l->head) {
			struct ddr_aio_req *req = l->head;

			l->head = req->next;
			if (!l->head)
				l->tail = &l->head;
			req->result = -ECANCELED;
			end(q, req);
		}
}

/* Nothing is sent again when the queue is to end. */
static void end_held(struct ddr_aio *q)
{
	while (q->held) {
		struct ddr_aio_req *req = q->held;

		q->held = req->next;
		end(q, req);
	}
}

/* In the lanes, and of those that were to be sent again. */
static void end_given_up(struct ddr_aio *q)
{
	struct ddr_aio_req *req, *next;

	set_aside(q, false);
	req = q->held;
	q->held = NULL;
	for (; req; req = next) {
		next = req->next;
		if (req->given_up) {
			end(q, req);
			continue;
		}
		req->next = q->held;
		q->held = req;
	}
}

static int32_t on_event(int32_t fd, int32_t revents, void *data)
{
	struct ddr_aio *q = data;
	struct ddr_aio_req *req;
	uint64_t n;

	(void)revents;
	if (read(fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		qb_perror(LOG_ERR, "reading an eventfd");
	q->dispatching = true;
	while ((req = q->engine->get(q))) {
		ended(q, req->lane);
		if (req->late && !q->closing && !req->given_up) {
			append(q, req);
		} else if (is_own(req->result) && !req->late && !q->closing && !req->given_up) {
			hold(q, req);
		} else {
			req->result = req->late ? -ECANCELED : req->result;
			end(q, req);
		}
	}
	if (q->closing)
		end_held(q);
	end_given_up(q);
	q->drops |= q->closing && ddr_still_held(q->still);
	if (q->drops)
		end_lanes(q);
	q->dispatching = false;
	feed(q);
	q->engine->kick(q);
	if (q->closing && q->in_flight == 0)
		queue_free(q);
	return 0;
}

static int engine_open(struct ddr_aio *q, uint64_t engine)
{
	int ret = -ENOSYS;

	if (engine != DDR_ENGINE_THREADS) {
		q->engine = &ddr_aio_uring;
		ret = q->engine->open(q);
		if (ret == 0 || engine == DDR_ENGINE_URING)
			return ret;
		qb_log(LOG_NOTICE, "io_uring is not available (%s), using threads", qb_strerror_r(-ret, (char[64]){ 0 }, 64));
	}
	q->engine = &ddr_aio_threads;
	return q->engine->open(q);
}

int ddr_aio_open(struct ddr_aio **out, qb_loop_t *loop, uint64_t engine, unsigned int depth, bool background)
{
	struct ddr_aio *q = calloc(1, sizeof(*q));
	int ret;

	*out = NULL;
	if (!q)
		return -ENOMEM;
	q->loop = loop;
	q->depth = depth;
	q->ioprio = background ? IOPRIO_BACKGROUND : 0;
	q->ioprio_idle = IOPRIO_IDLE;
	for (struct ddr_aio_lane *l = q->lane; l < q->lane + DDR_AIO_LANES; l++)
		l->tail = &l->head;
	q->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q->event_fd < 0) {
		ret = -errno;
		goto fail_free;
	}
	ret = engine_open(q, engine);
	if (ret)
		goto fail_event;
	ret = qb_loop_poll_add(loop, background ? QB_LOOP_LOW : QB_LOOP_HIGH, q->event_fd, POLLIN, q, on_event);
	if (ret)
		goto fail_engine;
	*out = q;
	return 0;

fail_engine:
	q->engine->close(q);
fail_event:
	close(q->event_fd);
fail_free:
	free(q);
	return ret;
}

void ddr_aio_close(struct ddr_aio *q)
{
	uint64_t one = 1;

	if (!q)
		return;
	q->closing = true;
	q->drops = ddr_still_held(q->still);
	may_forget(q);
	/* on_event() ends them: the caller does not expect that here */
	if ((q->held || q->in_flight > q->begun) && write(q->event_fd, &one, sizeof(one)) < 0)
		qb_perror(LOG_ERR, "writing an eventfd");
	if (q->in_flight == 0 && !q->dispatching)
		queue_free(q);
}

void ddr_aio_submit(struct ddr_aio *q, struct ddr_aio_req *req)
{
	req->result = req->own = 0;
	req->ended = req->late = req->given_up = false;
	q->in_flight++;
	append(q, req);
}

void ddr_aio_retry(struct ddr_aio *q)
{
	struct ddr_aio_req *req, *next;

	set_aside(q, true);
	req = q->held;
	q->held = NULL;
	for (; req; req = next) {
		next = req->next;
		if (req->given_up)
			end(q, req);
		else
			append(q, req);
	}
}

void ddr_aio_kick(struct ddr_aio *q)
{
	feed(q);
	q->engine->kick(q);
}

const char *ddr_aio_engine_name(const struct ddr_aio *q)
{
	return q->engine->name;
}
