// SPDX-License-Identifier: GPL-2.0-or-later
/* How a daemon starts from what is on disk: alone, or into a group. */
#include "node.h"

/* Has a write of an earlier owner landed on one of these members? Then nothing of the block counts. */
static bool landed_late(const struct sim *s, uint32_t members, uint32_t slot, uint64_t since)
{
	for (uint32_t m = 0; m < s->sb0.members; m++)
		for (unsigned int place = 0; place < 2 && (members >> m & 1); place++)
			if (s->disk[m].log_seq[slot][place] && s->disk[m].log_seq[slot][place] < since)
				return true;
	return false;
}

void node_load_blocks(struct sim *s, struct node *n, uint32_t in_sync, uint32_t slot, uint64_t since, bool unreadable)
{
	bool map = slot == SIM_MAP;
	const struct ddr_disk_log *best = NULL;
	struct ddr_log_info info;
	uint64_t seq, top = 0;
	struct ddr_super sb = n->sb;

	sb.array_blocks = ddr_super_most_blocks(&sb);	/* the other nodes may know the present size of the array */
	for (uint32_t m = 0; m < n->sb.members; m++) {
		const struct ddr_disk_log *blk = in_sync >> m & 1 ? check_newest(s, m, slot, &seq) : NULL;

		if (blk && seq > top) {
			best = blk;
			top = seq;
		}
	}
	if (unreadable || !best || (!map && landed_late(s, in_sync, slot, since))) {
		if (map)
			ddr_sm_load_map(n->sm, 0, NULL, 0);
		else
			ddr_sm_load_log(n->sm, slot, 0, NULL, 0, 0, NULL, 0);
		return;
	}
	ddr_log_decode(best, &sb, (uint16_t)slot, 0, top & 1, &info);
	if (map)
		ddr_sm_load_map(n->sm, 0, best->payload, top);
	else
		ddr_sm_load_log(n->sm, slot, 0, best->payload, top, info.node, info.boot_id, info.cookie);
	if (!map)
		ddr_sm_load_repairs(n->sm, slot, 0, info.repair);
}

void node_owners(const struct node *n, struct ddr_owners *owners)
{
	*owners = n->owners;
}

bool node_may_start(const struct node *n)
{
	return !n->sm && !n->n_io;	/* otherwise the locks of the last daemon are still held */
}

/* The members that the kernel's table names at their roles. */
uint32_t node_named_by(const struct sim *s, const struct node *n)
{
	const struct ddr_super *sb = ddr_sm_super(n->sm);
	uint32_t members = 0;

	for (uint32_t p = 0; p < s->g.roles; p++)
		if (sb->member[n->k.disk[p]].role == p)
			members |= 1u << n->k.disk[p];
	return members;
}

static uint32_t shadow_of(const struct sim *s, const struct node *n)
{
	uint32_t m = n->k.disk[DDR_UAPI_SHADOW];

	(void)s;
	return m != SIM_NOBODY && ddr_sm_super(n->sm)->member[m].role == n->k.shadow_place ? m : DDR_NO_MEMBER;
}

void node_attach(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_K_ATTACHED, .cookie = n->k.cookie, .count = n->k.blocks };

	in.boot_id[0] = n->k.boot;
	in.boot_id[1] = (uint8_t)n->id;
	in.members = node_named_by(s, n);
	in.member = shadow_of(s, n);
	in.value = (n->k.disk[DDR_UAPI_SHADOW] != SIM_NOBODY ? DDR_SHADOW_NAMED : 0) | (n->k.state[DDR_UAPI_SHADOW] != DDR_KM_OUT ? DDR_SHADOW_USED : 0);
	n->table_due = false;
	node_step(s, n, &in);
	kernel_bind(s, &n->k);
	kernel_run(s, &n->k);
}

static void takes_spares(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_OP_SET, .key = DDR_SM_HOT_SPARE, .value = 1 };

	if (n->sm)
		node_step(s, n, &in);
}

/* The daemon of a cluster starts: it reads nothing yet, and joins the group. */
static void join(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_TICK, .now_ms = s->now };

	n->failed = n->ready = n->clean = n->gave_up = n->leaving = n->left = n->quorate = false;
	n->crash_after = -1;
	n->v_ring = n->q_ring = 0;
	n->pid++;
	if (!n->k.there)
		kernel_new(s, &n->k);
	sim_trace(s, "node %u: daemon %u starts", n->id, n->pid);
	node_step(s, n, &in);
	in = (struct ddr_input){ .type = DDR_IN_OP_SET, .key = DDR_SM_AWAY_MS, .value = s->storm.away_ms };
	node_step(s, n, &in);
	in.key = DDR_SM_IDLE_MS;
	in.value = s->storm.idle_ms;
	node_step(s, n, &in);
	takes_spares(s, n);
	if (n->sm)
		node_attach(s, n);
	if (n->sm)
		cluster_joined(s, n);
}

/* The device of a dead member can usually be opened; only its I/O fails. */
static bool still_there(struct sim *s)
{
	return s->cluster && (s->calm || sim_chance(s, 2));
}

void node_start(struct sim *s, struct node *n)
{
	struct ddr_sm_config cfg = { .node = n->nid, .booted_ms = n->settles_at, .super = &n->sb };
	uint32_t in_sync;

	if (!check_newest_super(s, &n->sb)) {
		if (!s->lossy)
			sim_violation(s, "no member holds a valid superblock");
		return;
	}
	if (check_hopeless(s))
		return;		/* the node has seen a later generation, and does not start from an older one (note 8) */
	if (n->room < n->sb.array_blocks)
		n->room = s->room;	/* it does not start with devices that seem too small */
	for (uint32_t m = 0; m < n->sb.members; m++) {
		s->disk[m].cut &= ~(1u << (n - s->node));	/* a node that lost its path to a member starts when it is repaired */
		cfg.present |= s->disk[m].dead && !still_there(s) ? 0 : 1u << m;
	}
	for (uint32_t i = 0; i < 16; i++)
		cfg.entropy[i] = (uint8_t)(sim_rand(s, 256) ^ (i == 0 ? n->id : i == 1 ? n->pid : i == 2 ? s->event : 0));	/* differs without a draw */
	check_newest_owners(s, &n->owners);
	cfg.owners = &n->owners;
	cfg.machine[0] = (uint8_t)n->id;
	cfg.machine[1] = n->hardware;
	cfg.name = "node";
	cfg.cluster = s->cluster;
	cfg.several = s->n_nodes > 1;
	cfg.fencing = s->fencing;
	n->sm = rig_sm(&cfg);
	if (!n->sm)
		sim_violation(s, "the configuration is refused");
	if (s->cluster) {
		join(s, n);
		return;
	}
	in_sync = check_in_sync(&n->sb) & cfg.present;
	node_load_blocks(s, n, in_sync, 0, n->owners.slot[0].log_seq, !s->calm && sim_chance(s, 40));
	node_load_blocks(s, n, in_sync, SIM_MAP, 0, !s->calm && sim_chance(s, 80));
	n->failed = n->ready = n->clean = false;
	n->crash_after = -1;
	if (!n->k.there)
		kernel_new(s, &n->k);
	sim_trace(s, "daemon starts, generation %llu, present %x", (unsigned long long)n->sb.generation, cfg.present);
	s->bus.ring++;
	bus_view(s, n);
	takes_spares(s, n);
	node_attach(s, n);
}
