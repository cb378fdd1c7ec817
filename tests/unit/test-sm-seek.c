// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Members that fail and come back: which nodes see them, disks that return by their dirty regions or need a full rebuild, new members
 * and removed ones.
 */
#include "sm-cluster.h"

#define OUT		2u	/* the member that fails, and its role */
#define REGION		256u	/* blocks */

static int up_with(void **state, uint16_t spares)
{
	struct cx *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	c->spares = spares;
	cx_up(c, 2, true);
	*state = c;
	return 0;
}

static int setup(void **state)
{
	return up_with(state, 0);
}

static int setup_spare(void **state)
{
	return up_with(state, 1);
}

static void wants(struct cx *c, uint32_t i, uint64_t region)
{
	cx_record(c, i, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 100 + region, .start = region, .count = 1 });
	cx_settle(c);
}

/* The granted regions are closed and cleared. */
static void closes(struct cx *c, uint32_t i, uint64_t region)
{
	cx_record(c, i, (struct ddr_rec){ .type = DDR_K_CLOSED, .start = region, .count = 1 });
	cx_settle(c);
}

static void member_fails(struct cx *c, uint32_t i, uint32_t member)
{
	cx_record(c, i, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = 5, .member = member, .status = DDR_EC_IO, .arg[0] = DDR_OP_WRITE });
	cx_settle(c);
}

static void sees(struct cx *c, uint32_t i, uint32_t member, uint64_t how)
{
	struct ddr_input in = { .type = DDR_IN_PRESENT, .member = member, .value = how };

	cx_step(c, &c->node[i], &in);
	cx_settle(c);
}

static void op(struct cx *c, uint32_t i, enum ddr_in_type type, uint32_t member, uint8_t uuid)
{
	struct ddr_input in = { .type = type, .member = member };

	memset(in.uuid, uuid, sizeof(in.uuid));
	cx_step(c, &c->node[i], &in);
	cx_settle(c);
}

static bool covered(const struct cx *c, uint64_t block)
{
	for (uint32_t n = 0; n < 2; n++)
		for (uint32_t i = 0; i < c->node[n].n; i++) {
			const struct ddr_output *o = &c->node[n].log[i];

			if (o->type == DDR_OUT_JOB_RANGE && o->job == DDR_KA_REBUILD && block >= o->start && block < o->start + o->count)
				return true;
		}
	return false;
}

static const struct ddr_output *event(const struct cx *c, uint32_t i, enum ddr_event event)
{
	int at = cx_event(&c->node[i], event);

	return at < 0 ? NULL : &c->node[i].log[at];
}

/* Regions 1 and 2 were written with all members present; then OUT fails, and region 2 is written again. */
static void goes_and_is_missed(struct cx *c)
{
	wants(c, 0, 1);
	wants(c, 1, 2);
	closes(c, 0, 1);
	closes(c, 1, 2);
	cx_tick(c, 100);
	member_fails(c, 1, OUT);
	assert_int_equal(c->sb.member[OUT].state, DDR_MEMBER_FAULTY);
	assert_memory_equal(c->sb.member[OUT].last_gen, c->sb.gen_prev, DDR_LAST_GEN_LEN);
	wants(c, 1, 2);
	closes(c, 1, 2);
	cx_tick(c, 100);
	cx_forget(c);
}

static bool flagged(const struct cx *c, uint32_t region)
{
	return ddr_map_get(c->disk[CX_SLOTS].payload, region) & DDR_REGION_F_WRITTEN;
}

static void flush_fails(struct cx *c, uint32_t i)
{
	cx_record(c, i, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = 5, .member = OUT, .status = DDR_EC_IO, .arg[0] = DDR_OP_FLUSH });
}

/*
 * A flush of node 1 fails on OUT, which may have lost what it had in its cache. Node 2 knows this, but the superblocks do not record
 * it yet, when node 2 closes and flushes a region that it had written: the region is not cleared as if OUT had the data. So when OUT
 * comes back, the region is among those that it lacks.
 */
static void regions_cleared_as_a_member_fails_count_as_missed(void **state)
{
	struct cx *c = *state;

	wants(c, 1, 1);
	c->answers = CX_MSG | CX_KERNEL;
	flush_fails(c, 0);
	cx_settle(c);
	cx_open(&c->node[0], DDR_OUT_SB_WRITE);
	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_CLOSED, .start = 1, .count = 1 });
	for (uint32_t round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < 2; i++)
			for (uint32_t o = 0; o < c->node[i].n; o++)
				if (c->node[i].open[o] && cx_is_io(&c->node[i].log[o]) && c->node[i].log[o].type != DDR_OUT_SB_WRITE)
					cx_done(c, &c->node[i], o);
		cx_settle(c);
	}
	assert_true(ddr_sm_region(c->node[1].sm, 1) & DDR_SM_REGION_DIRTY);
	c->answers = CX_ALL;
	cx_settle(c);
	cx_tick(c, 100);
	assert_int_equal(c->sb.member[OUT].state, DDR_MEMBER_FAULTY);
	assert_false(ddr_sm_region(c->node[1].sm, 1) & DDR_SM_REGION_DIRTY);
	assert_true(flagged(c, 1));
	op(c, 0, DDR_IN_OP_SEEK, OUT, 0);
	sees(c, 0, OUT, DDR_PRESENT_LAST | DDR_PRESENT_TABLE);
	sees(c, 1, OUT, DDR_PRESENT_LAST | DDR_PRESENT_TABLE);
	cx_tick(c, 100);
	assert_true(covered(c, REGION));
	assert_int_equal(c->sb.member[OUT].state, DDR_MEMBER_IN_SYNC);
}

/* The same where the clearing node is the one whose flush failed, and its message about that has not been delivered yet. */
static void regions_cleared_before_the_failure_is_delivered_count_as_missed(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];

	wants(c, 0, 1);
	c->answers = CX_IO | CX_KERNEL;
	flush_fails(c, 0);
	cx_record(c, 0, (struct ddr_rec){ .type = DDR_K_CLOSED, .start = 1, .count = 1 });
	cx_settle(c);
	assert_int_equal(cx_find(n, DDR_OUT_FLUSH, 0), -1);
	c->answers = CX_ALL;
	cx_settle(c);
	cx_tick(c, 100);
	assert_int_equal(c->sb.member[OUT].state, DDR_MEMBER_FAULTY);
	assert_false(ddr_sm_region(n->sm, 1) & DDR_SM_REGION_DIRTY);
	assert_true(flagged(c, 1));
}

/* It comes back unchanged: only what was written since is copied, and then the map records nothing of it any more. */
static void a_returning_member_gets_the_regions_it_missed(void **state)
{
	struct cx *c = *state;

	goes_and_is_missed(c);
	assert_true(flagged(c, 2));
	op(c, 1, DDR_IN_OP_SEEK, OUT, 0);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(c->node[i].log[cx_find(&c->node[i], DDR_OUT_SEEK, 0)].member, OUT);
	sees(c, 0, OUT, DDR_PRESENT_LAST | DDR_PRESENT_TABLE);
	assert_int_equal(c->sb.member[OUT].state, DDR_MEMBER_FAULTY);	/* node 2 has not found it yet */
	assert_int_equal(cx_status(&c->node[0]).unseen_by[OUT], 2);
	assert_int_equal(cx_status(&c->node[0]).sought, 1u << OUT);
	sees(c, 1, OUT, DDR_PRESENT_LAST);
	cx_tick(c, 100);
	assert_int_equal(event(c, 1, DDR_EV_REBUILD_START)->b, 1);
	assert_true(cx_find(&c->node[1], DDR_OUT_TABLE, 0) >= 0);	/* its table names the device that was */
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_TABLE, 0), -1);
	assert_true(covered(c, 2 * REGION) && covered(c, 3 * REGION - 1));
	assert_false(covered(c, REGION) || covered(c, 3 * REGION));
	assert_int_equal(c->sb.member[OUT].state, DDR_MEMBER_IN_SYNC);
	assert_int_equal(c->sb.member[OUT].flags, 0);
	assert_int_equal(event(c, 0, DDR_EV_REBUILD_DONE)->b, REGION);
	assert_int_equal(event(c, 1, DDR_EV_REBUILD_DONE)->b, 0);
	assert_int_equal(c->sb.log_base, c->sb.generation);
	assert_false(flagged(c, 2));
	assert_int_equal(cx_status(&c->node[0]).sought, 0);
}

/*
 * Finding U5: nothing was written while it was failed, so there is nothing to copy. Before the superblocks record it as in sync, it
 * gets a superblock that does not (the level): if the power fails within that change, its disk must not be behind by more than one
 * generation.
 */
static void a_returning_member_has_a_superblock_before_it_is_in_sync(void **state)
{
	struct cx *c = *state;
	unsigned int written = 0;

	member_fails(c, 1, OUT);
	assert_int_equal(c->sb.member[OUT].state, DDR_MEMBER_FAULTY);
	cx_forget(c);
	op(c, 0, DDR_IN_OP_SEEK, OUT, 0);
	sees(c, 0, OUT, DDR_PRESENT_LAST | DDR_PRESENT_TABLE);
	sees(c, 1, OUT, DDR_PRESENT_LAST | DDR_PRESENT_TABLE);
	cx_tick(c, 100);
	assert_int_equal(c->sb.member[OUT].state, DDR_MEMBER_IN_SYNC);
	for (uint32_t i = 0; i < c->node[0].n; i++)
		written += c->node[0].log[i].type == DDR_OUT_SB_WRITE && (c->node[0].log[i].members >> OUT & 1);
	assert_int_equal(written, 2);
}

/*
 * Finding S27: a device held another disk, so writes went there, and it is unknown since when. The member's own disk gets a full
 * rebuild when it is back, though its superblock is the last that it can have had.
 */
static void regions_written_to_a_replacement_count_as_missed(void **state)
{
	static const uint8_t unknown[DDR_LAST_GEN_LEN];
	struct cx *c = *state;
	struct ddr_input in = { .type = DDR_IN_EXCHANGED, .member = OUT };

	wants(c, 0, 1);
	closes(c, 0, 1);
	cx_tick(c, 100);
	cx_step(c, &c->node[1], &in);
	cx_settle(c);
	assert_int_equal(c->sb.member[OUT].state, DDR_MEMBER_FAULTY);
	assert_memory_equal(c->sb.member[OUT].last_gen, unknown, sizeof(unknown));
	cx_forget(c);
	op(c, 0, DDR_IN_OP_SEEK, OUT, 0);
	sees(c, 0, OUT, DDR_PRESENT_LAST | DDR_PRESENT_TABLE);
	sees(c, 1, OUT, DDR_PRESENT_LAST | DDR_PRESENT_TABLE);
	cx_tick(c, 100);
	assert_int_equal(event(c, 1, DDR_EV_REBUILD_START)->b, 0);
	assert_true(covered(c, REGION));
	assert_int_equal(c->sb.member[OUT].state, DDR_MEMBER_IN_SYNC);
}

/* Its superblock is not the last that it can have had: it was used elsewhere meanwhile, or is a copy. */
static void a_member_of_an_older_generation_is_rebuilt_whole(void **state)
{
	struct cx *c = *state;

	goes_and_is_missed(c);
	op(c, 0, DDR_IN_OP_SEEK, OUT, 0);
	sees(c, 0, OUT, 0);
	sees(c, 1, OUT, DDR_PRESENT_LAST);
	cx_tick(c, 100);
	assert_int_equal(event(c, 0, DDR_EV_REBUILD_START)->b, 0);
	assert_true(covered(c, REGION) && covered(c, 2 * REGION));
	assert_int_equal(c->sb.member[OUT].state, DDR_MEMBER_IN_SYNC);
}

/* Node 2 sees it, too, so that it is called back; it fails before anything was copied. */
static void fails_again(struct cx *c, uint64_t how)
{
	c->answers = CX_MSG | CX_KERNEL;
	sees(c, 1, OUT, how);
	for (uint32_t o = 0; o < c->node[0].n; o++)
		if (c->node[0].open[o] && c->node[0].log[o].type == DDR_OUT_SB_WRITE)
			cx_done(c, &c->node[0], o);
	cx_settle(c);
	assert_int_equal(cx_status(&c->node[0]).member_state[OUT], DDR_MEMBER_REBUILDING);
	c->answers = CX_ALL;
	member_fails(c, 0, OUT);
}

/* It failed again before its rebuild was complete: it was never in sync, whatever its superblock says. */
static void a_member_that_was_never_in_sync_is_rebuilt_whole(void **state)
{
	struct cx *c = *state;

	goes_and_is_missed(c);
	op(c, 0, DDR_IN_OP_SEEK, OUT, 0);
	sees(c, 0, OUT, 0);
	fails_again(c, 0);
	assert_int_equal(c->sb.member[OUT].state, DDR_MEMBER_FAULTY);
	cx_forget(c);
	op(c, 0, DDR_IN_OP_SEEK, OUT, 0);
	sees(c, 0, OUT, DDR_PRESENT_LAST);
	sees(c, 1, OUT, DDR_PRESENT_LAST);
	cx_tick(c, 100);
	assert_int_equal(event(c, 0, DDR_EV_REBUILD_START)->b, 0);
	assert_true(covered(c, REGION));
}

/* ... but a member that fails while its dirty regions are copied lacks only the same regions as before, and those written meanwhile. */
static void a_partial_rebuild_continues_as_a_partial_one(void **state)
{
	struct cx *c = *state;

	goes_and_is_missed(c);
	op(c, 0, DDR_IN_OP_SEEK, OUT, 0);
	sees(c, 0, OUT, DDR_PRESENT_LAST);
	fails_again(c, DDR_PRESENT_LAST);
	assert_memory_equal(c->sb.member[OUT].last_gen, c->sb.gen_prev, DDR_LAST_GEN_LEN);
	cx_forget(c);
	op(c, 0, DDR_IN_OP_SEEK, OUT, 0);
	sees(c, 0, OUT, DDR_PRESENT_LAST);
	sees(c, 1, OUT, DDR_PRESENT_LAST);
	cx_tick(c, 100);
	assert_int_equal(event(c, 0, DDR_EV_REBUILD_START)->b, 1);
	assert_true(covered(c, 2 * REGION));
	assert_false(covered(c, REGION));
	assert_int_equal(c->sb.member[OUT].state, DDR_MEMBER_IN_SYNC);
}

/* SEEN was sent before the member failed, and is delivered after it: the device that was open then is not the one that is back. */
static void a_sighting_before_the_failure_does_not_count(void **state)
{
	struct cx *c = *state;
	struct ddr_input late = { .type = DDR_IN_MSG, .node = 2 };
	uint8_t bytes[DDR_SM_MSG_MAX];
	struct ddr_msg m;

	for (uint32_t i = 0; i < c->node[1].n; i++)	/* its last message so far: of this epoch */
		if (c->node[1].log[i].type == DDR_OUT_MCAST)
			assert_null(ddr_msg_decode(c->node[1].log[i].msg, c->node[1].log[i].msg_len, &m));
	m.type = DDR_M_SEEN;
	m.seen.members = 0x3f;
	m.seen.generation = c->sb.generation;
	goes_and_is_missed(c);
	op(c, 0, DDR_IN_OP_SEEK, OUT, 0);
	sees(c, 0, OUT, DDR_PRESENT_LAST);
	late.msg = bytes;
	late.msg_len = (uint32_t)ddr_msg_encode(&m, bytes, sizeof(bytes));
	for (uint32_t i = 0; i < 2; i++)
		cx_step(c, &c->node[i], &late);
	assert_null(event(c, 0, DDR_EV_REFUSED));
	cx_settle(c);
	assert_int_equal(c->sb.member[OUT].state, DDR_MEMBER_FAULTY);
	assert_int_equal(cx_status(&c->node[0]).unseen_by[OUT], 2);
	sees(c, 1, OUT, DDR_PRESENT_LAST);
	assert_int_not_equal(c->sb.member[OUT].state, DDR_MEMBER_FAULTY);
}

/* A new disk becomes a spare, once all see it it may be taken; it is removed, and its place is used again. */
static void a_disk_is_added_and_removed(void **state)
{
	struct cx *c = *state;
	uint8_t uuid[16];

	op(c, 1, DDR_IN_OP_ADD, 0, 0xa1);
	assert_int_equal(c->sb.members, 7);
	assert_int_equal(c->sb.member[6].state, DDR_MEMBER_SPARE);
	assert_int_equal(c->sb.member[6].role, DDR_ROLE_NONE);
	memset(uuid, 0xa1, sizeof(uuid));
	assert_memory_equal(c->sb.member[6].uuid, uuid, sizeof(uuid));
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(event(c, i, DDR_EV_MEMBER_ADDED)->member, 6);
		assert_int_equal(c->node[i].log[cx_find(&c->node[i], DDR_OUT_SEEK, 0)].member, 6);
	}
	cx_forget(c);
	op(c, 0, DDR_IN_OP_ADD, 0, 0xa1);	/* the same again */
	assert_non_null(event(c, 0, DDR_EV_REFUSED));
	cx_forget(c);
	op(c, 0, DDR_IN_OP_ADD, 0, 0);		/* a disk that has no name */
	assert_non_null(event(c, 0, DDR_EV_REFUSED));
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_MCAST, 0), -1);
	op(c, 0, DDR_IN_OP_REMOVE, 6, 0xb2);
	assert_int_equal(c->sb.members, 7);
	assert_int_equal(c->sb.member[6].state, DDR_MEMBER_MISSING);
	assert_non_null(event(c, 1, DDR_EV_MEMBER_REMOVED));
	op(c, 1, DDR_IN_OP_ADD, 0, 0xc3);
	assert_int_equal(c->sb.members, 7);
	assert_int_equal(c->sb.member[6].state, DDR_MEMBER_SPARE);
	memset(uuid, 0xc3, sizeof(uuid));
	assert_memory_equal(c->sb.member[6].uuid, uuid, sizeof(uuid));
}

/* Finding S41: "degraded" is reported when the array becomes so, or worse; not with each change of the members meanwhile. */
static void degraded_is_told_once(void **state)
{
	struct cx *c = *state;

	member_fails(c, 0, OUT);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(event(c, i, DDR_EV_DEGRADED)->a, 1);
	cx_forget(c);
	op(c, 0, DDR_IN_OP_REMOVE, OUT, 0xb2);
	assert_non_null(event(c, 1, DDR_EV_MEMBER_REMOVED));
	op(c, 1, DDR_IN_OP_ADD, 0, 0xa1);
	assert_non_null(event(c, 0, DDR_EV_MEMBER_ADDED));
	for (uint32_t i = 0; i < 2; i++)
		assert_null(event(c, i, DDR_EV_DEGRADED));
	member_fails(c, 1, OUT + 1);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(event(c, i, DDR_EV_DEGRADED)->a, 0);
}

static void a_working_member_is_not_removed(void **state)
{
	struct cx *c = *state;

	op(c, 0, DDR_IN_OP_REMOVE, OUT, 0xb2);
	assert_non_null(event(c, 0, DDR_EV_REFUSED));
	assert_int_equal(c->sb.generation, 1);
	member_fails(c, 0, OUT);
	cx_forget(c);
	op(c, 0, DDR_IN_OP_REMOVE, OUT, 0xb2);
	assert_null(event(c, 0, DDR_EV_REFUSED));
	assert_int_equal(c->sb.member[OUT].state, DDR_MEMBER_MISSING);
	assert_int_equal(c->sb.member[OUT].role, OUT);		/* the role waits for a member */
	op(c, 0, DDR_IN_OP_SEEK, OUT, 0);
	sees(c, 0, OUT, DDR_PRESENT_LAST);
	sees(c, 1, OUT, DDR_PRESENT_LAST);
	cx_tick(c, 100);
	assert_int_not_equal(c->sb.member[OUT].flags, DDR_MEMBER_F_PARTIAL);	/* a removed member counts as never in sync */
	assert_int_equal(event(c, 0, DDR_EV_REBUILD_START)->b, 0);
}

/* A spare is not taken while a node does not see it; a member whose role it took is a spare when it is back. */
static void all_must_see_a_spare(void **state)
{
	struct cx *c = *state;
	struct ddr_input hot = { .type = DDR_IN_OP_SET, .key = DDR_SM_HOT_SPARE, .value = 1 };

	cx_kill(c, 1);
	c->node[1].cfg.present &= ~(1u << 6);
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	for (uint32_t i = 0; i < 2; i++)
		cx_step(c, &c->node[i], &hot);
	cx_forget(c);
	member_fails(c, 0, OUT);
	cx_tick(c, 100);
	assert_int_equal(c->sb.member[6].state, DDR_MEMBER_SPARE);
	assert_int_equal(cx_status(&c->node[0]).unseen_by[6], 2);
	sees(c, 1, 6, 0);
	cx_tick(c, 100);
	assert_int_equal(c->sb.member[6].state, DDR_MEMBER_IN_SYNC);
	assert_int_equal(c->sb.member[OUT].role, DDR_ROLE_NONE);
	cx_forget(c);
	op(c, 0, DDR_IN_OP_SEEK, OUT, 0);
	sees(c, 0, OUT, 0);
	sees(c, 1, OUT, 0);
	assert_int_equal(c->sb.member[OUT].state, DDR_MEMBER_SPARE);
	assert_non_null(event(c, 0, DDR_EV_MEMBER_ADDED));
}

/* Its daemon is away for a moment: when it is back, it must not find a member in the array that it cannot reach, and be thrown out for that. */
static void a_lost_node_must_see_a_spare_too(void **state)
{
	struct ddr_input hot = { .type = DDR_IN_OP_SET, .key = DDR_SM_HOT_SPARE, .value = 1 };
	struct cx *c = *state;

	cx_kill(c, 1);
	c->node[1].cfg.present &= ~(1u << 6);
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	for (uint32_t i = 0; i < 2; i++)
		cx_step(c, &c->node[i], &hot);
	member_fails(c, 0, OUT);
	cx_tick(c, 100);
	cx_kill(c, 1);
	cx_view(c, 1, 3, true);
	cx_settle(c);
	cx_tick(c, 1000);
	assert_int_equal(c->sb.member[6].state, DDR_MEMBER_SPARE);
	assert_int_equal(cx_status(&c->node[0]).unseen_by[6], 2);
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	cx_tick(c, 1000);
	assert_false(cx_status(&c->node[1]).gave_up);
	assert_true(cx_status(&c->node[1]).ready);
	sees(c, 1, 6, 0);
	cx_tick(c, 100);
	assert_int_equal(c->sb.member[6].state, DDR_MEMBER_IN_SYNC);
}

/* A clean stop that cannot end, for the array is written, takes no spare; when it is not wanted any more, one is taken. */
static void a_stop_that_is_taken_back_lets_a_spare_be_taken(void **state)
{
	struct cx *c = *state;
	struct ddr_input hot = { .type = DDR_IN_OP_SET, .key = DDR_SM_HOT_SPARE, .value = 1 };

	for (uint32_t i = 0; i < 2; i++)
		cx_step(c, &c->node[i], &hot);
	wants(c, 0, 3);
	op(c, 0, DDR_IN_OP_CLEAN, 0, 0);
	cx_forget(c);
	member_fails(c, 0, OUT);
	cx_tick(c, 100);
	assert_null(event(c, 0, DDR_EV_CLEAN));
	assert_int_equal(c->sb.member[6].state, DDR_MEMBER_SPARE);
	op(c, 0, DDR_IN_OP_STAY, 0, 0);
	cx_tick(c, 200);
	assert_int_equal(c->sb.member[6].role, OUT);
	assert_null(event(c, 0, DDR_EV_CLEAN));
}

static void a_member_in_use_is_not_searched_for(void **state)
{
	struct cx *c = *state;

	op(c, 0, DDR_IN_OP_SEEK, OUT, 0);
	assert_non_null(event(c, 0, DDR_EV_REFUSED));
	cx_forget(c);
	op(c, 0, DDR_IN_OP_SEEK, 15, 0);
	assert_non_null(event(c, 0, DDR_EV_REFUSED));
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_MCAST, 0), -1);
}

/* ---- replacing ------------------------------------------------------------------- */

#define SPARE	6u

static void replace(struct cx *c, uint32_t i, uint32_t member, uint64_t spare)
{
	struct ddr_input in = { .type = DDR_IN_OP_REPLACE, .member = member, .value = spare };

	cx_step(c, &c->node[i], &in);
	cx_settle(c);
}

/* Node 2 starts over, and does not see the spare. */
static void spare_is_not_seen(struct cx *c)
{
	cx_kill(c, 1);
	c->node[1].cfg.present &= ~(1u << SPARE);
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	cx_forget(c);
}

/* The client that requested it does not wait any more: the replacement must not begin hours later, and delays nothing else. */
static void a_replacement_is_forgotten(void **state)
{
	struct cx *c = *state;

	spare_is_not_seen(c);
	replace(c, 0, OUT, SPARE);
	op(c, 0, DDR_IN_OP_ADD, 0, 0xa1);
	assert_non_null(event(c, 0, DDR_EV_REFUSED));		/* one change at a time */
	replace(c, 0, SPARE + 1, DDR_NO_MEMBER);		/* of another spare: nothing is forgotten */
	cx_forget(c);
	op(c, 0, DDR_IN_OP_ADD, 0, 0xa1);
	assert_non_null(event(c, 0, DDR_EV_REFUSED));
	cx_forget(c);
	replace(c, 0, SPARE, DDR_NO_MEMBER);
	assert_null(event(c, 0, DDR_EV_REFUSED));
	sees(c, 1, SPARE, 0);
	cx_tick(c, 100);
	assert_int_equal(c->sb.member[SPARE].state, DDR_MEMBER_SPARE);
	op(c, 0, DDR_IN_OP_ADD, 0, 0xa1);
	assert_null(event(c, 0, DDR_EV_REFUSED));
	assert_int_equal(c->sb.member[SPARE + 1].state, DDR_MEMBER_SPARE);
}

/* Lets up to @n things happen. Returns how many did. */
static uint32_t happens(struct cx *c, uint32_t n)
{
	uint32_t done = 0;

	while (done < n && (cx_answer_one(c, &c->node[0]) || cx_answer_one(c, &c->node[1])))
		done++;
	return done;
}

/*
 * Finding T5: nobody gives the disk its superblock any more, so no spare is left behind, whenever that happens: before the group has the request, while
 * it is in flight, accepted, being written, or acknowledged. The next disk takes the place.
 */
static void an_add_that_nobody_waits_for_leaves_no_spare(void **state)
{
	struct ddr_input add = { .type = DDR_IN_OP_ADD }, end = { .type = DDR_IN_OP_WITHDRAW };
	uint32_t entered = 0, cut = 0, done;

	memset(add.uuid, 0xa1, sizeof(add.uuid));
	memset(end.uuid, 0xa1, sizeof(end.uuid));
	do {
		struct cx *c;

		cx_teardown(state);
		setup(state);
		c = *state;
		cx_step(c, &c->node[1], &add);
		done = happens(c, cut);
		cx_step(c, &c->node[1], &end);
		cx_settle(c);
		cx_tick(c, 100);
		entered += c->sb.members == SPARE + 1;
		if (c->sb.members > SPARE)
			assert_int_equal(c->sb.member[SPARE].state, DDR_MEMBER_MISSING);
		assert_null(event(c, 1, DDR_EV_REFUSED));
		op(c, 0, DDR_IN_OP_ADD, 0, 0xc3);
		assert_int_equal(c->sb.members, SPARE + 1);
		assert_int_equal(c->sb.member[SPARE].state, DDR_MEMBER_SPARE);
	} while (done == cut++);
	assert_true(entered > 3);
}

/* Finding T5: the members are not settled, so the request has not been sent: it is as if it had never been made. And it is known which node holds it up. */
static void an_add_that_waits_is_dropped(void **state)
{
	struct cx *c = *state;

	c->answers = CX_ALL & ~CX_KERNEL;
	member_fails(c, 0, OUT);
	op(c, 1, DDR_IN_OP_ADD, 0, 0xa1);
	assert_int_not_equal(cx_status(&c->node[1]).change_node, 0);
	assert_true(cx_status(&c->node[1]).change_acks);
	op(c, 1, DDR_IN_OP_WITHDRAW, 0, 0xa1);
	op(c, 1, DDR_IN_OP_ADD, 0, 0xc3);
	assert_null(event(c, 1, DDR_EV_REFUSED));
	c->answers = CX_ALL;
	cx_settle(c);
	assert_int_equal(c->sb.members, SPARE + 1);
	assert_int_equal(c->sb.member[SPARE].uuid[0], 0xc3);
	assert_int_equal(cx_status(&c->node[1]).change_node, 0);
}

/* It has begun: if it is not wanted any more, the operator ends it, with fail. */
static void a_replacement_that_began_is_not_cancelled(void **state)
{
	struct cx *c = *state;

	replace(c, 0, OUT, SPARE);
	replace(c, 0, SPARE, DDR_NO_MEMBER);
	cx_tick(c, 100);
	assert_null(event(c, 0, DDR_EV_REFUSED));
	assert_non_null(event(c, 0, DDR_EV_REBUILD_START));
}

/* A replacement that waits becomes impossible: the event identifies the request, so that the client can be told. */
static void a_request_that_became_impossible_is_reported(void **state)
{
	struct cx *c = *state;

	spare_is_not_seen(c);
	replace(c, 0, OUT, SPARE);
	assert_null(event(c, 0, DDR_EV_REFUSED));
	member_fails(c, 1, OUT);
	cx_tick(c, 100);
	assert_non_null(event(c, 0, DDR_EV_REFUSED));
	assert_int_equal(event(c, 0, DDR_EV_REFUSED)->member, SPARE);
	assert_int_equal(event(c, 0, DDR_EV_REFUSED)->b, DDR_MEMBER_OP_REPLACE);
	op(c, 0, DDR_IN_OP_ADD, 0, 0xa1);
	assert_int_equal(c->sb.member[SPARE + 1].state, DDR_MEMBER_SPARE);
}

/* Spares are not taken automatically: the operator gives one the slot of a failed member, and it is rebuilt from the others. */
static void a_member_that_is_out_is_replaced(void **state)
{
	struct ddr_sm_progress p;
	struct cx *c = *state;

	wants(c, 1, 1);
	closes(c, 1, 1);
	member_fails(c, 0, OUT);
	cx_tick(c, 100);
	assert_int_equal(c->sb.member[SPARE].state, DDR_MEMBER_SPARE);
	cx_forget(c);
	c->answers = CX_MSG | CX_KERNEL;
	replace(c, 1, OUT, SPARE);
	for (uint32_t o = 0; o < c->node[0].n; o++)
		if (c->node[0].open[o] && c->node[0].log[o].type == DDR_OUT_SB_WRITE)
			cx_done(c, &c->node[0], o);
	cx_settle(c);
	assert_int_equal(cx_status(&c->node[0]).rebuilding, SPARE);
	assert_int_equal(cx_status(&c->node[0]).replaced, DDR_NO_MEMBER);
	for (uint32_t i = 0; i < 2; i++) {	/* one region of it was ever written */
		ddr_sm_rebuild_progress(c->node[i].sm, &p);
		assert_true(p.at == 0 && p.done == 0 && p.total == REGION && p.bad_count == 0);
	}
	c->answers = CX_ALL;
	for (uint32_t i = 0; i < 2; i++)
		cx_table(c, &c->node[i], (uint32_t)cx_find(&c->node[i], DDR_OUT_TABLE, 0), 0);
	cx_tick(c, 100);
	assert_true(covered(c, REGION));
	assert_int_equal(c->sb.member[SPARE].state, DDR_MEMBER_IN_SYNC);
	assert_int_equal(c->sb.member[SPARE].role, OUT);
	assert_int_equal(c->sb.member[OUT].role, DDR_ROLE_NONE);
	assert_null(event(c, 1, DDR_EV_REFUSED));
	ddr_sm_rebuild_progress(c->node[0].sm, &p);
	assert_int_equal(p.total, 0);
	replace(c, 1, OUT, SPARE);		/* it has no place any more */
	assert_non_null(event(c, 1, DDR_EV_REFUSED));
}

/* One member at a time, whatever the request. */
static void no_second_member_is_replaced_during_a_rebuild(void **state)
{
	struct cx *c = *state;

	member_fails(c, 0, OUT);
	member_fails(c, 0, OUT + 1);
	op(c, 0, DDR_IN_OP_ADD, 0, 0xa1);
	sees(c, 0, SPARE + 1, 0);
	sees(c, 1, SPARE + 1, 0);
	assert_int_equal(c->sb.member[SPARE + 1].state, DDR_MEMBER_SPARE);
	c->answers = CX_MSG | CX_KERNEL;
	cx_forget(c);
	replace(c, 0, OUT, SPARE);
	replace(c, 1, OUT + 1, SPARE + 1);	/* one of the two comes first, and the other is refused */
	for (uint32_t round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < 2; i++)
			for (uint32_t o = 0; o < c->node[i].n; o++)
				if (c->node[i].open[o] && c->node[i].log[o].type == DDR_OUT_SB_WRITE)
					cx_done(c, &c->node[i], o);
		cx_tick(c, 10);
		cx_settle(c);
	}
	assert_int_equal((c->sb.member[SPARE].state == DDR_MEMBER_REBUILDING) + (c->sb.member[SPARE + 1].state == DDR_MEMBER_REBUILDING), 1);
	assert_non_null(event(c, 1, DDR_EV_REFUSED));
}

/*
 * With data missing no parity can be trusted after a failed write: a resync copies what is readable on the old disk, and has no other
 * source.
 */
static void a_copy_without_parity_has_one_source(void **state)
{
	struct cx *c = *state;
	unsigned int n = 0;

	wants(c, 1, 1);
	member_fails(c, 0, OUT);
	c->answers = CX_MSG | CX_KERNEL;	/* the copy does not complete */
	replace(c, 0, OUT + 1, SPARE);
	for (uint32_t o = 0; o < c->node[0].n; o++)
		if (c->node[0].open[o] && c->node[0].log[o].type == DDR_OUT_SB_WRITE)
			cx_done(c, &c->node[0], o);
	cx_settle(c);
	for (uint32_t i = 0; i < 2; i++)
		cx_table(c, &c->node[i], (uint32_t)cx_find(&c->node[i], DDR_OUT_TABLE, 0), 0);
	assert_int_equal(cx_status(&c->node[1]).replaced, OUT + 1);
	c->answers = CX_ALL;
	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_CLOSED, .start = 1, .count = 1, .status = -5 });
	cx_settle(c);
	cx_tick(c, 100);
	for (uint32_t o = 0; o < c->node[1].n; o++) {
		const struct ddr_output *out = &c->node[1].log[o];

		if (out->type != DDR_OUT_JOB_RANGE || out->job != DDR_KA_REBUILD)
			continue;
		assert_int_equal(out->member, SPARE);
		assert_int_equal(out->from, OUT + 1);
		assert_int_equal(out->members, 1u << (OUT + 1));
		n++;
	}
	assert_true(n > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, cx_teardown)
		TEST(regions_cleared_as_a_member_fails_count_as_missed), TEST(regions_cleared_before_the_failure_is_delivered_count_as_missed),
		TEST(a_returning_member_gets_the_regions_it_missed), TEST(a_returning_member_has_a_superblock_before_it_is_in_sync), TEST(regions_written_to_a_replacement_count_as_missed), TEST(a_member_of_an_older_generation_is_rebuilt_whole), TEST(a_member_that_was_never_in_sync_is_rebuilt_whole),
		TEST(a_partial_rebuild_continues_as_a_partial_one), TEST(a_sighting_before_the_failure_does_not_count),
		TEST(a_disk_is_added_and_removed), TEST(an_add_that_nobody_waits_for_leaves_no_spare), TEST(an_add_that_waits_is_dropped), TEST(degraded_is_told_once), TEST(a_working_member_is_not_removed), TEST(a_member_in_use_is_not_searched_for),
		cmocka_unit_test_setup_teardown(all_must_see_a_spare, setup_spare, cx_teardown),
		cmocka_unit_test_setup_teardown(a_lost_node_must_see_a_spare_too, setup_spare, cx_teardown),
		cmocka_unit_test_setup_teardown(a_stop_that_is_taken_back_lets_a_spare_be_taken, setup_spare, cx_teardown),
		cmocka_unit_test_setup_teardown(a_replacement_is_forgotten, setup_spare, cx_teardown),
		cmocka_unit_test_setup_teardown(a_replacement_that_began_is_not_cancelled, setup_spare, cx_teardown),
		cmocka_unit_test_setup_teardown(a_request_that_became_impossible_is_reported, setup_spare, cx_teardown),
		cmocka_unit_test_setup_teardown(a_member_that_is_out_is_replaced, setup_spare, cx_teardown),
		cmocka_unit_test_setup_teardown(no_second_member_is_replaced_during_a_rebuild, setup_spare, cx_teardown),
		cmocka_unit_test_setup_teardown(a_copy_without_parity_has_one_source, setup_spare, cx_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
