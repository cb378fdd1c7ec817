/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Prints what was found on a member, as text and as JSON; see exam.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <json-c/json.h>

#include "cli/cli.h"
#include "cli/exam.h"
#include "lib/disk/assemble.h"

#define RUNS_MAX	8	/* runs of regions listed in the text */

static const char *layout_name(uint8_t layout)
{
	return layout == DDR_LAYOUT_ROTATING ? "rotating" : "dedicated";
}

/* -------------------------------------------------- sets of regions */

/* A set of regions: those for which the function returns true. */
typedef bool (*region_set)(const struct exam *exam, const void *arg, uint64_t region);

static bool in_slot(const struct exam *exam, const void *arg, uint64_t region)
{
	const struct exam_slot *slot = arg;

	(void)exam;
	return ddr_log_get(slot->dirty, (uint32_t)region);
}

static bool needs_sync(const struct exam *exam, const void *arg, uint64_t region)
{
	(void)arg;
	return exam->map[region] != EXAM_UNKNOWN && (exam->map[region] & DDR_REGION_STATE_MASK) == DDR_REGION_NEEDS_SYNC;
}

static bool suspect(const struct exam *exam, const void *arg, uint64_t region)
{
	(void)arg;
	return exam->map[region] != EXAM_UNKNOWN && exam->map[region] & DDR_REGION_F_SUSPECT;
}

static bool written(const struct exam *exam, const void *arg, uint64_t region)
{
	(void)arg;
	return exam->map[region] != EXAM_UNKNOWN && exam->map[region] & DDR_REGION_F_WRITTEN;
}

/* " 0-3, 17, 20-21, ..." */
static void print_runs(const struct exam *exam, region_set has, const void *arg)
{
	unsigned int runs = 0;

	for (uint64_t r = 0; r < exam->regions; r++) {
		uint64_t first = r;

		if (!has(exam, arg, r))
			continue;
		if (runs++ == RUNS_MAX) {
			printf(", ...");
			break;
		}
		while (r + 1 < exam->regions && has(exam, arg, r + 1))
			r++;
		printf("%s%" PRIu64, runs > 1 ? ", " : " ", first);
		if (r > first)
			printf("-%" PRIu64, r);
	}
}

static struct json_object *json_regions(const struct exam *exam, region_set has, const void *arg)
{
	struct json_object *list = json_object_new_array();

	for (uint64_t r = 0; r < exam->regions; r++)
		if (has(exam, arg, r))
			json_object_array_add(list, json_object_new_uint64(r));
	return list;
}

/* -------------------------------------------------- text */

const char *exam_time(uint64_t seconds, char *buf, size_t size)
{
	time_t t = (time_t)seconds;
	struct tm tm;

	/* a disk can hold any 64 bits there */
	if (seconds > INT64_MAX || !gmtime_r(&t, &tm) || !strftime(buf, size, "%Y-%m-%d %H:%M:%S UTC", &tm))
		snprintf(buf, size, "%" PRIu64 " seconds after 1970", seconds);
	return buf;
}

static void print_time(const char *label, uint64_t seconds)
{
	char text[64];

	printf("  %-11s%s\n", label, exam_time(seconds, text, sizeof(text)));
}

static void print_members(const struct ddr_super *sb)
{
	char uuid[37];

	for (uint32_t i = 0; i < sb->members; i++) {
		const struct ddr_member *m = &sb->member[i];

		printf("  member %-4u%-11s", i, ddr_member_state_name(m->state));
		if (m->role == DDR_ROLE_NONE)
			printf("no role ");
		else
			printf("role %-3u", m->role);
		printf(" %s", cli_format_uuid(m->uuid, uuid));
		if (m->state == DDR_MEMBER_REBUILDING)
			printf("  rebuilt up to block %" PRIu64, m->cursor);
		if (m->err_read || m->err_write || m->err_corrected)
			printf("  errors: %" PRIu32 " read, %" PRIu32 " write, %" PRIu32 " corrected", m->err_read, m->err_write,
			       m->err_corrected);
		printf("%s\n", i == sb->this_member ? "  <- this device" : "");
	}
}

static void print_regions(const struct exam *exam)
{
	printf("  regions    %" PRIu64 ": %" PRIu64 " unwritten, %" PRIu64 " clean, %" PRIu64 " need sync", exam->regions,
	       exam->n_state[DDR_REGION_UNWRITTEN], exam->n_state[DDR_REGION_CLEAN],
	       exam->n_state[DDR_REGION_NEEDS_SYNC]);
	if (exam->n_unknown)
		printf(", %" PRIu64 " unknown", exam->n_unknown);
	printf("\n");
	if (exam->n_state[DDR_REGION_NEEDS_SYNC]) {
		printf("  need sync ");
		print_runs(exam, needs_sync, NULL);
		printf("\n");
	}
	if (exam->n_suspect) {
		printf("  suspect    %" PRIu64 ":", exam->n_suspect);
		print_runs(exam, suspect, NULL);
		printf("\n");
	}
	if (exam->n_written) {
		printf("  written    %" PRIu64 " since a member is missing:", exam->n_written);
		print_runs(exam, written, NULL);
		printf("\n");
	}
}

static void print_slots(const struct exam *exam)
{
	uint32_t quiet = 0;

	for (uint32_t i = 0; i < exam->sb->slots; i++) {
		const struct exam_slot *s = &exam->slot[i];

		if (!s->n_dirty && !s->unreadable && !s->node && !exam->sb->slot_node[i] && !exam_knows_owner(exam, i)) {
			quiet++;
			continue;
		}
		printf("  slot %-6u", i);
		if (exam->sb->slot_node[i] || s->node)
			printf("node %" PRIu32 ", ", exam->sb->slot_node[i] ? exam->sb->slot_node[i] : s->node);
		printf("%" PRIu64 " dirty regions%s", s->n_dirty, s->n_dirty ? ":" : "");
		print_runs(exam, in_slot, s);
		if (s->n_repairs)
			printf("; %" PRIu64 " of them only for a repair in place", s->n_repairs);
		if (s->unreadable)
			printf("; %" PRIu32 " log blocks unreadable", s->unreadable);
		printf("\n");
		exam_print_owner(exam, i);
	}
	if (quiet)
		printf("  %" PRIu32 " slots of %" PRIu32 " are free and clean\n", quiet, exam->sb->slots);
}

static bool is_spare(const struct ddr_super *sb)
{
	return sb->member[sb->this_member].state == DDR_MEMBER_SPARE;
}

static void print_valid(const struct exam *exam)
{
	const struct ddr_super *sb = exam->sb;
	char uuid[37], gen[37], size[32], region[32];

	printf("  array      %s, uuid %s\n", sb->name, cli_format_uuid(sb->array_uuid, uuid));
	printf("  shape      order %u, parity %u, %s; %u data + %u parity members, chunks of %" PRIu32 " bytes\n", sb->order,
	       sb->parity, layout_name(sb->layout), 1u << sb->order, sb->parity, sb->chunk);
	printf("  size       %s (%" PRIu64 " bytes), regions of %s, data at byte %" PRIu64 "\n",
	       cli_format_size(sb->array_blocks * sb->block_size, size, sizeof(size)), sb->array_blocks * sb->block_size,
	       cli_format_size(sb->region_size, region, sizeof(region)), sb->data_offset);
	printf("  generation %" PRIu64 " (%s), superblock sequence %" PRIu64 "\n", sb->generation,
	       cli_format_uuid(sb->gen_id, gen), sb->seq);
	exam_print_cluster(exam);
	print_time("made", sb->created);
	print_time("updated", sb->updated);
	if (sb->policy & DDR_POLICY_SUSPECT_READS_ERROR)
		printf("  policy     suspect-reads = error\n");
	if (is_spare(sb))
		printf("  spare      holds no data until it is used; the member table is that of generation %" PRIu64 "\n", sb->generation);
	print_members(sb);
	if (is_spare(sb))
		return;		/* its log and map are never written */
	print_regions(exam);
	print_slots(exam);
	exam_print_haunted(exam);
}

void exam_print(const struct exam *exam, const char *path)
{
	if (exam->sb)
		printf("%s: %s %u of array %s\n", path, is_spare(exam->sb) ? "spare, member" : "member",
		       exam->sb->this_member, exam->sb->name);
	else
		printf("%s: no valid member\n", path);
	if (exam->sb)
		print_valid(exam);
	for (size_t i = 0; i < exam->n_errors; i++)
		printf("  %-10s %s\n", exam->opened ? "damaged" : "unread", exam->error[i]);
}

/* -------------------------------------------------- JSON */

static void add(struct json_object *o, const char *key, struct json_object *value)
{
	json_object_object_add(o, key, value);
}

static struct json_object *json_uuid(const uint8_t uuid[DDR_UUID_LEN])
{
	char text[37];

	return json_object_new_string(cli_format_uuid(uuid, text));
}

static struct json_object *json_role(uint16_t role)
{
	return role == DDR_ROLE_NONE ? NULL : json_object_new_int(role);
}

static struct json_object *json_member(const struct ddr_super *sb, uint32_t i)
{
	const struct ddr_member *m = &sb->member[i];
	struct json_object *o = json_object_new_object(), *errors = json_object_new_object();

	add(o, "index", json_object_new_int64(i));
	add(o, "uuid", json_uuid(m->uuid));
	add(o, "role", json_role(m->role));
	add(o, "state", json_object_new_string(ddr_member_state_name(m->state)));
	add(o, "since", json_object_new_uint64(m->since));
	add(o, "cursor", json_object_new_uint64(m->cursor));
	add(errors, "read", json_object_new_int64(m->err_read));
	add(errors, "write", json_object_new_int64(m->err_write));
	add(errors, "corrected", json_object_new_int64(m->err_corrected));
	add(o, "errors", errors);
	return o;
}

static struct json_object *json_slots(const struct exam *exam)
{
	struct json_object *list = json_object_new_array();

	for (uint32_t i = 0; i < exam->sb->slots; i++) {
		const struct exam_slot *s = &exam->slot[i];
		struct json_object *o = json_object_new_object();

		add(o, "slot", json_object_new_int64(i));
		add(o, "node", json_object_new_int64(exam->sb->slot_node[i] ? exam->sb->slot_node[i] : s->node));
		add(o, "dirty", json_regions(exam, in_slot, s));
		add(o, "for_repair", json_object_new_int64((int64_t)s->n_repairs));
		add(o, "unreadable_blocks", json_object_new_int64(s->unreadable));
		add(o, "boot_id", json_uuid(s->boot_id));
		exam_json_owner(exam, i, o);
		json_object_array_add(list, o);
	}
	return list;
}

static void add_valid(struct json_object *o, const struct exam *exam)
{
	const struct ddr_super *sb = exam->sb;
	struct json_object *members = json_object_new_array();

	add(o, "array_uuid", json_uuid(sb->array_uuid));
	add(o, "name", json_object_new_string(sb->name));
	add(o, "order", json_object_new_int(sb->order));
	add(o, "parity", json_object_new_int(sb->parity));
	add(o, "layout", json_object_new_string(layout_name(sb->layout)));
	add(o, "chunk", json_object_new_int64(sb->chunk));
	add(o, "block_size", json_object_new_int64(sb->block_size));
	add(o, "region_size", json_object_new_int64(sb->region_size));
	add(o, "size", json_object_new_uint64(sb->array_blocks * sb->block_size));
	add(o, "data_offset", json_object_new_uint64(sb->data_offset));
	add(o, "generation", json_object_new_uint64(sb->generation));
	add(o, "gen_id", json_uuid(sb->gen_id));
	add(o, "gen_prev", json_uuid(sb->gen_prev));
	add(o, "log_base", json_object_new_uint64(sb->log_base));
	add(o, "seq", json_object_new_uint64(sb->seq));
	exam_json_owners(exam, o);
	add(o, "created", json_object_new_uint64(sb->created));
	add(o, "updated", json_object_new_uint64(sb->updated));
	add(o, "suspect_reads", json_object_new_string(sb->policy & DDR_POLICY_SUSPECT_READS_ERROR ? "error" : "pass"));
	add(o, "member", json_member(sb, sb->this_member));
	for (uint32_t i = 0; i < sb->members; i++)
		json_object_array_add(members, json_member(sb, i));
	add(o, "members", members);
	add(o, "slots", json_slots(exam));
	add(o, "regions", json_object_new_uint64(exam->regions));
	add(o, "unwritten", json_object_new_uint64(exam->n_state[DDR_REGION_UNWRITTEN]));
	add(o, "clean", json_object_new_uint64(exam->n_state[DDR_REGION_CLEAN]));
	add(o, "unknown", json_object_new_uint64(exam->n_unknown));
	add(o, "needs_sync", json_regions(exam, needs_sync, NULL));
	add(o, "suspect", json_regions(exam, suspect, NULL));
	add(o, "written_since_missing", json_regions(exam, written, NULL));
}

struct json_object *exam_json(const struct exam *exam, const char *path)
{
	struct json_object *o = json_object_new_object(), *errors;

	add(o, "device", json_object_new_string(path));
	add(o, "valid", json_object_new_boolean(exam->sb != NULL));
	if (exam->sb)
		add_valid(o, exam);
	if (exam->n_errors) {
		errors = json_object_new_array();
		for (size_t i = 0; i < exam->n_errors; i++)
			json_object_array_add(errors, json_object_new_string(exam->error[i]));
		add(o, "errors", errors);
	}
	return o;
}
