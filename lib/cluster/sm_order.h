/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a delivered message changes of what all nodes share (sm_order.c, sm_order_ex.c, sm_order_node.c, sm_order_member.c).
 *
 * A handler is given that part, and the message. It cannot look at what only this node knows, nor at what its kernel was told: its
 * types do not give it that. So it comes to the same on every node, and has no outputs. It says what it has changed; the file that sees
 * the whole machine does what follows from that for this node, at once (in_order() in sm_view.c calls both).
 *
 * Must never: declare a function that takes a struct ddr_sm (tests/tools/test_layers.py looks).
 */
#ifndef DDR_LIB_SM_ORDER_H
#define DDR_LIB_SM_ORDER_H

#include "sm_ask.h"

/* Ranges that were in force and are not any more, bit: their place. What is there is as it was, but for @used. */
struct ddr_ended { uint64_t place[DDR_SM_EX / 64]; };

static inline bool ddr_ended(const struct ddr_ended *e, uint32_t place)
{
	return e->place[place / 64] >> (place % 64) & 1;
}

/* ---- exclusive ranges (sm_order_ex.c) -------------------------------------------- */

/* A request: it cannot be; it is refused; for all places are taken; it is in force. */
enum ddr_ex_answer { DDR_EX_WRONG, DDR_EX_REFUSED, DDR_EX_FULL, DDR_EX_FORCE };

/* @x: the range that is in force by it. */
enum ddr_ex_answer ddr_order_ex_request(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_sm_ex **x);
void ddr_order_ex_ack(struct ddr_sm_shared *s, const struct ddr_msg *msg);
/* The range that ends, or NULL: it is not in force. */
struct ddr_sm_ex *ddr_order_ex_release(struct ddr_sm_shared *s, const struct ddr_msg *msg);
/*
 * The sender's kernel went, and with it what it held back for the ranges that the sender had acknowledged. Where others have not
 * acknowledged yet, the acknowledgement is taken back. Where all have, the owner may be at work.
 */
void ddr_order_ex_void(struct ddr_sm_shared *s, const struct ddr_msg *msg);
/* A failure was delivered: ranges that not all have acknowledged end here, their owners ask again. */
void ddr_order_ex_cancel(struct ddr_sm_shared *s, struct ddr_ended *ended);
/* The ranges of a node that is dead, has left, or begins anew. */
void ddr_order_ex_gone(struct ddr_sm_shared *s, uint32_t node, struct ddr_ended *ended);
/* What the node has acknowledged until now counts for nothing. */
void ddr_order_ex_unacked(struct ddr_sm_shared *s, uint32_t at);
/* What all have acknowledged is so, whoever joins now. */
void ddr_order_ex_settle(struct ddr_sm_shared *s);

/* ---- nodes, slots, who writes (sm_order_node.c) ---------------------------------- */

/* The writer: the same; there was none before; another one. */
enum ddr_writer_news { DDR_WRITER_SAME, DDR_WRITER_OTHER, DDR_WRITER_FIRST };

/* Chooses the writer anew if the last one is gone for good, or proven dead if it is not known who it was. */
enum ddr_writer_news ddr_order_writer(struct ddr_sm_shared *s);
/* The slot is to be the node's, or free (0): by the change of the superblocks that was not begun, or else by the one after it. */
void ddr_order_slot_give(struct ddr_sm_shared *s, uint32_t slot, uint32_t node);
/* The owner of @slot has died: it was fenced, or begins again. Without parity, what it was writing is known nowhere. */
void ddr_order_slot_died(struct ddr_sm_shared *s, uint32_t slot);
/* The slot of a dead node, or of one that left with dirty regions, is to be taken over. */
void ddr_order_slot_recover(struct ddr_sm_shared *s, uint32_t slot);
/* What the node was recovering, another one does. */
void ddr_order_recover_drop(struct ddr_sm_shared *s, uint32_t node);

/* Nodes that are proven dead by it, bit: position; the ranges that ended for that. */
struct ddr_order_dead {
	uint64_t nodes;
	struct ddr_ended ended;
	enum ddr_writer_news writer;
};

/* FENCED: it is of another failure; the next node is to try; the node is dead. */
enum ddr_fenced_answer { DDR_FA_OLD, DDR_FA_NEXT, DDR_FA_DEAD };

enum ddr_fenced_answer ddr_order_fenced(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_order_dead *dead);

/* RECOVER, RECOVERED: it cannot be; nothing follows; the slot is the sender's to take over; it is done. */
enum ddr_recover_answer { DDR_RECOVER_WRONG, DDR_RECOVER_LATE, DDR_RECOVER_TAKEN, DDR_RECOVER_DONE };

enum ddr_recover_answer ddr_order_recover(struct ddr_sm_shared *s, const struct ddr_msg *msg);

/*
 * Is the node the last one that takes part? It stays until another one takes part, or there is none that could (@others): who leaves
 * last frees its slot itself, and if it died in that write the others, who know nothing of it, could write as well.
 */
bool ddr_shared_is_last(const struct ddr_sm_shared *s, uint32_t id, bool others);
/* LEAVE. False: it has to stay. @others: the view has nodes beside it that could begin, or leave. */
bool ddr_order_leave(struct ddr_sm_shared *s, const struct ddr_msg *msg, bool others);

/* The operator has adopted the array: nobody else uses its disks, so whoever is lost is dead. */
void ddr_order_lost_adopted(struct ddr_sm_shared *s, struct ddr_order_dead *dead);
/* Why a node whose START has these flags must not start, or NULL (sm_mark.c). */
const char *ddr_shared_mark_refused(const struct ddr_sm_shared *s, uint32_t flags);
/* A START with these flags was delivered and counts, and its sender is not lost any more. */
void ddr_order_mark_start(struct ddr_sm_shared *s, uint32_t flags, struct ddr_order_dead *dead);

/* START: the sender has to go, for the reason given; it may try again later; it has begun. */
enum ddr_start_answer { DDR_START_REFUSED, DDR_START_LATER, DDR_START_BEGUN };

struct ddr_order_start {
	const char *why;		/* NULL: it is not the sender's slot (without a cluster) */
	uint32_t slot;
	struct ddr_ended ended;		/* its own ranges, of the process before */
	struct ddr_order_dead dead;	/* lost nodes of an array that it has adopted */
	bool voided, failed;		/* as of struct ddr_order_fail */
};

/* @view: so many nodes are in the view. */
enum ddr_start_answer ddr_order_start(struct ddr_sm_shared *s, const struct ddr_msg *msg, uint32_t view, struct ddr_order_start *n);
/* The same without a cluster. */
enum ddr_start_answer ddr_order_start_alone(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_order_start *n);

/* ---- members (sm_order_member.c) -------------------------------------------------- */

/* What came of MEMBER_FAIL. */
struct ddr_order_fail {
	uint32_t hard, soft;		/* members that must stay, since the array cannot do without them */
	struct ddr_ended ended;		/* ranges that end with the failure */
	bool voided;			/* WHOLE is not to be, see ddr_order_whole_void() */
	bool failed;			/* the array has failed just now */
	bool sender_goes;		/* the sender cannot do without a member that must stay */
};

/* False: there is no such member, and nothing was changed. */
bool ddr_order_member_fail(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_order_fail *n);
/* A node begins, and has not got these members. */
void ddr_order_members_missing(struct ddr_sm_shared *s, uint32_t missing, bool *voided, bool *failed);
/*
 * A member fails that is to take over the role of another one now, or a node dies: what it was writing may differ on the two. So WHOLE is not to be.
 * Its superblocks may be written, and MEMBER_DONE may be on its way: that one changes nothing any more, and what is on the disks is written over.
 */
bool ddr_order_whole_void(struct ddr_sm_shared *s);
/* Members that the superblocks have out: until all voters have acknowledged, no kernel may do without them. */
void ddr_order_members_leave(struct ddr_sm_shared *s, uint32_t members);
/* The members went: who has their devices open has those of members that are out. */
void ddr_order_members_gone(struct ddr_sm_shared *s, uint32_t members);
/* Of the members whose devices a node has open as it begins: those that it may have open. */
uint32_t ddr_shared_seen_at_start(const struct ddr_sm_shared *s, uint32_t present);
/* Was it taken as the change that is wanted? */
bool ddr_order_member_set(struct ddr_sm_shared *s, const struct ddr_msg *msg);
/* A text: why it cannot be, and nothing was changed. */
const char *ddr_order_member_ack(struct ddr_sm_shared *s, const struct ddr_msg *msg);
void ddr_order_folded(struct ddr_sm_shared *s, const struct ddr_msg *msg);
const char *ddr_order_seek(struct ddr_sm_shared *s, const struct ddr_msg *msg);
void ddr_order_seen(struct ddr_sm_shared *s, const struct ddr_msg *msg);

/* MEMBER_DONE: it cannot be; what it says was overtaken; it is done. */
enum ddr_done_answer { DDR_DONE_WRONG, DDR_DONE_OVERTAKEN, DDR_DONE_DONE };

struct ddr_order_done {
	uint32_t out;			/* members that are out by it */
	uint32_t replaced;		/* who was being replaced until then */
	uint64_t generation, blocks;	/* before it */
	bool died;			/* a slot of an owner that died changed hands */
};

/* What is said of a change that moves members. */
enum ddr_event ddr_shared_set_event(const struct ddr_sm_shared *s, const struct ddr_msg_member_set *set);
enum ddr_done_answer ddr_order_member_done(struct ddr_sm_shared *s, const struct ddr_msg *msg, struct ddr_order_done *n);
/* All have acknowledged the change that was done: it is over. False: not yet. */
bool ddr_order_member_settle(struct ddr_sm_shared *s);

/* ---- growing, map, verify (sm_order.c) -------------------------------------------- */

extern const char ddr_grow_has_it[];
/* Why the array does not grow; NULL: all are asked for their room. */
const char *ddr_order_grow(struct ddr_sm_shared *s, const struct ddr_msg *msg);
bool ddr_order_room(struct ddr_sm_shared *s, const struct ddr_msg *msg);

/* It was judged that the array does not grow. */
struct ddr_order_small {
	uint32_t by;			/* who had asked for it */
	uint64_t want;
	const char *why;
	const struct ddr_sm_node *node;	/* whose device is too small, or NULL */
};

/* What all have said is judged. True: it will not grow. */
bool ddr_order_grow_settle(struct ddr_sm_shared *s, struct ddr_order_small *n);
/* Nobody wants the array to grow any more; what was said of the members' devices was said of others. */
void ddr_order_grow_end(struct ddr_sm_shared *s);
void ddr_order_room_void(struct ddr_sm_shared *s);
/* The size in the superblock is another one; false: there is no room for it, and nothing was changed. */
bool ddr_shared_sized(struct ddr_sm_shared *s);

void ddr_shared_nibble_set(struct ddr_sm_shared *s, uint64_t region, uint8_t nibble);
uint8_t ddr_sm_map_apply(uint8_t nibble, uint32_t op);
/* Are there such regions? */
bool ddr_order_map_set(const struct ddr_sm_shared *s, const struct ddr_msg *msg);
/* One region of it. False: it was so already. @suspect: it is from now on. */
bool ddr_order_map_region(struct ddr_sm_shared *s, uint64_t region, uint32_t op, bool *suspect);
const char *ddr_order_map_done(struct ddr_sm_shared *s, const struct ddr_msg *msg);
/* No member is missing any more: "written since a member is missing" is dropped. */
void ddr_order_map_whole(struct ddr_sm_shared *s);
/* Has it changed the record of the verify? @told: the event that follows from that, or DDR_EV_BUG: none. */
bool ddr_order_verify(struct ddr_sm_shared *s, const struct ddr_msg *msg, enum ddr_event *told);

#endif
