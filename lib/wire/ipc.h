/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Client of the daemon: requests and events over libqb IPC, as JSON text.
 *
 * A message is a libqb header and JSON text without a NUL, at most DDR_IPC_MAX bytes in all. Requests: {"cmd":
 * "status", ...}; replies: {"rc": 0} or {"rc": 1, "error": "one line"}, with "data" where there is some.
 * doc/ddraidd.8 lists the commands. Text from the other side is untrusted input: it is parsed with limits, and
 * control characters in it are never printed.
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
#define DDR_IPC_ID		1		/* libqb message id of all our messages */

#define DDR_IPC_LIMIT_MS	5000		/* for the daemon to accept a connection, or to answer a ping */
#define DDR_IPC_SILENCE_MS	7000		/* after this time a waiting client asks whether the daemon answers at all */

struct ddr_ipc;
struct ddr_ipc_fault;

/* Where to connect to, and how long to wait. Tests have their own. */
struct ddr_ipc_how {
	const char *service;	/* outlives the connection */
	uid_t trusted;		/* the user whose process is trusted */
	int limit_ms, silence_ms;	/* silence_ms is the larger one */
};

/*
 * Connects, within DDR_IPC_LIMIT_MS. Returns 0, or a negative errno, with the step that failed and the process in
 * *@fault (may be NULL).
 *
 * The service is an abstract socket, whose name any user may occupy while no daemon runs. So the kernel is asked
 * which user's process listens before a byte of its answer is read: the answer names files that libqb opens,
 * truncates and unlinks with the rights of this process. Must never: read an answer from, or send a request to, a
 * process of any user but root.
 */
int ddr_ipc_connect(struct ddr_ipc **out, struct ddr_ipc_fault *fault) __attribute__((warn_unused_result));
/* The same, within @limit_ms. */
int ddr_ipc_connect_within(struct ddr_ipc **out, int limit_ms, struct ddr_ipc_fault *fault) __attribute__((warn_unused_result));
/* The same, to the service of @how, which is copied. */
int ddr_ipc_connect_to(struct ddr_ipc **out, const struct ddr_ipc_how *how, struct ddr_ipc_fault *fault) __attribute__((warn_unused_result));
/*
 * Puts the process that listens under the name @service into *@fault, as one that is not trusted. False: there is
 * none, or it cannot be determined.
 */
bool ddr_ipc_holder(const char *service, struct ddr_ipc_fault *fault);
/* The process that listens (the daemon), according to the kernel. */
pid_t ddr_ipc_pid(const struct ddr_ipc *c);
/* Describes in *@fault the failure @error of a request on this connection. */
void ddr_ipc_failed(const struct ddr_ipc *c, int error, struct ddr_ipc_fault *fault);
void ddr_ipc_close(struct ddr_ipc *c);

/*
 * Sends @request (the caller keeps it) and waits for its reply for at most @timeout_ms (negative: until the reply
 * comes or the daemon fails). On 0 *@reply belongs to the caller. After DDR_IPC_SILENCE_MS it asks the daemon on a
 * second connection whether it answers at all: if it does not, the wait ends; if it is still working on the request,
 * the wait continues. -ETIMEDOUT, -ENOTCONN (the daemon ended), -EBADMSG (the reply is not JSON), -EMSGSIZE.
 */
int ddr_ipc_call(struct ddr_ipc *c, struct json_object *request, struct json_object **reply,
		 int timeout_ms) __attribute__((warn_unused_result));

/*
 * Waits for the next event for at most @timeout_ms. Days may pass without one: the caller has to check whether the
 * daemon still answers.
 */
int ddr_ipc_event(struct ddr_ipc *c, struct json_object **event, int timeout_ms)
	__attribute__((warn_unused_result));

/*
 * Parses @len bytes that must be exactly one JSON object. Returns it, or NULL.
 * For both ends of the connection.
 */
struct json_object *ddr_ipc_parse(const char *text, size_t len);

#endif
