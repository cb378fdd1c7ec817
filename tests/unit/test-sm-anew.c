// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What START says of missing members: the driver has looked for them, and not long ago. Otherwise the array is loaded again (DDR_OUT_ANEW), and nobody is
 * told anything.
 */
#include "tests/unit/sm-cluster.h"

#define LATE	2u	/* the member whose disk node 2 did not find when it loaded the array */
#define OTHER	4u	/* members that have failed since */

static struct cx *make(void)
{
	struct cx *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	cx_make(c, 2, true);
	c->node[1].cfg.present &= ~(1u << LATE);
	return c;
}

static void down(struct cx *c)
{
	cx_down(c);
	free(c);
}

static void state_of(struct cx *c, uint32_t m, uint8_t state)
{
	c->sb.member[m].state = state;
	c->sb.member[m].since = ++c->sb.generation;
	memcpy(c->sb.gen_prev, c->sb.gen_id, sizeof(c->sb.gen_prev));
	c->sb.gen_id[0]++;
	c->sb.seq += 2;
}

/* The other node had the array, and has left it: node 2 alone has quorum. */
static void alone(struct cx *c)
{
	cx_view(c, 2, 2, true);
	cx_settle(c);
}

static bool asks(const struct cx *c)
{
	const struct cx_node *n = &c->node[1];
	bool anew = cx_find(n, DDR_OUT_ANEW, 0) >= 0;

	if (anew) {
		assert_int_equal(cx_find(n, DDR_OUT_SB_WRITE, 0), -1);
		assert_int_equal(cx_event(n, DDR_EV_FAILED), -1);
		assert_false(cx_status(n).joined);
	}
	return anew;
}

/*
 * The member was out when node 2 loaded the array, and its disk was not waited for. Node 1 has rebuilt it since, and two others have failed: without it there
 * would be too few, and they are there.
 */
static void a_member_that_came_back_since_is_looked_for(void **state)
{
	struct cx *c = make();

	(void)state;
	state_of(c, LATE, DDR_MEMBER_FAULTY);
	cx_start(c, 1, 0, 0);
	state_of(c, LATE, DDR_MEMBER_IN_SYNC);
	state_of(c, OTHER, DDR_MEMBER_FAULTY);
	state_of(c, OTHER + 1, DDR_MEMBER_FAULTY);
	alone(c);
	assert_true(asks(c));
	cx_tick(c, 100);
	assert_int_equal(c->sb.generation, 5);		/* nothing more comes of it */
	c->node[1].cfg.present |= 1u << LATE;
	cx_start(c, 1, 0, 0);
	alone(c);
	assert_false(asks(c));
	assert_true(cx_status(&c->node[1]).ready);
	assert_int_equal(c->sb.member[LATE].state, DDR_MEMBER_IN_SYNC);
	down(c);
}

/* Another disk is in the place of the one that was in use then. */
static void a_disk_that_took_its_place_is_looked_for(void **state)
{
	struct cx *c = make();

	(void)state;
	cx_start(c, 1, 0, 0);
	c->sb.member[LATE].uuid[0] ^= 0xff;
	state_of(c, LATE, DDR_MEMBER_IN_SYNC);
	alone(c);
	assert_true(asks(c));
	down(c);
}

/* The second load has found the same superblocks: it does not see the disks that the newest ones are on. No third one follows. */
static void disks_that_are_not_seen_are_no_missing_members(void **state)
{
	struct cx *c = make();

	(void)state;
	state_of(c, LATE, DDR_MEMBER_FAULTY);
	c->node[1].cfg.again = true;
	cx_start(c, 1, 0, 0);
	state_of(c, LATE, DDR_MEMBER_IN_SYNC);
	alone(c);
	assert_false(asks(c));
	assert_true(cx_find(&c->node[1], DDR_OUT_GIVE_UP, 0) >= 0);
	assert_int_equal(cx_find(&c->node[1], DDR_OUT_SB_WRITE, 0), -1);
	down(c);
}

/* One that was in use and not there: it is missing, if that was seen just now. */
static void a_member_that_is_not_there_is_missing(void **state)
{
	struct cx *c = make();

	(void)state;
	cx_start(c, 1, 0, 0);
	cx_tick(c, 9000);
	alone(c);
	assert_false(asks(c));
	assert_true(cx_status(&c->node[1]).ready);
	assert_int_equal(c->sb.member[LATE].state, DDR_MEMBER_MISSING);
	down(c);
}

/* The node had to wait for quorum, and the disk may have come meanwhile. It is looked for once more, and not for ever. */
static void a_member_is_looked_for_again_after_a_wait(void **state)
{
	struct cx *c = make();

	(void)state;
	cx_start(c, 1, 0, 0);
	cx_tick(c, 60000);
	alone(c);
	assert_true(asks(c));
	c->node[1].cfg.again = true;
	cx_start(c, 1, 0, 0);
	cx_tick(c, 60000);
	alone(c);
	assert_false(asks(c));
	assert_true(cx_status(&c->node[1]).ready);
	assert_int_equal(c->sb.member[LATE].state, DDR_MEMBER_MISSING);
	down(c);
}

static void without_missing_members_nothing_is_loaded_again(void **state)
{
	struct cx *c = make();

	(void)state;
	c->node[1].cfg.present |= 1u << LATE;
	cx_start(c, 1, 0, 0);
	state_of(c, OTHER, DDR_MEMBER_FAULTY);
	cx_tick(c, 60000);
	alone(c);
	assert_false(asks(c));
	assert_true(cx_status(&c->node[1]).ready);
	down(c);
}

/* --older was given for this load. */
static void what_the_operator_said_of_this_load_stays(void **state)
{
	struct cx *c = make();

	(void)state;
	c->node[1].cfg.behind = 9;
	cx_start(c, 1, 0, 0);
	cx_tick(c, 60000);
	alone(c);
	assert_false(asks(c));
	assert_true(cx_status(&c->node[1]).ready);
	down(c);
}

/* From its first START on this node may know what no disk says: it keeps that, whatever becomes of the START. */
static void a_start_that_was_said_is_said_again(void **state)
{
	struct cx *c = make();

	(void)state;
	cx_start(c, 1, 0, 0);
	c->answers = CX_IO | CX_KERNEL;
	cx_view(c, 2, 2, true);
	cx_settle(c);
	assert_true(cx_deliver(c, &c->node[1], NULL));		/* its hello */
	cx_settle(c);
	assert_int_equal(c->node[1].n_queue, 1);		/* START, which the next ring drops */
	c->answers = CX_ALL;
	cx_tick(c, 0);
	cx_view(c, 2, 2, true);
	cx_tick(c, 60000);
	cx_settle(c);
	assert_false(asks(c));
	assert_int_equal(c->sb.member[LATE].state, DDR_MEMBER_MISSING);
	down(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_member_that_came_back_since_is_looked_for),
		cmocka_unit_test(a_disk_that_took_its_place_is_looked_for),
		cmocka_unit_test(disks_that_are_not_seen_are_no_missing_members),
		cmocka_unit_test(a_member_that_is_not_there_is_missing),
		cmocka_unit_test(a_member_is_looked_for_again_after_a_wait),
		cmocka_unit_test(without_missing_members_nothing_is_loaded_again),
		cmocka_unit_test(what_the_operator_said_of_this_load_stays),
		cmocka_unit_test(a_start_that_was_said_is_said_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
