// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Reads of a job that fail (daemon/job/job.c): which errors mean that a member has a bad sector, and which that it may be gone. Many
 * disks report a bad sector only as a plain I/O error. So such an error fails no member where the others can supply the data. It does
 * where they cannot, and where nothing may be computed (after a crash).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/job-rig.h"
#include "tests/unit/job-sour.h"

static const int errors[] = { ENODATA, EILSEQ, EIO, EREMOTEIO };

/* All stripes fit. */
static void fitting(struct rig *rig, unsigned int order, unsigned int parity, unsigned int layout)
{
	memset(&sour, 0, sizeof(sour));
	rig_open(rig, order, parity, layout, DDR_ENGINE_THREADS);
	for (uint64_t b = 0; b < BLOCKS; b += DDR_JOB_BLOCKS_MAX)
		job(rig, (1u << rig->geo.roles) - 1, b, DDR_JOB_BLOCKS_MAX, true);
	for (unsigned int m = 0; m < rig->geo.roles; m++)
		assert_int_equal(pread(rig->members->dev[m].fd, rig->before[m], area(rig), DATA_OFFSET), (ssize_t)area(rig));
}

static void fitting_rig(struct rig *rig, unsigned int order, unsigned int parity)
{
	fitting(rig, order, parity, DDR_LAYOUT_DEDICATED);
}

static void do_range(struct rig *rig, struct ddr_job_range r)
{
	r.start = r.start ? r.start : FIRST;
	r.count = r.count ? r.count : COUNT;
	for (unsigned int p = 0; p < DDR_MAX_ROLES; p++)
		r.at[p] = (uint8_t)p;
	run(rig, &r);
}

static void check_as_before(struct rig *rig)
{
	uint8_t *disk = aligned_alloc(4096, area(rig));

	for (unsigned int m = 0; m < rig->geo.roles; m++) {
		assert_int_equal(pread(rig->members->dev[m].fd, disk, area(rig), DATA_OFFSET), (ssize_t)area(rig));
		assert_memory_equal(disk, rig->before[m], area(rig));
	}
	free(disk);
}

/* Verify and the first resync leave it to a fix; it is reported as a bad sector, whatever the disk called it. */
static void a_read_without_repair_reports_a_bad_sector(void **state)
{
	(void)state;
	for (size_t e = 0; e < sizeof(errors) / sizeof(errors[0]); e++)
		for (unsigned int repair = 0; repair <= 1; repair++) {
			struct rig rig;

			fitting_rig(&rig, 2, 1);
			goes_bad(&rig, 2, FIRST + 8, errors[e]);
			do_range(&rig, (struct ddr_job_range){ .members = 0x1f, .repair = repair, .unlocked = !repair });
			assert_int_equal(rig.result.result, errors[e] == EILSEQ ? -EILSEQ : -ENODATA);
			assert_int_equal(rig.result.failed, 1u << 2);
			assert_int_equal(rig.result.hard, 0);
			rig_close(&rig);
		}
}

/* After a crash nothing can be computed there: a disk that does not report a bad sector may be gone. */
static void a_strict_range_takes_an_error_as_reported(void **state)
{
	(void)state;
	for (size_t e = 0; e < sizeof(errors) / sizeof(errors[0]); e++) {
		struct rig rig;

		fitting_rig(&rig, 2, 1);
		goes_bad(&rig, 2, FIRST + 8, errors[e]);
		do_range(&rig, (struct ddr_job_range){ .members = 0x1f, .repair = true, .strict = true });
		assert_int_equal(rig.result.result, -errors[e]);
		assert_int_equal(rig.result.failed, 1u << 2);
		rig_close(&rig);
	}
}

/* One block is computed from the others and written. In this test the disk cannot read it even then: so the disk has failed. */
static void a_bad_sector_that_stays_unreadable_when_rewritten_fails_the_member(void **state)
{
	(void)state;
	for (size_t e = 0; e < sizeof(errors) / sizeof(errors[0]); e++) {
		struct rig rig;

		fitting_rig(&rig, 2, 1);
		goes_bad(&rig, 2, FIRST + 8, errors[e]);
		do_range(&rig, (struct ddr_job_range){ .start = FIRST + 8, .count = 1, .members = 0x1f, .fix = DDR_FIX_BAD });
		assert_int_equal(rig.result.result, errors[e] == EREMOTEIO ? -EREMOTEIO : -EIO);
		assert_int_equal(rig.result.failed, 1u << 2);
		assert_int_equal(rig.result.fixed[2].blocks, 1);
		assert_true(rig.result.fixed[2].unread);
		check_as_before(&rig);
		rig_close(&rig);
	}
}

/* A rewritten block is read back and compared: a disk that returns something else does not keep what it acknowledges. */
static void a_disk_that_returns_other_data_than_was_rewritten_has_failed(void **state)
{
	(void)state;
	for (unsigned int changes = 0; changes <= 1; changes++) {
		struct rig rig;

		fitting_rig(&rig, 2, 1);
		goes_bad(&rig, 2, FIRST + 8, ENODATA);
		sour.bad[0].times = 2;
		sour.bad[0].changes = changes;
		do_range(&rig, (struct ddr_job_range){ .start = FIRST + 8, .count = 1, .members = 0x1f, .fix = DDR_FIX_BAD });
		assert_int_equal(rig.result.result, changes ? -EIO : 0);
		assert_int_equal(rig.result.failed, changes ? 1u << 2 : 0);
		assert_int_equal(rig.result.fixed[2].blocks, 1);
		check_as_before(&rig);
		rig_close(&rig);
	}
}

/*
 * Two at one block: P and Q make up for both, P alone for neither. A member that reported a bad sector has lost that sector; one that
 * did not may be gone.
 */
static void if_the_others_do_not_suffice_the_member_is_reported(void **state)
{
	(void)state;
	for (size_t e = 0; e < sizeof(errors) / sizeof(errors[0]); e++) {
		bool plain = errors[e] == EIO || errors[e] == EREMOTEIO;
		struct rig rig;

		fitting_rig(&rig, 2, 1);
		goes_bad(&rig, 2, FIRST + 8, errors[e]);
		goes_bad(&rig, 3, FIRST + 8, ENODATA);
		do_range(&rig, (struct ddr_job_range){ .start = FIRST + 8, .count = 1, .members = 0x1f, .fix = DDR_FIX_BAD });
		assert_int_equal(rig.result.repaired, 0);
		assert_int_equal(rig.result.hard, 0);
		if (plain) {
			assert_int_equal(rig.result.result, -EIO);
			assert_int_equal(rig.result.failed, 1u << 2);
		} else {
			assert_true(rig.result.result == -ENODATA || rig.result.result == -EILSEQ);
			assert_int_equal(rig.result.failed, 1u << 2 | 1u << 3);
		}
		check_as_before(&rig);
		rig_close(&rig);
	}
}

#define PAGE	4096u	/* what the files are read and written by */

/* What the member holds now at byte @at of its data; @change: another byte is put there. */
static uint8_t byte_at(struct rig *rig, unsigned int m, uint64_t at, bool change)
{
	uint8_t *page = aligned_alloc(PAGE, PAGE), was;
	off_t from = (off_t)(DATA_OFFSET + at / PAGE * PAGE);

	assert_int_equal(pread(rig->members->dev[m].fd, page, PAGE, from), PAGE);
	was = page[at % PAGE];
	page[at % PAGE] ^= 0x5a;
	if (change)
		assert_int_equal(pwrite(rig->members->dev[m].fd, page, PAGE, from), PAGE);
	free(page);
	return was;
}

/*
 * With P and Q, one unreadable chunk leaves something to compare. If another chunk of the block is wrong without an error, nobody knows what was there: nothing
 * may be written. That is known only where the parity matched before.
 */
static void what_does_not_fit_rewrites_no_bad_sector(void **state)
{
	(void)state;
	for (unsigned int bad = 0; bad < 6; bad++)
		for (unsigned int wrong = 0; wrong < 6; wrong++) {
			struct rig rig;
			uint64_t at;

			fitting_rig(&rig, 2, 2);
			at = (FIRST + 8) * rig.geo.chunk;
			goes_bad(&rig, bad, FIRST + 8, EIO);
			sour.bad[0].times = 2;
			if (wrong != bad)
				(void)byte_at(&rig, wrong, at, true);
			do_range(&rig, (struct ddr_job_range){ .start = FIRST + 8, .count = 1, .members = 0x3f, .fix = DDR_FIX_BAD | DDR_FIX_FITS });
			assert_int_equal(rig.result.result, wrong == bad ? 0 : -ENODATA);
			assert_int_equal(rig.result.repaired, wrong == bad);
			assert_int_equal(rig.result.hard, 0);
			assert_int_equal(byte_at(&rig, bad, at, false), rig.before[bad][at]);
			rig_close(&rig);
		}
}

/* A source of a rebuild: with P and Q the rebuild continues without it, with P alone it cannot. */
static void a_rebuild_continues_without_the_unreadable_member_if_it_can(void **state)
{
	(void)state;
	for (size_t e = 0; e < sizeof(errors) / sizeof(errors[0]); e++)
		for (unsigned int parity = 1; parity <= 2; parity++) {
			bool plain = errors[e] == EIO || errors[e] == EREMOTEIO;
			struct rig rig;
			uint32_t all;

			fitting_rig(&rig, 2, parity);
			all = (1u << rig.geo.roles) - 1;
			goes_bad(&rig, 3, FIRST + 8, errors[e]);
			do_range(&rig, (struct ddr_job_range){ .members = all & ~1u, .rebuild = true, .target = 0 });
			if (parity == 2)
				assert_int_equal(rig.result.result, 0);
			else if (plain)
				assert_int_equal(rig.result.result, -EIO);
			else
				assert_int_equal(rig.result.result, -errors[e]);
			assert_int_equal(rig.result.failed, parity == 2 ? 0 : 1u << 3);
			check_as_before(&rig);
			rig_close(&rig);
		}
}

#define UNFIT	(FIRST + 300)	/* a block behind a turn of the roles */

/* Rebuilds member @target while member @wrong holds another byte of that block; returns by what the new member differs from the old one there. */
static uint8_t rebuilt(struct rig *rig, unsigned int order, unsigned int layout, unsigned int target, unsigned int wrong, uint32_t fix)
{
	uint64_t at;

	fitting(rig, order, 2, layout);
	at = UNFIT * rig->geo.chunk;
	(void)byte_at(rig, wrong, at, true);
	do_range(rig, (struct ddr_job_range){ .members = ((1u << rig->geo.roles) - 1) & ~(1u << target), .rebuild = true, .target = target, .fix = fix });
	assert_int_equal(rig->result.result, 0);
	return byte_at(rig, target, at, false) ^ rig->before[target][at];
}

/*
 * With P and Q, a rebuild of one member leaves something to compare. If another chunk of a block is wrong without an error, the new one may be wrong, too, and
 * nobody can tell later: the rebuild goes on, and says which blocks these are. That is known only where the parity matched before.
 */
static void a_rebuild_reports_blocks_that_do_not_fit(void **state)
{
	static const struct { unsigned int order, layout; } of[] = { { 0, DDR_LAYOUT_DEDICATED }, { 2, DDR_LAYOUT_DEDICATED }, { 2, DDR_LAYOUT_ROTATING } };
	struct rig rig;

	(void)state;
	for (unsigned int i = 0; i < 3; i++)
		for (unsigned int roles = (1u << of[i].order) + 2, n = 0; n < roles * roles; n++) {
			unsigned int target = n / roles, wrong = n % roles;
			uint8_t as_ever = rebuilt(&rig, of[i].order, of[i].layout, target, wrong, 0);

			assert_int_equal(rig.result.mismatches, 0);
			rig_close(&rig);
			assert_int_equal(rebuilt(&rig, of[i].order, of[i].layout, target, wrong, DDR_FIX_FITS), as_ever);
			assert_int_equal(rig.result.mismatches, wrong != target);
			assert_int_equal(rig.result.bad_start, wrong != target ? UNFIT : 0);
			assert_int_equal(rig.result.bad_count, wrong != target);
			rig_close(&rig);
		}
}

/* The others suffice, and nothing is to spare. */
static void without_a_source_a_rebuild_compares_nothing(void **state)
{
	struct rig rig;

	(void)state;
	fitting_rig(&rig, 2, 2);
	goes_bad(&rig, 3, FIRST + 8, ENODATA);
	do_range(&rig, (struct ddr_job_range){ .members = 0x3e, .rebuild = true, .fix = DDR_FIX_FITS });
	assert_int_equal(rig.result.result, 0);
	assert_int_equal(rig.result.mismatches, 0);
	check_as_before(&rig);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_read_without_repair_reports_a_bad_sector),
		cmocka_unit_test(a_strict_range_takes_an_error_as_reported),
		cmocka_unit_test(a_bad_sector_that_stays_unreadable_when_rewritten_fails_the_member),
		cmocka_unit_test(a_disk_that_returns_other_data_than_was_rewritten_has_failed),
		cmocka_unit_test(if_the_others_do_not_suffice_the_member_is_reported),
		cmocka_unit_test(what_does_not_fit_rewrites_no_bad_sector),
		cmocka_unit_test(a_rebuild_continues_without_the_unreadable_member_if_it_can),
		cmocka_unit_test(a_rebuild_reports_blocks_that_do_not_fit),
		cmocka_unit_test(without_a_source_a_rebuild_compares_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
