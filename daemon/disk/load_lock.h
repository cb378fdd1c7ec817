/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The locks of the members while an array is loaded, and what is waited for meanwhile. Only for loader.c and claim.c. */
#ifndef DDR_DAEMON_LOAD_LOCK_H
#define DDR_DAEMON_LOAD_LOCK_H

#include "daemon/disk/loader.h"

/*
 * Waits until nobody else has a lock on a member, or until @due_ms. A program other than ddraidd is waited for as long as a member
 * that hangs, and not at all if writers wait for this daemon. Returns 0, or -1: the load was cancelled. *@busy: members that are
 * still locked; @who: by whom.
 */
int ddr_load_lock(struct ddr_load *l, uint64_t due_ms, uint32_t *busy, struct ddr_members_busy *who);
/* Stops waiting for those in @busy: they count as absent, and are taken back when they are unlocked. */
void ddr_load_leave_out_locked(struct ddr_load *l, uint32_t busy, const struct ddr_members_busy *who);

/* What ddr_load_waits() says from now on; "": nothing. */
void ddr_load_set_waits(struct ddr_load *l, const char *text);

#endif
