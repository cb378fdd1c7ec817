// SPDX-License-Identifier: GPL-2.0-or-later
/* Prepares a member for a larger array. See grow.h. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "daemon/disk/grow.h"
#include "lib/disk/devio.h"
#include "lib/disk/layout.h"

#define PIECE	(1u << 20)	/* bytes that are zeroed without another look at the clock */

uint64_t ddr_grow_bytes(const struct ddr_super *sb, uint64_t blocks)
{
	uint64_t end = ddr_super_regions(sb) * ddr_super_region_blocks(sb);

	return ((end < blocks ? end : blocks) - sb->array_blocks) * sb->chunk;
}

/* In pieces: a daemon that stood still may have been declared dead, and another node may have data here by now. */
static int zero(struct ddr_grow *g, const struct ddr_dev *dev, uint64_t from, uint64_t bytes)
{
	while (bytes) {
		uint64_t piece = bytes < PIECE ? bytes : PIECE;

		g->late = ddr_still_late(g->still);
		if (g->late)
			return ddr_error_set(&g->error, "%s: ddraidd stood still while it zeroed the space for the larger array; it does that again", dev->path);
		if (ddr_dev_zero(dev, from, piece, &g->error))
			return -1;
		from += piece;
		bytes -= piece;
	}
	return 0;
}

static int prepare(struct ddr_grow *g)
{
	struct ddr_dev dev = g->members->dev[g->member];
	struct ddr_super sb = g->super;
	uint64_t from = ddr_layout_data_end(&sb), bytes = ddr_grow_bytes(&sb, g->blocks), last, to;

	dev.bytes = ddr_dev_size(&dev);		/* it was opened when it was smaller */
	sb.array_blocks = g->blocks;
	to = ddr_layout_data_end(&sb);
	if (g->blocks <= g->super.array_blocks || dev.bytes < ddr_layout_member_bytes(&sb))
		return ddr_error_set(&g->error, "%s has %llu bytes, which is too small for the new size", dev.path, (unsigned long long)dev.bytes);
	if (zero(g, &dev, from, bytes))
		return -1;
	/* as create leaves it: zeroes right behind the data, and where a signature at the end of the disk would lie */
	last = dev.bytes < DDR_SIGNATURE_BYTES ? 0 : (dev.bytes - DDR_SIGNATURE_BYTES) / DDR_META_BLOCK * DDR_META_BLOCK;
	if (last < to)
		last = to;
	if (zero(g, &dev, to, DDR_TAIL_BYTES) || zero(g, &dev, last, dev.bytes / DDR_META_BLOCK * DDR_META_BLOCK - last))
		return -1;
	if (!ddr_dev_sync(&dev, &g->error))
		return 0;
	errno = EIO;	/* a flush that failed does not mean that space is missing, whatever its error */
	return -1;
}

static void run(struct ddr_worker *w)
{
	struct ddr_grow *g = ddr_worker_of(w, struct ddr_grow, worker);

	const struct ddr_dev *dev = &g->members->dev[g->member];

	errno = 0;
	g->error.own = false;
	g->result = !prepare(g) ? 0 : g->late ? -EAGAIN : g->error.own ? -ENOMEM : -EIO;
	/* a disk that was pulled reports ENOSPC, too, but its size is 0 (aio.c) */
	if (g->result == -EIO && errno == ENOSPC && ddr_dev_size(dev) >= ddr_layout_data_end(&g->super))
		g->result = -ENOSPC;
}

static void done(struct ddr_worker *w)
{
	struct ddr_grow *g = ddr_worker_of(w, struct ddr_grow, worker);

	g->done(g->ctx, g);
}

int ddr_grow_start(struct ddr_grow *g, qb_loop_t *loop)
{
	int ret;

	g->worker.run = run;
	g->worker.done = done;
	ddr_members_get(g->members);
	ret = ddr_worker_start(&g->worker, loop);
	if (ret)
		ddr_members_put(g->members);
	return ret;
}

void ddr_grow_free(struct ddr_grow *g)
{
	ddr_members_keep(g->members, DDR_MEMBERS_GROW, g->members->kept[DDR_MEMBERS_GROW] & ~(1u << g->member));
	ddr_members_put(g->members);
	free(g);
}
