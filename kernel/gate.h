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
/* All I/O that waits at the gate asks there again; may sleep. */
void ddr_array_kick(struct ddr_array *a);

/* ---- the one way to wait, for all places where I/O waits -------------------------- */

/*
 * Under the lock of @list, which belongs to the place: lets @w wait there for @reason (@list is
 * NULL if the place has a list of other things for it). False: it may not wait, since the array is
 * killed, is in a noflush suspend, is in a flushing one and was never served, or has no daemon,
 * which would have to end this wait, and fails I/O then. w->status is how it has to end, after the
 * lock was dropped.
 */
bool ddr_wait_begin(struct ddr_array *a, struct ddr_wait *w, enum ddr_reason reason,
		    struct list_head *list);
/* Is that so for I/O that waits for @reason already? True: *@status is how it has to end. */
bool ddr_wait_ends(struct ddr_array *a, enum ddr_reason reason, blk_status_t *status);
/*
 * The wait of @w, or of all of @waits, is over: the I/O continues in a work item of its own, in the
 * phase in which it began to wait. @w has left its list. Any context; with a list, process context.
 * The caller must not use the I/O any more.
 */
void ddr_wait_over(struct ddr_array *a, struct ddr_wait *w);
void ddr_waits_over(struct ddr_array *a, struct list_head *waits);
/*
 * The same, but the I/O ends with @status. Not for BLK_STS_DM_REQUEUE: the suspend may be over by
 * then.
 */
void ddr_waits_end(struct ddr_array *a, struct list_head *waits, blk_status_t status);
/* Its wait is over, and the caller continues with the I/O itself. Any context. */
void ddr_wait_leave(struct ddr_array *a, struct ddr_wait *w);

/* ---- sweep.c ------------------------------------------------------------------- */

/* All I/O that waits, wherever that is, asks again whether it may wait; may sleep. */
void ddr_array_sweep(struct ddr_array *a);
/*
 * .presuspend with dm_noflush_suspending(): hands back all I/O that waits, with BLK_STS_DM_REQUEUE,
 * and from now on all that would have to wait. May sleep.
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
