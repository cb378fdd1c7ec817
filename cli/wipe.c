// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid wipe: erases members. All superblocks that ddraid finds on them are overwritten with zeroes, and nothing else.
 *
 * Must never: write to a disk that is in use, that has no ddraid superblock, or that may be a member of a running array, unless the
 * operator overrides it; report that a disk is wiped while any part of a superblock can be read there.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/create.h"
#include "cli/disk.h"
#include "cli/guard.h"
#include "lib/disk/scan.h"

#define MOST	64
#define HALF	"some of its superblocks may be left; repeat the same command"

struct wipe_args {
	const char *path[MOST];
	size_t n;
	bool overwrite, files, yes;
	uint32_t alone;			/* this node's id if it has no cluster: it keeps its slot when it stops, and its locks show whether it runs the array */
};

struct wiped {
	struct ddr_dev dev;
	struct ddr_supers supers;
	char is[256];			/* a description of the disk */
};

/* ---- what the disk is -------------------------------------------------------------- */

/* It was one of our superblocks, and is not valid any more. One with another magic belongs to another program. */
static bool is_damaged(const struct ddr_supers *s, unsigned int copy)
{
	enum ddr_format_error code = s->copy[copy].fault.code;

	return !s->copy[copy].found && !s->copy[copy].read_failed && code != DDR_FE_BLANK && code != DDR_FE_MAGIC;
}

/* Is there any part of a superblock, even a damaged one? */
static bool has_any(const struct ddr_supers *s)
{
	return s->copy[0].found || s->copy[1].found || is_damaged(s, 0) || is_damaged(s, 1);
}

static const struct ddr_super *super_of(const struct ddr_supers *s)
{
	return s->newest < 0 ? NULL : &s->copy[s->newest].super;
}

/*
 * The newest superblock on any disk of this machine of the array that @own belongs to: a disk that was removed from the array does
 * not know that.
 */
static const struct ddr_super *newest_of(const struct ddr_scan *scan, const struct ddr_super *own)
{
	const struct ddr_super *best = own;

	for (size_t i = 0; i < scan->n; i++) {
		const struct ddr_super *sb = super_of(&scan->dev[i].supers);

		if (sb && memcmp(sb->array_uuid, own->array_uuid, DDR_UUID_LEN) == 0 &&
		    (sb->generation != best->generation ? sb->generation > best->generation : sb->seq > best->seq))
			best = sb;
	}
	return best;
}

/* Is the disk with this uuid a working member, or a spare? */
static bool is_needed(const struct ddr_super *now, const uint8_t uuid[DDR_UUID_LEN])
{
	for (uint32_t m = 0; m < now->members; m++)
		if (memcmp(now->member[m].uuid, uuid, DDR_UUID_LEN) == 0)
			return now->member[m].state == DDR_MEMBER_IN_SYNC || now->member[m].state == DDR_MEMBER_REBUILDING ||
			       now->member[m].state == DDR_MEMBER_SPARE;
	return false;
}

/* The node that uses the array, or died while using it; 0: none. */
static uint32_t user_of(const struct ddr_super *now, uint32_t alone)
{
	bool ours = alone && !(now->ro_compat & DDR_RO_COMPAT_CLUSTER);

	for (uint32_t s = 0; s < now->slots; s++)
		if (now->slot_node[s] && !(ours && now->slot_node[s] == alone))
			return now->slot_node[s];
	return 0;
}

/* Without a daemon it is unknown. */
static uint32_t ask_alone(void)
{
	struct json_object *data;
	struct ddr_ipc *ipc;
	char why[1200];
	uint32_t id = 0;

	if (!client_reach(&ipc, why, sizeof(why)))
		return 0;
	if (client_try(ipc, client_request("ping", NULL), &data, CLIENT_TIMEOUT_MS, why, sizeof(why))) {
		id = (uint32_t)client_number(data, "alone");
		json_object_put(data);
	}
	ddr_ipc_close(ipc);
	return id;
}

static int check_array(const struct wipe_args *a, const struct ddr_scan *scan, struct wiped *w)
{
	const struct ddr_super *own = super_of(&w->supers), *now;
	char uuid[37];
	uint32_t node;

	if (!own) {
		snprintf(w->is, sizeof(w->is), "%s has ddraid superblocks that are damaged or belong to two arrays", w->dev.path);
		return CLI_DONE;
	}
	now = newest_of(scan, own);
	node = is_needed(now, own->member[own->this_member].uuid) ? user_of(now, a->alone) : 0;
	snprintf(w->is, sizeof(w->is), "%s is member %u of array '%s' (uuid %s)%s", w->dev.path, own->this_member, now->name,
		 cli_format_uuid(own->array_uuid, uuid), is_needed(now, own->member[own->this_member].uuid) ? "" : ", which no longer uses it");
	if (!node || a->overwrite)
		return CLI_DONE;
	return cli_fail("wipe", "%s, which is in use by node %" PRIu32 ", or that node died while using it. Stop the array on all nodes, or remove "
			"the disk from it (ddraid fail, ddraid remove); --overwrite wipes it anyway", w->is, node);
}

static int look_at(const struct wipe_args *a, const struct ddr_scan *scan, const char *path, struct wiped *w)
{
	struct ddr_error err;

	cli_guard_at(path, NULL);
	if (disk_open_own(&w->dev, path, a->files, &err))
		return cli_fail("wipe", "%s", err.text);
	ddr_dev_read_supers(&w->dev, &w->supers, &err);
	if (!has_any(&w->supers) && (w->supers.copy[0].read_failed || w->supers.copy[1].read_failed))
		return cli_fail("wipe", "%s; nothing was changed", err.text);
	if (!has_any(&w->supers))
		return cli_fail("wipe", "%s: it has no ddraid superblock; nothing was changed. wipefs removes the signatures of other programs",
				path);
	return check_array(a, scan, w);
}

/* ---- the work --------------------------------------------------------------------- */

/* Zeroes superblocks that are damaged, and those that cannot be read: rewriting makes a disk replace a bad sector. */
static int zero_damaged(const struct wiped *w, struct ddr_error *err)
{
	for (unsigned int i = 0; i < DDR_SB_COPIES; i++)
		if ((is_damaged(&w->supers, i) || w->supers.copy[i].read_failed) && w->supers.copy[i].offset &&
		    ddr_dev_zero(&w->dev, w->supers.copy[i].offset, DDR_META_BLOCK, err))
			return -1;
	return ddr_dev_sync(&w->dev, err);
}

static int wipe_one(struct wiped *w)
{
	unsigned int places = DDR_DATA_OFFSET_MAX / DDR_DATA_ALIGN + 1;
	struct ddr_error err, none;

	cli_guard_at(w->dev.path, HALF);
	/* behind a superblock that was erased there may be one of an earlier array */
	do {
		if (zero_damaged(w, &err) || create_retire(&w->dev, &err))
			return cli_fail("wipe", "%s; %s", err.text, HALF);
		ddr_dev_read_supers(&w->dev, &w->supers, &none);
	} while (has_any(&w->supers) && places--);
	if (has_any(&w->supers))
		return cli_fail("wipe", "%s: its superblocks were overwritten with zeroes, but it still returns them; do not use this disk",
				w->dev.path);
	if (ddr_dev_drop_cache(&w->dev, &err))
		return cli_fail("wipe", "%s", err.text);
	printf("%s: wiped\n", w->dev.path);
	return CLI_DONE;
}

static int wipe(const struct wipe_args *a, struct wiped *w, const struct ddr_scan *scan)
{
	int rc = CLI_DONE;

	for (size_t i = 0; i < a->n && !rc; i++)
		rc = look_at(a, scan, a->path[i], &w[i]);
	for (size_t i = 0; i < a->n && !rc; i++)
		if (!cli_confirm("wipe", a->yes, "%s; its superblocks will be erased, and the data on it can no longer be used", w[i].is))
			rc = CLI_FAILED;
	for (size_t i = 0; i < a->n && !rc; i++)
		rc = wipe_one(&w[i]);
	return rc ? rc : cli_finish("wipe");
}

static int work(void *ctx)
{
	struct wipe_args *a = ctx;
	struct wiped *w = calloc(a->n, sizeof(*w));
	struct cli_scanner scanner;
	struct ddr_scan scan = { 0 };
	struct ddr_error err;
	int rc;

	if (!w)
		return cli_fail("wipe", "out of memory");
	for (size_t i = 0; i < a->n; i++)
		w[i].dev.fd = -1;
	a->alone = ask_alone();
	if (cli_scanner_open(&scanner, &err))
		rc = cli_fail("wipe", "%s", err.text);
	else {
		rc = cli_scanner_scan(&scanner, "wipe", &scan, &err) ? cli_fail("wipe", "%s", err.text) : wipe(a, w, &scan);
		cli_scanner_close(&scanner);
		ddr_scan_free(&scan);
	}
	for (size_t i = 0; i < a->n; i++)
		ddr_dev_close(&w[i].dev);
	free(w);
	return rc;
}

int cmd_wipe(const struct cli_command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "overwrite", no_argument, NULL, 'o' },
		{ "allow-files", no_argument, NULL, 'f' },
		{ "yes", no_argument, NULL, 'y' },
		{ 0 },
	};
	struct wipe_args args = { 0 };
	int c;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c == 'o')
			args.overwrite = true;
		else if (c == 'f')
			args.files = true;
		else if (c == 'y')
			args.yes = true;
		else
			return cli_bad_option(cmd, c, argv);
	}
	if (argc == optind)
		return cli_usage(cmd, "give the disks to wipe");
	if (argc - optind > MOST)
		return cli_usage(cmd, "more than %d disks", MOST);
	for (int i = optind; i < argc; i++)
		args.path[args.n++] = argv[i];
	return cli_guarded(cmd->name, work, &args);
}
