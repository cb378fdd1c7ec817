// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The stamps of this node's slot (daemon/array/drive_stamp.c, with daemon/disk/metaio_stamp.c and the check of the superblocks, on the disks of
 * super-disks.h).
 */
#include "tests/unit/stamp-rig.h"

/* ---- tests --------------------------------------------------------------------------- */

static void a_stamp_every_two_seconds(void **state)
{
	struct ddr_stamp s[2];

	(void)state;
	pass(0);
	assert_int_equal(written(), w.sb.members);
	pass(900);			/* the same turn */
	assert_int_equal(written(), w.sb.members);
	for (unsigned int turn = 2; turn <= 5; turn++) {
		pass(2000);
		assert_int_equal(written(), turn * w.sb.members);
		for (uint32_t m = 0; m < w.sb.members; m++) {
			assert_true(found(m, 0, &s[0]) && found(m, 1, &s[1]));
			assert_int_equal(s[turn & 1].seq, turn);
			assert_int_equal(s[1 - (turn & 1)].seq, turn - 1);
		}
	}
	assert_int_equal(s[0].kind, DDR_STAMP_OWNER);
	assert_int_equal(s[0].node, NODE);
	assert_int_equal(s[0].stop_ms, 30000);
	assert_int_equal(s[0].generation, w.sb.generation);
	assert_int_equal(s[0].instance.cookie, COOKIE);
	assert_memory_equal(s[0].instance.boot_id, d.boot_id, sizeof(d.boot_id));
	assert_memory_equal(s[0].machine, d.ident.id.machine, sizeof(s[0].machine));
	assert_string_equal(s[0].name, "n3");
	assert_int_equal(play.lost | play.gave_up | play.failed | play.exchanged, 0);
}

static void the_first_goes_over_what_is_there(void **state)
{
	struct ddr_stamp s;

	(void)state;
	put_other(1, DDR_STAMP_CLAIM, 40);
	put_other(1, DDR_STAMP_CLAIM, 41);
	pass(0);
	pass(2000);
	assert_true(found(1, 0, &s) && s.seq == 42 && s.node == NODE);
	assert_true(found(1, 1, &s) && s.seq == 43 && s.node == NODE);
	assert_int_equal(play.gave_up | play.lost, 0);
}

static void stopped_by(enum ddr_stamp_kind kind, const char *text)
{
	struct ddr_stamp s;
	unsigned int n;

	pass(0);
	pass(2000);
	pass(2000);
	put_other(1, kind, 10);
	put_other(1, kind, 11);
	n = written();
	pass(2000);
	assert_int_equal(written(), n + w.sb.members - 1);	/* nothing goes to a member that does not hold what it should */
	assert_int_equal(a.check.wanted, 2);
	assert_null(a.broken);
	pass(1000);			/* its superblocks are read */
	assert_int_equal(play.gave_up, 0);
	pass(2000);
	assert_int_equal(play.gave_up, 1);
	assert_true(a.broken && a.stamp.taken);
	assert_non_null(strstr(a.error, text));
	assert_non_null(strstr(a.error, "node 8, 'elsewhere'"));
	assert_non_null(strstr(a.error, "ddraid start --adopt rig"));
	n = written();
	pass(2000);
	pass(2000);
	assert_int_equal(written(), n);
	assert_true(found(1, 1, &s) && s.seq == 11 && s.node == 8);
	assert_int_equal(play.gave_up, 1);
	assert_int_equal(play.failed | play.exchanged | play.lost, 0);
}

/* Finding T1: another machine has adopted it. */
static void a_claim_stops_the_array(void **state)
{
	(void)state;
	stopped_by(DDR_STAMP_CLAIM, "has claimed the array");
}

/* Whoever wrote it: this daemon does not claim what it serves. */
static void a_claim_is_none_of_the_owners_stamps(void **state)
{
	(void)state;
	pass(0);
	pass(2000);
	put_by(0, DDR_STAMP_CLAIM, 10, true);
	for (unsigned int i = 0; i < 3; i++)
		pass(2000);
	assert_int_equal(play.gave_up, 1);
}

static void another_owner_stops_the_array(void **state)
{
	(void)state;
	stopped_by(DDR_STAMP_OWNER, "writes here as the owner of this node's slot");
}

/* A single read that shows something else, once: it is looked at, and nothing follows; nor does a later one rest on the look of this one. */
static void one_read_decides_nothing(void **state)
{
	(void)state;
	pass(0);
	pass(2000);
	play.lies = 2;
	pass(2000);
	assert_int_equal(a.check.wanted, 2);
	for (unsigned int i = 0; i < 3; i++)
		pass(2000);
	assert_int_equal(play.lost | play.gave_up, 0);
	assert_int_equal(a.stamp.suspect | a.stamp.seen, 0);
	play.lies = 2;
	pass(2000);
	assert_int_equal(play.lost | play.gave_up, 0);
	assert_int_equal(a.check.wanted, 2);
}

static void a_lost_write_is_reported_and_stamped_again(void **state)
{
	const uint8_t zero[DDR_META_BLOCK] = { 0 };
	struct ddr_stamp s;

	(void)state;
	pass(0);
	pass(2000);
	put_block(1, 0, zero);
	pass(2000);
	assert_false(found(1, 0, &s));
	pass(1000);
	pass(1000);
	assert_int_equal(play.lost, 1);
	assert_non_null(strstr(play.text, "lost a write"));
	for (unsigned int i = 0; i < 3; i++)
		pass(2000);
	assert_int_equal(play.lost, 1);
	assert_true(found(1, 0, &s) && found(1, 1, &s));
	assert_true(s.seq >= 3);
	assert_int_equal(play.gave_up | play.failed | play.exchanged, 0);
}

static void nothing_is_written_to_another_disk(void **state)
{
	const uint8_t zero[DDR_META_BLOCK] = { 0 };
	struct ddr_super other = w.sb;
	struct ddr_dev dev = { .fd = w.disk[1], .path = (char *)"disk", .bytes = BYTES };
	struct ddr_owners owners;
	struct ddr_error err;
	unsigned int n;

	(void)state;
	pass(0);
	pass(2000);
	fixture_uuid(other.array_uuid, 4711);
	other.this_member = 1;
	for (other.seq = 2; other.seq <= 3; other.seq++) {
		owners_of(&other, &owners);
		assert_int_equal(ddr_dev_write_owned(&dev, &other, &owners, &err), 0);
	}
	put_block(1, 0, zero);
	put_block(1, 1, zero);
	n = play.writes[1];
	for (unsigned int i = 0; i < 4; i++)
		pass(2000);
	assert_int_equal(play.exchanged, 2);
	assert_int_equal(play.writes[1], n);
	assert_true(play.writes[0] > n);
	assert_int_equal(play.gave_up | play.lost, 0);
}

static void errors_cost_nothing(void **state)
{
	struct ddr_stamp s;

	(void)state;
	pass(0);
	pass(2000);
	play.fails = 1;
	play.fails_write = 2;
	for (unsigned int i = 0; i < 3; i++)
		pass(2000);
	assert_int_equal(play.writes[2], 5);
	assert_int_equal(play.writes[0] + play.writes[1], 4);
	play.fails = play.fails_write = 0;
	for (unsigned int i = 0; i < 3; i++)
		pass(2000);
	assert_int_equal(play.writes[0] + play.writes[1], 10);
	assert_true(found(0, 0, &s) && found(0, 1, &s) && found(1, 0, &s) && found(1, 1, &s));
	assert_int_equal(play.failed | play.exchanged | play.lost | play.gave_up, 0);
}

/* One that hangs has one request, whatever time passes, and delays no other member; nobody waits for it. */
static void one_is_in_flight(void **state)
{
	(void)state;
	pass(0);
	play.hung = 1;
	for (unsigned int i = 0; i < 40; i++)
		pass(2000);
	assert_int_equal(w.n_flying, 1);
	assert_int_equal(play.writes[1], 41);
	assert_true(ddr_metaio_quiet(a.meta));
	assert_false(ddr_metaio_idle(a.meta));		/* the descriptor is in use, and must not be closed */
	assert_int_equal(ddr_metaio_asked(a.meta), 1);
	assert_true(under_way(0, 2) && !under_way(1, 2 * 41));
	play.hung = 0;
	ends();
	assert_true(play.writes[0] == 1 && !under_way(0, 3));	/* it was read 80 s ago */
	pass(2000);
	assert_int_equal(play.writes[0], 2);
	assert_int_equal(play.failed | play.lost | play.gave_up, 0);
}

/* The member gets another device while a stamp is on its way to the one that it had. */
static void another_device_has_stamps_of_its_own(void **state)
{
	int old;

	(void)state;
	pass(0);
	play.hung = 1u << 0 | 1u << w.sb.members;
	pass(2000);
	assert_int_equal(w.n_flying, 1);
	old = a.members->dev[0].fd;
	a.members->dev[0].fd = dup(w.disk[0]);
	assert_int_equal(ddr_metaio_prepare(a.meta, 0), 0);
	play.hung = 1u << w.sb.members;
	pass(2000);
	assert_int_equal(play.writes[0], 2);
	assert_false(ddr_metaio_idle(a.meta));
	play.hung = 0;
	ends();				/* the old one: nothing follows */
	assert_true(ddr_metaio_idle(a.meta));
	assert_int_equal(w.n_flying, 0);
	assert_int_equal(play.writes[0], 2);
	pass(2000);
	assert_int_equal(play.writes[0], 3);
	close(old);
	assert_int_equal(play.failed | play.lost | play.gave_up, 0);
}

static void who_has_no_slot_does_not_stamp(void **state)
{
	unsigned int n;

	(void)state;
	play.node = 0;
	pass(0);
	play.node = NODE + 1;
	pass(2000);
	play.node = NODE;
	a.bind.cookie++;		/* the disks do not know this instance yet */
	pass(2000);
	a.bind.cookie--;
	d.ident.stored = false;
	pass(2000);
	d.ident.stored = true;
	a.ready = false;
	pass(2000);
	a.ready = true;
	assert_int_equal(written(), 0);
	pass(2000);
	n = written();
	assert_int_equal(n, w.sb.members);
	a.cluster.gave_up = true;
	pass(2000);
	assert_int_equal(written(), n);
}

/* After a standstill drive.c wants the superblocks to be read: that comes first, and a member that hangs then delays its own stamps only by its time limit. */
static void superblocks_are_read_first(void **state)
{
	(void)state;
	pass(0);
	ddr_drive_check(&a, UINT32_MAX);
	play.hung = 7;
	pass(2000);
	assert_true(a.check.out);
	assert_int_equal(written(), w.sb.members);
	for (unsigned int i = 0; i < w.n_flying; i++)
		assert_false(of_stamps(w.flying[i]));
	play.hung = 0;
	ends();
	assert_false(a.check.out);
	pass(100);
	assert_int_equal(written(), 2 * w.sb.members);
}

/* What is known before the write is known after the read: the member may have failed between the two. */
static void a_member_that_failed_meanwhile_is_not_written(void **state)
{
	(void)state;
	pass(0);
	play.hung = 7;
	pass(2000);
	ddr_members_exchanged(a.members, 1, "something");
	a.broken = NULL;
	play.hung = 0;
	ends();
	assert_int_equal(play.writes[0], 2);
	assert_int_equal(play.writes[1], 1);
	play.hung = 7;
	pass(2000);
	a.broken = "something else";
	play.hung = 0;
	ends();
	assert_int_equal(play.writes[0], 2);
}

/* Without a cluster: the kernel goes on once all members have shown that nobody has the array. */
static void the_kernel_goes_on_after_a_look(void **state)
{
	(void)state;
	pass(0);
	pass(2000);
	play.now += 40000;
	stopped();
	play.hung = 7;
	pass(0);
	assert_true(a.check.out);
	play.hung = 0;
	ends();
	assert_int_equal(play.told, 0);
	play.hung = 4;
	pass(100);
	assert_int_equal(written(), 2 * w.sb.members + 2);	/* at once, and not at the next turn */
	for (unsigned int i = 0; i < 5; i++)
		pass(100);
	assert_int_equal(play.told, 0);
	play.hung = 0;
	ends();
	pass(100);
	assert_int_equal(play.told, 1);
	pass(2000);
	assert_int_equal(play.told, 1);
	assert_false(a.stamp.stopped);
	assert_int_equal(play.gave_up | play.lost | play.failed | play.exchanged, 0);
}

static void the_kernel_does_not_go_on_with_what_another_machine_has(void **state)
{
	(void)state;
	pass(0);
	pass(2000);
	put_other(2, DDR_STAMP_CLAIM, 10);
	put_other(2, DDR_STAMP_CLAIM, 11);
	play.now += 80000;
	stopped();
	for (unsigned int i = 0; i < 8; i++)
		pass(1000);
	assert_int_equal(play.told, 0);
	assert_int_equal(play.gave_up, 1);
	assert_true(a.stamp.taken);
	assert_false(a.stamp.stopped);		/* status does not say that it waits any more */
}

/* This process was stopped after it had read the places: what it read is as old as that. */
static void what_was_read_before_a_standstill_decides_nothing(void **state)
{
	struct ddr_stamp s;

	(void)state;
	pass(0);
	pass(2000);
	play.hung = 7;
	pass(2000);
	assert_int_equal(w.n_flying, w.sb.members);
	for (unsigned int i = 0; i < w.n_flying; i++)	/* the disks have delivered, and the process was stopped before it saw that */
		assert_int_equal(pread(w.flying[i]->fd, w.flying[i]->buf, w.flying[i]->len, (off_t)w.flying[i]->offset), w.flying[i]->len);
	put_other(0, DDR_STAMP_CLAIM, 10);
	put_other(0, DDR_STAMP_CLAIM, 11);
	play.now += 80000;
	stopped();
	while (w.n_flying)
		end(w.flying[--w.n_flying], 0);
	play.hung = 0;
	assert_int_equal(written(), 2 * w.sb.members);
	for (unsigned int i = 0; i < 8; i++)
		pass(1000);
	assert_int_equal(play.told, 0);
	assert_int_equal(play.gave_up, 1);
	assert_true(found(0, 1, &s) && s.seq == 11);
}

/* A stamp from before the standstill that lands after it is no look. */
static void a_stamp_that_was_under_way_is_no_look(void **state)
{
	(void)state;
	pass(0);
	play.hung_stamps = 1;
	pass(2000);
	one_request(w.flying[--w.n_flying]);		/* the read; the write follows */
	assert_true(w.n_flying == 1 && is_write(w.flying[0]));
	play.now += 80000;
	stopped();
	pass(0);
	pass(100);
	assert_int_equal(play.told, 0);
	assert_int_equal(w.n_flying, 1);
	one_request(w.flying[--w.n_flying]);
	pass(100);
	assert_int_equal(play.told, 0);
	play.hung_stamps = 0;
	pass(2000);
	pass(100);
	assert_int_equal(play.told, 1);
}

static void a_member_that_fails_is_not_waited_for(void **state)
{
	(void)state;
	pass(0);
	pass(2000);
	play.now += 40000;
	play.fails = 1;
	stopped();
	pass(0);
	pass(100);
	pass(100);
	assert_int_equal(play.told, 1);
	play.told = 0;
	play.fails = 7;				/* but if none answers, nobody knows */
	stopped();
	for (unsigned int i = 0; i < 5; i++)
		pass(2000);
	assert_int_equal(play.told, 0);
	play.fails = 0;
	pass(2000);
	pass(100);
	assert_int_equal(play.told, 1);
}

/* Its slot is freed meanwhile: nobody can take what it does not have. */
static void without_a_slot_nothing_is_waited_for(void **state)
{
	(void)state;
	pass(0);
	play.now += 40000;
	play.fails = 7;
	stopped();
	pass(2000);
	assert_int_equal(play.told, 0);
	play.node = 0;
	pass(2000);
	assert_int_equal(play.told, 1);
}

static void where_others_would_tell_nothing_is_looked_at_first(void **state)
{
	static const struct ddr_transport_ops cluster = { .node = node_of, .known_name = name_of, .cluster = true };

	(void)state;
	d.transport = &cluster;
	assert_false(ddr_drive_looks_first(&a));
	assert_ptr_equal(ddr_drive_still(&a), &d.still);
	ddr_drive_watch(&a);
	assert_false(d.still.watched || a.members->still.watched);
	d.transport = &transport;
	play.node = 0;			/* no slot: nothing to take */
	assert_false(ddr_drive_looks_first(&a));
	play.node = NODE;
	assert_true(ddr_drive_looks_first(&a));
}

static void format_1_has_none(void **state)
{
	teardown(state);
	open_array(false);
	pass(0);
	pass(2000);
	assert_int_equal(w.n_flying + written() + play.reads[0], 0);
	assert_false(ddr_drive_looks_first(&a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_stamp_every_two_seconds), TEST(the_first_goes_over_what_is_there), TEST(a_claim_stops_the_array), TEST(a_claim_is_none_of_the_owners_stamps), TEST(another_owner_stops_the_array),
		TEST(one_read_decides_nothing), TEST(a_lost_write_is_reported_and_stamped_again), TEST(nothing_is_written_to_another_disk),
		TEST(errors_cost_nothing), TEST(one_is_in_flight), TEST(another_device_has_stamps_of_its_own), TEST(who_has_no_slot_does_not_stamp),
		TEST(superblocks_are_read_first), TEST(a_member_that_failed_meanwhile_is_not_written), TEST(the_kernel_goes_on_after_a_look),
		TEST(the_kernel_does_not_go_on_with_what_another_machine_has), TEST(what_was_read_before_a_standstill_decides_nothing),
		TEST(a_stamp_that_was_under_way_is_no_look), TEST(a_member_that_fails_is_not_waited_for), TEST(without_a_slot_nothing_is_waited_for),
		TEST(where_others_would_tell_nothing_is_looked_at_first),
		TEST(format_1_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
