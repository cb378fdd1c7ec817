/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long this process has waited for a processor: tells a machine that has too few from a daemon that hung in a call. */
#ifndef DDR_DAEMON_WAITED_H
#define DDR_DAEMON_WAITED_H

#include <stdint.h>

/* In ms, the first thread of this process, since it began; 0 where the kernel does not count it. What it
 * was a moment ago (20 ms) serves again: all arrays ask at the same time, and that is a system call. */
uint64_t ddr_waited_ms(void);

#endif
