// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid stop: has the daemon clear all marks, and removes the device. An array that
 * stays open is left alone.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/dm.h"
#include "cli/name.h"
#include "lib/dm.h"

#define CLEAN_MS	60000	/* for the last writes, flushes and the clearing of marks */

struct stop {
	struct ddr_ipc *ipc;	/* NULL: no daemon, and --force */
	bool force;
};

/* Nothing dirty is left, as far as the daemon can; false: it said why not. */
static bool clean(struct stop *s, const struct cli_dm_info *info)
{
	struct json_object *request, *data;
	char why[1200];
	bool served;

	if (!s->ipc)
		return true;
	/* an array that is not served has nothing to be cleaned: only its device goes */
	if (!client_try(s->ipc, client_request("status", info->uuid), &data, CLIENT_TIMEOUT_MS, why, sizeof(why)))
		served = false;
	else
		served = client_length(data) &&
			 strcmp(client_text(client_at(data, 0), "state"), "inactive") != 0;
	json_object_put(data);
	if (!served)
		return true;
	request = client_request("stop", info->uuid);
	json_object_object_add(request, "timeout_ms", json_object_new_int(CLEAN_MS));
	if (!client_try(s->ipc, request, &data, CLEAN_MS + CLIENT_TIMEOUT_MS, why, sizeof(why))) {
		if (!s->force)
			cli_fail("stop", "'%s': %s; --force stops it all the same", info->name, why);
		else
			cli_warn("stop", "'%s': %s", info->name, why);
		return s->force;
	}
	if (client_number(data, "dirty"))
		cli_warn("stop", "'%s': %" PRIu64 " regions stay dirty and are synced after the next start", info->name,
			 client_number(data, "dirty"));
	else if (!client_object(data, "dirty"))
		cli_warn("stop", "'%s': stopped before it was known what is dirty: it is synced by the nodes that stay, or after the next start", info->name);
	json_object_put(data);
	return true;
}

static int stop_device(const struct cli_dm_info *found, void *ctx)
{
	struct cli_dm_info info = *found;
	struct stop *s = ctx;
	struct ddr_error err;

	if (cli_dm_wait_closed(&info, &err))
		return cli_fail("stop", "%s", err.text);
	if (info.open_count)
		return cli_fail("stop", "'%s' is in use (opened %u times); unmount it, or stop what is on it, first",
				info.name, info.open_count);
	if (!info.exists || strcmp(info.uuid, found->uuid))
		return cli_fail("stop", "'%s' was removed by somebody else meanwhile", info.name);
	if (!clean(s, &info))
		return CLI_FAILED;
	if (cli_dm_remove(info.name, &err))
		return cli_fail("stop", "%s", err.text);
	printf("%s: stopped\n", info.name);
	return cli_finish("stop");
}

static int stop_named(struct stop *s, const char *name)
{
	struct cli_dm_info info;
	struct ddr_error err;

	if (cli_find_device(s->ipc, name, &info, &err))
		return cli_fail("stop", "%s", err.text);
	if (!info.exists)
		return cli_fail("stop", "array '%s' is not started on this node", name);
	if (!info.uuid[0])
		return cli_fail("stop", "/dev/mapper/%s is no array with a daemon; dmsetup remove %s takes it down", name,
				name);
	return stop_device(&info, s);
}

int cmd_stop(const struct cli_command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "all", no_argument, NULL, 'a' },
		{ "force", no_argument, NULL, 'f' },
		{ 0 },
	};
	struct stop s = { 0 };
	struct ddr_error err;
	bool all = false;
	char why[600];
	int c, rc;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c == 'a')
			all = true;
		else if (c == 'f')
			s.force = true;
		else
			return cli_bad_option(cmd, c, argv);
	}
	if (argc - optind != (all ? 0 : 1))
		return cli_usage(cmd, "give the name of one array, or --all");
	if (!client_reach(&s.ipc, why, sizeof(why))) {
		if (!s.force)
			return cli_fail("stop", "%s", why);
		cli_warn("stop", "%s; --force goes on without it: what is dirty stays so, and is synced after the next start", why);
	}
	ddr_dm_init();
	if (!all)
		rc = stop_named(&s, argv[optind]);
	else if ((rc = cli_dm_each(stop_device, &s, &err)) < 0)
		rc = cli_fail("stop", "%s", err.text);
	ddr_ipc_close(s.ipc);
	return rc;
}
