// SPDX-License-Identifier: GPL-2.0-only
/*
 * A stock of pages: pages that a target releases are used again, without going through the page
 * allocator. Kernels that zero every allocated page (those of most distributions do) spend more
 * time on that than on the copying and the parity of a write, and every page of a buffer is
 * overwritten in any case.
 *
 * The stock belongs to one target, so that no array sees data of another one. It has one part
 * for each CPU, each with a lock of its own. Pages that were not needed for one period return to
 * the allocator in the next; an idle target has none and no timer.
 *
 * Must never: hold more than its limit, nor much more than the limit of all stocks together;
 * serve as a reserve: if it is empty, the allocator is used.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/percpu_counter.h>
#include <linux/slab.h>
#include <linux/smp.h>

#include "io.h"

#define DDR_STOCK_PARTS		8u
#define DDR_STOCK_PERIOD	(5 * HZ)
#define DDR_STOCK_AGED		512u	/* pages that a part frees in one period */

struct ddr_stock_part {
	spinlock_t		lock;		/* irq-safe; protects all that follows */
	u32			nr;		/* READ_ONCE without the lock: a hint */
	u32			least;		/* the fewest since the last check */
	struct list_head	pages;		/* by lru, the last used first */
} ____cacheline_aligned_in_smp;

struct ddr_stock {
	struct delayed_work	age;
	u32			parts;
	u32			most;		/* pages in each part */
	struct ddr_stock_part	part[] ____cacheline_aligned_in_smp;
};

static struct percpu_counter ddr_stocked;	/* pages, in all stocks */
static s64 ddr_stocked_most;

int ddr_stock_init(s64 most)
{
	ddr_stocked_most = most;
	return ddr_alloc_int(percpu_counter_init(&ddr_stocked, 0, GFP_KERNEL));
}

void ddr_stock_exit(void)
{
	WARN_ON(percpu_counter_sum(&ddr_stocked));
	percpu_counter_destroy(&ddr_stocked);
}

u32 ddr_stock_take(struct ddr_stock *s, struct page **pages, u32 nr)
{
	u32 first = raw_smp_processor_id(), have = 0, i;

	for (i = 0; i < s->parts && have < nr; i++) {
		struct ddr_stock_part *part = &s->part[(first + i) % s->parts];
		unsigned long irq;

		if (!READ_ONCE(part->nr))
			continue;
		spin_lock_irqsave(&part->lock, irq);
		while (have < nr && part->nr) {
			struct page *page = list_first_entry(&part->pages, struct page, lru);

			list_del(&page->lru);
			WRITE_ONCE(part->nr, part->nr - 1);
			pages[have++] = page;
		}
		part->least = min(part->least, part->nr);
		spin_unlock_irqrestore(&part->lock, irq);
	}
	percpu_counter_sub(&ddr_stocked, have);
	return have;
}

void ddr_stock_put(struct ddr_stock *s, struct page **pages, u32 nr)
{
	struct ddr_stock_part *part = &s->part[raw_smp_processor_id() % s->parts];
	bool full = percpu_counter_read_positive(&ddr_stocked) >= ddr_stocked_most;
	u32 room, i;
	unsigned long irq;

	spin_lock_irqsave(&part->lock, irq);
	room = full ? 0 : min(nr, s->most - part->nr);
	for (i = 0; i < room; i++)
		list_add(&pages[i]->lru, &part->pages);
	WRITE_ONCE(part->nr, part->nr + room);
	spin_unlock_irqrestore(&part->lock, irq);
	percpu_counter_add(&ddr_stocked, room);
	for (; i < nr; i++)
		__free_page(pages[i]);
	/* while the work runs it is not pending: a page that it does not see queues it again */
	if (room && !delayed_work_pending(&s->age))
		schedule_delayed_work(&s->age, DDR_STOCK_PERIOD);
}

/* Frees up to @nr pages of @part, the longest unused first. Returns the number that is left. */
static u32 ddr_stock_free(struct ddr_stock_part *part, u32 nr)
{
	struct page *page, *next;
	LIST_HEAD(old);
	u32 left;

	spin_lock_irq(&part->lock);
	nr = min(nr, part->least);
	left = part->nr - nr;
	WRITE_ONCE(part->nr, left);
	part->least = left;
	while (nr--)
		list_move(part->pages.prev, &old);
	spin_unlock_irq(&part->lock);

	list_for_each_entry_safe(page, next, &old, lru) {
		list_del(&page->lru);
		percpu_counter_dec(&ddr_stocked);
		__free_page(page);
	}
	return left;
}

static void ddr_stock_age(struct work_struct *work)
{
	struct ddr_stock *s = container_of(to_delayed_work(work), struct ddr_stock, age);
	u32 left = 0, i;

	for (i = 0; i < s->parts; i++) {
		left += ddr_stock_free(&s->part[i], DDR_STOCK_AGED);
		cond_resched();
	}
	if (left)
		schedule_delayed_work(&s->age, DDR_STOCK_PERIOD);
}

struct ddr_stock *ddr_stock_make(u32 most)
{
	u32 parts = min(nr_cpu_ids, DDR_STOCK_PARTS), i;
	struct ddr_stock *s = ddr_alloc(kzalloc(struct_size(s, part, parts), GFP_KERNEL));

	if (!s)
		return NULL;
	s->parts = parts;
	s->most = most / parts;
	INIT_DELAYED_WORK(&s->age, ddr_stock_age);
	for (i = 0; i < parts; i++) {
		spin_lock_init(&s->part[i].lock);
		INIT_LIST_HEAD(&s->part[i].pages);
	}
	return s;
}

void ddr_stock_end(struct ddr_stock *s)
{
	u32 i;

	if (!s)
		return;
	cancel_delayed_work_sync(&s->age);
	for (i = 0; i < s->parts; i++) {
		struct ddr_stock_part *part = &s->part[i];

		part->least = part->nr;
		ddr_stock_free(part, U32_MAX);
	}
	kfree(s);
}
