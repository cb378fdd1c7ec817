// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Client of the daemon. See ipc.h.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <qb/qbipcc.h>

#include "lib/wire/ipc.h"
#include "lib/wire/ipc_fault.h"

#define POLL_MS	500	/* how often an unlimited wait checks that the daemon still lives */
#define PAUSE_MIN_US	100	/* between two checks for a reply: most come at once ... */
#define PAUSE_MAX_US	12800	/* ... and the others may be noticed a few milliseconds late */

static const struct ddr_ipc_how the_daemon = {
	.service = DDR_IPC_SERVICE, .trusted = 0, .limit_ms = DDR_IPC_LIMIT_MS, .silence_ms = DDR_IPC_SILENCE_MS,
};

struct ddr_ipc {
	struct ddr_ipc_how how;
	qb_ipcc_connection_t *qb;
	struct ucred peer;	/* the listening process, according to the kernel */
	char *buf;		/* DDR_IPC_MAX bytes */
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static int set_fault(struct ddr_ipc_fault *fault, enum ddr_ipc_step step, int error, const struct ucred *peer)
{
	if (fault)
		*fault = (struct ddr_ipc_fault){ .step = step, .error = error, .pid = peer->pid, .uid = peer->uid };
	return error;
}

/* ---- connecting ------------------------------------------------------------------- */

/*
 * Frees a connection that libqb has begun without looking at what the other side has sent: libqb finds the connection
 * closed instead of an answer.
 */
static void abandon(qb_ipcc_connection_t *qb, int fd)
{
	char drop[256];

	shutdown(fd, SHUT_RDWR);	/* from here on the other side cannot send anything */
	while (recv(fd, drop, sizeof(drop), MSG_DONTWAIT) > 0)
		;
	if (qb_ipcc_connect_continue(qb) == 0)
		qb_ipcc_disconnect(qb);
}

static bool comes_in(int fd, int timeout_ms)
{
	uint64_t now = now_ms(), end = now + (uint64_t)timeout_ms;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (; now < end; now = now_ms())
		if (poll(&p, 1, (int)(end - now)) > 0)
			return true;
	return false;
}

/* The process that called listen(), according to the kernel; takes no time, and does not depend on the other side. */
static int peer_of(int fd, struct ucred *peer)
{
	socklen_t len = sizeof(*peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &len) ? -errno : 0;
}

static int reach(struct ddr_ipc *c, struct ddr_ipc_fault *fault)
{
	int fd = -1, ret;

	c->peer = (struct ucred){ .uid = (uid_t)-1 };
	errno = 0;
	c->qb = qb_ipcc_connect_async(c->how.service, DDR_IPC_MAX, &fd);
	if (!c->qb)
		return set_fault(fault, DDR_IPC_REACH, errno ? -errno : -ECONNREFUSED, &c->peer);
	ret = peer_of(fd, &c->peer);
	if (ret || c->peer.uid != c->how.trusted) {
		abandon(c->qb, fd);
		return set_fault(fault, DDR_IPC_TRUST, ret ? ret : -EPERM, &c->peer);
	}
	if (!comes_in(fd, c->how.limit_ms)) {
		abandon(c->qb, fd);
		return set_fault(fault, DDR_IPC_WELCOME, -ETIMEDOUT, &c->peer);
	}
	ret = qb_ipcc_connect_continue(c->qb);		/* frees it if it fails */
	return ret ? set_fault(fault, DDR_IPC_WELCOME, ret < 0 ? ret : -EPROTO, &c->peer) : 0;
}

int ddr_ipc_connect_to(struct ddr_ipc **out, const struct ddr_ipc_how *how, struct ddr_ipc_fault *fault)
{
	struct ddr_ipc *c = calloc(1, sizeof(*c));
	int ret = -ENOMEM;

	*out = NULL;
	if (c)
		c->buf = malloc(DDR_IPC_MAX);
	if (c && c->buf) {
		c->how = *how;
		ret = reach(c, fault);
	} else {
		set_fault(fault, DDR_IPC_REACH, ret, &(struct ucred){ .uid = (uid_t)-1 });
	}
	if (ret == 0) {
		*out = c;
		return 0;
	}
	if (c)
		free(c->buf);
	free(c);
	return ret;
}

int ddr_ipc_connect(struct ddr_ipc **out, struct ddr_ipc_fault *fault)
{
	return ddr_ipc_connect_to(out, &the_daemon, fault);
}

int ddr_ipc_connect_within(struct ddr_ipc **out, int limit_ms, struct ddr_ipc_fault *fault)
{
	struct ddr_ipc_how how = the_daemon;

	how.limit_ms = limit_ms;
	return ddr_ipc_connect_to(out, &how, fault);
}

bool ddr_ipc_holder(const char *service, struct ddr_ipc_fault *fault)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct ucred peer;
	bool known;

	if (fd < 0)
		return false;
	/* as libqb does it: the name fills the whole field */
	snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "%s", service);
	known = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && peer_of(fd, &peer) == 0;
	close(fd);
	if (known)
		set_fault(fault, DDR_IPC_TRUST, -EPERM, &peer);
	return known;
}

pid_t ddr_ipc_pid(const struct ddr_ipc *c)
{
	return c->peer.pid;
}

void ddr_ipc_failed(const struct ddr_ipc *c, int error, struct ddr_ipc_fault *fault)
{
	set_fault(fault, DDR_IPC_TALK, error, &c->peer);
}

void ddr_ipc_close(struct ddr_ipc *c)
{
	if (!c)
		return;
	qb_ipcc_disconnect(c->qb);
	free(c->buf);
	free(c);
}

/* ---- talking ---------------------------------------------------------------------- */

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

/*
 * Does the daemon answer at all? Asks on a second connection, since each connection has one request at a time. A
 * daemon that explains why it takes no client does answer. One that has ended is noticed elsewhere.
 */
static bool answers(const struct ddr_ipc *c)
{
	struct json_object *ping, *reply = NULL;
	struct ddr_ipc_fault fault;
	struct ddr_ipc *other;
	int ret;

	if (ddr_ipc_connect_to(&other, &c->how, &fault))
		return fault.error != -ETIMEDOUT && !(fault.step == DDR_IPC_REACH && fault.error == -EAGAIN);
	ping = json_object_new_object();
	json_object_object_add(ping, "cmd", json_object_new_string("ping"));
	ret = ddr_ipc_call(other, ping, &reply, c->how.limit_ms);
	json_object_put(reply);
	json_object_put(ping);
	ddr_ipc_close(other);
	return ret != -ETIMEDOUT;
}

/*
 * libqb waits for a reply until a time of day: if the clock is set back meanwhile, it waits that much longer. So
 * libqb is only asked whether there is a reply, without waiting. For events it uses poll(), which is not affected.
 */
static ssize_t receive_reply(qb_ipcc_connection_t *qb, void *buf, size_t len, int32_t ms)
{
	uint64_t now = now_ms(), end = now + (uint64_t)ms;
	long pause_us = PAUSE_MIN_US;
	ssize_t n;

	for (;; now = now_ms()) {
		n = qb_ipcc_recv(qb, buf, len, 0);
		if ((n != -EAGAIN && n != -ETIMEDOUT) || now >= end)
			return n;
		nanosleep(&(struct timespec){ .tv_nsec = pause_us * 1000 }, NULL);
		pause_us = pause_us < PAUSE_MAX_US ? pause_us * 2 : PAUSE_MAX_US;
	}
}

/* Receives in short waits, so that the death of the daemon ends the wait. @ask: and so does a daemon that does not answer. */
static int receive(struct ddr_ipc *c, receive_fn fn, struct json_object **out, int timeout_ms, bool ask)
{
	uint64_t now = now_ms(), end = timeout_ms < 0 ? UINT64_MAX : now + (uint64_t)timeout_ms;
	uint64_t ask_ms = ask ? now + (uint64_t)c->how.silence_ms : UINT64_MAX;
	struct qb_ipc_response_header *h = (struct qb_ipc_response_header *)c->buf;
	ssize_t n;

	*out = NULL;
	for (;;) {
		uint64_t left = end > now ? end - now : 0;

		n = fn(c->qb, c->buf, DDR_IPC_MAX, (int32_t)(left < POLL_MS ? left : POLL_MS));
		if (n != -EAGAIN && n != -ETIMEDOUT)
			break;
		if (!qb_ipcc_is_connected(c->qb))
			return -ENOTCONN;
		now = now_ms();
		if (now >= end)
			return -ETIMEDOUT;
		if (now < ask_ms)
			continue;
		if (!answers(c))
			return -ETIMEDOUT;
		now = now_ms();
		ask_ms = now + (uint64_t)c->how.silence_ms;
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
	return receive(c, receive_reply, reply, timeout_ms, true);
}

int ddr_ipc_event(struct ddr_ipc *c, struct json_object **event, int timeout_ms)
{
	return receive(c, qb_ipcc_event_recv, event, timeout_ms, false);
}
