/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Questions about the shared state. ddr_shared_X() gets only that state, so its answer is the same on every node at the same
 * place in the order. Handlers of delivered messages (sm_order*.c) call ddr_shared_X(); code that has the whole machine calls ddr_sm_X().
 * The functions are in sm_ask.c (nodes and slots), sm_ask_member.c, sm_room.c,
 * sm_set.c, sm_region.c and sm_order_ex.c.
 *
 * Must never: use anything that only this node knows.
 */
#ifndef DDR_LIB_SM_ASK_H
#define DDR_LIB_SM_ASK_H

#include "sm_state.h"

/* ---- ranges ---------------------------------------------------------------------- */

static inline bool ddr_blocks_overlap(uint64_t a, uint64_t na, uint64_t b, uint64_t nb)
{
	return a < b + nb && b < a + na;
}

/* The range in force that the node has under this number, or NULL. */
const struct ddr_sm_ex *ddr_shared_ex_find(const struct ddr_sm_shared *s, uint32_t node, uint32_t id);
/* Have all acknowledged it? */
bool ddr_shared_ex_acked(const struct ddr_sm_shared *s, const struct ddr_sm_ex *x);

/* ---- nodes and slots ------------------------------------------------------------- */

/* Does a node other than @n (NULL: any) take part? */
bool ddr_shared_others_started(const struct ddr_sm_shared *s, const struct ddr_sm_node *n);
/* Position of a node, or -1; the bits of all that must agree; the node that writes for the view. */
int ddr_shared_node_at(const struct ddr_sm_shared *s, uint32_t id);
uint64_t ddr_shared_voters(const struct ddr_sm_shared *s);
uint32_t ddr_shared_writer(const struct ddr_sm_shared *s);
bool ddr_shared_any_lost(const struct ddr_sm_shared *s);
/* Is the node lost by a verdict? Then it cannot start before it is proven dead. */
bool ddr_shared_excluded(const struct ddr_sm_shared *s, uint32_t node);
/* Has a node left with dirty regions, in a slot that is not recovered yet? */
bool ddr_shared_left_dirty(const struct ddr_sm_shared *s);
uint32_t ddr_shared_slot_of(const struct ddr_sm_shared *s, uint32_t node);
/* The slot that was assigned to the node, but that the agreed superblocks do not show yet; or DDR_SM_NO_SLOT. */
uint32_t ddr_shared_slot_claimed(const struct ddr_sm_shared *s, uint32_t node);
/* The slot for @node: its own, or the first free one that is not assigned; or DDR_SM_NO_SLOT. */
uint32_t ddr_shared_slot_choose(const struct ddr_sm_shared *s, uint32_t node);
/* May the node start in this slot: it is neither being recovered nor assigned to another node? */
bool ddr_shared_slot_settled(const struct ddr_sm_shared *s, uint32_t slot, uint32_t node);
/* Is there a slot for the node that does not have to be recovered or freed first, and need it not be proven dead first? */
bool ddr_shared_can_begin(const struct ddr_sm_shared *s, uint32_t node);

/* ---- members --------------------------------------------------------------------- */

/* Members that hold their role for every stripe; members to which log, map and superblock are written. */
uint32_t ddr_shared_in_sync(const struct ddr_sm_shared *s);
uint32_t ddr_shared_written(const struct ddr_sm_shared *s);
bool ddr_shared_degraded(const struct ddr_sm_shared *s);
/* Members that are in the array in any way: in sync, rebuilding, spare. */
uint32_t ddr_shared_alive(const struct ddr_sm_shared *s);
/* Is the member out: failed, or missing? */
bool ddr_shared_is_out(const struct ddr_sm_shared *s, uint32_t member);
/* Members whose failure was delivered, but is not in the superblocks yet. */
uint32_t ddr_shared_going(const struct ddr_sm_shared *s);
/* Could the array continue without @members, and without those that are already going? */
bool ddr_shared_can_lose(const struct ddr_sm_shared *s, uint32_t members);
/* Have all acknowledged the change whose MEMBER_DONE was delivered? */
bool ddr_shared_all_acked(const struct ddr_sm_shared *s);
/* No change of the superblocks is wanted or in progress. A change that the writer is writing is wanted until it is done. */
bool ddr_shared_members_settled(const struct ddr_sm_shared *s);
/* None of @members is in the array any more, and all nodes have agreed to that. */
bool ddr_shared_agreed_out(const struct ddr_sm_shared *s, uint32_t members);
/* Member at a position of the kernel's table (= role), or DDR_NO_MEMBER. */
uint32_t ddr_shared_member_at(const struct ddr_sm_shared *s, uint32_t position);
/* Does every node that takes part see the member's device? */
bool ddr_shared_all_see(const struct ddr_sm_shared *s, uint32_t member);
/* Is it enough to rebuild the regions that were written since the member left? */
bool ddr_shared_may_readd(const struct ddr_sm_shared *s, uint32_t member);
/* The member that is rebuilt now, or DDR_NO_MEMBER. */
uint32_t ddr_shared_rebuilding(const struct ddr_sm_shared *s);
/* The member that gets a copy of one that is in sync, and then replaces it; and the one that is replaced. DDR_NO_MEMBER: none. */
uint32_t ddr_shared_replacing(const struct ddr_sm_shared *s);
uint32_t ddr_shared_replaced(const struct ddr_sm_shared *s);
/* All writes from before the rebuild are in the map, and no node has to resync anything that may make the new member differ from the one it copies. */
bool ddr_shared_all_folded(const struct ddr_sm_shared *s);
/* Members whose chunk of this block is valid: in sync, or rebuilt that far. */
uint32_t ddr_shared_readable(const struct ddr_sm_shared *s, uint64_t block);
/* The first block after @block, up to @end, at which the set of readable members changes. */
uint64_t ddr_shared_readable_end(const struct ddr_sm_shared *s, uint64_t block, uint64_t end);
/* What a resync can do for blocks with one role map: compute the parity; nothing, no parity member is there; nothing, data is missing (suspect). */
enum ddr_doable { DDR_DO_JOB, DDR_DO_NOTHING, DDR_DO_SUSPECT };
enum ddr_doable ddr_shared_doable(const struct ddr_sm_shared *s, uint64_t block);
/* Members that a job on blocks with this role map uses: its sources, and parity, which is written even where it is not rebuilt yet. */
uint32_t ddr_shared_job_members(const struct ddr_sm_shared *s, uint64_t block);

/* ---- growing --------------------------------------------------------------------- */

/* Is this the size that was judged? */
bool ddr_shared_grow_valid(const struct ddr_sm_shared *s, const struct ddr_msg_member_set *set);
/* Superblocks with a larger size are wanted or in progress. */
bool ddr_shared_growing(const struct ddr_sm_shared *s);
/* Blocks that a node must have room for to start: the coming size, if the array is growing. */
uint64_t ddr_shared_grow_needs(const struct ddr_sm_shared *s);
/* Why the array cannot grow now, independent of the devices; or NULL. */
const char *ddr_shared_room_not_now(const struct ddr_sm_shared *s);
/* The node whose devices have the least room, once all have reported; NULL: not all have. */
const struct ddr_sm_node *ddr_shared_room_least(const struct ddr_sm_shared *s);
uint64_t ddr_shared_room_fits(const struct ddr_sm_shared *s, uint64_t bytes);
/* The size that the array will have, in blocks; 0: not known yet, or it cannot grow. */
uint64_t ddr_shared_room_target(const struct ddr_sm_shared *s);

/* ---- regions --------------------------------------------------------------------- */

/* What the map says of the region. */
uint8_t ddr_shared_nibble(const struct ddr_sm_shared *s, uint64_t region);

/* ---- changes of the superblocks on request ---------------------------------------- */
/* Is the change valid with the superblocks as they are now? */
bool ddr_shared_set_valid(const struct ddr_sm_shared *s, const struct ddr_msg_member_set *set);
bool ddr_sm_same_set(const struct ddr_msg_member_set *a, const struct ddr_msg_member_set *b);

/* ---- the same for the whole machine ------------------------------------------------ */

#define DDR_SM_ASK(type, question) \
	static inline type ddr_sm_##question(const struct ddr_sm *sm) \
	{ \
		return ddr_shared_##question(&sm->shared); \
	}
#define DDR_SM_ASK_OF(type, question, of_type) \
	static inline type ddr_sm_##question(const struct ddr_sm *sm, of_type of) \
	{ \
		return ddr_shared_##question(&sm->shared, of); \
	}

DDR_SM_ASK_OF(bool, ex_acked, const struct ddr_sm_ex *)
DDR_SM_ASK_OF(int, node_at, uint32_t)
DDR_SM_ASK(uint64_t, voters)
DDR_SM_ASK(uint32_t, writer)
DDR_SM_ASK(bool, any_lost)
DDR_SM_ASK_OF(bool, excluded, uint32_t)
DDR_SM_ASK(bool, left_dirty)
DDR_SM_ASK_OF(uint32_t, slot_of, uint32_t)
DDR_SM_ASK_OF(uint32_t, slot_claimed, uint32_t)
DDR_SM_ASK_OF(bool, can_begin, uint32_t)
DDR_SM_ASK(uint32_t, in_sync)
DDR_SM_ASK(uint32_t, written)
DDR_SM_ASK(bool, degraded)
DDR_SM_ASK(uint32_t, alive)
DDR_SM_ASK_OF(bool, is_out, uint32_t)
DDR_SM_ASK(uint32_t, going)
DDR_SM_ASK_OF(bool, can_lose, uint32_t)
DDR_SM_ASK(bool, all_acked)
DDR_SM_ASK(bool, members_settled)
DDR_SM_ASK_OF(bool, agreed_out, uint32_t)
DDR_SM_ASK_OF(uint32_t, member_at, uint32_t)
DDR_SM_ASK_OF(bool, all_see, uint32_t)
DDR_SM_ASK_OF(bool, may_readd, uint32_t)
DDR_SM_ASK(uint32_t, rebuilding)
DDR_SM_ASK(uint32_t, replacing)
DDR_SM_ASK(uint32_t, replaced)
DDR_SM_ASK(bool, all_folded)
DDR_SM_ASK_OF(uint32_t, readable, uint64_t)
DDR_SM_ASK_OF(enum ddr_doable, doable, uint64_t)
DDR_SM_ASK_OF(uint32_t, job_members, uint64_t)
DDR_SM_ASK(bool, growing)
DDR_SM_ASK(uint64_t, grow_needs)
DDR_SM_ASK(const char *, room_not_now)
DDR_SM_ASK_OF(uint64_t, room_fits, uint64_t)
DDR_SM_ASK(uint64_t, room_target)
DDR_SM_ASK_OF(uint8_t, nibble, uint64_t)
DDR_SM_ASK_OF(bool, set_valid, const struct ddr_msg_member_set *)

static inline bool ddr_sm_slot_settled(const struct ddr_sm *sm, uint32_t slot, uint32_t node)
{
	return ddr_shared_slot_settled(&sm->shared, slot, node);
}

static inline uint64_t ddr_sm_readable_end(const struct ddr_sm *sm, uint64_t block, uint64_t end)
{
	return ddr_shared_readable_end(&sm->shared, block, end);
}

#endif
