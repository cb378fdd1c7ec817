/* SPDX-License-Identifier: GPL-2.0-only */
/* Names and values of blk_status_t that came later. */
#ifndef DDR_COMPAT_BLK_TYPES_H
#define DDR_COMPAT_BLK_TYPES_H

#include_next <linux/blk_types.h>

#ifndef BLK_STS_RESV_CONFLICT
#define BLK_STS_RESV_CONFLICT	BLK_STS_NEXUS
#endif
#ifndef BLK_STS_INVAL
#define BLK_STS_INVAL		((__force blk_status_t)0xff)	/* never seen */
#endif

#endif
