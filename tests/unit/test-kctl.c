// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The control descriptor of /dev/ddraid: the module comes and goes, and what it reports need not be right. The device is a socket,
 * and the test holds the other end.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <qb/qbloop.h>
#include <qb/qbutil.h>

#include "daemon/kernel/kchan.h"

static qb_loop_t *loop;
static struct ddr_kctl *k;
static char dir[] = "/tmp/ddraid-kctl-XXXXXX";	/* plays /dev */
static struct {
	int errors[4];		/* of the next opens; 0: success */
	unsigned int opened, spawned;
	int kernel;		/* the module's end of the descriptor that was opened last */
	bool no_inotify, no_watch;
} dev;
static struct {
	struct ddr_kctl_news news[300];
	unsigned int n, wanted;
} got;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, int mode);
int __real_inotify_init1(int flags);
int __wrap_inotify_init1(int flags);
int __real_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask);
int __wrap_posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr, char *const argv[],
			char *const env[]);

int __wrap_open(const char *path, int flags, int mode)
{
	int ends[2], error;

	if (strcmp(path, "/dev/" DDR_DEVICE_NAME))
		return __real_open(path, flags, mode);
	assert_true(flags & O_NONBLOCK && flags & O_CLOEXEC);
	error = dev.opened < 4 ? dev.errors[dev.opened] : 0;
	dev.opened++;
	if (error) {
		errno = error;
		return -1;
	}
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
	dev.kernel = ends[1];
	return ends[0];
}

int __wrap_inotify_init1(int flags)
{
	if (!dev.no_inotify)
		return __real_inotify_init1(flags);
	errno = EMFILE;
	return -1;
}

int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	assert_string_equal(path, "/dev");
	if (!dev.no_watch)
		return __real_inotify_add_watch(fd, dir, mask);
	errno = ENOSPC;
	return -1;
}

int __wrap_posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr, char *const argv[],
			char *const env[])
{
	(void)pid, (void)actions, (void)attr, (void)argv, (void)env;
	assert_string_equal(file, "modprobe");
	dev.spawned++;
	return ENOENT;
}

/* ---- the stage -------------------------------------------------------------------- */

static void told(void *ctx, const struct ddr_kctl_news *news)
{
	assert_ptr_equal(ctx, &got);
	assert_true(got.n < 300);
	got.news[got.n++] = *news;
	if (got.n == got.wanted)
		qb_loop_stop(loop);
}

static void stop(void *data)
{
	(void)data;
	qb_loop_stop(loop);
}

/* Until @n reports have arrived, or for some time: then they are looked at all the same. */
static void run(unsigned int n)
{
	qb_loop_timer_handle h;

	got.wanted = n;
	if (n && got.n >= n)
		return;
	qb_loop_timer_add(loop, QB_LOOP_LOW, (n ? 20000 : 100) * QB_TIME_NS_IN_MSEC, NULL, stop, &h);
	qb_loop_run(loop);
	qb_loop_timer_del(loop, h);
}

static int begin(void **state)
{
	(void)state;
	memset(&dev, 0, sizeof(dev));
	memset(&got, 0, sizeof(got));
	dev.kernel = -1;
	loop = qb_loop_create();
	return 0;
}

static int end(void **state)
{
	(void)state;
	ddr_kctl_close(k);
	k = NULL;
	if (dev.kernel >= 0)
		close(dev.kernel);
	qb_loop_destroy(loop);
	return 0;
}

static int open_it(void)
{
	return ddr_kctl_open(&k, loop, told, &got);
}

static struct ddr_rec rec(uint32_t type, uint8_t uuid)
{
	struct ddr_rec r = { .type = type };

	memset(r.arg, uuid, 16);
	return r;
}

static void say(const void *bytes, size_t len)
{
	assert_int_equal(send(dev.kernel, bytes, len, MSG_NOSIGNAL), len);
}

/* Something happens in /dev. */
static void dev_changes(void)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/null", dir);
	fd = __real_open(path, O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	close(fd);
	unlink(path);
}

/* ---- tests ------------------------------------------------------------------------ */

static void records_of_the_module_are_passed_on(void **state)
{
	struct ddr_rec r[] = { rec(DDR_K_APPEARED, 1), rec(DDR_K_RESUMED, 1), rec(DDR_K_LIST_END, 0), rec(DDR_K_APPEARED, 2), rec(DDR_K_RESUMED, 2),
			       rec(DDR_K_REMOVED, 1) };

	(void)state;
	assert_int_equal(open_it(), 0);
	assert_true(ddr_kctl_connected(k));
	assert_int_equal(dev.spawned, 0);
	r[4].count = 1;
	r[5].start = 0xfeedfacecafe;
	say(r, sizeof(r));
	run(6);
	assert_int_equal(got.n, 6);
	assert_int_equal(got.news[0].what, DDR_KCTL_APPEARED);
	assert_true(got.news[0].listed);
	assert_int_equal(got.news[0].uuid[15], 1);
	assert_int_equal(got.news[1].what, DDR_KCTL_RESUMED);
	assert_false(got.news[1].as_bound);
	assert_int_equal(got.news[2].what, DDR_KCTL_LISTED);
	assert_int_equal(got.news[3].what, DDR_KCTL_APPEARED);
	assert_false(got.news[3].listed);	/* the list had ended */
	assert_true(got.news[4].as_bound);
	assert_int_equal(got.news[5].what, DDR_KCTL_REMOVED);
	assert_int_equal(got.news[5].cookie, 0xfeedfacecafe);
}

/* A newer module may send records that this daemon does not know: those that it knows still count. */
static void an_unknown_record_is_passed_over(void **state)
{
	struct ddr_rec r[] = { rec(0, 1), rec(UINT32_MAX, 1), rec(DDR_K_LOCK, 1), rec(DDR_K_LIST_END, 0) };

	(void)state;
	assert_int_equal(open_it(), 0);
	say(r, sizeof(r));
	run(1);
	run(0);
	assert_int_equal(got.n, 1);
	assert_int_equal(got.news[0].what, DDR_KCTL_LISTED);
	assert_true(ddr_kctl_connected(k));
}

/* As many as one read takes, and more. */
static void many_records_in_one_read(void **state)
{
	struct ddr_rec r[64];

	(void)state;
	assert_int_equal(open_it(), 0);
	for (unsigned int i = 0; i < 256; i += 64) {
		for (unsigned int j = 0; j < 64; j++)
			r[j] = rec(DDR_K_APPEARED, (uint8_t)(i + j));
		say(r, sizeof(r));
	}
	run(256);
	assert_int_equal(got.n, 256);
	for (unsigned int i = 0; i < 256; i++)
		assert_int_equal(got.news[i].uuid[0], i);
}

/* An answer that is no whole number of records is ignored entirely. What follows is another list, from its beginning. */
static void half_a_record_is_the_end(void **state)
{
	struct ddr_rec r[] = { rec(DDR_K_LIST_END, 0), rec(DDR_K_APPEARED, 1), rec(DDR_K_APPEARED, 2) };
	int first;

	(void)state;
	assert_int_equal(open_it(), 0);
	say(r, sizeof(r[0]));
	run(1);
	first = dev.kernel;
	say(&r[1], sizeof(r[1]) + 8);
	run(2);
	assert_int_equal(got.n, 2);
	assert_int_equal(got.news[1].what, DDR_KCTL_LOST);
	close(first);
	assert_int_equal(dev.opened, 2);
	assert_true(ddr_kctl_connected(k));	/* the device is there: it was opened again */
	say(&r[2], sizeof(r[2]));
	run(3);
	assert_int_equal(got.news[2].what, DDR_KCTL_APPEARED);
	assert_true(got.news[2].listed);
}

/* The module is removed, and loaded again: all that was known is void between. */
static void the_module_goes_and_comes_back(void **state)
{
	struct ddr_rec r = rec(DDR_K_LIST_END, 0);

	(void)state;
	dev.errors[1] = dev.errors[2] = ENOENT;
	assert_int_equal(open_it(), 0);
	close(dev.kernel);
	dev.kernel = -1;
	run(1);
	assert_int_equal(got.news[0].what, DDR_KCTL_LOST);
	assert_false(ddr_kctl_connected(k));
	dev_changes();			/* something else appears in /dev */
	run(0);
	assert_false(ddr_kctl_connected(k));
	while (dev.opened < 4) {
		dev_changes();
		run(0);
	}
	assert_true(ddr_kctl_connected(k));
	say(&r, sizeof(r));
	run(2);
	assert_int_equal(got.news[1].what, DDR_KCTL_LISTED);
}

/* It is asked for once, then waited for. */
static void the_module_is_not_there_yet(void **state)
{
	(void)state;
	dev.errors[0] = ENOENT;
	dev.errors[1] = ENXIO;		/* a node that is there before its driver */
	dev.errors[2] = ENODEV;
	assert_int_equal(open_it(), 0);
	assert_int_equal(dev.spawned, 1);
	assert_false(ddr_kctl_connected(k));
	dev_changes();
	run(0);
	assert_true(ddr_kctl_connected(k));
	assert_int_equal(dev.spawned, 1);
}

/* A device that may not be opened does not get better by waiting. */
static void a_module_that_may_not_be_opened_is_not_waited_for(void **state)
{
	(void)state;
	dev.errors[0] = EACCES;
	assert_int_equal(open_it(), -EACCES);
	assert_null(k);
	assert_int_equal(dev.spawned, 0);
}

static void dev_cannot_be_watched(void **state)
{
	(void)state;
	dev.errors[0] = dev.errors[1] = ENOENT;
	dev.no_inotify = true;
	assert_int_equal(open_it(), -EMFILE);
	assert_null(k);
	dev.opened = 0;
	dev.no_inotify = false;
	dev.no_watch = true;
	assert_int_equal(open_it(), -ENOSPC);
	assert_null(k);
}

/* The module is unloaded while /dev cannot be watched for a moment: the daemon must not miss the module's return. */
static void dev_cannot_be_watched_for_a_moment(void **state)
{
	(void)state;
	assert_int_equal(open_it(), 0);
	dev.errors[1] = ENOENT;
	dev.no_inotify = true;
	close(dev.kernel);
	dev.kernel = -1;
	run(1);
	assert_int_equal(got.news[0].what, DDR_KCTL_LOST);
	assert_false(ddr_kctl_connected(k));
	for (int i = 0; i < 100 && !ddr_kctl_connected(k); i++)
		run(0);
	assert_true(ddr_kctl_connected(k));
}

static void closing_an_unopened_channel_is_harmless(void **state)
{
	(void)state;
	ddr_kctl_close(NULL);
}

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	(void)state;
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(records_of_the_module_are_passed_on, begin, end),
		cmocka_unit_test_setup_teardown(an_unknown_record_is_passed_over, begin, end),
		cmocka_unit_test_setup_teardown(many_records_in_one_read, begin, end),
		cmocka_unit_test_setup_teardown(half_a_record_is_the_end, begin, end),
		cmocka_unit_test_setup_teardown(the_module_goes_and_comes_back, begin, end),
		cmocka_unit_test_setup_teardown(the_module_is_not_there_yet, begin, end),
		cmocka_unit_test_setup_teardown(a_module_that_may_not_be_opened_is_not_waited_for, begin, end),
		cmocka_unit_test_setup_teardown(dev_cannot_be_watched, begin, end),
		cmocka_unit_test_setup_teardown(dev_cannot_be_watched_for_a_moment, begin, end),
		cmocka_unit_test_setup_teardown(closing_an_unopened_channel_is_harmless, begin, end),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
