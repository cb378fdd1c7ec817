/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where all parts of the daemon report events, without knowing who receives them: the service for the command registers itself as the
 * receiver. Events are handed over at once, so that clients see them in order, and a waiting client is answered as soon as its
 * condition is met.
 */
#ifndef DDR_DAEMON_SINK_H
#define DDR_DAEMON_SINK_H

#include <stddef.h>
#include <stdint.h>

#define DDR_NOTICE_NUMBERS	4u

/* An event, as `ddraid events` shows it. Fields that are NULL are left out. Valid during the call only. */
struct ddr_notice {
	const char *array, *uuid;	/* name, and uuid as text */
	const char *event;		/* a word */
	const char *text;		/* one line */
	const char *device;		/* of the member concerned */
	uint32_t member;		/* only with a device */
	const char *error, *operation;	/* the kind of I/O that failed, and how */
	struct {
		const char *key;
		uint64_t value;
	} number[DDR_NOTICE_NUMBERS];
};

struct ddr_sink {
	/* @n: NULL: no event, but the state has changed and waiting clients must be checked. Must not free arrays. NULL: no receiver. */
	void (*take)(void *ctx, const struct ddr_notice *n);
	void *ctx;
};

static inline void ddr_sink_tell(const struct ddr_sink *s, const struct ddr_notice *n)
{
	if (s->take)
		s->take(s->ctx, n);
}

#endif
