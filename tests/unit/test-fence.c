// SPDX-License-Identifier: GPL-2.0-or-later
/* Fencing by the helper process: real agents (shell scripts), their output, exit codes and times. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <qb/qbloop.h>

#include "daemon/base/daemon.h"
#include "daemon/group/fence.h"
#include "tests/unit/covered-exit.h"

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif
#define PF_MEMALLOC_NOIO 0x80000u	/* of the kernel, in field 9 of /proc/PID/stat */

static struct ddr_fence *fence;
static qb_loop_t *loop;
static char dir[] = "/tmp/ddraid-fence-XXXXXX";
static struct ddr_conf conf;

static struct {
	unsigned int n, wanted;
	uint32_t node[8];
	uint64_t failure[8];
	int result[8];
	char why[8][256];
} got;

#define ASKED "asked"		/* a file: PR_SET_IO_FLUSHER was asked for in the helper */

int __real_prctl(int option, ...);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long e);

int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long e)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/" ASKED, dir);
	if (option == PR_SET_IO_FLUSHER && (int)a == 1) {	/* in the helper */
		FILE *f = fopen(path, "w");

		fprintf(f, "%s", environ && environ[0] ? environ[0] : "no environment");
		fclose(f);
	}
	return __real_prctl(option, a, b, c, e);
}

static time_t stepped;		/* how far somebody has set the clock */

time_t __real_time(time_t *t);
time_t __wrap_time(time_t *t);

time_t __wrap_time(time_t *t)
{
	time_t now = __real_time(NULL) + stepped;

	if (t)
		*t = now;
	return now;
}

uint64_t ddr_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

#define INHERITED	"/etc/passwd"	/* is open in the process that starts the daemon */

/* The state in which somebody may start a daemon. */
static bool spoil(void)
{
	int fd = open(INHERITED, O_RDONLY);
	sigset_t blocked;

	setenv("NOTIFY_SOCKET", "/run/of/the/daemon", 1);
	setenv("DDRAID_DEVICES", "/nothing/here", 1);
	signal(SIGHUP, SIG_IGN);		/* nohup */
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	return fd >= 0 && dup2(fd, 40) == 40 && sigprocmask(SIG_BLOCK, &blocked, NULL) == 0;
}

static void done(void *ctx, uint32_t node, uint64_t failure, int result, const char *why)
{
	(void)ctx;
	assert_true(got.n < 8);
	got.node[got.n] = node;
	got.failure[got.n] = failure;
	got.result[got.n] = result;
	snprintf(got.why[got.n++], sizeof(got.why[0]), "%s", why);
	if (got.n == got.wanted)
		qb_loop_stop(loop);
}

static void too_late(void *data)
{
	(void)data;
	fail_msg("%u of %u answers came", got.n, got.wanted);
}

static void wait_for(unsigned int wanted)
{
	qb_loop_timer_handle h;

	got.wanted = wanted;
	qb_loop_timer_add(loop, QB_LOOP_LOW, 30000 * QB_TIME_NS_IN_MSEC, NULL, too_late, &h);
	qb_loop_run(loop);
	qb_loop_timer_del(loop, h);
}

/* An agent with this body; conf names it, with @arguments. */
static void agent(const char *body, const char *arguments)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/agent", dir);
	unlink(path);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "#!/bin/sh\ncd %s\n%s\n", dir, body);
	fclose(f);
	assert_int_equal(chmod(path, 0755), 0);
	snprintf(conf.fence_command, sizeof(conf.fence_command), "%s%s", path, arguments);
}

static uint32_t settle_ms;

static void ask(uint32_t node, uint64_t lost_ms, uint64_t failure)
{
	struct ddr_fence_whom whom = { .node = node, .name = "north", .lost_ms = lost_ms, .failure = failure, .settle_ms = settle_ms };

	assert_int_equal(ddr_fence_ask(fence, &conf, &whom, done, &got), 0);
}

static const char *content(const char *name)
{
	static char text[512];
	char path[64];
	size_t n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "r");
	if (f) {
		n = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
	}
	text[n] = '\0';
	return text;
}

static int before(void **state)
{
	(void)state;
	memset(&got, 0, sizeof(got));
	ddr_conf_defaults(&conf);
	settle_ms = 0;
	return 0;
}

static void success_and_what_the_agent_is_told(void **state)
{
	(void)state;
	agent("cat > input; printf '%s\\n' \"$*\" > arguments", " -n %n --name=%N %% last");
	ask(3, ddr_now_ms(), 77);
	wait_for(1);
	assert_int_equal(got.result[0], 0);
	assert_int_equal(got.node[0], 3);
	assert_int_equal(got.failure[0], 77);
	assert_string_equal(content("arguments"), "-n 3 --name=north % last\n");
	assert_non_null(strstr(content("input"), "action=off\nnode=3\nnodename=north\nport=north\nfail_time="));
}

static int64_t fail_time(void)
{
	const char *at = strstr(content("input"), "fail_time=");

	assert_non_null(at);
	return strtoll(at + strlen("fail_time="), NULL, 10);
}

/*
 * Finding U9: dlm_stonith takes a fencing in its history as proof of this failure if it is at or after fail_time. The clock has been
 * set back by hours since the node was fenced last, so the history is ahead of the clock. The fail_time that is asked for must lie
 * after it all the same; otherwise nothing is done and the node counts as dead.
 */
static void a_clock_that_was_set_back_is_no_proof(void **state)
{
	int64_t first;

	(void)state;
	agent("cat > input", "");
	ask(6, ddr_now_ms(), 1);
	wait_for(1);
	first = (int64_t)time(NULL);			/* the agent's history has this, or a little less */
	stepped -= 7200;
	ask(6, ddr_now_ms(), 2);
	wait_for(2);
	assert_true(fail_time() > first);
	agent("cat > input; exit 1", "");		/* nor is it forgotten when an agent fails */
	ask(6, ddr_now_ms(), 3);
	wait_for(3);
	ask(6, ddr_now_ms(), 4);
	wait_for(4);
	assert_true(fail_time() > first);
	agent("cat > input", "");			/* another node has nothing to do with it */
	ask(7, ddr_now_ms(), 5);
	wait_for(5);
	assert_true(fail_time() <= (int64_t)time(NULL));
	stepped = 0;
}

/* The same where another node was fenced meanwhile: what is known of the first one keeps its place as long as there is a free one. */
static void what_another_node_had_is_no_proof(void **state)
{
	int64_t first;

	(void)state;
	agent("cat > input", "");
	ask(20, ddr_now_ms(), 1);
	wait_for(1);
	first = (int64_t)time(NULL);
	for (uint32_t node = 21; node < 25; node++)
		ask(node, ddr_now_ms(), 2);
	wait_for(5);
	stepped -= 7200;
	ask(20, ddr_now_ms(), 3);
	wait_for(6);
	stepped = 0;
	assert_int_equal(got.node[5], 20);
	assert_true(fail_time() > first);
}

/* Finding U9: the time of day affects neither how long an agent may take, nor the delay after it, nor which run serves a failure. */
static void a_clock_that_steps_changes_no_time(void **state)
{
	static const time_t steps[] = { 7200, -7200 };

	(void)state;
	settle_ms = 300;
	agent("cat > input", "");
	for (unsigned int i = 0; i < 2; i++) {
		uint64_t lost = ddr_now_ms(), begun = lost;

		ask(8, lost, 1);
		stepped += steps[i];
		ask(8, lost, 2);			/* the same run serves both */
		wait_for(2 * i + 2);
		assert_int_equal(got.result[2 * i], 0);
		assert_int_equal(got.result[2 * i + 1], 0);
		assert_true(ddr_now_ms() - begun >= settle_ms && ddr_now_ms() - begun < 20000);
	}
	stepped = 0;
}

static void failure_says_what_the_agent_said(void **state)
{
	(void)state;
	agent("echo the switch does not answer >&2; exit 7", "");
	ask(4, ddr_now_ms(), 1);
	wait_for(1);
	assert_true(got.result[0] < 0);
	assert_non_null(strstr(got.why[0], "code 7: the switch does not answer"));
}

/* More than a pipe holds, at once: it waits until that is read. */
static void an_agent_may_say_much(void **state)
{
	(void)state;
	agent("dd if=/dev/zero bs=200000 count=2", "");
	ask(4, ddr_now_ms(), 1);
	wait_for(1);
	assert_string_equal(got.why[0], "");
	assert_int_equal(got.result[0], 0);
}

/* The helper ignores them; an agent, and whatever it starts and ends again, must not. */
static void an_agent_can_be_ended(void **state)
{
	static const char *const bodies[] = { "kill -TERM $$; exit 0", "kill -INT $$; exit 0", "kill -PIPE $$; exit 0" };
	static const char *const words[] = { "signal 15", "signal 2", "signal 13" };

	(void)state;
	for (unsigned int i = 0; i < 3; i++) {
		agent(bodies[i], "");
		ask(4, ddr_now_ms(), 10 + i);
		wait_for(i + 1);
		assert_true(got.result[i] < 0);
		assert_non_null(strstr(got.why[i], words[i]));
	}
}

/* Otherwise a person who started ddraidd by a remote shell would wait for it forever. */
static void the_helper_has_no_terminal(void **state)
{
	(void)state;
	agent("for fd in 0 1 2; do readlink /proc/$PPID/fd/$fd; done > fds", "");
	ask(4, ddr_now_ms(), 1);
	wait_for(1);
	assert_int_equal(got.result[0], 0);
	assert_string_equal(content("fds"), "/dev/null\n/dev/null\n/dev/null\n");
}

/* Is a process allowed to have this? It needs CAP_SYS_RESOURCE, which root may lack in a container. */
static bool may_be_flusher(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(__real_prctl(PR_SET_IO_FLUSHER, 1ul, 0ul, 0ul, 0ul) ? 1 : 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status == 0;
}

/*
 * Finding U11: agents and the helper inherit nothing of the environment, the descriptors and the signals of the process that started
 * the daemon. Each agent has its own process group, which can be killed as a whole.
 */
static void an_agent_has_nothing_of_the_daemon(void **state)
{
	(void)state;
	agent("env | sort | grep -v -e ^PWD= -e ^OLDPWD= -e ^SHLVL= -e ^_= > env; ls /proc/$$/fd > fds; "
	      "read -r pid comm state parent group rest < /proc/self/stat; echo $(($(cut -d' ' -f5 /proc/$$/stat) - $$)) > group; "
	      "grep -h -e ^SigBlk -e ^SigIgn /proc/$$/status | tr -s '\\t' ' ' > signals; ls -l /proc/$PPID/fd > helper", "");
	ask(4, ddr_now_ms(), 1);
	wait_for(1);
	assert_int_equal(got.result[0], 0);
	assert_string_equal(content("env"), "HOME=/\nLANG=C\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n");
	assert_string_equal(content("group"), "0\n");
	assert_null(strstr(content("fds"), "\n3\n"));
	assert_string_equal(content("signals"), "SigBlk: 0000000000000000\nSigIgn: 0000000000000000\n");
	assert_non_null(strstr(content("helper"), " 3 -> "));
	assert_null(strstr(content("helper"), INHERITED));
	assert_string_equal(content(ASKED), "no environment");
}

/* Memory that an agent waits for must not wait for the arrays that wait for the agent: the helper sets it, and agents inherit it. */
static void an_agent_does_not_wait_for_the_arrays(void **state)
{
	unsigned long flags;
	char path[64];

	(void)state;
	agent("read -r line < /proc/self/stat; echo \"${line##*) }\" | cut -d' ' -f7 > flags", "");
	ask(4, ddr_now_ms(), 1);
	wait_for(1);
	assert_int_equal(got.result[0], 0);
	snprintf(path, sizeof(path), "%s/" ASKED, dir);
	assert_int_equal(access(path, F_OK), 0);
	flags = strtoul(content("flags"), NULL, 10);
	assert_true(flags != 0);
	if (may_be_flusher())
		assert_true(flags & PF_MEMALLOC_NOIO);
	else
		print_message("PR_SET_IO_FLUSHER is refused here (no CAP_SYS_RESOURCE): only that it was asked for is tested\n");
}

static void no_such_agent(void **state)
{
	(void)state;
	snprintf(conf.fence_command, sizeof(conf.fence_command), "/nonexistent/agent");
	ask(4, ddr_now_ms(), 1);
	wait_for(1);
	assert_true(got.result[0] < 0);
	assert_non_null(strstr(got.why[0], "No such file"));
}

static void bad_percent_is_refused(void **state)
{
	(void)state;
	agent("exit 0", " %x");
	ask(4, ddr_now_ms(), 1);
	wait_for(1);
	assert_true(got.result[0] < 0);
}

/* Its children too: they hold its output open, and would fence later. */
static void a_slow_agent_is_killed(void **state)
{
	(void)state;
	conf.fence_timeout_ms = 1000;
	agent("(sleep 3; echo late > late) & sleep 3; echo late > late", "");
	ask(4, ddr_now_ms(), 1);
	wait_for(1);
	assert_int_equal(got.result[0], -ETIMEDOUT);
	sleep(4);
	assert_string_equal(content("late"), "");
}

static void the_settle_time_passes(void **state)
{
	uint64_t begin = ddr_now_ms();

	(void)state;
	settle_ms = 700;
	agent("exit 0", "");
	ask(4, begin, 1);
	wait_for(1);
	assert_int_equal(got.result[0], 0);
	assert_true(ddr_now_ms() - begin >= 700);
}

/* One run serves two arrays, and the members of the second one need longer: whether it asks before the first one was answered, or after that. */
static void each_array_has_its_settle_time(void **state)
{
	uint64_t lost = ddr_now_ms(), begin;

	(void)state;
	agent("echo run >> settled", "");
	ask(4, lost, 1);
	settle_ms = 700;
	begin = ddr_now_ms();
	ask(4, lost, 2);
	wait_for(2);
	assert_true(ddr_now_ms() - begin >= 700);
	settle_ms = 1500;
	ask(4, lost, 3);
	wait_for(3);
	assert_true(ddr_now_ms() - begin >= 1500);
	assert_true(got.failure[2] == 3 && got.result[2] == 0);
	assert_string_equal(content("settled"), "run\n");
}

static int ask_disks(uint64_t lost_ms, uint64_t failure, const char *devices, const char *more)
{
	struct ddr_fence_whom whom = { .node = 4, .name = "north", .lost_ms = lost_ms, .failure = failure, .devices = devices, .more = more };

	return ddr_fence_ask(fence, &conf, &whom, done, &got);
}

/* Rule F7, note 43: storage fencing is proof for the disks that the agent was given, and for no other one. */
static void disks_that_were_not_given_are_not_proven(void **state)
{
	uint64_t lost = ddr_now_ms();

	(void)state;
	agent("grep devices >> disks", "");
	assert_int_equal(ask_disks(lost, 1, "/dev/a,/dev/b", ""), 0);
	assert_int_equal(ask_disks(lost, 2, "/dev/b,/dev/a", ""), 0);		/* the same ones */
	wait_for(2);
	assert_string_equal(content("disks"), "devices=/dev/a,/dev/b\n");
	assert_int_equal(ask_disks(lost, 3, "/dev/b,/dev/c", ",/dev/d,/dev/e"), 0);
	assert_int_equal(ask_disks(lost, 4, "/dev/e", ""), 0);			/* of another array, and covered */
	wait_for(4);
	assert_string_equal(content("disks"), "devices=/dev/a,/dev/b\ndevices=/dev/b,/dev/c,/dev/d,/dev/e\n");
	assert_int_equal(ask_disks(lost, 5, "/dev", ""), 0);			/* the beginning of one that was given */
	wait_for(5);
	assert_int_equal(ask_disks(lost, 6, "/dev/a,/dev/b,/dev/c", ""), 0);	/* one of one run, and one of another */
	wait_for(6);
	assert_string_equal(content("disks"), "devices=/dev/a,/dev/b\ndevices=/dev/b,/dev/c,/dev/d,/dev/e\ndevices=/dev\ndevices=/dev/a,/dev/b,/dev/c\n");
}

/* What does not fit beside the array's own disks is left to those that have it. */
static void more_disks_than_fit(void **state)
{
	static char more[DDR_FENCE_DEVICES];

	(void)state;
	for (unsigned int i = 0; i < sizeof(more) - 1; i++)
		more[i] = i % 8 ? 'x' : ',';
	agent("grep devices >> many", "");
	assert_int_equal(ask_disks(ddr_now_ms(), 1, "/dev/a,/dev/b", more), 0);
	wait_for(1);
	assert_string_equal(content("many"), "devices=/dev/a,/dev/b\n");
}

/* Two arrays and one dead node: one run; a failure after that run is another one. */
static void one_run_for_one_failure(void **state)
{
	uint64_t lost = ddr_now_ms();

	(void)state;
	agent("echo run >> runs; sleep 0.3", "");
	ask(5, lost, 1);
	ask(5, lost, 2);
	wait_for(2);
	assert_string_equal(content("runs"), "run\n");
	ask(5, lost, 3);		/* later, of the same loss: known already */
	wait_for(3);
	assert_string_equal(content("runs"), "run\n");
	ask(5, ddr_now_ms() + 1, 4);	/* lost after the run began */
	wait_for(4);
	assert_string_equal(content("runs"), "run\nrun\n");
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(got.result[i], 0);
}

/* Two arrays saw it go at different moments: the second one's run takes nothing from the first one. */
static void two_losses_while_an_agent_runs(void **state)
{
	const struct timespec moment = { .tv_nsec = 10000000 };

	(void)state;
	agent("echo run >> both; sleep 1", "");
	ask(5, ddr_now_ms(), 1);
	nanosleep(&moment, NULL);
	ask(5, ddr_now_ms(), 2);
	wait_for(2);
	assert_string_equal(content("both"), "run\nrun\n");
	assert_int_equal(got.failure[0] + got.failure[1], 3);
	assert_int_equal(got.result[0], 0);
	assert_int_equal(got.result[1], 0);
}

/* A result that is known already is reported by the loop: until then no other run takes that place. */
static void a_known_result_is_reported_although_other_requests_wait(void **state)
{
	uint64_t lost = ddr_now_ms();

	(void)state;
	agent("exit 0", "");
	ask(7, lost, 1);
	wait_for(1);
	ask(7, lost, 2);
	ask(7, ddr_now_ms() + 1, 3);
	ask(8, lost, 4);
	wait_for(4);
	assert_int_equal(got.failure[1] + got.failure[2] + got.failure[3], 2 + 3 + 4);
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(got.result[i], 0);
}

/* A failed run proves nothing for the next request. */
static void a_failed_run_is_not_reused(void **state)
{
	uint64_t lost = ddr_now_ms();

	(void)state;
	agent("[ -e once ] || { > once; exit 1; }", "");
	ask(6, lost, 1);
	wait_for(1);
	assert_true(got.result[0] < 0);
	ask(6, lost, 1);
	wait_for(2);
	assert_int_equal(got.result[1], 0);
}

static void several_nodes_at_once(void **state)
{
	uint64_t begin = ddr_now_ms();

	(void)state;
	agent("sleep 1", "");
	for (uint32_t node = 10; node < 16; node++)
		ask(node, begin, node);
	wait_for(6);
	assert_true(ddr_now_ms() - begin < 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(success_and_what_the_agent_is_told, before),
		cmocka_unit_test_setup(a_clock_that_was_set_back_is_no_proof, before),
		cmocka_unit_test_setup(what_another_node_had_is_no_proof, before),
		cmocka_unit_test_setup(a_clock_that_steps_changes_no_time, before),
		cmocka_unit_test_setup(failure_says_what_the_agent_said, before),
		cmocka_unit_test_setup(an_agent_may_say_much, before),
		cmocka_unit_test_setup(an_agent_can_be_ended, before),
		cmocka_unit_test_setup(the_helper_has_no_terminal, before),
		cmocka_unit_test_setup(an_agent_does_not_wait_for_the_arrays, before),
		cmocka_unit_test_setup(an_agent_has_nothing_of_the_daemon, before),
		cmocka_unit_test_setup(no_such_agent, before),
		cmocka_unit_test_setup(bad_percent_is_refused, before),
		cmocka_unit_test_setup(a_slow_agent_is_killed, before),
		cmocka_unit_test_setup(the_settle_time_passes, before), cmocka_unit_test_setup(each_array_has_its_settle_time, before),
		cmocka_unit_test_setup(disks_that_were_not_given_are_not_proven, before), cmocka_unit_test_setup(more_disks_than_fit, before),
		cmocka_unit_test_setup(one_run_for_one_failure, before),
		cmocka_unit_test_setup(two_losses_while_an_agent_runs, before),
		cmocka_unit_test_setup(a_known_result_is_reported_although_other_requests_wait, before),
		cmocka_unit_test_setup(a_failed_run_is_not_reused, before),
		cmocka_unit_test_setup(several_nodes_at_once, before),
	};
	char command[64];
	int ret;

	if (!spoil() || !mkdtemp(dir) || ddr_fence_fork(&fence))
		return 99;
	loop = qb_loop_create();
	if (!loop || ddr_fence_open(fence, loop))
		return 99;
	ret = cmocka_run_group_tests_name("fence", tests, NULL, NULL);
	ddr_fence_close(fence);
	if (wait(NULL) < 0)			/* the helper: it ends with the daemon */
		return 99;
	qb_loop_destroy(loop);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command) ? 99 : ret;
}
