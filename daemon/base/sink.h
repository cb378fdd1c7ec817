/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where all parts of the daemon say what has happened, without knowing who listens: the service for the command sets itself as the one that takes
 * it. It is taken at once, so that clients hear of things in their order, and whoever waits for something is answered as soon as it is so.
 */
#ifndef DDR_DAEMON_SINK_H
#define DDR_DAEMON_SINK_H

#include <stddef.h>
#include <stdint.h>

#define DDR_NOTICE_NUMBERS	4u

/* An event, as `ddraid events` shows it. What is NULL is not part of it. Lives as long as the call. */
struct ddr_notice {
	const char *array, *uuid;	/* name, and text of the uuid */
	const char *event;		/* a word */
	const char *text;		/* one line */
	const char *device;		/* of the member that it is about */
	uint32_t member;		/* with a device only */
	const char *error, *operation;	/* what kind of I/O failed, and how */
	struct {
		const char *key;
		uint64_t value;
	} number[DDR_NOTICE_NUMBERS];
};

struct ddr_sink {
	/* @n: NULL: no event, but something has changed that somebody may wait for. Must not free arrays. NULL: nobody listens. */
	void (*take)(void *ctx, const struct ddr_notice *n);
	void *ctx;
};

static inline void ddr_sink_tell(const struct ddr_sink *s, const struct ddr_notice *n)
{
	if (s->take)
		s->take(s->ctx, n);
}

#endif
