/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The buffers of ranges that are in work, shared by all arrays of the daemon: each range has one for as long as a request to it may be under
 * way. They are made when an array starts, so that a range that begins needs no memory: writers wait for it, and whoever wants memory may
 * wait for those. Where more ranges are in work than that, further ones are made, and go again.
 *
 * Must never: make an array wait for another one. A range whose buffer cannot be had is refused, and tried again later.
 */
#ifndef DDR_DAEMON_BUFFERS_H
#define DDR_DAEMON_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

#define DDR_BUFFERS_ALWAYS	4u	/* there are so many while there is any array: more than resync_parallel is at first (2) */
#define DDR_BUFFERS_ARRAYS	8u	/* and one more for each so many arrays */

struct ddr_buffer {
	struct ddr_buffer *next;
	size_t size;
	uint8_t *bytes;			/* of a page's alignment */
};

/* An array whose ranges need @size bytes each begins, or ends. 0, or -ENOMEM: then it has not begun. */
int ddr_buffers_join(size_t size);
void ddr_buffers_leave(void);
/* NULL: there is no memory. */
struct ddr_buffer *ddr_buffers_get(size_t size);
void ddr_buffers_put(struct ddr_buffer *b);

#endif
