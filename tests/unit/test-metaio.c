// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The daemon's writes of metadata (daemon/disk/metaio.c) on files: each member that is asked for gets its block, one that is
 * not there or does not answer in time is named, and nothing is reported twice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <liburing.h>

#include "tests/unit/fixture.h"
#include "tests/unit/job-rig.h"

/* The array of the rig, as its superblocks have it; sequence 2. */
static void make_super(struct ddr_super *sb)
{
	fixture_super(sb, 1, 1, DDR_LAYOUT_ROTATING, 64u << 20, 0);
}

/* Both copies on member @m's device, as member @as of @sb. */
static void put_supers(struct rig *rig, unsigned int m, const struct ddr_super *sb, uint16_t as)
{
	struct ddr_super own = *sb;
	struct ddr_error err;

	own.this_member = as;
	for (own.seq = sb->seq - 1; own.seq <= sb->seq; own.seq++)
		assert_int_equal(ddr_dev_write_super(&rig->members->dev[m], &own, &err), 0);
}

static void read_supers(struct rig *rig, unsigned int m, struct ddr_supers *s)
{
	struct ddr_error err;

	assert_int_equal(ddr_dev_read_supers(&rig->members->dev[m], s, &err), 0);
}

/* Begins a change from @now to @next, or a read of the superblocks. */
static void supers_begin(struct rig *rig, enum ddr_metaio_kind kind, uint32_t members, const struct ddr_super *now, const struct ddr_super *next)
{
	struct ddr_meta_op *op = ddr_metaio_get(rig->meta, kind, 77, members);
	struct ddr_super own = *next;

	for (unsigned int m = 0; m < next->members; m++) {
		own.this_member = (uint16_t)m;
		assert_int_equal(ddr_super_encode(&own, ddr_metaio_block(op, m)).code, DDR_FE_OK);
	}
	ddr_metaio_supers(op, now, next);
	rig->done = false;
	ddr_metaio_run(op, 1000, 5000);
	ddr_metaio_kick(rig->meta);
}

/* Lets everything end that waits only for the disks. */
static void until_quiet(struct rig *rig)
{
	while (ddr_metaio_asked(rig->meta))
		loop_for(rig, 20);
}

static void meta_write(struct rig *rig, enum ddr_metaio_kind kind, uint32_t members, uint64_t offset)
{
	struct ddr_meta_op *op = ddr_metaio_get(rig->meta, kind, 77, members);

	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		if (kind != DDR_META_FLUSH && (members & (1u << m)))
			memset(ddr_metaio_block(op, m), 0x89, DDR_META_BLOCK);
	ddr_metaio_at(op, offset);
	rig->done = false;
	ddr_metaio_run(op, 1000, 5000);
	ddr_metaio_kick(rig->meta);
	if (members & rig->members->open)
		qb_loop_run(rig->loop);
	else
		ddr_metaio_tick(rig->meta, 1001);
	assert_true(rig->done);
}

static void metadata_goes_to_all_that_are_asked(void **state)
{
	uint8_t block[DDR_META_BLOCK] __attribute__((aligned(4096)));
	struct rig rig;

	(void)state;
	rig_open(&rig, 1, 1, DDR_LAYOUT_ROTATING, DDR_ENGINE_AUTO);
	meta_write(&rig, DDR_META_LOG, 0x5, 8192);
	assert_int_equal(rig.meta_failed, 0);
	meta_write(&rig, DDR_META_FLUSH, 0x7, 0);
	assert_int_equal(rig.meta_failed, 0);
	for (unsigned int m = 0; m < 3; m++) {
		assert_int_equal(pread(rig.members->dev[m].fd, block, sizeof(block), 8192), sizeof(block));
		assert_int_equal(block[0], m == 1 ? 0 : 0x89);
	}
	meta_write(&rig, DDR_META_LOG, 0x5 | 1u << 9, 8192);	/* there is no member 9 */
	assert_int_equal(rig.meta_failed, 1u << 9);
	meta_write(&rig, DDR_META_FLUSH, 1u << 9, 0);
	assert_int_equal(rig.meta_failed, 1u << 9);
	for (unsigned int i = 0; i < 40; i++)			/* more than were preallocated, one after the other */
		meta_write(&rig, DDR_META_LOG, 0x7, 8192);
	assert_int_equal(rig.meta_failed, 0);
	rig_close(&rig);
}

/* Both copies on each member, by the sequence numbers of the change. */
static void superblocks_go_to_both_places(void **state)
{
	struct ddr_super now, next;
	struct ddr_supers s;
	struct rig rig;

	(void)state;
	rig_open(&rig, 1, 1, DDR_LAYOUT_ROTATING, DDR_ENGINE_AUTO);
	make_super(&now);
	for (unsigned int m = 0; m < 3; m++)
		put_supers(&rig, m, &now, (uint16_t)m);
	for (unsigned int i = 0; i < 6; i++) {		/* more than were preallocated, one after the other */
		next = now;
		next.slot_node[0] = i + 1;
		next.seq = ddr_super_seq_behind(now.seq);
		supers_begin(&rig, DDR_META_SB, 0x5, &now, &next);
		qb_loop_run(rig.loop);
		assert_true(rig.done);
		assert_int_equal(rig.meta_failed, 0);
		now = next;
	}
	for (unsigned int m = 0; m < 3; m++) {
		read_supers(&rig, m, &s);
		for (unsigned int c = 0; c < DDR_SB_COPIES; c++) {
			assert_true(s.copy[c].found);
			assert_int_equal(s.copy[c].super.this_member, m);
			assert_int_equal(s.copy[c].super.slot_node[0], m == 1 ? 0 : 6);
			assert_int_equal(s.copy[c].super.seq, m == 1 ? 2 - c : (now.seq & ~1ull) + c);
		}
	}
	rig_close(&rig);
}

/* ---- another disk ---------------------------------------------------------------- */

static void members_hold(struct rig *rig, const struct ddr_super *sb)
{
	for (unsigned int m = 0; m < sb->members; m++)
		put_supers(rig, m, sb, (uint16_t)m);
}

/* The content of the metadata area of member @m's device. */
static void snapshot(struct rig *rig, unsigned int m, uint8_t *area, size_t size)
{
	assert_int_equal(pread(rig->members->dev[m].fd, area, size, 0), (ssize_t)size);
}

static uint8_t before[2u << 20] __attribute__((aligned(4096))), after[sizeof(before)] __attribute__((aligned(4096)));

/* Finding S27: the device of a member holds a member of another array: nothing is written to it, neither then nor later. */
static void nothing_is_written_to_another_disk(void **state)
{
	struct ddr_super now, next, other;
	struct ddr_supers s;
	struct rig rig;

	(void)state;
	rig_open(&rig, 1, 1, DDR_LAYOUT_ROTATING, DDR_ENGINE_AUTO);
	make_super(&now);
	members_hold(&rig, &now);
	other = now;
	fixture_uuid(other.array_uuid, 4711);
	memset(other.name, 0, sizeof(other.name));
	strcpy(other.name, "other");
	put_supers(&rig, 1, &other, 1);
	snapshot(&rig, 1, before, sizeof(before));
	next = now;
	next.seq = ddr_super_seq_behind(now.seq);
	supers_begin(&rig, DDR_META_SB, 0x7, &now, &next);
	until_quiet(&rig);
	assert_false(rig.done);			/* it is looked at a second time, one second later */
	assert_false(ddr_metaio_idle(rig.meta));
	ddr_metaio_tick(rig.meta, 1999);
	until_quiet(&rig);
	assert_false(rig.done);
	ddr_metaio_tick(rig.meta, 2000);
	until_quiet(&rig);
	assert_true(rig.done);
	assert_int_equal(rig.meta_failed, 0x2);
	assert_int_equal(rig.members->exchanged, 0x2);
	assert_non_null(strstr(rig.members->found[1], "'other'"));
	assert_int_equal(ddr_members_fd(rig.members, 1), -1);
	for (unsigned int m = 0; m < 3; m += 2) {
		read_supers(&rig, m, &s);
		assert_int_equal(s.copy[s.newest].super.seq, next.seq);
	}
	meta_write(&rig, DDR_META_LOG, 0x7, 8192);
	assert_int_equal(rig.meta_failed, 0x2);
	meta_write(&rig, DDR_META_MAP, 0x7, 16384);
	assert_int_equal(rig.meta_failed, 0x2);
	snapshot(&rig, 1, after, sizeof(after));
	assert_memory_equal(before, after, sizeof(after));
	ddr_members_own_again(rig.members, 1);
	assert_true(ddr_members_fd(rig.members, 1) >= 0);
	rig_close(&rig);
}

/* Finding S27: none of the superblocks is there any more; and one that is back at the second look is the member's own. */
static void a_disk_exchanged_at_two_reads_counts_as_exchanged(void **state)
{
	static const uint8_t zero[DDR_META_BLOCK] __attribute__((aligned(4096)));
	struct ddr_super now;
	struct rig rig;

	(void)state;
	for (unsigned int comes_back = 0; comes_back < 2; comes_back++) {
		rig_open(&rig, 1, 1, DDR_LAYOUT_ROTATING, DDR_ENGINE_AUTO);
		make_super(&now);
		members_hold(&rig, &now);
		for (unsigned int c = 0; c < DDR_SB_COPIES; c++)
			assert_int_equal(pwrite(rig.members->dev[2].fd, zero, sizeof(zero), (off_t)ddr_super_offset(&now, c)), sizeof(zero));
		supers_begin(&rig, DDR_META_CHECK, 0x7, &now, &now);
		until_quiet(&rig);
		assert_false(rig.done);
		if (comes_back)
			put_supers(&rig, 2, &now, 2);
		ddr_metaio_tick(rig.meta, 2000);
		until_quiet(&rig);
		assert_true(rig.done);
		assert_int_equal(rig.meta_failed, comes_back ? 0 : 0x4);
		assert_int_equal(rig.members->exchanged, comes_back ? 0 : 0x4);
		rig_close(&rig);
	}
}

static void put_copy(struct rig *rig, unsigned int m, const struct ddr_super *sb, unsigned int copy)
{
	struct ddr_super own = *sb;
	struct ddr_error err;

	own.this_member = (uint16_t)m;
	own.seq = (sb->seq & ~1ull) | copy;
	assert_int_equal(ddr_dev_write_super(&rig->members->dev[m], &own, &err), 0);
}

/* What another disk has at the place of member 1's copy: a superblock, or nothing. */
static void put_other(struct rig *rig, const struct ddr_super *other, unsigned int copy, bool blank)
{
	static const uint8_t zero[DDR_META_BLOCK] __attribute__((aligned(4096)));

	if (blank)
		assert_int_equal(pwrite(rig->members->dev[1].fd, zero, sizeof(zero), (off_t)ddr_super_offset(other, copy)), sizeof(zero));
	else
		put_copy(rig, 1, other, copy);
}

/* Both copies are read again when it is due; nothing has been written to member 1 meanwhile. */
static void looks_again(struct rig *rig, uint64_t ms)
{
	until_quiet(rig);
	assert_false(rig->done);
	snapshot(rig, 1, after, sizeof(after));
	assert_memory_equal(before, after, sizeof(after));
	ddr_metaio_tick(rig->meta, ms - 1);
	until_quiet(rig);
	assert_false(rig->done);
	ddr_metaio_tick(rig->meta, ms);
	until_quiet(rig);
}

/*
 * Finding S27: the disk was exchanged after one copy of its superblock was read and before the other one was. The other disk's copy, or what it has at that
 * place, is what would be written over first, so nothing is written before two reads in a row have shown the same. If that is one copy of the member's, it is
 * the member's own disk with a bad copy.
 */
static void a_disk_exchanged_within_a_look(void **state)
{
	struct ddr_super now, next, other;
	struct ddr_supers s;
	struct rig rig;

	(void)state;
	for (unsigned int how = 0; how < 8; how++) {
		bool exchanged = how & 1;
		unsigned int copy = how >> 1 & 1;

		rig_open(&rig, 1, 1, DDR_LAYOUT_ROTATING, DDR_ENGINE_AUTO);
		make_super(&now);
		members_hold(&rig, &now);
		other = next = now;
		fixture_uuid(other.array_uuid, 4711);
		next.seq = ddr_super_seq_behind(now.seq);
		put_other(&rig, &other, copy, how & 4);
		snapshot(&rig, 1, before, sizeof(before));
		supers_begin(&rig, DDR_META_SB, 0x7, &now, &next);
		until_quiet(&rig);
		if (exchanged) {
			put_other(&rig, &other, 1 - copy, how & 4);
			snapshot(&rig, 1, before, sizeof(before));
		}
		looks_again(&rig, 2000);
		if (exchanged)
			looks_again(&rig, 3000);
		assert_true(rig.done);
		assert_int_equal(rig.meta_failed, exchanged ? 0x2 : 0);
		assert_int_equal(rig.members->exchanged, exchanged ? 0x2 : 0);
		snapshot(&rig, 1, after, sizeof(after));
		if (exchanged) {
			assert_memory_equal(before, after, sizeof(after));
		} else {
			read_supers(&rig, 1, &s);
			for (unsigned int c = 0; c < DDR_SB_COPIES; c++)
				assert_true(s.copy[c].found && s.copy[c].super.seq >= now.seq);
			assert_int_equal(s.copy[s.newest].super.seq, next.seq);
		}
		rig_close(&rig);
	}
}

/* Finding S27: a device that shows something else at each read, as if its paths led to two disks: nothing is written to it, and the change does not wait for it for ever. */
static void a_disk_that_changes_at_each_look(void **state)
{
	struct ddr_super now, next, other;
	struct rig rig;

	(void)state;
	rig_open(&rig, 1, 1, DDR_LAYOUT_ROTATING, DDR_ENGINE_AUTO);
	make_super(&now);
	members_hold(&rig, &now);
	other = next = now;
	fixture_uuid(other.array_uuid, 4711);
	next.seq = ddr_super_seq_behind(now.seq);
	put_copy(&rig, 1, &other, 0);
	supers_begin(&rig, DDR_META_SB, 0x7, &now, &next);
	for (unsigned int look = 1; look < 4; look++) {
		until_quiet(&rig);
		put_copy(&rig, 1, look & 1 ? &now : &other, 0);
		put_copy(&rig, 1, look & 1 ? &other : &now, 1);
		snapshot(&rig, 1, before, sizeof(before));
		looks_again(&rig, 1000 + look * 1000);
	}
	assert_true(rig.done);
	assert_int_equal(rig.meta_failed, 0x2);
	assert_int_equal(rig.members->exchanged, 0x2);
	snapshot(&rig, 1, after, sizeof(after));
	assert_memory_equal(before, after, sizeof(after));
	rig_close(&rig);
}

/* Another member of the same array is another disk, too; one good copy is enough for the member's own, whatever the other one is. */
static void a_check_of_a_member_writes_nothing(void **state)
{
	static const uint8_t zero[DDR_META_BLOCK] __attribute__((aligned(4096)));
	struct ddr_super now;
	struct rig rig;

	(void)state;
	rig_open(&rig, 1, 1, DDR_LAYOUT_ROTATING, DDR_ENGINE_AUTO);
	make_super(&now);
	members_hold(&rig, &now);
	assert_int_equal(pwrite(rig.members->dev[0].fd, zero, sizeof(zero), DDR_SB_OFFSET), sizeof(zero));
	put_supers(&rig, 2, &now, 1);
	snapshot(&rig, 0, before, sizeof(before));
	supers_begin(&rig, DDR_META_CHECK, 0x7, &now, &now);
	assert_int_equal(ddr_metaio_writes(rig.meta), 0);
	until_quiet(&rig);
	ddr_metaio_tick(rig.meta, 2000);
	until_quiet(&rig);
	assert_int_equal(rig.meta_failed, 0x4);
	assert_int_equal(rig.members->exchanged, 0x4);
	snapshot(&rig, 0, after, sizeof(after));
	assert_memory_equal(before, after, sizeof(after));
	rig_close(&rig);
}

/* A superblock cannot be encoded, nor can its owner pages: nothing is written, and nothing counts as written. */
static void what_is_refused_twice_has_failed(void **state)
{
	struct ddr_meta_op *op;
	struct rig rig;

	(void)state;
	rig_open(&rig, 1, 1, DDR_LAYOUT_ROTATING, DDR_ENGINE_AUTO);
	op = ddr_metaio_get(rig.meta, DDR_META_SB, 77, 0x7);
	ddr_metaio_refuse(op);
	ddr_metaio_refuse(op);
	rig.done = false;
	ddr_metaio_run(op, 1000, 5000);
	ddr_metaio_tick(rig.meta, 1001);
	assert_true(rig.done);
	assert_int_equal(rig.meta_failed, 0x7);
	rig_close(&rig);
}

static void a_member_that_does_not_answer_has_failed_in_time(void **state)
{
	struct ddr_meta_op *op;
	struct rig rig;

	(void)state;
	rig_open(&rig, 1, 1, DDR_LAYOUT_ROTATING, DDR_ENGINE_THREADS);
	op = ddr_metaio_get(rig.meta, DDR_META_LOG, 77, 0x7);
	memset(ddr_metaio_block(op, 0), 1, DDR_META_BLOCK);
	ddr_metaio_at(op, 8192);
	rig.done = false;
	ddr_metaio_run(op, 1000, 5000);
	ddr_metaio_tick(rig.meta, 5999);	/* the loop does not run: no answer is seen */
	assert_false(rig.done);
	ddr_metaio_tick(rig.meta, 6000);
	assert_true(rig.done);
	assert_int_equal(rig.meta_failed, 0x7);
	assert_int_equal(ddr_metaio_asked(rig.meta), 0x7);	/* members that timed out still have outstanding requests */
	assert_int_equal(ddr_metaio_writes(rig.meta), 0x7);
	rig.meta_failed = 0;
	while (!ddr_metaio_idle(rig.meta))
		loop_for(&rig, 20);		/* now the answers come: nothing is reported twice */
	assert_int_equal(rig.meta_failed, 0);
	assert_int_equal(ddr_metaio_asked(rig.meta), 0);
	assert_int_equal(ddr_metaio_writes(rig.meta), 0);
	op = ddr_metaio_get(rig.meta, DDR_META_FLUSH, 77, 0x7);
	ddr_metaio_run(op, 1000, 5000);
	assert_int_equal(ddr_metaio_asked(rig.meta), 0x7);
	assert_int_equal(ddr_metaio_writes(rig.meta), 0);
	ddr_metaio_kick(rig.meta);
	while (!ddr_metaio_idle(rig.meta))
		loop_for(&rig, 20);
	rig_close(&rig);
}

/* The loop stood still, and the members had answered long ago. */
static void a_loop_that_stood_still_hears_the_answers(void **state)
{
	const struct timespec pause = { .tv_nsec = 200000000 };
	struct ddr_meta_op *op;
	struct rig rig;

	(void)state;
	rig_open(&rig, 1, 1, DDR_LAYOUT_ROTATING, DDR_ENGINE_THREADS);
	op = ddr_metaio_get(rig.meta, DDR_META_LOG, 77, 0x7);
	memset(ddr_metaio_block(op, 0), 1, DDR_META_BLOCK);
	ddr_metaio_at(op, 8192);
	rig.done = false;
	ddr_metaio_run(op, 1000, 5000);
	ddr_metaio_kick(rig.meta);
	nanosleep(&pause, NULL);
	ddr_metaio_delay(rig.meta, 5000);
	ddr_metaio_tick(rig.meta, 6000);
	assert_false(rig.done);
	ddr_metaio_tick(rig.meta, 10999);
	assert_false(rig.done);
	qb_loop_run(rig.loop);
	assert_true(rig.done);
	assert_int_equal(rig.meta_failed, 0);
	rig_close(&rig);
}

/* Flushes that hang keep a worker of the kernel each, and all arrays of the process have the same ones: there may be one for each request. */
static void every_request_may_have_a_worker(void **state)
{
	const unsigned int requests = 2 * (256 + 256);	/* of metadata and jobs of two arrays */
	unsigned int workers[2] = { 0, 0 };		/* zeroes change nothing */
	struct rlimit processes;
	struct io_uring ring;
	struct rig one, two;
	bool uring;
	int ret;

	(void)state;
	rig_open(&one, 1, 1, DDR_LAYOUT_ROTATING, DDR_ENGINE_AUTO);
	rig_open(&two, 1, 1, DDR_LAYOUT_ROTATING, DDR_ENGINE_AUTO);
	uring = strcmp(ddr_metaio_engine(two.meta), "io_uring") == 0 && io_uring_queue_init(4, &ring, 0) == 0;
	ret = uring ? io_uring_register_iowq_max_workers(&ring, workers) : 0;
	if (uring)
		io_uring_queue_exit(&ring);
	rig_close(&one);
	rig_close(&two);
	assert_int_equal(getrlimit(RLIMIT_NPROC, &processes), 0);
	if (!uring || ret || processes.rlim_cur < requests) {
		print_message("skipped: io_uring or the number of its workers is limited here; ./quickstart check runs this as root\n");
		skip();
	}
	assert_true(workers[0] >= requests);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metadata_goes_to_all_that_are_asked),
		cmocka_unit_test(superblocks_go_to_both_places),
		cmocka_unit_test(nothing_is_written_to_another_disk),
		cmocka_unit_test(a_disk_exchanged_at_two_reads_counts_as_exchanged),
		cmocka_unit_test(a_disk_exchanged_within_a_look),
		cmocka_unit_test(a_disk_that_changes_at_each_look),
		cmocka_unit_test(a_check_of_a_member_writes_nothing),
		cmocka_unit_test(a_member_that_does_not_answer_has_failed_in_time),
		cmocka_unit_test(a_loop_that_stood_still_hears_the_answers),
		cmocka_unit_test(every_request_may_have_a_worker),
		cmocka_unit_test(what_is_refused_twice_has_failed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
