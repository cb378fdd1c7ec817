/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The state that the nodes of a group share: exactly what a joiner gets in STATE, and what messages change in the total order.
 *
 * The lists below declare the structures. The codec of STATE, the digest, the code that forgets the state, and the dump as text are
 * generated from the same lists (sm_state_codec.c), so none of them can miss a field. The order of the
 * fields is the wire format (doc/protocol.md, "The state, as a joiner gets it").
 *
 * F(kind, name) is a field, A(kind, name, n) an array of n. Kinds: U8 U16 U32 U64, FLAG (one byte), BYTES (an array of bytes),
 * SET (a change of the members, as in MEMBER_SET).
 *
 * Must never: have a field that only this node knows, or that may differ between nodes at the same place in the order.
 */
#ifndef DDR_LIB_SM_SHARED_H
#define DDR_LIB_SM_SHARED_H

#include <ddraid/format.h>
#include <ddraid/proto.h>
#include "lib/disk/format.h"
#include "lib/wire/msg.h"
#include "sm.h"

#define DDR_SM_EX		128u	/* ranges of all nodes that are in force at once */

/* The group, and slots that are recovered. */
#define DDR_SHARED_GROUP(F, A) \
	F(U64, history)			/* hash of the messages that changed the state */ \
	F(U64, ring_history)		/* @history when the ring began */ \
	F(U32, failures)		/* number of node failures so far */ \
	F(U32, writer)			/* node that writes superblocks and map, 0: none */ \
	F(FLAG, unproven)		/* built from the disks, and nothing was written since: its owners' last writes may have landed after we read */ \
	F(FLAG, failed)			/* too few members are left */ \
	F(U64, rec)			/* slots of dead nodes, to be recovered */ \
	A(U32, rec_by, DDR_MAX_SLOTS)	/* node that recovers the slot, 0: none yet */

/* The superblock, without the fields that never change: all nodes know these. */
#define DDR_SHARED_SUPER(F, A) \
	F(U64, generation) \
	F(U64, seq) \
	F(U64, log_base) \
	F(U64, array_blocks) \
	F(U32, policy) \
	F(U32, ro_compat) \
	A(BYTES, gen_id, 16) \
	A(BYTES, gen_prev, 16) \
	F(U16, members)

#define DDR_SHARED_MEMBER(F, A) \
	A(BYTES, uuid, 16) \
	F(U8, state) \
	F(U8, flags) \
	F(U16, role) \
	F(U64, cursor) \
	F(U64, since) \
	A(BYTES, last_gen, DDR_LAST_GEN_LEN)

#define DDR_SHARED_VERIFY(F, A) \
	F(U32, serial) \
	F(U8, state) \
	F(U8, priority) \
	F(U8, flags) \
	F(U64, begun) \
	F(U64, ended) \
	F(U64, cursor) \
	F(U64, found) \
	F(U64, repaired)

/*
 * A change of the superblocks: what was delivered and is not done yet. Only the writer knows which part of it
 * is in its write in flight.
 */
#define DDR_SHARED_CHANGE(F, A) \
	F(FLAG, ack)			/* MEMBER_DONE was delivered; each node acknowledges when its kernel has applied the change */ \
	F(U64, acked)			/* bit: position of the node */ \
	F(U32, faulty)			/* judged, and not in the superblocks yet */ \
	F(U32, missing) \
	F(U32, leaving)			/* out by the superblocks, and not all kernels have stopped reading them */ \
	F(U32, exchanged)		/* of those that leave: writes to them went to another disk */ \
	F(U64, slots)			/* slots that get another owner */ \
	F(U64, died)			/* without parity: slots whose owners died; when they get another owner, a copy starts from 0 */ \
	F(U8, mark)			/* enum ddr_mark */ \
	F(FLAG, copy_void)		/* a member that leaves, and its copy, may differ where nobody has resynced yet: the copy starts from 0 */ \
	A(U32, slot_node, DDR_MAX_SLOTS)	/* owner that each slot gets, by the last delivered message; including changes in progress; 0: free */ \
	F(SET, set)			/* operation 0: none */ \
	F(U32, back)			/* failed members, which come back once all see them */ \
	F(FLAG, restart)		/* the change that waits for acknowledgements concerns more than slots and cursors */

#define DDR_SHARED_NODE(F, A) \
	F(U32, id)			/* 0: free */ \
	F(FLAG, lost)			/* disappeared, or was never heard, and is not proven dead */ \
	F(FLAG, excluded)		/* lost, and a verdict has excluded its daemon: whatever it says now, it stays lost until it is proven dead */ \
	F(FLAG, started)		/* its START was delivered, and it was not lost since */ \
	F(FLAG, leaving)		/* its LEAVE was delivered */ \
	F(FLAG, absent)			/* lost since the group's start */ \
	F(FLAG, dead)			/* the instance (boot_id, cookie) was fenced and never comes back */ \
	F(FLAG, cut_off)		/* dead, and its machine was only cut off from the members: no instance of that boot comes back */ \
	F(FLAG, folded)			/* its regions that were dirty before its kernel wrote to the rebuilding member are in the map */ \
	F(U32, sees)			/* members whose devices it has open */ \
	F(FLAG, roomed)			/* the next two are known */ \
	F(U64, room)			/* bytes that the array may use of its smallest device of a member */ \
	F(U32, room_member)		/* that member */ \
	F(U32, leave_dirty)		/* dirty regions in its slot when it left; UINT32_MAX: it had not read its slot */ \
	F(U32, attempt)			/* number of attempts to fence it */ \
	F(U64, failure)			/* name of its present failure */ \
	A(BYTES, boot_id, 16) \
	F(U64, cookie)

/* An exclusive range in force, of any node. */
#define DDR_SHARED_EX(F, A) \
	F(FLAG, used) \
	F(U32, node) \
	F(U32, id) \
	F(U64, start) \
	F(U64, count)			/* blocks */ \
	F(U64, acked)			/* nodes that acknowledged, bit: position in the table of nodes */ \
	F(U64, dirty)			/* regions of it that some node has to resync */ \
	F(FLAG, granted)		/* all have acknowledged: the owner may work, whichever node joins now */

/* The array is to grow. */
#define DDR_SHARED_GROW(F, A) \
	F(U32, by)			/* node that requested it; 0: none */ \
	F(U64, want)			/* blocks; 0: as many as there is room for */

/*
 * Whose the slots are, by the last delivered messages (format 2; format_owner.h says what the fields mean). A slot whose owner has changed is one of the
 * change's @slots until its pages are written.
 */
#define DDR_SHARED_OWNERS(F, A) \
	F(U32, changes)			/* number of changes so far */ \
	A(BYTES, cluster, 16)		/* id of the cluster that has used the array last; zero: none is recorded */

#define DDR_SHARED_OWNER(F, A) \
	F(U32, changed)			/* number of its last change */ \
	F(U8, state)			/* enum ddr_slot_state; of a slot that is being freed DDR_SLOT_FREE already */ \
	A(BYTES, machine, 16) \
	A(BYTES, boot_id, 16)		/* zero: not known */ \
	F(U64, cookie) \
	F(U64, since)			/* seconds since 1970 */ \
	A(BYTES, name, DDR_NODE_NAME) \
	A(BYTES, fenced_boot_id, 16)	/* zero: none */ \
	F(U64, fenced_cookie) \
	F(U64, fenced_time)		/* seconds since 1970 */ \
	F(FLAG, renewed)		/* its owner has written all of its log anew, with log_seq and above */ \
	F(U64, log_seq)			/* a block of its log with a lower sequence is one of an earlier owner, and landed late; 0: not known */

/* A block of the region map: versions count its changes. */
#define DDR_SHARED_VERSION(F, A) \
	F(U64, mem)			/* in memory */ \
	F(U64, dur)			/* durable */

/* ---- the structures -------------------------------------------------------------- */

#define DDR_SHARED_TYPE_U8	uint8_t
#define DDR_SHARED_TYPE_U16	uint16_t
#define DDR_SHARED_TYPE_U32	uint32_t
#define DDR_SHARED_TYPE_U64	uint64_t
#define DDR_SHARED_TYPE_FLAG	bool
#define DDR_SHARED_TYPE_BYTES	uint8_t
#define DDR_SHARED_TYPE_SET	struct ddr_msg_member_set

#define DDR_SHARED_FIELD(kind, name)	DDR_SHARED_TYPE_##kind name;
#define DDR_SHARED_ARRAY(kind, name, n)	DDR_SHARED_TYPE_##kind name[n];

struct ddr_sm_change { DDR_SHARED_CHANGE(DDR_SHARED_FIELD, DDR_SHARED_ARRAY) };
struct ddr_sm_node { DDR_SHARED_NODE(DDR_SHARED_FIELD, DDR_SHARED_ARRAY) };
struct ddr_sm_ex { DDR_SHARED_EX(DDR_SHARED_FIELD, DDR_SHARED_ARRAY) };
struct ddr_sm_growth { DDR_SHARED_GROW(DDR_SHARED_FIELD, DDR_SHARED_ARRAY) };
struct ddr_sm_version { DDR_SHARED_VERSION(DDR_SHARED_FIELD, DDR_SHARED_ARRAY) };
struct ddr_sm_owner { DDR_SHARED_OWNER(DDR_SHARED_FIELD, DDR_SHARED_ARRAY) };
struct ddr_sm_owners {
	DDR_SHARED_OWNERS(DDR_SHARED_FIELD, DDR_SHARED_ARRAY)
	struct ddr_sm_owner slot[DDR_MAX_SLOTS];
};

struct ddr_sm_shared {
	DDR_SHARED_GROUP(DDR_SHARED_FIELD, DDR_SHARED_ARRAY)
	struct ddr_sm_change change;
	struct ddr_sm_node nodes[DDR_SM_MAX_NODES];
	struct ddr_sm_ex ex[DDR_SM_EX];
	struct ddr_sm_growth grow;
	struct ddr_sm_owners owners;	/* all zero unless @owned */
	struct ddr_super sb;
	const struct ddr_sm_version *version;	/* of each block of the map; ddr_order_version() */
	const uint8_t *map;		/* nibbles, as in the payload; ddr_order_map() */

	/* known to all without a message: from their configuration, and from the view */
	bool owned;			/* the superblocks have owner pages (format 2) */
	bool cluster;			/* nodes come and go, and are fenced; else the view is what the transport reports */
	uint64_t here;			/* nodes that are in the view, bit: position */

	/* derived from the fields above */
	uint32_t n_map;			/* blocks of the map */
	uint64_t regions, region_blocks;
	uint64_t n_clean, n_needs_sync, n_suspect;	/* regions; kept from when their states are known (planned) */
};

#endif
