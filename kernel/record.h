/* SPDX-License-Identifier: GPL-2.0-only */
/* Records for the daemon. */
#ifndef DDR_RECORD_H
#define DDR_RECORD_H

#include "dm-ddraid.h"

/*
 * A record for the daemon, embedded in the object that it is about, so that queueing cannot
 * fail.
 */
struct ddr_krec {
	struct list_head	link;		/* in a->records; INIT_LIST_HEAD() before use */
	struct ddr_rec		rec;		/* not to be changed while queued */
};

/*
 * Queues @k for the bound daemon; no effect if it is queued already or if there is no daemon (a
 * bind declares all state again). It is copied when the daemon reads. Call ddr_channel_unqueue()
 * before @k is freed or changed. Any context.
 */
void ddr_channel_queue(struct ddr_array *a, struct ddr_krec *k);
void ddr_channel_unqueue(struct ddr_array *a, struct ddr_krec *k);
void ddr_channel_wake(struct ddr_array *a);	/* there is something to read; any context */

/* ---- records from the words and sets of regions; under ctl_mutex ------------------- */

/*
 * For a new daemon: HELD runs and HELD_END from the start, and LOCK again for all that wait
 * (DDR_F_RESENT).
 */
void ddr_region_declare(struct ddr_array *a);
bool ddr_region_declared(struct ddr_array *a);		/* HELD_END was filled */
bool ddr_region_pending(struct ddr_array *a);	/* is there anything to send? Any context */
/* the daemon has read @rec */
void ddr_region_sent(struct ddr_array *a, const struct ddr_rec *rec);

#endif
