// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the daemon's I/O (daemon/disk/metaio.c, daemon/job/job.c) reports of a member that answers "no space": a device that is
 * present has no space; a device that was pulled (whose size is 0) or was truncated has failed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/fs.h>

#include "tests/unit/fixture.h"
#include "tests/unit/job-rig.h"

static int full_fd = -1, full_error;		/* writes to it fail */
static int broken_fd = -1;			/* the same, with -EIO */
static int flush_fd = -1;			/* flushes of it fail with -ENOSPC */
static uint64_t size = UINT64_MAX;		/* of full_fd, as a block device; UINT64_MAX: it is a file */

ssize_t __real_pwritev2(int fd, const struct iovec *iov, int n, off_t offset, int flags);
ssize_t __wrap_pwritev2(int fd, const struct iovec *iov, int n, off_t offset, int flags);
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);

ssize_t __wrap_pwritev2(int fd, const struct iovec *iov, int n, off_t offset, int flags)
{
	if (fd != full_fd && fd != broken_fd)
		return __real_pwritev2(fd, iov, n, offset, flags);
	errno = fd == full_fd ? full_error : EIO;
	return -1;
}

int __wrap_fdatasync(int fd)
{
	if (fd != flush_fd)
		return __real_fdatasync(fd);
	errno = ENOSPC;
	return -1;
}

int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
	if (fd != full_fd || request != BLKGETSIZE64 || size == UINT64_MAX)
		return __real_ioctl(fd, request, arg);
	memcpy(arg, &size, sizeof(size));
	return 0;
}

static void open_rig(struct rig *rig, unsigned int full, int error, uint64_t bytes)
{
	rig_open(rig, 1, 2, DDR_LAYOUT_ROTATING, DDR_ENGINE_THREADS);
	full_fd = rig->members->dev[full].fd;
	full_error = error;
	size = bytes;
	flush_fd = -1;
}

static void close_rig(struct rig *rig)
{
	full_fd = broken_fd = flush_fd = -1;
	rig_close(rig);
}

/* A change of the superblocks, which looks first whether the members have one. */
static void fill_supers(struct rig *rig, struct ddr_meta_op *op)
{
	struct ddr_error err;
	struct ddr_super sb;

	fixture_super(&sb, 1, 2, DDR_LAYOUT_ROTATING, 64u << 20, 0);
	for (unsigned int m = 0; m < 3; m++) {
		sb.this_member = (uint16_t)m;
		assert_int_equal(ddr_dev_write_super(&rig->members->dev[m], &sb, &err), 0);
		assert_int_equal(ddr_super_encode(&sb, ddr_metaio_block(op, m)).code, DDR_FE_OK);
	}
	ddr_metaio_supers(op, &sb, &sb);
}

static void meta_write(struct rig *rig, enum ddr_metaio_kind kind)
{
	struct ddr_meta_op *op = ddr_metaio_get(rig->meta, kind, 77, 0x7);

	if (kind == DDR_META_SB)
		fill_supers(rig, op);
	else if (kind != DDR_META_FLUSH)
		for (unsigned int m = 0; m < 3; m++)
			memset(ddr_metaio_block(op, m), 1, DDR_META_BLOCK);
	ddr_metaio_at(op, 8192);
	rig->done = false;
	ddr_metaio_run(op, 1000, 5000);
	ddr_metaio_kick(rig->meta);
	qb_loop_run(rig->loop);
	assert_true(rig->done);
}

/* Finding S26: log and map writes name the member that has no space, apart from those that failed. */
static void metadata_tells_no_space_from_a_failure(void **state)
{
	struct rig rig;

	(void)state;
	open_rig(&rig, 1, ENOSPC, 1ull << 40);
	for (unsigned int kind = DDR_META_LOG; kind <= DDR_META_MAP; kind++) {
		meta_write(&rig, kind);
		assert_int_equal(rig.meta_failed, 1u << 1);
		assert_int_equal(rig.meta_no_space, 1u << 1);
	}
	full_error = EIO;
	meta_write(&rig, DDR_META_LOG);
	assert_int_equal(rig.meta_failed, 1u << 1);
	assert_int_equal(rig.meta_no_space, 0);
	close_rig(&rig);
}

/* Finding S26: a disk that was pulled ends at 0, and one that was cut before the place; both answer "no space" and have failed. */
static void a_pulled_disk_is_not_without_space(void **state)
{
	static const uint64_t sizes[] = { 0, 8192, 8192 + DDR_META_BLOCK - 512 };
	struct rig rig;

	(void)state;
	open_rig(&rig, 1, ENOSPC, 0);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size = sizes[i];
		meta_write(&rig, DDR_META_LOG);
		assert_int_equal(rig.meta_failed, 1u << 1);
		assert_int_equal(rig.meta_no_space, 0);
	}
	size = 8192 + DDR_META_BLOCK;
	meta_write(&rig, DDR_META_LOG);
	assert_int_equal(rig.meta_no_space, 1u << 1);
	close_rig(&rig);
}

/* Rule 3: whatever error a flush returns, earlier writes may be lost. */
static void a_flush_error_is_never_lack_of_space(void **state)
{
	struct rig rig;

	(void)state;
	open_rig(&rig, 1, EIO, UINT64_MAX);
	full_fd = -1;
	flush_fd = rig.members->dev[1].fd;
	meta_write(&rig, DDR_META_FLUSH);
	assert_int_equal(rig.meta_failed, 1u << 1);
	assert_int_equal(rig.meta_no_space, 0);
	job(&rig, 0xf, FIRST, COUNT, true);
	assert_int_equal(rig.result.result, -EIO);
	assert_int_equal(rig.result.failed, 1u << 1);
	assert_int_equal(rig.result.hard & rig.result.failed, 1u << 1);
	close_rig(&rig);
}

/* Finding S26: a resync that meets "no space" reports it of the member; a member that was pulled is reported as failed. */
static void a_job_tells_no_space_from_a_failure(void **state)
{
	struct rig rig;

	(void)state;
	open_rig(&rig, 1, ENOSPC, 1ull << 40);
	job(&rig, 0xf, FIRST, COUNT, true);
	assert_int_equal(rig.result.result, -ENOSPC);
	assert_int_equal(rig.result.failed, 1u << 1);
	size = 0;
	job(&rig, 0xf, FIRST, COUNT, true);
	assert_int_equal(rig.result.result, -ENODEV);
	assert_int_equal(rig.result.failed, 1u << 1);
	close_rig(&rig);
}

/* One member has no space, another one failed: the failure is reported. */
static void of_several_errors_the_worst_is_reported(void **state)
{
	struct rig rig;

	(void)state;
	open_rig(&rig, 1, ENOSPC, 1ull << 40);
	broken_fd = rig.members->dev[2].fd;
	job(&rig, 0xf, FIRST, COUNT, true);
	assert_int_equal(rig.result.failed, 1u << 2);
	assert_int_equal(rig.result.result, -EIO);
	close_rig(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(metadata_tells_no_space_from_a_failure),
		cmocka_unit_test(a_pulled_disk_is_not_without_space),
		cmocka_unit_test(a_flush_error_is_never_lack_of_space),
		cmocka_unit_test(a_job_tells_no_space_from_a_failure),
		cmocka_unit_test(of_several_errors_the_worst_is_reported),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
