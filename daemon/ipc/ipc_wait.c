// SPDX-License-Identifier: GPL-2.0-or-later
/* Requests that are answered later: a wait starts, its condition is met or has become impossible, it times out, or the client is gone. */
#include <stdio.h>
#include <string.h>

#include "daemon/array/array.h"
#include "daemon/ipc/ipc_request.h"
#include "daemon/ipc/status.h"

#define WAIT_MS_DEFAULT	30000
#define WAIT_MS_MAX	(3600 * 1000)

void ddr_wait_begin(struct ddr_client *c, struct json_object *req, enum ddr_client_wait wait)
{
	const char *name = ddr_request_text(req, "name", DDR_NAME_LEN - 1);
	struct json_object *o;
	int64_t ms = WAIT_MS_DEFAULT;

	if (!name) {
		ddr_client_error(c, "the request names no array");
		return;
	}
	if (json_object_object_get_ex(req, "timeout_ms", &o))
		ms = json_object_get_int64(o);
	c->wait = wait;
	snprintf(c->which, sizeof(c->which), "%s", name);
	if (ms < 0 || ms > WAIT_MS_MAX) {
		ddr_client_gone(c);	/* what was requested already must not go on without it */
		ddr_client_error(c, "timeout_ms must be 0 to %d", WAIT_MS_MAX);
		return;
	}
	c->until_ms = ddr_now_ms() + (uint64_t)ms;
	ddr_client_check(c, ddr_now_ms());
}

void ddr_wait_stopper_gone(struct ddr_client *c, struct ddr_array *a)
{
	if (a && a->state == DDR_ARRAY_RUNNING && a->clean_asked && !ddr_clients_wait(c->d, a, DDR_WAIT_CLEAN))
		ddr_drive_clean_late(a);
}

/* Has the spare the role already? It may have taken it automatically. */
bool ddr_wait_taken(const struct ddr_array *a, uint32_t spare, uint32_t role)
{
	const struct ddr_member *m = &ddr_sm_super(a->sm)->member[spare];

	return role != DDR_ROLE_NONE && m->role == role && !(m->flags & DDR_MEMBER_F_REPLACING) &&
	       (m->state == DDR_MEMBER_REBUILDING || m->state == DDR_MEMBER_IN_SYNC);
}

/* An array that waits for the cluster is not refused: it is served when the cluster is back. */
static void check_ready(struct ddr_client *c, struct ddr_array *a)
{
	if (a && a->state == DDR_ARRAY_RUNNING && a->ready)
		ddr_client_ok(c, ddr_request_status(c, a));
	else if (a && a->error[0] && !a->waiting && !a->cluster.lost)
		ddr_client_error(c, "%s", a->error);
}

static void check_clean(struct ddr_client *c, struct ddr_array *a)
{
	struct json_object *data;

	if (!a || a->state != DDR_ARRAY_RUNNING) {
		ddr_client_error(c, "array '%s' was removed while it was being stopped", c->which);
	} else if (!a->clean_asked && a->clean_refusal) {
		ddr_client_error(c, "array '%s' was not made clean: %s", c->which, a->clean_refusal);
	} else if (!a->clean_asked) {
		data = json_object_new_object();
		if (a->dirty_left != UINT64_MAX)
			json_object_object_add(data, "dirty", json_object_new_uint64(a->dirty_left));
		ddr_client_ok(c, data);
	}
}

static void member_ok(struct ddr_client *c, struct ddr_array *a, uint32_t member)
{
	struct json_object *data = json_object_new_object();

	json_object_object_add(data, "member", json_object_new_int64(member));
	json_object_object_add(data, "state", json_object_new_string(ddr_member_state_name(a->super.member[member].state)));
	ddr_client_ok(c, data);
}

/* A client waits for a spare to replace another member: it does, it is still a spare, or it cannot any more. */
static void check_replace(struct ddr_client *c, struct ddr_array *a, const struct ddr_sm_status *st)
{
	uint8_t state = st->member_state[c->member];

	if (ddr_wait_taken(a, c->member, c->role) && !memcmp(a->super.member[c->member].uuid, c->uuid, sizeof(c->uuid)))
		member_ok(c, a, c->member);
	else if (a->replace.refusal && a->replace.spare == c->member)
		ddr_client_error(c, "member %u of array '%s' replaces no member: %s", c->member, c->which, a->replace.refusal);
	else if (memcmp(a->super.member[c->member].uuid, c->uuid, sizeof(c->uuid)))
		ddr_client_error(c, "member %u of array '%s', which should replace another one, was removed meanwhile", c->member, c->which);
	else if (c->role == DDR_ROLE_NONE && (state == DDR_MEMBER_IN_SYNC || (st->rebuilding == c->member && st->replaced != DDR_NO_MEMBER)))
		member_ok(c, a, c->member);
	else if (state == DDR_MEMBER_REBUILDING || state == DDR_MEMBER_IN_SYNC)
		ddr_client_error(c, "member %u of array '%s', which should replace another one, has taken the place of a failed member instead, "
				    "and is being rebuilt",
				 c->member, c->which);
	else if (state != DDR_MEMBER_SPARE)
		ddr_client_error(c, "member %u of array '%s', which should replace another one, is now %s; the log of ddraidd shows why", c->member,
				 c->which, ddr_member_state_name(state));
}

/* A client waits for a member to fail, to be removed, to be added or to come back. */
static void check_member(struct ddr_client *c, struct ddr_array *a)
{
	struct ddr_sm_status st;
	uint8_t state;

	if (!a || a->state != DDR_ARRAY_RUNNING) {
		ddr_client_error(c, "array '%s' was removed meanwhile", c->which);
		return;
	}
	ddr_sm_get_status(a->sm, &st);
	if (c->wait == DDR_WAIT_ADDED || c->wait == DDR_WAIT_REMOVED) {
		for (uint32_t m = 0; m < a->super.members; m++)
			if (!memcmp(a->super.member[m].uuid, c->uuid, sizeof(c->uuid)))
				member_ok(c, a, m);
		return;
	}
	state = st.member_state[c->member];
	if (c->wait == DDR_WAIT_FAILED && (state == DDR_MEMBER_FAULTY || state == DDR_MEMBER_MISSING))
		ddr_client_ok(c, ddr_request_status(c, a));
	if (c->wait == DDR_WAIT_REPLACE)
		check_replace(c, a, &st);
	if (c->wait == DDR_WAIT_BACK && (state == DDR_MEMBER_IN_SYNC || state == DDR_MEMBER_REBUILDING ||
					 (state == DDR_MEMBER_SPARE && !st.unseen_by[c->member])))
		member_ok(c, a, c->member);
}

static void check_verify(struct ddr_client *c, struct ddr_array *a)
{
	const struct ddr_verify *v;

	if (!a || a->state != DDR_ARRAY_RUNNING) {
		ddr_client_error(c, "array '%s' was removed meanwhile", c->which);
		return;
	}
	v = &ddr_sm_super(a->sm)->verify;
	if (c->op == DDR_VERIFY_OP_START ? v->state == DDR_VERIFY_RUNNING || v->serial != c->serial :
	    c->op == DDR_VERIFY_OP_PAUSE ? v->state != DDR_VERIFY_RUNNING : v->state == DDR_VERIFY_NONE)
		ddr_client_ok(c, NULL);
}

static void check_policy(struct ddr_client *c, struct ddr_array *a)
{
	if (!a || a->state != DDR_ARRAY_RUNNING)
		ddr_client_error(c, "array '%s' was removed meanwhile", c->which);
	else if (ddr_sm_super(a->sm)->policy == c->op)
		ddr_client_ok(c, NULL);
}

/* Answers with the new size, once this node's device has it, too. */
static void check_grown(struct ddr_client *c, struct ddr_array *a)
{
	struct json_object *data;

	if (!a || a->state != DDR_ARRAY_RUNNING) {
		ddr_client_error(c, "array '%s' was removed meanwhile", c->which);
	} else if (a->grow.refusal[0] && a->super.array_blocks <= c->blocks) {
		ddr_client_error(c, "array '%s': %s", a->name, a->grow.refusal);
	} else if (a->super.array_blocks > c->blocks && a->bind.sectors >= a->super.array_blocks * (DDR_BLOCK_SIZE / 512)) {
		data = json_object_new_object();
		json_object_object_add(data, "old", json_object_new_uint64(c->blocks * DDR_BLOCK_SIZE));
		json_object_object_add(data, "new", json_object_new_uint64(a->super.array_blocks * DDR_BLOCK_SIZE));
		json_object_object_add(data, "largest", json_object_new_uint64(ddr_super_most_blocks(&a->super) * DDR_BLOCK_SIZE));
		ddr_client_ok(c, data);
	}
}

void ddr_client_gone(struct ddr_client *c)
{
	enum ddr_client_wait wait = c->wait;
	bool ends = wait == DDR_WAIT_REPLACE || wait == DDR_WAIT_ADDED || wait == DDR_WAIT_CLEAN;
	struct ddr_array *a = ends ? ddr_array_find(c->d, c->which) : NULL;

	c->wait = DDR_WAIT_NONE;
	if (wait == DDR_WAIT_CLEAN)
		ddr_wait_stopper_gone(c, a);
	else if (a && a->state == DDR_ARRAY_RUNNING && wait == DDR_WAIT_ADDED)
		ddr_drive_add_late(a, c->uuid);
	else if (a && a->state == DDR_ARRAY_RUNNING)
		ddr_drive_replace_late(a, c->member);
}

/* What a request about the members waits for. */
static const char *waits_for(const struct ddr_array *a, const struct ddr_sm_status *st, char *buf, size_t size)
{
	char name[DDR_NODE_NAME_LEN];
	uint32_t node = st->wait ? st->wait_node : st->change_node;

	if (node)
		a->d->transport->node_name(a->d, node, name, sizeof(name));
	if (st->wait && node)
		snprintf(buf, size, "%s (node %u) %s", name, node, st->wait);
	else if (st->wait)
		snprintf(buf, size, "%s", st->wait);
	else if (node && st->change_acks)
		snprintf(buf, size, "%s (node %u) has not ended its requests from before the last change of the members, perhaps because a disk hangs there",
			 name, node);
	else if (node)
		snprintf(buf, size, "%s (node %u) has not written the superblocks of the last change of the members", name, node);
	else
		snprintf(buf, size, "ddraid status shows what the array waits for");
	return buf;
}

/* Finding T5: the command that asked writes the disk's superblock. After it has given up nobody does, so the request ends with it. */
static void late_add(struct ddr_client *c, struct ddr_array *a, const struct ddr_sm_status *st)
{
	char why[DDR_NODE_NAME_LEN + 256];

	if (a && a->state == DDR_ARRAY_RUNNING)
		ddr_drive_add_late(a, c->uuid);
	ddr_client_error(c, "the disk was not added to array '%s' in time, so the request was withdrawn: %s. If the array still gets an entry for the disk, "
			 "it is removed again", c->which, waits_for(a, st, why, sizeof(why)));
}

/* The replacement must not start hours later, when nobody expects it any more. */
static void late_replace(struct ddr_client *c, struct ddr_array *a, const struct ddr_sm_status *st)
{
	char node[DDR_NODE_NAME_LEN], why[DDR_NODE_NAME_LEN + 64] = "the log of ddraidd shows why";

	if (a && a->state == DDR_ARRAY_RUNNING) {
		ddr_drive_replace_late(a, c->member);
		if (st->unseen_by[c->member])
			snprintf(why, sizeof(why), "node %s does not see its device",
				 a->d->transport->node_name(a->d, st->unseen_by[c->member], node, sizeof(node)));
	}
	ddr_client_error(c, "member %u of array '%s' did not start to replace another member in time, so the request was cancelled: %s. It may still "
			 "start; check ddraid status", c->member, c->which, why);
}

static void late_clean(struct ddr_client *c, struct ddr_array *a)
{
	ddr_client_error(c, "array '%s' did not become clean in time: it is still being written, or a member hangs", c->which);
	ddr_wait_stopper_gone(c, a);
}

static void late(struct ddr_client *c, struct ddr_array *a)
{
	char name[DDR_NODE_NAME_LEN], why[DDR_NODE_NAME_LEN + 256];
	struct ddr_sm_status st = { 0 };

	if (a && a->state == DDR_ARRAY_RUNNING)
		ddr_sm_get_status(a->sm, &st);
	if (c->wait == DDR_WAIT_REPLACE)
		late_replace(c, a, &st);
	else if (c->wait == DDR_WAIT_ADDED)
		late_add(c, a, &st);
	else if (c->wait == DDR_WAIT_FAILED)
		ddr_client_error(c, "member %u of array '%s' is still in use: %s. The request goes on", c->member, c->which,
				 waits_for(a, &st, why, sizeof(why)));
	else if (c->wait == DDR_WAIT_GROWN)
		ddr_client_error(c, "array '%s' did not grow in time: a lost node must return or be fenced first, or the members are changing. It "
				    "continues automatically; check ddraid status",
				 c->which);
	else if (c->wait == DDR_WAIT_VERIFY || c->wait == DDR_WAIT_POLICY)
		ddr_client_error(c, "array '%s' has not carried out the request yet: %s. The request goes on", c->which,
				 waits_for(a, &st, why, sizeof(why)));
	else if (c->wait == DDR_WAIT_BACK && st.unseen_by[c->member])
		ddr_client_error(c, "member %u of array '%s' waits until all nodes see its device; node %s does not yet. The request goes on", c->member,
				 c->which, a->d->transport->node_name(a->d, st.unseen_by[c->member], name, sizeof(name)));
	else
		ddr_client_error(c, "the members of array '%s' have not changed yet: %s. The request goes on", c->which,
				 waits_for(a, &st, why, sizeof(why)));
}

void ddr_client_check(struct ddr_client *c, uint64_t now_ms)
{
	struct ddr_array *a;

	if (c->wait == DDR_WAIT_NONE)
		return;
	a = ddr_array_find(c->d, c->which);
	if (c->wait == DDR_WAIT_READY)
		check_ready(c, a);
	else if (c->wait == DDR_WAIT_CLEAN)
		check_clean(c, a);
	else if (c->wait == DDR_WAIT_VERIFY)
		check_verify(c, a);
	else if (c->wait == DDR_WAIT_GROWN)
		check_grown(c, a);
	else if (c->wait == DDR_WAIT_POLICY)
		check_policy(c, a);
	else
		check_member(c, a);
	if (c->wait == DDR_WAIT_NONE || now_ms < c->until_ms)
		return;
	if (c->wait >= DDR_WAIT_FAILED)
		late(c, a);
	else if (c->wait == DDR_WAIT_CLEAN)
		late_clean(c, a);
	else if (a)
		ddr_client_ok(c, ddr_request_status(c, a));	/* not ready; the status says what it waits for */
	else if (!c->d->listed)
		ddr_client_ok(c, NULL);			/* the kernel has not listed its arrays yet */
	else
		ddr_client_error(c, "the kernel has no array '%s'", c->which);
}
