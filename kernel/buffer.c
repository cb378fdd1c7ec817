// SPDX-License-Identifier: GPL-2.0-only
/*
 * The contents of a buffer: where the chunks of each role lie in it, and the copying between them
 * and the pages of the bio. pages.c takes its memory.
 *
 * Every piece is copied once, and parity is computed from the copy. So pages that their owner
 * changes while they are being written cannot produce parity that matches neither version, and
 * vectors of any shape become long runs for the xor and syndrome code, and few segments for the
 * members.
 */
#include <linux/bvec.h>
#include <linux/mm.h>

#include "io.h"

/* ---- layout of a buffer ------------------------------------------------------------ */

u32 ddr_buf_slot(const struct ddr_buf *buf, u32 role)
{
	return buf->shared ? 0 : hweight32(buf->roles & (BIT(role) - 1)) * buf->pages;
}

void *ddr_buf_page(const struct ddr_buf *buf, u32 role, u32 page)
{
	const struct bio_vec *bv = ddr_buf_vec(buf, ddr_buf_slot(buf, role) + page);

	return page_address(bv->bv_page) + bv->bv_offset;
}

u32 ddr_buf_page_bytes(const struct ddr_buf *buf, u32 page)
{
	return min_t(u32, buf->bytes - page * PAGE_SIZE, PAGE_SIZE);
}

void ddr_buf_ptrs(const struct ddr_buf *buf, u32 page, void **ptr)
{
	u32 role;

	for (role = 0; role <= DDR_SCRATCH_ROLE; role++)
		ptr[role] = buf->roles & BIT(role) ? ddr_buf_page(buf, role, page) : NULL;
}

/* ---- copying ------------------------------------------------------------------------ */

/* Copies one chunk between memory and the bio's pages, which may have any shape. */
static void ddr_copy_chunk(struct bio *bio, struct bvec_iter *iter, void *mem, u32 bytes,
			   bool gather)
{
	while (bytes) {
		struct bio_vec bv = bio_iter_iovec(bio, *iter);

		bv.bv_len = min(bv.bv_len, bytes);
		if (gather)
			memcpy_from_bvec(mem, &bv);
		else
			memcpy_to_bvec(&bv, mem);
		bio_advance_iter_single(bio, iter, bv.bv_len);
		mem += bv.bv_len;
		bytes -= bv.bv_len;
	}
}

static void ddr_copy(struct ddr_io *io, struct bvec_iter *iter, void **ptr, u32 bytes, bool gather)
{
	const struct ddr_geometry *g = ddr_io_geo(io);
	u32 data = ddr_geo_data(g), at, role;

	for (at = 0; at < bytes; at += g->chunk)
		for (role = 0; role < data; role++)
			ddr_copy_chunk(io->bio, iter, ptr[role] + at, g->chunk, gather);
}

void ddr_buf_gather(struct ddr_io *io, struct bvec_iter *iter, void **ptr, u32 bytes)
{
	ddr_copy(io, iter, ptr, bytes, true);
}

void ddr_buf_scatter(struct ddr_io *io, struct bvec_iter *iter, void **ptr, u32 bytes)
{
	ddr_copy(io, iter, ptr, bytes, false);
}
