// SPDX-License-Identifier: GPL-2.0-or-later
/* Events as JSON objects. See notice.h. */
#include <stdio.h>
#include <time.h>

#include <json-c/json.h>

#include "daemon/ipc/notice.h"

static void add_text(struct json_object *o, const char *key, const char *text)
{
	if (text)
		json_object_object_add(o, key, json_object_new_string(text));
}

static void add_time(struct json_object *o)
{
	struct timespec ts;
	char when[40];
	struct tm tm;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	n = strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(when + n, sizeof(when) - n, ".%03ldZ", ts.tv_nsec / 1000000);
	add_text(o, "time", when);
}

struct json_object *ddr_notice_json(const struct ddr_notice *n)
{
	struct json_object *o = json_object_new_object();

	add_time(o);
	add_text(o, "name", n->array);
	add_text(o, "uuid", n->uuid);
	add_text(o, "event", n->event);
	add_text(o, "text", n->text);
	if (n->device)
		json_object_object_add(o, "member", json_object_new_uint64(n->member));
	add_text(o, "device", n->device);
	add_text(o, "error", n->error);
	add_text(o, "operation", n->operation);
	for (unsigned int i = 0; i < DDR_NOTICE_NUMBERS; i++)
		if (n->number[i].key)
			json_object_object_add(o, n->number[i].key, json_object_new_uint64(n->number[i].value));
	return o;
}
