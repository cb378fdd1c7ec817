// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Client of the daemon. See ipc.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include <qb/qbipcc.h>

#include "lib/ipc.h"

#define POLL_MS	500	/* how often a wait without end looks whether the daemon still lives */

struct ddr_ipc {
	qb_ipcc_connection_t *qb;
	char *buf;		/* DDR_IPC_MAX bytes */
};

int ddr_ipc_connect(struct ddr_ipc **out)
{
	struct ddr_ipc *c = calloc(1, sizeof(*c));

	*out = NULL;
	if (!c)
		return -ENOMEM;
	c->buf = malloc(DDR_IPC_MAX);
	if (!c->buf) {
		free(c);
		return -ENOMEM;
	}
	errno = 0;
	c->qb = qb_ipcc_connect(DDR_IPC_SERVICE, DDR_IPC_MAX);
	if (!c->qb) {
		int ret = errno ? -errno : -ECONNREFUSED;

		free(c->buf);
		free(c);
		return ret;
	}
	*out = c;
	return 0;
}

void ddr_ipc_close(struct ddr_ipc *c)
{
	if (!c)
		return;
	qb_ipcc_disconnect(c->qb);
	free(c->buf);
	free(c);
}

struct json_object *ddr_ipc_parse(const char *text, size_t len)
{
	struct json_tokener *tok;
	struct json_object *o;

	if (len == 0 || len > DDR_IPC_MAX)
		return NULL;
	tok = json_tokener_new_ex(DDR_IPC_DEPTH_MAX);
	if (!tok)
		return NULL;
	json_tokener_set_flags(tok, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	o = json_tokener_parse_ex(tok, text, (int)len);
	if (json_tokener_get_error(tok) != json_tokener_success || json_tokener_get_parse_end(tok) != len ||
	    !json_object_is_type(o, json_type_object)) {
		json_object_put(o);
		o = NULL;
	}
	json_tokener_free(tok);
	return o;
}

typedef ssize_t (*receive_fn)(qb_ipcc_connection_t *c, void *buf, size_t len, int32_t ms);

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Receives in short waits, so that a daemon that died ends them. */
static int receive(struct ddr_ipc *c, receive_fn fn, struct json_object **out, int timeout_ms)
{
	uint64_t end = timeout_ms < 0 ? UINT64_MAX : now_ms() + (uint64_t)timeout_ms;
	struct qb_ipc_response_header *h = (struct qb_ipc_response_header *)c->buf;
	ssize_t n;

	*out = NULL;
	for (;;) {
		uint64_t now = now_ms();
		uint64_t left = end > now ? end - now : 0;

		n = fn(c->qb, c->buf, DDR_IPC_MAX, (int32_t)(left < POLL_MS ? left : POLL_MS));
		if (n != -EAGAIN && n != -ETIMEDOUT)
			break;
		if (!qb_ipcc_is_connected(c->qb))
			return -ENOTCONN;
		if (now_ms() >= end)
			return -ETIMEDOUT;
	}
	if (n < 0)
		return n == -ECONNRESET || n == -EPIPE || n == -ESHUTDOWN ? -ENOTCONN : (int)n;
	if ((size_t)n < sizeof(*h) || h->size != n)
		return -EBADMSG;
	*out = ddr_ipc_parse(c->buf + sizeof(*h), (size_t)n - sizeof(*h));
	return *out ? 0 : -EBADMSG;
}

int ddr_ipc_call(struct ddr_ipc *c, struct json_object *request, struct json_object **reply, int timeout_ms)
{
	struct qb_ipc_request_header h = { .id = DDR_IPC_ID };
	struct iovec iov[2];
	const char *text;
	size_t len = 0;
	ssize_t n;

	*reply = NULL;
	text = json_object_to_json_string_length(request, JSON_C_TO_STRING_PLAIN, &len);
	if (!text)
		return -ENOMEM;
	if (len > DDR_IPC_MAX - sizeof(h))
		return -EMSGSIZE;
	h.size = (int32_t)(sizeof(h) + len);
	iov[0] = (struct iovec){ .iov_base = &h, .iov_len = sizeof(h) };
	iov[1] = (struct iovec){ .iov_base = (void *)(uintptr_t)text, .iov_len = len };
	n = qb_ipcc_sendv(c->qb, iov, 2);
	if (n < 0)
		return n == -ECONNRESET || n == -EPIPE || n == -ESHUTDOWN ? -ENOTCONN : (int)n;
	return receive(c, qb_ipcc_recv, reply, timeout_ms);
}

int ddr_ipc_event(struct ddr_ipc *c, struct json_object **event, int timeout_ms)
{
	return receive(c, qb_ipcc_event_recv, event, timeout_ms);
}
