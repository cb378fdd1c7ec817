// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The daemon's transport by itself, for tests/vm/test_transport.py: joins a group and prints what is
 * reported to it, one line each; reads commands from standard input.
 *
 *	transport UUID			as ddraidd
 *	transport UUID stranger		another process of the daemons' group: it uses cpg alone
 *
 * Prints	view RING NODE:PID...	quorum yes|no RING NODE...	message NODE SERIAL	foreign NODE NEWER	lost WHY
 *		version VERSION		waits WHY | nothing
 * Reads	send N [BYTES]		N messages; the stranger sends BYTES bytes of garbage, or with BYTES 0 the hello of
 *				a daemon of another release
 *		quit
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <corosync/cpg.h>
#include <qb/qblog.h>
#include <qb/qbloop.h>
#include <uuid/uuid.h>

#include "daemon/base/daemon.h"
#include "daemon/group/corosync.h"
#include "daemon/group/link_int.h"
#include "daemon/group/transport.h"
#include "lib/cluster/sm.h"
#include "lib/wire/msg.h"
#include "lib/wire/node_msg.h"

static struct ddr_daemon d;
static struct ddr_transport *transport;
static uint8_t uuid[16];
static uint64_t serial, to_send, ring;
static qb_loop_timer_handle timer;
static bool stranger;
static cpg_handle_t cpg;
static struct ddr_ring_id its_ring;	/* the stranger's */

uint64_t ddr_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void on_view(void *ctx, const uint32_t *nodes, const uint32_t *pids, const uint8_t *fences, uint32_t n, uint64_t r)
{
	(void)fences;
	(void)ctx;
	ring = r;
	printf("view %" PRIx64, r);
	for (uint32_t i = 0; i < n; i++)
		printf(" %u:%u", nodes[i], pids[i]);
	puts("");
}

static void on_excluded(void *ctx, uint32_t node)
{
	(void)ctx;
	printf("excluded %u\n", node);
}

static void on_quorum(void *ctx, const uint32_t *nodes, uint32_t n, bool quorate, uint64_t r)
{
	(void)ctx;
	printf("quorum %s %" PRIx64, quorate ? "yes" : "no", r);
	for (uint32_t i = 0; i < n; i++)
		printf(" %u", nodes[i]);
	puts("");
}

static void on_message(void *ctx, uint32_t node, const uint8_t *msg, uint32_t len)
{
	struct ddr_msg m;

	(void)ctx;
	if (ddr_msg_decode(msg, len, &m))
		abort();	/* the transport lets none pass */
	printf("message %u %" PRIu64 "\n", node, (uint64_t)m.serial);
}

/* By how much its version is newer than ours. */
static void on_foreign(void *ctx, uint32_t node, uint16_t version)
{
	(void)ctx;
	printf("foreign %u %d\n", node, version - (int)DDR_MSG_HIGHEST);
}

static void on_lost(void *ctx, const char *why)
{
	(void)ctx;
	printf("lost %s\n", why);
}

static void on_version(void *ctx, uint16_t version)
{
	(void)ctx;
	printf("version %u\n", version);
}

static bool is_complete(void *ctx)
{
	(void)ctx;
	return true;
}

static uint64_t io_timeout(void *ctx)
{
	(void)ctx;
	return 60000;
}

static bool has_slot(void *ctx, uint32_t node)
{
	(void)ctx, (void)node;
	return true;
}

static void on_waits(void *ctx, const char *text)
{
	(void)ctx;
	printf("waits %s\n", text ? text : "nothing");
}

/* There is no state machine here, which could owe anything. */
static void on_debts(void *ctx, struct ddr_node_debts *list)
{
	(void)ctx, (void)list;
}

static void on_debt(void *ctx, enum ddr_debt_news news, const char *text)
{
	(void)ctx, (void)news, (void)text;
}

static const struct ddr_transport_events events = {
	.debts = on_debts, .debt = on_debt,
	.view = on_view, .excluded = on_excluded, .quorum = on_quorum, .message = on_message, .foreign = on_foreign, .version = on_version, .complete = is_complete, .has_slot = has_slot, .io_timeout = io_timeout, .waits = on_waits, .lost = on_lost,
};

/* As many as the queue takes; the rest by the timer. */
static void send_some(void *data)
{
	struct ddr_msg m = { .type = DDR_M_EX_RELEASE, .sender = ddr_corosync_node(d.corosync), .ring = ring };
	uint8_t buf[DDR_SM_MSG_MAX];

	(void)data;
	timer = 0;
	memcpy(m.uuid, uuid, sizeof(m.uuid));
	while (to_send) {
		m.serial = (__typeof__(m.serial))(serial + 1);
		if (!transport->ops->mcast(transport, buf, (uint32_t)ddr_msg_encode(&m, buf, sizeof(buf)))) {
			qb_loop_timer_add(d.loop, QB_LOOP_MED, 2 * QB_TIME_NS_IN_MSEC, NULL, send_some, &timer);
			return;
		}
		serial++;
		to_send--;
	}
	puts("sent");
}

static void send_strange(unsigned int n, unsigned int bytes)
{
	static uint8_t buf[4096];
	struct ddr_node_msg m = { .type = DDR_N_HELLO, .hello = { .lowest = DDR_MSG_HIGHEST + 1, .highest = DDR_MSG_HIGHEST + 1 } };
	struct iovec iov = { .iov_base = buf, .iov_len = bytes };

	memset(buf, 0xa5, sizeof(buf));
	cpg_local_get(cpg, &m.sender);
	cpg_dispatch(cpg, CS_DISPATCH_ALL);
	m.hello.round = (struct ddr_node_round){ .ring = ddr_link_ring(&its_ring), .newest = { m.sender, (uint32_t)getpid() } };
	m.hello.flags = DDR_NODE_FIRST;		/* it begins a round, and is of it */
	m.hello.n = 1;				/* it takes part in an array, so those that do not have to stay out */
	m.hello.ride[0].number = 1;
	if (bytes == 0)
		iov.iov_len = ddr_node_msg_encode(&m, buf, sizeof(buf));
	while (n)
		n -= cpg_mcast_joined(cpg, CPG_TYPE_AGREED, &iov, 1) == CS_OK;
	puts("sent");
}

static void command(const char *line)
{
	unsigned int n, bytes = 0;

	if (sscanf(line, "send %u %u", &n, &bytes) < 1)
		return;
	if (stranger) {
		send_strange(n, bytes);
		return;
	}
	to_send += n;
	send_some(NULL);
}

static int32_t on_command(int32_t fd, int32_t revents, void *data)
{
	char text[256] = "", *save = NULL;

	(void)revents;
	(void)data;
	if (read(fd, text, sizeof(text) - 1) <= 0 || strstr(text, "quit")) {
		qb_loop_stop(d.loop);
		return -1;
	}
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		command(line);
	return 0;
}

static void join(void *data)
{
	qb_loop_timer_handle h;

	(void)data;
	d.speaks = (struct ddr_speaks){ DDR_MSG_LOWEST, DDR_MSG_HIGHEST };
	if (!ddr_transport_corosync.waits(&d) &&
	    ddr_transport_corosync.join(&transport, &d, uuid, &events, NULL) == 0)
		return;
	qb_loop_timer_add(d.loop, QB_LOOP_MED, 100 * QB_TIME_NS_IN_MSEC, NULL, join, &h);
}

static void on_its_ring(cpg_handle_t handle, struct cpg_ring_id id, uint32_t n, const uint32_t *member)
{
	(void)handle, (void)n, (void)member;
	its_ring = (struct ddr_ring_id){ .node = id.nodeid, .seq = id.seq };
}

static int join_as_stranger(void)
{
	cpg_model_v1_data_t model = { .model = CPG_MODEL_V1, .cpg_totem_confchg_fn = on_its_ring, .flags = CPG_MODEL_V1_DELIVER_INITIAL_TOTEM_CONF };
	struct cpg_name name = { .length = 6, .value = "ddraid" };

	return cpg_model_initialize(&cpg, CPG_MODEL_V1, (cpg_model_data_t *)&model, NULL) == CS_OK && cpg_join(cpg, &name) == CS_OK ? 0 : -1;
}

int main(int argc, char **argv)
{
	if (argc < 2 || uuid_parse(argv[1], uuid))
		return 2;
	stranger = argc > 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	qb_log_init("probe", LOG_DAEMON, LOG_DEBUG);
	qb_log_ctl(QB_LOG_SYSLOG, QB_LOG_CONF_ENABLED, QB_FALSE);
	qb_log_filter_ctl(QB_LOG_STDERR, QB_LOG_FILTER_ADD, QB_LOG_FILTER_FILE, "*", LOG_INFO);
	qb_log_ctl(QB_LOG_STDERR, QB_LOG_CONF_ENABLED, QB_TRUE);
	d.loop = qb_loop_create();
	if (!d.loop || qb_loop_poll_add(d.loop, QB_LOOP_MED, STDIN_FILENO, POLLIN, NULL, on_command))
		return 1;
	if (stranger && join_as_stranger())
		return 1;
	if (!stranger && (ddr_asks_open(&d.asks, d.loop) || ddr_corosync_open(&d.corosync, d.loop, d.asks)))
		return 1;
	if (!stranger)
		join(NULL);
	qb_loop_run(d.loop);
	if (transport)
		transport->ops->leave(transport);
	ddr_link_close(&d);
	if (!stranger)
		ddr_corosync_close(d.corosync);
	ddr_asks_close(d.asks, 2000);
	return 0;
}
