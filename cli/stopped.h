/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An array that is stopped on all nodes, while a command changes its superblocks: `ddraid rename` and `ddraid upgrade`.
 *
 * Nobody can start it meanwhile: the members are locked, which keeps other programs on this machine out; in a cluster the command is alone in the
 * array's process group, which keeps the other nodes out (hold.h). A slot of the dirty log that belongs to another node shows that this node runs the
 * array, or died while running it.
 *
 * Must never: let a command write while a slot is owned, or the process group has other processes; hand out superblocks that were read before the
 * members were locked, except for a first check.
 */
#ifndef DDR_CLI_STOPPED_H
#define DDR_CLI_STOPPED_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/adopt.h"
#include "cli/hold.h"
#include "lib/disk/scan.h"

struct stopped {
	const char *cmd;		/* of the messages */
	struct ddr_scan scan;
	struct ddr_scan_array array;	/* as found by the scan; cand borrows from it, and from @supers after stopped_take() */
	struct adopt_node node;		/* this one */
	struct hold hold;
	struct ddr_dev dev[DDR_ASSEMBLE_MAX];		/* of each candidate that is used; fd -1: it is not */
	struct ddr_supers supers[DDR_ASSEMBLE_MAX];	/* of these, as read under the locks */
};

/* The functions return CLI_DONE, or a failure that was printed. */
void stopped_init(struct stopped *s, const char *cmd);
/* Asks the daemon which kind of node this is. */
int stopped_ask(struct stopped *s);
/* Checks that no node runs the array, or died while running it. */
int stopped_check(const struct stopped *s);
/*
 * Locks the members and holds the array's process group, then reads all superblocks again and checks what stopped_check() does. From then on
 * s->array and s->supers are what counts.
 */
int stopped_take(struct stopped *s);
/* Does candidate @c serve as a member? Its number, or -1. */
bool stopped_plays(const struct stopped *s, size_t c);
int32_t stopped_member(const struct stopped *s, size_t c);
/* Frees all of it; the array can be started again. */
void stopped_free(struct stopped *s);

#endif
