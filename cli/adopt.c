// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid start --adopt. See adopt.h.
 *
 * Must never: treat silence, or the end of a pipe, as a yes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <uuid/uuid.h>

#include "cli/adopt.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "lib/disk/devio.h"
#include "lib/math/uuid.h"

void cli_adopt_node(struct json_object *ping, struct adopt_node *node)
{
	const char *id = client_text(ping, "cluster");

	memset(node, 0, sizeof(*node));
	node->alone = (uint32_t)client_number(ping, "alone");
	node->nodes = (uint32_t)client_number(ping, "nodes");
	if (id && uuid_parse(id, node->cluster))
		memset(node->cluster, 0, sizeof(node->cluster));
}

/* Of the device whose superblock is the newest. The scan keeps no owner pages. */
static void read_cluster(const struct ddr_scan_array *array, uint8_t recorded[DDR_UUID_LEN])
{
	const char *path = array->cand[array->assembly.source].device;
	struct ddr_supers supers;
	struct ddr_error err;
	struct ddr_dev dev;

	memset(recorded, 0, DDR_UUID_LEN);
	if (!ddr_super_has_owners(&array->assembly.super) || ddr_dev_open(&dev, path, DDR_DEV_FILE, &err))
		return;
	if (!ddr_dev_read_supers(&dev, &supers, &err))
		memcpy(recorded, supers.owners.cluster, DDR_UUID_LEN);
	ddr_dev_close(&dev);
}

int cli_adopt_needed(const struct adopt_node *node, const struct ddr_scan_array *array, uint8_t recorded[DDR_UUID_LEN], struct ddr_error *err)
{
	const struct ddr_super *sb = &array->assembly.super;

	read_cluster(array, recorded);
	if (node->nodes == 1 && (node->alone ? ddr_assemble_alone(sb, node->alone, err) : ddr_assemble_unclustered(sb, err)))
		return -1;
	/* in a cluster the id may be known only once the daemon takes part in the array's group */
	return node->alone || !ddr_uuid_is_zero(node->cluster) ? ddr_assemble_elsewhere(sb, recorded, node->cluster, !node->alone, err) : 0;
}

static void explain(const struct ddr_super *sb, const struct adopt_node *node, const uint8_t recorded[DDR_UUID_LEN])
{
	uint64_t updated = sb->updated;
	char when[64], id[37];

	if (!ddr_uuid_is_zero(recorded) && memcmp(recorded, node->cluster, DDR_UUID_LEN) != 0)
		printf("Array '%s' was used last by another cluster, or by a machine without one (id %s).\n", sb->name, cli_format_uuid(recorded, id));
	else
		printf("Array '%s' %s.\n", sb->name, sb->ro_compat & DDR_RO_COMPAT_CLUSTER ? "belongs to a cluster of several nodes" :
		       "was not stopped cleanly by the node that used it");
	for (uint32_t s = 0; s < sb->slots; s++)
		if (sb->slot_node[s])
			printf("  slot %" PRIu32 ": node %" PRIu32 " uses the array, or died while using it%s\n", s, sb->slot_node[s],
			       sb->slot_node[s] == node->alone ? " (this node has the same id)" : "");
	if (updated)
		printf("  its superblocks were written last %s\n", cli_format_time(updated, when, sizeof(when)));
	printf("If any other machine%s uses these disks now, or uses them later, both write to them without knowing of each other:\nDATA IS "
	       "LOST, and nothing reports it. By adopting the array you assert that every other machine that used it is powered off or\ncannot "
	       "reach its disks, and stays so until it has been removed from the array's cluster.\n", node->nodes == 1 ? "" : " outside of this cluster");
}

int cli_adopt(struct ddr_ipc *ipc, const struct ddr_super *sb, const struct adopt_node *node, const uint8_t recorded[DDR_UUID_LEN], bool yes)
{
	bool elsewhere = !ddr_uuid_is_zero(recorded) && memcmp(recorded, node->cluster, DDR_UUID_LEN) != 0;
	struct json_object *data = NULL, *request;
	char uuid[37];

	if (node->nodes == 1 || elsewhere)
		explain(sb, node, recorded);
	else
		yes = true;
	fflush(stdout);
	if (!cli_can_ask("start", yes, "'%s' would be adopted, as explained above", sb->name) || !cli_asked("start", yes))
		return CLI_FAILED;
	request = client_request("adopt", cli_format_uuid(sb->array_uuid, uuid));
	if (elsewhere)
		json_object_object_add(request, "cluster", json_object_new_string(cli_format_uuid(recorded, uuid)));
	if (!client_call(ipc, "start", request, &data, CLIENT_TIMEOUT_MS))
		return CLI_FAILED;
	json_object_put(data);
	return CLI_DONE;
}
