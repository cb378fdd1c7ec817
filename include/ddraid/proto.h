/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The messages of the daemons' process group: what goes over the wire. Those of arrays come first, those of the nodes themselves at the end.
 *
 * Every message is one CPG message: a header and a body, both of little-endian
 * fields without padding, in the order in which they stand here. lib/wire/msg.c is the
 * only code that reads or writes these bytes. doc/protocol.md says what each means.
 *
 * A receiver refuses a message with another magic, version, array or ring, a sender that
 * is not the one that the group service names, a length that is not exactly that
 * of the type, a reserved field that is not zero, or a number out of its range.
 *
 *	header (48 bytes)
 *	u32 magic, u16 version, u16 type, u32 length (of all), u32 sender (node id),
 *	u8[16] array uuid, u64 ring (of the sender's view), u32 serial (of the sender), u32 epoch
 */
#ifndef DDRAID_PROTO_H
#define DDRAID_PROTO_H

#define DDR_MSG_MAGIC		0x67724444u	/* "DDrg" */
#define DDR_MSG_VERSION		20u	/* 2: LEAVING members, unproven states, and who takes part, in HELLO and STATE; 3: STATE has no strangers; 4: rebuild; 5: members that come, go and come back; 6: verify; 7: its schedule; 8: arrays that grow; 9: acknowledgements that are taken back, members that are replaced; 10: STATE says whose owners died; 11: the policy of the array; 12: the end of a change says who owns the slots by the disks; 13: an acknowledgement says whether the sender's device is in use; 14: USE says that; START and MEMBER_DONE say whose the array is; 15: HELLO and STATE say which nodes were excluded by a verdict; 16: START says which machine its sender is, and in which cluster, STATE whose the slots are, and START, LEAVE, FENCED and RECOVERED when; 17: a VERDICT on a process for what its node owes; 18: a region that is clean and suspect; 19: RENEWED, and STATE says where the logs of slots begin; HELLO says which machine its sender is, and GONE what that machine holds no more; 20: HELLO says how long storage may keep what a machine has sent, and FENCED whether the machine was only cut off from the members */
/*
 * A daemon speaks all versions from the lowest to the highest that the loaded module serves (DDR_SERVES_LOWEST, DDR_SERVES_HIGHEST), and the group uses
 * the highest that all of its daemons speak (lib/node/version.h). A build with DDRAID_NEXT_VERSION speaks one more: tests upgrade a cluster to it, node
 * by node. In that one every HELLO ends with a word more, and PING says the version to the module.
 */
#define DDR_MSG_LOWEST		20u	/* a group begins with it, so it must have all that a start from the disks needs */
#define DDR_MSG_OWES		17u	/* the first version in which a verdict may be for a debt */
#define DDR_MSG_UNNAMED		15u	/* the version whose number is not in the name of a view */
#ifdef DDRAID_NEXT_VERSION
#define DDR_MSG_HIGHEST		(DDR_MSG_VERSION + 1u)
#else
#define DDR_MSG_HIGHEST		DDR_MSG_VERSION
#endif
#define DDR_MSG_HEADER		48u		/* bytes */
#define DDR_MSG_MAX		1024u		/* bytes, header included */

/* Numbers are never reused. The gaps leave room for related messages. */
enum ddr_msg_type {
	DDR_M_START		= 1,	/* u32 slot, u32 missing members, u64 cookie, u8[16] boot id, u32 members whose devices are open,
					 * u32 regions that the kernel holds (as declared), u64 blocks that the sender's open devices have room for, u32 flags, u32 0, u64 time (seconds since 1970, as below), u8[16] machine, u8[16] id of its cluster (zero: none), u8[64] name of the node */
	DDR_M_HELLO		= 2,	/* u64 name of the view, u64 history, u32 flags, u32 last epoch shared with another node, u32 epoch before the last agreement, u32 n, u64 history then, u8[16] machine (zero: not known), u32 settle (ms), u32 0, then n times
				 * u32 node: nodes that a verdict has excluded since the sender agreed last */
	DDR_M_STATE		= 3,	/* u64 digest (of all), u32 epoch, u32 index, u32 count (of chunks), u32 bytes, then these */
	DDR_M_LEAVE		= 4,	/* u32 slot, u32 dirty regions, u64 time */
	DDR_M_FENCED		= 5,	/* u32 node, u32 how, u64 failure, u64 time */
	DDR_M_RECOVER		= 6,	/* u32 slot, u32 0 */
	DDR_M_RECOVERED		= 7,	/* u32 slot, u32 0, u64 cookie, u8[16] boot id: the instance that its blocks named; cookie 0: none; then u64 time */
	DDR_M_RENEWED		= 8,	/* u32 slot, u32 0, u64 sequence: all blocks of the sender's log have at least this one, in both places */
	DDR_M_GONE		= 9,	/* u32 node, u32 0, u64 failure, u64 time, u64 cookie, u8[16] boot id, u8[16] machine: of the sender, whose machine was that lost
				 * node once, and has no kernel any more but this one, and nothing on its way to a member from before */
	DDR_M_MEMBER_FAIL	= 16,	/* u32 hard, u32 soft, u32 exchanged, u32 0 (members) */
	DDR_M_MEMBER_DONE	= 17,	/* u64 generation, u64 superblock sequence, u8[16] generation id,
					 * u8[16] id of the one before, u32 faulty, u32 missing (members), u64 slots claimed, u32[64] their owners,
					 * u32 mark, u32 number of the last change of an owner that was written, then as MEMBER_SET (operation 0: nothing of that kind) */
	DDR_M_MEMBER_ACK	= 18,	/* u64 superblock sequence */
	DDR_M_MEMBER_SET	= 19,	/* u32 operation, u32 member, u32 role, u32 0, u64 cursor (blocks), u8[16] uuid */
	DDR_M_FOLDED		= 20,	/* u64 generation since which a member rebuilds */
	DDR_M_SEEK		= 21,	/* u32 member, u32 0 */
	DDR_M_SEEN		= 22,	/* u32 members whose devices the sender has open, u32 0, u64 generation of its superblock */
	DDR_M_VERIFY		= 23,	/* u32 operation, u32 priority, u32 flags, u32 serial, u64 time, u64 cursor (blocks), u64 found, u64 repaired (blocks) */
	DDR_M_GROW		= 26,	/* u64 new size of the array (blocks; 0: as large as its members allow) */
	DDR_M_ROOM		= 27,	/* u64 bytes of the smallest member device on the sender, u32 which member, u32 0,
					 * u64 generation of its superblock */
	DDR_M_USE		= 28,	/* u32 1: the device is in use on the sender, 0: it is not; u32 0 */
	DDR_M_EX_REQUEST	= 32,	/* u32 id, u8 mode, u8 job, u16 0, u64 start, u64 count (blocks) */
	DDR_M_EX_ACK		= 33,	/* u32 owner, u32 id, u64 dirty (bit i: region i of the range) */
	DDR_M_EX_RELEASE	= 34,	/* u32 id, u32 0 */
	DDR_M_EX_VOID		= 35,	/* u64 0: the sender's acknowledgements of ranges that not all have acknowledged are void */
	DDR_M_MAP_SET		= 48,	/* u32 id, u32 n, then n times: u32 start, u32 count (regions), u32 operation */
	DDR_M_MAP_DONE		= 49,	/* u32 n, u32 0, then n times: u32 block, u32 0, u64 version */
};

/* Flags of START. */
#define DDR_START_SEVERAL	1u	/* the sender's cluster has several nodes: the array is marked as such a cluster's, if it is not yet */
#define DDR_START_ADOPT		2u	/* the operator asserts that no other machine uses the disks any more */
#define DDR_START_FLAGS		3u

/* What a change does to DDR_RO_COMPAT_CLUSTER. */
enum ddr_mark { DDR_MARK_KEEP = 0, DDR_MARK_CLUSTER = 1, DDR_MARK_ALONE = 2 };

/* Flags of HELLO. */
#define DDR_HELLO_SYNCED	1u	/* the sender has the state of a group */
#define DDR_HELLO_VOID		2u	/* no HELLO: the state that was built from the disks differs from what they hold, so nobody has a state */
#define DDR_HELLO_UNPROVEN	4u	/* the sender's state was built from the disks, and nobody has written anything by it yet */
#define DDR_HELLO_ALONE		16u	/* the sender knows of no other node that agreed on its epoch, and has lost no node of this view */
#define DDR_HELLO_UNDO		32u	/* the sender's last agreement changed only the epoch, and nothing of it was delivered to the sender: it can take it back */
#define DDR_HELLO_ACTIVE	8u	/* the sender takes part: nodes that continue without it fence it first */

/* FENCED: how it is known. */
enum ddr_fenced_how {
	DDR_FENCED_AGENT = 1, DDR_FENCED_OPERATOR = 2, DDR_FENCED_FAILED = 3,
	DDR_FENCED_STORAGE = 4,		/* by an agent that cut the machine off from the members: it may run on */
};

#define DDR_STATE_DATA		944u	/* bytes of a chunk at most */

/* Mode of a range. Another mode is reserved for write locks on regions that exclude each other. */
enum ddr_ex_mode { DDR_EX_RANGE = 1 };

#define DDR_HELLO_SETTLE	600000u	/* ms of `settle` at most */
#define DDR_HELLO_OUTS		64u	/* nodes that a HELLO names as excluded at most: as many as have places in an array */

#define DDR_EX_BLOCKS		512u	/* blocks of a range at most: 2 MiB of the device */
#define DDR_MAP_RUNS		36u	/* runs of a MAP_SET at most */
#define DDR_MAP_DONES		28u	/* blocks of a MAP_DONE at most */

/* Operations of MEMBER_SET. */
enum ddr_member_op {
	DDR_MEMBER_OP_TAKE	= 1,	/* the spare gets the role, which no working member holds, and is rebuilt */
	DDR_MEMBER_OP_CURSOR	= 2,	/* below the cursor the member is valid, and flushed */
	DDR_MEMBER_OP_WHOLE	= 3,	/* the whole member is valid: it is in sync */
	DDR_MEMBER_OP_ADD	= 4,	/* a new disk with this uuid becomes a spare, at an unused index */
	DDR_MEMBER_OP_REMOVE	= 5,	/* drops a failed member, or a spare: its entry gets this uuid, which no disk has */
	DDR_MEMBER_OP_BACK	= 6,	/* a failed member is rebuilt; if another member has its role, it becomes a spare */
	DDR_MEMBER_OP_READD	= 7,	/* as BACK, but only regions that were written since it left are rebuilt */
	DDR_MEMBER_OP_RECORD	= 8,	/* no member: records the agreed progress of the verify in the superblocks */
	DDR_MEMBER_OP_REPLACE	= 9,	/* the spare gets a copy of the member that holds the role in sync, and takes the role over at WHOLE */
	DDR_MEMBER_OP_STAY	= 10,	/* the member that is being replaced stays: cancels WHOLE of its copy, which may be on the disks already */
	DDR_MEMBER_OP_GROW	= 16,	/* no member: the cursor is the new size of the array in blocks */
	DDR_MEMBER_OP_POLICY	= 17,	/* no member: the cursor is the policy of the array (DDR_POLICY_*) */
};

/* Operations of VERIFY. */
enum ddr_verify_op {
	DDR_VERIFY_OP_START	= 1,	/* priority, flags, time. A paused verify resumes */
	DDR_VERIFY_OP_PAUSE	= 2,
	DDR_VERIFY_OP_STOP	= 3,
	DDR_VERIFY_OP_PROGRESS	= 4,	/* serial, cursor; found, repaired: since the last message */
	DDR_VERIFY_OP_DONE	= 5,	/* as PROGRESS, and time */
};

/* Operations of MAP_SET on a region; each may be repeated. */
enum ddr_map_op {
	DDR_MAP_OP_WRITTEN	= 1,	/* unwritten becomes needs-sync */
	DDR_MAP_OP_DEGRADED	= 2,	/* as WRITTEN, and sets "written since a member is missing" */
	DDR_MAP_OP_CLEAN	= 3,	/* parity is correct in the whole region */
	DDR_MAP_OP_SUSPECT	= 4,	/* as DEGRADED, the state becomes needs-sync, "suspect" is set */
	DDR_MAP_OP_ACCEPT	= 5,	/* "suspect" is dropped */
	DDR_MAP_OP_DOUBT	= 6,	/* as WRITTEN, and sets "suspect": what a member was rebuilt from does not fit together. A clean region stays clean: no resync of
					 * it is due, which would make the parity fit */
};

/*
 * The messages of a node's daemon about itself. lib/wire/node_msg.c is the only code that reads or writes them.
 *
 *	header (16 bytes)
 *	u32 magic, u16 version of this header, u16 type, u32 length (of all), u32 sender (node id)
 *
 * The header and HELLO's versions stay as they are in all releases; a HELLO may become longer at its end.
 */
#define DDR_NODE_MAGIC		0x646e4444u	/* "DDnd" */
#define DDR_NODE_VERSION	1u
#define DDR_NODE_HEADER		16u		/* bytes */
#define DDR_NODE_RIDES		64u		/* arrays of one daemon */
#define DDR_NODE_OUTS		64u		/* processes that a HELLO names as excluded */
#define DDR_NODE_VOTERS		128u		/* nodes of a VERDICT: as many as there may be processes in the group */
#define DDR_NODE_DEBTS		16u		/* debts that a PULSE names */
#define DDR_NODE_MSG_MAX	(DDR_NODE_HEADER + 36u + 24u * DDR_NODE_RIDES + 8u * DDR_NODE_OUTS + 56u)	/* bytes, header included: of the longest, a HELLO */

/* Flags of the HELLO of a node. */
#define DDR_NODE_FIRST		1u		/* none of the sender has been delivered yet */
#define DDR_NODE_FENCES		2u		/* the sender can fence other nodes */
#define DDR_NODE_FENCES_NOT	4u		/* it cannot. A release that does not know these two sets neither, and takes turns in any case */

/* Can a node fence others, by these flags? The first one is that of a release that does not say it. */
enum ddr_fences { DDR_FENCES_UNSAID, DDR_FENCES_YES, DDR_FENCES_NO };

/*
 * What a node that takes part in an array waits for, and another one owes it (lib/cluster/sm_debt.c; doc/protocol.md, "Debts"). A pulse names
 * them. Numbers are never reused; a receiver that does not know a number still says who waits for whom.
 */
enum ddr_debt_kind {
	DDR_DEBT_HELLO		= 1,	/* HELLO for the present view: all of the view wait */
	DDR_DEBT_STATE		= 2,	/* the state: joiners wait, and nobody changes it until they have it */
	DDR_DEBT_MEMBER_DONE	= 3,	/* the superblocks of a change that is wanted: all wait for the writer */
	DDR_DEBT_MEMBER_ACK	= 4,	/* that its kernel has applied the last change of the members: all wait */
	DDR_DEBT_EX_ACK		= 5,	/* that its kernel has drained a range: the owner of the range waits */
	DDR_DEBT_EX_RELEASE	= 6,	/* the end of a range that it works in: writers there wait, on all nodes */
	DDR_DEBT_MAP_DONE	= 7,	/* a durable change of the region map: the node that asked for it waits for the writer */
	DDR_DEBT_RECOVERED	= 8,	/* the recovery of a dead node's slot: all wait */
	DDR_DEBT_FOLDED		= 9,	/* that its earlier writes are in the map: the writer waits, which rebuilds a member */
	DDR_DEBT_ROOM		= 10,	/* how large its devices are: all wait until the array can grow */
	DDR_DEBT_RETURN		= 11,	/* it is lost: all wait until it is back or was fenced */
};
#define DDR_DEBT_KINDS		12u
#define DDR_DEBT_OLD_MS		5000u	/* what is owed for so long is shown, and is a reason why who waits for it does not do what it owes itself */

/* Of a debt of the sender itself: what it waits for in its turn. Debts of others to the sender are listed beside it. */
enum ddr_debt_why {
	DDR_WHY_UNKNOWN		= 0,
	DDR_WHY_KERNEL		= 1,	/* its kernel has not ended its older requests */
	DDR_WHY_DISK		= 2,	/* a disk has not answered */
	DDR_WHY_ABSENT		= 3,	/* its kernel is not there: the array is being attached or removed */
	DDR_WHY_RESYNC		= 4,	/* it resyncs first. No reason for a verdict (lib/node/owes.c) depends on this: the first releases do not know it */
};

enum ddr_node_msg_type {
	DDR_N_HELLO		= 1,	/* u16 lowest, u16 highest version of the arrays' messages that the sender speaks, u16 lowest, u16 highest format of
					 * superblocks that it knows, u32 n, u32 x, u16 version that it uses (0: none yet), u16 flags (DDR_NODE_*), u64 ring,
					 * u32 node, u32 pid: of the round (lib/node/version.h); then n times what RIDE has: the arrays in which it takes part; then
					 * x times (u32 node, u32 pid): processes of the group that are excluded */
	DDR_N_RIDE		= 2,	/* u8[16] array uuid, u32 number (not 0), u32 0: the sender takes part in the array from here on */
	DDR_N_OFF		= 3,	/* as RIDE: it does not any more */
	DDR_N_PULSE		= 4,	/* u64 counter (not 0): the sender's loop runs; then, except in the first releases, u32 n (at most 16), u32 number of
					 * debts that the sender knows (at least n), then n times: u8[16] array uuid, u8 kind (not 0), u8 why (enum ddr_debt_kind,
					 * enum ddr_debt_why), u16 0, u32 node that owes it (not 0), u32 ms since when it owes it, u32 ms since it did
					 * something about it last (at most as many): the oldest ones. It may be longer */
	DDR_N_VERDICT		= 5,	/* u64 ring, u64 name of the last message that was heard, u32 node, u32 pid: of the silent process; u32 votes of
					 * the partition, u32 votes that a quorum needs, u32 flags (DDR_VERDICT_*), u32 n, then n times (u32 node, u32
					 * votes): each node of the group; then, with DDR_VERDICT_OWES: u8[16] array uuid, u8 kind (not 0), u8 0, u16 0, u32 ms (not 0):
					 * the process pulses, but its node owes this, and has done nothing about it for so long */
	/*
	 * A HELLO ends with u8[16] random id of the sender's machine, u8[16] id of the cluster as it has stored it (both zero: none), u32 flags
	 * (DDR_NODE_PROPOSED), u32 0, u64 the ballot that it has promised, u64 that under which it has accepted the id (lib/node/cluster.h). It may be longer;
	 * the first releases end it before the machine.
	 */
	DDR_N_READY		= 8,	/* u64 turn, u64 ring, u32 node, u32 pid: of the round. The sender misses no node, as far as it has arrays */
};
#define DDR_NODE_PROPOSED	1u		/* of a HELLO's ids: that of the cluster is not agreed yet */
#define DDR_BALLOT_MAX		(1ull << 48)	/* no cluster gets there: what names a higher one is damaged */
#define DDR_VERDICT_TWO_NODE	1u		/* one node of two has quorum alone */
#define DDR_VERDICT_NO_SLOT	2u		/* the node has no slot in an array that the sender serves, and none of these misses it */
#define DDR_VERDICT_OWES	4u		/* not for silence, but for the debt that is named behind the votes */

#endif
