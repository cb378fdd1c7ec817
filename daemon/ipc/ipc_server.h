/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The service that the command `ddraid` talks to: root only, JSON over libqb IPC. What a
 * client sends is input: checked, bounded, and never able to stop the loop.
 *
 * Requests (lib/wire/ipc.h has the framing), all with "cmd":
 *	status	[name]			data: array of objects as `ddraid status --json` prints them
 *	findings name			data: array of what was found wrong, as `ddraid verify NAME status --json` prints it
 *	wait	name [timeout_ms]	answered when the array serves, or was refused, or the time is over
 *	stop	name			answered when nothing dirty is left; data: {"dirty": regions}; not there: not known
 *	set	name key value		one setting of the array
 *	fail	name member [timeout_ms]	member: number, device or uuid; answered when it is out
 *	fence-ack	node		the node (id or name) is dead: for all arrays that wait for that
 *	adopt	name			name: the uuid; no other machine uses its disks: an array of a cluster is started here all the same
 *	events				data as status; from then on every event is sent
 *	ping				data: {"version", "module", "alone": node, without a cluster, "nodes": of the cluster, "verify_reads", "fail_if_no_daemon"}
 */
#ifndef DDR_DAEMON_IPC_SERVER_H
#define DDR_DAEMON_IPC_SERVER_H

#include <stdbool.h>

#include "daemon/base/daemon.h"

/* Opens the service, which from then on takes what comes to the sink. 0 or a negative errno. */
int ddr_ipcs_open(struct ddr_daemon *d);
void ddr_ipcs_close(struct ddr_daemon *d);
/* How many listen to events. @s may be NULL. */
unsigned int ddr_ipcs_listeners(const struct ddr_ipcs *s);
/* Retries what could not be sent, ends waits that are over; call it every now and then. */
void ddr_ipcs_tick(struct ddr_ipcs *s, uint64_t now_ms);

#endif
