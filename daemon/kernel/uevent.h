/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel's word that a block device has come: then members that are looked for may be there. */
#ifndef DDR_DAEMON_UEVENT_H
#define DDR_DAEMON_UEVENT_H

#include "daemon/base/daemon.h"

/* A block device has come, or something about it has changed. */
struct ddr_uevent {
	bool lost;			/* the kernel said more than was heard: it may be any device */
	bool device;			/* this one: */
	uint32_t major, minor;
	bool path_back;			/* a multipath device, which has a path again */
};

/* Listens from now on, and calls @on_uevent from the loop. A failure is only logged: then the operator has to say so. */
void ddr_uevent_open(struct ddr_daemon *d, ddr_uevent_fn on_uevent);
void ddr_uevent_close(struct ddr_daemon *d);

#endif
