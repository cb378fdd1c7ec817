// SPDX-License-Identifier: GPL-2.0-or-later
/* What `ddraid status` and `when` print of a daemon's answer, including an answer that no daemon should give. */
#include <errno.h>
#include <getopt.h>
#include <unistd.h>

#include "tests/unit/fixture.h"
#include "cli/check.h"
#include "cli/cli.h"
#include "cli/dm.h"
#include "lib/dm.h"
#include "lib/wire/ipc.h"
#include "lib/wire/ipc_fault.h"

/* ---- the daemon ------------------------------------------------------------------ */

static struct {
	const char *reply;	/* JSON with ' for " */
	const char *release;	/* the daemon's; NULL: this one's */
	int error;
	bool terminal, json, check;
	char cmd[16];		/* of the request */
	char *text;		/* what was printed */
	size_t len;
} play;

int ddr_ipc_connect(struct ddr_ipc **out, struct ddr_ipc_fault *fault)
{
	(void)fault;
	*out = (struct ddr_ipc *)&play;
	return 0;
}

int ddr_ipc_connect_within(struct ddr_ipc **out, int limit_ms, struct ddr_ipc_fault *fault)
{
	assert_true(limit_ms > 0 && limit_ms < 5000);
	return ddr_ipc_connect(out, fault);
}

void ddr_ipc_failed(const struct ddr_ipc *c, int error, struct ddr_ipc_fault *fault)
{
	assert_ptr_equal(c, &play);
	*fault = (struct ddr_ipc_fault){ .step = DDR_IPC_TALK, .error = error };
}

void ddr_ipc_close(struct ddr_ipc *c)
{
	assert_ptr_equal(c, &play);
}

pid_t ddr_ipc_pid(const struct ddr_ipc *c)
{
	assert_ptr_equal(c, &play);
	return getpid();
}

static struct json_object *answer_ping(void)
{
	struct json_object *reply = json_object_new_object(), *data = json_object_new_object();

	json_object_object_add(data, "version", json_object_new_string(play.release ? play.release : PACKAGE_VERSION));
	json_object_object_add(reply, "rc", json_object_new_int(0));
	json_object_object_add(reply, "data", data);
	return reply;
}

int ddr_ipc_call(struct ddr_ipc *c, struct json_object *request, struct json_object **reply, int timeout_ms)
{
	char *text;

	assert_ptr_equal(c, &play);
	assert_true(timeout_ms > 0);
	if (strcmp(json_object_get_string(json_object_object_get(request, "cmd")), "ping") == 0) {
		*reply = answer_ping();
		return 0;
	}
	snprintf(play.cmd, sizeof(play.cmd), "%s", json_object_get_string(json_object_object_get(request, "cmd")));
	if (play.error)
		return play.error;
	text = strdup(play.reply);
	assert_non_null(text);
	for (char *p = text; *p; p++)
		*p = *p == '\'' ? '"' : *p;
	*reply = json_tokener_parse(text);
	assert_non_null(*reply);
	free(text);
	return 0;
}

/* What device-mapper reports of the array, if it is asked by this name. */
static struct cli_dm_info mapped;
static unsigned int looks, passes_at;	/* how often the device was looked at; after how many looks it is not suspended any more */

void ddr_dm_init(void)
{
}

int cli_dm_find_array(const char *uuid, struct cli_dm_info *info, struct ddr_error *err)
{
	(void)err;
	looks++;
	memset(info, 0, sizeof(*info));
	if (*uuid && strcmp(uuid, mapped.uuid) == 0)
		*info = mapped;
	if (looks == passes_at)
		mapped.suspended = false;
	return 0;
}

int __wrap_isatty(int fd);

int __wrap_isatty(int fd)
{
	assert_int_equal(fd, STDOUT_FILENO);
	return play.terminal;
}

/* Runs `status`, or another command, against a daemon that answers @reply. Returns the exit code; the output is in play.text. */
static int ask(int (*run)(const struct cli_command *cmd, int argc, char **argv), const char *reply)
{
	static const struct cli_command cmd = { .name = "status" };
	char name[] = "status", json[] = "--json", check[] = "--check", *argv[] = { name, play.json ? json : play.check ? check : NULL, NULL };
	FILE *out = stdout;
	int rc;

	free(play.text);
	play.reply = reply;
	stdout = open_memstream(&play.text, &play.len);
	assert_non_null(stdout);
	optind = 0;
	rc = run(&cmd, 1 + (play.json || play.check), argv);
	fclose(stdout);
	stdout = out;
	return rc;
}

static void says(const char *text)
{
	if (!strstr(play.text, text))
		fail_msg("no \"%s\" in:\n%s", text, play.text);
}

static void does_not_say(const char *text)
{
	if (strstr(play.text, text))
		fail_msg("\"%s\" in:\n%s", text, play.text);
}

/* ---- tests ----------------------------------------------------------------------- */

#define NODES	"'nodes': [{'id': 1, 'name': 'n1', 'state': 'active', 'slot': 0}, {'id': 2, 'name': 'n2', 'state': 'active', 'slot': 1}]"
#define CLUSTER	"'cluster': {'transport': 'corosync', 'fencing': 'command', 'quorate': true, 'node': 1, 'writer': 2, " NODES "}"
#define ARRAY	"'name': 'data', 'state': 'rebuilding', 'size': 1073741824, 'device_size': 1073741824, " CLUSTER
#define REPLY(rest) "{'rc': 0, 'data': [{" ARRAY ", " rest "}]}"
#define WORK	"'type': 'rebuild', 'done': 268435456, 'total': 1073741824, 'position': 536870912, 'mismatches': 0, 'member': 3"

/* Only the node that runs a job knows its settings. The others know its rate after they have received its progress twice. */
static void a_job_of_another_node_may_have_no_rate(void **state)
{
	(void)state;
	assert_int_equal(ask(cmd_status, REPLY("'jobs': [{" WORK ", 'node': 2, 'rate': null, 'eta': null, 'paused': null, 'priority': null, 'waits': null}]")), CLI_DONE);
	assert_string_equal(play.cmd, "status");
	says("  rebuild   25.0 %\n");
	says("256 MiB of 1 GiB, onto member 3\n");
	says("running on n2; speed not known yet\n");
	does_not_say("left");
	does_not_say("priority");
	does_not_say("paused");
	does_not_say("waits");
	assert_int_equal(ask(cmd_when, REPLY("'jobs': [{" WORK ", 'node': 2, 'rate': 4194304, 'eta': 192, 'paused': null, 'priority': null, 'waits': null}]")), CLI_DONE);
	says("  rebuild   25.0 %, 4 MiB/s, 3 min left\n");
	says("running on n2; speed from its last report\n");
}

static void a_job_of_this_node_shows_all_its_figures(void **state)
{
	(void)state;
	assert_int_equal(ask(cmd_when, REPLY("'jobs': [{" WORK ", 'node': 1, 'rate': 4194304, 'eta': 192, 'paused': false, 'priority': 3, 'replaces': 4,"
			 " 'waits': 'for a bad sector'}]")), CLI_DONE);
	says("data:\n  rebuild   25.0 %, 4 MiB/s, 3 min left\n");
	says("onto member 3 for member 4, priority 3\n");
	says("waits: for a bad sector\n");
	does_not_say("running on n");
	does_not_say("[");
	play.terminal = true;
	assert_int_equal(ask(cmd_when, REPLY("'jobs': [{" WORK ", 'node': 1, 'paused': true, 'rate': 4194304}]")), CLI_DONE);
	play.terminal = false;
	says("[######..................]  25.0 %, paused\n");
	does_not_say("/s");
}

static void status_tells_a_node_that_stopped_serving_from_a_failed_array(void **state)
{
	(void)state;
	assert_int_equal(ask(cmd_status, "{'rc': 0, 'data': [{'name': 'data', 'state': 'failed', 'gave_up': true, 'may_fail': 0}]}"), CLI_DONE);
	says("FAILED   on this node only");
	assert_int_equal(ask(cmd_status, "{'rc': 0, 'data': [{'name': 'data', 'state': 'failed', 'gave_up': false, 'may_fail': 0}]}"), CLI_DONE);
	says("FAILED   more members failed than the parity covers");
	assert_int_equal(ask(cmd_status, "{'rc': 0, 'data': [{'name': 'data', 'state': 'degraded', 'may_fail': 1}]}"), CLI_DONE);
	says("DEGRADED one more member may fail\n");
	assert_int_equal(ask(cmd_status, "{'rc': 0, 'data': [{'name': 'data', 'state': 'degraded', 'may_fail': 0}]}"), CLI_DONE);
	says("DEGRADED no other member may fail\n");
}

static void status_shows_what_the_cluster_waits_for(void **state)
{
	(void)state;
	assert_int_equal(ask(cmd_status, "{'rc': 0, 'data': [{'name': 'data', 'state': 'clean', 'stopping': true, 'cluster': {'transport': 'corosync', 'fencing': 'none',"
			 " 'quorate': false, 'waits': 'n3 (node 3) is fenced', 'unseen': 'n2 does not see the disk of member 1', 'nodes': []}}]}"), CLI_DONE);
	says("  cluster  NO QUORUM: I/O is frozen, fencing OFF\n");
	says("  waits    n3 (node 3) is fenced\n");
	says("  disks    n2 does not see the disk of member 1\n");
	says("  stopping a clean stop is in progress");
	assert_int_equal(ask(cmd_status, "{'rc': 0, 'data': [{'name': 'ee-1', 'uuid': 'ee-1', 'state': 'inactive', 'started': false, 'elsewhere': true, 'waits': 'n3 is fenced'}]}"), CLI_DONE);
	assert_string_equal(play.text, "array ee-1 is not started on this node\n  waits    n3 is fenced\n");
	/* what waits for space, for which member, and what to do */
	assert_int_equal(ask(cmd_status, "{'rc': 0, 'data': [{'name': 'data', 'state': 'optimal', 'no_space': 'member 2 (sdb) has no space left: writes wait'}]}"), CLI_DONE);
	says("  waits    member 2 (sdb) has no space left: writes wait\n");
}

static void members_are_listed_and_free_entries_are_not(void **state)
{
	(void)state;
	assert_int_equal(ask(cmd_status, REPLY("'members': [{'index': 0, 'role': 0, 'state': 'in-sync', 'device': '/dev/sda', 'errors': {'read': 1, 'write': 2, 'corrected': 3}},"
			 "{'index': 1, 'role': null, 'state': 'missing', 'device': null}, {'index': 2, 'role': 1, 'state': 'missing', 'device': null},"
			 "{'index': 3, 'role': null, 'state': 'spare', 'device': '/dev/sdd'}], 'suspect': [[7, 2]]")), CLI_DONE);
	says("   0  role 0   in-sync     /dev/sda\n      errors: 1 reading, 2 writing, 3 blocks repaired\n");
	does_not_say("   1  no role");
	says("   2  role 1   missing     -\n");
	says("   3  no role  spare       /dev/sdd\n");
	says("suspect  regions 7 to 8:");
}

/* Finding S25: the way out of suspect regions was in the manual alone. */
static void suspect_regions_come_with_the_command_to_type(void **state)
{
	(void)state;
	assert_int_equal(ask(cmd_status, REPLY("'suspect': [[7, 2], [11, 1]]")), CLI_DONE);
	says("regions 11 to 11: some blocks there may read as garbage\n           They were being written at a crash while a data member was missing, or");
	says("           ddraid set data suspect=accept\n");
	assert_int_equal(ask(cmd_status, REPLY("'suspect': []")), CLI_DONE);
	does_not_say("suspect=accept");
}

/* Finding S33: after an upgrade the old daemon kept running, and nothing reported that. */
static void a_daemon_of_another_release_is_told(void **state)
{
	(void)state;
	play.json = true;
	play.release = "0.0.9";
	assert_int_equal(ask(cmd_status, REPLY("'jobs': []")), CLI_DONE);
	says("\"daemon\": \"0.0.9\"");
	says("is release 0.0.9, but " PACKAGE_VERSION " is installed; systemctl restart ddraidd starts the installed one, and the arrays stay up");
	play.release = NULL;
	assert_int_equal(ask(cmd_status, REPLY("'jobs': []")), CLI_DONE);
	says("\"daemon\": \"" PACKAGE_VERSION "\"");
	says("\"warning\": null");
	play.json = false;
}

#define IS(state)	"{'rc': 0, 'data': [{'name': 'data', 'state': '" state "'}]}"
#define OPTIMAL(rest)	"{'rc': 0, 'data': [{'name': 'data', 'state': 'optimal', " rest "}]}"

/* Finding S21: status ended with 0 for an array that had failed. A state that is not known is not good. */
static void check_mode_has_exit_codes(void **state)
{
	static const struct {
		const char *reply;
		int code;
		const char *text;
	} cases[] = {
		{ IS("optimal"), CHECK_OPTIMAL, "data: optimal\n" },
		{ IS("degraded"), CHECK_WARNING, "data: degraded\n" },
		{ IS("failed"), CHECK_FAILED, "data: failed\n" },
		{ IS("inactive"), CHECK_WARNING, "data: inactive, it is being attached\n" },
		{ "{'rc': 0, 'data': [{'name': 'data', 'state': 'inactive', 'error': 'members are gone'}]}", CHECK_FAILED, "data: inactive, members are gone\n" },
		{ "{'rc': 0, 'data': [{'name': 'data', 'state': 'inactive', 'started': false, 'starting': true, 'error': 'has no disk for member 1 yet'}]}", CHECK_WARNING,
		  "data: inactive, has no disk for member 1 yet\n" },
		{ IS("none of ours"), CHECK_FAILED, "data: none of ours\n" },
		{ "{'rc': 0, 'data': [17]}", CHECK_FAILED, ": \n" },
		{ OPTIMAL("'jobs': [{'type': 'verify', 'done': 1, 'total': 4}]"), CHECK_OPTIMAL, "data: optimal\n" },
		{ OPTIMAL("'jobs': [{'type': 'resync', 'done': 1, 'total': 4}]"), CHECK_WARNING, "data: optimal, resync 25.0 %\n" },
		{ OPTIMAL("'no_space': 'member 2 has no space left'"), CHECK_WARNING, "data: optimal, member 2 has no space left\n" },
		{ OPTIMAL("'suspect': [[7, 2]]"), CHECK_WARNING, "data: optimal, suspect regions" },
		{ OPTIMAL("'cluster': {'transport': 'local', 'quorate': false}"), CHECK_OPTIMAL, "data: optimal\n" },
		{ OPTIMAL("'cluster': {'transport': 'corosync', 'quorate': true, 'waits': 'n3 is fenced'}"), CHECK_WARNING, "data: optimal, n3 is fenced\n" },
		{ OPTIMAL("'cluster': {'transport': 'corosync', 'quorate': false}"), CHECK_FAILED, "data: optimal, no quorum" },
		{ "{'rc': 0, 'data': [{'name': 'a', 'state': 'optimal'}, {'name': 'b', 'state': 'failed'}, {'name': 'c', 'state': 'degraded'}]}", CHECK_FAILED,
		  "a: optimal\nb: failed\nc: degraded\n" },
		{ "{'rc': 0, 'data': []}", CHECK_OPTIMAL, "no arrays are started on this node\n" },
		/* the nodes that serve it say so */
		{ "{'rc': 0, 'data': [{'name': 'ee-1', 'state': 'inactive', 'started': false, 'elsewhere': true, 'waits': 'n3 is fenced'}]}", CHECK_OPTIMAL,
		  "no arrays are started on this node\n" },
		{ "{'rc': 1, 'error': 'no such array'}", CHECK_FAILED, "" },
		{ "{'rc': 0}", CHECK_SILENT, "" },
	};

	(void)state;
	play.check = true;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int rc = ask(cmd_status, cases[i].reply);

		if (rc != cases[i].code)
			fail_msg("%d for %s", rc, cases[i].reply);
		says(cases[i].text);
	}
	play.error = -ETIMEDOUT;
	assert_int_equal(ask(cmd_status, IS("optimal")), CHECK_SILENT);
	play.error = 0;
	play.check = false;
}

/*
 * Finding S28: an array that was suspended by hand is reported as suspended, with the command that resumes it; the device of another
 * array does not count.
 */
static void a_suspended_array_says_so(void **state)
{
	(void)state;
	mapped.exists = mapped.suspended = mapped.live = true;
	snprintf(mapped.name, sizeof(mapped.name), "renamed");
	snprintf(mapped.uuid, sizeof(mapped.uuid), "u-2");
	assert_int_equal(ask(cmd_status, REPLY("'uuid': 'u-1'")), CLI_DONE);
	does_not_say("SUSPENDED");
	snprintf(mapped.uuid, sizeof(mapped.uuid), "u-1");
	assert_int_equal(ask(cmd_status, REPLY("'uuid': 'u-1'")), CLI_DONE);
	says("SUSPENDED all reads and writes wait: dmsetup resume data lets them continue\n");
	play.json = true;
	assert_int_equal(ask(cmd_status, REPLY("'uuid': 'u-1'")), CLI_DONE);
	says("\"suspended\": true");
	mapped.suspended = false;
	assert_int_equal(ask(cmd_status, REPLY("'uuid': 'u-1'")), CLI_DONE);
	says("\"suspended\": false");
	play.json = false;
	memset(&mapped, 0, sizeof(mapped));
}

/* Findings S28, S21: a monitor hears of it too, but not of the moment in which the daemon loads a table. */
static void a_monitor_hears_of_a_suspended_array(void **state)
{
	(void)state;
	play.check = true;
	mapped.exists = mapped.suspended = mapped.live = true;
	snprintf(mapped.uuid, sizeof(mapped.uuid), "u-1");
	assert_int_equal(ask(cmd_status, OPTIMAL("'uuid': 'u-1'")), CHECK_FAILED);
	says("data: optimal, SUSPENDED (see ddraid status): all I/O waits\n");
	looks = 0;
	passes_at = 1;
	assert_int_equal(ask(cmd_status, OPTIMAL("'uuid': 'u-1'")), CHECK_OPTIMAL);
	assert_int_equal(looks, 2);
	passes_at = 0;
	play.check = false;
	memset(&mapped, 0, sizeof(mapped));
}

/*
 * Finding S42: a start that was interrupted before it created the device node left an array whose status was optimal but which could
 * not be seen.
 */
static void a_member_whose_device_was_never_seen_is_shown(void **state)
{
	(void)state;
	mapped.exists = true;
	snprintf(mapped.uuid, sizeof(mapped.uuid), "u-1");
	assert_int_equal(ask(cmd_status, OPTIMAL("'uuid': 'u-1', 'ready': true")), CLI_DONE);
	says("HIDDEN   the array is served, but its device is not visible: ddraid start data shows it\n");
	assert_int_equal(ask(cmd_status, OPTIMAL("'uuid': 'u-1', 'ready': false")), CLI_DONE);
	does_not_say("HIDDEN");			/* it waits, and says for what */
	play.check = true;
	assert_int_equal(ask(cmd_status, OPTIMAL("'uuid': 'u-1', 'ready': true")), CHECK_FAILED);
	play.check = false;
	mapped.live = true;
	assert_int_equal(ask(cmd_status, OPTIMAL("'uuid': 'u-1', 'ready': true")), CLI_DONE);
	does_not_say("HIDDEN");
	memset(&mapped, 0, sizeof(mapped));
}

static void status_and_when_say_that_there_is_nothing(void **state)
{
	(void)state;
	assert_int_equal(ask(cmd_status, "{'rc': 0, 'data': []}"), CLI_DONE);
	assert_string_equal(play.text, "no arrays are started on this node\n");
	assert_int_equal(ask(cmd_when, REPLY("'jobs': []")), CLI_DONE);
	assert_string_equal(play.text, "nothing is running\n");
}

/* No text from a daemon moves the cursor, and no value of a wrong type is accepted. */
static void malformed_answers_of_the_daemon_are_harmless(void **state)
{
	static const char *const replies[] = {
		"{'rc': 0, 'data': [{'name': 7, 'state': [], 'members': {}, 'jobs': 'x', 'cluster': 3, 'regions': null, 'suspect': [3, [], ['a', 'b']]}]}",
		"{'rc': 0, 'data': [null, 3, 'x', []]}",
		"{'rc': 0, 'data': [{'members': [null, 'x', {'role': 'x', 'index': -5, 'state': null}], 'jobs': [null, {'done': 9, 'total': 0}, {'done': 9, 'total': 3}]}]}",
		"{'rc': 0, 'data': {'name': 'data'}}",
	};

	(void)state;
	assert_int_equal(ask(cmd_status, "{'rc': 0, 'data': [{'name': 'da\\u001b[2Jta', 'state': 'cle\\nan', 'error': '\\u0007'}]}"), CLI_DONE);
	says("da?[2Jta: cle?an");
	play.terminal = true;
	for (size_t i = 0; i < sizeof(replies) / sizeof(replies[0]); i++) {
		assert_int_equal(ask(cmd_status, replies[i]), CLI_DONE);
		assert_int_equal(ask(cmd_when, replies[i]), CLI_DONE);
		play.json = true;
		assert_int_equal(ask(cmd_when, replies[i]), CLI_DONE);
		play.json = false;
	}
	play.terminal = false;
}

static void a_refusal_is_the_exit_code(void **state)
{
	(void)state;
	assert_int_equal(ask(cmd_status, "{'rc': 1, 'error': 'no such array'}"), CLI_FAILED);
	assert_string_equal(play.text, "");
	assert_int_equal(ask(cmd_status, "{'rc': 0}"), CLI_FAILED);
	assert_int_equal(ask(cmd_status, "{'error': 'no such array'}"), CLI_FAILED);
	play.error = -ETIMEDOUT;
	assert_int_equal(ask(cmd_status, "{}"), CLI_FAILED);
	play.error = 0;
}

static int forget(void **state)
{
	(void)state;
	free(play.text);
	return 0;
}

/* Finding U9: any 64-bit value may be on a disk where a date should be. */
static void a_malformed_date_is_harmless(void **state)
{
	char text[64];

	(void)state;
	setenv("TZ", "UTC", 1);
	assert_string_equal(cli_format_time(0, text, sizeof(text)), "1970-01-01 00:00:00");
	assert_string_equal(cli_format_time(4294967296, text, sizeof(text)), "2106-02-07 06:28:16");
	assert_string_equal(cli_format_time(UINT64_MAX, text, sizeof(text)), "18446744073709551615 seconds after 1970");
	assert_string_equal(cli_format_time(INT64_MAX, text, sizeof(text)), "9223372036854775807 seconds after 1970");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_job_of_another_node_may_have_no_rate),
		cmocka_unit_test(a_job_of_this_node_shows_all_its_figures),
		cmocka_unit_test(status_tells_a_node_that_stopped_serving_from_a_failed_array),
		cmocka_unit_test(status_shows_what_the_cluster_waits_for),
		cmocka_unit_test(members_are_listed_and_free_entries_are_not), cmocka_unit_test(suspect_regions_come_with_the_command_to_type),
		cmocka_unit_test(a_daemon_of_another_release_is_told),
		cmocka_unit_test(check_mode_has_exit_codes),
		cmocka_unit_test(a_suspended_array_says_so), cmocka_unit_test(a_monitor_hears_of_a_suspended_array),
		cmocka_unit_test(a_member_whose_device_was_never_seen_is_shown), cmocka_unit_test(status_and_when_say_that_there_is_nothing),
		cmocka_unit_test(malformed_answers_of_the_daemon_are_harmless),
		cmocka_unit_test(a_refusal_is_the_exit_code),
		cmocka_unit_test(a_malformed_date_is_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, forget);
}
