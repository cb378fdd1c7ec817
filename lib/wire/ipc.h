/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Client of the daemon: requests and events over libqb IPC, as JSON text.
 *
 * A message is a libqb header and JSON text without a NUL, at most DDR_IPC_MAX bytes
 * in all. Requests: {"cmd": "status", ...}; replies: {"rc": 0} or {"rc": 1, "error":
 * "one line"}, with "data" where there is some. doc/ddraidd.8 lists the commands.
 * A text of the other side is untrusted input: it is parsed with limits, and control characters
 * in it are never printed.
 */
#ifndef DDR_LIB_IPC_H
#define DDR_LIB_IPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <json-c/json.h>

#define DDR_IPC_SERVICE		"ddraidd"
#define DDR_IPC_MAX		(512u << 10)	/* bytes of a message with its header */
#define DDR_IPC_DEPTH_MAX	16		/* nesting of the JSON */
#define DDR_IPC_ID		1		/* libqb message id of everything that we send */

#define DDR_IPC_LIMIT_MS	5000		/* for the daemon to answer a connection, or a ping */
#define DDR_IPC_SILENCE_MS	7000		/* a wait that lasts longer asks whether the daemon answers at all */

struct ddr_ipc;
struct ddr_ipc_fault;

/* Whom to connect to, and how long to wait. Tests have their own. */
struct ddr_ipc_how {
	const char *service;	/* outlives the connection */
	uid_t trusted;		/* the user whose process is trusted */
	int limit_ms, silence_ms;	/* silence_ms is the larger one */
};

/*
 * Connects, within DDR_IPC_LIMIT_MS. Returns 0, or a negative errno and in *@fault (may be NULL) what is wrong with whom.
 *
 * The service is an abstract socket, whose name any user may occupy while no daemon runs. So the kernel is asked which user's process
 * listens before a byte of its answer is read: the answer names files that libqb opens, truncates and unlinks with the rights of this process.
 * Must never: read an answer of, or send a request to, a process of another user than root.
 */
int ddr_ipc_connect(struct ddr_ipc **out, struct ddr_ipc_fault *fault) __attribute__((warn_unused_result));
/* Likewise, within @limit_ms. */
int ddr_ipc_connect_within(struct ddr_ipc **out, int limit_ms, struct ddr_ipc_fault *fault) __attribute__((warn_unused_result));
/* Likewise, to the service of @how, which is copied. */
int ddr_ipc_connect_to(struct ddr_ipc **out, const struct ddr_ipc_how *how, struct ddr_ipc_fault *fault) __attribute__((warn_unused_result));
/* Whose process listens under the name @service: in *@fault, as one that is not believed. False: nobody's, or it cannot be known. */
bool ddr_ipc_holder(const char *service, struct ddr_ipc_fault *fault);
/* The process that listens: the daemon's, as the kernel says. */
pid_t ddr_ipc_pid(const struct ddr_ipc *c);
/* What the failure @error of a request on this connection means. */
void ddr_ipc_failed(const struct ddr_ipc *c, int error, struct ddr_ipc_fault *fault);
void ddr_ipc_close(struct ddr_ipc *c);

/*
 * Sends @request (kept by the caller) and waits for its reply, at most @timeout_ms
 * (negative: for ever, as long as the daemon lives and answers). On 0 *@reply is the caller's.
 * A wait beyond DDR_IPC_SILENCE_MS asks the daemon on a second connection whether it answers
 * at all: one that does not ends the wait, one that works on the request does not.
 * -ETIMEDOUT, -ENOTCONN (the daemon went), -EBADMSG (the reply is not JSON), -EMSGSIZE.
 */
int ddr_ipc_call(struct ddr_ipc *c, struct json_object *request, struct json_object **reply,
		 int timeout_ms) __attribute__((warn_unused_result));

/* Waits for the next event, at most @timeout_ms. None may come for days: whether the daemon answers is for the caller to ask. */
int ddr_ipc_event(struct ddr_ipc *c, struct json_object **event, int timeout_ms)
	__attribute__((warn_unused_result));

/*
 * Parses @len bytes that must be exactly one JSON object. Returns it, or NULL.
 * For both ends of the connection.
 */
struct json_object *ddr_ipc_parse(const char *text, size_t len);

#endif
