// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Numbers that run over, or out of their range: more nodes than there are places for, the largest node id, sequences and epochs that nothing can
 * follow, a clock that steps.
 */
#include "sm-cluster.h"

static struct cx *new_cx(void)
{
	struct cx *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	return c;
}

static int teardown(void **state)
{
	cx_down(*state);
	free(*state);
	return 0;
}

static const char *gave_up(const struct cx_node *n)
{
	int at = cx_find(n, DDR_OUT_GIVE_UP, 0);

	return at >= 0 ? n->log[at].text : "";
}

static uint32_t lost_nodes(const struct cx_node *n)
{
	struct ddr_sm_status st = cx_status(n);
	uint32_t lost = 0;

	for (uint32_t i = 0; i < st.n_nodes; i++)
		lost += st.node[i].state == DDR_NS_SUSPECT || st.node[i].state == DDR_NS_FENCING;
	return lost;
}

/* @owners slots of 64 belong to nodes that are not there, with ids from 1000 on; the last of them is the largest id. */
static struct cx *with_absent_owners(uint32_t owners)
{
	struct cx *c = new_cx();

	cx_make(c, 3, true);
	c->geo.slots = DDR_MAX_SLOTS;
	rig_super(&c->sb, &c->geo);
	for (uint32_t s = 0; s < owners; s++)
		c->sb.slot_node[s] = s + 1 == owners ? UINT32_MAX : 1000 + s;
	assert_int_equal(ddr_super_check(&c->sb).code, DDR_FE_OK);
	return c;
}

/*
 * Finding U9: 63 nodes that own slots are lost, so one more has a place in the table, and further ones have none. They are told so;
 * none of the lost nodes is forgotten for their sake, and the array goes on.
 */
static void the_65th_node_takes_no_part(void **state)
{
	struct cx *c = *state = with_absent_owners(63);

	for (uint32_t i = 0; i < 3; i++)
		cx_start(c, i, 0, 0);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	assert_string_equal(gave_up(&c->node[0]), "");
	assert_int_equal(lost_nodes(&c->node[0]), 63);
	for (uint32_t i = 1; i < 3; i++)
		assert_non_null(strstr(gave_up(&c->node[i]), "64 nodes"));
	cx_kill(c, 1);
	cx_kill(c, 2);
	cx_view(c, 1, 1, true);
	cx_settle(c);
	assert_int_equal(lost_nodes(&c->node[0]), 63);
	c->answers = CX_MSG | CX_KERNEL | CX_FENCE;	/* the disks of this cluster have no such slots to be read */
	cx_tick(c, 60000);
	cx_tick(c, 1000);
	assert_int_equal(lost_nodes(&c->node[0]), 0);	/* the one with the id 2^32 - 1, too */
	cx_forget(c);
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_non_null(strstr(gave_up(&c->node[1]), "all slots"));	/* no slot is free until those are recovered */
}

/* Finding U9: the last place is taken like any other. */
static void the_64th_node_takes_part(void **state)
{
	struct cx *c = *state = with_absent_owners(62);

	for (uint32_t i = 0; i < 2; i++)
		cx_start(c, i, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	for (uint32_t i = 0; i < 2; i++) {
		assert_string_equal(gave_up(&c->node[i]), "");
		assert_int_equal(lost_nodes(&c->node[i]), 62);
		assert_int_equal(cx_status(&c->node[i]).n_nodes, 64);
	}
}

/* Finding U9: all 64 slots belong to nodes that are lost. A new node says why it cannot take part, and none of the lost ones is forgotten. */
static void the_builder_of_the_state_without_a_place_is_evicted(void **state)
{
	struct cx *c = *state = with_absent_owners(64);

	cx_start(c, 0, 0, 0);
	cx_view(c, 1, 1, true);
	cx_settle(c);
	assert_non_null(strstr(gave_up(&c->node[0]), "64 nodes"));
}

static struct cx *alone_with_seq(uint64_t seq)
{
	struct cx *c = new_cx();

	cx_make(c, 1, true);
	c->sb.seq = seq;
	cx_start(c, 0, 0, 0);
	cx_view(c, 1, 1, true);
	cx_settle(c);
	return c;
}

/*
 * Finding U9: the sequences of log and map blocks continue from the superblock's, shifted by 32 bits. The highest that is accepted at
 * a start leaves room for all changes until the next one: sequences never decrease.
 */
static void the_last_superblock_sequences(void **state)
{
	struct cx *c = *state = alone_with_seq(DDR_SUPER_SEQ_START - 1);
	struct ddr_log_info info;
	int at;

	assert_true(cx_status(&c->node[0]).ready);
	assert_true(c->sb.seq > DDR_SUPER_SEQ_START - 1 && c->sb.seq <= DDR_SUPER_SEQ_MAX);
	assert_int_equal(ddr_super_check(&c->sb).code, DDR_FE_OK);
	for (uint32_t i = 0; i < CX_SLOTS + 1; i++)
		for (unsigned int place = 0; place < 2; place++)
			if (ddr_log_decode(&c->disk[i], &c->sb, i == CX_SLOTS ? DDR_MAP_SLOT : (uint16_t)i, 0, place, &info).code == DDR_FE_OK)
				assert_true(info.seq <= DDR_LOG_SEQ_MAX);
	cx_down(c);
	free(c);
	c = *state = alone_with_seq(DDR_SUPER_SEQ_START);
	assert_false(cx_status(&c->node[0]).ready);
	at = cx_event(&c->node[0], DDR_EV_REFUSED);
	assert_true(at >= 0);
	assert_non_null(strstr(c->node[0].log[at].text, "near their limit"));
}

/*
 * Finding U9: after the highest epoch the next one would be the lowest, and old states would count as the newest. A hello with that
 * epoch is refused, and its sender named; so no node agrees with it, and no number overflows.
 */
static void an_epoch_that_nothing_can_follow(void **state)
{
	struct cx *c = *state = new_cx();
	struct ddr_msg msg = { .type = DDR_M_HELLO, .sender = 2, .epoch = UINT32_MAX };
	struct cx_node *n = &c->node[0];
	struct ddr_input in = { .type = DDR_IN_MSG, .node = 2 };
	uint8_t buf[DDR_SM_MSG_MAX];
	int at;

	cx_up(c, 2, true);
	cx_forget(c);
	c->answers = 0;
	cx_view(c, 3, 3, true);
	memcpy(msg.uuid, c->sb.array_uuid, sizeof(msg.uuid));
	msg.ring = c->ring;
	in.msg = buf;
	in.msg_len = (uint32_t)ddr_msg_encode(&msg, buf, sizeof(buf));
	assert_true(in.msg_len > 0);
	cx_step(c, n, &in);
	at = cx_event(n, DDR_EV_REFUSED);
	assert_true(at >= 0);
	assert_int_equal(n->log[at].b, 2);
	assert_non_null(strstr(n->log[at].text, "epoch"));
	c->answers = CX_ALL;
	cx_settle(c);					/* with its own hello it is welcome */
	assert_true(cx_status(n).agreed && cx_status(n).synced);
}

/* A tick, with the time of day that somebody has set. */
static void tick_at(struct cx *c, uint64_t ms, uint64_t wall)
{
	struct ddr_input in = { .type = DDR_IN_TICK, .now_ms = c->now += ms, .value = wall };

	for (struct cx_node *n = c->node; n < c->node + CX_NODES; n++)
		if (n->sm)
			cx_step(c, n, &in);
	cx_settle(c);
}

/*
 * Finding U9: the time of day is set back and forth by hours. A node whose daemon is gone is still fenced after 30 s, no sooner and
 * no later: the state machine uses the time of day only for the dates of a verify.
 */
static void the_time_of_day_fences_nobody(void **state)
{
	static const int64_t steps[] = { 7200, -7200, -86400, 86400, INT32_MAX, -(1ll << 40) };
	struct cx *c = *state = new_cx();
	uint64_t wall = 1800000000;

	cx_up(c, 2, true);
	cx_kill(c, 1);
	cx_view(c, 1, 3, true);		/* its machine is in the cluster still */
	cx_settle(c);
	cx_forget(c);
	for (uint32_t i = 0; i < 29; i++) {
		wall = (uint64_t)((int64_t)wall + steps[i % 6]);
		tick_at(c, 1000, wall);
		assert_true(cx_find(&c->node[0], DDR_OUT_FENCE, 0) < 0);
	}
	tick_at(c, 1001, 0);
	assert_true(cx_find(&c->node[0], DDR_OUT_FENCE, 0) >= 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(the_65th_node_takes_no_part, teardown),
		cmocka_unit_test_teardown(the_64th_node_takes_part, teardown),
		cmocka_unit_test_teardown(the_builder_of_the_state_without_a_place_is_evicted, teardown),
		cmocka_unit_test_teardown(the_last_superblock_sequences, teardown),
		cmocka_unit_test_teardown(an_epoch_that_nothing_can_follow, teardown),
		cmocka_unit_test_teardown(the_time_of_day_fences_nobody, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
