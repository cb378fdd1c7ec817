/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by start.c (finds arrays, creates their devices) and start_attach.c (waits until the daemon serves them). */
#ifndef DDR_CLI_START_H
#define DDR_CLI_START_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/adopt.h"
#include "lib/disk/scan.h"
#include "lib/wire/ipc.h"

#define WAIT_MS		60000	/* for the daemon to attach: a predecessor's I/O may have to end first */
#define TURN_MS		1000	/* how long one array is waited for before the next one is checked */

struct start {
	struct ddr_ipc *ipc;
	struct ddr_scan scan;
	bool degraded;		/* --degraded: members may be missing */
	bool adopt, yes;	/* --adopt: no other machine uses the disks; --yes: do not ask */
	bool older;		/* --older: start from these superblocks, although newer ones may have been seen */
	unsigned int table;	/* DDR_TABLE_*, from the command line */
	unsigned int always;	/* DDR_TABLE_*, from the daemon's configuration, for arrays that support them */
	uint64_t until_ms;	/* --timeout; UINT64_MAX: none */
	bool all;
	bool units;		/* --all: each by a unit of its own, without waiting */
	const char *only;	/* --auto: the uuid of the array to start; one of its disks has appeared */
	int patience_ms;	/* --all: for disks that have not appeared yet */
	bool lost;		/* the connection was lost once: another daemon may have run in between */
	uint64_t lost_ms;	/* since when the daemon has not answered; 0: it answers */
	struct adopt_node node;	/* this one */
};

/* An array whose device was created, and which the daemon does not serve yet. */
struct made {
	char name[DDR_NAME_LEN], uuid[37];
	uint64_t sectors;		/* 0: none was created, or it is not waited for any more */
	uint64_t begun_ms;
	uint64_t due_ms;		/* it is given up then, unless the daemon reports something */
	char told[512];			/* what it waits for, as already printed */
	bool kept;			/* its device existed before, and stays in any case */
	bool hidden;			/* it was not resumed yet: no program can have it open */
};

/* ---- start_attach.c -------------------------------------------------------------- */

uint64_t start_now_ms(void);
/* Prints the reason; for an automatic start the daemon keeps it, for `ddraid status`. */
int start_failed(struct start *s, const char *uuid, const char *name, const char *why);
/* How many of them are not served yet, and still waited for. */
size_t start_unattached(const struct made *made, size_t n);
/* Waits a while for each of them. Returns the worst exit code of those that are finished. */
int start_attach_turn(struct start *s, struct made *made, size_t n, int slice_ms);
/* Waits until the daemon serves all, or reports why not. */
int start_attach_all(struct start *s, struct made *made, size_t n);

#endif
