/* SPDX-License-Identifier: GPL-2.0-only */
/* How a timer is prepared. */
#ifndef DDR_COMPAT_TIMER_H
#define DDR_COMPAT_TIMER_H

#include <linux/hrtimer.h>
#include <linux/version.h>

/* A timer that is started with a time relative to now. */
static inline void ddr_hrtimer_setup(struct hrtimer *timer, enum hrtimer_restart (*fn)(struct hrtimer *timer))
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, fn, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
	timer->function = fn;
#endif
}

#endif
