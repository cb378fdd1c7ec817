/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a delivered message changes in the shared state (sm_order.c, sm_order_ex.c, sm_order_node.c, sm_order_member.c).
 *
 * A handler gets the shared state and the message. Its types give it neither this node's own state nor the kernel's, so its result
 * is the same on every node, and it has no outputs. It returns what it has changed. Then a function that gets the whole machine
 * carries out the consequences for this node (in_order() in sm_view.c calls both).
 *
 * Must never: declare a function that takes a struct ddr_sm (tests/tools/test_layers.py looks).
 */
#ifndef DDR_LIB_SM_ORDER_H
#define DDR_LIB_SM_ORDER_H

#include "lib/disk/format_owner.h"
#include "sm_ask.h"

/* Ranges that have ended, bit: their place. The range itself stays in its place, except that @used is false. */
struct ddr_ended { uint64_t place[DDR_SM_EX / 64]; };

static inline bool ddr_ended(const struct ddr_ended *e, uint32_t place)
{
	return e->place[place / 64] >> (place % 64) & 1;
}

/* ---- exclusive ranges (sm_order_ex.c) -------------------------------------------- */

/* A request: impossible; refused; refused because all places are taken; in force. */
enum ddr_ex_answer { DDR_EX_WRONG, DDR_EX_REFUSED, DDR_EX_FULL, DDR_EX_FORCE };

/* @x: the range that is in force now. */
enum ddr_ex_answer ddr_order_ex_request(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_sm_ex **x);
void ddr_order_ex_ack(struct ddr_sm_shared *s, const struct ddr_msg *msg);
/* Returns the range that ends, or NULL: it is not in force. */
struct ddr_sm_ex *ddr_order_ex_release(struct ddr_sm_shared *s, const struct ddr_msg *msg);
/*
 * The sender's kernel is gone, and no longer holds back writers in the ranges that the sender had acknowledged. If others have not
 * acknowledged a range yet, the acknowledgement is void. If all have, the owner may be working.
 */
void ddr_order_ex_void(struct ddr_sm_shared *s, const struct ddr_msg *msg);
/* A failure was delivered: ranges that not all have acknowledged end here, their owners ask again. */
void ddr_order_ex_cancel(struct ddr_sm_shared *s, struct ddr_ended *ended);
/* Ends the ranges of a node that is dead, has left, or starts again. */
void ddr_order_ex_gone(struct ddr_sm_shared *s, uint32_t node, struct ddr_ended *ended);
/* The node's acknowledgements so far are void. */
void ddr_order_ex_unacked(struct ddr_sm_shared *s, uint32_t at);
/* Ranges that all have acknowledged belong to their owners, whichever node joins now. */
void ddr_order_ex_settle(struct ddr_sm_shared *s);

/* ---- whose the slots are, format 2 (sm_order_owner.c) ------------------------------ */

/* The sender of this START begins in the slot. */
void ddr_order_owner_begins(struct ddr_sm_shared *s, uint32_t slot, const struct ddr_msg *msg);
/* The slot is being freed. @time: seconds since 1970. */
void ddr_order_owner_frees(struct ddr_sm_shared *s, uint32_t slot, uint64_t time);
/*
 * The sender has written all blocks of its log anew, in both places, with the sequence of this RENEWED or a higher one. False: it is not the slot's owner
 * any more.
 */
bool ddr_order_owner_renewed(struct ddr_sm_shared *s, const struct ddr_msg *msg);
/*
 * The owner of the slot is proven dead: the slot's pages are to say so, with this instance if its owner's is not known (cookie 0: nor is this one). A slot
 * of which no instance is known stays as it is: what never had a name cannot be recognised either.
 */
void ddr_order_owner_dead(struct ddr_sm_shared *s, uint32_t slot, const uint8_t boot_id[16], uint64_t cookie, bool cut_off, uint64_t time);
/* Is the owner of the slot proven dead by its pages? Then the slot is only to be recovered. */
bool ddr_shared_owner_dead(const struct ddr_sm_shared *s, uint32_t slot);
/* Was this instance fenced, or acknowledged, by any slot? It never takes part again. */
bool ddr_shared_instance_dead(const struct ddr_sm_shared *s, const uint8_t boot_id[16], uint64_t cookie);
/* Was the machine cut off from the members in this boot? Then all instances of the boot are dead. */
bool ddr_shared_boot_cut_off(const struct ddr_sm_shared *s, const uint8_t boot_id[16]);
/* Is this instance the owner of a slot, by the pages, and not known to be dead? */
bool ddr_shared_owner_is(const struct ddr_sm_shared *s, const uint8_t boot_id[16], uint64_t cookie);
/*
 * Had this machine the slot of the node, or a claim of one, with another kernel than this one, the only one that it has (rule I6)? Not if it is not known
 * with which.
 */
bool ddr_shared_owner_gone(const struct ddr_sm_shared *s, uint32_t node, const uint8_t machine[16], const uint8_t boot_id[16], uint64_t cookie);
/* Of the owner of the node's slot, or of the one that it claims: DDR_NODE_NAME bytes. "": it is not known. */
const char *ddr_shared_owner_name(const struct ddr_sm_shared *s, uint32_t node);
/* Is the owner of the node's slot, or of the one that it claims, this machine, and not known to be dead? */
bool ddr_shared_owner_machine(const struct ddr_sm_shared *s, uint32_t node, const uint8_t machine[16]);
/*
 * Is this another machine than the one that has the slot of the lost node, or a claim of one, and may that one still write there (rule I5)? Not if it is not
 * known which machine that is.
 */
bool ddr_shared_stranger(const struct ddr_sm_shared *s, uint32_t node, const uint8_t machine[16]);
/* The same of one that would begin with this kernel: if it is the very kernel that has the slot, its machine has got another id, and is no stranger. */
bool ddr_shared_stranger_begins(const struct ddr_sm_shared *s, uint32_t node, const uint8_t machine[16], const uint8_t boot_id[16], uint64_t cookie);
/* Do the pages say that another cluster has used the array last? */
bool ddr_shared_elsewhere(const struct ddr_sm_shared *s, const uint8_t cluster[16]);
/* The sender of this START begins: from now on its cluster is the one, if none is recorded, or if the operator has adopted the array. */
void ddr_order_owner_cluster(struct ddr_sm_shared *s, const struct ddr_msg *msg);
/* Takes over what the pages on the disks say of this many slots, and of the cluster. No change counts as made. */
void ddr_owners_take(struct ddr_sm_owners *o, const struct ddr_owner *disk, const uint8_t cluster[16], uint32_t slots);

/* ---- nodes, slots, who writes (sm_order_node.c) ---------------------------------- */

/* The writer: the same; another one; the first one. */
enum ddr_writer_news { DDR_WRITER_SAME, DDR_WRITER_OTHER, DDR_WRITER_FIRST };

/* Chooses a new writer if the last one is gone for good; if it is unknown who that was, once no node is lost. */
enum ddr_writer_news ddr_order_writer(struct ddr_sm_shared *s);
/* Assigns the slot to the node, or frees it (0): by the change of the superblocks that is not started yet, otherwise by the one after it. */
void ddr_order_slot_give(struct ddr_sm_shared *s, uint32_t slot, uint32_t node);
/* The owner of @slot has died: it was fenced, or starts again. Without parity, its writes in flight are recorded nowhere. */
void ddr_order_slot_died(struct ddr_sm_shared *s, uint32_t slot);
/* The slot of a dead node, or of one that left with dirty regions, must be recovered. */
void ddr_order_slot_recover(struct ddr_sm_shared *s, uint32_t slot);
/* Slots that the node was recovering are left to another one. */
void ddr_order_recover_drop(struct ddr_sm_shared *s, uint32_t node);

/* Nodes that are now proven dead, bit: position; ranges that ended because of that; the writer. */
struct ddr_order_dead {
	uint64_t nodes;
	struct ddr_ended ended;
	enum ddr_writer_news writer;
};

/* FENCED: it concerns another failure; the next node tries; the node is dead. */
enum ddr_fenced_answer { DDR_FA_OLD, DDR_FA_NEXT, DDR_FA_DEAD };

enum ddr_fenced_answer ddr_order_fenced(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_order_dead *dead);

/* GONE: is the node dead by it? Not if it concerns another failure, or the slot is not the sender's machine's, with another kernel. */
bool ddr_order_gone(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_order_dead *dead);

/* RECOVER, RECOVERED: impossible; too late, ignored; the sender recovers the slot; it is recovered. */
enum ddr_recover_answer { DDR_RECOVER_WRONG, DDR_RECOVER_LATE, DDR_RECOVER_TAKEN, DDR_RECOVER_DONE };

enum ddr_recover_answer ddr_order_recover(struct ddr_sm_shared *s, const struct ddr_msg *msg);

/*
 * Is the node the last one that takes part? Then it stays until another one takes part, or there is none that could (@others). The last
 * node frees its own slot. If it died during that write, other nodes, which know nothing of it, could write as well.
 */
bool ddr_shared_is_last(const struct ddr_sm_shared *s, uint32_t id, bool others);
/* LEAVE. False: it has to stay. @others: other nodes are in the view that could start, or leave. */
bool ddr_order_leave(struct ddr_sm_shared *s, const struct ddr_msg *msg, bool others);

/* The operator has adopted the array at this time (seconds since 1970): nobody else uses its disks, so lost nodes are dead. */
void ddr_order_lost_adopted(struct ddr_sm_shared *s, uint64_t time, struct ddr_order_dead *dead);
/* Why the sender of this START must not start, for the cluster that it is in, or NULL (sm_mark.c). */
const char *ddr_shared_mark_refused(const struct ddr_sm_shared *s, const struct ddr_msg *msg);
/* This START was delivered and accepted, and its sender is no longer lost. */
void ddr_order_mark_start(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_order_dead *dead);

/* START: refused, for the reason given; the sender may try again later; accepted. */
enum ddr_start_answer { DDR_START_REFUSED, DDR_START_LATER, DDR_START_BEGUN };

struct ddr_order_start {
	const char *why;		/* why it was refused */
	uint32_t slot;
	struct ddr_ended ended;		/* its own ranges, of the process before */
	struct ddr_order_dead dead;	/* lost nodes of an array that it has adopted */
	bool voided, failed;		/* as of struct ddr_order_fail */
};

/* @view: the number of nodes in the view. */
enum ddr_start_answer ddr_order_start(struct ddr_sm_shared *s, const struct ddr_msg *msg, uint32_t view, struct ddr_order_start *n);

/* ---- members (sm_order_member.c) -------------------------------------------------- */

/* The result of MEMBER_FAIL. */
struct ddr_order_fail {
	uint32_t hard, soft;		/* members that must stay, since the array cannot do without them */
	struct ddr_ended ended;		/* ranges that end with the failure */
	bool voided;			/* a WHOLE was cancelled, see ddr_order_whole_void() */
	bool failed;			/* the array has just failed */
	bool sender_goes;		/* the sender gives up: it cannot reach a member that must stay */
};

/* False: there is no such member, and nothing was changed. */
bool ddr_order_member_fail(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_order_fail *n);
/* A node starts without these members. */
void ddr_order_members_missing(struct ddr_sm_shared *s, uint32_t missing, bool *voided, bool *failed);
/*
 * Cancels a WHOLE that is not delivered yet: its member failed, or a node died, whose writes may differ on the two members.
 * Its superblocks may be written already, and MEMBER_DONE may be in flight: that message then changes nothing, and the superblocks are overwritten.
 */
bool ddr_order_whole_void(struct ddr_sm_shared *s);
/* Members that the superblocks list as out: until all voters have acknowledged, every kernel still writes to them. */
void ddr_order_members_leave(struct ddr_sm_shared *s, uint32_t members);
/* The members left: no node counts as seeing them any more. */
void ddr_order_members_gone(struct ddr_sm_shared *s, uint32_t members);
/* Of the members whose devices a node has open when it starts: those that count as seen. */
uint32_t ddr_shared_seen_at_start(const struct ddr_sm_shared *s, uint32_t present);
/* Was it accepted as the next change? */
bool ddr_order_member_set(struct ddr_sm_shared *s, const struct ddr_msg *msg);
/* NULL, or why the message is impossible: then nothing was changed. */
const char *ddr_order_member_ack(struct ddr_sm_shared *s, const struct ddr_msg *msg);
void ddr_order_folded(struct ddr_sm_shared *s, const struct ddr_msg *msg);
const char *ddr_order_seek(struct ddr_sm_shared *s, const struct ddr_msg *msg);
void ddr_order_seen(struct ddr_sm_shared *s, const struct ddr_msg *msg);

/* MEMBER_DONE: impossible; overtaken by a later decision, ignored; done. */
enum ddr_done_answer { DDR_DONE_WRONG, DDR_DONE_OVERTAKEN, DDR_DONE_DONE };

struct ddr_order_done {
	uint32_t out;			/* members that have failed now */
	uint32_t replaced;		/* the member that was being replaced until then */
	uint64_t generation, blocks;	/* before the change */
	bool died;			/* a slot whose owner died got another owner */
};

/* The event for a change that moves members. */
enum ddr_event ddr_shared_set_event(const struct ddr_sm_shared *s, const struct ddr_msg_member_set *set);
enum ddr_done_answer ddr_order_member_done(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_order_done *n);
/* Completes the change if all have acknowledged it. False: not yet. */
bool ddr_order_member_settle(struct ddr_sm_shared *s);

/* ---- growing, map, verify (sm_order.c) -------------------------------------------- */

extern const char ddr_grow_has_it[];
/* Why the array does not grow; NULL: all nodes are asked for their room. */
const char *ddr_order_grow(struct ddr_sm_shared *s, const struct ddr_msg *msg);
bool ddr_order_room(struct ddr_sm_shared *s, const struct ddr_msg *msg);

/* The array was judged too small to grow. */
struct ddr_order_small {
	uint32_t by;			/* the node that requested it */
	uint64_t want;
	const char *why;
	const struct ddr_sm_node *node;	/* whose device is too small, or NULL */
};

/* Judges the reports when all nodes have sent theirs. True: the array does not grow. */
bool ddr_order_grow_settle(struct ddr_sm_shared *s, struct ddr_order_small *n);
/* Drops the request to grow; drops the nodes' reports, because the members changed. */
void ddr_order_grow_end(struct ddr_sm_shared *s);
void ddr_order_room_void(struct ddr_sm_shared *s);
/* The size in the superblock changed; false: there is no room for it, and nothing was changed. */
bool ddr_shared_sized(struct ddr_sm_shared *s);

/* The map and its versions, writable: only for functions that may change the shared state. */
static inline uint8_t *ddr_order_map(struct ddr_sm_shared *s)
{
	return (uint8_t *)(uintptr_t)s->map;
}

static inline struct ddr_sm_version *ddr_order_version(struct ddr_sm_shared *s, uint64_t block)
{
	return (struct ddr_sm_version *)(uintptr_t)&s->version[block];
}

void ddr_shared_nibble_set(struct ddr_sm_shared *s, uint64_t region, uint8_t nibble);
uint8_t ddr_sm_map_apply(uint8_t nibble, uint32_t op);
/* Do the regions of the message exist? */
bool ddr_order_map_set(const struct ddr_sm_shared *s, const struct ddr_msg *msg);
/* Applies it to one region. False: nothing changed. @suspect: the region has become suspect. */
bool ddr_order_map_region(struct ddr_sm_shared *s, uint64_t region, uint32_t op, bool *suspect);
const char *ddr_order_map_done(struct ddr_sm_shared *s, const struct ddr_msg *msg);
/* No member is missing any more: drops "written since a member is missing" from the map. */
void ddr_order_map_whole(struct ddr_sm_shared *s);
/* Has it changed the record of the verify? @told: the event for that, or DDR_EV_BUG: none. */
bool ddr_order_verify(struct ddr_sm_shared *s, const struct ddr_msg *msg, enum ddr_event *told);

#endif
