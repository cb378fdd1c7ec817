// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A rebuild that copies from the disk that is replaced (daemon/job/job_copy.c), on files some of whose bytes are unreadable: readable
 * blocks are copied, unreadable ones are computed block by block, and a block that cannot be computed is not made up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/job-rig.h"
#include "tests/unit/job-sour.h"

/* ---- a copy of a disk that has bad sectors --------------------------------------- */

#define OLD	1u		/* the member that is replaced, at its own place */

/* A rig in which P is right in three blocks from @right on, and wrong everywhere else: it shows which blocks were computed. */
static void copy_rig_as(struct rig *rig, unsigned int order, unsigned int parity, unsigned int layout, uint64_t right)
{
	memset(&sour, 0, sizeof(sour));
	rig_open(rig, order, parity, layout, DDR_ENGINE_THREADS);
	make_member(rig, rig->geo.roles);
	if (parity == 0)
		return;
	job(rig, (1u << rig->geo.roles) - 1, right, 3, true);
	for (unsigned int m = 0; m < rig->geo.roles; m++)
		assert_int_equal(pread(rig->members->dev[m].fd, rig->before[m], area(rig), DATA_OFFSET), (ssize_t)area(rig));
}

static void copy_rig(struct rig *rig, unsigned int order, unsigned int parity)
{
	copy_rig_as(rig, order, parity, DDR_LAYOUT_DEDICATED, FIRST + 7);
}

static void copy_begin_as(struct rig *rig, uint32_t members, uint32_t fix, uint64_t timeout_ms)
{
	struct ddr_job_range r = { .io = 5, .start = FIRST, .count = COUNT, .members = members, .rebuild = true, .target = rig->geo.roles,
				   .copy = true, .from = OLD, .fix = fix };

	for (unsigned int p = 0; p < DDR_MAX_ROLES; p++)
		r.at[p] = (uint8_t)p;
	rig->done = false;
	ddr_jobs_range(rig->jobs, &r, 1000, timeout_ms);
}

static void copy_begin(struct rig *rig, uint32_t members, uint64_t timeout_ms)
{
	copy_begin_as(rig, members, 0, timeout_ms);
}

static void copy_as(struct rig *rig, uint32_t members, uint32_t fix)
{
	copy_begin_as(rig, members, fix, 60000);
	qb_loop_run(rig->loop);
	assert_true(rig->done);
}

static void copy(struct rig *rig, uint32_t members)
{
	copy_as(rig, members, 0);
}

/* The new disk holds what the old one does, but for @missing (0: none), where it still has its own content; no other member was written. */
static void check_copied(struct rig *rig, uint64_t missing)
{
	uint32_t spare = rig->geo.roles;
	size_t chunk = rig->geo.chunk;
	uint8_t *disk = aligned_alloc(4096, area(rig));

	for (unsigned int m = 0; m <= spare; m++) {
		assert_int_equal(pread(rig->members->dev[m].fd, disk, area(rig), DATA_OFFSET), (ssize_t)area(rig));
		for (uint64_t b = 0; b < BLOCKS; b++) {
			bool copied = m == spare && b >= FIRST && b < FIRST + COUNT && b != missing;

			assert_memory_equal(disk + b * chunk, rig->before[copied ? OLD : m] + b * chunk, chunk);
		}
	}
	free(disk);
}

static void copy_end(struct rig *rig)
{
	free(rig->before[rig->geo.roles]);
	rig_close(rig);
}

/* Readable blocks are copied, whatever the parity says; the one unreadable block is computed. */
static void a_bad_sector_is_computed_and_nothing_else(void **state)
{
	(void)state;
	for (unsigned int order = 0; order <= 3; order++)
		for (unsigned int parity = 1; parity <= 2; parity++) {
			struct rig rig;

			copy_rig(&rig, order, parity);
			goes_bad(&rig, OLD, FIRST + 8, ENODATA);
			copy(&rig, (1u << rig.geo.roles) - 1);
			assert_int_equal(rig.result.result, 0);
			assert_int_equal(rig.result.failed, 0);
			check_copied(&rig, 0);
			copy_end(&rig);
		}
}

/* The range spans several rotations of the roles, and the block lies after them: the disk has another role there than at the beginning. */
static void a_bad_sector_behind_a_turn(void **state)
{
	(void)state;
	for (unsigned int order = 1; order <= 3; order++)
		for (unsigned int parity = 1; parity <= 2; parity++)
			for (unsigned int turn = 1; turn <= 2; turn++) {
				uint64_t block = turn * 256 + 60;
				struct rig rig;

				copy_rig_as(&rig, order, parity, DDR_LAYOUT_ROTATING, block - 1);
				goes_bad(&rig, OLD, block, ENODATA);
				copy(&rig, (1u << rig.geo.roles) - 1);
				assert_int_equal(rig.result.result, 0);
				check_copied(&rig, 0);
				copy_end(&rig);
			}
}

/* With P and Q one more role is there than is needed: a block that is computed from what does not fit is reported. Copied blocks are not compared. */
static void a_computed_block_that_does_not_fit_is_reported(void **state)
{
	(void)state;
	for (unsigned int parity = 1; parity <= 2; parity++)
		for (uint64_t block = FIRST + 8; block <= FIRST + 300; block += 292) {
			struct rig rig;
			bool unfit = parity == 2 && block != FIRST + 8;

			copy_rig(&rig, 2, parity);
			goes_bad(&rig, OLD, block, ENODATA);
			copy_as(&rig, (1u << rig.geo.roles) - 1, DDR_FIX_FITS);
			assert_int_equal(rig.result.result, 0);
			assert_int_equal(rig.result.mismatches, unfit);
			assert_int_equal(rig.result.bad_start, unfit ? block : 0);
			assert_int_equal(rig.result.bad_count, unfit);
			copy_end(&rig);
		}
}

/* Each block can be had, although two disks have bad sectors in the range. */
static void bad_sectors_of_two_disks_elsewhere(void **state)
{
	struct rig rig;

	(void)state;
	copy_rig(&rig, 2, 1);
	goes_bad(&rig, OLD, FIRST + 7, EILSEQ);
	goes_bad(&rig, 2, FIRST + 8, ENODATA);
	goes_bad(&rig, 4, FIRST + 200, ENODATA);
	goes_bad(&rig, OLD, FIRST + 9, ENODATA);
	copy(&rig, (1u << rig.geo.roles) - 1);
	assert_int_equal(rig.result.result, 0);
	check_copied(&rig, 0);
	copy_end(&rig);
}

/* Two disks of one block: P and Q do; P alone does not, and only that block is missing. */
static void bad_sectors_of_two_disks_at_one_block(void **state)
{
	(void)state;
	for (unsigned int parity = 1; parity <= 2; parity++) {
		struct rig rig;

		copy_rig(&rig, 2, parity);
		goes_bad(&rig, OLD, FIRST + 8, ENODATA);
		goes_bad(&rig, OLD, FIRST + 9, ENODATA);
		goes_bad(&rig, 3, FIRST + 8, ENODATA);
		copy(&rig, (1u << rig.geo.roles) - 1);
		assert_int_equal(rig.result.result, parity == 2 ? 0 : -ENODATA);
		assert_int_equal(rig.result.failed, parity == 2 ? 0 : 1u << OLD | 1u << 3);
		check_copied(&rig, parity == 2 ? 0 : FIRST + 8);
		copy_end(&rig);
	}
}

/*
 * Without parity, and where the others must not be read (lib/cluster/sm_ex.c), nothing is computed, nothing is made up, and all else
 * is copied.
 */
static void blocks_that_cannot_be_computed_are_missing_in_the_copy(void **state)
{
	(void)state;
	for (unsigned int parity = 0; parity <= 1; parity++) {
		struct rig rig;

		copy_rig(&rig, 2, parity);
		goes_bad(&rig, OLD, FIRST + 8, ENODATA);
		copy(&rig, parity ? 1u << OLD : (1u << rig.geo.roles) - 1);
		assert_int_equal(rig.result.result, -ENODATA);
		assert_int_equal(rig.result.failed, 1u << OLD);
		check_copied(&rig, FIRST + 8);
		copy_end(&rig);
	}
}

/* Worse than a bad sector: the failing member is named, whichever it is. */
static void a_disk_that_breaks_during_a_copy_is_named(void **state)
{
	struct rig rig;
	int fd;

	(void)state;
	copy_rig(&rig, 2, 1);
	goes_bad(&rig, OLD, FIRST + 8, ENODATA);
	goes_bad(&rig, 3, FIRST + 8, EIO);
	copy(&rig, (1u << rig.geo.roles) - 1);
	assert_int_equal(rig.result.result, -EIO);
	assert_int_equal(rig.result.failed, 1u << 3);
	sour.n = 1;
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);	/* writes fail */
	assert_true(fd >= 0);
	assert_true(dup2(fd, rig.members->dev[rig.geo.roles].fd) >= 0);
	close(fd);
	copy(&rig, (1u << rig.geo.roles) - 1);
	assert_int_equal(rig.result.result, -EBADF);
	assert_int_equal(rig.result.failed, 1u << rig.geo.roles);
	copy_end(&rig);
}

/* A disk takes long over each bad sector: the blocks that are read one by one have the time of a range each time; but no more. */
static void many_bad_sectors_take_their_time(void **state)
{
	(void)state;
	for (unsigned int hangs = 0; hangs <= 1; hangs++) {
		struct rig rig;

		copy_rig(&rig, 2, 1);
		goes_bad(&rig, OLD, FIRST + 8, ENODATA);
		assert_int_equal(sem_init(&sour.go, 0, 0), 0);
		sour.slow = rig.geo.chunk;
		copy_begin(&rig, (1u << rig.geo.roles) - 1, 5000);
		ddr_jobs_tick(rig.jobs, 1001);
		while (!sour.waiting && !rig.done)
			loop_for(&rig, 20);
		ddr_jobs_tick(rig.jobs, 5000);
		ddr_jobs_tick(rig.jobs, 9000);
		assert_false(rig.done);
		if (hangs) {
			ddr_jobs_tick(rig.jobs, 10001);
			assert_true(rig.done);
			assert_int_equal(rig.result.result, -ETIMEDOUT);
			assert_int_equal(rig.result.failed, 1u << OLD);
		}
		for (unsigned int i = 0; i < 2 * COUNT; i++)
			sem_post(&sour.go);
		while (!ddr_jobs_idle(rig.jobs))
			loop_for(&rig, 20);
		assert_true(rig.done);
		assert_int_equal(rig.result.result, hangs ? -ETIMEDOUT : 0);
		if (!hangs)
			check_copied(&rig, 0);
		copy_end(&rig);
		sem_destroy(&sour.go);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bad_sector_is_computed_and_nothing_else),
		cmocka_unit_test(a_computed_block_that_does_not_fit_is_reported),
		cmocka_unit_test(a_bad_sector_behind_a_turn),
		cmocka_unit_test(bad_sectors_of_two_disks_elsewhere),
		cmocka_unit_test(bad_sectors_of_two_disks_at_one_block),
		cmocka_unit_test(blocks_that_cannot_be_computed_are_missing_in_the_copy),
		cmocka_unit_test(a_disk_that_breaks_during_a_copy_is_named),
		cmocka_unit_test(many_bad_sectors_take_their_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
