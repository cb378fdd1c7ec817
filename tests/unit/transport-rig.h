/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Both transports, on a simulated library of corosync: for test-transport.c, test-transport-lost.c and test-transport-silent.c. */
#ifndef DDR_TESTS_UNIT_TRANSPORT_RIG_H
#define DDR_TESTS_UNIT_TRANSPORT_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <corosync/cpg.h>
#include <corosync/votequorum.h>

#include "daemon/base/daemon.h"
#include "daemon/base/worker.h"
#include "daemon/group/ask.h"
#include "daemon/group/corosync.h"
#include "daemon/group/link.h"
#include "daemon/group/transport.h"
#include "lib/cluster/sm.h"
#include "lib/wire/msg.h"
#include "lib/wire/node_msg.h"

static struct {
	cs_error_t answer;		/* of cpg_mcast_joined() */
	cs_error_t opens, asked;	/* of cpg_model_initialize(), and of the calls behind it */
	cs_error_t joins, dispatches;	/* of cpg_join() and cpg_dispatch() */
	unsigned int dispatched;	/* cpg_dispatch() of the daemons' group */
	unsigned int tried;		/* cpg_join() */
	uint64_t epoch;			/* of the connection to corosync */
	bool down;
	uint32_t excluded;		/* the node of which that was told last */
	unsigned int excluded_views;	/* told before that */
	bool no_votes;			/* the quorum service does not answer */
	unsigned int hangs;		/* corosync answers nothing: 1: it does not do it either; 2: it does */
	struct ddr_worker *hung;	/* what waits for it then */
	bool no_slot;			/* of any node but this one, in the array */
	bool misses;			/* the arrays miss a node */
	uint64_t io_timeout_ms;		/* of the array */
	struct ddr_corosync_listener *listener;
	struct ddr_transport *leaves;	/* left when an event is told */
	unsigned int told;		/* events of any kind */
	uint32_t largest;		/* message that corosync takes */
	unsigned int open;		/* handles */
	uint32_t node;			/* this one; 0: node 1 */
	unsigned int refused, sent, received, views;
	uint32_t last;			/* number in the last message */
	struct { size_t len; uint8_t msg[DDR_NODE_MSG_MAX]; } own[8];	/* what the daemon said about itself, and that has not come back yet */
	unsigned int n_own;
	struct ddr_node_round round;	/* of the last hello that the daemon said ... */
	struct ddr_speaks speaks;	/* ... and what it said to speak */
	uint16_t version;		/* of the last view */
	int pipe[2];
	qb_loop_t *loop;
	cpg_model_v1_data_t calls;
	void *context;
	struct {				/* the array's own group */
		cpg_model_v1_data_t calls;
		void *context;
		int pipe[2];
		unsigned int joined, told;	/* changes of its members, and those that were told */
		uint32_t other;			/* pid of a process of node 2 in it; 0: none */
		bool ended;			/* corosync ends this connection alone */
	} own_group[2];
	bool whole;			/* messages are of the protocol */
	uint32_t pid2;			/* of node 2, in the last view */
	unsigned int foreign;		/* times that a node was reported as of another release */
	uint64_t ring, quorum_ring;	/* of the last view, and of the last quorum report */
	uint32_t nodes, largest_node;	/* of the last view */
	uint32_t quorum_nodes;
	bool quorate;			/* as the last report had it */
	struct ddr_quorum quorum;	/* what the quorum service reports */
	bool may_lose, lost;
	uint64_t ms;			/* that have passed */
	uint64_t still_ms;		/* during which this process did not run */
	unsigned int stores;		/* times that ids of the cluster were to be stored */
	unsigned int told_waits;	/* times that something was said to be waited for, and the last of it; "": nothing */
	char waits[512];
	struct ddr_node_debts debts;	/* that the array knows */
	unsigned int debt_begins, debt_ends;
	char debt[1024], debt_event[1024];	/* as status has it; the last one of these */
	char why[256];
} play;

static struct ddr_daemon d;

/* ---- corosync -------------------------------------------------------------------- */

static void take(const uint8_t *msg, size_t len)
{
	uint32_t number;

	assert_int_equal(len, DDR_SM_MSG_MAX);
	memcpy(&number, msg, sizeof(number));
	assert_int_equal(number, play.last + 1);	/* in order, none twice, none missing */
	play.last = number;
}

cs_error_t cpg_model_initialize(cpg_handle_t *handle, cpg_model_t model, cpg_model_data_t *data, void *context)
{
	(void)model;
	if (play.opens != CS_OK)
		return play.opens;
	if (((cpg_model_v1_data_t *)data)->cpg_totem_confchg_fn == NULL) {
		unsigned int i = play.own_group[0].context != NULL;

		assert_null(play.own_group[i].context);
		memcpy(&play.own_group[i].calls, data, sizeof(play.calls));
		play.own_group[i].context = context;
		*handle = 2 + i;
		return CS_OK;
	}
	memcpy(&play.calls, data, sizeof(play.calls));
	play.context = context;
	*handle = 1;
	play.open++;
	return CS_OK;
}

cs_error_t cpg_finalize(cpg_handle_t handle)
{
	if (handle >= 2) {
		play.own_group[handle - 2].context = NULL;
		play.own_group[handle - 2].joined = play.own_group[handle - 2].told = 0;
		play.own_group[handle - 2].ended = false;
		return CS_OK;
	}
	play.open--;
	return CS_OK;
}

cs_error_t cpg_fd_get(cpg_handle_t handle, int *fd)
{
	*fd = handle >= 2 ? play.own_group[handle - 2].pipe[0] : play.pipe[0];
	return play.asked;
}

cs_error_t cpg_max_atomic_msgsize_get(cpg_handle_t handle, uint32_t *size)
{
	(void)handle;
	*size = play.largest;
	return play.asked;
}

cs_error_t cpg_context_get(cpg_handle_t handle, void **context)
{
	*context = handle >= 2 ? play.own_group[handle - 2].context : play.context;
	return CS_OK;
}

cs_error_t cpg_dispatch(cpg_handle_t handle, cs_dispatch_flags_t types)
{
	struct cpg_address list[2] = { { .nodeid = ddr_corosync_node(NULL), .pid = (uint32_t)getpid() }, { .nodeid = 2 } };
	char byte;

	(void)types;
	if (handle == 1) {
		play.dispatched++;
		return play.dispatches;
	}
	if (play.own_group[handle - 2].ended) {
		assert_int_equal(read(play.own_group[handle - 2].pipe[0], &byte, 1), 1);
		return CS_ERR_LIBRARY;
	}
	if (play.own_group[handle - 2].told == play.own_group[handle - 2].joined)
		return CS_ERR_TRY_AGAIN;
	play.own_group[handle - 2].told = play.own_group[handle - 2].joined;
	assert_int_equal(read(play.own_group[handle - 2].pipe[0], &byte, 1), 1);
	list[1].pid = play.own_group[handle - 2].other;
	play.own_group[handle - 2].calls.cpg_confchg_fn(handle, NULL, list, list[1].pid ? 2 : 1, NULL, 0, list, 1);
	return CS_OK;
}

static void own_group_changes(unsigned int i)
{
	play.own_group[i].joined++;
	assert_int_equal(write(play.own_group[i].pipe[1], "", 1), 1);
}

/* Corosync ends the connection to an array's own group, and to no other. */
static inline void own_group_ends(unsigned int i)
{
	play.own_group[i].ended = true;
	assert_int_equal(write(play.own_group[i].pipe[1], "", 1), 1);
}

cs_error_t cpg_join(cpg_handle_t handle, const struct cpg_name *group)
{
	if (handle >= 2) {
		assert_int_equal(group->length, strlen("ddraid:") + 36);
		own_group_changes((unsigned int)handle - 2);
		return CS_OK;
	}
	assert_int_equal(group->length, strlen("ddraid"));
	play.tried++;
	return play.joins;
}

cs_error_t cpg_mcast_joined(cpg_handle_t handle, cpg_guarantee_t guarantee, const struct iovec *iov, unsigned int n)
{
	(void)handle, (void)guarantee;
	assert_int_equal(n, 1);
	if (play.answer != CS_OK) {
		play.refused++;
		return play.answer;
	}
	if (ddr_node_msg_is(iov->iov_base, iov->iov_len)) {
		struct ddr_node_msg m;

		assert_null(ddr_node_msg_decode(iov->iov_base, iov->iov_len, &m));
		if (m.type == DDR_N_HELLO) {
			play.round = m.hello.round;
			play.speaks = (struct ddr_speaks){ m.hello.lowest, m.hello.highest };
		}
		assert_true(play.n_own < sizeof(play.own) / sizeof(play.own[0]));
		play.own[play.n_own].len = iov->iov_len;
		memcpy(play.own[play.n_own++].msg, iov->iov_base, iov->iov_len);
		return CS_OK;
	}
	take(iov->iov_base, iov->iov_len);
	play.sent++;
	return CS_OK;
}

bool ddr_corosync_up(const struct ddr_corosync *c)
{
	(void)c;
	return !play.down;
}

uint64_t ddr_corosync_epoch(const struct ddr_corosync *c)
{
	(void)c;
	return 1 + play.epoch;
}

uint32_t ddr_corosync_node(const struct ddr_corosync *c)
{
	(void)c;
	return play.node ? play.node : 1;
}

uint32_t ddr_corosync_nodes(const struct ddr_corosync *c)
{
	(void)c;
	return 3;
}

const struct ddr_quorum *ddr_corosync_quorum(const struct ddr_corosync *c)
{
	(void)c;
	return &play.quorum;
}

cs_error_t votequorum_initialize(votequorum_handle_t *handle, votequorum_callbacks_t *callbacks)
{
	(void)callbacks;
	*handle = 1;
	return play.no_votes ? CS_ERR_TRY_AGAIN : CS_OK;
}

cs_error_t votequorum_finalize(votequorum_handle_t handle)
{
	(void)handle;
	return CS_OK;
}

cs_error_t votequorum_getinfo(votequorum_handle_t handle, unsigned int node, struct votequorum_info *info)
{
	(void)handle;
	*info = (struct votequorum_info){ .node_id = node, .node_votes = 1, .total_votes = 3, .quorum = 2 };
	return CS_OK;
}

/* A thread that is as quick as it can be: it has ended when the loop comes to its next event. */
static void worker_ends(void *data)
{
	struct ddr_worker *w = data;

	w->done(w);
}

int ddr_worker_start(struct ddr_worker *w, qb_loop_t *loop)
{
	assert_null(play.hung);
	if (play.hangs != 1)
		w->run(w);
	if (play.hangs) {
		play.hung = w;
		return 0;
	}
	return qb_loop_job_add(loop, QB_LOOP_HIGH, w, worker_ends);
}

/* It is called for a thread that has not ended, at the end of a daemon alone. */
bool ddr_worker_end(struct ddr_worker *w, unsigned int ms)
{
	(void)w, (void)ms;
	return false;
}

bool ddr_corosync_known_name(const struct ddr_corosync *c, uint32_t node, char *buf, size_t size)
{
	(void)c;
	snprintf(buf, size, "n%u", node == 12 ? 2 : node);
	if (node == 4)
		buf[0] = '\0';
	return *buf;
}

const char *ddr_corosync_name(const struct ddr_corosync *c, uint32_t node, char *buf, size_t size)
{
	(void)c;
	snprintf(buf, size, "node %u", node);
	return buf;
}

const char *ddr_corosync_error(struct ddr_corosync *c)
{
	(void)c;
	return "";
}

void ddr_corosync_listen(struct ddr_corosync *c, struct ddr_corosync_listener *l)
{
	(void)c;
	play.listener = l;
}

void ddr_corosync_unlisten(struct ddr_corosync_listener *l)
{
	assert_ptr_equal(play.listener, l);
	play.listener = NULL;
}

uint64_t ddr_now_ms(void)
{
	return 1000 + play.ms;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);

/* By this one the daemon knows that it stood still: it does not, however slow this machine is, but when a test says so. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (clock != CLOCK_BOOTTIME)
		return __real_clock_gettime(clock, ts);
	*ts = (struct timespec){ .tv_sec = (time_t)(1000 + play.still_ms / 1000), .tv_nsec = (long)(play.still_ms % 1000) * 1000000 };
	return 0;
}

/* The file of who this machine is. */
void ddr_ident_cluster(struct ddr_ident *i, const struct ddr_cluster_ids *ids)
{
	i->id.cluster = *ids;
	i->stored = false;
	play.stores++;
}

/* ---- who listens ----------------------------------------------------------------- */

/* An array that ends leaves from within what it is told. */
static void told(void)
{
	struct ddr_transport *t = play.leaves;

	play.told++;
	play.leaves = NULL;
	if (t)
		t->ops->leave(t);
}

static void on_view(void *ctx, const uint32_t *nodes, const uint32_t *pids, const uint8_t *fences, uint32_t n, uint64_t ring)
{
	for (uint32_t i = 0; i < n; i++)	/* the other nodes of the rig do not say it */
		assert_int_equal(fences[i] == DDR_FENCES_UNSAID, nodes[i] != ddr_corosync_node(NULL));
	(void)ctx;
	play.views++;
	play.ring = ring;
	play.nodes = n;
	play.largest_node = n ? nodes[n - 1] : 0;
	for (uint32_t i = 0; i < n; i++)
		if (nodes[i] == 2)
			play.pid2 = pids[i];
	told();
}

static void on_excluded(void *ctx, uint32_t node)
{
	(void)ctx;
	play.excluded = node;
	play.excluded_views = play.views;
}

static void on_quorum(void *ctx, const uint32_t *nodes, uint32_t n, bool quorate, uint64_t ring)
{
	(void)ctx, (void)nodes;
	play.quorate = quorate;
	play.quorum_ring = ring;
	play.quorum_nodes = n;
	told();
}

static void on_message(void *ctx, uint32_t node, const uint8_t *msg, uint32_t len)
{
	(void)ctx, (void)node;
	play.received++;
	if (play.whole) {
		told();
		return;
	}
	assert_int_equal(play.views, 1);
	take(msg, len);
}

static void on_foreign(void *ctx, uint32_t node, uint16_t version)
{
	(void)ctx;
	assert_int_equal(node, 2);
	assert_int_equal(version, DDR_MSG_HIGHEST + 1);
	play.foreign++;
}

static void on_lost(void *ctx, const char *why)
{
	(void)ctx;
	if (!play.may_lose)
		fail_msg("lost: %s", why);
	play.lost = true;
	snprintf(play.why, sizeof(play.why), "%s", why);
	told();
}

static void on_version(void *ctx, uint16_t version)
{
	(void)ctx;
	play.version = version;
}

static bool is_complete(void *ctx)
{
	(void)ctx;
	return !play.misses;
}

static bool has_slot(void *ctx, uint32_t node)
{
	(void)ctx, (void)node;
	return !play.no_slot;
}

static uint64_t io_timeout(void *ctx)
{
	(void)ctx;
	return play.io_timeout_ms;
}

static void on_waits(void *ctx, const char *text)
{
	(void)ctx;
	play.told_waits += text != NULL;
	snprintf(play.waits, sizeof(play.waits), "%s", text ? text : "");
}

static void on_debts(void *ctx, struct ddr_node_debts *list)
{
	(void)ctx;
	if (play.debts.n)
		*list = play.debts;
}

static void on_debt(void *ctx, enum ddr_debt_news news, const char *text)
{
	(void)ctx;
	play.debt_begins += news == DDR_DEBT_BEGINS;
	play.debt_ends += news == DDR_DEBT_ENDS;
	snprintf(news == DDR_DEBT_LASTS ? play.debt : play.debt_event, sizeof(play.debt), "%s", text ? text : "");
}

static const struct ddr_transport_events events = {
	.view = on_view, .excluded = on_excluded, .quorum = on_quorum, .message = on_message, .foreign = on_foreign, .version = on_version, .complete = is_complete, .has_slot = has_slot, .io_timeout = io_timeout, .waits = on_waits,
	.debts = on_debts, .debt = on_debt, .lost = on_lost,
};

static const uint8_t uuid[16] = { 1 };

static void begin(const struct ddr_transport_ops *ops)
{
	memset(&play, 0, sizeof(play));
	play.answer = play.opens = play.asked = play.joins = CS_OK;
	play.dispatches = CS_ERR_TRY_AGAIN;
	play.largest = 1u << 20;
	assert_int_equal(pipe(play.pipe), 0);
	assert_int_equal(pipe(play.own_group[0].pipe), 0);
	assert_int_equal(pipe(play.own_group[1].pipe), 0);
	memset(&d, 0, sizeof(d));
	d.conf.node_id = 1;
	d.conf.owe_ms = DDR_OWE_AUTO;
	play.io_timeout_ms = d.conf.tune.io_timeout_ms = 60000;
	d.loop = play.loop = qb_loop_create();
	assert_int_equal(ddr_asks_open(&d.asks, d.loop), 0);
	d.transport = ops;
	d.speaks = (struct ddr_speaks){ DDR_MSG_LOWEST, DDR_MSG_HIGHEST };
}

static void stop(void *data)
{
	qb_loop_stop(data);
}

static void run(unsigned int ms)
{
	qb_loop_timer_handle timer;

	assert_int_equal(qb_loop_timer_add(play.loop, QB_LOOP_LOW, ms * QB_TIME_NS_IN_MSEC, play.loop, stop, &timer), 0);
	qb_loop_run(play.loop);
}

/* Corosync has answered all that it was asked. */
static void settled(void)
{
	while (!ddr_asks_idle(d.asks) && !play.hung)
		run(1);
}

/* Corosync goes on, and answers. */
static inline void answers(void)
{
	struct ddr_worker *w = play.hung;

	play.hung = NULL;
	if (w && play.hangs == 1)
		w->run(w);
	play.hangs = 0;
	if (w)
		assert_int_equal(qb_loop_job_add(play.loop, QB_LOOP_HIGH, w, worker_ends), 0);
	settled();
}

static void end(void)
{
	ddr_link_close(&d);
	settled();
	ddr_asks_close(d.asks, 0);
	assert_null(play.listener);
	for (unsigned int i = 0; i < 2; i++) {
		assert_null(play.own_group[i].context);
		close(play.own_group[i].pipe[0]);
		close(play.own_group[i].pipe[1]);
	}
	close(play.pipe[0]);
	close(play.pipe[1]);
	qb_loop_destroy(play.loop);
	assert_int_equal(play.open, 0);
}

/* It comes about on its own, soon. */
#define UNTIL(what) do { \
		for (unsigned int tries = 0; tries < 500 && !(what); tries++) \
			run(20); \
		assert_true(what); \
	} while (0)

/* What goes on now goes on for some seconds more. */
static inline void lasts(void)
{
	run(1200);
	play.ms += 5000;
	run(1200);
}

/* What the daemon says about itself is sent, and comes back to it. */
static void pump(void)
{
	do {
		settled();
		while (play.own_group[0].told != play.own_group[0].joined || play.own_group[1].told != play.own_group[1].joined)
			run(1);
		for (unsigned int i = 0; i < play.n_own; i++)
			play.calls.cpg_deliver_fn(1, NULL, ddr_corosync_node(NULL), (uint32_t)getpid(), play.own[i].msg, play.own[i].len);
		play.n_own = 0;
		ddr_link_flush(d.link);
	} while (play.n_own);
}

static inline struct ddr_transport *join(const struct ddr_transport_ops *ops)
{
	struct ddr_transport *t;

	begin(ops);
	assert_int_equal(ops->join(&t, &d, uuid, &events, NULL), 0);
	settled();
	return t;
}

static void leave(struct ddr_transport *t)
{
	t->ops->leave(t);
	end();
}

static inline bool mcast(struct ddr_transport *t, uint32_t number)
{
	uint8_t msg[DDR_SM_MSG_MAX] = { 0 };

	memcpy(msg, &number, sizeof(number));
	return t->ops->mcast(t, msg, sizeof(msg));
}

/* A process of node @node says hello, as one that speaks versions from @lowest on; it takes part in the array if @number is not 0. */
static inline void says_hello_of(uint32_t node, uint32_t pid, uint16_t lowest, uint32_t number)
{
	struct ddr_node_msg msg = { .type = DDR_N_HELLO, .sender = node, .hello = { .lowest = lowest, .highest = lowest, .n = number ? 1 : 0 } };
	uint8_t buf[DDR_NODE_MSG_MAX];
	size_t len;

	msg.hello.round = play.round;		/* it has heard what this node has heard */
	msg.hello.ride[0].number = number;
	memcpy(msg.hello.ride[0].uuid, uuid, sizeof(uuid));
	len = ddr_node_msg_encode(&msg, buf, sizeof(buf));
	assert_true(len > 0);
	play.calls.cpg_deliver_fn(1, NULL, node, pid, buf, len);
}

/* Node @node has been in the array since before. */
static inline void says_hello(uint32_t node, uint32_t pid)
{
	says_hello_of(node, pid, DDR_MSG_VERSION, pid);
}

/* It says something about the array. */
static inline void says(uint32_t node, uint32_t pid)
{
	struct ddr_msg msg = { .type = DDR_M_HELLO, .sender = node };
	uint8_t buf[DDR_SM_MSG_MAX];
	size_t len;

	memcpy(msg.uuid, uuid, sizeof(msg.uuid));
	len = ddr_msg_encode(&msg, buf, sizeof(buf));
	assert_true(len > 0);
	play.calls.cpg_deliver_fn(1, NULL, node, pid, buf, len);
}

/* The group has the nodes 1 .. @n on this ring; the last @n_joined are new. */
static inline void members(uint32_t n, uint32_t n_joined, uint64_t seq)
{
	struct cpg_address list[CPG_MEMBERS_MAX];
	struct cpg_ring_id ring = { .nodeid = 1, .seq = seq };

	for (uint32_t i = 0; i < n; i++)
		list[i] = (struct cpg_address){ .nodeid = i + 1, .pid = i ? 100 + i : (uint32_t)getpid(), .reason = CPG_REASON_JOIN };
	play.calls.cpg_totem_confchg_fn(1, ring, 0, NULL);
	play.calls.cpg_confchg_fn(1, NULL, list, n, NULL, 0, list + n - n_joined, n_joined);
	pump();
	for (uint32_t i = 1; i < n; i++)
		says_hello(i + 1, 100 + i);
	pump();
}

static inline void tell_corosync(void)
{
	play.listener->changed(play.listener->ctx);
}

#endif
