/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What device-mapper knows about the devices of arrays, and the daemon does not. */
#ifndef DDR_CLI_MAPPED_H
#define DDR_CLI_MAPPED_H

#include <stdbool.h>

struct json_object;

/*
 * Adds to each object of @arrays (as in `status --json`) that has a device: "suspended": it is suspended, and all I/O waits; and
 * "shown": it was resumed once, so that other programs can see it.
 */
void cli_mapped_add(struct json_object *arrays);
/* The array is served, but its device is not visible: the `ddraid start` that should have resumed it was ended before. */
bool cli_mapped_hidden(struct json_object *array);

#endif
