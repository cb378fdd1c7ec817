/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The process that runs fence agents for the daemon, and the messages between the two: one packet for each order and one for each answer. */
#ifndef DDR_DAEMON_FENCE_HELPER_H
#define DDR_DAEMON_FENCE_HELPER_H

#include <stdint.h>

#include "daemon/group/fence.h"
#include "lib/conf.h"

#define DDR_FENCE_RUNS		64u	/* agents at the same time: rarely more than one for a node */
#define DDR_FENCE_NAME_LEN	64u
#define DDR_FENCE_TEXT_LEN	200u

struct ddr_fence_order {
	uint64_t id;
	uint64_t timeout_ms;			/* then it is killed */
	int64_t fail_time;			/* seconds since 1970 */
	uint32_t node;
	char name[DDR_FENCE_NAME_LEN];
	char command[DDR_CONF_PATH_MAX];
	char devices[DDR_FENCE_DEVICES];	/* to cut it off from, with commas; "": it is switched off */
};

struct ddr_fence_answer {
	uint64_t id;
	int32_t result;				/* 0 or a negative errno */
	char text[DDR_FENCE_TEXT_LEN];		/* the reason of a failure; one line */
};

/* Serves the socket until its other end is closed. Does not return. */
_Noreturn void ddr_fence_helper(int fd);

#endif
