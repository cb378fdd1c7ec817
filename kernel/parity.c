// SPDX-License-Identifier: GPL-2.0-only
/*
 * Glue to the kernel's xor and raid6 libraries. P is the XOR of the data, Q the second syndrome
 * of H. P. Anvin, "The mathematics of RAID-6", as the kernel computes it.
 *
 * The libraries require a task with interrupts and softirqs on, buffers aligned to 64 bytes,
 * lengths that are multiples of 512 (at most a page where data is recovered), and at least two
 * data disks for a syndrome: with one the SIMD code reads in front of its array of pointers. A
 * mirror, whose parities are plain copies of the data, never uses this code.
 *
 * Must never: be called at completion in an interrupt, lock, or allocate.
 */
#include <linux/mm.h>
#include <linux/raid/pq.h>
#include <linux/raid/xor.h>
#include <linux/string.h>

#include "io.h"

#define DDR_P(g)	ddr_geo_data(g)
#define DDR_Q(g)	(ddr_geo_data(g) + 1)

/* Full pages are copied with the CPU's best routine. */
static void ddr_copy_buffer(void *dest, const void *src, u32 bytes)
{
	if (bytes == PAGE_SIZE)
		copy_page(dest, (void *)src);
	else
		memcpy(dest, src, bytes);
}

/* @dest ^= the roles in @srcs */
static void ddr_xor(void *dest, void **ptr, u32 srcs, u32 bytes)
{
	void *list[DDR_GEO_MAX_ROLES];
	unsigned long todo = srcs;
	unsigned int nr = 0, role;

	for_each_set_bit(role, &todo, DDR_GEO_MAX_ROLES)
		list[nr++] = ptr[role];
	if (nr)
		xor_gen(dest, list, nr, bytes);
}

void ddr_parity_generate(const struct ddr_geometry *g, void **ptr, u32 bytes, u32 roles)
{
	if (roles & BIT(DDR_Q(g))) {
		raid6_gen_syndrome(ddr_geo_data(g) + 2, bytes, ptr);
	} else if (roles & BIT(DDR_P(g))) {
		ddr_copy_buffer(ptr[DDR_P(g)], ptr[0], bytes);
		ddr_xor(ptr[DDR_P(g)], ptr, ddr_data_mask(g) & ~1u, bytes);
	}
}

void ddr_parity_recover(const struct ddr_geometry *g, void **ptr, u32 bytes, u32 lost, u32 have)
{
	u32 a = __ffs(lost), b = __fls(lost);

	if (a != b) {
		raid6_recov_2data(ddr_geo_data(g) + 2, bytes, a, b, ptr);
	} else if (have & BIT(DDR_P(g))) {
		ddr_copy_buffer(ptr[a], ptr[DDR_P(g)], bytes);
		ddr_xor(ptr[a], ptr, ddr_data_mask(g) & ~lost, bytes);
	} else {
		raid6_recov_datap(ddr_geo_data(g) + 2, bytes, a, ptr);
	}
}

u32 ddr_parity_check(const struct ddr_geometry *g, void **ptr, u32 bytes, u32 check)
{
	u32 bad = 0;

	if (check & BIT(DDR_P(g))) {
		ddr_xor(ptr[DDR_P(g)], ptr, ddr_data_mask(g), bytes);
		if (memchr_inv(ptr[DDR_P(g)], 0, bytes))
			bad |= BIT(DDR_P(g));
	}
	if (check & BIT(DDR_Q(g))) {
		void *list[DDR_GEO_MAX_ROLES];

		memcpy(list, ptr, sizeof(list));
		list[DDR_Q(g)] = ptr[DDR_SCRATCH_ROLE];
		raid6_gen_syndrome(ddr_geo_data(g) + 2, bytes, list);
		if (memcmp(list[DDR_Q(g)], ptr[DDR_Q(g)], bytes))
			bad |= BIT(DDR_Q(g));
	}
	return bad;
}
