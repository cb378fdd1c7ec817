/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An array as `ddraid status` shows it. */
#ifndef DDR_DAEMON_STATUS_H
#define DDR_DAEMON_STATUS_H

#include "daemon/array/array.h"

struct json_object;

/* The object of `ddraid status --json`; the caller's. NULL: no memory. */
struct json_object *ddr_status_array(struct ddr_array *a);
/* What was found wrong, for `ddraid verify NAME status`. Not a part of the above: of many arrays it would not fit into one message. */
struct json_object *ddr_status_findings(const struct ddr_array *a);
/* Index of the member that @which names (number, device or uuid); -1: none. */
int ddr_status_find_member(const struct ddr_array *a, const char *which);

#endif
