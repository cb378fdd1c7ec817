/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What happens, told to people (the log) and programs (`ddraid events`), once each.
 * It must never be on the way of a grant: it allocates.
 */
#ifndef DDR_DAEMON_EVENTS_H
#define DDR_DAEMON_EVENTS_H

#include "daemon/array/array.h"

/* An event or GIVE_UP output of the state machine: logged, sent, and kept where status or waiters need it. */
void ddr_event_array(struct ddr_array *a, const struct ddr_output *o);
/* Something that happens to the array outside of its state machine; @name: a word, @text: one line. */
void ddr_event_plain(struct ddr_array *a, int priority, const char *name, const char *text);

#endif
