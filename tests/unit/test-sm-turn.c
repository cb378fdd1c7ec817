// SPDX-License-Identifier: GPL-2.0-or-later
/* All places for exclusive ranges are taken: a node that is refused stands in a queue, and sends nothing until its turn. */
#include "sm-cluster.h"

#define PLACES	128u

static uint32_t epoch;		/* of the agreed view */

/* Two nodes take part. The process of node 2 is gone, and the group does not know it yet: the test sends what node 2 says. */
static int setup(void **state)
{
	int ret = cx_setup(state, 2);
	struct cx *c = *state;
	struct ddr_msg m;

	for (uint32_t i = 0; i < c->node[0].n; i++)
		if (c->node[0].log[i].type == DDR_OUT_MCAST && !ddr_msg_decode(c->node[0].log[i].msg, c->node[0].log[i].msg_len, &m))
			epoch = m.epoch;
	cx_kill(c, 1);
	cx_forget(c);
	return ret;
}

static void from_other(struct cx *c, struct ddr_msg *m)
{
	uint8_t buf[DDR_MSG_MAX];
	struct ddr_input in = { .type = DDR_IN_MSG, .node = 2, .msg = buf };

	m->sender = 2;
	m->ring = c->ring;
	m->epoch = epoch;
	memcpy(m->uuid, c->sb.array_uuid, sizeof(m->uuid));
	in.msg_len = (uint32_t)ddr_msg_encode(m, buf, sizeof(buf));
	assert_true(in.msg_len > 0);
	cx_step(c, &c->node[0], &in);
	cx_settle(c);
}

static void other_asks(struct cx *c, uint32_t id)
{
	struct ddr_msg m = { .type = DDR_M_EX_REQUEST };

	m.ex.id = id;
	m.ex.mode = DDR_EX_RANGE;
	m.ex.job = DDR_KA_RESYNC;
	m.ex.start = 256 + id % 700;
	m.ex.count = 1;
	from_other(c, &m);
}

static void other_releases(struct cx *c, uint32_t id)
{
	struct ddr_msg m = { .type = DDR_M_EX_RELEASE };

	m.ex_release.id = id;
	from_other(c, &m);
}

/* How often we have asked. */
static uint32_t asked(const struct cx *c)
{
	const struct cx_node *us = &c->node[0];
	uint32_t n = 0;
	struct ddr_msg m;

	for (uint32_t i = 0; i < us->n; i++)
		n += us->log[i].type == DDR_OUT_MCAST && !ddr_msg_decode(us->log[i].msg, us->log[i].msg_len, &m) && m.type == DDR_M_EX_REQUEST;
	return n;
}

/* Our messages that are on their way are delivered. */
static void deliver(struct cx *c)
{
	for (uint32_t n = c->node[0].n_queue; n; n--)
		cx_deliver(c, &c->node[0], NULL);
	cx_settle(c);
}

static bool ours_in_force(const struct cx *c)
{
	const struct cx_node *us = &c->node[0];

	for (uint32_t i = 0; i < us->n; i++)
		if (us->log[i].type == DDR_OUT_KERNEL && us->log[i].rec.type == DDR_U_DRAIN && us->log[i].rec.start < 256)
			return true;
	return false;
}

/* Writes to these regions fail: each needs a range for its resync. */
static void want_resync(struct cx *c, uint64_t start, uint64_t count)
{
	struct ddr_rec rec = { .type = DDR_K_LOCK, .seq = 900, .start = start, .count = count };

	cx_record(c, 0, rec);
	cx_settle(c);
	cx_forget(c);
	c->answers = CX_IO;
	rec.type = DDR_K_CLOSED;
	rec.status = -5;
	cx_record(c, 0, rec);
	cx_settle(c);
}

/* Node 2 has all places, and we want one. */
static void all_taken(struct cx *c)
{
	for (uint32_t id = 1; id <= PLACES; id++)
		other_asks(c, id);
	want_resync(c, 0, 1);
	assert_int_equal(asked(c), 1);
}

/* Finding U7: a refused request is not sent again at once, nor after some time, but when a place is free. */
static void a_refused_request_waits_for_a_free_place(void **state)
{
	struct cx *c = *state;

	all_taken(c);
	for (int i = 0; i < 20; i++) {
		deliver(c);
		cx_tick(c, 100);
	}
	assert_int_equal(asked(c), 1);
	other_releases(c, 7);
	assert_int_equal(asked(c), 2);
	deliver(c);
	assert_true(ours_in_force(c));
}

/* Finding U7: the queue follows the total order: the node that was refused first is first. */
static void the_node_refused_first_asks_first(void **state)
{
	struct cx *c = *state;

	all_taken(c);
	other_asks(c, 1000);		/* refused, before ours is delivered */
	deliver(c);
	other_releases(c, 7);
	assert_int_equal(asked(c), 1);	/* this one is node 2's */
	other_asks(c, 1000);
	assert_int_equal(asked(c), 1);
	other_releases(c, 8);
	assert_int_equal(asked(c), 2);
	deliver(c);
	assert_true(ours_in_force(c));
}

/* If the first in the queue does not want a range any more, it is not waited for. */
static void a_queued_node_that_no_longer_asks_is_skipped(void **state)
{
	struct cx *c = *state;

	all_taken(c);
	other_asks(c, 1000);
	deliver(c);
	other_releases(c, 7);
	cx_tick(c, 900);
	assert_int_equal(asked(c), 1);
	cx_tick(c, 200);
	assert_int_equal(asked(c), 2);
	deliver(c);
	assert_true(ours_in_force(c));
}

/* The ring changes, and node 2 agrees on the same state. */
static void new_ring(struct cx *c)
{
	struct cx_node *us = &c->node[0];
	struct ddr_input in = { .type = DDR_IN_VIEW, .n_nodes = 2, .nodes = { 1, 2 }, .pids = { us->pid, c->node[1].pid }, .ring = ++c->ring };
	struct ddr_msg hello;

	us->n_queue = 0;
	cx_step(c, us, &in);
	in.type = DDR_IN_QUORUM;
	in.quorate = true;
	cx_step(c, us, &in);
	assert_int_equal(us->n_queue, 1);
	assert_null(ddr_msg_decode(us->queue[0].bytes, us->queue[0].len, &hello));
	assert_int_equal(hello.type, DDR_M_HELLO);
	deliver(c);
	from_other(c, &hello);
	epoch++;
}

/* A new ring: the queue is rebuilt by the requests that are refused then. */
static void a_new_ring_starts_a_new_queue(void **state)
{
	struct cx *c = *state;

	all_taken(c);
	other_asks(c, 1000);
	deliver(c);
	new_ring(c);
	assert_int_equal(asked(c), 2);	/* to get into the queue */
	cx_tick(c, 5000);
	assert_int_equal(asked(c), 2);
}

/* With room all of our ranges are asked for at once, as ever. */
static void with_free_places_nobody_queues(void **state)
{
	struct cx *c = *state;

	want_resync(c, 0, 4);
	assert_int_equal(asked(c), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_refused_request_waits_for_a_free_place, setup, cx_teardown),
		cmocka_unit_test_setup_teardown(the_node_refused_first_asks_first, setup, cx_teardown),
		cmocka_unit_test_setup_teardown(a_queued_node_that_no_longer_asks_is_skipped, setup, cx_teardown),
		cmocka_unit_test_setup_teardown(a_new_ring_starts_a_new_queue, setup, cx_teardown),
		cmocka_unit_test_setup_teardown(with_free_places_nobody_queues, setup, cx_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
