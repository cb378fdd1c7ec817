// SPDX-License-Identifier: GPL-2.0-or-later
/* ddraid status --check; see check.h. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/check.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/mapped.h"
#include "lib/wire/ipc_fault.h"

bool check_wanted(int argc, char **argv)
{
	static const char option[] = "--check";

	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strlen(argv[i]) > 2 && strncmp(argv[i], option, strlen(argv[i])) == 0)
			return true;
	return false;
}

/* ---- one array -------------------------------------------------------------------- */

struct verdict {
	enum check_exit code;
	char why[512];
};

/* Raises the exit code if @code is worse; all reasons are collected. */
static void worse(struct verdict *v, enum check_exit code, const char *why)
{
	size_t used = strlen(v->why);

	if (code > v->code)
		v->code = code;
	snprintf(v->why + used, sizeof(v->why) - used, "%s%s", used ? ", " : "", why);
}

/* A verify only reads. What it finds is reported by an event, and a bad member fails on its own. */
static void judge_jobs(struct json_object *a, struct verdict *v)
{
	struct json_object *jobs = client_object(a, "jobs");
	char text[64];

	for (size_t i = 0; i < client_length(jobs); i++) {
		struct json_object *job = client_at(jobs, i);
		uint64_t done = client_number(job, "done"), total = client_number(job, "total");

		if (strcmp(client_text(job, "type"), "verify") == 0)
			continue;
		snprintf(text, sizeof(text), "%.16s %.1f %%", client_clean(client_text(job, "type")), total ? (double)done * 100 / (double)total : 0);
		worse(v, CHECK_WARNING, text);
	}
}

static void judge_cluster(struct json_object *a, struct verdict *v)
{
	struct json_object *c = client_object(a, "cluster");

	if (strcmp(client_text(c, "transport"), "local") != 0 && !client_null(c, "quorate") && !client_flag(c, "quorate"))
		worse(v, CHECK_FAILED, "no quorum: I/O is frozen");
	if (!client_null(c, "waits") && strcmp(client_text(c, "waits"), client_text(a, "error")) != 0)
		worse(v, CHECK_WARNING, client_clean(client_text(c, "waits")));
}

/* A state that this release does not know must not be reported as good. */
static struct verdict judge(struct json_object *a)
{
	const char *state = client_text(a, "state"), *error = client_text(a, "error");
	struct verdict v = { .code = CHECK_OPTIMAL };

	if (strcmp(state, "degraded") == 0)
		v.code = CHECK_WARNING;
	else if (strcmp(state, "inactive") == 0 && client_null(a, "error"))
		worse(&v, CHECK_WARNING, "it is being attached");
	else if (client_flag(a, "starting"))
		v.code = CHECK_WARNING;		/* the reason is added below */
	else if (strcmp(state, "optimal") != 0)
		v.code = CHECK_FAILED;
	if (*error)
		worse(&v, CHECK_WARNING, client_clean(error));
	if (strcmp(state, "inactive") == 0)
		return v;
	if (client_flag(a, "suspended"))
		worse(&v, CHECK_FAILED, "SUSPENDED (see ddraid status): all I/O waits");
	if (cli_mapped_hidden(a))
		worse(&v, CHECK_FAILED, "its device is hidden (see ddraid status)");
	judge_cluster(a, &v);
	judge_jobs(a, &v);
	if (!client_null(a, "no_space"))
		worse(&v, CHECK_WARNING, client_clean(client_text(a, "no_space")));
	if (client_length(client_object(a, "suspect")))
		worse(&v, CHECK_WARNING, "suspect regions (see ddraid status)");
	return v;
}

/*
 * The daemon suspends a device for a moment when it loads a table, and a device becomes visible a moment after it is served. So this
 * is checked twice before a monitor raises an alarm.
 */
static void add_mapped(struct json_object *arrays)
{
	const struct timespec pause = { .tv_nsec = CHECK_AGAIN_MS * 1000000L };
	bool again = false;

	cli_mapped_add(arrays);
	for (size_t i = 0; i < client_length(arrays); i++)
		again = again || client_flag(client_at(arrays, i), "suspended") || cli_mapped_hidden(client_at(arrays, i));
	if (!again)
		return;
	nanosleep(&pause, NULL);
	cli_mapped_add(arrays);
}

static enum check_exit judge_all(struct json_object *arrays, bool quiet)
{
	enum check_exit worst = CHECK_OPTIMAL;
	size_t n = 0;

	for (size_t i = 0; i < client_length(arrays); i++) {
		struct json_object *a = client_at(arrays, i);
		struct verdict v = judge(a);

		if (client_flag(a, "elsewhere"))	/* the nodes that serve it say so */
			continue;
		n++;
		if (v.code > worst)
			worst = v.code;
		if (!quiet)
			printf("%s: %s%s%s\n", client_clean(client_text(a, "name")), client_clean(client_text(a, "state")), *v.why ? ", " : "", v.why);
	}
	if (!quiet && n == 0)
		printf("no arrays are started on this node\n");
	return worst;
}

/* ---- asking the daemon ------------------------------------------------------------ */

/* Whatever this process waits for, the monitor gets its answer in time. */
static void out_of_time(int sig)
{
	static const char text[] = "ddraid status: ddraidd did not answer within 5 seconds; see systemctl status ddraidd and journalctl -u ddraidd\n";

	(void)sig;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(CHECK_SILENT);
	_exit(CHECK_SILENT);
}

/* The arrays; or NULL, with *@code set and the reason printed. */
static struct json_object *fetch(const char *name, enum check_exit *code)
{
	struct json_object *data = NULL;
	struct ddr_ipc_fault fault;
	struct ddr_ipc *c;
	char why[1200];
	int ret;

	*code = CHECK_SILENT;
	if (ddr_ipc_connect_within(&c, CHECK_CONNECT_MS, &fault)) {
		cli_fail("status", "%s", ddr_ipc_explain(&fault, why, sizeof(why)));
		return NULL;
	}
	ret = client_ask(c, client_request("status", name), &data, CHECK_ANSWER_MS, why, sizeof(why));
	ddr_ipc_close(c);
	if (ret) {
		cli_fail("status", "%s", why);
		if (ret > 0)		/* the daemon answered: it is not started */
			*code = CHECK_FAILED;
	} else if (!data) {
		cli_fail("status", "ddraidd sent no data: daemon and command are from different releases; systemctl restart ddraidd");
	}
	return data;
}

int check_run(const char *name, bool json)
{
	struct sigaction act = { .sa_handler = out_of_time };
	struct json_object *arrays;
	enum check_exit code;

	sigaction(SIGALRM, &act, NULL);
	alarm(CHECK_LIMIT_S);
	arrays = fetch(name, &code);
	if (!arrays)
		return code;
	add_mapped(arrays);
	code = judge_all(arrays, json);
	if (json)
		cli_print_json(arrays);
	else
		json_object_put(arrays);
	return cli_finish("status") == CLI_DONE ? (int)code : (int)CHECK_SILENT;
}
