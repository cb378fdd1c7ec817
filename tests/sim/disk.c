// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Model disks. A plain write lands in a volatile cache; FLUSH moves to the media what was in the cache when it was issued, and
 * nothing that arrived later; metadata is written with FUA, lands on the media, and may be torn in a crash.
 */
#include <string.h>

#include "sim.h"

static uint64_t writes;		/* of all disks: used as a clock */

uint64_t disk_now(void)
{
	return writes;
}

void disk_write(struct disk *d, uint64_t block, uint64_t token)
{
	writes++;
	if (!d->cached[block])
		d->since[block] = writes;
	d->cache[block] = token;
	d->cached[block] = true;
	if (d->bad[block])
		d->n_bad--;
	d->bad[block] = false;
	d->wrong &= d->wrong_block != block;
}

bool disk_bad(const struct disk *d, uint64_t start, uint64_t count)
{
	for (uint64_t b = start; d->n_bad && b < start + count && b < SIM_MAX_BLOCKS; b++)
		if (d->bad[b])
			return true;
	return false;
}

uint64_t disk_read(const struct disk *d, uint64_t block)
{
	return d->cached[block] ? d->cache[block] : d->media[block];
}

void disk_flush(struct disk *d, uint64_t issued)
{
	for (uint64_t b = 0; b < SIM_MAX_BLOCKS; b++)
		if (d->cached[b] && d->since[b] <= issued) {
			d->media[b] = d->cache[b];
			d->cached[b] = false;
		}
}

void disk_drop_cache(struct disk *d)
{
	memset(d->cached, 0, sizeof(d->cached));
}

static uint32_t bit_of(const struct sim *s, const struct node *n)
{
	return 1u << (n - s->node);
}

bool disk_gone(const struct sim *s, const struct node *n, const struct disk *d)
{
	return d->dead || (d->cut & bit_of(s, n));
}

bool disk_full(struct sim *s, const struct node *n, const struct disk *d)
{
	return d->full && !disk_gone(s, n, d) && sim_chance(s, 2);
}

/* With one node, a failed flush loses the cache. With several nodes the cache stays, since that case is not promised (doc/protocol.md). */
bool disk_fails(struct sim *s, const struct node *n, struct disk *d, enum disk_fault kind)
{
	bool once = d->once == kind && !d->dead;

	if (!once && !disk_gone(s, n, d))
		return false;
	d->failed = true;
	if (once)
		d->once = FAULT_NONE;
	if (once && kind == FAULT_FLUSH && !s->cluster) {
		disk_drop_cache(d);
		d->dropped = true;
	}
	if (!d->dead && (kind == FAULT_WRITE || kind == FAULT_FLUSH))
		d->faulted |= bit_of(s, n);
	return true;
}

void disk_forget_kernel(struct sim *s, const struct node *n)
{
	for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++) {
		s->disk[m].faulted &= ~bit_of(s, n);
		s->disk[m].was_cut &= ~bit_of(s, n) | s->disk[m].cut;
	}
}

void disk_forget_daemon(struct sim *s, const struct node *n)
{
	for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++)
		s->disk[m].daemon_failed &= ~bit_of(s, n);
}

void disk_readable(struct disk *d)
{
	memset(d->bad, 0, sizeof(d->bad));
	d->n_bad = 0;
}

void disk_back(struct sim *s, struct disk *d)
{
	d->full = false;
	d->back_at = s->now;
	d->dead = d->failed = d->dropped = d->chosen = d->exchanged = d->blank = d->small = d->lies = false;
	d->cut = d->was_cut = d->faulted = d->daemon_failed = 0;
	memset(d->hangs_until, 0, sizeof(d->hangs_until));
	disk_readable(d);	/* and its firmware has others for its bad sectors */
	d->was_bad = false;
	disk_drop_cache(d);
	check_places(s);
}

void disk_power(struct sim *s, struct disk *d)
{
	for (uint64_t b = 0; b < SIM_MAX_BLOCKS; b++)
		if (d->cached[b] && sim_chance(s, 2))
			d->media[b] = d->cache[b];
	disk_drop_cache(d);
}

static uint64_t valid_seq(const struct sim *s, const uint8_t *bytes, uint32_t slot, unsigned int place)
{
	struct ddr_log_info info;
	struct ddr_super sb = s->sb0;

	sb.array_blocks = ddr_super_most_blocks(&sb);	/* the array grows */
	return ddr_log_decode(bytes, &sb, (uint16_t)slot, 0, place, &info).code == DDR_FE_OK ? info.seq : 0;
}

bool disk_copy(const struct sim *s, const struct disk *d, unsigned int copy, struct ddr_super *sb, struct ddr_owners *owners)
{
	return ddr_super_decode(d->sb[copy], copy, ddr_super_offset(&s->sb0, copy), sb).code == DDR_FE_OK &&
	       ddr_owners_decode(d->pages[copy], sb, owners).code == DDR_FE_OK;
}

static void super_landed(const struct sim *s, struct disk *d)
{
	static struct ddr_owners owners[2];
	const struct ddr_super *best;
	struct ddr_super copy[2];
	bool valid[2];

	for (unsigned int c = 0; c < 2; c++)
		valid[c] = disk_copy(s, d, c, &copy[c], &owners[c]);
	best = ddr_super_newer(valid[0] ? &copy[0] : NULL, valid[1] ? &copy[1] : NULL);
	d->has_super = best != NULL;
	if (!best)
		return;
	d->super = *best;
	d->owners = owners[best == &copy[1]];
}

static bool of_pages(const struct disk *d, unsigned int copy, const uint8_t *place)
{
	return place >= d->pages[copy][0] && place < d->pages[copy][0] + sizeof(d->pages[copy]);
}

void disk_landed(struct sim *s, struct disk *d, const uint8_t *place)
{
	for (unsigned int c = 0; c < 2; c++) {
		for (uint32_t i = 0; i < s->sb0.slots; i++)
			if (!place || place == d->log[i][c])
				d->log_seq[i][c] = valid_seq(s, d->log[i][c], i, c);
		if (!place || place == d->map[c])
			d->map_seq[c] = valid_seq(s, d->map[c], DDR_MAP_SLOT, c);
		if (!place || place == d->sb[c] || of_pages(d, c, place))
			super_landed(s, d);
	}
	check_places(s);
}

void disk_tear(struct sim *s, uint8_t *place, const uint8_t *block)
{
	uint64_t how = sim_rand(s, 3), sectors = how == 0 ? 0 : how == 1 ? 8 : 1 + sim_rand(s, 7);

	memcpy(place, block, sectors * 512);
}
