// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Jobs some of whose members do not answer (daemon/job/job.c), on files that hold back requests until the test releases them: a
 * member that does not answer for io_timeout is named, and no other. The test sets the time; the loop runs until the requests are
 * where the test wants them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/unit/fixture.h"
#include "tests/unit/job-rig.h"

/* ---- members that keep requests: by threads alone --------------------------------- */

enum { READS = 1, WRITES = 2, FLUSHES = 4 };

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int fd[DDR_MAX_ROLES];
	unsigned int keeps[DDR_MAX_ROLES];	/* by member: the requests that it does not answer */
	unsigned int waits[DDR_MAX_ROLES];	/* the requests that wait for that */
	unsigned int writes[DDR_MAX_ROLES];	/* that have arrived */
	unsigned int all;			/* requests that have arrived */
	int error[DDR_MAX_ROLES];		/* every read of it fails with this */
	int own;				/* requests of any kind fail with this ... */
	unsigned int owns, owned;		/* ... so many times, and did */
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
		disks.writes[m] += what == WRITES;
		disks.all++;
		while (disks.keeps[m] & what) {
			disks.waits[m] |= what;
			pthread_cond_wait(&disks.changed, &disks.lock);
		}
		disks.waits[m] &= ~what;
		error = what == READS ? disks.error[m] : 0;
		if (disks.owns) {
			error = disks.own;
			disks.owns--;
			disks.owned++;
		}
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
	int error = comes(fd, WRITES);

	errno = error;
	return error ? -1 : __real_pwritev2(fd, iov, n, offset, flags);
}

int __wrap_fdatasync(int fd)
{
	int error = comes(fd, FLUSHES);

	errno = error;
	return error ? -1 : __real_fdatasync(fd);
}

/* How many requests have failed that way. */
static unsigned int owned(void)
{
	unsigned int n;

	pthread_mutex_lock(&disks.lock);
	n = disks.owned;
	pthread_mutex_unlock(&disks.lock);
	return n;
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
	disks.owns = disks.owned = 0;
	for (unsigned int m = 0; m < DDR_MAX_ROLES; m++) {
		disks.fd[m] = m < rig->geo.roles ? rig->members->dev[m].fd : -1;
		disks.keeps[m] = disks.writes[m] = 0;
		disks.error[m] = 0;
	}
}

/* The resync begins at 1000 ms. The parity is wrong. */
static void begin(struct rig *rig)
{
	struct ddr_job_range r = { .io = 5, .start = FIRST, .count = COUNT, .members = (1u << rig->geo.roles) - 1, .repair = true };

	for (unsigned int p = 0; p < DDR_MAX_ROLES; p++)
		r.at[p] = (uint8_t)p;
	rig->done = false;
	ddr_jobs_range(rig->jobs, &r, 1000, TIMEOUT);
}

/* All other members have answered, and the answers were processed. */
static void until_asked(struct rig *rig, uint32_t members)
{
	while (ddr_jobs_asked(rig->jobs) != members)
		loop_for(rig, 5);
}

/* The flush of @member has arrived, and waits. */
static void until_flushed(struct rig *rig, unsigned int member)
{
	while (!waits_for(member, FLUSHES))
		loop_for(rig, 5);
}

static void late_end(struct rig *rig)
{
	disks.owns = disks.owned = 0;
	for (unsigned int m = 0; m < rig->geo.roles; m++)
		keeps(m, 0);
	while (!ddr_jobs_idle(rig->jobs))
		loop_for(rig, 5);
	assert_int_equal(ddr_jobs_asked(rig->jobs), 0);
	rig_close(rig);
}

static void write_log(struct rig *rig, uint64_t now_ms)
{
	struct ddr_meta_op *op = ddr_metaio_get(rig->meta, DDR_META_LOG, 77, (1u << rig->geo.roles) - 1);

	ddr_metaio_at(op, 0);
	ddr_metaio_run(op, now_ms, TIMEOUT);
	ddr_metaio_kick(rig->meta);
}

/* ---- the tests -------------------------------------------------------------------- */

/* A request that fails for lack of memory of this machine is no failure of the member: it is made again, at a tick, and not at once. */
static void a_failure_of_our_own_is_tried_again(void **state)
{
	static const int errors[] = { ENOMEM, EAGAIN, ECANCELED, ENOBUFS };

	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		struct rig rig;

		late_open(&rig);
		disks.own = errors[i];
		disks.owns = 12;		/* of 5 reads and a write and a flush */
		begin(&rig);
		for (uint64_t now = 1000; !rig.done; now += 100) {
			unsigned int before = disks.owned;

			assert_in_range(now, 1000, 1000 + TIMEOUT - 1);
			ddr_jobs_tick(rig.jobs, now);
			loop_for(&rig, 20);
			assert_in_range(disks.owned - before, 0, 5);
		}
		assert_int_equal(disks.owned, 12);
		assert_int_equal(rig.result.result, 0);
		assert_int_equal(rig.result.failed, 0);
		disks.owns = 7;
		write_log(&rig, 1000);
		for (uint64_t now = 1000; !rig.meta_reports; now += 100) {
			assert_in_range(now, 1000, 1000 + TIMEOUT - 1);
			ddr_metaio_tick(rig.meta, now);
			loop_for(&rig, 20);
		}
		assert_int_equal(rig.meta_failed, 0);
		assert_int_equal(rig.unable, 0);
		late_end(&rig);
	}
}

/*
 * A member hangs, and has failed for that. Its answer comes later, and says that there was no memory for the request: others go by newer metadata
 * now, and may use the member again. What was begun before cannot be helped, but it is not begun anew.
 */
static void what_was_given_up_is_not_begun_again(void **state)
{
	struct rig rig;

	(void)state;
	late_open(&rig);
	keeps(1, WRITES);
	write_log(&rig, 1000);
	while (!waits_for(1, WRITES) || ddr_metaio_asked(rig.meta) != 1u << 1)
		loop_for(&rig, 5);
	ddr_metaio_tick(rig.meta, 1000 + TIMEOUT);
	assert_int_equal(rig.meta_reports, 1);
	assert_int_equal(rig.meta_failed, 1u << 1);
	disks.own = ENOMEM;
	disks.owns = 1;
	keeps(1, 0);
	for (uint64_t now = 1000 + TIMEOUT; !ddr_metaio_idle(rig.meta); now += 100) {
		ddr_metaio_tick(rig.meta, now);
		loop_for(&rig, 20);
	}
	assert_int_equal(disks.owned, 1);
	assert_int_equal(disks.writes[1], 1);
	assert_int_equal(rig.meta_reports, 1);
	late_end(&rig);
}

/* ---- superblocks that are taken back ----------------------------------------------- */

#define ALL	31u

static void write_supers(struct rig *rig, bool there)
{
	struct ddr_meta_op *op = ddr_metaio_get(rig->meta, DDR_META_SB, 77, ALL);
	struct ddr_super sb;
	struct ddr_error err;

	fixture_super(&sb, 2, 1, DDR_LAYOUT_DEDICATED, 64u << 20, 0);
	for (unsigned int m = 0; m < rig->geo.roles; m++) {
		sb.this_member = (uint16_t)m;
		for (sb.seq = 2; there && sb.seq <= 3; sb.seq++)
			assert_int_equal(ddr_dev_write_super(&rig->members->dev[m], &sb, &err), 0);
		sb.seq = 4;
		assert_int_equal(ddr_super_encode(&sb, ddr_metaio_block(op, m)).code, DDR_FE_OK);
	}
	ddr_metaio_supers(op, &sb, &sb);
	ddr_metaio_run(op, 1000, TIMEOUT);
	ddr_metaio_kick(rig->meta);
}

static void are_taken_back(struct rig *rig, uint32_t failed)
{
	ddr_metaio_take_back(rig->meta);
	assert_int_equal(rig->meta_reports, 0);		/* not within the call */
	disks.owns = 0;
	for (unsigned int m = 0; m < rig->geo.roles; m++)
		keeps(m, 0);
	for (uint64_t now = 1000; !ddr_metaio_idle(rig->meta); now += 100) {
		assert_in_range(now, 1000, 1000 + TIMEOUT - 1);
		ddr_metaio_tick(rig->meta, now);
		loop_for(rig, 20);
	}
	assert_int_equal(rig->meta_reports, 1);
	assert_int_equal(rig->meta_failed, failed);
	assert_int_equal(rig->meta_returned, failed);
	assert_int_equal(rig->meta_no_space, 0);
	assert_int_equal(rig->unable, 0);
}

/* There is no memory for any of it, and this node loses quorum. When there is memory again, others may have written newer superblocks. */
static void superblocks_that_waited_for_memory_are_not_written(void **state)
{
	struct rig rig;

	(void)state;
	late_open(&rig);
	disks.own = ENOMEM;
	disks.owns = UINT32_MAX;
	write_supers(&rig, true);
	while (owned() < rig.geo.roles)
		loop_for(&rig, 5);
	are_taken_back(&rig, ALL);
	for (unsigned int m = 0; m < rig.geo.roles; m++)
		assert_int_equal(disks.writes[m], 0);
	late_end(&rig);
}

/* One member has not ended the write of the first copy. That lands; the second one is not begun. The others have both. */
static void a_second_copy_is_not_begun(void **state)
{
	struct rig rig;

	(void)state;
	late_open(&rig);
	keeps(1, WRITES);
	write_supers(&rig, true);
	while (!waits_for(1, WRITES) || ddr_metaio_asked(rig.meta) != 1u << 1)
		loop_for(&rig, 5);
	are_taken_back(&rig, 1u << 1);
	assert_int_equal(disks.writes[0], 2);
	assert_int_equal(disks.writes[1], 1);
	late_end(&rig);
}

/* The members are looked at again a second later, since they did not show what they should. */
static void a_second_look_is_not_begun(void **state)
{
	struct rig rig;

	(void)state;
	late_open(&rig);
	write_supers(&rig, false);
	while (ddr_metaio_asked(rig.meta))
		loop_for(&rig, 5);
	are_taken_back(&rig, ALL);
	late_end(&rig);
}

/* The same of a write of a job, whose range another node may work on by now. */
static void a_job_does_not_begin_again_what_it_gave_up(void **state)
{
	struct rig rig;

	(void)state;
	late_open(&rig);
	keeps(P, WRITES);
	begin(&rig);
	while (!waits_for(P, WRITES))
		loop_for(&rig, 5);
	ddr_jobs_tick(rig.jobs, 1000);		/* the step has its time from here on */
	ddr_jobs_tick(rig.jobs, 1000 + TIMEOUT);
	assert_true(rig.done);
	assert_int_equal(rig.result.failed, 1u << P);
	disks.own = ENOMEM;
	disks.owns = UINT32_MAX;
	keeps(P, 0);
	for (uint64_t now = 1000 + TIMEOUT; !ddr_jobs_idle(rig.jobs); now += 100) {
		ddr_jobs_tick(rig.jobs, now);
		loop_for(&rig, 20);
	}
	assert_int_not_equal(disks.owned, 0);
	assert_int_equal(disks.writes[P], disks.owned);		/* each has come once */
	late_end(&rig);
}

static void blames_nobody(const struct rig *rig)
{
	assert_false(rig->done);
	assert_int_equal(rig->meta_reports, 0);
}

/* A job and a write of the log that cannot be made: each member was tried. */
static void cannot_be_made(struct rig *rig)
{
	late_open(rig);
	disks.own = ENOMEM;
	disks.owns = UINT32_MAX;
	begin(rig);
	write_log(rig, 1000);
	while (owned() < 2 * rig->geo.roles) {	/* both have tried each member */
		blames_nobody(rig);
		loop_for(rig, 5);
	}
	ddr_jobs_tick(rig->jobs, 1000 + TIMEOUT - 1);
	ddr_metaio_tick(rig->meta, 1000 + TIMEOUT - 1);
	loop_for(rig, 50);
	assert_int_equal(rig->unable, 0);
	assert_int_not_equal(ddr_jobs_asked(rig->jobs), 0);
}

static void is_closed(struct rig *rig)
{
	ddr_jobs_close(rig->jobs);
	ddr_metaio_close(rig->meta);
	rig->jobs = NULL;
	rig->meta = NULL;
	while (rig->members->refs > 1)
		loop_for(rig, 5);
	assert_false(rig->done);
	disks.owns = disks.owned = 0;
	rig_close(rig);
}

/* It lasts: then this node cannot serve the array. No member has failed, and nothing is made when there is memory again: others have gone on without it. */
static void a_failure_of_our_own_that_lasts_blames_nobody(void **state)
{
	struct rig rig;

	(void)state;
	cannot_be_made(&rig);
	for (; !rig.unable; loop_for(&rig, 5)) {	/* what a thread has found may be on its way */
		blames_nobody(&rig);
		ddr_jobs_tick(rig.jobs, 1000 + TIMEOUT);
	}
	assert_int_equal(rig.unable, -ENOMEM);
	for (rig.unable = 0; !rig.unable; loop_for(&rig, 5)) {
		blames_nobody(&rig);
		ddr_metaio_tick(rig.meta, 1000 + TIMEOUT);
	}
	assert_int_equal(rig.unable, -ENOMEM);
	blames_nobody(&rig);
	loop_for(&rig, 50);
	disks.owns = 0;
	disks.all = 0;
	for (uint64_t now = 1000 + TIMEOUT; !ddr_metaio_idle(rig.meta) || !ddr_jobs_idle(rig.jobs); now += 100) {
		ddr_metaio_tick(rig.meta, now);
		ddr_jobs_tick(rig.jobs, now);
		loop_for(&rig, 5);
	}
	assert_int_equal(disks.all, 0);
	is_closed(&rig);
}

/* The array is closed before that: no request stays. */
static void what_could_not_be_made_ends_with_its_array(void **state)
{
	struct rig rig;

	(void)state;
	cannot_be_made(&rig);
	is_closed(&rig);
}

/* Member 1 hangs. Member 0, which has a bad sector, is a good disk: it is not to go for that. */
static void a_bad_sector_is_not_to_blame_for_another_one_that_hangs(void **state)
{
	static const int errors[] = { ENODATA, EILSEQ, EIO };

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
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
		assert_int_equal(ddr_jobs_asked(rig.jobs), 1u << 1);	/* the abandoned request is still outstanding */
		late_end(&rig);
	}
}

/* One that failed for worse is named beside it. */
static void a_broken_member_and_one_that_hangs_are_both_named(void **state)
{
	struct rig rig;

	(void)state;
	late_open(&rig);
	disks.error[0] = ENOLINK;	/* its path is gone */
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
static void a_member_that_was_just_asked_is_not_late(void **state)
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
		assert_int_equal(ddr_jobs_writes(rig.jobs), 0);
		keeps(1, 0);				/* it answers, late, and well */
		until_asked(&rig, 1u << P);		/* the parity is written */
		assert_int_equal(ddr_jobs_writes(rig.jobs), 1u << P);
		ddr_jobs_tick(rig.jobs, ++now);
		ddr_jobs_tick(rig.jobs, now + TIMEOUT - 1);
		assert_false(rig.done);
		if (hangs == 0) {
			ddr_jobs_tick(rig.jobs, now + TIMEOUT);
			assert_int_equal(ddr_jobs_writes(rig.jobs), 1u << P);	/* given up, and under way still */
		} else {
			now += TIMEOUT - 1;
			keeps(P, FLUSHES);
			until_flushed(&rig, P);
			assert_int_equal(ddr_jobs_writes(rig.jobs), 0);
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
		assert_int_equal(rig.result.hard, rig.result.failed);	/* a write or a flush */
	}
}

/* The time of the range counts from its beginning, whenever the first tick comes. */
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
	assert_int_equal(rig.result.hard, 0);
	late_end(&rig);
}

/* The loop stood still: the range has as much more time, and no more than that. */
static void a_range_has_the_time_in_which_nobody_listened(void **state)
{
	struct rig rig;

	(void)state;
	late_open(&rig);
	keeps(1, READS);
	begin(&rig);
	until_asked(&rig, 1u << 1);
	ddr_jobs_tick(rig.jobs, 1100);
	ddr_jobs_delay(rig.jobs, 2 * TIMEOUT);
	ddr_jobs_tick(rig.jobs, 1100 + 2 * TIMEOUT);
	ddr_jobs_tick(rig.jobs, 1000 + 3 * TIMEOUT - 1);
	assert_false(rig.done);
	ddr_jobs_tick(rig.jobs, 1000 + 3 * TIMEOUT);
	assert_true(rig.done);
	assert_int_equal(rig.result.failed, 1u << 1);
	late_end(&rig);
}

/* ---- a burst ------------------------------------------------------------------------ */

#define BURST	40u		/* more than there are threads */

/* All blocks of a map at once, when a member begins to hang: it occupies only so many threads that the others still get answers. */
static void a_burst_blames_only_the_member_that_hangs(void **state)
{
	struct rig rig;

	(void)state;
	late_open(&rig);
	keeps(1, WRITES);
	for (unsigned int i = 0; i < BURST; i++) {
		struct ddr_meta_op *op = ddr_metaio_get(rig.meta, DDR_META_MAP, 77, 0x1f);

		memset(ddr_metaio_block(op, 0), 1, DDR_META_BLOCK);
		ddr_metaio_at(op, (2 + i) * DDR_META_BLOCK);
		ddr_metaio_run(op, 1000, TIMEOUT);
	}
	ddr_metaio_kick(rig.meta);
	for (unsigned int i = 0; i < 1000 && ddr_metaio_asked(rig.meta) != 1u << 1; i++)
		loop_for(&rig, 5);
	ddr_metaio_tick(rig.meta, 1000 + TIMEOUT - 1);
	assert_int_equal(rig.meta_reports, 0);
	ddr_metaio_tick(rig.meta, 1000 + TIMEOUT);
	assert_int_equal(rig.meta_reports, BURST);
	assert_int_equal(rig.meta_blamed, 1u << 1);
	keeps(1, 0);
	while (!ddr_metaio_idle(rig.meta))
		loop_for(&rig, 5);
	assert_int_equal(rig.meta_reports, BURST);
	late_end(&rig);
}

/* ---- the array is closed ------------------------------------------------------------ */

/* Would another daemon have to wait for it? */
static bool locked(int fd)
{
	char path[64];
	int other;
	bool ret;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	other = open(path, O_RDWR);
	assert_true(other >= 0);
	ret = flock(other, LOCK_EX | LOCK_NB) != 0;
	assert_true(!ret || errno == EWOULDBLOCK);
	close(other);
	return ret;
}

static uint32_t all_locked(const struct rig *rig)
{
	uint32_t members = 0;

	for (unsigned int m = 0; m < rig->members->n; m++)
		if (rig->members->open >> m & 1 && locked(rig->members->dev[m].fd))
			members |= 1u << m;
	return members;
}

static void until_locked(struct rig *rig, uint32_t members)
{
	for (unsigned int i = 0; i < 400 && all_locked(rig) != members; i++)
		loop_for(rig, 5);
	assert_int_equal(all_locked(rig), members);
}

static struct ddr_members *ended;

/* As the driver ends. */
static void close_array(struct rig *rig)
{
	ddr_jobs_close(rig->jobs);
	ddr_metaio_close(rig->meta);
	rig->jobs = NULL;
	rig->meta = NULL;
	ddr_members_end(rig->members, &ended);
}

/* The other members are free for the next process that serves the array: so nothing may be written to them that rests on earlier reads. */
static void a_closed_array_holds_only_the_member_that_hangs(void **state)
{
	uint8_t *now;
	struct rig rig;

	(void)state;
	late_open(&rig);
	now = aligned_alloc(4096, area(&rig));
	assert_non_null(now);
	assert_int_equal(ddr_members_lock(rig.members, NULL), 0);
	keeps(1, READS);
	begin(&rig);
	until_asked(&rig, 1u << 1);
	assert_int_equal(all_locked(&rig), 0x1f);
	close_array(&rig);
	assert_int_equal(all_locked(&rig), 1u << 1);
	assert_int_equal(ddr_members_late(ended, rig.members->uuid), 1u << 1);	/* the next instance does not say that nothing can land */
	assert_int_equal(ddr_members_late(ended, (const uint8_t[16]){ 9 }), 0);
	keeps(1, 0);
	until_locked(&rig, 0);
	loop_for(&rig, 50);
	assert_false(rig.done);
	assert_int_equal(pread(rig.members->dev[P].fd, now, area(&rig), DATA_OFFSET), (ssize_t)area(&rig));
	assert_memory_equal(now, rig.before[P], area(&rig));
	free(now);
	rig_close(&rig);
}

/* Each lock is released with the last request to its member. Requests to a device that was replaced are not known by member. */
static void locks_of_a_closed_array_are_released_one_by_one(void **state)
{
	struct ddr_meta_op *op;
	struct rig rig;
	int old;

	(void)state;
	late_open(&rig);
	old = rig.members->dev[3].fd;
	assert_int_equal(ddr_members_lock(rig.members, NULL), 0);
	assert_true(ddr_members_replace(rig.members, 3, NULL));
	for (unsigned int m = 0; m < 3; m++)
		keeps(m, WRITES);
	op = ddr_metaio_get(rig.meta, DDR_META_LOG, 77, 0x7);
	memset(ddr_metaio_block(op, 0), 1, DDR_META_BLOCK);
	ddr_metaio_at(op, 8192);
	ddr_metaio_run(op, 1000, TIMEOUT);
	ddr_metaio_kick(rig.meta);
	close_array(&rig);
	assert_int_equal(all_locked(&rig), 0x7);
	keeps(0, 0);
	until_locked(&rig, 0x6);
	keeps(2, 0);
	until_locked(&rig, 0x2);
	assert_true(locked(old));
	keeps(1, 0);
	until_locked(&rig, 0);
	assert_false(locked(old));
	rig_close(&rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failure_of_our_own_is_tried_again),
		cmocka_unit_test(a_failure_of_our_own_that_lasts_blames_nobody),
		cmocka_unit_test(what_could_not_be_made_ends_with_its_array),
		cmocka_unit_test(what_was_given_up_is_not_begun_again),
		cmocka_unit_test(superblocks_that_waited_for_memory_are_not_written),
		cmocka_unit_test(a_second_copy_is_not_begun),
		cmocka_unit_test(a_second_look_is_not_begun),
		cmocka_unit_test(a_job_does_not_begin_again_what_it_gave_up),
		cmocka_unit_test(a_bad_sector_is_not_to_blame_for_another_one_that_hangs),
		cmocka_unit_test(a_broken_member_and_one_that_hangs_are_both_named),
		cmocka_unit_test(a_member_that_was_just_asked_is_not_late),
		cmocka_unit_test(a_tick_does_not_give_more_time),
		cmocka_unit_test(a_range_has_the_time_in_which_nobody_listened),
		cmocka_unit_test(a_burst_blames_only_the_member_that_hangs),
		cmocka_unit_test(a_closed_array_holds_only_the_member_that_hangs),
		cmocka_unit_test(locks_of_a_closed_array_are_released_one_by_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
