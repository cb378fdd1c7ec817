// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid verify: starts, pauses and stops the comparison of parity and data, and shows its progress. The daemons do the work;
 * it continues no matter which node the command runs on, and over restarts.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/job.h"

struct verify {
	const char *name, *action;
	uint64_t priority;		/* 0: as configured */
	bool repair, json;
};

static int parse(const struct cli_command *cmd, int argc, char **argv, struct verify *v)
{
	static const struct option options[] = {
		{ "priority", required_argument, NULL, 'p' }, { "repair", no_argument, NULL, 'r' }, { "json", no_argument, NULL, 'j' }, { 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c == 'p' && !cli_parse_uint(optarg, 1, 5, &v->priority))
			return cli_usage(cmd, "the priority must be 1 (verify first) to 5 (everything else first), not '%s'", optarg);
		if (c != 'p' && c != 'r' && c != 'j')
			return cli_bad_option(cmd, c, argv);
		v->repair |= c == 'r';
		v->json |= c == 'j';
	}
	if (argc - optind != 2)
		return cli_usage(cmd, "give the name of an array, and start, pause, stop or status");
	v->name = argv[optind];
	v->action = argv[optind + 1];
	if (strcmp(v->action, "start") && strcmp(v->action, "pause") && strcmp(v->action, "stop") && strcmp(v->action, "status"))
		return cli_usage(cmd, "'%s' is not start, pause, stop or status", v->action);
	if (strcmp(v->action, "start") && (v->priority || v->repair))
		return cli_usage(cmd, "--priority and --repair belong to start; a paused verify is resumed with its own");
	if (strcmp(v->action, "status") && v->json)
		return cli_usage(cmd, "--json belongs to status");
	return CLI_DONE;
}

static void print_next(struct json_object *verify)
{
	char buf[64];

	if (!strcmp(client_text(verify, "state"), "idle") && !client_null(verify, "due"))
		printf("  the next one is due %s\n", cli_format_time(client_number(verify, "due"), buf, sizeof(buf)));
	if (!client_null(verify, "waits"))
		printf("  it waits: %s\n", client_clean(client_text(verify, "waits")));
}

static void print_last(struct json_object *verify)
{
	char buf[64];

	if (client_null(verify, "begun")) {
		printf("never verified\n");
		print_next(verify);
		return;
	}
	printf("%s, begun %s", client_clean(client_text(verify, "state")), cli_format_time(client_number(verify, "begun"), buf, sizeof(buf)));
	if (!client_null(verify, "ended"))
		printf(", last ended %s", cli_format_time(client_number(verify, "ended"), buf, sizeof(buf)));
	printf("\n  %" PRIu64 " blocks did not match or could not be read, %" PRIu64 " of them repaired\n", client_number(verify, "found"),
	       client_number(verify, "repaired"));
	print_next(verify);
}

static void print_suspect(struct json_object *array)
{
	uint64_t regions = client_number(client_object(array, "regions"), "suspect");

	if (regions)
		printf("  %" PRIu64 " suspect regions are skipped; ddraid status %s lists them, and what to do\n", regions,
		       client_clean(client_text(array, "name")));
}

/* Where it is, how many blocks, on which member, and whether it was repaired. */
static void print_finding(struct json_object *f)
{
	uint64_t first = client_number(f, "first_block"), found = client_number(f, "found");
	char buf[64];

	printf("  %s  %" PRIu64 " %s of %" PRIu64 " to %" PRIu64 " (byte %" PRIu64 "): ", cli_format_time(client_number(f, "time"), buf, sizeof(buf)), found,
	       found == 1 ? "block" : "blocks", first, first + client_number(f, "blocks") - 1, client_number(f, "position"));
	if (client_null(f, "member"))
		printf("%s", client_flag(f, "repaired") ? "repaired" : "not changed");
	else
		printf("repaired on member %" PRIu64, client_number(f, "member"));
	if (!client_null(f, "text"))
		printf("; %s", client_clean(client_text(f, "text")));
	putchar('\n');
}

static void print_status(struct json_object *array, struct json_object *findings)
{
	struct json_object *jobs = client_object(array, "jobs");

	printf("%s: ", client_clean(client_text(array, "name")));
	print_last(client_object(array, "verify"));
	print_suspect(array);
	for (size_t i = 0; i < client_length(jobs); i++) {
		struct json_object *job = client_at(jobs, i);

		if (!strcmp(client_text(job, "type"), "verify"))
			job_print(array, job);
	}
	if (client_length(findings))
		printf("  the last ones found by this node:\n");
	for (size_t i = 0; i < client_length(findings); i++)
		print_finding(client_at(findings, i));
}

static int show(struct ddr_ipc *ipc, const struct verify *v)
{
	struct json_object *data, *array, *findings = NULL;

	if (!client_call(ipc, "verify", client_request("status", v->name), &data, CLIENT_TIMEOUT_MS))
		return CLI_FAILED;
	array = client_at(data, 0);
	if (!array || !client_object(array, "verify")) {
		json_object_put(data);
		return cli_fail("verify", "array '%s' is not running on this node; ddraid status shows why", v->name);
	}
	if (!client_call(ipc, "verify", client_request("findings", v->name), &findings, CLIENT_TIMEOUT_MS)) {
		json_object_put(data);
		return CLI_FAILED;
	}
	if (v->json) {
		json_object_object_add(client_object(array, "verify"), "findings", json_object_get(findings));
		cli_print_json(json_object_get(client_object(array, "verify")));
	} else {
		print_status(array, findings);
	}
	json_object_put(findings);
	json_object_put(data);
	return cli_finish("verify");
}

static int ask(struct ddr_ipc *ipc, const struct verify *v)
{
	struct json_object *request = client_request("verify", v->name), *data;

	json_object_object_add(request, "action", json_object_new_string(v->action));
	if (v->priority)
		json_object_object_add(request, "priority", json_object_new_int64((int64_t)v->priority));
	if (v->repair)
		json_object_object_add(request, "repair", json_object_new_boolean(true));
	if (!client_call(ipc, "verify", request, &data, 2 * CLIENT_TIMEOUT_MS))
		return CLI_FAILED;
	json_object_put(data);
	if (!strcmp(v->action, "start"))
		printf("verify of array '%s' is running; ddraid verify %s status shows its progress\n", v->name, v->name);
	else
		printf("verify of array '%s' is %s\n", v->name, strcmp(v->action, "stop") ? "paused" : "stopped");
	return cli_finish("verify");
}

int cmd_verify(const struct cli_command *cmd, int argc, char **argv)
{
	struct verify v = { 0 };
	struct ddr_ipc *ipc;
	int rc = parse(cmd, argc, argv, &v);

	if (rc)
		return rc;
	ipc = client_connect("verify");
	if (!ipc)
		return CLI_FAILED;
	rc = strcmp(v.action, "status") ? ask(ipc, &v) : show(ipc, &v);
	ddr_ipc_close(ipc);
	return rc;
}
