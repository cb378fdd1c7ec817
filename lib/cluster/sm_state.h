/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The data of the state machine: the structures of its parts, and struct ddr_sm, which holds them all. The files that sm_int.h
 * lists change them.
 *
 * Regions are kept as bitmaps in the order of the log blocks, 64 regions a word.
 *
 * Must never: be included by anything but the state machine's own files; hold a pointer into memory that is not the instance's.
 */
#ifndef DDR_LIB_SM_STATE_H
#define DDR_LIB_SM_STATE_H

#include <errno.h>
#include <string.h>

#include <ddraid/proto.h>
#include "lib/disk/format_owner.h"
#include "lib/wire/msg.h"
#include "sm.h"
#include "sm_cells.h"
#include "sm_shared.h"

/* A const object stays const: a cast would bypass the rule who may change the shared state (struct ddr_sm). */
#pragma GCC diagnostic error "-Wcast-qual"

#define DDR_SM_HANDLER_OUT	160u	/* outputs that a handler emits at most; see ex_cancel */
#define DDR_SM_ERRORS		4096u	/* open errors of the kernel; beyond that the kernel retries */
#define DDR_SM_MISMATCHES	64u
#define DDR_SM_RANGES		12u	/* ranges of this node: for jobs, and some for mismatches */
#define DDR_SM_FIXES		16u	/* places that this node repairs at once */
#define DDR_SM_SCANS		2u	/* reads of verify in flight at once */
#define DDR_SM_PARALLEL		8u	/* most ranges of resync and rebuild at once, and most regions of a crash in resync */
#define DDR_SM_BACKGROUND	4u	/* regions whose parity is computed for the first time at once: one or two have jobs, the others flush and wait for the map */
#define DDR_SM_WORKS		(DDR_SM_PARALLEL + DDR_SM_BACKGROUND)	/* separate places, so that neither waits for the other */
#define DDR_SM_REAP_MAX		(1u << 20)
#define DDR_SM_RETRY_MS		5000u	/* pause after a job range that failed without a failed member */
#define DDR_SM_SKIP_MS		600000u	/* time until background work retries a region with a bad sector */
#define DDR_SM_MAX_EPOCH	(UINT32_MAX - 1)	/* of a message; the agreement that follows still gets a number */
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

/* Is a bit set in a log block's words of both bitmaps; of one bitmap? */
static inline bool ddr_any_of_both(const uint64_t *a, const uint64_t *b)
{
	for (uint32_t i = 0; i < DDR_WORDS_LOG; i++)
		if (a[i] & b[i])
			return true;
	return false;
}

static inline bool ddr_any_of(const uint64_t *a)
{
	return ddr_any_of_both(a, a);
}

/* ---- parts of the state -------------------------------------------------------- */

/* Own: writes of one kind for which members had no space. */
struct ddr_sm_space {
	uint32_t members;		/* 0: nothing waits */
	uint32_t pause;			/* ms between two tries at present */
	uint64_t again_at;		/* ms: no retry before */
	uint64_t start;			/* a job: the first block of the last range that had no space */
};

/* One block of our slot's log. */
struct ddr_sm_log {
	enum ddr_write_state state;
	bool loaded;
	bool dirty;		/* memory differs from what was written last */
	uint8_t renew;		/* writes that it still takes until no member has a block of before in either place: of an earlier owner, or of a disk's earlier life */
	bool fly_renew;		/* the write in flight is one of them */
	bool fly_ours;		/* the write in flight names our kernel as the owner */
	bool dur_ours;		/* a copy that names our kernel may be on disk */
	bool ready;		/* regions of this block may have become ready for their grant */
	uint32_t want;		/* regions of this block that wait for a grant */
	uint32_t failed;	/* held: members that failed */
	bool no_space;		/* its last write was not durable because of lack of space */
	uint64_t io, seq;
	uint32_t node;		/* as loaded */
	uint8_t boot_id[16];
	uint64_t cookie;
};

/* Our part in one block of the region map (struct ddr_sm_version). */
struct ddr_sm_map {
	enum ddr_write_state state;
	bool loaded, no_space;
	uint32_t failed;
	uint64_t io, seq;
	uint64_t fly;		/* version in the write in flight, or in the last one */
	bool tell;		/* dur has grown, and MAP_DONE was not sent yet */
};

/* Our MAP_SET: at most one is in flight. */
enum ddr_mapreq_state { DDR_MQ_FREE, DDR_MQ_SEND, DDR_MQ_SENT, DDR_MQ_WAIT };

struct ddr_sm_mapreq {
	enum ddr_mapreq_state state;
	uint32_t id, n;
	struct ddr_msg_map_run run[DDR_MAP_RUNS];
	uint32_t n_wait;
	struct { uint32_t block; uint64_t version; } wait[DDR_MAX_REGIONS / DDR_MAP_REGIONS + 1];
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
	bool fixing;			/* a fix works there; then it is read again */
	uint32_t tries;			/* fixes that were started for it */
	uint32_t looks;			/* how often this same read did not match before */
	uint64_t seq, start, count;
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
	bool stopped;			/* it said that this daemon was silent for too long: its I/O waits for another ENABLE */
	bool freeze_told;		/* it may still be frozen for an earlier daemon */
	uint8_t sent[DDR_UAPI_PLACES];	/* enum ddr_kmember told, 0xff: nothing */
	uint8_t sent_of[DDR_UAPI_PLACES];	/* of which member */
	uint64_t cursor[DDR_UAPI_PLACES];	/* told with it */
	uint64_t blocks;		/* the length of its table, which may be that of the array before it grew */
	uint32_t table;			/* members whose devices its table names at their roles */
	bool outdated;			/* its table was made before members exchanged their roles */
	uint32_t table_asked;		/* members that it does not name: TABLE was sent */
	uint32_t shadow;		/* the member that it names beside the device at its role, or DDR_NO_MEMBER */
	uint32_t shadow_asked;		/* member for which TABLE was sent, or DDR_NO_MEMBER */
	bool shadow_named;		/* it names a shadow, known or not */
	bool unname_asked;		/* TABLE was sent to remove the shadow */
	uint64_t tidy_at;		/* ms: no retry of that before */
	uint64_t member_seq[DDR_UAPI_PLACES];
	uint32_t applying;		/* positions whose APPLIED is open */
	uint64_t bits_at;		/* word at which the scan of bchg continues */
	bool bits;			/* bchg is not empty */
	bool status;			/* the status line is out of date */

	/* regions */
	uint64_t *held;			/* as it declares */
	uint64_t *kclean, *ksusp, *bchg;	/* bits told to it; regions whose bits may have changed */
	uint64_t reap_seq;		/* 0: no REAP is open */
	struct ddr_sm_error *err;	/* its open errors */
	uint32_t n_err;
	struct ddr_sm_mismatch mm[DDR_SM_MISMATCHES];
};

/* Our part in an exclusive range (struct ddr_sm_ex). */
struct ddr_sm_drain {
	bool drain_sent, drained, ack_sent;
	bool over;			/* a range of this node in a failed array: it has ended here, and no message says so */
	uint8_t seen;			/* sm_debt.c's: how it was at the last look (1: not acknowledged by all, 2: by all), ... */
	uint64_t since;			/* ... and since when, ms */
	uint64_t kseq;
};

/* A range of a state that we forgot; our kernel still holds back its writers there. */
struct ddr_sm_stale {
	struct ddr_sm_ex ex;
	struct ddr_sm_drain drain;
};

/* Own: the queue of nodes whose requests were refused because all places were taken, in the order of delivery. */
struct ddr_sm_turn {
	uint32_t line[DDR_SM_MAX_NODES], n;
	bool waited;			/* a place is free, and the first in the queue has not taken it ... */
	uint64_t since;			/* ... since then, ms */
};

/* EX_VOID: our kernel is gone, and what it drained for our acknowledgements no longer counts. */
enum ddr_sm_ex_void { DDR_XV_NONE, DDR_XV_DUE, DDR_XV_SENT };

enum ddr_range_kind { DDR_RK_WORK, DDR_RK_VERIFY, DDR_RK_REBUILD, DDR_RK_FIX };

struct ddr_sm_range {
	enum ddr_range_state state;
	enum ddr_range_kind kind;
	uint32_t owner;			/* index of the work, mismatch or fix, or the member */
	uint64_t mismatch;		/* number of the mismatch, since its place may be reused */
	uint32_t id;
	uint64_t start, count;		/* blocks */
	uint64_t io, mismatches, repaired;
	uint64_t bad_start, bad_count;	/* from the first block that stayed wrong to the last */
	struct ddr_fixed fixed[DDR_MAX_MEMBERS];
	bool dirty;			/* another node has to resync a part of it */
	bool tainted;			/* the kernel was bound again during the job: its result does not count */
	uint32_t failed;
	uint32_t no_space;		/* members that had no space for the job's writes; not in @failed */
	uint32_t hard;			/* of @failed: in a write or a flush; with -ETIMEDOUT it may still be in flight */
	uint32_t flush;			/* of @failed: in a flush */
	uint32_t refused;		/* of @failed: they stay in the array */
	int32_t result;
};

/* A region in resync. */
struct ddr_sm_work {
	enum ddr_work_state state;
	uint64_t region;
	uint64_t next, end;		/* blocks */
	uint32_t out;			/* ranges in progress */
	uint64_t done;			/* blocks */
	bool crash;			/* it was dirty at a crash or a write in it failed; else: parity never computed */
	bool again;			/* must be repeated from the start */
	bool suspect;			/* a part could not be done: its data is missing */
	bool skip;			/* background work found a bad sector: the region is done later */
	uint32_t step;			/* blocks of a range; small ones isolate a bad sector */
	uint64_t flush;			/* ticket */
};

/* The repair of a place. */
struct ddr_sm_fix {
	enum ddr_fix_state state;
	uint32_t what;			/* DDR_FIX_* */
	uint64_t start, count;		/* blocks, of one region */
	uint64_t at;			/* done below this block */
	uint32_t step;			/* blocks of a range */
	bool out;			/* a range is in progress */
	bool left;			/* a bad sector could not be repaired */
	bool of_verify;			/* verify waits for it, and counts what it finds */
	bool given_up;
	bool look;			/* a whole region is checked again, because a repair in it was interrupted */
};

/* A read of verify. AGAIN: it did not match; WRONG: nor did it when it was repeated, or there is a bad sector: it waits for a fix. */
enum ddr_scan_state { DDR_SC_FREE, DDR_SC_READ, DDR_SC_AGAIN, DDR_SC_WRONG };

struct ddr_sm_scan {
	enum ddr_scan_state state;
	uint64_t io, start, count;	/* blocks */
	uint32_t looks;
};

/* Own: the writer's work on the verify that is agreed on, and requests of the operator. */
struct ddr_sm_verify {
	bool begun;			/* the fields below concern the verify with the number @serial */
	uint32_t serial;
	uint64_t next;			/* block at which the next read begins */
	struct ddr_sm_scan scan[DDR_SM_SCANS];
	uint64_t found, repaired;	/* blocks; not reported yet */
	uint64_t told_found, told_repaired;	/* blocks; in the message in flight */
	uint64_t told_at, again_at;	/* ms; no read begins before again_at */
	bool sent;			/* a VERIFY of ours is in flight */
	bool paced;			/* no more reads for now */
	uint32_t ask, ask_priority, ask_flags;	/* the operator's request, until it is delivered; 0: none */
	struct ddr_verify writing, recorded;	/* in the superblock write in flight, and on the disks */
};

/*
 * Our part in a change of the superblocks (struct ddr_sm_change). When it is written, all nodes acknowledge it (ack of the change) before the next one begins.
 */
struct ddr_sm_trans {
	enum ddr_trans_state state;
	uint32_t faulty, missing;		/* the part of the change that is in the write in flight */
	uint64_t slots;
	uint8_t mark;
	struct ddr_msg_member_set set;		/* operation 0: none */
	bool overtaken;				/* the superblock write in flight must not take effect any more */
	uint64_t io;				/* superblock write in flight, or 0 */
	uint32_t targets;			/* members that it goes to */
	uint32_t named;				/* members to which this node, as the writer, has written the newest generation, in both copies */
	uint32_t blocked;			/* members on which it failed: their failure comes first */
	bool no_space;				/* it failed because of lack of space, perhaps also otherwise: exactly this content is written again */
	bool level;				/* the write brings the newest generation, unchanged, to members that may not have it; stays set until all have it */
	bool last;				/* all members that stay have the change: spares, and one that leaves, get the same */
	bool writing;				/* a write was started, of a change or of the level (its content is in sm->own.next) */
	bool begun;				/* a change was started, by this node or by the last writer: some members may have its generation */
	bool written;				/* the change is durable, DONE may be sent */
	bool ack_sent;
	uint32_t report_hard, report_soft;	/* members whose failure we must report */
	uint32_t reported_hard, reported_soft;	/* of these: sent, not delivered yet */
};

/* READ: in a cluster, our slot's log is read once the slot is certainly ours. */
enum ddr_start_state { DDR_S_OFF, DDR_S_SENT, DDR_S_DELIVERED, DDR_S_READ, DDR_S_RENEW, DDR_S_DONE };

/* What this node knows, or wants, of a node (struct ddr_sm_node). */
struct ddr_sm_peer {
	uint64_t lost_at;		/* ms */
	bool gave_up;			/* it gave up the array (rule 4): nobody needs to wait for its return */
	uint64_t asked;			/* failure for which FENCE was sent */
	uint32_t how;			/* FENCED is to be sent */
	bool how_sent, wait_told, stranger_told;
	uint64_t again_at;		/* ms: FENCE is not sent earlier */
	bool gone_sent;			/* of its present failure, in this ring */
};

/* A node of the process group's view, as described by its own HELLO. */
struct ddr_sm_viewer {
	uint32_t id, pid;
	bool hello;			/* its HELLO for this view was delivered */
	bool synced, other;		/* it has the group's state; it has another state */
	bool unproven;			/* nobody has written anything by that state */
	bool active;			/* it takes part */
	bool alone;			/* it knows of no other node that has its epoch */
	bool undo;			/* it can take its last agreement back */
	uint8_t fences;			/* enum ddr_fences, by the view */
	uint8_t machine[DDR_UUID_LEN];	/* zero: not known */
	uint32_t settle_ms;
	uint32_t epoch, shared, undo_epoch;
	uint64_t history, undo_history;
};

enum ddr_view_phase { DDR_V_NONE, DDR_V_HELLO, DDR_V_AGREED };
enum ddr_recover_state { DDR_RC_IDLE, DDR_RC_READ, DDR_RC_MARK, DDR_RC_WRITE, DDR_RC_DONE };

struct ddr_sm_cluster {
	bool fencing;
	/* quorum service */
	bool q_quorate;
	uint64_t q_ring;
	uint32_t q_nodes[DDR_SM_MAX_QUORUM], q_n;
	/* view */
	struct ddr_sm_viewer view[DDR_SM_MAX_NODES];
	uint32_t n_view;
	uint64_t view_name;
	uint32_t out[DDR_HELLO_OUTS], n_out;	/* nodes that a verdict has excluded, as this node has heard, and that no agreement of ours knew yet */
	uint32_t outs[DDR_HELLO_OUTS], n_outs;	/* nodes that the HELLOs of this view name so */
	uint32_t void_epoch;		/* HELLOs of an older epoch were sent before the state was declared void */
	enum ddr_view_phase phase;
	bool hello_sent;
	bool apart;			/* there was no quorum since the last agreement */
	uint64_t meet_until;		/* ms: until then we wait for absent nodes */
	bool synced;			/* we have the state */
	bool transfer;			/* some nodes of the view do not have it: nobody changes it */
	bool building;			/* we build it from the disks */
	uint32_t provider;		/* the node that sends it */
	uint32_t epoch;			/* agreements so far */
	uint32_t shared;		/* the last one on which, as we know, another node agreed with our state */
	bool undo;			/* the last agreement changed nothing but its number, and nothing of it was delivered here; the values before it: */
	uint32_t undo_epoch;
	uint64_t undo_history;
	/* transfer of the state */
	uint8_t *buf;
	uint32_t size, used;		/* bytes */
	uint32_t chunks, sent, delivered;
	uint64_t digest;
	/* reading the disks */
	uint64_t reload_io, reload_at;
	uint32_t reload_epoch;		/* epoch in which the reload began */
	struct ddr_super disk;
	struct ddr_owner disk_owner[DDR_MAX_SLOTS];	/* beside it; all zero: it has no pages */
	uint8_t disk_cluster[DDR_UUID_LEN];	/* likewise */
	bool disk_known;
	uint8_t *disk_map;		/* nibbles, as map; the group's where a block could not be read */
	bool disk_changed;		/* the map on the disks differs from the group's */
	bool merging, merge_sent;	/* we send the group what only the disks know; MAP_SET is in flight */
	uint64_t merge_at;		/* regions before it are sent */
	bool writer_ready;		/* we know what the last writer left on the disks */
	/* recovery of slots */
	enum ddr_recover_state rc;
	bool rc_sent;			/* RECOVER or RECOVERED is in flight */
	uint32_t rc_slot;
	uint64_t rc_io, rc_at, rc_regions;
	uint32_t rc_index, rc_failed;
	uint64_t *rc_map;		/* regions dirty in that slot */
	uint64_t *rc_rep;		/* of these, for a repair only */
	struct ddr_sm_log *rc_log;	/* of its blocks: loaded, seq */
	uint64_t rc_cookie, rc_seq;	/* the instance that they name, and the sequence of the block that names it; cookie 0: none */
	uint8_t rc_boot_id[16];
	/* own slot */
	uint64_t read_io, read_at;
	/* leaving */
	bool leave_wanted, leave_sent, leave_done, left_told;
	bool landing;			/* a write that was already answered may still land */
};

/* The rebuild of a member: by the writer, from the cursor of the superblocks on. */
struct ddr_sm_rebuild {
	uint64_t since;			/* generation of the member's state that this concerns; 0: no rebuild */
	uint32_t member;
	uint64_t next;			/* block at which the next range begins */
	uint64_t redo;			/* lowest block that was not done; or UINT64_MAX */
	uint64_t cursor_at;		/* ms of the last change of the cursor */
	uint64_t again_at;		/* no range is begun before, as another node had to resync what the last one was for */
	uint64_t copied;		/* blocks that this node has written to it */
	uint64_t bad_start, bad_count;	/* the lowest range that a bad sector delays; or 0 */
	uint64_t *unfit;		/* regions in which what the member was rebuilt from does not fit together, until the map has them as suspect */
	uint64_t n_unfit;
	bool unfit_mapping;		/* some of these are in the MAP_SET in flight */
	uint64_t *map_want;		/* version of each block of the map that must be durable before the end */
	bool ending;			/* all ranges are done */
	bool set_sent;			/* MEMBER_SET is in flight */
	/* folding, on every node */
	uint64_t fold_at;		/* region at which it continues */
	bool fold_mapping;		/* some of its regions are in the MAP_SET in flight */
	bool folded_sent;
};

#define DDR_SM_UNWANTED	4u	/* one ADD is in flight, one is wanted; more only if operators give up within the same moment */

/* Own: what this node knows of devices, and what it has reported. */
struct ddr_sm_seek {
	uint32_t last;			/* members whose superblock is the last one that they can have had */
	bool seen_sent;			/* SEEN is in flight */
	uint32_t looked;		/* members whose devices were searched for since they were sought */
	uint32_t ask;			/* SEEK is to be sent for these */
	bool ask_sent;			/* a SEEK is in flight */
	struct ddr_msg_member_set set;	/* the operator's ADD, REMOVE or REPLACE, until it is accepted; operation 0: none */
	uint8_t unwanted[DDR_SM_UNWANTED][DDR_UUID_LEN];	/* disks whose ADD was withdrawn, and that may still get an entry; zero: none */
};

/* Own: which nodes use the device, as far as this node knows, and what it has reported. */
struct ddr_sm_use {
	bool used;			/* on this node, as the driver says (DDR_SM_USED) */
	bool told, sent;		/* the last value reported; USE is in flight */
	uint64_t ended_at;		/* ms: not in use since then */
	bool asked;			/* another node has requested a range, last at ... */
	uint64_t asked_at;		/* ... ms */
	uint64_t others;		/* nodes that reported use, bit: position in sm->nodes */
};

/* Our part in growing the array (struct ddr_sm_growth). */
struct ddr_sm_grow {
	bool op, op_sent;		/* the operator's request, and whether it was sent */
	uint64_t op_want;
	uint64_t room;			/* blocks that the devices which are open here have room for */
	uint64_t room_io, room_at, room_generation;
	bool room_known, room_sent;	/* the next two are known, for the generation above; ROOM is in flight */
	uint64_t room_bytes;
	uint32_t room_member;
	uint64_t prep_io, prep_at;
	uint64_t preparing, prepared;	/* blocks: the size for which the members are being prepared, or are prepared */
	uint64_t long_at;		/* ms: until then our kernel's table may be longer than the array; 0: it is not */
	uint64_t resized;		/* blocks: the size of the last RESIZE */
};

/* Own: errors of a member that this node has counted, in addition to those in the superblock that it loaded. */
struct ddr_sm_errors { uint32_t read, write, corrected; };

/* What a node owes (sm_debt.c). */
struct ddr_sm_debt {
	uint32_t node;
	uint64_t thing, step;		/* names what it owes, and how far that is */
	uint64_t since, moved;		/* ms: it owes that since then; something of it was done last, or the same */
	bool still;			/* of this node's own: it waits for a disk, so its clock stands still */
};

enum ddr_batch_state { DDR_B_IDLE, DDR_B_FLUSH, DDR_B_MAP };

/*
 * Own: what this node wants, has asked for, and has in flight. No other node knows it.
 */
struct ddr_sm_own {
	struct ddr_super next;		/* the superblock that is being written */
	struct ddr_sm_owners next_owners;	/* and the owners beside it; @changes: up to this one they are in it */
	uint8_t machine[DDR_UUID_LEN];	/* of this node; zero: not known */
	uint64_t booted_ms;		/* this machine, by the clock of TICK */
	uint32_t settle_ms;		/* what a machine has sent may arrive so long after its end; others may know of a longer time */
	bool left_over;			/* something of earlier daemons is, or may be */
	uint8_t cluster[DDR_UUID_LEN];	/* that this node is in; zero: none */
	bool cluster_due;		/* it became known when no cluster was recorded: the superblocks are to be written with it */
	char name[DDR_NODE_NAME];
	uint32_t slot, present;
	uint32_t judged;		/* members in use by the superblocks that were loaded: one that is not present was looked for, and was missing then */
	uint64_t judged_ms;		/* when that was; UINT64_MAX: a START has said it */
	bool again;			/* it was loaded again */
	uint8_t entropy[16];
	uint32_t n_log;
	uint64_t words;			/* of a bitmap */

	struct ddr_sm_cluster c;

	/* group */
	struct ddr_sm_peer peer[DDR_SM_MAX_NODES];	/* by the position of the node */
	bool viewed, quorate;
	uint16_t version;		/* of the messages in this view */
	uint64_t ring;
	enum ddr_start_state start;
	uint64_t renew_seq;		/* RENEW: all blocks of our log are written with this sequence or a higher one */
	bool renew_sent;		/* RENEWED is in flight */
	bool planned;			/* dirty regions were divided into held ones and those to be resynced */
	bool ready_told;
	bool gave_up, refused_told;
	bool anew;			/* the driver loads the array again: nothing begins here any more */
	uint32_t degraded_told;		/* how many more members may fail, plus one, in the last DEGRADED; 0: all roles have had members since */
	bool several, adopt;		/* as configured */
	uint32_t foreign_node;		/* another owner, whose slot is dirty */
	uint64_t foreign_regions;

	/* regions */
	uint64_t *mark;			/* dirty in memory */
	uint64_t *fly;			/* dirty in what was written last */
	uint64_t *dur;			/* certainly dirty on all members in sync */
	uint64_t *want;			/* a LOCK waits */
	uint64_t *granted;		/* our kernel may write */
	uint64_t *resync;		/* may hold wrong parity: the mark stays until a resync has ended */
	uint64_t *work;			/* in work */
	uint64_t *clr;			/* in the batch that is being cleared */
	uint64_t *rep;			/* marked for a repair only: none of our writers has been in it since the mark was set */
	uint64_t *rep_fly;		/* recorded as such in what was written last */
	uint64_t *look;			/* a repair in it was interrupted, here or on a node that died: it is checked again, and stays marked until then */
	uint64_t *skip;			/* background work found a bad sector: not before skip_until */
	uint64_t n_granted, n_want, n_resync, n_look;
	uint64_t n_mark;		/* regions; kept from when they are known (planned) */

	struct ddr_sm_log *log;
	struct ddr_sm_map *mapb;
	struct ddr_sm_mapreq mq;
	struct ddr_sm_trans t;
	uint32_t seen_hard, seen_soft;	/* members that failed here and that the superblocks do not list as out; kept when the state is forgotten */
	uint64_t behind;		/* as configured */
	uint32_t seen_exchanged;	/* of these: their devices hold another disk */
	struct ddr_sm_rebuild rb;
	struct ddr_sm_seek sk;
	struct ddr_sm_grow g;
	struct ddr_sm_use use;
	struct ddr_sm_turn turn;
	struct ddr_sm_space space[DDR_SPACE_KINDS];
	struct ddr_sm_drain drain[DDR_SM_EX];	/* by the place of the range */
	struct ddr_sm_stale stale[DDR_SM_EX];
	uint32_t n_stale;
	enum ddr_sm_ex_void ex_void;
	struct ddr_sm_range range[DDR_SM_RANGES];
	struct ddr_sm_work wk[DDR_SM_WORKS];
	struct ddr_sm_fix fix[DDR_SM_FIXES];
	struct ddr_sm_verify vf;
	struct ddr_sm_errors errors[DDR_MAX_MEMBERS];
	uint32_t corrected[DDR_MAX_MEMBERS], max_corrected;	/* places that were certainly wrong on it, and that this node repaired */
	uint32_t ex_id, map_id;

	/* flushes: tickets are numbers of flushes; a ticket is served when flushed has reached it */
	uint64_t flush_issued, flushed, flush_wanted, flush_io;
	bool flush_held;
	uint32_t flush_failed;

	/* clearing */
	enum ddr_batch_state batch;
	bool clear_scan;		/* regions may have become ready to be cleared */
	uint64_t batch_flush;
	uint64_t batch_at;		/* region at which the map phase continues */
	bool batch_mapping;		/* regions of the batch are in the MAP_SET in flight */
	uint64_t reap_at;		/* ms of the last REAP */
	uint32_t reap_idle;		/* number of REAPs in a row that closed nothing */
	uint64_t reap_again;		/* ms: clean stop: the remaining grants are in use, no REAP before */

	/* operator */
	bool stopping, clean_wanted, paused, hot_spare;
	uint32_t parallel;
	uint64_t idle_ms, away_ms;

	/* resync */
	uint64_t hold_until;		/* ms: no range begins before */
	uint64_t look_until;		/* ms: no region is checked again before */
	uint64_t skip_until;		/* ms; 0: nothing is skipped */
	uint64_t resync_at, sync_at;	/* region at which the search continues */
	bool sync_scan;			/* a region may have become ready for background work ... */
	uint64_t sync_again;		/* ... or does by this time, ms */
	uint64_t sync_looked;		/* regions that were looked at since one was ready */
	uint64_t resync_total, resync_done;	/* blocks of regions that were dirty at a crash; background work is counted in its works */
	uint64_t resync_regions_done, resync_blocks;
	bool resync_told;
	uint64_t mismatches;

	uint64_t log_writes, map_writes, sb_writes, flushes, mcasts;

	/* debts, by kind and place: of HELLO and STATE in the view, else in the table of nodes */
	uint64_t debts[DDR_DEBT_KINDS];	/* bit: that is owed */
	struct ddr_sm_debt debt[DDR_DEBT_KINDS][DDR_SM_MAX_NODES];
};

/*
 * The machine: the state that all nodes share, this node's own, and what its kernel was told and has reported. In addition our id, the
 * clock, and the current step.
 */
struct ddr_sm {
	union {
		const struct ddr_sm_shared shared;	/* for all to read */
		struct ddr_sm_shared in_order;		/* the same, writable: sm.c alone uses this name, and passes the pointer on */
	};
	struct ddr_sm_own own;
	struct ddr_sm_kernel kernel;

	uint32_t node;			/* our id */
	uint64_t now;			/* ms, of the last tick */
	uint64_t wall;			/* seconds since 1970, of the last tick */
	bool ticked;
	uint64_t due;			/* ms: the next tick that is needed, by ddr_sm_time() of the last step */
	uint64_t io_serial;
	uint32_t msg_serial;

	struct ddr_outputs *o;		/* of the step; NULL between two of them */
	bool again, full, bug;
	uint64_t reached[DDR_SM_CELL_WORDS];	/* cells of the small machines, bit: number */
};

/* Our own data about a shared node and a shared range; and the shared version of our map block. */
static inline struct ddr_sm_peer *ddr_sm_peer(const struct ddr_sm *sm, const struct ddr_sm_node *n)
{
	return (struct ddr_sm_peer *)(uintptr_t)&sm->own.peer[n - sm->shared.nodes];
}

static inline struct ddr_sm_drain *ddr_sm_drain(const struct ddr_sm *sm, const struct ddr_sm_ex *x)
{
	return (struct ddr_sm_drain *)(uintptr_t)&sm->own.drain[x - sm->shared.ex];
}

static inline const struct ddr_sm_version *ddr_sm_version(const struct ddr_sm *sm, const struct ddr_sm_map *b)
{
	return &sm->shared.version[b - sm->own.mapb];
}

/* The log block of a region; and the words that a bitmap has for a block. */
static inline struct ddr_sm_log *ddr_sm_log_of(struct ddr_sm *sm, uint64_t region)
{
	return &sm->own.log[region / DDR_LOG_REGIONS];
}

static inline uint64_t *ddr_sm_block_words(const struct ddr_sm *sm, uint64_t *map, const struct ddr_sm_log *b)
{
	return map + (size_t)(b - sm->own.log) * DDR_WORDS_LOG;
}

static inline bool ddr_sm_node_active(const struct ddr_sm_node *n)
{
	return n->id && n->started && !n->leaving;
}

/* No change of the superblocks is in progress, neither here nor by delivered messages. */
static inline bool ddr_sm_change_idle(const struct ddr_sm *sm)
{
	return !sm->shared.change.ack && sm->own.t.state == DDR_T_IDLE;
}

/* Records whether the node is in the view. */
static inline void ddr_shared_here(struct ddr_sm_shared *s, const struct ddr_sm_node *n, bool here)
{
	uint64_t bit = 1ull << (n - s->nodes);

	s->here = here ? s->here | bit : s->here & ~bit;
}

/* Frees the node's place in the table of nodes. */
static inline void ddr_sm_node_clear(struct ddr_sm *sm, struct ddr_sm_shared *s, struct ddr_sm_node *n)
{
	ddr_shared_here(s, n, false);
	memset(ddr_sm_peer(sm, n), 0, sizeof(struct ddr_sm_peer));
	memset(n, 0, sizeof(*n));
}

/* Apply an event to an object of a small machine (sm_cells.h). */
static inline void ddr_range_on(struct ddr_sm *sm, struct ddr_sm_range *r, enum ddr_range_event event)
{
	r->state = (enum ddr_range_state)ddr_sm_move(sm, DDR_MACHINE_RANGE, r->state, event);
}

static inline void ddr_work_on(struct ddr_sm *sm, struct ddr_sm_work *w, enum ddr_work_event event)
{
	w->state = (enum ddr_work_state)ddr_sm_move(sm, DDR_MACHINE_WORK, w->state, event);
}

static inline void ddr_fix_on(struct ddr_sm *sm, struct ddr_sm_fix *f, enum ddr_fix_event event)
{
	f->state = (enum ddr_fix_state)ddr_sm_move(sm, DDR_MACHINE_FIX, f->state, event);
}

static inline void ddr_log_on(struct ddr_sm *sm, struct ddr_sm_log *b, enum ddr_write_event event)
{
	b->state = (enum ddr_write_state)ddr_sm_move(sm, DDR_MACHINE_WRITE, b->state, event);
}

static inline void ddr_map_on(struct ddr_sm *sm, struct ddr_sm_map *b, enum ddr_write_event event)
{
	b->state = (enum ddr_write_state)ddr_sm_move(sm, DDR_MACHINE_WRITE, b->state, event);
}

static inline void ddr_trans_on(struct ddr_sm *sm, enum ddr_trans_event event)
{
	sm->own.t.state = (enum ddr_trans_state)ddr_sm_move(sm, DDR_MACHINE_TRANS, sm->own.t.state, event);
}

#endif
