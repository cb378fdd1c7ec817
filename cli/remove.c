// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid remove: the array forgets a member that is out of it, or a spare. Nothing is written to the disk: what it
 * says of itself does not count any more.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/client.h"

int cmd_remove(const struct cli_command *cmd, int argc, char **argv)
{
	struct json_object *request, *data;
	char path[PATH_MAX];
	struct ddr_ipc *ipc;
	int rc = CLI_FAILED;

	if (argc != 3)
		return cli_usage(cmd, "give the name of an array and one member: its device, index or uuid");
	ipc = client_connect("remove");
	if (!ipc)
		return CLI_FAILED;
	request = client_request("remove", argv[1]);
	json_object_object_add(request, "member", json_object_new_string(
			       argv[2][0] == '/' && realpath(argv[2], path) ? path : argv[2]));
	if (client_call(ipc, "remove", request, &data, 4 * CLIENT_TIMEOUT_MS)) {
		json_object_put(data);
		rc = CLI_DONE;
	}
	ddr_ipc_close(ipc);
	return rc;
}
