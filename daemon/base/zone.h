/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The time of day at this place. */
#ifndef DDR_DAEMON_ZONE_H
#define DDR_DAEMON_ZONE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/daemon.h"

/* The hour of the day here, 0 to 23, as the zone was within the last minutes; false: it is not known yet, ask again. From the loop. */
bool ddr_zone_hour(struct ddr_daemon *d, uint64_t now, uint64_t now_ms, unsigned int *hour);

#endif
