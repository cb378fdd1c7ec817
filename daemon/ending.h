/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the daemon ends.
 *
 * LEAVE (SIGTERM, SIGINT; a restart of its unit): the arrays stay, for the next daemon. Regions that are not being written are made
 * clean first, so that nothing stays dirty if no daemon follows; that takes at most DDR_ENDING_REST_MS. If a member has failed here, the superblocks have to
 * say so first, which may take DDR_ENDING_TELL_MS more (its unit has TimeoutStopSec=20).
 *
 * STOP (SIGUSR1; its unit is stopped): the same, but while an array is started the daemon does not end: without it, everything that
 * uses the array would hang. It continues to serve, and ends when the last array has been stopped.
 */
#ifndef DDR_DAEMON_ENDING_H
#define DDR_DAEMON_ENDING_H

#include "daemon/base/daemon.h"

#define DDR_ENDING_REST_MS	2000u
#define DDR_ENDING_TELL_MS	15000u

enum ddr_ending_how { DDR_ENDING_NOT, DDR_ENDING_STOP, DDR_ENDING_LEAVE };

struct ddr_ending {
	enum ddr_ending_how how;
	uint64_t until_ms;		/* time limit for clearing marks, and for arrays that are being removed */
	bool refused;			/* it was logged why the daemon does not end: STOP: an array is still started; LEAVE: superblocks do not say what has failed */
};

/* A signal asks for the end. STOP after LEAVE changes nothing. */
void ddr_ending_begin(struct ddr_ending *e, struct ddr_daemon *d, enum ddr_ending_how how, uint64_t now_ms);
/* May the daemon end now? Call it regularly. */
bool ddr_ending_due(struct ddr_ending *e, struct ddr_daemon *d, uint64_t now_ms);

#endif
