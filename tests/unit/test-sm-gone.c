// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Rule I6: a machine that is back says that what it was before is gone, and its old slot is recovered and freed without fencing.
 */
#include "tests/unit/sm-cluster.h"

#include "lib/cluster/sm_int.h"

#define OLD	2u	/* the node that dies, at place 1 */
#define BACK	4u	/* its machine's id afterwards, at place 3 */

/* An array of format 2 on three machines, which can fence each other. */
static struct cx *make(uint32_t slots)
{
	struct cx *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	cx_make(c, CX_NODES, true);
	c->geo.owners = true;
	c->geo.slots = slots;
	rig_super(&c->sb, &c->geo);
	ddr_owners_init(&c->owners, &c->sb);
	for (uint32_t i = 0; i < CX_NODES; i++) {
		c->node[i].cfg.machine[0] = (uint8_t)(0xa0 + i);
		c->node[i].cookie = 70 + i;
		c->node[i].fences = DDR_FENCES_YES;
	}
	c->node[BACK - 1].cfg.machine[0] = c->node[OLD - 1].cfg.machine[0];
	return c;
}

/* The nodes of @mask take part, and the old one has marked region 1. */
static void take_part(struct cx *c, uint32_t mask)
{
	for (uint32_t i = 0; i < CX_NODES; i++)
		if (mask >> i & 1)
			cx_start(c, i, 0, 0);
	cx_view(c, mask, mask, true);
	cx_settle(c);
	for (uint32_t i = 0; i < CX_NODES; i++)
		assert_true(!(mask >> i & 1) || cx_status(&c->node[i]).joined);
	cx_record(c, OLD - 1, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 3, .start = 1, .count = 1 });
	cx_settle(c);
	assert_true(cx_find(&c->node[OLD - 1], DDR_OUT_KERNEL, DDR_U_GRANT) >= 0);
}

static struct cx *up(uint32_t mask, uint32_t slots)
{
	struct cx *c = make(slots);

	take_part(c, mask);
	return c;
}

static void down(struct cx *c)
{
	cx_down(c);
	free(c);
}

/* The machine has died and is back under its new id, beside the nodes of @others. */
static void is_back(struct cx *c, uint32_t others)
{
	uint32_t mask = others | 1u << (BACK - 1);

	cx_kill(c, OLD - 1);
	cx_forget(c);
	cx_start(c, BACK - 1, 0, 0);
	cx_view(c, mask, mask, true);
	cx_settle(c);
}

static bool owns(const struct cx *c, uint32_t node)
{
	for (uint32_t s = 0; s < c->sb.slots; s++)
		if (c->sb.slot_node[s] == node)
			return true;
	return false;
}

static bool was_fenced(const struct cx *c)
{
	for (uint32_t i = 0; i < CX_NODES; i++)
		if (c->node[i].sm && cx_find(&c->node[i], DDR_OUT_FENCE, 0) >= 0)
			return true;
	return false;
}

static bool is_lost(const struct cx_node *n, uint32_t id)
{
	enum ddr_sm_node_state s = cx_sees(n, id).state;

	return s == DDR_NS_SUSPECT || s == DDR_NS_FENCING;
}

static uint32_t said_gone(const struct cx_node *n)
{
	uint32_t k = 0;

	for (uint32_t i = 0; i < n->n; i++) {
		struct ddr_msg msg;

		k += n->log[i].type == DDR_OUT_MCAST && !ddr_msg_decode(n->log[i].msg, n->log[i].msg_len, &msg) && msg.type == DDR_M_GONE;
	}
	return k;
}

/* ---- it is freed without fencing --------------------------------------------------- */

/* Findings T6, T7: no agent can be called for it, and the array waited for the operator. */
static void a_machine_is_back_under_another_id(void **state)
{
	struct cx *c = up(7, CX_SLOTS);

	(void)state;
	is_back(c, 5);
	assert_int_equal(said_gone(&c->node[BACK - 1]), 1);
	assert_false(was_fenced(c));
	for (uint32_t i = 0; i < CX_NODES; i++) {
		if (!c->node[i].sm)
			continue;
		assert_true(cx_status(&c->node[i]).joined);
		assert_null(cx_status(&c->node[i]).wait);
		assert_true(cx_event(&c->node[i], DDR_EV_NODE_RECOVERED) >= 0);
	}
	assert_false(owns(c, OLD));
	assert_true(owns(c, BACK));
	assert_true(cx_find(&c->node[0], DDR_OUT_SLOT_WRITE, 0) >= 0);	/* its mark is one of node 1 now */
	down(c);
}

static void where_no_slot_is_free_it_waits_for_its_old_one(void **state)
{
	struct cx *c = up(3, 2);

	(void)state;
	is_back(c, 1);
	assert_false(was_fenced(c));
	assert_true(cx_find(&c->node[BACK - 1], DDR_OUT_GIVE_UP, 0) < 0);
	assert_true(cx_status(&c->node[BACK - 1]).joined);
	assert_true(owns(c, BACK) && !owns(c, OLD));
	down(c);
}

static void where_nobody_could_free_one_it_does_not_wait(void **state)
{
	struct cx *c = up(3, 2);

	(void)state;
	c->node[2].cfg.machine[0] = c->node[0].cfg.machine[0];	/* the first machine is node 3 now, and none is who it was */
	cx_down(c);
	cx_start(c, 2, 0, 0);
	is_back(c, 4);
	assert_true(cx_find(&c->node[BACK - 1], DDR_OUT_GIVE_UP, 0) >= 0);
	down(c);
}

/* All daemons have ended, so that the state is built from the disks. */
static void a_state_from_the_disks_knows_it_too(void **state)
{
	struct cx *c = up(7, CX_SLOTS);

	(void)state;
	cx_down(c);
	cx_start(c, 0, 0, 0);
	cx_start(c, 2, 0, 0);
	is_back(c, 5);
	cx_tick(c, 1000);
	assert_false(was_fenced(c));
	assert_true(cx_status(&c->node[0]).joined && cx_status(&c->node[BACK - 1]).joined);
	assert_true(owns(c, BACK) && !owns(c, OLD));
	down(c);
}

/* A verdict has excluded its daemon, and it was reset: no START would end that. */
static void who_was_excluded_is_back(void **state)
{
	struct cx *c = up(7, CX_SLOTS);
	uint32_t f;

	(void)state;
	cx_kill(c, OLD - 1);
	cx_forget(c);
	cx_op(c, 0, DDR_IN_EXCLUDED, OLD);
	cx_op(c, 2, DDR_IN_EXCLUDED, OLD);
	cx_view(c, 5, 5, true);
	cx_settle(c);
	f = cx_open(&c->node[0], DDR_OUT_FENCE);	/* at once; but its agent hangs */
	c->node[OLD - 1].cookie = 99;
	cx_start(c, OLD - 1, 0, 0);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	assert_true(c->node[0].open[f]);
	assert_int_equal(said_gone(&c->node[OLD - 1]), 1);
	assert_true(cx_event(&c->node[0], DDR_EV_NODE_RECOVERED) >= 0);
	assert_true(cx_status(&c->node[OLD - 1]).joined);
	down(c);
}

/* Only the node id was changed in the list of nodes. */
static void it_bears_the_name_of_then(void **state)
{
	struct cx *c = make(CX_SLOTS);

	(void)state;
	c->node[OLD - 1].cfg.name = c->node[BACK - 1].cfg.name = "n2";
	take_part(c, 7);
	is_back(c, 5);
	assert_int_equal(said_gone(&c->node[BACK - 1]), 1);
	assert_false(was_fenced(c) || owns(c, OLD));
	down(c);
}

/* ---- it is not ---------------------------------------------------------------------- */

/* A copy of the machine, and nothing else tells them apart. What it is a copy of may be cut off just now, and write. */
static void a_copy_has_a_name_of_its_own(void **state)
{
	struct cx *c = make(CX_SLOTS);

	(void)state;
	c->node[OLD - 1].cfg.name = "n2";
	c->node[BACK - 1].cfg.name = "n4";
	take_part(c, 7);
	is_back(c, 5);
	cx_tick(c, 20000);
	assert_int_equal(said_gone(&c->node[BACK - 1]), 0);
	assert_true(is_lost(&c->node[0], OLD) && owns(c, OLD));
	cx_tick(c, 20000);
	assert_true(was_fenced(c));
	down(c);
}

/* Its node id was changed, and nothing else: the kernel that has marked the region runs. */
static void its_kernel_holds_the_instance(void **state)
{
	struct cx *c = up(7, CX_SLOTS);

	(void)state;
	c->node[BACK - 1].cookie = c->node[OLD - 1].cookie;
	is_back(c, 5);
	cx_tick(c, 20000);
	assert_int_equal(said_gone(&c->node[BACK - 1]), 0);
	assert_true(is_lost(&c->node[0], OLD));
	assert_false(was_fenced(c));	/* it might say it yet ... */
	assert_int_equal(cx_status(&c->node[0]).wait_for, DDR_SM_WAIT_BACK);
	cx_tick(c, 20000);
	assert_true(was_fenced(c));	/* ... but nobody waits for ever */
	assert_int_equal(cx_status(&c->node[0]).wait_for, DDR_SM_WAIT_FENCED);
	assert_true(owns(c, OLD));
	down(c);
}

static void what_it_had_on_its_way_has_not_settled(void **state)
{
	struct ddr_input longer = { .type = DDR_IN_OP_SET, .key = DDR_SM_SETTLE_MS, .value = 10000 };
	struct cx *c = up(7, CX_SLOTS);

	(void)state;
	c->node[BACK - 1].cfg.booted_ms = c->now;
	c->node[BACK - 1].cfg.settle_ms = 5000;
	cx_step(c, &c->node[2], &longer);	/* node 3 knows of a longer time, and the longest counts */
	is_back(c, 5);
	cx_tick(c, 9900);
	assert_int_equal(said_gone(&c->node[BACK - 1]), 0);
	assert_true(is_lost(&c->node[0], OLD));
	for (uint32_t i = 0; i < CX_NODES; i++)
		if (c->node[i].sm) {		/* nobody waits in silence, or for an agent that is not called */
			assert_int_equal(cx_status(&c->node[i]).wait_for, DDR_SM_WAIT_BACK);
			assert_int_equal(cx_status(&c->node[i]).wait_node, OLD);
			assert_int_equal(cx_status(&c->node[i]).wait_fencer, 0);
		}
	cx_tick(c, 100);
	assert_int_equal(said_gone(&c->node[BACK - 1]), 1);
	assert_false(was_fenced(c));
	cx_tick(c, 100);
	assert_false(owns(c, OLD));
	down(c);
}

static void a_dead_daemon_has_left_something_over(void **state)
{
	struct cx *c = up(7, CX_SLOTS);

	(void)state;
	c->answers = CX_IO | CX_KERNEL;
	is_back(c, 5);
	ddr_sm_left_over(c->node[BACK - 1].sm, true);
	c->answers = CX_ALL;
	cx_settle(c);
	cx_tick(c, 5000);
	assert_int_equal(said_gone(&c->node[BACK - 1]), 0);
	assert_true(is_lost(&c->node[0], OLD));
	ddr_sm_left_over(c->node[BACK - 1].sm, false);
	assert_int_equal(ddr_sm_due(c->node[BACK - 1].sm), 0);	/* it is asked at once */
	cx_tick(c, 100);
	assert_int_equal(said_gone(&c->node[BACK - 1]), 1);
	assert_false(owns(c, OLD) || was_fenced(c));
	down(c);
}

/* Its daemon is there, and has not been told which kernel it has. */
static void its_kernel_is_not_known_yet(void **state)
{
	struct cx *c = up(7, CX_SLOTS);

	(void)state;
	cx_kill(c, OLD - 1);
	cx_forget(c);
	cx_daemon(c, BACK - 1);
	cx_view(c, 13, 13, true);
	cx_settle(c);
	cx_tick(c, 5000);
	assert_int_equal(said_gone(&c->node[BACK - 1]), 0);
	assert_true(is_lost(&c->node[0], OLD));
	down(c);
}

static void without_quorum_nobody_says_so(void **state)
{
	struct cx *c = up(7, CX_SLOTS);
	struct ddr_input quorum = { .type = DDR_IN_QUORUM };

	(void)state;
	c->node[BACK - 1].cfg.booted_ms = c->now + 1000;
	is_back(c, 5);
	quorum.ring = c->ring;		/* of the same ring: votes were taken away */
	for (uint32_t i = 0; i < CX_NODES; i++)
		if (c->node[i].sm)
			cx_step(c, &c->node[i], &quorum);
	cx_tick(c, 2000);
	assert_int_equal(said_gone(&c->node[BACK - 1]), 0);
	assert_true(is_lost(&c->node[0], OLD) && owns(c, OLD));
	cx_view(c, 13, 13, true);
	cx_settle(c);
	assert_int_equal(said_gone(&c->node[BACK - 1]), 1);
	assert_false(owns(c, OLD));
	down(c);
}

/* In format 1 nobody knows whose a slot was. */
static void without_owner_pages_it_is_fenced(void **state)
{
	struct cx *c = calloc(1, sizeof(*c));

	(void)state;
	assert_non_null(c);
	cx_up(c, 3, true);
	c->node[BACK - 1].cfg = c->node[OLD - 1].cfg;
	c->node[BACK - 1].cfg.node = BACK;
	c->node[BACK - 1].cookie = 99;
	is_back(c, 5);
	assert_int_equal(said_gone(&c->node[BACK - 1]), 0);
	down(c);
}

/* ---- judged at its delivery --------------------------------------------------------- */

/* The machine is back, and its GONE is the next that all are delivered. Returns it. */
static struct ddr_msg gone_comes(struct cx *c)
{
	struct cx_node *first = &c->node[0];
	struct ddr_msg msg;

	c->node[BACK - 1].cfg.booted_ms = c->now + 1000;
	is_back(c, 5);
	c->answers = CX_IO | CX_KERNEL;
	cx_tick(c, 1000);
	for (;;) {
		assert_true(first->n_queue > 0);	/* else it was never sent */
		assert_null(ddr_msg_decode(first->queue[0].bytes, first->queue[0].len, &msg));
		if (msg.type == DDR_M_GONE)
			return msg;
		for (uint32_t i = 0; i < CX_NODES; i++)
			cx_deliver(c, &c->node[i], NULL);
	}
}

/* Node 1 is delivered it with this content. */
static void delivered(struct cx *c, const struct ddr_msg *msg)
{
	struct cx_message m = { .sender = msg->sender };

	m.len = (uint32_t)ddr_msg_encode(msg, m.bytes, sizeof(m.bytes));
	assert_true(m.len != 0);
	cx_deliver(c, &c->node[0], &m);
}

static void what_it_says_is_judged(void **state)
{
	static const char *const what[] = { "of another machine", "for an earlier failure", "of a node that is not lost", "by the kernel that had the slot",
					    "as it is" };

	(void)state;
	for (uint32_t k = 0; k < sizeof(what) / sizeof(what[0]); k++) {
		struct cx *c = up(7, CX_SLOTS);
		struct ddr_msg msg = gone_comes(c);

		print_message("%s\n", what[k]);
		assert_int_equal(msg.gone.node, OLD);
		msg.gone.machine[0] ^= k == 0;
		msg.gone.failure -= k == 1;
		msg.gone.node += k == 2;
		msg.gone.cookie = k == 3 ? c->node[OLD - 1].cookie : msg.gone.cookie;
		delivered(c, &msg);
		assert_int_equal(is_lost(&c->node[0], OLD), k < 4);
		down(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_machine_is_back_under_another_id),
		cmocka_unit_test(where_no_slot_is_free_it_waits_for_its_old_one),
		cmocka_unit_test(where_nobody_could_free_one_it_does_not_wait),
		cmocka_unit_test(a_state_from_the_disks_knows_it_too),
		cmocka_unit_test(who_was_excluded_is_back),
		cmocka_unit_test(it_bears_the_name_of_then),
		cmocka_unit_test(a_copy_has_a_name_of_its_own),
		cmocka_unit_test(its_kernel_holds_the_instance),
		cmocka_unit_test(what_it_had_on_its_way_has_not_settled),
		cmocka_unit_test(a_dead_daemon_has_left_something_over),
		cmocka_unit_test(its_kernel_is_not_known_yet),
		cmocka_unit_test(without_quorum_nobody_says_so),
		cmocka_unit_test(without_owner_pages_it_is_fenced),
		cmocka_unit_test(what_it_says_is_judged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
