// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The daemon's writes of metadata (daemon/metaio.c) on files: each member that is asked for gets its block, one that is
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

#include "tests/unit/job-rig.h"

static void meta_write(struct rig *rig, enum ddr_metaio_kind kind, uint32_t members, uint64_t offset)
{
	struct ddr_meta_op *op = ddr_metaio_get(rig->meta, kind, 77, members);

	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		if (kind != DDR_META_FLUSH && (members & (1u << m)))
			memset(ddr_metaio_block(op, m), 0x80 + (int)(kind == DDR_META_SB ? m : 9), DDR_META_BLOCK);
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
	meta_write(&rig, DDR_META_SB, 0x7, 4096);
	assert_int_equal(rig.meta_failed, 0);
	meta_write(&rig, DDR_META_FLUSH, 0x7, 0);
	assert_int_equal(rig.meta_failed, 0);
	for (unsigned int m = 0; m < 3; m++) {
		assert_int_equal(pread(rig.members->dev[m].fd, block, sizeof(block), 4096), sizeof(block));
		assert_int_equal(block[4095], 0x80 + m);
		assert_int_equal(pread(rig.members->dev[m].fd, block, sizeof(block), 8192), sizeof(block));
		assert_int_equal(block[0], m == 1 ? 0 : 0x89);
	}
	meta_write(&rig, DDR_META_LOG, 0x5 | 1u << 9, 8192);	/* nobody has member 9 */
	assert_int_equal(rig.meta_failed, 1u << 9);
	meta_write(&rig, DDR_META_FLUSH, 1u << 9, 0);
	assert_int_equal(rig.meta_failed, 1u << 9);
	for (unsigned int i = 0; i < 40; i++)			/* more than were preallocated, one after the other */
		meta_write(&rig, DDR_META_LOG, 0x7, 8192);
	assert_int_equal(rig.meta_failed, 0);
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
	assert_int_equal(ddr_metaio_asked(rig.meta), 0x7);	/* who was given up is asked still */
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
	if (!uring || ret || processes.rlim_cur < requests)
		skip();
	assert_true(workers[0] >= requests);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metadata_goes_to_all_that_are_asked),
		cmocka_unit_test(a_member_that_does_not_answer_has_failed_in_time),
		cmocka_unit_test(a_loop_that_stood_still_hears_the_answers),
		cmocka_unit_test(every_request_may_have_a_worker),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
