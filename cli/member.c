// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid fail: takes a member out of the array, as if it had failed.
 * ddraid remove: the array forgets one that is out of it, or a spare. Nothing is written to the disk: what it says of itself
 * does not count any more.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/client.h"

/* The request has the name of the command. */
static int on_member(const struct cli_command *cmd, int argc, char **argv)
{
	struct json_object *request, *data;
	char path[PATH_MAX];
	struct ddr_ipc *ipc;
	int rc = CLI_FAILED;

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
		json_object_put(data);
		rc = CLI_DONE;
	}
	ddr_ipc_close(ipc);
	return rc;
}

int cmd_fail(const struct cli_command *cmd, int argc, char **argv)
{
	return on_member(cmd, argc, argv);
}

int cmd_remove(const struct cli_command *cmd, int argc, char **argv)
{
	return on_member(cmd, argc, argv);
}
