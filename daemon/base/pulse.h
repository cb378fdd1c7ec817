/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A deadline of the loop instead of a tick: what belongs to it is called when it is reached, and says then when it wants to be called
 * next. Whoever changes what it waits for says so by ddr_pulse_by(), which never puts it off. What wants nothing is never called.
 *
 * What may be a little early shares its moments with others of the daemon (ddr_pulse_grid()), so that many arrays wake it once.
 *
 * Must never: need memory once it is open (a write that waits for its grant may be what memory waits for).
 */
#ifndef DDR_DAEMON_PULSE_H
#define DDR_DAEMON_PULSE_H

#include <stdbool.h>
#include <stdint.h>

#include <qb/qbloop.h>

#define DDR_PULSE_NEVER	UINT64_MAX

struct ddr_pulse {
	qb_loop_t *loop;
	void (*due)(void *ctx);		/* may set it, or close it */
	void *ctx;
	int fd;				/* of a timer */
	bool open;			/* else nothing is ever called */
	uint64_t due_ms;		/* of ddr_now_ms(); within due(): when it was due */
};

/* Until it is set it is never due. 0, or an errno below 0. */
int ddr_pulse_open(struct ddr_pulse *p, qb_loop_t *loop, enum qb_loop_priority priority, void (*due)(void *ctx), void *ctx);
void ddr_pulse_close(struct ddr_pulse *p);
/* It is not called before, unless ddr_pulse_by() says so; DDR_PULSE_NEVER: not at all. */
void ddr_pulse_set(struct ddr_pulse *p, uint64_t due_ms);
/* At the latest then. */
static inline void ddr_pulse_by(struct ddr_pulse *p, uint64_t due_ms)
{
	if (due_ms < p->due_ms)
		ddr_pulse_set(p, due_ms);
}

/* The first multiple of @period_ms after @now_ms: at most that period from now, and the same moment for all who ask. */
static inline uint64_t ddr_pulse_grid(uint64_t now_ms, uint64_t period_ms)
{
	return (now_ms / period_ms + 1) * period_ms;
}

static inline uint64_t ddr_pulse_first(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

#endif
