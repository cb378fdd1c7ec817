/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Loads an array: opens and locks the members that the kernel names, reads their superblocks, the dirty log and the region map, and
 * checks the table.
 *
 * All of that sleeps, so it is done in a thread of its own: a member that hangs only delays its own array, and only until the limit.
 * Then it counts as absent or, if it had already delivered its superblock, as a member whose log and map cannot be read. Until it
 * ends, the thread uses nothing but its struct ddr_load.
 *
 * Must never: write to a member, but for claims to slots (claim.h); count one as absent because this process had no memory, descriptor or thread to read it.
 */
#ifndef DDR_DAEMON_LOADER_H
#define DDR_DAEMON_LOADER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <ddraid/uapi.h>

#include "daemon/base/still.h"
#include "daemon/base/worker.h"
#include "daemon/disk/claim.h"
#include "daemon/disk/members.h"
#include "lib/conf.h"
#include "lib/disk/assemble.h"
#include "lib/disk/look.h"

/* The newest valid block of a pair of places, or none: then everything in it counts as dirty (or needs-sync). */
struct ddr_load_block {
	bool valid;
	bool late;			/* a write of an earlier owner of the slot lies in one of its places */
	uint32_t node;
	uint64_t seq;
	uint64_t cookie;
	uint8_t boot_id[16];
	uint16_t repair[DDR_LOG_REPAIRS];
	uint8_t payload[DDR_LOG_PAYLOAD];
};

struct ddr_load {
	/* set by the caller */
	struct ddr_bind bind;
	bool supers_only;		/* log and map are read later (reload.h) */
	bool resumed;			/* the device existed before: writers may be waiting, so other programs are not waited for */
	unsigned int limit_ms;		/* a device that has not answered within this time counts as absent */
	char state_dir[DDR_CONF_PATH_MAX];
	struct ddr_known older;		/* the operator starts this generation, whatever this node remembers (--older); generation 0: none */
	struct ddr_claim claim;		/* who takes over slots of others, and what came of it */
	void (*done)(void *ctx);	/* called from the loop, once; may call ddr_load_free() */
	void *ctx;
	/* results */
	bool ok;
	struct ddr_error error;		/* !ok: the message; own: nothing is known about the members, and another attempt may succeed */
	char name[DDR_NAME_LEN];	/* of the array, "" if unknown */
	struct ddr_members *members;
	struct ddr_assembly assembly;
	struct ddr_owners owners;	/* beside assembly.super */
	uint64_t behind;		/* with --older: the generation that was remembered; 0: nothing was overridden */
	uint32_t present;		/* bit m: member m is open and current */
	uint32_t table;			/* bit m: and the table names its device at its role */
	struct ddr_load_block *log;	/* [slot * log_blocks + index] */
	struct ddr_load_block *map;	/* [index] */
	uint32_t locked;		/* bit m: member m was left out only because it is locked: it is taken back when it is unlocked */
	struct ddr_still still;		/* of the loop's thread: without a cluster, what is read counts only if this process does not stand still meanwhile */
	/* internal */
	uint32_t locked_at;		/* the same, by place */
	bool others_locked;		/* the same, for devices that the table does not name */
	char waits[192];		/* ddr_load_waits() */
	atomic_bool cancel;
	struct ddr_worker worker;
};

/*
 * Logs how a look at a device began; nothing if it runs. @what: what is read from member (or place) @m; @err: why it failed. False:
 * out of memory, and nothing is known about the device.
 */
bool ddr_load_begun(enum ddr_look_start how, const struct ddr_members *members, unsigned int m, const char *what, const struct ddr_error *err);

/* What it waits for at the moment: a locked member, and who holds the lock; a sign of life of another machine; else "". May be called from any thread. */
void ddr_load_waits(struct ddr_load *l, char *buf, size_t size);

/* Starts the thread. Returns 0 or a negative errno (then done() is not called). */
int ddr_load_start(struct ddr_load *l, qb_loop_t *loop);
/* Asks the thread to end soon; done() is still called, with ok false. */
void ddr_load_cancel(struct ddr_load *l);
/* Frees the results, and @l. Other references to the members stay valid. */
void ddr_load_free(struct ddr_load *l);

/*
 * Reads the log of @slot, or the map (DDR_MAP_SLOT), from those members of @from that @sb has in sync, into the blocks at @out
 * (zeroed). The newest valid copy on any of them is used: a mark was durable on all of them before its grant. A block that has a lower sequence than @since in
 * one of its places, on any of them, stays invalid as well (struct ddr_owner, log_seq); 0 for the map. All are read at once;
 * one that has not answered after @limit_ms counts as unreadable. A block that no member could deliver stays invalid. Sleeps, at most
 * for twice the limit, if another thread is reading the same device. Returns 0; -ENOMEM: this process could not read at least one of
 * them, for lack of memory or the like; -ETIMEDOUT: no member delivered it, and one
 * that hangs may have it; or -EIO: all members that were asked returned errors.
 */
int ddr_load_area(struct ddr_members *members, const struct ddr_super *sb, uint32_t from, uint16_t slot, uint64_t since, unsigned int limit_ms,
		  struct ddr_load_block *out);

#endif
