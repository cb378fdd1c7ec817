// SPDX-License-Identifier: GPL-2.0-or-later
/* Spares on several nodes: who takes one, what is folded before, the rebuild and its cursor, its end. */
#include <errno.h>

#include "sm-cluster.h"

#define SPARE	6u		/* the first one behind the roles */
#define ROLE	2u		/* of the member that fails */

static void takes_spares(struct cx *c, uint32_t i)
{
	struct ddr_input in = { .type = DDR_IN_OP_SET, .key = DDR_SM_HOT_SPARE, .value = 1 };

	cx_step(c, &c->node[i], &in);
}

static int up(void **state, uint32_t nodes)
{
	struct cx *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	c->spares = 1;
	cx_up(c, nodes, true);
	for (uint32_t i = 0; i < nodes; i++)
		takes_spares(c, i);
	*state = c;
	return 0;
}

static int setup(void **state)
{
	return up(state, 2);
}

static int setup_four(void **state)
{
	return up(state, 4);
}

static void answer(struct cx *c, struct cx_node *n, uint32_t o)
{
	uint32_t record = n->log[o].type == DDR_OUT_KERNEL ? n->log[o].rec.type : 0;

	if (cx_is_io(&n->log[o]))
		cx_done(c, n, o);
	else if (n->log[o].type == DDR_OUT_TABLE)
		cx_table(c, n, o, 0);
	else if (record == DDR_U_MEMBER || record == DDR_U_DRAIN || record == DDR_U_REAP)
		cx_kernel_answer(c, n, o);
}

/* Time passes. Everything is answered, but outputs of this kind at the places of @mask. */
static void pass_without(struct cx *c, uint32_t rounds, uint32_t mask, enum ddr_out_type kind)
{
	uint32_t fence = c->answers & CX_FENCE;

	c->answers = CX_MSG | fence;
	for (uint32_t round = 0; round < rounds; round++) {
		cx_settle(c);
		for (uint32_t i = 0; i < CX_NODES; i++)
			for (uint32_t o = 0; c->node[i].sm && o < c->node[i].n; o++)
				if (c->node[i].open[o] && (!(mask >> i & 1) || c->node[i].log[o].type != kind))
					answer(c, &c->node[i], o);
		cx_tick(c, 10);
	}
	c->answers = CX_ALL | fence;
}

static void member_fails(struct cx *c, uint32_t i, uint32_t member, uint64_t seq)
{
	cx_record(c, i, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = seq, .member = member, .status = DDR_EC_IO, .arg[0] = DDR_OP_WRITE });
}

static void wants(struct cx *c, uint32_t i, uint64_t region)
{
	cx_record(c, i, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 100 + region, .start = region, .count = 1 });
	cx_settle(c);
}

static bool covered(const struct cx_node *n, uint64_t block)
{
	for (uint32_t i = 0; i < n->n; i++)
		if (n->log[i].type == DDR_OUT_JOB_RANGE && n->log[i].job == DDR_KA_REBUILD && block >= n->log[i].start &&
		    block < n->log[i].start + n->log[i].count)
			return true;
	return false;
}

/* All of it, with nobody in the way: only what was ever written is rebuilt, from the members in sync, by the writer alone. */
static void a_spare_takes_the_place(void **state)
{
	struct cx *c = *state;
	struct cx_node *writer = &c->node[0], *other = &c->node[1];
	int at;

	wants(c, 1, 1);
	member_fails(c, 1, ROLE, 5);
	cx_settle(c);
	cx_tick(c, 100);
	for (uint32_t i = 0; i < 2; i++) {
		struct ddr_sm_status st = cx_status(&c->node[i]);

		at = cx_find(&c->node[i], DDR_OUT_TABLE, 0);
		assert_true(at >= 0);
		assert_int_equal(c->node[i].log[at].member, SPARE);
		assert_int_equal(c->node[i].log[at].index, ROLE);
		assert_true(cx_event(&c->node[i], DDR_EV_REBUILD_START) >= 0 && cx_event(&c->node[i], DDR_EV_REBUILD_DONE) >= 0);
		assert_int_equal(st.member_state[SPARE], DDR_MEMBER_IN_SYNC);
		assert_int_equal(st.member_state[ROLE], DDR_MEMBER_FAULTY);
		assert_false(st.degraded);
	}
	at = cx_find(writer, DDR_OUT_JOB_RANGE, 0);
	assert_true(at >= 0);
	assert_int_equal(writer->log[at].member, SPARE);
	assert_int_equal(writer->log[at].members, 0x3f & ~(1u << ROLE));
	assert_true(covered(writer, 256) && covered(writer, 511));
	assert_false(covered(writer, 0) || covered(writer, 512));
	assert_int_equal(cx_find(other, DDR_OUT_JOB_RANGE, 0), -1);
	assert_int_equal(c->sb.member[SPARE].role, ROLE);
	assert_int_equal(c->sb.member[ROLE].role, DDR_ROLE_NONE);
	assert_int_equal(c->sb.generation, 4);		/* failed, taken, in sync */
	assert_int_equal(c->sb.log_base, 4);		/* who was out before needs all of it */
}

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

/* Both are written, the old one is read and copied, and at the end the new one has its place: nobody is missing at any time. */
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
	assert_int_equal(c->sb.generation, 3);		/* begun, whole */
	replace(c, 0, ROLE, SPARE);
	assert_true(cx_event(writer, DDR_EV_REFUSED) >= 0);
}

/* While one node reads the old one still, the other one writes both: it tells its kernel to read the shadow, and that the place goes. */
static void the_old_one_is_written_until_all_know(void **state)
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

/* Its copy was half done: what is left is rebuilt from the others, and the old one is no member. */
static void the_old_one_fails(void **state)
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

/* Where a write had failed on node 2 the two may hold different things until that node has resynced it: nothing is copied before. */
static void who_resyncs_has_not_folded(void **state)
{
	struct cx *c = *state;
	struct cx_node *other = &c->node[1];

	wants(c, 1, 1);
	cx_forget(c);
	replace(c, 0, ROLE, SPARE);
	pass_without(c, 2, 2, DDR_OUT_TABLE);
	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_CLOSED, .start = 1, .count = 1, .status = -EIO });
	pass_without(c, 50, 2, DDR_OUT_JOB_RANGE);
	cx_open(other, DDR_OUT_JOB_RANGE);
	assert_int_equal(cx_status(&c->node[0]).rebuilding, SPARE);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_JOB_RANGE, 0), -1);
	cx_settle(c);
	cx_tick(c, 100);
	assert_int_equal(other->log[cx_find(other, DDR_OUT_JOB_RANGE, 0)].member, SPARE);	/* it copies what it has resynced */
	assert_true(covered(&c->node[0], 256));
	assert_int_equal(cx_status(&c->node[0]).member_state[SPARE], DDR_MEMBER_IN_SYNC);
}

/* The operator thinks better of it: nobody was ever missing. */
static void the_new_one_goes(void **state)
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

/* A region that node 2 wrote for the first time, and has dirty still: the map says so before anybody calls it never written. */
static void what_is_dirty_is_in_the_map_first(void **state)
{
	struct cx *c = *state;
	bool folded = false;

	wants(c, 1, 3);
	cx_forget(c);
	c->answers = CX_MSG | CX_KERNEL;
	member_fails(c, 1, ROLE, 5);
	for (uint32_t round = 0; round < 200; round++) {
		cx_settle(c);
		for (uint32_t i = 0; i < 2; i++)
			for (uint32_t o = 0; o < c->node[i].n; o++) {
				bool map = c->node[i].log[o].type == DDR_OUT_MAP_WRITE;

				if (!c->node[i].open[o] || !cx_is_io(&c->node[i].log[o]))
					continue;
				cx_done(c, &c->node[i], o);
				folded |= map && (ddr_map_get(c->disk[CX_SLOTS].payload, 3) & DDR_REGION_STATE_MASK) == DDR_REGION_NEEDS_SYNC;
				assert_true(folded || cx_find(&c->node[0], DDR_OUT_JOB_RANGE, 0) < 0);
			}
		cx_tick(c, 10);
	}
	assert_true(folded);
	assert_true(covered(&c->node[0], 3 * 256));
}

/* Node 1 was away, so that node 2 is the writer, and node 1 the lowest, which recovers slots. */
static void the_second_writes(struct cx *c)
{
	cx_kill(c, 0);
	c->answers |= CX_FENCE;
	cx_view(c, 0xe, 0xe, true);
	cx_settle(c);
	c->node[0].cookie++;
	cx_start(c, 0, 0, 0);
	cx_view(c, 0xf, 0xf, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[0]).ready && cx_status(&c->node[1]).ready);
	assert_int_equal(cx_status(&c->node[0]).writer, 2);
	takes_spares(c, 0);
}

/*
 * Node 4 had written a region for the first time, and dies with node 3 before it could say so in the map. Node 1, which is not the
 * writer any more, recovers both slots. It has folded what it knew of when the first was done; it does so again, or the writer
 * would pass the region over while it is still resynced here.
 */
static void what_dead_nodes_had_dirty_too(void **state)
{
	struct cx *c = *state;
	struct cx_node *recovers = &c->node[0], *writer = &c->node[1];

	the_second_writes(c);
	wants(c, 3, 3);
	member_fails(c, 3, 5, 5);		/* Q: the others are resynced without it */
	pass_without(c, 50, 8, DDR_OUT_TABLE);
	assert_int_equal(cx_status(writer).rebuilding, SPARE);
	assert_int_equal(ddr_map_get(c->disk[CX_SLOTS].payload, 3) & DDR_REGION_STATE_MASK, DDR_REGION_UNWRITTEN);
	cx_kill(c, 2);
	cx_kill(c, 3);
	cx_forget(c);
	cx_view(c, 3, 3, true);
	pass_without(c, 50, 1, DDR_OUT_JOB_RANGE);
	assert_true(cx_event(recovers, DDR_EV_RECOVERY) >= 0);
	cx_settle(c);
	cx_tick(c, 100);
	assert_true(covered(writer, 3 * 256));
	assert_int_equal(cx_status(writer).member_state[SPARE], DDR_MEMBER_IN_SYNC);
}

/* Node 2 has not got a table with the new device: the rebuild waits, and no kernel reads it. If it never can, the member is broken for it. */
static void a_node_that_does_not_reach_the_spare(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[1];

	wants(c, 1, 1);
	cx_forget(c);
	member_fails(c, 0, ROLE, 5);
	pass_without(c, 20, 3, DDR_OUT_TABLE);
	cx_open(&c->node[0], DDR_OUT_TABLE);
	pass_without(c, 30, 2, DDR_OUT_TABLE);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_JOB_RANGE, 0), -1);
	for (uint32_t o = 0; o < n->n; o++)
		assert_false(n->log[o].type == DDR_OUT_KERNEL && n->log[o].rec.type == DDR_U_MEMBER && n->log[o].rec.member == ROLE &&
			     n->log[o].rec.arg[0] == DDR_KM_REBUILDING);
	c->answers = CX_ALL;
	cx_table(c, n, cx_open(n, DDR_OUT_TABLE), -6);
	cx_settle(c);
	assert_int_equal(cx_status(n).member_state[SPARE], DDR_MEMBER_FAULTY);
	assert_int_equal(cx_status(&c->node[0]).member_state[SPARE], DDR_MEMBER_FAULTY);
	assert_false(cx_status(n).gave_up || cx_status(n).failed);
}

/* A kernel whose table names the old device where the new one has its place is not told that it is in sync. */
static void an_old_table_is_not_believed(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[1];

	wants(c, 0, 1);
	member_fails(c, 0, ROLE, 5);
	cx_settle(c);
	cx_tick(c, 100);
	assert_int_equal(cx_status(n).member_state[SPARE], DDR_MEMBER_IN_SYNC);
	cx_kill(c, 1);
	cx_view(c, 1, 3, true);
	cx_settle(c);
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	pass_without(c, 20, 2, DDR_OUT_TABLE);
	assert_int_equal(n->log[cx_open(n, DDR_OUT_TABLE)].member, SPARE);
	for (uint32_t o = 0; o < n->n; o++)
		assert_false(n->log[o].type == DDR_OUT_KERNEL && n->log[o].rec.type == DDR_U_MEMBER && n->log[o].rec.member == ROLE);
	assert_false(cx_status(n).ready);
	cx_settle(c);
	assert_true(cx_status(n).ready);
}

/* The writer dies: the next one goes on behind the cursor that is on the disks, and does again what was not flushed. */
static void the_next_writer_goes_on(void **state)
{
	struct cx *c = *state;
	struct cx_node *next = &c->node[1];

	wants(c, 1, 0);
	wants(c, 1, 1);
	wants(c, 1, 2);
	wants(c, 1, 3);
	c->answers = CX_MSG | CX_KERNEL;
	member_fails(c, 1, ROLE, 5);
	for (uint32_t round = 0; round < 400 && c->sb.member[SPARE].cursor == 0; round++) {
		bool done = false;

		cx_settle(c);
		for (uint32_t i = 0; i < 2; i++)
			for (uint32_t o = 0; o < c->node[i].n && !done; o++)
				if (c->node[i].open[o] && cx_is_io(&c->node[i].log[o]) &&
				    (c->node[i].log[o].type != DDR_OUT_JOB_RANGE || c->node[i].log[o].start < 512)) {
					cx_done(c, &c->node[i], o);
					done = true;
				}
		cx_tick(c, 10);
	}
	assert_true(c->sb.member[SPARE].cursor > 0 && c->sb.member[SPARE].cursor <= 512);
	assert_true(covered(&c->node[0], 512));		/* under way */
	cx_kill(c, 0);
	cx_forget(c);
	c->answers = CX_ALL | CX_FENCE;
	cx_view(c, 2, 2, true);
	cx_settle(c);
	cx_tick(c, 100);
	assert_true(covered(next, 1023));
	assert_false(covered(next, 0));
	assert_int_equal(cx_status(next).member_state[SPARE], DDR_MEMBER_IN_SYNC);
}

/* Nothing was ever written, so there is nothing to rebuild; but the member is not in sync while writes of this kind are not answered. */
static void not_in_sync_without(struct cx *c, enum ddr_out_type kind)
{
	member_fails(c, 1, ROLE, 5);
	pass_without(c, 200, 3, kind);
	assert_int_equal(cx_status(&c->node[1]).member_state[SPARE], DDR_MEMBER_REBUILDING);
	assert_true(c->node[0].log[cx_open(&c->node[0], kind)].members >> SPARE & 1);
	pass_without(c, 200, 0, kind);
	assert_int_equal(cx_status(&c->node[1]).member_state[SPARE], DDR_MEMBER_IN_SYNC);
}

static void in_sync_with_the_map_only(void **state)
{
	not_in_sync_without(*state, DDR_OUT_MAP_WRITE);
}

static void in_sync_with_the_log_only(void **state)
{
	not_in_sync_without(*state, DDR_OUT_LOG_WRITE);
}

/* The spare fails while it is rebuilt: nobody needs it, and nothing that the array has is lost. */
static void the_spare_fails(void **state)
{
	struct cx *c = *state;
	struct ddr_input in = { .type = DDR_IN_JOB_DONE, .result = -5, .failed_members = 1u << SPARE };
	uint32_t at;

	wants(c, 1, 1);
	member_fails(c, 1, ROLE, 5);
	pass_without(c, 200, 3, DDR_OUT_JOB_RANGE);
	at = cx_open(&c->node[0], DDR_OUT_JOB_RANGE);
	in.io = c->node[0].log[at].io;
	c->node[0].open[at] = false;
	cx_step(c, &c->node[0], &in);
	c->answers = CX_ALL;
	cx_settle(c);
	assert_int_equal(cx_status(&c->node[1]).member_state[SPARE], DDR_MEMBER_FAULTY);
	assert_int_equal(cx_status(&c->node[1]).rebuilding, DDR_NO_MEMBER);
	assert_false(cx_status(&c->node[1]).failed);
	assert_true(cx_find(&c->node[1], DDR_OUT_KERNEL, DDR_U_RESOLVE) >= 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, cx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_spare_takes_the_place), TEST(what_is_dirty_is_in_the_map_first), TEST(a_node_that_does_not_reach_the_spare),
		TEST(a_member_is_replaced),
		TEST(the_old_one_is_written_until_all_know),
		TEST(the_old_one_fails),
		TEST(the_new_one_goes), TEST(who_resyncs_has_not_folded),
		TEST(an_old_table_is_not_believed), TEST(the_next_writer_goes_on), TEST(in_sync_with_the_map_only),
		TEST(in_sync_with_the_log_only),
		TEST(the_spare_fails),
		cmocka_unit_test_setup_teardown(what_dead_nodes_had_dirty_too, setup_four, cx_teardown),
	};

	return cmocka_run_group_tests_name("state machine: spares and rebuild", tests, NULL, NULL);
}
