// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Members that become larger, and the array that grows into them: what the operator does, what daemons see of it and when, how the
 * members are prepared, and the longer tables of the kernels. Also the rules for it, checked on the disks and the kernels: no kernel
 * addresses a block that not all participants know of, or for which the members have no room.
 *
 * A size here is the possible size of the array: devices have that size plus metadata and tail. A node sees a new size at once,
 * later, or when it starts.
 */
#include <string.h>

#include "kernel.h"

static uint64_t most(const struct sim *s)
{
	uint64_t blocks = SIM_MAX_REGIONS * (uint64_t)s->geo.region_blocks;

	return blocks < SIM_MAX_BLOCKS ? blocks : SIM_MAX_BLOCKS;
}

void grow_init(struct sim *s)
{
	s->room = s->blocks;
	for (struct node *n = s->node; n < s->node + SIM_MAX_NODES; n++)
		n->room = s->room;
}

/* The array has the size in its newest superblock. The contents of new blocks are those of the disks. */
void grow_sized(struct sim *s, uint64_t blocks)
{
	uint64_t before = s->blocks;

	s->blocks = blocks;
	s->regions = (blocks + s->geo.region_blocks - 1) / s->geo.region_blocks;
	for (uint64_t b = before; b < blocks; b++)
		for (uint32_t i = 0; i < ddr_geo_data(&s->g); i++)
			s->truth[b].base[i] = s->disk[check_member(s, i, b)].media[b];
}

/* Devices become larger, and the array should grow. */
void grow_wanted(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_OP_GROW };
	struct act a = act_of(ACT_ROOM, NULL);

	if (!n->sm || s->lossy)
		return;
	if (sim_chance(s, 2)) {
		a.arg[0] = s->room + (sim_rand(s, 3ull * s->geo.region_blocks) << s->g.order);
		a.arg[0] = a.arg[0] < most(s) ? a.arg[0] : most(s);
		for (uint32_t i = 0; i < s->n_nodes; i++)
			a.arg[1] |= sim_chance(s, 4) ? 0 : 1u << s->node[i].id;
		sim_act(s, a);
	}
	if (sim_chance(s, 2))
		in.count = s->blocks + (sim_rand(s, 2ull * s->geo.region_blocks) << s->g.order);
	sim_operator(s, n, &in, false);
}

bool grow_sees(struct sim *s, uint64_t room, uint32_t nodes)
{
	if (room < s->room || room > most(s))
		return false;
	s->room = room;
	for (struct node *o = s->node; o < s->node + s->n_nodes; o++)
		o->room = nodes >> o->id & 1 ? s->room : o->room;
	sim_trace(s, "members have room for %llu blocks", (unsigned long long)s->room);
	return true;
}

void grow_calm(struct sim *s)
{
	for (struct node *o = s->node; o < s->node + s->n_nodes; o++)
		o->room = s->room;
}

/* ROOM has ended. */
void grow_room(const struct sim *s, const struct node *n, const struct io *io, struct ddr_input *in)
{
	in->member = io->members ? (uint32_t)__builtin_ctz(io->members) : 0;
	in->value = s->sb0.data_offset + DDR_TAIL_BYTES + n->room * s->sb0.chunk;
}

/* The number of blocks that PREPARE zeroes. */
static uint64_t prepared_end(const struct sim *s, const struct io *io)
{
	uint64_t region = (io->start + s->geo.region_blocks - 1) / s->geo.region_blocks * s->geo.region_blocks;

	return region < io->start + io->count ? region : io->start + io->count;
}

void grow_prepare(struct sim *s, struct io *io, uint32_t m)
{
	for (uint64_t b = io->start; b < prepared_end(s, io); b++) {
		for (const struct node *n = s->node; n < s->node + s->n_nodes; n++)
			if (s->truth[b].ever || (n->k.there && n->k.enabled && !n->k.killed && n->k.blocks > b))
				sim_violation(s, "block %llu is prepared for an array that has it already", (unsigned long long)b);
		s->disk[m].media[b] = 0;
		s->disk[m].cached[b] = false;
	}
}

/* The machine dies while members are being prepared. */
void grow_prepare_power(struct sim *s, const struct node *n, const struct io *io, uint32_t m)
{
	for (uint64_t b = io->start; b < prepared_end(s, io); b++) {
		if (s->cluster)
			late_chunk(s, n->id, io->type, m, b, 0);
		else if (sim_chance(s, 2))
			s->disk[m].media[b] = 0;
	}
}

/* Loads a longer table. All participants must know the new size, and so must all members in use. */
void grow_resize(struct sim *s, struct node *n)
{
	uint32_t counting = check_counting(s);
	struct ddr_sm_status st;

	for (uint32_t m = 0; m < s->sb0.members; m++)
		if ((counting >> m & 1) && s->disk[m].super.array_blocks < n->resize)
			sim_violation(s, "the kernel of node %u gets %llu blocks, and the superblock of member %u does not know them",
				      n->id, (unsigned long long)n->resize, m);
	for (struct node *o = s->node; o < s->node + s->n_nodes; o++) {
		if (!o->sm || o->left)
			continue;
		ddr_sm_get_status(o->sm, &st);
		if (!(s->cluster ? st.joined && st.synced && !st.gave_up : true))
			continue;
		if (ddr_sm_super(o->sm)->array_blocks < n->resize)
			sim_violation(s, "the kernel of node %u gets %llu blocks, and node %u does not know them", n->id,
				      (unsigned long long)n->resize, o->id);
		/* a real daemon that loads the array after it has grown is content with room for the data itself, without what stays zero behind it */
		if (o->room + (sim_real ? DDR_TAIL_BYTES / s->sb0.chunk : 0) < n->resize)
			sim_violation(s, "the kernel of node %u gets %llu blocks, and devices of node %u have no room for them", n->id,
				      (unsigned long long)n->resize, o->id);
	}
	n->k.blocks = n->resize;
	n->k.unjudged = true;
	n->resize = 0;
	s->stats[STAT_GROWN]++;
	sim_trace(s, "node %u: table of %llu blocks", n->id, (unsigned long long)n->k.blocks);
}
