/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by ipc_requests.c and ipc_wait.c. */
#ifndef DDR_DAEMON_IPC_REQUEST_H
#define DDR_DAEMON_IPC_REQUEST_H

#include "daemon/ipc/ipc_client.h"

/* ---- ipc_requests.c ---------------------------------------------------------- */

/* A string of the request, of at most @max bytes, without control characters; NULL: there is none. */
const char *ddr_request_text(struct json_object *req, const char *key, size_t max);
/* The array that the request names; NULL: there is none, and the client was answered. @running: it must be served. */
struct ddr_array *ddr_request_array(struct ddr_client *c, struct json_object *req, bool running);
/* The answer to `status`, for all arrays or for @only. */
struct json_object *ddr_request_status(struct ddr_client *c, const struct ddr_array *only);

/* ---- ipc_wait.c --------------------------------------------------------------- */

/* Starts a wait: ddr_client_check() answers it, perhaps at once. */
void ddr_wait_begin(struct ddr_client *c, struct json_object *req, enum ddr_client_wait wait);
/* A client has stopped waiting for a clean stop: if no other client waits for it, the stop is cancelled. @a: may be NULL. */
void ddr_wait_stopper_gone(struct ddr_client *c, struct ddr_array *a);
/* Has the spare the role already? */
bool ddr_wait_taken(const struct ddr_array *a, uint32_t spare, uint32_t role);

#endif
