// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/ddraid: its file operations, and the channel of one array. doc/kernel-interface.md
 * describes the records; record.c makes them.
 *
 * They are staged in the channel, copied, and only then count as read. If the copy faults they
 * stay staged.
 *
 * Must never: trust a field of a record before it was checked; let a superseded descriptor
 * change anything; wait for I/O in write().
 *
 * Locks: ch->rmutex (staged records) and ch->wmutex (records written) belong to the descriptor;
 * a bind takes both. Inside them a->ctl_mutex: commands, binds and fills of one array run one at
 * a time, and each checks there whether its descriptor is still the array's. dm-ddraid.h has the
 * order of all locks.
 *
 * Lifetime: a channel is freed by the last close. a->channel points to it from bind to close or
 * supersession, under a->lock; ch->array holds a reference from bind to close.
 */
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "array.h"
#include "channel.h"
#include "engine.h"
#include "heard.h"
#include "range.h"
#include "region.h"

#define DDR_WRITE_BUDGET	(4 << 20)	/* regions touched by one write(), about */

/* ---- read ------------------------------------------------------------------------------- */

/* Under ctl_mutex: is @ch still the channel of its array? */
static bool ddr_channel_current(struct ddr_channel *ch)
{
	lockdep_assert_held(&ch->array->ctl_mutex);
	return ch->array->channel == ch;
}

static int ddr_fill_bound(struct ddr_channel *ch)
{
	struct ddr_array *a = ch->array;
	unsigned int n;

	lockdep_assert_held(&ch->rmutex);
	if (mutex_lock_interruptible(&a->ctl_mutex))
		return -ERESTARTSYS;
	if (!ddr_channel_current(ch)) {
		mutex_unlock(&a->ctl_mutex);
		return -ESTALE;
	}
	ddr_array_heard(a, ch->session.enabled);
	n = ddr_channel_fill(ch);
	mutex_unlock(&a->ctl_mutex);
	return n;
}

static int ddr_fill(struct ddr_channel *ch)
{
	int n = 0;

	lockdep_assert_held(&ch->rmutex);
	if (ch->out_pos < ch->out_n)
		return 0;
	switch (ddr_channel_state(ch)) {
	case DDR_CH_CONTROL:
		n = ddr_control_fill(ch);
		break;
	case DDR_CH_BOUND:
		n = ddr_fill_bound(ch);
		break;
	case DDR_CH_STALE:
		n = -ESTALE;
		break;
	}
	ch->out_pos = 0;
	ch->out_n = max(n, 0);
	return min(n, 0);
}

/* The daemon has read @n records from @rec on. */
static void ddr_channel_sent(struct ddr_channel *ch, const struct ddr_rec *rec, unsigned int n)
{
	struct ddr_array *a = ch->array;

	lockdep_assert_held(&ch->rmutex);
	if (!a)
		return;
	mutex_lock(&a->ctl_mutex);
	for (; n && ddr_channel_current(ch); n--, rec++)
		ddr_region_sent(a, rec);
	mutex_unlock(&a->ctl_mutex);
}

static bool ddr_channel_readable(struct ddr_channel *ch)
{
	enum ddr_channel_state state = ddr_channel_state(ch);
	struct ddr_array *a;

	if (state == DDR_CH_CONTROL)
		return READ_ONCE(ch->listing) || READ_ONCE(ch->ring_n);
	a = ch->array;
	if (state == DDR_CH_STALE || READ_ONCE(a->gone))
		return true;
	return READ_ONCE(ch->out_pos) < READ_ONCE(ch->out_n) || ddr_region_pending(a) ||
	       READ_ONCE(ch->session.pong_due) || ddr_channel_stopped(ch) ||
	       !list_empty(&ch->ready) || !list_empty(&a->records) ||
	       test_bit(DDR_A_SUSPENDED, &a->flags) != READ_ONCE(ch->told_suspended);
}

static bool ddr_channel_eof(struct ddr_channel *ch)
{
	return ddr_channel_state(ch) == DDR_CH_BOUND && READ_ONCE(ch->array->gone);
}

static ssize_t ddr_channel_read(struct file *file, char __user *buf, size_t len, loff_t *pos)
{
	struct ddr_channel *ch = file->private_data;
	size_t room = len / sizeof(struct ddr_rec), done = 0;
	unsigned int n;
	bool eof;
	int r;

	if (!room)
		return -EINVAL;
again:
	if (mutex_lock_interruptible(&ch->rmutex))
		return -ERESTARTSYS;
	do {
		eof = ddr_channel_eof(ch);	/* first: all older records are staged now */
		r = ddr_fill(ch);
		n = min_t(size_t, ch->out_n - ch->out_pos, room - done);
		if (!n)
			break;
		if (copy_to_user(buf + done * sizeof(struct ddr_rec), &ch->out[ch->out_pos],
				 n * sizeof(struct ddr_rec))) {
			r = -EFAULT;
			break;
		}
		ddr_channel_sent(ch, &ch->out[ch->out_pos], n);
		ch->out_pos += n;
		done += n;
	} while (done < room && !signal_pending(current));
	mutex_unlock(&ch->rmutex);

	if (done)
		return done * sizeof(struct ddr_rec);
	if (r || eof)
		return r;
	if (file->f_flags & O_NONBLOCK)
		return -EAGAIN;
	if (wait_event_interruptible(ch->wait, ddr_channel_readable(ch)))
		return -ERESTARTSYS;
	goto again;
}

static __poll_t ddr_channel_poll(struct file *file, poll_table *wait)
{
	struct ddr_channel *ch = file->private_data;
	__poll_t mask = EPOLLOUT | EPOLLWRNORM;

	poll_wait(file, &ch->wait, wait);
	if (ddr_channel_readable(ch))
		mask |= EPOLLIN | EPOLLRDNORM;
	if (ddr_channel_state(ch) == DDR_CH_STALE)
		mask |= EPOLLERR | EPOLLHUP;
	else if (ddr_channel_eof(ch))
		mask |= EPOLLHUP;
	return mask;
}

/* ---- write --------------------------------------------------------------------------------- */

/* Runs @n records, and adds the number that it took to @done. */
static int ddr_write_batch(struct ddr_channel *ch, unsigned int n, size_t *done, s64 *budget)
{
	struct ddr_array *a = ch->array;
	unsigned int i;
	int r = 0;

	lockdep_assert_held(&ch->wmutex);
	if (mutex_lock_interruptible(&a->ctl_mutex))
		return -ERESTARTSYS;
	if (!ddr_channel_current(ch))
		r = -ESTALE;
	else if (a->gone)
		r = -ENODEV;
	else if (!ddr_array_heard(a, ch->session.enabled))
		r = -ETIME;	/* decided before the silence that ends here */
	for (i = 0; i < n && !r && *budget > 0; i++) {
		r = ddr_command_run(a, &ch->session, &ch->in[i], budget);
		*done += !r;
		cond_resched();
	}
	mutex_unlock(&a->ctl_mutex);
	return r;
}

static ssize_t ddr_channel_write(struct file *file, const char __user *buf, size_t len, loff_t *pos)
{
	struct ddr_channel *ch = file->private_data;
	size_t total = len / sizeof(struct ddr_rec), done = 0, n;
	s64 budget = DDR_WRITE_BUDGET;
	int r = 0;

	if (len % sizeof(struct ddr_rec))
		return -EINVAL;
	if (ddr_channel_state(ch) == DDR_CH_CONTROL)
		return -ENOTCONN;
	if (ddr_channel_state(ch) == DDR_CH_STALE)
		return -ESTALE;
	if (mutex_lock_interruptible(&ch->wmutex))
		return -ERESTARTSYS;
	while (!r && done < total && budget > 0) {
		n = min_t(size_t, total - done, DDR_BATCH);
		if (copy_from_user(ch->in, buf + done * sizeof(struct ddr_rec),
				   n * sizeof(struct ddr_rec)))
			r = -EFAULT;
		else
			r = ddr_write_batch(ch, n, &done, &budget);
		if (signal_pending(current))
			break;
	}
	mutex_unlock(&ch->wmutex);
	return done ? done * sizeof(struct ddr_rec) : r;
}

/* ---- bind ---------------------------------------------------------------------------------- */

/* Under ctl_mutex: @ch is not the array's channel any more, and nothing waits to be read by it. */
static void ddr_channel_unhook(struct ddr_array *a, struct ddr_channel *ch)
{
	struct ddr_krec *k, *n;

	lockdep_assert_held(&a->ctl_mutex);
	spin_lock_irq(&a->lock);
	a->channel = NULL;
	ddr_channel_set_state(ch, DDR_CH_STALE);
	list_splice_init(&ch->ready, &a->records);
	list_for_each_entry_safe(k, n, &a->records, link)
		list_del_init(&k->link);
	spin_unlock_irq(&a->lock);
	wake_up_poll(&ch->wait, EPOLLIN | EPOLLERR | EPOLLHUP);
}

static void ddr_channel_hook(struct ddr_array *a, struct ddr_channel *ch, const struct ddr_bind *b)
{
	lockdep_assert_held(&ch->rmutex);
	lockdep_assert_held(&ch->wmutex);
	lockdep_assert_held(&a->ctl_mutex);
	if (a->channel)
		ddr_channel_unhook(a, a->channel);
	ddr_range_orphan_all(a);
	ddr_io_member_forget(a);
	ddr_region_declare(a);

	ddr_control_del(ch);
	ch->out_pos = 0;
	ch->out_n = 0;
	ch->array = a;
	a->epoch = b->epoch;
	spin_lock_irq(&a->lock);
	a->channel = ch;
	ddr_channel_set_state(ch, DDR_CH_BOUND);
	spin_unlock_irq(&a->lock);
	ddr_array_bound(a, b->timeout_ms);
	ddr_error_redeclare(a);
	wake_up_poll(&ch->wait, EPOLLIN | EPOLLRDNORM);
	DMINFO("%s: a daemon has attached, epoch %llu", a->label, b->epoch);
}

/* The devices of a table that cannot be removed meanwhile. */
static void ddr_bind_devices(const struct ddr_target *t, struct ddr_bind *b)
{
	unsigned int m;

	for (m = 0; m < DDR_PLACES; m++) {
		if (!t->dev[m].dm)
			continue;
		b->dev_major[m] = MAJOR(t->dev[m].dm->bdev->bd_dev);
		b->dev_minor[m] = MINOR(t->dev[m].dm->bdev->bd_dev);
	}
	b->shadow_place = t->dev[DDR_SHADOW].dm ? t->shadow_place : DDR_NO_MEMBER;
}

/*
 * Under ctl_mutex: describes the active table, or (@loaded) the one that was loaded and will be
 * the first; -EAGAIN if there is none.
 */
static int ddr_bind_describe(struct ddr_array *a, struct ddr_bind *b, bool loaded)
{
	struct ddr_target *t;
	int r;

	lockdep_assert_held(&a->ctl_mutex);
	rcu_read_lock();
	t = rcu_dereference(a->active);
	if (t)
		ddr_bind_devices(t, b);
	rcu_read_unlock();
	r = t ? 0 : loaded ? ddr_array_bind_loaded(a, ddr_bind_devices, b) : -EAGAIN;
	if (r)
		return r;
	b->flags = t ? 0 : DDR_BIND_F_LOADED;
	b->shadow_state = READ_ONCE(a->member[DDR_SHADOW].state);
	b->order = a->geo.order;
	b->parity = a->geo.parity;
	b->layout = a->geo.rotating;
	b->region_sectors = DDR_BLOCK_SECTORS << a->region_blocks_shift;
	b->members = a->geo.roles;
	b->data_offset_sectors = a->data_offset;
	b->sectors = a->blocks * DDR_BLOCK_SECTORS;
	b->cookie = a->cookie;
	b->dm_major = MAJOR(a->dev);
	b->dm_minor = MINOR(a->dev);
	return 0;
}

/* Under rmutex and wmutex of @ch. @out: the answer, if 0 is returned. */
static int ddr_bind(struct ddr_channel *ch, const struct ddr_bind *in, struct ddr_bind *out)
{
	struct ddr_array *a;
	uuid_t uuid;
	u32 tables;
	int r;

	lockdep_assert_held(&ch->rmutex);
	lockdep_assert_held(&ch->wmutex);
	if (ch->state != DDR_CH_CONTROL)
		return ch->state == DDR_CH_STALE ? -ESTALE : -EBUSY;
	import_uuid(&uuid, in->uuid);
	a = ddr_array_find(&uuid);
	if (!a)
		return -ENOENT;
	r = mutex_lock_interruptible(&a->ctl_mutex);
	if (r)
		goto put;
	/*
	 * with ddr_array_activate(): the table described is this one, or a later one, which
	 * ENABLE is then not for
	 */
	tables = smp_load_acquire(&a->tables);
	if (a->nosync)
		r = -EOPNOTSUPP;
	else if (a->gone)
		r = -ENOENT;
	else if (in->epoch <= a->epoch)
		r = -ESTALE;
	else
		r = ddr_bind_describe(a, out, in->flags & DDR_BIND_F_LOADED);
	if (!r) {
		ch->session.tables = tables;
		ddr_channel_hook(a, ch, in);
	}
	mutex_unlock(&a->ctl_mutex);
	if (!r)
		return 0;	/* the channel keeps the reference */
put:
	ddr_array_put(a);
	return r;
}

static long ddr_ioctl_bind(struct ddr_channel *ch, struct ddr_bind __user *arg)
{
	struct ddr_bind in, out;
	int r;

	if (copy_from_user(&in, arg, sizeof(in)))
		return -EFAULT;
	if (in.abi != DDR_ABI_VERSION)
		return put_user(DDR_ABI_VERSION, &arg->abi) ? -EFAULT : -EPROTO;
	if ((in.flags & ~DDR_BIND_F_LOADED) || in.lowest || in.highest || in.reserved ||
	    in.timeout_ms < DDR_MIN_TIMEOUT_MS || in.timeout_ms > DDR_MAX_TIMEOUT_MS)
		return -EINVAL;
	out = (struct ddr_bind) {
		.abi = in.abi, .epoch = in.epoch, .timeout_ms = in.timeout_ms,
		.lowest = DDR_SERVES_LOWEST, .highest = DDR_SERVES_HIGHEST,
	};
	memcpy(out.uuid, in.uuid, sizeof(out.uuid));

	if (mutex_lock_interruptible(&ch->rmutex))
		return -ERESTARTSYS;
	r = -ERESTARTSYS;
	if (!mutex_lock_interruptible(&ch->wmutex)) {
		r = ddr_bind(ch, &in, &out);
		mutex_unlock(&ch->wmutex);
	}
	mutex_unlock(&ch->rmutex);
	if (!r && copy_to_user(arg, &out, sizeof(out)))
		r = -EFAULT;
	return r;
}

static long ddr_channel_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	if (cmd != DDR_IOC_BIND)
		return -ENOTTY;
	return ddr_ioctl_bind(file->private_data, (struct ddr_bind __user *)arg);
}

/* ---- open and close ------------------------------------------------------------------------- */

static int ddr_channel_open(struct inode *inode, struct file *file)
{
	struct ddr_channel *ch;

	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	ch = ddr_alloc(kvzalloc(sizeof(*ch), GFP_KERNEL));
	if (!ch)
		return -ENOMEM;
	mutex_init(&ch->rmutex);
	mutex_init(&ch->wmutex);
	init_waitqueue_head(&ch->wait);
	INIT_LIST_HEAD(&ch->ready);
	file->private_data = ch;
	ddr_control_add(ch);
	return nonseekable_open(inode, file);
}

static int ddr_channel_release(struct inode *inode, struct file *file)
{
	struct ddr_channel *ch = file->private_data;
	struct ddr_array *a = ch->array;
	bool bound;

	ddr_control_del(ch);
	if (a) {
		mutex_lock(&a->ctl_mutex);
		bound = ddr_channel_current(ch);
		if (bound)
			ddr_channel_unhook(a, ch);
		mutex_unlock(&a->ctl_mutex);
		if (bound)
			ddr_array_unbound(a);
		ddr_array_put(a);
	}
	mutex_destroy(&ch->rmutex);
	mutex_destroy(&ch->wmutex);
	kvfree(ch);
	return 0;
}

static const struct file_operations ddr_channel_fops = {
	.owner		= THIS_MODULE,
	.open		= ddr_channel_open,
	.release	= ddr_channel_release,
	.read		= ddr_channel_read,
	.write		= ddr_channel_write,
	.poll		= ddr_channel_poll,
	.unlocked_ioctl	= ddr_channel_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.llseek		= noop_llseek,
};

static struct miscdevice ddr_misc = {
	.minor		= MISC_DYNAMIC_MINOR,
	.name		= DDR_DEVICE_NAME,
	.mode		= 0600,
	.fops		= &ddr_channel_fops,
};

int ddr_channel_init(void)
{
	BUILD_BUG_ON(sizeof(struct ddr_rec) != 64);
	BUILD_BUG_ON(sizeof(struct ddr_bind) != 192);
	return ddr_alloc_int(misc_register(&ddr_misc));
}

void ddr_channel_exit(void)
{
	misc_deregister(&ddr_misc);
}
