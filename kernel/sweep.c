// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ends all waiting: a suspend, the removal of the array, the loss of a daemon that I/O may not
 * wait for. Each sets a flag that ddr_wait_ends() checks, and sweeps all lists afterwards.
 *
 * Must never: wait for the daemon, since device-mapper calls some of this.
 */
#include "engine.h"
#include "gate.h"
#include "range.h"
#include "region.h"

void ddr_array_sweep(struct ddr_array *a)
{
	ddr_array_kick(a);
	if (a->regions_state)
		ddr_region_ask_again(a);
	ddr_range_ask_again(a);
	ddr_error_end_waits(a);
}

void ddr_array_requeue_parked(struct ddr_array *a)
{
	set_bit(DDR_A_NOFLUSH_SUSPEND, &a->flags);
	ddr_array_sweep(a);
}

/*
 * A flushing suspend waits for all bios. Those of an array that no daemon has ever enabled may
 * wait for ever: the daemon refused it, or there is none. Nothing was read or written there, so
 * nothing can depend on it, and an error is correct. Once a daemon has sent ENABLE a file system
 * may rely on its writes: then the suspend waits.
 */
void ddr_array_fail_unserved(struct ddr_array *a)
{
	set_bit(DDR_A_FLUSH_SUSPEND, &a->flags);
	if (!test_bit(DDR_A_ENABLED, &a->flags))
		ddr_array_kick(a);	/* all that waits does so at the gate */
}

void ddr_array_suspend_undo(struct ddr_array *a)
{
	clear_bit(DDR_A_NOFLUSH_SUSPEND, &a->flags);
	clear_bit(DDR_A_FLUSH_SUSPEND, &a->flags);
	ddr_array_kick(a);
}

void ddr_array_kill(struct ddr_array *a)
{
	if (test_and_set_bit(DDR_A_KILLED, &a->flags))
		return;
	DMERR("%s: the daemon stopped serving the array for good, all I/O fails", a->label);
	ddr_array_sweep(a);
}
