/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A daemon that stood still: this process, or its machine, did not run for some seconds. The other nodes may have declared it dead meanwhile, and
 * gone on without it. So it stays, for its kernels and for its disks, as if it still stood still, until a pulse that it has sent since then
 * comes back in a quorate view: whatever the others have decided about it is delivered before (doc/protocol.md, "A daemon that stood still").
 *
 * Without a group nobody declares a daemon dead. But a machine that stands still does not stamp its arrays either, and another one may have adopted
 * them meanwhile (daemon/disk/claim.h). So there each array is held by itself, until its members were looked at since then
 * (daemon/array/drive_stamp.c). What shows that has to be read while the array is held.
 *
 * Whoever is about to do what others may rely on asks ddr_still_held() just before, since nobody knows which callback of the loop comes first
 * after a standstill. Threads, which may go on before the loop does, ask ddr_still_late().
 *
 * Must never: end the hold because of a pulse that may have been sent, or a look that may have begun, before the standstill was over.
 */
#ifndef DDR_DAEMON_STILL_H
#define DDR_DAEMON_STILL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/*
 * A process that sends nothing is excluded after five pulses of another one, so not before eight seconds have passed since its last message; it sends
 * one at least every two seconds while its messages come back. What is begun within five seconds after its loop ran last is begun before that.
 *
 * Who adopts an array sees the stamps of its owner stand still for five seconds and the stop time before it claims the array, and has it as long after
 * that. The same limit serves here, though it is shorter than the stop time: an owner that stands still again and again, each time for less than that,
 * may not come to a stamp in between.
 */
#define DDR_STILL_MS	5000u

/* Zeroed: nothing is held. Of the loop's thread, but for @until_ms. */
struct ddr_still {
	bool watched;			/* this daemon is in the group; or the array is served without one */
	bool looks;			/* a look at the members ends it: its reads are begun while this is held */
	bool held;
	uint64_t ran_ms;		/* the loop ran last */
	uint64_t since_ms, stood_ms;	/* of the hold: the loop ran again; how long it had not */
	bool logged;			/* the owner's */
	_Atomic uint64_t until_ms;	/* threads begin nothing from then on; 0: there is no such time */
};

/* Milliseconds of the clock that also counts while the machine sleeps. */
static inline uint64_t ddr_still_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* This daemon has joined the group: from now on it counts how long it does not run. */
static inline void ddr_still_watch(struct ddr_still *s)
{
	if (s->watched)
		return;
	s->watched = true;
	s->ran_ms = ddr_still_now();
	atomic_store(&s->until_ms, s->ran_ms + DDR_STILL_MS);
}

/* @s goes on where @from is now, which counted until now: no time is lost between them. */
static inline void ddr_still_follow(struct ddr_still *s, const struct ddr_still *from)
{
	s->watched = from->watched;
	s->looks = from->looks;
	s->held = s->logged = false;
	s->ran_ms = from->ran_ms;
	s->since_ms = s->stood_ms = 0;
	atomic_store(&s->until_ms, s->watched ? s->ran_ms + DDR_STILL_MS : 0);
}

/* The loop runs. True: it stood still, and must do nothing that others may rely on. @s: NULL: never. */
static inline bool ddr_still_held(struct ddr_still *s)
{
	uint64_t now, ms;

	if (!s || !s->watched)
		return false;
	now = ddr_still_now();
	ms = now - s->ran_ms;
	s->ran_ms = now;
	if (ms >= DDR_STILL_MS) {
		s->held = true;
		s->since_ms = now;
		s->stood_ms = ms;
		s->logged = false;
	}
	atomic_store(&s->until_ms, s->held ? 1 : now + DDR_STILL_MS);
	return s->held;
}

/*
 * A pulse has come back in a quorate view, and was sent after @sent_ms; or all members were looked at, and that began after it. True: that ends a hold.
 */
static inline bool ddr_still_heard(struct ddr_still *s, uint64_t sent_ms)
{
	if (!ddr_still_held(s) || sent_ms < s->since_ms)
		return false;
	s->held = false;
	atomic_store(&s->until_ms, s->ran_ms + DDR_STILL_MS);
	return true;
}

/* For any thread: has the loop not run for so long that nothing may be begun? */
static inline bool ddr_still_late(struct ddr_still *s)
{
	uint64_t until = s ? atomic_load(&s->until_ms) : 0;

	return until && ddr_still_now() >= until;
}

#endif
