// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid add: a new disk becomes a spare of the array; a failed or missing member is taken back.
 *
 * ddraid replace: a new disk, or a spare, gets a copy of a working member and then its place; or it takes the place of a failed
 * member.
 *
 * A new disk is prepared first (empty log and map, no superblock). Then the array's superblocks get an entry for it, and only then it
 * gets a superblock of its own. So a crash leaves either a blank disk, or the entry of a missing spare, which can be removed. All
 * nodes find the disk by its superblock.
 *
 * Must never: write to a disk that holds anything, without --overwrite and a yes; give a disk a superblock that could count as newer
 * than those of the members.
 */
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include <uuid/uuid.h>

#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/create.h"
#include "cli/disk.h"
#include "cli/guard.h"
#include "lib/disk/assemble.h"
#include "lib/disk/foreign.h"
#include "lib/disk/layout.h"

#define WAIT_MS	20000

struct add {
	const char *cmd;		/* "add" or "replace" */
	const char *name, *path;	/* of replace, @path NULL: any spare */
	const char *old;		/* replace: the member ... */
	uint32_t role;			/* ... and its role if it failed, so that the new one is rebuilt; or DDR_ROLE_NONE */
	struct disk_allow allow;
	bool yes;
	struct ddr_ipc *ipc;
	struct json_object *array;	/* its status */
	struct ddr_super super;		/* of the array */
	struct ddr_owners owners;	/* what goes beside it in format 2 */
	struct ddr_dev dev;		/* the disk */
	uint8_t uuid[DDR_UUID_LEN];
	int member;			/* the number it was added or found with */
	char foreign[DDR_FOREIGN_LEN];	/* another program's signature on a disk that was a member, or "": with one it can only be added as a new disk */
};

/* ---- the state of the array ------------------------------------------------------- */

static bool get_status(struct add *a)
{
	struct json_object *list;

	if (!client_call(a->ipc, a->cmd, client_request("status", a->name), &list, CLIENT_TIMEOUT_MS))
		return false;
	if (client_length(list))
		a->array = json_object_get(client_at(list, 0));
	json_object_put(list);
	if (!a->array)
		cli_fail(a->cmd, "ddraidd sent no data: daemon and command are from different releases; systemctl restart ddraidd");
	return a->array != NULL;
}

/* Reads the superblock of a member in sync, which is that of the array. */
static bool get_super(struct add *a)
{
	struct json_object *members = client_object(a->array, "members");
	struct ddr_error err = { .text = "no member is in sync" };
	struct ddr_supers s;

	for (size_t i = 0; i < client_length(members); i++) {
		struct json_object *m = client_at(members, i);
		struct ddr_dev dev;
		int rc;

		cli_guard_at(client_clean(client_text(m, "device")), NULL);
		if (strcmp(client_text(m, "state"), "in-sync") != 0 || ddr_dev_open(&dev, client_text(m, "device"), DDR_DEV_FILE, &err))
			continue;
		rc = ddr_dev_read_supers(&dev, &s, &err);
		ddr_dev_close(&dev);
		if (rc)
			continue;
		a->super = s.copy[s.newest].super;
		a->owners = s.owners;
		return true;
	}
	cli_fail(a->cmd, "the superblock of array '%s' cannot be read: %s", a->name, err.text);
	return false;
}

/* ---- a former member -------------------------------------------------------------- */

/* The member of the array that the disk's superblock names, or -1. */
static int member_of(struct add *a)
{
	struct ddr_supers s;
	struct ddr_error err;
	struct ddr_dev dev;
	const struct ddr_super *own;
	int rc;

	cli_guard_at(a->path, NULL);
	if (ddr_dev_open(&dev, a->path, DDR_DEV_FILE, &err))
		return -1;
	rc = ddr_dev_read_supers(&dev, &s, &err);
	if (!rc)
		ddr_foreign_find(&dev, &s.copy[s.newest].super, a->foreign, sizeof(a->foreign), &err);
	ddr_dev_close(&dev);
	own = rc ? NULL : &s.copy[s.newest].super;
	if (!own || memcmp(own->array_uuid, a->super.array_uuid, sizeof(own->array_uuid)) != 0)
		return -1;
	for (int m = 0; m < a->super.members; m++)
		if (memcmp(own->member[own->this_member].uuid, a->super.member[m].uuid, DDR_UUID_LEN) == 0)
			return m;
	return -1;
}

/* All nodes search for it; when all have found it, it is a spare, or is rebuilt. */
static int seek(struct add *a, int member)
{
	struct json_object *request = client_request("seek", a->name), *data;
	char number[16];

	a->member = member;
	snprintf(number, sizeof(number), "%d", member);
	json_object_object_add(request, "member", json_object_new_string(number));
	json_object_object_add(request, "timeout_ms", json_object_new_int(WAIT_MS));
	if (!client_call(a->ipc, a->cmd, request, &data, WAIT_MS + CLIENT_TIMEOUT_MS))
		return CLI_FAILED;
	printf("%s is member %d of array '%s': %s\n", a->path, member, a->name, client_clean(client_text(data, "state")));
	json_object_put(data);
	return cli_finish(a->cmd);
}

/* ---- a new disk ------------------------------------------------------------------- */

static int check_disk(struct add *a)
{
	char holds[160], need[64], has[64], lack[64];
	uint64_t needed = ddr_layout_member_bytes(&a->super);
	struct ddr_error err;

	cli_guard_at(a->path, NULL);
	if (disk_open(&a->dev, a->path, a->super.order, &a->allow, holds, sizeof(holds), &err))
		return cli_fail(a->cmd, "%s", err.text);
	if (a->dev.bytes < needed)
		return cli_fail(a->cmd, "%s has %s, and each member of array '%s' needs %s (%s more); use a larger disk", a->path,
				cli_format_bytes(a->dev.bytes, has, sizeof(has)), a->name, cli_format_bytes(needed, need, sizeof(need)),
				cli_format_bytes(needed - a->dev.bytes, lack, sizeof(lack)));
	if (holds[0] && !cli_confirm(a->cmd, a->yes, "%s: destroying what it holds (%s)", a->path, holds))
		return CLI_FAILED;
	if (a->dev.physical_sector > a->super.chunk &&
	    !cli_confirm(a->cmd, a->yes, "%s: physical sectors of %" PRIu32 " bytes are larger than the chunk of %" PRIu32 " bytes: a power loss "
			 "could damage other, already written blocks", a->path, a->dev.physical_sector, a->super.chunk))
		return CLI_FAILED;
	return CLI_DONE;
}

/* Adds an entry for the disk to the array's superblocks. Returns its number, or -1. */
static int enter(struct add *a)
{
	struct json_object *request = client_request("add", a->name), *data;
	char text[37];
	int member;

	json_object_object_add(request, "uuid", json_object_new_string(cli_format_uuid(a->uuid, text)));
	json_object_object_add(request, "timeout_ms", json_object_new_int(WAIT_MS));
	if (!client_call(a->ipc, a->cmd, request, &data, WAIT_MS + CLIENT_TIMEOUT_MS))
		return -1;
	member = (int)client_number(data, "member");
	json_object_put(data);
	return member;
}

/* Writes both copies, with a sequence number that is not above those of the members. */
static int write_supers(struct add *a, int member)
{
	struct ddr_super sb = a->super;
	struct ddr_error err;
	char writing[256];

	snprintf(writing, sizeof(writing), "it is not a spare of array '%s' yet; ddraid remove %s %d removes its entry", a->name, a->name, member);
	cli_guard_at(a->path, writing);
	sb.this_member = (uint16_t)member;
	for (sb.seq = a->super.seq - 1; sb.seq <= a->super.seq; sb.seq++)
		if (ddr_dev_write_owned(&a->dev, &sb, &a->owners, &err))
			return cli_fail(a->cmd, "%s; ddraid remove %s %d removes its entry", err.text, a->name, member);
	if (ddr_dev_drop_cache(&a->dev, &err))
		return cli_fail(a->cmd, "%s; ddraid remove %s %d removes its entry", err.text, a->name, member);
	return CLI_DONE;
}

/* Checked before the disk is touched. Another command may still take the last entry. */
static bool has_place(const struct add *a)
{
	for (int m = 0; m < a->super.members; m++) {
		const struct ddr_member *has = &a->super.member[m];

		if (has->role == DDR_ROLE_NONE && (has->state == DDR_MEMBER_FAULTY || has->state == DDR_MEMBER_MISSING))
			return true;
	}
	return a->super.members < DDR_MAX_MEMBERS;
}

static int add_new(struct add *a)
{
	struct ddr_error err;
	int member, rc;

	if (!has_place(a))
		return cli_fail(a->cmd, "array '%s' has %d members, which is the limit; make room by removing a spare or a failed member: ddraid "
					"remove %s MEMBER",
				a->name, a->super.members, a->name);
	rc = check_disk(a);
	if (rc)
		return rc;
	cli_guard_at(a->path, "the array was not changed, but what the disk held may be overwritten");
	if (create_prepare(&a->super, a->allow.overwrite, &a->dev, &err))
		return cli_fail(a->cmd, "%s; the array was not changed, but the former content of the disk is overwritten", err.text);
	uuid_generate(a->uuid);
	member = enter(a);
	if (member < 0 || !get_super(a))
		return CLI_FAILED;
	if (member >= a->super.members || memcmp(a->super.member[member].uuid, a->uuid, sizeof(a->uuid)) != 0)
		return cli_fail(a->cmd, "the members of array '%s' have changed meanwhile; check ddraid status, and try again", a->name);
	rc = write_supers(a, member);
	ddr_dev_close(&a->dev);		/* closed, so that the daemons can lock it */
	a->dev.fd = -1;
	return rc ? rc : seek(a, member);
}

/* ---- add -------------------------------------------------------------------------- */

static int add(struct add *a)
{
	int member;

	if (!get_status(a) || !get_super(a))
		return CLI_FAILED;
	member = member_of(a);
	if (member >= 0 && (a->super.member[member].state == DDR_MEMBER_IN_SYNC || a->super.member[member].state == DDR_MEMBER_REBUILDING))
		return cli_fail(a->cmd, "%s is already member %d of array '%s', and works", a->path, member, a->name);
	return member >= 0 && !a->foreign[0] ? seek(a, member) : add_new(a);
}

/* ---- replace ---------------------------------------------------------------------- */

static bool is_device(const char *path, dev_t rdev)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISBLK(st.st_mode) && st.st_rdev == rdev;
}

/* The member that the operator names: by its index, its uuid or any path of its device; NULL: there is none. */
static struct json_object *find_member(struct add *a)
{
	struct json_object *members = client_object(a->array, "members");
	bool device = a->old[0] == '/';
	char number[24];
	struct stat st;

	if (device && (stat(a->old, &st) || !S_ISBLK(st.st_mode))) {
		cli_fail(a->cmd, "%s is not a block device; give the index of the member that ddraid status shows", a->old);
		return NULL;
	}
	for (size_t i = 0; i < client_length(members); i++) {
		struct json_object *m = client_at(members, i);

		snprintf(number, sizeof(number), "%d", (int)client_number(m, "index"));
		if (device ? is_device(client_text(m, "device"), st.st_rdev) : !strcmp(a->old, number) || !strcasecmp(a->old, client_text(m, "uuid")))
			return m;
	}
	cli_fail(a->cmd, "'%s' is not a member of array '%s'; ddraid status lists them", a->old, a->name);
	return NULL;
}

static int check_old(struct add *a, struct json_object *old)
{
	struct json_object *jobs = client_object(a->array, "jobs");
	int index = (int)client_number(old, "index");
	const char *state = client_clean(client_text(old, "state"));

	if (client_null(old, "role"))
		return cli_fail(a->cmd, "member %d of array '%s' is %s and has no role, so there is nothing to replace", index, a->name, state);
	for (size_t i = 0; i < client_length(jobs); i++) {
		const char *type = client_text(client_at(jobs, i), "type");

		if (!strcmp(type, "rebuild") || !strcmp(type, "replace"))
			return cli_fail(a->cmd, "a %s of array '%s' is running; wait until it has finished (ddraid when %s shows when)", type,
					a->name, a->name);
	}
	a->role = strcmp(state, "in-sync") ? (uint32_t)client_number(old, "role") : DDR_ROLE_NONE;
	return CLI_DONE;
}

/* Takes any spare of the array. */
static int take_spare(struct add *a)
{
	for (int m = 0; m < a->super.members; m++)
		if (a->super.member[m].state == DDR_MEMBER_SPARE) {
			a->member = m;
			return CLI_DONE;
		}
	return cli_fail(a->cmd, "array '%s' has no spare; give a disk: ddraid replace %s %s DEV", a->name, a->name, a->old);
}

/* Makes the disk a spare, if it is not one yet. */
static int get_new(struct add *a)
{
	int member = a->path ? member_of(a) : -1;

	if (!a->path)
		return take_spare(a);
	if (member < 0 || a->foreign[0])
		return add_new(a);
	if (a->super.member[member].state == DDR_MEMBER_IN_SYNC || a->super.member[member].state == DDR_MEMBER_REBUILDING)
		return cli_fail(a->cmd, "%s is already member %d of array '%s', and works", a->path, member, a->name);
	if (a->super.member[member].role != DDR_ROLE_NONE)
		return cli_fail(a->cmd, "%s is member %d of array '%s', which counts as failed or missing; ddraid add %s %s takes it back", a->path,
				member, a->name, a->name, a->path);
	return seek(a, member);
}

static int ask(struct add *a, int old)
{
	struct json_object *request = client_request("replace", a->name), *data;
	char number[16], text[24];

	snprintf(number, sizeof(number), "%d", old);
	snprintf(text, sizeof(text), "%d", a->member);
	json_object_object_add(request, "member", json_object_new_string(number));
	json_object_object_add(request, "spare", json_object_new_string(text));
	if (a->role != DDR_ROLE_NONE)
		json_object_object_add(request, "role", json_object_new_int((int)a->role));
	json_object_object_add(request, "timeout_ms", json_object_new_int(WAIT_MS));
	if (!client_call(a->ipc, a->cmd, request, &data, WAIT_MS + CLIENT_TIMEOUT_MS))
		return CLI_FAILED;
	json_object_put(data);
	if (a->role != DDR_ROLE_NONE)
		printf("member %d of array '%s' is no longer used: member %d takes its place and is being rebuilt from the others; ddraid when %s "
		       "shows how long that takes\n",
		       old, a->name, a->member, a->name);
	else
		printf("member %d of array '%s' is being copied to member %d, which then takes its place; ddraid when %s shows how long that "
		       "takes\n", old,
		       a->name, a->member, a->name);
	return cli_finish(a->cmd);
}

static int replace(struct add *a)
{
	struct json_object *old;
	int rc;

	if (!get_status(a) || !get_super(a))
		return CLI_FAILED;
	old = find_member(a);
	if (!old)
		return CLI_FAILED;
	rc = check_old(a, old);
	if (!rc)
		rc = get_new(a);
	return rc ? rc : ask(a, (int)client_number(old, "index"));
}

/* ---- the options ------------------------------------------------------------------ */

static int work(void *ctx)
{
	struct add *a = ctx;
	int rc;

	a->ipc = client_connect(a->cmd);
	if (!a->ipc)
		return CLI_FAILED;
	rc = a->old ? replace(a) : add(a);
	json_object_put(a->array);
	ddr_dev_close(&a->dev);
	ddr_ipc_close(a->ipc);
	return rc;
}

static int run(const struct cli_command *cmd, int argc, char **argv, bool replaces)
{
	static const struct option options[] = {
		{ "overwrite", no_argument, NULL, 'w' }, { "allow-512e", no_argument, NULL, 'e' }, { "yes", no_argument, NULL, 'y' },
		{ "force", no_argument, NULL, 'f' }, { 0 },
	};
	struct add a = { .cmd = cmd->name, .dev = { .fd = -1 }, .role = DDR_ROLE_NONE };
	char path[PATH_MAX];
	int c, n;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c == 'f')
			return cli_usage(cmd, CLI_NO_FORCE);
		if (c != 'w' && c != 'e' && c != 'y')
			return cli_bad_option(cmd, c, argv);
		a.allow.overwrite |= c == 'w';
		a.allow.e512 |= c == 'e';
		a.yes |= c == 'y';
	}
	n = argc - optind;
	if (replaces ? n < 2 || n > 3 : n != 2)
		return cli_usage(cmd, replaces ? "give the name of an array, a member, and the new disk (without it a spare is used)" :
				 "give the name of an array and one disk");
	a.name = argv[optind];
	a.old = replaces ? argv[optind + 1] : NULL;
	a.path = replaces && n == 2 ? NULL : argv[optind + n - 1];
	if (a.path && realpath(a.path, path))
		a.path = path;
	return cli_guarded(cmd->name, work, &a);
}

int cmd_add(const struct cli_command *cmd, int argc, char **argv)
{
	return run(cmd, argc, argv, false);
}

int cmd_replace(const struct cli_command *cmd, int argc, char **argv)
{
	return run(cmd, argc, argv, true);
}
