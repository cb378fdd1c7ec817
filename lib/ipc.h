/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Client of the daemon: requests and events over libqb IPC, as JSON text.
 *
 * A message is a libqb header and JSON text without a NUL, at most DDR_IPC_MAX bytes
 * in all. Requests: {"cmd": "status", ...}; replies: {"rc": 0} or {"rc": 1, "error":
 * "one line"}, with "data" where there is some. doc/ddraidd.8 lists the commands.
 * A text of the other side is input: it is parsed with limits, and never printed with
 * control characters in it.
 */
#ifndef DDR_LIB_IPC_H
#define DDR_LIB_IPC_H

#include <stddef.h>
#include <stdint.h>

#include <json-c/json.h>

#define DDR_IPC_SERVICE		"ddraidd"
#define DDR_IPC_MAX		(512u << 10)	/* bytes of a message with its header */
#define DDR_IPC_DEPTH_MAX	16		/* nesting of the JSON */
#define DDR_IPC_ID		1		/* libqb message id of everything that we send */

struct ddr_ipc;

/*
 * Connects. Returns 0 or a negative errno: -ECONNREFUSED (or -ENOENT) if no daemon
 * answers, -EACCES if the caller is not root. May sleep.
 */
int ddr_ipc_connect(struct ddr_ipc **out) __attribute__((warn_unused_result));
void ddr_ipc_close(struct ddr_ipc *c);

/*
 * Sends @request (kept by the caller) and waits for its reply, at most @timeout_ms
 * (negative: for ever, as long as the daemon lives). On 0 *@reply is the caller's.
 * -ETIMEDOUT, -ENOTCONN (the daemon went), -EBADMSG (the reply is not JSON), -EMSGSIZE.
 */
int ddr_ipc_call(struct ddr_ipc *c, struct json_object *request, struct json_object **reply,
		 int timeout_ms) __attribute__((warn_unused_result));

/* Waits for the next event, as ddr_ipc_call() does for a reply. */
int ddr_ipc_event(struct ddr_ipc *c, struct json_object **event, int timeout_ms)
	__attribute__((warn_unused_result));

/*
 * Parses @len bytes that must be exactly one JSON object. Returns it, or NULL.
 * For both ends of the connection.
 */
struct json_object *ddr_ipc_parse(const char *text, size_t len);

#endif
