// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The daemon's jobs and metadata writes on files: resync writes exactly the parity that is
 * wrong, for every geometry, by both I/O engines; failures name the member. Parity is
 * judged by a plain reference that shares nothing with lib/parity.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "daemon/daemon.h"
#include "daemon/job.h"
#include "daemon/metaio.h"

#define BLOCKS		1024u
#define DATA_OFFSET	(1u << 20)
#define FIRST		100u		/* of the range: it crosses two turns of the roles */
#define COUNT		500u

struct rig {
	qb_loop_t *loop;
	struct ddr_super sb;
	struct ddr_geometry geo;
	struct ddr_members *members;
	struct ddr_jobs *jobs;
	struct ddr_job_result result;
	struct ddr_metaio *meta;
	uint32_t meta_failed;
	bool done;
	uint8_t *before[DDR_MAX_ROLES + 1];	/* and of a spare */
};

/* ---- bad sectors: by threads alone ------------------------------------------------ */

ssize_t __real_preadv2(int fd, const struct iovec *iov, int n, off_t offset, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int n, off_t offset, int flags);

/* Set while no request is under way. */
static struct {
	struct { int fd; off_t at; int error; } bad[8];	/* bytes that cannot be read */
	unsigned int n;
	uint32_t slow;			/* reads of this length wait for @go ... */
	atomic_uint waiting;		/* ... so many came */
	sem_t go;
} sour;

ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int n, off_t offset, int flags)
{
	if (sour.slow && iov->iov_len == sour.slow) {
		sour.waiting++;
		sem_wait(&sour.go);
	}
	for (unsigned int i = 0; i < sour.n; i++)
		if (fd == sour.bad[i].fd && offset <= sour.bad[i].at && sour.bad[i].at < offset + (off_t)iov->iov_len) {
			errno = sour.bad[i].error;
			return -1;
		}
	return __real_preadv2(fd, iov, n, offset, flags);
}

static void goes_bad(struct rig *rig, unsigned int m, uint64_t block, int error)
{
	assert_true(sour.n < sizeof(sour.bad) / sizeof(sour.bad[0]));
	sour.bad[sour.n].fd = rig->members->dev[m].fd;
	sour.bad[sour.n].error = error;
	sour.bad[sour.n++].at = DATA_OFFSET + (off_t)(block * rig->geo.chunk) + 99;
}

uint64_t ddr_now_ms(void)
{
	return 1000;
}

static void on_job(void *ctx, const struct ddr_job_result *r)
{
	struct rig *rig = ctx;

	rig->result = *r;
	rig->done = true;
	qb_loop_stop(rig->loop);
}

static void on_meta(void *ctx, enum ddr_metaio_kind kind, uint64_t io, uint32_t failed)
{
	struct rig *rig = ctx;

	(void)kind;
	assert_int_equal(io, 77);
	rig->meta_failed = failed;
	rig->done = true;
	qb_loop_stop(rig->loop);
}

static size_t area(const struct rig *rig)
{
	return (size_t)BLOCKS * rig->geo.chunk;
}

static void make_member(struct rig *rig, unsigned int m)
{
	char path[] = "/tmp/ddraid-job-XXXXXX";
	int fd = mkstemp(path);
	struct ddr_error err;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, DATA_OFFSET + (off_t)area(rig) + DDR_TAIL_BYTES), 0);
	rig->before[m] = aligned_alloc(4096, area(rig));
	for (size_t i = 0; i < area(rig); i++)
		rig->before[m][i] = (uint8_t)random();
	assert_int_equal(pwrite(fd, rig->before[m], area(rig), DATA_OFFSET), (ssize_t)area(rig));
	close(fd);
	assert_int_equal(ddr_dev_open(&rig->members->dev[m], path, DDR_DEV_WRITE | DDR_DEV_FILE, &err), 0);
	rig->members->open |= 1u << m;
	unlink(path);
}

static void rig_open(struct rig *rig, unsigned int order, unsigned int parity, unsigned int layout, uint64_t engine)
{
	memset(rig, 0, sizeof(*rig));
	assert_true(ddr_geo_init(&rig->geo, order, parity, layout));
	rig->sb.order = (uint8_t)order;
	rig->sb.parity = (uint8_t)parity;
	rig->sb.layout = (uint8_t)layout;
	rig->sb.data_offset = DATA_OFFSET;
	rig->sb.array_blocks = BLOCKS;
	rig->loop = qb_loop_create();
	rig->members = ddr_members_new();
	rig->members->n = rig->geo.roles;
	for (unsigned int m = 0; m < rig->geo.roles; m++)
		make_member(rig, m);
	assert_int_equal(ddr_jobs_open(&rig->jobs, &(struct ddr_jobs_config){ .loop = rig->loop, .engine = engine,
				       .members = rig->members, .super = &rig->sb, .done = on_job, .ctx = rig }), 0);
	assert_int_equal(ddr_metaio_open(&rig->meta, &(struct ddr_metaio_config){ .loop = rig->loop, .engine = engine,
				  .operations = 8, .members = rig->members, .done = on_meta, .ctx = rig }), 0);
}

static void rig_close(struct rig *rig)
{
	ddr_jobs_close(rig->jobs);
	ddr_metaio_close(rig->meta);
	ddr_members_put(rig->members);
	for (unsigned int m = 0; m < rig->geo.roles; m++)
		free(rig->before[m]);
	qb_loop_destroy(rig->loop);
}

static void run(struct rig *rig, struct ddr_job_range *r)
{
	r->io = 5;
	rig->done = false;
	ddr_jobs_range(rig->jobs, r, 1000, 60000);
	ddr_jobs_tick(rig->jobs, 1001);
	if (!rig->done)
		qb_loop_run(rig->loop);
	assert_true(rig->done);
	assert_int_equal(rig->result.io, 5);
}

static void job(struct rig *rig, uint32_t members, uint64_t start, uint64_t count, bool repair)
{
	/* what only reads does it as verify does: the result has to be the same */
	struct ddr_job_range r = { .start = start, .count = count, .members = members, .repair = repair, .unlocked = !repair, .idle = !repair };

	for (unsigned int p = 0; p < DDR_MAX_ROLES; p++)
		r.at[p] = (uint8_t)p;
	run(rig, &r);
	assert_int_equal(rig->result.scan, !repair);
}

static uint8_t double_gf(uint8_t x)
{
	return (uint8_t)(x << 1 ^ (x & 0x80 ? 0x1d : 0));
}

/* What byte @at of role @role of @block must be, from the data roles. */
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

/* Role @role of the array is held by the spare, member @spare, which holds nothing yet; the members of @out are out. */
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

/* In the range the spare holds what the member at its place holds; outside of it, and on all others, nothing has changed. */
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
	rebuild(rig, spare, spare, 0);			/* it stands nowhere */
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
	members = 0x3f & ~(1u << 4);			/* P is out */
	job(&rig, members, FIRST, COUNT, true);
	assert_int_equal(rig.result.result, 0);
	check_disks(&rig, members);
	rig_close(&rig);
}

/* ---- what does not fit ---------------------------------------------------------- */

/* One byte of what a member holds of a block is another one. (The same change on two members would cancel itself in P.) */
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

/* What is wrong is not known: nothing is written, unless parity is to be rewritten whatever is wrong. */
static void what_cannot_be_told_stays(void **state)
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
		check_disks(&rig, (1u << rig.geo.roles) - 1);
		rig_close(&rig);
	}
}

/* ---- a copy of a disk that has bad sectors --------------------------------------- */

#define OLD	1u		/* the member that is replaced; it stands at its own place */

/* A rig in which P is right for what the others hold at FIRST + 7, .. + 9, and wrong everywhere else: what is computed there shows. */
static void copy_rig(struct rig *rig, unsigned int order, unsigned int parity)
{
	memset(&sour, 0, sizeof(sour));
	rig_open(rig, order, parity, DDR_LAYOUT_DEDICATED, DDR_ENGINE_THREADS);
	make_member(rig, rig->geo.roles);
	if (parity == 0)
		return;
	job(rig, (1u << rig->geo.roles) - 1, FIRST + 7, 3, true);
	for (unsigned int m = 0; m < rig->geo.roles; m++)
		assert_int_equal(pread(rig->members->dev[m].fd, rig->before[m], area(rig), DATA_OFFSET), (ssize_t)area(rig));
}

static void copy_begin(struct rig *rig, uint32_t members, uint64_t timeout_ms)
{
	struct ddr_job_range r = { .io = 5, .start = FIRST, .count = COUNT, .members = members, .rebuild = true, .target = rig->geo.roles,
				   .copy = true, .from = OLD };

	for (unsigned int p = 0; p < DDR_MAX_ROLES; p++)
		r.at[p] = (uint8_t)p;
	rig->done = false;
	ddr_jobs_range(rig->jobs, &r, 1000, timeout_ms);
}

static void copy(struct rig *rig, uint32_t members)
{
	copy_begin(rig, members, 60000);
	qb_loop_run(rig->loop);
	assert_true(rig->done);
}

/* The new disk holds what the old one does, but for @missing (0: none), where it has what it had; nobody else was written. */
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

/* What can be read is copied, whatever the parity says; the one block that cannot is computed. */
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

/* Without parity, and where the others are not to be asked (lib/sm_ex.c), nothing is computed, nothing made up, all else copied. */
static void what_nobody_knows_is_missing(void **state)
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

/* Worse than a bad sector: the member is named, whoever it is. */
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

static void loop_stops(void *data)
{
	qb_loop_stop(data);
}

static void loop_for_a_moment(struct rig *rig)
{
	qb_loop_timer_handle timer;

	assert_int_equal(qb_loop_timer_add(rig->loop, QB_LOOP_LOW, 20 * QB_TIME_NS_IN_MSEC, rig->loop, loop_stops, &timer), 0);
	qb_loop_run(rig->loop);
	qb_loop_timer_del(rig->loop, timer);
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
			loop_for_a_moment(&rig);
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
			loop_for_a_moment(&rig);
		assert_true(rig.done);
		assert_int_equal(rig.result.result, hangs ? -ETIMEDOUT : 0);
		if (!hangs)
			check_copied(&rig, 0);
		copy_end(&rig);
		sem_destroy(&sour.go);
	}
}

static void what_cannot_be_done_is_refused(void **state)
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
	rig_close(&rig);
}

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

static void stop(void *data)
{
	qb_loop_stop(data);
}

static void a_member_that_does_not_answer_has_failed_in_time(void **state)
{
	qb_loop_timer_handle timer;
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
	rig.meta_failed = 0;
	assert_int_equal(qb_loop_timer_add(rig.loop, QB_LOOP_LOW, 200 * QB_TIME_NS_IN_MSEC, rig.loop, stop, &timer), 0);
	qb_loop_run(rig.loop);			/* now the answers come: nothing is reported twice */
	assert_int_equal(rig.meta_failed, 0);
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_geometry_by_the_best_engine),
		cmocka_unit_test(every_geometry_by_threads),
		cmocka_unit_test(a_spare_is_rebuilt_in_every_geometry),
		cmocka_unit_test(a_missing_parity_member_leaves_the_other),
		cmocka_unit_test(one_wrong_chunk_of_a_block_is_found),
		cmocka_unit_test(what_cannot_be_told_stays),
		cmocka_unit_test(a_bad_sector_is_computed_and_nothing_else),
		cmocka_unit_test(bad_sectors_of_two_disks_elsewhere),
		cmocka_unit_test(bad_sectors_of_two_disks_at_one_block),
		cmocka_unit_test(what_nobody_knows_is_missing),
		cmocka_unit_test(a_disk_that_breaks_during_a_copy_is_named),
		cmocka_unit_test(many_bad_sectors_take_their_time),
		cmocka_unit_test(what_cannot_be_done_is_refused),
		cmocka_unit_test(a_member_that_fails_is_named),
		cmocka_unit_test(metadata_goes_to_all_that_are_asked),
		cmocka_unit_test(a_member_that_does_not_answer_has_failed_in_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
