/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel's word that a block device has come: then members that are looked for may be there. */
#ifndef DDR_DAEMON_UEVENT_H
#define DDR_DAEMON_UEVENT_H

#include "daemon/base/daemon.h"

/* Listens from now on; each array that looks for members does so again. A failure is only logged: then the operator has to say so. */
void ddr_uevent_open(struct ddr_daemon *d);
void ddr_uevent_close(struct ddr_daemon *d);

#endif
