/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests to the daemon, for start, stop, status and the others. Every failure is printed as one line that says what to do. */
#ifndef DDR_CLI_CLIENT_H
#define DDR_CLI_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include <json-c/json.h>

#include "lib/wire/ipc.h"

/* Connects within seconds. On failure returns false, sets *@c to NULL, and puts the reason and what to do into @why (@size bytes). */
bool client_reach(struct ddr_ipc **c, char *why, size_t size);
/* The same, but prints the reason and returns NULL. */
struct ddr_ipc *client_connect(const char *what);

/* {"cmd": @cmd, "name": @name}; @name may be NULL. */
struct json_object *client_request(const char *cmd, const char *name);
/*
 * Sends @request (taken over) and waits for at most @timeout_ms. Returns true and puts the reply's data into *@data (it belongs to
 * the caller; NULL if there is none), or prints the daemon's error and returns false.
 */
bool client_call(struct ddr_ipc *c, const char *what, struct json_object *request, struct json_object **data,
		 int timeout_ms);
/*
 * The same, but the error goes to @error (@size bytes). Returns 0; 1: the daemon refused; or a negative errno: there was no answer,
 * and since it may still come, this connection must not be used any more.
 */
int client_ask(struct ddr_ipc *c, struct json_object *request, struct json_object **data, int timeout_ms, char *error, size_t size);
/* The same, for callers that treat all failures alike. */
bool client_try(struct ddr_ipc *c, struct json_object *request, struct json_object **data, int timeout_ms,
		char *error, size_t size);

/* Fields of objects; a missing field, or one of another type, is "", 0 or false. */
const char *client_text(struct json_object *o, const char *key);
uint64_t client_number(struct json_object *o, const char *key);
bool client_flag(struct json_object *o, const char *key);
struct json_object *client_object(struct json_object *o, const char *key);
bool client_null(struct json_object *o, const char *key);
/* The length of an array; 0 if it is not an array. */
size_t client_length(struct json_object *array);
/* The element @i of an array, borrowed; NULL if there is none, or it is not an array. */
struct json_object *client_at(struct json_object *array, size_t i);
/* The text with control characters replaced by '?', in one of four static buffers: at most four in one call of printf. */
const char *client_clean(const char *text);

#define CLIENT_TIMEOUT_MS	10000	/* for a request that is answered at once; longer waits check meanwhile whether the daemon answers at all */

#endif
