/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages that wait to be sent or delivered, in order. The memory is there from the start, since a grant must not wait for some. It is a
 * ring of bytes: nearly all messages are far shorter than the longest.
 */
#ifndef DDR_DAEMON_QUEUE_H
#define DDR_DAEMON_QUEUE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "lib/cluster/sm.h"

/* All outputs of one step fit, even if each was a message, and as many as possible of them long. A further step waits for deliveries before it sends as much. */
#define DDR_QUEUE_BYTES	(DDR_SM_MAX_OUT * (DDR_SM_MSG_SHORT + (uint32_t)sizeof(uint32_t)) + DDR_SM_MSG_LONG * (DDR_SM_MSG_MAX + (uint32_t)sizeof(uint32_t)))

struct ddr_queue {
	unsigned int n;			/* messages */
	uint32_t first, used;		/* bytes */
	uint8_t ring[DDR_QUEUE_BYTES];
};

/* From or to the ring, @at bytes behind its first one. */
static inline void ddr_queue_write(struct ddr_queue *q, uint32_t at, const void *from, uint32_t n)
{
	uint32_t begin = (q->first + at) % DDR_QUEUE_BYTES, part = DDR_QUEUE_BYTES - begin < n ? DDR_QUEUE_BYTES - begin : n;

	memcpy(q->ring + begin, from, part);
	memcpy(q->ring, (const uint8_t *)from + part, n - part);
}

static inline void ddr_queue_read(const struct ddr_queue *q, uint32_t at, void *to, uint32_t n)
{
	uint32_t begin = (q->first + at) % DDR_QUEUE_BYTES, part = DDR_QUEUE_BYTES - begin < n ? DDR_QUEUE_BYTES - begin : n;

	memcpy(to, q->ring + begin, part);
	memcpy((uint8_t *)to + part, q->ring, n - part);
}

/* False: it does not fit, or is longer than a message may be. */
static inline bool ddr_queue_put(struct ddr_queue *q, const uint8_t *msg, uint32_t len)
{
	if (len > DDR_SM_MSG_MAX || DDR_QUEUE_BYTES - q->used < len + (uint32_t)sizeof(len))
		return false;
	ddr_queue_write(q, q->used, &len, sizeof(len));
	ddr_queue_write(q, q->used + (uint32_t)sizeof(len), msg, len);
	q->used += len + (uint32_t)sizeof(len);
	q->n++;
	return true;
}

/* Copies the first message to @msg, which has DDR_SM_MSG_MAX bytes, and returns its length. The queue is not empty. */
static inline uint32_t ddr_queue_first(const struct ddr_queue *q, uint8_t *msg)
{
	uint32_t len;

	ddr_queue_read(q, 0, &len, sizeof(len));
	ddr_queue_read(q, sizeof(len), msg, len);
	return len;
}

static inline void ddr_queue_drop(struct ddr_queue *q)
{
	uint32_t len;

	ddr_queue_read(q, 0, &len, sizeof(len));
	len += (uint32_t)sizeof(len);
	q->first = (q->first + len) % DDR_QUEUE_BYTES;
	q->used -= len;
	q->n--;
}

#endif
