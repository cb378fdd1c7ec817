/* SPDX-License-Identifier: GPL-2.0-only */
/* Queue limits: which fields exist, and how they depend on each other, has changed often. */
#ifndef DDR_COMPAT_LIMITS_H
#define DDR_COMPAT_LIMITS_H

#include <linux/blkdev.h>
#include <linux/version.h>

/* A target that copies takes bios of any shape up to @sectors, and is not polled. */
static inline void ddr_limits_copied(struct queue_limits *limits, unsigned int sectors)
{
	limits->chunk_sectors = 0;
	limits->virt_boundary_mask = 0;
	limits->seg_boundary_mask = ULONG_MAX;
	limits->max_segments = USHRT_MAX;
	limits->max_segment_size = UINT_MAX;
	limits->max_sectors = sectors;
	limits->max_hw_sectors = sectors;
	limits->max_dev_sectors = sectors;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
	limits->max_user_sectors = sectors;
#endif
#ifdef BLK_FEAT_POLL
	limits->features &= ~BLK_FEAT_POLL;
#endif
}

/* Write-zeroes and discard in bios of at most @sectors; 0: neither. */
static inline void ddr_limits_zeroes(struct queue_limits *limits, unsigned int sectors)
{
	limits->max_discard_sectors = sectors;
	limits->max_hw_discard_sectors = sectors;
	limits->max_write_zeroes_sectors = sectors;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0)
	if (limits->max_hw_wzeroes_unmap_sectors)
		limits->max_hw_wzeroes_unmap_sectors = sectors;
#endif
}

#endif
