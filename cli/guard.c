// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs a command that uses disks in a child process; see guard.h. A process that waits for a disk cannot be ended, so this process
 * waits for the child only for a limited time. It passes on the child's output. If the child hangs, it kills it and leaves it behind:
 * the child ends as soon as the disk answers, and does nothing more.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/guard.h"
#include "lib/disk/task.h"

#define POLL_MS		200
#ifndef SAY_MS			/* a test defines shorter times */
#define SAY_MS		3000u	/* a disk that has not answered for this time is named */
#define READ_MS		20000u	/* after this time it is given up: a disk that has to spin up needs less */
#define WRITE_MS	60000u	/* the same, once it was written to: it may have to empty its cache */
#endif

/* The disk that the child is using; shared with it. */
struct place {
	char path[256], writing[256];
};

static struct place *place;

struct guard {
	const char *what;
	pid_t pid;
	int fd[2];			/* its stdout and stderr, or -1 */
	uint64_t moves;			/* its progress at the last check ... */
	uint64_t moved_ms;		/* ... and when it last changed */
	bool said, lost;		/* ... its output */
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void cli_guard_at(const char *path, const char *writing)
{
	if (!place)
		return;
	snprintf(place->path, sizeof(place->path), "%s", path);
	snprintf(place->writing, sizeof(place->writing), "%s", writing ? writing : "");
}

/* Copies the child's output to the same output of this process. */
static void relay(struct guard *g, int i)
{
	char buf[4096];
	ssize_t n = read(g->fd[i], buf, sizeof(buf)), done = 0, put;

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		close(g->fd[i]);
		g->fd[i] = -1;
		return;
	}
	while (done < n && (put = write(i ? STDERR_FILENO : STDOUT_FILENO, buf + done, (size_t)(n - done))) > 0)
		done += put;
	if (done < n && !g->lost) {
		g->lost = true;
		cli_fail(g->what, "cannot write its output: %s", strerror(errno));
	}
}

/* False: it waits in the kernel, and has done nothing else since the last check. */
static bool gets_on(struct guard *g)
{
	struct ddr_task task;
	char path[64];
	bool same;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)g->pid);
	ddr_task_read(&task, path);
	same = g->moves == task.switches;
	g->moves = task.switches;
	return !same || task.state != 'D';
}

/* True: it was given up, and that was printed. */
static bool hangs(struct guard *g)
{
	uint64_t now = now_ms(), limit = *place->writing ? WRITE_MS : READ_MS;

	if (gets_on(g)) {
		g->moved_ms = now;
		return false;
	}
	if (now < g->moved_ms + SAY_MS)
		return false;
	if (!g->said)
		cli_warn(g->what, "%s does not answer: waiting for it, %d seconds at most", place->path, (int)(limit / 1000));
	g->said = true;
	if (now < g->moved_ms + limit)
		return false;
	kill(g->pid, SIGKILL);
	cli_fail(g->what, "%s has not answered for %d seconds: %s. Process %d hangs in it and keeps the disks of this command in use; it ends, "
		 "without doing more, when that disk answers", place->path, (int)(limit / 1000),
		 *place->writing ? place->writing : "nothing was changed", (int)g->pid);
	return true;
}

static void wait_a_while(struct guard *g)
{
	struct pollfd p[2] = { { .fd = g->fd[0], .events = POLLIN }, { .fd = g->fd[1], .events = POLLIN } };

	poll(p, 2, POLL_MS);
	for (int i = 0; i < 2; i++)
		if (g->fd[i] >= 0 && p[i].revents)
			relay(g, i);
}

static int look_after(struct guard *g)
{
	int status;

	g->moved_ms = now_ms();
	while (waitpid(g->pid, &status, WNOHANG) == 0) {
		wait_a_while(g);
		if (hangs(g))
			return CLI_FAILED;
	}
	for (int i = 0; i < 2; i++)
		while (g->fd[i] >= 0)
			relay(g, i);
	if (WIFEXITED(status))
		return g->lost ? CLI_FAILED : WEXITSTATUS(status);
	if (*place->writing)
		return cli_fail(g->what, "it was killed by signal %d: %s", WTERMSIG(status), place->writing);
	signal(WTERMSIG(status), SIG_DFL);
	raise(WTERMSIG(status));
	return CLI_FAILED;
}

static pid_t child_pid;

static void forward(int number)
{
	kill(child_pid, number);
}

/* The child decides what an interrupt does. */
static void forward_signals(pid_t pid)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	const struct sigaction action = { .sa_handler = forward, .sa_flags = SA_RESTART };

	child_pid = pid;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaction(numbers[i], &action, NULL);
}

static _Noreturn void child(pid_t parent, int (*fn)(void *), void *ctx, int out, int err)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);	/* if this command is killed, the child does nothing more */
	if (getppid() != parent)		/* it was killed before that took effect */
		_exit(CLI_FAILED);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	exit(fn(ctx));
}

int cli_guarded(const char *what, int (*fn)(void *), void *ctx)
{
	struct guard g = { .what = what };
	const pid_t parent = getpid();
	int out[2], err[2], rc;

	place = mmap(NULL, sizeof(*place), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (place == MAP_FAILED)
		return cli_fail(what, "out of memory");
	if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		return cli_fail(what, "cannot create a pipe: %s", strerror(errno));
	fflush(stdout);
	g.pid = fork();
	if (g.pid == 0)
		child(parent, fn, ctx, out[1], err[1]);
	close(out[1]);
	close(err[1]);
	if (g.pid < 0)
		return cli_fail(what, "cannot create a process for the work: %s", strerror(errno));
	forward_signals(g.pid);
	g.fd[0] = out[0];
	g.fd[1] = err[0];
	rc = look_after(&g);
	for (int i = 0; i < 2; i++)
		if (g.fd[i] >= 0)
			close(g.fd[i]);
	return rc;
}
