/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Locks on members: who holds a lock, and who excludes whom. The device nodes are made in a directory of the test. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/fixture.h"
#include "lib/disk/devio.h"
#include "lib/disk/own_node.h"

static char top[] = "/tmp/ddraid-lock-XXXXXX";
static char own[64], usual[64], node[96];
static dev_t disk;			/* a block device that opens, whichever; nothing is read or written; 0: none does here */
static struct ddr_error err;
static bool absent;

int __wrap_ddr_own_node_open(dev_t rdev, int mode, bool *none, struct ddr_error *e);
int __wrap_ddr_own_node_open(dev_t rdev, int mode, bool *none, struct ddr_error *e)
{
	return ddr_own_node_open_in(own, rdev, mode, none, e);
}

/* Block devices can be made by root alone, and not in every container. */
static void find_disk(void)
{
	const dev_t some[] = { makedev(7, 0), makedev(7, 1), makedev(8, 0), makedev(254, 0), makedev(259, 0) };
	char path[96];

	snprintf(path, sizeof(path), "%s/try", top);
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]) && !disk; i++) {
		int fd = mknod(path, S_IFBLK | 0600, some[i]) ? -1 : open(path, O_RDONLY | O_CLOEXEC);

		if (fd >= 0) {
			disk = some[i];
			close(fd);
		}
		unlink(path);
	}
}

static int set_up(void **state)
{
	(void)state;
	strcpy(top, "/tmp/ddraid-lock-XXXXXX");
	if (!mkdtemp(top))
		return -1;
	disk = 0;
	find_disk();
	snprintf(own, sizeof(own), "%s/own", top);
	snprintf(usual, sizeof(usual), "%s/disk", top);
	snprintf(node, sizeof(node), "%s/%u:%u", own, major(disk), minor(disk));
	return disk ? mknod(usual, S_IFBLK | 0660, disk) : 0;
}

static int tear_down(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", top);
	return system(command);
}

static void need_disk(void)
{
	if (disk)
		return;
	print_message("skipped: only root can make block devices; ./quickstart check runs this as root\n");
	skip();
}

static struct stat look(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st;
}

static int open_own(void)
{
	int fd = ddr_own_node_open_in(own, disk, O_RDONLY, &absent, &err);

	if (fd < 0)
		fail_msg("%s", err.text);
	return fd;
}

static void refused(const char *dir, bool none)
{
	assert_int_equal(ddr_own_node_open_in(dir, makedev(7, 0), O_RDONLY, &absent, &err), -1);
	assert_int_equal(absent, none);
	assert_non_null(strstr(err.text, dir));
}

/* ---- the nodes --------------------------------------------------------------------- */

/* Two that open it have the same inode, or their locks would not exclude each other. */
static void a_node_is_made_and_stays(void **state)
{
	int a, b;

	(void)state;
	need_disk();
	a = open_own();
	b = open_own();
	assert_int_equal(look(own).st_mode, S_IFDIR | 0700);
	assert_int_equal(look(node).st_mode, S_IFBLK | 0600);
	assert_true(look(node).st_rdev == disk);
	assert_int_equal(flock(a, LOCK_EX | LOCK_NB), 0);
	assert_int_equal(flock(b, LOCK_EX | LOCK_NB), -1);
	assert_int_equal(chmod(node, 0666), 0);
	close(b);
	b = open_own();		/* root's alone again, and still the one that is locked */
	assert_int_equal(look(node).st_mode, S_IFBLK | 0600);
	assert_int_equal(flock(b, LOCK_EX | LOCK_NB), -1);
	close(a);
	close(b);
}

static void a_file_in_place_of_the_node_is_replaced(void **state)
{
	(void)state;
	need_disk();
	for (unsigned int i = 0; i < 4; i++) {
		close(open_own());
		assert_int_equal(unlink(node), 0);
		if (i == 0)
			assert_int_equal(symlink(usual, node), 0);
		else if (i == 1)
			assert_int_equal(mkfifo(node, 0600), 0);
		else if (i == 2)
			assert_int_equal(mknod(node, S_IFBLK | 0600, makedev(major(disk), minor(disk) + 1)), 0);
		else
			close(open(node, O_CREAT | O_RDWR, 0600));
		close(open_own());
		assert_int_equal(look(node).st_mode, S_IFBLK | 0600);
		assert_true(look(node).st_rdev == disk);
	}
}

static void directories_that_are_not_ours_are_refused(void **state)
{
	char other[80], link[80];

	(void)state;
	snprintf(other, sizeof(other), "%s/other", top);
	snprintf(link, sizeof(link), "%s/link", top);
	assert_int_equal(mkdir(other, 0700), 0);
	assert_int_equal(symlink(other, link), 0);
	refused(link, false);
	assert_int_equal(chmod(other, 0777), 0);
	refused(other, false);
	snprintf(link, sizeof(link), "%s/file", top);
	close(open(link, O_CREAT | O_RDWR, 0600));
	refused(link, false);
	snprintf(link, sizeof(link), "%s/no/such/place", top);
	refused(link, true);
}

/* ---- who has it -------------------------------------------------------------------- */

static int open_file(void)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/file", top);
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	return fd;
}

/* A child that takes a lock by @fd and reports it. It ends at once, or when @pipe is closed. */
static pid_t lock_in_child(int fd, const char *name, bool stays, int pipe[2])
{
	pid_t pid;
	char c;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pipe), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		close(pipe[1]);
		prctl(PR_SET_NAME, name);
		if (flock(fd, LOCK_EX | LOCK_NB) || write(pipe[0], "l", 1) != 1)
			_exit(1);
		while (stays && read(pipe[0], &c, 1) > 0)
			;
		_exit(0);
	}
	close(pipe[0]);
	assert_int_equal(read(pipe[1], &c, 1), 1);
	return pid;
}

static void end_child(pid_t pid, int pipe[2])
{
	int status;

	close(pipe[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void expect_holder(int fd, const char *name, pid_t pid, bool other)
{
	struct ddr_holder h;
	char number[32];

	ddr_holder_find(fd, &h);
	snprintf(number, sizeof(number), "(pid %d)", (int)pid);
	assert_non_null(strstr(h.text, name));
	assert_non_null(strstr(h.text, number));
	assert_int_equal(h.other, other);
}

static void the_holder_is_named(void **state)
{
	int fd = open_file(), seen = open_file(), pipe[2];
	struct ddr_holder h;
	pid_t pid;

	(void)state;
	ddr_holder_find(seen, &h);
	assert_false(h.other);
	assert_non_null(strstr(h.text, "does not show"));
	pid = lock_in_child(fd, "udev-worker", true, pipe);
	expect_holder(seen, "udev-worker", pid, true);
	end_child(pid, pipe);
	/* the lock is the open file's, which this process has too */
	expect_holder(seen, "test-lock", getpid(), true);
	close(fd);
	fd = open_file();
	pid = lock_in_child(fd, "ddraidd", true, pipe);
	close(fd);
	expect_holder(seen, "ddraidd", pid, false);
	end_child(pid, pipe);
	close(seen);
}

/* As a request in flight has it: an open file in no process, here on its way through a socket. */
static void the_lock_of_the_dead_is_no_program_s(void **state)
{
	char space[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = space, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int fd = open_file(), seen = open_file(), way[2], pipe[2];
	pid_t pid;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, way), 0);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	assert_int_equal(sendmsg(way[0], &msg, 0), 1);
	pid = lock_in_child(fd, "ddraidd", false, pipe);
	end_child(pid, pipe);
	close(fd);
	assert_int_equal(flock(seen, LOCK_EX | LOCK_NB), -1);
	expect_holder(seen, "has ended", pid, false);
	close(way[0]);
	close(way[1]);
	assert_int_equal(flock(seen, LOCK_EX | LOCK_NB), 0);
	close(seen);
}

/* ---- who excludes whom --------------------------------------------------------------- */

static void open_dev(struct ddr_dev *dev, unsigned int flags)
{
	if (ddr_dev_open(dev, usual, flags, &err))
		fail_msg("%s", err.text);
}

static void locked(struct ddr_dev *dev)
{
	if (ddr_dev_lock(dev, 0, &err))
		fail_msg("%s", err.text);
}

static void not_locked(struct ddr_dev *dev)
{
	assert_int_equal(ddr_dev_lock(dev, 0, &err), -1);
	assert_non_null(strstr(err.text, "is locked by test-lock (pid "));
	assert_non_null(strstr(err.text, usual));
}

/*
 * Findings S2, U12: the daemon locks a node of our own, and the usual node is everybody's: udev leaves out no event of that disk. The command has
 * both.
 */
static void the_daemon_leaves_the_usual_node_alone(void **state)
{
	struct ddr_dev daemon, command;
	int other;

	(void)state;
	need_disk();
	open_dev(&daemon, DDR_DEV_OWN);
	open_dev(&command, 0);
	other = open(usual, O_RDONLY | O_CLOEXEC);
	assert_true(daemon.own && !command.own && daemon.rdev == disk && ddr_dev_same(&daemon, &command));
	locked(&daemon);
	locked(&daemon);
	not_locked(&command);
	assert_int_equal(flock(other, LOCK_EX | LOCK_NB), 0);
	flock(other, LOCK_UN);
	ddr_dev_close(&daemon);
	locked(&command);
	assert_int_equal(flock(other, LOCK_SH | LOCK_NB), -1);
	open_dev(&daemon, DDR_DEV_OWN);
	not_locked(&daemon);
	ddr_dev_close(&command);
	locked(&daemon);
	close(other);
	ddr_dev_close(&daemon);
}

/* Two commands exclude each other, and the command and other programs; a command waits until udev has finished its look at a device. */
static void commands_exclude_each_other_and_others(void **state)
{
	struct ddr_dev a, b;
	int other;

	(void)state;
	need_disk();
	open_dev(&a, 0);
	open_dev(&b, 0);
	locked(&a);
	not_locked(&b);
	ddr_dev_close(&a);
	other = open(usual, O_RDONLY | O_CLOEXEC);
	assert_int_equal(flock(other, LOCK_SH | LOCK_NB), 0);
	not_locked(&b);
	close(other);
	locked(&b);
	ddr_dev_close(&b);
}

/*
 * Findings S2, U12: a daemon of an earlier release had locked the usual device node, and its I/O still holds that lock. Once seen
 * free, the lock does not count any more. A shared lock, as udev takes it, never counts. The lock of a living program counts only for
 * a caller that is willing to wait.
 */
static void a_predecessor_by_the_usual_node(void **state)
{
	struct ddr_holder h = { .text = "" };
	struct ddr_dev dev;
	int fd, pipe[2];
	pid_t pid;

	(void)state;
	need_disk();
	fd = open(usual, O_RDONLY | O_CLOEXEC);
	pid = lock_in_child(fd, "ddraidd", true, pipe);
	close(fd);
	open_dev(&dev, DDR_DEV_OWN);
	assert_int_equal(ddr_dev_try_lock(&dev, &h, &err), DDR_LOCK_BUSY_USUAL);
	assert_false(h.other);
	assert_int_equal(ddr_dev_lock(&dev, 0, &err), -1);
	assert_non_null(strstr(err.text, "ddraidd (pid "));
	end_child(pid, pipe);
	fd = open(usual, O_RDONLY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_SH | LOCK_NB), 0);
	assert_int_equal(ddr_dev_try_lock(&dev, &h, &err), DDR_LOCK_TAKEN);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	assert_int_equal(ddr_dev_try_lock(&dev, &h, &err), DDR_LOCK_TAKEN);
	ddr_dev_close(&dev);
	open_dev(&dev, DDR_DEV_OWN);
	assert_int_equal(ddr_dev_try_lock(&dev, &h, &err), DDR_LOCK_BUSY_USUAL);
	assert_true(h.other);
	locked(&dev);
	close(fd);
	ddr_dev_close(&dev);
}

/* The lock is that of the open file: a descriptor more, as a look has it, keeps it; a file on a file system has one lock. */
static void a_copy_keeps_the_lock(void **state)
{
	struct ddr_dev dev, copy, other;

	(void)state;
	need_disk();
	open_dev(&dev, DDR_DEV_OWN);
	locked(&dev);
	assert_int_equal(ddr_dev_dup(&dev, &copy), 0);
	ddr_dev_close(&dev);
	open_dev(&other, DDR_DEV_OWN);
	not_locked(&other);
	ddr_dev_close(&copy);
	locked(&other);
	ddr_dev_close(&other);
}

/* Where no node can be made the usual one is locked, by the daemon alone: a command could not keep out a daemon that has a node. */
static void without_a_node_of_its_own_the_usual_one_is_locked(void **state)
{
	struct ddr_dev daemon, command;

	(void)state;
	need_disk();
	snprintf(own, sizeof(own), "%s/no/such/place", top);
	open_dev(&daemon, DDR_DEV_OWN);
	assert_true(!daemon.own && daemon.own_error == ENOENT);
	open_dev(&command, 0);
	assert_int_equal(ddr_dev_lock(&command, 0, &err), -1);
	assert_non_null(strstr(err.text, "/no/such/place"));
	locked(&daemon);
	snprintf(own, sizeof(own), "%s/own", top);
	not_locked(&command);
	ddr_dev_close(&daemon);
	locked(&command);
	ddr_dev_close(&command);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_node_is_made_and_stays),
		TEST(a_file_in_place_of_the_node_is_replaced),
		TEST(directories_that_are_not_ours_are_refused),
		TEST(the_holder_is_named),
		TEST(the_lock_of_the_dead_is_no_program_s),
		TEST(the_daemon_leaves_the_usual_node_alone),
		TEST(commands_exclude_each_other_and_others),
		TEST(a_predecessor_by_the_usual_node),
		TEST(a_copy_keeps_the_lock),
		TEST(without_a_node_of_its_own_the_usual_one_is_locked),
	};

	return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
