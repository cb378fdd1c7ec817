// SPDX-License-Identifier: GPL-2.0-only
/*
 * The gate that every bio passes first, and the list of those that wait at it.
 *
 * The gate parks a bio while the state is incomplete (no ENABLE yet), while the daemon has
 * frozen the array, and, for writes, and for reads if the daemon asked for it, once the daemon was
 * silent for longer than its timeout (rule 7: a kernel without its daemon stops within a limited
 * time). Only a daemon that has sent ENABLE since its bind extends that time: one that attaches and
 * does not become ready must not keep old member states in use. Only its next ENABLE opens the gate
 * again: what it does first after a silence, it may have decided before.
 *
 * And what all waiting has in common, here, for a region, for a range, for an answer. A place that
 * lets I/O wait asks ddr_wait_begin() under the lock of its own list; code that sets one of the
 * flags that it checks sweeps all lists afterwards (sweep.c). So either the place sees the flag, or
 * the sweep sees the I/O.
 *
 * Must never: let an I/O run that the gate should have stopped; use one whose wait is over.
 */
#include "gate.h"

/* ---- waiting, at any place -------------------------------------------------------- */

/*
 * dm turns BLK_STS_DM_REQUEUE into EIO outside of a noflush suspend, and an interrupted suspend
 * ends before our presuspend_undo runs: so this asks dm, and does not only check our flag.
 */
static bool ddr_array_noflush(struct ddr_array *a)
{
	struct ddr_target *t;
	bool noflush = false;

	if (!test_bit(DDR_A_NOFLUSH_SUSPEND, &a->flags))
		return false;
	rcu_read_lock();
	t = rcu_dereference(a->active);
	if (t)
		noflush = dm_noflush_suspending(t->ti);
	rcu_read_unlock();
	return noflush;
}

/* Only the end of other I/O comes without the daemon. */
static bool ddr_wait_is_for_daemon(enum ddr_reason reason)
{
	return reason != DDR_WAIT_RANGE;
}

bool ddr_wait_ends(struct ddr_array *a, enum ddr_reason reason, blk_status_t *status)
{
	unsigned long flags = READ_ONCE(a->flags);
	unsigned long alone = BIT(DDR_A_DETACHED) | BIT(DDR_A_FAIL_NO_DAEMON);
	unsigned long unserved = BIT(DDR_A_FLUSH_SUSPEND) | BIT(DDR_A_ENABLED);

	if (flags & BIT(DDR_A_KILLED))
		*status = BLK_STS_IOERR;
	else if (ddr_array_noflush(a))
		*status = BLK_STS_DM_REQUEUE;
	else if ((flags & unserved) == BIT(DDR_A_FLUSH_SUSPEND))
		*status = BLK_STS_IOERR;
	else if (ddr_wait_is_for_daemon(reason) && (flags & alone) == alone)
		*status = BLK_STS_IOERR;
	else
		return false;
	return true;
}

bool ddr_wait_begin(struct ddr_array *a, struct ddr_wait *w, enum ddr_reason reason,
		    struct list_head *list)
{
	if (ddr_wait_ends(a, reason, &w->status))
		return false;
	w->reason = reason;
	if (ddr_wait_is_for_daemon(reason))
		atomic_inc(&a->nr_parked);
	if (list)
		list_add_tail(&w->list, list);
	return true;
}

void ddr_wait_leave(struct ddr_array *a, struct ddr_wait *w)
{
	if (ddr_wait_is_for_daemon(w->reason))
		atomic_dec(&a->nr_parked);
}

void ddr_wait_over(struct ddr_array *a, struct ddr_wait *w)
{
	ddr_wait_leave(a, w);
	a->wake(w);
}

void ddr_waits_over(struct ddr_array *a, struct list_head *waits)
{
	struct ddr_wait *w, *next;

	list_for_each_entry_safe(w, next, waits, list) {
		ddr_wait_over(a, w);
		cond_resched();
	}
}

void ddr_waits_end(struct ddr_array *a, struct list_head *waits, blk_status_t status)
{
	struct ddr_wait *w;

	list_for_each_entry(w, waits, list)
		w->status = status;
	ddr_waits_over(a, waits);
}

/* ---- the gate ---------------------------------------------------------------------- */

static inline bool ddr_flags_admit(unsigned long flags, bool write)
{
	unsigned long stop = BIT(DDR_A_KILLED) | BIT(DDR_A_UNJUDGED);

	if (write)
		stop |= BIT(DDR_A_FROZEN_WRITES) | BIT(DDR_A_WRITES_STOPPED);
	else
		stop |= BIT(DDR_A_FROZEN_READS) | BIT(DDR_A_READS_STOPPED);
	return (flags & (stop | BIT(DDR_A_ENABLED))) == BIT(DDR_A_ENABLED);
}

bool ddr_array_stops(struct ddr_array *a, bool write, bool begun)
{
	unsigned long flags = READ_ONCE(a->flags);

	if (begun)
		flags &= ~BIT(DDR_A_FROZEN_WRITES);
	return !ddr_flags_admit(flags, write);
}

static enum ddr_turn ddr_array_admit_slow(struct ddr_array *a, struct ddr_wait *w, bool write,
					  bool patient)
{
	enum ddr_turn turn = DDR_GO;
	unsigned long irq;

	spin_lock_irqsave(&a->lock, irq);
	if (!ddr_array_stops(a, write, false)) {
		/* it was opened meanwhile */
	} else if (!patient) {
		w->status = BLK_STS_IOERR;
		turn = DDR_END;
	} else {
		turn = ddr_wait_begin(a, w, DDR_WAIT_GATE, &a->parked) ? DDR_WAIT : DDR_END;
	}
	spin_unlock_irqrestore(&a->lock, irq);
	return turn;
}

enum ddr_turn ddr_array_admit(struct ddr_array *a, struct ddr_wait *w, bool write, bool patient)
{
	if (likely(!ddr_array_stops(a, write, false)))
		return DDR_GO;
	return ddr_array_admit_slow(a, w, write, patient);
}

void ddr_array_kick(struct ddr_array *a)
{
	LIST_HEAD(run);

	spin_lock_irq(&a->lock);
	list_splice_init(&a->parked, &run);
	spin_unlock_irq(&a->lock);
	ddr_waits_over(a, &run);
}

void ddr_gate_init(struct ddr_array *a)
{
	INIT_LIST_HEAD(&a->parked);
}
