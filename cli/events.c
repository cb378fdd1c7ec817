// SPDX-License-Identifier: GPL-2.0-or-later
/* ddraid events: prints the current state, then a line for each change when it happens. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/client.h"

#define QUIET_MS	10000	/* without an event for this time, the daemon is asked whether it answers */

static int print_event(struct json_object *e, bool json)
{
	if (json)
		puts(json_object_to_json_string_ext(e, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
	else
		printf("%s %s: %s: %s\n", client_clean(client_text(e, "time")), client_clean(client_text(e, "name")),
		       client_clean(client_text(e, "event")), client_clean(client_text(e, "text")));
	return cli_finish("events");
}

/* For a program one line, for a person one line for each array. */
static int print_state(struct json_object *arrays, bool json)
{
	if (json) {
		struct json_object *o = json_object_new_object();
		int rc;

		json_object_object_add(o, "event", json_object_new_string("state"));
		json_object_object_add(o, "arrays", json_object_get(arrays));
		rc = print_event(o, true);
		json_object_put(o);
		return rc;
	}
	for (size_t i = 0; i < client_length(arrays); i++) {
		struct json_object *a = client_at(arrays, i);

		printf("%s: is %s\n", client_clean(client_text(a, "name")), client_clean(client_text(a, "state")));
	}
	if (client_length(arrays) == 0)
		printf("no arrays are started on this node\n");
	return cli_finish("events");
}

/* Hours may pass without an event, so the daemon is asked from time to time whether it still answers. */
static bool still_there(struct ddr_ipc *c)
{
	struct json_object *data = NULL;
	bool ok = client_call(c, "events", client_request("ping", NULL), &data, DDR_IPC_LIMIT_MS);

	json_object_put(data);
	return ok;
}

static int follow(struct ddr_ipc *c, bool json)
{
	for (;;) {
		struct json_object *e;
		bool lost;
		int ret = ddr_ipc_event(c, &e, QUIET_MS);

		if (ret == -ETIMEDOUT) {
			if (!still_there(c))
				return CLI_FAILED;
			continue;
		}
		if (ret == -ENOTCONN)
			return cli_fail("events", "ddraidd ended; start ddraid events again when it runs again");
		if (ret)
			return cli_fail("events", "cannot read events: %s", strerror(-ret));
		lost = strcmp(client_text(e, "event"), "lost") == 0;
		ret = print_event(e, json);
		json_object_put(e);
		if (lost)
			return cli_fail("events", "this command read events too slowly and lost some; start it again");
		if (ret)
			return ret;
	}
}

int cmd_events(const struct cli_command *cmd, int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ 0 },
	};
	struct json_object *data = NULL;
	struct ddr_ipc *ipc;
	bool json = false;
	int c, rc = CLI_FAILED;

	while ((c = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (c != 'j')
			return cli_bad_option(cmd, c, argv);
		json = true;
	}
	if (optind < argc)
		return cli_usage(cmd, "unexpected argument '%s'", argv[optind]);
	ipc = client_connect("events");
	if (ipc && client_call(ipc, "events", client_request("events", NULL), &data, CLIENT_TIMEOUT_MS)) {
		rc = print_state(data, json);
		json_object_put(data);
		if (rc == CLI_DONE)
			rc = follow(ipc, json);
	}
	ddr_ipc_close(ipc);
	return rc;
}
