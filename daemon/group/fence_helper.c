// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The fence helper: a process with locked memory that starts agents, gives them their input, and reports how they ended. See
 * fence_helper.h. Neither the helper nor an agent may wait for memory that is freed by writing: the arrays that would be written to
 * wait for the agent.
 *
 * The output of an agent that fails goes into the log message; its process group is killed when its time is over. It has only its
 * three standard descriptors, the environment defined here, the directory /, and default signals: nothing of the process that started
 * ddraidd, nor of its service manager (with NOTIFY_SOCKET it could speak for the daemon).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/group/fence_helper.h"

#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

#define WORDS		32	/* of a command */
#define SOCKET_FD	3

struct agent {
	pid_t pid;		/* 0: unused entry */
	uint64_t id;
	uint64_t until_ms;	/* it is killed then */
	int output;		/* or -1 */
	bool killed;
	char text[DDR_FENCE_TEXT_LEN];
	size_t n;
};

static struct agent agents[DDR_FENCE_RUNS];

static void reply(uint64_t id, int result, const char *text)
{
	struct ddr_fence_answer a = { .id = id, .result = result };

	snprintf(a.text, sizeof(a.text), "%s", text);
	if (send(SOCKET_FD, &a, sizeof(a), MSG_NOSIGNAL) != sizeof(a))
		_exit(0);	/* the daemon is gone */
}

/* ---- an agent's arguments --------------------------------------------------------- */

/* Appends the word at @s to @buf, with % sequences replaced. False if it does not fit. */
static bool expand(const char *s, const struct ddr_fence_order *o, char *buf, size_t size)
{
	size_t n = 0;

	for (; *s && n + 1 < size; s++) {
		size_t room = size - n;
		int used = 1;

		if (*s != '%') {
			buf[n++] = *s;
			continue;
		}
		switch (*++s) {
		case 'n': used = snprintf(buf + n, room, "%" PRIu32, o->node); break;
		case 'N': used = *o->name ? snprintf(buf + n, room, "%s", o->name) : -1; break;	/* without it the word might name another node */
		case 't': used = snprintf(buf + n, room, "%" PRId64, o->fail_time); break;
		case '%': buf[n] = '%'; break;
		default: return false;
		}
		if (used < 0 || (size_t)used >= room)
			return false;
		n += (size_t)used;
	}
	buf[n] = '\0';
	return *s == '\0';
}

static char env_path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", env_home[] = "HOME=/", env_lang[] = "LANG=C";
static char *const environment[] = { env_path, env_home, env_lang, NULL };

/* Executes the program, without anything that belongs to the daemon; does not return. */
static _Noreturn void execute(char *const *argv)
{
	static const unsigned long by_default[8];	/* the kernel's struct sigaction: SIG_DFL, no flags, an empty mask */
	sigset_t none;

	/*
	 * Ignored and blocked signals stay so across exec, and a shell cannot even change that: a daemon that was started by nohup
	 * ignores SIGHUP. This uses the system call, since the C library does not allow changes to the signals that it uses itself.
	 * KILL and STOP cannot be changed; that is not an error.
	 */
	for (int s = 1; s < NSIG; s++)
		syscall(SYS_rt_sigaction, s, by_default, NULL, NSIG / 8);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (chdir("/") || syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0))
		_exit(127);
	execve(argv[0], argv, environment);
	dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* Runs the agent in the child; does not return. */
static _Noreturn void run_agent(struct ddr_fence_order *o, int in, int out)
{
	static char text[WORDS][DDR_CONF_PATH_MAX];
	char *argv[WORDS + 1], *save = NULL, *word;
	unsigned int n = 0;

	setpgid(0, 0);
	for (word = strtok_r(o->command, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
		if (n == WORDS || !expand(word, o, text[n], sizeof(text[n]))) {
			n = 0;
			break;
		}
		argv[n] = text[n];
		n++;
	}
	argv[n] = NULL;
	if (n == 0) {
		dprintf(out, "the command is empty, too long, or has a %% other than %%n %%N %%t %%%%\n");
		_exit(127);
	}
	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
		_exit(127);
	execute(argv);
}

/* The input that fence agents and dlm_stonith read from their standard input. */
static int input_of(const struct ddr_fence_order *o)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return -1;
	/* far less than a pipe holds */
	dprintf(fds[1], "action=off\nnode=%" PRIu32 "\n", o->node);
	if (*o->name)
		dprintf(fds[1], "nodename=%s\nport=%s\n", o->name, o->name);
	if (*o->devices)
		dprintf(fds[1], "devices=%s\n", o->devices);
	dprintf(fds[1], "fail_time=%" PRId64 "\n", o->fail_time);
	close(fds[1]);
	return fds[0];
}

/* We must not wait for the agent's output. An agent with much output has to wait for us, and must not get an error. */
static int open_output(int fds[2])
{
	if (pipe2(fds, O_CLOEXEC))
		return -1;
	if (fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0)
		return 0;
	close(fds[0]);
	close(fds[1]);
	return -1;
}

static void start(struct ddr_fence_order *o)
{
	struct agent *a = NULL;
	int in, out[2];

	o->name[sizeof(o->name) - 1] = '\0';
	o->command[sizeof(o->command) - 1] = '\0';
	o->devices[sizeof(o->devices) - 1] = '\0';
	for (unsigned int i = 0; !a && i < DDR_FENCE_RUNS; i++)
		if (!agents[i].pid)
			a = &agents[i];
	in = a ? input_of(o) : -1;
	if (in < 0 || open_output(out)) {
		reply(o->id, -EAGAIN, "too many agents, or no pipe");
		if (in >= 0)
			close(in);
		return;
	}
	*a = (struct agent){ .id = o->id, .until_ms = ddr_now_ms() + o->timeout_ms, .output = out[0] };
	a->pid = fork();
	if (a->pid == 0)
		run_agent(o, in, out[1]);
	if (a->pid > 0)
		setpgid(a->pid, a->pid);	/* the agent does the same: whichever comes first, its group can be killed from here on */
	if (a->pid < 0) {
		a->pid = 0;
		close(out[0]);
		reply(o->id, -errno, "the agent could not be started");
	}
	close(in);
	close(out[1]);
}

/* ---- their end -------------------------------------------------------------------- */

/* Keeps the first bytes, and reads the rest so that the agent does not wait. */
static void read_output(struct agent *a)
{
	char buf[512];
	ssize_t n;

	while (a->output >= 0 && (n = read(a->output, buf, sizeof(buf))) != 0) {
		if (n < 0) {
			if (errno == EAGAIN || errno == EINTR)
				return;
			break;
		}
		for (ssize_t i = 0; i < n && a->n + 1 < sizeof(a->text); i++)
			a->text[a->n++] = (char)(buf[i] >= ' ' && buf[i] < 127 ? buf[i] : ' ');
	}
	if (a->output >= 0)
		close(a->output);
	a->output = -1;
}

static void free_agent(struct agent *a)
{
	if (a->output >= 0)
		close(a->output);
	a->pid = 0;
}

/* One that ended with success before the signal reached it has fenced the node. */
static void ended(struct agent *a, int status)
{
	char text[DDR_FENCE_TEXT_LEN] = "";
	int result = a->killed ? -ETIMEDOUT : -EIO;

	read_output(a);
	a->text[a->n] = '\0';
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		result = 0;
	else if (a->killed)
		snprintf(text, sizeof(text), "the agent did not finish in time");
	else if (WIFEXITED(status))
		snprintf(text, sizeof(text), "code %d: %.150s", WEXITSTATUS(status), a->text);
	else
		snprintf(text, sizeof(text), "signal %d: %.150s", WTERMSIG(status), a->text);
	reply(a->id, result, text);
	free_agent(a);
}

static void look_after(void)
{
	uint64_t now = ddr_now_ms();

	for (unsigned int i = 0; i < DDR_FENCE_RUNS; i++) {
		struct agent *a = &agents[i];
		int status;

		if (!a->pid)
			continue;
		read_output(a);
		if (waitpid(a->pid, &status, WNOHANG) == a->pid) {
			ended(a, status);
		} else if (now >= a->until_ms && !a->killed) {
			a->killed = true;
			kill(-a->pid, SIGKILL);
		}
	}
}

static bool busy(void)
{
	for (unsigned int i = 0; i < DDR_FENCE_RUNS; i++)
		if (agents[i].pid)
			return true;
	return false;
}

/* The process that started the daemon may wait until its terminal or pipe is closed. */
static void let_go_of_terminal(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
}

/* Agents inherit the flag across fork and exec; their own memory is not locked. */
static void protect_memory(void)
{
	if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0))
		fprintf(stderr, "ddraidd: PR_SET_IO_FLUSHER was refused (%s); under memory pressure fence commands may deadlock with the arrays "
			"that wait for them; give ddraidd CAP_SYS_RESOURCE\n", strerror(errno));
	mlockall(MCL_CURRENT | MCL_FUTURE);	/* if it fails, the daemon, which has the same limit, reports it */
}

_Noreturn void ddr_fence_helper(int fd)
{
	static struct ddr_fence_order order;
	struct pollfd p = { .fd = SOCKET_FD, .events = POLLIN };
	ssize_t n;

	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);	/* we end when the daemon ends, which the socket shows */
	signal(SIGUSR1, SIG_IGN);
	prctl(PR_SET_NAME, "ddraidd-fence");
	clearenv();
	protect_memory();
	let_go_of_terminal();
	/* the lock of the pid file and other descriptors must not outlive the daemon in this process */
	if (dup2(fd, SOCKET_FD) < 0 || syscall(SYS_close_range, SOCKET_FD + 1, ~0U, 0))
		_exit(1);
	fcntl(SOCKET_FD, F_SETFD, FD_CLOEXEC);
	for (;;) {
		poll(&p, 1, busy() ? 50 : -1);
		n = p.revents ? recv(SOCKET_FD, &order, sizeof(order), MSG_DONTWAIT) : -1;
		if (p.revents && (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)))
			_exit(0);
		if (n == sizeof(order))
			start(&order);
		look_after();
	}
}
