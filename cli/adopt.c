// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid start --adopt. See adopt.h.
 *
 * Must never: treat silence, or the end of a pipe, as a yes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/adopt.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/client.h"

static void explain(const struct ddr_super *sb, uint32_t node)
{
	uint64_t updated = sb->updated;
	char when[64];

	printf("Array '%s' %s.\n", sb->name, sb->ro_compat & DDR_RO_COMPAT_CLUSTER ? "belongs to a cluster of several nodes" :
	       "was not stopped cleanly by the node that used it");
	for (uint32_t s = 0; s < sb->slots; s++)
		if (sb->slot_node[s])
			printf("  slot %" PRIu32 ": node %" PRIu32 " uses the array, or died while using it%s\n", s, sb->slot_node[s],
			       sb->slot_node[s] == node ? " (this node has the same id)" : "");
	if (updated)
		printf("  its superblocks were written last %s\n", cli_format_time(updated, when, sizeof(when)));
	printf("If any other machine uses these disks now, or uses them later, both machines write to them without knowing of each other:\nDATA IS "
	       "LOST, and nothing reports it. By adopting the array you assert that every other machine that used it is powered off or\ncannot "
	       "reach its disks, and stays so until it has been removed from the array's cluster.\n");
}

int cli_adopt(struct ddr_ipc *ipc, const struct ddr_super *sb, uint32_t node, uint32_t nodes, bool yes)
{
	struct json_object *data = NULL;
	char uuid[37];

	if (nodes == 1)
		explain(sb, node);
	yes |= nodes != 1;
	fflush(stdout);
	if (!cli_can_ask("start", yes, "'%s' would be adopted, as explained above", sb->name) || !cli_asked("start", yes))
		return CLI_FAILED;
	if (!client_call(ipc, "start", client_request("adopt", cli_format_uuid(sb->array_uuid, uuid)), &data, CLIENT_TIMEOUT_MS))
		return CLI_FAILED;
	json_object_put(data);
	return CLI_DONE;
}
