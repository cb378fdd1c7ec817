/* SPDX-License-Identifier: GPL-2.0-only */
/* The commands of the daemon. */
#ifndef DDR_COMMAND_H
#define DDR_COMMAND_H

#include "dm-ddraid.h"

#define DDR_MIN_TIMEOUT_MS	1000u
#define DDR_MAX_TIMEOUT_MS	600000u

/* What the kernel remembers of one bind, beside the array; under ctl_mutex. */
struct ddr_session {
	bool	enabled;	/* has sent ENABLE */
	u32	tables;		/* the bind saw the table with this number */
	bool	pong_due;
	u64	pong_seq;
};

/*
 * Checks and runs one record of the daemon; 0, or a negative errno and nothing was changed. Under
 * ctl_mutex. @budget: regions that this write() may still walk over; lowered.
 */
int ddr_command_run(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec,
		    s64 *budget);

#endif
