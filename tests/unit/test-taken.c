// SPDX-License-Identifier: GPL-2.0-or-later
/* Superblocks that another cluster has written meanwhile: they are not written over, and the array stops (rule I3). See stamp-rig.h. */
#include "tests/unit/stamp-rig.h"

#define HERE	3u	/* clusters, as numbers: the array's, as this node knows it ... */
#define THERE	40u	/* ... another one ... */
#define NONE	0u	/* ... and no cluster */

/* Both copies on member @m, of this generation, name a cluster. */
static void put_supers(uint32_t m, unsigned int cluster, uint64_t generation)
{
	struct ddr_dev dev = { .fd = w.disk[m], .path = (char *)"disk", .bytes = BYTES };
	struct ddr_super sb = w.sb;
	struct ddr_owners owners;
	struct ddr_error err;

	sb.this_member = (uint16_t)m;
	sb.generation = generation;
	for (sb.seq = 11; sb.seq <= 12; sb.seq++) {
		ddr_owners_init(&owners, &sb);
		if (cluster)
			fixture_uuid(owners.cluster, cluster);
		assert_int_equal(ddr_dev_write_owned(&dev, &sb, &owners, &err), 0);
	}
}

static int begin(void **state)
{
	if (setup(state))
		return -1;
	for (uint32_t m = 0; m < w.sb.members; m++)
		put_supers(m, HERE, w.sb.generation);
	return 0;
}

static bool names(uint32_t m, unsigned int cluster)
{
	struct ddr_dev dev = { .fd = w.disk[m], .path = (char *)"disk", .bytes = BYTES };
	static struct ddr_supers supers;
	struct ddr_error err;
	uint8_t id[16] = { 0 };

	assert_int_equal(ddr_dev_read_supers(&dev, &supers, &err), 0);
	if (cluster)
		fixture_uuid(id, cluster);
	return memcmp(supers.owners.cluster, id, sizeof(id)) == 0;
}

static void check(void)
{
	ddr_drive_check(&a, UINT32_MAX);
	pass(2000);
}

/* This node changes the superblocks of all members. They name @cluster then. */
static void change_all(unsigned int cluster)
{
	struct ddr_meta_op *op = ddr_metaio_get(a.meta, DDR_META_SB, 1, 7);
	struct ddr_owners owners;
	struct ddr_super sb = w.sb;

	sb.seq = 20;
	for (uint32_t m = 0; m < w.sb.members; m++) {
		sb.this_member = (uint16_t)m;
		assert_int_equal(ddr_super_encode(&sb, ddr_metaio_block(op, m)).code, DDR_FE_OK);
	}
	ddr_owners_init(&owners, &sb);
	fixture_uuid(owners.cluster, cluster);
	ddr_metaio_supers(op, &w.sb, &sb);
	ddr_drive_whose(&a, op, owners.cluster);
	assert_int_equal(ddr_metaio_owners(op, &owners, &sb).code, DDR_FE_OK);
	ddr_metaio_run(op, play.now, 60000);
	ddr_metaio_kick(a.meta);
	ends();
	assert_int_equal(play.changes, 1);
}

static void expect_stopped(void)
{
	assert_int_equal(play.gave_up, 1);
	assert_non_null(a.broken);
	assert_true(a.stamp.taken);
	assert_int_equal(play.exchanged, 0);
	if (!strstr(a.error, "name another cluster") || !strstr(a.error, "start it here: ddraid start --adopt rig"))
		fail_msg("%s", a.error);
}

/* A check and a change went on, and all members have this node's superblocks. */
static void expect_written(void)
{
	check();
	change_all(HERE);
	assert_int_equal(play.gave_up, 0);
	assert_int_equal(play.change_failed, 0);
	for (uint32_t m = 0; m < w.sb.members; m++)
		assert_true(names(m, HERE));
}

static void a_check_finds_the_other_cluster(void **state)
{
	(void)state;
	put_supers(1, THERE, w.sb.generation);
	check();
	expect_stopped();
	assert_int_equal(play.supers, 0);
}

static void nothing_is_written_over_its_superblocks(void **state)
{
	(void)state;
	for (uint32_t m = 0; m < w.sb.members; m++)
		put_supers(m, THERE, w.sb.generation);
	change_all(HERE);
	expect_stopped();
	assert_int_equal(play.change_failed, 7);
	assert_int_equal(play.supers, 0);
	for (uint32_t m = 0; m < w.sb.members; m++)
		assert_true(names(m, THERE));
}

/* A member that was out while the array changed its cluster has the old one still, and comes back. */
static void older_superblocks_prove_nothing(void **state)
{
	(void)state;
	put_supers(1, THERE, w.sb.generation);
	((struct ddr_super *)ddr_sm_super(a.sm))->generation++;		/* the others went on without it */
	expect_written();
}

/* Superblocks of a spare are not written as the array is adopted, which is no new generation. */
static void what_was_there_before_an_adoption_proves_nothing(void **state)
{
	(void)state;
	put_supers(1, THERE, w.sb.generation);
	a.super.seq = 12;
	expect_written();
}

/* What is newer by one copy was written since. */
static void what_was_written_since_an_adoption_counts(void **state)
{
	(void)state;
	put_supers(1, THERE, w.sb.generation);
	a.super.seq = 11;
	check();
	expect_stopped();
}

/* That is what an adoption does. */
static void its_own_cluster_may_follow_the_recorded_one(void **state)
{
	(void)state;
	change_all(THERE);
	assert_int_equal(play.gave_up, 0);
	assert_int_equal(play.change_failed, 0);
	assert_true(names(2, THERE));
}

static void no_cluster_is_none_other(void **state)
{
	(void)state;
	put_supers(0, NONE, w.sb.generation);
	expect_written();
}

/* Pages that are torn say nothing, and the superblock beside them says whose disk it is. */
static void a_check_needs_no_whole_pages(void **state)
{
	uint8_t block[DDR_META_BLOCK] = { 1 };

	(void)state;
	for (unsigned int c = 0; c < DDR_SB_COPIES; c++)
		assert_int_equal(pwrite(w.disk[1], block, sizeof(block), (off_t)ddr_owner_offset(&w.sb, c)), sizeof(block));
	check();
	assert_int_equal(play.gave_up, 0);
	assert_int_equal(play.failed, 0);
	assert_int_equal(a.check.fine, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, teardown)
		TEST(a_check_finds_the_other_cluster), TEST(nothing_is_written_over_its_superblocks), TEST(older_superblocks_prove_nothing),
		TEST(what_was_there_before_an_adoption_proves_nothing), TEST(what_was_written_since_an_adoption_counts),
		TEST(its_own_cluster_may_follow_the_recorded_one), TEST(no_cluster_is_none_other), TEST(a_check_needs_no_whole_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
