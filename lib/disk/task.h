/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The state of a thread or process as the kernel reports it: whether it runs, and how often it was switched. */
#ifndef DDR_TASK_H
#define DDR_TASK_H

#include <stdbool.h>
#include <stdint.h>

struct ddr_task {
	char state;		/* as in proc(5): R runs, S waits, D waits in the kernel for a device, ... */
	uint64_t switches;	/* how often it has left a processor, voluntarily or not; does not change while it waits for a single answer */
};

/*
 * Reads /proc/PID/status, or that of a thread. A line that is missing counts as that of a running thread. False:
 * there is no such thread any more, or /proc is not mounted. Never blocks, whatever the thread itself hangs in.
 */
bool ddr_task_read(struct ddr_task *t, const char *status);

#endif
