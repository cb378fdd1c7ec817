/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Loads an array: opens and locks the members that the kernel names, reads their
 * superblocks, the dirty log and the region map, and decides whether the table is right.
 *
 * All of that sleeps, so it is done in a thread of its own: a member that hangs holds
 * up its own array only, and for no longer than the limit: then it counts as not there, or, once it has delivered its superblock,
 * as one whose log and map cannot be read. The thread touches nothing but its struct ddr_load until it ends; what still hangs in a
 * member by then touches nothing of it. It must never write to a member.
 */
#ifndef DDR_DAEMON_LOADER_H
#define DDR_DAEMON_LOADER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ddraid/uapi.h>

#include "daemon/base/worker.h"
#include "daemon/disk/members.h"
#include "lib/conf.h"
#include "lib/disk/assemble.h"
#include "lib/disk/look.h"

/* The newest valid block of one place pair, or none: then everything in it counts as dirty (or needs-sync). */
struct ddr_load_block {
	bool valid;
	uint32_t node;
	uint64_t seq;
	uint64_t cookie;
	uint8_t boot_id[16];
	uint16_t repair[DDR_LOG_REPAIRS];
	uint8_t payload[DDR_LOG_PAYLOAD];
};

struct ddr_load {
	/* given */
	struct ddr_bind bind;
	bool supers_only;		/* log and map are read later (reload.h) */
	bool resumed;			/* the device was there before: who writes to it waits, and other programs are not waited for */
	unsigned int limit_ms;		/* what a device has not delivered by then counts as not there */
	char state_dir[DDR_CONF_PATH_MAX];
	struct ddr_known older;		/* the operator's word: this generation is to be started, whatever this node remembers; generation 0: none */
	void (*done)(void *ctx);	/* from the loop, once; ddr_load_free() may be called in it */
	void *ctx;
	/* found */
	bool ok;
	struct ddr_error error;		/* !ok: one sentence */
	char name[DDR_NAME_LEN];	/* of the array, "" if unknown */
	struct ddr_members *members;
	struct ddr_assembly assembly;
	uint64_t behind;		/* by that word: the generation that was remembered; 0: nothing was overridden */
	uint32_t present;		/* bit m: member m is open and current */
	uint32_t table;			/* bit m: and the table names its device at its role */
	struct ddr_load_block *log;	/* [slot * log_blocks + index] */
	struct ddr_load_block *map;	/* [index] */
	uint32_t locked;		/* bit m: member m was left out for a lock alone: it is to come back when that is free */
	/* own */
	uint32_t locked_at;		/* likewise, by the place */
	bool others_locked;		/* likewise, some that the table does not name */
	char waits[192];		/* ddr_load_waits() */
	atomic_bool cancel;
	struct ddr_worker worker;
};

/*
 * For the log, how a look at a device began: nothing if it runs. @what: of member (or place) @m, in words; @err: why it failed. False: there was no
 * memory for it, and nothing is known of the device.
 */
bool ddr_load_begun(enum ddr_look_start how, const struct ddr_members *members, unsigned int m, const char *what, const struct ddr_error *err);

/* What it waits for at the moment, in words: a member that is locked, and by whom; else "". From any thread. */
void ddr_load_waits(struct ddr_load *l, char *buf, size_t size);

/* Starts the thread. Returns 0 or a negative errno (then done() is not called). */
int ddr_load_start(struct ddr_load *l, qb_loop_t *loop);
/* Asks the thread to end soon; done() still follows, with ok false. */
void ddr_load_cancel(struct ddr_load *l);
/* Frees what was found, and @l. The members keep their other references. */
void ddr_load_free(struct ddr_load *l);

/*
 * Reads the log of @slot, or the map (DDR_MAP_SLOT), of those members of @from that @sb has in sync, into the blocks
 * at @out (zeroed). The newest valid copy on any of them counts: a mark was durable on all of them before its
 * grant. All are read at once, and one that has not answered after @limit_ms is one that cannot be read. A block that no member
 * could deliver whole stays invalid. Sleeps, for twice the limit at worst: another may be reading the same device. 0, -ENOMEM,
 * -ETIMEDOUT: none delivered it, and one that hangs may have it; or -EIO: all that were asked answered with an error.
 */
int ddr_load_area(struct ddr_members *members, const struct ddr_super *sb, uint32_t from, uint16_t slot, unsigned int limit_ms,
		  struct ddr_load_block *out);

#endif
