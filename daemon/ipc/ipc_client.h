/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One connected client. Shared by ipc_server.c (connections, sending) and ipc_requests.c (the meaning of requests; ipc_request.h). */
#ifndef DDR_DAEMON_IPC_CLIENT_H
#define DDR_DAEMON_IPC_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include <json-c/json.h>
#include <qb/qbipcs.h>
#include <qb/qblist.h>

#include "daemon/base/daemon.h"

#define DDR_CLIENTS_MAX		16u	/* each has buffers in locked memory */
#define DDR_LISTENERS_MAX	12u	/* clients that may listen to events; the other places are for commands */
#define DDR_CLIENT_EVENTS	256u	/* events that may be queued for a slow listener */

/* What a client with an open request waits for; it is answered later. */
enum ddr_client_wait {
	DDR_WAIT_NONE, DDR_WAIT_READY, DDR_WAIT_CLEAN, DDR_WAIT_FAILED, DDR_WAIT_ADDED, DDR_WAIT_REMOVED, DDR_WAIT_BACK,
	DDR_WAIT_REPLACE, DDR_WAIT_VERIFY, DDR_WAIT_GROWN, DDR_WAIT_POLICY,
};

struct ddr_client {
	struct qb_list_head list;
	struct ddr_daemon *d;
	qb_ipcs_connection_t *conn;
	enum ddr_client_wait wait;
	char which[64];			/* the array concerned */
	uint32_t member;		/* the member that must fail, or come back */
	uint8_t uuid[16];		/* of the member that is added, or replaces another one; or of the place of one that is removed */
	uint32_t op, serial;		/* DDR_VERIFY_OP_*, and the number of the last verify before it; or the requested DDR_POLICY_* */
	uint32_t role;			/* the role that a spare must take from a failed member; DDR_ROLE_NONE: it replaces a working one */
	uint64_t blocks;		/* the size of the array before it grows */
	uint64_t until_ms;
	bool listening;
	bool lost;			/* the client reads too slowly: it gets an error, if it still reads, and is disconnected */
	uint64_t sent_ms;		/* when that was noticed, or when it last accepted something */
	bool drop;			/* the next tick disconnects it, once it is not in use */
	unsigned int head, n;		/* queued events: a ring */
	struct json_object *queue[DDR_CLIENT_EVENTS + 1];	/* one more for the notice */
};

/* Answers the request; takes over @data (may be NULL). */
void ddr_client_ok(struct ddr_client *c, struct json_object *data);
void ddr_client_error(struct ddr_client *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ipc_requests.c: handles one request of a client. @text: @len bytes, not checked yet. */
void ddr_client_request(struct ddr_client *c, const char *text, size_t len);
/* ipc_wait.c: the client is gone, or made another request; it waits for nothing any more. */
void ddr_client_gone(struct ddr_client *c);
/* Answers the client if what it waits for has happened. */
void ddr_client_check(struct ddr_client *c, uint64_t now_ms);

/* ipc_server.c: does any client wait for this, for that array? */
bool ddr_clients_wait(const struct ddr_daemon *d, const struct ddr_array *a, enum ddr_client_wait wait);

#endif
