// SPDX-License-Identifier: GPL-2.0-or-later
/* Whose an array is, as the daemon judges it: what is refused, what the message says, and how long an adoption counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/array/array.h"
#include "fixture.h"

static struct ddr_transport_ops ops;
static struct ddr_daemon d;
static struct ddr_array array;
static struct ddr_super sb;
static uint32_t nodes;
static const char *away;
static struct ddr_owners owners;
static uint64_t now;
static uint8_t recorded[16], own[16];	/* the cluster that the disks name, and this node's */

uint64_t ddr_now_ms(void)
{
	return now;
}

static const char *waits(const struct ddr_daemon *daemon)
{
	(void)daemon;
	return away;
}

static uint32_t node(const struct ddr_daemon *daemon)
{
	(void)daemon;
	return 1;
}

static uint32_t count(const struct ddr_daemon *daemon)
{
	(void)daemon;
	return nodes;
}

static bool cluster_id(const struct ddr_daemon *daemon, uint8_t id[16])
{
	(void)daemon;
	memcpy(id, own, 16);
	return own[0];
}

static bool known_name(const struct ddr_daemon *daemon, uint32_t id, char *buf, size_t size)
{
	(void)daemon;
	return snprintf(buf, size, "node%u", id);
}

static int check(void)
{
	memcpy(owners.cluster, recorded, sizeof(owners.cluster));
	return ddr_identity_check(&array, &sb, &owners);
}

static int fresh(void **state)
{
	(void)state;
	memset(&d, 0, sizeof(d));
	memset(&array, 0, sizeof(array));
	ops = (struct ddr_transport_ops){ .name = "played", .waits = waits, .node = node, .nodes = count, .cluster_id = cluster_id, .known_name = known_name };
	d.transport = &ops;
	array.d = &d;
	memset(array.uuid, 7, sizeof(array.uuid));
	memset(&sb, 0, sizeof(sb));
	snprintf(sb.name, sizeof(sb.name), "data");
	sb.slots = 4;
	nodes = 1;
	away = NULL;
	now = 1000;
	memset(recorded, 0, sizeof(recorded));
	memset(own, 0, sizeof(own));
	memset(&owners, 0, sizeof(owners));
	return 0;
}

/* Finding T1: what happened, why, and what to type, for a cluster's array and for another node's slot. */
static void arrays_of_other_nodes_and_clusters_are_refused(void **state)
{
	(void)state;
	assert_int_equal(check(), 0);
	sb.slot_node[0] = 1;		/* this node's own crash */
	assert_int_equal(check(), 0);
	sb.slot_node[2] = 5;
	assert_int_equal(check(), -1);
	assert_non_null(strstr(array.error, "belongs to node 5"));
	assert_non_null(strstr(array.error, "ddraid start --adopt data"));
	ops.cluster = true;		/* corosync waits for the owner, and fences it */
	assert_int_equal(check(), 0);
	for (ops.cluster = false; ; ops.cluster = true) {
		array.error[0] = '\0';
		sb.slot_node[2] = 0;
		sb.ro_compat = DDR_RO_COMPAT_CLUSTER;
		assert_int_equal(check(), -1);
		assert_non_null(strstr(array.error, "belongs to a cluster"));
		assert_non_null(strstr(array.error, "ddraid start --adopt data"));
		if (ops.cluster)
			break;
	}
	nodes = 2;
	assert_int_equal(check(), 0);
	nodes = 0;			/* no list of nodes: there may be others */
	assert_int_equal(check(), 0);
}

/* Finding T1: an adoption is for one start, of this array, and not for one that comes much later. */
static void an_adoption_is_for_one_start(void **state)
{
	uint8_t other[16] = { 9 };
	char buf[256];

	(void)state;
	assert_false(ddr_identity_adopted(&array));
	assert_null(ddr_identity_adopt(&d, other, recorded, buf, sizeof(buf)));
	assert_false(ddr_identity_adopted(&array));
	assert_null(ddr_identity_adopt(&d, array.uuid, recorded, buf, sizeof(buf)));
	assert_true(ddr_identity_adopted(&array));
	assert_false(ddr_identity_adopted(&array));
	assert_null(ddr_identity_adopt(&d, array.uuid, recorded, buf, sizeof(buf)));
	now += 120000;
	assert_false(ddr_identity_adopted(&array));
	assert_null(ddr_identity_adopt(&d, array.uuid, recorded, buf, sizeof(buf)));
	nodes = 2;			/* the node has a cluster meanwhile */
	assert_false(ddr_identity_adopted(&array));
}

/* A load may end without a start, through no fault of the array; then the adoption is for the next one. It does not last longer for that. */
static void an_adoption_outlives_a_load_that_led_to_no_start(void **state)
{
	char buf[256];

	(void)state;
	assert_false(ddr_identity_adopted(&array));
	ddr_identity_not_started(&array);			/* there was none */
	assert_false(ddr_identity_adopted(&array));
	assert_null(ddr_identity_adopt(&d, array.uuid, recorded, buf, sizeof(buf)));
	assert_true(ddr_identity_adopted(&array));
	now += 100000;
	assert_true(ddr_identity_adopts(&array));		/* however long the load takes */
	ddr_identity_not_started(&array);
	assert_false(ddr_identity_adopts(&array));
	assert_true(ddr_identity_adopted(&array));
	ddr_identity_not_started(&array);
	ddr_identity_not_started(&array);
	assert_true(ddr_identity_adopted(&array));		/* once */
	assert_false(ddr_identity_adopted(&array));
	assert_null(ddr_identity_adopt(&d, array.uuid, recorded, buf, sizeof(buf)));
	assert_true(ddr_identity_adopted(&array));
	now += 120000;
	assert_true(ddr_identity_adopts(&array));
	ddr_identity_not_started(&array);
	assert_false(ddr_identity_adopted(&array));		/* it is too late for another load */
}

/* What the operator was told is judged again when the array starts. */
static void an_adoption_is_void_in_another_cluster(void **state)
{
	char buf[256];

	(void)state;
	assert_null(ddr_identity_adopt(&d, array.uuid, recorded, buf, sizeof(buf)));
	assert_true(ddr_identity_adopted(&array));
	nodes = 2;
	assert_false(ddr_identity_adopts(&array));
	nodes = 1;
	assert_true(ddr_identity_adopts(&array));
	ddr_identity_not_started(&array);
	now += 50000;
	assert_null(ddr_identity_adopt(&d, array.uuid, recorded, buf, sizeof(buf)));	/* the newer one counts */
	ddr_identity_not_started(&array);
	now += 119999;
	assert_true(ddr_identity_adopted(&array));
}

/* Who takes over, as the claims on the disks will say. */
static void a_claim_says_who_takes_over(void **state)
{
	struct ddr_claim claim;
	char buf[256];

	(void)state;
	memset(d.ident.id.machine, 3, sizeof(d.ident.id.machine));
	memset(d.boot_id, 5, sizeof(d.boot_id));
	array.bind.cookie = 77;
	array.tune.daemon_timeout_ms = 30000;
	ddr_identity_claim(&array, &claim);
	assert_false(claim.adopted);
	assert_true(claim.alone);
	assert_null(ddr_identity_adopt(&d, array.uuid, recorded, buf, sizeof(buf)));
	nodes = 3;
	ddr_identity_claim(&array, &claim);
	assert_false(claim.adopted);
	assert_false(claim.alone);
	nodes = 1;
	assert_null(ddr_identity_adopt(&d, array.uuid, recorded, buf, sizeof(buf)));
	ddr_identity_claim(&array, &claim);
	assert_true(claim.adopted);
	assert_int_equal(claim.node, 1);
	assert_int_equal(claim.stop_ms, 30000);
	assert_int_equal(claim.instance.cookie, 77);
	assert_memory_equal(claim.instance.boot_id, d.boot_id, sizeof(d.boot_id));
	assert_memory_equal(claim.machine, d.ident.id.machine, sizeof(claim.machine));
	assert_string_equal(claim.name, "node1");
	ddr_identity_claim(&array, &claim);
	assert_false(claim.adopted);
}

/* Finding T1: in a cluster of several nodes there is nothing to adopt. */
static void an_adoption_in_a_cluster_of_several_nodes_is_refused(void **state)
{
	char buf[256];

	(void)state;
	nodes = 2;
	assert_non_null(strstr(ddr_identity_adopt(&d, array.uuid, recorded, buf, sizeof(buf)), "a cluster of 2 nodes"));
	nodes = 0;
	assert_non_null(strstr(ddr_identity_adopt(&d, array.uuid, recorded, buf, sizeof(buf)), "a cluster of several nodes"));
	nodes = 1;
	away = "corosync is not running on this node; systemctl start corosync";
	assert_string_equal(ddr_identity_adopt(&d, array.uuid, recorded, buf, sizeof(buf)), away);
	away = NULL;
	assert_false(ddr_identity_adopted(&array));
}

/* Finding T1: another cluster on the same disks, or another machine without one. Both ids, and what to type. */
static void an_array_that_another_cluster_has_used_is_refused(void **state)
{
	(void)state;
	own[0] = 1;
	assert_int_equal(check(), 0);		/* of format 1, or never started */
	recorded[0] = 1;
	assert_int_equal(check(), 0);
	recorded[0] = 2;
	assert_int_equal(check(), -1);
	assert_non_null(strstr(array.error, "used last by another cluster, or by a machine without one (id 02000000-"));
	assert_non_null(strstr(array.error, "this node is in no cluster, with id 01000000-"));
	assert_non_null(strstr(array.error, "ddraid start --adopt data"));
	owners.slot[3] = (struct ddr_owner){ .state = DDR_SLOT_OWNED, .instance = { .boot_id = { 5 }, .cookie = 9 } };
	array.bind.cookie = 9;
	assert_int_equal(check(), -1);
	d.boot_id[0] = 5;		/* this kernel has had its slot all the time */
	assert_int_equal(check(), 0);
	array.bind.cookie = 10;
	assert_int_equal(check(), -1);
	ops.cluster = true;		/* what was loaded may be old: the group reads it again */
	assert_int_equal(check(), 0);
	assert_int_equal(ddr_identity_elsewhere(&array, &sb, recorded), -1);
	assert_non_null(strstr(array.error, "this node is in cluster 01000000-"));
	own[0] = 0;			/* a cluster that was just set up */
	assert_int_equal(ddr_identity_elsewhere(&array, &sb, recorded), -1);
	assert_non_null(strstr(array.error, "in a cluster that has no id yet"));
	recorded[0] = 0;
	assert_int_equal(ddr_identity_elsewhere(&array, &sb, recorded), 0);
}

/* Finding T1: a cluster of several nodes may adopt what another one has used, and nothing else. */
static void a_cluster_adopts_what_another_one_has_used(void **state)
{
	char buf[256];

	(void)state;
	nodes = 3;
	own[0] = recorded[0] = 1;
	assert_non_null(strstr(ddr_identity_adopt(&d, array.uuid, recorded, buf, sizeof(buf)), "a cluster of 3 nodes"));
	assert_false(ddr_identity_adopted(&array));
	recorded[0] = 2;
	assert_null(ddr_identity_adopt(&d, array.uuid, recorded, buf, sizeof(buf)));
	assert_true(ddr_identity_adopted(&array));
	assert_false(ddr_identity_adopted(&array));
	assert_null(ddr_identity_adopt(&d, array.uuid, recorded, buf, sizeof(buf)));
	nodes = 1;			/* what the operator was told is not so any more */
	assert_false(ddr_identity_adopted(&array));
}

static void too_many_adoptions_at_once_are_refused(void **state)
{
	uint8_t uuid[16] = { 0 };
	char buf[256];

	(void)state;
	for (uint8_t i = 0; i < DDR_ADOPTIONS; i++) {
		uuid[0] = i + 1;
		assert_null(ddr_identity_adopt(&d, uuid, recorded, buf, sizeof(buf)));
	}
	assert_non_null(ddr_identity_adopt(&d, array.uuid, recorded, buf, sizeof(buf)));
	assert_null(ddr_identity_adopt(&d, uuid, recorded, buf, sizeof(buf)));	/* the same once more */
	now += 120000;
	assert_null(ddr_identity_adopt(&d, array.uuid, recorded, buf, sizeof(buf)));
	assert_true(ddr_identity_adopted(&array));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, fresh)
	const struct CMUnitTest tests[] = {
		TEST(arrays_of_other_nodes_and_clusters_are_refused), TEST(an_adoption_is_for_one_start), TEST(an_adoption_in_a_cluster_of_several_nodes_is_refused), TEST(an_array_that_another_cluster_has_used_is_refused),
		TEST(an_adoption_outlives_a_load_that_led_to_no_start), TEST(an_adoption_is_void_in_another_cluster), TEST(a_claim_says_who_takes_over),
		TEST(a_cluster_adopts_what_another_one_has_used), TEST(too_many_adoptions_at_once_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
