/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events as `ddraid events --json` prints them. */
#ifndef DDR_DAEMON_NOTICE_H
#define DDR_DAEMON_NOTICE_H

#include "daemon/base/sink.h"

struct json_object;

/* With the time of this call. Belongs to the caller. */
struct json_object *ddr_notice_json(const struct ddr_notice *n);

#endif
