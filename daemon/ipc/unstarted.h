/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Arrays that were to start by themselves and have not, as `ddraid start` reports: else nobody would see that one is missing. They are in the
 * status until their device is made, or the daemon ends.
 */
#ifndef DDR_DAEMON_UNSTARTED_H
#define DDR_DAEMON_UNSTARTED_H

#include "daemon/base/daemon.h"

struct ddr_client;
struct json_object;

/* The request: name, uuid, why (none: it is none of them any more), waits. */
void ddr_unstarted_request(struct ddr_client *c, struct json_object *req);
/* Adds them to the list of `ddraid status`, unless that is of one array (@one) alone. */
void ddr_unstarted_list(const struct ddr_daemon *d, struct json_object *list, bool one);
/* Answers that no array of this name is started, and why, as far as that is known. */
void ddr_unstarted_error(struct ddr_client *c, const char *name);

#endif
