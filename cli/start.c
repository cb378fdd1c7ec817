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
#include "lib/disk/scan.h"
#include "lib/dm.h"

#define ARRAYS_MAX	64
#define WAIT_MS		60000	/* for the daemon to attach: a predecessor's I/O may have to end first */
#define SLICE_MS	3000	/* how often it is asked what it waits for */
#define SAY_MS		3000	/* what it waits for is not told before */
#define PATIENCE_MS	30000	/* for disks that are not there yet */
#define TURN_MS		1000	/* likewise, where several arrays are waited for */
#define RETRY_MS	200	/* between attempts to reach a daemon that went */
#define TELL_MS		3000	/* after so long without one, that is said; one that is restarted is back before */

struct start {
	struct ddr_ipc *ipc;
	struct ddr_scan scan;
	bool degraded;		/* the operator's word: members may be missing */
	bool adopt, yes;	/* likewise: no other machine uses the disks; do not ask */
	bool older;		/* likewise: newer superblocks than those that are here may have been seen */
	unsigned int table;	/* DDR_TABLE_*, as the operator asks for this time */
	unsigned int always;	/* likewise, as the configuration of the daemon does: of what can have it */
	uint64_t until_ms;	/* --timeout; UINT64_MAX: none */
	bool all;
	bool units;		/* --all: each by a unit of its own, and nothing is waited for */
	const char *only;	/* --auto: the uuid of the array, of which a disk has appeared */
	int patience_ms;	/* --all: for disks that are not there yet */
	bool lost;		/* the connection was, once: another daemon may have been there between */
	uint64_t lost_ms;	/* since when there is no answer; 0: there is */
	uint32_t alone;		/* this node's id where the daemon has no cluster; 0: it has one */
	uint32_t nodes;		/* of the cluster; 1: this one alone; 0: not known */
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
	s->alone = (uint32_t)client_number(data, "alone");
	s->nodes = (uint32_t)client_number(data, "nodes");
	s->always = (client_flag(data, "verify_reads") ? DDR_TABLE_VERIFY_READS : 0) |
		    (client_flag(data, "fail_if_no_daemon") ? DDR_TABLE_FAIL_IF_NO_DAEMON : 0);
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
		cli_warn("start", "'%s' was being written at a crash and has members missing: %" PRIu64 " regions are suspect, and blocks that "
			 "were in flight may read as garbage; ddraid status lists them", name, n);
		for (size_t i = 0; i < client_length(runs); i++) {
			struct json_object *run = client_at(runs, i);

			cli_warn("start", "suspect: regions %" PRIu64 " to %" PRIu64,
				 json_object_get_uint64(client_at(run, 0)),
				 json_object_get_uint64(client_at(run, 0)) +
				 json_object_get_uint64(client_at(run, 1)) - 1);
		}
	} else if (dirty && strcmp(client_text(status, "state"), "degraded") == 0) {
		cli_warn("start", "'%s' was being written at a crash and has members missing; %" PRIu64 " regions are being checked, and ddraid "
			 "status lists those that stay suspect", name, dirty);
	}
}

/* Members that the array was started without, and why, where the daemon knows it. */
static void tell_left_out(const char *name, struct json_object *status)
{
	struct json_object *members = client_object(status, "members");

	for (size_t i = 0; i < client_length(members); i++) {
		struct json_object *m = client_at(members, i);

		if (!client_null(m, "reason") && !client_null(m, "role"))
			cli_warn("start", "'%s' runs without member %d, %s: %s", name, (int)client_number(m, "index"),
				 client_null(m, "device") ? "whose disk is unknown" : client_clean(client_text(m, "device")),
				 client_clean(client_text(m, "reason")));
	}
}

/* An array whose device was made, and that the daemon does not serve yet. */
struct made {
	char name[DDR_NAME_LEN], uuid[37];
	uint64_t sectors;		/* 0: none was made, or nobody waits for it any more */
	uint64_t begun_ms;
	uint64_t due_ms;		/* until then it may be silent why it does not serve it */
	char told[512];			/* what it waits for, as it was printed */
	bool kept;			/* its device was there before, and stays whatever comes */
	bool hidden;			/* it was not resumed yet: nobody can have it open */
};

enum answer { SERVED, NOT_YET, REFUSED, GONE };

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* The daemon went, or hangs: another one comes at once where somebody sees to that. False: none came in time; @why says what was wrong. */
static bool reconnect(struct start *s, char *why, size_t size)
{
	const struct timespec pause = { .tv_nsec = RETRY_MS * 1000000L };
	uint64_t now = now_ms();
	bool told = s->lost_ms != 0;

	if (!told)
		s->lost_ms = now;
	s->lost = true;
	ddr_ipc_close(s->ipc);
	s->ipc = NULL;
	while (now < s->until_ms && (s->only || now < s->lost_ms + WAIT_MS)) {
		nanosleep(&pause, NULL);
		if (client_reach(&s->ipc, why, size))
			return true;
		now = now_ms();
		if (!told && now >= s->lost_ms + TELL_MS) {
			cli_warn("start", "%s; waiting for it, %d seconds at most", why, WAIT_MS / 1000);
			told = true;
		}
	}
	s->ipc = NULL;
	return false;
}

/* As long as the daemon says what it waits for (quorum, the fencing of a node), that is told, and waited for as well. */
static void tell_waits(struct made *m, struct json_object *status)
{
	const char *waits = client_clean(client_text(client_object(status, "cluster"), "waits"));

	if (*waits && strcmp(waits, m->told) != 0 && now_ms() >= m->begun_ms + SAY_MS) {
		snprintf(m->told, sizeof(m->told), "%s", waits);
		cli_warn("start", "'%s' waits: %s", m->name, m->told);
	}
	if (*waits)
		m->due_ms = now_ms() + WAIT_MS;
}

/* Asks for at most @slice_ms. SERVED: its status in *@status; REFUSED and GONE: why. */
static enum answer ask(struct start *s, struct made *m, int slice_ms, struct json_object **status, char *why, size_t size)
{
	struct json_object *request = client_request("wait", m->uuid), *data;
	uint64_t now = now_ms();
	int rc;

	if (now < s->until_ms && s->until_ms - now < (uint64_t)slice_ms)
		slice_ms = (int)(s->until_ms - now);
	json_object_object_add(request, "timeout_ms", json_object_new_int(slice_ms));
	if (s->ipc) {
		rc = client_ask(s->ipc, request, &data, slice_ms + CLIENT_TIMEOUT_MS, why, size);
	} else {
		json_object_put(request);
		snprintf(why, size, "ddraidd is not running");
		rc = -ENOTCONN;
	}
	if (rc < 0)
		return reconnect(s, why, size) ? NOT_YET : GONE;
	s->lost_ms = 0;
	if (rc)
		return REFUSED;
	*status = json_object_get(client_at(data, 0));
	json_object_put(data);
	if (client_flag(*status, "ready"))
		return SERVED;
	tell_waits(m, *status);
	json_object_put(*status);
	now = now_ms();
	if (now < m->due_ms && now < s->until_ms)
		return NOT_YET;
	snprintf(why, size, "it was not attached in time%s%s; see the log of ddraidd", *m->told ? ": " : "", m->told);
	return REFUSED;
}

/*
 * What the daemon refuses goes, with all that waits in it already. But where another daemon was there before, it may have been served
 * meanwhile: then it goes only if nobody has it open.
 */
static void take_down(struct start *s, const struct made *m)
{
	struct cli_dm_info info;
	struct ddr_error err;

	if (m->kept)
		return;
	if (cli_dm_find(m->name, &info, &err))
		cli_warn("start", "%s", err.text);
	else if (s->lost && info.open_count && info.live)
		cli_warn("start", "'%s' is in use, so its device stays; ddraid stop removes it", m->name);
	else if ((info.live && cli_dm_fail(m->name, m->sectors, &err)) || cli_dm_remove(m->name, &err))
		cli_warn("start", "%s", err.text);
}

/* Says why; where it was not a person who asked, the daemon keeps that, for `ddraid status`. */
static int not_started(struct start *s, const char *uuid, const char *name, const char *why)
{
	if (s->all)
		cli_auto_report(s->ipc, uuid, name, why);
	return cli_fail("start", "'%s': %s", name, why);
}

/* Waits a while for the daemon. An exit code, or -1: it has to be asked again. */
static int attach(struct start *s, struct made *m, int slice_ms)
{
	struct json_object *status;
	struct ddr_error err;
	char why[1200];

	switch (ask(s, m, slice_ms, &status, why, sizeof(why))) {
	case NOT_YET:
		return -1;
	case REFUSED:
		take_down(s, m);
		return not_started(s, m->uuid, m->name, why);
	case GONE:
		return cli_fail("start", "'%s': %s. The device stays%s; ddraid stop --force %s removes it", m->name, why, m->hidden ?
				"; start the array again when ddraidd runs" : ", and is served when ddraidd runs", m->name);
	case SERVED:
		break;
	}
	if (m->hidden && cli_dm_resume(m->name, &err)) {
		json_object_put(status);
		return not_started(s, m->uuid, m->name, err.text);
	}
	printf("%s: started, %s, /dev/mapper/%s\n", m->name, client_clean(client_text(status, "state")), m->name);
	tell_left_out(m->name, status);
	tell_suspect(m->name, status);
	json_object_put(status);
	return cli_finish("start");
}

static size_t unattached(const struct made *made, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++)
		left += made[i].sectors != 0;
	return left;
}

/* Waits a while for each of them: one that has to wait must not keep another one from being told of. The worst exit code of those that have ended. */
static int attach_turn(struct start *s, struct made *made, size_t n, int slice_ms)
{
	int worst = CLI_DONE, rc;

	for (size_t i = 0; i < n; i++) {
		if (!made[i].sectors)
			continue;
		rc = attach(s, &made[i], slice_ms);
		if (rc < 0)
			continue;
		worst = rc > worst ? rc : worst;
		made[i].sectors = 0;
	}
	return worst;
}

static int attach_all(struct start *s, struct made *made, size_t n)
{
	int worst = CLI_DONE, rc;
	size_t left;

	while ((left = unattached(made, n))) {
		rc = attach_turn(s, made, n, left > 1 ? TURN_MS : SLICE_MS);
		worst = rc > worst ? rc : worst;
	}
	return worst;
}

/* Options of the table of this array. With --all, what has no parity goes without the check of it. */
static bool options_of(const struct start *s, const struct ddr_super *sb, unsigned int *options)
{
	*options = s->table | s->always;
	if (sb->parity)
		return true;
	*options &= ~DDR_TABLE_VERIFY_READS;
	return s->all || !(s->table & DDR_TABLE_VERIFY_READS);
}

/* May this node have the array? With --adopt the operator says so. 0, or an exit code, and why was printed. */
static int claim(struct start *s, const struct ddr_super *sb)
{
	struct ddr_error err;
	char uuid[37];
	bool refused = s->nodes == 1 && (s->alone ? ddr_assemble_alone(sb, s->alone, &err) : ddr_assemble_unclustered(sb, &err));

	cli_format_uuid(sb->array_uuid, uuid);
	if (s->adopt && s->nodes == 1 && !refused && s->alone) {
		cli_warn("start", "'%s' does not belong to a cluster, and needs no --adopt", sb->name);
		return CLI_DONE;
	}
	if (s->adopt)
		return cli_adopt(s->ipc, sb, s->alone, s->nodes, s->yes);
	return refused ? not_started(s, uuid, sb->name, err.text) : CLI_DONE;
}

/* The operator starts from what is here, though the node may remember newer superblocks: says what that costs, and tells the daemon. */
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
		return s->all ? not_started(s, which, array.assembly.super.name, err.text) : cli_fail("start", "%s", err.text);
	snprintf(made->name, sizeof(made->name), "%s", array.assembly.super.name);
	cli_format_uuid(array.assembly.super.array_uuid, made->uuid);
	if (cli_dm_find_array(made->uuid, &info, &err) || (!info.exists && cli_dm_find(name, &info, &err)))
		return cli_fail("start", "%s", err.text);
	made->kept = info.exists && strcmp(info.uuid, made->uuid) == 0;
	if (s->only && cli_auto_held(made->uuid)) {	/* stopped meanwhile */
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
		return not_started(s, made->uuid, name, err.text);
	}
	if (!s->adopt && claim(s, &array.assembly.super))
		return CLI_FAILED;
	if (array.assembly.doubtful && !s->degraded) {
		ddr_error_set(&err, "%s; ddraid start --degraded %s starts it", array.assembly.note, name);
		return not_started(s, made->uuid, name, err.text);
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
	if (s->adopt && claim(s, &array.assembly.super))
		return CLI_FAILED;
	if (!made->kept && cli_dm_create(name, made->uuid, ddr_scan_sectors(&array.assembly.super), params, &err))
		return not_started(s, made->uuid, name, err.text);
	made->sectors = ddr_scan_sectors(&array.assembly.super);
	made->begun_ms = now_ms();
	made->due_ms = made->begun_ms + WAIT_MS;
	made->told[0] = '\0';
	return CLI_DONE;
}

static int start_one(struct start *s, const char *which)
{
	static struct made made;
	struct ddr_error err;
	int rc;

	if (cli_scan("start", which, &s->scan, &err))
		return cli_fail("start", "%s", err.text);
	rc = make_device(s, which, &made);
	return made.sectors ? attach_all(s, &made, 1) : rc;
}

/* Those of --all, of which each is taken up once. */
struct all {
	struct made made[ARRAYS_MAX];
	size_t n;
	int worst;			/* exit code */
	char told[ARRAYS_MAX][37];	/* arrays that wait for disks, as it was printed */
	size_t n_told;
};

/* What an array waits for: to the terminal or the journal once, and to the daemon, for `ddraid status`. */
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

/* Two devices that are one member: two paths to a disk, of which multipath may make one device yet. */
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

/* Disks of the array, or a multipath device, may come yet, as while a machine boots. What is started already waits for nothing. */
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

/* Of two arrays of one name neither is started, since nobody knows which one is meant. True: this is one, and that was said. */
static bool has_twin(struct start *s, struct all *all, const struct ddr_scan_name *list, size_t n, size_t i, const char *uuid)
{
	const struct ddr_scan_name *twin = ddr_scan_twin(list, n, i);
	struct cli_dm_info info;
	struct ddr_error err;
	char other[37];

	if (!twin)
		return false;
	if (cli_dm_find_array(uuid, &info, &err) == 0 && info.exists)
		return true;		/* it runs already */
	ddr_error_set(&err, "the array with uuid %s, on %s, is not started: another array has the same name (uuid %s, on %s); rename one of them: "
		      "ddraid rename UUID NEWNAME", uuid, s->scan.dev[list[i].device].path, cli_format_uuid(twin->uuid, other),
		      s->scan.dev[twin->device].path);
	all->worst = not_started(s, uuid, list[i].name, err.text);
	return true;
}

/* Makes the devices of arrays that were not taken up yet. @late: of those that lack disks, too. Returns how many are left for later. */
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
 * One that has to wait must not keep the others from being served. An array whose disks are not all there
 * gets some time: once it has started without one, that disk is stale, and has to be called back by hand. A disk that has not answered
 * yet may be any array's: while it has time nothing is started without one; what is complete is not held up by it.
 */
static int make_all(struct start *s, struct all *all)
{
	const struct timespec pause = { .tv_sec = 1 };
	uint64_t due = now_ms() + (uint64_t)s->patience_ms;
	struct cli_scanner scanner;
	struct ddr_error err;
	bool pending, late;
	int rc, turn = CLI_DONE;

	if (cli_scanner_open(&scanner, &err))
		return cli_fail("start", "%s", err.text);
	while ((rc = cli_scanner_scan(&scanner, "start", &s->scan, &err)) == 0) {
		late = now_ms() >= due;
		pending = cli_scan_pending(&s->scan);
		if (!make_devices(s, all, late && !pending) && (!pending || late || (s->only && all->n)))
			break;
		ddr_scan_free(&s->scan);
		if (unattached(all->made, all->n))
			turn = attach_turn(s, all->made, all->n, TURN_MS);
		else
			nanosleep(&pause, NULL);
		all->worst = turn > all->worst ? turn : all->worst;
	}
	cli_scanner_close(&scanner);
	return rc ? cli_fail("start", "%s", err.text) : CLI_DONE;
}

/* Each array by ddraid-start@UUID.service; what is not there yet comes with its event. */
static int start_units(struct start *s)
{
	struct ddr_scan_name list[ARRAYS_MAX];
	struct cli_scanner scanner;
	struct ddr_error err;
	int rc;

	cli_auto_release(NULL);		/* of those whose disks are not there yet, too */
	if (cli_scanner_open(&scanner, &err))
		return cli_fail("start", "%s", err.text);
	rc = cli_scanner_scan(&scanner, "start", &s->scan, &err);
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
	rc = attach_all(s, all.made, all.n);
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
	*until_ms = now_ms() + seconds * 1000;
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
