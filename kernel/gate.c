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

static bool ddr_array_admit_slow(struct ddr_array *a, struct bio *bio, bool write)
{
	blk_status_t status = BLK_STS_IOERR;
	unsigned long irq;
	bool end;

	spin_lock_irqsave(&a->lock, irq);
	if (!ddr_array_stops(a, write, false)) {
		spin_unlock_irqrestore(&a->lock, irq);
		return true;
	}
	/* read-ahead does not wait */
	end = (bio->bi_opf & REQ_RAHEAD) || ddr_array_bounces(a, true, &status);
	if (!end) {
		bio_list_add(&a->parked, bio);
		atomic_inc(&a->nr_parked);
	}
	spin_unlock_irqrestore(&a->lock, irq);
	if (end) {
		bio->bi_status = status;
		bio_endio(bio);
	}
	return false;
}

bool ddr_array_admit(struct ddr_array *a, struct bio *bio, bool write)
{
	if (likely(!ddr_array_stops(a, write, false)))
		return true;
	return ddr_array_admit_slow(a, bio, write);
}

static void ddr_array_kick_work(struct work_struct *work)
{
	struct ddr_array *a = container_of(work, struct ddr_array, kick_work);
	struct bio_list run = BIO_EMPTY_LIST;
	struct bio *bio;

	spin_lock_irq(&a->lock);
	bio_list_merge(&run, &a->parked);
	bio_list_init(&a->parked);
	spin_unlock_irq(&a->lock);
	while ((bio = bio_list_pop(&run))) {
		atomic_dec(&a->nr_parked);
		a->rerun(a, bio);
		cond_resched();
	}
}

void ddr_array_kick(struct ddr_array *a)
{
	queue_work(a->ctl_wq, &a->kick_work);
}

void ddr_gate_init(struct ddr_array *a)
{
	INIT_WORK(&a->kick_work, ddr_array_kick_work);
	bio_list_init(&a->parked);
}
