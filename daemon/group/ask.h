/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of corosync's libraries that wait for corosync's answer. Most of them do, and without a limit: while corosync is stopped, or hangs, they take as
 * long (doc/protocol.md, "Which calls of corosync's libraries wait"). So a thread makes them, one after the other, and the loop gets each answer as an event.
 *
 * There is one thread at a time, since the libraries do not allow that two threads open handles at once, and since corosync answers none of them while it
 * does not answer one. If corosync ends, what waits for it comes back with an error within seconds.
 *
 * A handle belongs either to the thread, from ddr_asks_put() until done() is called, or to the loop. The loop only calls what answers from this process's own
 * memory: dispatch without waiting, and sending.
 *
 * It must never: let the loop wait for corosync; use a handle that a thread uses.
 *
 * All functions belong to the loop's thread.
 */
#ifndef DDR_DAEMON_ASK_H
#define DDR_DAEMON_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qb/qblist.h>
#include <qb/qbloop.h>

#define DDR_ASK_LATE_MS	5000u	/* without an answer for so long is reported: corosync answers within milliseconds */
#define DDR_ASK_TEXT	384u
#define DDR_ASK_MOMENT	16u

/* One question. The structure around it must stay until done(). Who does not want the answer any more notes that in this structure. */
struct ddr_ask {
	/* set by the caller */
	void (*run)(struct ddr_ask *a);		/* in the thread */
	void (*done)(struct ddr_ask *a);	/* called from the loop, once, when it has been answered; may free the structure that contains @a */
	const char *what;			/* that corosync is to do, as in "corosync has been asked to ..." */
	/* internal */
	struct qb_list_head list;
};

struct ddr_asks;

/* 0, or a negative errno. */
int ddr_asks_open(struct ddr_asks **out, qb_loop_t *loop);
/* Asks, as soon as all earlier questions have been answered. done() is not called from within. */
void ddr_asks_put(struct ddr_asks *s, struct ddr_ask *a);
/* The same, before all that wait: the end of a connection, for corosync does not let one process join a group twice. */
void ddr_asks_put_first(struct ddr_asks *s, struct ddr_ask *a);
/* Nothing waits or runs? */
bool ddr_asks_idle(const struct ddr_asks *s);
/* Writes one sentence if corosync has not answered for long. False: it has, and nothing is written. @s: NULL: there is no corosync. */
bool ddr_asks_late(const struct ddr_asks *s, char *buf, size_t size);
/* Writes the time of day that was so long ago, for messages. Returns @buf. */
const char *ddr_ask_moment(uint64_t ms_ago, char *buf, size_t size);
/*
 * The daemon ends: waits for all answers, but @ms at most, and logs if that was not enough. What is left then belongs to the thread until the process has
 * ended. NULL is allowed.
 */
void ddr_asks_close(struct ddr_asks *s, unsigned int ms);

/* The structure that contains the question as its member @field. */
#define ddr_ask_of(a, type, field)	((type *)(void *)((char *)(a) - offsetof(type, field)))

#endif
