// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The output of `ddraid status --json`: one object for each array. The names of the fields are a public interface: fields may be
 * added, never renamed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>
#include <uuid/uuid.h>

#include "daemon/array/events.h"
#include "daemon/ipc/status.h"
#include "lib/disk/assemble.h"
#include "lib/math/uuid.h"

#define SUSPECT_RUNS_MAX	64u	/* runs of suspect regions that are listed */

static void add_text(struct json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, json_object_new_string(text));
}

static void add_text_or_null(struct json_object *o, const char *key, const char *text)
{
	json_object_object_add(o, key, text ? json_object_new_string(text) : NULL);
}

static void add_number(struct json_object *o, const char *key, uint64_t n)
{
	json_object_object_add(o, key, json_object_new_uint64(n));
}

static const char *layout_name(uint32_t layout)
{
	return layout == DDR_LAYOUT_ROTATING ? "rotating" : "dedicated";
}

static const char *state_name(const struct ddr_array *a, const struct ddr_sm_status *st)
{
	if (a->state != DDR_ARRAY_RUNNING)
		return "inactive";
	if (st->failed || st->gave_up || a->cluster.gave_up)
		return "failed";
	return st->degraded ? "degraded" : "optimal";
}

/* How many more members may fail without loss of the array. */
static uint32_t may_fail(const struct ddr_array *a, const struct ddr_sm_status *st)
{
	uint32_t whole = 0, data = 1u << a->bind.order;

	for (unsigned int i = 0; a->state == DDR_ARRAY_RUNNING && !st->failed && i < a->super.members; i++)
		whole += st->member_state[i] == DDR_MEMBER_IN_SYNC && ddr_sm_super(a->sm)->member[i].role != DDR_ROLE_NONE;
	return whole > data ? whole - data : 0;
}

static struct json_object *member_object(const struct ddr_array *a, const struct ddr_sm_status *st, unsigned int i)
{
	struct json_object *o = json_object_new_object(), *errors = json_object_new_object();
	const struct ddr_member *m = &ddr_sm_super(a->sm)->member[i];
	char uuid[37];

	uuid_unparse_lower(m->uuid, uuid);
	add_number(o, "index", i);
	json_object_object_add(o, "role", m->role == DDR_ROLE_NONE ? NULL : json_object_new_int(m->role));
	json_object_object_add(o, "device", i < a->members->n && a->members->name[i][0] ?
			       json_object_new_string(a->members->name[i]) : NULL);
	add_text(o, "uuid", uuid);
	add_text(o, "state", ddr_member_state_name(st->member_state[i]));
	add_text_or_null(o, "reason", i < a->members->n && !(a->members->open & (1u << i)) && a->members->error[i][0] ? a->members->error[i] : NULL);
	add_number(errors, "read", st->err_read[i]);
	add_number(errors, "write", st->err_write[i]);
	add_number(errors, "corrected", st->err_corrected[i]);
	json_object_object_add(o, "errors", errors);
	return o;
}

/* A member of an array that is not served: only the table is known, not the state of the member. */
static struct json_object *table_member(const struct ddr_array *a, unsigned int i)
{
	struct json_object *o = json_object_new_object(), *errors = json_object_new_object();
	char name[DDR_DEVICE_PATH_LEN] = "";

	if (a->bind.dev_major[i] || a->bind.dev_minor[i])
		ddr_device_name(a->bind.dev_major[i], a->bind.dev_minor[i], name, sizeof(name));
	add_number(o, "index", i);
	add_number(o, "role", i);
	json_object_object_add(o, "device", *name ? json_object_new_string(name) : NULL);
	json_object_object_add(o, "uuid", NULL);
	add_text_or_null(o, "state", NULL);
	add_text_or_null(o, "reason", NULL);
	add_number(errors, "read", 0);
	add_number(errors, "write", 0);
	add_number(errors, "corrected", 0);
	json_object_object_add(o, "errors", errors);
	return o;
}

static struct json_object *members_array(const struct ddr_array *a, const struct ddr_sm_status *st)
{
	struct json_object *list = json_object_new_array();

	if (a->state == DDR_ARRAY_RUNNING)
		for (unsigned int i = 0; i < a->super.members; i++)
			json_object_array_add(list, member_object(a, st, i));
	else
		for (unsigned int i = 0; i < a->bind.members && i < DDR_UAPI_MAX_ROLES; i++)
			json_object_array_add(list, table_member(a, i));
	return list;
}

static struct json_object *regions_object(const struct ddr_sm_status *st)
{
	struct json_object *o = json_object_new_object();

	add_number(o, "total", st->regions);
	add_number(o, "unwritten", st->unwritten);
	add_number(o, "clean", st->clean);
	add_number(o, "dirty", st->dirty);
	add_number(o, "needs_sync", st->needs_sync);
	add_number(o, "suspect", st->suspect);
	add_number(o, "granted", st->granted);
	return o;
}

/* [first, count] of each run of suspect regions, up to SUSPECT_RUNS_MAX. */
static struct json_object *suspect_array(const struct ddr_array *a, const struct ddr_sm_status *st)
{
	struct json_object *list = json_object_new_array();
	uint64_t start = 0, count;

	for (unsigned int runs = 0; st->suspect && runs < SUSPECT_RUNS_MAX && ddr_sm_suspect_run(a->sm, &start, &count); runs++) {
		struct json_object *run = json_object_new_array();

		json_object_array_add(run, json_object_new_uint64(start));
		json_object_array_add(run, json_object_new_uint64(count));
		json_object_array_add(list, run);
		start += count;
	}
	return list;
}

/*
 * @done, @total: blocks. @rate: blocks a second, if this node runs the job; @heard: if another node does, 0: unknown. In the object
 * all are bytes of the device, and eta is in seconds.
 */
static struct json_object *job_object(const struct ddr_array *a, const char *type, uint64_t done, uint64_t total, uint64_t rate, uint64_t heard, uint32_t node)
{
	struct json_object *o = json_object_new_object();
	bool ours = node == a->d->transport->node(a->d), known = ours || heard;

	add_text(o, "type", type);
	add_number(o, "done", done * DDR_BLOCK_SIZE);
	add_number(o, "total", total * DDR_BLOCK_SIZE);
	rate = ours ? rate : heard;
	json_object_object_add(o, "rate", known ? json_object_new_uint64(rate * DDR_BLOCK_SIZE) : NULL);
	json_object_object_add(o, "eta", rate && total > done ? json_object_new_uint64((total - done) / rate) : NULL);
	json_object_object_add(o, "priority", NULL);
	add_number(o, "node", node);
	return o;
}

/* A resync, a rebuild or a replace: its settings are those of the node that runs it. */
static struct json_object *sync_job(const struct ddr_array *a, const char *type, uint64_t done, uint64_t total, uint64_t heard, uint32_t node)
{
	struct json_object *o = job_object(a, type, done, total, a->rate.per_s, heard, node);
	bool ours = node == a->d->transport->node(a->d);

	json_object_object_add(o, "paused", ours ? json_object_new_boolean(!a->tune.resync) : NULL);
	json_object_object_add(o, "priority", ours ? json_object_new_uint64(a->tune.resync_priority) : NULL);
	return o;
}

static struct json_object *verify_job(const struct ddr_array *a, const struct ddr_sm_status *st)
{
	const struct ddr_verify *v = &ddr_sm_super(a->sm)->verify;
	uint64_t rate = v->state == DDR_VERIFY_RUNNING ? a->rate.scan_per_s : 0;
	struct ddr_sm_progress p;
	struct json_object *o;

	ddr_sm_verify_progress(a->sm, &p);
	o = job_object(a, "verify", p.done, p.total, rate, v->state == DDR_VERIFY_RUNNING ? a->watch.verify.per_s : 0, st->writer);
	add_number(o, "position", p.at * DDR_BLOCK_SIZE);
	json_object_object_add(o, "paused", json_object_new_boolean(v->state == DDR_VERIFY_PAUSED));
	add_number(o, "priority", v->priority);
	add_number(o, "mismatches", v->found);
	add_number(o, "repaired", v->repaired);
	add_text_or_null(o, "waits", ddr_schedule_waits(a));
	return o;
}

/* The verify in progress, or the last one. */
static struct json_object *verify_object(const struct ddr_array *a)
{
	static const char *const states[] = { [DDR_VERIFY_NONE] = "idle", [DDR_VERIFY_RUNNING] = "running", [DDR_VERIFY_PAUSED] = "paused" };
	const struct ddr_verify *v = &ddr_sm_super(a->sm)->verify;
	struct json_object *o = json_object_new_object();
	const char *waits = ddr_schedule_waits(a);
	uint64_t due = ddr_schedule_due(a);

	add_text(o, "state", states[v->state]);
	add_number(o, "serial", v->serial);
	json_object_object_add(o, "begun", v->begun ? json_object_new_uint64(v->begun) : NULL);
	json_object_object_add(o, "ended", v->ended ? json_object_new_uint64(v->ended) : NULL);
	add_number(o, "found", v->found);
	add_number(o, "repaired", v->repaired);
	json_object_object_add(o, "repair", json_object_new_boolean((v->flags & DDR_VERIFY_F_REPAIR) != 0));
	json_object_object_add(o, "scheduled", json_object_new_boolean((v->flags & DDR_VERIFY_F_SCHEDULED) != 0));
	json_object_object_add(o, "due", due == UINT64_MAX ? NULL : json_object_new_uint64(due));
	add_text_or_null(o, "waits", waits);
	return o;
}

static struct json_object *rebuild_job(const struct ddr_array *a, const struct ddr_sm_status *st)
{
	bool replace = st->replaced != DDR_NO_MEMBER;
	struct ddr_sm_progress p;
	struct json_object *o;
	char waits[256];

	ddr_sm_rebuild_progress(a->sm, &p);
	o = sync_job(a, replace ? "replace" : "rebuild", p.done, p.total, a->watch.rebuild.per_s, st->writer);
	add_number(o, "position", p.at * DDR_BLOCK_SIZE);
	add_number(o, "mismatches", 0);
	add_number(o, "member", st->rebuilding);
	if (replace)
		add_number(o, "replaces", st->replaced);
	snprintf(waits, sizeof(waits), "the array has unreadable blocks between byte %" PRIu64 " and %" PRIu64 " that cannot be reconstructed (the "
		 "log of ddraidd lists them); the rebuild resumes once these blocks are rewritten", p.bad_start * DDR_BLOCK_SIZE,
		 (p.bad_start + p.bad_count) * DDR_BLOCK_SIZE - 1);
	add_text_or_null(o, "waits", p.bad_count ? waits : NULL);
	return o;
}

static struct json_object *jobs_array(const struct ddr_array *a, const struct ddr_sm_status *st)
{
	struct json_object *list = json_object_new_array(), *o;

	if (a->state != DDR_ARRAY_RUNNING)
		return list;
	if (st->resync_done < st->resync_total || st->resync_regions) {
		o = sync_job(a, "resync", st->resync_done, st->resync_total, 0, a->d->transport->node(a->d));
		add_number(o, "mismatches", st->mismatches);
		json_object_array_add(list, o);
	}
	if (ddr_sm_super(a->sm)->verify.state != DDR_VERIFY_NONE)
		json_object_array_add(list, verify_job(a, st));
	if (st->rebuilding != DDR_NO_MEMBER)
		json_object_array_add(list, rebuild_job(a, st));
	return list;
}

static void add_node(const struct ddr_array *a, struct json_object *nodes, uint32_t id, const char *state, uint32_t slot)
{
	struct json_object *o = json_object_new_object();
	char name[DDR_NODE_NAME_LEN];

	add_number(o, "id", id);
	add_text(o, "name", a->d->transport->node_name(a->d, id, name, sizeof(name)));
	add_text(o, "state", state);
	json_object_object_add(o, "slot", slot == DDR_SM_NO_SLOT ? NULL : json_object_new_uint64(slot));
	json_object_array_add(nodes, o);
}

/* A disk that not all nodes have found, and what to do; NULL: there is none. */
static struct json_object *unseen(const struct ddr_array *a, const struct ddr_sm_status *st)
{
	char text[256], name[DDR_NODE_NAME_LEN];
	uint32_t member = 0;

	while (member < DDR_MAX_MEMBERS && !st->unseen_by[member])
		member++;
	if (member == DDR_MAX_MEMBERS)
		return NULL;
	snprintf(text, sizeof(text), "%s does not see the disk of member %u, which is %s: connect the disk there, or remove the member",
		 a->d->transport->node_name(a->d, st->unseen_by[member], name, sizeof(name)), member,
		 st->sought & (1u << member) ? "being taken back" : "a spare");
	return json_object_new_string(text);
}

/* NULL: there is none. */
static void add_uuid(struct json_object *o, const char *key, const uint8_t *uuid)
{
	char text[UUID_STR_LEN];

	if (uuid)
		uuid_unparse_lower(uuid, text);
	add_text_or_null(o, key, uuid ? text : NULL);
}

/* The owners of the slots, and the last owners of free ones, as far as the group knows them. */
static struct json_object *slots_array(const struct ddr_array *a)
{
	struct json_object *list = json_object_new_array();

	for (uint32_t s = 0; a->state == DDR_ARRAY_RUNNING && s < a->super.slots; s++) {
		struct json_object *o = json_object_new_object();
		struct ddr_owner w;

		ddr_sm_owner(a->sm, s, &w);
		json_object_array_add(list, o);
		add_number(o, "slot", s);
		add_text(o, "state", ddr_slot_state_name(w.state));
		json_object_object_add(o, "node", w.node ? json_object_new_uint64(w.node) : NULL);
		add_text_or_null(o, "name", w.name[0] ? w.name : NULL);
		add_uuid(o, "machine", ddr_uuid_is_zero(w.machine) ? NULL : w.machine);
		add_uuid(o, "boot_id", ddr_uuid_is_zero(w.instance.boot_id) ? NULL : w.instance.boot_id);
		add_number(o, "cookie", w.instance.cookie);
		add_number(o, "since", w.since);
		add_uuid(o, "fenced_boot_id", w.fenced_time ? w.fenced.boot_id : NULL);
		add_number(o, "fenced_cookie", w.fenced.cookie);
		add_number(o, "fenced", w.fenced_time);
	}
	return list;
}

/* What the state machine waits for, and whose turn it is to do something about it. */
static void node_waits(const struct ddr_array *a, const struct ddr_sm_status *st, char *buf, size_t size)
{
	const struct ddr_transport_ops *t = a->d->transport;
	char name[DDR_NODE_NAME_LEN], id[16];
	int n = snprintf(buf, size, "%s (node %u) %s%s", t->node_name(a->d, st->wait_node, name, sizeof(name)), st->wait_node, st->wait,
			 ddr_fence_ack_id(st->wait, st->wait_node, id, sizeof(id)));

	if (st->wait_fencer && n > 0 && (size_t)n < size)
		snprintf(buf + n, size - (size_t)n, ". It is the turn of %s (node %u) to fence it; if its fence_command takes longer than fence_timeout, or fails, "
			 "the next node that can fence does it", t->node_name(a->d, st->wait_fencer, name, sizeof(name)), st->wait_fencer);
}

/* What the group waits for, and for which node. */
static void cluster_waits(const struct ddr_array *a, const struct ddr_sm_status *st, struct json_object *o)
{
	bool held = a->members && a->members->still.held;
	char text[768];

	if (a->waiting || a->cluster.lost || a->stamp.stopped || held) {
		add_text(o, "waits", !a->stamp.stopped && !held ? a->error :
			 "its I/O waits until its members were read: another machine may have taken the array over while ddraidd did not run");
		return;
	}
	if (a->state == DDR_ARRAY_LOADING && a->load) {
		ddr_load_waits(a->load, text, sizeof(text));
		add_text_or_null(o, "waits", *text ? text : NULL);
		return;
	}
	/* what the state machine waits for follows from the first; the second says who, and why */
	if (a->cluster.waits[0] || (a->cluster.debt[0] && (!st->wait || st->wait_for == DDR_SM_WAIT_VIEW || st->wait_for == DDR_SM_WAIT_STATE))) {
		add_text(o, "waits", a->cluster.waits[0] ? a->cluster.waits : a->cluster.debt);
		return;
	}
	if (st->wait && st->wait_node)
		node_waits(a, st, text, sizeof(text));
	add_text_or_null(o, "waits", st->wait && st->wait_node ? text : st->wait);
}

/* What nodes wait for in arrays that this node does not serve. */
static struct json_object *elsewhere(const struct ddr_daemon *d)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < DDR_ELSEWHERE && d->elsewhere[i].waits[0]; i++) {
		struct json_object *o = json_object_new_object();

		add_uuid(o, "uuid", d->elsewhere[i].uuid);
		add_text(o, "waits", d->elsewhere[i].waits);
		json_object_array_add(list, o);
	}
	return list;
}

static struct json_object *cluster_object(const struct ddr_array *a, const struct ddr_sm_status *st)
{
	static const char *const states[] = {
		[DDR_NS_JOINING] = "joining", [DDR_NS_ACTIVE] = "active", [DDR_NS_SUSPECT] = "suspect",
		[DDR_NS_FENCING] = "fencing", [DDR_NS_RECOVERING] = "recovering", [DDR_NS_LEFT] = "left",
	};
	struct json_object *o = json_object_new_object(), *nodes = json_object_new_array();
	bool running = a->state == DDR_ARRAY_RUNNING;

	for (uint32_t i = 0; running && i < st->n_nodes && i < DDR_SM_MAX_NODES; i++)
		add_node(a, nodes, st->node[i].id, states[st->node[i].state], st->node[i].slot);
	add_text(o, "transport", a->d->transport->name);
	add_uuid(o, "id", ddr_ident_cluster_id(&a->d->ident, a->d->transport->cluster));
	add_uuid(o, "machine", a->d->ident.id.machine);
	add_number(o, "node", a->d->transport->node(a->d));
	json_object_object_add(o, "quorate", json_object_new_boolean(st->quorate));
	add_text(o, "fencing", !a->d->transport->cluster ? "none" : a->d->conf.fence_command[0] == '/' ? "command" : a->d->conf.fence_command);
	json_object_object_add(o, "writer", st->writer ? json_object_new_uint64(st->writer) : NULL);
	add_number(o, "protocol", a->cluster.version ? a->cluster.version : DDR_MSG_VERSION);
	cluster_waits(a, st, o);
	json_object_object_add(o, "elsewhere", elsewhere(a->d));
	json_object_object_add(o, "unseen", unseen(a, st));
	json_object_object_add(o, "nodes", nodes);
	json_object_object_add(o, "slots", slots_array(a));
	return o;
}

/* What this node waits for because a member has no space, and what to do; NULL: nothing. */
static struct json_object *no_space(const struct ddr_array *a, const struct ddr_sm_status *st)
{
	unsigned int m = st->no_space ? (unsigned int)__builtin_ctz(st->no_space) : 0;
	char text[640];

	if (!st->space_wait)
		return NULL;
	snprintf(text, sizeof(text), "member %u (%s) has no space left: %s; add space to the pool that provides the disk, or, if the array has "
		 "redundancy left, fail the member (ddraid fail %s %u)", m, *a->members->name[m] ? a->members->name[m] : "missing", st->space_wait,
		 a->name, m);
	return json_object_new_string(text);
}

static struct json_object *counters_object(const struct ddr_sm_status *st)
{
	struct json_object *o = json_object_new_object();

	add_number(o, "log_writes", st->log_writes);
	add_number(o, "map_writes", st->map_writes);
	add_number(o, "superblock_writes", st->sb_writes);
	add_number(o, "flushes", st->flushes);
	add_number(o, "messages", st->mcasts);
	return o;
}

/* The current name of the array's device on this node: it may have been renamed (dmsetup). */
static void add_mapped(struct json_object *o, const struct ddr_array *a)
{
	char name[128], path[160];

	if (!ddr_device_dm_name(a->bind.dm_major, a->bind.dm_minor, name, sizeof(name)))
		return;
	snprintf(path, sizeof(path), "/dev/mapper/%s", name);
	add_text(o, "device", path);
}

struct json_object *ddr_status_array(struct ddr_array *a)
{
	struct json_object *o = json_object_new_object();
	struct ddr_sm_status st = { 0 };

	if (a->state == DDR_ARRAY_RUNNING)
		ddr_sm_get_status(a->sm, &st);
	add_text(o, "name", a->name);
	add_text(o, "uuid", a->uuid_text);
	add_mapped(o, a);
	add_number(o, "order", a->bind.order);
	add_number(o, "parity", a->bind.parity);
	add_text(o, "layout", layout_name(a->bind.layout));
	add_number(o, "block_size", DDR_BLOCK_SIZE);
	add_number(o, "region_size", (uint64_t)a->bind.region_sectors * 512);
	add_number(o, "size", a->state == DDR_ARRAY_RUNNING ? a->super.array_blocks * DDR_BLOCK_SIZE : a->bind.sectors * 512);
	add_number(o, "device_size", a->bind.sectors * 512);
	if (a->state == DDR_ARRAY_RUNNING)
		add_number(o, "largest_size", ddr_super_most_blocks(&a->super) * DDR_BLOCK_SIZE);
	add_text(o, "state", state_name(a, &st));
	json_object_object_add(o, "gave_up", json_object_new_boolean(st.gave_up || a->cluster.gave_up));
	add_number(o, "may_fail", may_fail(a, &st));
	add_number(o, "generation", st.generation);
	json_object_object_add(o, "members", members_array(a, &st));
	json_object_object_add(o, "regions", regions_object(&st));
	json_object_object_add(o, "jobs", jobs_array(a, &st));
	if (a->state == DDR_ARRAY_RUNNING)
		json_object_object_add(o, "verify", verify_object(a));
	json_object_object_add(o, "cluster", cluster_object(a, &st));
	json_object_object_add(o, "attached", json_object_new_boolean(st.attached));
	json_object_object_add(o, "ready", json_object_new_boolean(a->ready));
	/* until the device is removed, or the array is used again */
	json_object_object_add(o, "stopping", json_object_new_boolean(a->state == DDR_ARRAY_RUNNING && ddr_now_ms() < a->quiet_until_ms));
	add_text_or_null(o, "error", a->error[0] ? a->error : NULL);
	json_object_object_add(o, "no_space", a->state == DDR_ARRAY_RUNNING ? no_space(a, &st) : NULL);
	json_object_object_add(o, "suspect", suspect_array(a, &st));
	json_object_object_add(o, "counters", counters_object(&st));
	return o;
}

/* The names of the fields are a public interface, as above: `ddraid verify NAME status --json` prints them. */
struct json_object *ddr_status_findings(const struct ddr_array *a)
{
	struct json_object *list = json_object_new_array();

	for (unsigned int i = 0; i < a->n_findings; i++) {
		const struct ddr_finding *f = &a->finding[i];
		struct json_object *o = json_object_new_object();

		add_number(o, "time", f->time);
		add_number(o, "position", f->start * DDR_BLOCK_SIZE);
		add_number(o, "length", f->count * DDR_BLOCK_SIZE);
		add_number(o, "first_block", f->start);
		add_number(o, "blocks", f->count);
		add_number(o, "found", f->blocks);
		json_object_object_add(o, "member", f->member == DDR_NO_MEMBER ? NULL : json_object_new_uint64(f->member));
		json_object_object_add(o, "repaired", json_object_new_boolean(f->repaired));
		add_text_or_null(o, "text", f->text);
		json_object_array_add(list, o);
	}
	return list;
}
