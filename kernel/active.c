// SPDX-License-Identifier: GPL-2.0-only
/*
 * A table becomes active, which means that its devices are used, and stops being active: resume,
 * suspend, reload, a longer table.
 *
 * Must never: use a member state that the daemon set for another device; wait for the daemon,
 * which may be the process that resumes.
 */
#include "array.h"
#include "channel.h"
#include "engine.h"
#include "gate.h"
#include "member.h"
#include "record.h"
#include "region.h"

/*
 * Under a->lock, before anything that the daemon has to judge: a late ENABLE for the previous
 * table must not undo that. No table is active until the new one is, so a reader that sees the
 * number sees the new table, or none.
 */
static void ddr_array_next_table(struct ddr_array *a)
{
	lockdep_assert_held(&a->lock);
	smp_store_release(&a->tables, a->tables + 1);	/* with ddr_bind() */
}

/*
 * Under a->lock. The member states belong to the devices that the daemon saw. Another device in
 * a member's place may hold anything: it is neither read nor written until a daemon that has
 * seen this table enables it. Returns the places whose device was not in the previous table
 * (bit: place).
 */
static u32 ddr_array_compare(struct ddr_array *a, struct ddr_target *t)
{
	bool other, back;
	u32 m, fresh = 0;
	dev_t dev;

	lockdep_assert_held(&a->lock);
	ddr_array_next_table(a);
	/* a shadow in use must not disappear, or move to another place, without the daemon */
	if (a->member[DDR_SHADOW].state != DDR_KM_OUT && a->started &&
	    ((a->present & ~t->present & BIT(DDR_SHADOW)) || a->shadow_place != t->shadow_place))
		set_bit(DDR_A_UNJUDGED, &a->flags);
	for (m = 0; m < DDR_PLACES; m++) {
		if (!t->dev[m].dm)
			continue;
		dev = t->dev[m].dm->bdev->bd_dev;
		other = a->devices[m] && a->devices[m] != dev;
		/* another device may have the number by now */
		back = a->started && !(a->present & BIT(m)) && a->member[m].state != DDR_KM_OUT;
		if ((other || back) && !a->nosync) {
			set_bit(DDR_A_UNJUDGED, &a->flags);
			DMINFO("%s: the table names a new device for member %u; all I/O waits for the daemon",
			       a->label, m);
		}
		/*
		 * the device that had the place had failed, not this one: other nodes may
		 * already read it
		 */
		if (other || !(a->present & BIT(m)))
			fresh |= BIT(m);
		a->devices[m] = dev;
	}
	a->said_out &= ~fresh;
	return fresh;
}

/*
 * The array gets the blocks of a longer table. Grants stay valid: their regions are as long as
 * the array, and the region in which the array ended has more blocks now. The daemon may have
 * ranges there that we were not told of. So all I/O waits until it has told us, and enables this
 * table.
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
 * Under a->lock, at the first resume. If a daemon was bound before, what it set belongs to the
 * table that it was bound to (@same), and only holds while that daemon is there.
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
	/*
	 * nosync: there is no daemon. A member that failed or was missing once is stale, and
	 * stays out
	 */
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
 * The table that was resumed last holds its devices until the next one is resumed: no other
 * device has one of these numbers.
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
