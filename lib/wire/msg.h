/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Codec of the group's messages (<ddraid/proto.h>) between bytes and host structures.
 *
 * The only code that interprets bytes from the network. It must never: allocate,
 * log, or read beyond the end that its cursor was given. Pure and reentrant.
 */
#ifndef DDR_LIB_MSG_H
#define DDR_LIB_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ddraid/format.h>
#include <ddraid/proto.h>

/* A position in a buffer, and its end. Once a step does not fit, @bad stays set and every later step does nothing. */
struct ddr_cursor {
	uint8_t *p;
	const uint8_t *end;
	bool bad;
};

/* A cursor and its direction: the same function reads and writes a structure. */
struct ddr_walk {
	struct ddr_cursor c;
	bool write;
};

/* An integer of @bytes (1 to 8), little-endian: written, or read and returned (0 once the cursor is bad). */
uint64_t ddr_walk_int(struct ddr_walk *w, uint64_t v, unsigned int bytes);
void ddr_walk_bytes(struct ddr_walk *w, uint8_t *v, size_t n);

struct ddr_msg_map_run {
	uint32_t start, count;	/* regions */
	uint32_t op;		/* enum ddr_map_op */
};

struct ddr_msg_map_done {
	uint32_t block;		/* of the region map */
	uint64_t version;	/* is durable */
};

struct ddr_msg_member_set {
	uint32_t op;		/* enum ddr_member_op, or 0 */
	uint32_t member, role;	/* @role: for TAKE and REPLACE, else 0 */
	uint64_t cursor;	/* blocks: for CURSOR and GROW; DDR_POLICY_*: for POLICY; else 0 */
	uint8_t uuid[16];	/* for ADD and REMOVE, else zero */
};

/* Is the operation known, and are the fields that do not belong to it zero? */
bool ddr_member_set_formed(const struct ddr_msg_member_set *set);

/* One message, in host byte order. The union is the body of @type. */
struct ddr_msg {
	enum ddr_msg_type type;
	uint16_t version;		/* of the protocol; 0, to be encoded: DDR_MSG_VERSION */
	uint32_t sender;
	uint8_t uuid[16];
	uint64_t ring;
	uint32_t epoch, serial;
	union {
		struct { uint32_t slot, missing, present, held, flags; uint64_t cookie, room, time; uint8_t boot_id[16], machine[16], cluster[16]; char name[DDR_NODE_NAME]; } start;	/* @room: blocks; @time: seconds since 1970, 0: not said */
		struct { uint64_t view, history, undo_history; uint32_t flags, shared, undo_epoch, n_out, out[DDR_HELLO_OUTS], settle; uint8_t machine[16]; } hello;
		struct { uint64_t digest; uint32_t epoch, index, count, bytes; uint8_t data[DDR_STATE_DATA]; } state;
		struct { uint32_t slot, dirty; uint64_t time; } leave;
		struct { uint32_t node, how; uint64_t failure, time; } fenced;
		struct { uint32_t slot; uint64_t cookie, time; uint8_t boot_id[16]; } recover;	/* and recovered */
		struct { uint32_t slot; uint64_t seq; } renewed;
		struct { uint32_t node; uint64_t failure, time, cookie; uint8_t boot_id[16], machine[16]; } gone;
		struct { uint32_t hard, soft, exchanged; } fail;	/* @exchanged: those of @hard where another disk is present now */
		struct {
			uint64_t generation, seq;
			uint8_t gen_id[16], gen_prev[16];
			uint32_t faulty, missing;
			uint64_t slots;
			uint32_t owner[DDR_MAX_SLOTS];	/* of these, by the superblocks that were written */
			uint32_t mark;			/* enum ddr_mark */
			uint32_t changes;		/* of the owners of slots: up to this number they were written */
			struct ddr_msg_member_set set;
		} done;
		struct { uint64_t seq; } ack;
		struct ddr_msg_member_set set;
		struct { uint64_t since; } folded;
		struct { uint32_t member; } seek;
		struct { uint32_t members; uint64_t generation; } seen;
		struct { uint32_t op, priority, flags, serial; uint64_t time, cursor, found, repaired; } verify;
		struct { uint64_t blocks; } grow;
		struct { uint64_t bytes, generation; uint32_t member; } room;
		struct { uint32_t used; } use;	/* 1 or 0 */
		struct { uint32_t id; uint8_t mode, job; uint64_t start, count; } ex;
		struct { uint32_t owner, id; uint64_t dirty; } ex_ack;
		struct { uint32_t id; } ex_release;
		struct { uint32_t id, n; struct ddr_msg_map_run run[DDR_MAP_RUNS]; } map_set;
		struct { uint32_t n; struct ddr_msg_map_done block[DDR_MAP_DONES]; } map_done;
	};
};

/* Does the operation of a MEMBER_SET name a disk? */
bool ddr_member_op_names(uint32_t op);

/* Writes @msg to @buf of @size bytes. Returns the length, or 0 if it does not fit or its type or counts are invalid. */
size_t ddr_msg_encode(const struct ddr_msg *msg, uint8_t *buf, size_t size);
/*
 * Reads @len bytes. Returns NULL and fills @msg, or a static sentence that says what is wrong
 * (then @msg is undefined). Ranges that depend on the array are for the caller to check.
 */
const char *ddr_msg_decode(const uint8_t *buf, size_t len, struct ddr_msg *msg);
/* The version of a ddraid message of another version, or 0. All versions have it at the same place. */
uint16_t ddr_msg_other_version(const uint8_t *buf, size_t len);

#endif
