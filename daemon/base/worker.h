/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One piece of work that sleeps, in a thread of its own, and the loop's word when it has ended.
 *
 * A member that hangs then holds up who waits for this work, and nobody else. While it runs the thread has what
 * the worker lies in for itself.
 */
#ifndef DDR_DAEMON_WORKER_H
#define DDR_DAEMON_WORKER_H

#include <qb/qbloop.h>

struct ddr_worker {
	/* given */
	void (*run)(struct ddr_worker *w);	/* in the thread, with all signals blocked */
	void (*done)(struct ddr_worker *w);	/* from the loop, once, when the thread is gone; may free what @w lies in */
	/* own */
	qb_loop_t *loop;
	int event_fd;
	unsigned long thread;
};

/* 0 or a negative errno (then done() is not called). */
int ddr_worker_start(struct ddr_worker *w, qb_loop_t *loop);

/* What the worker lies in, as its member @field. */
#define ddr_worker_of(w, type, field)	((type *)(void *)((char *)(w) - offsetof(type, field)))

#endif
