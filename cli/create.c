/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ddraid create: creates an array on empty disks. All refusals happen here, before the first byte is written; create_write.c does the rest. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <json-c/json.h>
#include <uuid/uuid.h>

#include "cli/ask.h"
#include "cli/auto.h"
#include "cli/cli.h"
#include "cli/create.h"
#include "cli/disk.h"
#include "cli/guard.h"
#include "cli/name.h"
#include "lib/disk/scan.h"
#include "lib/disk/layout.h"

struct create_args {
	const char *name;
	const char *path[DDR_MAX_MEMBERS];	/* members, then spares */
	uint32_t n_members, n_spares;
	uint64_t order, parity, slots, region_size;
	uint64_t format;			/* on disk: DDR_FORMAT_VERSION to DDR_FORMAT_HIGHEST */
	int layout;				/* -1: the default for order and parity */
	struct disk_allow allow;
	bool order_given, unequal, yes, json;
};

/* -------------------------------------------------- arguments */

static int add_spare(const struct cli_command *cmd, const char **spare, uint32_t *n, const char *path)
{
	if (*n == DDR_MAX_MEMBERS)
		return cli_usage(cmd, "more than %u spares", DDR_MAX_MEMBERS);
	spare[(*n)++] = path;
	return CLI_DONE;
}

static int parse_layout(const char *text)
{
	if (strcmp(text, "dedicated") == 0)
		return DDR_LAYOUT_DEDICATED;
	return strcmp(text, "rotating") == 0 ? DDR_LAYOUT_ROTATING : -1;
}

static int parse_options(const struct cli_command *cmd, int argc, char **argv, struct create_args *a,
			 const char **spare)
{
	static const struct option options[] = {
		{ "order", required_argument, NULL, 'o' },
		{ "parity", required_argument, NULL, 'p' },
		{ "layout", required_argument, NULL, 'l' },
		{ "region-size", required_argument, NULL, 'r' },
		{ "format", required_argument, NULL, 'F' },
		{ "nodes", required_argument, NULL, 'n' },
		{ "spare", required_argument, NULL, 's' },
		{ "overwrite", no_argument, NULL, 'w' },
		{ "allow-512e", no_argument, NULL, 'e' },
		{ "allow-files", no_argument, NULL, 'i' },
		{ "yes", no_argument, NULL, 'y' },
		{ "force", no_argument, NULL, 'f' },
		{ "unequal", no_argument, NULL, 'u' },
		{ "json", no_argument, NULL, 'j' },
		{ 0 },
	};
	int c, rc;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		switch (c) {
		case 'o':
			if (!cli_parse_uint(optarg, 0, DDR_MAX_ORDER, &a->order))
				return cli_usage(cmd, "--order must be 0, 1, 2 or 3 (1, 2, 4 or 8 data members), not '%s'", optarg);
			a->order_given = true;
			break;
		case 'p':
			if (!cli_parse_uint(optarg, 0, DDR_MAX_PARITY, &a->parity))
				return cli_usage(cmd, "--parity must be 0, 1 or 2, not '%s'", optarg);
			break;
		case 'l':
			a->layout = parse_layout(optarg);
			if (a->layout < 0)
				return cli_usage(cmd, "--layout must be dedicated or rotating, not '%s'", optarg);
			break;
		case 'r':
			if (!cli_parse_size(optarg, &a->region_size) || a->region_size < DDR_MIN_REGION ||
			    a->region_size > DDR_MAX_REGION || a->region_size & (a->region_size - 1))
				return cli_usage(cmd, "--region-size must be a power of two from 64KiB to 1GiB, not '%s'",
						 optarg);
			break;
		case 'n':
			if (!cli_parse_uint(optarg, 1, DDR_MAX_SLOTS, &a->slots))
				return cli_usage(cmd, "--nodes must be 1 to %u, not '%s'", DDR_MAX_SLOTS, optarg);
			break;
		case 'F':
			if (!cli_parse_uint(optarg, DDR_FORMAT_VERSION, DDR_FORMAT_HIGHEST, &a->format))
				return cli_usage(cmd, "--format must be 1 (for releases that do not know format 2) or 2, not '%s'", optarg);
			break;
		case 's':
			rc = add_spare(cmd, spare, &a->n_spares, optarg);
			if (rc)
				return rc;
			break;
		case 'w':
			a->allow.overwrite = true;
			break;
		case 'e':
			a->allow.e512 = true;
			break;
		case 'i':
			a->allow.files = true;
			break;
		case 'y':
			a->yes = true;
			break;
		case 'f':
			return cli_usage(cmd, CLI_NO_FORCE ", --allow-files accepts image files");
		case 'u':
			a->unequal = true;
			break;
		case 'j':
			a->json = true;
			break;
		default:
			return cli_bad_option(cmd, c, argv);
		}
	}
	return CLI_DONE;
}

static int parse_devices(const struct cli_command *cmd, int argc, char **argv, struct create_args *a,
			 const char *const *spare)
{
	uint32_t roles, given;
	const char *why;

	if (argc - optind < 2)
		return cli_usage(cmd, "give the name of the array and its devices");
	a->name = argv[optind++];
	why = ddr_name_refused(a->name);
	if (why)
		return cli_usage(cmd, "'%s' cannot name an array: %s", a->name, why);
	if (!a->order_given)
		return cli_usage(cmd, "--order is missing: 0, 1, 2 or 3 for 1, 2, 4 or 8 data members");
	roles = (1u << a->order) + (uint32_t)a->parity;
	given = (uint32_t)(argc - optind);
	if (given != roles)
		return cli_usage(cmd, "order %" PRIu64 " with parity %" PRIu64 " needs %" PRIu32 " devices, %" PRIu32 " %s given", a->order,
				 a->parity, roles, given, given == 1 ? "was" : "were");
	if (roles + a->n_spares > DDR_MAX_MEMBERS)
		return cli_usage(cmd, "%" PRIu32 " members and %" PRIu32 " spares are more than %u", roles, a->n_spares,
				 DDR_MAX_MEMBERS);
	a->n_members = roles;
	for (uint32_t i = 0; i < roles; i++)
		a->path[i] = argv[optind + (int)i];
	for (uint32_t i = 0; i < a->n_spares; i++)
		a->path[roles + i] = spare[i];
	if (a->layout < 0)
		a->layout = ddr_layout_default(a->order, a->parity);
	return CLI_DONE;
}

/* -------------------------------------------------- checks of the devices */

/* Checked before the devices are opened: a second exclusive open would only say "in use". */
static int check_twice(const struct create_args *a, uint32_t n, struct ddr_error *err)
{
	struct stat st[DDR_MAX_MEMBERS];

	for (uint32_t i = 0; i < n; i++) {
		if (stat(a->path[i], &st[i]))
			return ddr_error_set(err, "%s: %s", a->path[i], strerror(errno));
		for (uint32_t j = 0; j < i; j++) {
			bool block = S_ISBLK(st[i].st_mode) && S_ISBLK(st[j].st_mode);

			if (block ? st[i].st_rdev == st[j].st_rdev :
				    st[i].st_dev == st[j].st_dev && st[i].st_ino == st[j].st_ino)
				return ddr_error_set(err, "%s and %s are the same device: each member needs its own disk",
						     a->path[j], a->path[i]);
		}
	}
	return 0;
}

/*
 * The smallest device decides how much each of them holds. Disks of the same nominal size differ a little; a larger difference
 * usually means that a wrong disk was given. Spares may be larger, but not smaller.
 */
static int check_sizes(struct create_plan *plan, const struct create_args *a, struct ddr_error *err)
{
	const struct ddr_dev *small = &plan->dev[0], *large = &plan->dev[0];
	char small_size[64], large_size[64];

	for (uint32_t i = 1; i < a->n_members + a->n_spares; i++) {
		const struct ddr_dev *dev = &plan->dev[i];

		if (dev->bytes < small->bytes)
			small = dev;
		if (i < a->n_members && dev->bytes > large->bytes)
			large = dev;
	}
	plan->unequal = large->bytes - small->bytes > small->bytes / 100;
	if (a->unequal || !plan->unequal)
		return 0;
	return ddr_error_set(err, "%s has %s and %s has %s: the disks of an array should have the same size. Use other disks, or --unequal to "
			     "leave the extra space of the larger ones unused", small->path,
			     cli_format_bytes(small->bytes, small_size, sizeof(small_size)), large->path,
			     cli_format_bytes(large->bytes, large_size, sizeof(large_size)));
}

/* -------------------------------------------------- the array */

static void fill_members(struct ddr_super *sb, const struct create_args *a)
{
	sb->members = (uint16_t)(a->n_members + a->n_spares);
	for (uint32_t i = 0; i < sb->members; i++) {
		struct ddr_member *m = &sb->member[i];
		bool spare = i >= a->n_members;

		uuid_generate_random(m->uuid);
		m->state = spare ? DDR_MEMBER_SPARE : DDR_MEMBER_IN_SYNC;
		m->role = spare ? DDR_ROLE_NONE : (uint16_t)i;
		m->since = 1;
	}
}

static int plan_array(struct create_plan *plan, const struct create_args *a, struct ddr_error *err)
{
	struct ddr_layout_request req = {
		.member_bytes = UINT64_MAX, .order = (uint8_t)a->order, .parity = (uint8_t)a->parity,
		.layout = (uint8_t)a->layout, .region_size = (uint32_t)a->region_size, .slots = (uint32_t)a->slots, .leave = true,
		.owners = a->format > 1,
	};
	struct ddr_super *sb = &plan->super;
	uint32_t smallest = 0, n = a->n_members + a->n_spares;

	for (uint32_t i = 0; i < n; i++) {
		if (plan->dev[i].bytes >= req.member_bytes)
			continue;
		req.member_bytes = plan->dev[i].bytes;
		smallest = i;
	}
	if (ddr_layout_compute(&req, sb, err))
		return ddr_error_prefix(err, "%s", plan->dev[smallest].path);
	if (check_sizes(plan, a, err))
		return -1;
	sb->seq = 1;
	uuid_generate_random(sb->array_uuid);
	uuid_generate_random(sb->gen_id);
	memcpy(sb->name, a->name, strlen(a->name));
	sb->generation = 1;
	sb->created = (uint64_t)time(NULL);
	sb->updated = sb->created;
	fill_members(sb, a);
	plan->wipe = a->allow.overwrite;
	return 0;
}

static void say_holds(const struct create_plan *plan, uint32_t i, char *buf, size_t size)
{
	snprintf(buf, size, "%s: destroying what it holds (%s)", plan->dev[i].path, plan->holds[i]);
}

static void say_sector(const struct create_plan *plan, uint32_t i, char *buf, size_t size)
{
	snprintf(buf, size, "%s: physical sectors of %" PRIu32 " bytes are larger than the chunk of %" PRIu32 " bytes: a power loss could damage "
			    "other, already written blocks",
		 plan->dev[i].path, plan->dev[i].physical_sector, plan->super.chunk);
}

/* The first override that needs a confirmation; false: there is none. */
static bool first_override(const struct create_plan *plan, char *buf, size_t size)
{
	for (uint32_t i = 0; i < plan->super.members; i++) {
		if (plan->holds[i][0])
			say_holds(plan, i, buf, size);
		else if (plan->dev[i].physical_sector > plan->super.chunk)
			say_sector(plan, i, buf, size);
		else
			continue;
		return true;
	}
	snprintf(buf, size, "the disks differ in size, and the extra space of the larger ones stays unused");
	return plan->unequal;
}

/* Warnings. Only printed once nothing else can be refused: a refusal is one line. */
static void print_warnings(const struct create_plan *plan)
{
	uint64_t smallest = UINT64_MAX;
	char text[512];

	for (uint32_t i = 0; i < plan->super.members; i++)
		smallest = plan->dev[i].bytes < smallest ? plan->dev[i].bytes : smallest;
	for (uint32_t i = 0; i < plan->super.members; i++) {
		const struct ddr_dev *dev = &plan->dev[i];

		if (plan->holds[i][0]) {
			say_holds(plan, i, text, sizeof(text));
			cli_warn("create", "%s", text);
		}
		if (dev->physical_sector > plan->super.chunk) {
			say_sector(plan, i, text, sizeof(text));
			cli_warn("create", "%s", text);
		}
		if (dev->bytes - smallest > smallest / 100)
			cli_warn("create", "%s: %.0f %% of it stays unused, because another member is smaller", dev->path,
				 100.0 * (double)(dev->bytes - smallest) / (double)dev->bytes);
	}
}

/* Asks once for all overrides. */
static bool is_meant(const struct create_plan *plan, const struct create_args *a)
{
	char text[512];
	bool asks = first_override(plan, text, sizeof(text));

	if (asks && !cli_can_ask("create", a->yes, "%s", text))
		return false;
	print_warnings(plan);
	return !asks || cli_asked("create", a->yes);
}

/* Interrupts wait until the end: otherwise they would leave disks half written. */
static int write_uninterrupted(const struct create_plan *plan, struct ddr_error *err)
{
	sigset_t block, old;
	int rc;

	sigemptyset(&block);
	sigaddset(&block, SIGINT);
	sigaddset(&block, SIGTERM);
	sigaddset(&block, SIGHUP);
	sigprocmask(SIG_BLOCK, &block, &old);
	rc = create_write(plan, err);
	sigprocmask(SIG_SETMASK, &old, NULL);
	return rc;
}

/* -------------------------------------------------- the summary */

static const char *survives(const struct ddr_super *sb)
{
	static const char *const words[] = { "no loss of a member", "the loss of any one member", "the loss of any two members" };

	return words[sb->parity];
}

static void print_summary(const struct create_plan *plan, const struct create_args *a)
{
	const struct ddr_super *sb = &plan->super;
	char uuid[37], size[32], region[32], raw[32];

	cli_format_size(sb->array_blocks * sb->block_size, size, sizeof(size));
	cli_format_size(sb->region_size, region, sizeof(region));
	cli_format_size(ddr_layout_member_bytes(sb), raw, sizeof(raw));
	printf("Array %s created, uuid %s\n", sb->name, cli_format_uuid(sb->array_uuid, uuid));
	printf("  size      %s usable (%" PRIu64 " bytes), %s on each member\n", size, sb->array_blocks * sb->block_size, raw);
	printf("  layout    order %u, parity %u, %s: %u data + %u parity members, chunks of %" PRIu32 " bytes\n", sb->order,
	       sb->parity, sb->layout == DDR_LAYOUT_ROTATING ? "rotating" : "dedicated", 1u << sb->order, sb->parity,
	       sb->chunk);
	printf("  regions   %" PRIu64 " of %s; dirty logs for %" PRIu32 " nodes\n", ddr_super_regions(sb), region, sb->slots);
	printf("  format    %d%s\n", ddr_super_has_owners(sb) ? 2 : 1,
	       ddr_super_has_owners(sb) ? "" : ": another cluster, or another machine, on these disks is not always noticed");
	printf("  survives  %s\n", survives(sb));
	for (uint32_t i = 0; i < sb->members; i++)
		printf("  %s %-2u %s\n", i < a->n_members ? "member" : "spare ", i, plan->dev[i].path);
	printf("No initial sync is needed. Start it on each node: ddraid start %s\n", sb->name);
}

static void print_summary_json(const struct create_plan *plan)
{
	const struct ddr_super *sb = &plan->super;
	struct json_object *o = json_object_new_object(), *list = json_object_new_array();
	char uuid[37];

	json_object_object_add(o, "name", json_object_new_string(sb->name));
	json_object_object_add(o, "uuid", json_object_new_string(cli_format_uuid(sb->array_uuid, uuid)));
	json_object_object_add(o, "order", json_object_new_int(sb->order));
	json_object_object_add(o, "parity", json_object_new_int(sb->parity));
	json_object_object_add(o, "layout",
			       json_object_new_string(sb->layout == DDR_LAYOUT_ROTATING ? "rotating" : "dedicated"));
	json_object_object_add(o, "chunk", json_object_new_int64(sb->chunk));
	json_object_object_add(o, "block_size", json_object_new_int64(sb->block_size));
	json_object_object_add(o, "region_size", json_object_new_int64(sb->region_size));
	json_object_object_add(o, "size", json_object_new_uint64(sb->array_blocks * sb->block_size));
	json_object_object_add(o, "data_offset", json_object_new_uint64(sb->data_offset));
	json_object_object_add(o, "slots", json_object_new_int64(sb->slots));
	json_object_object_add(o, "format", json_object_new_int(ddr_super_has_owners(sb) ? 2 : 1));
	for (uint32_t i = 0; i < sb->members; i++) {
		const struct ddr_member *m = &sb->member[i];
		struct json_object *e = json_object_new_object();

		json_object_object_add(e, "index", json_object_new_int64(i));
		json_object_object_add(e, "role", m->role == DDR_ROLE_NONE ? NULL : json_object_new_int(m->role));
		json_object_object_add(e, "device", json_object_new_string(plan->dev[i].path));
		json_object_object_add(e, "uuid", json_object_new_string(cli_format_uuid(m->uuid, uuid)));
		json_object_object_add(e, "state", json_object_new_string(ddr_member_state_name(m->state)));
		json_object_array_add(list, e);
	}
	json_object_object_add(o, "members", list);
	cli_print_json(o);
}

/* -------------------------------------------------- the command */

static int create(struct create_plan *plan, const struct create_args *a)
{
	uint32_t n = a->n_members + a->n_spares;
	struct ddr_error err;
	char uuid[37];

	if (check_twice(a, n, &err))
		return cli_fail("create", "%s", err.text);
	for (uint32_t i = 0; i < n; i++) {
		cli_guard_at(a->path[i], NULL);
		if (disk_open(&plan->dev[i], a->path[i], a->order, &a->allow, plan->holds[i], sizeof(plan->holds[i]), &err))
			return cli_fail("create", "%s", err.text);
	}
	if (plan_array(plan, a, &err) || cli_name_free("create", a->name, a->path, n, &err))
		return cli_fail("create", "%s", err.text);
	if (!is_meant(plan, a))
		return CLI_FAILED;
	if (plan->dev[0].is_block)	/* before udev sees the members */
		cli_auto_hold(cli_format_uuid(plan->super.array_uuid, uuid));
	if (write_uninterrupted(plan, &err))
		return cli_fail("create", "%s", err.text);
	if (a->json)
		print_summary_json(plan);
	else
		print_summary(plan, a);
	return cli_finish("create");
}

static int work(void *args)
{
	struct create_plan *plan = calloc(1, sizeof(*plan));
	int rc;

	if (!plan)
		return cli_fail("create", "out of memory");
	for (uint32_t i = 0; i < DDR_MAX_MEMBERS; i++)
		plan->dev[i].fd = -1;
	rc = create(plan, args);
	for (uint32_t i = 0; i < DDR_MAX_MEMBERS; i++)
		ddr_dev_close(&plan->dev[i]);
	free(plan);
	return rc;
}

int cmd_create(const struct cli_command *cmd, int argc, char **argv)
{
	struct create_args args = { .layout = -1, .parity = 1, .slots = DDR_DEF_SLOTS, .format = DDR_FORMAT_HIGHEST };
	const char *spare[DDR_MAX_MEMBERS];
	int rc = parse_options(cmd, argc, argv, &args, spare);

	if (!rc)
		rc = parse_devices(cmd, argc, argv, &args, spare);
	return rc ? rc : cli_guarded(cmd->name, work, &args);
}
