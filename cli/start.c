// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid start: assembles an array from its superblocks, loads the table, waits until the daemon serves it, and then resumes the device:
 * no program sees it before it can be read. If the daemon refuses the array, the device is removed again.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/adopt.h"
#include "cli/ask.h"
#include "cli/auto.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/dm.h"
#include "cli/start.h"
#include "lib/disk/scan.h"
#include "lib/dm.h"

#define ARRAYS_MAX	64
#define PATIENCE_MS	30000	/* for disks that have not appeared yet */

/* Is the daemon running, with its module loaded? */
static bool daemon_ready(struct start *s)
{
	struct json_object *data;
	bool module;

	s->ipc = client_connect("start");
	if (!s->ipc || !client_call(s->ipc, "start", client_request("ping", NULL), &data, CLIENT_TIMEOUT_MS))
		return false;
	module = client_flag(data, "module");
	cli_adopt_node(data, &s->node);
	s->always = (client_flag(data, "verify_reads") ? DDR_TABLE_VERIFY_READS : 0) |
		    (client_flag(data, "fail_if_no_daemon") ? DDR_TABLE_FAIL_IF_NO_DAEMON : 0);
	json_object_put(data);
	if (!module)
		cli_fail("start", "the kernel module is not loaded; modprobe dm-ddraid");
	return module;
}

/* The table options for this array. With --all, arrays without parity do not get verify_reads. */
static bool options_of(const struct start *s, const struct ddr_super *sb, unsigned int *options)
{
	*options = s->table | s->always;
	if (sb->parity)
		return true;
	*options &= ~DDR_TABLE_VERIFY_READS;
	return s->all || !(s->table & DDR_TABLE_VERIFY_READS);
}

/* May this node start the array? --adopt is the operator's confirmation. 0, or an exit code, and the reason was printed. */
static int claim(struct start *s, const struct ddr_scan_array *array)
{
	const struct ddr_super *sb = &array->assembly.super;
	uint8_t recorded[DDR_UUID_LEN];
	struct ddr_error err;
	char uuid[37];
	bool refused = cli_adopt_needed(&s->node, array, recorded, &err);

	cli_format_uuid(sb->array_uuid, uuid);
	if (s->adopt && s->node.nodes == 1 && !refused && s->node.alone) {
		cli_warn("start", "'%s' does not belong to a cluster, and needs no --adopt", sb->name);
		return CLI_DONE;
	}
	if (s->adopt)
		return cli_adopt(s->ipc, array, &s->node, recorded, s->yes);
	return refused ? start_failed(s, uuid, sb->name, err.text) : CLI_DONE;
}

/* The operator starts from these disks, although the node may remember newer superblocks: prints what may be lost, and tells the daemon. */
static bool allow_older(struct start *s, const struct ddr_super *sb, const char *uuid)
{
	struct json_object *request = client_request("older", uuid), *data;
	char id[37], when[64];

	cli_format_time(sb->updated, when, sizeof(when));
	fprintf(stderr, "ddraid start: '%s' is at generation %" PRIu64 " on these disks, whose superblocks were last written %s. If the array was "
		"used after that without them, what was written since is lost, and a block may be old or a mix of old and new. Where the dirty log "
		"was damaged, all regions are resynced, or listed as suspect if a disk is missing: check the data, then type ddraid set %s "
		"suspect=accept. ddraid verify %s start compares everything with the parity. Disks that hold a newer generation are refused from "
		"now on.\n", sb->name,
		sb->generation, when, sb->name, sb->name);
	json_object_object_add(request, "generation", json_object_new_uint64(sb->generation));
	json_object_object_add(request, "generation_id", json_object_new_string(cli_format_uuid(sb->gen_id, id)));
	if (!cli_can_ask("start", s->yes, "'%s' would be started from disks that may be older", sb->name) || !cli_asked("start", s->yes)) {
		json_object_put(request);
		return false;
	}
	if (!client_call(s->ipc, "start", request, &data, CLIENT_TIMEOUT_MS))
		return false;
	json_object_put(data);
	return true;
}

/* Creates the device, unless another start of the array has created it meanwhile: then that one is waited for, like our own. */
static int device_of(struct made *made, uint64_t sectors, const char *params, struct ddr_error *err)
{
	struct cli_dm_info info;
	int fd = cli_dm_lock(), rc = cli_dm_find_array(made->uuid, &info, err);

	if (!rc && info.exists) {
		made->kept = true;
		made->hidden = !info.live;
	} else if (!rc) {
		rc = cli_dm_create(made->name, made->uuid, sectors, params, err);
	}
	cli_dm_unlock(fd);
	return rc;
}

static int make_device(struct start *s, const char *which, struct made *made)
{
	char params[DDR_MAX_ROLES * PATH_MAX + 256];
	struct cli_dm_info info;
	struct ddr_scan_array array;
	const char *name = made->name;
	struct ddr_error err;
	unsigned int options;

	made->sectors = 0;
	made->kept = false;
	memset(&array.assembly, 0, sizeof(array.assembly));
	if (ddr_scan_assemble(&s->scan, which, NULL, &array, &err))
		return s->all ? start_failed(s, which, array.assembly.super.name, err.text) : cli_fail("start", "%s", err.text);
	snprintf(made->name, sizeof(made->name), "%s", array.assembly.super.name);
	cli_format_uuid(array.assembly.super.array_uuid, made->uuid);
	if (cli_dm_find_array(made->uuid, &info, &err) || (!info.exists && cli_dm_find(name, &info, &err)))
		return cli_fail("start", "%s", err.text);
	made->kept = info.exists && strcmp(info.uuid, made->uuid) == 0;
	if (s->only && cli_auto_held(made->uuid)) {	/* it was stopped meanwhile */
		printf("%s: was stopped by hand\n", name);
		return cli_finish("start");
	}
	made->hidden = !info.live;
	if (!s->all)
		cli_auto_release(made->uuid);
	if (made->kept && info.live && !s->adopt) {
		printf("%s: is already started%s%s\n", name, strcmp(info.name, name) ? ", as /dev/mapper/" : "", strcmp(info.name,
		       name) ? info.name : "");
		if (s->table)
			cli_warn("start", "'%s' is already started, so its table stays as it is; --verify-reads and --fail-if-no-daemon take "
					  "effect when an array is started", name);
		return cli_finish("start");
	}
	if (info.exists && !made->kept) {
		ddr_error_set(&err, "another device /dev/mapper/%s exists; remove it, or rename this array: ddraid rename %s NEWNAME", name,
			      made->uuid);
		return start_failed(s, made->uuid, name, err.text);
	}
	if (!s->adopt && claim(s, &array))
		return CLI_FAILED;
	if (array.assembly.doubtful && !s->degraded) {
		ddr_error_set(&err, "%s; ddraid start --degraded %s starts it", array.assembly.note, name);
		return start_failed(s, made->uuid, name, err.text);
	}
	if (array.assembly.doubtful && !cli_confirm("start", s->yes, "'%s': %s", name, array.assembly.note))
		return CLI_FAILED;
	cli_tell_foreign("start", &array);
	if (array.assembly.note[0] && !array.assembly.doubtful)
		cli_warn("start", "'%s': %s", name, array.assembly.note);
	if (s->older && !allow_older(s, &array.assembly.super, made->uuid))
		return CLI_FAILED;
	if (!options_of(s, &array.assembly.super, &options))
		return cli_fail("start", "'%s' has no parity, so --verify-reads cannot check anything", name);
	if (ddr_scan_table_params(&array, options, params, sizeof(params)))
		return cli_fail("start", "'%s': the device names make the table line too long; use shorter names", name);
	if (s->adopt && claim(s, &array))
		return CLI_FAILED;
	if (!made->kept && device_of(made, ddr_scan_sectors(&array.assembly.super), params, &err))
		return start_failed(s, made->uuid, name, err.text);
	made->sectors = ddr_scan_sectors(&array.assembly.super);
	made->begun_ms = start_now_ms();
	made->due_ms = made->begun_ms + WAIT_MS;
	made->told[0] = '\0';
	return CLI_DONE;
}

static int start_one(struct start *s, const char *which)
{
	static struct made made;
	struct ddr_error err;
	int rc;

	if (cli_scan_first("start", which, &s->scan, &err))
		return cli_fail("start", "%s", err.text);
	rc = make_device(s, which, &made);
	return made.sectors ? start_attach_all(s, &made, 1) : rc;
}

/* The arrays of --all; each is started once. */
struct all {
	struct made made[ARRAYS_MAX];
	size_t n;
	int worst;			/* exit code */
	char told[ARRAYS_MAX][37];	/* uuids of arrays that wait for disks, as already printed */
	size_t n_told;
};

/* Reports what an array waits for: once to the terminal or the journal, and to the daemon, for `ddraid status`. */
static void tell_lacks(struct start *s, struct all *all, const char *uuid, const char *name, const char *why)
{
	size_t told = 0;

	while (told < all->n_told && strcmp(all->told[told], uuid) != 0)
		told++;
	if (told < all->n_told || told == ARRAYS_MAX)
		return;
	memcpy(all->told[all->n_told++], uuid, sizeof(all->told[0]));
	cli_warn("start", "'%s' %s; waiting for %d seconds at most", name, why, s->patience_ms / 1000);
	cli_auto_report_waits(s->ipc, uuid, name, why);
}

/* Are two devices the same member? They are two paths to a disk, and multipath may still combine them. */
static bool is_twice(const struct ddr_scan_array *array, char *why, size_t size)
{
	for (size_t i = 0; i < array->n; i++)
		for (size_t j = 0; j < i; j++) {
			const struct ddr_super *a = array->cand[i].super, *b = array->cand[j].super;

			if (!a || !b || memcmp(a->member[a->this_member].uuid, b->member[b->this_member].uuid, DDR_UUID_LEN) != 0)
				continue;
			snprintf(why, size, "has two devices for member %u, %s and %s, which may be two paths to one disk", a->this_member,
				 array->cand[j].device, array->cand[i].device);
			return true;
		}
	return false;
}

/* Disks of the array, or a multipath device, may still appear, as during boot. An array that is already started waits for nothing. */
static bool lacks_disks(struct start *s, struct all *all, const char *uuid)
{
	static struct ddr_scan_array array;
	const char *name = array.assembly.super.name;
	char why[2 * PATH_MAX + 128];
	struct cli_dm_info info;
	struct ddr_error err;
	uint32_t absent;

	memset(&array.assembly, 0, sizeof(array.assembly));
	ddr_scan_assemble(&s->scan, uuid, NULL, &array, &err);
	absent = ddr_assembly_absent(&array.assembly);
	if (!is_twice(&array, why, sizeof(why))) {
		if (!absent)
			return false;
		snprintf(why, sizeof(why), "has no disk for member %d%s yet", __builtin_ctz(absent), absent & (absent - 1) ? " and others" : "");
	}
	if (cli_dm_find(name, &info, &err) == 0 && info.exists)
		return false;
	tell_lacks(s, all, uuid, name, why);
	return true;
}

/*
 * Of two arrays with the same name neither is started, since it is unclear which one is meant. True: this is one of them, and that
 * was printed.
 */
static bool has_twin(struct start *s, struct all *all, const struct ddr_scan_name *list, size_t n, size_t i, const char *uuid)
{
	const struct ddr_scan_name *twin = ddr_scan_twin(list, n, i);
	struct cli_dm_info info;
	struct ddr_error err;
	char other[37];

	if (!twin)
		return false;
	if (cli_dm_find_array(uuid, &info, &err) == 0 && info.exists)
		return true;		/* it is already started */
	ddr_error_set(&err, "the array with uuid %s, on %s, is not started: another array has the same name (uuid %s, on %s); rename one of them: "
		      "ddraid rename UUID NEWNAME", uuid, s->scan.dev[list[i].device].path, cli_format_uuid(twin->uuid, other),
		      s->scan.dev[twin->device].path);
	all->worst = start_failed(s, uuid, list[i].name, err.text);
	return true;
}

/* Creates the devices of arrays that were not handled yet. @late: also of those that lack disks. Returns how many are left for later. */
static size_t make_devices(struct start *s, struct all *all, bool late)
{
	struct ddr_scan_name list[ARRAYS_MAX];
	size_t n = ddr_scan_arrays(&s->scan, list, ARRAYS_MAX), left = 0;
	char uuid[37];
	int rc;

	for (size_t i = 0; i < n; i++) {
		struct made *made = &all->made[all->n];
		size_t known = 0;

		cli_format_uuid(list[i].uuid, uuid);
		while (known < all->n && strcmp(all->made[known].uuid, uuid) != 0)
			known++;
		if (known < all->n || all->n == ARRAYS_MAX || (s->only && strcmp(s->only, uuid) != 0))
			continue;
		if (has_twin(s, all, list, n, i, uuid)) {
			memcpy(made->uuid, uuid, sizeof(made->uuid));
			all->n++;
			continue;
		}
		if (!late && lacks_disks(s, all, uuid)) {
			left++;
			continue;
		}
		memcpy(made->uuid, uuid, sizeof(made->uuid));
		rc = make_device(s, uuid, made);
		all->worst = rc > all->worst ? rc : all->worst;
		all->n++;
	}
	return left;
}

/*
 * An array that has to wait must not delay the others. An array whose disks are not all present gets some time: if it started without
 * one, that disk would become stale, and would have to be added again by hand. A disk that has not answered yet may belong to any
 * array: while it may still answer, no array is started with missing disks; complete arrays do not wait for it.
 */
static int make_all(struct start *s, struct all *all)
{
	const struct timespec pause = { .tv_sec = 1 };
	uint64_t due = start_now_ms() + (uint64_t)s->patience_ms;
	struct cli_scanner scanner;
	struct ddr_error err;
	bool pending, late;
	int rc, turn = CLI_DONE;

	if (cli_scanner_open(&scanner, &err))
		return cli_fail("start", "%s", err.text);
	while ((rc = s->only ? cli_scanner_scan_first(&scanner, "start", s->only, &s->scan, &err) :
		     cli_scanner_scan(&scanner, "start", &s->scan, &err)) == 0) {
		late = start_now_ms() >= due;
		pending = cli_scan_pending(&s->scan);
		if (!make_devices(s, all, late && !pending) && (!pending || late || (s->only && all->n)))
			break;
		ddr_scan_free(&s->scan);
		if (start_unattached(all->made, all->n))
			turn = start_attach_turn(s, all->made, all->n, TURN_MS);
		else
			nanosleep(&pause, NULL);
		all->worst = turn > all->worst ? turn : all->worst;
	}
	cli_scanner_close(&scanner);
	return rc ? cli_fail("start", "%s", err.text) : CLI_DONE;
}

/* Starts each array by ddraid-start@UUID.service; disks that appear later start theirs by an event. */
static int start_units(struct start *s)
{
	struct ddr_scan_name list[ARRAYS_MAX];
	struct cli_scanner scanner;
	struct ddr_error err;
	int rc;

	cli_auto_release(NULL);		/* also those whose disks have not appeared yet */
	if (cli_scanner_open(&scanner, &err))
		return cli_fail("start", "%s", err.text);
	rc = cli_scanner_scan_first(&scanner, "start", NULL, &s->scan, &err);
	cli_scanner_close(&scanner);
	if (rc)
		return cli_fail("start", "%s", err.text);
	return cli_auto_units(list, ddr_scan_arrays(&s->scan, list, ARRAYS_MAX));
}

static int start_all(struct start *s)
{
	static struct all all;
	int rc;

	if (s->units)
		return start_units(s);
	if (s->only && cli_auto_held(s->only)) {
		printf("%s was stopped or created by hand, so it is not started automatically\n", s->only);
		return cli_finish("start");
	}
	rc = make_all(s, &all);
	all.worst = rc > all.worst ? rc : all.worst;
	rc = start_attach_all(s, all.made, all.n);
	if (all.n == 0 && !all.worst)
		printf("no arrays were found\n");
	return rc > all.worst ? rc : all.worst;
}

static bool patience_of(const char *text, int *ms)
{
	uint64_t seconds;

	if (!cli_parse_uint(text, 0, 3600, &seconds))
		return false;
	*ms = (int)seconds * 1000;
	return true;
}

static bool timeout_of(const char *text, uint64_t *until_ms)
{
	uint64_t seconds;

	if (!cli_parse_uint(text, 1, 86400, &seconds))
		return false;
	*until_ms = start_now_ms() + seconds * 1000;
	return true;
}

int cmd_start(const struct cli_command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "all", no_argument, NULL, 'a' },
		{ "degraded", no_argument, NULL, 'd' },
		{ "older", no_argument, NULL, 'o' },
		{ "timeout", required_argument, NULL, 't' },
		{ "wait-disks", required_argument, NULL, 'w' },
		{ "verify-reads", no_argument, NULL, 'v' },
		{ "fail-if-no-daemon", no_argument, NULL, 'f' },
		{ "adopt", no_argument, NULL, 'A' },
		{ "yes", no_argument, NULL, 'y' },
		{ "units", no_argument, NULL, 'u' },
		{ "auto", required_argument, NULL, 'e' },
		{ 0 },
	};
	struct start s = { .until_ms = UINT64_MAX, .patience_ms = PATIENCE_MS };
	int c, rc;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c == 'a')
			s.all = true;
		else if (c == 'd')
			s.degraded = true;
		else if (c == 'A')
			s.adopt = true;
		else if (c == 'o')
			s.older = true;
		else if (c == 'y')
			s.yes = true;
		else if (c == 'u')
			s.units = true;
		else if (c == 'e')
			s.only = optarg;
		else if (c == 'v')
			s.table |= DDR_TABLE_VERIFY_READS;
		else if (c == 'f')
			s.table |= DDR_TABLE_FAIL_IF_NO_DAEMON;
		else if (c == 't' && !timeout_of(optarg, &s.until_ms))
			return cli_usage(cmd, "--timeout takes seconds, 1 to 86400");
		else if (c == 'w' && !patience_of(optarg, &s.patience_ms))
			return cli_usage(cmd, "--wait-disks takes seconds, 0 to 3600");
		else if (c != 't' && c != 'w')
			return cli_bad_option(cmd, c, argv);
	}
	if (s.units && (!s.all || s.only))
		return cli_usage(cmd, "--units needs --all");
	s.all |= s.only != NULL;
	if (s.older && s.all)
		return cli_usage(cmd, "--older takes one array by its name");
	if (argc - optind != (s.all ? 0 : 1))
		return cli_usage(cmd, "give the name of one array, or --all");
	if (s.adopt && s.all)
		return cli_usage(cmd, "--adopt takes one array by its name");
	if (!s.units && !daemon_ready(&s)) {
		ddr_ipc_close(s.ipc);
		return CLI_FAILED;
	}
	ddr_dm_init();
	rc = s.all ? start_all(&s) : start_one(&s, argv[optind]);
	ddr_scan_free(&s.scan);
	ddr_ipc_close(s.ipc);
	return rc;
}
