/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Durable writes of one array's metadata (dirty log, region map, superblocks) and cache
 * flushes: to all asked members at once, answered once with the members that failed.
 *
 * A member that does not answer in time counts as failed; its request stays in flight
 * and keeps its buffer until it ends. It must never: report success for a member whose
 * write did not end well, reuse a buffer that a device may still read, or allocate
 * while there are free operations.
 *
 * A superblock takes several steps on each member (metaio_super.c): what stands there is read, both copies are written one after the
 * other, and each is read back. A device that turns out to hold another disk is failed, and ddr_members_exchanged() is told: it has no descriptor any more.
 *
 * All functions belong to the loop's thread.
 */
#ifndef DDR_DAEMON_METAIO_H
#define DDR_DAEMON_METAIO_H

#include <stdint.h>

#include <qb/qbloop.h>

#include <ddraid/format.h>

#include "daemon/disk/members.h"

struct ddr_metaio;

/* CHECK: the superblocks are read, and nothing is written: does each device still hold its member? */
enum ddr_metaio_kind { DDR_META_LOG, DDR_META_MAP, DDR_META_SB, DDR_META_FLUSH, DDR_META_CHECK };

/*
 * Called once for each operation, from the loop, never from within ddr_metaio_run(). Must not close. @failed: bit m: member m. @no_space:
 * of these, members that had no space for what was written, and nothing else (never of a flush).
 */
typedef void (*ddr_metaio_done_fn)(void *ctx, enum ddr_metaio_kind kind, uint64_t io, uint32_t failed, uint32_t no_space);

struct ddr_metaio_config {
	qb_loop_t *loop;
	uint64_t engine;			/* enum ddr_conf_engine */
	unsigned int operations;		/* preallocated */
	struct ddr_members *members;		/* a reference is taken */
	ddr_metaio_done_fn done;
	/* A device holds another disk now (ddr_members_exchanged() was told); from the loop, before the operation that has seen it is done. Must not close. */
	void (*exchanged)(void *ctx, unsigned int member);
	void *ctx;
};

struct ddr_meta_op;

int ddr_metaio_open(struct ddr_metaio **out, const struct ddr_metaio_config *cfg);
/* No done() is called any more; memory and members go with the last request in flight, and the members are told of each (ddr_members_keep()). */
void ddr_metaio_close(struct ddr_metaio *m);

/*
 * An operation to fill; never NULL. @members: on which; those without a descriptor fail
 * at once. Beyond the preallocated ones (hanging members may hold them all) memory is
 * allocated, and if there is none, the process ends: its successor starts afresh.
 */
struct ddr_meta_op *ddr_metaio_get(struct ddr_metaio *m, enum ddr_metaio_kind kind, uint64_t io, uint32_t members);
/* The block that goes to @member: for log and map one for all members, for superblocks one each. */
void *ddr_metaio_block(struct ddr_meta_op *op, unsigned int member);
/*
 * Superblocks and looks at them: of which members, as the array's superblocks are @now and as they will be @next (the same, if nothing
 * changes). What stands in ddr_metaio_block() is of any sequence number: each copy gets its own of the pair.
 */
void ddr_metaio_supers(struct ddr_meta_op *op, const struct ddr_super *now, const struct ddr_super *next);
/* Where it goes, in bytes; for all members. Log and map. */
void ddr_metaio_at(struct ddr_meta_op *op, uint64_t offset);
/* Instead of being written, the operation will fail on all members. */
void ddr_metaio_refuse(struct ddr_meta_op *op);
/* Takes the operation; started at ddr_metaio_kick(). */
void ddr_metaio_run(struct ddr_meta_op *op, uint64_t now_ms, uint64_t timeout_ms);
void ddr_metaio_kick(struct ddr_metaio *m);
/* Reports members that are over their time; call it every now and then. */
void ddr_metaio_tick(struct ddr_metaio *m, uint64_t now_ms);
/* This process stood still for so long: nothing that ended meanwhile was seen, and all have so much more time. Before ddr_metaio_tick(). */
void ddr_metaio_delay(struct ddr_metaio *m, uint64_t ms);
/* Members that have a request under way, also one that was reported as failed: it may still be carried out. */
uint32_t ddr_metaio_asked(const struct ddr_metaio *m);
/* Of these, those to which a write is under way: what a flush that comes late does harms nobody. */
uint32_t ddr_metaio_writes(const struct ddr_metaio *m);
/* No request is under way. */
bool ddr_metaio_idle(const struct ddr_metaio *m);
const char *ddr_metaio_engine(const struct ddr_metaio *m);

#endif
