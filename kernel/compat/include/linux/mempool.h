/* SPDX-License-Identifier: GPL-2.0-only */
/* Before 6.8 only the pool itself could ask whether its reserve is full. */
#ifndef DDR_COMPAT_MEMPOOL_H
#define DDR_COMPAT_MEMPOOL_H

#include <linux/version.h>
#include_next <linux/mempool.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 8, 0)
static inline bool mempool_is_saturated(mempool_t *pool)
{
	return READ_ONCE(pool->curr_nr) >= pool->min_nr;
}
#endif

#endif
