// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * An array that belongs to a cluster of several nodes: its superblocks say so before any write, a node without a cluster is refused,
 * and the operator may adopt the array, which takes over the dirty regions of the cluster's nodes.
 */
#include "sm-cluster.h"

static bool marked(const struct ddr_super *sb)
{
	return sb->ro_compat & DDR_RO_COMPAT_CLUSTER;
}

static int made(void **state)
{
	*state = calloc(1, sizeof(struct cx));
	cx_make(*state, 2, true);
	return 0;
}

static int unmade(void **state)
{
	cx_down(*state);
	free(*state);
	return 0;
}

static void lock(struct cx *c, uint32_t i, uint64_t region)
{
	struct ddr_input in = { .type = DDR_IN_K_REC, .rec = { .type = DDR_K_LOCK, .seq = 900, .start = region, .count = 1 } };

	cx_step(c, &c->node[i], &in);
	cx_settle(c);
}

/* ---- a cluster ------------------------------------------------------------------- */

/* A cluster whose nodes know that it has several nodes: @nodes of them take part. */
static void cluster(struct cx *c, uint32_t nodes)
{
	for (uint32_t i = 0; i < nodes; i++) {
		c->node[i].cfg.several = true;
		cx_start(c, i, 0, 0);
	}
	cx_view(c, (1u << nodes) - 1, (1u << nodes) - 1, true);
	cx_settle(c);
}

/* Finding T1: nothing is granted before the superblocks of all members record whose the array is. */
static void the_cluster_bit_is_durable_before_a_grant(void **state)
{
	struct cx *c = *state;
	uint32_t sb;

	c->answers = CX_MSG | CX_KERNEL;
	cluster(c, 1);
	cx_done(c, &c->node[0], cx_open(&c->node[0], DDR_OUT_RELOAD));
	cx_settle(c);
	cx_done(c, &c->node[0], cx_open(&c->node[0], DDR_OUT_RELOAD));	/* once more, as the first writer */
	cx_settle(c);
	lock(c, 0, 1);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_KERNEL, DDR_U_GRANT), -1);
	assert_false(marked(&c->sb));
	sb = cx_open(&c->node[0], DDR_OUT_SB_WRITE);
	c->answers = CX_ALL;
	cx_done(c, &c->node[0], sb);
	assert_true(marked(&c->sb));
	assert_int_equal(c->sb.generation, 1);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_KERNEL, DDR_U_GRANT), -1);
	cx_settle(c);
	lock(c, 0, 1);
	assert_true(cx_find(&c->node[0], DDR_OUT_KERNEL, DDR_U_GRANT) >= 0);
	assert_true(marked(ddr_sm_super(c->node[0].sm)));
}

/* Finding T1: it stays recorded in later changes, and a joining node gets it from the group. */
static void a_joining_node_knows_the_cluster_bit(void **state)
{
	struct cx *c = *state;

	c->node[1].cfg.several = true;
	cx_start(c, 1, 0, 0);		/* it has read superblocks that do not record it yet */
	cluster(c, 1);
	assert_false(marked(ddr_sm_super(c->node[1].sm)));
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[1]).joined);
	assert_true(marked(&c->sb) && marked(ddr_sm_super(c->node[0].sm)) && marked(ddr_sm_super(c->node[1].sm)));
}

/* One node that knew of no other began; the next one knows that there are several. */
static void an_array_of_one_node_moves_to_a_cluster(void **state)
{
	struct cx *c = *state;

	cx_start(c, 0, 0, 0);
	cx_view(c, 1, 1, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[0]).joined);
	assert_false(marked(&c->sb));
	c->node[1].cfg.several = true;
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_true(marked(&c->sb) && marked(ddr_sm_super(c->node[0].sm)) && marked(ddr_sm_super(c->node[1].sm)));
}

/* ---- outside of it --------------------------------------------------------------- */

/* The state that an older daemon of a cluster left: slots 0 and 1 are owned by nodes 1 and 2, with regions 1 and 2 dirty. */
static void leave_dirty(struct cx *c)
{
	cluster(c, 2);
	lock(c, 0, 1);
	lock(c, 1, 2);
	assert_true(ddr_log_get(c->disk[0].payload, 1) && ddr_log_get(c->disk[1].payload, 2));
	assert_int_equal(c->sb.slot_node[1], 2);
	cx_down(c);
	cx_forget(c);
}

/* The daemon of a node that is in no cluster: it has read all before. */
static void alone(struct cx *c, uint32_t i, uint32_t slot)
{
	struct cx_node *n = &c->node[i];
	struct ddr_input view = { .type = DDR_IN_VIEW, .n_nodes = 1, .nodes[0] = i + 1, .quorate = true, .ring = ++c->ring };
	struct ddr_input in = { .type = DDR_IN_K_ATTACHED, .cookie = 77, .boot_id[0] = 3, .members = (1u << c->sb.roles) - 1, .count = c->sb.array_blocks };

	n->cfg.cluster = false;
	n->cfg.several = false;
	cx_daemon(c, i);
	for (uint32_t s = 0; s < CX_SLOTS; s++) {
		struct ddr_output o = { .type = DDR_OUT_SLOT_READ, .slot = s };

		if (s == slot || c->sb.slot_node[s])
			cx_read(c, n, &o);
	}
	cx_read(c, n, &(struct ddr_output){ .type = DDR_OUT_RELOAD });
	n->view = 2ull << i;
	cx_step(c, n, &view);
	cx_step(c, n, &in);
	in = (struct ddr_input){ .type = DDR_IN_K_REC, .rec = { .type = DDR_K_HELD_END } };
	cx_step(c, n, &in);
	cx_settle(c);
}

static void nothing_is_written(const struct cx_node *n, const char *why)
{
	int told = cx_event(n, DDR_EV_REFUSED);

	assert_true(told >= 0);
	assert_non_null(strstr(n->log[told].text, why));
	assert_int_equal(cx_find(n, DDR_OUT_SB_WRITE, 0), -1);
	assert_int_equal(cx_find(n, DDR_OUT_LOG_WRITE, 0), -1);
	assert_int_equal(cx_find(n, DDR_OUT_SLOT_WRITE, 0), -1);
	assert_int_equal(cx_find(n, DDR_OUT_KERNEL, DDR_U_ENABLE), -1);
	assert_int_equal(cx_find(n, DDR_OUT_KERNEL, DDR_U_GRANT), -1);
}

/* Finding T1: node 1 without its cluster owns slot 0 by its id, and must not take it for its own crash. */
static void a_clusters_array_is_refused_without_a_cluster(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];

	cluster(c, 1);
	lock(c, 0, 1);
	cx_down(c);
	alone(c, 0, 0);
	nothing_is_written(n, "ddraid start --adopt");
}

/* Finding T1: the same in a cluster of its own, whose list of nodes was reduced to this one. */
static void a_clusters_array_is_refused_in_a_cluster_of_one(void **state)
{
	struct cx *c = *state;

	cluster(c, 1);
	cx_down(c);
	c->node[0].cfg.several = false;
	cx_start(c, 0, 0, 0);
	cx_view(c, 1, 1, true);
	cx_settle(c);
	nothing_is_written(&c->node[0], "ddraid start --adopt");
}

/* Finding T1: a slot of another node, with nothing dirty in it just now, may be that of a node that writes in the next moment. */
static void a_clean_slot_of_another_node_is_refused(void **state)
{
	struct cx *c = *state;

	c->sb.slot_node[1] = 9;
	alone(c, 0, 0);
	nothing_is_written(&c->node[0], "a slot belongs to a node");
}

/* ---- adopted --------------------------------------------------------------------- */

/* Finding T1: all dirty regions of the cluster's nodes are resynced, their slots are free, and the superblocks no longer name a cluster. */
static void adopted_by_one_without_a_cluster(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];
	uint64_t generation;

	leave_dirty(c);
	generation = c->sb.generation;
	n->cfg.adopt = true;
	alone(c, 0, 0);
	assert_true(cx_status(n).ready);
	assert_false(marked(&c->sb));
	assert_int_equal(c->sb.generation, generation + 1);
	cx_tick(c, 1000);
	cx_tick(c, 1000);
	assert_int_equal(c->sb.slot_node[0], 1);
	assert_int_equal(c->sb.slot_node[1], 0);
	assert_false(ddr_log_get(c->disk[1].payload, 2));
	assert_int_equal(ddr_sm_region(n->sm, 1), DDR_REGION_CLEAN);
	assert_int_equal(ddr_sm_region(n->sm, 2), DDR_REGION_CLEAN);
	cx_kill(c, 0);
	n->cfg.adopt = false;
	alone(c, 0, 0);			/* from now on without the operator's consent */
	assert_true(cx_status(n).ready);
}

/* Rule 12: each region is dirty in one slot or the other at every moment, and the slot has its owner until it is taken over. */
static void an_adoption_loses_no_dirty_region(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];

	leave_dirty(c);
	n->cfg.adopt = true;
	c->answers = CX_MSG | CX_KERNEL;
	alone(c, 0, 0);
	for (uint32_t i = 0, again = 1; again; i++) {
		assert_true(i < 1000);
		again = 0;
		for (uint32_t o = 0; o < n->n && !again; o++)
			if (n->open[o] && cx_is_io(&n->log[o])) {
				cx_done(c, n, o);
				again = 1;
			}
		if (ddr_sm_region(n->sm, 2) & DDR_SM_REGION_DIRTY || c->sb.slot_node[1])
			assert_true(ddr_log_get(c->disk[0].payload, 2) || (ddr_log_get(c->disk[1].payload, 2) && c->sb.slot_node[1] == 2));
		cx_settle(c);
	}
	assert_int_equal(c->sb.slot_node[1], 0);
}

/* The node died with the slots half taken over: without the operator's consent the next start is refused, with it the adoption continues. */
static void an_adoption_that_was_cut_goes_on(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];

	leave_dirty(c);
	n->cfg.adopt = true;
	c->answers = CX_MSG | CX_KERNEL;
	alone(c, 0, 0);
	cx_done(c, n, cx_open(n, DDR_OUT_SB_WRITE));	/* the generation that is there, on all */
	assert_true(marked(&c->sb));
	cx_done(c, n, cx_open(n, DDR_OUT_SB_WRITE));
	assert_false(marked(&c->sb));
	cx_kill(c, 0);
	c->answers = CX_ALL;
	n->cfg.adopt = false;
	alone(c, 0, 0);
	nothing_is_written(n, "a slot belongs to a node");
	cx_kill(c, 0);
	n->cfg.adopt = true;
	alone(c, 0, 0);
	cx_tick(c, 1000);
	cx_tick(c, 1000);
	assert_int_equal(c->sb.slot_node[1], 0);
	assert_int_equal(ddr_sm_region(n->sm, 2), DDR_REGION_CLEAN);
}

/* Finding T1: with corosync, and only this node in its list: the lost nodes count as dead, without an agent. */
static void adopted_in_a_cluster_of_one(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];

	leave_dirty(c);
	n->cfg.several = false;
	n->cfg.adopt = true;
	cx_start(c, 0, 0, 0);
	cx_view(c, 1, 1, true);
	cx_settle(c);
	cx_tick(c, 1000);
	cx_tick(c, 1000);
	assert_true(cx_status(n).joined);
	assert_false(marked(&c->sb));
	assert_int_equal(cx_find(n, DDR_OUT_FENCE, 0), -1);
	assert_true(cx_event(n, DDR_EV_NODE_RECOVERED) >= 0);
	assert_int_equal(ddr_sm_region(n->sm, 1), DDR_REGION_CLEAN);
	assert_int_equal(ddr_sm_region(n->sm, 2), DDR_REGION_CLEAN);
}

/* The operator adopts the array without knowing that another node is running. */
static void with_other_nodes_in_the_view_nothing_is_adopted(void **state)
{
	struct cx *c = *state;
	int up;

	cluster(c, 1);
	c->node[1].cfg.several = false;
	c->node[1].cfg.adopt = true;
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	up = cx_find(&c->node[1], DDR_OUT_GIVE_UP, 0);
	assert_true(up >= 0);
	assert_non_null(strstr(c->node[1].log[up].text, "without --adopt"));
	assert_true(marked(&c->sb) && marked(ddr_sm_super(c->node[0].sm)));
	assert_true(cx_status(&c->node[0]).joined);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, made, unmade)
	const struct CMUnitTest tests[] = {
		TEST(the_cluster_bit_is_durable_before_a_grant), TEST(a_joining_node_knows_the_cluster_bit), TEST(an_array_of_one_node_moves_to_a_cluster),
		TEST(a_clusters_array_is_refused_without_a_cluster), TEST(a_clusters_array_is_refused_in_a_cluster_of_one), TEST(a_clean_slot_of_another_node_is_refused),
		TEST(adopted_by_one_without_a_cluster), TEST(an_adoption_loses_no_dirty_region), TEST(an_adoption_that_was_cut_goes_on),
		TEST(adopted_in_a_cluster_of_one), TEST(with_other_nodes_in_the_view_nothing_is_adopted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
