/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The service for the command `ddraid`: root only, JSON over libqb IPC. What a client sends is untrusted input: checked, limited, and
 * never able to stop the loop.
 *
 * Requests (lib/wire/ipc.h describes the framing), all with "cmd":
 *	status	[name]			data: array of objects as `ddraid status --json` prints them
 *	findings name			data: array of bad places found, as `ddraid verify NAME status --json` prints it
 *	wait	name [timeout_ms]	answered when the array is served or was refused, or at the timeout
 *	stop	name			answered when nothing dirty is left; data: {"dirty": regions}; without it: unknown
 *	set	name key value		one setting of the array
 *	fail	name member [timeout_ms]	member: number, device or uuid; answered when it has failed
 *	fence-ack	node		the node (id or name) is powered off: for all arrays that wait for that
 *	adopt	name [cluster]		name: the uuid; no other machine uses its disks: the array of a cluster may be started here. cluster: the id that its
 *					owner pages name
 *	events				data as for status; from then on every event is sent
 *	ping				data: {"version", "module", "alone": node id, without a cluster, "nodes": in the cluster, "cluster": its id, or that of the
 *					machine without one; missing: none yet, "verify_reads", "fail_if_no_daemon"}
 */
#ifndef DDR_DAEMON_IPC_SERVER_H
#define DDR_DAEMON_IPC_SERVER_H

#include <stdbool.h>

#include "daemon/base/daemon.h"

/* Opens the service and registers it as the receiver of the sink. 0, or a negative errno. */
int ddr_ipcs_open(struct ddr_daemon *d);
void ddr_ipcs_close(struct ddr_daemon *d);
/* The number of clients that listen to events. @s may be NULL. */
unsigned int ddr_ipcs_listeners(const struct ddr_ipcs *s);
/* Retries what could not be sent, and ends waits at their timeout; call it regularly. */
void ddr_ipcs_tick(struct ddr_ipcs *s, uint64_t now_ms);
/* Does no client wait for anything? */
bool ddr_ipcs_rest(const struct ddr_ipcs *s);

#endif
