/* SPDX-License-Identifier: GPL-2.0-only */
/* /dev/ddraid: the control descriptor, and the channel of an array. */
#ifndef DDR_CHANNEL_H
#define DDR_CHANNEL_H

#include "command.h"
#include "record.h"

int ddr_channel_init(void);			/* misc device */
void ddr_channel_exit(void);
void ddr_channel_announce(struct ddr_array *a, u32 type);	/* APPEARED, RESUMED, REMOVED to control descriptors; may sleep */
void ddr_channel_drop(struct ddr_array *a);	/* the array goes: all grants are reported CLOSED, then reads get EOF; may sleep */

#endif
