// SPDX-License-Identifier: GPL-2.0-or-later
/* The array grows: which members have room, in what order members, superblocks and tables get the new size, and what is refused. */
#include <errno.h>

#include "lib/disk/layout.h"
#include "sm-cluster.h"

#define BEFORE	1024u	/* blocks */
#define AFTER	1500u	/* a little less than there is room for */

static int setup(void **state)
{
	return cx_setup(state, 2);
}

/* The size of a disk with room for @blocks blocks and the usual free space. */
static uint64_t bytes_for(const struct cx *c, uint64_t blocks)
{
	uint64_t bytes = c->sb.data_offset + DDR_TAIL_BYTES + blocks * c->sb.chunk;

	return bytes + bytes / 99 + 1;
}

static void rooms(struct cx *c, uint64_t one, uint64_t two)
{
	c->node[0].room = bytes_for(c, one);
	c->node[1].room = bytes_for(c, two);
	c->node[2].room = bytes_for(c, one);
}

static void grow(struct cx *c, uint32_t i, uint64_t blocks)
{
	struct ddr_input in = { .type = DDR_IN_OP_GROW, .count = blocks };

	cx_step(c, &c->node[i], &in);
	cx_settle(c);
}

static const struct ddr_output *event(const struct cx *c, uint32_t i, enum ddr_event event)
{
	int at = cx_event(&c->node[i], event);

	return at < 0 ? NULL : &c->node[i].log[at];
}

/* The kernel of the node has a table of @blocks blocks, and its daemon is bound again. */
static void table(struct cx *c, uint32_t i, uint64_t blocks)
{
	struct ddr_input in = { .type = DDR_IN_K_ATTACHED, .cookie = 7, .boot_id[0] = 1, .members = c->node[i].cfg.present, .count = blocks };

	cx_step(c, &c->node[i], &in);
	cx_record(c, i, (struct ddr_rec){ .type = DDR_K_HELD_END });
	cx_settle(c);
}

static void the_array_grows_when_all_nodes_see_the_room(void **state)
{
	struct cx *c = *state;
	const struct ddr_output *o;

	rooms(c, 1504, AFTER);
	cx_forget(c);
	grow(c, 1, 0);
	o = event(c, 0, DDR_EV_GROWN);
	assert_non_null(o);
	assert_int_equal(o->a, BEFORE);
	assert_int_equal(o->b, AFTER);	/* the size of the node with less room */
	assert_non_null(event(c, 1, DDR_EV_GROWN));
	assert_int_equal(c->sb.array_blocks, AFTER);
	assert_int_equal(c->sb.log_base, c->sb.generation);
	assert_int_equal(cx_status(&c->node[1]).regions, 6);
	/* members are prepared for the new part before the superblocks have the new size; one node does it */
	assert_true(cx_find(&c->node[0], DDR_OUT_PREPARE, 0) < cx_find(&c->node[0], DDR_OUT_SB_WRITE, 0));
	o = &c->node[0].log[cx_find(&c->node[0], DDR_OUT_PREPARE, 0)];
	assert_int_equal(o->start, BEFORE);
	assert_int_equal(o->count, AFTER - BEFORE);
	assert_int_equal(cx_find(&c->node[1], DDR_OUT_PREPARE, 0), -1);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(c->node[i].log[cx_find(&c->node[i], DDR_OUT_RESIZE, 0)].count, AFTER);
}

/* Both operators request the same: when the second request is delivered the array already has that size, and no device is blamed. */
static void a_second_grow_request_hears_that_it_is_done(void **state)
{
	struct cx *c = *state;
	struct cx_message later[2];
	const struct ddr_output *o;

	rooms(c, 1504, 1504);
	cx_forget(c);
	c->answers = 0;
	cx_step(c, &c->node[0], &(struct ddr_input){ .type = DDR_IN_OP_GROW, .count = AFTER });
	cx_step(c, &c->node[1], &(struct ddr_input){ .type = DDR_IN_OP_GROW, .count = AFTER });
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(c->node[i].n_queue, 2);
		later[i] = c->node[i].queue[--c->node[i].n_queue];
	}
	c->answers = CX_ALL;
	cx_settle(c);
	assert_int_equal(c->sb.array_blocks, AFTER);
	assert_null(event(c, 1, DDR_EV_GROW_REFUSED));
	for (uint32_t i = 0; i < 2; i++)
		c->node[i].queue[c->node[i].n_queue++] = later[i];
	cx_settle(c);
	o = event(c, 1, DDR_EV_GROW_REFUSED);
	assert_non_null(o);
	assert_non_null(strstr(o->text, "already has that size"));
	assert_null(event(c, 0, DDR_EV_GROW_REFUSED));
}

/* Until its table is longer, a kernel is told of nothing beyond its table; then it is told of everything. */
static void a_shorter_table_gets_only_records_within_its_length(void **state)
{
	struct cx *c = *state;

	rooms(c, AFTER, AFTER);
	grow(c, 0, 0);
	table(c, 0, AFTER);
	cx_forget(c);
	table(c, 1, BEFORE);
	assert_int_equal(c->node[1].log[cx_find(&c->node[1], DDR_OUT_KERNEL, DDR_U_BITS)].rec.count, 4);
	assert_int_equal(c->node[1].log[cx_find(&c->node[1], DDR_OUT_KERNEL, DDR_U_STATUS)].rec.arg[1], 4);
	assert_int_equal(c->node[1].log[cx_find(&c->node[1], DDR_OUT_RESIZE, 0)].count, AFTER);	/* asked for again */
	/* the other node writes there and dies, and its writes are resynced here, where the kernel has no such blocks to drain */
	cx_record(c, 0, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 9, .start = 5, .count = 1 });
	cx_settle(c);
	assert_true(cx_find(&c->node[0], DDR_OUT_KERNEL, DDR_U_GRANT) >= 0);
	cx_kill(c, 0);
	c->answers |= CX_FENCE;
	cx_forget(c);
	cx_view(c, 2, 2, true);
	cx_settle(c);
	cx_tick(c, 1000);
	cx_tick(c, 1000);
	assert_int_equal(c->node[1].log[cx_find(&c->node[1], DDR_OUT_JOB_RANGE, 0)].start, 5 * 256);
	assert_int_equal(cx_find(&c->node[1], DDR_OUT_KERNEL, DDR_U_DRAIN), -1);
	assert_int_equal(cx_status(&c->node[1]).resync_regions, 0);
	cx_forget(c);
	table(c, 1, AFTER);
	assert_int_equal(c->node[1].log[cx_find(&c->node[1], DDR_OUT_KERNEL, DDR_U_BITS)].rec.count, 6);
}

/* No kernel may address the new blocks before the other node has acknowledged them. */
static void no_table_before_all_have_acknowledged(void **state)
{
	struct cx *c = *state;
	int done = -1;

	rooms(c, AFTER, AFTER);
	cx_forget(c);
	c->answers = CX_IO | CX_KERNEL;
	grow(c, 0, 0);
	for (int i = 0; i < 100 && done < 0; i++) {
		if (!cx_deliver(c, &c->node[0], NULL))
			cx_deliver(c, &c->node[1], NULL);
		cx_settle(c);
		done = cx_event(&c->node[0], DDR_EV_GROWN);
	}
	assert_true(done >= 0);
	while (cx_deliver(c, &c->node[0], NULL))
		cx_settle(c);
	assert_null(event(c, 1, DDR_EV_GROWN));
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_RESIZE, 0), -1);
	c->answers = CX_ALL;
	cx_settle(c);
	assert_true(cx_find(&c->node[0], DDR_OUT_RESIZE, 0) >= 0);
}

static void the_node_and_member_without_room_are_named(void **state)
{
	struct cx *c = *state;
	uint64_t generation = c->sb.generation;
	const struct ddr_output *o;

	rooms(c, AFTER, BEFORE);
	cx_forget(c);
	for (uint32_t blocks = 0; blocks <= AFTER; blocks += AFTER) {
		cx_forget(c);
		grow(c, 0, blocks);
		o = event(c, 0, DDR_EV_GROW_REFUSED);
		assert_non_null(o);
		assert_int_equal(o->b, 2);
		assert_int_equal(o->a, ddr_layout_offered(bytes_for(c, BEFORE)));
		assert_int_equal(o->count, blocks);
		assert_int_equal(o->member, 1);
		assert_null(event(c, 1, DDR_EV_GROW_REFUSED));	/* no node was asked there */
	}
	assert_int_equal(c->sb.generation, generation);
	assert_int_equal(c->sb.array_blocks, BEFORE);
	rooms(c, AFTER, AFTER);		/* looked at again */
	grow(c, 0, 1200);
	assert_int_equal(c->sb.array_blocks, 1200);
}

/*
 * Finding S14: a replacement disk that was a few sectors smaller could not be used. The space that create leaves free for such disks
 * is not used by grow; and a member that is smaller by that much does not prevent a start.
 */
static void space_that_create_left_free_stays_free(void **state)
{
	struct cx *c = *state;
	uint64_t disk = bytes_for(c, BEFORE), used = c->sb.data_offset + DDR_TAIL_BYTES + BEFORE * c->sb.chunk;

	assert_true(disk - used >= 4 * c->sb.chunk);
	for (uint32_t i = 0; i < 3; i++)
		c->node[i].room = disk;
	for (uint64_t blocks = 0; blocks <= BEFORE + 4; blocks += BEFORE + 4) {
		cx_forget(c);
		grow(c, 0, blocks);
		assert_non_null(event(c, 0, DDR_EV_GROW_REFUSED));
		assert_int_equal(c->sb.array_blocks, BEFORE);
	}
	for (uint32_t i = 0; i < 3; i++)
		c->node[i].room = used;
	table(c, 1, BEFORE);
	assert_true(cx_status(&c->node[1]).ready);
	cx_forget(c);
	grow(c, 0, 0);
	assert_non_null(event(c, 0, DDR_EV_GROW_REFUSED));
	assert_int_equal(c->sb.array_blocks, BEFORE);
}

static void sizes_that_cannot_be(void **state)
{
	struct cx *c = *state;
	static const uint64_t sizes[] = { 1, BEFORE - 4, BEFORE, BEFORE + 1, 1ull << 40 };

	rooms(c, AFTER, AFTER);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		cx_forget(c);
		grow(c, 0, sizes[i]);
		assert_int_equal(event(c, 0, DDR_EV_REFUSED)->a, EINVAL);
		assert_int_equal(cx_find(&c->node[0], DDR_OUT_MCAST, 0), -1);
	}
}

static void a_degraded_array_does_not_grow(void **state)
{
	struct cx *c = *state;

	rooms(c, AFTER, AFTER);
	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = 5, .member = 3, .status = DDR_EC_IO, .arg[0] = DDR_OP_WRITE });
	cx_settle(c);
	cx_forget(c);
	grow(c, 0, 0);
	assert_int_equal(event(c, 0, DDR_EV_GROW_REFUSED)->b, 0);
	assert_int_equal(c->sb.array_blocks, BEFORE);
}

/* A member that cannot be prepared is failed by the superblocks that have the new size, and cannot be called back by its dirty regions. */
static void a_member_that_cannot_be_prepared_fails(void **state)
{
	struct cx *c = *state;

	rooms(c, AFTER, AFTER);
	c->unprepared = 1u << 2;
	grow(c, 0, 0);
	assert_int_equal(c->sb.array_blocks, AFTER);
	assert_int_equal(c->sb.member[2].state, DDR_MEMBER_FAULTY);
	assert_true(c->sb.member[2].since <= c->sb.log_base);
}

/* One member hangs, and for others the preparation could not even begin: that they are not prepared must not be forgotten. */
static void a_preparation_that_could_not_begin_is_retried(void **state)
{
	struct cx *c = *state;

	rooms(c, AFTER, AFTER);
	c->unprepared = 1u << 2;
	c->unbegun = -12;
	grow(c, 0, 0);
	assert_int_equal(c->sb.array_blocks, BEFORE);
	assert_true(cx_find(&c->node[0], DDR_OUT_PREPARE, 0) >= 0);
	c->unprepared = 0;
	c->unbegun = 0;
	cx_forget(c);
	for (uint32_t i = 0; i < 10; i++)
		cx_tick(c, 1000);
	assert_true(cx_find(&c->node[0], DDR_OUT_PREPARE, 0) >= 0);
	assert_int_equal(c->sb.array_blocks, AFTER);
}

/* Up to the moment in which the writer, the first node, prepares the members for the larger array that the other one asked for. */
static void members_are_prepared(struct cx *c)
{
	rooms(c, AFTER, AFTER);
	c->answers = CX_MSG | CX_KERNEL;
	grow(c, 1, 0);
	for (uint32_t i = 0; i < 2; i++)
		cx_done(c, &c->node[i], cx_open(&c->node[i], DDR_OUT_ROOM));
	cx_settle(c);
	cx_open(&c->node[0], DDR_OUT_PREPARE);
}

/* The writer dies when members are prepared: the next one prepares them, and the array has grown. */
static void the_next_writer_goes_on(void **state)
{
	struct cx *c = *state;

	members_are_prepared(c);
	c->answers = CX_ALL | CX_FENCE;
	cx_kill(c, 0);
	cx_view(c, 2, 2, true);
	cx_settle(c);
	cx_tick(c, 1000);
	cx_tick(c, 1000);
	assert_true(cx_find(&c->node[1], DDR_OUT_PREPARE, 0) >= 0);
	assert_int_equal(c->sb.array_blocks, AFTER);
	assert_non_null(event(c, 1, DDR_EV_GROWN));
}

/* The writer's daemon then dies, and is back before its node is fenced: the change waits for it, and it must not wait for the change. */
static void a_grow_continues_after_the_writers_daemon_restarted(void **state)
{
	struct cx *c = *state;

	members_are_prepared(c);
	c->answers = CX_ALL;
	cx_kill(c, 0);
	cx_view(c, 2, 3, true);
	cx_settle(c);
	assert_int_equal(c->sb.array_blocks, BEFORE);
	cx_start(c, 0, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	cx_tick(c, 1000);
	cx_tick(c, 1000);
	assert_true(cx_status(&c->node[0]).joined);
	assert_int_equal(c->sb.array_blocks, AFTER);
	assert_non_null(event(c, 0, DDR_EV_GROWN));
	assert_non_null(event(c, 1, DDR_EV_GROWN));
}

/* One that loaded the superblocks before the array grew looks at its devices again, before it takes part. */
static void joins_with(struct cx *c, uint64_t room, bool takes_part)
{
	rooms(c, AFTER, AFTER);
	c->node[2].cfg = c->node[1].cfg;
	c->node[2].cfg.node = 3;
	c->node[2].cookie = 7;
	cx_start(c, 2, 0, 0);
	grow(c, 0, 0);
	c->node[2].room = bytes_for(c, room);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	cx_tick(c, 100);
	assert_int_equal(cx_find(&c->node[2], DDR_OUT_GIVE_UP, 0) >= 0, !takes_part);
	if (takes_part) {
		assert_true(cx_status(&c->node[2]).joined);
		assert_int_equal(c->node[2].log[cx_find(&c->node[2], DDR_OUT_RESIZE, 0)].count, AFTER);
	}
}

static void a_joining_node_with_room_lets_the_array_grow(void **state)
{
	joins_with(*state, AFTER, true);
}

static void a_joining_node_without_room_does_not_start(void **state)
{
	joins_with(*state, BEFORE, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, cx_teardown)
		TEST(the_array_grows_when_all_nodes_see_the_room), TEST(a_second_grow_request_hears_that_it_is_done), TEST(a_shorter_table_gets_only_records_within_its_length), TEST(no_table_before_all_have_acknowledged),
		TEST(the_node_and_member_without_room_are_named), TEST(space_that_create_left_free_stays_free), TEST(sizes_that_cannot_be), TEST(a_degraded_array_does_not_grow), TEST(a_member_that_cannot_be_prepared_fails), TEST(a_preparation_that_could_not_begin_is_retried),
		TEST(the_next_writer_goes_on), TEST(a_grow_continues_after_the_writers_daemon_restarted), TEST(a_joining_node_with_room_lets_the_array_grow), TEST(a_joining_node_without_room_does_not_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
