// SPDX-License-Identifier: GPL-2.0-only
/*
 * Is the daemon there? Each system call of it on the channel says so, and for writes only those of one that has sent ENABLE.
 * If it was silent for too long, the gate (array.c) is shut.
 */
#include "dm-ddraid.h"

/* Under a->lock: looks again when the next of the two times may have run out. */
static void ddr_deadline_arm(struct ddr_array *a)
{
	unsigned long now = jiffies, at = 0;
	bool arm = false;

	if (!test_bit(DDR_A_DETACHED, &a->flags)) {
		at = a->heard + a->timeout;
		arm = true;
	}
	if (test_bit(DDR_A_ENABLED, &a->flags) && !test_bit(DDR_A_WRITES_STOPPED, &a->flags)) {
		if (!arm || time_before(a->served + a->served_timeout, at))
			at = a->served + a->served_timeout;
		arm = true;
	}
	if (arm && !a->gone)
		mod_delayed_work(a->ctl_wq, &a->deadline, time_after(at, now) ? at - now : 0);
}

static void ddr_deadline_work(struct work_struct *work)
{
	struct ddr_array *a = container_of(to_delayed_work(work), struct ddr_array, deadline);
	bool hung = false, stopped = false;
	unsigned long now;

	spin_lock_irq(&a->lock);
	now = jiffies;
	if (!test_bit(DDR_A_DETACHED, &a->flags) && time_after_eq(now, a->heard + a->timeout)) {
		set_bit(DDR_A_DETACHED, &a->flags);
		hung = true;
	}
	if (test_bit(DDR_A_ENABLED, &a->flags) && !test_bit(DDR_A_WRITES_STOPPED, &a->flags) &&
	    time_after_eq(now, a->served + a->served_timeout)) {
		set_bit(DDR_A_WRITES_STOPPED, &a->flags);
		stopped = true;
	}
	ddr_deadline_arm(a);
	spin_unlock_irq(&a->lock);

	if (hung)
		DMWARN("%pUb: nothing heard from the daemon for %u ms", &a->uuid,
		       jiffies_to_msecs(a->timeout));
	if (stopped)
		DMWARN("%pUb: no daemon, writes wait", &a->uuid);
	if (hung && test_bit(DDR_A_FAIL_NO_DAEMON, &a->flags))
		ddr_array_sweep(a, BLK_STS_IOERR);
}

void ddr_heard_init(struct ddr_array *a)
{
	INIT_DELAYED_WORK(&a->deadline, ddr_deadline_work);
}

void ddr_heard_end(struct ddr_array *a)
{
	cancel_delayed_work_sync(&a->deadline);
}

void ddr_array_bound(struct ddr_array *a, unsigned int timeout_ms)
{
	spin_lock_irq(&a->lock);
	a->timeout = msecs_to_jiffies(timeout_ms);
	a->heard = jiffies;
	clear_bit(DDR_A_DETACHED, &a->flags);
	ddr_deadline_arm(a);
	spin_unlock_irq(&a->lock);
}

void ddr_array_set_timeout(struct ddr_array *a, unsigned int timeout_ms, bool enabled)
{
	spin_lock_irq(&a->lock);
	a->timeout = msecs_to_jiffies(timeout_ms);
	if (enabled)
		a->served_timeout = a->timeout;
	ddr_deadline_arm(a);
	spin_unlock_irq(&a->lock);
}

void ddr_array_heard(struct ddr_array *a, bool enabled)
{
	bool back = false;

	spin_lock_irq(&a->lock);
	a->heard = jiffies;
	if (test_and_clear_bit(DDR_A_DETACHED, &a->flags))
		back = true;
	if (enabled) {
		a->served = a->heard;
		if (test_and_clear_bit(DDR_A_WRITES_STOPPED, &a->flags))
			back = true;
	}
	if (back)
		ddr_deadline_arm(a);
	spin_unlock_irq(&a->lock);
	if (back) {
		DMINFO("%pUb: the daemon is back", &a->uuid);
		ddr_array_kick(a);
	}
}

void ddr_array_enable(struct ddr_array *a, u32 tables)
{
	spin_lock_irq(&a->lock);
	if (tables == a->tables)
		clear_bit(DDR_A_UNJUDGED, &a->flags);
	a->heard = jiffies;
	a->served = a->heard;
	a->served_timeout = a->timeout;
	clear_bit(DDR_A_WRITES_STOPPED, &a->flags);
	set_bit(DDR_A_ENABLED, &a->flags);
	ddr_deadline_arm(a);
	spin_unlock_irq(&a->lock);
	ddr_array_kick(a);
}

void ddr_array_unbound(struct ddr_array *a)
{
	bool over;

	spin_lock_irq(&a->lock);
	over = a->gone || a->channel;		/* another one has bound meanwhile */
	if (!a->channel) {
		set_bit(DDR_A_DETACHED, &a->flags);
		ddr_deadline_arm(a);
	}
	spin_unlock_irq(&a->lock);
	if (over)
		return;
	DMWARN("%pUb: the daemon has gone", &a->uuid);
	if (test_bit(DDR_A_FAIL_NO_DAEMON, &a->flags))
		ddr_array_sweep(a, BLK_STS_IOERR);
}
