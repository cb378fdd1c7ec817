// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid start --adopt. See adopt.h.
 *
 * Must never: treat silence, or the end of a pipe, as a yes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
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

/* What the device whose superblock is the newest says of the owners, and of their last stamps. The scan keeps none of that. */
struct seen {
	struct ddr_owners owners;
	struct ddr_stamp stamp[DDR_MAX_SLOTS];	/* the newer one of each slot; seq 0: there is none */
};

static void read_stamps(const struct ddr_dev *dev, const struct ddr_super *sb, struct seen *seen)
{
	uint8_t *buf = ddr_dev_buffer((size_t)sb->slots * 2 * DDR_META_BLOCK);
	struct ddr_stamp stamp;
	struct ddr_error err;

	if (buf && !ddr_dev_read(dev, buf, (size_t)sb->slots * 2 * DDR_META_BLOCK, ddr_stamp_offset(sb, 0, 0), &err))
		for (uint32_t i = 0; i < 2 * sb->slots; i++)
			if (ddr_stamp_decode(buf + (size_t)i * DDR_META_BLOCK, sb, i / 2, i % 2, &stamp).code == DDR_FE_OK && stamp.seq > seen->stamp[i / 2].seq)
				seen->stamp[i / 2] = stamp;
	free(buf);
}

/* All zero: format 1, or they cannot be read. */
static void look(const struct ddr_scan_array *array, struct seen *seen)
{
	const char *path = array->cand[array->assembly.source].device;
	struct ddr_supers supers;
	struct ddr_error err;
	struct ddr_dev dev;

	memset(seen, 0, sizeof(*seen));
	if (!ddr_super_has_owners(&array->assembly.super) || ddr_dev_open(&dev, path, DDR_DEV_FILE, &err))
		return;
	if (!ddr_dev_read_supers(&dev, &supers, &err)) {
		seen->owners = supers.owners;
		read_stamps(&dev, &array->assembly.super, seen);
	}
	ddr_dev_close(&dev);
}

int cli_adopt_needed(const struct adopt_node *node, const struct ddr_scan_array *array, uint8_t recorded[DDR_UUID_LEN], struct ddr_error *err)
{
	const struct ddr_super *sb = &array->assembly.super;
	static struct seen seen;

	look(array, &seen);
	memcpy(recorded, seen.owners.cluster, DDR_UUID_LEN);
	if (node->nodes == 1 && (node->alone ? ddr_assemble_alone(sb, node->alone, err) : ddr_assemble_unclustered(sb, err)))
		return -1;
	/* in a cluster the id may be known only once the daemon takes part in the array's group */
	return node->alone || !ddr_uuid_is_zero(node->cluster) ? ddr_assemble_elsewhere(sb, recorded, node->cluster, !node->alone, err) : 0;
}

/* Which machine has the slot, and when it stamped it last, by its own clock. */
static void explain_slot(const struct ddr_super *sb, const struct adopt_node *node, uint32_t slot, const struct seen *seen)
{
	const struct ddr_owner *o = &seen->owners.slot[slot];
	const struct ddr_stamp *stamp = &seen->stamp[slot];
	const uint8_t *machine = ddr_uuid_is_zero(o->machine) && stamp->seq ? stamp->machine : o->machine;
	const char *name = o->name[0] ? o->name : stamp->name;
	char id[37], when[64];

	printf("  slot %" PRIu32 ": node %" PRIu32 " uses the array, or died while using it%s", slot, sb->slot_node[slot],
	       sb->slot_node[slot] == node->alone ? " (this node has the same id)" : "");
	if (*name)
		printf("; %s", client_clean(name));
	if (!ddr_uuid_is_zero(machine))
		printf(", machine %s", cli_format_uuid(machine, id));
	if (stamp->seq && stamp->kind == DDR_STAMP_OWNER)
		printf("; its last sign of life is of %s", cli_format_time(stamp->time, when, sizeof(when)));
	else if (stamp->seq)
		printf("; %s has claimed it at %s", stamp->name[0] ? client_clean(stamp->name) : "a machine", cli_format_time(stamp->time, when, sizeof(when)));
	printf("\n");
}

static void explain(const struct ddr_scan_array *array, const struct adopt_node *node, const uint8_t recorded[DDR_UUID_LEN])
{
	const struct ddr_super *sb = &array->assembly.super;
	static struct seen seen;
	bool owned = false;
	char when[64], id[37];

	look(array, &seen);
	if (!ddr_uuid_is_zero(recorded) && memcmp(recorded, node->cluster, DDR_UUID_LEN) != 0)
		printf("Array '%s' was used last by another cluster, or by a machine without one (id %s).\n", sb->name, cli_format_uuid(recorded, id));
	else
		printf("Array '%s' %s.\n", sb->name, sb->ro_compat & DDR_RO_COMPAT_CLUSTER ? "belongs to a cluster of several nodes" :
		       "was not stopped cleanly by the node that used it");
	for (uint32_t s = 0; s < sb->slots; s++)
		if (sb->slot_node[s]) {
			explain_slot(sb, node, s, &seen);
			owned = true;
		}
	if (sb->updated)
		printf("  its superblocks were written last %s\n", cli_format_time(sb->updated, when, sizeof(when)));
	if (owned && ddr_super_has_owners(sb))
		printf("Before ddraidd serves it, it watches these slots twice, for as long as a machine may write without being heard of: with the default\n"
		       "daemon_timeout this takes 70 seconds. If another machine stamps or claims one of them, the array is not started.\n");
	printf("If any other machine%s uses these disks now, or uses them later, both write to them without knowing of each other:\nDATA IS "
	       "LOST, and nothing reports it. By adopting the array you assert that every other machine that used it is powered off or\ncannot "
	       "reach its disks, and stays so until it has been removed from the array's cluster.\n", node->nodes == 1 ? "" : " outside of this cluster");
}

int cli_adopt(struct ddr_ipc *ipc, const struct ddr_scan_array *array, const struct adopt_node *node, const uint8_t recorded[DDR_UUID_LEN], bool yes)
{
	const struct ddr_super *sb = &array->assembly.super;
	bool elsewhere = !ddr_uuid_is_zero(recorded) && memcmp(recorded, node->cluster, DDR_UUID_LEN) != 0;
	struct json_object *data = NULL, *request;
	char uuid[37];

	if (node->nodes == 1 || elsewhere)
		explain(array, node, recorded);
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
