/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The locks of the members, while an array is loaded. For loader.c alone. */
#ifndef DDR_DAEMON_LOAD_LOCK_H
#define DDR_DAEMON_LOAD_LOCK_H

#include "daemon/disk/loader.h"

/*
 * Waits until nobody else has a lock on a member, or until @due_ms. Other programs than ddraidd are waited for as long as a member that
 * hangs would be, and not at all if somebody waits for this daemon. Returns 0, or -1: the array went; *@busy: those that are still
 * locked, and @who by.
 */
int ddr_load_lock(struct ddr_load *l, uint64_t due_ms, uint32_t *busy, struct ddr_members_busy *who);
/* Those in @busy are not waited for any more: they count as not there, and come back when their lock is free. */
void ddr_load_leave_out_locked(struct ddr_load *l, uint32_t busy, const struct ddr_members_busy *who);

#endif
