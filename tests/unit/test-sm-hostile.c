// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Rule 10: input from the kernel, the group and the driver is checked. None of it may crash the state machine or make it
 * inconsistent, and nothing impossible is obeyed.
 */
#include "sm-fixture.h"

static int setup(void **state)
{
	return fx_setup(state, &fx_six);
}

static void assert_bug_and_nothing_else(struct fx *f)
{
	assert_int_equal(f->n, 1);
	assert_int_equal(f->log[0].type, DDR_OUT_EVENT);
	assert_true(f->log[0].event == DDR_EV_BUG || f->log[0].event == DDR_EV_REFUSED);
	assert_non_null(f->log[0].text);
	fx_forget(f);
}

static void regions_that_do_not_exist(void **state)
{
	static const struct { uint64_t start, count; } bad[] = {
		{ 16, 1 }, { 15, 2 }, { 0, 17 }, { 0, 0 }, { UINT64_MAX, 1 }, { 1, UINT64_MAX }, { UINT64_MAX, UINT64_MAX },
	};
	static const uint32_t types[] = { DDR_K_LOCK, DDR_K_CLOSED, DDR_K_HELD };
	struct fx *f = *state;

	for (size_t t = 0; t < 3; t++)
		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			fx_record(f, (struct ddr_rec){ .type = types[t], .start = bad[i].start, .count = bad[i].count });
			assert_bug_and_nothing_else(f);
		}
}

static void answers_to_nothing(void **state)
{
	static const enum ddr_in_type types[] = {
		DDR_IN_LOG_DONE, DDR_IN_MAP_DONE, DDR_IN_SB_DONE, DDR_IN_FLUSH_DONE, DDR_IN_JOB_DONE,
	};
	static const uint32_t records[] = { DDR_K_REAPED, DDR_K_APPLIED, DDR_K_DRAINED };
	struct fx *f = *state;

	for (size_t t = 0; t < 5; t++)
		for (uint64_t io = 0; io < 3; io++) {
			struct ddr_input in = { .type = types[t], .io = io == 2 ? UINT64_MAX : io << 16, .failed_members = 31 };

			fx_step(f, &in);
			assert_bug_and_nothing_else(f);
		}
	for (size_t t = 0; t < 3; t++) {
		fx_record(f, (struct ddr_rec){ .type = records[t], .seq = 12345, .count = 1 });
		assert_bug_and_nothing_else(f);
	}
	fx_record(f, (struct ddr_rec){ .type = 4711 });
	assert_bug_and_nothing_else(f);
	assert_int_equal(fx_status(f).generation, 1);
}

static void a_second_end_of_the_same_write(void **state)
{
	struct fx *f = *state;
	struct ddr_input in = { .type = DDR_IN_LOG_DONE };

	fx_lock(f, 2, 1);
	in.io = f->log[fx_find(f, DDR_OUT_LOG_WRITE, 0)].io;
	fx_forget(f);
	fx_step(f, &in);
	assert_bug_and_nothing_else(f);
}

static void grants_that_the_kernel_does_not_have(void **state)
{
	struct fx *f = *state;

	fx_record(f, (struct ddr_rec){ .type = DDR_K_CLOSED, .start = 3, .count = 2 });
	assert_bug_and_nothing_else(f);
	assert_int_equal(fx_status(f).dirty, 0);
}

static void errors_of_unknown_members_and_classes(void **state)
{
	struct fx *f = *state;
	static const struct { uint32_t member; int class; uint64_t op; } bad[] = {
		{ 6, 1, 1 }, { 1000, 1, 1 }, { DDR_NO_MEMBER, 1, 1 }, { 0, 0, 1 }, { 0, 8, 1 }, { 0, -1, 1 }, { 0, 1, 4 }, { 0, 1, UINT64_MAX },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ddr_rec rec = { .type = DDR_K_ERROR, .seq = 5 + i, .member = bad[i].member, .status = bad[i].class };

		rec.arg[0] = bad[i].op;
		fx_record(f, rec);
		assert_true(fx_event(f, DDR_EV_BUG) >= 0);
		assert_int_equal(f->log[fx_kernel(f, DDR_U_RESOLVE)].rec.arg[0], DDR_RES_FAIL);
		assert_int_equal(f->n, 2);
		fx_forget(f);
	}
	assert_int_equal(fx_status(f).member_state[0], DDR_MEMBER_IN_SYNC);
}

static void mismatches_outside_of_the_array(void **state)
{
	struct fx *f = *state;
	static const struct { uint64_t start, count; } bad[] = { { 4096, 1 }, { 0, 0 }, { 0, 513 }, { 4095, 2 }, { UINT64_MAX, 2 } };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		fx_record(f, (struct ddr_rec){ .type = DDR_K_MISMATCH, .seq = 77, .start = bad[i].start, .count = bad[i].count });
		assert_true(fx_event(f, DDR_EV_BUG) >= 0);
		assert_int_equal(f->log[fx_kernel(f, DDR_U_RESOLVE)].rec.arg[0], DDR_RES_FAIL);
		assert_int_equal(f->n, 2);
		fx_forget(f);
	}
}

static void a_declaration_that_is_not_complete(void **state)
{
	struct fx *f = *state;
	struct ddr_input in = { .type = DDR_IN_K_ATTACHED, .cookie = 8, .members = 0xffff, .count = f->sb.array_blocks };

	fx_step(f, &in);
	fx_forget(f);
	fx_record(f, (struct ddr_rec){ .type = DDR_K_LOCK, .start = 1, .count = 1 });
	assert_bug_and_nothing_else(f);
	fx_record(f, (struct ddr_rec){ .type = DDR_K_HELD_END, .count = 3 });
	assert_bug_and_nothing_else(f);
	assert_false(fx_status(f).attached);
}

static void views_that_cannot_be(void **state)
{
	struct fx *f = *state;
	struct ddr_input in = { .type = DDR_IN_VIEW, .quorate = true, .ring = 2 };

	for (int i = 0; i < 5; i++) {
		in.n_nodes = i == 0 ? 0 : i == 1 ? DDR_SM_MAX_NODES + 1 : 2;
		in.nodes[0] = i == 4 ? 5 : 1;
		in.nodes[1] = i == 2 ? 0 : i == 3 ? 1 : 6;
		fx_step(f, &in);
		assert_true(fx_event(f, DDR_EV_BUG) >= 0);
		assert_false(fx_status(f).quorate);
		fx_forget(f);
	}
}

static void time_does_not_go_backwards(void **state)
{
	struct fx *f = *state;

	fx_tick(f, 5000);
	fx_forget(f);
	fx_tick(f, 4999);
	assert_true(fx_event(f, DDR_EV_BUG) >= 0);
}

static void settings_out_of_range(void **state)
{
	struct fx *f = *state;
	static const struct { uint32_t key; uint64_t value; } bad[] = {
		{ DDR_SM_IDLE_MS, 0 }, { DDR_SM_IDLE_MS, UINT64_MAX }, { DDR_SM_RESYNC_PARALLEL, 0 },
		{ DDR_SM_RESYNC_PARALLEL, 9 }, { 99, 1 },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct ddr_input in = { .type = DDR_IN_OP_SET, .key = bad[i].key, .value = bad[i].value };

		fx_step(f, &in);
		assert_bug_and_nothing_else(f);
	}
}

/* ---- messages ------------------------------------------------------------------ */

static void give(struct fx *f, struct ddr_msg *m, uint32_t node)
{
	uint8_t buf[DDR_MSG_MAX];
	size_t len = ddr_msg_encode(m, buf, sizeof(buf));

	assert_true(len > 0);
	fx_message(f, node, buf, (uint32_t)len);
}

static struct ddr_msg valid(const struct fx *f, enum ddr_msg_type type)
{
	struct ddr_msg m = { .type = type, .sender = 1, .ring = 1 };

	memcpy(m.uuid, f->sb.array_uuid, sizeof(m.uuid));
	return m;
}

static void messages_of_others(void **state)
{
	struct fx *f = *state;
	struct ddr_msg m = valid(f, DDR_M_MEMBER_FAIL);

	m.fail.hard = 1;
	m.ring = 2;			/* of another ring */
	give(f, &m, 1);
	assert_bug_and_nothing_else(f);
	m.ring = 1;
	m.sender = 2;			/* of a node outside of the view */
	give(f, &m, 2);
	assert_bug_and_nothing_else(f);
	give(f, &m, 1);			/* in the name of another */
	assert_bug_and_nothing_else(f);
	m.sender = 1;
	m.uuid[5] ^= 1;			/* of another array */
	give(f, &m, 1);
	assert_bug_and_nothing_else(f);
	fx_message(f, 1, (const uint8_t *)"hello", 5);
	assert_bug_and_nothing_else(f);
	fx_message(f, 1, NULL, 0);
	assert_bug_and_nothing_else(f);
	assert_int_equal(fx_status(f).member_state[0], DDR_MEMBER_IN_SYNC);
}

static void messages_that_make_no_sense(void **state)
{
	struct fx *f = *state;
	struct ddr_msg m = valid(f, DDR_M_MEMBER_FAIL);

	m.fail.soft = 1u << 7;		/* no such member */
	give(f, &m, 1);
	assert_bug_and_nothing_else(f);
	m = valid(f, DDR_M_MEMBER_DONE);
	m.done.generation = 50;
	m.done.seq = 50;
	m.done.faulty = 1;
	give(f, &m, 1);
	assert_bug_and_nothing_else(f);
	m = valid(f, DDR_M_MEMBER_ACK);
	give(f, &m, 1);
	assert_bug_and_nothing_else(f);
	m = valid(f, DDR_M_EX_REQUEST);
	m.ex.mode = DDR_EX_RANGE;
	m.ex.start = 4096;
	m.ex.count = 1;
	give(f, &m, 1);
	assert_bug_and_nothing_else(f);
	m.ex.start = 4095;
	m.ex.count = 2;
	give(f, &m, 1);
	assert_bug_and_nothing_else(f);
	m = valid(f, DDR_M_EX_RELEASE);
	give(f, &m, 1);
	assert_bug_and_nothing_else(f);
	m = valid(f, DDR_M_MAP_SET);
	m.map_set.n = 1;
	m.map_set.run[0] = (struct ddr_msg_map_run){ 15, 2, DDR_MAP_OP_CLEAN };
	give(f, &m, 1);
	assert_bug_and_nothing_else(f);
	m.map_set.run[0] = (struct ddr_msg_map_run){ UINT32_MAX, UINT32_MAX, DDR_MAP_OP_CLEAN };
	give(f, &m, 1);
	assert_bug_and_nothing_else(f);
	m = valid(f, DDR_M_MAP_DONE);
	m.map_done.n = 1;
	m.map_done.block[0] = (struct ddr_msg_map_done){ 1, 1 };
	give(f, &m, 1);
	assert_bug_and_nothing_else(f);
	m.map_done.block[0] = (struct ddr_msg_map_done){ 0, 1000 };
	give(f, &m, 1);
	assert_bug_and_nothing_else(f);
}

/* ---- everything at random ------------------------------------------------------ */

static struct ddr_rec random_record(uint64_t *rng)
{
	static const int32_t numbers[] = { 0, 1, 2, 3, 5, 15, 16, 17, -1, -5, 4096 };
	struct ddr_rec rec;

#define PICK ((uint64_t)(int64_t)numbers[rig_random(rng) % 11])
	rec.type = (uint32_t)(16 + rig_random(rng) % 12);
	rec.flags = (uint32_t)(rig_random(rng) % 16);
	rec.seq = PICK;
	rec.start = PICK;
	rec.count = PICK;
	rec.status = (int32_t)PICK;
	rec.member = (uint32_t)PICK;
	for (int i = 0; i < 3; i++)
		rec.arg[i] = PICK;
	return rec;
}

static void random_message(struct fx *f, uint64_t *rng, struct ddr_msg *m)
{
	static const uint16_t types[] = { 1, 16, 17, 18, 32, 33, 34, 48, 49 };

	*m = valid(f, (enum ddr_msg_type)types[rig_random(rng) % 9]);
	m->sender = 1 + (uint32_t)(rig_random(rng) % 2);
	m->ring = 5;
	for (size_t i = 0; i < sizeof(m->map_set); i++)
		((uint8_t *)&m->map_set)[i] = rig_random(rng) % 3 ? 0 : (uint8_t)(rig_random(rng) % 9);
	if (m->type == DDR_M_EX_REQUEST)
		m->ex.mode = DDR_EX_RANGE;
}

static void random_step(struct fx *f, uint64_t *rng)
{
	struct ddr_input in = { .type = (enum ddr_in_type)(rig_random(rng) % 19), .node = 1 + (uint32_t)(rig_random(rng) % 3),
				.n_nodes = 1 + (uint32_t)(rig_random(rng) % 2), .ring = 5, .cookie = rig_random(rng) % 3,
				.io = rig_random(rng) % 64 << 16, .failed_members = (uint32_t)(rig_random(rng) % 256),
				.result = (int32_t)(rig_random(rng) % 3) - 1, .member = (uint32_t)(rig_random(rng) % 9),
				.key = (uint32_t)(rig_random(rng) % 5), .value = rig_random(rng) % 3,
				.start = rig_random(rng) % 20, .count = rig_random(rng) % 20, .quorate = rig_random(rng) % 4 != 0 };
	uint8_t buf[DDR_MSG_MAX];
	struct ddr_msg m;

	in.nodes[0] = 1;
	in.nodes[1] = 2;
	in.now_ms = fx_status(f).mcasts * 10;
	in.rec = random_record(rng);
	if (in.type == DDR_IN_MSG && rig_random(rng) % 2) {
		random_message(f, rng, &m);
		in.node = m.sender;
		in.msg_len = (uint32_t)ddr_msg_encode(&m, buf, sizeof(buf));
		in.msg = buf;
	} else if (in.type == DDR_IN_MSG) {
		in.msg_len = (uint32_t)(rig_random(rng) % sizeof(buf));
		for (uint32_t i = 0; i < in.msg_len; i++)
			buf[i] = (uint8_t)rig_random(rng);
		in.msg = buf;
	}
	fx_step(f, &in);
}

/* A malfunctioning kernel, group and driver: nonsense between valid answers. */
static void nonsense_is_survived(void **state)
{
	struct fx *f = *state;

	for (uint64_t seed = 0; seed < 60; seed++) {
		uint64_t rng = seed;

		fx_down(f);
		fx_up(f, &fx_six);
		for (int i = 0; i < 400; i++) {
			if (f->n > FX_MAX / 2)
				fx_forget(f);
			random_step(f, &rng);
			if (rig_random(&rng) % 3 == 0 && !fx_status(f).gave_up)
				fx_settle(f);
		}
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, fx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(regions_that_do_not_exist), TEST(answers_to_nothing), TEST(a_second_end_of_the_same_write),
		TEST(grants_that_the_kernel_does_not_have), TEST(errors_of_unknown_members_and_classes),
		TEST(mismatches_outside_of_the_array), TEST(a_declaration_that_is_not_complete), TEST(views_that_cannot_be),
		TEST(time_does_not_go_backwards), TEST(settings_out_of_range), TEST(messages_of_others),
		TEST(messages_that_make_no_sense), TEST(nonsense_is_survived),
	};

	return cmocka_run_group_tests_name("hostile input (rule 10)", tests, NULL, NULL);
}
