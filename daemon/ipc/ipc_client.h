/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One connected client, between ipc_server.c (connections, sending) and
 * ipc_requests.c (what the requests mean; ipc_request.h).
 */
#ifndef DDR_DAEMON_IPC_CLIENT_H
#define DDR_DAEMON_IPC_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include <json-c/json.h>
#include <qb/qbipcs.h>
#include <qb/qblist.h>

#include "daemon/base/daemon.h"

#define DDR_CLIENTS_MAX		16u	/* each has buffers in locked memory */
#define DDR_LISTENERS_MAX	12u	/* of them; the others are left for commands */
#define DDR_CLIENT_EVENTS	256u	/* events that may wait for a slow listener */

/* What a client that has asked is waiting for; its answer comes later. */
enum ddr_client_wait {
	DDR_WAIT_NONE, DDR_WAIT_READY, DDR_WAIT_CLEAN, DDR_WAIT_FAILED, DDR_WAIT_ADDED, DDR_WAIT_REMOVED, DDR_WAIT_BACK,
	DDR_WAIT_REPLACE, DDR_WAIT_VERIFY, DDR_WAIT_GROWN, DDR_WAIT_POLICY,
};

struct ddr_client {
	struct qb_list_head list;
	struct ddr_daemon *d;
	qb_ipcs_connection_t *conn;
	enum ddr_client_wait wait;
	char which[64];			/* array that it waits for */
	uint32_t member;		/* that is to be out, or back */
	uint8_t uuid[16];		/* of the member that is to be added, or to replace another one; or of the place of one that is to be removed */
	uint32_t op, serial;		/* DDR_VERIFY_OP_*, and the number of the last verify before it; or DDR_POLICY_* that are to be */
	uint32_t role;			/* that a spare is to take from a member that is out; DDR_ROLE_NONE: it is to replace one that works */
	uint64_t blocks;		/* that the array had before it was to grow */
	uint64_t until_ms;
	bool listening;
	bool lost;			/* it was too slow: told, if it reads that, and dropped */
	uint64_t sent_ms;		/* when it was found so, or took something since */
	bool drop;			/* the next tick disconnects it, when nobody uses it */
	unsigned int head, n;		/* events that wait to be sent: a ring */
	struct json_object *queue[DDR_CLIENT_EVENTS + 1];	/* one more for the notice */
};

/* Answers; takes over @data (may be NULL). */
void ddr_client_ok(struct ddr_client *c, struct json_object *data);
void ddr_client_error(struct ddr_client *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ipc_requests.c: handles one request of a client. @text: @len bytes, not checked. */
void ddr_client_request(struct ddr_client *c, const char *text, size_t len);
/* ipc_wait.c. It is gone, or made another request: it waits for nothing any more. */
void ddr_client_gone(struct ddr_client *c);
/* Has what it waits for happened? Then it is answered. */
void ddr_client_check(struct ddr_client *c, uint64_t now_ms);

/* ipc_server.c: does a client wait for that of that array? */
bool ddr_clients_wait(const struct ddr_daemon *d, const struct ddr_array *a, enum ddr_client_wait wait);

#endif
