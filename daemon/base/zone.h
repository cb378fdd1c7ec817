/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The local time of day. */
#ifndef DDR_DAEMON_ZONE_H
#define DDR_DAEMON_ZONE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/daemon.h"

/* The local hour, 0 to 23, by the time zone of the last minutes; false: not known yet, ask again. Call it from the loop. */
bool ddr_zone_hour(struct ddr_daemon *d, uint64_t now, uint64_t now_ms, unsigned int *hour);

#endif
