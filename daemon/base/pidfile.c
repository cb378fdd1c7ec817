// SPDX-License-Identifier: GPL-2.0-or-later
/* Only one ddraidd runs on a node; see pidfile.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "daemon/base/pidfile.h"

#define TRY_MS		100
#ifndef HANDOVER_MS
#define HANDOVER_MS	10000	/* time for the old daemon to end, and again after it was killed */
#endif

static void warn(const char *what, const char *path)
{
	fprintf(stderr, "ddraidd: cannot %s %s: %s; continuing without it (check with df and df -i whether that file system is full)\n", what, path,
		strerror(errno));
}

/* The control groups of a process, as the kernel lists them. */
static bool read_cgroup(const char *pid, char *buf, size_t size)
{
	char path[64];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.20s/cgroup", pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(buf, 1, size - 1, f);
	fclose(f);
	buf[n] = '\0';
	return n > 0;
}

/* Is it a process of our own unit? The service manager only starts us after it has given up waiting for that one. */
static bool left_behind(pid_t pid)
{
	char number[24], ours[4096], its[4096];

	snprintf(number, sizeof(number), "%d", (int)pid);
	return read_cgroup("self", ours, sizeof(ours)) && read_cgroup(number, its, sizeof(its)) && strcmp(ours, its) == 0;
}

/* Waits for the lock. */
static bool lock_within(int fd, int ms)
{
	const struct timespec pause = { .tv_nsec = TRY_MS * 1000000L };

	for (;; ms -= TRY_MS) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return true;
		if (ms <= 0)
			return false;
		nanosleep(&pause, NULL);
	}
}

/* As at a restart: the old daemon ends, its arrays stay, and we attach to them. */
static bool replace(int fd, pid_t pid)
{
	fprintf(stderr, "ddraidd: taking over from process %d, which was asked to stop while an array was in use and still serves it\n", (int)pid);
	kill(pid, SIGTERM);
	if (lock_within(fd, HANDOVER_MS))
		return true;
	fprintf(stderr, "ddraidd: process %d does not end, so it is killed; its arrays stay up, and this daemon takes them over\n", (int)pid);
	kill(pid, SIGKILL);
	return lock_within(fd, HANDOVER_MS);
}

/* The pid in the file, or 0. */
static pid_t read_pid(int fd)
{
	char text[16] = "";
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
	long pid;

	text[n > 0 ? n : 0] = '\0';
	pid = strtol(text, NULL, 10);
	return pid > 0 && pid <= INT_MAX ? (pid_t)pid : 0;
}

static bool lock(int fd, bool managed)
{
	pid_t pid;

	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return true;
	pid = read_pid(fd);
	if (managed && pid && left_behind(pid) && replace(fd, pid))
		return true;
	fprintf(stderr, "ddraidd: another ddraidd (pid %d) runs on this node; stop it first. If it was killed and does not end, it waits for a "
		"hung disk until the disk's driver gives up\n", (int)pid);
	return false;
}

int ddr_pidfile_take(const char *dir, bool managed, int *fd)
{
	char path[PATH_MAX], text[16];
	int n;

	*fd = -1;
	if (mkdir(dir, 0755) && errno != EEXIST) {
		warn("make", dir);
		return 0;
	}
	snprintf(path, sizeof(path), "%s/ddraidd.pid", dir);
	*fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (*fd < 0) {
		warn("open", path);
		return 0;
	}
	if (!lock(*fd, managed)) {
		close(*fd);
		*fd = -1;
		return -1;
	}
	n = snprintf(text, sizeof(text), "%d\n", (int)getpid());
	if (ftruncate(*fd, 0) || pwrite(*fd, text, (size_t)n, 0) != n)
		warn("write", path);
	return 0;
}
