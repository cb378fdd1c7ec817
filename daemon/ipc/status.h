/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The status of an array, for `ddraid status`. */
#ifndef DDR_DAEMON_STATUS_H
#define DDR_DAEMON_STATUS_H

#include "daemon/array/array.h"

struct json_object;

/* The object for `ddraid status --json`; belongs to the caller. NULL: out of memory. */
struct json_object *ddr_status_array(struct ddr_array *a);
/* The bad places found, for `ddraid verify NAME status`. Not a part of the above: those of many arrays would not fit into one message. */
struct json_object *ddr_status_findings(const struct ddr_array *a);
/* The index of the member that @which names (number, device or uuid); -1: none. */
int ddr_status_find_member(const struct ddr_array *a, const char *which);

#endif
