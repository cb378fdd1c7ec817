// SPDX-License-Identifier: GPL-2.0-or-later
/* Buffers of ranges in work. See buffers.h. */
#include <errno.h>
#include <stdlib.h>

#include "daemon/job/buffers.h"

#define PAGE	4096u

/* Of all arrays; the loop's thread alone uses it. */
static struct {
	unsigned int arrays;
	unsigned int made;		/* those in use, too */
	struct ddr_buffer *unused;	/* the smallest first */
} all;

/* So many there are at least, each large enough for the array that began last, unless a range of it has one. */
static unsigned int wanted(void)
{
	return all.arrays ? DDR_BUFFERS_ALWAYS + all.arrays / DDR_BUFFERS_ARRAYS : 0;
}

static struct ddr_buffer *make(size_t size)
{
	struct ddr_buffer *b = calloc(1, sizeof(*b));
	void *bytes;

	if (!b || posix_memalign(&bytes, PAGE, size)) {
		free(b);
		return NULL;
	}
	b->size = size;
	b->bytes = bytes;
	all.made++;
	return b;
}

static void destroy(struct ddr_buffer *b)
{
	all.made--;
	free(b->bytes);
	free(b);
}

static void put_back(struct ddr_buffer *b)
{
	struct ddr_buffer **at = &all.unused;

	while (*at && (*at)->size < b->size)
		at = &(*at)->next;
	b->next = *at;
	*at = b;
}

/* The smallest ones go first. */
static void trim(void)
{
	while (all.unused && all.made > wanted()) {
		struct ddr_buffer *b = all.unused;

		all.unused = b->next;
		destroy(b);
	}
}

static unsigned int unused_of(size_t size)
{
	unsigned int n = 0;

	for (const struct ddr_buffer *b = all.unused; b; b = b->next)
		n += b->size >= size;
	return n;
}

int ddr_buffers_join(size_t size)
{
	unsigned int missing;

	all.arrays++;
	missing = all.made < wanted() ? wanted() - all.made : 0;
	/* those that are there may be too small */
	if (unused_of(size) + missing < DDR_BUFFERS_ALWAYS)
		missing = DDR_BUFFERS_ALWAYS - unused_of(size);
	for (; missing; missing--) {
		struct ddr_buffer *b = make(size);

		if (!b) {
			ddr_buffers_leave();
			return -ENOMEM;
		}
		put_back(b);
	}
	trim();
	return 0;
}

void ddr_buffers_leave(void)
{
	all.arrays--;
	trim();
}

struct ddr_buffer *ddr_buffers_get(size_t size)
{
	for (struct ddr_buffer **at = &all.unused; *at; at = &(*at)->next) {
		struct ddr_buffer *b = *at;

		if (b->size < size)
			continue;
		*at = b->next;
		return b;
	}
	return make(size);
}

void ddr_buffers_put(struct ddr_buffer *b)
{
	put_back(b);
	trim();
}
