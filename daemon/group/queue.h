/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages of an array that wait to be sent, in order. Each takes what it is long; nothing is allocated.
 *
 * A step of the state machine sends few messages, most of some dozen bytes, and most of what it sends has to be delivered before there is more
 * of its kind; of a joiner's state DDR_SM_CHUNKS of the longest are on their way at once. So there is room for hundreds of the longest.
 */
#ifndef DDR_DAEMON_QUEUE_H
#define DDR_DAEMON_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/cluster/sm.h"

#define DDR_QUEUE_MESSAGES	1024u		/* a step sends fewer than DDR_SM_MAX_OUT */
#define DDR_QUEUE_BYTES		(256u << 10)

struct ddr_queue {
	unsigned int n;			/* messages */
	uint32_t head, used;		/* bytes */
	uint8_t bytes[DDR_QUEUE_BYTES];
};

/* False: it does not fit. */
bool ddr_queue_put(struct ddr_queue *q, const uint8_t *msg, uint32_t len);
/* The first one's length, and a copy of it; there is one. */
uint32_t ddr_queue_first(const struct ddr_queue *q, uint8_t msg[DDR_SM_MSG_MAX]);
void ddr_queue_drop(struct ddr_queue *q);

#endif
