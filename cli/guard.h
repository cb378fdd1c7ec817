/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Runs a command that reads and writes disks in a child process, which is left behind if a disk hangs.
 */
#ifndef DDR_CLI_GUARD_H
#define DDR_CLI_GUARD_H

#include <stdbool.h>

/*
 * Runs @fn in a process of its own; its exit code. If that process waits for one answer of a disk for too long, that is said, and later it
 * is killed, so that it does nothing more when the disk answers: then CLI_FAILED. Its output comes by this process, and interrupts go to it.
 */
int cli_guarded(const char *what, int (*fn)(void *), void *ctx);
/*
 * For @fn: it is about to use this disk. @writing: what it says if the disk never answers ("what it held may be overwritten"); NULL: nothing was
 * changed yet. Outside of cli_guarded() it does nothing.
 */
void cli_guard_at(const char *path, const char *writing);

#endif
