/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * A scan that reads the disks of the arrays that are searched first, and the others only if that was not enough; see scan.h.
 *
 * Must never: take less than all devices for enough if an array lacks anything, or if its superblocks leave open whether other disks are
 * newer. So a degraded array is always searched on all devices.
 */
#include <stdlib.h>
#include <string.h>

#include <uuid/uuid.h>

#include "lib/disk/scan.h"
#include "lib/disk/scan_udev.h"

/* Whoever is late or hangs among the first ones is not waited for: all are read then. */
static bool always(void *ctx, const struct ddr_scan *scan)
{
	(void)ctx;
	(void)scan;
	return true;
}

/*
 * Does each member that the array needs have its device, and each role a member? If other arrays of its name were searched under the name
 * that udev has for it, is that its name?
 */
static bool is_whole(const struct ddr_scan *scan, const char *which, const struct ddr_scan_first *first)
{
	struct ddr_scan_array *array = calloc(1, sizeof(*array));
	struct ddr_error ignored;
	bool whole;

	if (!array)
		return false;
	whole = ddr_scan_assemble(scan, which, NULL, array, &ignored) == 0 && !array->assembly.missing && !array->assembly.degraded &&
		!array->assembly.doubtful && (!first->uuid || !first->unread || strcmp(array->assembly.super.name, first->label) == 0);
	free(array);
	return whole;
}

/* Are all arrays that were found whole, and is there one? */
static bool all_whole(const struct ddr_scan *scan, const struct ddr_scan_first *first)
{
	struct ddr_scan_name *list = calloc(scan->n + 1, sizeof(*list));
	size_t n = list ? ddr_scan_arrays(scan, list, scan->n) : 0, whole = 0;
	char uuid[37];

	while (whole < n) {
		uuid_unparse_lower(list[whole].uuid, uuid);
		if (!is_whole(scan, uuid, first))
			break;
		whole++;
	}
	free(list);
	return n > 0 && whole == n;
}

/* A disk whose lateness was new to the first scan has still to be reported. */
static void keep_news(const struct ddr_scan *old, struct ddr_scan *scan)
{
	for (size_t i = 0; i < old->n_hung; i++)
		for (size_t k = 0; k < scan->n_hung; k++)
			if (!old->hung[i].pending && !old->hung[i].known && strcmp(old->hung[i].path, scan->hung[k].path) == 0)
				scan->hung[k].known = false;
}

int ddr_scan_by_udev(struct ddr_scan *scan, const struct ddr_scan_how *how, const char *which, struct ddr_error *err)
{
	struct ddr_scan_first first = { 0 };
	struct ddr_scan_how narrow = *how;
	struct ddr_scan some;
	char uuid[37];
	uuid_t parsed;
	int rc;

	if (how->listed)
		return ddr_scan_devices(scan, how, err);
	if (which && uuid_parse(which, parsed) == 0) {
		uuid_unparse_lower(parsed, uuid);
		first.uuid = uuid;
	}
	narrow.first = &first;
	narrow.enough = always;
	if (ddr_scan_devices(&some, &narrow, err))
		return -1;
	if ((!first.unread && !some.n_hung) || (which ? is_whole(&some, which, &first) : all_whole(&some, &first))) {
		*scan = some;
		return 0;
	}
	rc = ddr_scan_devices(scan, how, err);
	if (!rc)
		keep_news(&some, scan);
	ddr_scan_free(&some);
	return rc;
}
