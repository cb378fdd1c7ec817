// SPDX-License-Identifier: GPL-2.0-or-later
/* Messages that wait to be sent. See queue.h. */
#include <string.h>

#include "daemon/group/queue.h"

static void write_at(struct ddr_queue *q, uint32_t at, const void *from, uint32_t len)
{
	uint32_t begin = at % DDR_QUEUE_BYTES;
	uint32_t first = len < DDR_QUEUE_BYTES - begin ? len : DDR_QUEUE_BYTES - begin;

	memcpy(q->bytes + begin, from, first);
	memcpy(q->bytes, (const uint8_t *)from + first, len - first);
}

static void read_at(const struct ddr_queue *q, uint32_t at, void *to, uint32_t len)
{
	uint32_t begin = at % DDR_QUEUE_BYTES;
	uint32_t first = len < DDR_QUEUE_BYTES - begin ? len : DDR_QUEUE_BYTES - begin;

	memcpy(to, q->bytes + begin, first);
	memcpy((uint8_t *)to + first, q->bytes, len - first);
}

bool ddr_queue_put(struct ddr_queue *q, const uint8_t *msg, uint32_t len)
{
	if (q->n == DDR_QUEUE_MESSAGES || len > DDR_SM_MSG_MAX || sizeof(len) + len > DDR_QUEUE_BYTES - q->used)
		return false;
	write_at(q, q->head + q->used, &len, sizeof(len));
	write_at(q, q->head + q->used + (uint32_t)sizeof(len), msg, len);
	q->used += (uint32_t)sizeof(len) + len;
	q->n++;
	return true;
}

uint32_t ddr_queue_first(const struct ddr_queue *q, uint8_t msg[DDR_SM_MSG_MAX])
{
	uint32_t len;

	read_at(q, q->head, &len, sizeof(len));
	read_at(q, q->head + (uint32_t)sizeof(len), msg, len);
	return len;
}

void ddr_queue_drop(struct ddr_queue *q)
{
	uint32_t len;

	read_at(q, q->head, &len, sizeof(len));
	q->head = (q->head + (uint32_t)sizeof(len) + len) % DDR_QUEUE_BYTES;
	q->used -= (uint32_t)sizeof(len) + len;
	q->n--;
}
