// SPDX-License-Identifier: GPL-2.0-or-later
/* A daemon that stood still (daemon/base/still.h): when it is held, until when, and what becomes of its writes (daemon/disk/aio*.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
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

/* Without a cluster: an array that was loaded is served, and each of the two has its own. */
static void no_time_is_lost_between_two(void **state)
{
	struct ddr_still load = { 0 }, array = { .held = true, .since_ms = 7 };

	(void)state;
	boot_ms = 1000000;
	ddr_still_watch(&load);
	load.looks = true;
	boot_ms += 3000;
	ddr_still_follow(&array, &load);
	assert_true(array.watched && array.looks);
	assert_false(array.held);
	boot_ms += 2000;
	assert_true(ddr_still_late(&array));
	assert_true(ddr_still_held(&array));
	assert_int_equal(array.stood_ms, 5000);
	load = (struct ddr_still){ 0 };
	ddr_still_follow(&array, &load);
	assert_false(ddr_still_held(&array));
	assert_false(ddr_still_late(&array));
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

/* ---- reads that end it --------------------------------------------------------------- */

static void on_read(struct ddr_aio_req *req)
{
	*(bool *)req->tag = true;
}

/* A read of a member that writes wait for already. */
static struct ddr_aio_req read_of(struct rig *rig, unsigned int m, bool look, uint8_t *block, bool *ended)
{
	*ended = false;
	block[0] = 1;
	return (struct ddr_aio_req){ .op = DDR_AIO_READ, .fd = rig->members->dev[m].fd, .buf = block, .len = DDR_META_BLOCK, .offset = PLACE, .done = on_read,
				     .tag = (uintptr_t)ended, .look = look };
}

/* Without a cluster the members are looked at while the array is held: those reads, and nothing else, and though writes to that member came first. */
static void a_look_is_begun_while_it_is_held(void **state)
{
	static uint8_t block[2][DDR_META_BLOCK] __attribute__((aligned(4096)));
	struct ddr_aio_req look, other;
	bool looked, read;
	struct rig rig;

	(void)state;
	assert_true(give(&rig, DDR_ENGINE_THREADS));
	rig.still.looks = true;
	boot_ms += 20000;
	look = read_of(&rig, 1, true, block[0], &looked);
	other = read_of(&rig, 1, false, block[1], &read);
	ddr_aio_submit(rig.meta->aio, &other);
	ddr_aio_submit(rig.meta->aio, &look);
	ddr_metaio_kick(rig.meta);
	UNTIL(&rig, looked);
	assert_int_equal(look.result, 0);
	assert_int_equal(block[0][0], 0);
	assert_false(read);
	assert_int_equal(rig.meta->aio->begun, 0);
	assert_int_equal(rig.meta->aio->in_flight, 4);
	for (unsigned int m = 0; m < 3; m++)
		assert_int_equal(at_place(&rig, m), 0);
	look = read_of(&rig, 1, true, block[0], &looked);	/* the last one of its lane has gone, and one more comes */
	ddr_aio_submit(rig.meta->aio, &look);
	ddr_metaio_kick(rig.meta);
	UNTIL(&rig, looked);
	assert_true(ddr_still_heard(&rig.still, boot_ms));
	ddr_metaio_tick(rig.meta, 1100);
	UNTIL(&rig, read && rig.done);
	assert_int_equal(rig.meta_failed, 0);
	for (unsigned int m = 0; m < 3; m++)
		assert_int_equal(at_place(&rig, m), 0x89);
	rig_close(&rig);
}

/* In a cluster no look ends it. */
static void a_look_waits_for_the_group(void **state)
{
	static uint8_t block[DDR_META_BLOCK] __attribute__((aligned(4096)));
	struct ddr_aio_req look;
	struct rig rig;
	bool looked;

	(void)state;
	assert_true(give(&rig, DDR_ENGINE_THREADS));
	boot_ms += 20000;
	look = read_of(&rig, 1, true, block, &looked);
	ddr_aio_submit(rig.meta->aio, &look);
	ddr_metaio_kick(rig.meta);
	loop_for(&rig, 50);
	assert_false(looked);
	assert_int_equal(rig.meta->aio->begun, 0);
	assert_true(ddr_still_heard(&rig.still, boot_ms));
	ddr_metaio_tick(rig.meta, 1100);
	UNTIL(&rig, looked && rig.done);
	rig_close(&rig);
}

static void a_look_in_a_ring_is_not_taken_back(void **state)
{
	static uint8_t block[DDR_META_BLOCK] __attribute__((aligned(4096)));
	struct ddr_aio_req look;
	struct rig rig;
	bool looked;

	(void)state;
	if (!give(&rig, DDR_ENGINE_AUTO)) {
		print_message("skipped: no io_uring here; ./quickstart check runs this as root\n");
		skip();
	}
	rig.still.looks = true;
	look = read_of(&rig, 1, true, block, &looked);
	ddr_aio_submit(rig.meta->aio, &look);
	jumps(1, 20000);
	ddr_metaio_kick(rig.meta);
	UNTIL(&rig, looked && !rig.meta->aio->begun);
	assert_int_equal(look.result, 0);
	assert_int_equal(block[0], 0);
	assert_true(rig.still.held);
	nothing_is_begun(&rig);
	is_written_when_the_hold_is_over(&rig);
}

/* A write that rests on what was read before (metaio_stamp.c), and had to wait: what was read is old by then. Those behind and before it go on. */
static void what_rests_on_an_old_read_is_not_begun(void **state)
{
	static uint8_t block[DDR_META_BLOCK] __attribute__((aligned(4096)));
	struct ddr_aio_req old = { .op = DDR_AIO_WRITE, .buf = block, .len = DDR_META_BLOCK, .offset = 2ull * PLACE, .done = on_read }, behind;
	bool ended = false, read;
	uint8_t there[DDR_META_BLOCK] __attribute__((aligned(4096)));
	struct rig rig;

	(void)state;
	for (unsigned int held = 0; held < 2; held++) {
		memset(block, 0x77, sizeof(block));
		assert_true(give(&rig, DDR_ENGINE_THREADS));
		ended = false;
		old.fd = rig.members->dev[0].fd;
		old.tag = (uintptr_t)&ended;
		old.begin_by_ms = boot_ms + DDR_STILL_MS;
		ddr_aio_submit(rig.meta->aio, &old);
		behind = read_of(&rig, 0, false, there, &read);
		ddr_aio_submit(rig.meta->aio, &behind);
		boot_ms += 20000;
		ddr_metaio_kick(rig.meta);
		assert_true(rig.still.held);
		if (held) {			/* it ends though the others wait */
			ddr_metaio_tick(rig.meta, 1050);
			assert_true(ended);
			assert_false(read || rig.done);
		}
		assert_true(ddr_still_heard(&rig.still, boot_ms));
		ddr_metaio_kick(rig.meta);	/* the queue goes on first */
		UNTIL(&rig, ended && read && rig.done);
		assert_int_equal(old.result, -ECANCELED);
		assert_int_equal(pread(rig.members->dev[0].fd, there, sizeof(there), (off_t)old.offset), sizeof(there));
		assert_int_equal(there[0], 0);
		assert_int_equal(rig.meta_failed, 0);
		rig_close(&rig);
	}
}

/* ---- the end ------------------------------------------------------------------------ */

struct owner {
	struct ddr_still *still;	/* a page of its own: whoever looks at it after the end does not survive */
	struct ddr_aio *closes;		/* with its last request; NULL: it was closed before */
	bool ended;
};

static void ends_with_its_request(struct ddr_aio_req *req)
{
	struct owner *o = (struct owner *)(uintptr_t)req->tag;

	ddr_aio_close(o->closes);
	assert_int_equal(munmap(o->still, sizeof(*o->still)), 0);
	o->ended = true;
}

/* An array whose members keep what it is held by is gone with its last request; the queue ends a moment later. */
static void an_owner_ends_with_its_last_request(void **state)
{
	static const uint64_t engines[] = { DDR_ENGINE_THREADS, DDR_ENGINE_AUTO };
	static uint8_t block[DDR_META_BLOCK] __attribute__((aligned(4096)));

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		struct owner o = { .still = mmap(NULL, sizeof(*o.still), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) };
		struct ddr_aio_req req;
		struct ddr_aio *q;
		struct rig rig;

		assert_ptr_not_equal(o.still, MAP_FAILED);
		assert_true(give(&rig, DDR_ENGINE_THREADS));
		ddr_still_watch(o.still);
		assert_int_equal(ddr_aio_open(&q, rig.loop, engines[i % 2], 4, false), 0);
		q->still = o.still;
		req = read_of(&rig, 1, false, block, &o.ended);
		req.done = ends_with_its_request;
		req.tag = (uintptr_t)&o;
		ddr_aio_submit(q, &req);
		ddr_aio_kick(q);
		if (i < 2)
			ddr_aio_close(q);
		else
			o.closes = q;
		UNTIL(&rig, o.ended);
		ddr_metaio_kick(rig.meta);
		UNTIL(&rig, rig.done);
		rig_close(&rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(five_seconds_are_a_standstill),
		cmocka_unit_test(only_a_pulse_of_afterwards_ends_it),
		cmocka_unit_test(no_time_is_lost_between_two),
		cmocka_unit_test(without_a_group_nothing_is_held),
		cmocka_unit_test(what_was_decided_before_waits),
		cmocka_unit_test(a_thread_that_goes_on_first_writes_nothing),
		cmocka_unit_test(a_ring_that_was_not_given_is_taken_back),
		cmocka_unit_test(what_waits_as_the_array_is_closed_is_dropped),
		cmocka_unit_test(a_look_is_begun_while_it_is_held),
		cmocka_unit_test(a_look_waits_for_the_group),
		cmocka_unit_test(a_look_in_a_ring_is_not_taken_back),
		cmocka_unit_test(what_rests_on_an_old_read_is_not_begun),
		cmocka_unit_test(an_owner_ends_with_its_last_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
