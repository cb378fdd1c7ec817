// SPDX-License-Identifier: GPL-2.0-or-later
/* Member failure: intent, superblocks, done, acknowledgement; starts with members missing; slot ownership. */
#include "lib/cluster/slots.h"
#include "sm-fixture.h"

static int setup(void **state)
{
	return fx_setup(state, &fx_six);
}

static void restart(struct fx *f)
{
	fx_down(f);
	f->sm = rig_sm(&f->cfg);
	assert_non_null(f->sm);
	f->n = 0;
	f->answers = FX_ALL;
	fx_load_empty(f);
	fx_view(f, 1, true, 1);
	fx_attach(f, 7, 0, 0);
}

/* One step of a conversation: the next message, write or answer, and nothing else happens before it. */
static void next_is(struct fx *f, enum ddr_out_type type, uint32_t record)
{
	for (uint32_t i = 0; i < f->n; i++) {
		struct ddr_output o = f->log[i];

		if (!f->open[i] || (o.type != DDR_OUT_MCAST && !fx_is_io(&o) && !fx_asks_kernel(&o)))
			continue;
		assert_int_equal(o.type, type);
		if (type == DDR_OUT_KERNEL) {
			assert_int_equal(o.rec.type, record);
			fx_kernel_answer(f, i);
		} else if (type == DDR_OUT_MCAST) {
			struct ddr_msg m;

			assert_null(ddr_msg_decode(o.msg, o.msg_len, &m));
			assert_int_equal(m.type, record);
			f->open[i] = false;
			fx_message(f, 1, o.msg, o.msg_len);
		} else {
			fx_done(f, i, 0, 0, 0);
		}
		return;
	}
	fail_msg("nothing is under way");
}

static void rule_3_the_order_of_a_failure(void **state)
{
	struct fx *f = *state;

	f->answers = 0;
	fx_error(f, 9, 2, DDR_EC_IO, DDR_OP_WRITE);
	next_is(f, DDR_OUT_MCAST, DDR_M_MEMBER_FAIL);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_IN_SYNC);
	next_is(f, DDR_OUT_SB_WRITE, 0);
	next_is(f, DDR_OUT_SB_WRITE, 0);	/* of the spare */
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_IN_SYNC);
	assert_int_equal(fx_kernel(f, DDR_U_MEMBER), -1);
	next_is(f, DDR_OUT_MCAST, DDR_M_MEMBER_DONE);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_FAULTY);
	assert_int_equal(f->log[fx_kernel(f, DDR_U_MEMBER)].rec.arg[0], DDR_KM_OUT);
	assert_int_equal(fx_kernel(f, DDR_U_RESOLVE), -1);
	next_is(f, DDR_OUT_KERNEL, DDR_U_MEMBER);
	assert_int_equal(fx_kernel(f, DDR_U_RESOLVE), -1);
	next_is(f, DDR_OUT_MCAST, DDR_M_MEMBER_ACK);
	assert_int_equal(f->log[fx_kernel(f, DDR_U_RESOLVE)].rec.arg[0], DDR_RES_RETRY);
}

static void the_superblocks_of_a_failure(void **state)
{
	struct fx *f = *state;
	struct ddr_super sb;
	uint32_t w;

	f->answers = FX_MSG | FX_KERNEL;
	fx_error(f, 9, 2, DDR_EC_IO, DDR_OP_WRITE);
	w = fx_open_io(f, DDR_OUT_SB_WRITE);
	assert_int_equal(f->log[w].members, 0x3f & ~4u);	/* the spare gets it afterwards */
	ddr_sm_superblock(f->sm, 3, &sb);
	assert_int_equal(ddr_super_check(&sb).code, DDR_FE_OK);
	assert_int_equal(sb.this_member, 3);
	assert_int_equal(sb.generation, 2);
	assert_int_equal(sb.seq, 7);	/* the higher one of the two of each change */
	assert_memory_equal(sb.gen_prev, f->sb.gen_id, 16);
	assert_memory_not_equal(sb.gen_id, f->sb.gen_id, 16);
	assert_int_equal(sb.member[2].state, DDR_MEMBER_FAULTY);
	assert_int_equal(sb.member[2].since, 2);
	assert_int_equal(sb.member[2].err_write, 1);
}

/*
 * Rule 12: another writer may not see the spare. What it alone had would be passed over, and its sequence, or its generation, used again. So it gets a
 * change when all others have it; no level; and if it fails, that is another change.
 */
static void a_spare_gets_a_change_last(void **state)
{
	struct fx *f = *state;
	struct ddr_super first, last;
	uint32_t w;

	f->cfg.present = 0x3f;
	restart(f);
	fx_step(f, &(struct ddr_input){ .type = DDR_IN_PRESENT, .member = 6 });
	fx_settle(f);
	assert_int_equal(fx_status(f).member_state[6], DDR_MEMBER_SPARE);
	f->answers = FX_MSG | FX_KERNEL;
	fx_error(f, 9, 2, DDR_EC_IO, DDR_OP_WRITE);
	w = fx_open_io(f, DDR_OUT_SB_WRITE);
	assert_int_equal(f->log[w].members, 0x3f & ~4u);
	ddr_sm_superblock(f->sm, 0, &first);
	fx_done(f, w, 0, 0, 0);
	fx_settle(f);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_IN_SYNC);
	w = fx_open_io(f, DDR_OUT_SB_WRITE);
	assert_int_equal(f->log[w].members, 0x40);
	ddr_sm_superblock(f->sm, 6, &last);
	assert_int_equal(last.seq, first.seq);
	assert_int_equal(last.generation, 2);
	assert_memory_equal(last.gen_id, first.gen_id, sizeof(first.gen_id));
	fx_done(f, w, 0x40, 0, 0);
	fx_settle(f);
	w = fx_open_io(f, DDR_OUT_SB_WRITE);
	assert_int_equal(f->log[w].members, 0x3f & ~4u);
	ddr_sm_superblock(f->sm, 0, &last);
	assert_int_equal(last.generation, 3);
	assert_memory_equal(last.gen_prev, first.gen_id, sizeof(first.gen_id));
	fx_done(f, w, 0, 0, 0);
	fx_settle(f);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_FAULTY);
	assert_int_equal(fx_status(f).member_state[6], DDR_MEMBER_FAULTY);
}

/* A change that comes before the spare has the last one waits for its own generation: the spare gets what the others have. */
static void a_failure_before_the_spare_has_the_change(void **state)
{
	struct fx *f = *state;
	struct ddr_super sb;

	f->answers = FX_MSG | FX_KERNEL;
	fx_error(f, 9, 2, DDR_EC_IO, DDR_OP_WRITE);
	fx_error(f, 10, 4, DDR_EC_IO, DDR_OP_WRITE);
	fx_done(f, fx_open_io(f, DDR_OUT_SB_WRITE), 0, 0, 0);
	fx_settle(f);
	ddr_sm_superblock(f->sm, 6, &sb);
	assert_int_equal(sb.generation, 2);
	assert_int_equal(sb.member[4].state, DDR_MEMBER_IN_SYNC);
	fx_done(f, fx_open_io(f, DDR_OUT_SB_WRITE), 0, 0, 0);
	fx_settle(f);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_FAULTY);
	assert_int_equal(fx_status(f).member_state[4], DDR_MEMBER_IN_SYNC);
	fx_supers_done(f);
	assert_int_equal(fx_status(f).member_state[4], DDR_MEMBER_FAULTY);
	assert_int_equal(fx_status(f).generation, 3);
}

/*
 * Finding S12: the operator starts from older superblocks. The first change takes a number after the newest generation that was seen,
 * and names the generation on these disks as its predecessor.
 */
static void a_start_from_an_older_generation_continues_above_the_newer_one(void **state)
{
	struct fx *f = *state;
	struct ddr_super sb;

	f->cfg.behind = 7;
	restart(f);
	sb = *ddr_sm_super(f->sm);
	assert_int_equal(sb.generation, 8);
	assert_memory_equal(sb.gen_prev, f->sb.gen_id, 16);
	assert_memory_not_equal(sb.gen_id, f->sb.gen_id, 16);
	assert_int_equal(ddr_super_check(&sb).code, DDR_FE_OK);
}

/* Note 8: two starts may not give one name to different generations. */
static void names_of_generations_differ_by_start(void **state)
{
	struct fx *f = *state;
	struct ddr_super a, b;

	for (int i = 0; i < 2; i++) {
		f->cfg.entropy[0] = (uint8_t)i;
		restart(f);
		fx_error(f, 9, 2, DDR_EC_IO, DDR_OP_WRITE);
		ddr_sm_superblock(f->sm, 0, i ? &b : &a);
	}
	assert_int_equal(a.generation, b.generation);
	assert_memory_not_equal(a.gen_id, b.gen_id, 16);
}

/* The write of the superblocks fails on another member: both go, at the generation after the one that failed. */
static void a_failure_while_the_superblocks_are_written(void **state)
{
	struct fx *f = *state;
	struct ddr_super first, second;
	uint32_t w;

	f->answers = FX_MSG | FX_KERNEL;
	fx_error(f, 9, 2, DDR_EC_IO, DDR_OP_WRITE);
	w = fx_open_io(f, DDR_OUT_SB_WRITE);
	ddr_sm_superblock(f->sm, 0, &first);
	fx_done(f, w, 1u << 4, 0, 0);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_IN_SYNC);
	fx_settle(f);
	w = fx_open_io(f, DDR_OUT_SB_WRITE);
	assert_int_equal(f->log[w].members, 0x3f & ~0x14u);
	ddr_sm_superblock(f->sm, 0, &second);
	assert_int_equal(second.generation, 3);
	assert_memory_equal(second.gen_prev, first.gen_id, 16);
	fx_supers_done(f);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_FAULTY);
	assert_int_equal(fx_status(f).member_state[4], DDR_MEMBER_FAULTY);
	assert_int_equal(fx_status(f).generation, 3);
	assert_int_equal(f->log[fx_kernel(f, DDR_U_RESOLVE)].rec.arg[0], DDR_RES_RETRY);
}

static void a_failing_superblock_write_that_is_one_too_many(void **state)
{
	struct fx *f = *state;

	f->answers = FX_MSG | FX_KERNEL;
	fx_error(f, 9, 2, DDR_EC_IO, DDR_OP_WRITE);
	fx_done(f, fx_open_io(f, DDR_OUT_SB_WRITE), 0x18, 0, 0);
	fx_settle(f);
	assert_true(fx_status(f).failed);
	assert_int_equal(f->log[fx_kernel(f, DDR_U_RESOLVE)].rec.arg[0], DDR_RES_FAIL);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_IN_SYNC);
}

static void two_members_fail_at_once(void **state)
{
	struct fx *f = *state;

	f->answers = 0;
	fx_error(f, 9, 2, DDR_EC_IO, DDR_OP_WRITE);
	fx_error(f, 10, 4, DDR_EC_IO, DDR_OP_WRITE);
	f->answers = FX_ALL;
	fx_settle(f);
	assert_int_equal(fx_status(f).member_state[2], DDR_MEMBER_FAULTY);
	assert_int_equal(fx_status(f).member_state[4], DDR_MEMBER_FAULTY);
	assert_int_equal(fx_count(f, DDR_OUT_KERNEL, DDR_U_RESOLVE), 2);
	fx_forget(f);
	fx_error(f, 11, 5, DDR_EC_IO, DDR_OP_WRITE);
	assert_true(fx_status(f).failed);
	assert_int_equal(fx_status(f).member_state[5], DDR_MEMBER_IN_SYNC);
}

/* Rule 3 for the daemon's own writes: the grant waits until the member has failed, then counts. */
static void a_log_write_that_fails(void **state)
{
	struct fx *f = *state;

	f->answers = FX_MSG;
	fx_lock(f, 3, 1);
	fx_done(f, fx_open_io(f, DDR_OUT_LOG_WRITE), 1u << 5, 0, 0);
	fx_settle(f);
	assert_int_equal(fx_kernel(f, DDR_U_GRANT), -1);
	fx_supers_done(f);
	assert_true(fx_kernel(f, DDR_U_GRANT) > fx_kernel(f, DDR_U_MEMBER));	/* told before it writes; nobody else reads */
	assert_true(fx_kernel(f, DDR_U_MEMBER) >= 0);
	f->answers = FX_ALL;
	fx_settle(f);
	assert_int_equal(fx_status(f).member_state[5], DDR_MEMBER_FAULTY);
	assert_int_equal(fx_count(f, DDR_OUT_LOG_WRITE, 0), 1);	/* it is durable on all that remain */
}

static void a_flush_and_a_map_write_that_fail(void **state)
{
	struct fx *f = *state;

	fx_lock(f, 3, 1);
	fx_forget(f);
	f->answers = FX_MSG | FX_KERNEL;
	fx_closed(f, 3, 1, 0);
	fx_done(f, fx_open_io(f, DDR_OUT_FLUSH), 1u << 5, 0, 0);
	fx_settle(f);
	assert_true(ddr_sm_region(f->sm, 3) & DDR_SM_REGION_DIRTY);
	fx_supers_done(f);
	fx_done(f, fx_open_io(f, DDR_OUT_MAP_WRITE), 1u << 1, 0, 0);
	fx_settle(f);
	assert_int_equal(fx_count(f, DDR_OUT_LOG_WRITE, 0), 0);
	f->answers = FX_ALL;
	fx_settle(f);
	assert_int_equal(fx_status(f).member_state[5], DDR_MEMBER_FAULTY);
	assert_int_equal(fx_status(f).member_state[1], DDR_MEMBER_FAULTY);
	assert_int_equal(ddr_sm_region(f->sm, 3), DDR_REGION_NEEDS_SYNC | DDR_REGION_F_WRITTEN);
}

/* Note 4: a region that is written while a member is missing is recorded before its mark is cleared, even if the member fails in between. */
static void degraded_regions_are_noted(void **state)
{
	struct fx *f = *state;

	fx_lock(f, 3, 1);
	fx_closed(f, 3, 1, 0);			/* clean */
	fx_lock(f, 3, 1);
	fx_error(f, 9, 2, DDR_EC_IO, DDR_OP_WRITE);
	fx_closed(f, 3, 1, 0);
	assert_int_equal(ddr_sm_region(f->sm, 3), DDR_REGION_CLEAN | DDR_REGION_F_WRITTEN);
}

static void a_spare_that_fails_costs_nothing(void **state)
{
	struct fx *f = *state;
	struct ddr_input in = { .type = DDR_IN_OP_FAIL_MEMBER, .member = 6 };

	fx_step(f, &in);
	fx_settle(f);
	assert_int_equal(fx_status(f).member_state[6], DDR_MEMBER_FAULTY);
	assert_false(fx_status(f).degraded);
}

static void the_operator_fails_members(void **state)
{
	struct fx *f = *state;
	struct ddr_input in = { .type = DDR_IN_OP_FAIL_MEMBER };

	for (uint32_t m = 0; m < 3; m++) {
		fx_forget(f);
		in.member = m;
		fx_step(f, &in);
		fx_settle(f);
		assert_int_equal(fx_status(f).member_state[m], m < 2 ? DDR_MEMBER_FAULTY : DDR_MEMBER_IN_SYNC);
		assert_int_equal(fx_event(f, DDR_EV_REFUSED) >= 0, m == 2);
	}
	in.member = 0;		/* it has failed already */
	fx_forget(f);
	fx_step(f, &in);
	assert_true(fx_event(f, DDR_EV_REFUSED) >= 0);
	assert_false(fx_status(f).failed);
}

/* ---- start --------------------------------------------------------------------- */

static void members_missing_at_the_start(void **state)
{
	struct fx *f = *state;
	struct ddr_super sb;

	f->cfg.present = 0x7f & ~8u;
	restart(f);
	assert_int_equal(fx_status(f).member_state[3], DDR_MEMBER_MISSING);
	assert_int_equal(fx_status(f).generation, 2);
	assert_int_equal(f->log[fx_find(f, DDR_OUT_SB_WRITE, 0)].members, 0x3f & ~8u);
	for (int i = 0, at; (at = fx_find_nth(f, DDR_OUT_KERNEL, DDR_U_MEMBER, (uint32_t)i)) >= 0; i++)
		assert_int_equal(f->log[at].rec.arg[0], f->log[at].rec.member == 3 ? DDR_KM_OUT : DDR_KM_IN_SYNC);
	assert_true(fx_kernel(f, DDR_U_ENABLE) > fx_find(f, DDR_OUT_SB_WRITE, 0));
	ddr_sm_superblock(f->sm, 0, &sb);
	assert_int_equal(sb.slot_node[0], 1);
}

static void too_many_members_missing_at_the_start(void **state)
{
	struct fx *f = *state;

	f->cfg.present = 0x07;
	restart(f);
	assert_true(fx_event(f, DDR_EV_FAILED) >= 0);
	assert_int_equal(fx_kernel(f, DDR_U_ENABLE), -1);
	assert_int_equal(fx_count(f, DDR_OUT_SB_WRITE, 0), 0);
	assert_false(fx_status(f).ready);
}

/* The newest superblock may lie on some members only: all get it before anything is written. */
static void superblocks_come_before_everything(void **state)
{
	struct fx *f = *state;

	restart(f);
	assert_true(fx_find(f, DDR_OUT_SB_WRITE, 0) < fx_kernel(f, DDR_U_MEMBER));
	assert_true(fx_find(f, DDR_OUT_SB_WRITE, 0) < fx_kernel(f, DDR_U_ENABLE));
	assert_int_equal(fx_status(f).generation, 1);
}

static void a_slot_of_another_node_is_not_taken(void **state)
{
	struct fx *f = *state;

	f->sb.slot_node[0] = 9;
	restart(f);
	assert_int_equal(f->log[fx_event(f, DDR_EV_REFUSED)].b, 9);
	assert_int_equal(fx_count(f, DDR_OUT_SB_WRITE, 0), 0);
	assert_int_equal(fx_kernel(f, DDR_U_ENABLE), -1);
	f->sb.slot_node[0] = 0;
	f->sb.slot_node[2] = 1;		/* its own one goes before the first free one */
	restart(f);
	assert_int_equal(ddr_sm_slot(f->sm), 2);
	assert_true(fx_kernel(f, DDR_U_ENABLE) >= 0);
}

/* Without a cluster, too: no slot is given twice. */
static void without_a_free_slot_a_node_does_not_start(void **state)
{
	struct fx *f = *state;

	f->cfg.adopt = true;		/* else the owners of the slots are the reason */
	for (uint32_t i = 0; i < f->sb.slots; i++)
		f->sb.slot_node[i] = 9 + i;
	restart(f);
	assert_int_equal(fx_find(f, DDR_OUT_SB_WRITE, 0), -1);
	assert_int_equal(fx_kernel(f, DDR_U_ENABLE), -1);
	assert_ptr_equal(f->log[fx_find(f, DDR_OUT_GIVE_UP, 0)].text, ddr_slots_none_free);
}

static void configurations_out_of_limits(void **state)
{
	struct fx *f = *state;
	struct ddr_sm_config bad = f->cfg;
	uint8_t mem[64];

	assert_null(ddr_sm_init(mem, sizeof(mem), &f->cfg));
	bad.node = 0;
	assert_int_equal(ddr_sm_size(&bad), 0);
	bad = f->cfg;
	bad.present = 1u << 7;
	assert_int_equal(ddr_sm_size(&bad), 0);
	f->sb.map_blocks = 0;
	assert_int_equal(ddr_sm_size(&f->cfg), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(rule_3_the_order_of_a_failure), TEST(the_superblocks_of_a_failure), TEST(a_spare_gets_a_change_last), TEST(a_failure_before_the_spare_has_the_change),
		TEST(names_of_generations_differ_by_start), TEST(a_start_from_an_older_generation_continues_above_the_newer_one), TEST(a_failure_while_the_superblocks_are_written),
		TEST(a_failing_superblock_write_that_is_one_too_many), TEST(two_members_fail_at_once),
		TEST(a_log_write_that_fails), TEST(a_flush_and_a_map_write_that_fail), TEST(degraded_regions_are_noted),
		TEST(a_spare_that_fails_costs_nothing), TEST(the_operator_fails_members), TEST(members_missing_at_the_start),
		TEST(too_many_members_missing_at_the_start), TEST(superblocks_come_before_everything),
		TEST(a_slot_of_another_node_is_not_taken), TEST(without_a_free_slot_a_node_does_not_start), TEST(configurations_out_of_limits),
	};

	return cmocka_run_group_tests_name("state machine: members", tests, NULL, NULL);
}
