/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events of block devices from the kernel: members that are searched for may have appeared. */
#ifndef DDR_DAEMON_UEVENT_H
#define DDR_DAEMON_UEVENT_H

#include "daemon/base/daemon.h"

/* A block device has appeared, or something about it has changed. */
struct ddr_uevent {
	bool lost;			/* events were lost: any device may have changed */
	bool device;			/* this device: */
	uint32_t major, minor;
	bool path_back;			/* a multipath device that has a path again */
};

/* Starts to listen, and calls @on_uevent from the loop. A failure is only logged: then the operator has to trigger searches. */
void ddr_uevent_open(struct ddr_daemon *d, ddr_uevent_fn on_uevent);
void ddr_uevent_close(struct ddr_daemon *d);

#endif
