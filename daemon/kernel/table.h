/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Loads a table into one of this node's mapped devices. The new table names another device at one place, or is longer; nothing else
 * changes.
 *
 * device-mapper exchanges the tables in one call, without flushing: waiting I/O is taken back and passed to the new table, so the
 * call does not wait for anything that only this daemon can provide. Whatever happens to this process, the device is never left
 * suspended. The call sleeps, so it is done in a thread of its own; changes of several arrays do not wait for each other.
 *
 * Must never: change the table of another array, which may have got the device's number by now.
 */
#ifndef DDR_DAEMON_TABLE_H
#define DDR_DAEMON_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/worker.h"
#include "lib/error.h"

struct ddr_table {
	/* set by the caller */
	uint8_t uuid[16];		/* of the array */
	uint32_t dm_major, dm_minor;	/* the mapped device */
	uint64_t sectors;		/* 0: the length does not change. Else the table gets this length, and the devices do not change */
	uint32_t place;			/* of the stripe */
	uint32_t major, minor;		/* the device that the table must name there, without a replacement; both 0: none */
	bool shadow;			/* the device replaces the one at that place ("replace"); both 0: no replacement at any place */
	uint32_t member;		/* for the caller */
	void (*done)(void *ctx, struct ddr_table *t);	/* called from the loop, once; calls ddr_table_free(). ctx NULL: the result is not needed */
	void *ctx;
	/* results */
	int result;			/* 0: the kernel has it, and reports it by RESUMED; -EALREADY: it had it already; another errno: see error */
	struct ddr_error error;
	/* internal */
	atomic_bool forgotten;
	struct ddr_table *next;
	char dm_uuid[129];		/* of the mapped device; "": it has none, or was not read yet */
	struct ddr_worker worker;
};

/* Starts the thread. 0, or a negative errno (then done() is not called). */
int ddr_table_start(struct ddr_table *t, qb_loop_t *loop);
/* The result is not needed any more: done() gets no ctx, and the table is not loaded and activated if it was not yet. */
void ddr_table_forget(struct ddr_table *t);
void ddr_table_free(struct ddr_table *t);

#endif
