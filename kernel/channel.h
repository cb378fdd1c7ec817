/* SPDX-License-Identifier: GPL-2.0-only */
/* /dev/ddraid: the control descriptor, and the channel of an array. */
#ifndef DDR_CHANNEL_H
#define DDR_CHANNEL_H

#include <linux/mutex.h>
#include <linux/wait.h>

#include "record.h"

#define DDR_MIN_TIMEOUT_MS	1000u
#define DDR_MAX_TIMEOUT_MS	600000u
#define DDR_BATCH		64u	/* records staged, or taken from write(), at once */
#define DDR_RING		64u	/* announcements that a control descriptor holds */

/* The kernel's state of one bind that is not part of the array; under ctl_mutex. */
struct ddr_session {
	bool	enabled;	/* has sent ENABLE */
	u32	tables;		/* number of the table that the bind saw */
	bool	pong_due;
	u64	pong_seq;
};

enum ddr_channel_state { DDR_CH_CONTROL, DDR_CH_BOUND, DDR_CH_STALE };

struct ddr_channel {
	struct mutex		rmutex;		/* out, out_pos, out_n */
	struct mutex		wmutex;		/* in */
	wait_queue_head_t	wait;
	enum ddr_channel_state	state;		/* written under ctl_mutex; ddr_channel_state() */
	struct ddr_array	*array;		/* set once, by bind, before the state */

	/* bound; under ctl_mutex */
	struct list_head	ready;		/* struct ddr_krec to stage; under array->lock */
	struct ddr_session	session;
	bool			told_suspended;
	u32			told_stops;	/* a->stops when STOPPED was staged last */

	/* control; under ddr_controls_lock */
	struct list_head	controls;
	bool			listing;
	u64			listed;		/* cookie of the array listed last */
	unsigned int		ring_pos, ring_n;
	struct ddr_rec		ring[DDR_RING];

	unsigned int		out_pos, out_n;
	struct ddr_rec		out[DDR_BATCH];
	struct ddr_rec		in[DDR_BATCH];
};

static inline enum ddr_channel_state ddr_channel_state(struct ddr_channel *ch)
{
	/* with ddr_channel_set_state(): a reader that sees BOUND or STALE sees ch->array */
	return smp_load_acquire(&ch->state);
}

static inline void ddr_channel_set_state(struct ddr_channel *ch, enum ddr_channel_state state)
{
	/* with ddr_channel_state() */
	smp_store_release(&ch->state, state);
}

int ddr_channel_init(void);			/* misc device */
void ddr_channel_exit(void);

/* ---- record.c -------------------------------------------------------------------- */

/*
 * Under rmutex and ctl_mutex: stages the records that are due, in their order, up to DDR_BATCH; returns
 * their number. Call ddr_region_sent() once they were read.
 */
unsigned int ddr_channel_fill(struct ddr_channel *ch);

/* STOPPED is due: writes wait for the next ENABLE of a daemon that has sent one. Any context. */
static inline bool ddr_channel_stopped(struct ddr_channel *ch)
{
	struct ddr_array *a = ch->array;

	return READ_ONCE(ch->session.enabled) && test_bit(DDR_A_WRITES_STOPPED, &a->flags) &&
	       READ_ONCE(a->stops) != READ_ONCE(ch->told_stops);
}

/* ---- command.c ------------------------------------------------------------------- */

/*
 * Checks and runs one record of the daemon; 0, or a negative errno and nothing was changed.
 * Under ctl_mutex. @budget: regions that this write() may still walk over; reduced by those that
 * it walks over.
 */
int ddr_command_run(struct ddr_array *a, struct ddr_session *s, const struct ddr_rec *rec,
		    s64 *budget);

/* ---- control.c ------------------------------------------------------------------- */

/* APPEARED, RESUMED, REMOVED to control descriptors; may sleep */
void ddr_channel_announce(struct ddr_array *a, u32 type);
/* a new descriptor: it is sent the list first */
void ddr_control_add(struct ddr_channel *ch);
/* it is bound, or closed; no effect if it was bound before */
void ddr_control_del(struct ddr_channel *ch);
int ddr_control_fill(struct ddr_channel *ch);		/* records staged. Under rmutex */

#endif
