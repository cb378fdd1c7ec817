// SPDX-License-Identifier: GPL-2.0-or-later
/* All places for exclusive ranges are taken: a node that is refused stands in a queue, and sends nothing until its turn. */
#include "sm-fixture.h"

#define PLACES	128u

static int setup(void **state)
{
	int ret = fx_setup(state, &fx_five);

	fx_view(*state, 2, true, 2);
	return ret;
}

static void from_other(struct fx *f, struct ddr_msg *m)
{
	uint8_t buf[DDR_MSG_MAX];
	size_t len;

	m->sender = 2;
	m->ring = 2;
	memcpy(m->uuid, f->sb.array_uuid, sizeof(m->uuid));
	len = ddr_msg_encode(m, buf, sizeof(buf));
	assert_true(len > 0);
	fx_message(f, 2, buf, (uint32_t)len);
}

static void other_asks(struct fx *f, uint32_t id)
{
	struct ddr_msg m = { .type = DDR_M_EX_REQUEST };

	m.ex.id = id;
	m.ex.mode = DDR_EX_RANGE;
	m.ex.job = DDR_KA_RESYNC;
	m.ex.start = 2048 + id;
	m.ex.count = 1;
	from_other(f, &m);
}

static void other_releases(struct fx *f, uint32_t id)
{
	struct ddr_msg m = { .type = DDR_M_EX_RELEASE };

	m.ex_release.id = id;
	from_other(f, &m);
}

/* How often we have asked. */
static uint32_t asked(const struct fx *f)
{
	uint32_t n = 0;
	struct ddr_msg m;

	for (uint32_t i = 0; i < f->n; i++)
		n += f->log[i].type == DDR_OUT_MCAST && !ddr_msg_decode(f->log[i].msg, f->log[i].msg_len, &m) && m.type == DDR_M_EX_REQUEST;
	return n;
}

/* Our requests that are on their way are delivered. */
static void deliver(struct fx *f)
{
	struct ddr_msg m;

	for (uint32_t i = 0, n = f->n; i < n; i++)
		if (f->open[i] && f->log[i].type == DDR_OUT_MCAST && !ddr_msg_decode(f->log[i].msg, f->log[i].msg_len, &m) && m.type == DDR_M_EX_REQUEST) {
			struct ddr_output copy = f->log[i];

			f->open[i] = false;
			fx_message(f, 1, copy.msg, copy.msg_len);
		}
}

static bool ours_in_force(const struct fx *f)
{
	for (uint32_t i = 0; i < f->n; i++)
		if (f->log[i].type == DDR_OUT_KERNEL && f->log[i].rec.type == DDR_U_DRAIN && f->log[i].rec.start < 2048)
			return true;
	return false;
}

/* Node 2 has all places, and we want one. */
static void all_taken(struct fx *f)
{
	fx_lock(f, 3, 1);
	fx_forget(f);
	f->answers = FX_IO;
	for (uint32_t id = 1; id <= PLACES; id++)
		other_asks(f, id);
	fx_closed(f, 3, 1, -5);
	assert_int_equal(asked(f), 1);
}

/* Finding U7: a refused request is not sent again at once, nor after some time, but when a place is free. */
static void who_is_refused_waits_for_a_place(void **state)
{
	struct fx *f = *state;

	all_taken(f);
	for (int i = 0; i < 20; i++) {
		deliver(f);
		fx_tick(f, 1000 + 100 * (uint64_t)i);
	}
	assert_int_equal(asked(f), 1);
	other_releases(f, 7);
	assert_int_equal(asked(f), 2);
	deliver(f);
	assert_true(ours_in_force(f));
}

/* Finding U7: the queue follows the total order: the node that was refused first is first. */
static void who_was_refused_first_is_first(void **state)
{
	struct fx *f = *state;

	all_taken(f);
	other_asks(f, 1000);		/* refused, before ours is delivered */
	deliver(f);
	other_releases(f, 7);
	assert_int_equal(asked(f), 1);	/* this one is node 2's */
	other_asks(f, 1000);
	assert_int_equal(asked(f), 1);
	other_releases(f, 8);
	assert_int_equal(asked(f), 2);
	deliver(f);
	assert_true(ours_in_force(f));
}

/* If the first in the queue does not want a range any more, it is not waited for. */
static void who_does_not_come_is_passed_over(void **state)
{
	struct fx *f = *state;

	fx_tick(f, 1000);
	all_taken(f);
	other_asks(f, 1000);
	deliver(f);
	other_releases(f, 7);
	fx_tick(f, 1900);
	assert_int_equal(asked(f), 1);
	fx_tick(f, 2100);
	assert_int_equal(asked(f), 2);
	deliver(f);
	assert_true(ours_in_force(f));
}

/* A new ring: the queue is rebuilt by the requests that are refused then. */
static void a_new_ring_makes_a_new_line(void **state)
{
	struct fx *f = *state;

	all_taken(f);
	other_asks(f, 1000);
	deliver(f);
	fx_view(f, 2, true, 3);
	assert_int_equal(asked(f), 2);	/* to get into the queue */
	fx_tick(f, 5000);
	assert_int_equal(asked(f), 2);
}

/* With room all of our ranges are asked for at once, as ever. */
static void with_room_nobody_stands_in_line(void **state)
{
	struct fx *f = *state;

	fx_lock(f, 3, 4);
	fx_forget(f);
	f->answers = FX_IO;
	fx_closed(f, 3, 4, -5);
	assert_int_equal(asked(f), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_is_refused_waits_for_a_place, setup, fx_teardown),
		cmocka_unit_test_setup_teardown(who_was_refused_first_is_first, setup, fx_teardown),
		cmocka_unit_test_setup_teardown(who_does_not_come_is_passed_over, setup, fx_teardown),
		cmocka_unit_test_setup_teardown(a_new_ring_makes_a_new_line, setup, fx_teardown),
		cmocka_unit_test_setup_teardown(with_room_nobody_stands_in_line, setup, fx_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
