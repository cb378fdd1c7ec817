/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Arrays that should have started automatically but did not, as `ddraid start` reports them: otherwise nobody would notice. The
 * status lists them until their device is created, or the daemon ends.
 */
#ifndef DDR_DAEMON_UNSTARTED_H
#define DDR_DAEMON_UNSTARTED_H

#include "daemon/base/daemon.h"

struct ddr_client;
struct json_object;

/* The request: name, uuid, why (without it: the array is not one of them any more), waits. */
void ddr_unstarted_request(struct ddr_client *c, struct json_object *req);
/* Adds them to the list for `ddraid status`, unless that is for a single array (@one). */
void ddr_unstarted_list(const struct ddr_daemon *d, struct json_object *list, bool one);
/*
 * For a daemon that serves no array: adds what nodes wait for in the arrays of others to the list that `ddraid status --json` prints. Where arrays are
 * served, each has it in cluster.elsewhere.
 */
void ddr_unstarted_elsewhere(const struct ddr_daemon *d, struct json_object *list);
/* Answers that no array with this name is started, and why, as far as that is known. */
void ddr_unstarted_error(struct ddr_client *c, const char *name);

#endif
