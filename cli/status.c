// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid status and when: print what the daemon reports about its arrays, as text or as JSON.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/check.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/job.h"
#include "cli/mapped.h"
#include "lib/wire/ipc_fault.h"
#include "lib/release.h"
#include "lib/disk/format.h"

static const char *size_text(uint64_t bytes, char *buf, size_t size)
{
	return cli_format_size(bytes, buf, size);
}

static void print_member(struct json_object *m)
{
	struct json_object *errors = client_object(m, "errors");
	const char *state = client_null(m, "state") ? "-" : client_clean(client_text(m, "state"));
	char role[16] = "no role";

	if (!client_null(m, "role"))
		snprintf(role, sizeof(role), "role %" PRIu64, client_number(m, "role"));
	printf("  %2" PRIu64 "  %-8s %-11s %s\n", client_number(m, "index"), role, state,
	       client_null(m, "device") ? "-" : client_clean(client_text(m, "device")));
	if (!client_null(m, "reason"))
		printf("      not used: %s\n", client_clean(client_text(m, "reason")));
	if (client_number(errors, "read") || client_number(errors, "write") || client_number(errors, "corrected"))
		printf("      errors: %" PRIu64 " reading, %" PRIu64 " writing, %" PRIu64 " blocks repaired\n", client_number(errors, "read"),
		       client_number(errors, "write"), client_number(errors, "corrected"));
}

/* How many more members may fail without loss of the array. */
static void print_redundancy(struct json_object *a)
{
	uint64_t more = client_number(a, "may_fail");

	if (strcmp(client_text(a, "state"), "failed") == 0)
		printf("  FAILED   %s\n", client_flag(a, "gave_up") ? "on this node only: it stopped serving the array (see the log of ddraidd); "
								      "other nodes may continue" :
		       "more members failed than the parity covers: no I/O until they return");
	else if (strcmp(client_text(a, "state"), "degraded") == 0 && more)
		printf("  DEGRADED one more member may fail\n");
	else if (strcmp(client_text(a, "state"), "degraded") == 0)
		printf("  DEGRADED no other member may fail\n");
}

/* The group has agreed on a size that this node's device does not have yet. */
static void print_sizes(struct json_object *a)
{
	char buf[32];

	if (client_number(a, "device_size") != client_number(a, "size") && client_number(a, "device_size"))
		printf("  size     the device of this node has %s of it; the log of ddraidd shows why\n",
		       size_text(client_number(a, "device_size"), buf, sizeof(buf)));
}

static void print_regions(struct json_object *a)
{
	struct json_object *r = client_object(a, "regions");
	char buf[32];

	printf("  regions  %" PRIu64 " of %s: %" PRIu64 " unwritten, %" PRIu64 " clean, %" PRIu64 " to sync, %"
	       PRIu64 " dirty", client_number(r, "total"), size_text(client_number(a, "region_size"), buf, sizeof(buf)),
	       client_number(r, "unwritten"), client_number(r, "clean"), client_number(r, "needs_sync"),
	       client_number(r, "dirty"));
	if (client_number(r, "suspect"))
		printf(", %" PRIu64 " SUSPECT", client_number(r, "suspect"));
	putchar('\n');
}

static void print_suspect(struct json_object *a)
{
	struct json_object *runs = client_object(a, "suspect");

	for (size_t i = 0; i < client_length(runs); i++) {
		struct json_object *run = client_at(runs, i);
		uint64_t start = json_object_get_uint64(client_at(run, 0));
		uint64_t count = json_object_get_uint64(client_at(run, 1));

		printf("  suspect  regions %" PRIu64 " to %" PRIu64 ": some blocks there may read as garbage\n", start, start + count - 1);
	}
	if (client_length(runs))
		printf("           They were being written at a crash while a data member was missing, or a member was rebuilt from chunks that do not "
		       "match\n           (event mismatch). Neither a rebuild nor verify can tell whether they are right: check what was being written then "
		       "(fsck, the\n           application), or the blocks that the event named. When the data is right, or restored, type\n"
		       "           ddraid set %s suspect=accept\n", client_clean(client_text(a, "name")));
}

static void print_cluster(struct json_object *a)
{
	struct json_object *c = client_object(a, "cluster"), *nodes = client_object(c, "nodes");

	if (strcmp(client_text(c, "transport"), "local") == 0 || strcmp(client_text(a, "state"), "inactive") == 0)
		return;
	printf("  cluster  %s, fencing %s\n", client_flag(c, "quorate") ? "quorate" : "NO QUORUM: I/O is frozen",
	       strcmp(client_text(c, "fencing"), "none") == 0 ? "OFF" : client_clean(client_text(c, "fencing")));
	for (size_t i = 0; i < client_length(nodes); i++) {
		struct json_object *n = client_at(nodes, i);

		printf("  node %-3" PRIu64 " %-16s %s", client_number(n, "id"), client_clean(client_text(n, "name")),
		       client_clean(client_text(n, "state")));
		if (!client_null(n, "slot"))
			printf(", slot %" PRIu64, client_number(n, "slot"));
		if (client_number(n, "id") == client_number(c, "writer"))
			printf(", the writer");		/* writes superblocks and map; rebuilds and verifies */
		puts(client_number(n, "id") == client_number(c, "node") ? " (this one)" : "");
	}
	if (!client_null(c, "waits") && strcmp(client_text(c, "waits"), client_text(a, "error")) != 0)
		printf("  waits    %s\n", client_clean(client_text(c, "waits")));
}

/* Names the device if it does not have the usual name. */
static void print_device(struct json_object *a)
{
	char usual[DDR_NAME_LEN + 16];

	snprintf(usual, sizeof(usual), "/dev/mapper/%s", client_text(a, "name"));
	if (*client_text(a, "device") && strcmp(client_text(a, "device"), usual) != 0)
		printf("  device   %s on this node: it was renamed\n", client_clean(client_text(a, "device")));
}

static void print_wait_elsewhere(struct json_object *a)
{
	printf("array %s is not started on this node\n  waits    %s\n", client_clean(client_text(a, "uuid")), client_clean(client_text(a, "waits")));
}

/* What nodes wait for in arrays that this node does not serve: each array has the same list, so it is printed once. */
static void print_elsewhere(struct json_object *arrays)
{
	struct json_object *list = NULL;

	for (size_t i = 0; i < client_length(arrays) && !client_length(list); i++)
		list = client_object(client_object(client_at(arrays, i), "cluster"), "elsewhere");
	for (size_t i = 0; i < client_length(list); i++) {
		putchar('\n');
		print_wait_elsewhere(client_at(list, i));
	}
}

static void print_array(struct json_object *a)
{
	struct json_object *members = client_object(a, "members"), *jobs = client_object(a, "jobs");
	char buf[32];

	if (client_flag(a, "elsewhere")) {
		print_wait_elsewhere(a);
		return;
	}
	if (client_object(a, "started") && !client_flag(a, "started")) {
		printf("%s: inactive, %s\n  uuid     %s\n  %s    %s\n", client_clean(client_text(a, "name")),
		       client_flag(a, "starting") ? "not started yet" : "could not be started", client_clean(client_text(a, "uuid")),
		       client_flag(a, "starting") ? "waits" : "error", client_clean(client_text(a, "error")));
		return;
	}
	printf("%s: %s, %s, order %" PRIu64 ", parity %" PRIu64 ", %s\n", client_clean(client_text(a, "name")),
	       client_clean(client_text(a, "state")), size_text(client_number(a, "size"), buf, sizeof(buf)),
	       client_number(a, "order"), client_number(a, "parity"), client_clean(client_text(a, "layout")));
	printf("  uuid     %s, generation %" PRIu64 "\n", client_clean(client_text(a, "uuid")), client_number(a, "generation"));
	print_device(a);
	if (!client_null(a, "error"))
		printf("  error    %s\n", client_clean(client_text(a, "error")));
	if (!client_null(a, "no_space"))
		printf("  waits    %s\n", client_clean(client_text(a, "no_space")));
	if (client_flag(a, "suspended"))
		printf("  SUSPENDED all reads and writes wait: dmsetup resume %s lets them continue\n", client_clean(client_text(a, "name")));
	if (cli_mapped_hidden(a))
		printf("  HIDDEN   the array is served, but its device is not visible: ddraid start %s shows it\n", client_clean(client_text(a,
		       "name")));
	if (client_flag(a, "stopping"))
		printf("  stopping a clean stop is in progress: no resync, rebuild or verify runs meanwhile\n");
	print_redundancy(a);
	print_sizes(a);
	for (size_t i = 0; i < client_length(members); i++) {
		struct json_object *m = client_at(members, i);

		/* an unused entry of the table: its member was removed */
		if (!client_null(m, "role") || strcmp(client_text(m, "state"), "missing") != 0)
			print_member(m);
	}
	if (!client_null(client_object(a, "cluster"), "unseen"))
		printf("  disks    %s\n", client_clean(client_text(client_object(a, "cluster"), "unseen")));
	if (strcmp(client_text(a, "state"), "inactive") != 0)
		print_regions(a);
	print_cluster(a);
	print_suspect(a);
	for (size_t i = 0; i < client_length(jobs); i++)
		job_print(a, client_at(jobs, i));
}

/* The releases of the daemon, the module and this command. */
static void look_at_release(struct ddr_ipc *c, struct ddr_release *r)
{
	struct json_object *data = NULL;
	struct ddr_process p;
	char error[1200];

	ddr_release_look(r, DDR_RELEASE_MODULE);
	r->pid = ddr_ipc_pid(c);
	r->replaced = ddr_process_look(&p, r->pid) && p.replaced;
	if (client_try(c, client_request("ping", NULL), &data, CLIENT_TIMEOUT_MS, error, sizeof(error)))
		snprintf(r->daemon, sizeof(r->daemon), "%s", client_clean(client_text(data, "version")));
	json_object_put(data);
}

/* The arrays as the daemon describes them, or NULL, and the reason was printed. @r (may be NULL): the releases of what runs. */
static struct json_object *fetch(const char *what, const char *name, struct ddr_release *r)
{
	struct ddr_ipc *c = client_connect(what);
	struct json_object *data = NULL;

	if (c && client_call(c, what, client_request("status", name), &data, CLIENT_TIMEOUT_MS) && !data)
		cli_fail(what, "ddraidd sent no data: daemon and command are from different releases; systemctl restart ddraidd");
	if (data && r)
		look_at_release(c, r);
	ddr_ipc_close(c);
	return data;
}

static struct json_object *text_or_null(const char *text)
{
	return *text ? json_object_new_string(text) : NULL;
}

static void add_releases(struct json_object *arrays, const struct ddr_release *r, const char *warning)
{
	for (size_t i = 0; i < client_length(arrays); i++) {
		struct json_object *o = json_object_new_object();

		json_object_object_add(o, "installed", text_or_null(r->ours));
		json_object_object_add(o, "daemon", text_or_null(r->daemon));
		json_object_object_add(o, "module", text_or_null(r->module));
		json_object_object_add(o, "warning", text_or_null(warning));
		if (json_object_is_type(client_at(arrays, i), json_type_object))
			json_object_object_add(client_at(arrays, i), "releases", o);
		else
			json_object_put(o);
	}
}

struct asked {
	const char *name;	/* NULL: all arrays */
	bool json, check;
};

/* The options of both commands, [NAME] [--json], and status --check. Returns a usage error, or CLI_DONE. */
static int parse(const struct cli_command *cmd, int argc, char **argv, struct asked *asked)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "check", no_argument, NULL, 'c' },
		{ 0 },
	};
	int c;

	*asked = (struct asked){ 0 };
	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c == 'j')
			asked->json = true;
		else if (c == 'c' && strcmp(cmd->name, "status") == 0)
			asked->check = true;
		else
			return c == 'c' ? cli_usage(cmd, "--check belongs to ddraid status") : cli_bad_option(cmd, c, argv);
	}
	if (argc - optind > 1)
		return cli_usage(cmd, "give the name of one array, or none for all");
	asked->name = argv[optind];
	return CLI_DONE;
}

int cmd_status(const struct cli_command *cmd, int argc, char **argv)
{
	struct json_object *data;
	bool check = check_wanted(argc, argv);
	struct ddr_release r;
	struct asked asked;
	char warning[600];

	if (parse(cmd, argc, argv, &asked))
		return check ? CHECK_USAGE : CLI_USAGE;
	if (asked.check)
		return check_run(asked.name, asked.json);
	data = fetch("status", asked.name, &r);
	if (!data)
		return CLI_FAILED;
	cli_mapped_add(data);
	if (*ddr_release_words(&r, warning, sizeof(warning)))
		cli_warn("status", "%s", warning);
	if (asked.json) {
		add_releases(data, &r, warning);
		cli_print_json(data);
		return cli_finish("status");
	}
	for (size_t i = 0; i < client_length(data); i++) {
		if (i)
			putchar('\n');
		print_array(client_at(data, i));
	}
	print_elsewhere(data);
	if (client_length(data) == 0)
		printf("no arrays are started on this node\n");
	json_object_put(data);
	return cli_finish("status");
}

/* Moves the jobs of all arrays into one list, each with the name of its array. */
static struct json_object *collect_jobs(struct json_object *arrays)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < client_length(arrays); i++) {
		struct json_object *a = client_at(arrays, i), *jobs = client_object(a, "jobs");

		for (size_t k = 0; k < client_length(jobs); k++) {
			struct json_object *job = json_object_get(client_at(jobs, k));

			if (!json_object_is_type(job, json_type_object)) {
				json_object_put(job);
				continue;
			}
			json_object_object_add(job, "name", json_object_new_string(client_text(a, "name")));
			json_object_array_add(list, job);
		}
	}
	return list;
}

static void print_jobs(struct json_object *arrays)
{
	size_t n = 0;

	for (size_t i = 0; i < client_length(arrays); i++) {
		struct json_object *a = client_at(arrays, i), *jobs = client_object(a, "jobs");

		if (client_length(jobs))
			printf("%s:\n", client_clean(client_text(a, "name")));
		for (size_t k = 0; k < client_length(jobs); k++, n++)
			job_print(a, client_at(jobs, k));
	}
	if (n == 0)
		printf("nothing is running\n");
}

int cmd_when(const struct cli_command *cmd, int argc, char **argv)
{
	struct json_object *data;
	struct asked asked;
	int rc = parse(cmd, argc, argv, &asked);

	if (rc)
		return rc;
	data = fetch("when", asked.name, NULL);
	if (!data)
		return CLI_FAILED;
	if (asked.json)
		cli_print_json(collect_jobs(data));
	else
		print_jobs(data);
	json_object_put(data);
	return cli_finish("when");
}
