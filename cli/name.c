// SPDX-License-Identifier: GPL-2.0-or-later
/* See name.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <uuid/uuid.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/dm.h"
#include "cli/name.h"
#include "lib/dm.h"

static bool is_one_of(const char *device, const char *const *path, size_t n)
{
	struct stat a, b;

	for (size_t i = 0; i < n; i++) {
		if (stat(device, &a) || stat(path[i], &b))
			continue;
		if (S_ISBLK(a.st_mode) && S_ISBLK(b.st_mode) ? a.st_rdev == b.st_rdev : a.st_dev == b.st_dev && a.st_ino == b.st_ino)
			return true;
	}
	return false;
}

/* A mapped device with this name would prevent the start of the array. */
static int check_mapped(const char *name, const uint8_t *own, struct ddr_error *err)
{
	struct cli_dm_info info;
	struct ddr_error ignored;
	char uuid[37] = "";

	if (own)
		cli_format_uuid(own, uuid);
	ddr_dm_init();
	if (cli_dm_find(name, &info, &ignored) || !info.exists || (own && strcmp(info.uuid, uuid) == 0))
		return 0;
	return ddr_error_set(err, "a device /dev/mapper/%s already exists and belongs to another %s; choose another name", name,
			     info.uuid[0] ? "array" : "program");
}

int cli_name_taken(const struct ddr_scan *scan, const char *name, const uint8_t *own, const char *const *path, size_t n, struct ddr_error *err)
{
	struct ddr_scan rest = { .dev = calloc(scan->n + 1, sizeof(*scan->dev)) };
	struct ddr_scan_name *list = calloc(scan->n + 1, sizeof(*list));
	char uuid[37];
	size_t found;
	int rc = 0;

	if (!rest.dev || !list)
		rc = ddr_error_set(err, "out of memory");
	for (size_t i = 0; !rc && i < scan->n; i++)
		if (!is_one_of(scan->dev[i].path, path, n))
			rest.dev[rest.n++] = scan->dev[i];
	found = rc ? 0 : ddr_scan_arrays(&rest, list, scan->n);
	for (size_t i = 0; !rc && i < found; i++)
		if (strcmp(list[i].name, name) == 0 && (!own || memcmp(list[i].uuid, own, DDR_UUID_LEN) != 0))
			rc = ddr_error_set(err, "an array with the name %s already exists: %s belongs to it (uuid %s). Choose another name, rename "
					   "that array (ddraid rename), or wipe its disks if it is no longer needed (ddraid wipe)", name,
					   rest.dev[list[i].device].path, cli_format_uuid(list[i].uuid, uuid));
	free(list);
	free(rest.dev);
	return rc ? rc : check_mapped(name, own, err);
}

int cli_name_free(const char *what, const char *name, const char *const *path, size_t n, struct ddr_error *err)
{
	struct cli_scanner scanner;
	struct ddr_scan scan;
	int rc;

	if (cli_scanner_open(&scanner, err))
		return -1;
	rc = cli_scanner_scan(&scanner, what, &scan, err);
	cli_scanner_close(&scanner);
	if (rc)
		return -1;
	for (size_t i = 0; i < scan.n_hung; i++)
		if (scan.hung[i].pending)
			cli_warn(what, "%s does not answer, so it is unknown whether it belongs to an array with the name %s", scan.hung[i].path,
				 name);
	rc = cli_name_taken(&scan, name, NULL, path, n, err);
	ddr_scan_free(&scan);
	return rc;
}

int cli_find_device(struct ddr_ipc *ipc, const char *which, struct cli_dm_info *info, struct ddr_error *err)
{
	struct json_object *data = NULL;
	char uuid[37] = "", why[1200];
	uuid_t parsed;

	if (uuid_parse(which, parsed) == 0)
		cli_format_uuid(parsed, uuid);
	else if (ipc && client_try(ipc, client_request("status", which), &data, CLIENT_TIMEOUT_MS, why, sizeof(why)))
		snprintf(uuid, sizeof(uuid), "%s", client_text(client_at(data, 0), "uuid"));
	json_object_put(data);
	if (*uuid && (cli_dm_find_array(uuid, info, err) || info->exists))
		return info->exists ? 0 : -1;
	return cli_dm_find(which, info, err);
}
