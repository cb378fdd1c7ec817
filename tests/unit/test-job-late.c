// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Jobs some of whose members do not answer (daemon/job.c), on files that keep their requests until they are told: who does not answer for
 * io_timeout is named, and nobody else. Time is what the test says; the loop runs until the requests stand where the test wants them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/unit/job-rig.h"

/* ---- members that keep requests: by threads alone --------------------------------- */

enum { READS = 1, WRITES = 2, FLUSHES = 4 };

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int fd[DDR_MAX_ROLES];
	unsigned int keeps[DDR_MAX_ROLES];	/* by member: what it does not answer */
	unsigned int waits[DDR_MAX_ROLES];	/* what waits for that */
	int error[DDR_MAX_ROLES];		/* every read of it fails with this */
} disks = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

ssize_t __real_preadv2(int fd, const struct iovec *iov, int n, off_t offset, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int n, off_t offset, int flags);
ssize_t __real_pwritev2(int fd, const struct iovec *iov, int n, off_t offset, int flags);
ssize_t __wrap_pwritev2(int fd, const struct iovec *iov, int n, off_t offset, int flags);
int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

/* Waits for as long as the member keeps such requests. Returns the error of its reads. */
static int comes(int fd, unsigned int what)
{
	int error = 0;

	pthread_mutex_lock(&disks.lock);
	for (unsigned int m = 0; m < DDR_MAX_ROLES; m++) {
		if (disks.fd[m] != fd)
			continue;
		while (disks.keeps[m] & what) {
			disks.waits[m] |= what;
			pthread_cond_wait(&disks.changed, &disks.lock);
		}
		disks.waits[m] &= ~what;
		error = what == READS ? disks.error[m] : 0;
	}
	pthread_mutex_unlock(&disks.lock);
	return error;
}

ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int n, off_t offset, int flags)
{
	int error = comes(fd, READS);

	errno = error;
	return error ? -1 : __real_preadv2(fd, iov, n, offset, flags);
}

ssize_t __wrap_pwritev2(int fd, const struct iovec *iov, int n, off_t offset, int flags)
{
	comes(fd, WRITES);
	return __real_pwritev2(fd, iov, n, offset, flags);
}

int __wrap_fdatasync(int fd)
{
	comes(fd, FLUSHES);
	return __real_fdatasync(fd);
}

static void keeps(unsigned int member, unsigned int what)
{
	pthread_mutex_lock(&disks.lock);
	disks.keeps[member] = what;
	pthread_cond_broadcast(&disks.changed);
	pthread_mutex_unlock(&disks.lock);
}

static bool waits_for(unsigned int member, unsigned int what)
{
	bool waits;

	pthread_mutex_lock(&disks.lock);
	waits = disks.waits[member] & what;
	pthread_mutex_unlock(&disks.lock);
	return waits;
}

/* ---- a range ---------------------------------------------------------------------- */

#define TIMEOUT	5000u		/* milliseconds */
#define P	4u		/* the member that has the parity */

static void late_open(struct rig *rig)
{
	rig_open(rig, 2, 1, DDR_LAYOUT_DEDICATED, DDR_ENGINE_THREADS);
	for (unsigned int m = 0; m < DDR_MAX_ROLES; m++) {
		disks.fd[m] = m < rig->geo.roles ? rig->members->dev[m].fd : -1;
		disks.keeps[m] = 0;
		disks.error[m] = 0;
	}
}

/* The resync begins at 1000 ms. Its parity is wrong. */
static void begin(struct rig *rig)
{
	struct ddr_job_range r = { .io = 5, .start = FIRST, .count = COUNT, .members = (1u << rig->geo.roles) - 1, .repair = true };

	for (unsigned int p = 0; p < DDR_MAX_ROLES; p++)
		r.at[p] = (uint8_t)p;
	rig->done = false;
	ddr_jobs_range(rig->jobs, &r, 1000, TIMEOUT);
}

/* All others have answered, and their answers were heard. */
static void until_asked(struct rig *rig, uint32_t members)
{
	while (ddr_jobs_asked(rig->jobs) != members)
		loop_for(rig, 5);
}

/* The flush of @member has come, and waits. */
static void until_flushed(struct rig *rig, unsigned int member)
{
	while (!waits_for(member, FLUSHES))
		loop_for(rig, 5);
}

static void late_end(struct rig *rig)
{
	for (unsigned int m = 0; m < rig->geo.roles; m++)
		keeps(m, 0);
	while (!ddr_jobs_idle(rig->jobs))
		loop_for(rig, 5);
	assert_int_equal(ddr_jobs_asked(rig->jobs), 0);
	rig_close(rig);
}

/* ---- the tests -------------------------------------------------------------------- */

/* Member 1 hangs. Member 0, which has a bad sector, is a good disk: it is not to go for that. */
static void a_bad_sector_is_not_to_blame_for_another_one_that_hangs(void **state)
{
	static const int errors[] = { ENODATA, EILSEQ };

	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		struct rig rig;

		late_open(&rig);
		disks.error[0] = errors[i];
		keeps(1, READS);
		begin(&rig);
		until_asked(&rig, 1u << 1);
		ddr_jobs_tick(rig.jobs, 1000 + TIMEOUT - 1);
		assert_false(rig.done);
		ddr_jobs_tick(rig.jobs, 1000 + TIMEOUT);
		assert_true(rig.done);
		assert_int_equal(rig.result.result, -ETIMEDOUT);
		assert_int_equal(rig.result.failed, 1u << 1);
		assert_int_equal(ddr_jobs_asked(rig.jobs), 1u << 1);	/* what was given up is under way still */
		late_end(&rig);
	}
}

/* One that failed for worse is named beside it. */
static void a_broken_member_and_one_that_hangs_are_both_named(void **state)
{
	struct rig rig;

	(void)state;
	late_open(&rig);
	disks.error[0] = EIO;
	keeps(1, READS);
	begin(&rig);
	until_asked(&rig, 1u << 1);
	ddr_jobs_tick(rig.jobs, 1000 + TIMEOUT);
	assert_true(rig.done);
	assert_int_equal(rig.result.result, -ETIMEDOUT);
	assert_int_equal(rig.result.failed, 1u << 0 | 1u << 1);
	late_end(&rig);
}

/* The time is for an answer, not for the range: a step has all of it, however long the one before took; and no more. */
static void whoever_was_just_asked_is_not_late(void **state)
{
	(void)state;
	for (unsigned int hangs = 0; hangs <= 2; hangs++) {
		uint64_t now = 1000 + TIMEOUT - 1;
		struct rig rig;

		late_open(&rig);
		keeps(1, READS);
		keeps(P, WRITES);
		begin(&rig);
		until_asked(&rig, 1u << 1);
		ddr_jobs_tick(rig.jobs, now);
		keeps(1, 0);				/* it answers, late, and well */
		until_asked(&rig, 1u << P);		/* the parity is written */
		ddr_jobs_tick(rig.jobs, ++now);
		ddr_jobs_tick(rig.jobs, now + TIMEOUT - 1);
		assert_false(rig.done);
		if (hangs == 0) {
			ddr_jobs_tick(rig.jobs, now + TIMEOUT);
		} else {
			now += TIMEOUT - 1;
			keeps(P, FLUSHES);
			until_flushed(&rig, P);
			ddr_jobs_tick(rig.jobs, ++now);
			ddr_jobs_tick(rig.jobs, now + TIMEOUT - 1);
			assert_false(rig.done);
			if (hangs == 1)
				ddr_jobs_tick(rig.jobs, now + TIMEOUT);
		}
		assert_int_equal(rig.done, hangs < 2);
		late_end(&rig);
		assert_true(rig.done);
		assert_int_equal(rig.result.result, hangs < 2 ? -ETIMEDOUT : 0);
		assert_int_equal(rig.result.failed, hangs < 2 ? 1u << P : 0);
	}
}

/* The range had its time from its beginning, whenever the first tick comes. */
static void a_tick_does_not_give_more_time(void **state)
{
	struct rig rig;

	(void)state;
	late_open(&rig);
	keeps(1, READS);
	begin(&rig);
	until_asked(&rig, 1u << 1);
	for (uint64_t now = 1100; now < 1000 + TIMEOUT; now += 100)
		ddr_jobs_tick(rig.jobs, now);
	assert_false(rig.done);
	ddr_jobs_tick(rig.jobs, 1000 + TIMEOUT);
	assert_true(rig.done);
	assert_int_equal(rig.result.failed, 1u << 1);
	late_end(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bad_sector_is_not_to_blame_for_another_one_that_hangs),
		cmocka_unit_test(a_broken_member_and_one_that_hangs_are_both_named),
		cmocka_unit_test(whoever_was_just_asked_is_not_late),
		cmocka_unit_test(a_tick_does_not_give_more_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
