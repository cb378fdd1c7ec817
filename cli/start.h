/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What start.c (finds arrays, makes their devices) and start_attach.c (until the daemon serves them) know of each other. */
#ifndef DDR_CLI_START_H
#define DDR_CLI_START_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/disk/scan.h"
#include "lib/wire/ipc.h"

#define WAIT_MS		60000	/* for the daemon to attach: a predecessor's I/O may have to end first */
#define TURN_MS		1000	/* how long one array is waited for before the next one is looked at */

struct start {
	struct ddr_ipc *ipc;
	struct ddr_scan scan;
	bool degraded;		/* the operator says: members may be missing */
	bool adopt, yes;	/* the operator says: no other machine uses the disks; do not ask */
	bool older;		/* the operator says: start from these superblocks, though newer ones may have been seen */
	unsigned int table;	/* DDR_TABLE_*, of the command line */
	unsigned int always;	/* DDR_TABLE_*, of the daemon's configuration, for arrays that can have them */
	uint64_t until_ms;	/* --timeout; UINT64_MAX: none */
	bool all;
	bool units;		/* --all: each by a unit of its own, and nothing is waited for */
	const char *only;	/* --auto: the uuid of the array that is started; a disk of it has appeared */
	int patience_ms;	/* --all: for disks that are not there yet */
	bool lost;		/* the connection was, once: another daemon may have been there between */
	uint64_t lost_ms;	/* since when there is no answer; 0: there is */
	uint32_t alone;		/* this node's id where the daemon has no cluster; 0: it has one */
	uint32_t nodes;		/* of the cluster; 1: this one alone; 0: not known */
};

/* An array whose device was made, and that the daemon does not serve yet. */
struct made {
	char name[DDR_NAME_LEN], uuid[37];
	uint64_t sectors;		/* 0: none was made, or nobody waits for it any more */
	uint64_t begun_ms;
	uint64_t due_ms;		/* without a word of the daemon it is given up then */
	char told[512];			/* what it waits for, as it was printed */
	bool kept;			/* its device was there before, and stays whatever comes */
	bool hidden;			/* it was not resumed yet: nobody can have it open */
};

/* ---- start_attach.c -------------------------------------------------------------- */

uint64_t start_now_ms(void);
/* Says why; where it was not a person who asked, the daemon keeps that, for `ddraid status`. */
int start_failed(struct start *s, const char *uuid, const char *name, const char *why);
/* Of those, how many the daemon does not serve yet, and that are waited for. */
size_t start_unattached(const struct made *made, size_t n);
/* Waits a while for each of them. The worst exit code of those that have ended. */
int start_attach_turn(struct start *s, struct made *made, size_t n, int slice_ms);
/* Waits until the daemon serves all, or says why not. */
int start_attach_all(struct start *s, struct made *made, size_t n);

#endif
