// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds an array of this node by its uuid, its name, or the name of its mapped device; asks, or tells, all of them. */
#include <stdio.h>
#include <string.h>

#include "daemon/array/array.h"

struct ddr_array *ddr_array_by_uuid(struct ddr_daemon *d, const uint8_t uuid[16])
{
	struct qb_list_head *iter;

	qb_list_for_each(iter, &d->arrays) {
		struct ddr_array *a = qb_list_entry(iter, struct ddr_array, list);

		if (memcmp(a->uuid, uuid, sizeof(a->uuid)) == 0 && !a->removed)
			return a;
	}
	return NULL;
}

/* Is this the name of the array's mapped device? It may have been renamed (dmsetup rename). */
static bool is_mapped_as(const struct ddr_array *a, const char *name)
{
	char mapped[128];

	return ddr_device_dm_name(a->bind.dm_major, a->bind.dm_minor, mapped, sizeof(mapped)) && strcmp(mapped, name) == 0;
}

/*
 * The name of an array takes precedence over that of a mapped device. Two arrays may match one name, if the device of one was renamed
 * before the other was started: then it is the one whose device has that name, or none, since it is not clear which is meant.
 */
struct ddr_array *ddr_array_find(struct ddr_daemon *d, const char *name)
{
	struct ddr_array *named = NULL, *mapped = NULL;
	struct qb_list_head *iter;
	unsigned int n = 0;

	qb_list_for_each(iter, &d->arrays) {
		struct ddr_array *a = qb_list_entry(iter, struct ddr_array, list);

		if (a->removed)
			continue;
		if (strcmp(a->uuid_text, name) == 0)
			return a;
		if (strcmp(a->name, name) == 0) {
			named = a;
			n++;
		}
	}
	if (n == 1)
		return named;
	qb_list_for_each(iter, &d->arrays) {
		struct ddr_array *a = qb_list_entry(iter, struct ddr_array, list);

		if (!a->removed && (!n || strcmp(a->name, name) == 0) && is_mapped_as(a, name))
			mapped = a;
	}
	return mapped;
}

bool ddr_arrays_settled(const struct ddr_daemon *d)
{
	struct qb_list_head *iter;

	if (!d->listed)
		return false;
	qb_list_for_each(iter, &d->arrays) {
		const struct ddr_array *a = qb_list_entry(iter, struct ddr_array, list);

		if (a->state == DDR_ARRAY_LOADING || a->state == DDR_ARRAY_CLOSING ||
		    (a->state == DDR_ARRAY_RUNNING && !a->ready && !a->error[0]))
			return false;
	}
	return true;
}

bool ddr_arrays_rest(const struct ddr_daemon *d)
{
	struct qb_list_head *iter;

	qb_list_for_each(iter, &d->arrays)
		if (!qb_list_entry(iter, struct ddr_array, list)->rests)
			return false;
	return true;
}

void ddr_arrays_wait_for(struct ddr_daemon *d, const char *what)
{
	struct qb_list_head *iter;

	qb_list_for_each(iter, &d->arrays) {
		struct ddr_array *a = qb_list_entry(iter, struct ddr_array, list);

		if (a->state == DDR_ARRAY_DOWN && a->waiting && !a->retry_ms && strcmp(a->error, what) != 0)
			snprintf(a->error, sizeof(a->error), "%s", what);
	}
}

void ddr_array_forget_unstarted(struct ddr_daemon *d, const uint8_t uuid[16])
{
	for (size_t i = 0; i < DDR_ARRAYS_MAX; i++)
		if (memcmp(d->unstarted[i].uuid, uuid, sizeof(d->unstarted[i].uuid)) == 0)
			d->unstarted[i].why[0] = '\0';
}
