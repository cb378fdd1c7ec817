// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid start: assembles an array from what its disks say, loads the table, and waits
 * until the daemon serves it. What the daemon refuses is taken down again.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/dm.h"
#include "lib/dm.h"
#include "lib/scan.h"

#define ARRAYS_MAX	64
#define WAIT_MS		60000	/* for the daemon to attach: a predecessor's I/O may have to end first */
#define SLICE_MS	5000	/* how often it is asked what it waits for */

struct start {
	struct ddr_ipc *ipc;
	struct ddr_scan scan;
	bool degraded;		/* the operator's word: members may be missing */
	int limit_ms;		/* --timeout; 0: none */
};

/* The daemon is there and its module is loaded. */
static bool daemon_ready(struct start *s)
{
	struct json_object *data;
	bool module;

	s->ipc = client_connect("start");
	if (!s->ipc || !client_call(s->ipc, "start", client_request("ping", NULL), &data, CLIENT_TIMEOUT_MS))
		return false;
	module = client_flag(data, "module");
	json_object_put(data);
	if (!module)
		cli_fail("start", "the kernel module is not loaded; modprobe dm-ddraid");
	return module;
}

/* A crash and a missing member together are never passed over in silence. */
static void tell_suspect(const char *name, struct json_object *status)
{
	struct json_object *runs = client_object(status, "suspect"), *regions = client_object(status, "regions");
	uint64_t n = client_number(regions, "suspect"), dirty = client_number(regions, "dirty");

	if (n) {
		cli_warn("start", "'%s' was being written at a crash and has members missing: %" PRIu64 " regions are "
			 "suspect; blocks that were in flight may read as garbage; ddraid status lists them", name, n);
		for (size_t i = 0; i < client_length(runs); i++) {
			struct json_object *run = client_at(runs, i);

			cli_warn("start", "suspect: regions %" PRIu64 " to %" PRIu64,
				 json_object_get_uint64(client_at(run, 0)),
				 json_object_get_uint64(client_at(run, 0)) +
				 json_object_get_uint64(client_at(run, 1)) - 1);
		}
	} else if (dirty && strcmp(client_text(status, "state"), "degraded") == 0) {
		cli_warn("start", "'%s' was being written at a crash and has members missing; %" PRIu64 " regions are "
			 "looked at now, and ddraid status lists those that stay suspect", name, dirty);
	}
}

/*
 * The status of the array once the daemon serves it; or NULL, and why not. As long as the daemon says
 * what it waits for (quorum, the fencing of a node), that is told, and waited for as well.
 */
static struct json_object *wait_served(struct start *s, const char *name, const char *uuid, char *why, size_t size)
{
	int left = WAIT_MS, all = s->limit_ms;
	char told[512] = "";

	for (;;) {
		struct json_object *request = client_request("wait", uuid), *data, *status;
		int slice = all && all < SLICE_MS ? all : SLICE_MS;
		const char *waits;

		json_object_object_add(request, "timeout_ms", json_object_new_int(slice));
		if (!client_try(s->ipc, request, &data, slice + CLIENT_TIMEOUT_MS, why, size))
			return NULL;
		status = json_object_get(client_at(data, 0));
		json_object_put(data);
		if (client_flag(status, "ready"))
			return status;
		waits = client_clean(client_text(client_object(status, "cluster"), "waits"));
		if (*waits && strcmp(waits, told) != 0) {
			snprintf(told, sizeof(told), "%s", waits);
			cli_warn("start", "'%s' waits: %s", name, told);
		}
		json_object_put(status);
		left = *waits ? WAIT_MS : left - slice;
		if (left <= 0 || (all && (all -= slice) == 0)) {
			snprintf(why, size, "it was not attached in time%s%s; the log of ddraidd says more", *told ? ": " : "", told);
			return NULL;
		}
	}
}

/* Waits for the daemon; takes the device down again if it is refused, with all that waits in it already. */
static int attach(struct start *s, const char *name, const char *uuid, uint64_t sectors)
{
	struct json_object *status;
	char why[1200];
	struct ddr_error err;

	status = wait_served(s, name, uuid, why, sizeof(why));
	if (!status) {
		if (cli_dm_fail(name, sectors, &err) || cli_dm_remove(name, &err))
			cli_warn("start", "%s", err.text);
		return cli_fail("start", "'%s': %s", name, why);
	}
	printf("%s: started, %s, /dev/mapper/%s\n", name, client_clean(client_text(status, "state")), name);
	tell_suspect(name, status);
	json_object_put(status);
	return cli_finish("start");
}

/* An array whose device was made, and that the daemon does not serve yet. */
struct made {
	char name[DDR_NAME_LEN], uuid[37];
	uint64_t sectors;		/* 0: none was made: it failed, or there was one already */
};

static int make_device(struct start *s, const char *which, struct made *made)
{
	char params[DDR_MAX_ROLES * PATH_MAX + 256];
	struct cli_dm_info info;
	struct ddr_scan_array array;
	const char *name = made->name;
	struct ddr_error err;

	made->sectors = 0;
	if (ddr_scan_assemble(&s->scan, which, NULL, &array, &err))
		return cli_fail("start", "%s", err.text);
	snprintf(made->name, sizeof(made->name), "%s", array.assembly.super.name);
	cli_format_uuid(array.assembly.super.array_uuid, made->uuid);
	if (cli_dm_find(name, &info, &err))
		return cli_fail("start", "%s", err.text);
	if (info.exists && strcmp(info.uuid, made->uuid) == 0) {
		printf("%s: is started already\n", name);
		return cli_finish("start");
	}
	if (info.exists)
		return cli_fail("start", "there is another device /dev/mapper/%s; remove it or rename it first", name);
	if (array.assembly.doubtful && !s->degraded)
		return cli_fail("start", "'%s': %s; --degraded starts it", name, array.assembly.note);
	if (array.assembly.note[0])
		cli_warn("start", "'%s': %s", name, array.assembly.note);
	if (ddr_scan_table_params(&array, params, sizeof(params)))
		return cli_fail("start", "'%s': the device names make a table line that is too long", name);
	if (cli_dm_create(name, made->uuid, ddr_scan_sectors(&array.assembly.super), params, &err))
		return cli_fail("start", "%s", err.text);
	made->sectors = ddr_scan_sectors(&array.assembly.super);
	return CLI_DONE;
}

static int start_one(struct start *s, const char *which)
{
	struct made made;
	int rc = make_device(s, which, &made);

	return made.sectors ? attach(s, made.name, made.uuid, made.sectors) : rc;
}

/* All devices are made first: one that has to wait must not keep the others from being served. */
static int start_all(struct start *s)
{
	static struct made made[ARRAYS_MAX];
	struct ddr_scan_name list[ARRAYS_MAX];
	size_t n = ddr_scan_arrays(&s->scan, list, ARRAYS_MAX);
	int worst = CLI_DONE, rc;
	char uuid[37];

	for (size_t i = 0; i < n; i++) {
		rc = make_device(s, cli_format_uuid(list[i].uuid, uuid), &made[i]);
		worst = rc > worst ? rc : worst;
	}
	for (size_t i = 0; i < n; i++) {
		rc = made[i].sectors ? attach(s, made[i].name, made[i].uuid, made[i].sectors) : CLI_DONE;
		worst = rc > worst ? rc : worst;
	}
	if (n == 0)
		printf("no arrays were found\n");
	return worst;
}

static bool timeout_of(const char *text, int *ms)
{
	char *end;
	long n = strtol(text, &end, 10);

	*ms = n > 0 && n <= 86400 ? (int)n * 1000 : 0;
	return *ms && !*end;
}

int cmd_start(const struct cli_command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "all", no_argument, NULL, 'a' },
		{ "degraded", no_argument, NULL, 'd' },
		{ "timeout", required_argument, NULL, 't' },
		{ 0 },
	};
	struct start s = { 0 };
	struct ddr_error err;
	bool all = false;
	int c, rc;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c == 'a')
			all = true;
		else if (c == 'd')
			s.degraded = true;
		else if (c == 't' && !timeout_of(optarg, &s.limit_ms))
			return cli_usage(cmd, "--timeout takes seconds, 1 to 86400");
		else if (c != 't')
			return cli_bad_option(cmd, c, argv);
	}
	if (argc - optind != (all ? 0 : 1))
		return cli_usage(cmd, "give the name of one array, or --all");
	if (!daemon_ready(&s)) {
		ddr_ipc_close(s.ipc);
		return CLI_FAILED;
	}
	ddr_dm_init();
	if (cli_scan("start", &s.scan, &err)) {
		rc = cli_fail("start", "%s", err.text);
	} else {
		rc = all ? start_all(&s) : start_one(&s, argv[optind]);
		ddr_scan_free(&s.scan);
	}
	ddr_ipc_close(s.ipc);
	return rc;
}
