/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The world of a scenario: nodes with their instances of the state machine, their open I/O and records, the queues of the group, and
 * the disks as far as "auto disk" needs them. run.c gives it commands.
 */
#ifndef DDR_TESTS_SCENARIOS_WORLD_H
#define DDR_TESTS_SCENARIOS_WORLD_H

#include <stdbool.h>

#include "lib/disk/format_owner.h"
#include "tests/sim/rig.h"

#define MAX_PENDING	256
#define MAX_NODES	4
#define MAX_SLOTS	8
#define MAP		MAX_SLOTS	/* index of the map among the logs */

struct pending {
	enum ddr_out_type type;
	uint64_t io;
	uint32_t index, slot;
	struct ddr_rec rec;
	uint64_t start, count;
	struct ddr_super sb;		/* the contents to be written */
	struct ddr_owners owners;	/* of format 2 */
	struct ddr_disk_log blk;
};

struct message { uint32_t sender, len; uint8_t bytes[DDR_SM_MSG_MAX]; };

struct node {
	uint32_t label;			/* the machine, in the scenario; cfg.node is its id in the cluster, which may change */
	struct ddr_sm_config cfg;
	struct ddr_sm *sm;		/* NULL: down */
	bool stopped;			/* its daemon gets no CPU: what is for it waits */
	uint32_t pid;
	uint64_t view;			/* nodes of the last view */
	struct pending io[MAX_PENDING], kernel[MAX_PENDING];	/* open I/O; records to the kernel that it will answer */
	uint32_t n_io, n_kernel;
	struct message msg[MAX_PENDING];
	uint32_t n_msg;
};

struct world {
	struct rig_geometry geo;
	struct ddr_super sb;		/* as on the disks */
	struct ddr_owners owners;	/* beside it, in format 2 */
	struct ddr_disk_log disk[MAX_SLOTS + 1];	/* block 0 of each slot's log, and of the map */
	struct node node[MAX_NODES], *me;
	uint32_t n;
	uint64_t now_ms;		/* of the last tick */
	struct ddr_output out[DDR_SM_MAX_OUT];
	bool auto_msg, auto_io, auto_kernel, auto_disk, quiet;
	FILE *to, *nowhere;
};

/* The file cannot continue; prints where and why. */
void __attribute__((noreturn)) die(const char *what, const char *arg);

/* The output for a line of answers: it begins with the node if there are several. */
FILE *begin(const struct world *w);
/* One input for w->me; its outputs are shown, remembered and sent. */
void step(struct world *w, const struct ddr_input *in);
/* Delivers the oldest message that waits at w->me, in the name of @sender (0: its real sender); not @give: drops it. */
void deliver(struct world *w, uint32_t sender, bool give);
/* The kernel answers its @i-th open record; the @i-th open I/O ends. */
void kernel_answer(struct world *w, uint32_t i, uint64_t closed);
void io_done(struct world *w, uint32_t i, uint32_t failed, int32_t result, uint64_t mismatches);
/* Gives all automatic answers, until none is left. */
void answer_all(struct world *w);

#endif
