// SPDX-License-Identifier: GPL-2.0-or-later
/* A machine that goes down: what is resumed, what fails and when, and what is left alone. Devices, the daemon and the time are simulated. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/fixture.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/dm.h"
#include "cli/godown.h"
#include "lib/dm.h"
#include "lib/wire/ipc.h"

#include <json-c/json.h>

/* Shared with the children that fail an array. */
static struct play {
	unsigned int second;		/* of the shutdown: one for each look */
	unsigned int last;		/* after this the array is gone */
	bool daemon, ready, local, quorate;
	bool suspended, hidden;
	unsigned int unserved_from, unserved_to;	/* seconds in which it has no quorum */
	unsigned int resumes, fails, failed_at;
} *play;

void ddr_dm_init(void)
{
}

void cli_warn(const char *what, const char *format, ...)
{
	(void)what;
	if (strstr(format, "has not been served"))
		play->failed_at = play->second;
}

int cli_dm_each(int (*fn)(const struct cli_dm_info *info, void *ctx), void *ctx, struct ddr_error *err)
{
	struct cli_dm_info info = { .exists = true, .name = "data", .uuid = "u-1", .suspended = play->suspended, .live = !play->hidden };

	(void)err;
	return play->second < play->last ? fn(&info, ctx) : 0;
}

int cli_dm_resume(const char *name, struct ddr_error *err)
{
	(void)err;
	assert_string_equal(name, "data");
	play->resumes++;
	play->suspended = false;
	return 0;
}

int cli_dm_fail(const char *name, uint64_t sectors, struct ddr_error *err)
{
	(void)name, (void)sectors, (void)err;
	__atomic_add_fetch(&play->fails, 1, __ATOMIC_SEQ_CST);
	return 0;
}

bool client_reach(struct ddr_ipc **c, char *why, size_t size)
{
	(void)why, (void)size;
	*c = (struct ddr_ipc *)play;
	return play->daemon;
}

void ddr_ipc_close(struct ddr_ipc *c)
{
	assert_true(!c || c == (struct ddr_ipc *)play);
}

struct json_object *client_request(const char *cmd, const char *name)
{
	assert_string_equal(cmd, "status");
	assert_string_equal(name, "u-1");
	return NULL;
}

bool client_try(struct ddr_ipc *c, struct json_object *request, struct json_object **data, int timeout_ms, char *error, size_t size)
{
	bool lost = play->second >= play->unserved_from && play->second < play->unserved_to;
	char text[256];

	(void)c, (void)request, (void)timeout_ms, (void)error, (void)size;
	snprintf(text, sizeof(text), "[{\"ready\": %s, \"cluster\": {\"transport\": \"%s\", \"quorate\": %s}}]", play->ready ? "true" : "false",
		 play->local ? "local" : "corosync", play->quorate && !lost ? "true" : "false");
	*data = json_tokener_parse(text);
	return true;
}

struct json_object *client_object(struct json_object *o, const char *key)
{
	return json_object_object_get(o, key);
}

const char *client_text(struct json_object *o, const char *key)
{
	return json_object_get_string(client_object(o, key));
}

bool client_flag(struct json_object *o, const char *key)
{
	return json_object_get_boolean(client_object(o, key));
}

size_t client_length(struct json_object *array)
{
	return json_object_array_length(array);
}

struct json_object *client_at(struct json_object *array, size_t i)
{
	return json_object_array_get_idx(array, i);
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_clock_gettime(clockid_t id, struct timespec *ts);

int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
	(void)t, (void)left;
	play->second++;
	return 0;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	(void)id;
	*ts = (struct timespec){ .tv_sec = 1000 + play->second };
	return 0;
}

static int setup(void **state)
{
	(void)state;
	play = mmap(NULL, sizeof(*play), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(play, MAP_FAILED);
	*play = (struct play){ .last = 100, .daemon = true, .ready = true, .quorate = true };
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return munmap(play, sizeof(*play));
}

/* Each test has a process of its own, since going down cannot be undone. */
static void go_down(void)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		int rc = cli_go_down();

		while (wait(NULL) > 0 || errno == EINTR)
			;
		_exit(rc);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), CLI_DONE);
	assert_int_equal(play->second, play->last);
}

static void an_array_that_is_served_is_left_alone(void **state)
{
	(void)state;
	go_down();
	assert_int_equal(play->fails + play->resumes, 0);
}

/* Finding S43: I/O that waits without quorum fails after 30 seconds, once. */
static void without_quorum_waiting_io_fails_after_30_seconds(void **state)
{
	(void)state;
	play->quorate = false;
	go_down();
	assert_int_equal(play->fails, 1);
	assert_true(play->failed_at >= 30 && play->failed_at < 40);
}

static void one_machine_needs_no_quorum(void **state)
{
	(void)state;
	play->local = true;
	play->quorate = false;
	go_down();
	assert_int_equal(play->fails, 0);
}

static void without_a_daemon_waiting_io_fails(void **state)
{
	(void)state;
	play->daemon = false;
	go_down();
	assert_int_equal(play->fails, 1);
}

static void waiting_io_of_an_array_that_was_never_served_fails(void **state)
{
	(void)state;
	play->ready = false;
	go_down();
	assert_int_equal(play->fails, 1);
}

/* Finding S42: no process waits for a device whose node was never created; failing it would make it visible to all. */
static void a_device_that_nobody_sees_is_left_alone(void **state)
{
	(void)state;
	play->ready = false;
	play->hidden = true;
	go_down();
	assert_int_equal(play->fails, 0);
}

/* An array that is served again in time is not given up: the countdown starts over. */
static void quorum_that_comes_back_counts(void **state)
{
	(void)state;
	play->unserved_from = 5;
	play->unserved_to = 30;
	go_down();
	assert_int_equal(play->fails, 0);
}

/* Finding S28: a suspended array is resumed, at the second look: the daemon suspends one for a moment when it loads a table. */
static void a_suspended_array_is_resumed(void **state)
{
	(void)state;
	play->suspended = true;
	play->last = 1;
	go_down();
	assert_int_equal(play->resumes, 0);
	play->second = 0;
	play->last = 10;
	play->suspended = true;
	go_down();
	assert_int_equal(play->resumes, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_array_that_is_served_is_left_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(without_quorum_waiting_io_fails_after_30_seconds, setup, teardown),
		cmocka_unit_test_setup_teardown(one_machine_needs_no_quorum, setup, teardown),
		cmocka_unit_test_setup_teardown(without_a_daemon_waiting_io_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(waiting_io_of_an_array_that_was_never_served_fails, setup, teardown),
		cmocka_unit_test_setup_teardown(a_device_that_nobody_sees_is_left_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(quorum_that_comes_back_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(a_suspended_array_is_resumed, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
