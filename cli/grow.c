// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid grow: grows the array into the space of its members, or a part of it. The daemons do it on all nodes at once; the command
 * prints the result, and what to do next.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/client.h"

#define GROW_TIMEOUT_MS	120000

struct grow {
	const char *name;
	uint64_t size;			/* bytes; 0: as large as possible */
	bool json;
};

static int parse(const struct cli_command *cmd, int argc, char **argv, struct grow *g)
{
	static const struct option options[] = { { "size", required_argument, NULL, 's' }, { "json", no_argument, NULL, 'j' }, { 0 } };
	int c;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c == 's' && (!cli_parse_size(optarg, &g->size) || !g->size || g->size > INT64_MAX))
			return cli_usage(cmd, "'%s' is not a size; give bytes, or a number with K, M, G, T or P", optarg);
		if (c != 's' && c != 'j')
			return cli_bad_option(cmd, c, argv);
		g->json |= c == 'j';
	}
	if (argc - optind != 1)
		return cli_usage(cmd, "give the name of an array");
	g->name = argv[optind];
	return CLI_DONE;
}

static void print(const struct grow *g, struct json_object *data)
{
	uint64_t now = client_number(data, "new");
	char before[32], after[32];

	cli_format_size(client_number(data, "old"), before, sizeof(before));
	cli_format_size(now, after, sizeof(after));
	printf("array '%s' has grown from %s to %s (%" PRIu64 " bytes)\n", g->name, before, after, now);
	if (!g->size && now == client_number(data, "largest"))
		printf("  it cannot grow further: its dirty log and region map are full\n");
	printf("  next: grow the file system, on one node: gfs2_grow or xfs_growfs with its mount point\n");
}

static int ask(struct ddr_ipc *ipc, const struct grow *g)
{
	struct json_object *request = client_request("grow", g->name), *data;

	if (g->size)
		json_object_object_add(request, "size", json_object_new_int64((int64_t)g->size));
	json_object_object_add(request, "timeout_ms", json_object_new_int64(GROW_TIMEOUT_MS));
	if (!client_call(ipc, "grow", request, &data, GROW_TIMEOUT_MS + CLIENT_TIMEOUT_MS))
		return CLI_FAILED;
	if (g->json)
		cli_print_json(json_object_get(data));
	else
		print(g, data);
	json_object_put(data);
	return cli_finish("grow");
}

int cmd_grow(const struct cli_command *cmd, int argc, char **argv)
{
	struct grow g = { 0 };
	struct ddr_ipc *ipc;
	int rc = parse(cmd, argc, argv, &g);

	if (rc)
		return rc;
	ipc = client_connect("grow");
	if (!ipc)
		return CLI_FAILED;
	rc = ask(ipc, &g);
	ddr_ipc_close(ipc);
	return rc;
}
