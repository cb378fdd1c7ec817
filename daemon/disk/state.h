/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What this node remembers of an array across restarts: the last generation that it saw. With it, assembly refuses members that
 * continued from an older one.
 *
 * It must never: be written by the loop's thread (its file system may lie on an array), or be used for more than a veto: if the file
 * is lost or damaged, nothing is remembered.
 */
#ifndef DDR_DAEMON_STATE_H
#define DDR_DAEMON_STATE_H

#include <stdint.h>

#include "lib/disk/assemble.h"

/*
 * Reads what is remembered; generation 0: nothing. May sleep: not for the loop's thread. 0, or a negative errno: this process could not
 * read it now (ddr_own_failure()), and the veto may be in it.
 */
int ddr_state_load(const char *dir, const uint8_t uuid[16], struct ddr_known *known);
/* Remembers this generation even if a later one is remembered: the operator starts from it. Sleeps. 0, or a negative errno. */
int ddr_state_lower(const char *dir, const uint8_t uuid[16], const struct ddr_known *known);
/*
 * Remembers a generation, unless a later one is remembered. Returns at once; a thread writes the file, atomically. It may be called
 * often: no thread is started if the file already contains this generation, or is about to.
 */
void ddr_state_seen(const char *dir, const uint8_t uuid[16], uint64_t generation, const uint8_t gen_id[16]);

#endif
