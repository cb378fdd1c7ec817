// SPDX-License-Identifier: LGPL-2.1-or-later
/* Slots that are all taken; see slots.h. */
#include <stdio.h>
#include <string.h>

#include "lib/cluster/slots.h"
#include "lib/disk/format_owner.h"

#define LISTED	6u	/* slots that the sentence names */

const char ddr_slots_none_free[] = "all slots of the dirty log belong to other nodes";

static const char *state_of(const struct ddr_sm_status *st, uint32_t node)
{
	static const char *const states[] = {
		[DDR_NS_JOINING] = "joining", [DDR_NS_ACTIVE] = "uses the array", [DDR_NS_SUSPECT] = "lost", [DDR_NS_FENCING] = "being fenced",
		[DDR_NS_RECOVERING] = "being recovered", [DDR_NS_LEFT] = "not there",
	};

	for (uint32_t i = 0; st && i < st->n_nodes && i < DDR_SM_MAX_NODES; i++)
		if (st->node[i].id == node && (size_t)st->node[i].state < sizeof(states) / sizeof(states[0]))
			return states[st->node[i].state];
	return "not there";
}

static void add(char *buf, size_t size, const char *text)
{
	size_t used = strlen(buf);

	snprintf(buf + used, size - used, "%s", text);
}

const char *ddr_slots_taken(const struct ddr_super *sb, const struct ddr_sm_status *st, ddr_slots_name_fn name, void *ctx, char *buf,
			    size_t size)
{
	uint32_t listed = sb->slots > LISTED ? LISTED : sb->slots;
	char text[512], node[64];

	snprintf(buf, size, "the array has %u slot%s in its dirty log, and other nodes have %s:", sb->slots, sb->slots > 1 ? "s" : "",
		 sb->slots > 1 ? "all of them" : "it");
	for (uint32_t s = 0; s < listed; s++) {
		snprintf(text, sizeof(text), "%s %s (%s)", s ? "," : "", name(ctx, sb->slot_node[s], node, sizeof(node)),
			 state_of(st, sb->slot_node[s]));
		add(buf, size, text);
	}
	if (sb->slots > listed) {
		snprintf(text, sizeof(text), " and %u more", sb->slots - listed);
		add(buf, size, text);
	}
	if (st && ddr_super_has_owners(sb))
		snprintf(text, sizeof(text), ". A node frees its slot when the array is stopped there cleanly (ddraid stop %s). That of a node that was fenced, or "
			 "acknowledged as powered off, is free when its regions are taken over. Then start the array here again", sb->name);
	else
		snprintf(text, sizeof(text), ". A node frees its slot when the array is stopped there cleanly (ddraid stop %s). To replace a machine for "
			 "good, give the new machine the node id of the old one in %s: it then takes over the slot. Then start the array here again",
			 sb->name, st ? "corosync.conf" : "ddraid.conf (node_id)");
	add(buf, size, text);
	return buf;
}
