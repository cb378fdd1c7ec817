/* SPDX-License-Identifier: GPL-2.0-only */
/* The interface of the I/O engine for the rest of the target (io.h is its private one). */
#ifndef DDR_ENGINE_H
#define DDR_ENGINE_H

#include "dm-ddraid.h"

int ddr_io_map(struct ddr_target *t, struct bio *bio);		/* returns DM_MAPIO_*; .map */
/* global for the module: limits of memory */
int ddr_io_init(void);
void ddr_io_exit(void);
/*
 * The engine's part of an array: ddr_array_get() calls init when it creates one (io_wq exists),
 * the last put calls free (no I/O is left). May sleep.
 */
int ddr_engine_init(struct ddr_array *a);
/* no I/O is left: nothing of it needs io_wq after this */
void ddr_engine_settle(struct ddr_array *a);
void ddr_engine_free(struct ddr_array *a);
/* DDR_U_RESOLVE; -ENOENT for an unknown seq. */
int ddr_error_resolve(struct ddr_array *a, u64 seq, u32 action);
/* after bind: queue all open ERROR records again */
void ddr_error_redeclare(struct ddr_array *a);
/* another device has the place; no I/O of the old one is left */
void ddr_error_forget(struct ddr_array *a, u32 member);
/* the daemon has set it to OUT; process context */
void ddr_error_out(struct ddr_array *a, u32 member);
/* ends all that wait for an answer, if they may not wait any longer; may sleep */
void ddr_error_end_waits(struct ddr_array *a);
/*
 * Is APPLIED of an earlier DDR_U_MEMBER of this member still pending? Then another one is
 * refused with -EBUSY. Under ctl_mutex.
 */
bool ddr_io_member_busy(struct ddr_array *a, u32 member);
/*
 * DDR_U_MEMBER was set: sends APPLIED seq once all I/O that started earlier has ended. Does not
 * wait; under ctl_mutex. A new bind drops pending APPLIED records (the new daemon sends its
 * member states again): ddr_io_member_forget().
 */
void ddr_io_member_changed(struct ddr_array *a, u64 seq, u32 member);
void ddr_io_member_forget(struct ddr_array *a);

#endif
