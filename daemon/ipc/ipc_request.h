/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What ipc_requests.c and ipc_wait.c know of each other. */
#ifndef DDR_DAEMON_IPC_REQUEST_H
#define DDR_DAEMON_IPC_REQUEST_H

#include "daemon/ipc/ipc_client.h"

/* ---- ipc_requests.c ---------------------------------------------------------- */

/* A string of the request, at most @max bytes, without control characters; NULL: none such. */
const char *ddr_request_text(struct json_object *req, const char *key, size_t max);
/* The array that the request names, or NULL and answered. @running: it has to be served. */
struct ddr_array *ddr_request_array(struct ddr_client *c, struct json_object *req, bool running);
/* What `status` answers, of all arrays or of @only. */
struct json_object *ddr_request_status(struct ddr_client *c, const struct ddr_array *only);

/* ---- ipc_wait.c --------------------------------------------------------------- */

/* Begins a wait: it is answered by ddr_client_check(), perhaps at once. */
void ddr_wait_begin(struct ddr_client *c, struct json_object *req, enum ddr_client_wait wait);
/* Whoever waited for a clean stop does not any more: without another one who does it is not wanted. @a: or NULL. */
void ddr_wait_stopper_gone(struct ddr_client *c, struct ddr_array *a);
/* Has the spare the role already? */
bool ddr_wait_taken(const struct ddr_array *a, uint32_t spare, uint32_t role);

#endif
