// SPDX-License-Identifier: GPL-2.0-only
/*
 * Is the daemon alive? Each of its system calls on the channel is a sign of life; for writes
 * only those of a daemon that has sent ENABLE.
 *
 * A timer detects that it was silent for too long, and shuts the gate (gate.c) directly, in
 * interrupt context: rule 7 stops writes within a limited time, which no work item that sleeps,
 * and no process, may extend. Ending bios that no daemon will serve (fail_if_no_daemon) may
 * sleep, so a work item does it.
 *
 * Must never: put anything but a->lock between the timer and the flags.
 */
#include "compat/timer.h"
#include "gate.h"
#include "heard.h"

/* Under a->lock: starts the timer for the next of the two timeouts. */
static void ddr_deadline_arm(struct ddr_array *a)
{
	unsigned long now = jiffies, at = 0;
	bool arm = false;

	lockdep_assert_held(&a->lock);
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
		hrtimer_start(&a->deadline,
			      ns_to_ktime(jiffies_to_nsecs(time_after(at, now) ? at - now : 0)),
			      HRTIMER_MODE_REL);
}

/*
 * Shuts the gate if the time has come, otherwise starts the timer again. True: the array has no
 * daemon from now on.
 */
static bool ddr_deadline_check(struct ddr_array *a)
{
	bool hung = false, stopped = false;
	unsigned long now, irq;

	spin_lock_irqsave(&a->lock, irq);
	now = jiffies;
	if (!test_bit(DDR_A_DETACHED, &a->flags) && time_after_eq(now, a->heard + a->timeout)) {
		set_bit(DDR_A_DETACHED, &a->flags);
		hung = true;
	}
	if (test_bit(DDR_A_ENABLED, &a->flags) && !test_bit(DDR_A_WRITES_STOPPED, &a->flags) &&
	    time_after_eq(now, a->served + a->served_timeout)) {
		set_bit(DDR_A_WRITES_STOPPED, &a->flags);
		if (a->stops_reads)
			set_bit(DDR_A_READS_STOPPED, &a->flags);
		WRITE_ONCE(a->stops, a->stops + 1);
		stopped = true;
	}
	ddr_deadline_arm(a);
	spin_unlock_irqrestore(&a->lock, irq);

	if (hung)
		DMWARN("%s: ddraidd has not answered for %u ms", a->label,
		       jiffies_to_msecs(a->timeout));
	if (stopped && test_bit(DDR_A_READS_STOPPED, &a->flags))
		DMWARN("%s: no daemon serves the array, reads and writes wait; start ddraidd",
		       a->label);
	else if (stopped)
		DMWARN("%s: no daemon serves the array, writes wait; start ddraidd", a->label);
	return hung;
}

static void ddr_unheard_work(struct work_struct *work)
{
	struct ddr_array *a = container_of(work, struct ddr_array, unheard_work);

	if (test_bit(DDR_A_DETACHED, &a->flags) && test_bit(DDR_A_FAIL_NO_DAEMON, &a->flags))
		ddr_array_sweep(a);
}

static enum hrtimer_restart ddr_deadline(struct hrtimer *timer)
{
	struct ddr_array *a = container_of(timer, struct ddr_array, deadline);

	if (ddr_deadline_check(a))
		queue_work(a->ctl_wq, &a->unheard_work);
	return HRTIMER_NORESTART;
}

void ddr_heard_init(struct ddr_array *a)
{
	INIT_WORK(&a->unheard_work, ddr_unheard_work);
	ddr_hrtimer_setup(&a->deadline, ddr_deadline);
}

void ddr_heard_end(struct ddr_array *a)
{
	hrtimer_cancel(&a->deadline);
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

bool ddr_array_heard(struct ddr_array *a, bool enabled)
{
	bool back;

	spin_lock_irq(&a->lock);
	a->heard = jiffies;
	if (enabled)
		a->served = a->heard;
	back = test_and_clear_bit(DDR_A_DETACHED, &a->flags);
	if (back)
		ddr_deadline_arm(a);
	spin_unlock_irq(&a->lock);
	if (back) {
		DMINFO("%s: the daemon is back", a->label);
		ddr_array_kick(a);
	}
	return !back;
}

void ddr_array_enable(struct ddr_array *a, u32 tables, bool stops_reads)
{
	spin_lock_irq(&a->lock);
	if (tables == a->tables)
		clear_bit(DDR_A_UNJUDGED, &a->flags);
	a->heard = jiffies;
	a->served = a->heard;
	a->served_timeout = a->timeout;
	a->stops_reads = stops_reads;
	clear_bit(DDR_A_WRITES_STOPPED, &a->flags);
	clear_bit(DDR_A_READS_STOPPED, &a->flags);
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
	DMWARN("%s: the daemon has ended", a->label);
	if (test_bit(DDR_A_FAIL_NO_DAEMON, &a->flags))
		ddr_array_sweep(a);
}

bool ddr_channel_attached(struct ddr_array *a)
{
	return !test_bit(DDR_A_DETACHED, &a->flags);
}
