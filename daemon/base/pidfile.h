/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One ddraidd on a node: the lock of its pid file ends with the process, however that ends. */
#ifndef DDR_DAEMON_PIDFILE_H
#define DDR_DAEMON_PIDFILE_H

#include <stdbool.h>

/*
 * Takes the lock of ddraidd.pid in @dir and writes our number there. What cannot be made or written (the file system is full) is a
 * warning, with *fd -1 where there is no lock: then the name of the service for the command keeps a second daemon out. @managed: a
 * service manager started us; a daemon that it has left behind, since an array was in use when it was asked to stop, is replaced as at
 * a restart. 0, or -1 and why not on stderr: another daemon runs.
 */
int ddr_pidfile_take(const char *dir, bool managed, int *fd);

#endif
