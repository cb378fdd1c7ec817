// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests of machines that died. They are queued in networks and targets, and land at any later moment, or never. Only a successful
 * fencing (which aborts them, or waits for them) or the machine's own next start ends that (rule 6).
 */
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static struct late *fresh(struct sim *s)
{
	if (s->n_late == s->room_late) {
		s->room_late = s->room_late ? 2 * s->room_late : 256;
		s->late = realloc(s->late, s->room_late * sizeof(*s->late));
		if (!s->late)
			abort();
	}
	memset(&s->late[s->n_late], 0, sizeof(*s->late));
	return &s->late[s->n_late++];
}

void late_chunk(struct sim *s, uint32_t node, enum ddr_out_type type, uint32_t member, uint64_t block, uint64_t token)
{
	*fresh(s) = (struct late){ .node = node, .member = member, .type = type, .block = block, .token = token };
}

void late_meta(struct sim *s, uint32_t node, const struct io *io, uint32_t member, uint8_t *place, const uint8_t *bytes)
{
	struct late *l = fresh(s);

	l->node = node;
	l->member = member;
	l->type = io->type;
	l->slot = io->slot;
	l->place = place;
	l->bytes = malloc(DDR_META_BLOCK);
	if (!l->bytes)
		abort();
	memcpy(l->bytes, bytes, DDR_META_BLOCK);
}

static void end(struct sim *s, uint32_t i, bool lands)
{
	struct late l = s->late[i];
	struct disk *d = &s->disk[l.member];

	s->late[i] = s->late[--s->n_late];
	if (lands && l.bytes) {
		disk_tear(s, l.place, l.bytes);
		disk_landed(s, d, l.place);
		if (l.type == DDR_OUT_LOG_WRITE || l.type == DDR_OUT_SLOT_WRITE)
			s->clear[l.slot % SIM_MAX_NODES] = false;
	} else if (lands) {
		if (l.type == DDR_OUT_JOB_RANGE)
			check_job_range(s, l.block, 1);
		disk_write(d, l.block, l.token);
		check_torn(s, l.block);
	}
	s->stats[STAT_LATE] += lands;
	free(l.bytes);
}

bool late_ends(struct sim *s, uint32_t i, bool lands)
{
	if (!s->n_late)
		return false;
	end(s, i % s->n_late, lands);
	return true;
}

/*
 * Does what a machine has sent wait until somebody has made sure that it is off? Always, where another machine has its id; and mostly, where one may be about to
 * get it.
 */
static bool is_kept(struct sim *s, const struct node *n)
{
	return n->replaced || (cluster_replaces(s) && !n->up && !sim_chance(s, 16));
}

bool late_event(struct sim *s)
{
	struct act a = act_of(ACT_LATE, NULL);

	if (!s->n_late)
		return false;
	a.arg[0] = sim_rand(s, s->n_late);
	a.arg[1] = sim_chance(s, 2);
	if (is_kept(s, &s->node[s->late[a.arg[0]].node - 1]))
		return false;
	return sim_act(s, a);
}

void late_settle(struct sim *s, uint32_t node)
{
	for (uint32_t i = s->n_late; i-- > 0;)
		if (!node || s->late[i].node == node)
			end(s, i, sim_chance(s, 2));
}

bool late_writes(const struct sim *s, uint64_t start, uint64_t count)
{
	for (uint32_t i = 0; i < s->n_late; i++)
		if (!s->late[i].bytes && s->late[i].type == DDR_OUT_KERNEL && s->late[i].block >= start && s->late[i].block < start + count)
			return true;
	return false;
}

bool late_of(const struct sim *s, uint32_t node)
{
	for (uint32_t i = 0; i < s->n_late; i++)
		if (s->late[i].node == node)
			return true;
	return false;
}

void late_free(struct sim *s)
{
	for (uint32_t i = 0; i < s->n_late; i++)
		free(s->late[i].bytes);
	free(s->late);
	s->late = NULL;
	s->n_late = s->room_late = 0;
}
