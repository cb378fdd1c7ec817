/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Prints what format 2 knows of the owners of slots, their stamps and quarantined disks, as text and as JSON; see exam.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "cli/cli.h"
#include "cli/exam.h"

static bool is_known(const struct ddr_owner *o)
{
	return !ddr_uuid_is_zero(o->machine) || !ddr_uuid_is_zero(o->instance.boot_id) || o->name[0] || o->fenced_time;
}

bool exam_knows_owner(const struct exam *exam, uint32_t slot)
{
	return is_known(&exam->supers.owners.slot[slot]) || exam->stamp[slot].seq;
}

/* -------------------------------------------------- text */

void exam_print_cluster(const struct exam *exam)
{
	const struct ddr_owners *o = &exam->supers.owners;
	char uuid[37];

	if (!ddr_super_has_owners(exam->sb))
		printf("  format     1: machines and clusters are not recorded\n");
	else if (ddr_uuid_is_zero(o->cluster))
		printf("  format     2, no cluster is recorded\n");
	else
		printf("  format     2, of cluster %s\n", cli_format_uuid(o->cluster, uuid));
}

static void print_owner(const struct ddr_owner *o)
{
	char machine[37], boot[37], text[64];

	printf("    %s %s, machine %s, boot %s", o->node ? "owner" : "last owner", o->name[0] ? o->name : "of unknown name",
	       cli_format_uuid(o->machine, machine), cli_format_uuid(o->instance.boot_id, boot));
	if (o->since)
		printf(", since %s", exam_time(o->since, text, sizeof(text)));
	if (o->fenced_time)
		printf("; boot %s fenced at %s", cli_format_uuid(o->fenced.boot_id, boot), exam_time(o->fenced_time, text, sizeof(text)));
	if (o->state == DDR_SLOT_FENCED)
		printf(", to be recovered");
	printf("\n");
}

static void print_stamp(const struct ddr_stamp *s)
{
	char machine[37], text[64];

	printf("    %s %" PRIu64 " of node %" PRIu32 " (%s), machine %s, at %s, stop time %" PRIu32 " s\n",
	       s->kind == DDR_STAMP_CLAIM ? "claim" : "stamp", s->seq, s->node, s->name, cli_format_uuid(s->machine, machine),
	       exam_time(s->time, text, sizeof(text)), s->stop_ms / 1000);
}

void exam_print_owner(const struct exam *exam, uint32_t slot)
{
	if (is_known(&exam->supers.owners.slot[slot]))
		print_owner(&exam->supers.owners.slot[slot]);
	if (exam->stamp[slot].seq)
		print_stamp(&exam->stamp[slot]);
}

static bool owes(const struct ddr_haunted *h, uint32_t debtor)
{
	return h->owes[debtor / 8] >> (debtor % 8) & 1;
}

void exam_print_haunted(const struct exam *exam)
{
	const struct ddr_owners *o = &exam->supers.owners;
	char member[37], text[64];

	for (uint32_t i = 0; i < DDR_MAX_HAUNTED; i++) {
		const struct ddr_haunted *h = &o->haunted[i];
		bool any = false;

		if (!h->kind)
			continue;
		printf("  quarantine %s %s, member %s, since %s", ddr_disk_id_name(h->kind), h->id, cli_format_uuid(h->member, member),
		       exam_time(h->since, text, sizeof(text)));
		for (uint32_t d = 0; d < DDR_MAX_DEBTORS; d++) {
			if (!owes(h, d))
				continue;
			printf("%s node %" PRIu32 "%s%s", any ? "," : "; outstanding I/O of", o->debtor[d].node, o->debtor[d].name[0] ? " " : "",
			       o->debtor[d].name);
			any = true;
		}
		printf("%s\n", h->flags & DDR_HAUNTED_F_MORE ? "; and of more nodes than can be listed" : "");
	}
}

/* -------------------------------------------------- JSON */

static void add(struct json_object *o, const char *key, struct json_object *value)
{
	json_object_object_add(o, key, value);
}

/* Null if it is not known. */
static struct json_object *json_uuid(const uint8_t uuid[DDR_UUID_LEN])
{
	char text[37];

	return ddr_uuid_is_zero(uuid) ? NULL : json_object_new_string(cli_format_uuid(uuid, text));
}

static struct json_object *json_owner(const struct ddr_owner *s)
{
	struct json_object *o = json_object_new_object();

	add(o, "state", json_object_new_string(ddr_slot_state_name(s->state)));
	add(o, "node", json_object_new_int64(s->node));
	add(o, "name", json_object_new_string(s->name));
	add(o, "machine", json_uuid(s->machine));
	add(o, "boot_id", json_uuid(s->instance.boot_id));
	add(o, "cookie", json_object_new_uint64(s->instance.cookie));
	add(o, "since", json_object_new_uint64(s->since));
	add(o, "fenced_boot_id", json_uuid(s->fenced.boot_id));
	add(o, "fenced_cookie", json_object_new_uint64(s->fenced.cookie));
	add(o, "fenced_time", json_object_new_uint64(s->fenced_time));
	add(o, "renewed", json_object_new_boolean(s->renewed));
	add(o, "log_seq", json_object_new_uint64(s->log_seq));
	return o;
}

static struct json_object *json_stamp(const struct ddr_stamp *s)
{
	struct json_object *o = json_object_new_object();

	add(o, "kind", json_object_new_string(s->kind == DDR_STAMP_CLAIM ? "claim" : "stamp"));
	add(o, "number", json_object_new_uint64(s->seq));
	add(o, "generation", json_object_new_uint64(s->generation));
	add(o, "node", json_object_new_int64(s->node));
	add(o, "name", json_object_new_string(s->name));
	add(o, "machine", json_uuid(s->machine));
	add(o, "boot_id", json_uuid(s->instance.boot_id));
	add(o, "cookie", json_object_new_uint64(s->instance.cookie));
	add(o, "claim", json_uuid(s->claim));
	add(o, "time", json_object_new_uint64(s->time));
	add(o, "stop_ms", json_object_new_int64(s->stop_ms));
	return o;
}

void exam_json_owner(const struct exam *exam, uint32_t slot, struct json_object *o)
{
	if (!ddr_super_has_owners(exam->sb))
		return;
	add(o, "owner", json_owner(&exam->supers.owners.slot[slot]));
	add(o, "stamp", exam->stamp[slot].seq ? json_stamp(&exam->stamp[slot]) : NULL);
}

static struct json_object *json_haunted(const struct ddr_owners *owners, const struct ddr_haunted *h)
{
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();

	add(o, "kind", json_object_new_string(ddr_disk_id_name(h->kind)));
	add(o, "id", json_object_new_string(h->id));
	add(o, "member", json_uuid(h->member));
	add(o, "since", json_object_new_uint64(h->since));
	add(o, "settle", json_object_new_int64(h->settle));
	add(o, "unanswered", json_object_new_uint64(h->unanswered));
	add(o, "more", json_object_new_boolean((h->flags & DDR_HAUNTED_F_MORE) != 0));
	for (uint32_t d = 0; d < DDR_MAX_DEBTORS; d++) {
		struct json_object *node;

		if (!owes(h, d))
			continue;
		node = json_object_new_object();
		add(node, "node", json_object_new_int64(owners->debtor[d].node));
		add(node, "name", json_object_new_string(owners->debtor[d].name));
		add(node, "machine", json_uuid(owners->debtor[d].machine));
		add(node, "boot_id", json_uuid(owners->debtor[d].boot_id));
		json_object_array_add(list, node);
	}
	add(o, "owes", list);
	return o;
}

void exam_json_owners(const struct exam *exam, struct json_object *o)
{
	const struct ddr_owners *owners = &exam->supers.owners;
	struct json_object *list;

	add(o, "format", json_object_new_int(ddr_super_has_owners(exam->sb) ? 2 : 1));
	if (!ddr_super_has_owners(exam->sb))
		return;
	list = json_object_new_array();
	add(o, "cluster", json_uuid(owners->cluster));
	for (uint32_t i = 0; i < DDR_MAX_HAUNTED; i++)
		if (owners->haunted[i].kind)
			json_object_array_add(list, json_haunted(owners, &owners->haunted[i]));
	add(o, "quarantined", list);
}
