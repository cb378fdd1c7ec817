/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Device nodes of our own; see own_node.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "lib/disk/own_node.h"

#define ATTEMPTS	5u	/* other processes may create or replace the node at the same time */

/* Keeps errno. */
static int failed(struct ddr_error *err, const char *dir, const char *what)
{
	int error = errno;

	ddr_error_call(err, error, "%s: %s: %s", dir, what, strerror(error));
	errno = error;
	return -1;
}

/* Only the superuser (in tests: this user) may create anything there. */
static int check_dir(int fd, const char *dir, struct ddr_error *err)
{
	struct stat st;

	if (fstat(fd, &st))
		return failed(err, dir, "cannot be checked");
	if (st.st_uid == geteuid() && !(st.st_mode & 022))
		return 0;
	ddr_error_set(err, "%s: users other than root can write to it; remove it, and ddraid creates it again", dir);
	errno = EPERM;
	return -1;
}

static int open_dir(const char *dir, bool *absent, struct ddr_error *err)
{
	int fd;

	*absent = false;
	if (mkdir(dir, 0700) && errno != EEXIST) {
		int error = errno;
		struct stat st;

		if (lstat(dir, &st)) {
			*absent = !ddr_own_failure(error);	/* then the usual node would be locked, and other programs lock our own */
			errno = error;
			return failed(err, dir, "cannot be created");
		}
	}
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return failed(err, dir, "is not a directory of ddraid; remove it");
	if (check_dir(fd, dir, err) == 0)
		return fd;
	close(fd);
	return -1;
}

static bool is_right(const struct stat *st, dev_t rdev)
{
	return S_ISBLK(st->st_mode) && st->st_rdev == rdev;
}

/*
 * Something else has the node's name. It is replaced under a lock of the directory, so that nobody replaces a node
 * that another process has just created, and may have locked. 0 or -1 with errno.
 */
static int replace(int dirfd, const char *name, dev_t rdev)
{
	char temporary[48];
	struct stat st;
	int ret, error;

	snprintf(temporary, sizeof(temporary), "%s.new", name);
	if (flock(dirfd, LOCK_EX))
		return -1;
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_right(&st, rdev)) {
		ret = 0;
	} else {
		unlinkat(dirfd, temporary, 0);
		ret = mknodat(dirfd, temporary, S_IFBLK | 0600, rdev);
		if (ret == 0)
			ret = renameat(dirfd, temporary, dirfd, name);
	}
	error = errno;
	flock(dirfd, LOCK_UN);
	errno = error;
	return ret;
}

/* Returns 0 if the node exists (another process may replace it at once), else -1 with errno. */
static int make(int dirfd, const char *name, dev_t rdev, bool *absent)
{
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return is_right(&st, rdev) ? 0 : replace(dirfd, name, rdev);
	if (errno != ENOENT)
		return -1;
	if (mknodat(dirfd, name, S_IFBLK | 0600, rdev) == 0 || errno == EEXIST)
		return 0;
	*absent = !ddr_own_failure(errno);
	return -1;
}

/*
 * Corrects owner and mode on the node itself, which stays the same, whoever has it locked. 1: another node has its
 * name by now.
 */
static int check(int fd, dev_t rdev)
{
	struct stat st;

	if (fstat(fd, &st))
		return -1;
	if (!is_right(&st, rdev))
		return 1;
	if (st.st_uid != geteuid() && fchown(fd, geteuid(), getegid()))
		return -1;
	return (st.st_mode & 07777) == 0600 ? 0 : fchmod(fd, 0600);
}

int ddr_own_node_open_in(const char *dir, dev_t rdev, int mode, bool *absent, struct ddr_error *err)
{
	int dirfd = open_dir(dir, absent, err), fd = -1, ret = 1;
	char name[32], path[256];

	if (dirfd < 0)
		return -1;
	snprintf(name, sizeof(name), "%u:%u", major(rdev), minor(rdev));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	for (unsigned int i = 0; i < ATTEMPTS && ret == 1; i++) {
		if (make(dirfd, name, rdev, absent)) {
			ret = failed(err, path, "this device node cannot be created");
			break;
		}
		fd = openat(dirfd, name, mode | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 && (errno == ENOENT || errno == ELOOP))
			continue;
		if (fd < 0) {
			ret = failed(err, path, "cannot be opened");
			break;
		}
		ret = check(fd, rdev);
		if (ret < 0)
			failed(err, path, "cannot be restricted to root");
		if (ret)
			close(fd);
	}
	close(dirfd);
	if (ret == 0)
		return fd;
	if (ret == 1) {
		errno = EAGAIN;
		failed(err, path, "another program keeps replacing this device node");
	}
	return -1;
}

int ddr_own_node_open(dev_t rdev, int mode, bool *absent, struct ddr_error *err)
{
	return ddr_own_node_open_in(DDR_OWN_NODES, rdev, mode, absent, err);
}
