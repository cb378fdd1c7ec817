// SPDX-License-Identifier: GPL-2.0-or-later
/* A daemon that stood still (daemon/base/still.h): when it is held, until when, and what becomes of its writes (daemon/disk/aio*.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "daemon/disk/metaio_int.h"
#include "tests/unit/job-rig.h"

#define PLACE	8192u

/* The clock stands, but that it jumps by @jump_ms when it was read @reads times; threads read it, too. */
static _Atomic uint64_t boot_ms, jump_ms;
static atomic_int reads;

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (clock != CLOCK_BOOTTIME)
		return __real_clock_gettime(clock, ts);
	if (atomic_fetch_sub(&reads, 1) == 1)
		boot_ms += jump_ms;
	*ts = (struct timespec){ .tv_sec = (time_t)(boot_ms / 1000), .tv_nsec = (long)(boot_ms % 1000) * 1000000 };
	return 0;
}

static void jumps(int after_reads, uint64_t ms)
{
	jump_ms = ms;
	reads = after_reads + 1;
}

/* ---- the hold -------------------------------------------------------------------- */

static void five_seconds_are_a_standstill(void **state)
{
	struct ddr_still s = { 0 };

	(void)state;
	boot_ms = 1000000;
	ddr_still_watch(&s);
	boot_ms += 4999;
	assert_false(ddr_still_late(&s));
	assert_false(ddr_still_held(&s));
	boot_ms += 5000;
	assert_true(ddr_still_late(&s));	/* a thread that goes on first */
	assert_true(ddr_still_held(&s));
	assert_int_equal(s.stood_ms, 5000);
	boot_ms += 10;
	assert_true(ddr_still_held(&s));	/* running again ends it not */
	assert_true(ddr_still_late(&s));
}

/* What was sent before may have been delivered before a verdict that waits. */
static void only_a_pulse_of_afterwards_ends_it(void **state)
{
	struct ddr_still s = { 0 };

	(void)state;
	boot_ms = 1000000;
	ddr_still_watch(&s);
	boot_ms += 7000;
	assert_false(ddr_still_heard(&s, 1000000 + 6999));
	assert_true(ddr_still_held(&s));
	boot_ms += 100;
	assert_true(ddr_still_heard(&s, 1000000 + 7000));
	assert_false(ddr_still_held(&s));
	assert_false(ddr_still_late(&s));
	boot_ms += 6000;			/* and again: that pulse was sent before this one */
	assert_false(ddr_still_heard(&s, 1000000 + 7050));
	assert_true(ddr_still_held(&s));
}

static void without_a_group_nothing_is_held(void **state)
{
	struct ddr_still s = { 0 };

	(void)state;
	boot_ms = 1000000;
	assert_false(ddr_still_held(&s));
	boot_ms += 60000;
	assert_false(ddr_still_held(&s));
	assert_false(ddr_still_late(&s));
	assert_false(ddr_still_held(NULL));
	assert_false(ddr_still_late(NULL));
}

/* ---- writes ---------------------------------------------------------------------- */

/* It comes about on its own, soon; a wrong daemon may never come to it. */
#define UNTIL(rig, what) do { \
		for (unsigned int tries = 0; tries < 500 && !(what); tries++) \
			loop_for(rig, 20); \
		assert_true(what); \
	} while (0)

static uint8_t at_place(const struct rig *rig, unsigned int m)
{
	uint8_t block[DDR_META_BLOCK] __attribute__((aligned(4096)));

	assert_int_equal(pread(rig->members->dev[m].fd, block, sizeof(block), PLACE), sizeof(block));
	return block[0];
}

/* A write of metadata, of this daemon that is in the group, is given to the queue. False: the kernel here has no such engine. */
static bool give(struct rig *rig, uint64_t engine)
{
	struct ddr_meta_op *op;

	memset(&rig->still, 0, sizeof(rig->still));
	boot_ms = 1000000;
	rig_open(rig, 1, 1, DDR_LAYOUT_ROTATING, engine ? engine : DDR_ENGINE_AUTO);
	if (!engine && strcmp(ddr_metaio_engine(rig->meta), "io_uring") != 0) {
		rig_close(rig);
		return false;
	}
	ddr_still_watch(&rig->still);
	op = ddr_metaio_get(rig->meta, DDR_META_LOG, 77, 0x7);
	memset(ddr_metaio_block(op, 0), 0x89, DDR_META_BLOCK);
	ddr_metaio_at(op, PLACE);
	rig->done = false;
	ddr_metaio_run(op, 1000, 5000);
	return true;
}

static void nothing_is_begun(struct rig *rig)
{
	UNTIL(rig, !rig->meta->aio->begun);
	assert_false(rig->done);
	assert_int_equal(rig->meta->aio->in_flight, 3);
	for (unsigned int m = 0; m < 3; m++)
		assert_int_equal(at_place(rig, m), 0);
}

static void is_written_when_the_hold_is_over(struct rig *rig)
{
	assert_true(ddr_still_heard(&rig->still, boot_ms));
	ddr_metaio_tick(rig->meta, 1100);
	UNTIL(rig, rig->done);
	assert_int_equal(rig->meta_failed, 0);
	for (unsigned int m = 0; m < 3; m++)
		assert_int_equal(at_place(rig, m), 0x89);
	rig_close(rig);
}

static void what_was_decided_before_waits(void **state)
{
	struct rig rig;

	(void)state;
	assert_true(give(&rig, DDR_ENGINE_THREADS));
	boot_ms += 20000;
	ddr_metaio_kick(rig.meta);
	ddr_metaio_tick(rig.meta, 1050);
	nothing_is_begun(&rig);
	is_written_when_the_hold_is_over(&rig);
}

/* The process is stopped when the queue has given the writes to its threads, which go on before the loop does. */
static void a_thread_that_goes_on_first_writes_nothing(void **state)
{
	struct rig rig;

	(void)state;
	assert_true(give(&rig, DDR_ENGINE_THREADS));
	jumps(1, 20000);
	ddr_metaio_kick(rig.meta);
	nothing_is_begun(&rig);
	assert_true(rig.still.held);
	is_written_when_the_hold_is_over(&rig);
}

/* The same of io_uring: between the ring of requests and the call that gives it to the kernel. */
static void a_ring_that_was_not_given_is_taken_back(void **state)
{
	struct rig rig;

	(void)state;
	if (!give(&rig, DDR_ENGINE_AUTO)) {
		print_message("skipped: no io_uring here; ./quickstart check runs this as root\n");
		skip();
	}
	jumps(1, 20000);
	ddr_metaio_kick(rig.meta);
	nothing_is_begun(&rig);
	assert_true(rig.still.held);
	is_written_when_the_hold_is_over(&rig);
}

/* The daemon hears that it was excluded, and the array is closed: what had not begun is never written, also when the daemon serves again. */
static void what_waits_as_the_array_is_closed_is_dropped(void **state)
{
	struct rig rig;

	(void)state;
	assert_true(give(&rig, DDR_ENGINE_THREADS));
	boot_ms += 20000;
	ddr_metaio_kick(rig.meta);
	ddr_metaio_close(rig.meta);
	assert_true(ddr_still_heard(&rig.still, boot_ms));
	UNTIL(&rig, rig.members->refs <= 2);	/* the rig's, and that of the jobs */
	for (unsigned int m = 0; m < 3; m++)
		assert_int_equal(at_place(&rig, m), 0);
	rig.meta = NULL;
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(five_seconds_are_a_standstill),
		cmocka_unit_test(only_a_pulse_of_afterwards_ends_it),
		cmocka_unit_test(without_a_group_nothing_is_held),
		cmocka_unit_test(what_was_decided_before_waits),
		cmocka_unit_test(a_thread_that_goes_on_first_writes_nothing),
		cmocka_unit_test(a_ring_that_was_not_given_is_taken_back),
		cmocka_unit_test(what_waits_as_the_array_is_closed_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
