// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid start --adopt. See adopt.h.
 *
 * Must never: take silence, or the end of a pipe, for a yes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/adopt.h"
#include "cli/cli.h"
#include "cli/client.h"

static void explain(const struct ddr_super *sb, uint32_t node)
{
	uint64_t updated = sb->updated;
	char when[64];

	printf("Array '%s' %s.\n", sb->name, sb->ro_compat & DDR_RO_COMPAT_CLUSTER ? "belongs to a cluster of several nodes" :
	       "was not stopped by the node that used it");
	for (uint32_t s = 0; s < sb->slots; s++)
		if (sb->slot_node[s])
			printf("  slot %" PRIu32 ": node %" PRIu32 " uses the array, or it died while it did%s\n", s, sb->slot_node[s],
			       sb->slot_node[s] == node ? " (this node has the same id)" : "");
	if (updated)
		printf("  its superblocks were written last %s\n", cli_format_time(updated, when, sizeof(when)));
	printf("If any other machine uses these disks now, or comes back later and uses them, both write to them without knowing of each other:\n"
	       "DATA IS LOST, and nothing reports it. By adopting the array you assert that every other machine which had it is switched off or\n"
	       "cannot reach its disks, and stays so until it was removed from the array's cluster.\n");
}

static bool said_yes(void)
{
	char line[16];

	printf("Type yes to adopt the array: ");
	fflush(stdout);
	return fgets(line, sizeof(line), stdin) && strcmp(line, "yes\n") == 0;
}

int cli_adopt(struct ddr_ipc *ipc, const struct ddr_super *sb, uint32_t node, uint32_t nodes, bool yes)
{
	struct json_object *data = NULL;
	char uuid[37];

	if (nodes == 1)
		explain(sb, node);
	yes |= nodes != 1;
	if (!yes && !isatty(STDIN_FILENO))
		return cli_fail("start", "'%s' is not adopted: there is no terminal to ask on; --yes says that you have read the above", sb->name);
	if (!yes && !said_yes())
		return cli_fail("start", "'%s' is not adopted, and nothing was changed", sb->name);
	if (!client_call(ipc, "start", client_request("adopt", cli_format_uuid(sb->array_uuid, uuid)), &data, CLIENT_TIMEOUT_MS))
		return CLI_FAILED;
	json_object_put(data);
	return CLI_DONE;
}
