/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What device-mapper knows about the devices of arrays, and the daemon does not. */
#ifndef DDR_CLI_MAPPED_H
#define DDR_CLI_MAPPED_H

#include <stdbool.h>

struct json_object;

/*
 * Adds to each object of @arrays (as of `status --json`) that has a device: "suspended", somebody has suspended it and all I/O waits; and
 * "shown", it was resumed once, so that others can see it.
 */
void cli_mapped_add(struct json_object *arrays);
/* An array that is served, while nobody can see its device: the `ddraid start` that would have shown it was ended before. */
bool cli_mapped_hidden(struct json_object *array);

#endif
