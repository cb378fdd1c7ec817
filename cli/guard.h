/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Runs a command that reads and writes disks in a child process, which is left behind if a disk hangs. */
#ifndef DDR_CLI_GUARD_H
#define DDR_CLI_GUARD_H

#include <stdbool.h>

/*
 * Runs @fn in a child process and returns its exit code. If the child waits for one answer of a disk for too long, a warning is
 * printed; later it is killed, so that it does nothing more when the disk answers, and CLI_FAILED is returned. Its output is passed
 * on, and interrupts are forwarded to it.
 */
int cli_guarded(const char *what, int (*fn)(void *), void *ctx);
/*
 * Called by @fn before it uses this disk. @writing: printed if the disk never answers ("what it held may be overwritten"); NULL:
 * nothing was changed yet. Does nothing outside of cli_guarded().
 */
void cli_guard_at(const char *path, const char *writing);

#endif
