/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Asking the daemon: what start, stop, status and the others share. Every failure is
 * printed as one line that says what to do.
 */
#ifndef DDR_CLI_CLIENT_H
#define DDR_CLI_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include <json-c/json.h>

#include "lib/wire/ipc.h"

/* Connects within seconds. False: not, and *@c is NULL and @why (@size bytes) says why and what to do. */
bool client_reach(struct ddr_ipc **c, char *why, size_t size);
/* Likewise, or prints why not and returns NULL. */
struct ddr_ipc *client_connect(const char *what);

/* {"cmd": @cmd, "name": @name}; @name may be NULL. */
struct json_object *client_request(const char *cmd, const char *name);
/*
 * Sends @request (taken over) and waits at most @timeout_ms. Returns true and the reply's
 * data (the caller's; NULL if it has none) in *@data, or prints the daemon's sentence
 * and returns false.
 */
bool client_call(struct ddr_ipc *c, const char *what, struct json_object *request, struct json_object **data,
		 int timeout_ms);
/*
 * Likewise, but the sentence goes to @error (@size bytes). Returns 0; 1: the daemon refused; or a negative errno: there is no answer, and
 * an answer may come late, so this connection is good for nothing more.
 */
int client_ask(struct ddr_ipc *c, struct json_object *request, struct json_object **data, int timeout_ms, char *error, size_t size);
/* Likewise, for whom any failure is one. */
bool client_try(struct ddr_ipc *c, struct json_object *request, struct json_object **data, int timeout_ms,
		char *error, size_t size);

/* Fields of objects; what is missing or of another type is "", 0, false. */
const char *client_text(struct json_object *o, const char *key);
uint64_t client_number(struct json_object *o, const char *key);
bool client_flag(struct json_object *o, const char *key);
struct json_object *client_object(struct json_object *o, const char *key);
bool client_null(struct json_object *o, const char *key);
/* Length of an array; 0 if it is none. */
size_t client_length(struct json_object *array);
/* The element @i of an array, borrowed; NULL if there is none, or this is no array. */
struct json_object *client_at(struct json_object *array, size_t i);
/* The text with control characters as '?', in one of a few static buffers: for printf, at most four at a time. */
const char *client_clean(const char *text);

#define CLIENT_TIMEOUT_MS	10000	/* for a request that is answered at once; longer waits find out meanwhile whether the daemon answers at all */

#endif
