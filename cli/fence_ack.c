// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid fence-ack: the operator asserts that a node is powered off, so that its regions may be recovered.
 */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/client.h"

int cmd_fence_ack(const struct cli_command *cmd, int argc, char **argv)
{
	struct json_object *request, *data;
	struct ddr_ipc *ipc;
	int rc = CLI_FAILED;

	if (cli_no_options(cmd, argc, argv))
		return CLI_USAGE;
	if (argc != 2)
		return cli_usage(cmd, "give one node, by its id or name; it must be powered off, or cut off from all members");
	ipc = client_connect("fence-ack");
	if (!ipc)
		return CLI_FAILED;
	request = client_request("fence-ack", NULL);
	json_object_object_add(request, "node", json_object_new_string(argv[1]));
	if (client_call(ipc, "fence-ack", request, &data, CLIENT_TIMEOUT_MS)) {
		json_object_put(data);
		printf("node %s counts as dead: the regions that it was writing are being recovered; ddraid status shows when that is done\n",
		       argv[1]);
		rc = cli_finish("fence-ack");
	}
	ddr_ipc_close(ipc);
	return rc;
}
