// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid rename: gives an array that is stopped on all nodes another name.
 *
 * The name is in the superblocks, so a single command changes it, while the array cannot be started: the members are locked, which
 * keeps other programs on this machine out; in a cluster the command is alone in the array's process group, which keeps the other
 * nodes out (hold.h). A slot of the dirty log that belongs to another node shows that this node runs the array, or died while running
 * it.
 *
 * Must never: write while a slot is owned, a member is missing, or the process group has other processes; base the new superblocks on
 * ones that were read before the members were locked.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/dm.h"
#include "cli/guard.h"
#include "cli/hold.h"
#include "cli/name.h"
#include "cli/rename.h"
#include "lib/disk/scan.h"
#include "lib/dm.h"

#define LOCK_MS	5000u
#define HALF	"the array already has the new name, but not all of its disks have been updated; repeat the same command"

struct rename {
	const char *old, *name;
	struct ddr_scan scan;
	struct ddr_scan_array array;	/* as found by the scan; cand borrows from it */
	uint32_t alone, nodes;		/* as in start.c: this node's id if it has no cluster; number of nodes in the cluster */
	struct hold hold;
	struct ddr_dev dev[DDR_ASSEMBLE_MAX];	/* of each candidate that is used; fd -1: it is not */
};

/* ---- which array ------------------------------------------------------------------ */

static bool ask_daemon(struct rename *r)
{
	struct ddr_ipc *ipc = client_connect("rename");
	struct json_object *data;
	bool ok = ipc && client_call(ipc, "rename", client_request("ping", NULL), &data, CLIENT_TIMEOUT_MS);

	if (ok) {
		r->alone = (uint32_t)client_number(data, "alone");
		r->nodes = (uint32_t)client_number(data, "nodes");
		json_object_put(data);
	}
	ddr_ipc_close(ipc);
	return ok;
}

/* Finds an interrupted rename: some disk has the old name, and the newest superblock of its array the new one. */
static bool find_half(struct rename *r, char uuid[37])
{
	struct ddr_scan_name list[64];
	size_t n = ddr_scan_arrays(&r->scan, list, sizeof(list) / sizeof(list[0]));

	for (size_t i = 0; i < r->scan.n; i++) {
		const struct ddr_supers *s = &r->scan.dev[i].supers;
		const struct ddr_super *sb = s->newest < 0 ? NULL : &s->copy[s->newest].super;

		if (!sb || strcmp(sb->name, r->old) != 0)
			continue;
		for (size_t k = 0; k < n; k++)
			if (memcmp(list[k].uuid, sb->array_uuid, DDR_UUID_LEN) == 0 && strcmp(list[k].name, r->name) == 0) {
				cli_format_uuid(sb->array_uuid, uuid);
				return true;
			}
	}
	return false;
}

static int find(struct rename *r)
{
	struct ddr_error err, again;
	char uuid[37];

	if (ddr_scan_assemble(&r->scan, r->old, NULL, &r->array, &err) == 0)
		return CLI_DONE;
	if (!find_half(r, uuid))
		return cli_fail("rename", "%s", err.text);
	return ddr_scan_assemble(&r->scan, uuid, NULL, &r->array, &again) ? cli_fail("rename", "%s", again.text) : CLI_DONE;
}

/* ---- is it allowed ---------------------------------------------------------------- */

static int check_members(const struct rename *r)
{
	const struct ddr_assembly *a = &r->array.assembly;
	const struct ddr_super *sb = &a->super;

	if (a->missing)
		return cli_fail("rename", "'%s': the disk of member %d is missing or not usable, and would keep the old name; connect it, or start "
				"the array without it, stop it, and try again", sb->name, __builtin_ctz(a->missing));
	for (uint32_t m = 0; m < sb->members; m++)
		if (sb->member[m].state == DDR_MEMBER_REBUILDING)
			return cli_fail("rename", "'%s': member %" PRIu32 " is being rebuilt; start the array, wait until the rebuild has "
						  "finished, stop it, and try again",
					sb->name, m);
	return CLI_DONE;
}

/* Checks that no node runs the array, or died while running it. */
static int check_use(const struct rename *r)
{
	const struct ddr_super *sb = &r->array.assembly.super;
	struct cli_dm_info info;
	struct ddr_error err;
	char uuid[37];

	if (cli_dm_find_array(cli_format_uuid(sb->array_uuid, uuid), &info, &err) == 0 && info.exists)
		return cli_fail("rename", "'%s' is started on this node, as /dev/mapper/%s; stop it on all nodes first", sb->name, info.name);
	if (r->alone ? ddr_assemble_alone(sb, r->alone, &err) : r->nodes == 1 && ddr_assemble_unclustered(sb, &err))
		return cli_fail("rename", "%s", err.text);
	/* a node without a cluster keeps its slot when it stops; its locks are free, so it does not run the array */
	for (uint32_t s = 0; s < sb->slots; s++)
		if (sb->slot_node[s] && sb->slot_node[s] != r->alone)
			return cli_fail("rename", "'%s' is in use by node %" PRIu32 ", or that node died while using it; start the array, stop it "
					"on all nodes, then try again", sb->name, sb->slot_node[s]);
	return CLI_DONE;
}

static int check(struct rename *r)
{
	const struct ddr_super *sb = &r->array.assembly.super;
	struct ddr_error err;
	int rc = check_use(r);

	if (!rc)
		rc = check_members(r);
	if (!rc && cli_name_taken(&r->scan, r->name, sb->array_uuid, NULL, 0, &err))
		rc = cli_fail("rename", "%s", err.text);
	return rc;
}

/* ---- the change ------------------------------------------------------------------- */

static bool plays(const struct rename *r, size_t c)
{
	return r->array.assembly.verdict[c] == DDR_V_CURRENT;
}

/* The member that candidate @c serves as, or -1. */
static int32_t member_of(const struct ddr_assembly *a, int32_t c)
{
	for (int32_t m = 0; m < a->super.members; m++)
		if (a->device[m] == c)
			return m;
	return -1;
}

static int open_all(struct rename *r)
{
	struct ddr_error err;

	for (size_t c = 0; c < r->array.n; c++) {
		if (!plays(r, c))
			continue;
		cli_guard_at(r->array.cand[c].device, NULL);
		if (ddr_dev_open(&r->dev[c], r->array.cand[c].device, DDR_DEV_WRITE | DDR_DEV_EXCL | DDR_DEV_FILE, &err) ||
		    ddr_dev_lock(&r->dev[c], LOCK_MS, &err))
			return cli_fail("rename", "%s", err.text);
	}
	return CLI_DONE;
}

/* Reads all superblocks again, now that nobody else can change them: only these are used. */
static int read_again(struct rename *r, struct ddr_supers *s)
{
	const struct ddr_super before = r->array.assembly.super, *now = &r->array.assembly.super;
	struct ddr_error err;

	for (size_t c = 0; c < r->array.n; c++) {
		if (!plays(r, c))
			continue;
		cli_guard_at(r->array.cand[c].device, NULL);
		if (ddr_dev_read_supers(&r->dev[c], &s[c], &err))
			return cli_fail("rename", "%s", err.text);
		r->array.cand[c].super = &s[c].copy[s[c].newest].super;
	}
	if (ddr_assemble(r->array.cand, r->array.n, NULL, &r->array.assembly, &err))
		return cli_fail("rename", "%s", err.text);
	if (now->generation != before.generation || now->seq != before.seq || strcmp(now->name, before.name) != 0)
		return cli_fail("rename", "'%s': another program or node changed its superblocks meanwhile; try again", before.name);
	return check_use(r) ? CLI_FAILED : check_members(r);
}

/* Do all copies have the new name already? */
static bool is_done(const struct rename *r, const struct ddr_supers *s)
{
	for (size_t c = 0; c < r->array.n; c++)
		for (unsigned int i = 0; i < DDR_SB_COPIES && plays(r, c); i++)
			if (!s[c].copy[i].found || strcmp(s[c].copy[i].super.name, r->name) != 0)
				return false;
	return true;
}

static int write_all(struct rename *r, const struct ddr_supers *s)
{
	struct ddr_super sb = r->array.assembly.super;
	struct ddr_error err;
	bool begun = false;

	memset(sb.name, 0, sizeof(sb.name));
	memcpy(sb.name, r->name, strlen(r->name));
	sb.updated = (uint64_t)time(NULL);
	sb.seq = ddr_super_seq_behind(sb.seq);
	for (size_t c = 0; c < r->array.n; c++) {
		int32_t m = plays(r, c) ? member_of(&r->array.assembly, (int32_t)c) : -1;

		if (m < 0)
			continue;
		cli_guard_at(r->array.cand[c].device, HALF);
		if (rename_write(&r->dev[c], &sb, &s[r->array.assembly.source].owners, (uint16_t)m, &err))
			return cli_fail("rename", "%s; %s", err.text, begun ? HALF : "it may have the new name, while the other disks have the old "
					"one; replace it if it is broken, or repeat the same command");
		begun = true;
	}
	return CLI_DONE;
}

static int change(struct rename *r)
{
	static struct ddr_supers supers[DDR_ASSEMBLE_MAX];
	struct ddr_error err;
	int rc = open_all(r);

	if (!rc && !r->alone && hold_take(&r->hold, r->array.assembly.super.array_uuid, &err))
		rc = cli_fail("rename", "'%s': %s", r->array.assembly.super.name, err.text);
	if (!rc)
		rc = read_again(r, supers);
	if (!rc && hold_check(&r->hold, &err))
		rc = cli_fail("rename", "'%s': %s", r->array.assembly.super.name, err.text);
	if (!rc && is_done(r, supers))
		rc = cli_fail("rename", "the array already has the name '%s'; nothing was changed", r->name);
	if (!rc)
		rc = write_all(r, supers);
	hold_drop(&r->hold);
	return rc;
}

/* ---- the command ------------------------------------------------------------------ */

static int rename_array(struct rename *r)
{
	char before[DDR_NAME_LEN];
	struct ddr_error err;
	int rc;

	if (!ask_daemon(r))
		return CLI_FAILED;
	ddr_dm_init();
	if (cli_scan("rename", r->old, &r->scan, &err))
		return cli_fail("rename", "%s", err.text);
	rc = find(r);
	memcpy(before, r->array.assembly.super.name, sizeof(before));
	if (!rc)
		rc = check(r);
	if (!rc)
		rc = change(r);
	if (rc)
		return rc;
	printf("array '%s' is now called '%s'; start it by that name, and update whatever refers to /dev/mapper/%s (/etc/fstab, for example)\n",
	       strcmp(before, r->name) ? before : r->old, r->name, strcmp(before, r->name) ? before : r->old);
	return cli_finish("rename");
}

static int work(void *ctx)
{
	static struct rename r;
	const char *const *names = ctx;
	int rc;

	r.old = names[0];
	r.name = names[1];
	for (size_t c = 0; c < DDR_ASSEMBLE_MAX; c++)
		r.dev[c].fd = -1;
	rc = rename_array(&r);
	for (size_t c = 0; c < DDR_ASSEMBLE_MAX; c++)
		ddr_dev_close(&r.dev[c]);
	ddr_scan_free(&r.scan);
	return rc;
}

int cmd_rename(const struct cli_command *cmd, int argc, char **argv)
{
	static const struct option options[] = { { 0 } };
	const char *names[2], *why;
	int c = getopt_long(argc, argv, ":", options, NULL);

	if (c != -1)
		return cli_bad_option(cmd, c, argv);
	if (argc - optind != 2)
		return cli_usage(cmd, "give the name or the uuid of an array, and its new name");
	names[0] = argv[optind];
	names[1] = argv[optind + 1];
	why = ddr_name_refused(names[1]);
	if (why)
		return cli_usage(cmd, "'%s' cannot name an array: %s", names[1], why);
	return cli_guarded(cmd->name, work, names);
}
