// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Which cluster the array belongs to: a bit of its superblocks (DDR_RO_COMPAT_CLUSTER) says that it belongs to a cluster of several
 * nodes; without it any single node may use it.
 *
 * The START of a node in such a cluster sets the bit, with the change that gives the node its slot: it is durable on all members
 * before the node is granted anything. From then on a node without a cluster, or in a cluster of one node, is refused: it cannot know
 * whether other nodes write to the array. The operator can know (ddraid start --adopt). That START clears the bit, and takes over the
 * dirty regions of the cluster's nodes.
 *
 * Must never: take a struct ddr_sm; let a node outside of a cluster start a cluster's array, unless the operator adopts it; clear the
 * bit while other nodes are in the view.
 */
#include "sm_int.h"

static bool is_cluster(const struct ddr_super *sb)
{
	return sb->ro_compat & DDR_RO_COMPAT_CLUSTER;
}

const char ddr_sm_elsewhere[] = "the array was used last by another cluster, or by a machine without one, which may be using it now. Start it there. Only if "
				"no other machine uses its disks any more: ddraid start --adopt NAME";

/*
 * Where another node of the view has started, its cluster's id has changed since, and all are in the same one. Nor is a kernel refused that has had its slot
 * all the time.
 */
static bool is_elsewhere(const struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	int at = ddr_shared_node_at(s, msg->sender);

	return ddr_shared_elsewhere(s, msg->start.cluster) && !ddr_shared_others_started(s, at < 0 ? NULL : &s->nodes[at]) &&
	       !ddr_shared_owner_is(s, msg->start.boot_id, msg->start.cookie);
}

const char *ddr_shared_mark_refused(const struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	uint32_t flags = msg->start.flags;

	if ((flags & DDR_START_ADOPT) && (flags & DDR_START_SEVERAL) && !ddr_shared_elsewhere(s, msg->start.cluster))
		return "this cluster has used the array last, so it needs no --adopt. Start it without";
	if (!(flags & DDR_START_ADOPT) && is_elsewhere(s, msg))
		return ddr_sm_elsewhere;
	if (!is_cluster(&s->sb) || (flags & (DDR_START_SEVERAL | DDR_START_ADOPT)))
		return NULL;
	return "the array belongs to a cluster and this node is in none: another node may be using it now. Start it on a node of its cluster. Only "
	       "if no other machine uses its disks any more: ddraid start --adopt NAME";
}

/* The value of the bit after all delivered changes. */
static bool will_be_cluster(const struct ddr_sm_shared *s)
{
	uint8_t mark = s->change.mark;

	return mark ? mark == DDR_MARK_CLUSTER : is_cluster(&s->sb);
}

/* Without a cluster the owners of slots are in no view, so they are not lost; their dirty regions are taken over as if they were fenced. */
static void take_slots(struct ddr_sm_shared *s, uint64_t time)
{
	static const uint8_t nobody[DDR_UUID_LEN];

	for (uint32_t i = 0; i < s->sb.slots; i++)
		if (s->sb.slot_node[i] && ddr_shared_node_at(s, s->sb.slot_node[i]) < 0) {
			ddr_order_slot_died(s, i);
			ddr_order_slot_recover(s, i);
			ddr_order_owner_dead(s, i, nobody, 0, false, time);
		}
}

void ddr_order_mark_start(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_order_dead *dead)
{
	bool cluster = will_be_cluster(s), several = msg->start.flags & DDR_START_SEVERAL;

	ddr_order_owner_cluster(s, msg);
	if (several && !cluster)
		s->change.mark = DDR_MARK_CLUSTER;
	if (!(msg->start.flags & DDR_START_ADOPT))
		return;
	if (!several && cluster)
		s->change.mark = DDR_MARK_ALONE;
	ddr_order_lost_adopted(s, msg->start.time, dead);
	take_slots(s, msg->start.time);
}
