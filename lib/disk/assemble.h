/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Assembly: decides from the superblocks of the devices which state
 * of the array is the newest, which device serves as which member, which are stale or
 * missing, and whether the array may start.
 *
 * Pure: no device, clock or log; never allocates. doc/on-disk-format.md, "Assembly",
 * gives the rules and the histories that they must distinguish.
 *
 * The rules in short. A generation has a number, a random id and the id of the one
 * before. The highest generation on any device counts, without a vote. A device of the
 * generation before it, linked to it by id, belongs to the array if the newest table
 * still has it (the machine died between two superblock writes); any older device is
 * stale. Two devices whose histories cannot both be true are refused: the same
 * generation under two ids, a broken link, or an older table that contradicts
 * what the newest says about that time.
 */
#ifndef DDR_LIB_ASSEMBLE_H
#define DDR_LIB_ASSEMBLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/disk/format.h"
#include "lib/error.h"

#define DDR_ASSEMBLE_MAX	64u	/* devices looked at in one assembly */
#define DDR_FOREIGN_LEN		96u	/* bytes for what else a member holds, with the terminating NUL */

/* One device: what ddr_dev_read_supers() found on it. The pointers are borrowed. */
struct ddr_candidate {
	const char *device;		/* its name, for messages */
	const struct ddr_super *super;	/* NULL: it has no valid one */
	const char *error;		/* why it has none, or NULL */
	uint64_t bytes;			/* its size */
	const char *foreign;		/* another program's signature on it (lib/disk/foreign.h); NULL or "": none */
};

/* The last generation of the array that this node has seen, if it remembers one. */
struct ddr_known {
	uint64_t generation;		/* 0: nothing is remembered */
	uint8_t gen_id[DDR_UUID_LEN];
};

enum ddr_verdict {
	DDR_V_CURRENT = 0,	/* serves as its member */
	DDR_V_STALE,		/* an older generation: only as the target of a rebuild */
	DDR_V_OUT,		/* current, but the table says faulty or missing */
	DDR_V_REMOVED,		/* its uuid is no longer in the table */
	DDR_V_TOO_SMALL,	/* the device ends before its data area does */
	DDR_V_UNREADABLE,	/* no valid superblock */
	DDR_V_FOREIGN,		/* it also carries another program's signature: its data may be overwritten */
};

struct ddr_assembly {
	struct ddr_super super;			/* the newest; its this_member is that of device[source] */
	uint32_t source;			/* index of the candidate that it came from */
	enum ddr_verdict verdict[DDR_ASSEMBLE_MAX];	/* for each candidate */
	int32_t device[DDR_MAX_MEMBERS];	/* member -> candidate that serves as it (DDR_V_CURRENT), -1: none */
	int32_t other[DDR_MAX_MEMBERS];		/* member -> candidate that is present but must not be used, -1: none */
	uint32_t current;			/* bit m: member m has a device in use (in sync, rebuilding or spare) */
	uint32_t usable;			/* bit m: member m is in sync and present */
	uint32_t missing;			/* bit m: the table has it in sync or rebuilding, but no device serves as it */
	uint32_t stale;				/* bit m: of these, a stale device is present */
	bool degraded;				/* a role has no usable member */
	/*
	 * The missing members could have formed the array on their own (split brain). The devices that are present
	 * cannot rule that out, so the operator has to confirm the start.
	 */
	bool doubtful;
	char note[DDR_ERROR_LEN];		/* degraded or doubtful: the message, else empty */
};

/*
 * Decides. @known may be NULL. Returns 0: the array may start as @out says (the caller asks the operator if
 * out->doubtful). Returns -1: refused, with the reason in @err. If a newest superblock could be chosen
 * (out->super.members > 0), then super, verdict, device and other of @out are filled even then, for reports only.
 */
int ddr_assemble(const struct ddr_candidate *cand, size_t n, const struct ddr_known *known,
		 struct ddr_assembly *out, struct ddr_error *err);

/*
 * May a node without a cluster, or in a cluster of one node, start an array in this state? Not if it belongs to a cluster of several nodes: another
 * node of that cluster may be using it. Returns 0, or -1: @err says what to do.
 */
int ddr_assemble_unclustered(const struct ddr_super *sb, struct ddr_error *err);
/*
 * The same for node @node without any cluster. It is also refused if a slot of the dirty log belongs to another node: a node that stops cleanly
 * gives up its slot, so that node is running, or died with writes in flight. If another machine without a cluster uses the array under the same
 * node id, that cannot be detected.
 */
int ddr_assemble_alone(const struct ddr_super *sb, uint32_t node, struct ddr_error *err);

/*
 * Was the array used last by another cluster than this node's? @recorded: the id that its owner pages name; zero: none. @own: the id of this node's
 * cluster, or of the machine if it is in none (@clustered is false); zero: there is none yet. Returns 0, or -1: @err says what to do.
 */
int ddr_assemble_elsewhere(const struct ddr_super *sb, const uint8_t recorded[DDR_UUID_LEN], const uint8_t own[DDR_UUID_LEN], bool clustered,
			   struct ddr_error *err);

/*
 * The members that the newest superblock has in sync or rebuilding but for which no device was found: their disks may
 * still appear. Also valid after a refusal, if out->super.members > 0.
 */
uint32_t ddr_assembly_absent(const struct ddr_assembly *a);

/* The candidate (index into the array given to ddr_assemble()) that holds role @role, or -1. */
int32_t ddr_assembly_role(const struct ddr_assembly *a, uint32_t role);

const char *ddr_verdict_name(enum ddr_verdict verdict);
const char *ddr_member_state_name(uint8_t state);

#endif
