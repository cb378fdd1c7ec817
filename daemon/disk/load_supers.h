/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What was read from the devices of an array while it is loaded; a part of loader.c. */
#ifndef DDR_DAEMON_LOAD_SUPERS_H
#define DDR_DAEMON_LOAD_SUPERS_H

#include "daemon/disk/loader.h"

struct ddr_load_supers {
	struct ddr_supers s[DDR_MAX_MEMBERS];
	struct ddr_error error[DDR_MAX_MEMBERS];
	char foreign[DDR_MAX_MEMBERS][DDR_FOREIGN_LEN];
	struct ddr_candidate cand[DDR_MAX_MEMBERS];
	unsigned int place[DDR_MAX_MEMBERS];	/* candidate -> place in l->members: in the table, or behind it */
	size_t n;
};

/*
 * Reads the superblocks of the devices from place @from on, except those in @but. 0; or -1 with l->error: this process could not read
 * one, for lack of memory or the like, so nothing can be said about the array.
 */
int ddr_load_supers_read(struct ddr_load *l, struct ddr_load_supers *all, unsigned int from, uint32_t but);
/*
 * To be called after such a read: superblocks that another node changed meanwhile do not fit together, and a member that is current
 * would look stale. Reads those of all devices but @but again until one consistent picture has been seen. 0: there was no need; 1: they
 * were read again; -1 with l->error.
 */
int ddr_load_supers_settle(struct ddr_load *l, struct ddr_load_supers *all, uint32_t but);
/* Searches the devices from place @from on for other programs' signatures. Returns the same. */
int ddr_load_foreign_read(struct ddr_load *l, struct ddr_load_supers *all, unsigned int from);
/* Closes the device at place @p: it counts as missing. */
void ddr_load_leave_out(struct ddr_load *l, unsigned int p, const char *why);

#endif
