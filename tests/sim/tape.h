/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What happens in the simulator is a list of acts: the schedule draws the next one, and sim_act() carries it out. What an act leaves
 * open (for example which chunks land when power fails) it draws itself. A tape contains acts and these draws. Replayed with some of
 * them missing, it is a schedule like any other: an impossible act does nothing, a missing draw is "no" or the first choice. So
 * shrink.c may remove anything. The text of a tape is a scenario (tape_text.c).
 */
#ifndef DDR_TESTS_SIM_TAPE_H
#define DDR_TESTS_SIM_TAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct sim;
struct node;
struct ddr_input;

#define ACT_ARGS	5

enum act_verb {
	/* faults, the operator, time and I/O from above */
	ACT_START, ACT_KILL, ACT_KILL_SOON, ACT_POWER_OFF, ACT_POWER_ON, ACT_BLACKOUT, ACT_NETWORK, ACT_TOGETHER, ACT_QUORATE,
	ACT_FENCE_ENDS, ACT_FENCE_BY_HAND, ACT_LATE, ACT_LEAVE, ACT_STAY, ACT_LEAVE_GOES_ON, ACT_DISK, ACT_CUT, ACT_BAD, ACT_HANG, ACT_FULL, ACT_SPACE,
	ACT_ROOM, ACT_PUT_BACK, ACT_OPERATOR, ACT_STOP, ACT_END, ACT_COROSYNC, ACT_CALL, ACT_UEVENT, ACT_RARE, ACT_TICK, ACT_IO,
	/* what happens automatically */
	ACT_ORDER, ACT_DELIVER, ACT_QUORUM, ACT_BUS, ACT_RECORD, ACT_SEEK, ACT_TABLE, ACT_RESIZE, ACT_DONE, ACT_OP,
	/* not in random schedules: complete everything in progress, node by node; and the end of a run */
	ACT_SETTLE, ACT_CALM,
};

/* ACT_SETTLE leaves out nodes (bits of arg 0) and kinds of things (arg 1) */
enum settle_kind { SETTLE_MESSAGES = 1, SETTLE_RECORDS = 2, SETTLE_IO = 4, SETTLE_OPS = 8 };

struct act {
	uint8_t verb, sub, node;	/* sub: the kind of I/O, request, or command; node: its id, 0: none */
	uint64_t arg[ACT_ARGS];
	uint32_t draws, n_draws;	/* in the tape's pool */
};

struct tape {
	bool replay;
	bool inside;		/* an act is being carried out, and its draws are on the tape */
	struct act *act;
	size_t n, room;
	uint64_t *pool;
	size_t n_pool, room_pool, next;	/* next: of the act that is being replayed */
	size_t at;		/* the act that is being replayed */
	bool blind;		/* the disks are not checked between acts: the violation shows within one */
};

/* How a run ended. */
struct verdict {
	bool broken, inside;	/* inside: by an act, and not by a check of the disks between two */
	char text[256], rule[256];	/* rule: the text without its numbers */
	uint64_t event;
};

bool act_goes_on(const struct act *a);

/* Carries out an act and records it; false: there was nothing to do. */
bool sim_act(struct sim *s, struct act a);
/* A command of the operator. @counted: it costs a working member. */
bool sim_operator(struct sim *s, const struct node *n, const struct ddr_input *in, bool counted);
struct act act_of(enum act_verb verb, const struct node *n);

uint64_t tape_rand(struct sim *s, uint64_t n);
bool tape_chance(struct sim *s, uint64_t in);
void tape_free(struct tape *t);
void tape_replay(struct sim *s);

/* ---- tape_text.c --------------------------------------------------------------- */

void tape_print(FILE *to, const struct tape *t, uint64_t seed, uint32_t nodes);
/* Reads a scenario that begins with "> sim". NULL, or what is wrong in @line. */
const char *tape_parse(FILE *from, struct tape *t, uint64_t *seed, uint32_t *nodes, int *line);
/* Runs such a file: a broken rule is printed, and fails it. */
bool tape_run_file(FILE *from, const char *path, bool trace, bool rules_only);

/* ---- shrink.c ------------------------------------------------------------------ */

/* The seed fails: finds a short schedule that breaks the same rule and prints it as a scenario. @seconds: time limit. */
void shrink_seed(uint64_t seed, uint64_t events, uint32_t nodes, bool rules_only, uint64_t seconds, FILE *to);

#endif
