/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The inside of the state machine: its structures, and the contracts between its files.
 *
 *	sm.c		memory, loading, the step, status
 *	sm_view.c	views, messages in and out, the start of this node
 *	sm_kernel.c	attach and declaration, member states and bits to the kernel, freeze, its records
 *	sm_grant.c	LOCK, marks, the writes of the dirty log, GRANT
 *	sm_clear.c	REAP, CLOSED, flushes, clearing of marks, the clean stop
 *	sm_map.c	the region map: MAP_SET and MAP_DONE, its writes
 *	sm_ex.c		exclusive ranges: requests, drains, acknowledgements, release
 *	sm_resync.c	what is resynced and when: region works and their ranges, verification of mismatches
 *	sm_member.c	member failure: intent, superblocks, done, acknowledgement
 *	sm_rebuild.c	spares taken, what is written before them folded into the map, the rebuild and its cursor
 *	sm_seek.c	who sees which member; members that are added, removed, or come back
 *	sm_fix.c	bad sectors and wrong chunks that are put right in place
 *	sm_verify.c	the verify that all agree on, and its reads
 *	sm_error.c	errors and mismatches that the kernel reports
 *	sm_check.c	consistency of all that
 *	sm_cluster.c	views of several nodes, quorum, hellos, agreement on a view, who writes
 *	sm_join.c	what is on disk at the group's start and at a change of the writer; a joiner's state
 *	sm_fence.c	nodes that are lost, their fencing, clean leaving
 *	sm_recover.c	taking over the slot of a dead node
 *
 * An input is handled in two parts. Its handler changes the state and emits a bounded
 * number of outputs (DDR_SM_HANDLER_OUT at most). Then the pumps run, each of which
 * carries one thing on as far as it can: a pump looks at the state only, so that it does
 * not matter which input made it possible. A pump that changed anything sets sm->again,
 * and all of them run once more; one that has no room for its outputs stops and the
 * driver comes back with DDR_IN_NONE.
 *
 * Regions are kept as bitmaps in the order of the log blocks, 64 regions a word.
 */
#ifndef DDR_LIB_SM_INT_H
#define DDR_LIB_SM_INT_H

#include <errno.h>
#include <string.h>

#include <ddraid/proto.h>
#include "format.h"
#include "msg.h"
#include "sm.h"

#define DDR_SM_HANDLER_OUT	160u	/* outputs that a handler emits at most; see ex_cancel */
#define DDR_SM_ERRORS		4096u	/* errors of the kernel that wait at once; what is more is tried again */
#define DDR_SM_MISMATCHES	64u
#define DDR_SM_EX		128u	/* ranges of all nodes that are in force at once */
#define DDR_SM_RANGES		12u	/* of these ours: jobs, and some for mismatches */
#define DDR_SM_FIXES		16u	/* places that this node puts right at once */
#define DDR_SM_SCANS		2u	/* reads of verify that are out at once */
#define DDR_SM_WORKS		8u	/* regions in resync at once */
#define DDR_SM_REAP_MAX		(1u << 20)
#define DDR_SM_RETRY_MS		5000u	/* pause after a job range that failed for no member's fault */
#define DDR_SM_SKIP_MS		600000u	/* before the background tries again what met a bad sector */
#define DDR_SM_SEQ_SHIFT	32	/* where the last sequence of a block is unknown: superblock sequence << this */

#define DDR_WORDS_LOG		(DDR_LOG_REGIONS / 64u)	/* words of a bitmap that one log block covers */

/* ---- bitmaps ------------------------------------------------------------------- */

static inline bool ddr_bit(const uint64_t *map, uint64_t i)
{
	return map[i / 64] >> (i % 64) & 1;
}

static inline void ddr_bit_set(uint64_t *map, uint64_t i)
{
	map[i / 64] |= 1ull << (i % 64);
}

static inline void ddr_bit_clear(uint64_t *map, uint64_t i)
{
	map[i / 64] &= ~(1ull << (i % 64));
}

/* ---- parts of the state -------------------------------------------------------- */

/* One block of our slot's log. States: idle, flying (a write is out), held (it ended, but a member failed in it). */
enum ddr_write_state { DDR_W_IDLE, DDR_W_FLYING, DDR_W_HELD };

struct ddr_sm_log {
	enum ddr_write_state state;
	bool loaded;
	bool dirty;		/* memory differs from what was written last */
	bool renew, fly_renew;	/* a member that rebuilds has never got it; the write that is out brings it */
	bool fly_ours;		/* the write that is out names our kernel as the owner */
	bool dur_ours;		/* a copy that names it may be on disk */
	bool ready;		/* regions of it may have become ready for their grant */
	uint32_t want;		/* regions of it that wait for a grant */
	uint32_t failed;	/* held: members that failed */
	uint64_t io, seq;
	uint32_t node;		/* as loaded */
	uint8_t boot_id[16];
	uint64_t cookie;
};

/* One block of the region map. Version numbers count its changes; they are the same on all nodes. */
struct ddr_sm_map {
	enum ddr_write_state state;
	bool loaded;
	uint32_t failed;
	uint64_t io, seq;
	uint64_t mem, fly, dur;	/* version in memory, in the write that is out, durable */
	bool tell;		/* dur has grown and MAP_DONE was not sent yet */
};

/* Our MAP_SET: at most one is on its way. */
enum ddr_mapreq_state { DDR_MQ_FREE, DDR_MQ_SEND, DDR_MQ_SENT, DDR_MQ_WAIT };

struct ddr_sm_mapreq {
	enum ddr_mapreq_state state;
	uint32_t id, n;
	struct ddr_msg_map_run run[DDR_MAP_RUNS];
	uint32_t n_wait;
	struct { uint32_t block; uint64_t version; } wait[DDR_MAX_REGIONS / DDR_MAP_REGIONS + 1];
};

/* The kernel behind the channel. */
enum ddr_kstate { DDR_K_GONE, DDR_K_DECLARING, DDR_K_ATTACHED };

struct ddr_sm_kernel {
	enum ddr_kstate state;
	uint64_t cookie;
	uint8_t boot_id[16];
	uint64_t seq;			/* last number given to a record */
	uint64_t declared;		/* regions in HELD so far */
	bool same;			/* the instance that was attached before */
	bool enabled, frozen;		/* as told to it */
	bool freeze_told;		/* it may still be frozen for an earlier daemon */
	uint8_t sent[DDR_UAPI_MAX_ROLES];	/* enum ddr_kmember told, 0xff: nothing */
	uint64_t cursor[DDR_UAPI_MAX_ROLES];	/* told with it */
	uint32_t table;			/* members whose devices its table names */
	uint32_t table_asked;		/* of those that it does not: TABLE is out */
	uint64_t member_seq[DDR_UAPI_MAX_ROLES];
	uint32_t applying;		/* positions whose APPLIED is open */
	uint64_t bits_at;		/* word at which the scan of bchg goes on */
	bool bits;			/* bchg is not empty */
	bool status;			/* the status line is out of date */
};

/* An exclusive range in force, of any node. */
struct ddr_sm_ex {
	bool used;
	uint32_t node, id;
	uint64_t start, count;		/* blocks */
	uint64_t acked;			/* nodes that acknowledged, bit: position in sm->nodes */
	uint64_t dirty;			/* regions of it that one of them has to resync */
	bool granted;			/* all had acknowledged: the owner may work, whoever joins now */
	bool drain_sent, drained, ack_sent;
	uint64_t kseq;
};

/*
 * A range of ours, from the wish to the end of its release:
 * ask -> asked (our request is on its way) -> acks -> job -> [held: a member failed in it] -> release -> released.
 */
enum ddr_range_state { DDR_R_FREE, DDR_R_ASK, DDR_R_ASKED, DDR_R_ACKS, DDR_R_JOB, DDR_R_HELD, DDR_R_RELEASE, DDR_R_RELEASED };

enum ddr_range_kind { DDR_RK_WORK, DDR_RK_VERIFY, DDR_RK_REBUILD, DDR_RK_FIX };

struct ddr_sm_range {
	enum ddr_range_state state;
	enum ddr_range_kind kind;
	uint32_t owner;			/* index of the work, mismatch or fix, or the member */
	uint64_t mismatch;		/* number of the mismatch, since its place may be taken anew */
	uint32_t id;
	uint64_t start, count;		/* blocks */
	uint64_t io, mismatches, repaired;
	uint64_t bad_start, bad_count;	/* from the first block that stayed wrong to the last */
	struct ddr_fixed fixed[DDR_MAX_MEMBERS];
	bool dirty;			/* another node has to resync a part of it */
	bool tainted;			/* the kernel was rebound during the job: what it did does not count */
	uint32_t failed;
	int32_t result;
};

/* A region in resync: mark (until the mark is durable) -> run -> flush -> map (asked for) -> map sent. */
enum ddr_work_state { DDR_WK_FREE, DDR_WK_MARK, DDR_WK_RUN, DDR_WK_FLUSH, DDR_WK_MAP, DDR_WK_MAP_SENT };

struct ddr_sm_work {
	enum ddr_work_state state;
	uint64_t region;
	uint64_t next, end;		/* blocks */
	uint32_t out;			/* ranges under way */
	uint64_t done;			/* blocks */
	bool crash;			/* it was dirty at a crash or a write in it failed; else: never computed */
	bool again;			/* must be done once more from the start */
	bool suspect;			/* a part could not be done: its data is missing */
	uint32_t step;			/* blocks of a range; small ones find out a bad sector */
	uint64_t flush;			/* ticket */
};

/* A place that is put right. WAIT: for its region, in which others work; MARK: until the mark is durable. */
enum ddr_fix_state { DDR_FX_FREE, DDR_FX_WAIT, DDR_FX_MARK, DDR_FX_RUN };

struct ddr_sm_fix {
	enum ddr_fix_state state;
	uint32_t what;			/* DDR_FIX_* */
	uint64_t start, count;		/* blocks, of one region */
	uint64_t at;			/* below it, it is done */
	uint32_t step;			/* blocks of a range */
	bool out;			/* a range is under way */
	bool left;			/* a bad sector stays */
	bool given_up;
};

/* A read of verify. AGAIN: it did not fit; WRONG: nor did it after some looks, or there is a bad sector: it waits for a fix. */
enum ddr_scan_state { DDR_SC_FREE, DDR_SC_READ, DDR_SC_AGAIN, DDR_SC_WRONG };

struct ddr_sm_scan {
	enum ddr_scan_state state;
	uint64_t io, start, count;	/* blocks */
	uint32_t looks;
};

/* Own: the writer's work on the verify that is agreed on, and what the operator asks of it. */
struct ddr_sm_verify {
	bool begun;			/* what follows is of the verify with the number @serial */
	uint32_t serial;
	uint64_t next;			/* block at which the next read begins */
	struct ddr_sm_scan scan[DDR_SM_SCANS];
	uint64_t found, repaired;	/* blocks; not told yet */
	uint64_t told_at;		/* ms */
	bool sent;			/* a VERIFY of ours is on its way */
	bool paced;			/* no more reads for now */
	uint32_t ask, ask_priority, ask_flags;	/* the operator's request, until it was delivered; 0: none */
	struct ddr_verify writing, recorded;	/* in the superblock write that is out, and on the disks */
};

struct ddr_sm_error {
	bool used, soft;
	bool refused;			/* the member must stay: the bios fail */
	uint32_t member;
	uint64_t seq;
};

struct ddr_sm_mismatch {
	bool used;
	bool ranged;			/* a range of ours reads it again */
	uint64_t seq, start, count;
};

/*
 * A change of the superblocks. idle -> write (the writer of the view writes) -> ack (done was
 * delivered; each node acknowledges when its kernel obeys) -> idle.
 */
enum ddr_trans_state { DDR_T_IDLE, DDR_T_WRITE, DDR_T_DONE_SENT, DDR_T_ACK };

struct ddr_sm_trans {
	enum ddr_trans_state state;
	uint32_t want_faulty, want_missing;	/* delivered and judged, not begun */
	uint64_t want_slots;			/* slots claimed by START, not begun */
	uint32_t slot_node[DDR_MAX_SLOTS];	/* by whom */
	uint32_t faulty, missing;		/* of the change under way */
	uint64_t slots;
	uint32_t leaving;			/* out by the superblocks, and not all kernels have stopped reading them */
	uint64_t io;				/* superblock write, 0: none is out */
	uint32_t targets;			/* members that it goes to */
	uint32_t blocked;			/* members on which it failed: their failure comes first */
	bool writing;				/* one was begun (its content is in sm->next) */
	bool written;				/* it is durable, DONE may be sent */
	uint64_t acked;
	bool ack_sent;
	struct ddr_msg_member_set want_set, set;	/* operation 0: none. Delivered and not begun; of the change under way */
	uint32_t back;				/* members that are out, and come back once all see them */
	bool restart;				/* the change that waits for acknowledgements is of more than slots and cursors */
	uint32_t report_hard, report_soft;	/* members whose failure we must report */
	uint32_t reported_hard, reported_soft;	/* of these: on the wire */
};

/* READ: with a cluster, our slot's log is read once it is surely ours. */
enum ddr_start_state { DDR_S_OFF, DDR_S_SENT, DDR_S_DELIVERED, DDR_S_READ, DDR_S_DONE };

/*
 * A node. Changed in the total order only, so that places and contents are the same on all
 * nodes that have the state; but for what is marked as this node's own.
 */
struct ddr_sm_node {
	uint32_t id;			/* 0: free */
	bool here;			/* in the view */
	bool lost;			/* left, or was never heard of, and is not proven dead */
	bool started;			/* its START was delivered, and it was not lost since */
	bool leaving;			/* its LEAVE was delivered */
	bool absent;			/* lost since the group's start */
	bool dead;			/* the instance (boot_id, cookie) was fenced and never comes back */
	bool folded;			/* what it had dirty before its kernel wrote to all that rebuild is in the map */
	uint32_t sees;			/* members whose devices it has open */
	uint32_t leave_dirty;		/* regions in its slot, as it left */
	uint32_t attempt;		/* of fencing */
	uint64_t failure;		/* name of its present failure */
	uint8_t boot_id[16];
	uint64_t cookie;
	/* own */
	uint64_t lost_at;		/* ms */
	uint64_t asked;			/* failure for which FENCE is out */
	uint32_t how;			/* FENCED is to be sent */
	bool how_sent, wait_told;
};

/* A member of the process group's view, by what it said of itself. */
struct ddr_sm_viewer {
	uint32_t id, pid;
	bool hello;			/* its hello for this view was delivered */
	bool synced, other;		/* it has the state; it has one that is not the group's */
	bool unproven;			/* nobody has written anything by that state */
	bool active;			/* it takes part */
	uint32_t epoch;
	uint64_t history;
};

enum ddr_view_phase { DDR_V_NONE, DDR_V_HELLO, DDR_V_AGREED };
enum ddr_recover_state { DDR_RC_IDLE, DDR_RC_READ, DDR_RC_MARK, DDR_RC_WRITE, DDR_RC_DONE };

struct ddr_sm_cluster {
	bool on, fencing;
	/* quorum service */
	bool q_quorate;
	uint64_t q_ring;
	uint32_t q_nodes[DDR_SM_MAX_NODES], q_n;
	/* view */
	struct ddr_sm_viewer view[DDR_SM_MAX_NODES];
	uint32_t n_view;
	uint64_t view_name;
	uint32_t void_epoch;		/* hellos of an epoch before it were said before the state was called void */
	enum ddr_view_phase phase;
	bool hello_sent;
	bool apart;			/* there was no quorum since the last agreement */
	uint64_t meet_until;		/* ms: then, who is absent is not waited for any more */
	bool synced;			/* we have the state */
	bool transfer;			/* some of the view have not: nobody changes it */
	bool building;			/* we make it, from disk */
	uint32_t provider;		/* who sends it */
	uint32_t epoch;			/* agreements so far */
	uint64_t history;		/* names the messages that made our state */
	uint64_t ring_history;		/* as it was when the ring began */
	uint32_t failures;
	/* the state on its way */
	uint8_t *buf;
	uint32_t size, used;		/* bytes */
	uint32_t chunks, sent, delivered;
	uint64_t digest;
	/* reading the disks */
	uint64_t reload_io, reload_at;
	uint32_t reload_epoch;		/* in which it began */
	struct ddr_super disk;
	bool disk_known;
	uint8_t *disk_map;		/* nibbles, as map; the group's where a block could not be read */
	bool disk_changed;		/* the map there is not the group's */
	bool merging, merge_sent;	/* the group is told what only the disks know; MAP_SET is on its way */
	uint64_t merge_at;		/* regions before it are told */
	bool unproven;			/* built, and nothing was written since: its owners' last writes may have come after our reading */
	uint32_t writer;		/* node that writes superblocks and map, 0: none */
	bool writer_ready;		/* we know what the one before left on the disks */
	/* recovery of slots */
	uint64_t rec;			/* slots of dead nodes */
	uint32_t rec_by[DDR_MAX_SLOTS];	/* who recovers it, 0: nobody yet */
	enum ddr_recover_state rc;
	bool rc_sent;			/* RECOVER or RECOVERED is on its way */
	uint32_t rc_slot;
	uint64_t rc_io, rc_at, rc_regions;
	uint32_t rc_index, rc_failed;
	uint64_t *rc_map;		/* regions dirty in that slot */
	struct ddr_sm_log *rc_log;	/* of its blocks: loaded, seq */
	/* own slot */
	uint64_t read_io, read_at;
	/* leaving */
	bool leave_wanted, leave_sent, leave_done, left_told;
};

/* The rebuild of a member: by the writer, from the cursor of the superblocks on. */
struct ddr_sm_rebuild {
	uint64_t since;			/* generation of the member's state that all this is about; 0: nobody rebuilds */
	uint32_t member;
	uint64_t next;			/* block at which the next range begins */
	uint64_t redo;			/* lowest block of what was not done; or UINT64_MAX */
	uint64_t cursor_at;		/* ms of the last change of the cursor */
	uint64_t copied;		/* blocks that this node has written to it */
	uint64_t *map_want;		/* version of each block of the map that must be durable before the end */
	bool ending;			/* all ranges are done */
	bool set_sent;			/* MEMBER_SET is on its way */
	/* folding, on every node */
	uint64_t fold_at;		/* region at which it goes on */
	bool fold_mapping;		/* regions of it are in the MAP_SET that is on its way */
	bool folded_sent;
};

/* Own: what this node knows of devices, and what of that it has told. */
struct ddr_sm_seek {
	uint32_t last;			/* members whose superblock is the last that they can have had */
	bool seen_sent;			/* SEEN is on its way */
	uint32_t looked;		/* members whose devices were looked for since they were wanted */
	uint32_t ask;			/* SEEK is to be sent for these */
	bool ask_sent;			/* one is on its way */
	struct ddr_msg_member_set set;	/* the operator's ADD or REMOVE, until it was taken; operation 0: none */
};

enum ddr_batch_state { DDR_B_IDLE, DDR_B_FLUSH, DDR_B_MAP };

struct ddr_sm {
	struct ddr_super sb, next;	/* agreed; being written */
	uint32_t node, slot, present;
	uint8_t entropy[16];
	uint64_t regions;
	uint64_t region_blocks;
	uint32_t n_log, n_map;
	uint64_t words;			/* of a bitmap */

	struct ddr_outputs *o;		/* of the step */
	bool again, full, bug;

	uint64_t now;			/* ms, of the last tick */
	bool ticked;
	uint64_t io_serial;
	uint32_t msg_serial;

	struct ddr_sm_cluster c;

	/* group */
	struct ddr_sm_node nodes[DDR_SM_MAX_NODES];
	bool viewed, quorate;
	uint64_t ring;
	enum ddr_start_state start;
	bool planned;			/* what is dirty was sorted into held and to be resynced */
	bool ready_told;
	bool failed, gave_up, refused_told;
	uint32_t foreign_node;		/* another owner whose slot is dirty */
	uint64_t foreign_regions;

	/* regions */
	uint64_t *mark;			/* dirty in memory */
	uint64_t *fly;			/* dirty in what was written last */
	uint64_t *dur;			/* surely dirty on all members in sync */
	uint64_t *want;			/* a LOCK waits */
	uint64_t *granted;		/* our kernel may write */
	uint64_t *held;			/* as it declares */
	uint64_t *resync;		/* may hold wrong parity: the mark stays until a resync has ended */
	uint64_t *work;			/* in work */
	uint64_t *clr;			/* in the batch that is being cleared */
	uint64_t *skip;			/* met a bad sector in the background: not before skip_until */
	uint64_t *kclean, *ksusp, *bchg;	/* bits told to the kernel; regions whose bits may have changed */
	uint8_t *map;			/* nibbles, as in the payload */
	uint64_t n_granted, n_want, n_resync, n_needs_sync, n_suspect;

	struct ddr_sm_log *log;
	struct ddr_sm_map *mapb;
	struct ddr_sm_mapreq mq;
	struct ddr_sm_kernel k;
	struct ddr_sm_trans t;
	uint32_t seen_hard, seen_soft;	/* members that failed here and are not out by the superblocks; survives the state */
	struct ddr_sm_rebuild rb;
	struct ddr_sm_seek sk;
	struct ddr_sm_ex ex[DDR_SM_EX];
	struct ddr_sm_ex stale[DDR_SM_EX];	/* of a state that we forgot; our kernel keeps its writers out of them */
	uint32_t n_stale;
	struct ddr_sm_range range[DDR_SM_RANGES];
	struct ddr_sm_work wk[DDR_SM_WORKS];
	struct ddr_sm_fix fix[DDR_SM_FIXES];
	struct ddr_sm_verify vf;
	uint32_t corrected[DDR_MAX_MEMBERS], max_corrected;	/* places put right by this node */
	uint64_t wall;			/* seconds since 1970, of the last tick */
	struct ddr_sm_error *err;
	uint32_t n_err;
	struct ddr_sm_mismatch mm[DDR_SM_MISMATCHES];
	uint32_t ex_id, map_id;

	/* flushes: tickets are numbers of flushes; a ticket is served when flushed has reached it */
	uint64_t flush_issued, flushed, flush_wanted, flush_io;
	bool flush_held;
	uint32_t flush_failed;

	/* clearing */
	enum ddr_batch_state batch;
	bool clear_scan;		/* regions may have become ready to be cleared */
	uint64_t batch_flush;
	uint64_t batch_at;		/* region at which the map phase goes on */
	bool batch_mapping;		/* regions of the batch are in the MAP_SET that is on its way */
	uint64_t reap_seq;		/* 0: none is out */
	uint64_t reap_at;		/* ms of the last one */
	uint32_t reap_idle;		/* how many in a row closed nothing */
	bool reap_wait;			/* clean stop: what is left is in use, ask again at the next tick */

	/* operator */
	bool stopping, clean_wanted, paused, suspect_error, hot_spare;
	uint32_t parallel;
	uint64_t idle_ms, away_ms;

	/* resync */
	uint64_t hold_until;		/* ms: no range begins before */
	uint64_t skip_until;		/* ms; 0: nothing is skipped */
	uint64_t resync_at, sync_at;	/* region at which the search goes on */
	bool sync_scan;			/* a region may have become ready for the background */
	uint64_t resync_total, resync_done;	/* blocks */
	uint64_t resync_regions_done, resync_blocks;
	bool resync_told;
	uint64_t mismatches;

	uint64_t log_writes, map_writes, sb_writes, flushes, mcasts;
};

/* ---- sm.c ---------------------------------------------------------------------- */

/* A zeroed output of @type. Never NULL: beyond the array it is the last one, and sm->bug is set. */
struct ddr_output *ddr_sm_out(struct ddr_sm *sm, enum ddr_out_type type);
/* Room for @n more outputs? Otherwise the step is cut here and goes on with DDR_IN_NONE. */
bool ddr_sm_room(struct ddr_sm *sm, uint32_t n);
struct ddr_output *ddr_sm_event(struct ddr_sm *sm, enum ddr_event event, const char *text);
/* An input that cannot be: reported, otherwise ignored. */
void ddr_sm_bug(struct ddr_sm *sm, const char *text);
/* A new io id that carries @index (16 bits). */
uint64_t ddr_sm_io(struct ddr_sm *sm, uint32_t index);
static inline uint32_t ddr_sm_io_index(uint64_t io)
{
	return (uint32_t)(io & 0xffff);
}

/* Members that hold their role for every stripe / that log, map and superblock are written to. */
uint32_t ddr_sm_in_sync(const struct ddr_sm *sm);
uint32_t ddr_sm_written(const struct ddr_sm *sm);
bool ddr_sm_degraded(const struct ddr_sm *sm);
/* May this node act at all: in a quorate view, not failed, not given up? */
static inline bool ddr_sm_active(const struct ddr_sm *sm)
{
	return sm->quorate && !sm->failed && !sm->gave_up;
}

/* The recovery plan is made and the kernel listens: grants and jobs may run. */
static inline bool ddr_sm_running(const struct ddr_sm *sm)
{
	return ddr_sm_active(sm) && sm->planned && sm->k.state == DDR_K_ATTACHED && !sm->c.leave_sent;
}

/* May this node change the state of the group? Only once all of the view agree on the view, and all have the state. */
static inline bool ddr_sm_talks(const struct ddr_sm *sm)
{
	return !sm->c.on || (sm->c.phase == DDR_V_AGREED && sm->c.synced && !sm->c.transfer && sm->quorate);
}

void ddr_sm_give_up(struct ddr_sm *sm, const char *text);
void ddr_sm_array_failed(struct ddr_sm *sm, const char *text);

/* ---- sm_view.c ----------------------------------------------------------------- */

void ddr_sm_view(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_fenced(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_message(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_send(struct ddr_sm *sm, struct ddr_msg *msg);
void ddr_sm_start_pump(struct ddr_sm *sm);
/* START took effect: our slot is ours, on disk. */
void ddr_sm_started(struct ddr_sm *sm);
/* Position of a node, or -1; the bits of all that must agree; the node that writes for the view. */
int ddr_sm_node_at(const struct ddr_sm *sm, uint32_t id);
uint64_t ddr_sm_voters(const struct ddr_sm *sm);
uint32_t ddr_sm_writer(const struct ddr_sm *sm);

/* What was sent and not delivered before a change of the view is refused after it: it is sent again. */
void ddr_sm_resend(struct ddr_sm *sm);
bool ddr_sm_view_valid(const struct ddr_sm *sm, const struct ddr_input *in);
/*
 * Before whatever comes next in the total order: what all have acknowledged until now is
 * settled, on every node, before the next event may change who has to acknowledge.
 */
void ddr_sm_settle(struct ddr_sm *sm);
/* A message may be sent now, and there is room for it. */
bool ddr_sm_may_send(struct ddr_sm *sm);

/* ---- sm_cluster.c -------------------------------------------------------------- */

uint64_t ddr_sm_mix(uint64_t x);
void ddr_sm_cluster_view(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_quorum(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_hello(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_cluster_pump(struct ddr_sm *sm);
/* Chooses the writer anew if the last one is gone for good, or proven dead if it is not known who it was. In the total order only. */
void ddr_sm_writer_choose(struct ddr_sm *sm);
struct ddr_sm_viewer *ddr_sm_viewer(const struct ddr_sm *sm, uint32_t id);
/* The place of a node in the table, made if need be: never NULL (more than 64 are a bug, and the last one is reused). */
struct ddr_sm_node *ddr_sm_place(struct ddr_sm *sm, uint32_t id);
void ddr_sm_evict(struct ddr_sm *sm, const char *text);
/* Is there a slot for the node, which nobody has to recover or to free first? */
bool ddr_sm_can_begin(const struct ddr_sm *sm, uint32_t node);
/* May the node begin in this slot: it is not being recovered, nor given to somebody else? */
bool ddr_sm_slot_settled(const struct ddr_sm *sm, uint32_t slot, uint32_t node);
void ddr_sm_start_cluster(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_nodes_status(const struct ddr_sm *sm, struct ddr_sm_status *st);

/* ---- sm_join.c ----------------------------------------------------------------- */

uint32_t ddr_sm_state_size(uint32_t n_map);
void ddr_sm_state(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_join_view(struct ddr_sm *sm);
void ddr_sm_join_pump(struct ddr_sm *sm);
void ddr_sm_reloaded(struct ddr_sm *sm, const struct ddr_input *in);
/* The state that was built from the disks is not what they hold: nobody has one. */
void ddr_sm_void(struct ddr_sm *sm);
/* We have no state any more, and have not begun. The view stays. */
void ddr_sm_forget(struct ddr_sm *sm);

/* ---- sm_fence.c ---------------------------------------------------------------- */

/* The node is lost: from now on it counts as one that has not answered. */
void ddr_sm_lose(struct ddr_sm *sm, struct ddr_sm_node *n, bool absent);
/* It took part, and is not in the view that was agreed on: it left cleanly, or is lost. */
void ddr_sm_departed(struct ddr_sm *sm, struct ddr_sm_node *n);
bool ddr_sm_any_lost(const struct ddr_sm *sm);
void ddr_sm_fence_answer(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_fence_ack(struct ddr_sm *sm, uint32_t node);
void ddr_sm_fence_message(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_fence_pump(struct ddr_sm *sm);
void ddr_sm_fence_resend(struct ddr_sm *sm);
void ddr_sm_op_leave(struct ddr_sm *sm);
void ddr_sm_leave_message(struct ddr_sm *sm, const struct ddr_msg *msg);
bool ddr_sm_in_quorum(const struct ddr_sm *sm, uint32_t id);

/* ---- sm_recover.c -------------------------------------------------------------- */

uint32_t ddr_sm_slot_of(const struct ddr_sm *sm, uint32_t node);
void ddr_sm_recover_slot(struct ddr_sm *sm, uint32_t slot);
/* The ranges that the node has not acknowledged: what it had dirty there nobody will say. */
void ddr_sm_ranges_doubt(struct ddr_sm *sm, uint32_t node);
/* What the node was recovering, another one does. */
void ddr_sm_recover_drop(struct ddr_sm *sm, uint32_t node);
void ddr_sm_recover_message(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_recover_pump(struct ddr_sm *sm);
void ddr_sm_recover_resend(struct ddr_sm *sm);
void ddr_sm_slot_done(struct ddr_sm *sm, const struct ddr_input *in);
bool ddr_sm_slot_written(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_slot_load(struct ddr_sm *sm, uint32_t index, const uint8_t *payload, uint64_t seq);
/* Our slot's log was given by SLOT_READ, or must be asked for. */
void ddr_sm_read_pump(struct ddr_sm *sm);

/* ---- sm_kernel.c --------------------------------------------------------------- */

void ddr_sm_attached(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_detached(struct ddr_sm *sm);
void ddr_sm_record(struct ddr_sm *sm, const struct ddr_rec *rec);
void ddr_sm_table_done(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_kernel_pump(struct ddr_sm *sm);
void ddr_sm_bits_pump(struct ddr_sm *sm);
void ddr_sm_enable_pump(struct ddr_sm *sm);
/* A record to the kernel, with a number of its own if @seq is 0. */
struct ddr_rec *ddr_sm_rec(struct ddr_sm *sm, uint32_t type, uint64_t seq, uint64_t start, uint64_t count);
uint64_t ddr_sm_kseq(struct ddr_sm *sm);
/* Was our kernel told all member states; has it applied them? */
bool ddr_sm_members_told(const struct ddr_sm *sm);
bool ddr_sm_applied(const struct ddr_sm *sm);
void ddr_sm_bits_changed(struct ddr_sm *sm, uint64_t region);
void ddr_sm_bits_all(struct ddr_sm *sm);
/* Member at a position of the kernel's table (= role), or DDR_NO_MEMBER; and back. */
uint32_t ddr_sm_member_at(const struct ddr_sm *sm, uint32_t position);

/* ---- sm_grant.c ---------------------------------------------------------------- */

void ddr_sm_lock(struct ddr_sm *sm, const struct ddr_rec *rec);
void ddr_sm_mark(struct ddr_sm *sm, uint64_t region);
void ddr_sm_unmark(struct ddr_sm *sm, uint64_t region);
void ddr_sm_log_done(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_log_pump(struct ddr_sm *sm);
void ddr_sm_grant_pump(struct ddr_sm *sm);
bool ddr_sm_log_idle(const struct ddr_sm *sm);
/* After loading and the kernel's declaration: what is held, what must be resynced. */
void ddr_sm_plan(struct ddr_sm *sm);
void ddr_sm_redeclared(struct ddr_sm *sm);
/* What is in the region may have wrong parity: it stays marked until a resync of it, begun after this, has ended. */
void ddr_sm_need_resync(struct ddr_sm *sm, uint64_t region);
/* Blocks of a region: its first one, and how many it has (the last region may be short). */
static inline uint64_t ddr_sm_region_start(const struct ddr_sm *sm, uint64_t region)
{
	return region * sm->region_blocks;
}

static inline uint64_t ddr_sm_region_length(const struct ddr_sm *sm, uint64_t region)
{
	uint64_t left = sm->sb.array_blocks - region * sm->region_blocks;

	return left < sm->region_blocks ? left : sm->region_blocks;
}

/* ---- sm_clear.c ---------------------------------------------------------------- */

void ddr_sm_closed(struct ddr_sm *sm, const struct ddr_rec *rec);
void ddr_sm_reaped(struct ddr_sm *sm, const struct ddr_rec *rec);
void ddr_sm_reap_pump(struct ddr_sm *sm);
void ddr_sm_batch_pump(struct ddr_sm *sm);
void ddr_sm_batch_mapped(struct ddr_sm *sm);
void ddr_sm_batch_members(struct ddr_sm *sm);
void ddr_sm_clean_pump(struct ddr_sm *sm);
uint64_t ddr_sm_flush_ticket(struct ddr_sm *sm);
void ddr_sm_flush_done(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_flush_pump(struct ddr_sm *sm);
uint64_t ddr_sm_marks(const struct ddr_sm *sm);

/* ---- sm_map.c ------------------------------------------------------------------ */

uint8_t ddr_sm_nibble(const struct ddr_sm *sm, uint64_t region);
void ddr_sm_nibble_set(struct ddr_sm *sm, uint64_t region, uint8_t nibble);
void ddr_sm_map_counts(struct ddr_sm *sm);
/* Blocks of the map that could not be read: the worst that they can have said. */
void ddr_sm_map_unread(struct ddr_sm *sm);
/* No member is missing any more: "written since a member is missing" is dropped, in the total order. */
void ddr_sm_map_whole(struct ddr_sm *sm);
/* The highest sequence that is known, and beyond that of what is not. */
uint64_t ddr_sm_seq_top(const struct ddr_sm *sm);
/* The first sequence from @top on that goes to the place where @seq is; @seq, if that is not before @top. */
uint64_t ddr_sm_seq_behind(uint64_t seq, uint64_t top);
/* Does the operation leave the region as it is, and is that durable? */
bool ddr_sm_map_holds(const struct ddr_sm *sm, uint64_t region, uint32_t op);
/* Adds a region to the MAP_SET that is being put together; false: no room in it, or one is on its way. */
bool ddr_sm_map_want(struct ddr_sm *sm, uint64_t region, uint32_t op);
void ddr_sm_map_set(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_map_told(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_map_done(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_map_pump(struct ddr_sm *sm);
/* A new writer has read the map: goes on telling the group what it lacks; then the writer is ready. */
void ddr_sm_map_merge(struct ddr_sm *sm);
void ddr_sm_accept(struct ddr_sm *sm, const struct ddr_input *in);
bool ddr_sm_map_idle(const struct ddr_sm *sm);
void ddr_sm_map_view(struct ddr_sm *sm);

/* ---- sm_ex.c ------------------------------------------------------------------- */

void ddr_sm_ex_request(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_ex_ack(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_ex_release(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_drained(struct ddr_sm *sm, const struct ddr_rec *rec);
void ddr_sm_ex_pump(struct ddr_sm *sm);
/* A failure was delivered: ranges that not all have acknowledged end here, their owners ask again. */
void ddr_sm_ex_cancel(struct ddr_sm *sm);
void ddr_sm_ex_view(struct ddr_sm *sm);
/* The state is forgotten: its ranges are not in force for us, but their owners may be at work in them. */
void ddr_sm_ex_forget(struct ddr_sm *sm);
/* Another state is here: ranges that it has too go on as they are in our kernel. */
void ddr_sm_ex_adopt(struct ddr_sm *sm);
void ddr_sm_ex_detached(struct ddr_sm *sm);
/* A free range of ours, filled, or NULL: none is free, or it would overlap one in force. */
struct ddr_sm_range *ddr_sm_range_new(struct ddr_sm *sm, uint64_t start, uint64_t count, uint32_t limit);
void ddr_sm_job_done(struct ddr_sm *sm, const struct ddr_input *in);
uint32_t ddr_sm_ranges_used(const struct ddr_sm *sm);
/* The failure of @members was refused: ranges that wait for it end undone. */
void ddr_sm_ranges_refused(struct ddr_sm *sm, uint32_t members);
void ddr_sm_ex_settle(struct ddr_sm *sm);
void ddr_sm_ex_fenced(struct ddr_sm *sm, uint32_t node);
bool ddr_sm_ex_may_enable(const struct ddr_sm *sm);

/* ---- sm_resync.c --------------------------------------------------------------- */

void ddr_sm_resync_pump(struct ddr_sm *sm);
/* A range ended: what it did counts (@done), or must be done again. */
void ddr_sm_work_range(struct ddr_sm *sm, struct ddr_sm_range *r, bool done);
void ddr_sm_works_mapped(struct ddr_sm *sm);
void ddr_sm_works_restart(struct ddr_sm *sm);
bool ddr_sm_at_rest(const struct ddr_sm *sm);
bool ddr_sm_works_idle(const struct ddr_sm *sm);
/* What can be done about the parity of blocks with one role map: compute it, nothing (none is there), or not (data is missing). */
enum ddr_doable { DDR_DO_JOB, DDR_DO_NOTHING, DDR_DO_SUSPECT };
enum ddr_doable ddr_sm_doable(const struct ddr_sm *sm, uint64_t block);
/* Members that a job on blocks with this role map has to do with: sources, and parity that is written whatever was rebuilt. */
uint32_t ddr_sm_job_members(const struct ddr_sm *sm, uint64_t block);

/* ---- sm_member.c --------------------------------------------------------------- */

/* This node saw members fail. @hard: they must not go on being used; else what failed can be refused upwards. */
void ddr_sm_report(struct ddr_sm *sm, uint32_t members, bool hard);
void ddr_sm_member_fail(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_member_done(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_member_ack(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_sb_done(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_member_pump(struct ddr_sm *sm);
void ddr_sm_member_view(struct ddr_sm *sm);
void ddr_sm_member_settle(struct ddr_sm *sm);
void ddr_sm_claim(struct ddr_sm *sm, uint32_t node, uint32_t slot, uint32_t missing);
/* No change of the members is wanted or under way. A function of what was delivered, so the same on all nodes. */
bool ddr_sm_members_settled(const struct ddr_sm *sm);
/* Members that the superblocks have out: until all voters have acknowledged, no kernel may do without them. */
void ddr_sm_members_leave(struct ddr_sm *sm, uint32_t members);
/* Slot @slot goes to @node (0: it is free) with the next change. */
void ddr_sm_slot_give(struct ddr_sm *sm, uint32_t slot, uint32_t node);
/* The writer is another one: what the last left on the disks is where it goes on. */
void ddr_sm_member_takeover(struct ddr_sm *sm, const struct ddr_super *disk);
/* Could the array go on without @members (those that are on the way out counted)? */
bool ddr_sm_can_lose(const struct ddr_sm *sm, uint32_t members);
/* None of @members is in the array any more, and all nodes have agreed to that. */
bool ddr_sm_agreed_out(const struct ddr_sm *sm, uint32_t members);
void ddr_sm_op_fail(struct ddr_sm *sm, uint32_t member);

/* A spare may be taken, a cursor may grow: is it so still, as the superblocks are now? */
bool ddr_sm_set_valid(const struct ddr_sm *sm, const struct ddr_msg_member_set *set);
void ddr_sm_member_set(struct ddr_sm *sm, const struct ddr_msg *msg);

/* ---- sm_rebuild.c -------------------------------------------------------------- */

void ddr_sm_rebuild_pump(struct ddr_sm *sm);
void ddr_sm_folded(struct ddr_sm *sm, const struct ddr_msg *msg);
/* Nobody has folded any more: a member begins to be rebuilt. */
void ddr_sm_unfold(struct ddr_sm *sm);
/* The MAP_SET with what we folded is durable. */
void ddr_sm_fold_mapped(struct ddr_sm *sm);
void ddr_sm_rebuild_range(struct ddr_sm *sm, const struct ddr_sm_range *r, bool done);
/* What was sent in the ring before and not delivered. */
void ddr_sm_rebuild_view(struct ddr_sm *sm);
/* Members whose chunk of this block is right: in sync, or rebuilt that far. */
uint32_t ddr_sm_readable(const struct ddr_sm *sm, uint64_t block);
/* The first block behind @block, up to @end, from which on other members are readable. */
uint64_t ddr_sm_readable_end(const struct ddr_sm *sm, uint64_t block, uint64_t end);
/* The member that is rebuilt now, or DDR_NO_MEMBER. */
uint32_t ddr_sm_rebuilding(const struct ddr_sm *sm);
bool ddr_sm_left_dirty(const struct ddr_sm *sm);

/* Asks for a change of the members, if it fits and none is under way; true: it was sent. */
bool ddr_sm_ask(struct ddr_sm *sm, const struct ddr_msg_member_set *set);

/* ---- sm_seek.c ----------------------------------------------------------------- */

void ddr_sm_seek_pump(struct ddr_sm *sm);
void ddr_sm_seek_view(struct ddr_sm *sm);
void ddr_sm_present(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_op_seek(struct ddr_sm *sm, uint32_t member);
/* ADD, REMOVE: one of them at a time. */
void ddr_sm_op_member(struct ddr_sm *sm, uint32_t op, const struct ddr_input *in);
void ddr_sm_seek(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_seen(struct ddr_sm *sm, const struct ddr_msg *msg);
/* The members went: who has their devices open has those of members that are out. */
void ddr_sm_members_gone(struct ddr_sm *sm, uint32_t members);
/* Our superblock is another one, or about to be: the device that is open for a member may be one that was removed. */
void ddr_sm_members_known(struct ddr_sm *sm, const struct ddr_super *other);
/* Of the members whose devices a node has open as it begins: those that it may have open. */
uint32_t ddr_sm_seen_at_start(const struct ddr_sm *sm, uint32_t present);
/* Has every node that takes part the member's device? A function of what was delivered. */
bool ddr_sm_all_see(const struct ddr_sm *sm, uint32_t member);
void ddr_sm_seek_status(const struct ddr_sm *sm, struct ddr_sm_status *st);
/* Could it come back by the regions that were written since it went? */
bool ddr_sm_may_readd(const struct ddr_sm *sm, uint32_t member);

/* ---- sm_fix.c ------------------------------------------------------------------ */

/* Something is wrong in these blocks (what is beyond their region is left out). False: there is no place for it now. @what: DDR_FIX_*. */
bool ddr_sm_fix_new(struct ddr_sm *sm, uint64_t start, uint64_t count, uint32_t what);
bool ddr_sm_fix_possible(const struct ddr_sm *sm, const struct ddr_sm_range *r);
void ddr_sm_fix_range(struct ddr_sm *sm, struct ddr_sm_range *r, bool done);
void ddr_sm_fix_pump(struct ddr_sm *sm);
bool ddr_sm_fixes_idle(const struct ddr_sm *sm);
/* The lowest block that verify has found wrong and that is not dealt with; @block, if that is lower. */
uint64_t ddr_sm_fix_lowest(const struct ddr_sm *sm, uint64_t block);

/* ---- sm_verify.c --------------------------------------------------------------- */

void ddr_sm_verify_message(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_op_verify(struct ddr_sm *sm, const struct ddr_input *in);
/* A read without a range has ended; its io has an index from DDR_SM_RANGES on. */
void ddr_sm_scan_done(struct ddr_sm *sm, const struct ddr_input *in);
bool ddr_sm_scans_idle(const struct ddr_sm *sm);
/* Blocks below which all was looked at, as far as this node knows. */
uint64_t ddr_sm_verify_done(const struct ddr_sm *sm);
void ddr_sm_verify_pump(struct ddr_sm *sm);
void ddr_sm_verify_view(struct ddr_sm *sm);

/* ---- sm_error.c ---------------------------------------------------------------- */

void ddr_sm_kerror(struct ddr_sm *sm, const struct ddr_rec *rec);
void ddr_sm_kmismatch(struct ddr_sm *sm, const struct ddr_rec *rec);
void ddr_sm_error_pump(struct ddr_sm *sm);
void ddr_sm_errors_refused(struct ddr_sm *sm, uint32_t members);
void ddr_sm_errors_forget(struct ddr_sm *sm);
void ddr_sm_mismatch_range(struct ddr_sm *sm, const struct ddr_sm_range *r, bool done);
/* Is parity known to be right in all of these blocks? */
bool ddr_sm_parity_known(const struct ddr_sm *sm, uint64_t start, uint64_t count);
void ddr_sm_count_error(struct ddr_sm *sm, uint32_t member, bool write);

#endif
