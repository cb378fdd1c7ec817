// SPDX-License-Identifier: GPL-2.0-only
/*
 * Records for the daemon that lie in what they speak of (struct ddr_krec): queued here,
 * copied when the daemon reads (channel.c).
 *
 * Must never: need memory; lose a record while its daemon is bound.
 */
#include <linux/poll.h>

#include "channel.h"

void ddr_channel_wake(struct ddr_array *a)
{
	unsigned long irq;

	spin_lock_irqsave(&a->lock, irq);
	if (a->channel)
		wake_up_poll(&a->channel->wait, EPOLLIN | EPOLLRDNORM);
	spin_unlock_irqrestore(&a->lock, irq);
}

void ddr_channel_queue(struct ddr_array *a, struct ddr_krec *k)
{
	unsigned long irq;

	spin_lock_irqsave(&a->lock, irq);
	if (a->channel && list_empty(&k->link)) {
		list_add_tail(&k->link, &a->records);
		wake_up_poll(&a->channel->wait, EPOLLIN | EPOLLRDNORM);
	}
	spin_unlock_irqrestore(&a->lock, irq);
}

void ddr_channel_unqueue(struct ddr_array *a, struct ddr_krec *k)
{
	unsigned long irq;

	spin_lock_irqsave(&a->lock, irq);
	list_del_init(&k->link);
	spin_unlock_irqrestore(&a->lock, irq);
}
