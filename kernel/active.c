// SPDX-License-Identifier: GPL-2.0-only
/*
 * A table becomes the one whose devices are used, and stops to be it: resume, suspend,
 * reload, a longer table.
 *
 * Must never: use a member state that the daemon gave for another device; wait for the
 * daemon, which may be the one that resumes.
 */
#include "array.h"
#include "channel.h"
#include "engine.h"
#include "gate.h"
#include "member.h"
#include "record.h"
#include "region.h"

/*
 * Under a->lock, before what the daemon has to judge: a late ENABLE for the table before must not
 * take that back. No table is active until the new one is, so who sees the number sees that table,
 * or none.
 */
static void ddr_array_next_table(struct ddr_array *a)
{
	lockdep_assert_held(&a->lock);
	smp_store_release(&a->tables, a->tables + 1);	/* with ddr_bind() */
}

/*
 * Under a->lock. States are those of the devices that the daemon saw. Another device in a member's
 * place may hold anything: nothing is read from it, nor written to it, until a daemon that has seen
 * this table enables it. Returns the places whose device was not in the table before (bit: place).
 */
static u32 ddr_array_compare(struct ddr_array *a, struct ddr_target *t)
{
	bool other, back;
	u32 m, fresh = 0;
	dev_t dev;

	lockdep_assert_held(&a->lock);
	ddr_array_next_table(a);
	/* a shadow that is in use may not go, nor be another place's, unless the daemon says so */
	if (a->member[DDR_SHADOW].state != DDR_KM_OUT && a->started &&
	    ((a->present & ~t->present & BIT(DDR_SHADOW)) || a->shadow_place != t->shadow_place))
		set_bit(DDR_A_UNJUDGED, &a->flags);
	for (m = 0; m < DDR_PLACES; m++) {
		if (!t->dev[m].dm)
			continue;
		dev = t->dev[m].dm->bdev->bd_dev;
		other = a->devices[m] && a->devices[m] != dev;
		/* the number may be another device's by now */
		back = a->started && !(a->present & BIT(m)) && a->member[m].state != DDR_KM_OUT;
		if ((other || back) && !a->nosync) {
			set_bit(DDR_A_UNJUDGED, &a->flags);
			DMINFO("%s: the table names a new device for member %u; all I/O waits for the daemon",
			       a->label, m);
		}
		/*
		 * whoever had the place was out, and failed, not this one: other nodes may read it
		 * already
		 */
		if (other || !(a->present & BIT(m)))
			fresh |= BIT(m);
		a->devices[m] = dev;
	}
	a->said_out &= ~fresh;
	return fresh;
}

/*
 * The array gets the blocks of a longer table. Grants stay: their regions are as long as the array,
 * and the one that it ended in has more blocks now, in which the daemon may have ranges of which we
 * were not told. So all I/O waits until it has told us, and enables this table.
 */
static void ddr_array_grow(struct ddr_array *a, struct ddr_target *t)
{
	u64 regions = ddr_regions_of(a, t->blocks);

	mutex_lock(&a->ctl_mutex);
	if (regions > a->regions)
		ddr_regions_grow(a, t->grown);
	spin_lock_irq(&a->lock);
	WRITE_ONCE(a->blocks, t->blocks);
	WRITE_ONCE(a->regions, regions);
	ddr_array_next_table(a);
	set_bit(DDR_A_UNJUDGED, &a->flags);
	spin_unlock_irq(&a->lock);
	mutex_unlock(&a->ctl_mutex);
	DMINFO("%s: the table now has %llu blocks; all I/O waits for the daemon", a->label,
	       t->blocks);
}

/*
 * Under a->lock, at the first resume. If a daemon was bound before, what it said is of the table
 * that it was bound to (@same), and as long as it is there.
 */
static void ddr_array_first(struct ddr_array *a, bool same)
{
	lockdep_assert_held(&a->lock);
	if (a->early && !same)
		set_bit(DDR_A_UNJUDGED, &a->flags);
	if (test_bit(DDR_A_DETACHED, &a->flags))
		clear_bit(DDR_A_ENABLED, &a->flags);
	WRITE_ONCE(a->as_bound, same);
}

int ddr_array_activate(struct ddr_array *a, struct ddr_target *t)
{
	bool same = !a->nosync && ddr_array_is_loaded(a, t);
	unsigned long fresh;
	u32 m;

	if (t->blocks < a->blocks) {
		DMERR("%s: the table is shorter than the array, which has grown; load the table of ddraid table", a->label);
		return -EINVAL;
	}
	if (t->blocks > a->blocks)
		ddr_array_grow(a, t);
	spin_lock_irq(&a->lock);
	fresh = ddr_array_compare(a, t);
	spin_unlock_irq(&a->lock);
	/* before a daemon can bind to this table and is told of them */
	for_each_set_bit(m, &fresh, DDR_PLACES)
		ddr_error_forget(a, m);

	spin_lock_irq(&a->lock);
	WRITE_ONCE(a->present, t->present);
	a->shadow_place = t->shadow_place;
	if (!a->started && !a->nosync)
		ddr_array_first(a, same);
	else
		WRITE_ONCE(a->as_bound, false);
	/* nosync: nobody tells. What failed or was missing once is stale: it stays out for good */
	if (a->nosync)
		for (m = 0; m < a->geo.roles; m++)
			if (!(t->present & BIT(m)) || !a->started)
				__ddr_array_set_member(a, m, t->present & BIT(m) ?
						       DDR_KM_IN_SYNC : DDR_KM_OUT, 0);
	a->started = true;
	rcu_assign_pointer(a->active, t);
	assign_bit(DDR_A_FAIL_NO_DAEMON, &a->flags, t->fail_if_no_daemon);
	clear_bit(DDR_A_SUSPENDED, &a->flags);
	clear_bit(DDR_A_NOFLUSH_SUSPEND, &a->flags);
	clear_bit(DDR_A_FLUSH_SUSPEND, &a->flags);
	spin_unlock_irq(&a->lock);
	return 0;
}

void ddr_array_resumed(struct ddr_array *a)
{
	ddr_channel_wake(a);
	ddr_channel_announce(a, DDR_K_RESUMED);
	ddr_array_kick(a);
}

void ddr_array_deactivate(struct ddr_array *a, struct ddr_target *t)
{
	spin_lock_irq(&a->lock);
	if (rcu_access_pointer(a->active) == t) {
		RCU_INIT_POINTER(a->active, NULL);
		set_bit(DDR_A_SUSPENDED, &a->flags);
	}
	spin_unlock_irq(&a->lock);
	synchronize_rcu();
	ddr_channel_wake(a);
}

/*
 * The table that was resumed last is there until the next one is, and holds its devices: no other
 * has one of these numbers.
 */
bool ddr_array_names(struct ddr_array *a, dev_t dev)
{
	bool named = false;
	u32 m;

	spin_lock_irq(&a->lock);
	for (m = 0; m < DDR_PLACES; m++)
		named |= (a->present & BIT(m)) && a->devices[m] == dev;
	spin_unlock_irq(&a->lock);
	return named;
}
