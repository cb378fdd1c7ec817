/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Why the daemon cannot be talked to, in one sentence that says what to do: at which step it failed, how, and what the process that
 * listens is doing. It looks at /proc and at the daemon's pid file, never at the daemon.
 */
#ifndef DDR_LIB_IPC_FAULT_H
#define DDR_LIB_IPC_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum ddr_ipc_step {
	DDR_IPC_REACH,		/* no process was reached under the service's name */
	DDR_IPC_TRUST,		/* the process that listens is not root's */
	DDR_IPC_WELCOME,	/* it gave no answer to the connection, or refused it */
	DDR_IPC_TALK,		/* it was connected, and gave no answer to a request */
};

struct ddr_ipc_fault {
	enum ddr_ipc_step step;
	int error;		/* negative errno */
	pid_t pid;		/* of the process that listens; 0: not known */
	uid_t uid;
};

/* What /proc says of a process. */
struct ddr_process {
	pid_t pid;
	char name[20];
	char state;			/* as in /proc/PID/stat; '\0': there is no such process */
	unsigned long fds, fds_max;	/* open files, and how many it may have; 0: not known */
	bool replaced;			/* the file of its program was replaced or removed since it began */
	bool elsewhere;			/* it has another network namespace than this one */
};

/* Returns false, and a process without a state, if there is none. */
bool ddr_process_look(struct ddr_process *p, pid_t pid);
/* The process that the pid file @path names, if that is a ddraidd. */
bool ddr_process_daemon(struct ddr_process *p, const char *path);

/*
 * The sentence for @fault, without a newline. @p: the process of the fault, or the daemon of the pid file, or one without a state.
 * @root: the caller is root of this machine. Returns @buf.
 */
const char *ddr_ipc_words(const struct ddr_ipc_fault *fault, const struct ddr_process *p, bool root, char *buf, size_t size);
/* Likewise, for this process and the daemon of this machine. */
const char *ddr_ipc_explain(const struct ddr_ipc_fault *fault, char *buf, size_t size);

#endif
