/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Why the daemon cannot be reached, in one sentence that says what to do: which step failed, how, and the state of
 * the process that listens. Looks at /proc and at the daemon's pid file; never talks to the daemon.
 */
#ifndef DDR_LIB_IPC_FAULT_H
#define DDR_LIB_IPC_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum ddr_ipc_step {
	DDR_IPC_REACH,		/* no process was reached under the service's name */
	DDR_IPC_TRUST,		/* the process that listens does not belong to root */
	DDR_IPC_WELCOME,	/* it did not answer the connection, or refused it */
	DDR_IPC_TALK,		/* connected, but it did not answer a request */
};

struct ddr_ipc_fault {
	enum ddr_ipc_step step;
	int error;		/* negative errno */
	pid_t pid;		/* of the process that listens; 0: not known */
	uid_t uid;
};

/* The state of a process, from /proc. */
struct ddr_process {
	pid_t pid;
	char name[20];
	char state;			/* as in /proc/PID/stat; '\0': there is no such process */
	unsigned long fds, fds_max;	/* number of open files, and its limit; 0: unknown */
	bool replaced;			/* the program's file was replaced or removed since the process started */
	bool elsewhere;			/* it runs in another network namespace */
};

/* Returns false, and a process without a state, if there is none. */
bool ddr_process_look(struct ddr_process *p, pid_t pid);
/* The process that the pid file @path names, if that is a ddraidd. */
bool ddr_process_daemon(struct ddr_process *p, const char *path);

/*
 * The message for @fault, without a newline. @p: the process of the fault, or the daemon of the pid file, or one
 * without a state. @root: the caller is root of this machine. Returns @buf.
 */
const char *ddr_ipc_words(const struct ddr_ipc_fault *fault, const struct ddr_process *p, bool root, char *buf, size_t size);
/* The same, for this process and the daemon of this machine. */
const char *ddr_ipc_explain(const struct ddr_ipc_fault *fault, char *buf, size_t size);

#endif
