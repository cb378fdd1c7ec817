/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the daemon asks corosync, on simulated libraries, which answer in a thread (daemon/group/ask.c), or not at all: for test-corosync.c and test-corosync-hangs.c. */
#ifndef DDR_TESTS_UNIT_COROSYNC_RIG_H
#define DDR_TESTS_UNIT_COROSYNC_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <corosync/cmap.h>
#include <corosync/cpg.h>
#include <corosync/quorum.h>
#include <qb/qbloop.h>

#include "daemon/base/clock.h"
#include "daemon/group/corosync.h"

#define NODES	70u

/* Calls that wait for corosync. */
enum call { NO_CALL = 0, LOCAL_GET, LIST_NEXT, TRACK_ADD, TRACK_START, QUORUM_END };

static struct {
	int pipe[2], list[2];			/* of quorum, and of the list of nodes */
	_Atomic enum call hangs;		/* corosync does not answer this one, until @goes_on */
	sem_t goes_on;
	uint64_t ms;				/* that have passed beside the true time */
	cmap_notify_fn_t notify;
	void *watcher;
	quorum_model_v1_data_t calls;
	const void *context;
	uint32_t place[NODES], id[NODES];	/* of corosync's list */
	unsigned int at;
	/* what the calls answer; they are all CS_OK at first */
	cs_error_t local, init, fd, track, dispatch, cmap, watch, changes, iter, next, number, text;
	uint32_t type, self;			/* 0: QUORUM_SET, UINT32_MAX */
	_Atomic int open;			/* handles of all libraries, and of this process's list */
} play;

static struct ddr_asks *asks;

/* It is stopped in the call, as if by SIGSTOP. */
static void may_hang(enum call call)
{
	if (play.hangs == call)
		while (sem_wait(&play.goes_on))
			;
}

/* Corosync goes on. */
static inline void answers(void)
{
	play.hangs = NO_CALL;
	sem_post(&play.goes_on);
}

uint64_t ddr_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000 + play.ms;
}

static cs_error_t opened(cs_error_t answer)
{
	play.open += answer == CS_OK;
	return answer;
}

static cs_error_t closed(void)
{
	play.open--;
	assert_true(play.open >= 0);
	return CS_OK;
}

cs_error_t cpg_initialize(cpg_handle_t *handle, cpg_callbacks_t *callbacks)
{
	(void)callbacks;
	*handle = 1;
	return opened(CS_OK);
}

cs_error_t cpg_local_get(cpg_handle_t handle, unsigned int *node)
{
	(void)handle;
	may_hang(LOCAL_GET);
	*node = play.self ? play.self : UINT32_MAX;
	return play.local;
}

cs_error_t cpg_finalize(cpg_handle_t handle)
{
	(void)handle;
	return closed();
}

cs_error_t quorum_model_initialize(quorum_handle_t *handle, quorum_model_t model, quorum_model_data_t *data, uint32_t *type, void *context)
{
	(void)model;
	memcpy(&play.calls, data, sizeof(play.calls));
	play.context = context;
	*type = play.type == 7 ? QUORUM_FREE : QUORUM_SET;
	*handle = 1;
	return opened(play.init);
}

cs_error_t quorum_finalize(quorum_handle_t handle)
{
	(void)handle;
	may_hang(QUORUM_END);
	return closed();
}

cs_error_t quorum_fd_get(quorum_handle_t handle, int *fd)
{
	(void)handle;
	*fd = play.pipe[0];
	return play.fd;
}

cs_error_t quorum_trackstart(quorum_handle_t handle, unsigned int flags)
{
	(void)handle, (void)flags;
	may_hang(TRACK_START);
	return play.track;
}

cs_error_t quorum_dispatch(quorum_handle_t handle, cs_dispatch_flags_t types)
{
	char byte;

	(void)handle, (void)types;
	assert_int_equal(read(play.pipe[0], &byte, 1), 1);
	return play.dispatch;
}

cs_error_t quorum_context_get(quorum_handle_t handle, const void **context)
{
	(void)handle;
	*context = play.context;
	return CS_OK;
}

cs_error_t cmap_initialize(cmap_handle_t *handle)
{
	*handle = 1;
	return opened(play.cmap);
}

cs_error_t cmap_finalize(cmap_handle_t handle)
{
	(void)handle;
	return closed();
}

cs_error_t cmap_fd_get(cmap_handle_t handle, int *fd)
{
	(void)handle;
	*fd = play.list[0];
	return CS_OK;
}

cs_error_t cmap_track_add(cmap_handle_t handle, const char *key, int32_t types, cmap_notify_fn_t notify, void *data, cmap_track_handle_t *track)
{
	(void)handle, (void)types, (void)track;
	may_hang(TRACK_ADD);
	assert_string_equal(key, "nodelist.");
	play.notify = notify;
	play.watcher = data;
	return play.watch;
}

cs_error_t cmap_dispatch(cmap_handle_t handle, cs_dispatch_flags_t types)
{
	struct cmap_notify_value none = { 0 };
	char byte;

	assert_int_equal(types, CS_DISPATCH_ALL);
	assert_int_equal(read(play.list[0], &byte, 1), 1);
	if (play.changes == CS_OK)
		play.notify(handle, 1, CMAP_TRACK_MODIFY, "nodelist.node.0.name", none, none, play.watcher);
	return play.changes;
}

cs_error_t cmap_iter_init(cmap_handle_t handle, const char *prefix, cmap_iter_handle_t *iter)
{
	(void)handle, (void)prefix;
	play.at = 0;
	*iter = 1;
	return play.iter;
}

cs_error_t cmap_iter_next(cmap_handle_t handle, cmap_iter_handle_t iter, char key[], size_t *len, cmap_value_types_t *type)
{
	static const char *const names[] = { "name", "nodeid", "ring0_addr" };
	unsigned int node = play.at / 3;

	(void)handle, (void)iter, (void)len, (void)type;
	may_hang(LIST_NEXT);
	if (play.next != CS_OK && node == 1)
		return play.next;
	if (node == NODES)
		return CS_ERR_NO_SECTIONS;
	snprintf(key, CMAP_KEYNAME_MAXLEN, "nodelist.node.%u.%s", play.place[node], names[play.at++ % 3]);
	return CS_OK;
}

cs_error_t cmap_iter_finalize(cmap_handle_t handle, cmap_iter_handle_t iter)
{
	(void)handle, (void)iter;
	return CS_OK;
}

cs_error_t cmap_get_uint32(cmap_handle_t handle, const char *key, uint32_t *value)
{
	unsigned int place;

	(void)handle;
	if (play.number != CS_OK)
		return play.number;
	if (sscanf(key, "nodelist.node.%u.nodeid", &place) != 1)
		return CS_ERR_NOT_EXIST;
	for (unsigned int i = 0; i < NODES; i++)
		if (play.place[i] == place) {
			*value = play.id[i];
			return CS_OK;
		}
	return CS_ERR_NOT_EXIST;
}

cs_error_t cmap_get_string(cmap_handle_t handle, const char *key, char **value)
{
	unsigned int place;

	(void)handle;
	if (play.text != CS_OK)
		return play.text;
	if (sscanf(key, "nodelist.node.%u.name", &place) != 1 || asprintf(value, "at%u", place) < 0)
		return CS_ERR_NOT_EXIST;
	return CS_OK;
}

static inline void all_answer(void)
{
	play.local = play.init = play.fd = play.track = play.dispatch = play.cmap = play.watch = play.changes = play.iter = play.next = play.number = play.text = CS_OK;
}

static void stop(void *data)
{
	qb_loop_stop(data);
}

static inline void run(qb_loop_t *loop, unsigned int ms)
{
	qb_loop_timer_handle timer;

	assert_int_equal(qb_loop_timer_add(loop, QB_LOOP_LOW, ms * QB_TIME_NS_IN_MSEC, loop, stop, &timer), 0);
	qb_loop_run(loop);
}

/* It comes about on its own, soon. */
#define UNTIL(loop, what) do { \
		for (unsigned int tries = 0; tries < 1000 && !(what); tries++) \
			run(loop, 5); \
		assert_true(what); \
	} while (0)

static inline struct ddr_corosync *begin(qb_loop_t **loop, enum call hangs)
{
	struct ddr_corosync *c;

	alarm(hangs ? 20 : 90);		/* a loop that waits for corosync waits without an end */
	memset(&play, 0, sizeof(play));
	all_answer();
	play.hangs = hangs;
	sem_init(&play.goes_on, 0, 0);
	for (uint32_t i = 0; i < NODES; i++) {
		play.place[i] = i < 64 ? i : i + 100;		/* nodes were taken out of the file while corosync ran */
		play.id[i] = i + 1;
	}
	play.id[NODES - 1] = UINT32_MAX;
	assert_int_equal(pipe(play.pipe), 0);
	assert_int_equal(pipe(play.list), 0);
	*loop = qb_loop_create();
	assert_int_equal(ddr_asks_open(&asks, *loop), 0);
	assert_int_equal(ddr_corosync_open(&c, *loop, asks), 0);
	return c;
}

static inline struct ddr_corosync *open_it(qb_loop_t **loop)
{
	struct ddr_corosync *c = begin(loop, NO_CALL);

	UNTIL(*loop, ddr_asks_idle(asks));
	assert_int_equal(play.open, 2);
	return c;
}

static inline void end(qb_loop_t *loop)
{
	qb_loop_destroy(loop);
	close(play.pipe[0]);
	if (play.pipe[1] >= 0)
		close(play.pipe[1]);
	close(play.list[0]);
	close(play.list[1]);
}

static inline void close_it(struct ddr_corosync *c, qb_loop_t *loop)
{
	ddr_corosync_close(c);
	ddr_asks_close(asks, 5000);
	assert_int_equal(play.open, 0);
	end(loop);
}

/* The list of nodes is another one, and corosync reports it. */
static inline void list_changes(void)
{
	assert_int_equal(write(play.list[1], "", 1), 1);
}

/* ... and it has been read. */
static inline void list_changed(qb_loop_t *loop)
{
	struct pollfd p = { .fd = play.list[0], .events = POLLIN };

	list_changes();
	UNTIL(loop, poll(&p, 1, 0) == 0 && ddr_asks_idle(asks));
}

/* ... which is noted, for it is being read. */
static inline void list_changed_meanwhile(qb_loop_t *loop)
{
	struct pollfd p = { .fd = play.list[0], .events = POLLIN };

	list_changes();
	UNTIL(loop, poll(&p, 1, 0) == 0);
}

static inline void lose_connection(void)
{
	play.dispatch = CS_ERR_LIBRARY;
	assert_int_equal(write(play.pipe[1], "", 1), 1);
}

static inline const struct ddr_quorum *quorate_of(struct ddr_corosync *c, uint32_t n)
{
	uint32_t nodes[DDR_COROSYNC_NODES + 1];
	struct quorum_ring_id ring = { .nodeid = 1, .seq = (5ull << 32) + 4 };

	for (uint32_t i = 0; i < n; i++)
		nodes[i] = i + 1;
	play.calls.quorum_notify_fn(1, 1, ring, n, nodes);
	return ddr_corosync_quorum(c);
}

#endif
