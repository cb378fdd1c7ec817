/* SPDX-License-Identifier: GPL-2.0-only */
/* Before 6.14 the bulk allocator of an array of pages had another name. */
#ifndef DDR_COMPAT_GFP_H
#define DDR_COMPAT_GFP_H

#include_next <linux/gfp.h>

#ifdef __LINUX_GFP_H
#ifndef alloc_pages_bulk
#define alloc_pages_bulk(gfp, nr, pages)	alloc_pages_bulk_array(gfp, nr, pages)
#endif
#endif

#endif
