/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The daemon's clock. Tests replace it by their own. */
#ifndef DDR_DAEMON_CLOCK_H
#define DDR_DAEMON_CLOCK_H

#include <stdint.h>

/* Milliseconds of CLOCK_MONOTONIC. */
uint64_t ddr_now_ms(void);

#endif
