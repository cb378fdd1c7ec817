/* SPDX-License-Identifier: GPL-2.0-only */
/* What the rest calls in the target. */
#ifndef DDR_TARGET_H
#define DDR_TARGET_H

#include "dm-ddraid.h"

/* Something that `dmsetup status` shows has changed: wakes `dmsetup wait`. Process context. */
void ddr_target_event(struct ddr_array *a);

#endif
