// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid upgrade: gives an array that is stopped on all nodes the newest on-disk format. (The format is only raised by this command: an older release
 * cannot start the array any more.) The array cannot be started meanwhile (stopped.h).
 *
 * Must never: write while a member is missing, which would keep the old format; write anything where there is no room.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <uuid/uuid.h>

#include "cli/cli.h"
#include "cli/guard.h"
#include "cli/stopped.h"
#include "cli/upgrade.h"
#include "lib/disk/layout.h"
#include "lib/dm.h"

#define HALF	"some disks already have format 2; repeat the same command"
#define NOTHING	"the array still has format 1; repeat the same command"

static int check_members(const struct stopped *s)
{
	const struct ddr_assembly *a = &s->array.assembly;
	const struct ddr_super *sb = &a->super;

	if (a->missing)
		return cli_fail(s->cmd, "'%s': the disk of member %d is missing or not usable, and would keep the old format; connect it, or start "
				"the array without it, stop it, and try again", sb->name, __builtin_ctz(a->missing));
	for (uint32_t m = 0; m < sb->members; m++)
		if (sb->member[m].state == DDR_MEMBER_REBUILDING)
			return cli_fail(s->cmd, "'%s': member %" PRIu32 " is being rebuilt; start the array, wait until the rebuild has "
						"finished, stop it, and try again", sb->name, m);
	return CLI_DONE;
}

static void report(const struct ddr_super *before, const struct ddr_super *now)
{
	char size[32];

	printf("array '%s' now has format 2; ddraid releases that do not know it cannot start it any more\n", now->name);
	if (now->map_blocks < before->map_blocks)
		printf("The region map has become smaller to make room: the array can grow up to %s.\n",
		       cli_format_size(ddr_super_most_blocks(now) * DDR_BLOCK_SIZE, size, sizeof(size)));
}

static int change(struct stopped *s)
{
	static struct upgrade_disk disk[DDR_ASSEMBLE_MAX];
	struct ddr_super before = s->array.assembly.super, after = before;
	struct ddr_error err;
	uint8_t gen_id[DDR_UUID_LEN];
	bool begun;
	size_t n = 0;

	for (size_t c = 0; c < s->array.n; c++)
		if (stopped_member(s, c) >= 0)
			disk[n++] = (struct upgrade_disk){ .dev = &s->dev[c], .supers = &s->supers[c], .member = (uint16_t)stopped_member(s, c) };
	if (upgrade_is_done(disk, n, &before)) {
		printf("array '%s' already has format 2; nothing was changed\n", before.name);
		return cli_finish(s->cmd);
	}
	uuid_generate(gen_id);
	before.updated = (uint64_t)time(NULL);
	cli_guard_at(s->array.cand[0].device, HALF);
	if (upgrade_write(disk, n, &before, &s->supers[s->array.assembly.source].owners, gen_id, &begun, &err))
		return cli_fail(s->cmd, "%s; %s", err.text, begun ? HALF : NOTHING);
	if (!ddr_super_has_owners(&before))
		ddr_layout_owners(&after, &err);
	report(&before, &after);
	return cli_finish(s->cmd);
}

static int upgrade(struct stopped *s, const char *name)
{
	struct ddr_super trial;
	struct ddr_error err;
	int rc = stopped_ask(s);

	if (rc)
		return rc;
	ddr_dm_init();
	if (cli_scan(s->cmd, name, &s->scan, &err) || ddr_scan_assemble(&s->scan, name, NULL, &s->array, &err))
		return cli_fail(s->cmd, "%s", err.text);
	rc = stopped_check(s);
	if (!rc)
		rc = check_members(s);
	trial = s->array.assembly.super;
	if (!rc && !ddr_super_has_owners(&trial) && ddr_layout_owners(&trial, &err))
		rc = cli_fail(s->cmd, "%s", err.text);
	if (!rc)
		rc = stopped_take(s);
	if (!rc)
		rc = check_members(s);
	return rc ? rc : change(s);
}

static int work(void *ctx)
{
	static struct stopped s;
	const char *name = ctx;
	int rc;

	stopped_init(&s, "upgrade");
	rc = upgrade(&s, name);
	stopped_free(&s);
	return rc;
}

int cmd_upgrade(const struct cli_command *cmd, int argc, char **argv)
{
	static const struct option options[] = { { 0 } };
	int c = getopt_long(argc, argv, ":", options, NULL);

	if (c != -1)
		return cli_bad_option(cmd, c, argv);
	if (argc - optind != 1)
		return cli_usage(cmd, "give the name or the uuid of an array");
	return cli_guarded(cmd->name, work, argv[optind]);
}
