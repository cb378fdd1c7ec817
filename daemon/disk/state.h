/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What this node remembers of an array across restarts: the last generation that it saw.
 * With it, assembly refuses members that went on from an older one.
 *
 * It must never: be written by the loop's thread (its file system may lie on an array),
 * or be taken for more than a veto: a lost or damaged file means nothing remembered.
 */
#ifndef DDR_DAEMON_STATE_H
#define DDR_DAEMON_STATE_H

#include <stdint.h>

#include "lib/disk/assemble.h"

/* Reads what is remembered; generation 0: nothing. May sleep: not for the loop's thread. */
void ddr_state_load(const char *dir, const uint8_t uuid[16], struct ddr_known *known);
/* Remembers this one, though a later one may be: the operator starts from it. Sleeps. 0, or a negative errno. */
int ddr_state_lower(const char *dir, const uint8_t uuid[16], const struct ddr_known *known);
/*
 * Remembers a generation, unless a later one is. Returns at once; a thread writes the file, atomically. Call it as often as you like: there is no
 * thread for what the file held, when it was read or written last, or is about to hold.
 */
void ddr_state_seen(const char *dir, const uint8_t uuid[16], uint64_t generation, const uint8_t gen_id[16]);

#endif
