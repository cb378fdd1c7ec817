/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the daemon ends.
 *
 * LEAVE (SIGTERM, SIGINT; a restart of its unit): the arrays stay, for the daemon that comes next. Regions that nobody writes are
 * made clean before, so that an end for good leaves nothing dirty; that takes DDR_ENDING_REST_MS at the most.
 * STOP (SIGUSR1; its unit is stopped): likewise, but while an array is started the daemon does not end: without it, all that uses the
 * array would stand still. It goes on serving, and ends when the last array has gone.
 */
#ifndef DDR_DAEMON_ENDING_H
#define DDR_DAEMON_ENDING_H

#include "daemon/base/daemon.h"

#define DDR_ENDING_REST_MS	2000u

enum ddr_ending_how { DDR_ENDING_NOT, DDR_ENDING_STOP, DDR_ENDING_LEAVE };

struct ddr_ending {
	enum ddr_ending_how how;
	uint64_t until_ms;		/* for what is being made clean, and for arrays that are on their way out */
	bool refused;			/* STOP: an array is still started, and that was said */
};

/* A signal asks for the end. STOP after LEAVE changes nothing. */
void ddr_ending_begin(struct ddr_ending *e, struct ddr_daemon *d, enum ddr_ending_how how, uint64_t now_ms);
/* Is it time? To be asked every now and then. */
bool ddr_ending_due(struct ddr_ending *e, struct ddr_daemon *d, uint64_t now_ms);

#endif
