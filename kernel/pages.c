// SPDX-License-Identifier: GPL-2.0-only
/*
 * The memory of I/O: a buffer for each piece, with its member bios, vectors and pages. No other
 * file takes memory for an I/O (tests/tools/test_kernel_memory.py). buffer.c has what lies in a
 * buffer.
 *
 * All arrays share DDR_PAGES_PERCENT of the memory. An array may hold as many pages as it leaves
 * free for the others: a single busy array gets half of them, each of two a third, each of n
 * 1/(n + 1). So an array that hangs, or whose members are slow, never takes all, and a new array
 * finds room. Each array may always have two of the largest pieces. It follows that an array
 * only waits for its own pages, and is woken when they are released.
 *
 * Within an array reads, small writes and large writes each have a queue and a reserve. While
 * something waits, released pages go to the reserves in turn, so that none of the three starves.
 *
 * Must never: sleep for memory while holding a partial buffer, except under the reserve's mutex;
 * let the buffers of all arrays together take more than DDR_PAGES_PERCENT of the memory, beyond
 * the reserves and the two pieces; return or write a byte of a page that was not written since
 * the page was taken.
 */
#include <linux/bvec.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/percpu_counter.h>
#include <linux/slab.h>

#include "io.h"

#define DDR_PAGES_PERCENT	4
#define DDR_SMALL_VECS		32	/* in a buffer from the small pool, of a small write */
#define DDR_SMALL_WRITES	4	/* of the largest small ones, in their reserve */
#define DDR_PIECES_ANYWAY	2	/* number of the largest pieces that are always allowed */
#define DDR_SMALL_RESERVE	32
#define DDR_LARGE_RESERVE	4
#define DDR_FLUSH_RESERVE	4
#define DDR_BULK		16	/* pages taken from the allocator at once */
#define DDR_STOCK_PAGES		4096	/* pages that a target keeps for the next buffers */

/*
 * Pools of buffers. Flushes may keep theirs while they wait for the daemon: nothing else waits
 * for these.
 */
enum { DDR_BUFS_SMALL, DDR_BUFS_LARGE, DDR_BUFS_FLUSH };

static struct percpu_counter ddr_pages_used;	/* in buffers, of all arrays */
static s64 ddr_pages_limit;

int ddr_pages_init(void)
{
	int r;

	ddr_pages_limit = (s64)totalram_pages() * DDR_PAGES_PERCENT / 100;
	r = ddr_alloc_int(percpu_counter_init(&ddr_pages_used, 0, GFP_KERNEL));
	if (r)
		return r;
	r = ddr_stock_init(ddr_pages_limit / 4);
	if (r)
		percpu_counter_destroy(&ddr_pages_used);
	return r;
}

void ddr_pages_exit(void)
{
	ddr_stock_exit();
	WARN_ON(percpu_counter_sum(&ddr_pages_used));
	percpu_counter_destroy(&ddr_pages_used);
}

static void ddr_pages_count(struct ddr_target *t, s64 pages)
{
	percpu_counter_add(&ddr_pages_used, pages);
	percpu_counter_add(&t->array->engine->pages, pages);
}

/* May the array have its pages, including the requested ones, which are counted already? */
static bool ddr_pages_within(struct ddr_target *t)
{
	s64 own = percpu_counter_read_positive(&t->array->engine->pages);

	return own <= t->pages_anyway ||
	       own <= ddr_pages_limit - percpu_counter_read_positive(&ddr_pages_used);
}

/* __GFP_NORETRY: for immediate use, not for filling the reserve. */
static void *ddr_page_alloc(gfp_t gfp, void *data)
{
	struct ddr_target *t = data;
	struct page *page;

	if ((gfp & __GFP_NORETRY) && (!ddr_pages_within(t) || ddr_point_fails(DDR_PT_PAGE)))
		return NULL;
	if (ddr_stock_take(t->stock, &page, 1))
		return page;
	return alloc_page(gfp);
}

static void ddr_page_free(void *page, void *data)
{
	struct ddr_target *t = data;

	ddr_stock_put(t->stock, (struct page **)&page, 1);
}

/* ---- sizes -------------------------------------------------------------------- */

static u32 ddr_vecs(u32 bytes)
{
	return DIV_ROUND_UP(bytes, PAGE_SIZE);
}

/*
 * Bytes from one role's buffer to the next: buffers of less than a page share pages, and none
 * crosses a page.
 */
static u32 ddr_stride(u32 bytes)
{
	return bytes < PAGE_SIZE ? roundup_pow_of_two(bytes) : round_up(bytes, PAGE_SIZE);
}

static size_t ddr_buf_size(u32 roles, u32 vecs)
{
	return sizeof(struct ddr_buf) + roles * sizeof(struct bio) + vecs * sizeof(struct bio_vec);
}

/* Operations of one piece: one for each role, and one for the shadow. */
static u32 ddr_buf_bios(const struct ddr_target *t)
{
	return t->array->geo.roles + !!t->dev[DDR_SHADOW].dm;
}

/* Small buffers, and those of flushes, of @data bytes each. */
static void *ddr_small_alloc(gfp_t gfp, void *data)
{
	return ddr_alloc_now(kmalloc((size_t)data, gfp));
}

static void ddr_small_free(void *element, void *data)
{
	kfree(element);
}

/*
 * A large buffer has its vectors in separate pages: a single allocation would be too large to
 * succeed at once in a busy memory.
 */
static void ddr_large_free(void *element, void *data)
{
	struct ddr_buf *buf = element;
	u32 i;

	for (i = 0; i < DDR_VEC_PAGES; i++)
		free_page((unsigned long)buf->vec[i]);	/* NULL is allowed */
	kfree(buf);
}

static void *ddr_large_alloc(gfp_t gfp, void *data)
{
	struct ddr_target *t = data;
	struct ddr_buf *buf = ddr_alloc_now(kzalloc(ddr_buf_size(ddr_buf_bios(t), 0), gfp));
	u32 i;

	for (i = 0; buf && i < t->vec_pages; i++) {
		buf->vec[i] = ddr_alloc_now((void *)__get_free_page(gfp));
		if (buf->vec[i])
			continue;
		ddr_large_free(buf, t);
		return NULL;
	}
	return buf;
}

/* The number of vectors that fit into a page, with those of a buffer of @pages in one page. */
static u32 ddr_vecs_per_page(u32 pages)
{
	return rounddown(PAGE_SIZE / sizeof(struct bio_vec), max(pages, 1u));
}

static void ddr_buf_vectors(struct ddr_target *t, struct ddr_buf *buf)
{
	if (buf->pool == DDR_BUFS_LARGE) {
		buf->per = ddr_vecs_per_page(buf->pages);
		return;
	}
	buf->per = DDR_SMALL_VECS;
	buf->vec[0] = (struct bio_vec *)ddr_buf_bio(buf, ddr_buf_bios(t));
}

/*
 * The largest number of buffers that one piece may need: all roles, and space to check Q. A
 * mirror needs one, except to compare its copies.
 */
static u32 ddr_max_buffers(const struct ddr_target *t)
{
	const struct ddr_geometry *g = &t->array->geo;

	if (g->order == 0 && !t->verify_reads)
		return 1;
	return g->roles + t->verify_reads;
}

enum ddr_class ddr_pages_class(const struct ddr_target *t, u32 op, u32 blocks)
{
	const struct ddr_geometry *g = &t->array->geo;

	switch (op) {
	case DDR_OP_READ:
	case DDR_OP_FLUSH:
		return DDR_CLASS_READ;
	case DDR_OP_ZEROES:
		return DDR_CLASS_SMALL;		/* takes no pages */
	default:
		if (ddr_vecs(blocks * g->chunk) * (g->order ? g->roles : 1) > DDR_SMALL_VECS)
			return DDR_CLASS_LARGE;
		return DDR_CLASS_SMALL;
	}
}

static void ddr_reserves_exit(struct ddr_target *t)
{
	struct ddr_reserve *r;

	for (r = t->reserve; r < t->reserve + DDR_CLASSES; r++)
		mempool_exit(&r->pages);	/* allowed if it was never initialised */
}

/* @most: pages of the largest piece. */
static int ddr_reserves_init(struct ddr_target *t, u32 most)
{
	u32 pages[DDR_CLASSES] = {
		/* also for a mirror: the caller's pages may not suit the members */
		[DDR_CLASS_READ] = most,
		[DDR_CLASS_SMALL] = DDR_SMALL_WRITES * DDR_SMALL_VECS,
		[DDR_CLASS_LARGE] = most,
	};
	int i, r;

	for (i = 0; i < DDR_CLASSES; i++)
		mutex_init(&t->reserve[i].lock);
	for (i = 0; i < DDR_CLASSES; i++) {
		r = ddr_alloc_int(mempool_init(&t->reserve[i].pages, pages[i], ddr_page_alloc,
					       ddr_page_free, t));
		if (r) {
			ddr_reserves_exit(t);
			return r;
		}
	}
	return 0;
}

int ddr_pools_init(struct ddr_target *t)
{
	u32 bytes = (t->ti->max_io_len / DDR_BLOCK_SECTORS) * t->array->geo.chunk;
	u32 vecs = ddr_max_buffers(t) * ddr_vecs(bytes);
	int r;

	t->pages_anyway = DDR_PIECES_ANYWAY * vecs;
	t->vec_pages = DIV_ROUND_UP(vecs, ddr_vecs_per_page(ddr_vecs(bytes)));
	if (WARN_ON_ONCE(t->vec_pages > DDR_VEC_PAGES))
		return -EINVAL;
	t->stock = ddr_stock_make(min_t(s64, DDR_STOCK_PAGES, ddr_pages_limit / 16));
	if (!t->stock)
		return -ENOMEM;
	r = ddr_alloc_int(mempool_init(&t->bufs[DDR_BUFS_SMALL], DDR_SMALL_RESERVE,
				       ddr_small_alloc, ddr_small_free,
				       (void *)ddr_buf_size(ddr_buf_bios(t), DDR_SMALL_VECS)));
	if (r)
		goto end_stock;
	r = ddr_alloc_int(mempool_init(&t->bufs[DDR_BUFS_LARGE], DDR_LARGE_RESERVE,
				       ddr_large_alloc, ddr_large_free, t));
	if (r)
		goto exit_small;
	r = ddr_alloc_int(mempool_init(&t->bufs[DDR_BUFS_FLUSH], DDR_FLUSH_RESERVE,
				       ddr_small_alloc, ddr_small_free,
				       (void *)ddr_buf_size(ddr_buf_bios(t), 0)));
	if (r)
		goto exit_large;
	r = ddr_reserves_init(t, vecs);
	if (r)
		goto exit_flush;
	return 0;

exit_flush:
	mempool_exit(&t->bufs[DDR_BUFS_FLUSH]);
exit_large:
	mempool_exit(&t->bufs[DDR_BUFS_LARGE]);
exit_small:
	mempool_exit(&t->bufs[DDR_BUFS_SMALL]);
end_stock:
	ddr_stock_end(t->stock);
	return r;
}

void ddr_pools_exit(struct ddr_target *t)
{
	ddr_reserves_exit(t);
	mempool_exit(&t->bufs[DDR_BUFS_FLUSH]);
	mempool_exit(&t->bufs[DDR_BUFS_LARGE]);
	mempool_exit(&t->bufs[DDR_BUFS_SMALL]);
	ddr_stock_end(t->stock);
}

/* ---- taking and releasing -------------------------------------------------------- */

/*
 * A reserve from which pages were taken, or NULL: released pages go to the reserves first, to
 * each in turn.
 */
static struct ddr_reserve *ddr_reserve_short(struct ddr_target *t)
{
	u32 turn = READ_ONCE(t->reserve_turn), i;

	for (i = 1; i <= DDR_CLASSES; i++) {
		struct ddr_reserve *r = &t->reserve[(turn + i) % DDR_CLASSES];

		if (likely(mempool_is_saturated(&r->pages)))
			continue;
		WRITE_ONCE(t->reserve_turn, (turn + i) % DDR_CLASSES);
		return r;
	}
	return NULL;
}

/*
 * An I/O that found the limit reached just before our pages were counted as free waits at a
 * reserve: it gets pages that went to the stock meanwhile.
 */
static void ddr_reserves_feed(struct ddr_target *t)
{
	struct ddr_reserve *r;
	struct page *page;

	while (unlikely(r = ddr_reserve_short(t)) && ddr_stock_take(t->stock, &page, 1))
		mempool_free(page, &r->pages);
}

static void ddr_buf_free_pages(struct ddr_target *t, struct ddr_buf *buf, u32 vecs)
{
	struct page *batch[DDR_BULK];
	struct ddr_reserve *r;
	u32 pages = 0, nr = 0, i;

	for (i = 0; i < vecs; i++) {
		/* a page that several buffers share belongs to the first of them */
		if (ddr_buf_vec(buf, i)->bv_offset)
			continue;
		pages++;
		r = ddr_reserve_short(t);
		if (unlikely(r)) {
			mempool_free(ddr_buf_vec(buf, i)->bv_page, &r->pages);
			continue;
		}
		batch[nr++] = ddr_buf_vec(buf, i)->bv_page;
		if (nr == DDR_BULK) {
			ddr_stock_put(t->stock, batch, nr);
			nr = 0;
		}
	}
	if (nr)
		ddr_stock_put(t->stock, batch, nr);
	ddr_pages_count(t, -(s64)pages);
	ddr_reserves_feed(t);
}

/* May return fewer than @nr, because of the limit or the allocator. */
static u32 ddr_bulk(struct ddr_target *t, struct page **pages, u32 nr)
{
	u32 have;

	if (!ddr_pages_within(t) || ddr_point_fails(DDR_PT_PAGE))
		return 0;
	have = ddr_stock_take(t->stock, pages, nr);
	if (have == nr)
		return nr;
	memset(pages + have, 0, (nr - have) * sizeof(*pages));
	return have + alloc_pages_bulk(GFP_NOWAIT | __GFP_NOWARN, nr - have, pages + have);
}

/*
 * @wait: sleeps for each page, under the mutex of @r, whose pages nothing else takes. Otherwise
 * it may fail, and then holds nothing.
 */
static bool ddr_buf_take_pages(struct ddr_target *t, struct ddr_reserve *r, struct ddr_buf *buf,
			       u32 vecs, bool wait)
{
	u32 stride = ddr_stride(buf->bytes), offset = 0, have = 0, next = 0, i;
	u32 left = DIV_ROUND_UP(vecs * min_t(u32, stride, PAGE_SIZE), PAGE_SIZE);
	struct page *batch[DDR_BULK], *page = NULL;

	if (wait)
		lockdep_assert_held(&r->lock);
	else
		/*
		 * as a whole: two that request the last pages must not get half of what they
		 * need each
		 */
		ddr_pages_count(t, left);
	for (i = 0; i < vecs; i++) {
		if (!offset) {
			if (next == have && !wait) {
				have = ddr_bulk(t, batch, min_t(u32, left, DDR_BULK));
				next = 0;
			}
			if (next < have)
				page = batch[next++];
			else
				page = wait ? mempool_alloc(&r->pages, GFP_NOIO) : NULL;
			if (!page) {
				ddr_pages_count(t, -(s64)left);
				ddr_buf_free_pages(t, buf, i);
				return false;
			}
			left--;
			if (wait)
				ddr_pages_count(t, 1);
		}
		bvec_set_page(ddr_buf_vec(buf, i), page, ddr_buf_page_bytes(buf, i % buf->pages),
			      offset);
		if (stride < PAGE_SIZE)
			offset = (offset + stride) & (PAGE_SIZE - 1);
	}
	return true;
}

void ddr_buf_get(struct ddr_io *io, u32 roles, bool shared, bool pages)
{
	struct ddr_target *t = io->t;
	const struct ddr_geometry *g = &t->array->geo;
	u32 bytes = io->op == DDR_OP_FLUSH ? 0 : io->blocks * g->chunk;
	u32 vecs = ddr_vecs(bytes) * (shared ? 1 : hweight32(roles)), i;
	u8 pool = vecs > DDR_SMALL_VECS ? DDR_BUFS_LARGE : DDR_BUFS_SMALL;
	struct ddr_reserve *r = &t->reserve[io->class];
	struct ddr_buf *buf;

	if (io->op == DDR_OP_FLUSH)
		pool = DDR_BUFS_FLUSH;
	ddr_point_wait(DDR_PT_BUFFER);
	buf = mempool_alloc(&t->bufs[pool], GFP_NOIO);
	buf->io = io;
	buf->done = 0;
	buf->filled = 0;
	buf->zeroed = 0;
	buf->lost = 0;
	buf->roles = roles;
	buf->bytes = bytes;
	buf->pages = ddr_vecs(bytes);
	buf->pool = pool;
	buf->shared = shared;
	buf->owned = pages;
	ddr_buf_vectors(t, buf);
	io->buf = buf;

	if (!pages) {
		for (i = 0; i < vecs; i++)
			bvec_set_page(ddr_buf_vec(buf, i), ZERO_PAGE(0),
				      ddr_buf_page_bytes(buf, i), 0);
		return;
	}
	if (likely(ddr_buf_take_pages(t, r, buf, vecs, false)))
		return;
	/*
	 * one of a class at a time: two that wait for the rest of their pages could wait for
	 * ever
	 */
	mutex_lock(&r->lock);
	ddr_buf_take_pages(t, r, buf, vecs, true);
	mutex_unlock(&r->lock);
}

void ddr_buf_put(struct ddr_io *io)
{
	struct ddr_target *t = io->t;
	struct ddr_buf *buf = io->buf;

	if (buf->owned)
		ddr_buf_free_pages(t, buf, buf->pages * (buf->shared ? 1 : hweight32(buf->roles)));
	io->buf = NULL;
	mempool_free(buf, &t->bufs[buf->pool]);
}
