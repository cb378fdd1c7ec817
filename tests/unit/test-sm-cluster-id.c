// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which cluster has used the array last (format 2): another one is refused, also after a clean stop, until the operator adopts the array there; and
 * when the disks are told.
 */
#include "tests/unit/sm-cluster.h"

#include "lib/cluster/sm_int.h"

static struct cx *make(uint32_t nodes)
{
	struct cx *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	cx_make(c, nodes, false);
	c->geo.owners = true;
	rig_super(&c->sb, &c->geo);
	ddr_owners_init(&c->owners, &c->sb);
	for (uint32_t i = 0; i < CX_NODES; i++) {
		c->node[i].cfg = c->node[0].cfg;
		c->node[i].cfg.node = i + 1;
		c->node[i].cfg.several = true;
		c->node[i].cookie = 70 + i;
	}
	return c;
}

static void down(struct cx *c)
{
	cx_down(c);
	free(c);
}

static void is_in(struct cx *c, uint32_t i, uint8_t cluster)
{
	ddr_sm_set_cluster(c->node[i].sm, (const uint8_t[16]){ cluster });
}

/* These nodes (bits) start in this cluster, and see each other. */
static void start(struct cx *c, uint32_t nodes, uint8_t cluster)
{
	for (uint32_t i = 0; i < CX_NODES; i++)
		if (nodes >> i & 1) {
			cx_start(c, i, 0, 0);
			is_in(c, i, cluster);
		}
	cx_view(c, nodes, nodes, true);
	cx_settle(c);
}

/* They stop in order: no slot is owned any more. */
static void stop(struct cx *c, uint32_t nodes)
{
	for (uint32_t i = 0; i < CX_NODES; i++)
		if (nodes >> i & 1) {
			cx_op(c, i, DDR_IN_K_DETACHED, 0);
			cx_op(c, i, DDR_IN_OP_LEAVE, 0);
			cx_settle(c);
			assert_true(cx_event(&c->node[i], DDR_EV_LEFT) >= 0);
			cx_kill(c, i);
			cx_view(c, nodes & ~((2u << i) - 1), nodes & ~((2u << i) - 1), true);
			cx_settle(c);
		}
	for (uint32_t s = 0; s < CX_SLOTS; s++)
		assert_int_equal(c->sb.slot_node[s], 0);
	cx_down(c);
	cx_forget(c);
}

static void refused(const struct cx_node *n)
{
	int told = cx_event(n, DDR_EV_REFUSED);

	assert_true(told >= 0);
	assert_ptr_equal(n->log[told].text, ddr_sm_elsewhere);
	assert_int_equal(cx_find(n, DDR_OUT_SB_WRITE, 0), -1);
	assert_int_equal(cx_find(n, DDR_OUT_LOG_WRITE, 0), -1);
	assert_int_equal(cx_find(n, DDR_OUT_SLOT_WRITE, 0), -1);
	assert_int_equal(cx_find(n, DDR_OUT_KERNEL, DDR_U_ENABLE), -1);
	assert_false(cx_status(n).joined);
}

/* Finding T1: the first node of a cluster that starts records it, with its slot: before anything is granted. */
static void the_cluster_is_recorded_with_the_slot(void **state)
{
	struct cx *c = make(2);

	(void)state;
	start(c, 1, 7);
	assert_true(cx_status(&c->node[0]).joined);
	assert_int_equal(c->owners.cluster[0], 7);
	assert_int_equal(ddr_sm_cluster(c->node[0].sm)[0], 7);
	down(c);
}

/* Finding T1: two clusters on the same disks. None of the other's nodes starts, neither the one that has read the disks nor one that it told. */
static void another_cluster_is_refused(void **state)
{
	struct cx *c = make(2);

	(void)state;
	start(c, 3, 7);
	stop(c, 3);
	start(c, 3, 8);
	refused(&c->node[0]);
	refused(&c->node[1]);
	assert_int_equal(c->owners.cluster[0], 7);
	cx_down(c);
	cx_forget(c);
	start(c, 3, 0);			/* one that was just set up has no id */
	refused(&c->node[0]);
	refused(&c->node[1]);
	cx_down(c);
	cx_forget(c);
	start(c, 3, 7);
	assert_true(cx_status(&c->node[0]).joined && cx_status(&c->node[1]).joined);
	down(c);
}

/* Finding T1: the operator's adoption is for one node; afterwards the array is the other cluster's, and its nodes start. Who had slots counts as dead. */
static void another_cluster_adopts(void **state)
{
	struct cx *c = make(3);

	(void)state;
	start(c, 3, 7);
	cx_down(c);			/* both die, with their slots */
	cx_forget(c);
	assert_int_equal(c->sb.slot_node[0], 1);
	assert_int_equal(c->sb.slot_node[1], 2);
	c->node[2].cfg.adopt = true;
	start(c, 4, 8);
	assert_true(cx_status(&c->node[2]).joined);
	assert_null(cx_status(&c->node[2]).wait);	/* for nobody's fencing */
	assert_int_equal(c->owners.cluster[0], 8);
	c->node[0].cookie = 170;	/* it has booted */
	cx_start(c, 0, 0, 0);
	is_in(c, 0, 8);
	cx_view(c, 5, 5, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[0]).joined);
	down(c);
}

/* What the cluster has used last needs no adoption, which would count nodes as dead that may be alive. */
static void nothing_is_adopted_of_ones_own(void **state)
{
	struct cx *c = make(2);
	int told;

	(void)state;
	start(c, 3, 7);
	stop(c, 3);
	c->node[0].cfg.adopt = true;
	start(c, 1, 7);
	told = cx_event(&c->node[0], DDR_EV_REFUSED);
	assert_true(told >= 0);
	assert_non_null(strstr(c->node[0].log[told].text, "needs no --adopt"));
	assert_false(cx_status(&c->node[0]).joined);
	down(c);
}

/* The first array of a new cluster: its id is agreed after the START. The disks are told then, and no other message needs to follow. */
static void an_id_that_comes_late_is_recorded(void **state)
{
	struct cx *c = make(2);

	(void)state;
	start(c, 3, 0);
	assert_int_equal(c->owners.cluster[0], 0);
	is_in(c, 0, 7);
	is_in(c, 1, 7);
	cx_tick(c, 1000);
	cx_settle(c);
	assert_int_equal(c->owners.cluster[0], 7);
	stop(c, 3);
	start(c, 1, 8);
	refused(&c->node[0]);
	down(c);
}

/* Two clusters have met, and the group has the other one's id: who joins nodes that use the array is in the same group as they are. */
static void who_joins_others_is_not_refused(void **state)
{
	struct cx *c = make(2);

	(void)state;
	start(c, 1, 7);
	cx_start(c, 1, 0, 0);
	is_in(c, 0, 8);
	is_in(c, 1, 8);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[1]).joined);
	assert_int_equal(c->owners.cluster[0], 7);	/* it does not bring the array along */
	down(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_cluster_is_recorded_with_the_slot), cmocka_unit_test(another_cluster_is_refused),
		cmocka_unit_test(another_cluster_adopts), cmocka_unit_test(nothing_is_adopted_of_ones_own),
		cmocka_unit_test(an_id_that_comes_late_is_recorded), cmocka_unit_test(who_joins_others_is_not_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
