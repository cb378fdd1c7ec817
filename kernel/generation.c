// SPDX-License-Identifier: GPL-2.0-only
/*
 * Generations of member states. An I/O counts itself in the current generation before it reads
 * the member states. After a change the generation is switched: new I/O counts in the other one,
 * and once the old one has drained, no I/O that may have seen the old states is in flight:
 * DDR_K_APPLIED.
 *
 * An I/O that waits for the daemon (error.c) is in no generation and reads the states again
 * afterwards, so an answer of the daemon never waits for itself.
 *
 * Must never: put a lock or a shared cache line in the way of an I/O.
 */
#include <linux/wait_bit.h>

#include "io.h"
#include "member.h"

void ddr_gen_enter(struct ddr_io *io)
{
	struct ddr_engine *e = io->t->array->engine;
	struct ddr_gen *gen;

	/* a generation is only killed when the other one is current, so this ends */
	rcu_read_lock();
	do {
		/* pairs with ddr_gen_turn(): in a new generation the new states are visible */
		gen = &e->gen[smp_load_acquire(&e->current_gen)];
	} while (!percpu_ref_tryget_live(&gen->ref));
	rcu_read_unlock();
	io->gen = gen;
}

void ddr_gen_exit(struct ddr_io *io)
{
	struct ddr_gen *gen = io->gen;

	if (!gen)
		return;
	io->gen = NULL;
	percpu_ref_put(&gen->ref);
}

static void ddr_gen_drained(struct percpu_ref *ref)
{
	struct ddr_gen *gen = container_of(ref, struct ddr_gen, ref);
	struct ddr_engine *e = gen->engine;

	if (gen == &e->gen[READ_ONCE(e->current_gen)])
		complete(&e->drained);		/* ddr_gen_free() */
	else
		queue_work(e->a->io_wq, &e->turned);
}

/* Under e->lock, while nothing drains. */
static void ddr_gen_turn(struct ddr_engine *e)
{
	struct ddr_gen *old = &e->gen[e->current_gen];

	lockdep_assert_held(&e->lock);
	e->now = e->next;
	e->next = 0;
	WRITE_ONCE(e->turning, true);
	/* after the changed states, see ddr_gen_enter() */
	smp_store_release(&e->current_gen, !e->current_gen);
	percpu_ref_kill(&old->ref);
}

static void ddr_gen_turned(struct work_struct *work)
{
	struct ddr_engine *e = container_of(work, struct ddr_engine, turned);
	unsigned long now;
	unsigned int m;

	percpu_ref_reinit(&e->gen[!e->current_gen].ref);

	spin_lock_irq(&e->lock);
	now = e->now;
	e->now = 0;
	for_each_set_bit(m, &now, DDR_PLACES)
		ddr_channel_queue(e->a, &e->applied[m]);
	if (e->next)
		ddr_gen_turn(e);
	else
		WRITE_ONCE(e->turning, false);
	spin_unlock_irq(&e->lock);
	/* wake_up_var() checks for waiters: pairs with prepare_to_wait_event() */
	smp_mb();
	wake_up_var(&e->turning);
}

bool ddr_io_member_busy(struct ddr_array *a, u32 member)
{
	struct ddr_engine *e = a->engine;
	bool busy;

	lockdep_assert_held(&a->ctl_mutex);
	spin_lock_irq(&e->lock);
	busy = (e->next | e->now) & BIT(member) || !list_empty_careful(&e->applied[member].link);
	spin_unlock_irq(&e->lock);
	return busy;
}

void ddr_io_member_changed(struct ddr_array *a, u64 seq, u32 member)
{
	struct ddr_engine *e = a->engine;

	lockdep_assert_held(&a->ctl_mutex);
	spin_lock_irq(&e->lock);
	e->applied[member].rec.seq = seq;
	e->next |= BIT(member);
	if (!e->turning)
		ddr_gen_turn(e);
	spin_unlock_irq(&e->lock);
	ddr_target_event(a);
}

void ddr_io_member_forget(struct ddr_array *a)
{
	struct ddr_engine *e = a->engine;
	u32 m;

	lockdep_assert_held(&a->ctl_mutex);
	spin_lock_irq(&e->lock);
	e->next = 0;
	e->now = 0;
	for (m = 0; m < DDR_PLACES; m++)
		ddr_channel_unqueue(a, &e->applied[m]);
	spin_unlock_irq(&e->lock);
}

int ddr_gen_init(struct ddr_engine *e)
{
	int i, r;
	u32 m;

	for (m = 0; m < DDR_PLACES; m++) {
		INIT_LIST_HEAD(&e->applied[m].link);
		e->applied[m].rec.type = DDR_K_APPLIED;
		e->applied[m].rec.member = m;
	}
	spin_lock_init(&e->lock);
	init_completion(&e->drained);
	INIT_WORK(&e->turned, ddr_gen_turned);
	for (i = 0; i < 2; i++) {
		e->gen[i].engine = e;
		r = ddr_alloc_int(percpu_ref_init(&e->gen[i].ref, ddr_gen_drained,
						  PERCPU_REF_ALLOW_REINIT, GFP_KERNEL));
		if (r) {
			while (i--)
				percpu_ref_exit(&e->gen[i].ref);
			return r;
		}
	}
	return 0;
}

void ddr_gen_settle(struct ddr_engine *e)
{
	wait_var_event(&e->turning, !READ_ONCE(e->turning));
}

void ddr_gen_free(struct ddr_engine *e)
{
	percpu_ref_kill(&e->gen[e->current_gen].ref);
	wait_for_completion(&e->drained);
	percpu_ref_exit(&e->gen[0].ref);
	percpu_ref_exit(&e->gen[1].ref);
}
