// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The queues of both transports: until corosync is free again (or the loop runs) messages that are sent wait, in order; a message
 * that does not fit is refused to the caller, and messages that were accepted are delivered all the same. Corosync's library is
 * simulated.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <corosync/cpg.h>

#include "daemon/base/daemon.h"
#include "daemon/group/corosync.h"
#include "daemon/group/link.h"
#include "daemon/group/transport.h"
#include "lib/cluster/sm.h"
#include "lib/wire/msg.h"
#include "lib/wire/node_msg.h"

#define QUEUE	DDR_SM_MAX_OUT	/* of both transports: that many of the longest messages */

static struct {
	cs_error_t answer;		/* of cpg_mcast_joined() */
	cs_error_t opens, asked;	/* of cpg_model_initialize(), and of the calls behind it */
	cs_error_t joins, dispatches;	/* of cpg_join() and cpg_dispatch() */
	unsigned int tried;		/* cpg_join() */
	uint64_t epoch;			/* of the connection to corosync */
	bool down;
	struct ddr_corosync_listener *listener;
	struct ddr_transport *leaves;	/* left when an event is told */
	unsigned int told;		/* events of any kind */
	uint32_t largest;		/* message that corosync takes */
	unsigned int open;		/* handles */
	unsigned int refused, sent, received, views;
	uint32_t last;			/* number in the last message */
	struct { size_t len; uint8_t msg[DDR_NODE_MSG_MAX]; } own[8];	/* what the daemon said about itself, and that has not come back yet */
	unsigned int n_own;
	struct ddr_node_round round;	/* of the last hello that the daemon said */
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
	unsigned int told_waits;	/* times that something was said to be waited for, and the last of it; "": nothing */
	char waits[512];
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
	struct cpg_address list[2] = { { .nodeid = 1, .pid = (uint32_t)getpid() }, { .nodeid = 2 } };
	char byte;

	(void)types;
	if (handle == 1)
		return play.dispatches;
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
static void own_group_ends(unsigned int i)
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
		play.round = m.type == DDR_N_HELLO ? m.hello.round : play.round;
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
	return 1;
}

uint32_t ddr_corosync_nodes(struct ddr_corosync *c)
{
	(void)c;
	return 3;
}

const struct ddr_quorum *ddr_corosync_quorum(const struct ddr_corosync *c)
{
	(void)c;
	return &play.quorum;
}

const char *ddr_corosync_name(struct ddr_corosync *c, uint32_t node, char *buf, size_t size)
{
	(void)c;
	snprintf(buf, size, "node %u", node);
	return buf;
}

const char *ddr_corosync_error(const struct ddr_corosync *c)
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

static void on_view(void *ctx, const uint32_t *nodes, const uint32_t *pids, uint32_t n, uint64_t ring)
{
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
	return true;
}

static void on_waits(void *ctx, const char *text)
{
	(void)ctx;
	play.told_waits += text != NULL;
	snprintf(play.waits, sizeof(play.waits), "%s", text ? text : "");
}

static const struct ddr_transport_events events = {
	.view = on_view, .quorum = on_quorum, .message = on_message, .foreign = on_foreign, .version = on_version, .complete = is_complete, .waits = on_waits,
	.lost = on_lost,
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
	d.loop = play.loop = qb_loop_create();
	d.transport = ops;
}

static void end(void)
{
	ddr_link_close(&d);
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

/* It comes about on its own, soon. */
#define UNTIL(what) do { \
		for (unsigned int tries = 0; tries < 500 && !(what); tries++) \
			run(20); \
		assert_true(what); \
	} while (0)

/* What goes on now goes on for some seconds more. */
static void lasts(void)
{
	run(1200);
	play.ms += 5000;
	run(1200);
}

/* What the daemon says about itself is sent, and comes back to it. */
static void pump(void)
{
	do {
		while (play.own_group[0].told != play.own_group[0].joined || play.own_group[1].told != play.own_group[1].joined)
			run(1);
		for (unsigned int i = 0; i < play.n_own; i++)
			play.calls.cpg_deliver_fn(1, NULL, 1, (uint32_t)getpid(), play.own[i].msg, play.own[i].len);
		play.n_own = 0;
		ddr_link_flush(d.link);
	} while (play.n_own);
}

static struct ddr_transport *join(const struct ddr_transport_ops *ops)
{
	struct ddr_transport *t;

	begin(ops);
	assert_int_equal(ops->join(&t, &d, uuid, &events, NULL), 0);
	return t;
}

static void leave(struct ddr_transport *t)
{
	t->ops->leave(t);
	end();
}

static bool mcast(struct ddr_transport *t, uint32_t number)
{
	uint8_t msg[DDR_SM_MSG_MAX] = { 0 };

	memcpy(msg, &number, sizeof(number));
	return t->ops->mcast(t, msg, sizeof(msg));
}

/* A process of node @node says hello, as one that speaks versions from @lowest on; it takes part in the array if @number is not 0. */
static void says_hello_of(uint32_t node, uint32_t pid, uint16_t lowest, uint32_t number)
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
static void says_hello(uint32_t node, uint32_t pid)
{
	says_hello_of(node, pid, DDR_MSG_VERSION, pid);
}

/* It says something about the array. */
static void says(uint32_t node, uint32_t pid)
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
static void members(uint32_t n, uint32_t n_joined, uint64_t seq)
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

/* ---- the tests ------------------------------------------------------------------- */

static void fill(struct ddr_transport *t)
{
	for (uint32_t i = 1; i <= QUEUE; i++)
		assert_true(mcast(t, i));
	assert_false(mcast(t, QUEUE + 1));
	assert_false(mcast(t, QUEUE + 1));
}

static void waits_until_corosync_takes_it(cs_error_t answer)
{
	struct ddr_transport *t = join(&ddr_transport_corosync);

	members(1, 1, 8);
	play.answer = answer;
	fill(t);
	run(60);
	assert_true(play.refused > 1);			/* it is tried again, automatically */
	assert_int_equal(play.sent, 0);
	play.answer = CS_OK;
	run(60);
	assert_int_equal(play.sent, QUEUE);
	assert_true(mcast(t, QUEUE + 1));
	assert_int_equal(play.sent, QUEUE + 1);
	leave(t);
}

static void a_busy_corosync_gets_all_that_was_taken(void **state)
{
	(void)state;
	waits_until_corosync_takes_it(CS_ERR_TRY_AGAIN);
}

/* Whatever the error: no message is skipped, or later ones would arrive without it. */
static void a_corosync_that_refuses_gets_all_that_was_taken(void **state)
{
	(void)state;
	waits_until_corosync_takes_it(CS_ERR_NO_MEMORY);
}

/* An error that ends when corosync is back is distinguished from one that does not. */
static void a_join_says_that_there_is_no_corosync(void **state)
{
	struct ddr_transport *t;

	(void)state;
	begin(&ddr_transport_corosync);
	play.opens = CS_ERR_LIBRARY;
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), -ENOTCONN);
	play.opens = CS_ERR_TRY_AGAIN;			/* it is being started, or ends */
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), -ENOTCONN);
	play.opens = CS_OK;
	play.asked = CS_ERR_LIBRARY;			/* corosync went away in between */
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), -ENOTCONN);
	play.asked = CS_OK;
	play.largest = DDR_SM_MSG_MAX - 1;
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), -EMSGSIZE);
	assert_null(t);
	end();
}

static void messages_to_oneself_wait_for_the_loop(void **state)
{
	struct ddr_transport *t = join(&ddr_transport_local);

	(void)state;
	fill(t);
	assert_int_equal(play.received, 0);		/* never from within a call */
	run(60);
	assert_int_equal(play.received, QUEUE);
	assert_true(mcast(t, QUEUE + 1));
	run(60);
	assert_int_equal(play.received, QUEUE + 1);
	leave(t);
}

/* Another release is reported as long as it is in the group and this node takes part in nothing; and this node does not begin to. */
static void a_daemon_of_another_release_is_told(void **state)
{
	struct cpg_address list[] = { { .nodeid = 1, .pid = (uint32_t)getpid() }, { .nodeid = 2, .pid = 50 } };
	struct cpg_ring_id ring = { .nodeid = 1, .seq = 8 };
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	play.calls.cpg_totem_confchg_fn(1, ring, 0, NULL);
	play.calls.cpg_confchg_fn(1, NULL, list, 2, NULL, 0, list, 2);
	says_hello_of(2, 70, DDR_MSG_HIGHEST + 1, 0);	/* a process that is not in the group */
	says_hello_of(1, 70, DDR_MSG_HIGHEST + 1, 0);	/* not our daemon */
	pump();
	assert_int_equal(play.foreign, 0);
	says_hello_of(2, 50, DDR_MSG_HIGHEST + 1, 50);
	pump();
	assert_int_equal(play.foreign, 1);
	assert_int_equal(play.views, 0);
	t->ops->leave(t);
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
	run(60);
	assert_int_equal(play.foreign, 2);		/* also to an array that comes later, and from the loop */
	play.calls.cpg_confchg_fn(1, NULL, list, 1, list + 1, 1, NULL, 0);
	pump();
	assert_int_equal(play.views, 1);
	leave(t);
}

/* A daemon that comes later, or takes part in nothing, is refused by the others, and said to be: on every node that serves an array. */
static void a_daemon_that_is_refused_is_said(void **state)
{
	struct cpg_address list[] = { { .nodeid = 1, .pid = (uint32_t)getpid() }, { .nodeid = 2, .pid = 50 } };
	struct ddr_transport *t = join(&ddr_transport_corosync);
	char text[128];

	(void)state;
	members(1, 1, 8);
	assert_int_equal(play.views, 1);
	assert_int_equal(play.version, DDR_MSG_LOWEST);
	play.calls.cpg_confchg_fn(1, NULL, list, 2, NULL, 0, list + 1, 1);
	pump();
	says_hello_of(2, 50, DDR_MSG_HIGHEST + 1, 0);
	lasts();
	snprintf(text, sizeof(text), "process 50 on node 2 (node 2), speaks versions %u to %u of the protocol between nodes", DDR_MSG_HIGHEST + 1,
		 DDR_MSG_HIGHEST + 1);
	assert_non_null(strstr(play.waits, text));
	assert_int_equal(play.foreign, 0);
	assert_int_equal(play.views, 1);
	leave(t);
}

/* A second array joins through the same connection, and does not disturb the first. What is for one is not given to the other. */
static void arrays_share_one_connection(void **state)
{
	static const uint8_t other[16] = { 2 };
	struct ddr_transport *t = join(&ddr_transport_corosync), *second;

	(void)state;
	play.whole = true;
	members(2, 1, 8);
	assert_int_equal(play.views, 1);
	assert_int_equal(ddr_transport_corosync.join(&second, &d, other, &events, NULL), 0);
	assert_int_equal(play.open, 1);
	pump();
	assert_int_equal(play.views, 2);
	assert_int_equal(play.nodes, 1);		/* node 2 is not in it */
	says(2, 101);
	assert_int_equal(play.received, 1);
	second->ops->leave(second);
	pump();
	says(2, 101);
	assert_int_equal(play.received, 2);
	assert_int_equal(play.views, 2);
	leave(t);
}

/* A command holds the array, or a daemon of an older release serves it: they are in the array's own group, and not in that of the daemons. */
static void who_uses_the_array_is_waited_for(void **state)
{
	struct ddr_transport *t;

	(void)state;
	begin(&ddr_transport_corosync);
	play.own_group[0].other = 60;
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
	members(2, 1, 8);				/* node 2's daemon is another process */
	lasts();
	assert_int_equal(play.views, 0);
	assert_non_null(strstr(play.waits, "process 60 on node 2 (node 2) uses the array; it starts here when"));
	play.own_group[0].other = 101;			/* only that is left */
	own_group_changes(0);
	pump();
	assert_int_equal(play.views, 1);
	assert_int_equal(play.nodes, 2);
	assert_string_equal(play.waits, "");
	play.own_group[0].other = 60;			/* who comes later sees that the array is in use */
	own_group_changes(0);
	pump();
	assert_int_equal(play.views, 1);
	lasts();
	assert_non_null(strstr(play.waits, "process 60 on node 2 (node 2) waits for this array"));
	leave(t);
}

/*
 * The connection to an array's own group is lost alone: the array goes on, and is soon in that group again, for others would take it for one
 * that is not in use.
 */
static void a_presence_that_is_lost_alone_is_made_anew(void **state)
{
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	members(2, 1, 8);
	assert_int_equal(play.views, 1);
	own_group_ends(0);
	UNTIL(!play.own_group[0].ended);		/* this connection is closed */
	UNTIL(play.own_group[0].context);
	assert_int_equal(play.own_group[0].joined, 1);
	play.opens = CS_ERR_TRY_AGAIN;			/* corosync has no room for it at first */
	own_group_ends(0);
	UNTIL(!play.own_group[0].context);
	run(200);
	assert_null(play.own_group[0].context);
	play.opens = CS_OK;
	UNTIL(play.own_group[0].context);
	assert_int_equal(play.own_group[0].joined, 1);
	assert_int_equal(play.told, 1);			/* nothing else happened */
	play.opens = CS_ERR_TRY_AGAIN;			/* an array that stops meanwhile is not in it again */
	own_group_ends(0);
	UNTIL(!play.own_group[0].context);
	play.opens = CS_OK;
	t->ops->leave(t);
	run(1200);
	assert_null(play.own_group[0].context);
	end();
}

/* The same while the array waits for another user of it: it starts when that one has ended, which is seen in the new connection. */
static void a_lost_presence_does_not_hold_the_array(void **state)
{
	struct ddr_transport *t;

	(void)state;
	begin(&ddr_transport_corosync);
	play.own_group[0].other = 60;
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
	members(2, 1, 8);
	assert_int_equal(play.views, 0);
	play.opens = CS_ERR_TRY_AGAIN;
	own_group_ends(0);
	UNTIL(!play.own_group[0].context);
	assert_int_equal(play.views, 0);
	play.own_group[0].other = 0;
	play.opens = CS_OK;
	UNTIL(play.own_group[0].context);
	pump();
	assert_int_equal(play.views, 1);
	leave(t);
}

/* Nothing waits in silence: a process without a hello, for which the arrays of this node wait, is named, once and until it ends. */
static void who_is_waited_for_is_said(void **state)
{
	struct cpg_address list[] = { { .nodeid = 1, .pid = (uint32_t)getpid() }, { .nodeid = 2, .pid = 50 } };
	struct cpg_ring_id ring = { .nodeid = 1, .seq = 8 };
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	play.calls.cpg_totem_confchg_fn(1, ring, 0, NULL);
	play.calls.cpg_confchg_fn(1, NULL, list, 2, NULL, 0, list, 2);
	pump();
	run(1200);
	assert_int_equal(play.told_waits, 0);		/* most of it ends at once */
	lasts();
	assert_non_null(strstr(play.waits, "process 50 on node 2 (node 2), has not said hello, so nobody knows whether it uses this array, which starts"));
	lasts();
	assert_int_equal(play.told_waits, 1);
	says_hello(2, 50);
	pump();
	assert_int_equal(play.views, 1);
	assert_string_equal(play.waits, "");
	lasts();
	assert_int_equal(play.told_waits, 1);
	leave(t);
}

/* The same where partitions have met: no quorum is reported, which is not for want of nodes. And where only others wait, people here know it. */
static void a_hello_that_is_missing_is_said_everywhere(void **state)
{
	struct cpg_address all[] = { { .nodeid = 1, .pid = (uint32_t)getpid() }, { .nodeid = 2, .pid = 101, .reason = CPG_REASON_NODEUP } };
	struct cpg_ring_id ring = { .nodeid = 1, .seq = 12 };
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	members(1, 1, 8);
	play.calls.cpg_confchg_fn(1, NULL, all, 2, NULL, 0, all + 1, 1);
	play.calls.cpg_totem_confchg_fn(1, ring, 0, NULL);
	pump();
	lasts();
	assert_non_null(strstr(play.waits, "process 101 on node 2 (node 2), has not said hello since parts of the cluster met again"));
	says_hello(2, 101);
	assert_string_equal(play.waits, "");
	all[1].pid = 102;
	all[1].reason = CPG_REASON_JOIN;
	play.calls.cpg_confchg_fn(1, NULL, all, 2, NULL, 0, all + 1, 1);
	pump();
	lasts();
	assert_non_null(strstr(play.waits, "process 102 on node 2 (node 2), has not said hello: arrays that start on other nodes wait for it"));
	says_hello(2, 102);
	assert_string_equal(play.waits, "");
	leave(t);
}

/* What corosync itself keeps an array from: it is not in a group, or what it says does not come back. */
static void a_corosync_that_is_waited_for_is_said(void **state)
{
	struct cpg_address self = { .nodeid = 1, .pid = (uint32_t)getpid() };
	struct cpg_ring_id ring = { .nodeid = 1, .seq = 8 };
	struct ddr_transport *t;

	(void)state;
	begin(&ddr_transport_corosync);
	play.joins = CS_ERR_TRY_AGAIN;
	assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
	lasts();
	assert_non_null(strstr(play.waits, "corosync has not said yet who is in the group of the daemons"));
	play.joins = CS_OK;
	run(20);
	play.calls.cpg_totem_confchg_fn(1, ring, 0, NULL);
	play.calls.cpg_confchg_fn(1, NULL, &self, 1, NULL, 0, &self, 1);
	assert_string_equal(play.waits, "");
	lasts();
	assert_non_null(strstr(play.waits, "corosync does not deliver what this node sends"));
	pump();
	assert_int_equal(play.views, 1);
	assert_string_equal(play.waits, "");
	play.opens = CS_ERR_TRY_AGAIN;
	own_group_ends(0);
	UNTIL(!play.own_group[0].context);
	lasts();
	assert_non_null(strstr(play.waits, "corosync has not let this node into the group ddraid:01000000-0000-0000-0000-000000000000 again"));
	play.opens = CS_OK;
	UNTIL(!*play.waits);
	leave(t);
}

/* Finding U9: corosync's ring numbers have 64 bits. Two rings that differ in the upper half alone are two rings, for messages and for quorum. */
static void rings_beyond_32_bits_differ(void **state)
{
	static const uint64_t seqs[] = { 8, 8 + (1ull << 32), 8 + (1ull << 33), 8 + (1ull << 63), 12, 12 + (1ull << 32), UINT64_MAX, UINT32_MAX };
	struct ddr_transport *t = join(&ddr_transport_corosync);
	uint64_t seen[sizeof(seqs) / sizeof(seqs[0])];

	(void)state;
	for (uint32_t i = 0; i < sizeof(seqs) / sizeof(seqs[0]); i++) {
		play.quorum = (struct ddr_quorum){ .ring = { .node = 1, .seq = seqs[i] }, .serial = i + 1 };
		members(2, 1, seqs[i]);
		seen[i] = play.ring;
		assert_true(play.ring == play.quorum_ring);		/* both services give the same number for the same ring */
		for (uint32_t j = 0; j < i; j++)
			assert_true(seen[j] != seen[i]);
	}
	assert_true(seen[0] == (8ull << 32 | 1));
	leave(t);
}

/*
 * Finding U9: the 65th node that joins the group leaves it again. It does not affect the 64 others: their view stays as it was, and
 * the next change is reported to them as usual.
 */
static void the_65th_node_is_turned_away(void **state)
{
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	members(DDR_SM_MAX_NODES, DDR_SM_MAX_NODES, 8);
	assert_int_equal(play.nodes, DDR_SM_MAX_NODES);
	members(DDR_SM_MAX_NODES + 1, 1, 8);		/* on_lost() fails the test */
	assert_int_equal(play.nodes, DDR_SM_MAX_NODES);
	assert_int_equal(play.largest_node, DDR_SM_MAX_NODES);
	members(DDR_SM_MAX_NODES - 1, 0, 8);
	assert_int_equal(play.nodes, DDR_SM_MAX_NODES - 1);
	leave(t);
	t = join(&ddr_transport_corosync);		/* now this node is the one too many */
	play.may_lose = true;
	members(DDR_SM_MAX_NODES + 1, 1, 8);
	assert_true(play.lost);
	assert_int_equal(play.views, 0);
	assert_non_null(strstr(play.why, "64 nodes"));
	leave(t);
}

/* Finding U9: a node's id may be any number but 0, up to 2^32 - 1. */
static void the_largest_node_id(void **state)
{
	struct cpg_address list[] = { { .nodeid = 1, .pid = (uint32_t)getpid() }, { .nodeid = 65, .pid = 7 }, { .nodeid = UINT32_MAX, .pid = 8 } };
	struct cpg_ring_id ring = { .nodeid = 1, .seq = 8 };
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	play.whole = true;
	play.calls.cpg_totem_confchg_fn(1, ring, 0, NULL);
	play.calls.cpg_confchg_fn(1, NULL, list, 3, NULL, 0, list + 1, 2);
	pump();
	says_hello(65, 7);
	says_hello(UINT32_MAX, 8);
	pump();
	assert_int_equal(play.nodes, 3);
	assert_true(play.largest_node == UINT32_MAX);
	says(UINT32_MAX, 8);
	assert_int_equal(play.received, 1);
	leave(t);
}

/* ---- corosync fails ----------------------------------------------------------------- */

/* Whatever the error: an array that has not joined serves nobody, and would wait for ever. */
static void a_join_that_is_refused_is_tried_again(void **state)
{
	static const cs_error_t errors[] = { CS_ERR_TRY_AGAIN, CS_ERR_EXIST, CS_ERR_NO_MEMORY, CS_ERR_NO_RESOURCES };

	(void)state;
	for (unsigned int i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		struct ddr_transport *t;

		begin(&ddr_transport_corosync);
		play.joins = errors[i];
		assert_int_equal(ddr_transport_corosync.join(&t, &d, uuid, &events, NULL), 0);
		assert_true(mcast(t, 1));
		run(60);
		assert_true(play.tried > 1);
		assert_int_equal(play.sent, 0);			/* nothing is sent to a group that was not joined */
		play.joins = CS_OK;
		run(60);
		assert_int_equal(play.sent, 0);			/* nor before it takes part in the array */
		members(1, 1, 8);
		assert_int_equal(play.sent, 1);
		leave(t);
	}
}

static void tell_corosync(void)
{
	play.listener->changed(play.listener->ctx);
}

/* It is gone, or was started anew since: views and quorum of this connection say nothing any more. Once. */
static void corosync_is_lost(void **state)
{
	struct cpg_address late = { .nodeid = 3, .pid = 103, .reason = CPG_REASON_JOIN };
	static const char byte;

	(void)state;
	for (unsigned int how = 0; how < 4; how++) {
		struct ddr_transport *t = join(&ddr_transport_corosync);

		members(2, 1, 8);
		assert_int_equal(play.views, 1);
		tell_corosync();				/* nothing new */
		assert_int_equal(play.told, 1);
		play.may_lose = true;
		play.down = how == 0;
		play.epoch = how == 1;
		play.dispatches = how == 2 ? CS_ERR_LIBRARY : CS_ERR_TRY_AGAIN;
		if (how < 2)
			tell_corosync();
		if (how == 2)
			assert_int_equal(write(play.pipe[1], &byte, 1), 1);
		if (how == 3) {					/* its end of the connection is closed */
			close(play.pipe[1]);
			play.pipe[1] = dup(play.pipe[0]);
		}
		run(60);
		assert_true(play.lost);
		assert_string_equal(play.why, "the connection to corosync was lost");
		assert_int_equal(play.told, 2);
		assert_int_equal(play.open, 0);
		play.may_lose = false;
		tell_corosync();
		play.calls.cpg_confchg_fn(1, NULL, &late, 1, NULL, 0, &late, 1);	/* on its way already */
		says(2, 101);
		assert_true(mcast(t, 9));			/* as to a ring that is no more */
		run(60);
		assert_int_equal(play.told, 2);
		assert_int_equal(play.sent, 0);
		leave(t);
	}
}

/* Corosync took this process out of the group: what the others agree on from then on is not heard here. */
static void a_node_removed_from_the_group_loses_it(void **state)
{
	struct cpg_address all[] = { { .nodeid = 1, .pid = (uint32_t)getpid() }, { .nodeid = 2, .pid = 101 } };
	struct cpg_address stranger = { .nodeid = 1, .pid = 1, .reason = CPG_REASON_PROCDOWN };
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	members(2, 1, 8);
	play.calls.cpg_confchg_fn(1, NULL, all, 2, &stranger, 1, NULL, 0);	/* another process of this node */
	assert_false(play.lost);
	play.may_lose = true;
	play.calls.cpg_confchg_fn(1, NULL, all + 1, 1, all, 1, NULL, 0);
	assert_true(play.lost);
	assert_non_null(strstr(play.why, "removed this node from the daemons' group"));
	leave(t);
}

/* Node 2's daemon was replaced by another one within one change: its node was gone in between, whatever the two lists say together. */
static void a_daemon_that_was_replaced_was_gone(void **state)
{
	struct cpg_address now[] = { { .nodeid = 1, .pid = (uint32_t)getpid() }, { .nodeid = 2, .pid = 200 } };
	struct cpg_address left = { .nodeid = 2, .pid = 101, .reason = CPG_REASON_PROCDOWN };
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	play.whole = true;
	members(2, 1, 8);
	says(2, 101);
	assert_int_equal(play.views, 1);
	play.pid2 = 0;
	play.calls.cpg_confchg_fn(1, NULL, now, 2, &left, 1, now + 1, 1);
	assert_int_equal(play.views, 2);		/* without it */
	assert_int_equal(play.nodes, 1);
	says(2, 101);					/* what the one before had sent */
	says(2, 200);					/* not in the array yet */
	assert_int_equal(play.received, 1);
	says_hello(2, 200);
	assert_int_equal(play.views, 3);
	assert_int_equal(play.pid2, 200);
	says(2, 200);
	assert_int_equal(play.received, 2);
	now[1].pid = 300;				/* one that nobody heard of is no daemon: the array has the same nodes as before */
	left.pid = 250;
	play.calls.cpg_confchg_fn(1, NULL, now, 2, &left, 1, now + 1, 1);
	assert_int_equal(play.nodes, 1);
	leave(t);
}

/* Nodes come: corosync tells the members, then the ring. In between there is no view, since messages of the new ring are not those of the old. */
static void members_wait_for_their_ring(void **state)
{
	struct cpg_address all[] = { { .nodeid = 1, .pid = (uint32_t)getpid() }, { .nodeid = 2, .pid = 101, .reason = CPG_REASON_NODEUP } };
	struct cpg_ring_id ring = { .nodeid = 1, .seq = 12 };
	struct ddr_transport *t = join(&ddr_transport_corosync);

	(void)state;
	members(1, 1, 8);
	assert_int_equal(play.views, 1);
	play.calls.cpg_confchg_fn(1, NULL, all, 2, NULL, 0, all + 1, 1);
	assert_int_equal(play.views, 1);
	play.calls.cpg_totem_confchg_fn(1, ring, 0, NULL);
	pump();
	assert_int_equal(play.views, 2);
	assert_int_equal(play.nodes, 1);		/* it has not said yet in what it takes part */
	assert_false(play.quorate);			/* and may count for the quorum that this view seems to have */
	play.quorum = (struct ddr_quorum){ .ring = { .node = 1, .seq = 12 }, .serial = 1, .quorate = true };
	tell_corosync();
	assert_false(play.quorate);
	says_hello(2, 101);
	assert_true(play.quorate);
	assert_int_equal(play.views, 3);
	assert_int_equal(play.nodes, 2);
	assert_true(play.ring == (12ull << 32 | 1));
	leave(t);
}

/* What is no message of this array's daemons is not given on, whoever sends it. */
static void hostile_messages(void **state)
{
	struct ddr_transport *t = join(&ddr_transport_corosync);
	uint8_t junk[DDR_SM_MSG_MAX + 100];
	struct ddr_msg msg = { .type = DDR_M_HELLO, .sender = 2 };
	size_t len;

	(void)state;
	play.whole = true;
	says(2, 101);					/* before any view */
	assert_int_equal(play.received, 0);
	members(2, 1, 8);
	memset(junk, 0xff, sizeof(junk));
	for (size_t n = 0; n < sizeof(junk); n += n < 64 ? 1 : 97)
		play.calls.cpg_deliver_fn(1, NULL, 2, 101, junk, n);
	len = ddr_msg_encode(&msg, junk, sizeof(junk));	/* with the uuid of no array */
	assert_true(len > 0);
	play.calls.cpg_deliver_fn(1, NULL, 2, 101, junk, len);
	says(3, 101);					/* no member */
	says_hello(3, 101);
	assert_int_equal(play.received, 0);
	assert_int_equal(play.foreign, 0);
	assert_int_equal(play.nodes, 2);
	says(2, 101);
	assert_int_equal(play.received, 1);
	assert_false(t->ops->mcast(t, junk, DDR_SM_MSG_MAX + 1));
	leave(t);
}

/* An array that ends within what it is told: nothing more is told, and nothing is used that is no more. */
static void a_group_may_be_left_within_an_event(void **state)
{
	(void)state;
	for (unsigned int how = 0; how < 2; how++) {
		struct ddr_transport *t = join(&ddr_transport_corosync);

		members(2, 1, 8);
		play.may_lose = true;
		play.leaves = t;
		if (how == 0) {
			play.quorum = (struct ddr_quorum){ .ring = { .node = 1, .seq = 8 }, .serial = 1 };
			tell_corosync();
		} else {
			play.down = true;
			tell_corosync();
		}
		assert_int_equal(play.told, 2);
		assert_null(play.leaves);
		run(20);
		assert_int_equal(play.told, 2);
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_busy_corosync_gets_all_that_was_taken),
		cmocka_unit_test(a_corosync_that_refuses_gets_all_that_was_taken),
		cmocka_unit_test(a_join_says_that_there_is_no_corosync),
		cmocka_unit_test(messages_to_oneself_wait_for_the_loop),
		cmocka_unit_test(arrays_share_one_connection),
		cmocka_unit_test(who_uses_the_array_is_waited_for),
		cmocka_unit_test(a_presence_that_is_lost_alone_is_made_anew),
		cmocka_unit_test(a_lost_presence_does_not_hold_the_array),
		cmocka_unit_test(who_is_waited_for_is_said),
		cmocka_unit_test(a_hello_that_is_missing_is_said_everywhere),
		cmocka_unit_test(a_corosync_that_is_waited_for_is_said),
		cmocka_unit_test(a_daemon_of_another_release_is_told),
		cmocka_unit_test(a_daemon_that_is_refused_is_said),
		cmocka_unit_test(rings_beyond_32_bits_differ),
		cmocka_unit_test(the_65th_node_is_turned_away),
		cmocka_unit_test(the_largest_node_id),
		cmocka_unit_test(a_join_that_is_refused_is_tried_again),
		cmocka_unit_test(corosync_is_lost),
		cmocka_unit_test(a_node_removed_from_the_group_loses_it),
		cmocka_unit_test(a_daemon_that_was_replaced_was_gone),
		cmocka_unit_test(members_wait_for_their_ring),
		cmocka_unit_test(hostile_messages),
		cmocka_unit_test(a_group_may_be_left_within_an_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
