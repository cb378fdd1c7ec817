/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state machine of one array on one node: step(state, input) -> outputs.
 *
 * It makes every decision that a safety rule concerns: which node may write what, when a
 * dirty mark may be cleared, which members are in the array, which node resyncs what. It must never:
 * allocate after ddr_sm_init(), read a clock, log, or touch a socket, a disk or the
 * kernel. The daemon, or the simulator, is its driver: it turns events into inputs,
 * carries out the outputs *in the order given*, and reports each result.
 *
 * The driver's contract:
 *  - one input at a time; all outputs of a step are carried out (disk and kernel
 *    requests: submitted) before the next input is given;
 *  - while ddr_outputs.more is set, it calls again with DDR_IN_NONE;
 *  - buffers of LOG_WRITE, MAP_WRITE and SB_WRITE are taken with ddr_sm_log_block(),
 *    ddr_sm_map_block(), ddr_sm_superblock() before the next input;
 *  - it gives a TICK as soon as the time of ddr_sm_due() has come. It may give more of them; one before that time changes nothing but the clock.
 *	And before any other input it gives one if the last is old (100 ms or more): times are counted from the last TICK;
 *  - every output with an io id is answered exactly once by the matching *_DONE input,
 *    with the set of members on which it failed (0: durable everywhere it was asked for);
 *  - messages given by MCAST come back as DDR_IN_MSG at their place in the total
 *    order, to every member of the view, the sender included. The local transport
 *    loops them back in order;
 *  - K_ATTACHED is given only when all I/O of earlier daemons to these members has ended
 *    (their locks on the member files are gone), and all loads were done before the first step.
 *
 * Without a cluster (config.cluster false: the local transport) one VIEW of this node is given,
 * whose @quorate counts. With one (config.cluster true) this holds as well:
 *  - nothing is loaded before the first step: what is on disk may change until this node has
 *    joined. RELOAD and SLOT_READ request reads, always with O_DIRECT, of all copies:
 *	RELOAD: the newest superblock -> ddr_sm_load_super(), its owner pages -> ddr_sm_load_owners(), the map -> ddr_sm_load_map() for every
 *	index, then DDR_IN_RELOADED with its io. SLOT_READ: ddr_sm_load_log() for every index
 *	of out.slot, then DDR_IN_SLOT_DONE with its io. result 0, or an errno: nothing was read (no
 *	member answered), and the request is repeated later. A single block that no member in sync could
 *	deliver is loaded as NULL; that is not an error. The members to read are out.members;
 *	after RELOAD those that the superblock just loaded has in sync;
 *  - VIEW is given for each configuration of the process group and each change of the ring under
 *	it, at its place between the messages: all nodes with the number of their process
 *	(pids[]; another process of a node must have another number), and the ring id as one number,
 *	the same on all nodes and for both services. The machine itself determines who left, and how;
 *  - QUORUM is given for each callback of the quorum service: members of the cluster (nodes[]),
 *	quorate, and its ring id. Order between VIEW and QUORUM does not matter;
 *  - FENCE (node, failure) asks for one proof that the node is dead: it was cut off *after* this
 *	output, and its commands in the targets' queues have ended (a settle time). The answer is one
 *	DDR_IN_FENCED with the same node and failure, result 0 or an errno (then the next node tries). If the errno means that its time
 *	was over, another one with result 0 may follow, at any time.
 *	With fencing by a cluster manager the driver waits for its result instead of running a command.
 *	A FENCE is never withdrawn; an answer that is no longer needed is ignored;
 *  - GIVE_UP is final: the driver kills the target (DDR_U_KILL) and leaves the group. If the node
 *	was evicted, nothing of it may be resumed: the array has to be started again. The text says what to do;
 *  - a clean end: DDR_IN_OP_CLEAN until DDR_EV_CLEAN, then the kernel's array is removed, then
 *	DDR_IN_OP_LEAVE until DDR_EV_LEFT, then the driver leaves the group. A node that disappears without
 *	LEAVE counts as failed: it is fenced, or must return and declare what its kernel holds. From
 *	OP_LEAVE on the driver reports before each step whether one of its writes may still land (ddr_sm_landing());
 *  - messages are at most DDR_SM_MSG_MAX bytes. A step sends few of them, except for the state for a
 *	joiner, of which at most DDR_SM_CHUNKS are in flight, and few long ones (DDR_SM_MSG_LONG). The driver queues, in order, what the
 *	group does not take at once (TRY_AGAIN), and drops the rest when the instance ends.
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

#define DDR_SM_MAX_NODES	64u	/* of an array's group, lost ones included */
#define DDR_SM_MAX_QUORUM	384u	/* of the cluster: as many as corosync supports */
#define DDR_SM_MAX_OUT		512u	/* outputs of one step */
#define DDR_SM_MSG_MAX		1024u	/* bytes of one MCAST in this version: one frame on the wire */
#define DDR_SM_CHUNKS		16u	/* messages with a joiner's state that are in flight at once */
#define DDR_SM_MSG_SHORT	128u	/* bytes of a message, except for ... */
#define DDR_SM_MSG_LONG		32u	/* ... at most this many of a step: parts of the state, changes of the map, what a writer has done, a HELLO that names excluded nodes, a START */

enum ddr_in_type {
	DDR_IN_NONE = 0,	/* continue emitting */
	DDR_IN_TICK,		/* now_ms; value: seconds since 1970, for the reports of verify alone */

	/* group; the local transport gives one VIEW with itself, quorate, at start */
	DDR_IN_VIEW,		/* nodes[], pids[], fences[], n_nodes, ring; quorate only without a cluster */
	DDR_IN_EXCLUDED,	/* node: a verdict has excluded its daemon. Before the view without it */
	DDR_IN_MSG,		/* node (sender), msg, msg_len */
	DDR_IN_FENCED,		/* answer to FENCE: node, failure, result (0: it is dead, and was cut off after it failed) */

	/* kernel channel; one input for each record */
	DDR_IN_K_ATTACHED,	/* a channel was bound: cookie, boot_id, members (those whose devices its table names, each at its
				 * role), count (blocks: the length of its table), member (whose device it names as the one that
				 * replaces the member at its role, or DDR_NO_MEMBER), value (DDR_SHADOW_*). HELD inputs follow */
	DDR_IN_K_DETACHED,	/* the channel is gone (array removed, or superseded) */
	DDR_IN_K_REC,		/* rec: any channel record DDR_K_* */

	/* results */
	DDR_IN_LOG_DONE,	/* io, failed_members, no_space: those of them that only lacked space, and whose device exists */
	DDR_IN_MAP_DONE,	/* as LOG_DONE */
	DDR_IN_SB_DONE,		/* as LOG_DONE. members: of the failed ones, those that it was only not written to because this node had lost quorum */
	DDR_IN_FLUSH_DONE,	/* io, failed_members */
	DDR_IN_JOB_DONE,	/* io, result, failed_members, mismatches (blocks). result 0: done and flushed. Of one that only
				 * reads: start, count (from the first block that does not match to the last). With @fix:
				 * repaired (blocks), fixed[]; mismatches counts the blocks that were not repaired, start and count as above.
				 * -ENODATA, -EILSEQ: failed_members could not read some of these blocks (bad
				 * sectors). -ENOSPC: they had no space for the writes, and their devices exist. Another errno: they failed;
				 * no failed_members: retried later */

	DDR_IN_EXCHANGED,	/* member: its device holds another disk now. Given before the result of any I/O that failed because of that */

	/* operator */
	DDR_IN_OP_FAIL_MEMBER,	/* member */
	DDR_IN_OP_CLEAN,	/* end jobs, close, flush and clear everything; answered by DDR_EV_CLEAN (clean stop).
				 * Or by DDR_EV_CLEAN_REFUSED: the stop is off, and jobs continue. After DDR_EV_CLEAN jobs stay stopped until OP_STAY,
				 * a LOCK or OP_SET RESYNC_PAUSED 0 shows that the array stays in use */
	DDR_IN_OP_STAY,		/* cancels the clean stop: no DDR_EV_CLEAN comes, and jobs continue. No answer */
	DDR_IN_OP_SET,		/* key (enum ddr_sm_key), value */
	DDR_IN_OP_ACCEPT,	/* accept the content of suspect regions start..+count */

	/* with a cluster */
	DDR_IN_QUORUM,		/* nodes[], n_nodes, quorate, ring: of the quorum service */
	DDR_IN_RELOADED,	/* io, result: answer to RELOAD */
	DDR_IN_SLOT_DONE,	/* io, result: answer to SLOT_READ */
	DDR_IN_OP_LEAVE,	/* this node leaves the array: answered by DDR_EV_LEFT, or DDR_EV_REFUSED (EBUSY: its
				 * kernel still holds grants) */
	DDR_IN_TABLE_DONE,	/* member, value (the index), result: answer to TABLE; 0 if nothing had to be done. If a new table was loaded, K_ATTACHED comes instead */
	DDR_IN_PRESENT,		/* member, value (DDR_PRESENT_*): its device, which was not open here, is */
	DDR_IN_OP_SEEK,		/* member, which has failed or is a spare: all nodes look for its device, and if they find it, it comes back */
	DDR_IN_OP_ADD,		/* uuid: a new, blank disk becomes a spare. After DDR_EV_MEMBER_ADDED its superblock may be written */
	DDR_IN_OP_WITHDRAW,	/* uuid: of an ADD that nobody waits for any more; an entry that it makes nevertheless is removed again. No answer */
	DDR_IN_OP_REMOVE,	/* member, uuid (random, of no disk): the member's entry is dropped */
	DDR_IN_OP_REPLACE,	/* member, which is in sync or out, value: the spare that replaces it. Accepted once all nodes see the spare. Value
				 * DDR_NO_MEMBER cancels: @member is a spare, and replaces no member; if the group has the request already, it still may */
	DDR_IN_OP_GROW,		/* count: the new size of the array in blocks; 0: as many as its members have room for. DDR_EV_GROWN or
				 * DDR_EV_GROW_REFUSED follows */
	DDR_IN_ROOM,		/* answer to ROOM: io, result (an errno: not known), value: bytes of the smallest device, member: which that is */
	DDR_IN_PREPARED,	/* answer to PREPARE: io, result, failed_members, no_space as above. An errno without them: nothing was done, repeated later */
	DDR_IN_OP_VERIFY,	/* key (enum ddr_verify_op: START, PAUSE, STOP); of START value: priority, members: DDR_VERIFY_F_* */
	DDR_IN_OP_FENCE_ACK,	/* node: the operator asserts that it is dead; applies to its present failure. DDR_EV_REFUSED
				 * (ESRCH) if it has none */
};

/* What is known of a device that was found. */
#define DDR_PRESENT_TABLE	1u	/* the table that our kernel uses names it */
#define DDR_PRESENT_LAST	2u	/* its superblock is of the last generation that the member belonged to: ddr_super_is_last() */

/* How a table names the disk that replaces a member. */
#define DDR_SHADOW_NAMED	1u	/* it names one */
#define DDR_SHADOW_USED		2u	/* the kernel's state of it is not DDR_KM_OUT */

enum ddr_sm_key {
	DDR_SM_SUSPECT_READS,	/* value 1: reconstructing reads of suspect regions fail. On all nodes, once the superblocks have it (POLICY) */
	DDR_SM_IDLE_MS,		/* a region unused for so long is cleared (default 5000) */
	DDR_SM_RESYNC_PAUSED,	/* value 1: no resync ranges are started */
	DDR_SM_RESYNC_PARALLEL,	/* ranges in work at once, 1..8 */
	DDR_SM_VERIFY_PAUSED,	/* value 1: verify reads nothing for the moment (default 0) */
	DDR_SM_USED,		/* value 1: the device serves I/O on this node (default 0); sent to the node that does background work */
	DDR_SM_MAX_CORRECTED,	/* a member is failed if this node repaired more than this number of places on it; 0: never (default) */
	DDR_SM_HOT_SPARE,	/* value 1: while this node is the writer, a spare takes the role of a failed member (default 0) */
	DDR_SM_AWAY_MS,		/* time after which a node is fenced whose daemon died while the node lives, or that is absent at the
				 * group's start (default 30000); a node that left the cluster is fenced at once */
	DDR_SM_SETTLE_MS,	/* as settle_ms of the configuration, which is the value at the start. Of all nodes of the view the highest counts */
};

/* What a job has repaired on a member: from the first block to the last, and how many of them. */
struct ddr_fixed {
	uint64_t start, count;
	uint64_t blocks;
	uint64_t unsure;	/* of these: parity that was recomputed although it is unknown whether parity or data was wrong */
	bool unread;		/* it could not be read; else it did not match the others */
};

struct ddr_input {
	enum ddr_in_type type;
	uint64_t now_ms;
	uint32_t node;
	uint32_t nodes[DDR_SM_MAX_QUORUM];	/* of a view DDR_SM_MAX_NODES at most */
	uint32_t pids[DDR_SM_MAX_NODES];	/* of nodes[i]; 0 without a cluster */
	uint8_t fences[DDR_SM_MAX_NODES];	/* of nodes[i]: enum ddr_fences; the same on all nodes */
	uint16_t version;		/* of a view: of the messages in it; 0: DDR_MSG_VERSION */
	uint32_t n_nodes;
	bool quorate;
	uint64_t ring;
	uint64_t failure;
	bool cut_off;			/* FENCED: the machine was cut off from the members, and may run on */
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
				 * and repairs what @fix says; DDR_IN_JOB_DONE (members: of those that failed, the ones that failed a write or a flush) */
	DDR_OUT_MCAST,		/* msg, msg_len */
	DDR_OUT_FENCE,		/* node, failure, settle_ms: DDR_IN_FENCED, so long after it was fenced at the earliest */
	DDR_OUT_EVENT,		/* event, args: for status, events, the log */
	DDR_OUT_GIVE_UP,	/* event: this node must leave the array (rule 4); the driver kills the target.
				 * DDR_EV_FAILED, or DDR_EV_EVICTED: the others continued without it. text: why (lib/cluster/slots.h has one) */

	/* with a cluster */
	DDR_OUT_ANEW,		/* text: why. What the driver found of the members is too old to start with: it leaves the group, and loads the array again */
	DDR_OUT_RELOAD,		/* io: read superblocks and map again; DDR_IN_RELOADED */
	DDR_OUT_SLOT_READ,	/* io, slot, members, since: read its log again; DDR_IN_SLOT_DONE */
	DDR_OUT_TABLE,		/* member, index: a table of our kernel must name its device at this position, and no other one beside it;
				 * DDR_UAPI_SHADOW: beside the one at its role, or with DDR_NO_MEMBER nowhere. DDR_IN_TABLE_DONE */
	DDR_OUT_ROOM,		/* io, members: read the sizes of their devices. One that is not open has 0 bytes; DDR_IN_ROOM */
	DDR_OUT_PREPARE,	/* io, members, start, count: the array will get the blocks start..+count. Zero their part of the
				 * region that block @start lies in, and the tail behind them, durably; DDR_IN_PREPARED */
	DDR_OUT_RESIZE,		/* count: our kernel may have a table of this number of blocks. K_ATTACHED reports the new table. If it cannot be
				 * loaded, the driver retries: until then the end of the array does not exist on this node */
	DDR_OUT_SEEK,		/* member: search for its device; DDR_IN_PRESENT if it is found, else nothing */
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
	DDR_EV_SUSPECT,		/* start, count: a run of suspect regions; a: their total number; text: why, or NULL: what was in flight at a crash could not be resynced */
	DDR_EV_FAILED,		/* more members lost than the parity covers */
	DDR_EV_CLEAN,		/* OP_CLEAN has ended; a: regions that stay dirty (resync not ended, or the array failed);
				 * UINT64_MAX: not known, since this node's slot was not read yet */
	DDR_EV_CLEAN_REFUSED,	/* OP_CLEAN was refused; a: errno, text says why */
	DDR_EV_VIEW,		/* a: nodes, b: quorate */
	DDR_EV_REFUSED,		/* a request was refused; a: errno, text says why. b: enum ddr_member_op of a change of the members that had
				 * been accepted, and is dropped; else 0 */
	DDR_EV_BUG,		/* an impossible input: text */
	DDR_EV_NODE_JOINED,	/* b: node, a: its slot. It takes part */
	DDR_EV_NODE_LEFT,	/* b: node. It stopped cleanly */
	DDR_EV_NODE_LOST,	/* b: node, a: failure. Its regions wait until it returns or is proven dead; text: why, unless it left the view */
	DDR_EV_NODE_FENCED,	/* b: node, a: failure; text: how it is known */
	DDR_EV_NODE_RECOVERED,	/* b: node, a: its slot. A survivor resyncs its dirty regions (RECOVERY there) */
	DDR_EV_WAIT,		/* text: what the array waits for, and what to do; b: node. Once for each cause */
	DDR_EV_EVICTED,		/* as the event of GIVE_UP */
	DDR_EV_REBUILD_START,	/* member, a: generation, b: DDR_MEMBER_F_*: only what was written since it left, or a copy of member @node,
				 * which it replaces. It has a role, and is written */
	DDR_EV_REBUILD_DONE,	/* member, a: generation, b: blocks that this node has written to it. It is in sync; it has replaced
				 * member node, if that is not DDR_NO_MEMBER, and this one is out */
	DDR_EV_MEMBER_ADDED,	/* member, a: generation. It is a spare: from a new disk, or one that was out and has no role */
	DDR_EV_MEMBER_REMOVED,	/* member, a: generation */
	DDR_EV_VERIFY_START,	/* a: priority, b: flags. It begins, or resumes */
	DDR_EV_VERIFY_PAUSED,	/* a: blocks found wrong so far, b: how many of them were repaired */
	DDR_EV_VERIFY_STOPPED,	/* as PAUSED */
	DDR_EV_VERIFY_DONE,	/* as PAUSED; count: suspect regions, which it skipped */
	DDR_EV_REPAIRED,	/* member, start, count: a: number of blocks in this range that were repaired on it */
	DDR_EV_MISMATCH,	/* start, count: a: number of blocks in this range that do not match, or cannot be read, and were not repaired; text: why */
	DDR_EV_GROWN,		/* a: blocks before, b: now. All of the array's superblocks say so */
	DDR_EV_GROW_REFUSED,	/* of this node's OP_GROW; text: why. b: the node where the member has only a bytes; 0: it is not for that */
	DDR_EV_LEFT,		/* OP_LEAVE has ended: the driver may leave the group */
	DDR_EV_NO_SPACE,	/* member, a: enum ddr_space; text: what waits. The member had no space for a write, which is retried until it has */
	DDR_EV_SPACE,		/* member, a: enum ddr_space. What waited continues */
	DDR_EV_POLICY,		/* a: DDR_POLICY_* of the array from now on; it is in the superblocks */
};

/* Kinds of writes for which a member had no space. The first one blocks most. */
enum ddr_space { DDR_SPACE_SUPER, DDR_SPACE_LOG, DDR_SPACE_MAP, DDR_SPACE_SLOT, DDR_SPACE_GROW, DDR_SPACE_JOB, DDR_SPACE_KINDS };

/* What a job of verify repairs, under EX. */
#define DDR_FIX_BAD	1u	/* a bad sector, if the range is one block: from the others, then read back. In a longer range it is the result */
#define DDR_FIX_WRONG	2u	/* a chunk that does not match, if P and Q identify it */
#define DDR_FIX_PARITY	4u	/* and if they do not: the parity is recomputed */
#define DDR_FIX_FITS	8u	/* the parity is known to match there: a bad sector is rewritten only if all that could be read fits together. A rebuild then reads
				 * one member more than it needs, where there is one; mismatches: blocks that it has computed from what does not fit */

struct ddr_output {
	enum ddr_out_type type;
	struct ddr_rec rec;
	uint64_t io;
	uint32_t index;
	uint32_t members;	/* bit m: member m */
	uint32_t job;		/* enum ddr_kaction */
	uint32_t fix;		/* JOB_RANGE: DDR_FIX_*; of a rebuild FITS, or nothing */
	bool strict;		/* JOB_RANGE: unreadable blocks cannot be computed there, so a plain I/O error of a read fails its member */
	bool unlocked;		/* JOB_RANGE: without EX, so it only reads, and others may be writing there */
	uint64_t start, count;
	uint32_t node, member;
	uint32_t from;		/* JOB_RANGE: the member that @member replaces, or DDR_NO_MEMBER */
	uint32_t slot;		/* SLOT_READ, SLOT_WRITE */
	uint64_t since;		/* SLOT_READ: log_seq of the slot */
	uint64_t failure;	/* FENCE */
	uint32_t settle_ms;	/* FENCE */
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
	uint64_t due_ms;	/* the state machine's own: ddr_sm_due() has it after the step */
	bool lost;		/* a bug: outputs, or a message, did not fit. The instance must not be stepped any more */
};

struct ddr_sm;
struct ddr_super;		/* format.h of lib: the decoded superblock, host types */
struct ddr_owners;		/* format_owner.h: the decoded owner pages */
struct ddr_owner;

struct ddr_sm_config {
	uint32_t node;		/* own id */
	const struct ddr_super *super;	/* copied: the newest generation, from assembly */
	const struct ddr_owners *owners;	/* copied: beside @super; NULL: none are known */
	uint8_t machine[16];	/* random id of this machine; zero: not known */
	uint64_t booted_ms;	/* by the clock of TICK: when this machine booted */
	uint32_t settle_ms;	/* so long after that, and after a node was fenced, something that was sent before may reach a member; see DDR_SM_SETTLE_MS */
	const char *name;	/* copied: of this node, as ddr_owner_name() gives it; NULL: not known */
	uint64_t behind;		/* the operator starts the array from older superblocks: its next generation must be above this one; 0: not so */
	uint32_t present;	/* bit m: member m's device is open here */
	bool again;		/* the array was loaded again because of DDR_OUT_ANEW, and the newest superblocks are those of the first time */
	uint8_t entropy[16];	/* random, new at each start: the names of new generations are derived from it */
	bool cluster;		/* QUORUM inputs, joining and fencing. False: one node by itself */
	bool several;		/* the cluster has several nodes, or may have: the array then belongs to such a cluster */
	bool adopt;		/* the operator asserts that no other machine uses the disks: an array of such a cluster is served here all the same,
				 * and its nodes' dirty regions are taken over. Without this and without @several such an array is refused */
	bool fencing;		/* fencing is configured (a command, or a cluster manager): FENCE is emitted. If no node of the view has it,
				 * recovery waits for OP_FENCE_ACK, and says so */
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
 * and ours); NULL payload: it could not be read, or a valid block with a lower sequence than the slot's log_seq lies in one of its places on a member
 * that was read (struct ddr_owner), so all of it is dirty. @seq: the highest number known,
 * also where the payload is NULL. @node, @boot_id, @cookie: of its header.
 */
void ddr_sm_load_log(struct ddr_sm *sm, uint32_t slot, uint32_t index, const uint8_t *payload, uint64_t seq,
		     uint32_t node, const uint8_t boot_id[16], uint64_t cookie);
/* Of the block that was just loaded: regions that its header lists as marked for a repair only. Without this call all of its marks count as those of writes. */
void ddr_sm_load_repairs(struct ddr_sm *sm, uint32_t slot, uint32_t index, const uint16_t repair[DDR_LOG_REPAIRS]);
/* As ddr_sm_load_log(), for the region map; NULL: every region of it counts as written, needs-sync. */
void ddr_sm_load_map(struct ddr_sm *sm, uint32_t index, const uint8_t *payload, uint64_t seq);
/* Between RELOAD and RELOADED: the superblock of the newest generation on any member, and of these the highest sequence. */
void ddr_sm_load_super(struct ddr_sm *sm, const struct ddr_super *sb);
/*
 * The id of the cluster that this node is in, or of the machine if it is in none; all zero: there is none (yet). It counts for the next START. The driver
 * sets it before the first step, and with a cluster also when a view has come, or it has changed. @id is copied.
 */
void ddr_sm_set_cluster(struct ddr_sm *sm, const uint8_t id[16]);
/* The cluster that the group knows to have used the array last (format 2); zero: none is recorded. */
const uint8_t *ddr_sm_cluster(const struct ddr_sm *sm);
/* Why a node is refused that is in another cluster: the text of DDR_EV_REFUSED. Which ones, the driver tells. */
extern const char ddr_sm_elsewhere[];
/* With it, if it is of format 2: what its owner pages say. */
void ddr_sm_load_owners(struct ddr_sm *sm, const struct ddr_owners *owners);

void ddr_sm_step(struct ddr_sm *sm, const struct ddr_input *in, struct ddr_outputs *out);
/* When the next TICK is needed, in ms, unless another input comes first; UINT64_MAX: none is. After a step without @more. */
uint64_t ddr_sm_due(const struct ddr_sm *sm);

/* Fill a whole metadata block (host side decoded where there is a codec); valid for the output just emitted. */
void ddr_sm_log_block(const struct ddr_sm *sm, uint32_t index, struct ddr_disk_log *blk);
void ddr_sm_map_block(const struct ddr_sm *sm, uint32_t index, struct ddr_disk_log *blk);
void ddr_sm_slot_block(const struct ddr_sm *sm, uint32_t index, struct ddr_disk_log *blk);	/* of SLOT_WRITE */
/* Our slot: its own, or the first free one; with a cluster DDR_SM_NO_SLOT until the group has assigned one, before the first LOG_WRITE. */
uint32_t ddr_sm_slot(const struct ddr_sm *sm);
/*
 * @landing: a write of this daemon may still land, although it was answered as failed by a timeout, or its instance has ended. Once LEAVE is
 * delivered, nobody waits for such a write or fences this node, so LEAVE waits for it.
 */
void ddr_sm_landing(struct ddr_sm *sm, bool landing);
/*
 * @left: I/O of earlier daemons of this machine may still land, or another machine may have its id. Until that ends the group is not told that a kernel which
 * this machine had before is gone.
 */
void ddr_sm_left_over(struct ddr_sm *sm, bool left);
/* Fills in all fields but sb->updated, which the driver sets: there is no clock here. */
void ddr_sm_superblock(const struct ddr_sm *sm, uint32_t member, struct ddr_super *sb);

/*
 * The owner pages beside that superblock, format 2. @owners: what this node read from the disks last, made to follow that superblock
 * (ddr_owners_follow()). What the group knows of the slots, and of the cluster, replaces what is there; the rest stays.
 */
void ddr_sm_owners(const struct ddr_sm *sm, struct ddr_owners *owners);
/* For status: what the group knows of the owner of a slot, or of its last one. All zero: nothing. */
void ddr_sm_owner(const struct ddr_sm *sm, uint32_t slot, struct ddr_owner *owner);

/*
 * What all nodes have agreed on: which member holds which role, and in what state. (A superblock that is being written may be newer, and may
 * never count.) Its @this_member is meaningless, and its error counts are those of earlier starts: ddr_sm_get_status() has the current ones.
 * Valid until the next step.
 */
const struct ddr_super *ddr_sm_super(const struct ddr_sm *sm);

#define DDR_SM_NO_SLOT		0xffffffffu

enum ddr_sm_node_state {
	DDR_NS_JOINING,		/* in the group, does not take part yet */
	DDR_NS_ACTIVE,
	DDR_NS_SUSPECT,		/* its daemon is gone, or it is absent since the start; nothing was done about it yet */
	DDR_NS_FENCING,		/* it must be proven dead */
	DDR_NS_RECOVERING,	/* it is dead; its dirty regions are being taken over */
	DDR_NS_LEFT,		/* it stopped cleanly, or was recovered */
};

/* What a node of a cluster waits for. sm_wait.c does not compile unless each has a text. */
enum ddr_sm_wait {
	DDR_SM_WAIT_NOTHING,
	DDR_SM_WAIT_FENCED,		/* a node is lost */
	DDR_SM_WAIT_EXCLUDED,		/* a node is lost, and does not return before it is fenced */
	DDR_SM_WAIT_ACK,		/* a node is lost, no node can fence it, and the operator has to confirm that it is dead */
	DDR_SM_WAIT_FAILS,		/* a node is lost, and every node that can fence has failed */
	DDR_SM_WAIT_STRANGER,		/* a node is lost, and another machine has its id now; this one, ACK and FAILS end with a command that lacks the node's id */
	DDR_SM_WAIT_BACK,		/* a node is lost, and its machine is about to say from another node id what is left of that (rule I6) */
	DDR_SM_WAIT_QUORUM,
	DDR_SM_WAIT_VIEW,		/* the agreement of all nodes of the view */
	DDR_SM_WAIT_STATE,		/* the state, which another node sends */
	/* of DDR_EV_WAIT alone */
	DDR_SM_WAIT_TOLD_ACK,
	DDR_SM_WAIT_TOLD_NEXT,
	DDR_SM_WAIT_TOLD_FAILS,
	DDR_SM_WAIT_TOLD_STRANGER,
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
	uint32_t replaced;		/* the member that it replaces, which is still in sync, or DDR_NO_MEMBER */
	uint32_t writer;		/* the node that writes superblocks and map, and rebuilds; 0: none is known */
	uint64_t generation;
	bool attached, ready, quorate, failed, gave_up;
	bool degraded;			/* a role has no member in sync */
	uint64_t log_writes, map_writes, sb_writes, flushes, mcasts;	/* counters since init */
	uint8_t member_state[DDR_MAX_MEMBERS];
	uint32_t sought;		/* members that come back once all nodes see them */
	uint32_t failing;			/* members that failed here, and of which the superblocks do not say so yet, but will */
	uint32_t change_node;			/* a change of the members waits for this node; 0: none is under way */
	bool change_acks;			/* ... until its kernel has ended its older requests; else until it has written the superblocks */
	uint32_t unseen_by[DDR_MAX_MEMBERS];	/* of these, and of spares: the first node that does not see the member; 0: all do */
	uint32_t err_read[DDR_MAX_MEMBERS], err_write[DDR_MAX_MEMBERS], err_corrected[DDR_MAX_MEMBERS];	/* with those of earlier starts */

	uint32_t no_space;		/* members that have no space for a write of this node, which is retried */
	const char *space_wait;		/* what waits for space, or NULL */

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
	uint32_t wait_node;		/* the node that is the subject of @wait; 0: @wait is a whole sentence */
	uint32_t wait_fencer;		/* the node whose turn it is to fence that one; 0: none, or @wait says it */
};
void ddr_sm_get_status(const struct ddr_sm *sm, struct ddr_sm_status *st);
/* Would the others fence this node if it disappeared? From its first superblock write on, since they or the disks may then know its slot. */
bool ddr_sm_takes_part(const struct ddr_sm *sm);
/* Have all nodes of the view agreed, with quorum, and is no node lost? Then nobody outside of the view can come back with a state. */
bool ddr_sm_complete(const struct ddr_sm *sm);
/* Does the node own a slot, has it claimed one, or is it missed? As far as this node knows: before it has the state, by the superblock that it read. */
bool ddr_sm_has_slot(const struct ddr_sm *sm, uint32_t node);
/*
 * Adds the debts of which this node knows, those of all nodes to it and its own, to @list (lib/wire/node_msg.h), the oldest first. @now_ms: by the clock of TICK.
 * Without a cluster there are only its own.
 */
struct ddr_node_debts;
void ddr_sm_debts(const struct ddr_sm *sm, uint64_t now_ms, struct ddr_node_debts *list);
/* Has another node reported that it uses the device (DDR_SM_USED)? That ends some seconds after the use. For the pace of background work; O(1). */
bool ddr_sm_used_elsewhere(const struct ddr_sm *sm);
/* Is no read of verify in flight? O(1). */
bool ddr_sm_scans_idle(const struct ddr_sm *sm);
/*
 * Progress of a job. @at: the block of the array that it has reached. @total: the blocks that it reads or copies; @done: those before @at. Blocks
 * that it skips count in neither; writes meanwhile may add to both. All 0: there is no such job. O(regions), 16 of them at once.
 */
struct ddr_sm_progress {
	uint64_t at, done, total;
	uint64_t bad_start, bad_count;	/* blocks that delay a rebuild, known to the node that does it: they can be neither read nor computed; or 0 */
};
void ddr_sm_verify_progress(const struct ddr_sm *sm, struct ddr_sm_progress *p);
void ddr_sm_rebuild_progress(const struct ddr_sm *sm, struct ddr_sm_progress *p);
/* enum ddr_region_state | flags, | DDR_SM_REGION_DIRTY if marked in our slot */
#define DDR_SM_REGION_DIRTY	0x80u
uint8_t ddr_sm_region(const struct ddr_sm *sm, uint64_t region);
/* The first run of suspect regions from @start on, as far as the map says: its first region and how many follow; false: there is none. */
bool ddr_sm_suspect_run(const struct ddr_sm *sm, uint64_t *start, uint64_t *n);
/* Are two instances of the same @size the same but for their clocks? @a gets the clock of @b. For tests. */
bool ddr_sm_same(struct ddr_sm *a, const struct ddr_sm *b, size_t size);
/* Is the instance consistent? NULL, or a static sentence that names the inconsistency. For tests: O(regions). */
const char *ddr_sm_check(const struct ddr_sm *sm);
/*
 * The shared state as STATE carries it, and its place in the total order: instances at the same place must have
 * the same @bytes in @buf. False while the view is not agreed on, or without the state. For tests; @buf: 64 KiB,
 * and 4 KiB for each block of the map.
 */
bool ddr_sm_state_at(struct ddr_sm *sm, uint8_t *buf, size_t size, uint64_t *place, uint32_t *bytes);
/*
 * The shared state as text: a line for each field that is not 0, such as "nodes[2].lost 1". Of the map only its versions.
 * Returns the full length; what does not fit into @buf is cut off, as by snprintf().
 */
size_t ddr_sm_dump(const struct ddr_sm *sm, char *buf, size_t size);

/* For tests: the name of a cell of the small machines' tables (sm_cells.h), from 1 on; NULL: no such cell. ddr_sm_cells() adds those that were reached. */
#define DDR_SM_CELL_WORDS	2u
const char *ddr_sm_cell(uint32_t cell);
void ddr_sm_cells(const struct ddr_sm *sm, uint64_t reached[DDR_SM_CELL_WORDS]);

#endif
