/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What the kernel says of a thread or process: whether it runs, and how often it has waited. */
#ifndef DDR_TASK_H
#define DDR_TASK_H

#include <stdbool.h>
#include <stdint.h>

struct ddr_task {
	char state;		/* as in proc(5): R runs, S waits, D waits in the kernel for a device, ... */
	uint64_t switches;	/* how often it has left a processor, of itself or not. One that waits for one answer adds none */
};

/*
 * Reads a file /proc/PID/status, or that of a thread. @t: taken as one that runs where a line is missing. False: there is no such thread any
 * more, or /proc is not there. Does not wait for the thread, whatever that hangs in.
 */
bool ddr_task_read(struct ddr_task *t, const char *status);

#endif
