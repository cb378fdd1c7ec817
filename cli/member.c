// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid fail: marks a member as failed, so that it is no longer used.
 *
 * ddraid remove: drops the entry of a failed or missing member, or of a spare. Nothing is written to the disk: its superblock is
 * ignored from then on.
 */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/client.h"

/* The word before a member in messages: none before the path of a device. */
static const char *kind(const char *member)
{
	return member[0] == '/' ? "" : "member ";
}

static void print_failed(const char *name, const char *member, struct json_object *list)
{
	struct json_object *array = client_at(list, 0);
	uint64_t more = client_number(array, "may_fail");

	printf("%s%s is no longer used by array '%s'", kind(member), member, name);
	if (more)
		printf("; %" PRIu64 " more member%s may fail\n", more, more > 1 ? "s" : "");
	else
		printf(", which cannot lose ANY other member now; ddraid add %s DEV adds a disk, which is rebuilt\n", name);
}

static void print_removed(const char *name, const char *member, struct json_object *data)
{
	(void)data;
	printf("array '%s' no longer lists %s%s; the disk still has its superblock: ddraid wipe erases it, and create and add accept the disk with "
	       "--overwrite\n", name,
	       kind(member), member);
}

/* The request has the same name as the command. */
static int on_member(const struct cli_command *cmd, int argc, char **argv, void (*print)(const char *, const char *, struct json_object *))
{
	struct json_object *request, *data;
	char path[PATH_MAX];
	struct ddr_ipc *ipc;
	int rc = CLI_FAILED;

	if (cli_no_options(cmd, argc, argv))
		return CLI_USAGE;
	if (argc != 3)
		return cli_usage(cmd, "give the name of an array and one member: its device, index or uuid");
	ipc = client_connect(cmd->name);
	if (!ipc)
		return CLI_FAILED;
	request = client_request(cmd->name, argv[1]);
	/* the daemon knows members by the kernel's names; links are resolved here */
	json_object_object_add(request, "member", json_object_new_string(
			       argv[2][0] == '/' && realpath(argv[2], path) ? path : argv[2]));
	if (client_call(ipc, cmd->name, request, &data, 4 * CLIENT_TIMEOUT_MS)) {
		print(argv[1], argv[2], data);
		json_object_put(data);
		rc = cli_finish(cmd->name);
	}
	ddr_ipc_close(ipc);
	return rc;
}

int cmd_fail(const struct cli_command *cmd, int argc, char **argv)
{
	return on_member(cmd, argc, argv, print_failed);
}

int cmd_remove(const struct cli_command *cmd, int argc, char **argv)
{
	return on_member(cmd, argc, argv, print_removed);
}
