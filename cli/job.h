/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What status, when and verify print about a running job. It must never fail: a field that the daemon did not send
 * is omitted.
 */
#ifndef DDR_CLI_JOB_H
#define DDR_CLI_JOB_H

#include <json-c/json.h>

/* Two lines, with a bar on a terminal, and one for each that is worth telling. @array: an object of `ddraid status --json`, @job: one of its "jobs". */
void job_print(struct json_object *array, struct json_object *job);

#endif
