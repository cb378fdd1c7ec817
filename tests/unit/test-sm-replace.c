// SPDX-License-Identifier: GPL-2.0-or-later
/* A working member is replaced by a copy of it, on several nodes; and what fails or dies meanwhile. */
#include <errno.h>

#include "lib/disk/assemble.h"
#include "sm-rebuild.h"

static void replace(struct cx *c, uint32_t i, uint32_t member, uint32_t spare)
{
	struct ddr_input in = { .type = DDR_IN_OP_REPLACE, .member = member, .value = spare };

	cx_step(c, &c->node[i], &in);
}

/* The last state that the kernel was told of a place; 0xff: none. */
static uint64_t told(const struct cx_node *n, uint32_t place)
{
	uint64_t state = 0xff;

	for (uint32_t o = 0; o < n->n; o++)
		if (n->log[o].type == DDR_OUT_KERNEL && n->log[o].rec.type == DDR_U_MEMBER && n->log[o].rec.member == place)
			state = n->log[o].rec.arg[0];
	return state;
}

/* Both disks are written, the old one is read and copied, and at the end the new one has the place: no member is missing at any time. */
static void a_member_is_replaced(void **state)
{
	struct cx *c = *state;
	struct cx_node *writer = &c->node[0];
	int at;

	wants(c, 1, 1);
	replace(c, 1, ROLE, SPARE);
	cx_settle(c);
	cx_tick(c, 100);
	for (uint32_t i = 0; i < 2; i++) {
		struct ddr_sm_status st = cx_status(&c->node[i]);

		at = cx_find(&c->node[i], DDR_OUT_TABLE, 0);
		assert_true(at >= 0);
		assert_int_equal(c->node[i].log[at].member, SPARE);
		assert_int_equal(c->node[i].log[at].index, DDR_UAPI_SHADOW);
		at = cx_event(&c->node[i], DDR_EV_REBUILD_START);
		assert_true(at >= 0);
		assert_int_equal(c->node[i].log[at].b, DDR_MEMBER_F_REPLACING);
		assert_int_equal(c->node[i].log[at].node, ROLE);
		at = cx_event(&c->node[i], DDR_EV_REBUILD_DONE);
		assert_true(at >= 0);
		assert_int_equal(c->node[i].log[at].node, ROLE);
		assert_true(cx_event(&c->node[i], DDR_EV_DEGRADED) < 0 && cx_event(&c->node[i], DDR_EV_MEMBER_FAILED) < 0);
		assert_int_equal(st.member_state[SPARE], DDR_MEMBER_IN_SYNC);
		assert_int_equal(st.member_state[ROLE], DDR_MEMBER_MISSING);
	}
	at = cx_find(writer, DDR_OUT_JOB_RANGE, 0);
	assert_true(at >= 0);
	assert_int_equal(writer->log[at].member, SPARE);
	assert_int_equal(writer->log[at].from, ROLE);
	assert_true(writer->log[at].members >> ROLE & 1);
	assert_true(covered(writer, 256) && covered(writer, 511));
	assert_false(covered(writer, 0) || covered(writer, 512));
	assert_int_equal(cx_find(&c->node[1], DDR_OUT_JOB_RANGE, 0), -1);
	assert_int_equal(c->sb.member[SPARE].role, ROLE);
	assert_int_equal(c->sb.member[SPARE].flags, 0);
	assert_int_equal(c->sb.member[ROLE].role, DDR_ROLE_NONE);
	assert_int_equal(c->sb.generation, 3);		/* begun, completed */
	replace(c, 0, ROLE, SPARE);
	assert_true(cx_event(writer, DDR_EV_REFUSED) >= 0);
}

/*
 * While one node still reads the old disk, the other one writes both: it tells its kernel to read the shadow, and that the place is
 * about to change.
 */
static void the_old_member_is_written_until_all_nodes_know(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];
	bool both = false;

	wants(c, 1, 1);
	replace(c, 1, ROLE, SPARE);
	for (uint32_t round = 0; round < 400 && told(n, ROLE) != DDR_KM_LEAVING; round++) {
		cx_settle(c);
		cx_tick(c, 10);
		for (uint32_t o = 0; o < n->n; o++) {
			const struct ddr_rec *r = &n->log[o].rec;
			bool member = n->log[o].type == DDR_OUT_KERNEL && r->type == DDR_U_MEMBER;

			both |= member && r->member == DDR_UAPI_SHADOW && r->arg[0] == DDR_KM_IN_SYNC;
			assert_true(both || !member || r->member != ROLE || r->arg[0] == DDR_KM_IN_SYNC);
			if (member && r->member == ROLE && r->arg[0] == DDR_KM_LEAVING)
				return;
		}
	}
	fail_msg("the kernel was never told that the old one goes");
}

/* Half of the copy was done: the rest is rebuilt from the others, and the old disk is not a member any more. */
static void the_old_member_fails_during_the_copy(void **state)
{
	struct cx *c = *state;

	for (uint64_t r = 0; r < 16; r++)
		wants(c, 1, r);
	replace(c, 0, ROLE, SPARE);
	for (uint32_t round = 0; round < 200 && cx_find(&c->node[0], DDR_OUT_JOB_RANGE, 0) < 0; round++)
		pass_without(c, 1, 2, DDR_OUT_JOB_RANGE);
	assert_true(cx_find(&c->node[0], DDR_OUT_JOB_RANGE, 0) >= 0);
	member_fails(c, 1, ROLE, 5);
	cx_settle(c);
	cx_tick(c, 100);
	for (uint32_t i = 0; i < 2; i++) {
		struct ddr_sm_status st = cx_status(&c->node[i]);

		assert_true(cx_event(&c->node[i], DDR_EV_MEMBER_FAILED) >= 0 && cx_event(&c->node[i], DDR_EV_REBUILD_DONE) >= 0);
		assert_int_equal(st.member_state[SPARE], DDR_MEMBER_IN_SYNC);
		assert_int_equal(st.member_state[ROLE], DDR_MEMBER_FAULTY);
		assert_false(st.degraded);
	}
	assert_int_equal(c->sb.member[SPARE].role, ROLE);
	assert_int_equal(c->sb.member[ROLE].role, DDR_ROLE_NONE);
}

/*
 * The old disk fails as the replacement begins, so one change of the superblocks records both; and node 2 never gets a table with the
 * new disk at its place. Its kernel still has the old disk there. An error on that disk is not the new one's, and the old one is
 * reported as failed before all others stop using it.
 */
static void both_members_fail_as_the_copy_begins(void **state)
{
	struct ddr_input in = { .type = DDR_IN_SB_DONE, .failed_members = 1u << ROLE };
	struct cx *c = *state;
	struct cx_node *n = &c->node[1];
	uint32_t at;

	wants(c, 1, 1);
	cx_forget(c);
	c->answers = CX_MSG;
	replace(c, 0, ROLE, SPARE);
	cx_settle(c);
	at = cx_open(&c->node[0], DDR_OUT_SB_WRITE);
	in.io = c->node[0].log[at].io;
	c->node[0].open[at] = false;
	cx_step(c, &c->node[0], &in);
	cx_settle(c);
	pass_without(c, 4, 2, DDR_OUT_TABLE);
	assert_int_equal(c->sb.member[ROLE].state, DDR_MEMBER_FAULTY);
	assert_int_equal(c->sb.member[SPARE].role, ROLE);
	assert_int_equal(told(n, ROLE), 0xff);		/* it is in sync still, for this kernel */
	member_fails(c, 1, ROLE, 6);
	pass_without(c, 10, 2, DDR_OUT_TABLE);
	assert_int_equal(cx_status(n).member_state[SPARE], DDR_MEMBER_REBUILDING);
	for (uint32_t round = 0; round < 30; round++) {
		for (uint32_t o = 0, last = n->n; o < last; o++)
			if (n->open[o] && n->log[o].type == DDR_OUT_TABLE)
				cx_table(c, n, o, -ENXIO);
		pass_without(c, 1, 2, DDR_OUT_TABLE);
	}
	assert_int_equal(cx_status(n).member_state[SPARE], DDR_MEMBER_FAULTY);
	assert_int_equal(told(n, ROLE), DDR_KM_OUT);
	for (uint32_t o = 0, left = 0; o < n->n; o++) {
		left |= n->log[o].type == DDR_OUT_KERNEL && n->log[o].rec.type == DDR_U_MEMBER && n->log[o].rec.member == ROLE &&
			n->log[o].rec.arg[0] == DDR_KM_LEAVING;
		assert_true(left || n->log[o].type != DDR_OUT_KERNEL || n->log[o].rec.type != DDR_U_MEMBER || n->log[o].rec.member != ROLE ||
			    n->log[o].rec.arg[0] != DDR_KM_OUT);
	}
}

/* Where a write had failed on node 2 the two may hold different things until that node has resynced it: nothing is copied before. */
static void a_node_that_resyncs_has_not_folded(void **state)
{
	struct cx *c = *state;
	struct cx_node *other = &c->node[1];

	wants(c, 1, 1);
	wants(c, 1, 2);
	cx_forget(c);
	replace(c, 0, ROLE, SPARE);
	pass_without(c, 2, 2, DDR_OUT_TABLE);
	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_CLOSED, .start = 2, .count = 1, .status = -EIO });
	pass_without(c, 50, 2, DDR_OUT_JOB_RANGE);
	cx_open(other, DDR_OUT_JOB_RANGE);
	assert_int_equal(cx_status(&c->node[0]).rebuilding, SPARE);
	assert_false(covered(&c->node[0], 256));
	cx_settle(c);
	cx_tick(c, 100);
	assert_int_equal(other->log[cx_find(other, DDR_OUT_JOB_RANGE, 0)].member, SPARE);	/* it copies what it has resynced */
	assert_true(covered(&c->node[0], 256));
	assert_int_equal(cx_status(&c->node[0]).member_state[SPARE], DDR_MEMBER_IN_SYNC);
}

/* The operator cancels the replacement: no member was ever missing. */
static void an_operator_cancels_a_replacement(void **state)
{
	struct cx *c = *state;
	struct ddr_input in = { .type = DDR_IN_OP_FAIL_MEMBER, .member = SPARE };

	wants(c, 1, 1);
	replace(c, 0, ROLE, SPARE);
	for (uint32_t round = 0; round < 200 && cx_find(&c->node[0], DDR_OUT_JOB_RANGE, 0) < 0; round++)
		pass_without(c, 1, 2, DDR_OUT_JOB_RANGE);
	cx_step(c, &c->node[0], &in);
	cx_settle(c);
	cx_tick(c, 100);
	for (uint32_t i = 0; i < 2; i++) {
		struct ddr_sm_status st = cx_status(&c->node[i]);

		assert_int_equal(st.member_state[SPARE], DDR_MEMBER_FAULTY);
		assert_int_equal(st.member_state[ROLE], DDR_MEMBER_IN_SYNC);
		assert_false(st.degraded);
		assert_int_equal(told(&c->node[i], DDR_UAPI_SHADOW), DDR_KM_OUT);
	}
	assert_int_equal(c->sb.member[SPARE].role, DDR_ROLE_NONE);
	assert_int_equal(c->sb.member[ROLE].role, ROLE);
}

/* ---- the moment in which the new one takes over --------------------------------- */

/*
 * The writer has written the superblocks in which the new disk has taken over: they are on the disks, and fail on those of @fail; or
 * (@dies) the writer dies before any node is told. The old one, which leaves, has not got them yet.
 */
static bool whole_written(struct cx *c, uint32_t fail, bool dies)
{
	struct cx_node *n = &c->node[0];
	struct ddr_super sb;

	for (uint32_t o = 0; o < n->n; o++) {
		struct ddr_input in = { .type = DDR_IN_SB_DONE, .io = n->log[o].io, .failed_members = fail };

		if (!n->open[o] || n->log[o].type != DDR_OUT_SB_WRITE)
			continue;
		ddr_sm_superblock(n->sm, 0, &sb);
		if (sb.member[SPARE].state != DDR_MEMBER_IN_SYNC)
			continue;
		assert_int_equal(n->log[o].members & 1u << ROLE, 0);
		cx_write(c, n, &n->log[o]);
		n->open[o] = false;
		if (dies)
			cx_kill(c, 0);
		else
			cx_step(c, n, &in);
		return true;
	}
	return false;
}

static uint32_t supers_end(struct cx *c)
{
	uint32_t members = 0;

	for (uint32_t o = 0; o < c->node[0].n; o++)
		if (c->node[0].open[o] && c->node[0].log[o].type == DDR_OUT_SB_WRITE) {
			members |= c->node[0].log[o].members;
			cx_done(c, &c->node[0], o);
		}
	return members;
}

/* The old one, which leaves, gets them last; it fails if it is among @fail. */
static void last_written(struct cx *c, uint32_t fail)
{
	struct cx_node *n = &c->node[0];
	uint32_t members = 0;

	for (uint32_t o = 0; o < n->n; o++) {
		struct ddr_input in = { .type = DDR_IN_SB_DONE, .io = n->log[o].io, .failed_members = fail };

		if (!n->open[o] || n->log[o].type != DDR_OUT_SB_WRITE)
			continue;
		members |= n->log[o].members;
		n->open[o] = false;
		if (!fail)
			cx_write(c, n, &n->log[o]);
		cx_step(c, n, &in);
		break;
	}
	assert_true(members >> ROLE & 1);
}

static void up_to_whole(struct cx *c, uint32_t fail, bool dies)
{
	wants(c, 1, 1);
	replace(c, 0, ROLE, SPARE);
	for (uint32_t round = 0; round < 500; round++) {
		pass_without(c, 1, 1, DDR_OUT_SB_WRITE);
		if (whole_written(c, fail & ~(1u << ROLE), dies)) {
			if (!(fail & ~(1u << ROLE)) && !dies)
				last_written(c, fail);
			return;
		}
		supers_end(c);
	}
	fail_msg("the copy does not come to its end");
}

static void settles(struct cx *c)
{
	c->answers = CX_ALL | CX_FENCE;
	for (uint32_t round = 0; round < 4; round++) {
		cx_settle(c);
		cx_tick(c, 400);
	}
}

/* P and Q have failed: no other member can be spared. */
static void nothing_to_spare(struct cx *c)
{
	for (uint32_t i = 0; i < 2; i++)
		cx_step(c, &c->node[i], &(struct ddr_input){ .type = DDR_IN_OP_SET, .key = DDR_SM_HOT_SPARE });
	member_fails(c, 1, 4, 54);
	cx_settle(c);
	member_fails(c, 1, 5, 55);
	settles(c);
	assert_int_equal(c->sb.member[4].state, DDR_MEMBER_FAULTY);
	assert_int_equal(c->sb.member[5].state, DDR_MEMBER_FAULTY);
}

static void old_one_stays(struct cx *c)
{
	for (uint32_t i = 0; i < 2; i++) {
		struct ddr_sm_status st = cx_status(&c->node[i]);

		assert_true(st.ready && !st.failed && !st.gave_up);
		assert_int_equal(st.member_state[ROLE], DDR_MEMBER_IN_SYNC);
		assert_int_equal(st.member_state[SPARE], DDR_MEMBER_FAULTY);
	}
	assert_int_equal(c->sb.member[ROLE].role, ROLE);
	assert_int_equal(c->sb.member[SPARE].role, DDR_ROLE_NONE);
	assert_int_equal(c->sb.member[ROLE].since, c->sb.generation);	/* a disk records that it had failed */
}

/* The new disk fails as it takes over: it was not needed, and the old one is as good as before. */
static void the_new_member_fails_at_the_end(void **state)
{
	up_to_whole(*state, 1u << SPARE, false);
	settles(*state);
	old_one_stays(*state);
	assert_false(cx_status(&((struct cx *)*state)->node[0]).degraded);
}

static void the_new_member_fails_without_redundancy_left(void **state)
{
	nothing_to_spare(*state);
	up_to_whole(*state, 1u << SPARE, false);
	settles(*state);
	old_one_stays(*state);
}

/* The end of the replacement is being announced when the new disk fails for node 2, whose message is ordered first: no node obeys the end. */
static void a_failure_overtakes_the_end_of_a_copy(void **state)
{
	struct cx *c = *state;
	struct cx_message later[2][4];
	struct ddr_msg msg;
	uint32_t ends = 0, n[2];

	nothing_to_spare(c);
	up_to_whole(c, 0, false);
	for (uint32_t o = 0; o < c->node[0].n; o++)
		ends += c->node[0].log[o].type == DDR_OUT_MCAST && !ddr_msg_decode(c->node[0].log[o].msg, c->node[0].log[o].msg_len, &msg) &&
			msg.type == DDR_M_MEMBER_DONE && msg.done.set.op == DDR_MEMBER_OP_WHOLE;
	assert_int_equal(ends, 1);
	for (uint32_t i = 0; i < 2; i++) {
		n[i] = c->node[i].n_queue;
		assert_in_range(n[i], 1, 4);
		memcpy(later[i], c->node[i].queue, n[i] * sizeof(later[i][0]));
		c->node[i].n_queue = 0;
	}
	c->answers = 0;
	member_fails(c, 1, DDR_UAPI_SHADOW, 90);
	for (uint32_t i = 0; i < 2; i++) {
		memcpy(&c->node[i].queue[c->node[i].n_queue], later[i], n[i] * sizeof(later[i][0]));
		c->node[i].n_queue += n[i];
	}
	settles(c);
	old_one_stays(c);
	assert_int_equal(cx_event(&c->node[0], DDR_EV_BUG), -1);
	assert_int_equal(cx_event(&c->node[1], DDR_EV_BUG), -1);
}

static void is_replaced(struct cx *c, uint32_t i)
{
	struct ddr_sm_status st = cx_status(&c->node[i]);

	assert_true(st.ready && !st.failed && !st.gave_up);
	assert_int_equal(st.member_state[ROLE], DDR_MEMBER_MISSING);
	assert_int_equal(st.member_state[SPARE], DDR_MEMBER_IN_SYNC);
}

/* The old disk fails its last superblock write: that does not matter, it has been replaced. */
static void the_old_member_fails_at_the_end(void **state)
{
	nothing_to_spare(*state);
	up_to_whole(*state, 1u << ROLE, false);
	settles(*state);
	is_replaced(*state, 0);
	is_replaced(*state, 1);
}

/* The writer dies when the disks record the takeover, before any node is told: no disk is bad, and none is reported. */
static void the_writer_dies_at_the_end_of_a_copy(void **state)
{
	struct cx *c = *state;

	nothing_to_spare(c);
	up_to_whole(c, 0, true);
	cx_forget(c);
	cx_view(c, 2, 2, true);
	settles(c);
	is_replaced(c, 1);
	assert_int_equal(cx_event(&c->node[1], DDR_EV_MEMBER_FAILED), -1);
}

/* Some disks have superblocks of the end that was not agreed, others those of the change that was: they do not count as diverged. */
static void an_end_that_was_not_agreed_does_not_count_as_diverged(void **state)
{
	struct ddr_candidate disk[2];
	struct ddr_assembly out;
	struct cx *c = *state;
	struct ddr_super end, stayed;
	struct ddr_error err = { .text = "" };

	up_to_whole(c, 0, true);
	end = c->sb;
	cx_forget(c);
	cx_view(c, 2, 2, true);
	c->answers = CX_ALL | CX_FENCE;
	for (uint32_t i = 0; c->sb.generation == end.generation; i++) {
		assert_true(i < 2000);
		if (!cx_answer_one(c, &c->node[1]))
			cx_tick(c, 400);
	}
	stayed = c->sb;
	assert_int_equal(stayed.member[SPARE].state, DDR_MEMBER_REBUILDING);
	assert_int_equal(stayed.member[ROLE].state, DDR_MEMBER_IN_SYNC);
	stayed.this_member = 0;
	end.this_member = 1;
	disk[0] = (struct ddr_candidate){ .device = "m0", .super = &stayed, .bytes = 1ull << 40 };
	disk[1] = (struct ddr_candidate){ .device = "m1", .super = &end, .bytes = 1ull << 40 };
	ddr_assemble(disk, 2, NULL, &out, &err);
	assert_null(strstr(err.text, "separate"));
	settles(c);
	is_replaced(c, 1);
}

/* The end of a replacement is on the disks and not agreed. The next writer gives it to all that may lack it, and to the member that leaves by it last: that one alone must never have it. */
static void the_old_member_gets_an_unfinished_end_last(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[1];
	uint32_t others = 0, old = 0;
	uint64_t generation, seq = 0;

	up_to_whole(c, 0, true);
	generation = c->sb.generation;
	cx_forget(c);
	cx_view(c, 2, 2, true);
	c->answers = CX_ALL | CX_FENCE;
	for (uint32_t i = 0; c->sb.generation == generation; i++) {
		assert_true(i < 2000);
		for (uint32_t o = 0; o < n->n; o++) {
			struct ddr_super sb;

			if (!n->open[o] || n->log[o].type != DDR_OUT_SB_WRITE)
				continue;
			ddr_sm_superblock(n->sm, 0, &sb);
			if (sb.generation != generation)
				continue;
			if (n->log[o].members >> ROLE & 1) {
				assert_int_equal(n->log[o].members, 1u << ROLE);
				assert_true(others && sb.seq == seq);
				old++;
			} else {
				others++;
				seq = sb.seq;
			}
		}
		if (!cx_answer_one(c, n))
			cx_tick(c, 400);
	}
	assert_true(others && old);
	settles(c);
	is_replaced(c, 1);
}

/* What the dead node was writing is resynced on both disks before the new one takes over, although the takeover was agreed when it died. */
static void blocks_of_dead_writers_are_resynced_before_they_are_copied(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[1];
	int at, whole;

	wants(c, 0, 2);
	up_to_whole(c, 0, true);
	cx_forget(c);
	cx_view(c, 2, 2, true);
	settles(c);
	whole = cx_event(n, DDR_EV_REBUILD_DONE);
	for (at = 0; at < whole && !(n->log[at].type == DDR_OUT_JOB_RANGE && n->log[at].job == DDR_KA_RESYNC && n->log[at].start == 2 * 256); at++)
		;
	assert_in_range(at, 0, whole - 1);
	assert_int_equal(n->log[at].member, SPARE);
	assert_int_equal(n->log[at].from, ROLE);
	is_replaced(c, 1);
}

/* ---- the next one --------------------------------------------------------------- */

/* Everything is answered, but that node 2's table is to name the new disk at its place: that stays out, or fails. */
static void pass_untidy(struct cx *c, uint32_t rounds, int result)
{
	for (uint32_t round = 0; round < rounds; round++) {
		c->answers = CX_MSG;
		cx_settle(c);
		for (uint32_t i = 0; i < 2; i++)
			for (uint32_t o = 0; o < c->node[i].n; o++) {
				bool tidy = i == 1 && c->node[i].log[o].type == DDR_OUT_TABLE && c->node[i].log[o].index == ROLE;

				if (!c->node[i].open[o] || (tidy && !result))
					continue;
				if (tidy)
					cx_table(c, &c->node[i], o, result);
				else
					answer(c, &c->node[i], o);
			}
		cx_tick(c, 20);
	}
}

/* A kernel that still has the first disk as a shadow cannot have the second: nothing relies on the second before that. */
static void the_next_replacement_waits_for_the_table(void **state)
{
	struct cx *c = *state;

	for (uint64_t r = 0; r < 4; r++)
		wants(c, 1, r);
	replace(c, 0, ROLE, SPARE);
	pass_untidy(c, 400, 0);
	assert_int_equal(c->sb.member[SPARE].state, DDR_MEMBER_IN_SYNC);
	replace(c, 0, 3, SPARE + 1);
	pass_untidy(c, 400, 0);
	assert_int_equal(c->sb.member[SPARE + 1].state, DDR_MEMBER_REBUILDING);
	assert_int_equal(c->sb.member[SPARE + 1].cursor, 0);
	pass_without(c, 400, 0, DDR_OUT_TABLE);
	assert_int_equal(c->sb.member[SPARE + 1].state, DDR_MEMBER_IN_SYNC);
	assert_int_equal(c->sb.member[3].state, DDR_MEMBER_MISSING);
	for (uint32_t i = 0; i < 2; i++) {
		bool named = false;

		for (uint32_t o = 0; o < c->node[i].n; o++)
			named |= c->node[i].log[o].type == DDR_OUT_TABLE && c->node[i].log[o].member == SPARE + 1;
		assert_true(named);
	}
}

/* If that node's table can never be put in order, the second disk is broken for it. */
static void the_next_replacement_fails_if_a_table_cannot_be_changed(void **state)
{
	struct cx *c = *state;

	for (uint64_t r = 0; r < 4; r++)
		wants(c, 1, r);
	replace(c, 0, ROLE, SPARE);
	pass_untidy(c, 400, -ENXIO);
	assert_int_equal(c->sb.member[SPARE].state, DDR_MEMBER_IN_SYNC);
	replace(c, 0, 3, SPARE + 1);
	pass_untidy(c, 600, -ENXIO);
	assert_int_equal(c->sb.member[SPARE + 1].state, DDR_MEMBER_FAULTY);
	assert_int_equal(c->sb.member[3].state, DDR_MEMBER_IN_SYNC);
}

/* ---- without parity ------------------------------------------------------------- */

#define SPARE_0	4u		/* there the first one is behind the four with data */

/* Two nodes and an array without parity. The first half of a member that is replaced is copied, and a job for the rest is outstanding. */
static int setup_half_copied(void **state)
{
	struct cx *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	c->spares = 2;
	cx_make(c, 2, true);
	c->geo.parity = 0;
	rig_super(&c->sb, &c->geo);
	for (uint32_t i = 0; i < 2; i++)
		c->node[i].cfg.present = (1u << c->sb.members) - 1;
	cx_start(c, 0, 0, 0);
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	replace(c, 0, 1, SPARE_0);
	for (uint32_t round = 0; round < 300; round++) {
		pass_without(c, 1, 1, DDR_OUT_JOB_RANGE);
		for (uint32_t o = 0; o < c->node[0].n; o++)
			if (c->node[0].open[o] && c->node[0].log[o].type == DDR_OUT_JOB_RANGE && c->node[0].log[o].start < 512)
				cx_done(c, &c->node[0], o);
	}
	assert_int_equal(c->sb.member[SPARE_0].cursor, 512);
	*state = c;
	return 0;
}

/* Is one of the first blocks copied by an output of the node's from @from on? */
static bool anew(const struct cx_node *n, uint32_t from)
{
	for (uint32_t o = from; o < n->n; o++)
		if (n->log[o].type == DDR_OUT_JOB_RANGE && n->log[o].start == 0)
			return true;
	return false;
}

/*
 * Node 2 dies for good, and nobody knows where it was writing: below the cursor, too, the old disk may have a write that the new one
 * lacks. Nobody claims its slot, and everything is copied again before the new disk takes over.
 */
static void a_copy_restarts_when_a_writing_node_died_for_good(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];
	uint32_t from = n->n;

	cx_kill(c, 1);
	cx_view(c, 1, 1, true);
	settles(c);
	assert_true(cx_event(n, DDR_EV_NODE_RECOVERED) >= 0);
	for (uint32_t round = 0; round < 20; round++)
		cx_tick(c, 1000);
	assert_true(anew(n, from));
	assert_int_equal(cx_status(n).member_state[SPARE_0], DDR_MEMBER_IN_SYNC);
	assert_int_equal(cx_status(n).member_state[1], DDR_MEMBER_MISSING);
	assert_int_equal(c->sb.slot_node[1], 0);
}

/* The same if node 2 comes back, and has its slot again: its last process died. */
static void a_copy_restarts_when_a_writing_node_died_and_returned(void **state)
{
	struct cx *c = *state;
	uint32_t from = c->node[0].n;

	cx_kill(c, 1);
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	settles(c);
	for (uint32_t round = 0; round < 20; round++)
		cx_tick(c, 1000);
	assert_true(cx_status(&c->node[1]).ready);
	assert_true(anew(&c->node[0], from));
	assert_int_equal(cx_status(&c->node[1]).member_state[SPARE_0], DDR_MEMBER_IN_SYNC);
}

/* It comes back and dies once more while its claim is being written: the change that frees its slot comes after that. */
static void a_node_that_dies_again_during_its_claim_is_recovered(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];

	cx_kill(c, 1);
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	pass_without(c, 4, 1, DDR_OUT_SB_WRITE);
	cx_open(n, DDR_OUT_SB_WRITE);
	cx_kill(c, 1);
	c->answers |= CX_FENCE;
	cx_view(c, 1, 1, true);
	pass_without(c, 8, 1, DDR_OUT_SB_WRITE);
	assert_true(cx_event(n, DDR_EV_NODE_RECOVERED) >= 0);
	c->answers = CX_MSG | CX_KERNEL;
	cx_done(c, n, cx_open(n, DDR_OUT_SB_WRITE));
	cx_settle(c);
	assert_int_equal(c->sb.slot_node[1], 2);
	assert_int_equal(ddr_sm_super(n->sm)->slot_node[1], 2);
	settles(c);
	for (uint32_t round = 0; round < 20; round++)
		cx_tick(c, 1000);
	assert_int_equal(c->sb.slot_node[1], 0);
	assert_int_equal(ddr_sm_super(n->sm)->slot_node[1], 0);
	assert_int_equal(cx_status(n).member_state[SPARE_0], DDR_MEMBER_IN_SYNC);
}

/*
 * Node 2 leaves cleanly, and is gone before the superblocks record that its slot is free: it did not die while writing, and the copy
 * continues.
 */
static void a_copy_continues_after_a_node_left_cleanly(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];
	uint32_t from = n->n;

	c->answers = CX_ALL & ~CX_IO;
	cx_op(c, 1, DDR_IN_OP_CLEAN, 0);
	cx_settle(c);
	assert_true(cx_event(&c->node[1], DDR_EV_CLEAN) >= 0);
	cx_step(c, &c->node[1], &(struct ddr_input){ .type = DDR_IN_K_DETACHED });
	cx_op(c, 1, DDR_IN_OP_LEAVE, 0);
	cx_settle(c);
	assert_true(cx_event(&c->node[1], DDR_EV_LEFT) >= 0);
	cx_open(n, DDR_OUT_SB_WRITE);
	cx_kill(c, 1);
	cx_view(c, 1, 1, true);
	pass_without(c, 20, 1, DDR_OUT_JOB_RANGE);
	assert_int_equal(c->sb.slot_node[1], 0);
	assert_int_equal(c->sb.member[SPARE_0].cursor, 512);
	assert_int_equal(ddr_sm_super(n->sm)->member[SPARE_0].cursor, 512);
	settles(c);
	for (uint32_t round = 0; round < 20; round++)
		cx_tick(c, 1000);
	assert_false(anew(n, from));
	assert_int_equal(cx_status(n).member_state[SPARE_0], DDR_MEMBER_IN_SYNC);
}

/* Regions whose parity is computed for the first time do not take one range after the other: the copy has its turn after each. */
static void background_jobs_leave_ranges_for_the_copy(void **state)
{
	struct ddr_input in = { .type = DDR_IN_OP_SET, .key = DDR_SM_RESYNC_PAUSED, .value = 1 };
	uint32_t copies = 0, resyncs = 0;
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];

	cx_step(c, n, &in);
	for (uint64_t r = 0; r < 4; r++)
		wants(c, 0, r);
	cx_record(c, 0, (struct ddr_rec){ .type = DDR_K_CLOSED, .start = 0, .count = 4 });
	cx_settle(c);
	assert_int_equal(cx_status(n).needs_sync, 4);
	replace(c, 0, ROLE, SPARE);
	cx_settle(c);
	cx_tick(c, 100);
	cx_forget(c);
	c->answers = CX_MSG | CX_KERNEL;
	in = (struct ddr_input){ .type = DDR_IN_OP_SET, .key = DDR_SM_RESYNC_PARALLEL, .value = 1 };
	cx_step(c, n, &in);
	in = (struct ddr_input){ .type = DDR_IN_OP_SET, .key = DDR_SM_RESYNC_PAUSED, .value = 0 };
	cx_step(c, n, &in);
	for (int left = 20; left && cx_status(n).member_state[SPARE] != DDR_MEMBER_IN_SYNC; left--) {
		pass_without(c, 10, 1, DDR_OUT_JOB_RANGE);
		for (uint32_t o = 0; o < n->n; o++)
			if (n->open[o] && n->log[o].type == DDR_OUT_JOB_RANGE) {
				copies += n->log[o].job == DDR_KA_REBUILD;
				resyncs += n->log[o].job == DDR_KA_RESYNC;
				assert_true(resyncs <= copies + 1);
				cx_done(c, n, o);
				break;
			}
	}
	assert_int_equal(cx_status(n).member_state[SPARE], DDR_MEMBER_IN_SYNC);
	assert_int_equal(copies, 4);
	pass_without(c, 100, 0, DDR_OUT_JOB_RANGE);
	assert_int_equal(cx_status(n).clean, 4);
}

int main(void)
{
#define HALF(name) cmocka_unit_test_setup_teardown(name, setup_half_copied, cx_teardown)
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, cx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_member_is_replaced), TEST(background_jobs_leave_ranges_for_the_copy), TEST(the_old_member_is_written_until_all_nodes_know), TEST(the_old_member_fails_during_the_copy), TEST(both_members_fail_as_the_copy_begins), TEST(a_node_that_resyncs_has_not_folded),
		TEST(an_operator_cancels_a_replacement), TEST(the_new_member_fails_at_the_end), TEST(the_new_member_fails_without_redundancy_left),
		TEST(a_failure_overtakes_the_end_of_a_copy), TEST(the_old_member_fails_at_the_end), TEST(the_writer_dies_at_the_end_of_a_copy), TEST(an_end_that_was_not_agreed_does_not_count_as_diverged),
		TEST(the_old_member_gets_an_unfinished_end_last),
		TEST(blocks_of_dead_writers_are_resynced_before_they_are_copied), TEST(the_next_replacement_waits_for_the_table), TEST(the_next_replacement_fails_if_a_table_cannot_be_changed),
		HALF(a_copy_restarts_when_a_writing_node_died_for_good), HALF(a_copy_restarts_when_a_writing_node_died_and_returned), HALF(a_node_that_dies_again_during_its_claim_is_recovered), HALF(a_copy_continues_after_a_node_left_cleanly),
	};

	return cmocka_run_group_tests_name("state machine: replacing", tests, NULL, NULL);
}
