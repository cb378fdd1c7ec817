// SPDX-License-Identifier: LGPL-2.1-or-later
/* Why the daemon does not answer; see ipc_fault.h. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/wire/ipc_fault.h"

#define PID_FILE	RUNSTATEDIR "/ddraid/ddraidd.pid"
#define FIRST_USER_NS	0xEFFFFFFDu	/* inode of the machine's own user namespace: PROC_USER_INIT_INO of the kernel */

/* ---- processes -------------------------------------------------------------------- */

/* "PID (NAME) STATE ...", where NAME is anything. */
static bool look_stat(struct ddr_process *p)
{
	char path[64], line[512], *open, *close;
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)p->pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(line, 1, sizeof(line) - 1, f);
	fclose(f);
	line[n] = '\0';
	open = strchr(line, '(');
	close = strrchr(line, ')');
	if (!open || !close || close < open || close[1] != ' ' || !close[2])
		return false;
	*close = '\0';
	snprintf(p->name, sizeof(p->name), "%s", open + 1);
	for (char *c = p->name; *c; c++)
		if (iscntrl((unsigned char)*c))
			*c = '?';
	p->state = close[2];
	return true;
}

static void look_fds(struct ddr_process *p)
{
	char path[64], line[160];
	struct dirent *e;
	FILE *f;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/limits", (int)p->pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Max open files %lu", &p->fds_max) == 1)
			break;
	if (f)
		fclose(f);
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)p->pid);
	d = opendir(path);
	while (d && (e = readdir(d)))
		p->fds += e->d_name[0] != '.';
	if (d)
		closedir(d);
}

static bool elsewhere(pid_t pid)
{
	struct stat own, its;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
	return stat("/proc/self/ns/net", &own) == 0 && stat(path, &its) == 0 && (own.st_ino != its.st_ino || own.st_dev != its.st_dev);
}

/* The kernel marks the name of a file that was removed, even if another file has the name now. */
static bool replaced(pid_t pid)
{
	static const char mark[] = " (deleted)";
	char path[64], file[4096];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, file, sizeof(file));
	return n >= (ssize_t)sizeof(mark) && memcmp(file + n - (sizeof(mark) - 1), mark, sizeof(mark) - 1) == 0;
}

bool ddr_process_look(struct ddr_process *p, pid_t pid)
{
	*p = (struct ddr_process){ .pid = pid };
	if (pid <= 0 || !look_stat(p))
		return false;
	look_fds(p);
	p->replaced = replaced(pid);
	p->elsewhere = elsewhere(pid);
	return true;
}

bool ddr_process_daemon(struct ddr_process *p, const char *path)
{
	FILE *f = fopen(path, "re");
	int pid = 0;

	*p = (struct ddr_process){ 0 };
	if (f) {
		if (fscanf(f, "%d", &pid) != 1)
			pid = 0;
		fclose(f);
	}
	/* the pid file outlives the daemon, and its pid may belong to another process by now */
	if (ddr_process_look(p, pid) && strcmp(p->name, "ddraidd") == 0)
		return true;
	*p = (struct ddr_process){ 0 };
	return false;
}

/* ---- messages --------------------------------------------------------------------- */

/* Messages that need nothing but the step and the error. */
static const struct {
	enum ddr_ipc_step step;
	int error;
	const char *text;
} causes[] = {
	{ DDR_IPC_REACH, EMFILE, "this command has reached its limit of open files; raise it (ulimit -n)" },
	{ DDR_IPC_REACH, ENFILE, "this machine has reached its limit of open files; sysctl fs.file-nr shows how many are open, and fs.file-max the "
				 "limit" },
	{ DDR_IPC_REACH, ENOMEM, "out of memory for a connection to ddraidd" },
	{ DDR_IPC_REACH, ENOBUFS, "out of memory for a connection to ddraidd" },
	{ DDR_IPC_REACH, EACCES, "a security policy forbids this command to connect to ddraidd; journalctl -t audit shows which" },
	{ DDR_IPC_REACH, EPERM, "a security policy forbids this command to connect to ddraidd; journalctl -t audit shows which" },
	{ DDR_IPC_WELCOME, EAGAIN, "ddraidd has too many clients; try again in a moment, or end a ddraid events" },
	{ DDR_IPC_WELCOME, ENOSPC, "/dev/shm is full: ddraidd runs, but needs 2 MiB there to talk to a command; df /dev/shm and ls -lR /dev/shm "
	  "show what fills it" },
	{ DDR_IPC_WELCOME, EDQUOT, "root's quota of /dev/shm is used up: ddraidd runs, but needs 2 MiB there to talk to a command" },
	{ DDR_IPC_WELCOME, ENOMEM, "ddraidd runs, but there is no memory for a connection to it: the machine or its control group has none left" },
	{ DDR_IPC_WELCOME, EMFILE, "ddraidd runs, but has reached its limit of open files; raise LimitNOFILE= of its unit (systemctl edit "
	  "ddraidd), then systemctl restart ddraidd" },
	{ DDR_IPC_WELCOME, ENFILE, "this machine has reached its limit of open files; sysctl fs.file-nr shows how many are open, and fs.file-max "
				   "the limit" },
	{ DDR_IPC_WELCOME, EACCES, "ddraidd runs, but cannot create its files in /dev/shm; ls -ld /dev/shm shows its permissions (drwxrwxrwt is "
	  "right), journalctl -t audit whether a security policy forbids it" },
	{ DDR_IPC_WELCOME, EPERM, "ddraidd runs, but cannot create its files in /dev/shm; ls -ld /dev/shm shows its permissions (drwxrwxrwt is "
	  "right), journalctl -t audit whether a security policy forbids it" },
	{ DDR_IPC_WELCOME, EROFS, "ddraidd runs, but /dev/shm is read-only; mount -o remount,rw /dev/shm" },
	{ DDR_IPC_WELCOME, ENOENT, "ddraidd runs, but does not share /dev/shm with this command; run the command outside of containers, and check "
	  "that /dev/shm is mounted" },
	{ DDR_IPC_WELCOME, ENOTCONN, "ddraidd closed the connection at once: it is starting or ending, or out of memory; try again in a moment, "
	  "and see journalctl -u ddraidd" },
	{ DDR_IPC_TALK, ENOTCONN, "ddraidd ended before it answered; journalctl -u ddraidd shows why" },
	{ DDR_IPC_TALK, EBADMSG, "the answer of ddraidd cannot be parsed: daemon and command are from different releases; systemctl restart "
	  "ddraidd starts the installed one" },
	{ DDR_IPC_TALK, EMSGSIZE, "the request is too long for ddraidd; shorten the names in it" },
};

static int plain(int error)
{
	error = -error;
	return error == ECONNRESET || error == EPIPE || error == ESHUTDOWN ? ENOTCONN : error;
}

static const char *cause_of(const struct ddr_ipc_fault *fault)
{
	for (size_t i = 0; i < sizeof(causes) / sizeof(causes[0]); i++)
		if (causes[i].step == fault->step && causes[i].error == plain(fault->error))
			return causes[i].text;
	return NULL;
}

/* No answer came: the state of the process decides the advice. */
static void no_answer(const struct ddr_process *p, char *buf, size_t size)
{
	int pid = (int)p->pid;

	if (p->state == 'T')
		snprintf(buf, size, "ddraidd (process %d) is stopped and does not answer; kill -CONT %d lets it continue", pid, pid);
	else if (p->state == 't')
		snprintf(buf, size, "ddraidd (process %d) is stopped by a debugger and does not answer; end the debugger", pid);
	else if (p->state == 'D')
		snprintf(buf, size, "ddraidd (process %d) does not answer: it waits in the kernel (state D) for a disk or memory; cat "
			 "/proc/%d/stack and journalctl -k show what for", pid, pid);
	else if (p->state && p->fds_max && p->fds >= p->fds_max)
		snprintf(buf, size, "ddraidd (process %d) does not answer: it has reached its limit of %lu open files; raise LimitNOFILE= of its "
			 "unit (systemctl edit ddraidd), then systemctl restart ddraidd", pid, p->fds_max);
	else if (pid && !strchr("ZX", p->state))
		snprintf(buf, size, "ddraidd (process %d) does not answer; see systemctl status ddraidd and journalctl -u ddraidd; systemctl "
			 "restart ddraidd starts it again", pid);
	else
		snprintf(buf, size, "ddraidd does not answer; see systemctl status ddraidd and journalctl -u ddraidd; systemctl restart ddraidd "
			 "starts it again");
}

static void nobody(const struct ddr_process *p, char *buf, size_t size)
{
	int pid = (int)p->pid;

	if (!p->state)
		snprintf(buf, size, "ddraidd is not running; systemctl start ddraidd");
	else if (p->elsewhere)
		snprintf(buf, size, "ddraidd (process %d) runs in another network namespace than this command; nsenter -t %d -n runs a command there", pid, pid);
	else if (strchr("TtD", p->state))
		no_answer(p, buf, size);
	else
		snprintf(buf, size, "ddraidd (process %d) runs, but accepts no commands: it is starting or ending; try again in a moment, and see "
			 "systemctl status ddraidd", pid);
}

static void stranger(const struct ddr_ipc_fault *fault, const struct ddr_process *p, char *buf, size_t size)
{
	int pid = (int)fault->pid;

	if (pid)
		snprintf(buf, size, "ddraidd is not running: process %d (%s) of user %u occupies its socket name. Nothing was sent to it; kill %d, "
			 "then systemctl start ddraidd", pid, p->state ? p->name : "unknown", (unsigned int)fault->uid, pid);
	else
		snprintf(buf, size, "ddraidd is not running: a process of user %u occupies its socket name. Nothing was sent to it; ss -xlp | grep "
			 "@ddraidd shows it; end it, then systemctl start ddraidd", (unsigned int)fault->uid);
}

const char *ddr_ipc_words(const struct ddr_ipc_fault *fault, const struct ddr_process *p, bool root, char *buf, size_t size)
{
	bool late = fault->error == -ETIMEDOUT || (fault->step == DDR_IPC_REACH && fault->error == -EAGAIN);
	const char *cause = cause_of(fault);
	size_t used;

	if (!root && fault->step != DDR_IPC_TALK)
		snprintf(buf, size, "only root may talk to ddraidd; use sudo");
	else if (fault->step == DDR_IPC_TRUST)
		stranger(fault, p, buf, size);
	else if (late)
		no_answer(p, buf, size);
	else if (fault->step == DDR_IPC_REACH && (fault->error == -ECONNREFUSED || fault->error == -ENOENT))
		nobody(p, buf, size);
	else if (cause)
		snprintf(buf, size, "%s", cause);
	else
		snprintf(buf, size, "cannot connect to ddraidd: %s", strerror(-fault->error));
	used = strlen(buf);
	if (late && fault->step == DDR_IPC_TALK)
		snprintf(buf + used, size - used, "; the request may still be carried out");
	return buf;
}

/* Root of another user namespace is only root there; for the daemon it is an ordinary user. */
static bool is_root(void)
{
	struct stat st;

	return geteuid() == 0 && (stat("/proc/self/ns/user", &st) || st.st_ino == FIRST_USER_NS);
}

const char *ddr_ipc_explain(const struct ddr_ipc_fault *fault, char *buf, size_t size)
{
	struct ddr_process p;

	if (fault->pid)
		ddr_process_look(&p, fault->pid);
	else
		ddr_process_daemon(&p, PID_FILE);
	return ddr_ipc_words(fault, &p, is_root(), buf, size);
}
