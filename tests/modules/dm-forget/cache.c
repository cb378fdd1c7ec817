// SPDX-License-Identifier: GPL-2.0-only
/*
 * dm-forget: the cache in memory, and the bad sectors. It holds only
 * unflushed sectors: all others are read from the device below.
 */
#include "forget.h"

/* The sectors of unit @index that lie in [start, end). */
u8 unit_mask(unsigned long index, sector_t start, sector_t end)
{
	sector_t first = (sector_t)index << UNIT_SHIFT;
	unsigned int from = start > first ? start - first : 0;
	unsigned int to = min_t(sector_t, end - first, UNIT_SECTORS);

	return (u8)((0xff << from) & (0xff >> (UNIT_SECTORS - to)));
}

static void unit_free(struct unit *unit)
{
	kfree(unit->data);
	kfree(unit);
}

/*
 * The unit of the cache at @index, made if absent. With @zero no data is wanted.
 * Holds lock. NULL: no memory.
 */
static struct unit *unit_get(struct forget *f, unsigned long index, bool zero)
{
	struct unit *unit = xa_load(&f->cache, index);
	bool fresh = !unit;

	if (fresh) {
		unit = kzalloc(sizeof(*unit), GFP_NOIO | __GFP_NOWARN);
		if (!unit)
			return NULL;
	}
	if (!unit->data && !zero) {
		unit->data = kzalloc(UNIT_BYTES, GFP_NOIO | __GFP_NOWARN);
		if (!unit->data)
			goto no_memory;
	}
	if (fresh && xa_err(xa_store(&f->cache, index, unit, GFP_NOIO | __GFP_NOWARN)))
		goto no_memory;
	return unit;

no_memory:
	if (fresh)
		unit_free(unit);
	return NULL;
}

/* Note that the sectors @mask of @unit hold data of a new write. Holds lock. */
static void unit_dirtied(struct forget *f, struct unit *unit, u8 mask, u32 id)
{
	unsigned int i;

	f->unflushed += hweight8(mask & ~unit->dirty);
	unit->dirty |= mask;
	unit->again |= mask;
	for (i = 0; i < UNIT_SECTORS; i++)
		if (mask & (1u << i))
			unit->write_id[i] = id;
}

/* The sectors @mask of unit @index are on the medium, or lost. Holds lock. */
void unit_cleaned(struct forget *f, unsigned long index, struct unit *unit, u8 mask)
{
	f->unflushed -= hweight8(unit->dirty & mask);
	unit->dirty &= ~mask;
	if (!unit->dirty) {
		xa_erase(&f->cache, index);
		unit_free(unit);
	}
}

/* The low byte of a unit's entry: its bad sectors; the next one: those that fail plainly. */
static unsigned long bad_entry(struct forget *f, unsigned long index)
{
	void *entry = xa_load(&f->bad, index);

	return entry ? xa_to_value(entry) : 0;
}

u8 bad_mask(struct forget *f, unsigned long index)
{
	return bad_entry(f, index) & 0xff;
}

/* Of the bad sectors of a unit those that fail with a plain I/O error. */
u8 bad_plain(struct forget *f, unsigned long index)
{
	return bad_entry(f, index) >> UNIT_SECTORS;
}

static int bad_set(struct forget *f, unsigned long index, u8 mask, u8 plain)
{
	u8 old = bad_mask(f, index);
	void *entry = NULL;

	if (mask == old && plain == bad_plain(f, index))
		return 0;
	if (mask)
		entry = xa_store(&f->bad, index,
				 xa_mk_value(mask | (unsigned long)plain << UNIT_SECTORS),
				 GFP_NOIO);
	else
		xa_erase(&f->bad, index);
	if (xa_err(entry))
		return xa_err(entry);
	f->bad_sectors += hweight8(mask);
	f->bad_sectors -= hweight8(old);
	return 0;
}

/* The sectors @mask of a unit are bad, of this kind; 0 or -ENOMEM. Holds lock. */
int bad_add(struct forget *f, unsigned long index, u8 mask, bool plain)
{
	u8 others = bad_plain(f, index) & ~mask;

	return bad_set(f, index, bad_mask(f, index) | mask, plain ? others | mask : others);
}

/* The sectors @mask of a unit are not bad any more. Holds lock. */
void bad_heal(struct forget *f, unsigned long index, u8 mask)
{
	bad_set(f, index, bad_mask(f, index) & ~mask, bad_plain(f, index) & ~mask);
}

/* Empty the cache. */
void drop_cache(struct forget *f)
{
	unsigned long index;
	struct unit *unit;

	mutex_lock(&f->lock);
	xa_for_each(&f->cache, index, unit)
		unit_cleaned(f, index, unit, 0xff);
	mutex_unlock(&f->lock);
}

/*
 * Copy between the bio's data and the cache, [start, start + size of the bio).
 * Segments may begin and end anywhere. Holds lock; where cached data is read
 * the units exist, and so do units with data where they are written.
 */
void copy_bio(struct forget *f, struct bio *bio, sector_t start, bool to_cache)
{
	u64 pos = (u64)start << SECTOR_SHIFT;
	struct bvec_iter iter;
	struct bio_vec bv;

	bio_for_each_segment(bv, bio, iter) {
		u8 *base = bvec_kmap_local(&bv);
		unsigned int done = 0;

		while (done < bv.bv_len) {
			struct unit *unit = xa_load(&f->cache, pos / UNIT_BYTES);
			unsigned int at = pos % UNIT_BYTES;
			unsigned int len = min(bv.bv_len - done, UNIT_BYTES - at);

			if (to_cache)
				memcpy(unit->data + at, base + done, len);
			else if (unit->data)
				memcpy(base + done, unit->data + at, len);
			else
				memset(base + done, 0, len);
			done += len;
			pos += len;
		}
		kunmap_local(base);
		if (!to_cache)
			flush_dcache_page(bv.bv_page);
	}
}

/* Copy what the cache holds of [start, end), for the end of the bio. Holds lock. */
struct overlay *overlay_make(struct forget *f, sector_t start, sector_t end)
{
	size_t size = sizeof(struct overlay) + ((end - start) << SECTOR_SHIFT);
	struct overlay *overlay = kvmalloc(size, GFP_NOIO);
	sector_t s;

	if (!overlay)
		return NULL;
	bitmap_zero(overlay->map, MAX_IO_SECTORS);
	for (s = start; s < end; s++) {
		struct unit *unit = xa_load(&f->cache, s >> UNIT_SHIFT);
		unsigned int at = s & (UNIT_SECTORS - 1);
		u8 *to = overlay->data + ((s - start) << SECTOR_SHIFT);

		if (!unit || !(unit->dirty & (1u << at)))
			continue;
		if (unit->data)
			memcpy(to, unit->data + (at << SECTOR_SHIFT), SECTOR_SIZE);
		else
			memset(to, 0, SECTOR_SIZE);
		__set_bit(s - start, overlay->map);
	}
	return overlay;
}

/* Lay the cached sectors over what came from below. Any context. */
void overlay_apply(struct bio *bio, struct forget_io *io)
{
	struct bvec_iter iter;
	struct bio_vec bv;
	unsigned int pos = 0;

	__bio_for_each_segment(bv, bio, iter, io->iter) {
		u8 *base = bvec_kmap_local(&bv);
		unsigned int done = 0;

		while (done < bv.bv_len) {
			unsigned int len = min_t(unsigned int, bv.bv_len - done,
						 SECTOR_SIZE - pos % SECTOR_SIZE);

			if (test_bit(pos >> SECTOR_SHIFT, io->overlay->map))
				memcpy(base + done, io->overlay->data + pos, len);
			done += len;
			pos += len;
		}
		kunmap_local(base);
		flush_dcache_page(bv.bv_page);
	}
}

/* Make the units of [start, end), all or none; false: no memory. Holds lock. */
static bool units_make(struct forget *f, sector_t start, sector_t end, bool zero)
{
	unsigned long first = start >> UNIT_SHIFT, last = (end - 1) >> UNIT_SHIFT;
	unsigned long index;
	struct unit *unit;

	for (index = first; index <= last; index++) {
		if (!unit_get(f, index, zero && unit_mask(index, start, end) == 0xff))
			break;
		cond_resched();
	}
	if (index > last)
		return true;
	xa_for_each_range(&f->cache, index, unit, first, last)
		if (!unit->dirty)
			unit_cleaned(f, index, unit, 0);
	DMERR_LIMIT("no memory for the cache: flush, or set a limit");
	return false;
}

/* Make the sectors @mask of a unit zeroes. Holds lock. */
static void unit_zero(struct unit *unit, u8 mask)
{
	if (mask == 0xff) {
		kfree(unit->data);
		unit->data = NULL;
	} else {
		memset(unit->data + (__ffs(mask) << SECTOR_SHIFT), 0,
		       hweight8(mask) << SECTOR_SHIFT);
	}
}

/* Put a write into the cache, zeroes where @zero; *id gets the write's number. */
blk_status_t cache_write(struct forget *f, struct bio *bio, sector_t start, sector_t end,
				bool zero, u32 *id)
{
	unsigned long index, last = (end - 1) >> UNIT_SHIFT;
	blk_status_t status = BLK_STS_OK;

	mutex_lock(&f->lock);
	if (io_of(bio)->epoch != f->epoch)
		status = BLK_STS_IOERR;
	else if (!units_make(f, start, end, zero))
		status = BLK_STS_RESOURCE;
	if (status)
		goto out;
	*id = ++f->last_write_id;
	if (!zero)
		copy_bio(f, bio, start, true);
	for (index = start >> UNIT_SHIFT; index <= last; index++) {
		struct unit *unit = xa_load(&f->cache, index);
		u8 mask = unit_mask(index, start, end);

		if (zero)
			unit_zero(unit, mask);
		unit_dirtied(f, unit, mask, *id);
		cond_resched();
	}
out:
	mutex_unlock(&f->lock);
	return status;
}
