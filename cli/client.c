// SPDX-License-Identifier: GPL-2.0-or-later
/* Requests to the daemon; see client.h. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "lib/wire/ipc_fault.h"

bool client_reach(struct ddr_ipc **c, char *why, size_t size)
{
	struct ddr_ipc_fault fault;

	if (ddr_ipc_connect(c, &fault) == 0)
		return true;
	ddr_ipc_explain(&fault, why, size);
	return false;
}

struct ddr_ipc *client_connect(const char *what)
{
	struct ddr_ipc *c;
	char why[600];

	if (client_reach(&c, why, sizeof(why)))
		return c;
	cli_fail(what, "%s", why);
	return NULL;
}

struct json_object *client_request(const char *cmd, const char *name)
{
	struct json_object *o = json_object_new_object();

	json_object_object_add(o, "cmd", json_object_new_string(cmd));
	if (name)
		json_object_object_add(o, "name", json_object_new_string(name));
	return o;
}

int client_ask(struct ddr_ipc *c, struct json_object *request, struct json_object **data, int timeout_ms, char *error, size_t size)
{
	struct json_object *reply, *found;
	int ret = ddr_ipc_call(c, request, &reply, timeout_ms);
	bool ok;

	*data = NULL;
	json_object_put(request);
	if (ret) {
		struct ddr_ipc_fault fault;

		ddr_ipc_failed(c, ret, &fault);
		ddr_ipc_explain(&fault, error, size);
		return ret;
	}
	ok = json_object_object_get_ex(reply, "rc", &found) && json_object_get_int(found) == 0;
	if (!ok)
		snprintf(error, size, "%s", client_text(reply, "error"));
	else if (json_object_object_get_ex(reply, "data", &found))
		*data = json_object_get(found);
	json_object_put(reply);
	return ok ? 0 : 1;
}

bool client_try(struct ddr_ipc *c, struct json_object *request, struct json_object **data, int timeout_ms,
		char *error, size_t size)
{
	return client_ask(c, request, data, timeout_ms, error, size) == 0;
}

bool client_call(struct ddr_ipc *c, const char *what, struct json_object *request, struct json_object **data,
		 int timeout_ms)
{
	char error[1200];

	if (client_try(c, request, data, timeout_ms, error, sizeof(error)))
		return true;
	cli_fail(what, "%s", error);
	return false;
}

struct json_object *client_object(struct json_object *o, const char *key)
{
	struct json_object *found;

	return json_object_is_type(o, json_type_object) && json_object_object_get_ex(o, key, &found) ? found : NULL;
}

const char *client_text(struct json_object *o, const char *key)
{
	struct json_object *found = client_object(o, key);

	return json_object_is_type(found, json_type_string) ? json_object_get_string(found) : "";
}

uint64_t client_number(struct json_object *o, const char *key)
{
	struct json_object *found = client_object(o, key);

	return json_object_is_type(found, json_type_int) ? json_object_get_uint64(found) : 0;
}

bool client_flag(struct json_object *o, const char *key)
{
	return json_object_get_boolean(client_object(o, key));
}

bool client_null(struct json_object *o, const char *key)
{
	return client_object(o, key) == NULL;
}

size_t client_length(struct json_object *array)
{
	return json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
}

struct json_object *client_at(struct json_object *array, size_t i)
{
	return i < client_length(array) ? json_object_array_get_idx(array, i) : NULL;
}

const char *client_clean(const char *text)
{
	static char buf[4][512];
	static unsigned int next;
	char *p = buf[next++ % 4];

	snprintf(p, sizeof(buf[0]), "%s", text);
	for (char *q = p; *q; q++)
		if (iscntrl((unsigned char)*q))
			*q = '?';
	return p;
}
