// SPDX-License-Identifier: GPL-2.0-or-later
/* One ddraidd on a node: what keeps a second one out, which process it replaces, and which cases only give a warning. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/base/pidfile.h"

static char top[] = "/tmp/test-pidfile-XXXXXX", dir[64];
static bool full;		/* the file system takes no data */

ssize_t __wrap_pwrite(int fd, const void *data, size_t n, off_t at);
ssize_t __real_pwrite(int fd, const void *data, size_t n, off_t at);

ssize_t __wrap_pwrite(int fd, const void *data, size_t n, off_t at)
{
	if (!full)
		return __real_pwrite(fd, data, n, at);
	errno = ENOSPC;
	return -1;
}

static int setup(void **state)
{
	(void)state;
	strcpy(top, "/tmp/test-pidfile-XXXXXX");
	assert_non_null(mkdtemp(top));
	snprintf(dir, sizeof(dir), "%s/run", top);
	full = false;
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", top);
	return system(command);
}

/* A daemon that has the lock, and ends on SIGTERM, or does not. It lives in our control group. */
static pid_t predecessor(bool obeys)
{
	int fds[2], fd;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		signal(SIGTERM, obeys ? SIG_DFL : SIG_IGN);
		if (ddr_pidfile_take(dir, false, &fd) || write(fds[1], "1", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	return pid;
}

static void a_second_daemon_is_kept_out(void **state)
{
	pid_t pid = predecessor(true);
	int fd;

	(void)state;
	assert_int_equal(ddr_pidfile_take(dir, false, &fd), -1);
	assert_int_equal(fd, -1);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(ddr_pidfile_take(dir, false, &fd), 0);
	close(fd);
}

/* Finding S44: the daemon that refused to stop is replaced when its unit is started again. */
static void a_stale_pid_file_is_replaced(void **state)
{
	int status, fd;

	(void)state;
	for (int obeys = 1; obeys >= 0; obeys--) {
		pid_t pid = predecessor(obeys);

		assert_int_equal(ddr_pidfile_take(dir, true, &fd), 0);
		assert_true(fd >= 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), obeys ? SIGTERM : SIGKILL);
		close(fd);
	}
}

/* Finding S30: a full /run does not keep the daemon from serving; where the file can be opened, the lock counts all the same. */
static void a_full_file_system_is_a_warning(void **state)
{
	int fd, other;

	(void)state;
	full = true;
	assert_int_equal(ddr_pidfile_take(dir, false, &fd), 0);
	assert_true(fd >= 0);
	assert_int_equal(ddr_pidfile_take(dir, false, &other), -1);
	close(fd);
}

static void a_pid_file_that_cannot_be_created_is_a_warning(void **state)
{
	char path[128];
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/none/below", top);
	assert_int_equal(ddr_pidfile_take(path, false, &fd), 0);
	assert_int_equal(fd, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_second_daemon_is_kept_out, setup, teardown),
		cmocka_unit_test_setup_teardown(a_stale_pid_file_is_replaced, setup, teardown),
		cmocka_unit_test_setup_teardown(a_full_file_system_is_a_warning, setup, teardown),
		cmocka_unit_test_setup_teardown(a_pid_file_that_cannot_be_created_is_a_warning, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
