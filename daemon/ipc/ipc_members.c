// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The requests of clients that change a member: added, removed, looked for, replaced, taken out.
 */
#include <limits.h>
#include <string.h>

#include <uuid/uuid.h>

#include "daemon/array/array.h"
#include "daemon/ipc/ipc_request.h"
#include "daemon/ipc/status.h"

/* The array and the member that the request names; NULL and answered: there is none. */
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

/* What was asked of a member was refused (@why), or is waited for. */
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

/* A disk that was made ready is to be a spare. Answered with its number, when the superblocks have it. */
void ddr_request_add(struct ddr_client *c, struct json_object *req)
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

void ddr_request_remove(struct ddr_client *c, struct json_object *req)
{
	struct ddr_array *a;
	int member;

	a = member_of(c, req, &member);
	if (!a)
		return;
	uuid_generate(c->uuid);
	answer_later(c, req, a, member, ddr_drive_remove(a, (uint32_t)member, c->uuid), DDR_WAIT_REMOVED);
}

/* All nodes look for the device of a member that is out, or a spare. Answered when all have found it, and it is taken back. */
void ddr_request_seek(struct ddr_client *c, struct json_object *req)
{
	struct ddr_array *a;
	int member;

	a = member_of(c, req, &member);
	if (a)
		answer_later(c, req, a, member, ddr_drive_seek(a, (uint32_t)member), DDR_WAIT_BACK);
}

/*
 * The spare "spare" is to replace the member "member", once all nodes see it. "role": the member is out, and that was its role
 * before the spare came.
 */
void ddr_request_replace(struct ddr_client *c, struct json_object *req)
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

void ddr_request_fail(struct ddr_client *c, struct json_object *req)
{
	struct ddr_array *a;
	int member;

	a = member_of(c, req, &member);
	if (a)
		answer_later(c, req, a, member, ddr_drive_fail_by_hand(a, (uint32_t)member), DDR_WAIT_FAILED);
}
