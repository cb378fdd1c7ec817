// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a daemon allocates is its own, so that one that is killed leaves nothing behind. By --wrap of the functions of libc.
 */
#include <stdlib.h>
#include <string.h>

#include "twin.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t k, size_t n);
void *__real_realloc(void *p, size_t n);
void __real_free(void *p);
int __real_posix_memalign(void **p, size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t k, size_t n);
void *__wrap_realloc(void *p, size_t n);
void __wrap_free(void *p);
int __wrap_posix_memalign(void **p, size_t align, size_t n);
char *__wrap_strdup(const char *text);

/* A table of addresses, open, with linear probes. */
static struct { void *at; const struct proc *of; } *table;
static size_t size, used;

static size_t place(const void *at)
{
	size_t i = (size_t)((uintptr_t)at >> 4) * 0x9e3779b97f4a7c15u;

	for (i = i >> 20 & (size - 1); table[i].at && table[i].at != at; i = (i + 1) & (size - 1))
		;
	return i;
}

static void grow(void)
{
	size_t old_size = size;
	void *old = table;

	size = size ? 2 * size : 4096;
	table = __real_calloc(size, sizeof(*table));
	if (!table)
		abort();
	for (size_t i = 0; i < old_size; i++) {
		const typeof(*table) *e = (const typeof(*table) *)old + i;

		if (e->at)
			table[place(e->at)] = *e;
	}
	__real_free(old);
}

static void *take(void *at)
{
	size_t i;

	if (!me || !at)
		return at;
	if (2 * used >= size)
		grow();
	i = place(at);
	table[i].at = at;
	table[i].of = me;
	used++;
	return at;
}

static void drop(const void *at)
{
	size_t i = size ? place(at) : 0, j;

	if (!at || !size || !table[i].at)
		return;
	table[i].at = NULL;
	used--;
	for (j = (i + 1) & (size - 1); table[j].at; j = (j + 1) & (size - 1)) {	/* those behind it may lie where they are for its sake */
		typeof(*table) e = table[j];

		table[j].at = NULL;
		table[place(e.at)] = e;
	}
}

void *__wrap_malloc(size_t n)
{
	return twin_fails(CALL_MEMORY) ? NULL : take(__real_malloc(n));
}

void *__wrap_calloc(size_t k, size_t n)
{
	return twin_fails(CALL_MEMORY) ? NULL : take(__real_calloc(k, n));
}

void *__wrap_realloc(void *p, size_t n)
{
	drop(p);
	return take(__real_realloc(p, n));
}

void __wrap_free(void *p)
{
	drop(p);
	__real_free(p);
}

int __wrap_posix_memalign(void **p, size_t align, size_t n)
{
	int ret = __real_posix_memalign(p, align, n);

	if (!ret)
		take(*p);
	return ret;
}

char *__wrap_strdup(const char *text)
{
	size_t n = strlen(text) + 1;
	char *copy = __wrap_malloc(n);

	return copy ? memcpy(copy, text, n) : NULL;
}

/* Not by hiding @me from the functions above: the compiler knows that calloc() reads no variable of ours, and leaves out what was stored for it. */
void *twin_own(size_t n)
{
	void *at = __real_calloc(1, n);

	if (!at)
		abort();
	return at;
}

void twin_memory_end(const struct proc *p)
{
	for (size_t i = 0; i < size; i++)
		while (table[i].at && table[i].of == p) {
			void *at = table[i].at;

			drop(at);	/* another one may come to this place */
			__real_free(at);
		}
}
