/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One piece of work that sleeps, in a thread of its own; the loop is notified when it has ended.
 *
 * So a member that hangs only delays whatever waits for this work. While the thread runs, the structure that contains the worker
 * belongs to the thread.
 */
#ifndef DDR_DAEMON_WORKER_H
#define DDR_DAEMON_WORKER_H

#include <stdbool.h>

#include <qb/qbloop.h>

struct ddr_worker {
	/* set by the caller */
	void (*run)(struct ddr_worker *w);	/* in the thread, with all signals blocked */
	void (*done)(struct ddr_worker *w);	/* called from the loop, once, when the thread has ended; may free the structure that contains @w */
	/* internal */
	qb_loop_t *loop;
	int event_fd;
	unsigned long thread;
};

/* 0, or a negative errno (then done() is not called). */
int ddr_worker_start(struct ddr_worker *w, qb_loop_t *loop);

/*
 * The loop does not run any more, and the daemon ends: waits until the thread has ended, @ms at most, and calls done(). False: it has not, and what it uses is
 * its own until the process has ended.
 */
bool ddr_worker_end(struct ddr_worker *w, unsigned int ms);

/* The structure that contains the worker as its member @field. */
#define ddr_worker_of(w, type, field)	((type *)(void *)((char *)(w) - offsetof(type, field)))

#endif
