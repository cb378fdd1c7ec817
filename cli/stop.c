// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid stop: lets the daemon clear all marks, then removes the device. An array that is in use is not stopped, and the message
 * names what uses it.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/auto.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/dm.h"
#include "cli/godown.h"
#include "cli/inuse.h"
#include "cli/name.h"
#include "lib/dm.h"

#define CLEAN_MS	60000	/* for the last writes, flushes and the clearing of marks */
#define PAUSE_US	200000	/* the kernel does not report when a device is closed */

struct stop {
	struct ddr_ipc *ipc;	/* NULL: no daemon, and --force */
	bool force;
	bool all;
	time_t until;		/* --wait: until then an array in use is waited for; CLOCK_MONOTONIC, 0: not at all */
};

static time_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

/* Lets the daemon clear all marks that it can; false: the reason was printed. */
static bool clean(struct stop *s, const struct cli_dm_info *info)
{
	struct json_object *request, *data;
	char why[1200];
	bool served;

	if (!s->ipc)
		return true;
	/* for an array that is not served nothing is cleared: only its device is removed */
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
		if (!info->live)
			return true;	/* it was never visible, so nothing has to be cleared: it is removed even without quorum */
		if (!s->force)
			cli_fail("stop", "'%s': %s; --force stops it anyway", info->name, why);
		else
			cli_warn("stop", "'%s': %s", info->name, why);
		return s->force;
	}
	if (client_number(data, "dirty"))
		cli_warn("stop", "'%s': %" PRIu64 " regions stay dirty and are resynced after the next start", info->name,
			 client_number(data, "dirty"));
	else if (!client_object(data, "dirty"))
		cli_warn("stop", "'%s': stopped before its dirty log was read; the other nodes, or the next start, resync the dirty regions",
			 info->name);
	json_object_put(data);
	return true;
}

static int in_use(const struct cli_dm_info *info)
{
	const struct cli_inuse_roots roots = { .proc = "/proc", .sys = "/sys" };
	char by[1500];

	cli_inuse_describe(&roots, info->major, info->minor, by, sizeof(by));
	return cli_fail("stop", "'%s' is in use: %s. Unmount it, or stop what uses it, then ddraid stop %s", info->name, by, info->name);
}

/* The device may be closed soon: by udev, which reads it, or, with --wait, by a file system that is being unmounted. */
static int wait_closed(const struct stop *s, struct cli_dm_info *info, struct ddr_error *err)
{
	char name[sizeof(info->name)];

	snprintf(name, sizeof(name), "%s", info->name);
	if (cli_dm_wait_closed(info, err))
		return -1;
	while (info->open_count && now() < s->until) {
		usleep(PAUSE_US);
		if (cli_dm_find(name, info, err))
			return -1;
	}
	return 0;
}

/* I/O on a suspended device would wait for ever. A device that is in use is only resumed if everything is to be stopped. */
static int resume(const struct stop *s, const struct cli_dm_info *info, struct ddr_error *err)
{
	if (!info->suspended || (info->open_count && !s->all))
		return 0;
	cli_warn("stop", "'%s' is suspended; resuming it first, so that waiting I/O can finish", info->name);
	return cli_dm_resume(info->name, err);
}

static int stop_device(const struct cli_dm_info *found, void *ctx)
{
	struct cli_dm_info info = *found;
	struct stop *s = ctx;
	struct ddr_error err;

	if (resume(s, &info, &err) || wait_closed(s, &info, &err))
		return cli_fail("stop", "%s", err.text);
	if (info.open_count)
		return in_use(&info);
	if (!info.exists || strcmp(info.uuid, found->uuid))
		return cli_fail("stop", "'%s' was removed by another program meanwhile", info.name);
	if (!clean(s, &info))
		return CLI_FAILED;
	cli_auto_hold(info.uuid);	/* before it is removed: an event may be starting it just now */
	if (cli_dm_remove(info.name, &err)) {
		cli_auto_release(info.uuid);
		return cli_fail("stop", "%s", err.text);
	}
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
		return cli_fail("stop", "/dev/mapper/%s is not an array with a daemon; dmsetup remove %s removes it", name,
				name);
	return stop_device(&info, s);
}

static int is_one(const struct cli_dm_info *info, void *ctx)
{
	(void)info;
	(void)ctx;
	return 1;
}

int cmd_stop(const struct cli_command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "all", no_argument, NULL, 'a' },
		{ "force", no_argument, NULL, 'f' },
		{ "wait", required_argument, NULL, 'w' },
		{ "shutdown", no_argument, NULL, 's' },
		{ 0 },
	};
	struct stop s = { 0 };
	struct ddr_error err;
	bool down = false;
	uint64_t seconds;
	char why[600];
	int c, rc;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c == 'a')
			s.all = true;
		else if (c == 'f')
			s.force = true;
		else if (c == 's')
			down = true;
		else if (c == 'w' && cli_parse_uint(optarg, 0, 3600, &seconds))
			s.until = now() + (time_t)seconds;
		else if (c == 'w')
			return cli_usage(cmd, "--wait takes seconds, 0 to 3600");
		else
			return cli_bad_option(cmd, c, argv);
	}
	if (argc - optind != (s.all || down ? 0 : 1))
		return cli_usage(cmd, "give the name of one array, or --all");
	if (down)
		return cli_go_down();
	ddr_dm_init();
	if (s.all && cli_dm_each(is_one, NULL, &err) == 0)
		return CLI_DONE;		/* this needs no daemon */
	if (!client_reach(&s.ipc, why, sizeof(why))) {
		if (!s.force)
			return cli_fail("stop", "%s", why);
		cli_warn("stop", "%s; --force stops the array without it: dirty regions stay dirty, and are resynced after the next start", why);
	}
	if (!s.all)
		rc = stop_named(&s, argv[optind]);
	else if ((rc = cli_dm_each(stop_device, &s, &err)) < 0)
		rc = cli_fail("stop", "%s", err.text);
	ddr_ipc_close(s.ipc);
	return rc;
}
