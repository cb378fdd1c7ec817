/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Durable writes of one array's metadata (dirty log, region map, superblocks) and cache flushes. An operation goes to all requested
 * members at once, and is answered once, with the members that failed.
 *
 * A member that does not answer in time counts as failed; its request stays in flight and keeps its buffer until it ends. It must
 * never: report success for a member whose write failed, reuse a buffer that a device may still read, or allocate while there are
 * free operations.
 *
 * A superblock takes several steps on each member (metaio_super.c): its contents are read, both copies are written one after the
 * other, each behind its owner pages (format 2), and each is read back. A device that turns out to be another disk has failed; ddr_members_exchanged() is called, so it has
 * no descriptor any more.
 *
 * All functions belong to the loop's thread.
 */
#ifndef DDR_DAEMON_METAIO_H
#define DDR_DAEMON_METAIO_H

#include <stdint.h>

#include <qb/qbloop.h>

#include <ddraid/format.h>

#include "daemon/disk/members.h"
#include "lib/disk/format_owner.h"

struct ddr_metaio;

/* CHECK: only reads the superblocks: does each device still hold its member? STAMP: internal, see ddr_metaio_stamp(). */
enum ddr_metaio_kind { DDR_META_LOG, DDR_META_MAP, DDR_META_SB, DDR_META_FLUSH, DDR_META_CHECK, DDR_META_STAMP };

/*
 * How an attempt to stamp a member ended. FINE: its places held what this node wrote there, and it is stamped. LOST: they held neither that nor another
 * owner's stamp; TAKEN: a claim, or another owner's stamp; nothing was written. FAILED: they could not be read or written.
 */
enum ddr_meta_stamped { DDR_STAMPED_FINE, DDR_STAMPED_LOST, DDR_STAMPED_TAKEN, DDR_STAMPED_FAILED };

/*
 * Called once for each operation, from the loop, never from within ddr_metaio_run(). Must not close. @failed: bit m: member m.
 * @no_space: of these, members whose only error was that they had no space for what was written (never of a flush).
 */
typedef void (*ddr_metaio_done_fn)(void *ctx, enum ddr_metaio_kind kind, uint64_t io, uint32_t failed, uint32_t no_space);

struct ddr_metaio_config {
	qb_loop_t *loop;
	uint64_t engine;			/* enum ddr_conf_engine */
	unsigned int operations;		/* preallocated */
	unsigned int owner_pages;		/* of the array's superblocks; 0: format 1 */
	struct ddr_members *members;		/* a reference is taken */
	struct ddr_still *still;		/* while it holds, nothing is begun; NULL: never */
	ddr_metaio_done_fn done;
	/*
	 * A device is another disk now (ddr_members_exchanged() was called). Called from the loop, before the done() of the operation
	 * that found it. Must not close.
	 */
	void (*exchanged)(void *ctx, unsigned int member);
	/*
	 * Only of format 2, and after ddr_metaio_whose(): the superblocks on @member, @sb, are those of the array, and name another cluster. Nothing was written
	 * there; the operation fails on this member. Must not close.
	 */
	void (*taken)(void *ctx, unsigned int member, const struct ddr_super *sb, const uint8_t cluster[DDR_UUID_LEN]);
	/*
	 * Within the time limit a request could not be made because of a failure of this process (@error, aio.h). That is no evidence
	 * against the member, so the operation is not reported; this node cannot serve the array. Must not close.
	 */
	void (*unable)(void *ctx, int error);
	/*
	 * Only of format 2. may_stamp: may this member still be written to? stamped: an attempt, or a look, has ended; @found: by whom it is TAKEN. None is
	 * called for one that the process was stopped in. Neither must close.
	 */
	bool (*may_stamp)(void *ctx, unsigned int member);
	void (*stamped)(void *ctx, unsigned int member, enum ddr_meta_stamped how, const struct ddr_stamp *found);
	void *ctx;
};

struct ddr_meta_op;

int ddr_metaio_open(struct ddr_metaio **out, const struct ddr_metaio_config *cfg);
/*
 * @member gets a device, or another one: allocates what writes of its superblocks need, so that these do not have to. -ENOMEM: it must not get
 * that device now. Members whose devices were open before ddr_metaio_open() need no call.
 */
int ddr_metaio_prepare(struct ddr_metaio *m, unsigned int member);
/* done() is not called any more. Memory and members are freed with the last request in flight; ddr_members_keep() is called as requests end. */
void ddr_metaio_close(struct ddr_metaio *m);

/*
 * Returns an operation to fill in; never NULL. @members: those that it goes to; members without a descriptor fail at once. If the
 * preallocated operations are in use (hanging members may hold all of them) memory is allocated; if there is none, the process ends,
 * and its successor starts afresh.
 */
struct ddr_meta_op *ddr_metaio_get(struct ddr_metaio *m, enum ddr_metaio_kind kind, uint64_t io, uint32_t members);
/*
 * The block for @member: for log and map the same one for all members, for superblocks one for each, but the same one for all without a device,
 * which it is not sent to.
 */
void *ddr_metaio_block(struct ddr_meta_op *op, unsigned int member);
/*
 * For superblocks and checks: the members are identified by the array's superblocks as they are (@now) and as they will be (@next;
 * the same if nothing changes). The sequence number in ddr_metaio_block() does not matter: each copy gets its own of the pair.
 */
void ddr_metaio_supers(struct ddr_meta_op *op, const struct ddr_super *now, const struct ddr_super *next);
/*
 * For superblocks of format 2, after ddr_metaio_supers(): the pages that are written beside both copies of @next, the same on all members. The blocks'
 * crc of the pages does not matter. Returns the fault if @owners is not valid: nothing must be written then.
 */
struct ddr_fault ddr_metaio_owners(struct ddr_meta_op *op, const struct ddr_owners *owners, const struct ddr_super *next);
/*
 * For superblocks and checks of format 2, after ddr_metaio_supers(): the clusters that may own the array, as far as this node knows, @n of them. A valid copy
 * of this @generation, or of a later one, that names none of these is not written over: see taken(). One without a cluster is fine, and so is one that is not
 * newer than @loaded, what this node began with: a spare still has what was there before the array was adopted.
 */
void ddr_metaio_whose(struct ddr_meta_op *op, const uint8_t (*cluster)[DDR_UUID_LEN], unsigned int n, uint64_t generation, const struct ddr_super *loaded);
/* The byte offset to write to, for all members. Only log and map. */
void ddr_metaio_at(struct ddr_meta_op *op, uint64_t offset);
/* The operation is not carried out, and fails on all members. */
void ddr_metaio_refuse(struct ddr_meta_op *op);
/*
 * Nobody else must expect a write of superblocks by this node any more: what of such writes has not begun is not begun, also if it waits for memory or for the
 * end of a hold. What has begun of it lands. They are reported when that has ended, as failed on all members that do not have both copies.
 */
void ddr_metaio_take_back(struct ddr_metaio *m);
/* Within done(): of the members that failed, those that did so only because the write was taken back. */
uint32_t ddr_metaio_returned(const struct ddr_metaio *m);
/* Takes the operation; it is started at ddr_metaio_kick(). */
void ddr_metaio_run(struct ddr_meta_op *op, uint64_t now_ms, uint64_t timeout_ms);
void ddr_metaio_kick(struct ddr_metaio *m);
/*
 * Format 2: writes @stamp, without its seq, into its slot's places on @member, unless the last one is still in progress there. @sb: the array's
 * superblock. Started at ddr_metaio_kick(). Never late: an error is logged, and the next call tries again. The first stamp on a device is written over
 * whatever the places hold; after that only over what this node wrote there. False: it was not begun.
 */
bool ddr_metaio_stamp(struct ddr_metaio *m, unsigned int member, const struct ddr_stamp *stamp, const struct ddr_super *sb);
/*
 * The same, but nothing is written: what is there is compared with what this node has put there. Begun even while this process is held (still.h). FINE only
 * where there is something of this node.
 */
bool ddr_metaio_look(struct ddr_metaio *m, unsigned int member, const struct ddr_stamp *stamp, const struct ddr_super *sb);
/* Members that have a stamp of this node, as far as it knows. */
uint32_t ddr_metaio_stamped(const struct ddr_metaio *m);
/*
 * Is a stamp under way on @member, or the read before it? @ended: how many of these reads and writes have ended on the device that the member has now,
 * successfully or not.
 */
bool ddr_metaio_stamping(const struct ddr_metaio *m, unsigned int member, uint64_t *ended);
/* The next stamp on @member is a first one again. */
void ddr_metaio_stamp_afresh(struct ddr_metaio *m, unsigned int member);
/* Reports members that are late; call it regularly. */
void ddr_metaio_tick(struct ddr_metaio *m, uint64_t now_ms);
/*
 * This process stood still for @ms: nothing that ended meanwhile was noticed, so all get that much more time. Call it before
 * ddr_metaio_tick().
 */
void ddr_metaio_delay(struct ddr_metaio *m, uint64_t ms);
/* The same, for what could not go on because this process was held for @ms (still.h): all but checks. */
void ddr_metaio_delay_held(struct ddr_metaio *m, uint64_t ms);
/* Members with a request in progress, also one that was reported as failed: it may still be carried out. */
uint32_t ddr_metaio_asked(const struct ddr_metaio *m);
/* Of these, members with a write in progress: a late flush does no harm. */
uint32_t ddr_metaio_writes(const struct ddr_metaio *m);
/* Is no request in progress, so that no descriptor of a member is in use? */
bool ddr_metaio_idle(const struct ddr_metaio *m);
/* The same, but for stamps, which nothing waits for. */
bool ddr_metaio_quiet(const struct ddr_metaio *m);
const char *ddr_metaio_engine(const struct ddr_metaio *m);

#endif
