// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The memory of ranges. A range needs some MiB, and most of the time no array has one in progress, so a daemon's arrays share a stock of
 * them. It is filled when an array starts.
 *
 * Must never: let an array wait for memory that another one holds; its members may hang.
 */
#include <errno.h>
#include <stdlib.h>

#include "daemon/job/job_int.h"

#define ALONE	DDR_JOB_PREPARED	/* the first array has this many, and each further one adds one ... */
#define MOST	8u			/* ... up to this many */

struct ddr_job_stock {
	struct ddr_job_memory *all;
	unsigned int arrays;
};

static struct ddr_job_memory *make(struct ddr_job_stock *s, size_t size)
{
	struct ddr_job_memory *m = calloc(1, sizeof(*m));
	void *at;

	if (!m || posix_memalign(&at, 4096, size)) {
		free(m);
		return NULL;
	}
	m->at = at;
	m->size = size;
	m->next = s->all;
	s->all = m;
	return m;
}

static void drop(struct ddr_job_stock *s, struct ddr_job_memory *m)
{
	struct ddr_job_memory **p = &s->all;

	while (*p != m)
		p = &(*p)->next;
	*p = m->next;
	free(m->at);
	free(m);
}

/* One that is too small for the newest array, and not in use. */
static struct ddr_job_memory *small(const struct ddr_job_stock *s, size_t size)
{
	struct ddr_job_memory *m = s->all;

	while (m && (m->used || m->size >= size))
		m = m->next;
	return m;
}

static void count(const struct ddr_job_stock *s, size_t size, unsigned int *all, unsigned int *fit)
{
	*all = *fit = 0;
	for (const struct ddr_job_memory *m = s->all; m; m = m->next) {
		++*all;
		*fit += m->size >= size;
	}
}

/* Small ones make room for larger ones, which serve every array. */
static int fill(struct ddr_job_stock *s, size_t size)
{
	unsigned int want = ALONE + s->arrays - 1, all, fit;

	want = want < MOST ? want : MOST;
	for (count(s, size, &all, &fit); fit < want; count(s, size, &all, &fit)) {
		struct ddr_job_memory *old = all >= want ? small(s, size) : NULL;

		if (!make(s, size))
			return -ENOMEM;
		if (old)
			drop(s, old);
	}
	return 0;
}

int ddr_job_stock_join(struct ddr_job_stock **stock, size_t size)
{
	struct ddr_job_stock *s = *stock ? *stock : calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return -ENOMEM;
	*stock = s;
	s->arrays++;
	ret = fill(s, size);
	if (ret)
		ddr_job_stock_leave(stock);
	return ret;
}

void ddr_job_stock_leave(struct ddr_job_stock **stock)
{
	struct ddr_job_stock *s = *stock;

	if (--s->arrays)
		return;
	while (s->all)
		drop(s, s->all);
	free(s);
	*stock = NULL;
}

struct ddr_job_memory *ddr_job_stock_take(struct ddr_job_stock *s, size_t size)
{
	struct ddr_job_memory *best = NULL;

	for (struct ddr_job_memory *m = s->all; m; m = m->next)
		if (!m->used && m->size >= size && (!best || m->size < best->size))
			best = m;
	if (!best)
		best = make(s, size);
	if (best)
		best->used = true;
	return best;
}
