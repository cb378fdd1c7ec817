// SPDX-License-Identifier: GPL-2.0-only
/*
 * The states of the members: which are read, which are written.
 *
 * All I/O reads them without a lock, inside a generation (generation.c) where it matters that a
 * change is known to be visible.
 *
 * Must never: change a state by itself; the daemon does, or nosync's decision (error.c).
 */
#include "member.h"

#define DDR_MB_REBUILDING	16	/* shift in member_bits */

void __ddr_array_set_member(struct ddr_array *a, u32 member, u32 state, u64 cursor)
{
	u32 bits = a->member_bits & ~(BIT(member) | BIT(member + DDR_MB_REBUILDING));

	lockdep_assert_held(&a->lock);
	/* writes that completed without it on this node must not be written to it later */
	if (state == DDR_KM_LEAVING && (a->said_out & BIT(member)) &&
	    (member != DDR_SHADOW || (a->present & BIT(DDR_SHADOW))))
		/* a shadow that no table names only makes writes wait */
		state = DDR_KM_OUT;
	if (state == DDR_KM_OUT)
		a->said_out |= BIT(member);
	else
		a->said_out &= ~BIT(member);
	WRITE_ONCE(a->member[member].cursor, cursor);
	WRITE_ONCE(a->member[member].state, state);
	if (state == DDR_KM_IN_SYNC)
		bits |= BIT(member);
	else if (state == DDR_KM_REBUILDING || state == DDR_KM_LEAVING)
		bits |= BIT(member + DDR_MB_REBUILDING);	/* leaving: the cursor is 0 */
	/* the cursor is visible before the state that makes it count: ddr_array_states() */
	smp_store_release(&a->member_bits, bits);
}

void ddr_array_set_member(struct ddr_array *a, u32 member, u32 state, u64 cursor)
{
	unsigned long irq;

	spin_lock_irqsave(&a->lock, irq);
	__ddr_array_set_member(a, member, state, cursor);
	spin_unlock_irqrestore(&a->lock, irq);
}

/* Converts bits by member to bits by role after @turn. */
static u32 ddr_array_turn(struct ddr_array *a, u32 members, u32 turn)
{
	u32 n = a->geo.roles;

	return ((members >> turn) | (members << (n - turn))) & (BIT(n) - 1);
}

void ddr_array_states(struct ddr_array *a, u64 block, u32 blocks, struct ddr_states *s)
{
	/* the state before its cursor: __ddr_array_set_member() */
	u32 bits = smp_load_acquire(&a->member_bits);
	unsigned long rebuilding = bits >> DDR_MB_REBUILDING;
	u32 members = bits & (BIT(DDR_GEO_MAX_ROLES) - 1), m;
	u32 present = READ_ONCE(a->present) & (BIT(DDR_GEO_MAX_ROLES) - 1);
	u32 turn = ddr_geo_turn(&a->geo, block);

	for_each_set_bit(m, &rebuilding, DDR_GEO_MAX_ROLES)
		if (block + blocks <= READ_ONCE(a->member[m].cursor))
			members |= BIT(m);
	s->read = ddr_array_turn(a, members & present, turn);
	s->written = (bits | rebuilding) & (BIT(DDR_PLACES) - 1);
	s->write = ddr_array_turn(a, s->written & present, turn);
}

bool ddr_array_shadow_readable(struct ddr_array *a, u64 block, u32 blocks)
{
	u32 bits = smp_load_acquire(&a->member_bits);	/* as ddr_array_states() */

	if (bits & BIT(DDR_SHADOW))
		return true;
	return (bits & BIT(DDR_SHADOW + DDR_MB_REBUILDING)) &&
	       block + blocks <= READ_ONCE(a->member[DDR_SHADOW].cursor);
}

void ddr_target_event(struct ddr_array *a)
{
	struct ddr_target *t;

	rcu_read_lock();
	t = rcu_dereference(a->active);
	if (t)
		schedule_work(&t->event);
	rcu_read_unlock();
}
