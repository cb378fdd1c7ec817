// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which member of an array a client means: an index, a uuid, or a path of its device. See status.h.
 */
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <uuid/uuid.h>

#include "daemon/ipc/status.h"

/* Any path of the device will do: the device number is compared. */
static int find_device(const struct ddr_array *a, const char *path)
{
	struct stat st;

	if (stat(path, &st) || !S_ISBLK(st.st_mode))
		return -1;
	for (unsigned int i = 0; i < a->members->n; i++)
		if (a->members->named & (1u << i) && st.st_rdev == makedev(a->members->major[i], a->members->minor[i]))
			return (int)i;
	return -1;
}

int ddr_status_find_member(const struct ddr_array *a, const char *which)
{
	char uuid[37], *end;
	unsigned long n = strtoul(which, &end, 10);

	if (*which == '/')
		return find_device(a, which);
	if (*which >= '0' && *which <= '9' && *end == '\0')
		return n < a->super.members ? (int)n : -1;
	for (unsigned int i = 0; i < a->super.members; i++) {
		uuid_unparse_lower(a->super.member[i].uuid, uuid);
		if (strcasecmp(uuid, which) == 0)
			return (int)i;
	}
	return -1;
}
