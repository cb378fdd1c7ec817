/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Only one ddraidd runs on a node: the lock of its pid file ends with the process, however that ends. */
#ifndef DDR_DAEMON_PIDFILE_H
#define DDR_DAEMON_PIDFILE_H

#include <stdbool.h>

/*
 * Takes the lock of ddraidd.pid in @dir and writes our pid into it. If the file cannot be created or written (the file system is
 * full), it only warns, with *fd -1 if there is no lock: the name of the service for the command then keeps a second daemon out.
 *
 * @managed: a service manager started us. Then a daemon of the same unit that did not end because an array was in use is replaced as
 * at a restart.
 *
 * Returns 0, or -1 if another daemon runs; stderr says so.
 */
int ddr_pidfile_take(const char *dir, bool managed, int *fd);

#endif
