/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Which process holds a lock; see holder.h. */
#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "lib/disk/holder.h"

#define OWNERS_MAX	8u	/* a shared lock may have more owners; the others are not named */

struct file {
	unsigned int major, minor;
	uint64_t ino;
};

/* The pid in a line of /proc/locks, or of "lock:" in fdinfo, if it is a lock of this kind on this file; else -1. */
static long lock_owner(const char *line, const struct file *f)
{
	unsigned int major, minor;
	uint64_t ino;
	long pid;

	/* "5: FLOCK ADVISORY WRITE 1234 00:06:123 0 EOF"; a waiting process has "->" after the colon */
	if (sscanf(line, " %*[0-9]: FLOCK %*s %*s %ld %x:%x:%" SCNu64, &pid, &major, &minor, &ino) != 4)
		return -1;
	return major == f->major && minor == f->minor && ino == f->ino ? pid : -1;
}

/*
 * Does the descriptor with this fdinfo hold the lock? fdinfo speaks of the open file, so a pid that was reused does
 * not mislead.
 */
static bool has_lock(const char *fdinfo, const struct file *f)
{
	bool found = false;
	char line[256];
	FILE *in = fopen(fdinfo, "re");

	if (!in)
		return false;
	while (!found && fgets(line, sizeof(line), in))
		found = strncmp(line, "lock:", 5) == 0 && lock_owner(line + 5, f) >= 0;
	fclose(in);
	return found;
}

static bool process_has_lock(const char *pid, const struct file *f)
{
	char path[300];
	struct dirent *e;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%.20s/fdinfo", pid);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!found && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%.20s/fdinfo/%.20s", pid, e->d_name);
		found = isdigit((unsigned char)e->d_name[0]) && has_lock(path, f);
	}
	closedir(dir);
	return found;
}

/*
 * Another process than @but that shares the open file: the process that took the lock may have ended and left it to
 * that one. "" if there is none.
 */
static void find_heir(const struct file *f, const char *but, char pid[24])
{
	DIR *dir = opendir("/proc");
	struct dirent *e;

	pid[0] = '\0';
	while (dir && !pid[0] && (e = readdir(dir)))
		if (isdigit((unsigned char)e->d_name[0]) && strcmp(e->d_name, but) != 0 && process_has_lock(e->d_name, f))
			snprintf(pid, 24, "%.20s", e->d_name);
	if (dir)
		closedir(dir);
}

/* Leaves @name unchanged if there is no such process. */
static void read_name(const char *pid, char name[32])
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.20s/comm", pid);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fgets(name, 32, f))
		name[strcspn(name, "\n")] = '\0';
	fclose(f);
}

/* Describes the owner of one lock. Returns whether it is a living program other than ddraidd. */
static bool describe(long owner, const struct file *f, char *text, size_t size)
{
	char pid[24], heir[24] = "", name[32] = "";
	bool lives, daemon;

	snprintf(pid, sizeof(pid), "%ld", owner);
	lives = process_has_lock(pid, f);
	if (!lives)
		find_heir(f, pid, heir);
	if (heir[0]) {
		memcpy(pid, heir, sizeof(pid));
		lives = true;
	}
	read_name(pid, name);
	daemon = strncmp(name, "ddraidd", 7) == 0;
	if (lives)
		snprintf(text, size, "%s (pid %s)", name[0] ? name : "a program", pid);
	else
		snprintf(text, size, daemon ? "ddraidd (pid %s), which is ending" : "I/O of a program that has ended (pid %s)", pid);
	return lives && name[0] && !daemon;
}

/* The pids of the lock's owners, each once. */
static unsigned int list_owners(const struct file *f, long owner[OWNERS_MAX], bool *more)
{
	FILE *in = fopen("/proc/locks", "re");
	unsigned int n = 0, i;
	char line[256];

	*more = !in;
	while (in && fgets(line, sizeof(line), in)) {
		long pid = lock_owner(line, f);

		for (i = 0; i < n && owner[i] != pid; i++)
			;
		if (pid < 0 || i < n)
			continue;
		if (n < OWNERS_MAX)
			owner[n++] = pid;
		else
			*more = true;
	}
	if (in)
		fclose(in);
	return n;
}

void ddr_holder_find(int fd, struct ddr_holder *h)
{
	long owner[OWNERS_MAX];
	struct file f;
	struct stat st;
	unsigned int n;
	bool more;

	*h = (struct ddr_holder){ .text = "a program that /proc/locks does not show" };
	if (fstat(fd, &st))
		return;
	f = (struct file){ .major = major(st.st_dev), .minor = minor(st.st_dev), .ino = st.st_ino };
	n = list_owners(&f, owner, &more);
	h->other = n > 0 && !more;
	for (unsigned int i = 0; i < n; i++) {
		char text[sizeof(h->text)];
		bool other = describe(owner[i], &f, text, sizeof(text));

		/* if a daemon is among the owners, that one is named: it cannot be asked to let go */
		if (i == 0 || (h->other && !other))
			memcpy(h->text, text, sizeof(h->text));
		h->other = h->other && other;
	}
}
