// SPDX-License-Identifier: GPL-2.0-only
/*
 * dm-forget: a disk with a volatile write cache, for tests.
 *
 * A write is acknowledged once it is in memory. It reaches the device below
 * with the next FLUSH, or by its own FUA, and not before: unflushed writes are
 * lost when the machine dies, or when a message says so. A FLUSH makes durable
 * all writes that were completed before it was issued, a FUA write itself only;
 * reads see the cache. Removing or reloading the table is a power cut, too.
 *
 * The cache keeps the newest version of a sector. "leak" simulates that an older
 * unflushed version survives while the newer one is lost.
 *
 * Table:	<start> <length> forget <device> <offset in sectors> [through]
 *
 * With "through" there is no cache: each write goes to the device below before it
 * is acknowledged, so several machines may share that device. Failures, hangs,
 * delays and bad sectors still work (a write repairs them as it begins);
 * "forget" loses nothing then.
 *
 * Messages:
 *   forget [all | torn SEED | random SEED]
 *		Power cut: all I/O fails until "revive", and of what was not
 *		flushed is lost: everything; each sector by a coin; each whole
 *		write by a coin. What is not lost reaches the device below.
 *   revive	Power is back. Let I/O that was on its way end (with an error)
 *		before; what still waits here from before the cut fails.
 *   leak PERCENT SEED
 *		From now on that share of the sectors of each unflushed write
 *		reaches the device below right away, and still counts as
 *		unflushed. 0: off (the default).
 *   limit MIB	When more than this is unflushed, all of it is written to the
 *		device below, as a disk does by itself. 0: never (the default).
 *   bad add START LENGTH [ioerr] | bad clear
 *		Sectors whose reads fail as medium errors until a write of them
 *		has reached the medium; with "ioerr" as plain I/O errors, which is
 *		all that many disks say of a bad sector. A read that meets both
 *		kinds fails plainly; a sector that is added again is of the new kind.
 *   fail read | write | flush | all | none
 *		Fail these operations with an I/O error (they add up).
 *   delay MS [SPREAD]
 *		Serve each I/O so much later, and by up to SPREAD ms more, drawn
 *		for each: then they overtake each other. 0: at once (the default).
 *   hang on | off
 *		Hold all I/O that comes, and serve it when off. While it is on,
 *		a suspend waits for what is held.
 *   strict on | off
 *		Fail each I/O of which a piece of memory is no multiple of the
 *		logical block, as drivers may. off: the default.
 *   reset	Set the counters to zero.
 *
 * Status:	alive|dead reads=N writes=N flushes=N fua=N zeroes=N
 *		read_bytes=N written_bytes=N unflushed_bytes=N bad=N held=N
 *		background=N prio=N
 *		(background: I/Os with REQ_BACKGROUND; prio: of the last I/O;
 *		writes without zeroes; fua and zeroes as part of write_bytes)
 */
#include <linux/module.h>

#include "forget.h"

static int msg_forget(struct forget *f, unsigned int argc, char **argv)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct job job = { .type = JOB_FORGET, .done = &done, .sel = everything(f) };

	if (argc == 3 && !strcasecmp(argv[1], "torn"))
		job.sel.pick = PICK_SECTORS;
	else if (argc == 3 && !strcasecmp(argv[1], "random"))
		job.sel.pick = PICK_WRITES;
	else if (argc > 2 || (argc == 2 && strcasecmp(argv[1], "all")))
		return -EINVAL;
	if (job.sel.pick != PICK_ALL) {
		if (kstrtou64(argv[2], 0, &job.sel.seed))
			return -EINVAL;
		job.sel.percent = 50;
	}
	mutex_lock(&f->lock);
	WRITE_ONCE(f->dead, true);
	WRITE_ONCE(f->epoch, f->epoch + 1);
	mutex_unlock(&f->lock);
	job_queue(f, &job);
	wait_for_completion(&done);
	return job.status ? blk_status_to_errno(job.status) : 0;
}

static int msg_leak(struct forget *f, unsigned int argc, char **argv)
{
	unsigned int percent;
	u64 seed;

	if (argc != 3 || kstrtouint(argv[1], 0, &percent) || percent > 100 ||
	    kstrtou64(argv[2], 0, &seed))
		return -EINVAL;
	f->leak_seed = seed;
	WRITE_ONCE(f->leak_percent, percent);
	return 0;
}

static int msg_limit(struct forget *f, unsigned int argc, char **argv)
{
	unsigned int mib;

	if (argc != 2 || kstrtouint(argv[1], 0, &mib) || mib > MAX_LIMIT_MIB)
		return -EINVAL;
	WRITE_ONCE(f->limit_sectors, (u64)mib << (20 - SECTOR_SHIFT));
	return 0;
}

static int msg_bad(struct forget *f, unsigned int argc, char **argv)
{
	unsigned long index;
	u64 start, length;
	int ret = 0;

	if (argc == 2 && !strcasecmp(argv[1], "clear")) {
		mutex_lock(&f->lock);
		xa_destroy(&f->bad);
		f->bad_sectors = 0;
		mutex_unlock(&f->lock);
		return 0;
	}
	if (argc < 4 || argc > 5 || strcasecmp(argv[1], "add") ||
	    kstrtou64(argv[2], 0, &start) || kstrtou64(argv[3], 0, &length) || !length ||
	    start >= f->ti->len || length > f->ti->len - start ||
	    (argc == 5 && strcasecmp(argv[4], "ioerr")))
		return -EINVAL;
	mutex_lock(&f->lock);
	for (index = start >> UNIT_SHIFT; !ret && index <= (start + length - 1) >> UNIT_SHIFT;
	     index++)
		ret = bad_add(f, index, unit_mask(index, start, start + length), argc == 5);
	mutex_unlock(&f->lock);
	return ret;
}

static int msg_fail(struct forget *f, unsigned int argc, char **argv)
{
	static const struct {
		const char *name;
		unsigned int bits;
	} words[] = {
		{ "read", FAIL_READ }, { "write", FAIL_WRITE }, { "flush", FAIL_FLUSH },
		{ "all", FAIL_READ | FAIL_WRITE | FAIL_FLUSH }, { "none", 0 },
	};
	unsigned int i;

	for (i = 0; argc == 2 && i < ARRAY_SIZE(words); i++) {
		if (strcasecmp(argv[1], words[i].name))
			continue;
		WRITE_ONCE(f->fail, words[i].bits ? f->fail | words[i].bits : 0);
		return 0;
	}
	return -EINVAL;
}

static int msg_delay(struct forget *f, unsigned int argc, char **argv)
{
	unsigned int ms, spread = 0;

	if (argc < 2 || argc > 3 || kstrtouint(argv[1], 0, &ms) || ms > MAX_DELAY_MS ||
	    (argc == 3 && (kstrtouint(argv[2], 0, &spread) || spread > MAX_DELAY_MS)))
		return -EINVAL;
	WRITE_ONCE(f->delay_ms, ms);
	WRITE_ONCE(f->spread_ms, spread);
	return 0;
}

static int msg_hang(struct forget *f, unsigned int argc, char **argv)
{
	bool on;

	if (argc != 2 || kstrtobool(argv[1], &on))
		return -EINVAL;
	spin_lock_irq(&f->queue_lock);
	f->hang = on;
	if (!on) {
		f->held_count -= bio_list_size(&f->held);
		bio_list_merge(&f->ready, &f->held);
		bio_list_init(&f->held);
	}
	spin_unlock_irq(&f->queue_lock);
	queue_work(f->front, &f->release);
	return 0;
}

static int msg_strict(struct forget *f, unsigned int argc, char **argv)
{
	bool on;

	if (argc != 2 || kstrtobool(argv[1], &on))
		return -EINVAL;
	WRITE_ONCE(f->strict, on);
	return 0;
}

static int msg_revive(struct forget *f, unsigned int argc, char **argv)
{
	if (argc != 1)
		return -EINVAL;
	WRITE_ONCE(f->dead, false);
	return 0;
}

static int msg_reset(struct forget *f, unsigned int argc, char **argv)
{
	if (argc != 1)
		return -EINVAL;
	atomic64_set(&f->reads, 0);
	atomic64_set(&f->writes, 0);
	atomic64_set(&f->flushes, 0);
	atomic64_set(&f->fua, 0);
	atomic64_set(&f->zeroes, 0);
	atomic64_set(&f->read_bytes, 0);
	atomic64_set(&f->written_bytes, 0);
	atomic64_set(&f->background, 0);
	return 0;
}

static int forget_message(struct dm_target *ti, unsigned int argc, char **argv,
			  char *result, unsigned int maxlen)
{
	static const struct {
		const char *name;
		int (*fn)(struct forget *f, unsigned int argc, char **argv);
	} messages[] = {
		{ "forget", msg_forget }, { "revive", msg_revive }, { "leak", msg_leak },
		{ "limit", msg_limit }, { "bad", msg_bad }, { "fail", msg_fail },
		{ "delay", msg_delay }, { "hang", msg_hang }, { "reset", msg_reset },
		{ "strict", msg_strict },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(messages); i++)
		if (!strcasecmp(argv[0], messages[i].name))
			return messages[i].fn(ti->private, argc, argv);
	DMWARN("unknown message %s", argv[0]);
	return -EINVAL;
}

/* --- table ---------------------------------------------------------------- */

static void forget_free(struct forget *f)
{
	unsigned int i;

	hrtimer_cancel(&f->timer);
	if (f->front)
		destroy_workqueue(f->front);
	if (f->back)
		destroy_workqueue(f->back);
	drop_cache(f);
	xa_destroy(&f->cache);
	xa_destroy(&f->bad);
	for (i = 0; i < OUT_UNITS; i++)
		if (f->out_pages[i])
			__free_page(f->out_pages[i]);
	if (f->dev)
		dm_put_device(f->ti, f->dev);
	kvfree(f);
}

static int forget_alloc(struct forget *f)
{
	unsigned int i;

	for (i = 0; i < OUT_UNITS; i++) {
		f->out_pages[i] = alloc_page(GFP_KERNEL);
		if (!f->out_pages[i])
			return -ENOMEM;
	}
	f->front = alloc_workqueue("dm-forget-front", WQ_MEM_RECLAIM | WQ_HIGHPRI | WQ_UNBOUND, 1);
	f->back = alloc_ordered_workqueue("dm-forget-back", WQ_MEM_RECLAIM);
	return f->front && f->back ? 0 : -ENOMEM;
}

static struct forget *forget_new(struct dm_target *ti)
{
	struct forget *f = kvzalloc(sizeof(*f), GFP_KERNEL);

	if (!f)
		return NULL;
	f->ti = ti;
	mutex_init(&f->lock);
	xa_init(&f->cache);
	xa_init(&f->bad);
	spin_lock_init(&f->queue_lock);
	INIT_LIST_HEAD(&f->jobs);
	INIT_WORK(&f->release, work_on_release);
	INIT_WORK(&f->worker, work_on_jobs);
	delay_timer_setup(f);
	return f;
}

static int forget_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	unsigned long long offset;
	struct forget *f;
	int ret = -EINVAL;

	if (argc < 2 || argc > 3 || kstrtoull(argv[1], 10, &offset) ||
	    (argc == 3 && strcmp(argv[2], "through"))) {
		ti->error = "Give <device> <offset in sectors> [through]";
		return -EINVAL;
	}
	f = forget_new(ti);
	if (!f) {
		ti->error = "Not enough memory";
		return -ENOMEM;
	}
	f->offset = offset;
	f->through = argc == 3;
	ret = dm_get_device(ti, argv[0], dm_table_get_mode(ti->table), &f->dev);
	if (ret) {
		ti->error = "Cannot open the device";
		goto bad;
	}
	ret = forget_alloc(f);
	if (ret) {
		ti->error = "Not enough memory";
		goto bad;
	}
	ret = dm_set_target_max_io_len(ti, MAX_IO_SECTORS);
	if (ret)
		goto bad;
	ti->num_flush_bios = 1;
	ti->num_discard_bios = 1;
	ti->num_write_zeroes_bios = 1;
	ti->flush_supported = true;
	ti->discards_supported = true;
	ti->per_io_data_size = sizeof(struct forget_io);
	ti->private = f;
	return 0;

bad:
	forget_free(f);
	return ret;
}

static void forget_dtr(struct dm_target *ti)
{
	forget_free(ti->private);
}

static void forget_status(struct dm_target *ti, status_type_t type, unsigned int flags,
			  char *result, unsigned int maxlen)
{
	struct forget *f = ti->private;
	unsigned int sz = 0;

	switch (type) {
	case STATUSTYPE_INFO:
		DMEMIT("%s reads=%lld writes=%lld flushes=%lld fua=%lld zeroes=%lld ",
		       f->dead ? "dead" : "alive", atomic64_read(&f->reads),
		       atomic64_read(&f->writes), atomic64_read(&f->flushes),
		       atomic64_read(&f->fua), atomic64_read(&f->zeroes));
		DMEMIT("read_bytes=%lld written_bytes=%lld unflushed_bytes=%llu bad=%llu held=%u ",
		       atomic64_read(&f->read_bytes), atomic64_read(&f->written_bytes),
		       READ_ONCE(f->unflushed) << SECTOR_SHIFT, READ_ONCE(f->bad_sectors),
		       READ_ONCE(f->held_count));
		DMEMIT("background=%lld prio=%u", atomic64_read(&f->background), READ_ONCE(f->prio));
		break;
	case STATUSTYPE_TABLE:
		DMEMIT("%s %llu%s", f->dev->name, (unsigned long long)f->offset,
		       f->through ? " through" : "");
		break;
	case STATUSTYPE_IMA:
		DMEMIT_TARGET_NAME_VERSION(ti->type);
		DMEMIT(",device_name=%s,offset=%llu,through=%c;", f->dev->name,
		       (unsigned long long)f->offset, f->through ? 'y' : 'n');
		break;
	}
}

static int forget_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn, void *data)
{
	struct forget *f = ti->private;

	return fn(ti, f->dev, f->offset, ti->len, data);
}

static void forget_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	if (((struct forget *)ti->private)->through)
		return;
	/* The cache takes discards as zeroes, whatever lies below. */
	limits->max_discard_sectors = UINT_MAX >> SECTOR_SHIFT;
	limits->max_hw_discard_sectors = UINT_MAX >> SECTOR_SHIFT;
	limits->discard_granularity = limits->logical_block_size;
	limits->discard_alignment = 0;
}

static struct target_type forget_target = {
	.name = "forget",
	.version = { 1, 0, 0 },
	.module = THIS_MODULE,
	.ctr = forget_ctr,
	.dtr = forget_dtr,
	.map = forget_map,
	.end_io = forget_end_io,
	.message = forget_message,
	.status = forget_status,
	.iterate_devices = forget_iterate_devices,
	.io_hints = forget_io_hints,
};

static int __init forget_init(void)
{
	return dm_register_target(&forget_target);
}

static void __exit forget_exit(void)
{
	dm_unregister_target(&forget_target);
}

module_init(forget_init);
module_exit(forget_exit);

MODULE_DESCRIPTION("device-mapper disk with a volatile write cache, for tests");
MODULE_LICENSE("GPL");
