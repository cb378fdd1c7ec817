// SPDX-License-Identifier: GPL-2.0-or-later
/* ddraid events: prints the current state, then a line for each change when it happens. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "lib/wire/ipc_fault.h"

#define QUIET_MS	10000	/* without an event for this time, the daemon is asked whether it answers */
#define SILENT_MS	1000	/* and between two questions while it does not */

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

/* What is followed. */
struct follow {
	struct ddr_ipc *c;		/* the events come here */
	bool late;			/* and so may the answer to a question that was given up: further ones go elsewhere */
	bool silent;			/* that the daemon does not answer was reported */
};

/* Is it answered? Else puts the reason into @why. A question changes nothing, so it need not be said that it may still be carried out. */
static bool ping(struct ddr_ipc *c, char *why, size_t size)
{
	struct json_object *request = client_request("ping", NULL), *reply = NULL;
	struct ddr_ipc_fault fault;
	int ret = ddr_ipc_call(c, request, &reply, DDR_IPC_LIMIT_MS);

	json_object_put(request);
	json_object_put(reply);
	if (!ret)
		return true;
	ddr_ipc_failed(c, ret, &fault);
	fault.step = DDR_IPC_WELCOME;
	ddr_ipc_explain(&fault, why, size);
	return false;
}

/* Hours may pass without an event, so the daemon is asked from time to time whether it still answers. Puts the reason into @why if not. */
static bool answers(struct follow *f, char *why, size_t size)
{
	struct ddr_ipc *other = NULL;
	bool ok;

	if (f->late && !client_reach(&other, why, size))
		return false;
	ok = ping(f->late ? other : f->c, why, size);
	f->late |= !ok;
	ddr_ipc_close(other);
	return ok;
}

/* The daemon may be stopped for a while, or have no processor. Its events follow then, so this is no reason to end; if it ends, the connection does. */
static void check(struct follow *f)
{
	char why[1200];
	bool ok = answers(f, why, sizeof(why));

	if (ok && f->silent)
		fprintf(stderr, "ddraid events: ddraidd answers again\n");
	else if (!ok && !f->silent)
		cli_warn("events", "%s; events follow once it answers", why);
	f->silent = !ok;
}

static int follow(struct ddr_ipc *c, bool json)
{
	struct follow f = { .c = c };

	for (;;) {
		struct json_object *e;
		bool lost;
		int ret = ddr_ipc_event(c, &e, f.silent ? SILENT_MS : QUIET_MS);

		if (ret == -ETIMEDOUT) {
			check(&f);
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
