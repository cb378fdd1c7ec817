/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One array, a simulated daemon around it, and a client whose answer is recorded. */
#ifndef DDR_TESTS_UNIT_REQUESTS_H
#define DDR_TESTS_UNIT_REQUESTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/array/array.h"
#include "daemon/ipc/ipc_client.h"
#include "daemon/ipc/ipc_server.h"
#include "daemon/ipc/status.h"
#include "daemon/kernel/kchan.h"

#define SPARE	5u

static struct ddr_array array;
static struct ddr_daemon d;
static struct ddr_transport_ops ops;
static struct ddr_sm_status status;
static char answer[512];		/* "ok", or the error; "": none yet */
static char given[4096];		/* data of the last request that succeeded */
static uint32_t late, asked, fence_acked, verify_priority, verify_flags;
static enum ddr_client_wait others_wait;
static unsigned int listeners;
static uint64_t now;
static uint8_t seen;			/* the cluster that an adoption names */
static uint8_t has_id;			/* the id of the cluster */
static uint8_t withdrawn[16];		/* the disk whose ADD was given up last */

/* ---- what ipc_requests.c uses ---------------------------------------------------- */

uint64_t ddr_now_ms(void) { return now; }
void ddr_sm_get_status(const struct ddr_sm *sm, struct ddr_sm_status *st) { (void)sm; *st = status; }
const struct ddr_super *ddr_sm_super(const struct ddr_sm *sm) { (void)sm; return &array.super; }
struct ddr_array *ddr_array_find(struct ddr_daemon *daemon, const char *name) { (void)daemon; return strcmp(name, "data") ? NULL : &array; }
int ddr_status_find_member(const struct ddr_array *a, const char *which) { (void)a; return atoi(which); }
struct json_object *ddr_status_array(struct ddr_array *a) { (void)a; return NULL; }
struct json_object *ddr_status_findings(const struct ddr_array *a) { (void)a; return json_object_new_array(); }
bool ddr_kctl_connected(const struct ddr_kctl *k) { (void)k; return true; }
const char *ddr_drive_set(struct ddr_array *a, enum ddr_sm_key key, uint64_t value) { (void)a, (void)key, (void)value; return NULL; }
bool ddr_clients_wait(const struct ddr_daemon *daemon, const struct ddr_array *a, enum ddr_client_wait w) { (void)daemon, (void)a; return w == others_wait; }
unsigned int ddr_ipcs_listeners(const struct ddr_ipcs *s) { (void)s; return listeners; }
void ddr_drive_clean_late(struct ddr_array *a) { a->clean_late = true; }
const char *ddr_drive_fail_by_hand(struct ddr_array *a, uint32_t m) { (void)a, (void)m; return NULL; }
const char *ddr_drive_add(struct ddr_array *a, const uint8_t uuid[16]) { (void)a, (void)uuid; return NULL; }
void ddr_drive_add_late(struct ddr_array *a, const uint8_t uuid[16]) { (void)a; memcpy(withdrawn, uuid, sizeof(withdrawn)); }
const char *ddr_drive_remove(struct ddr_array *a, uint32_t m, const uint8_t uuid[16]) { (void)a, (void)m, (void)uuid; return NULL; }
const char *ddr_drive_seek(struct ddr_array *a, uint32_t m) { (void)a, (void)m; return NULL; }
const char *ddr_drive_grow(struct ddr_array *a, uint64_t blocks) { (void)a, (void)blocks; return NULL; }
const char *ddr_drive_accept(struct ddr_array *a) { (void)a; return NULL; }
const char *ddr_drive_fence_ack(struct ddr_array *a, uint32_t node) { (void)a; fence_acked = node; return NULL; }
void ddr_drive_tune(struct ddr_array *a) { (void)a; }

/* Another array than the one that is served is adopted; that one is refused. */
const char *ddr_identity_adopt(struct ddr_daemon *daemon, const uint8_t uuid[16], const uint8_t recorded[16], char *buf, size_t size)
{
	(void)daemon, (void)uuid, (void)buf, (void)size;
	asked++;
	seen = recorded[0];
	return NULL;
}

struct ddr_array *ddr_array_by_uuid(struct ddr_daemon *daemon, const uint8_t uuid[16]) { (void)daemon; return uuid[0] == 1 ? &array : NULL; }
const char *ddr_array_adopted(struct ddr_array *a) { (void)a; return "it is served"; }

const char *ddr_drive_verify(struct ddr_array *a, uint32_t op, uint32_t priority, uint32_t flags)
{
	(void)a, (void)op;
	verify_priority = priority;
	verify_flags = flags;
	return NULL;
}

const char *ddr_drive_replace(struct ddr_array *a, uint32_t member, uint32_t spare)
{
	assert_int_equal(member, 1);
	asked++;
	a->replace.spare = spare;
	a->replace.refusal = NULL;
	return NULL;
}

const char *ddr_drive_clean(struct ddr_array *a)
{
	a->clean_asked = true;
	a->clean_late = false;
	a->clean_refusal = NULL;
	return NULL;
}

void ddr_drive_replace_late(struct ddr_array *a, uint32_t spare)
{
	(void)a;
	late |= 1u << spare;
}

void ddr_client_ok(struct ddr_client *c, struct json_object *data)
{
	assert_string_equal(answer, "");
	c->wait = DDR_WAIT_NONE;
	snprintf(answer, sizeof(answer), "ok");
	snprintf(given, sizeof(given), "%s", data ? json_object_to_json_string_ext(data, JSON_C_TO_STRING_PLAIN) : "");
	json_object_put(data);
}

void ddr_client_error(struct ddr_client *c, const char *format, ...)
{
	va_list args;

	assert_string_equal(answer, "");
	c->wait = DDR_WAIT_NONE;
	va_start(args, format);
	vsnprintf(answer, sizeof(answer), format, args);
	va_end(args);
}

static const char *node_name(const struct ddr_daemon *daemon, uint32_t node, char *buf, size_t size)
{
	(void)daemon;
	snprintf(buf, size, "n%u", node);
	return buf;
}

static bool known_name(const struct ddr_daemon *daemon, uint32_t node, char *buf, size_t size)
{
	return *node_name(daemon, node, buf, size);
}

static uint32_t bearer;		/* a node of no array that has the name of one of an array */

static uint32_t who_bears(const struct ddr_daemon *daemon, const char *name, uint32_t except)
{
	(void)daemon, (void)name, (void)except;
	return bearer;
}

static const char *nothing_waits(const struct ddr_daemon *daemon)
{
	(void)daemon;
	return NULL;
}

static uint32_t one_node(const struct ddr_daemon *daemon)
{
	(void)daemon;
	return 1;
}

static bool cluster_id(const struct ddr_daemon *daemon, uint8_t id[16])
{
	(void)daemon;
	memset(id, 0, 16);
	id[0] = has_id;
	return has_id;
}

/* ---- the stage -------------------------------------------------------------------- */

static void fresh(void)
{
	memset(&array, 0, sizeof(array));
	memset(&status, 0, sizeof(status));
	ops.node_name = node_name;
	ops.known_name = known_name;
	ops.bearer = who_bears;
	ops.waits = nothing_waits;
	ops.cluster_id = cluster_id;
	ops.nodes = one_node;
	d.transport = &ops;
	array.d = &d;
	array.state = DDR_ARRAY_RUNNING;
	snprintf(array.name, sizeof(array.name), "data");
	array.super.members = SPARE + 1;
	for (uint32_t m = 0; m <= SPARE; m++) {
		memset(array.super.member[m].uuid, (int)m + 1, sizeof(array.super.member[m].uuid));
		array.super.member[m].role = m < SPARE ? (uint16_t)m : DDR_ROLE_NONE;
		status.member_state[m] = DDR_MEMBER_IN_SYNC;
	}
	status.member_state[SPARE] = DDR_MEMBER_SPARE;
	status.rebuilding = status.replaced = DDR_NO_MEMBER;
	answer[0] = '\0';
	late = asked = 0;
	others_wait = DDR_WAIT_NONE;
	now = 1000;
}

static struct ddr_client request(const char *text)
{
	struct ddr_client c = { .d = &d };

	ddr_client_request(&c, text, strlen(text));
	return c;
}

#endif
