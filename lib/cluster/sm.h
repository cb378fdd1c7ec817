/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state machine of one array on one node: step(state, input) -> outputs.
 *
 * It decides everything that a safety rule speaks of: who may write what, when a
 * dirty mark may go, which member is in the array, who resyncs what. It must never:
 * allocate after ddr_sm_init(), read a clock, log, or touch a socket, a disk or the
 * kernel. The daemon and the simulator are its hands: they turn events into inputs,
 * carry out the outputs *in the order given*, and report each one that has a result.
 *
 * The driver's contract:
 *  - one input at a time; all outputs of a step are carried out (disk and kernel
 *    requests: submitted) before the next input is given;
 *  - while ddr_outputs.more is set, it calls again with DDR_IN_NONE;
 *  - buffers of LOG_WRITE, MAP_WRITE and SB_WRITE are taken with ddr_sm_log_block(),
 *    ddr_sm_map_block(), ddr_sm_superblock() before the next input;
 *  - every output with an io id is answered exactly once by the matching *_DONE input,
 *    with the set of members on which it failed (0: durable everywhere it was asked for);
 *  - messages given by MCAST come back as DDR_IN_MSG at their place in the total
 *    order, to every member of the view, the sender included. The local transport
 *    loops them back in order;
 *  - K_ATTACHED is given only when no I/O of an earlier daemon to these members can still
 *    end (its locks on the member files are gone), and all loads were done before the first step.
 *
 * Without a cluster (config.cluster false: the local transport) one VIEW of this node is given,
 * whose @quorate counts. With one (config.cluster true) this holds as well:
 *  - nothing is loaded before the first step: what is on disk may change until this node has
 *    joined. RELOAD and SLOT_READ say when to read, always with O_DIRECT, all copies anew:
 *	RELOAD: the newest superblock -> ddr_sm_load_super(), the map -> ddr_sm_load_map() for every
 *	index, then DDR_IN_RELOADED with its io. SLOT_READ: ddr_sm_load_log() for every index
 *	of out.slot, then DDR_IN_SLOT_DONE with its io. result 0, or an errno: nothing was learned (no
 *	member answered); it is asked again later. A single block that no member in sync could
 *	deliver is loaded as NULL, and that is no error. The members to read are out.members;
 *	after RELOAD those that the superblock just loaded has in sync;
 *  - VIEW is given for each configuration of the process group and each change of the ring under
 *	it, at its place between the messages: all nodes with the number of their process
 *	(pids[]; another process of a node must have another number), and the ring id as one number,
 *	the same on all nodes and for both services. Who left, and how, the machine finds itself;
 *  - QUORUM is given for each callback of the quorum service: members of the cluster (nodes[]),
 *	quorate, and its ring id. Order between VIEW and QUORUM does not matter;
 *  - FENCE (node, failure) asks for one proof that the node is dead: it was cut off *after* this
 *	output, and its commands in the targets' queues have ended (a settle time). The answer is one
 *	DDR_IN_FENCED with the same node and failure, result 0 or an errno (then the next node tries).
 *	With fencing by a cluster manager the driver waits for its word instead of running a command.
 *	A FENCE is never withdrawn; an answer that nobody waits for any more is ignored;
 *  - GIVE_UP is final: the driver kills the target (DDR_U_KILL) and leaves the group. If its text
 *	says that the node was evicted, nothing of it may be resumed: the array is started anew. The text says what to do, too;
 *  - a clean end: DDR_IN_OP_CLEAN until DDR_EV_CLEAN, then the kernel's array is removed, then
 *	DDR_IN_OP_LEAVE until DDR_EV_LEFT, then the driver leaves the group. Without the LEAVE a node
 *	that goes is one that failed: it is fenced, or must come back and declare what its kernel holds. From
 *	OP_LEAVE on the driver says before each step whether a write of it may land still (ddr_sm_landing());
 *  - messages are at most DDR_SM_MSG_MAX bytes. A step sends few of them, but for the state of a
 *	joiner, of which at most DDR_SM_CHUNKS are on their way. The driver queues what the group
 *	does not take at once (TRY_AGAIN), in order, and drops what is left when the instance ends.
 *
 * Units: regions, blocks and members as each field says. Node ids are corosync's
 * (never 0). Times are milliseconds of a monotonic clock, given by TICK.
 */
#ifndef DDRAID_SM_H
#define DDRAID_SM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ddraid/format.h>
#include <ddraid/proto.h>
#include <ddraid/uapi.h>
#include "lib/math/geometry.h"

#define DDR_SM_MAX_NODES	64u	/* of an array's group, with those that are lost */
#define DDR_SM_MAX_QUORUM	384u	/* of the cluster: as many as corosync takes */
#define DDR_SM_MAX_OUT		512u	/* outputs of one step */
#define DDR_SM_MSG_MAX		1024u	/* bytes of one MCAST in this version: one frame on the wire */
#define DDR_SM_CHUNKS		16u	/* messages with a joiner's state that are on their way at once */

enum ddr_in_type {
	DDR_IN_NONE = 0,	/* go on emitting */
	DDR_IN_TICK,		/* now_ms; value: seconds since 1970, for the reports of verify alone */

	/* group; the local transport gives one VIEW with itself, quorate, at start */
	DDR_IN_VIEW,		/* nodes[], pids[], n_nodes, ring; quorate only without a cluster */
	DDR_IN_MSG,		/* node (sender), msg, msg_len */
	DDR_IN_FENCED,		/* answer to FENCE: node, failure, result (0: it is dead, and was cut off after it failed) */

	/* kernel channel; one input for each record */
	DDR_IN_K_ATTACHED,	/* a channel was bound: cookie, boot_id, members (those whose devices its table names, each at its
				 * role), count (blocks: the length of its table), member (whose device it names as the one that
				 * replaces the member at its role, or DDR_NO_MEMBER), value (DDR_SHADOW_*). HELD inputs follow */
	DDR_IN_K_DETACHED,	/* the channel went (array removed, or superseded) */
	DDR_IN_K_REC,		/* rec: any channel record DDR_K_* */

	/* results */
	DDR_IN_LOG_DONE,	/* io, failed_members, no_space: of these, those that failed for want of space alone, and are there */
	DDR_IN_MAP_DONE,	/* likewise */
	DDR_IN_SB_DONE,		/* likewise */
	DDR_IN_FLUSH_DONE,	/* io, failed_members */
	DDR_IN_JOB_DONE,	/* io, result, failed_members, mismatches (blocks). result 0: done and flushed. Of one that only
				 * reads: start, count (from the first block that does not fit to the last). With @fix:
				 * repaired (blocks), fixed[]; mismatches counts what stayed as it was, from the first to the last as above.
				 * -ENODATA, -EILSEQ: failed_members could not read some of these blocks (bad
				 * sectors). -ENOSPC: they had no space for what was written, and are there. Another errno: they failed;
				 * no failed_members: tried again later */

	DDR_IN_EXCHANGED,	/* member: its device holds another disk now. Before the end of whatever failed for that */

	/* operator */
	DDR_IN_OP_FAIL_MEMBER,	/* member */
	DDR_IN_OP_CLEAN,	/* end jobs, close, flush and clear everything; answered by DDR_EV_CLEAN (clean stop).
				 * Or by DDR_EV_CLEAN_REFUSED: it will not come, and jobs go on. Once it came jobs stay stopped until OP_STAY,
				 * a LOCK or OP_SET RESYNC_PAUSED 0 shows that the array is used on */
	DDR_IN_OP_STAY,		/* the clean stop is not wanted any more: no DDR_EV_CLEAN comes, and jobs go on. No answer */
	DDR_IN_OP_SET,		/* key (enum ddr_sm_key), value */
	DDR_IN_OP_ACCEPT,	/* accept the content of suspect regions start..+count */

	/* with a cluster */
	DDR_IN_QUORUM,		/* nodes[], n_nodes, quorate, ring: of the quorum service */
	DDR_IN_RELOADED,	/* io, result: answer to RELOAD */
	DDR_IN_SLOT_DONE,	/* io, result: answer to SLOT_READ */
	DDR_IN_OP_LEAVE,	/* this node is done with the array: answered by DDR_EV_LEFT, or DDR_EV_REFUSED (EBUSY: its
				 * kernel still holds grants) */
	DDR_IN_TABLE_DONE,	/* member, value (the index), result: answer to TABLE; 0 if nothing had to be done. Where the table was loaded anew K_ATTACHED comes, and no answer */
	DDR_IN_PRESENT,		/* member, value (DDR_PRESENT_*): its device, which was not open here, is */
	DDR_IN_OP_SEEK,		/* member, which is out or a spare: all nodes look for its device, and if they find it, it comes back */
	DDR_IN_OP_ADD,		/* uuid: a new disk, blank, is to be a spare. DDR_EV_MEMBER_ADDED: its superblock may be written */
	DDR_IN_OP_REMOVE,	/* member, uuid (random, of no disk): it is forgotten */
	DDR_IN_OP_REPLACE,	/* member, which is in sync or out, value: the spare that is to replace it. Taken once all nodes see the spare. Value
				 * DDR_NO_MEMBER: what member, a spare, was to replace it shall not; if it had been sent to the group it may */
	DDR_IN_OP_GROW,		/* count: blocks that the array is to have; 0: as many as its members have room for. DDR_EV_GROWN or
				 * DDR_EV_GROW_REFUSED follows */
	DDR_IN_ROOM,		/* answer to ROOM: io, result (an errno: nothing was learned), value: bytes of the smallest, member: which that is */
	DDR_IN_PREPARED,	/* answer to PREPARE: io, result, failed_members, no_space as above. An errno without any: nothing was done, it is asked again later */
	DDR_IN_OP_VERIFY,	/* key (enum ddr_verify_op: START, PAUSE, STOP); of START value: priority, members: DDR_VERIFY_F_* */
	DDR_IN_OP_FENCE_ACK,	/* node: the operator swears that it is dead; binds to its present failure. DDR_EV_REFUSED
				 * (ESRCH) if it has none */
};

/* What is known of a device that was found. */
#define DDR_PRESENT_TABLE	1u	/* the table that our kernel uses names it */
#define DDR_PRESENT_LAST	2u	/* its superblock is of the last generation of which the member was: ddr_super_is_last() */

/* What a table says of the disk that replaces a member. */
#define DDR_SHADOW_NAMED	1u	/* it names one */
#define DDR_SHADOW_USED		2u	/* the kernel's state of it is not DDR_KM_OUT */

enum ddr_sm_key {
	DDR_SM_SUSPECT_READS,	/* value 1: reconstructing reads of suspect regions fail. On all nodes, once the superblocks have it (POLICY) */
	DDR_SM_IDLE_MS,		/* a region unused for so long is cleared (default 5000) */
	DDR_SM_RESYNC_PAUSED,	/* value 1: no resync ranges are started */
	DDR_SM_RESYNC_PARALLEL,	/* ranges in work at once, 1..8 */
	DDR_SM_VERIFY_PAUSED,	/* value 1: verify reads nothing for the moment (default 0) */
	DDR_SM_USED,		/* value 1: the device serves I/O on this node (default 0); whoever does background work is told */
	DDR_SM_MAX_CORRECTED,	/* a member of which this node has put right more than so many places is failed; 0: never (default) */
	DDR_SM_HOT_SPARE,	/* value 1: when this node writes the superblocks, a spare takes the place of a member that is out (default 0) */
	DDR_SM_AWAY_MS,		/* a node whose daemon died while the node lives, or that is absent at the group's start, is
				 * fenced after so long (default 30000); one that left the cluster is fenced at once */
};

/* What a job has put right on a member: from the first block to the last, and how many of them. */
struct ddr_fixed {
	uint64_t start, count;
	uint64_t blocks;
	uint64_t unsure;	/* of these: parity that was made to fit, and nobody knows whether it was what was wrong */
	bool unread;		/* it could not be read; else it did not fit the others */
};

struct ddr_input {
	enum ddr_in_type type;
	uint64_t now_ms;
	uint32_t node;
	uint32_t nodes[DDR_SM_MAX_QUORUM];	/* of a view DDR_SM_MAX_NODES at most */
	uint32_t pids[DDR_SM_MAX_NODES];	/* of nodes[i]; 0 without a cluster */
	uint32_t n_nodes;
	bool quorate;
	uint64_t ring;
	uint64_t failure;
	const uint8_t *msg;
	uint32_t msg_len;
	struct ddr_rec rec;
	uint64_t cookie;
	uint8_t boot_id[16];
	uint64_t io;
	uint32_t members;		/* bit m: member m of the table */
	uint32_t failed_members, no_space;
	uint32_t flush_members;		/* JOB_DONE: of @members, those that failed a flush */
	int32_t result;
	uint64_t mismatches, repaired;
	struct ddr_fixed fixed[DDR_MAX_MEMBERS];	/* by member; blocks 0: nothing */
	uint32_t member;
	uint8_t uuid[16];
	uint32_t key;
	uint64_t value;
	uint64_t start, count;
};

enum ddr_out_type {
	DDR_OUT_KERNEL,		/* rec: write this DDR_U_* record to the channel */
	DDR_OUT_LOG_WRITE,	/* io, index: write this block of our slot to members; DDR_IN_LOG_DONE */
	DDR_OUT_MAP_WRITE,	/* io, index, members */
	DDR_OUT_SB_WRITE,	/* io, members: write the superblock (both the sequence and the content are ready) */
	DDR_OUT_FLUSH,		/* io, members: flush their caches */
	DDR_OUT_JOB_RANGE,	/* io, job, start, count (blocks), members: under EX now; resync reads the data
				 * roles, computes parity, writes parity where it differs, and to @member, if it replaces one,
				 * what that one (@from) holds then, flushes; rebuild computes what @member holds from the members, or copies it
				 * from @from where that can be read, writes and flushes it; verify compares, without EX if @fix is 0,
				 * and puts right what @fix says; DDR_IN_JOB_DONE (members: of those that failed, who failed a write or a flush) */
	DDR_OUT_MCAST,		/* msg, msg_len */
	DDR_OUT_FENCE,		/* node, failure: DDR_IN_FENCED */
	DDR_OUT_EVENT,		/* event, args: for status, events, the log */
	DDR_OUT_GIVE_UP,	/* event: this node must leave the array (rule 4); the driver kills the target.
				 * DDR_EV_FAILED, or DDR_EV_EVICTED: the others went on without it. text: why (lib/cluster/slots.h has one) */

	/* with a cluster */
	DDR_OUT_RELOAD,		/* io: read superblocks and map anew; DDR_IN_RELOADED */
	DDR_OUT_SLOT_READ,	/* io, slot, members: read its log anew; DDR_IN_SLOT_DONE */
	DDR_OUT_TABLE,		/* member, index: a table of our kernel must name its device at this position, and no other one beside it;
				 * DDR_UAPI_SHADOW: beside the one at its role, or with DDR_NO_MEMBER nowhere. DDR_IN_TABLE_DONE */
	DDR_OUT_ROOM,		/* io, members: how large are their devices now? One that is not open has 0 bytes; DDR_IN_ROOM */
	DDR_OUT_PREPARE,	/* io, members, start, count: the array is to have the blocks start..+count as well. What they have in the
				 * region that block @start lies in is zeroed, and so is the tail behind them; durable; DDR_IN_PREPARED */
	DDR_OUT_RESIZE,		/* count: our kernel may have a table of so many blocks. A new table is told of by K_ATTACHED; one that cannot be
				 * loaded is tried again: until then the end of the array is not there on this node */
	DDR_OUT_SEEK,		/* member: look for its device; DDR_IN_PRESENT if it is found, else nothing */
	DDR_OUT_SLOT_WRITE,	/* io, slot, index, members: as LOG_WRITE, for a dead node's slot; the block is taken with
				 * ddr_sm_slot_block(); DDR_IN_LOG_DONE */
};

/* Log, map and superblock writes are durable (FUA) when they are done; each goes to all of out.members at once. */

enum ddr_event {
	DDR_EV_ATTACHED,	/* kernel attached */
	DDR_EV_DETACHED,
	DDR_EV_READY,		/* recovery plan made, grants flow */
	DDR_EV_RECOVERY,	/* a: regions found dirty in the slot of node b that must be resynced */
	DDR_EV_RESYNC_START,	/* a: regions */
	DDR_EV_RESYNC_DONE,	/* a: regions resynced, b: blocks whose parity was rewritten */
	DDR_EV_MEMBER_FAILED,	/* member, a: generation */
	DDR_EV_MEMBER_ERROR,	/* member, a: class, b: op; start, count: blocks. Not (yet) failed */
	DDR_EV_DEGRADED,	/* a: how many more members may be lost */
	DDR_EV_SUSPECT,		/* start, count: a run of such regions; a: how many there are in all */
	DDR_EV_FAILED,		/* more members lost than the parity covers */
	DDR_EV_CLEAN,		/* OP_CLEAN has ended; a: regions that stay dirty (resync not ended, or the array failed);
				 * UINT64_MAX: not known, since this node's slot was not read yet */
	DDR_EV_CLEAN_REFUSED,	/* OP_CLEAN has ended without it; a: errno, text says why */
	DDR_EV_VIEW,		/* a: nodes, b: quorate */
	DDR_EV_REFUSED,		/* a request was refused; a: errno, text says why. b: enum ddr_member_op of a change of member that had
				 * been taken, and is dropped; else 0 */
	DDR_EV_BUG,		/* an input that cannot be: text */
	DDR_EV_NODE_JOINED,	/* b: node, a: its slot. It takes part */
	DDR_EV_NODE_LEFT,	/* b: node. It stopped cleanly */
	DDR_EV_NODE_LOST,	/* b: node, a: failure. Its regions wait until it is back or proven dead; text: why, unless it left the view */
	DDR_EV_NODE_FENCED,	/* b: node, a: failure; text: how it is known */
	DDR_EV_NODE_RECOVERED,	/* b: node, a: its slot. What it had dirty is being resynced by a survivor (RECOVERY there) */
	DDR_EV_WAIT,		/* text: what is waited for and what to do; b: node. Told once for each cause */
	DDR_EV_EVICTED,		/* as the event of GIVE_UP */
	DDR_EV_REBUILD_START,	/* member, a: generation, b: DDR_MEMBER_F_*: only what was written since it went, or a copy of node, the member
				 * that it replaces. It has a role, and is written */
	DDR_EV_REBUILD_DONE,	/* member, a: generation, b: blocks that this node has written to it. It is in sync; it has replaced
				 * member node, if that is not DDR_NO_MEMBER, and this one is out */
	DDR_EV_MEMBER_ADDED,	/* member, a: generation. It is a spare: from a new disk, or one that was out and has no role */
	DDR_EV_MEMBER_REMOVED,	/* member, a: generation */
	DDR_EV_VERIFY_START,	/* a: priority, b: flags. It begins, or goes on */
	DDR_EV_VERIFY_PAUSED,	/* a: blocks found wrong so far, b: of these put right */
	DDR_EV_VERIFY_STOPPED,	/* likewise */
	DDR_EV_VERIFY_DONE,	/* likewise; count: suspect regions, which it passed over */
	DDR_EV_REPAIRED,	/* member, start, count: something in there was put right on it; a: blocks */
	DDR_EV_MISMATCH,	/* start, count: blocks in there do not fit, or cannot be read, and stay as they are; a: how many; text: why */
	DDR_EV_GROWN,		/* a: blocks before, b: now. All of the array's superblocks say so */
	DDR_EV_GROW_REFUSED,	/* of this node's OP_GROW; text: why. b: the node where the member has only a bytes; 0: it is not for that */
	DDR_EV_LEFT,		/* OP_LEAVE has ended: the driver may leave the group */
	DDR_EV_NO_SPACE,	/* member, a: enum ddr_space; text: what waits. Something met no space on the member, and is tried again until it has some */
	DDR_EV_SPACE,		/* member, a: enum ddr_space. What waited for that goes on */
	DDR_EV_POLICY,		/* a: DDR_POLICY_* of the array from now on; it is in the superblocks */
};

/* What met a member that has no space left. The first is what stands in the way of most. */
enum ddr_space { DDR_SPACE_SUPER, DDR_SPACE_LOG, DDR_SPACE_MAP, DDR_SPACE_SLOT, DDR_SPACE_GROW, DDR_SPACE_JOB, DDR_SPACE_KINDS };

/* What a job of verify puts right, under EX. */
#define DDR_FIX_BAD	1u	/* a bad sector, if the range is one block: from the others; then it is read back. Of a longer one it is the result */
#define DDR_FIX_WRONG	2u	/* what does not fit, if it is known which chunk: P and Q tell */
#define DDR_FIX_PARITY	4u	/* and if it is not: the parity is written anew */

struct ddr_output {
	enum ddr_out_type type;
	struct ddr_rec rec;
	uint64_t io;
	uint32_t index;
	uint32_t members;	/* bit m: member m */
	uint32_t job;		/* enum ddr_kaction */
	uint32_t fix;		/* JOB_RANGE: DDR_FIX_* */
	bool strict;		/* JOB_RANGE: what cannot be read there cannot be computed: a plain I/O error of a read breaks its member */
	bool unlocked;		/* JOB_RANGE: without EX, so it only reads, and what it reads may be just being written */
	uint64_t start, count;
	uint32_t node, member;
	uint32_t from;		/* JOB_RANGE: the member that @member replaces, or DDR_NO_MEMBER */
	uint32_t slot;		/* SLOT_READ, SLOT_WRITE */
	uint64_t failure;	/* FENCE */
	enum ddr_event event;
	uint64_t a, b;
	const char *text;	/* static string, one line, or NULL */
	uint32_t msg_len;
	uint8_t msg[DDR_SM_MSG_MAX];
};

struct ddr_outputs {
	struct ddr_output *out;	/* DDR_SM_MAX_OUT of them, owned by the driver */
	uint32_t n;
	bool more;
	bool lost;		/* a fault of the machine: outputs, or a message, did not fit. It must not be stepped any more */
};

struct ddr_sm;
struct ddr_super;		/* format.h of lib: the decoded superblock, host types */

struct ddr_sm_config {
	uint32_t node;		/* own id */
	uint32_t slot;		/* own slot */
	const struct ddr_super *super;	/* copied: the newest generation, from assembly */
	uint64_t behind;		/* the operator starts the array from older superblocks: its next generation is to be behind this one; 0: not so */
	uint32_t present;	/* bit m: member m's device is open here */
	uint8_t entropy[16];	/* random, other ones at each start: the names of new generations are derived from it */
	bool cluster;		/* QUORUM inputs, joining and fencing; else one node by itself. @slot is then ignored: the
				 * group gives one, see ddr_sm_slot() */
	bool several;		/* that cluster has several nodes, or may have: the array becomes such a cluster's */
	bool adopt;		/* the operator's word that no other machine uses the disks: an array of such a cluster is served here all the same,
				 * and what its nodes had dirty is taken over. Without it and without @several the array is refused */
	bool fencing;		/* somebody fences (a command, or a cluster manager): FENCE is emitted. Else recovery waits
				 * for OP_FENCE_ACK, and says so */
};

/* Memory that an instance needs, in bytes, for this array; all of it is given to ddr_sm_init(). */
size_t ddr_sm_size(const struct ddr_sm_config *cfg);
/*
 * Makes the instance inside @mem (zeroed by the callee). Returns NULL if the configuration
 * is out of limits. Before the first step the driver loads what is on disk:
 */
struct ddr_sm *ddr_sm_init(void *mem, size_t size, const struct ddr_sm_config *cfg);
/*
 * The newest valid payload of a block of a slot's log (all slots that the superblock says are owned,
 * and ours); NULL payload: it could not be read, so all of it is dirty. @seq: the highest number known,
 * also where the payload is NULL. @node, @boot_id, @cookie: of its header.
 */
void ddr_sm_load_log(struct ddr_sm *sm, uint32_t slot, uint32_t index, const uint8_t *payload, uint64_t seq,
		     uint32_t node, const uint8_t boot_id[16], uint64_t cookie);
/* Of the block that was loaded just now: regions that its header names as marked for a repair alone. Without it all of its marks are those of writes. */
void ddr_sm_load_repairs(struct ddr_sm *sm, uint32_t slot, uint32_t index, const uint16_t repair[DDR_LOG_REPAIRS]);
/* Likewise for the region map; NULL: every region of it counts as written, needs-sync. */
void ddr_sm_load_map(struct ddr_sm *sm, uint32_t index, const uint8_t *payload, uint64_t seq);
/* Between RELOAD and RELOADED: the superblock of the newest generation on any member, and of these the highest sequence. */
void ddr_sm_load_super(struct ddr_sm *sm, const struct ddr_super *sb);

void ddr_sm_step(struct ddr_sm *sm, const struct ddr_input *in, struct ddr_outputs *out);

/* Fill a whole metadata block (host side decoded where there is a codec); valid for the output just emitted. */
void ddr_sm_log_block(const struct ddr_sm *sm, uint32_t index, struct ddr_disk_log *blk);
void ddr_sm_map_block(const struct ddr_sm *sm, uint32_t index, struct ddr_disk_log *blk);
void ddr_sm_slot_block(const struct ddr_sm *sm, uint32_t index, struct ddr_disk_log *blk);	/* of SLOT_WRITE */
/* Our slot, for LOG_WRITE; with a cluster valid from the first LOG_WRITE on. */
uint32_t ddr_sm_slot(const struct ddr_sm *sm);
/*
 * May a write of this daemon land still, though it was answered as failed for want of time, or its instance has ended? Nobody would wait
 * for it, nor fence this node, once its LEAVE is delivered, so there is none until then.
 */
void ddr_sm_landing(struct ddr_sm *sm, bool landing);
/* All but sb->updated, which is the driver's: there is no clock in here. */
void ddr_sm_superblock(const struct ddr_sm *sm, uint32_t member, struct ddr_super *sb);

/*
 * What all have agreed on: who holds which role, and in what state. (A superblock that is being written may say more, and may
 * never come to count.) @this_member of it means nothing. Until the next step.
 */
const struct ddr_super *ddr_sm_super(const struct ddr_sm *sm);

#define DDR_SM_NO_SLOT		0xffffffffu

enum ddr_sm_node_state {
	DDR_NS_JOINING,		/* in the group, does not take part yet */
	DDR_NS_ACTIVE,
	DDR_NS_SUSPECT,		/* its daemon is gone, or it is absent since the start; nothing was done about it yet */
	DDR_NS_FENCING,		/* it must be proven dead */
	DDR_NS_RECOVERING,	/* it is; what it had dirty is being taken over */
	DDR_NS_LEFT,		/* it stopped cleanly, or was recovered */
};

/* What is waited for with a cluster. Each has a text, or sm_wait.c does not compile. */
enum ddr_sm_wait {
	DDR_SM_WAIT_NOTHING,
	DDR_SM_WAIT_FENCED,		/* a node is lost */
	DDR_SM_WAIT_ACK,		/* likewise, and the operator has to say that it is dead */
	DDR_SM_WAIT_QUORUM,
	DDR_SM_WAIT_VIEW,		/* the agreement of all nodes of the view */
	DDR_SM_WAIT_STATE,		/* the state, which another node sends */
	/* of DDR_EV_WAIT alone */
	DDR_SM_WAIT_TOLD_ACK,
	DDR_SM_WAIT_TOLD_NEXT,
};
const char *ddr_sm_wait_text(enum ddr_sm_wait wait);

/* For status and tests; no side effects. */
struct ddr_sm_status {
	uint64_t regions, unwritten, clean, dirty, needs_sync, suspect;
	uint64_t granted;		/* regions that our kernel may write */
	uint64_t resync_done, resync_total;	/* blocks */
	uint64_t resync_regions;	/* regions still to do */
	uint64_t mismatches;		/* blocks whose parity was rewritten so far */
	uint32_t rebuilding;		/* member, or DDR_NO_MEMBER */
	uint32_t replaced;		/* the member whose place it takes, which is in sync still, or DDR_NO_MEMBER */
	uint32_t writer;		/* the node that writes superblocks and map, and rebuilds; 0: none is known */
	uint64_t generation;
	bool attached, ready, quorate, failed, gave_up;
	bool degraded;			/* a role has no member in sync */
	uint64_t log_writes, map_writes, sb_writes, flushes, mcasts;	/* counters since init */
	uint8_t member_state[DDR_MAX_MEMBERS];
	uint32_t sought;		/* members that come back once all nodes see them */
	uint32_t unseen_by[DDR_MAX_MEMBERS];	/* of these, and of spares: the first node that does not see the member; 0: all do */
	uint32_t err_read[DDR_MAX_MEMBERS], err_write[DDR_MAX_MEMBERS], err_corrected[DDR_MAX_MEMBERS];	/* with those of earlier starts */

	uint32_t no_space;		/* members that have no space for what this node writes; it is tried again */
	const char *space_wait;		/* what waits for that, or NULL */

	/* with a cluster: all nodes that are known, in the order of their places */
	struct ddr_sm_node_status {
		uint32_t id;
		uint32_t slot;		/* or DDR_SM_NO_SLOT */
		enum ddr_sm_node_state state;
		uint64_t failure;	/* 0: none */
	} node[DDR_SM_MAX_NODES];
	uint32_t n_nodes;
	bool agreed;			/* all of the view have agreed on it */
	bool synced;			/* this node has the state of the group */
	bool joined;			/* this node takes part: its slot is its own */
	enum ddr_sm_wait wait_for;
	const char *wait;		/* its text: what is waited for and what to do, or NULL */
	uint32_t wait_node;		/* the node that does what @wait says; 0: it is a sentence of its own */
};
void ddr_sm_get_status(const struct ddr_sm *sm, struct ddr_sm_status *st);
/* Would the others fence this node if it went without a word? From its superblock write on, whose slot they or the disks may know. */
bool ddr_sm_takes_part(const struct ddr_sm *sm);
/* Does another node use the device (DDR_SM_USED), by its own word? That ends some seconds after the use does. For the pace of background work; O(1). */
bool ddr_sm_used_elsewhere(const struct ddr_sm *sm);
/* Is no read of verify under way? O(1). */
bool ddr_sm_scans_idle(const struct ddr_sm *sm);
/*
 * How far a job is: the block of the array that it has come to, and of all the blocks that it looks at, or copies, those before
 * that. What it passes over counts in neither; what others write meanwhile may add to both. All 0: there is no such job. O(regions).
 */
struct ddr_sm_progress {
	uint64_t at, done, total;
	uint64_t bad_start, bad_count;	/* blocks that hold up a rebuild, as the node knows that does it: they cannot be read, nor computed; or 0 */
};
void ddr_sm_verify_progress(const struct ddr_sm *sm, struct ddr_sm_progress *p);
void ddr_sm_rebuild_progress(const struct ddr_sm *sm, struct ddr_sm_progress *p);
/* enum ddr_region_state | flags, | DDR_SM_REGION_DIRTY if marked in our slot */
#define DDR_SM_REGION_DIRTY	0x80u
uint8_t ddr_sm_region(const struct ddr_sm *sm, uint64_t region);
/* Is the instance consistent in itself? NULL, or a static sentence that says what is not. For tests: O(regions). */
const char *ddr_sm_check(const struct ddr_sm *sm);
/*
 * A digest of what all nodes share, and the name of its place in the total order: instances at one place must have
 * one digest. False: not while the view is not agreed on, or without the state. For tests; @buf: of 64 KiB
 * and 4 KiB for each block of the map, overwritten.
 */
bool ddr_sm_digest(struct ddr_sm *sm, uint8_t *buf, size_t size, uint64_t *place, uint64_t *digest);
/*
 * What all nodes share, for people: a line for each field that is not 0, as "nodes[2].lost 1". The map is left out but for its versions.
 * Returns the length of it all; what does not fit into @buf is cut off, as by snprintf().
 */
size_t ddr_sm_dump(const struct ddr_sm *sm, char *buf, size_t size);

/* For tests: the cells of the small machines' tables (sm_cells.h), from 1 on; NULL: there are no more. And those that were reached are added. */
#define DDR_SM_CELL_WORDS	2u
const char *ddr_sm_cell(uint32_t cell);
void ddr_sm_cells(const struct ddr_sm *sm, uint64_t reached[DDR_SM_CELL_WORDS]);

#endif
