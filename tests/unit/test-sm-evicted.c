// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A kernel that storage fencing has cut off keeps running. Whatever the group that had it fenced has become, the kernel is never
 * accepted again: others have taken over its dirty regions, so its writes would come too late.
 */
#include "sm-cluster.h"

static int setup(void **state)
{
	struct cx *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	cx_up(c, 2, true);
	*state = c;
	return 0;
}

static int teardown(void **state)
{
	cx_down(*state);
	free(*state);
	return 0;
}

static void lock(struct cx *c, uint32_t i, uint64_t region)
{
	struct ddr_input in = { .type = DDR_IN_K_REC, .rec = { .type = DDR_K_LOCK, .seq = 3, .start = region, .count = 1 } };

	cx_step(c, &c->node[i], &in);
	cx_settle(c);
	assert_true(cx_find(&c->node[i], DDR_OUT_KERNEL, DDR_U_GRANT) >= 0);
}

static bool evicted(const struct cx *c, uint32_t i)
{
	int at = cx_find(&c->node[i], DDR_OUT_GIVE_UP, 0);

	return at >= 0 && c->node[i].log[at].event == DDR_EV_EVICTED;
}

/* The storage cuts node 2 off: its daemon is gone, its kernel runs and holds region 2; node 1 takes over its dirty regions. */
static void storage_fences_node_2(struct cx *c)
{
	lock(c, 1, 2);
	cx_kill(c, 1);
	c->answers = CX_ALL | CX_FENCE;
	cx_view(c, 1, 1, true);
	cx_settle(c);
	cx_tick(c, 60000);
	assert_true(cx_event(&c->node[0], DDR_EV_NODE_FENCED) >= 0 && cx_event(&c->node[0], DDR_EV_NODE_RECOVERED) >= 0);
}

/* All daemons end, and the machines keep running: only the disks still hold any state. */
static void cold_start(struct cx *c, uint32_t held)
{
	cx_kill(c, 0);
	cx_kill(c, 1);
	cx_start(c, 0, 0, 0);
	cx_start(c, 1, 2, held);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	cx_tick(c, 1000);
}

/* Finding U6: the slot no longer marks what the kernel holds: others took it over while the kernel was running. */
static void a_kernel_that_holds_what_no_slot_marks_is_evicted(void **state)
{
	struct cx *c = *state;

	storage_fences_node_2(c);
	cold_start(c, 1);
	assert_true(evicted(c, 1));
	assert_false(evicted(c, 0));
	assert_int_equal(cx_event(&c->node[1], DDR_EV_READY), -1);
	assert_int_equal(cx_find(&c->node[1], DDR_OUT_KERNEL, DDR_U_ENABLE), -1);
}

/* The same machine after its boot: another kernel, that holds nothing, and is welcome. */
static void an_evicted_machine_may_start_after_a_reboot(void **state)
{
	struct cx *c = *state;

	storage_fences_node_2(c);
	c->node[1].cookie = 9;
	cold_start(c, 0);
	assert_false(evicted(c, 1));
	assert_true(cx_event(&c->node[1], DDR_EV_READY) >= 0);
}

/*
 * Finding U6: a new group had it fenced, and that group never delivered its START. No node can recover its slot: the node that had it
 * fenced has no kernel yet. The fenced kernel holds grants; a node that has just booted, and does its own recovery, would not.
 */
static void a_fenced_kernel_that_holds_something_is_evicted(void **state)
{
	struct cx *c = *state;

	lock(c, 1, 2);
	cx_kill(c, 0);
	cx_kill(c, 1);
	cx_daemon(c, 0);
	c->answers = CX_ALL | CX_FENCE;
	cx_view(c, 1, 1, true);
	cx_settle(c);
	cx_tick(c, 60000);
	assert_true(cx_event(&c->node[0], DDR_EV_NODE_FENCED) >= 0);
	assert_int_equal(cx_event(&c->node[0], DDR_EV_NODE_RECOVERED), -1);
	cx_start(c, 1, 2, 1);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_true(evicted(c, 1));
}

/*
 * Finding U6: the same once the slot is recovered, even if the kernel holds nothing any more: RECOVERED has named the instance that
 * the slot named.
 */
static void a_recovered_slot_names_the_kernel_that_had_it(void **state)
{
	struct cx *c = *state;

	lock(c, 1, 2);
	cx_kill(c, 0);
	cx_kill(c, 1);
	c->node[0].cookie = 9;		/* no two kernels are the same */
	cx_start(c, 0, 0, 0);
	c->answers = CX_ALL | CX_FENCE;
	cx_view(c, 1, 1, true);
	cx_settle(c);
	cx_tick(c, 60000);
	assert_true(cx_event(&c->node[0], DDR_EV_NODE_RECOVERED) >= 0);
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	c->answers = CX_ALL;
	cx_settle(c);
	assert_true(evicted(c, 1));
}

/* Two nodes without parity: there is no dirty log, and no slot marks anything. */
static void without_parity(struct cx *c)
{
	cx_down(c);
	memset(c, 0, sizeof(*c));
	cx_make(c, 2, true);
	c->geo.parity = 0;
	rig_super(&c->sb, &c->geo);
	for (uint32_t i = 0; i < 2; i++) {
		c->node[i].cfg.present = (1u << c->sb.members) - 1;
		cx_start(c, i, 0, 0);
	}
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[1]).ready);
}

/* Finding U6: without parity the superblocks show it: the slot of a node that was fenced is free, and a kernel that holds grants had one. */
static void without_parity_the_slot_of_an_evicted_node_is_freed(void **state)
{
	struct cx *c = *state;

	without_parity(c);
	storage_fences_node_2(c);
	for (uint32_t s = 0; s < c->sb.slots; s++)
		assert_true(c->sb.slot_node[s] != 2);
	cold_start(c, 1);
	assert_true(evicted(c, 1));
	assert_false(evicted(c, 0));
	assert_int_equal(cx_find(&c->node[1], DDR_OUT_KERNEL, DDR_U_ENABLE), -1);
}

/* That evicts neither a node that nobody has fenced, nor one that has booted since. */
static void without_parity_a_node_that_was_not_fenced_may_start(void **state)
{
	struct cx *c = *state;

	without_parity(c);
	lock(c, 1, 2);
	cold_start(c, 1);
	assert_false(evicted(c, 0) || evicted(c, 1));
	assert_true(cx_status(&c->node[1]).ready);
	without_parity(c);
	storage_fences_node_2(c);
	c->node[1].cookie = 9;
	cold_start(c, 0);
	assert_false(evicted(c, 0) || evicted(c, 1));
	assert_true(cx_status(&c->node[1]).ready);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_kernel_that_holds_what_no_slot_marks_is_evicted), TEST(an_evicted_machine_may_start_after_a_reboot),
		TEST(a_fenced_kernel_that_holds_something_is_evicted), TEST(a_recovered_slot_names_the_kernel_that_had_it),
		TEST(without_parity_the_slot_of_an_evicted_node_is_freed), TEST(without_parity_a_node_that_was_not_fenced_may_start),
	};

	return cmocka_run_group_tests_name("state machine: evicted kernels", tests, NULL, NULL);
}
