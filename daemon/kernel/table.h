/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Loads a table into one of this node's mapped devices that names another device at one place, or is longer, and nothing else anew.
 *
 * device-mapper exchanges the tables in one call, without flushing: I/O that waits is taken back and given to the new table,
 * so it waits for nothing that only this daemon can give. Whatever happens to this process meanwhile, the device is never left suspended.
 * The call sleeps, so it is done in a thread of its own; the changes of several arrays do not wait for each other.
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
	/* given */
	uint8_t uuid[16];		/* of the array */
	uint32_t dm_major, dm_minor;	/* the mapped device */
	uint64_t sectors;		/* 0: it stays as long as it is. Else it gets this length, and no other device */
	uint32_t place;			/* of the stripe */
	uint32_t major, minor;		/* what is to stand there, and nothing beside it; both 0: nothing */
	bool shadow;			/* it is to stand beside the device at that place, to replace it; both 0: nothing beside any */
	uint32_t member;		/* the caller's */
	void (*done)(void *ctx, struct ddr_table *t);	/* from the loop, once; frees it by ddr_table_free(). ctx NULL: nobody waits */
	void *ctx;
	/* found */
	int result;			/* 0: the kernel has it, and tells so by RESUMED; -EALREADY: it had it; another errno: @error */
	struct ddr_error error;
	/* own */
	atomic_bool forgotten;
	struct ddr_table *next;
	char dm_uuid[129];		/* of the mapped device; "": it has none, or was not looked at yet */
	struct ddr_worker worker;
};

/* Starts the thread. 0 or a negative errno (then done() is not called). */
int ddr_table_start(struct ddr_table *t, qb_loop_t *loop);
/* Nobody waits any more: done() gets no ctx, and what has not been loaded and activated is not. */
void ddr_table_forget(struct ddr_table *t);
void ddr_table_free(struct ddr_table *t);

#endif
