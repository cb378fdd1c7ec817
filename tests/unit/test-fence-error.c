// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fencing when something fails: a system call of the daemon or of the helper, the helper itself, or what stands in the configuration. A node
 * counts as dead by an agent's success alone, and each request is answered once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <qb/qbloop.h>

#include "daemon/base/daemon.h"
#include "daemon/group/fence.h"
#include "daemon/group/fence_helper.h"
#include "tests/unit/covered-exit.h"

#define REQUESTS	256u	/* that can be open at once */

static struct ddr_fence *fence;
static qb_loop_t *loop;
static struct ddr_conf conf;
static char dir[] = "/tmp/ddraid-fence-XXXXXX";
static bool played;		/* the test answers in the helper's place, at @far */
static int far = -1;

/* What fails next, with this error; the helper and its agents see it as well. */
static struct { int socketpair, fork, pipe2, fcntl, dup2, send; } *fails;

static struct {
	unsigned int n, wanted;
	uint64_t failure[REQUESTS];
	int result[REQUESTS];
	char why[256];
} got;

uint64_t ddr_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* ---- system calls ------------------------------------------------------------------ */

static bool failing(int *error)
{
	errno = *error;
	*error = 0;
	return errno != 0;
}

int __real_socketpair(int domain, int type, int protocol, int fds[2]);
int __wrap_socketpair(int domain, int type, int protocol, int fds[2]);
pid_t __real_fork(void);
pid_t __wrap_fork(void);
int __real_pipe2(int fds[2], int flags);
int __wrap_pipe2(int fds[2], int flags);
int __real_fcntl(int fd, int command, int flags);
int __wrap_fcntl(int fd, int command, int flags);
int __real_dup2(int from, int to);
int __wrap_dup2(int from, int to);
ssize_t __real_send(int fd, const void *buf, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *buf, size_t n, int flags);

int __wrap_socketpair(int domain, int type, int protocol, int fds[2])
{
	if (failing(&fails->socketpair) || __real_socketpair(domain, type, protocol, fds))
		return -1;
	if (played)
		far = dup(fds[1]);
	return 0;
}

pid_t __wrap_fork(void)
{
	if (failing(&fails->fork))
		return -1;
	return played ? 4711 : __real_fork();
}

int __wrap_pipe2(int fds[2], int flags)
{
	return failing(&fails->pipe2) ? -1 : __real_pipe2(fds, flags);
}

int __wrap_fcntl(int fd, int command, int flags)
{
	return command == F_SETFL && failing(&fails->fcntl) ? -1 : __real_fcntl(fd, command, flags);
}

int __wrap_dup2(int from, int to)
{
	return failing(&fails->dup2) ? -1 : __real_dup2(from, to);
}

ssize_t __wrap_send(int fd, const void *buf, size_t n, int flags)
{
	return n == sizeof(struct ddr_fence_order) && failing(&fails->send) ? -1 : __real_send(fd, buf, n, flags);
}

/* ---- the daemon --------------------------------------------------------------------- */

static void done(void *ctx, uint32_t node, uint64_t failure, int result, const char *why)
{
	(void)ctx, (void)node;
	assert_true(got.n < REQUESTS);
	got.failure[got.n] = failure;
	got.result[got.n++] = result;
	snprintf(got.why, sizeof(got.why), "%s", why);
	if (got.n == got.wanted)
		qb_loop_stop(loop);
}

static void too_late(void *data)
{
	(void)data;
	fail_msg("%u of %u answers came", got.n, got.wanted);
}

static void stop(void *data)
{
	(void)data;
	qb_loop_stop(loop);
}

static void wait_for(unsigned int wanted)
{
	qb_loop_timer_handle h;

	got.wanted = wanted;
	qb_loop_timer_add(loop, QB_LOOP_LOW, 60000 * QB_TIME_NS_IN_MSEC, NULL, too_late, &h);
	qb_loop_run(loop);
	qb_loop_timer_del(loop, h);
}

/* All that has come by now. */
static void take_what_is_there(void)
{
	qb_loop_timer_handle h;

	qb_loop_timer_add(loop, QB_LOOP_LOW, 20 * QB_TIME_NS_IN_MSEC, NULL, stop, &h);
	qb_loop_run(loop);
}

static uint32_t settle_ms;

static int ask_for(uint32_t node, const char *name, uint64_t lost_ms, uint64_t failure, void *ctx)
{
	struct ddr_fence_whom whom = { .node = node, .name = name, .lost_ms = lost_ms, .failure = failure, .settle_ms = settle_ms };

	return ddr_fence_ask(fence, &conf, &whom, done, ctx);
}

static int ask(uint32_t node, uint64_t failure)
{
	return ask_for(node, "north", ddr_now_ms(), failure, &got);
}

static unsigned int descriptors(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += __real_fcntl(fd, F_GETFD, 0) >= 0;
	return n;
}

static int before(void **state)
{
	(void)state;
	memset(&got, 0, sizeof(got));
	memset(fails, 0, sizeof(*fails));
	ddr_conf_defaults(&conf);
	settle_ms = 0;
	snprintf(conf.fence_command, sizeof(conf.fence_command), "/bin/true");
	loop = qb_loop_create();
	return loop && ddr_fence_fork(&fence) == 0 && ddr_fence_open(fence, loop) == 0 ? 0 : -1;
}

/* The helper ends with the daemon, and with success. */
static int after(void **state)
{
	int status = 0;

	(void)state;
	ddr_fence_close(fence);
	qb_loop_destroy(loop);
	return waitpid(-1, &status, 0) > 0 && (status == 0 || WIFSIGNALED(status)) ? 0 : -1;
}

static int before_played(void **state)
{
	played = true;
	return before(state);
}

static int after_played(void **state)
{
	(void)state;
	ddr_fence_close(fence);
	qb_loop_destroy(loop);
	close(far);
	played = false;
	return 0;
}

/* ---- a start that fails ---------------------------------------------------------------- */

static void a_helper_that_cannot_be_started(void **state)
{
	unsigned int open = descriptors();
	struct ddr_fence *f = (struct ddr_fence *)&got;

	(void)state;
	fails->socketpair = EMFILE;
	assert_int_equal(ddr_fence_fork(&f), -EMFILE);
	assert_null(f);
	fails->fork = EAGAIN;
	assert_int_equal(ddr_fence_fork(&f), -EAGAIN);
	assert_null(f);
	assert_int_equal(descriptors(), open);
}

/* ---- the helper: an error of its own is no success, and it goes on ------------------------ */

static void fails_once(const char *why, int result)
{
	unsigned int n = got.n;

	assert_int_equal(ask(4, n), 0);
	wait_for(n + 1);
	assert_int_equal(got.result[n], result);
	assert_non_null(strstr(got.why, why));
	assert_int_equal(ask(4, n + 1), 0);
	wait_for(n + 2);
	assert_int_equal(got.result[n + 1], 0);
}

static void errors_of_the_helper(void **state)
{
	(void)state;
	fails->pipe2 = EMFILE;
	fails_once("no pipe", -EAGAIN);
	fails->fcntl = EINVAL;
	fails_once("no pipe", -EAGAIN);
	fails->fork = ENOMEM;
	fails_once("could not be started", -ENOMEM);
	fails->dup2 = EBUSY;
	fails_once("code 127", -EIO);
}

static void command(const char *text)
{
	snprintf(conf.fence_command, sizeof(conf.fence_command), "%s", text);
}

static void refused_command(const char *text, const char *name)
{
	unsigned int n = got.n;

	command(text);
	assert_int_equal(ask_for(4, name, ddr_now_ms(), n, &got), 0);
	wait_for(n + 1);
	assert_true(got.result[n] < 0);
	assert_non_null(strstr(got.why, "the command is empty, too long, or has a %"));
}

/* A word that does not fit is not cut: what is left might name another node. */
static void commands_that_are_none(void **state)
{
	char words[DDR_CONF_PATH_MAX] = "/bin/true";

	(void)state;
	refused_command("", "north");
	refused_command(" \t ", "north");
	refused_command("/bin/true %", "north");
	refused_command("/bin/true --node=%n%", "north");
	for (unsigned int i = 0; i < 32; i++)
		strcat(words, " w");
	refused_command(words, "north");
	refused_command("/bin/true %N%N%N%N%N", "a-name-of-a-node-that-is-as-long-as-a-name-may-be-and-no-longer");
	command("/bin/true %N%N%N%N");
	assert_int_equal(ask_for(4, "a-name-of-a-node-that-is-as-long-as-a-name-may-be-and-no-longer", ddr_now_ms(), 9, &got), 0);
	wait_for(got.n + 1);
	assert_int_equal(got.result[got.n - 1], 0);
}

/* A name is one argument, whatever is in it, and is not expanded again; what an agent says is one line. */
static void names_and_words_of_others(void **state)
{
	char text[200];

	(void)state;
	snprintf(text, sizeof(text), "/bin/sh %s/agent %%N %%t", dir);
	command(text);
	assert_int_equal(ask_for(4, "two words%n", ddr_now_ms(), 1, &got), 0);
	wait_for(1);
	assert_int_equal(got.result[0], -EIO);
	assert_string_equal(got.why, "code 3: two words%n;2; a b  [31mc   d ");
}

/* Finding T8: a name that is not known is not made up. The agent gets the id alone, and a command that wants the name is none. */
static void an_agent_without_a_name(void **state)
{
	char text[200];

	(void)state;
	refused_command("/bin/true %N", "");
	snprintf(text, sizeof(text), "/bin/sh %s/input %%n", dir);
	command(text);
	assert_int_equal(ask_for(4, "", ddr_now_ms(), 7, &got), 0);
	wait_for(got.n + 1);
	assert_non_null(strstr(got.why, "4: action=off;node=4;fail_time="));
}

/* What runs may still switch the node off. */
static void an_agent_goes_on_without_the_daemon(void **state)
{
	char path[64], text[200];
	struct stat st;
	int status;

	(void)state;
	snprintf(path, sizeof(path), "%s/fenced", dir);
	snprintf(text, sizeof(text), "/bin/sh %s/slow", dir);
	command(text);
	assert_int_equal(ask(4, 1), 0);
	snprintf(text, sizeof(text), "%s/begun", dir);
	while (stat(text, &st))
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	ddr_fence_close(fence);
	fence = NULL;
	assert_int_equal(waitpid(-1, &status, 0) > 0 ? status : -1, 0);
	assert_int_equal(stat(path, &st), -1);
	snprintf(text, sizeof(text), "%s/go", dir);
	assert_int_equal(close(creat(text, 0600)), 0);
	for (unsigned int i = 0; stat(path, &st) && i < 3000; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(got.n, 0);
	assert_int_equal(before(state), 0);
}

/* ---- the daemon ----------------------------------------------------------------------- */

static struct ddr_fence_order order(void)
{
	struct ddr_fence_order o;

	assert_int_equal(recv(far, &o, sizeof(o), MSG_DONTWAIT), sizeof(o));
	return o;
}

static void says(uint64_t id, int result)
{
	struct ddr_fence_answer a = { .id = id, .result = result };

	memset(a.text, 'x', sizeof(a.text));			/* without an end */
	assert_int_equal(__real_send(far, &a, sizeof(a), 0), sizeof(a));
}

/*
 * Finding T9: the agent waits in the kernel for a disk, so the helper cannot end it and says nothing. The daemon reports it in time, and the next
 * node is asked. If the agent ends with success after all, this failure has its proof; that it failed is known already.
 */
static void an_agent_that_cannot_be_killed(void **state)
{
	uint64_t lost = ddr_now_ms(), begun = lost, id;

	(void)state;
	conf.fence_timeout_ms = 1000;
	assert_int_equal(ask_for(4, "north", lost, 1, &got), 0);
	id = order().id;
	wait_for(1);
	assert_int_equal(got.result[0], -ETIMEDOUT);
	assert_true(ddr_now_ms() - begun >= 1000 && ddr_now_ms() - begun < 30000);
	settle_ms = 300;
	/* what is late serves no other request, not even of the same loss */
	assert_int_equal(ask_for(4, "north", lost, 2, &got), 0);
	assert_true(order().id == id + 1);
	begun = ddr_now_ms();
	says(id, 0);						/* was asked for without a settle time */
	says(id + 1, 0);
	wait_for(3);
	assert_int_equal(got.failure[1], 1);
	assert_int_equal(got.result[1], 0);
	assert_int_equal(got.failure[2], 2);
	assert_int_equal(got.result[2], 0);
	assert_true(ddr_now_ms() - begun >= 300);
	says(id, 0);
	take_what_is_there();
	assert_int_equal(got.n, 3);
}

static void a_late_failure_is_known_already(void **state)
{
	uint64_t id;

	(void)state;
	conf.fence_timeout_ms = 100;
	assert_int_equal(ask(4, 1), 0);
	id = order().id;
	wait_for(1);
	says(id, -EIO);
	says(id, 0);
	take_what_is_there();
	assert_int_equal(got.n, 1);
	assert_int_equal(got.result[0], -ETIMEDOUT);
}

/* Each of them may hold a power switch, and the memory of this machine. */
static void two_agents_for_one_node_at_most(void **state)
{
	uint64_t id;

	(void)state;
	conf.fence_timeout_ms = 100;
	for (uint64_t i = 1; i <= 2; i++) {
		assert_int_equal(ask(4, i), 0);
		id = order().id;
		wait_for((unsigned int)i);
	}
	assert_int_equal(ask(4, 3), -EALREADY);
	assert_int_equal(ask(5, 4), 0);				/* another node has nothing to do with it */
	assert_int_equal(order().node, 5);
	says(id, -ETIMEDOUT);
	wait_for(3);						/* of node 5 */
	assert_int_equal(ask(4, 5), 0);
	assert_int_equal(order().node, 4);
}

/* Whoever waits for an answer has a place, also if all are taken by those who hope for a late success. */
static void those_who_hope_make_room(void **state)
{
	uint64_t id;

	(void)state;
	conf.fence_timeout_ms = 300;
	for (uint64_t i = 0; i < REQUESTS; i++)
		assert_int_equal(ask_for(4, "north", 0, i, &got), 0);
	order();
	wait_for(REQUESTS);
	got.n = 0;
	conf.fence_timeout_ms = 60000;
	assert_int_equal(ask(4, 1000), 0);
	id = order().id;
	says(id, 0);
	take_what_is_there();
	assert_int_equal(got.n, 1);
	assert_int_equal(got.failure[0], 1000);
	assert_int_equal(got.result[0], 0);
}

static void each_request_is_answered_once(void **state)
{
	struct ddr_fence_order o;

	(void)state;
	assert_int_equal(ask(4, 1), 0);
	o = order();
	assert_int_equal(o.node, 4);
	says(o.id + 1, 0);					/* nobody's */
	says(0, 0);
	take_what_is_there();
	assert_int_equal(got.n, 0);
	says(o.id, -EIO);
	says(o.id, 0);						/* has failed: it is no success later on */
	take_what_is_there();
	assert_int_equal(got.n, 1);
	assert_int_equal(got.result[0], -EIO);
	assert_int_equal(strlen(got.why), DDR_FENCE_TEXT_LEN - 1);
	assert_int_equal(ask(4, 2), 0);
	assert_true(order().id != o.id);
	take_what_is_there();
	assert_int_equal(got.n, 1);
}

static void a_request_that_was_refused_gets_no_answer(void **state)
{
	uint64_t id;

	(void)state;
	fails->send = EAGAIN;
	assert_int_equal(ask(4, 1), -EBUSY);
	assert_int_equal(ask(5, 2), 0);
	id = order().id;
	ddr_fence_forget(fence, &conf);				/* has none */
	assert_int_equal(ask_for(5, "north", 0, 3, &conf), 0);	/* served by the same run */
	ddr_fence_forget(fence, &conf);
	says(id, 0);
	take_what_is_there();
	assert_int_equal(got.n, 1);
	assert_int_equal(got.failure[0], 2);
	assert_int_equal(got.result[0], 0);
}

/* As many as can be open, and one more: it is told at once, and none of the others is lost. */
static void more_than_can_be_open(void **state)
{
	uint64_t id;

	(void)state;
	assert_int_equal(ask(4, 0), 0);
	id = order().id;
	for (uint64_t i = 1; i < REQUESTS; i++)
		assert_int_equal(ask_for(4, "north", 0, i, &got), 0);
	assert_int_equal(ask_for(4, "north", 0, 999, &got), -ENOBUFS);
	says(id, 0);
	take_what_is_there();
	assert_int_equal(got.n, REQUESTS);
	for (unsigned int i = 0; i < REQUESTS; i++)
		assert_int_equal(got.failure[i], i);
}

/* None of the runs that are on their way gives its place away. */
static void as_many_runs_as_there_are_places(void **state)
{
	uint64_t id[DDR_FENCE_RUNS];

	(void)state;
	for (uint32_t i = 0; i < DDR_FENCE_RUNS; i++) {
		assert_int_equal(ask(100 + i, i), 0);
		id[i] = order().id;
	}
	assert_int_equal(ask(99, 99), -EBUSY);
	says(id[7], 0);
	take_what_is_there();
	assert_int_equal(got.n, 1);
	assert_int_equal(got.failure[0], 7);
	assert_int_equal(ask(99, 99), 0);
	assert_int_equal(order().node, 99);
}

/* Who waits is told, and so is who asks later on: nobody counts as dead. */
static void gone(void)
{
	assert_int_equal(got.n, 2);
	assert_int_equal(got.result[0], -EPIPE);
	assert_int_equal(got.result[1], -EPIPE);
	assert_non_null(strstr(got.why, "has ended"));
	assert_int_equal(ask(4, 3), -EPIPE);
	take_what_is_there();
	assert_int_equal(got.n, 2);
}

static void the_helper_closes_its_end(void **state)
{
	(void)state;
	assert_int_equal(ask(4, 1), 0);
	assert_int_equal(ask(5, 2), 0);
	close(far);
	take_what_is_there();
	gone();
	far = -1;
}

static void the_helper_says_half_a_word(void **state)
{
	(void)state;
	assert_int_equal(ask(4, 1), 0);
	assert_int_equal(ask(5, 2), 0);
	assert_int_equal(__real_send(far, "half", 4, 0), 4);
	take_what_is_there();
	gone();
}

static bool write_agents(void)
{
	static const char *const agents[][2] = {
		{ "agent", "case $2 in [0-9]*) ;; *) exit 9;; esac\necho \"$1;$#; $(printf 'a\\tb\\r\\033[31mc\\n\\377\\nd')\"; exit 3\n" },
		{ "input", "echo \"$1: $(tr '\\n' ';')\"; exit 1\n" },
		{ "slow", "> begun\nwhile [ ! -e go ]; do sleep 0.02; done\n> fenced\n" },
	};

	for (unsigned int i = 0; i < sizeof(agents) / sizeof(agents[0]); i++) {
		char path[64];
		FILE *f;

		snprintf(path, sizeof(path), "%s/%s", dir, agents[i][0]);
		f = fopen(path, "w");
		if (!f)
			return false;
		fprintf(f, "cd %s\n%s", dir, agents[i][1]);
		if (fclose(f))
			return false;
	}
	return true;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_helper_that_cannot_be_started),
		cmocka_unit_test_setup_teardown(errors_of_the_helper, before, after),
		cmocka_unit_test_setup_teardown(commands_that_are_none, before, after),
		cmocka_unit_test_setup_teardown(names_and_words_of_others, before, after),
		cmocka_unit_test_setup_teardown(an_agent_without_a_name, before, after),
		cmocka_unit_test_setup_teardown(an_agent_goes_on_without_the_daemon, before, after),
		cmocka_unit_test_setup_teardown(an_agent_that_cannot_be_killed, before_played, after_played),
		cmocka_unit_test_setup_teardown(a_late_failure_is_known_already, before_played, after_played),
		cmocka_unit_test_setup_teardown(two_agents_for_one_node_at_most, before_played, after_played),
		cmocka_unit_test_setup_teardown(those_who_hope_make_room, before_played, after_played),
		cmocka_unit_test_setup_teardown(each_request_is_answered_once, before_played, after_played),
		cmocka_unit_test_setup_teardown(a_request_that_was_refused_gets_no_answer, before_played, after_played),
		cmocka_unit_test_setup_teardown(more_than_can_be_open, before_played, after_played),
		cmocka_unit_test_setup_teardown(as_many_runs_as_there_are_places, before_played, after_played),
		cmocka_unit_test_setup_teardown(the_helper_closes_its_end, before_played, after_played),
		cmocka_unit_test_setup_teardown(the_helper_says_half_a_word, before_played, after_played),
	};
	char rm[64];
	int ret;

	fails = mmap(NULL, sizeof(*fails), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (fails == MAP_FAILED || !mkdtemp(dir) || !write_agents())
		return 99;
	ret = cmocka_run_group_tests_name("fence, errors", tests, NULL, NULL);
	snprintf(rm, sizeof(rm), "rm -rf %s", dir);
	return system(rm) ? 99 : ret;
}
