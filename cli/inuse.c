// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds what uses a block device; see inuse.h. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <libmount.h>

#include "cli/inuse.h"

#define SHOWN		4u	/* of each kind; the rest is only counted */
#define NAMESPACES	256u	/* mount namespaces that are searched */

/* The list of users of one kind. */
struct list {
	unsigned int n;
	char text[1024];
};

struct look {
	const struct cli_inuse_roots *roots;
	unsigned int major, minor;
	dev_t dev;
	struct list mounts, holders, openers, files;
	ino_t ns[NAMESPACES];
	unsigned int n_ns;
};

static void add(struct list *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct list *l, const char *format, ...)
{
	size_t used = strlen(l->text);
	va_list args;

	if (l->n++ >= SHOWN)
		return;
	if (used)
		used += (size_t)snprintf(l->text + used, sizeof(l->text) - used, ", ");
	va_start(args, format);
	vsnprintf(l->text + used, sizeof(l->text) - used, format, args);
	va_end(args);
	for (char *c = l->text; *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = '?';
}

/* The first line of a small file, or "". */
static void first_line(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "re");

	buf[0] = '\0';
	if (!f)
		return;
	if (fgets(buf, (int)size, f))
		buf[strcspn(buf, "\n")] = '\0';
	fclose(f);
}

static void name_of(const struct look *k, const char *pid, char name[32])
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%.20s/comm", k->roots->proc, pid);
	first_line(path, name, 32);
	if (!name[0])
		snprintf(name, 32, "a process");
}

/* ---- mounts ------------------------------------------------------------------------ */

/* Was this mount namespace searched already? If not, it is noted. */
static bool seen(struct look *k, ino_t ns)
{
	for (unsigned int i = 0; i < k->n_ns; i++)
		if (k->ns[i] == ns)
			return true;
	if (k->n_ns < NAMESPACES)
		k->ns[k->n_ns++] = ns;
	return false;
}

/* Is the file system on the device? Compares its number or, since btrfs has numbers of its own, the device that was mounted. */
static bool is_on(const struct look *k, struct libmnt_fs *fs)
{
	const char *source = mnt_fs_get_srcpath(fs);
	struct stat st;

	if (mnt_fs_get_devno(fs) == k->dev)
		return true;
	return source && strncmp(source, "/dev/", 5) == 0 && stat(source, &st) == 0 && S_ISBLK(st.st_mode) && st.st_rdev == k->dev;
}

/* The mounts in the namespace of a process. @pid: to be named, or NULL for our own namespace. */
static void look_mounts(struct look *k, const char *path, const char *pid)
{
	struct libmnt_table *table = mnt_new_table_from_file(path);
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_fs *fs;
	char name[32];

	while (table && iter && mnt_table_next_fs(table, iter, &fs) == 0) {
		if (!is_on(k, fs))
			continue;
		if (!pid) {
			add(&k->mounts, "%s", mnt_fs_get_target(fs));
			continue;
		}
		name_of(k, pid, name);
		add(&k->mounts, "%s in the mount namespace of %s (pid %s)", mnt_fs_get_target(fs), name, pid);
	}
	mnt_free_iter(iter);
	mnt_unref_table(table);
}

static ino_t namespace_of(const struct look *k, const char *pid)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%.20s/ns/mnt", k->roots->proc, pid);
	return stat(path, &st) ? 0 : st.st_ino;
}

static void look_own_mounts(struct look *k)
{
	ino_t ns = namespace_of(k, "self");
	char path[PATH_MAX];

	if (ns)
		seen(k, ns);
	snprintf(path, sizeof(path), "%s/self/mountinfo", k->roots->proc);
	look_mounts(k, path, NULL);
}

static void look_swaps(struct look *k)
{
	struct libmnt_iter *iter = mnt_new_iter(MNT_ITER_FORWARD);
	struct libmnt_table *table = mnt_new_table();
	struct libmnt_fs *fs;
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/swaps", k->roots->proc);
	if (table && iter && mnt_table_parse_swaps(table, path) == 0)
		while (mnt_table_next_fs(table, iter, &fs) == 0)
			if (mnt_fs_get_source(fs) && stat(mnt_fs_get_source(fs), &st) == 0 && S_ISBLK(st.st_mode) && st.st_rdev == k->dev)
				add(&k->mounts, "swap (swapoff %s)", mnt_fs_get_source(fs));
	mnt_free_iter(iter);
	mnt_unref_table(table);
}

/* ---- devices on it ----------------------------------------------------------------- */

static void look_holders(struct look *k)
{
	char path[PATH_MAX], name[128];
	struct dirent *e;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/dev/block/%u:%u/holders", k->roots->sys, k->major, k->minor);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/class/block/%.64s/dm/name", k->roots->sys, e->d_name);
		first_line(path, name, sizeof(name));
		if (name[0])
			add(&k->holders, "%s (%s)", e->d_name, name);
		else
			add(&k->holders, "%s", e->d_name);
	}
	if (dir)
		closedir(dir);
}

/* ---- processes --------------------------------------------------------------------- */

enum use { USE_NONE, USE_DEVICE, USE_FILE };

/* What a link in /proc points to. Does not ask a server: a file of a dead NFS server must not block. */
static enum use use_of(const struct look *k, const char *path)
{
	struct statx st;

	if (statx(AT_FDCWD, path, AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, STATX_TYPE, &st))
		return USE_NONE;
	if (S_ISBLK(st.stx_mode) && st.stx_rdev_major == k->major && st.stx_rdev_minor == k->minor)
		return USE_DEVICE;
	return st.stx_dev_major == k->major && st.stx_dev_minor == k->minor ? USE_FILE : USE_NONE;
}

static enum use use_of_process(const struct look *k, const char *pid)
{
	static const char *const links[] = { "cwd", "root", "exe" };
	enum use use = USE_NONE, one;
	char path[PATH_MAX];
	struct dirent *e;
	DIR *dir;

	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]) && use == USE_NONE; i++) {
		snprintf(path, sizeof(path), "%s/%.20s/%s", k->roots->proc, pid, links[i]);
		use = use_of(k, path);
	}
	snprintf(path, sizeof(path), "%s/%.20s/fd", k->roots->proc, pid);
	dir = opendir(path);
	while (dir && use != USE_DEVICE && (e = readdir(dir))) {
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "%s/%.20s/fd/%.20s", k->roots->proc, pid, e->d_name);
		one = use_of(k, path);
		use = one == USE_NONE ? use : one;
	}
	if (dir)
		closedir(dir);
	return use;
}

static void look_process(struct look *k, const char *pid)
{
	ino_t ns = namespace_of(k, pid);
	enum use use = use_of_process(k, pid);
	char path[PATH_MAX], name[32];

	if (ns && !seen(k, ns)) {
		snprintf(path, sizeof(path), "%s/%.20s/mountinfo", k->roots->proc, pid);
		look_mounts(k, path, pid);
	}
	if (use == USE_NONE)
		return;
	name_of(k, pid, name);
	add(use == USE_DEVICE ? &k->openers : &k->files, "%s (pid %s)", name, pid);
}

static void look_processes(struct look *k)
{
	DIR *dir = opendir(k->roots->proc);
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (isdigit((unsigned char)e->d_name[0]))
			look_process(k, e->d_name);
	if (dir)
		closedir(dir);
}

/* ---- the message ------------------------------------------------------------------- */

static size_t say(const struct list *l, const char *before, const char *after, char *text, size_t size, size_t used)
{
	char more[48] = "";

	if (!l->n || used >= size)
		return used;
	if (l->n > SHOWN)
		snprintf(more, sizeof(more), " and %u more", l->n - SHOWN);
	used += (size_t)snprintf(text + used, size - used, "%s%s%s%s%s", used ? "; " : "", before, l->text, more, after);
	return used;
}

void cli_inuse_describe(const struct cli_inuse_roots *roots, unsigned int major, unsigned int minor, char *text, size_t size)
{
	struct look k = { .roots = roots, .major = major, .minor = minor, .dev = makedev(major, minor) };
	size_t used = 0;

	text[0] = '\0';
	look_own_mounts(&k);
	look_swaps(&k);
	look_holders(&k);
	look_processes(&k);
	used = say(&k.mounts, "it is mounted on ", "", text, size, used);
	used = say(&k.holders, "", k.holders.n > 1 ? " lie on it" : " lies on it", text, size, used);
	used = say(&k.openers, "it is open in ", "", text, size, used);
	/* a mount explains them; without one (umount -l, a namespace without a process) they are all that can be seen */
	if (!k.mounts.n)
		used = say(&k.files, "files on it are open in ", "", text, size, used);
	if (!used)
		snprintf(text, size, "no mount, device or process was found: something in the kernel (an iSCSI or NVMe target, nbd) has it open");
}
