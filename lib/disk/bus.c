// SPDX-License-Identifier: LGPL-2.1-or-later
/* What lies between this machine and a block device. See bus.h. */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/disk/bus.h"

#define STACK_MAX	16u	/* devices on each other that are followed */

/* "nvme0", "ata12": is @name @prefix and a number? */
static bool is_numbered(const char *name, const char *prefix)
{
	size_t n = strlen(prefix);

	if (strncmp(name, prefix, n) || !isdigit((unsigned char)name[n]))
		return false;
	while (isdigit((unsigned char)name[n]))
		n++;
	return name[n] == '\0';
}

/* Has the path a part that is @prefix and a number (@whole), or begins so? */
static bool has_part(const char *path, const char *prefix, bool whole)
{
	char copy[PATH_MAX], *save = NULL;

	snprintf(copy, sizeof(copy), "%s", path);
	for (char *part = strtok_r(copy, "/", &save); part; part = strtok_r(NULL, "/", &save))
		if (whole ? is_numbered(part, prefix) : strncmp(part, prefix, strlen(prefix)) == 0)
			return true;
	return false;
}

/* Is the controller whose directory this is one on PCIe? */
static bool is_pcie(const char *controller)
{
	char path[PATH_MAX], text[16] = "";
	FILE *f;

	if (snprintf(path, sizeof(path), "%s/transport", controller) >= (int)sizeof(path) || !(f = fopen(path, "re")))
		return false;
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	fclose(f);
	return strcmp(text, "pcie\n") == 0;
}

/* A disk with several controllers (native multipath) is a child of their subsystem, which has a link to each of them. */
static bool subsystem_is_pcie(const char *subsystem)
{
	char path[PATH_MAX];
	unsigned int n = 0;
	bool all = true;
	struct dirent *e;
	DIR *dir = opendir(subsystem);

	while (dir && (e = readdir(dir))) {
		if (!is_numbered(e->d_name, "nvme"))
			continue;
		n++;
		all &= snprintf(path, sizeof(path), "%s/%s", subsystem, e->d_name) < (int)sizeof(path) && is_pcie(path);
	}
	if (dir)
		closedir(dir);
	return n && all;
}

/* The directory that holds @path's last part; false at the top. */
static bool parent_of(const char *path, char parent[PATH_MAX])
{
	const char *end = strrchr(path, '/');

	if (!end || end == path)
		return false;
	snprintf(parent, PATH_MAX, "%.*s", (int)(end - path), path);
	return true;
}

static bool is_nvme_on_pcie(const char *disk)
{
	char parent[PATH_MAX];
	const char *name;

	if (!parent_of(disk, parent))
		return false;
	name = strrchr(parent, '/') + 1;
	return is_numbered(name, "nvme-subsys") ? subsystem_is_pcie(parent) : is_numbered(name, "nvme") && is_pcie(parent);
}

/* "end_device-": the transport class of SAS. One of a network has "session" or "rport-" there, and none of these. */
static bool is_near(const char *disk)
{
	return has_part(disk, "ata", true) || has_part(disk, "end_device-", false) || is_nvme_on_pcie(disk);
}

/* ---- devices that stand on others ------------------------------------------------ */

static bool keeps(const char *sys, const char *link, unsigned int depth);

/* How many devices it stands on; @any: one of them keeps commands. */
static unsigned int below(const char *sys, const char *disk, unsigned int depth, bool *any)
{
	char path[PATH_MAX];
	unsigned int n = 0;
	struct dirent *e;
	DIR *dir;

	*any = snprintf(path, sizeof(path), "%s/slaves", disk) >= (int)sizeof(path);
	dir = *any ? NULL : opendir(path);
	while (dir && (e = readdir(dir))) {
		if (e->d_name[0] == '.')
			continue;
		n++;
		if (snprintf(path, sizeof(path), "%s/class/block/%s", sys, e->d_name) >= (int)sizeof(path) || keeps(sys, path, depth + 1))
			*any = true;
	}
	if (dir)
		closedir(dir);
	return n;
}

/* @link: to the directory of the device. That of a partition lies in that of its disk. */
static bool keeps(const char *sys, const char *link, unsigned int depth)
{
	char path[PATH_MAX], disk[PATH_MAX], *real = depth < STACK_MAX ? realpath(link, NULL) : NULL;
	FILE *f = NULL;
	bool any;

	if (!real)
		return true;
	snprintf(disk, sizeof(disk), "%s", real);
	if (snprintf(path, sizeof(path), "%s/partition", real) < (int)sizeof(path) && (f = fopen(path, "re"))) {
		fclose(f);
		parent_of(real, disk);
	}
	free(real);
	return below(sys, disk, depth, &any) ? any : any || !is_near(disk);
}

bool ddr_bus_keeps(const char *sys, unsigned int major, unsigned int minor)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/dev/block/%u:%u", sys, major, minor) >= (int)sizeof(path) || keeps(sys, path, 0);
}
