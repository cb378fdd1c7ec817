/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What udev knows of block devices; see scan_udev.h.
 *
 * Reads the files of udev's database itself: libudev needs 70 system calls for one device, most of them to resolve its path in
 * sysfs, and a machine may have a thousand. The files have the number of their format; of any other format libudev is asked.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <libudev.h>

#include "lib/disk/scan_udev.h"

#define SYS_BLOCK	"/sys/class/block"
#define DATABASE	"/run/udev/data"
#define FORMAT		"V:1"
#define FILE_MAX	16384u		/* a longer one is left to libudev */
#define MEMBER		"ddraid_member"

/* -------------------------------------------------- the record of a device */

/* One property of a device; other ones are ignored. */
static void property(struct ddr_scan_record *r, const char *key, const char *value)
{
	if (strcmp(key, "ID_FS_TYPE") == 0)
		snprintf(r->type, sizeof(r->type), "%s", value);
	else if (strcmp(key, "ID_FS_UUID") == 0)
		snprintf(r->uuid, sizeof(r->uuid), "%s", value);
	else if (strcmp(key, "ID_FS_LABEL") == 0)
		snprintf(r->label, sizeof(r->label), "%s", value);
	else if (strcmp(key, "DM_MULTIPATH_DEVICE_PATH") == 0 && strcmp(value, "1") == 0)
		r->path = true;
	else if (strcmp(key, "ID_PROCESSING") == 0 && strcmp(value, "1") == 0)
		r->known = false;	/* udev is still at it */
}

static void finish(struct ddr_scan_record *r)
{
	if (strcmp(r->type, "mpath_member") == 0)
		r->path = true;
}

bool ddr_scan_record_parse(const char *text, struct ddr_scan_record *record)
{
	char line[512], *value;
	bool format = false;

	*record = (struct ddr_scan_record){ .known = strncmp(text, "I:", 2) == 0 || strstr(text, "\nI:") };
	for (size_t len; *text; text += len + (text[len] == '\n')) {
		len = strcspn(text, "\n");
		format |= len == strlen(FORMAT) && strncmp(text, FORMAT, len) == 0;
		if (strncmp(text, "E:", 2) != 0 || len >= sizeof(line))
			continue;
		memcpy(line, text + 2, len - 2);
		line[len - 2] = '\0';
		value = strchr(line, '=');
		if (!value)
			continue;
		*value++ = '\0';
		property(record, line, value);
	}
	finish(record);
	return format;
}

static void ask_libudev(const char *name, struct ddr_scan_record *record)
{
	static const char *const keys[] = { "ID_FS_TYPE", "ID_FS_UUID", "ID_FS_LABEL", "DM_MULTIPATH_DEVICE_PATH", "ID_PROCESSING" };
	struct udev *udev = udev_new();
	struct udev_device *dev = udev ? udev_device_new_from_subsystem_sysname(udev, "block", name) : NULL;

	*record = (struct ddr_scan_record){ .known = dev && udev_device_get_is_initialized(dev) > 0 };
	for (size_t i = 0; dev && i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *value = udev_device_get_property_value(dev, keys[i]);

		if (value)
			property(record, keys[i], value);
	}
	finish(record);
	udev_device_unref(dev);
	udev_unref(udev);
}

/* Reads a small file as text, with one read. 0, or -1 with errno. */
static int read_file(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, buf, size);
	close(fd);
	errno = EFBIG;
	if (n < 0 || (size_t)n == size)
		return -1;
	buf[n] = '\0';
	return 0;
}

void ddr_scan_record_read(const char *name, struct ddr_scan_record *record)
{
	char path[PATH_MAX], number[32], text[FILE_MAX];

	*record = (struct ddr_scan_record){ 0 };
	snprintf(path, sizeof(path), SYS_BLOCK "/%s/dev", name);
	if (read_file(path, number, sizeof(number)) == 0) {
		number[strcspn(number, "\n")] = '\0';
		snprintf(path, sizeof(path), DATABASE "/b%s", number);
		if (read_file(path, text, sizeof(text)) == 0) {
			if (ddr_scan_record_parse(text, record))
				return;
		} else if (errno == ENOENT) {
			return;		/* udev does not run, or has not processed it */
		}
	}
	ask_libudev(name, record);
}

/* -------------------------------------------------- what is read */

static bool is_member(const struct ddr_scan_record *r)
{
	return strcmp(r->type, MEMBER) == 0;
}

/*
 * Must never: leave out a device of which udev does not know what it holds, a member whose array udev does not know, or an array that
 * has the same name: neither of the two is started automatically.
 */
static enum ddr_scan_pick pick_one(const struct ddr_scan_record *r, const struct ddr_scan_first *first)
{
	if (r->path)
		return DDR_SCAN_SKIP;
	if (!first || !r->known)
		return DDR_SCAN_WHOLE;
	if (!r->type[0])
		return DDR_SCAN_BRIEF;
	if (!is_member(r))
		return DDR_SCAN_SKIP;
	if (!first->uuid || !r->uuid[0] || strcmp(r->uuid, first->uuid) == 0)
		return DDR_SCAN_WHOLE;
	return first->label[0] && strcmp(r->label, first->label) == 0 ? DDR_SCAN_WHOLE : DDR_SCAN_SKIP;
}

void ddr_scan_picks(const struct ddr_scan_record *record, size_t n, struct ddr_scan_first *first, enum ddr_scan_pick *pick)
{
	for (size_t i = 0; first && first->uuid && !first->label[0] && i < n; i++)
		if (is_member(&record[i]) && strcmp(record[i].uuid, first->uuid) == 0)
			memcpy(first->label, record[i].label, sizeof(first->label));
	for (size_t i = 0; i < n; i++) {
		pick[i] = pick_one(&record[i], first);
		if (first && !record[i].path && pick[i] != DDR_SCAN_WHOLE)
			first->unread++;
	}
}
