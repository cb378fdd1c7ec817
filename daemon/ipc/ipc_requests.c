// SPDX-License-Identifier: GPL-2.0-or-later
/* The meaning of the clients' requests. See ipc_server.h for the list. Requests that are answered later: ipc_wait.c. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qb/qblog.h>
#include <uuid/uuid.h>

#include "daemon/array/array.h"
#include "daemon/ipc/ipc_request.h"
#include "daemon/ipc/ipc_server.h"
#include "daemon/ipc/status.h"
#include "daemon/ipc/unstarted.h"
#include "daemon/kernel/kchan.h"
#include "lib/wire/ipc.h"

const char *ddr_request_text(struct json_object *req, const char *key, size_t max)
{
	struct json_object *o;
	const char *s;
	int n;

	if (!json_object_object_get_ex(req, key, &o) || !json_object_is_type(o, json_type_string))
		return NULL;
	s = json_object_get_string(o);
	n = json_object_get_string_len(o);
	if (n <= 0 || (size_t)n > max || strlen(s) != (size_t)n)
		return NULL;
	for (int i = 0; i < n; i++)
		if ((unsigned char)s[i] < ' ' || s[i] == 127)
			return NULL;
	return s;
}

struct ddr_array *ddr_request_array(struct ddr_client *c, struct json_object *req, bool running)
{
	const char *name = ddr_request_text(req, "name", DDR_NAME_LEN - 1);
	struct ddr_array *a;

	if (!name) {
		ddr_client_error(c, "the request names no array");
		return NULL;
	}
	a = ddr_array_find(c->d, name);
	if (!a)
		ddr_unstarted_error(c, name);
	else if (running && a->state != DDR_ARRAY_RUNNING)
		ddr_client_error(c, "array '%s' is not served: %s", name,
				 a->error[0] ? a->error : "it is still being attached; try again in a moment");
	else
		return a;
	return NULL;
}

struct json_object *ddr_request_status(struct ddr_client *c, const struct ddr_array *only)
{
	struct json_object *list = json_object_new_array();
	struct qb_list_head *iter;

	qb_list_for_each(iter, &c->d->arrays) {
		struct ddr_array *a = qb_list_entry(iter, struct ddr_array, list);

		if (!only || a == only)
			json_object_array_add(list, ddr_status_array(a));
	}
	ddr_unstarted_list(c->d, list, only != NULL);
	return list;
}

static void do_status(struct ddr_client *c, struct json_object *req)
{
	struct json_object *list;
	struct ddr_array *a = NULL;

	if (json_object_object_get_ex(req, "name", NULL)) {
		a = ddr_request_array(c, req, false);
		if (!a)
			return;
	}
	list = ddr_request_status(c, a);
	if (qb_list_empty(&c->d->arrays))
		ddr_unstarted_elsewhere(c->d, list);
	ddr_client_ok(c, list);
}

static void do_findings(struct ddr_client *c, struct json_object *req)
{
	const struct ddr_array *a = ddr_request_array(c, req, true);

	if (a)
		ddr_client_ok(c, ddr_status_findings(a));
}

static void do_wait(struct ddr_client *c, struct json_object *req)
{
	ddr_wait_begin(c, req, DDR_WAIT_READY);
}

static void do_stop(struct ddr_client *c, struct json_object *req)
{
	struct ddr_array *a = ddr_request_array(c, req, true);
	const char *why;

	if (!a)
		return;
	why = ddr_drive_clean(a);
	if (why)
		ddr_client_error(c, "%s", why);
	else
		ddr_wait_begin(c, req, DDR_WAIT_CLEAN);
	if (c->wait == DDR_WAIT_NONE)
		ddr_wait_stopper_gone(c, a);
}

/* Settings that belong to the array on all nodes and are not tunables. False: @key is none of them. */
static bool set_special(struct ddr_client *c, struct json_object *req, struct ddr_array *a, const char *key, const char *value)
{
	bool policy = !strcmp(key, "suspect-reads") || !strcmp(key, "suspect_reads"), error = !strcmp(value, "error");
	const char *why = NULL;

	if (!policy && strcmp(key, "suspect"))
		return false;
	if (policy && (error || !strcmp(value, "pass")))
		why = ddr_drive_set(a, DDR_SM_SUSPECT_READS, error);
	else if (!policy && !strcmp(value, "accept"))
		why = ddr_drive_accept(a);
	else
		why = policy ? "expected error or pass" : "expected accept";
	c->op = error ? DDR_POLICY_SUSPECT_READS_ERROR : 0;
	if (why)
		ddr_client_error(c, "%s = '%.64s': %s", key, value, why);
	else if (policy)
		ddr_wait_begin(c, req, DDR_WAIT_POLICY);
	else
		ddr_client_ok(c, NULL);
	return true;
}

/* All settings that `set` can change, as text: those of this node and those of the array. */
static void do_settings(struct ddr_client *c, struct json_object *req)
{
	struct ddr_array *a = ddr_request_array(c, req, true);
	struct json_object *data;
	const struct ddr_option *options;
	struct ddr_conf conf = c->d->conf;
	char value[DDR_CONF_PATH_MAX];

	if (!a)
		return;
	conf.tune = a->tune;
	data = json_object_new_object();
	for (size_t i = 0, n = ddr_conf_options(&options); i < n; i++)
		if (options[i].per_array)
			json_object_object_add(data, options[i].key,
					       json_object_new_string(ddr_conf_format(&conf, &options[i], value, sizeof(value))));
	json_object_object_add(data, "suspect_reads",
			       json_object_new_string(ddr_sm_super(a->sm)->policy & DDR_POLICY_SUSPECT_READS_ERROR ? "error" : "pass"));
	ddr_client_ok(c, data);
}

static void do_set(struct ddr_client *c, struct json_object *req)
{
	const char *key = ddr_request_text(req, "key", 64), *value = ddr_request_text(req, "value", 64), *job;
	struct ddr_array *a = ddr_request_array(c, req, true);
	char err[DDR_CONF_ERROR_MAX];
	struct ddr_conf conf;

	if (!a)
		return;
	if (!key || !value) {
		ddr_client_error(c, "set needs a key and a value");
		return;
	}
	if (set_special(c, req, a, key, value))
		return;
	conf = c->d->conf;
	conf.tune = a->tune;
	if (ddr_conf_set(&conf, key, value, true, err, sizeof(err))) {
		ddr_client_error(c, "%s; man ddraid.conf lists the options", err);
		return;
	}
	job = ddr_conf_rates_wrong(&conf.tune);
	if (job) {
		ddr_client_error(c, "%s_max_rate would be below %s_min_rate; change the other one first", job, job);
		return;
	}
	a->tune = conf.tune;
	ddr_drive_tune(a);
	ddr_client_ok(c, NULL);
}

/* The array and the member that the request names; NULL: there is none, and the client was answered. */
static struct ddr_array *member_of(struct ddr_client *c, struct json_object *req, int *member)
{
	const char *which = ddr_request_text(req, "member", PATH_MAX - 1);
	struct ddr_array *a = ddr_request_array(c, req, true);

	if (!a)
		return NULL;
	*member = which ? ddr_status_find_member(a, which) : -1;
	if (*member >= 0)
		return a;
	ddr_client_error(c, "'%.255s' is not a member of array '%s'; ddraid status lists them", which ? which : "", a->name);
	return NULL;
}

/* A request about a member was refused (@why), or is waited for. */
static void answer_later(struct ddr_client *c, struct json_object *req, const struct ddr_array *a, int member, const char *why,
			 enum ddr_client_wait wait)
{
	if (why) {
		ddr_client_error(c, "member %d of array '%s' was not changed: %s", member, a->name, why);
		return;
	}
	c->member = (uint32_t)member;
	ddr_wait_begin(c, req, wait);
}

/* Adds a prepared disk as a spare. Answered with its number, once the superblocks list it. */
static void do_add(struct ddr_client *c, struct json_object *req)
{
	const char *text = ddr_request_text(req, "uuid", 36), *why;
	struct ddr_array *a = ddr_request_array(c, req, true);

	if (!a)
		return;
	if (!text || uuid_parse(text, c->uuid)) {
		ddr_client_error(c, "add needs the uuid of the disk");
		return;
	}
	why = ddr_drive_add(a, c->uuid);
	if (why)
		ddr_client_error(c, "nothing was added to array '%s': %s", a->name, why);
	else
		ddr_wait_begin(c, req, DDR_WAIT_ADDED);
}

static void do_remove(struct ddr_client *c, struct json_object *req)
{
	struct ddr_array *a;
	int member;

	a = member_of(c, req, &member);
	if (!a)
		return;
	uuid_generate(c->uuid);
	answer_later(c, req, a, member, ddr_drive_remove(a, (uint32_t)member, c->uuid), DDR_WAIT_REMOVED);
}

/* All nodes search for the device of a failed member, or of a spare. Answered when all have found it, and it was taken back. */
static void do_seek(struct ddr_client *c, struct json_object *req)
{
	struct ddr_array *a;
	int member;

	a = member_of(c, req, &member);
	if (a)
		answer_later(c, req, a, member, ddr_drive_seek(a, (uint32_t)member), DDR_WAIT_BACK);
}

/*
 * The spare "spare" replaces the member "member", once all nodes see it. "role": the member has failed, and this was its role before
 * the spare took it.
 */
static void do_replace(struct ddr_client *c, struct json_object *req)
{
	const char *with = ddr_request_text(req, "spare", PATH_MAX - 1), *why;
	struct json_object *role = json_object_object_get(req, "role");
	struct ddr_array *a;
	int member, spare;

	a = member_of(c, req, &member);
	if (!a)
		return;
	spare = with ? ddr_status_find_member(a, with) : -1;
	if (spare < 0) {
		ddr_client_error(c, "'%.255s' is not a member of array '%s'; ddraid status lists them", with ? with : "", a->name);
		return;
	}
	memcpy(c->uuid, a->super.member[spare].uuid, sizeof(c->uuid));
	c->role = role ? (uint32_t)json_object_get_int(role) : DDR_ROLE_NONE;
	if (ddr_wait_taken(a, (uint32_t)spare, c->role)) {
		answer_later(c, req, a, spare, NULL, DDR_WAIT_REPLACE);
		return;
	}
	why = ddr_drive_replace(a, (uint32_t)member, (uint32_t)spare);
	if (why)
		ddr_client_error(c, "member %d of array '%s' was not replaced: %s", member, a->name, why);
	else
		answer_later(c, req, a, spare, NULL, DDR_WAIT_REPLACE);
}

static void do_fail(struct ddr_client *c, struct json_object *req)
{
	struct ddr_array *a;
	int member;

	a = member_of(c, req, &member);
	if (a)
		answer_later(c, req, a, member, ddr_drive_fail_by_hand(a, (uint32_t)member), DDR_WAIT_FAILED);
}

static int verify_op(const char *action)
{
	static const struct { const char *name; int op; } ops[] = {
		{ "start", DDR_VERIFY_OP_START }, { "pause", DDR_VERIFY_OP_PAUSE }, { "stop", DDR_VERIFY_OP_STOP },
	};

	for (size_t i = 0; action && i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strcmp(ops[i].name, action))
			return ops[i].op;
	return 0;
}

static void do_verify(struct ddr_client *c, struct json_object *req)
{
	struct json_object *priority = json_object_object_get(req, "priority"), *repair = json_object_object_get(req, "repair");
	int op = verify_op(ddr_request_text(req, "action", 16));
	struct ddr_array *a = ddr_request_array(c, req, true);
	const struct ddr_verify *v;
	const char *why;
	uint32_t flags;
	int64_t p;

	if (!a)
		return;
	v = &ddr_sm_super(a->sm)->verify;		/* what the request leaves out stays as it is in a verify in progress */
	p = priority ? json_object_get_int64(priority) : v->state == DDR_VERIFY_NONE ? (int64_t)a->tune.verify_priority : v->priority;
	flags = repair ? (json_object_get_boolean(repair) ? DDR_VERIFY_F_REPAIR : 0) : v->state == DDR_VERIFY_NONE ? 0 : v->flags & DDR_VERIFY_F_REPAIR;
	if (!op || p < 1 || p > 5) {
		ddr_client_error(c, "verify needs an action, start, pause or stop, and a priority from 1 to 5");
		return;
	}
	c->op = (uint32_t)op;
	c->serial = v->serial;
	why = ddr_drive_verify(a, (uint32_t)op, (uint32_t)p, flags);
	if (why)
		ddr_client_error(c, "%s", why);
	else
		ddr_wait_begin(c, req, DDR_WAIT_VERIFY);
}

/* Answers why the array can never get that size, whatever its members are. */
static bool size_refused(struct ddr_client *c, const struct ddr_array *a, uint64_t bytes)
{
	const struct ddr_super *sb = ddr_sm_super(a->sm);
	uint64_t most = ddr_super_most_blocks(sb) * DDR_BLOCK_SIZE, now = sb->array_blocks * DDR_BLOCK_SIZE, unit = (uint64_t)DDR_BLOCK_SIZE << sb->order;

	if (now == most || bytes > most)
		ddr_client_error(c, "the dirty log and region map of array '%s' have room for at most %" PRIu64 " bytes%s", a->name, most,
				 now == most ? ", which is its size already" : "; give a smaller size, or create an array with larger regions");
	else if (bytes && bytes < now)
		ddr_client_error(c, "array '%s' has %" PRIu64 " bytes, and an array cannot shrink", a->name, now);
	else if (bytes == now)
		ddr_client_error(c, "array '%s' already has %" PRIu64 " bytes", a->name, now);
	else if (bytes % unit)
		ddr_client_error(c, "the size of array '%s' must be a multiple of %" PRIu64 " bytes; use %" PRIu64, a->name, unit,
				 bytes - bytes % unit);
	else
		return false;
	return true;
}

/* The array grows to what its members have room for, or to the given number of bytes. Answered with the old and the new size. */
static void do_grow(struct ddr_client *c, struct json_object *req)
{
	struct json_object *size = json_object_object_get(req, "size");
	struct ddr_array *a = ddr_request_array(c, req, true);
	const char *why;
	int64_t bytes = size ? json_object_get_int64(size) : 0;

	if (!a)
		return;
	if (bytes < 0 || (size && bytes == 0)) {
		ddr_client_error(c, "grow takes a size in bytes, or nothing");
		return;
	}
	if (size_refused(c, a, (uint64_t)bytes))
		return;
	c->blocks = a->super.array_blocks;
	why = ddr_drive_grow(a, (uint64_t)bytes / DDR_BLOCK_SIZE);
	if (why)
		ddr_client_error(c, "array '%s' does not grow: %s", a->name, why);
	else
		ddr_wait_begin(c, req, DDR_WAIT_GROWN);
}

/* Does @which name that node, by its id or by its name in the cluster, or the last one that it had there? */
static bool is_node(const struct ddr_array *a, uint32_t id, const char *which)
{
	char *end, name[DDR_NODE_NAME_LEN];
	unsigned long number = strtoul(which, &end, 10);

	return (*end == '\0' && number == id) || (a->d->transport->known_name(a->d, id, name, sizeof(name)) && strcmp(name, which) == 0);
}

static bool has_node(const struct ddr_sm_status *st, uint32_t id)
{
	for (uint32_t i = 0; i < st->n_nodes && i < DDR_SM_MAX_NODES; i++)
		if (st->node[i].id == id)
			return true;
	return false;
}

/*
 * The node that @which names in any array; 0: there is none. False: there is more than one. The id of one node may be the name of
 * another, and names need not be unique: a machine that came back under another id has the name of its old one, also if it does not run
 * the array. If the wrong one, which still runs, were acknowledged, its regions would be taken over while it writes.
 */
static bool find_node(const struct ddr_daemon *d, const char *which, uint32_t *node)
{
	struct qb_list_head *iter;

	*node = 0;
	qb_list_for_each(iter, &d->arrays) {
		const struct ddr_array *a = qb_list_entry(iter, struct ddr_array, list);
		struct ddr_sm_status st;

		if (a->state != DDR_ARRAY_RUNNING)
			continue;
		ddr_sm_get_status(a->sm, &st);
		for (uint32_t i = 0; i < st.n_nodes && i < DDR_SM_MAX_NODES; i++) {
			if (st.node[i].id == *node || !is_node(a, st.node[i].id, which))
				continue;
			if (*node)
				return false;
			*node = st.node[i].id;
		}
	}
	return !*node || strtoul(which, NULL, 10) == *node || !d->transport->bearer(d, which, *node);
}

/* Acknowledges the node in all arrays in which it has failed. */
static void do_fence_ack(struct ddr_client *c, struct json_object *req)
{
	const char *which = ddr_request_text(req, "node", DDR_NODE_NAME_LEN - 1), *why = NULL;
	struct qb_list_head *iter, *next;
	unsigned int taken = 0;
	uint32_t node;

	if (!which) {
		ddr_client_error(c, "the request names no node");
		return;
	}
	if (!find_node(c->d, which, &node)) {
		ddr_client_error(c, "'%s' names more than one node, and nothing was acknowledged; ddraid status lists the id of each: make sure which one is "
				 "powered off, and type its id", which);
		return;
	}
	qb_list_for_each_safe(iter, next, &c->d->arrays) {
		struct ddr_array *a = qb_list_entry(iter, struct ddr_array, list);
		const char *refused;
		struct ddr_sm_status st;

		if (!node || a->state != DDR_ARRAY_RUNNING)
			continue;
		ddr_sm_get_status(a->sm, &st);
		if (!has_node(&st, node))
			continue;
		refused = ddr_drive_fence_ack(a, node);
		if (refused)
			why = refused;
		else
			taken++;
	}
	if (taken)
		ddr_client_ok(c, NULL);
	else if (why)
		ddr_client_error(c, "fence-ack of node '%s' has no effect: %s", which, why);
	else
		ddr_client_error(c, "no array on this node has a node '%s'; ddraid status lists them: use the id", which);
}

/* The operator asserts that no other machine uses the array's disks. The array is started after this, or bound again if it had been refused. */
static void do_adopt(struct ddr_client *c, struct json_object *req)
{
	const char *text = ddr_request_text(req, "name", 36), *id = ddr_request_text(req, "cluster", 36), *why;
	uuid_t uuid, recorded = { 0 };
	struct ddr_array *a;
	char buf[256];

	if (!text || uuid_parse(text, uuid) || (id && uuid_parse(id, recorded))) {
		ddr_client_error(c, "the request names no array by its uuid, or no cluster by its id");
		return;
	}
	why = ddr_identity_adopt(c->d, uuid, recorded, buf, sizeof(buf));
	a = why ? NULL : ddr_array_by_uuid(c->d, uuid);
	if (a)
		why = ddr_array_adopted(a);
	if (why)
		ddr_client_error(c, "%s", why);
	else
		ddr_client_ok(c, NULL);
}

static void do_events(struct ddr_client *c, struct json_object *req)
{
	(void)req;
	if (ddr_ipcs_listeners(c->d->ipc) >= DDR_LISTENERS_MAX) {
		ddr_client_error(c, "%u clients already listen to events, which is the limit; end one of them", DDR_LISTENERS_MAX);
		return;
	}
	c->listening = true;
	ddr_client_ok(c, ddr_request_status(c, NULL));
}

static void do_ping(struct ddr_client *c, struct json_object *req)
{
	struct json_object *data = json_object_new_object();
	const struct ddr_transport_ops *transport = c->d->transport;
	char text[UUID_STR_LEN];
	uuid_t id;

	(void)req;
	if (!transport->cluster)	/* in a cluster the group decides which nodes take part, not an id */
		json_object_object_add(data, "alone", json_object_new_uint64(transport->node(c->d)));
	if (!transport->waits(c->d))	/* 1: the cluster has no other node; 0: unknown */
		json_object_object_add(data, "nodes", json_object_new_uint64(transport->nodes(c->d)));
	if (transport->cluster_id(c->d, id)) {
		uuid_unparse_lower(id, text);
		json_object_object_add(data, "cluster", json_object_new_string(text));
	}
	json_object_object_add(data, "version", json_object_new_string(PACKAGE_VERSION));
	json_object_object_add(data, "verify_reads", json_object_new_boolean(c->d->conf.verify_reads != 0));	/* for `start` */
	json_object_object_add(data, "fail_if_no_daemon", json_object_new_boolean(c->d->conf.fail_if_no_daemon != 0));
	json_object_object_add(data, "module", json_object_new_boolean(ddr_kctl_connected(c->d->kctl)));
	ddr_client_ok(c, data);
}

/* The array is about to be started from this generation, although this node remembers a newer one. */
static void do_older(struct ddr_client *c, struct json_object *req)
{
	const char *uuid = ddr_request_text(req, "name", DDR_NAME_LEN - 1), *id = ddr_request_text(req, "generation_id", 36);
	struct ddr_known known = { 0 };
	struct json_object *o;
	uint8_t array[16];

	if (json_object_object_get_ex(req, "generation", &o))
		known.generation = json_object_get_uint64(o);
	if (!uuid || !id || !known.generation || uuid_parse(uuid, array) || uuid_parse(id, known.gen_id)) {
		ddr_client_error(c, "the request names no array and generation");
		return;
	}
	memcpy(c->d->older.uuid, array, sizeof(array));
	c->d->older.known = known;
	ddr_client_ok(c, NULL);
}

static const struct {
	const char *cmd;
	void (*run)(struct ddr_client *c, struct json_object *req);
} requests[] = {
	{ "status", do_status }, { "findings", do_findings }, { "wait", do_wait }, { "stop", do_stop }, { "set", do_set }, { "settings", do_settings },
	{ "fail", do_fail }, { "add", do_add }, { "remove", do_remove }, { "seek", do_seek }, { "replace", do_replace }, { "verify", do_verify }, { "grow", do_grow },
	{ "fence-ack", do_fence_ack }, { "older", do_older }, { "adopt", do_adopt }, { "events", do_events }, { "ping", do_ping }, { "unstarted", ddr_unstarted_request },
};

void ddr_client_request(struct ddr_client *c, const char *text, size_t len)
{
	struct json_object *req;
	const char *cmd;

	/* whatever the new request is: its answer would be taken for that of the previous request, so that one is dropped */
	if (c->wait != DDR_WAIT_NONE) {
		ddr_client_gone(c);
		ddr_client_error(c, "the previous request was not answered yet; it no longer gets an answer");
		return;
	}
	req = ddr_ipc_parse(text, len);
	if (!req) {
		ddr_client_error(c, "the request is not one JSON object");
		return;
	}
	cmd = ddr_request_text(req, "cmd", 32);
	for (size_t i = 0; cmd && i < sizeof(requests) / sizeof(requests[0]); i++) {
		if (strcmp(requests[i].cmd, cmd) == 0) {
			requests[i].run(c, req);
			json_object_put(req);
			return;
		}
	}
	ddr_client_error(c, "unknown request '%.32s'", cmd ? cmd : "");
	json_object_put(req);
}
