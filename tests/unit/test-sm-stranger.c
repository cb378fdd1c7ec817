// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Rule I5, note 24: another machine comes with the id of a lost node. A slot belongs to a machine, so this one waits until the one that has the slot is proven
 * dead, and nobody is called that could reset it instead.
 */
#include "tests/unit/sm-cluster.h"

#include "lib/cluster/sm_int.h"

#define LOST	2u	/* the node that is cut off, at place 1; the stranger has its id */
#define AT	1u
#define AGAIN	4u	/* the id under which the machine that was cut off may come back, at place 3 */

static struct cx *made(bool owners)
{
	struct cx *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	cx_make(c, CX_NODES, true);
	c->geo.owners = owners;
	rig_super(&c->sb, &c->geo);
	ddr_owners_init(&c->owners, &c->sb);
	for (uint32_t i = 0; i < CX_NODES; i++) {
		c->node[i].cfg.machine[0] = (uint8_t)(0xa0 + i);
		c->node[i].cookie = 70 + i;
		c->node[i].fences = DDR_FENCES_YES;
	}
	c->node[AGAIN - 1].cfg.machine[0] = c->node[AT].cfg.machine[0];
	return c;
}

/* The nodes of @mask take part, and node 2 has marked region 1. */
static struct cx *up(struct cx *c, uint32_t mask)
{
	for (uint32_t i = 0; i < CX_NODES; i++)
		if (mask >> i & 1)
			cx_start(c, i, 0, 0);
	cx_view(c, mask, mask, true);
	cx_settle(c);
	for (uint32_t i = 0; i < CX_NODES; i++)
		assert_true(!(mask >> i & 1) || cx_status(&c->node[i]).joined);
	cx_record(c, AT, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 3, .start = 1, .count = 1 });
	cx_settle(c);
	assert_true(cx_find(&c->node[AT], DDR_OUT_KERNEL, DDR_U_GRANT) >= 0);
	cx_kill(c, AT);
	cx_forget(c);
	return c;
}

static void down(struct cx *c)
{
	cx_down(c);
	free(c);
}

static void comes(struct cx *c, uint32_t mask)
{
	cx_start(c, AT, 0, 0);
	cx_view(c, mask, mask, true);
	cx_settle(c);
}

/* Another machine has the id of the lost node, beside the nodes of @others. */
static void stranger_comes(struct cx *c, uint32_t others)
{
	c->node[AT].cfg.machine[0] = 0xb0;
	c->node[AT].cookie = 99;
	comes(c, others | 1u << AT);
}

static bool is_lost(const struct cx_node *n)
{
	enum ddr_sm_node_state s = cx_sees(n, LOST).state;

	return s == DDR_NS_SUSPECT || s == DDR_NS_FENCING;
}

static uint32_t asked(const struct cx *c)
{
	uint32_t k = 0;

	for (uint32_t i = 0; i < CX_NODES; i++)
		for (uint32_t j = 0; c->node[i].sm && j < c->node[i].n; j++)
			k += c->node[i].log[j].type == DDR_OUT_FENCE;
	return k;
}

static uint32_t told(const struct cx_node *n)
{
	uint32_t k = 0;

	for (uint32_t i = 0; i < n->n; i++)
		k += n->log[i].type == DDR_OUT_EVENT && n->log[i].event == DDR_EV_WAIT && n->log[i].b == LOST &&
		     !strcmp(n->log[i].text, ddr_sm_wait_text(DDR_SM_WAIT_TOLD_STRANGER));
	return k;
}

/* Who has the slot that the node has, by the disks? */
static uint8_t owner(const struct cx *c, uint32_t node)
{
	for (uint32_t s = 0; s < c->sb.slots; s++)
		if (c->sb.slot_node[s] == node)
			return c->owners.slot[s].machine[0];
	return 0;
}

/* The stranger waits, and nothing was done to the slot, nor to anybody's power. */
static void waits(struct cx *c, uint8_t whose)
{
	for (uint32_t i = 0; i < CX_NODES; i++) {
		const struct cx_node *n = &c->node[i];

		if (!n->sm)
			continue;
		assert_true(is_lost(n));
		assert_int_equal(cx_status(n).wait_for, DDR_SM_WAIT_STRANGER);
		assert_int_equal(cx_status(n).wait_node, LOST);
		assert_int_equal(cx_status(n).wait_fencer, 0);
		assert_int_equal(cx_find(n, DDR_OUT_SLOT_WRITE, 0), -1);
		assert_int_equal(cx_event(n, DDR_EV_NODE_RECOVERED), -1);
	}
	assert_false(cx_status(&c->node[AT]).joined);
	assert_int_equal(cx_find(&c->node[AT], DDR_OUT_SLOT_READ, 0), -1);
	assert_int_equal(cx_find(&c->node[AT], DDR_OUT_KERNEL, DDR_U_ENABLE), -1);
	assert_int_equal(owner(c, LOST), whose);
	assert_int_equal(asked(c), 0);
}

/* Its process has begun, with no restart, and nobody waits. */
static void serves(struct cx *c)
{
	for (uint32_t i = 0; i < CX_NODES; i++)
		if (c->node[i].sm) {
			assert_true(cx_status(&c->node[i]).joined);
			assert_null(cx_status(&c->node[i]).wait);
		}
	assert_true(cx_find(&c->node[AT], DDR_OUT_KERNEL, DDR_U_ENABLE) >= 0);
	assert_int_equal(owner(c, LOST), c->geo.owners ? c->node[AT].cfg.machine[0] : 0);
	assert_int_equal(asked(c), 0);
}

/* ---- it waits ----------------------------------------------------------------------- */

/* The old machine was cut off an instant ago; or so long ago that an agent would be called. */
static void another_machine_waits(void **state)
{
	(void)state;
	for (int late = 0; late < 2; late++) {
		struct cx *c = up(made(true), 7);

		if (late) {
			cx_view(c, 5, 7, true);		/* by the quorum service its machine runs, so it may come back for a while */
			cx_settle(c);
			cx_tick(c, 29000);
		}
		stranger_comes(c, 5);
		waits(c, 0xa1);
		assert_int_equal(told(&c->node[0]) + told(&c->node[2]), 0);
		for (int i = 0; i < 60; i++)
			cx_tick(c, 1000);
		waits(c, 0xa1);
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(told(&c->node[i]), 1);
		down(c);
	}
}

/* No node has a state: it is built from the disks, also by the stranger, if it is the lowest node; and nobody else may be there. */
static void by_the_disks_too(void **state)
{
	static const uint32_t others[] = { 5, 4, 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct cx *c = up(made(true), 2);

		for (uint32_t k = 0; k < CX_NODES; k++)
			if (others[i] >> k & 1)
				cx_start(c, k, 0, 0);
		stranger_comes(c, others[i]);
		cx_tick(c, 60000);
		waits(c, 0xa1);
		assert_int_equal(told(&c->node[AT]), 1);
		cx_op(c, AT, DDR_IN_OP_FENCE_ACK, LOST);
		cx_settle(c);
		cx_tick(c, 1000);
		serves(c);
		down(c);
	}
}

/* A daemon that does not know the rule sends START all the same. */
static void its_start_does_not_count(void **state)
{
	struct cx *c = up(made(true), 7);
	struct ddr_msg msg = { .type = DDR_M_START };
	struct cx_message m = { .sender = LOST };
	struct ddr_sm *sm;

	(void)state;
	stranger_comes(c, 5);
	sm = c->node[AT].sm;
	memcpy(msg.uuid, sm->shared.sb.array_uuid, sizeof(msg.uuid));
	msg.ring = sm->own.ring;
	msg.epoch = sm->own.c.epoch;
	msg.sender = LOST;
	msg.serial = 1000;
	msg.start.slot = DDR_SM_NO_SLOT;
	msg.start.room = UINT64_MAX;
	msg.start.present = c->node[AT].cfg.present;
	msg.start.cookie = c->node[AT].cookie;
	msg.start.boot_id[0] = 1;
	memcpy(msg.start.machine, c->node[AT].cfg.machine, sizeof(msg.start.machine));
	m.len = (uint32_t)ddr_msg_encode(&msg, m.bytes, sizeof(m.bytes));
	assert_true(m.len != 0);
	for (uint32_t i = 0; i < 3; i++) {
		c->node[i].queue[c->node[i].n_queue++] = m;
		assert_true(cx_deliver(c, &c->node[i], NULL));
	}
	cx_settle(c);
	waits(c, 0xa1);
	down(c);
}

/* The slot was claimed, and the superblocks do not say so yet. */
static void a_claim_is_a_machines_too(void **state)
{
	struct cx *c = made(true);
	uint32_t sb = UINT32_MAX;

	(void)state;
	cx_start(c, 0, 0, 0);
	cx_view(c, 1, 1, true);
	cx_settle(c);
	cx_start(c, AT, 0, 0);
	cx_view(c, 3, 3, true);
	c->answers = CX_MSG | CX_KERNEL;
	cx_settle(c);
	for (uint32_t i = 0; i < c->node[0].n; i++)
		if (c->node[0].open[i] && c->node[0].log[i].type == DDR_OUT_SB_WRITE)
			sb = i;
	assert_true(sb != UINT32_MAX);
	cx_kill(c, AT);
	c->node[AT].cfg.machine[0] = 0xb0;
	c->node[AT].cookie = 99;
	comes(c, 3);
	cx_tick(c, 60000);
	assert_true(is_lost(&c->node[0]) && is_lost(&c->node[AT]));
	assert_int_equal(cx_status(&c->node[0]).wait_for, DDR_SM_WAIT_STRANGER);
	c->answers = CX_ALL;
	cx_settle(c);
	waits(c, 0xa1);
	down(c);
}

/* A verdict excluded the daemon of the old machine, so an agent would be called at once. */
static void who_was_excluded_is_not_fenced_either(void **state)
{
	struct cx *c = up(made(true), 7);

	(void)state;
	cx_op(c, 0, DDR_IN_EXCLUDED, LOST);
	cx_op(c, 2, DDR_IN_EXCLUDED, LOST);
	stranger_comes(c, 5);
	cx_tick(c, 60000);
	waits(c, 0xa1);
	cx_op(c, 2, DDR_IN_OP_FENCE_ACK, LOST);
	cx_settle(c);
	serves(c);
	down(c);
}

/* It cannot begin, so the last node that takes part may stop the array. */
static void the_last_one_does_not_wait_for_it(void **state)
{
	struct cx *c = up(made(true), 3);

	(void)state;
	stranger_comes(c, 1);
	cx_forget(c);
	cx_op(c, 0, DDR_IN_OP_LEAVE, 0);
	cx_settle(c);
	cx_tick(c, 1000);
	assert_true(cx_event(&c->node[0], DDR_EV_LEFT) >= 0);
	down(c);
}

/* When it is gone again, an agent is called for the one that was cut off, as for any lost node. */
static void without_it_the_lost_one_is_fenced(void **state)
{
	struct cx *c = up(made(true), 7);

	(void)state;
	stranger_comes(c, 5);
	cx_tick(c, 60000);
	waits(c, 0xa1);
	cx_kill(c, AT);
	cx_view(c, 5, 5, true);
	cx_settle(c);
	assert_int_equal(asked(c), 1);
	assert_int_equal(cx_status(&c->node[0]).wait_for, DDR_SM_WAIT_FENCED);
	comes(c, 7);			/* and is there again before the agent has ended */
	assert_int_equal(cx_status(&c->node[0]).wait_for, DDR_SM_WAIT_STRANGER);
	cx_fenced(c, &c->node[0], cx_open(&c->node[0], DDR_OUT_FENCE), 0);
	cx_settle(c);
	cx_forget(c);
	assert_true(cx_status(&c->node[AT]).joined);
	assert_int_equal(owner(c, LOST), 0xb0);
	down(c);
}

/* ---- what ends that ----------------------------------------------------------------- */

static void the_operators_word_ends_it(void **state)
{
	(void)state;
	for (uint32_t by = 0; by < 3; by++) {		/* on any node, also on the new machine */
		struct cx *c = up(made(true), 7);
		uint32_t pid;

		stranger_comes(c, 5);
		pid = c->node[AT].pid;
		cx_tick(c, 60000);
		waits(c, 0xa1);
		cx_op(c, by, DDR_IN_OP_FENCE_ACK, LOST);
		cx_settle(c);
		cx_tick(c, 1000);
		assert_int_equal(c->node[AT].pid, pid);
		assert_true(cx_event(&c->node[0], DDR_EV_NODE_RECOVERED) >= 0);
		assert_true(cx_find(&c->node[0], DDR_OUT_SLOT_WRITE, 0) >= 0);	/* the mark is one of node 1 now */
		serves(c);
		down(c);
	}
}

/* Rule I6: the machine that was cut off was reset, and its node id was corrected. It says that nothing is left of what it was. */
static void the_old_machine_ends_it(void **state)
{
	struct cx *c = up(made(true), 7);

	(void)state;
	stranger_comes(c, 5);
	cx_tick(c, 60000);
	waits(c, 0xa1);
	cx_start(c, AGAIN - 1, 0, 0);
	cx_view(c, 15, 15, true);
	cx_settle(c);
	serves(c);
	assert_int_equal(owner(c, AGAIN), 0xa1);
	down(c);
}

/* The array was another cluster's, and one of its nodes had the id of the one that adopts it. */
static void an_adoption_ends_it(void **state)
{
	struct cx *c = made(true);

	(void)state;
	c->node[AT].cfg.several = true;
	cx_start(c, AT, 0, 0);
	ddr_sm_set_cluster(c->node[AT].sm, (const uint8_t[16]){ 7 });
	cx_view(c, 1u << AT, 1u << AT, true);
	cx_settle(c);
	assert_int_equal(owner(c, LOST), 0xa1);
	cx_kill(c, AT);
	cx_forget(c);
	c->node[AT].cfg.machine[0] = 0xb0;
	c->node[AT].cookie = 99;
	c->node[AT].cfg.adopt = true;
	cx_start(c, AT, 0, 0);
	ddr_sm_set_cluster(c->node[AT].sm, (const uint8_t[16]){ 8 });
	cx_view(c, 1u << AT, 1u << AT, true);
	cx_settle(c);
	serves(c);
	assert_int_equal(c->owners.cluster[0], 8);
	down(c);
}

/* ---- no stranger -------------------------------------------------------------------- */

/* Its identity was lost while its kernel ran: that is the very instance that has the slot. */
static void its_kernel_shows_who_it_is(void **state)
{
	struct cx *c = up(made(true), 7);

	(void)state;
	c->node[AT].cfg.machine[0] = 0xb0;
	cx_start(c, AT, 1, 1);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	serves(c);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(told(&c->node[i]), 0);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_SLOT_WRITE, 0), -1);
	down(c);
}

static void a_clean_stop_leaves_nothing_to_wait_for(void **state)
{
	struct cx *c = made(true);

	(void)state;
	for (uint32_t i = 0; i < 2; i++)
		cx_start(c, i, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	cx_op(c, AT, DDR_IN_OP_LEAVE, 0);
	cx_settle(c);
	assert_true(cx_event(&c->node[AT], DDR_EV_LEFT) >= 0);
	cx_kill(c, AT);
	cx_forget(c);
	stranger_comes(c, 1);
	serves(c);
	down(c);
}

/* The machine itself is back; the machine is not known, by the pages or of the one that comes; nobody knows it, in format 1. */
static void who_may_be_the_same_begins(void **state)
{
	(void)state;
	for (int k = 0; k < 4; k++) {
		struct cx *c = made(k < 3);

		if (k == 1)
			c->node[AT].cfg.machine[0] = 0;
		up(c, 7);
		c->node[AT].cfg.machine[0] = k == 0 ? 0xa1 : k == 2 ? 0 : 0xb0;
		c->node[AT].cookie = 99;
		comes(c, 7);
		serves(c);
		down(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_machine_waits),
		cmocka_unit_test(by_the_disks_too),
		cmocka_unit_test(its_start_does_not_count),
		cmocka_unit_test(a_claim_is_a_machines_too),
		cmocka_unit_test(who_was_excluded_is_not_fenced_either),
		cmocka_unit_test(the_last_one_does_not_wait_for_it),
		cmocka_unit_test(without_it_the_lost_one_is_fenced),
		cmocka_unit_test(the_operators_word_ends_it),
		cmocka_unit_test(the_old_machine_ends_it),
		cmocka_unit_test(an_adoption_ends_it),
		cmocka_unit_test(its_kernel_shows_who_it_is),
		cmocka_unit_test(a_clean_stop_leaves_nothing_to_wait_for),
		cmocka_unit_test(who_may_be_the_same_begins),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
