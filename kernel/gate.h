/* SPDX-License-Identifier: GPL-2.0-only */
/* The gate that every bio passes first, and how waiting ends, at the gate and elsewhere. */
#ifndef DDR_GATE_H
#define DDR_GATE_H

#include "dm-ddraid.h"

/* ---- gate.c -------------------------------------------------------------------- */

void ddr_gate_init(struct ddr_array *a);
/*
 * May the I/O of @w (data direction @write) run now? If not, it waits here; without @patient it
 * ends with an error instead.
 */
enum ddr_turn ddr_array_admit(struct ddr_array *a, struct ddr_wait *w, bool write, bool patient);
/*
 * Is the gate shut? I/O that passed it earlier and has waited asks again: if it is shut, the rest
 * of that I/O must not be sent. @begun: a part of a write was sent already; it continues even if
 * the array was frozen meanwhile. The caller asks inside of the generation in which it sends, so that
 * APPLIED of a later MEMBER waits for it. Any context.
 */
bool ddr_array_stops(struct ddr_array *a, bool write, bool begun);
/*
 * For every place that parks bios, under the lock of its list: must @bio not be parked because
 * the array is killed, is in a noflush suspend, is in a flushing one and was never served, or
 * fails I/O without a daemon (@daemon: the wait is for the daemon)? Then returns true, and
 * *@status is how to end it (after the lock was dropped). false: park it. Code that starts a bio
 * again, and so does not park it, needs no lock: what it waits for next asks again. Any context.
 */
bool ddr_array_bounces(struct ddr_array *a, bool daemon, blk_status_t *status);
/* Runs all bios of the parked list again. Any context. */
void ddr_array_kick(struct ddr_array *a);
/*
 * The wait of @w, or of all of @waits, is over: the I/O asks again for what it waited for, in a
 * work item of its own. It has left the list. Any context; with a list process context. The
 * caller must not use the I/O any more.
 */
void ddr_wait_over(struct ddr_array *a, struct ddr_wait *w);
void ddr_waits_over(struct ddr_array *a, struct list_head *waits);
/* The same, but the I/Os end with @status. */
void ddr_waits_end(struct ddr_array *a, struct list_head *waits, blk_status_t status);

/* ---- sweep.c ------------------------------------------------------------------- */

/* Asks again for all parked bios, here and elsewhere, whether they may wait; may sleep. */
void ddr_array_sweep(struct ddr_array *a, blk_status_t status);
/*
 * .presuspend with dm_noflush_suspending(): hands back all parked bios (here, region.c, range.c,
 * error.c) with BLK_STS_DM_REQUEUE, and from now on everything that would park. May sleep.
 */
void ddr_array_requeue_parked(struct ddr_array *a);
/*
 * .presuspend of a flushing suspend: if no daemon has ever sent ENABLE, parked and new bios end
 * with an I/O error until the resume. May sleep.
 */
void ddr_array_fail_unserved(struct ddr_array *a);
void ddr_array_suspend_undo(struct ddr_array *a);	/* .presuspend_undo: park again */
/* all parked bios fail, all later ones too; may sleep */
void ddr_array_kill(struct ddr_array *a);

#endif
