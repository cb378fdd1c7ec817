/* SPDX-License-Identifier: GPL-2.0-only */
/* Before 7.1 there was xor_blocks() only, which takes a limited number of sources. */
#ifndef DDR_COMPAT_RAID_XOR_H
#define DDR_COMPAT_RAID_XOR_H

#include <linux/version.h>
#include_next <linux/raid/xor.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 1, 0)
#include <linux/minmax.h>

static inline void xor_gen(void *dest, void **srcs, unsigned int src_cnt, unsigned int bytes)
{
	while (src_cnt) {
		unsigned int n = min_t(unsigned int, src_cnt, MAX_XOR_BLOCKS);

		xor_blocks(n, bytes, dest, srcs);
		srcs += n;
		src_cnt -= n;
	}
}
#endif

#endif
