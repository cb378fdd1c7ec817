// SPDX-License-Identifier: GPL-2.0-only
/*
 * The gate that every bio passes first, and the list of bios that wait at it.
 *
 * The gate parks a bio while the state is incomplete (no ENABLE yet), while the daemon has
 * frozen the array, and, for writes, once the daemon was silent for longer than its timeout
 * (rule 7: a kernel without its daemon stops within a limited time). Only a daemon that has sent
 * ENABLE since its bind extends that time: one that attaches and does not become ready must not
 * keep old member states in use.
 *
 * Code that parks asks ddr_array_bounces() under the lock of its own list; code that sets one of
 * the flags that it checks sweeps all lists afterwards (sweep.c). So either the parker sees the
 * flag, or the sweep sees the bio.
 *
 * Must never: let a bio run that the gate should have stopped.
 */
#include "gate.h"

static inline bool ddr_flags_admit(unsigned long flags, bool write)
{
	unsigned long stop = BIT(DDR_A_KILLED) | BIT(DDR_A_UNJUDGED);

	if (write)
		stop |= BIT(DDR_A_FROZEN_WRITES) | BIT(DDR_A_WRITES_STOPPED);
	else
		stop |= BIT(DDR_A_FROZEN_READS);
	return (flags & (stop | BIT(DDR_A_ENABLED))) == BIT(DDR_A_ENABLED);
}

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

bool ddr_array_bounces(struct ddr_array *a, bool daemon, blk_status_t *status)
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
	else if (daemon && (flags & alone) == alone)
		*status = BLK_STS_IOERR;
	else
		return false;
	return true;
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
	} else if (ddr_array_bounces(a, true, &w->status)) {
		turn = DDR_END;
	} else {
		list_add_tail(&w->list, &a->parked);
		atomic_inc(&a->nr_parked);
		turn = DDR_WAIT;
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

void ddr_wait_over(struct ddr_array *a, struct ddr_wait *w)
{
	a->wake(w);
}

void ddr_waits_over(struct ddr_array *a, struct list_head *waits)
{
	struct ddr_wait *w, *next;

	list_for_each_entry_safe(w, next, waits, list) {
		atomic_dec(&a->nr_parked);
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

static void ddr_array_kick_work(struct work_struct *work)
{
	struct ddr_array *a = container_of(work, struct ddr_array, kick_work);
	LIST_HEAD(run);

	spin_lock_irq(&a->lock);
	list_splice_init(&a->parked, &run);
	spin_unlock_irq(&a->lock);
	ddr_waits_over(a, &run);
}

void ddr_array_kick(struct ddr_array *a)
{
	queue_work(a->ctl_wq, &a->kick_work);
}

void ddr_gate_init(struct ddr_array *a)
{
	INIT_WORK(&a->kick_work, ddr_array_kick_work);
	INIT_LIST_HEAD(&a->parked);
}
