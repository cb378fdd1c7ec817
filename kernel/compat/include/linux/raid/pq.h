/* SPDX-License-Identifier: GPL-2.0-only */
/* Before 7.2 these were members of raid6_call and pointers to functions. */
#ifndef DDR_COMPAT_RAID_PQ_H
#define DDR_COMPAT_RAID_PQ_H

#include_next <linux/raid/pq.h>

#ifndef RAID6_MIN_DISKS
#define raid6_gen_syndrome(disks, bytes, ptrs)		raid6_call.gen_syndrome(disks, bytes, ptrs)
#define raid6_recov_2data(disks, bytes, a, b, ptrs)	raid6_2data_recov(disks, bytes, a, b, ptrs)
#define raid6_recov_datap(disks, bytes, a, ptrs)	raid6_datap_recov(disks, bytes, a, ptrs)
#endif

#endif
