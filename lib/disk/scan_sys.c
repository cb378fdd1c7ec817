/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which block devices may hold a member, by what sysfs and device-mapper know of them: this is read before a device is
 * opened. What udev knows: scan_udev.c.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/dm-ioctl.h>

#include "lib/disk/scan.h"

#define SYS_BLOCK	"/sys/class/block"
#define DM_UUID_PREFIX	"DDRAID-"
#define STACK_MAX	16u	/* how many stacked devices are followed; anything higher is left alone */

/* First line of a small file; false if there is none. A file of sysfs is given whole by one read. */
static bool read_line(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, buf, size - 1);
	close(fd);
	if (n <= 0)
		return false;
	buf[n] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	return true;
}

/*
 * Is the first target of a mapped device ours? A device that was created by hand has no uuid that shows it, and a
 * read of it may wait for the very daemon that scans. Uses the ioctl itself, since libdevmapper must not be used by
 * several threads.
 */
static bool has_our_target(unsigned int major, unsigned int minor)
{
	struct { struct dm_ioctl head; char data[4096]; } arg = {
		.head.version = { DM_VERSION_MAJOR, 0, 0 },
		.head.data_size = sizeof(arg), .head.data_start = sizeof(arg.head),
		.head.flags = DM_STATUS_TABLE_FLAG,
		.head.dev = (minor & 0xff) | (__u64)major << 8 | (__u64)(minor & ~0xffu) << 12,
	};
	int fd = open("/dev/" DM_DIR "/" DM_CONTROL_NODE, O_RDWR | O_CLOEXEC);
	struct dm_target_spec spec;
	bool ours;

	if (fd < 0)
		return false;
	ours = ioctl(fd, DM_TABLE_STATUS, &arg) == 0 && arg.head.target_count > 0 &&
	       arg.head.data_start + sizeof(spec) <= sizeof(arg);
	close(fd);
	if (!ours)
		return false;
	memcpy(&spec, (const char *)&arg + arg.head.data_start, sizeof(spec));
	return strncmp(spec.target_type, "ddraid", sizeof(spec.target_type)) == 0;
}

static bool is_ddraid_device(const char *name)
{
	char path[PATH_MAX], text[256];
	unsigned int major, minor;

	snprintf(path, sizeof(path), SYS_BLOCK "/%s/dm/uuid", name);
	if (!read_line(path, text, sizeof(text)))
		return false;		/* not a mapped device */
	if (strncmp(text, DM_UUID_PREFIX, strlen(DM_UUID_PREFIX)) == 0)
		return true;
	snprintf(path, sizeof(path), SYS_BLOCK "/%s/dev", name);
	return read_line(path, text, sizeof(text)) && sscanf(text, "%u:%u", &major, &minor) == 2 && has_our_target(major, minor);
}

/* Is @name held by anything other than a ddraid device? */
static bool held_by_others(const char *name)
{
	char path[PATH_MAX];
	struct dirent *e;
	bool held = false;
	DIR *dir;

	snprintf(path, sizeof(path), SYS_BLOCK "/%s/holders", name);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!held && (e = readdir(dir)))
		held = e->d_name[0] != '.' && !is_ddraid_device(e->d_name);
	closedir(dir);
	return held;
}

/* Is it a device-mapper device? All of them have such names. */
static bool is_mapped(const char *name)
{
	return strncmp(name, "dm-", 3) == 0;
}

/* An open of a suspended mapped device blocks until it is resumed. */
static bool is_suspended(const char *name)
{
	char path[PATH_MAX], suspended[32];

	snprintf(path, sizeof(path), SYS_BLOCK "/%s/dm/suspended", name);
	return read_line(path, suspended, sizeof(suspended)) && strcmp(suspended, "1") == 0;
}

/* A read of a device that lies on an array may wait for the daemon of that array, which may be the one that scans. */
static bool stands_on_ours(const char *name, unsigned int depth)
{
	char path[PATH_MAX];
	struct dirent *e;
	bool ours = false;
	DIR *dir;

	snprintf(path, sizeof(path), SYS_BLOCK "/%s/slaves", name);
	if (depth == 0)
		return true;
	dir = opendir(path);
	if (!dir)
		return false;		/* it has no lower devices: a disk, a partition */
	while (!ours && (e = readdir(dir)))
		ours = e->d_name[0] != '.' && (is_ddraid_device(e->d_name) || stands_on_ours(e->d_name, depth - 1));
	closedir(dir);
	return ours;
}

/*
 * Optical and floppy drives take seconds to open and never hold a member. The file of a loop device may lie on an
 * array. Memory holds no lasting data.
 */
bool ddr_scan_never_a_member(const char *name)
{
	static const char *const kinds[] = { ".", "sr", "fd", "loop", "ram", "zram" };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (strncmp(name, kinds[i], strlen(kinds[i])) == 0)
			return true;
	return false;
}

bool ddr_scan_worth_opening(const char *name)
{
	char path[PATH_MAX], sectors[32];

	snprintf(path, sizeof(path), SYS_BLOCK "/%s/size", name);
	if (!read_line(path, sectors, sizeof(sectors)) || strcmp(sectors, "0") == 0)
		return false;
	if (is_mapped(name) && (is_ddraid_device(name) || is_suspended(name)))
		return false;
	return !stands_on_ours(name, STACK_MAX) && !held_by_others(name);
}
