/* SPDX-License-Identifier: GPL-2.0-only */
/* Is the daemon alive? */
#ifndef DDR_HEARD_H
#define DDR_HEARD_H

#include "dm-ddraid.h"

void ddr_heard_init(struct ddr_array *a);
/* it is freed, or was never used: no timer runs after this; may sleep */
void ddr_heard_end(struct ddr_array *a);
/*
 * A daemon was bound; made a system call; sent ENABLE; is gone; wants another timeout. @enabled:
 * it had sent ENABLE before. @tables: the table that ENABLE is for. @stops_reads: reads stop
 * together with writes. May sleep. ddr_array_heard() returns false if the daemon was silent for
 * its timeout before this call.
 */
void ddr_array_bound(struct ddr_array *a, unsigned int timeout_ms);
bool ddr_array_heard(struct ddr_array *a, bool enabled);
void ddr_array_enable(struct ddr_array *a, u32 tables, bool stops_reads);
void ddr_array_unbound(struct ddr_array *a);
void ddr_array_set_timeout(struct ddr_array *a, unsigned int timeout_ms, bool enabled);
bool ddr_channel_attached(struct ddr_array *a);

#endif
