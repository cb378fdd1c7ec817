// SPDX-License-Identifier: GPL-2.0-or-later
/* Arrays that did not start; see unstarted.h. */
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>
#include <qb/qblog.h>
#include <uuid/uuid.h>

#include "daemon/array/array.h"
#include "daemon/ipc/ipc_client.h"
#include "daemon/ipc/unstarted.h"

/* A text of the request. It is cut if it does not fit; control characters become '?'. */
static void take_text(struct json_object *req, const char *key, char *buf, size_t size)
{
	struct json_object *o;

	buf[0] = '\0';
	if (json_object_object_get_ex(req, key, &o) && json_object_is_type(o, json_type_string))
		snprintf(buf, size, "%s", json_object_get_string(o));
	for (char *p = buf; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 127)
			*p = '?';
}

static struct ddr_unstarted *find(struct ddr_daemon *d, const uint8_t uuid[16])
{
	struct ddr_unstarted *free_one = NULL;

	for (size_t i = 0; i < DDR_ARRAYS_MAX; i++) {
		struct ddr_unstarted *u = &d->unstarted[i];

		if (u->why[0] && memcmp(u->uuid, uuid, sizeof(u->uuid)) == 0)
			return u;
		if (!u->why[0] && !free_one)
			free_one = u;
	}
	return free_one;
}

void ddr_unstarted_request(struct ddr_client *c, struct json_object *req)
{
	struct ddr_unstarted new = { 0 }, *u;
	struct json_object *o;
	char uuid[37];

	take_text(req, "uuid", uuid, sizeof(uuid));
	take_text(req, "name", new.name, sizeof(new.name));
	take_text(req, "why", new.why, sizeof(new.why));
	new.waits = json_object_object_get_ex(req, "waits", &o) && json_object_get_boolean(o);
	if (uuid_parse(uuid, new.uuid) || !new.name[0]) {
		ddr_client_error(c, "the request names no array");
		return;
	}
	u = find(c->d, new.uuid);
	if (new.why[0] && (!u || strcmp(u->why, new.why) != 0))
		qb_log(new.waits ? LOG_NOTICE : LOG_ERR, "array '%s' is not started: %s", new.name, new.why);
	if (u)
		*u = new;
	ddr_client_ok(c, NULL);
}

/* Has the fields of an array that is not served, as far as they are known. */
static struct json_object *object(const struct ddr_unstarted *u)
{
	struct json_object *o = json_object_new_object();
	char uuid[37];

	uuid_unparse_lower(u->uuid, uuid);
	json_object_object_add(o, "name", json_object_new_string(u->name));
	json_object_object_add(o, "uuid", json_object_new_string(uuid));
	json_object_object_add(o, "state", json_object_new_string("inactive"));
	json_object_object_add(o, "started", json_object_new_boolean(false));
	json_object_object_add(o, "starting", json_object_new_boolean(u->waits));
	json_object_object_add(o, "error", json_object_new_string(u->why));
	json_object_object_add(o, "members", json_object_new_array());
	json_object_object_add(o, "jobs", json_object_new_array());
	return o;
}

void ddr_unstarted_list(const struct ddr_daemon *d, struct json_object *list, bool one)
{
	for (size_t i = 0; !one && i < DDR_ARRAYS_MAX; i++)
		if (d->unstarted[i].why[0])
			json_object_array_add(list, object(&d->unstarted[i]));
}

void ddr_unstarted_elsewhere(const struct ddr_daemon *d, struct json_object *list)
{
	for (size_t i = 0; i < DDR_ELSEWHERE && d->elsewhere[i].waits[0]; i++) {
		struct json_object *o = json_object_new_object();
		char uuid[37];

		uuid_unparse_lower(d->elsewhere[i].uuid, uuid);
		json_object_object_add(o, "name", json_object_new_string(uuid));	/* its own is not known here */
		json_object_object_add(o, "uuid", json_object_new_string(uuid));
		json_object_object_add(o, "state", json_object_new_string("inactive"));
		json_object_object_add(o, "started", json_object_new_boolean(false));
		json_object_object_add(o, "elsewhere", json_object_new_boolean(true));
		json_object_object_add(o, "waits", json_object_new_string(d->elsewhere[i].waits));
		json_object_array_add(list, o);
	}
}

void ddr_unstarted_error(struct ddr_client *c, const char *name)
{
	for (size_t i = 0; i < DDR_ARRAYS_MAX; i++) {
		const struct ddr_unstarted *u = &c->d->unstarted[i];

		if (u->why[0] && strcmp(u->name, name) == 0) {
			ddr_client_error(c, "array '%s' is not started on this node: %s", name, u->why);
			return;
		}
	}
	ddr_client_error(c, "no array '%s' is started on this node; ddraid start %s starts it", name, name);
}
