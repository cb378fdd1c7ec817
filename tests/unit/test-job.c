// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The daemon's jobs on files: resync writes exactly the parity that is wrong, a rebuild exactly the new member, for every
 * geometry, by both I/O engines; failures name the member. Parity is judged by a plain reference that shares nothing with lib/math/parity.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/job-rig.h"

static uint8_t double_gf(uint8_t x)
{
	return (uint8_t)(x << 1 ^ (x & 0x80 ? 0x1d : 0));
}

/* What byte @at of role @role of @block must be, computed from the data roles. */
static uint8_t reference(const struct rig *rig, uint8_t *const disk[], unsigned int role, uint64_t block, size_t at)
{
	unsigned int data = 1u << rig->geo.order, n = rig->geo.roles;
	unsigned int turn = rig->geo.rotating ? (unsigned int)(block / 256 % n) : 0;
	uint8_t p = 0, q = 0;

	for (unsigned int i = data; i-- > 0;) {
		uint8_t d = disk[(i + turn) % n][block * rig->geo.chunk + at];

		p ^= d;
		q = (uint8_t)(double_gf(q) ^ d);
	}
	return role == data ? p : q;
}

static void read_disks(const struct rig *rig, uint8_t *disk[])
{
	for (unsigned int m = 0; m < rig->geo.roles; m++) {
		disk[m] = aligned_alloc(4096, area(rig));	/* O_DIRECT */
		assert_int_equal(pread(rig->members->dev[m].fd, disk[m], area(rig), DATA_OFFSET), (ssize_t)area(rig));
	}
}

static void free_disks(const struct rig *rig, uint8_t *disk[])
{
	for (unsigned int m = 0; m < rig->geo.roles; m++)
		free(disk[m]);
}

/* Parity members in @checked are right in the range; everything else is as it was. */
static void check_disks(struct rig *rig, uint32_t checked)
{
	unsigned int data = 1u << rig->geo.order, n = rig->geo.roles;
	uint8_t *disk[DDR_MAX_ROLES];

	read_disks(rig, disk);
	for (uint64_t b = 0; b < BLOCKS; b++) {
		unsigned int turn = rig->geo.rotating ? (unsigned int)(b / 256 % n) : 0;

		for (unsigned int role = 0; role < n; role++) {
			unsigned int m = (role + turn) % n;
			size_t at = (size_t)b * rig->geo.chunk;

			if (role < data || b < FIRST || b >= FIRST + COUNT || !(checked & (1u << m)))
				assert_memory_equal(disk[m] + at, rig->before[m] + at, rig->geo.chunk);
			else
				for (size_t i = 0; i < rig->geo.chunk; i++)
					assert_int_equal(disk[m][at + i], reference(rig, disk, role, b, i));
		}
	}
	free_disks(rig, disk);
}

/* Spoils one byte of P of a block in the range. */
static void spoil(struct rig *rig, uint64_t block)
{
	unsigned int data = 1u << rig->geo.order, n = rig->geo.roles;
	unsigned int m = (data + (rig->geo.rotating ? (unsigned int)(block / 256 % n) : 0)) % n;
	off_t at = DATA_OFFSET + (off_t)(block * rig->geo.chunk) + 3;
	uint8_t byte[1];

	assert_int_equal(fcntl(rig->members->dev[m].fd, F_SETFL, 0), 0);	/* buffered, for one byte */
	assert_int_equal(pread(rig->members->dev[m].fd, byte, 1, at), 1);
	byte[0] ^= 0x40;
	assert_int_equal(pwrite(rig->members->dev[m].fd, byte, 1, at), 1);
}

static void resync_rewrites_what_differs(struct rig *rig)
{
	uint32_t all = (1u << rig->geo.roles) - 1;

	job(rig, all, FIRST, COUNT, false);
	assert_int_equal(rig->result.result, 0);
	assert_int_equal(rig->result.mismatches, COUNT);
	check_disks(rig, 0);				/* verify writes nothing */
	job(rig, all, FIRST, COUNT, true);
	assert_int_equal(rig->result.result, 0);
	assert_int_equal(rig->result.failed, 0);
	assert_int_equal(rig->result.mismatches, COUNT);
	assert_int_equal(rig->result.blocks, COUNT);
	check_disks(rig, all);
	job(rig, all, FIRST, COUNT, true);
	assert_int_equal(rig->result.mismatches, 0);
	spoil(rig, FIRST + 300);
	job(rig, all, FIRST, COUNT, true);
	assert_int_equal(rig->result.mismatches, 1);
	check_disks(rig, all);
}

static void every_geometry_by(uint64_t engine)
{
	for (unsigned int order = 0; order <= 3; order++)
		for (unsigned int parity = 1; parity <= 2; parity++)
			for (unsigned int layout = 0; layout <= 1; layout++) {
				struct rig rig;

				rig_open(&rig, order, parity, layout, engine);
				resync_rewrites_what_differs(&rig);
				rig_close(&rig);
			}
}

static void every_geometry_by_the_best_engine(void **state)
{
	(void)state;
	every_geometry_by(DDR_ENGINE_AUTO);
}

static void every_geometry_by_threads(void **state)
{
	(void)state;
	every_geometry_by(DDR_ENGINE_THREADS);
}

/* Role @role of the array is held by the spare, member @spare, which holds nothing yet; the members of @out have failed. */
static void rebuild(struct rig *rig, uint32_t spare, uint32_t place, uint32_t out)
{
	struct ddr_job_range r = { .start = FIRST, .count = COUNT, .rebuild = true, .target = spare };

	for (unsigned int p = 0; p < rig->geo.roles; p++) {
		r.at[p] = (uint8_t)(p == place ? spare : p);
		r.members |= out >> p & 1 ? 0 : 1u << r.at[p];
	}
	r.members &= ~(1u << spare);
	run(rig, &r);
}

/* In the range the spare holds what the member at its place holds; outside of it, and on all other members, nothing has changed. */
static void check_rebuilt(struct rig *rig, uint32_t spare, uint32_t place)
{
	size_t from = (size_t)FIRST * rig->geo.chunk, len = (size_t)COUNT * rig->geo.chunk;
	uint8_t *disk = aligned_alloc(4096, area(rig));

	for (unsigned int m = 0; m <= rig->geo.roles; m++) {
		assert_int_equal(pread(rig->members->dev[m].fd, disk, area(rig), DATA_OFFSET), (ssize_t)area(rig));
		if (m == spare) {
			assert_memory_equal(disk + from, rig->before[place] + from, len);
			memcpy(disk + from, rig->before[m] + from, len);
		}
		assert_memory_equal(disk, rig->before[m], area(rig));
	}
	assert_int_equal(pwrite(rig->members->dev[spare].fd, rig->before[spare], area(rig), DATA_OFFSET), (ssize_t)area(rig));
	free(disk);
}

static void remember(struct rig *rig)
{
	uint8_t *disk[DDR_MAX_ROLES];

	job(rig, (1u << rig->geo.roles) - 1, FIRST, COUNT, true);
	read_disks(rig, disk);
	for (unsigned int m = 0; m < rig->geo.roles; m++) {
		free(rig->before[m]);
		rig->before[m] = disk[m];
	}
}

static void each_member_is_rebuilt(struct rig *rig)
{
	uint32_t spare = rig->geo.roles;

	make_member(rig, spare);
	remember(rig);
	for (uint32_t place = 0; place < rig->geo.roles; place++)
		for (uint32_t other = 0; other < rig->geo.roles; other++) {
			bool two = other != place;

			rebuild(rig, spare, place, two ? 1u << other : 0);
			if (two && rig->geo.parity == 1) {
				assert_int_equal(rig->result.result, -EINVAL);
				continue;
			}
			assert_int_equal(rig->result.result, 0);
			assert_int_equal(rig->result.blocks, COUNT);
			check_rebuilt(rig, spare, place);
		}
	rebuild(rig, spare, spare, 0);			/* it is at no place */
	assert_int_equal(rig->result.result, -EINVAL);
	free(rig->before[spare]);
}

static void a_spare_is_rebuilt_in_every_geometry(void **state)
{
	(void)state;
	for (unsigned int order = 0; order <= 3; order++)
		for (unsigned int parity = 1; parity <= 2; parity++)
			for (unsigned int layout = 0; layout <= 1; layout++) {
				struct rig rig;

				rig_open(&rig, order, parity, layout, DDR_ENGINE_AUTO);
				each_member_is_rebuilt(&rig);
				rig_close(&rig);
			}
}

static void a_missing_parity_member_leaves_the_other(void **state)
{
	struct rig rig;
	uint32_t members;

	(void)state;
	rig_open(&rig, 2, 2, DDR_LAYOUT_DEDICATED, DDR_ENGINE_AUTO);
	members = 0x3f & ~(1u << 4);			/* P has failed */
	job(&rig, members, FIRST, COUNT, true);
	assert_int_equal(rig.result.result, 0);
	check_disks(&rig, members);
	rig_close(&rig);
}

/* ---- what does not fit ---------------------------------------------------------- */

/* Changes one byte of what a member holds of a block. (The same change on two members would cancel out in P.) */
static void rot(struct rig *rig, unsigned int m, uint64_t block)
{
	off_t at = DATA_OFFSET + (off_t)(block * rig->geo.chunk) + 7;
	uint8_t byte[1];

	assert_int_equal(fcntl(rig->members->dev[m].fd, F_SETFL, 0), 0);
	assert_int_equal(pread(rig->members->dev[m].fd, byte, 1, at), 1);
	byte[0] ^= (uint8_t)(0x29 + m);
	assert_int_equal(pwrite(rig->members->dev[m].fd, byte, 1, at), 1);
}

static void fix(struct rig *rig, uint32_t what)
{
	struct ddr_job_range r = { .start = FIRST, .count = COUNT, .members = (1u << rig->geo.roles) - 1, .fix = what };

	for (unsigned int p = 0; p < DDR_MAX_ROLES; p++)
		r.at[p] = (uint8_t)p;
	run(rig, &r);
	assert_int_equal(rig->result.result, 0);
	assert_int_equal(rig->result.failed, 0);
}

static void check_as_before(struct rig *rig)
{
	uint8_t *disk[DDR_MAX_ROLES];

	read_disks(rig, disk);
	for (unsigned int m = 0; m < rig->geo.roles; m++)
		assert_memory_equal(disk[m], rig->before[m], area(rig));
	free_disks(rig, disk);
}

/* With P and Q it is known which chunk is wrong: data, P or Q, on whatever member. */
static void one_wrong_chunk_of_a_block_is_found(void **state)
{
	(void)state;
	for (unsigned int order = 0; order <= 3; order++)
		for (unsigned int layout = 0; layout <= 1; layout++) {
			struct rig rig;

			rig_open(&rig, order, 2, layout, DDR_ENGINE_AUTO);
			remember(&rig);
			for (unsigned int m = 0; m < rig.geo.roles; m++) {
				rot(&rig, m, FIRST + 3 + m);
				rot(&rig, m, FIRST + 300 + 2 * m);
				job(&rig, (1u << rig.geo.roles) - 1, FIRST, COUNT, false);
				assert_int_equal(rig.result.mismatches, 2);
				assert_int_equal(rig.result.bad_start, FIRST + 3 + m);
				assert_int_equal(rig.result.bad_count, 298 + m);
				fix(&rig, DDR_FIX_BAD | DDR_FIX_WRONG);
				assert_int_equal(rig.result.repaired, 2);
				assert_int_equal(rig.result.mismatches, 0);
				assert_int_equal(rig.result.fixed[m].blocks, 2);
				assert_int_equal(rig.result.fixed[m].unsure, 0);
				assert_int_equal(rig.result.fixed[m].start, FIRST + 3 + m);
				assert_int_equal(rig.result.fixed[m].count, 298 + m);
				check_as_before(&rig);
			}
			fix(&rig, DDR_FIX_BAD);
			for (unsigned int m = 0; m < rig.geo.roles; m++)
				assert_int_equal(rig.result.fixed[m].blocks, 0);
			rig_close(&rig);
		}
}

/* It cannot be known which chunk is wrong: nothing is written, unless parity is to be rewritten in any case. */
static void a_mismatch_that_names_no_member_is_left(void **state)
{
	(void)state;
	for (unsigned int parity = 1; parity <= 2; parity++) {
		struct rig rig;

		rig_open(&rig, 2, parity, DDR_LAYOUT_ROTATING, DDR_ENGINE_AUTO);
		remember(&rig);
		rot(&rig, 1, FIRST + 9);
		rot(&rig, 2, FIRST + 9 + (parity == 1));
		if (parity == 2)
			rig.before[2][(FIRST + 9) * rig.geo.chunk + 7] ^= 0x2b;
		rig.before[1][(FIRST + 9) * rig.geo.chunk + 7] ^= 0x2a;
		if (parity == 1)
			rig.before[2][(FIRST + 10) * rig.geo.chunk + 7] ^= 0x2b;
		fix(&rig, DDR_FIX_BAD | DDR_FIX_WRONG);
		assert_int_equal(rig.result.repaired, 0);
		assert_int_equal(rig.result.mismatches, 3 - parity);
		check_as_before(&rig);
		fix(&rig, DDR_FIX_BAD | DDR_FIX_WRONG | DDR_FIX_PARITY);
		assert_int_equal(rig.result.repaired, 3 - parity);
		assert_int_equal(rig.result.mismatches, 0);
		for (unsigned int m = 0; m < rig.geo.roles; m++)
			assert_int_equal(rig.result.fixed[m].unsure, rig.result.fixed[m].blocks);
		check_disks(&rig, (1u << rig.geo.roles) - 1);
		rig_close(&rig);
	}
}

static void impossible_ranges_are_refused(void **state)
{
	static const struct { uint32_t members; uint64_t start, count; } bad[] = {
		{ 0x1e, FIRST, COUNT },			/* a data member is missing */
		{ 0x1f, FIRST, 0 },
		{ 0x1f, FIRST, DDR_JOB_BLOCKS_MAX + 1 },
		{ 0x1f, BLOCKS - 10, 11 },
		{ 0x1f, UINT64_MAX - 1, 10 },
	};
	struct rig rig;

	(void)state;
	rig_open(&rig, 2, 1, DDR_LAYOUT_DEDICATED, DDR_ENGINE_AUTO);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		job(&rig, bad[i].members, bad[i].start, bad[i].count, true);
		assert_int_equal(rig.result.result, -EINVAL);
		assert_int_equal(rig.result.failed, 0);
	}
	check_disks(&rig, 0);
	rig_close(&rig);
}

static void a_member_that_fails_is_named(void **state)
{
	struct rig rig;
	int fd;

	(void)state;
	rig_open(&rig, 2, 1, DDR_LAYOUT_DEDICATED, DDR_ENGINE_AUTO);
	fd = open("/dev/null", O_WRONLY | O_CLOEXEC);	/* reads fail */
	assert_true(fd >= 0);
	assert_true(dup2(fd, rig.members->dev[2].fd) >= 0);
	close(fd);
	job(&rig, 0x1f, FIRST, COUNT, true);
	assert_true(rig.result.result < 0);
	assert_int_equal(rig.result.failed, 1u << 2);
	assert_int_equal(rig.result.hard, 0);
	rig_close(&rig);
}

/* A disk that fails a write has failed, whatever the redundancy; so that is reported separately. */
static void a_write_that_fails_is_told(void **state)
{
	char path[64];
	struct rig rig;
	int fd;

	(void)state;
	rig_open(&rig, 2, 1, DDR_LAYOUT_DEDICATED, DDR_ENGINE_AUTO);
	/* The member's own file, whose parity is wrong. Not /dev/zero, which unlike a disk returns short reads whenever a signal is pending. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", rig.members->dev[4].fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_true(dup2(fd, rig.members->dev[4].fd) >= 0);
	close(fd);
	job(&rig, 0x1f, FIRST, COUNT, true);
	assert_true(rig.result.result < 0);
	assert_int_equal(rig.result.failed, 1u << 4);
	assert_int_equal(rig.result.hard, 1u << 4);
	rig_close(&rig);
}

/*
 * A member leaves the array while a range is being read. Its disk may have lost its cache in between: what is computed from it would go over parity that
 * was right.
 */
static void what_left_the_array_is_not_used(void **state)
{
	(void)state;
	for (unsigned int kind = 0; kind < 3; kind++) {
		struct ddr_job_range r = { .io = 5, .start = FIRST, .count = COUNT, .members = 0x1f };
		uint8_t *disk[DDR_MAX_ROLES];
		unsigned int changed = 0;
		struct rig rig;

		rig_open(&rig, 2, 1, DDR_LAYOUT_ROTATING, DDR_ENGINE_THREADS);
		for (unsigned int p = 0; p < DDR_MAX_ROLES; p++)
			r.at[p] = (uint8_t)p;
		r.repair = kind == 0;
		r.rebuild = kind == 1;
		r.target = 4;
		r.members &= r.rebuild ? ~(1u << 4) : ~0u;
		r.fix = kind == 2 ? DDR_FIX_PARITY : 0;
		rig.done = false;
		ddr_jobs_range(rig.jobs, &r, 1000, 60000);
		rig.gone = 1u << 2;
		while (!rig.done)
			loop_for(&rig, 20);
		assert_int_equal(rig.result.result, -ESTALE);
		assert_int_equal(rig.result.failed | rig.result.hard | rig.result.flush, 0);
		read_disks(&rig, disk);
		for (unsigned int m = 0; m < rig.geo.roles; m++)
			assert_memory_equal(disk[m], rig.before[m], area(&rig));
		free_disks(&rig, disk);
		rig.gone = 1u << 20;			/* none of this range's */
		run(&rig, &r);
		assert_int_equal(rig.result.result, 0);
		read_disks(&rig, disk);
		for (unsigned int m = 0; m < rig.geo.roles; m++)
			changed += memcmp(disk[m], rig.before[m], area(&rig)) != 0;
		free_disks(&rig, disk);
		assert_true(changed > 0 || r.fix);	/* a fix of so long a range only finds out */
		rig_close(&rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_geometry_by_the_best_engine),
		cmocka_unit_test(every_geometry_by_threads),
		cmocka_unit_test(a_spare_is_rebuilt_in_every_geometry),
		cmocka_unit_test(a_missing_parity_member_leaves_the_other),
		cmocka_unit_test(one_wrong_chunk_of_a_block_is_found),
		cmocka_unit_test(a_mismatch_that_names_no_member_is_left),
		cmocka_unit_test(impossible_ranges_are_refused),
		cmocka_unit_test(a_member_that_fails_is_named),
		cmocka_unit_test(what_left_the_array_is_not_used), cmocka_unit_test(a_write_that_fails_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
