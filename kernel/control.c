// SPDX-License-Identifier: GPL-2.0-only
/*
 * Control descriptors of /dev/ddraid: which arrays exist, and what happens to them.
 *
 * ddr_controls_lock guards them; dm-ddraid.h has the order of the locks.
 *
 * Must never: let a reader miss an array that appeared or was removed without sending a new
 * list.
 */
#include <linux/poll.h>

#include "array.h"
#include "channel.h"

static DEFINE_SPINLOCK(ddr_controls_lock);
static LIST_HEAD(ddr_controls);

static void ddr_control_rec(struct ddr_rec *rec, u32 type, const struct ddr_array *a)
{
	*rec = (struct ddr_rec) { .type = type, .member = DDR_NO_MEMBER };
	if (a) {
		rec->start = a->cookie;
		rec->count = type == DDR_K_RESUMED && READ_ONCE(a->as_bound);
		memcpy(rec->arg, &a->uuid, sizeof(a->uuid));
	}
}

void ddr_channel_announce(struct ddr_array *a, u32 type)
{
	struct ddr_channel *ch;

	if (a->nosync)
		return;
	spin_lock(&ddr_controls_lock);
	list_for_each_entry(ch, &ddr_controls, controls) {
		if (ch->ring_n == DDR_RING) {
			/* nobody reads: restart with the complete list */
			ch->ring_n = 0;
			ch->listing = true;
			ch->listed = 0;
		} else {
			unsigned int i = (ch->ring_pos + ch->ring_n++) % DDR_RING;

			ddr_control_rec(&ch->ring[i], type, a);
		}
		wake_up_poll(&ch->wait, EPOLLIN | EPOLLRDNORM);
	}
	spin_unlock(&ddr_controls_lock);
}

/*
 * One step of the list: fills in the records of the next array, or the end. Returns their
 * number.
 */
static unsigned int ddr_control_list(struct ddr_channel *ch, struct ddr_rec *rec)
{
	struct ddr_array *a;
	unsigned int n = 0;
	u64 listed;

	lockdep_assert_held(&ch->rmutex);
	spin_lock(&ddr_controls_lock);
	listed = ch->listed;
	spin_unlock(&ddr_controls_lock);
	a = ddr_array_next(listed);

	spin_lock(&ddr_controls_lock);
	if (ch->listed != listed) {
		/* restarted meanwhile */
	} else if (a) {
		ch->listed = a->cookie;
		ddr_control_rec(&rec[n++], DDR_K_APPEARED, a);
		if (!test_bit(DDR_A_SUSPENDED, &a->flags))
			ddr_control_rec(&rec[n++], DDR_K_RESUMED, a);
	} else {
		ch->listing = false;
		ddr_control_rec(&rec[n++], DDR_K_LIST_END, NULL);
	}
	spin_unlock(&ddr_controls_lock);
	if (a)
		ddr_array_put(a);
	return n;
}

int ddr_control_fill(struct ddr_channel *ch)
{
	unsigned int n = 0;

	lockdep_assert_held(&ch->rmutex);
	while (READ_ONCE(ch->listing) && n + 2 <= DDR_BATCH)
		n += ddr_control_list(ch, &ch->out[n]);
	spin_lock(&ddr_controls_lock);
	while (!ch->listing && ch->ring_n && n < DDR_BATCH) {
		ch->out[n++] = ch->ring[ch->ring_pos];
		ch->ring_pos = (ch->ring_pos + 1) % DDR_RING;
		ch->ring_n--;
	}
	spin_unlock(&ddr_controls_lock);
	return n;
}

void ddr_control_add(struct ddr_channel *ch)
{
	ch->listing = true;
	spin_lock(&ddr_controls_lock);
	list_add_tail(&ch->controls, &ddr_controls);
	spin_unlock(&ddr_controls_lock);
}

void ddr_control_del(struct ddr_channel *ch)
{
	spin_lock(&ddr_controls_lock);
	list_del_init(&ch->controls);
	spin_unlock(&ddr_controls_lock);
}
