/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The output of status, when and verify for a running job. It must never fail: a field that the daemon did not send is omitted. */
#ifndef DDR_CLI_JOB_H
#define DDR_CLI_JOB_H

#include <json-c/json.h>

/*
 * Prints two lines, with a bar on a terminal, and further ones where there is something to report. @array: an object of `ddraid
 * status --json`, @job: one of its "jobs".
 */
void job_print(struct json_object *array, struct json_object *job);

#endif
