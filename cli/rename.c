// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid rename: gives an array that is stopped on all nodes another name. The name is in the superblocks, so a single command changes it, while the
 * array cannot be started (stopped.h).
 *
 * Must never: write while a member is missing; base the new superblocks on ones that were read before the members were locked.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/guard.h"
#include "cli/name.h"
#include "cli/rename.h"
#include "cli/stopped.h"
#include "lib/dm.h"

#define HALF	"the array already has the new name, but not all of its disks have been updated; repeat the same command"

struct rename {
	const char *old, *name;
	struct stopped s;
};

/* ---- which array ------------------------------------------------------------------ */

/* Finds an interrupted rename: some disk has the old name, and the newest superblock of its array the new one. */
static bool find_half(struct rename *r, char uuid[37])
{
	struct ddr_scan_name list[64];
	size_t n = ddr_scan_arrays(&r->s.scan, list, sizeof(list) / sizeof(list[0]));

	for (size_t i = 0; i < r->s.scan.n; i++) {
		const struct ddr_supers *s = &r->s.scan.dev[i].supers;
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

	if (ddr_scan_assemble(&r->s.scan, r->old, NULL, &r->s.array, &err) == 0)
		return CLI_DONE;
	if (!find_half(r, uuid))
		return cli_fail("rename", "%s", err.text);
	return ddr_scan_assemble(&r->s.scan, uuid, NULL, &r->s.array, &again) ? cli_fail("rename", "%s", again.text) : CLI_DONE;
}

/* ---- is it allowed ---------------------------------------------------------------- */

static int check_members(const struct rename *r)
{
	const struct ddr_assembly *a = &r->s.array.assembly;
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

static int check(struct rename *r)
{
	const struct ddr_super *sb = &r->s.array.assembly.super;
	struct ddr_error err;
	int rc = stopped_check(&r->s);

	if (!rc)
		rc = check_members(r);
	if (!rc && cli_name_taken(&r->s.scan, r->name, sb->array_uuid, NULL, 0, &err))
		rc = cli_fail("rename", "%s", err.text);
	return rc;
}

/* ---- the change ------------------------------------------------------------------- */

/* Do all copies have the new name already? */
static bool is_done(const struct rename *r)
{
	for (size_t c = 0; c < r->s.array.n; c++)
		for (unsigned int i = 0; i < DDR_SB_COPIES && stopped_plays(&r->s, c); i++)
			if (!r->s.supers[c].copy[i].found || strcmp(r->s.supers[c].copy[i].super.name, r->name) != 0)
				return false;
	return true;
}

static int write_all(struct rename *r)
{
	const struct ddr_owners *owners = &r->s.supers[r->s.array.assembly.source].owners;
	struct ddr_super sb = r->s.array.assembly.super;
	struct ddr_error err;
	bool begun = false;

	memset(sb.name, 0, sizeof(sb.name));
	memcpy(sb.name, r->name, strlen(r->name));
	sb.updated = (uint64_t)time(NULL);
	sb.seq = ddr_super_seq_behind(sb.seq);
	for (size_t c = 0; c < r->s.array.n; c++) {
		int32_t m = stopped_member(&r->s, c);

		if (m < 0)
			continue;
		cli_guard_at(r->s.array.cand[c].device, HALF);
		if (rename_write(&r->s.dev[c], &sb, owners, (uint16_t)m, &err))
			return cli_fail("rename", "%s; %s", err.text, begun ? HALF : "it may have the new name, while the other disks have the old "
					"one; replace it if it is broken, or repeat the same command");
		begun = true;
	}
	return CLI_DONE;
}

static int change(struct rename *r)
{
	int rc = stopped_take(&r->s);

	if (!rc)
		rc = check_members(r);
	if (!rc && is_done(r))
		rc = cli_fail("rename", "the array already has the name '%s'; nothing was changed", r->name);
	return rc ? rc : write_all(r);
}

/* ---- the command ------------------------------------------------------------------ */

static int rename_array(struct rename *r)
{
	char before[DDR_NAME_LEN];
	struct ddr_error err;
	int rc;

	if (stopped_ask(&r->s))
		return CLI_FAILED;
	ddr_dm_init();
	if (cli_scan("rename", r->old, &r->s.scan, &err))
		return cli_fail("rename", "%s", err.text);
	rc = find(r);
	memcpy(before, r->s.array.assembly.super.name, sizeof(before));
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
	stopped_init(&r.s, "rename");
	rc = rename_array(&r);
	stopped_free(&r.s);
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
