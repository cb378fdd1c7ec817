// SPDX-License-Identifier: GPL-2.0-or-later
/* Connections of clients, and sending to them. See ipc_server.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qb/qblog.h>

#include "daemon/array/array.h"
#include "daemon/ipc/ipc_client.h"
#include "daemon/ipc/ipc_server.h"
#include "daemon/ipc/notice.h"
#include "lib/wire/ipc.h"

#define LOST_MS		5000u	/* a listener that was too slow is dropped after this time without accepting anything */

struct ddr_ipcs {
	struct ddr_daemon *d;
	qb_ipcs_service_t *service;
	struct qb_list_head clients;
	unsigned int n_clients;
};

/* libqb's poll handlers have no context argument; there is only one service per process. */
static struct ddr_ipcs *the_service;

/* ---- sending ------------------------------------------------------------------- */

typedef ssize_t (*send_fn)(qb_ipcs_connection_t *c, const struct iovec *iov, size_t n);

static ssize_t send_json(struct ddr_client *c, struct json_object *o, send_fn fn)
{
	struct qb_ipc_response_header h = { .id = DDR_IPC_ID };
	struct iovec iov[2];
	const char *text;
	size_t len = 0;

	text = json_object_to_json_string_length(o, JSON_C_TO_STRING_PLAIN, &len);
	if (!text)
		return -ENOMEM;
	if (len > DDR_IPC_MAX - sizeof(h))
		return -EMSGSIZE;
	h.size = (int32_t)(sizeof(h) + len);
	iov[0] = (struct iovec){ .iov_base = &h, .iov_len = sizeof(h) };
	iov[1] = (struct iovec){ .iov_base = (void *)(uintptr_t)text, .iov_len = len };
	return fn(c->conn, iov, 2);
}

static void reply(struct ddr_client *c, struct json_object *o)
{
	ssize_t n = send_json(c, o, qb_ipcs_response_sendv);

	c->wait = DDR_WAIT_NONE;
	json_object_put(o);
	if (n < 0) {
		qb_log(LOG_WARNING, "an answer to a client could not be sent (%s); the client was disconnected", strerror((int)-n));
		c->drop = true;
	}
}

void ddr_client_ok(struct ddr_client *c, struct json_object *data)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "rc", json_object_new_int(0));
	if (data)
		json_object_object_add(o, "data", data);
	reply(c, o);
}

void ddr_client_error(struct ddr_client *c, const char *format, ...)
{
	struct json_object *o = json_object_new_object();
	char text[1200];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	json_object_object_add(o, "rc", json_object_new_int(1));
	json_object_object_add(o, "error", json_object_new_string(text));
	reply(c, o);
}

/*
 * Sends what is queued, as far as the client's buffer accepts it. A client that was too slow is dropped after its last event, or when
 * it accepts nothing for LOST_MS: a client that does not read at all must not keep its place from others.
 */
static void drain(struct ddr_client *c, uint64_t now_ms)
{
	while (c->n) {
		struct json_object *e = c->queue[c->head];

		if (send_json(c, e, qb_ipcs_event_sendv) < 0) {
			c->drop |= c->lost && now_ms >= c->sent_ms + LOST_MS;
			return;
		}
		c->sent_ms = now_ms;
		json_object_put(e);
		c->head = (c->head + 1) % (DDR_CLIENT_EVENTS + 1);
		c->n--;
	}
	c->drop |= c->lost;
}

static void push(struct ddr_client *c, struct json_object *e)
{
	c->queue[(c->head + c->n) % (DDR_CLIENT_EVENTS + 1)] = json_object_get(e);
	c->n++;
}

static void queue_event(struct ddr_client *c, struct json_object *e)
{
	if (c->lost)
		return;
	if (c->n < DDR_CLIENT_EVENTS) {
		push(c, e);
	} else {
		struct json_object *notice = json_object_new_object();

		json_object_object_add(notice, "event", json_object_new_string("lost"));
		json_object_object_add(notice, "text", json_object_new_string("this client reads events too slowly; events were lost"));
		c->lost = true;
		c->sent_ms = ddr_now_ms();
		push(c, notice);
		json_object_put(notice);
		qb_log(LOG_WARNING, "a client reads events too slowly; it was disconnected");
	}
	drain(c, ddr_now_ms());
}

/* Takes over the reference. Slow listeners are dropped. */
static void send_event(struct ddr_ipcs *s, struct json_object *event)
{
	struct qb_list_head *iter, *next;

	qb_list_for_each_safe(iter, next, &s->clients) {
		struct ddr_client *c = qb_list_entry(iter, struct ddr_client, list);

		if (c->listening)
			queue_event(c, event);
	}
	json_object_put(event);
}

unsigned int ddr_ipcs_listeners(const struct ddr_ipcs *s)
{
	struct qb_list_head *iter;
	unsigned int n = 0;

	if (!s)
		return 0;
	qb_list_for_each(iter, &s->clients)
		n += qb_list_entry(iter, struct ddr_client, list)->listening;
	return n;
}

bool ddr_clients_wait(const struct ddr_daemon *d, const struct ddr_array *a, enum ddr_client_wait wait)
{
	struct qb_list_head *iter;

	qb_list_for_each(iter, &d->ipc->clients) {
		const struct ddr_client *c = qb_list_entry(iter, struct ddr_client, list);

		if (c->wait == wait && ddr_array_find(c->d, c->which) == a)
			return true;
	}
	return false;
}

/* The receiver of the sink. Waiting clients are checked one by one: each knows its array by name. */
static void take(void *ctx, const struct ddr_notice *n)
{
	struct ddr_ipcs *s = ctx;
	struct qb_list_head *iter, *next;

	ddr_daemon_wake(s->d);
	if (n && ddr_ipcs_listeners(s))
		send_event(s, ddr_notice_json(n));
	qb_list_for_each_safe(iter, next, &s->clients)
		ddr_client_check(qb_list_entry(iter, struct ddr_client, list), ddr_now_ms());
}

void ddr_ipcs_tick(struct ddr_ipcs *s, uint64_t now_ms)
{
	struct qb_list_head *iter, *next;

	if (!s)
		return;
	qb_list_for_each_safe(iter, next, &s->clients) {
		struct ddr_client *c = qb_list_entry(iter, struct ddr_client, list);

		ddr_client_check(c, now_ms);
		drain(c, now_ms);
		if (c->drop)
			qb_ipcs_disconnect(c->conn);	/* frees c */
	}
}

bool ddr_ipcs_rest(const struct ddr_ipcs *s)
{
	struct qb_list_head *iter;

	qb_list_for_each(iter, &s->clients) {
		const struct ddr_client *c = qb_list_entry(iter, struct ddr_client, list);

		if (c->wait != DDR_WAIT_NONE || c->n || c->drop)
			return false;
	}
	return true;
}

/* ---- connections --------------------------------------------------------------- */

static int32_t on_accept(qb_ipcs_connection_t *conn, uid_t uid, gid_t gid)
{
	(void)conn;
	(void)gid;
	if (uid != 0)
		return -EACCES;
	if (the_service->n_clients >= DDR_CLIENTS_MAX) {
		qb_log(LOG_WARNING, "more than %u clients at once; the next one was refused", DDR_CLIENTS_MAX);
		return -EAGAIN;
	}
	return 0;
}

static void on_created(qb_ipcs_connection_t *conn)
{
	struct ddr_client *c = calloc(1, sizeof(*c));

	if (!c)
		return;		/* its requests are not answered */
	c->d = the_service->d;
	c->conn = conn;
	qb_list_add_tail(&c->list, &the_service->clients);
	the_service->n_clients++;
	qb_ipcs_context_set(conn, c);
}

static int32_t on_message(qb_ipcs_connection_t *conn, void *data, size_t size)
{
	const struct qb_ipc_request_header *h = data;	/* only its size matters */
	struct ddr_client *c = qb_ipcs_context_get(conn);

	if (!c)
		return 0;
	ddr_daemon_wake(c->d);
	/*
	 * libqb passes on the size that the client wrote into the header. The ring is mapped twice in a row, so up to DDR_IPC_MAX
	 * bytes can be read from any place in it.
	 */
	if (size < sizeof(*h) || size > DDR_IPC_MAX) {
		c->drop = true;
		return 0;
	}
	ddr_client_request(c, (const char *)data + sizeof(*h), size - sizeof(*h));
	return 0;
}

static int32_t on_closed(qb_ipcs_connection_t *conn)
{
	struct ddr_client *c = qb_ipcs_context_get(conn);

	if (!c)
		return 0;
	qb_ipcs_context_set(conn, NULL);
	ddr_client_gone(c);
	qb_list_del(&c->list);
	the_service->n_clients--;
	for (; c->n; c->n--, c->head = (c->head + 1) % (DDR_CLIENT_EVENTS + 1))
		json_object_put(c->queue[c->head]);
	free(c);
	return 0;
}

static void on_destroyed(qb_ipcs_connection_t *conn)
{
	(void)conn;
}

/* ---- the loop ------------------------------------------------------------------ */

static int32_t job_add(enum qb_loop_priority p, void *data, qb_loop_job_dispatch_fn fn)
{
	return qb_loop_job_add(the_service->d->loop, p, data, fn);
}

static int32_t dispatch_add(enum qb_loop_priority p, int32_t fd, int32_t events, void *data, qb_ipcs_dispatch_fn_t fn)
{
	return qb_loop_poll_add(the_service->d->loop, p, fd, events, data, fn);
}

static int32_t dispatch_mod(enum qb_loop_priority p, int32_t fd, int32_t events, void *data, qb_ipcs_dispatch_fn_t fn)
{
	return qb_loop_poll_mod(the_service->d->loop, p, fd, events, data, fn);
}

static int32_t dispatch_del(int32_t fd)
{
	return qb_loop_poll_del(the_service->d->loop, fd);
}

int ddr_ipcs_open(struct ddr_daemon *d)
{
	struct qb_ipcs_service_handlers handlers = {
		.connection_accept = on_accept,
		.connection_created = on_created,
		.msg_process = on_message,
		.connection_closed = on_closed,
		.connection_destroyed = on_destroyed,
	};
	struct qb_ipcs_poll_handlers poll = {
		.job_add = job_add, .dispatch_add = dispatch_add,
		.dispatch_mod = dispatch_mod, .dispatch_del = dispatch_del,
	};
	struct ddr_ipcs *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return -ENOMEM;
	s->d = d;
	qb_list_init(&s->clients);
	the_service = s;
	s->service = qb_ipcs_create(DDR_IPC_SERVICE, 0, QB_IPC_SHM, &handlers);
	if (!s->service) {
		free(s);
		return -ENOMEM;
	}
	qb_ipcs_poll_handlers_set(s->service, &poll);
	qb_ipcs_enforce_buffer_size(s->service, DDR_IPC_MAX);
	ret = qb_ipcs_run(s->service);
	if (ret) {
		/* qb_ipcs_run() has released the service */
		free(s);
		the_service = NULL;
		return ret;
	}
	d->ipc = s;
	d->sink = (struct ddr_sink){ .take = take, .ctx = s };
	return 0;
}

void ddr_ipcs_close(struct ddr_daemon *d)
{
	if (!d->ipc)
		return;
	d->sink.take = NULL;
	qb_ipcs_destroy(d->ipc->service);
	free(d->ipc);
	d->ipc = NULL;
	the_service = NULL;
}
